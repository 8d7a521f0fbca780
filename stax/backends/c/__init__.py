"""The C back end: kernels as C text, compiled by the machine's own compiler and cached."""
