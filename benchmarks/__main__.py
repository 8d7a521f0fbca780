"""Entry: python -m benchmarks [run|report|compare|plot|counts|calls|limits|shares|all] ..."""

import argparse
import importlib
import os
import subprocess
import sys

from benchmarks import calls, plot, report, run, shares
from benchmarks.worker import ROOT, WORK


def limits(arguments):
    """Measure memory bandwidth and GEMM peaks of this machine into work/limits.txt."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks limits", description=limits.__doc__)
    parser.parse_args(arguments)
    text = subprocess.check_output([ROOT + "/benchmarks/limits/run.sh", sys.executable], text=True)
    os.makedirs(WORK, exist_ok=True)
    with open(WORK + "/limits.txt", "w") as file:
        file.write(text)
    print(text)


def everything(arguments):
    """1 thread with empty caches, 1 thread in new processes, 2 threads; then tables and plot."""
    run.main(["--pass", "cold1", "--threads", "1", *arguments])
    run.main(["--pass", "warm1", "--threads", "1", "--rounds", "1", *arguments])
    run.main(["--pass", "two", "--threads", "2", *arguments])
    report.main([])
    plot.main([])


def main(argv):
    command, arguments = (argv[0], argv[1:]) if argv and argv[0][0] != "-" else ("run", argv)
    if command == "run":
        run.main(arguments)
    elif command == "report":
        report.main(arguments)
    elif command == "compare":
        records = report.load([WORK + "/results.jsonl"])
        for peer in arguments[:2] or ["stax", "jax"]:
            if not any(key[1] == peer for key in records):
                timed = ", ".join(sorted({key[1] for key in records}))
                sys.exit(f"{peer!r} has not been timed; there are results of {timed}")
        for threads in sorted({key[2] for key in records}):
            print(f"{threads} thread(s)\n{report.compare(records, threads, *arguments[:2])}")
    elif command == "plot":
        plot.main(arguments)
    elif command == "counts":
        importlib.import_module("benchmarks.counts").main(arguments)
    elif command == "calls":
        calls.main(arguments)
    elif command == "limits":
        limits(arguments)
    elif command == "shares":
        shares.main(arguments)
    elif command == "all":
        everything(arguments)
    else:
        sys.exit(f"unknown command {command!r}: {__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
