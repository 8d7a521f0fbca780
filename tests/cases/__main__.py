"""Run cases one by one: python -m tests.cases [--module jax] [--only ID,ID] [--isolate] [--no-slow]."""

import argparse
import collections
import json
import subprocess
import sys
import time
import warnings

from tests.cases import every, frame
from tests.cases.children import child


def isolated(name, seconds):
    """Run one case in a process of its own; a crash or a hang is a result like another."""
    command = [sys.executable, "-m", "tests.cases", "--module", frame.MODNAME, "--only", name]
    try:
        done = subprocess.run(
            [*command, "--json"], capture_output=True, text=True, timeout=seconds, cwd=frame.ROOT
        )
    except subprocess.TimeoutExpired:
        return "TIMEOUT", ""
    try:
        return tuple(json.loads(done.stdout.strip().splitlines()[-1])[0][1:3])
    except (ValueError, IndexError):
        return "CRASH", f"exit {done.returncode} {done.stderr.strip()[-200:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", default=frame.MODNAME)
    parser.add_argument("--only")
    parser.add_argument("--isolate", action="store_true")
    parser.add_argument("--no-slow", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child")
    parser.add_argument("--timeout", type=int, default=600)
    options = parser.parse_args()
    frame.MODNAME = options.module
    if not options.isolate:
        frame.L.load(options.module)
    if options.child:
        try:
            child(options.child)
        except frame.Missing as error:
            print("missing", error, file=sys.stderr)
            return 9
        return 0
    warnings.simplefilter("ignore")
    only = options.only.split(",") if options.only else list(every.CASES)
    rows, totals = [], collections.Counter()
    for name in only:
        case, start = every.CASES[name], time.time()
        if options.no_slow and case["slow"]:
            status, why = "SKIP", "slow"
        elif options.isolate:
            status, why = isolated(name, options.timeout)
        else:
            status, why = frame.run_one(case)
        seconds = round(time.time() - start, 2)
        rows.append((name, status, why, seconds, case["level"]))
        totals[status, case["level"]] += 1
        if not options.json:
            print(f"{status:8} {case['level']:6} {name:28} {seconds:6.1f}s  {why}", flush=True)
    if options.json:
        print(json.dumps(rows))
        return 0
    print(", ".join(f"{status}({level}) {n}" for (status, level), n in sorted(totals.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
