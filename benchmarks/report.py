"""Timings in results.jsonl as tables: results.md, and one peer against another."""

import collections
import json
import os
import statistics
import sys

from benchmarks.worker import WORK
from benchmarks.workloads import WORKLOADS

# Memory bandwidth (GB/s) and f32 arithmetic (GFLOP/s) for the `limit` column, by threads; measure
# them with `python -m benchmarks limits`.
BANDWIDTH = {1: float(os.environ.get("BW1_GBS", "54")), 2: float(os.environ.get("BW2_GBS", "100"))}
ARITHMETIC = {1: float(os.environ.get("GF1", "85")), 2: float(os.environ.get("GF2", "170"))}
ORDER = (
    "stax",
    "jax",
    "torch.compile",
    "torch",
    "torch.lstm",
    "numba",
    "numpy",
    "autograd",
    "numexpr",
)
COMPILERS = ("stax", "jax", "torch.compile", "numba")


def load(paths):
    """Return the records of result files, by (workload, peer, threads)."""
    records = collections.defaultdict(list)
    for path in paths:
        if not os.path.exists(path):
            sys.exit(f"{path} is not there: measure first, with `python -m benchmarks run`")
        with open(path) as lines:
            for line in lines:
                record = json.loads(line)
                records[record["workload"], record["peer"], record["threads"]].append(record)
    return records


def estimate(record):
    """Return seconds a call: least CPU time on 1 thread (immune to preemption), else wall time."""
    if record["threads"] == 1 and "cpu_min_s" in record:
        return record["cpu_min_s"]
    return record["min_s"]


def timed(records, *key):
    return [estimate(record) for record in records.get(key, []) if "median_s" in record]


def duration(seconds):
    ms = seconds * 1e3
    if ms < 0.1:
        return f"{ms * 1e3:.3g}us"
    return f"{ms:.3g}ms" if ms < 1000 else f"{seconds:.3g}s"


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def heading(title, *cells):
    return ["", "## " + title, "", row(*cells), "|---" * len(cells) + "|"]


def steady(records, peers, threads):
    bandwidth = BANDWIDTH.get(threads, BANDWIDTH[2])
    arithmetic = ARITHMETIC.get(threads, ARITHMETIC[2])
    kind = "CPU time" if threads == 1 else "wall time; `~`: two passes differ by more than 15 %"
    lines = heading(
        f"Steady state, {threads} thread(s), least {kind} (ratio to the best)",
        "workload",
        "limit",
        *peers,
    )
    for name, workload in WORKLOADS.items():
        got = {peer: timed(records, name, peer, threads) for peer in peers}
        best = min((min(times) for times in got.values() if times), default=None)
        if best is None:
            continue
        limit = max(workload.bytes / bandwidth / 1e9, workload.flops / arithmetic / 1e9)
        cells = []
        for peer in peers:
            times = sorted(got[peer])
            if not times:
                cells.append("FAIL" if (name, peer, threads) in records else "")
                continue
            noisy = threads > 1 and len(times) > 1 and times[1] > 1.15 * times[0]
            ratio = times[0] / best
            text = f"{'~' if noisy else ''}{duration(times[0])} ({ratio:.2f})"
            cells.append(f"**{text}**" if ratio < 1.05 else text)
        lines.append(row(f"{name} {workload.title}", duration(limit) if limit else "", *cells))
    return lines


def first_call(records, name, peer, cold):
    times = [
        record["first_cpu_s"]
        for record in records.get((name, peer, 1), [])
        if "first_cpu_s" in record and record["tag"].startswith("cold") == cold
    ]
    return f"{min(times):.2f}" if times else "-"


def first_calls(records, peers):
    peers = [peer for peer in peers if peer in COMPILERS]
    lines = heading(
        "First call, CPU seconds (trace, compile with gcc, one run): cold / warm cache",
        "workload",
        *peers,
    )
    for name in WORKLOADS:
        cells = [
            " / ".join(first_call(records, name, peer, cold) for cold in (True, False))
            for peer in peers
        ]
        if any(cell != "- / -" for cell in cells):
            lines.append(row(name, *cells))
    return lines


