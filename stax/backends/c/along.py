"""The innermost loop of a kernel, vectorised.

Input: the statements of one element and the reductions they update.  Output: lines of C.  Merges of
the table accumulate in lanes (`lanes`), long functions run in blocks (`fission`).  The position of
an extreme is found by a second pass that compares with the extreme value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stax.backends.c.fission import blocked_loops
from stax.backends.c.handler import Emitter, literal
from stax.backends.c.lanes import Ahead, Loop, Pieces, lane_loop
from stax.backends.c.reductions import Accumulator

LEAST_LENGTH = 16  # elements from which lanes pay
SEARCHED = 256  # elements that are asked together whether one is the extreme
_ASSIGNED = re.compile(r"^\w+ (\w+) = (.*);$")
_WORD = re.compile(r"[A-Za-z_]\w*")


def element_loop(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    emitter: Emitter,
    ahead: Sequence[Ahead] = (),
) -> Pieces:
    """The loop over `lines`; the accumulators are declared around it."""
    vectorises = all(a.simple is not None for a in accumulators)
    checks = any("bad |=" in s for s in lines)
    if vectorises and accumulators and not checks and loop.length >= LEAST_LENGTH:
        return lane_loop(loop, lines, accumulators, ahead)
    if not accumulators:
        v = loop.variable
        blocks = blocked_loops(v, loop.start, loop.stop, loop.length, lines, emitter.addresses)
        if blocks is not None:
            return Pieces(inside=blocks)
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
    name = best.names[0]
    v, n = loop.variable, SEARCHED
    whole = Loop(v, "at", f"at + {n}", n)
    part = Loop(v, "at", f"(at + {n} < {loop.stop} ? at + {n} : {loop.stop})", n)
    # Most blocks are only asked whether they hold the extreme; the first that does is searched.
    search = [
        f"int64_t at = {loop.start};",
        f"for (; at + {n} <= {loop.stop}; at += {n}) {{",
        "    int hit = 0;",
        "    #pragma omp simd reduction(|:hit)",
        f"    {whole.header}",
        *("        " + s for s in steps),
        f"        hit |= ({value} == {name});",
        "    }",
        "    if (hit) break;",
        "}",
        "#pragma omp simd reduction(min:nearest)",
        part.header,
        *("    " + s for s in steps),
        f"    int32_t here = {value} == {name} ? (int32_t){v} : 2147483647;",
        "    nearest = here < nearest ? here : nearest;",
        "}",
    ]
    out = ["{", "    int32_t nearest = 2147483647;"]
    if best.nan:
        nan = literal(float("nan"), best.dtypes[0])
        out += [
            f"    if ({best.nan}) {{",
            *("        " + s for s in (loop.header, *("    " + t for t in steps))),
            f"            if ({value} != {value}) {{ nearest = (int32_t){loop.variable}; break; }}",
            "        }",
            f"        {name} = {nan};",
            "    } else {",
            *("        " + s for s in search),
            "    }",
        ]
    else:
        out += ["    " + s for s in search]
    return [*out, f"    {place} = nearest;", "}"]
