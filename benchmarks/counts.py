"""What the compiled workloads do, counted: a check for regressions that no busy machine disturbs.

`python -m benchmarks counts` prints the table beside the recorded one (counts.txt) and fails where
a figure grew; `python -m benchmarks counts --update` records it anew.
"""

import argparse
import re
from pathlib import Path

from benchmarks import definitions
from benchmarks.peers import stax_peer
from benchmarks.workloads import WORKLOADS
from stax.schedule.fusion import CallStep
from stax.tree_util import tree_map

RECORDED = Path(__file__).with_name("counts.txt")
COLUMNS = {
    "kernels": "generated loops, those inside scans included",
    "functions": "different ones among them: what the C compiler reads",
    "calls": "matrix products and other library calls",
    "python": "steps that leave compiled code",
    "results": "arrays allocated by a call",
    "chars": "characters of C for the program itself",
    "libraries": "runs of the C compiler at the first call",
    "moved_kb": "bytes that kernels and calls read and write, were nothing in cache",
    "arena_kb": "temporaries",
}
# Routines that are compiled apart; those of float32 are there after the first compilation.
OF_THEIR_OWN = re.compile(r"(conv|conv_swapped|tiles)_f64")
NAMES = [name for name in WORKLOADS if name != "y256"]  # y64 is the same, a quarter as long


def _apart(routine):
    """Return the library of its own that a routine is in, None where it is in none."""
    found = OF_THEIR_OWN.match(routine)
    return found and found[1].partition("_")[0]


def counted(name):
    """Return the figures of a workload, by column."""
    peer = stax_peer.Peer(1)
    shapes = tree_map(
        lambda a: peer.stax.ShapeDtypeStruct(a.shape, a.dtype), WORKLOADS[name].make()
    )
    lowered = definitions.build(name, peer).lower(*shapes)
    programs, moved, calls = [lowered], 0, 0
    for program in programs:
        programs += [inner for inners in program.nested.values() for inner in inners]
        table = program.lowered.table
        for step in program.order:
            called = isinstance(step, CallStep)
            calls += called
            names = {*step.reads, *(step.writes if called else step.stored)}
            moved += sum(table[n].nbytes for n in names)
    source = lowered.source
    return {
        "kernels": len(lowered.kernels),
        "functions": len(
            re.findall(r"\nstatic int32_t (block\d+_)?(kernel|attention)", source.text)
        ),
        "calls": calls,
        "python": len(lowered.fallbacks),
        "results": len(source.outputs),
        "chars": len(source.text),
        "libraries": 1 + len({*filter(None, map(_apart, source.routines))}),
        "moved_kb": moved // 1024,
        "arena_kb": source.plan.nbytes // 1024,
    }


def table():
    """Return the figures of all workloads."""
    return {name: counted(name) for name in NAMES}


def text_of(figures):
    """Return figures as text, a line for each workload."""
    head = f"{'row':10s}" + "".join(f"{column:>11s}" for column in COLUMNS)
    lines = [
        f"{name:10s}" + "".join(f"{row[column]:11d}" for column in COLUMNS)
        for name, row in figures.items()
    ]
    return "\n".join([head, *lines]) + "\n"


def recorded():
    """Return the recorded figures."""
    lines = [line.split() for line in RECORDED.read_text().splitlines()]
    return {name: dict(zip(lines[0][1:], map(int, row))) for name, *row in lines[1:]}


def worse(now, before):
    """Return a line for each figure that grew, sizes and text by more than 2 %."""
    found = []
    for name, row in now.items():
        for column, value in row.items():
            old = before.get(name, {}).get(column)
            limit = old
            if old is not None and (column == "chars" or column.endswith("_kb")):
                limit = old * 1.02 + 4
            if limit is None or value > limit:
                found.append(f"{name}: {column} {old} -> {value}")
    return found


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m benchmarks counts")
    parser.add_argument("--update", action="store_true", help="record the figures anew")
    options = parser.parse_args(argv)
    figures = table()
    print(text_of(figures), end="")
    if options.update:
        RECORDED.write_text(text_of(figures))
        return
    found = worse(figures, recorded())
    if found:
        raise SystemExit("more than recorded in benchmarks/counts.txt:\n" + "\n".join(found))