def boots(records, peers):
    def shown(found, field):
        values = [record[field] for record in found if field in record]
        return f"{statistics.median(values):.2f} (min {min(values):.2f})" if values else "-"

    lines = heading(
        "Once per process: import, then the first trivial jit",
        "peer",
        "import s",
        "boot cold s",
        "boot cold CPU s",
        "boot warm s",
        "boot warm CPU s",
    )
    for peer in peers:
        found = [r for key, rs in records.items() if key[1:] == (peer, 1) for r in rs]
        halves = [
            [r for r in found if r["tag"].startswith("cold") == cold] for cold in (True, False)
        ]
        cells = [shown(half, field) for half in halves for field in ("boot_s", "boot_cpu_s")]
        lines.append(row(peer, shown(found, "import_s"), *cells))
    return lines


def memory(records, peers):
    lines = heading(
        "Peak memory, MB: steady peak over RSS before the first call (with compile)",
        "workload",
        *peers,
    )
    for name in (name for name, workload in WORKLOADS.items() if workload.mem):
        cells = []
        for peer in peers:
            found = [
                r
                for threads in (1, 2)
                for r in records.get((name, peer, threads), [])
                if "steady_hwm_mb" in r
            ]
            found = [r for r in found if not r["tag"].startswith("cold")] or found
            cells.append(
                f"+{min(r['steady_hwm_mb'] - r['base_mb'] for r in found):.0f} "
                f"({max(r['first_hwm_mb'] for r in found):.0f})"
                if found
                else ""
            )
        lines.append(row(name, *cells))
    return lines


def failures(records):
    found = {(key, r["error"][:200]) for key, rs in records.items() for r in rs if "error" in r}
    return ["", "## Failures", "", *(f"- {k[0]} {k[1]} {k[2]}T: {e}" for k, e in sorted(found))]


def accuracy(records, peers):
    lines = ["", "## Worst max|err|/max|ref| against the float64 reference, f32 workloads", ""]
    for peer in peers:
        errors = [
            (r["err"], key[0])
            for key, rs in records.items()
            if key[1] == peer
            for r in rs
            if "err" in r and not WORKLOADS[key[0]].f64
        ]
        if errors:
            lines.append(f"- {peer}: {max(errors)[0]:.1e} ({max(errors)[1]})")
    return lines


def compare(records, threads, one="stax", other="jax"):
    """Return a line per workload: the ratio of one peer's time to another's, run by run."""
    lines = []
    for name in WORKLOADS:
        a, b = timed(records, name, one, threads), timed(records, name, other, threads)
        if a and b:
            ratio = min(a) / min(b)
            lines.append(
                f"{name:10s} {one} {duration(min(a)):>8s}  {other} {duration(min(b)):>8s}"
                f"  ratio {ratio:.2f}"
            )
    return "\n".join(lines)


def report(records):
    """Return every table as Markdown."""
    peers = [peer for peer in ORDER if any(key[1] == peer for key in records)]
    lines = ["# Benchmark results"]
    limits = WORK + "/limits.txt"
    if os.path.exists(limits):
        with open(limits) as text:
            lines += ["", "## Physical limits", "", "```", text.read().strip(), "```"]
    for threads in sorted({key[2] for key in records}):
        lines += steady(records, peers, threads)
    lines += first_calls(records, peers) + boots(records, peers) + memory(records, peers)
    lines += failures(records) + accuracy(records, peers)
    return "\n".join(lines) + "\n"


def main(argv):
    records = load(argv or [WORK + "/results.jsonl"])
    text = report(records)
    with open(WORK + "/results.md", "w") as file:
        file.write(text)
    print(text)
