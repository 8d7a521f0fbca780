"""The results as a drawing: how much longer each peer takes than stax, a row for each workload.

`python -m benchmarks plot` reads results.jsonl and writes results.svg beside it.
"""

import math

from benchmarks import report
from benchmarks.worker import WORK
from benchmarks.workloads import WORKLOADS

COLOURS = {"jax": "#1f77b4", "torch.compile": "#d62728", "torch": "#ff7f0e", "numba": "#2ca02c"}
COLOURS |= {
    "torch.lstm": "#ffbb78",
    "numpy": "#9467bd",
    "autograd": "#8c564b",
    "numexpr": "#7f7f7f",
}
LEFT, WIDTH, ROW, TOP = 110, 720, 18, 60
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)


def ratios(records, threads):
    """Return {workload: {peer: its time / stax's}} for what both have timed."""
    found = {}
    for name in WORKLOADS:
        own = report.timed(records, name, "stax", threads)
        for peer in COLOURS:
            theirs = report.timed(records, name, peer, threads)
            if own and theirs:
                found.setdefault(name, {})[peer] = min(theirs) / min(own)
    return found


def place(ratio):
    """Return where a ratio lies, on a logarithmic axis that ends at its last ticks."""
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    at = (math.log(max(ratio, 1e-9)) - low) / (high - low)
    return LEFT + WIDTH * min(max(at, 0.0), 1.0)


def drawing(found, threads):
    """Return the drawing as SVG text."""
    bottom = TOP + ROW * len(found)
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"'
        f' width="{LEFT + WIDTH + 30}" height="{bottom + 30}">',
        f'<text x="{LEFT}" y="18">time / time of stax, {threads} thread(s);'
        " right of 1: slower than stax</text>",
    ]
    for k, (peer, colour) in enumerate(COLOURS.items()):
        lines.append(f'<circle cx="{LEFT + 92 * k}" cy="32" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + 92 * k + 8}" y="36">{peer}</text>')
    for tick in TICKS:
        width = 2 if tick == 1 else 0.5
        x = f"{place(tick):.1f}"
        lines.append(f'<path d="M{x} {TOP - 8}V{bottom}" stroke="#888" stroke-width="{width}"/>')
        lines.append(f'<text x="{x}" y="{bottom + 16}">{tick:g}</text>')
    for k, (name, peers) in enumerate(found.items()):
        y = TOP + ROW * k + ROW // 2
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{name}</text>')
        for peer, ratio in peers.items():
            lines.append(
                f'<circle cx="{place(ratio):.1f}" cy="{y}" r="4" fill="{COLOURS[peer]}">'
                f"<title>{name}: {peer} {ratio:.2f}</title></circle>"
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(argv):
    records = report.load(argv or [WORK + "/results.jsonl"])
    for threads in sorted({key[2] for key in records}):
        path = f"{WORK}/results{'' if threads == 1 else f'-{threads}'}.svg"
        with open(path, "w") as file:
            file.write(drawing(ratios(records, threads), threads))
        print(path)
