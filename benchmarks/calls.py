"""What a call costs where there is next to nothing to do: `python -m benchmarks calls`.

Arguments of every kind, in small arrays of 8 numbers.  Each peer has processes of its own on one
core, taken in turn; the figure is the least CPU time of a call over all rounds, in microseconds (of
JAX without waiting for results, which it has by then at this size).  The last row is a Python
function that returns its argument: what a loop and any call take.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.worker import PEERS, ROOT

WANTED = ("stax", "jax")


def array(k):
    return np.full(8, k, np.float32)


TEN = {f"w{k}": array(k) for k in range(10)}
LAYERS = [{"w": array(k), "b": array(-k)} for k in range(5)]
# name: (what jit is given of B, the peer; positional arguments; keyword arguments)
CASES = {
    "an array": (lambda B: B.jit(lambda x: x * 2 + 1), (array(1),), {}),
    "ten arrays in and out": (
        lambda B: B.jit(lambda *xs: [x * 2 + 1 for x in xs]),
        tuple(TEN.values()),
        {},
    ),
    "a dict of ten arrays in and out": (
        lambda B: B.jit(lambda d: {k: x * 2 + 1 for k, x in d.items()}),
        (TEN,),
        {},
    ),
    "five dicts of two arrays in and out": (
        lambda B: B.jit(lambda p: [{k: x * 2 for k, x in q.items()} for q in p]),
        (LAYERS,),
        {},
    ),
    "an array and three Python numbers": (
        lambda B: B.jit(lambda x, a, k, more: x * a + k + more),
        (array(1), 0.5, 3, True),
        {},
    ),
    "a keyword argument": (
        lambda B: B.jit(lambda x, *, scale: x * scale),
        (array(1),),
        {"scale": array(2)},
    ),
    "a static argument": (
        lambda B: B.jit(lambda x, n: x * n, static_argnums=1),
        (array(1), 3),
        {},
    ),
    "(a Python function)": (lambda B: lambda x: x, (array(1),), {}),
}


def least(function, args, kwargs, seconds):
    """The least CPU time of a call."""
    best, end, calls = float("inf"), time.perf_counter() + seconds, 1000
    for _ in range(calls):
        function(*args, **kwargs)
    while time.perf_counter() < end:
        begin = time.process_time()
        for _ in range(calls):
            function(*args, **kwargs)
        best = min(best, (time.process_time() - begin) / calls)
    return best


def measured(peer, seconds):
    """Microseconds a call, by case."""
    module, name = PEERS[peer]
    B = getattr(importlib.import_module(module), name)(1)
    B.boot()
    found = {}
    for case, (make, args, kwargs) in CASES.items():
        args = tuple(a if isinstance(a, (int, float)) else B.put(a) for a in args)
        found[case] = least(make(B), args, B.put(kwargs), seconds) * 1e6
    return found


def table(found):
    """The figures of each peer in Markdown."""
    lines = ["| us a call | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for case in CASES:
        figures = [f"{times[case]:.2f}" for times in found.values()]
        lines.append(f"| {case} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def installed(peer):
    module = importlib.import_module(PEERS[peer][0])
    own = getattr(module, "available", None)
    return own() if own else importlib.util.find_spec(peer) is not None


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks calls")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="a case in a round")
    parser.add_argument("--core", type=int, default=0, help="of those this process may use")
    a = parser.parse_args(arguments)
    cores = {sorted(os.sched_getaffinity(0))[a.core]}
    least_of = {}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(a.rounds):
            for peer in filter(installed, WANTED):
                env = {**os.environ, "STAX_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
                env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
                text = subprocess.check_output(
                    [sys.executable, "-m", "benchmarks.calls", peer, str(a.seconds)],
                    env=env,
                    cwd=ROOT,
                    preexec_fn=lambda: os.sched_setaffinity(0, cores),
                )
                times = json.loads(text.splitlines()[-1])
                before = least_of.setdefault(peer, times)
                least_of[peer] = {case: min(t, before[case]) for case, t in times.items()}
    print(table(least_of))


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], float(sys.argv[2]))))
