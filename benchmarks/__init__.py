"""Timings of stax and its peers on one set of workloads; see README.md."""
