"""The innermost loop of a kernel, vectorised.

Input: the statements of one element and the reductions they update.  Output: lines of C.  Merges of
the table accumulate in lanes (`lanes`), long functions run in blocks (`fission`).  The position of
an extreme is found afterwards, by comparing with its value the chunk that is known to have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stax.backends.c.division import divided_loop
from stax.backends.c.fission import blocked_loops
from stax.backends.c.folds import LANES, fold_call
from stax.backends.c.handler import Emitter, literal
from stax.backends.c.lanes import (
    CHUNK,
    LEAST_LENGTH,
    NOWHERE,
    Ahead,
    Loop,
    Pieces,
    has_checks,
    lane_loop,
    nearest,
)
from stax.backends.c.quotients import quotient_loop
from stax.backends.c.reductions import Accumulator
from stax.backends.c.streams import fetching_loop, streams_of, walked_bytes

_ASSIGNED = re.compile(r"^\w+ (\w+) = (.*);$")
_WORD = re.compile(r"[A-Za-z_]\w*")


def element_loop(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    emitter: Emitter,
    ahead: Sequence[Ahead] = (),
    whole: bool = False,
) -> Pieces:
    """The loop over `lines`; the accumulators are declared around it.

    `whole` says that it is all of the row.
    """
    vectorises = all(a.simple is not None for a in accumulators)
    checks = has_checks(lines)
    if vectorises and accumulators and loop.length >= LEAST_LENGTH:
        if emitter.plain:
            return lane_loop(loop, lines, accumulators, plain=True)
        shared = quotient_loop(loop, lines, accumulators, emitter, ahead) if whole else None
        return shared or lane_loop(loop, lines, accumulators, ahead)
    if not accumulators:
        v = loop.variable
        points = 0 if emitter.plain else emitter.points
        streams = streams_of(lines, v, emitter.itemsizes, points)
        blocks = blocked_loops(
            *(v, loop.start, loop.stop, loop.length, lines, emitter.addresses, streams),
            nbytes=walked_bytes(lines, emitter.itemsizes, emitter.points),
            plain=emitter.plain,
        )
        if blocks is None and not checks and not emitter.plain:
            blocks = divided_loop(loop, lines, emitter) or fetching_loop(loop, lines, streams)
        if blocks is not None:
            return Pieces(inside=blocks)
    vectorises = vectorises and all(a.simple and a.simple.clause for a in accumulators)
    clauses = [c for a in accumulators for c in a.clauses()] if vectorises else []
    if checks:
        clauses.append("reduction(|:bad)")
    pragma = ["#pragma omp simd" + "".join(f" {c}" for c in clauses)] if vectorises else []
    return Pieces(inside=[*pragma, loop.header, *("    " + s for s in lines), "}"])


def leading_to(lines: Sequence[str], values: Iterable[str]) -> list[str]:
    """Those of the statements that the C values depend on."""
    wanted = set(values)
    kept: list[str] = []
    for line in reversed(lines):
        found = _ASSIGNED.match(line)
        if found is not None and found.group(1) in wanted:
            kept.append(line)
            wanted.update(_WORD.findall(found.group(2)))
    kept.reverse()
    return kept


def position_of_extreme(
    loop: Loop, lines: Sequence[str], value: str, best: Accumulator, place: str
) -> list[str]:
    """Set `place` to the first position whose `value` is the extreme (or the first NaN)."""
    steps = leading_to(lines, [value])
    name, v = best.names[0], loop.variable
    start = best.chunk or loop.start
    stop = f"({start} + {CHUNK} < {loop.stop} ? {start} + {CHUNK} : {loop.stop})"
    if not best.chunk:
        stop = loop.stop
    where = f"{place}_lane"

    def compared(count: str) -> list[str]:
        here = f"int32_t here = {value} == {name} ? (int32_t)(t + k) : {NOWHERE};"
        body = [f"int64_t {v} = t + k;", *steps, here, nearest(f"{where}[k]", "here")]
        head = f"for (int32_t k = 0; k < {count}; k++) {{"
        return ["#pragma omp simd", head, *("    " + s for s in body), "}"]

    search = [
        f"int32_t {where}[{LANES}] __attribute__((aligned(64)));",
        "#pragma omp simd",
        f"for (int64_t k = 0; k < {LANES}; k++) {where}[k] = {NOWHERE};",
        f"int64_t t = {start}, upto = {stop};",
        f"for (; t + {LANES} <= upto; t += {LANES}) {{",
        *("    " + s for s in compared(f"{LANES}")),
        "}",
        *compared("upto - t"),
        f"{place} = {fold_call('min', 'i32', where)};",
    ]
    if best.nan:
        nan = literal(float("nan"), best.dtypes[0])
        search = [
            f"if ({best.nan}) {{",
            *("    " + s for s in (loop.header, *("    " + t for t in steps))),
            f"        if ({value} != {value}) {{ {place} = {v}; break; }}",
            "    }",
            f"    {name} = {nan};",
            "} else {",
            *("    " + s for s in search),
            "}",
        ]
    return ["{", *("    " + s for s in search), "}"]
