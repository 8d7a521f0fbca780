"""What stops each workload: `python -m benchmarks shares`, on one core.

Four times are set beside that of a call: its least traffic at the memory bandwidth of this machine,
its products at the speed of a large one, its lookups at the speed of a bare loop of them, and the
program on a piece of the data that fits the second cache, scaled up (what its vector arithmetic
takes when nothing waits for memory).  The largest is the limit, and names the resource.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import definitions
from benchmarks.peers.stax_peer import Peer
from benchmarks.report import duration, heading, row
from benchmarks.worker import ROOT, chosen, leaves
from benchmarks.workloads import WORKLOADS, M

CACHED = 1 << 19  # bytes of arguments that stay in the second cache, with results and scratch
LOOKUPS = {"k_gather": M, "k_scatter": M}
SQUARE = {
    "i": 0,
    "j": 0,
    "n": 10,
}  # cut along both axes; steps that each take an element off every edge
PAIRS = {"w": 512 * 512}  # an inverse square root in float64 each
BOUND_BY = {"memory": "memory", "vectors": "vector arithmetic", "products": "matrix products"}
BOUND_BY |= {"lookups": "lookups on their way at once", "roots": "square roots and divisions"}


PRINTED = {
    "read": r"16MB +read ([\d.]+)",
    "write": r"16MB .*triad ([\d.]+)",
    "lookups": r"lookups ([\d.]+)",
    "roots": r"inverse roots ([\d.]+)",
}


def machine(seconds):
    """The rates of a core: bytes, floating-point operations, lookups and roots a second."""
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    with tempfile.TemporaryDirectory() as directory:
        program = directory + "/stream"
        source = ROOT + "/benchmarks/limits/stream.c"
        subprocess.check_call(["gcc", *flags, source, "-o", program, "-lm"])
        one = {**os.environ, "OMP_NUM_THREADS": "1"}
        text = subprocess.check_output([program], text=True, env=one)
    found = {}
    for name, pattern in PRINTED.items():
        match = re.search(pattern, text)
        if match is None:
            sys.exit(f"limits/stream.c did not print what {pattern!r} looks for:\n{text}")
        found[name] = float(match.group(1)) * 1e9
    for name, dtype in (("single", np.float32), ("double", np.float64)):
        a = np.random.default_rng(0).standard_normal((1024, 1024)).astype(dtype)
        found[name] = 2 * 1024**3 / least(np.matmul, (a, a), seconds)
    return found


def least(function, args, seconds):
    """The least CPU time of a call, after one that compiles."""
    function(*args)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin, calls = time.process_time(), 0
        while calls < 1 or time.process_time() - begin < 2e-4:
            function(*args)
            calls += 1
        best = min(best, (time.process_time() - begin) / calls)
    return best


def piece(name, args):
    """Arguments cut to what stays in cache, and the part of the work that is left; None uncut."""
    arrays = leaves(args)
    rows = max(a.shape[0] for a in arrays)
    long = [a for a in arrays if a.shape[0] == rows]
    kept = rows * CACHED // sum(a.nbytes for a in long)
    if kept >= rows:
        return None, 1.0
    if name in SQUARE:
        side = int((kept * rows) ** 0.5)
        left = [(side - 2 * s) ** 2 / (rows - 2 * s) ** 2 for s in range(1, 1 + SQUARE[name])]
        part = sum(left) / len(left) if left else (side / rows) ** 2
        return tuple(np.array(a[:side, :side]) for a in args), part
    return tuple(np.array(a[:kept]) if a.shape[0] == rows else a for a in args), kept / rows


def limits(name, args, out_bytes, rates, seconds):
    """The times of the workload's resources, in seconds."""
    w = WORKLOADS[name]
    found = {}
    if w.bytes:
        writes = out_bytes > w.bytes / 10
        found["memory"] = w.bytes / rates["write" if writes else "read"]
    if w.flops:
        found["products"] = w.flops / rates["double" if w.f64 else "single"]
    if name in LOOKUPS:
        found["lookups"] = LOOKUPS[name] / rates["lookups"]
    if name in PAIRS:
        found["roots"] = PAIRS[name] / rates["roots"]
    if (
        w.bytes
        and not w.flops
        and name not in LOOKUPS
        and all(isinstance(a, np.ndarray) for a in args)
    ):
        small, part = piece(name, args)
        if small is not None:
            found["vectors"] = least(definitions.build(name, Peer(1)), small, seconds) / part
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks shares")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=0.5, help="per program")
    options = parser.parse_args(argv)
    workloads = chosen(options.workloads, WORKLOADS, "workload")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rates = machine(options.seconds)
    shown = ", ".join(f"{name} {rate / 1e9:.3g}" for name, rate in rates.items())
    print(shown, "G/s", flush=True)
    print("\n".join(heading("Shares of the limits", "workload", "time", "limit", "share", "by")))
    for name in workloads:
        args = WORKLOADS[name].make()
        function = definitions.build(name, Peer(1))
        out_bytes = sum(np.asarray(o).nbytes for o in leaves(function(*args)))
        taken = least(function, args, options.seconds)
        found = limits(name, args, out_bytes, rates, options.seconds)
        if not found:
            print(row(name, duration(taken), "", "", ""), flush=True)
            continue
        resource = max(found, key=found.__getitem__)
        limit = found[resource]
        share = f"{100 * limit / taken:.0f} %"
        print(row(name, duration(taken), duration(limit), share, BOUND_BY[resource]), flush=True)


if __name__ == "__main__":
    main()
