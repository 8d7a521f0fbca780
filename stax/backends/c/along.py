"""The innermost loop of a kernel: vectorised, with as many accumulators as pay.

Input: the statements of one element and the reductions they update.  Output: lines of C.  A loop
that does little beside accumulating is bound by the latency of its additions, so it runs as four
streams, each with accumulators of its own, merged in a fixed order.  The position of an extreme
is found by a second pass that compares with the extreme value, which vectorises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stax.backends.c.fission import blocked_loops
from stax.backends.c.handler import Emitter, literal
from stax.backends.c.reductions import Accumulator, combine_lines

STREAMS = 4  # of one array; with two arrays the memory would see eight, and is slower
STREAM_LENGTH = 256  # elements from which streams pay
SEARCHED = 256  # elements that are asked together whether one is the extreme
STREAM_LINES = 14  # statements of one element up to which they pay
_ASSIGNED = re.compile(r"^\w+ (\w+) = (.*);$")
_READ = re.compile(r"\b[ps]\d+\[")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Loop:
    """A loop over `variable` in [start, stop), given as C expressions; `length` bounds it."""

    variable: str
    start: str
    stop: str
    length: int

    @property
    def header(self) -> str:
        """The `for` line."""
        v = self.variable
        return f"for (int64_t {v} = {self.start}; {v} < {self.stop}; {v}++) {{"


def element_loop(
    loop: Loop, lines: Sequence[str], accumulators: Sequence[Accumulator], emitter: Emitter
) -> list[str]:
    """The loop over `lines`; the accumulators are declared around it."""
    vectorises = all(a.simple is not None for a in accumulators)
    checks = any("bad |=" in s for s in lines)
    reads = sum(len(_READ.findall(s)) for s in lines)
    fits = loop.length >= STREAM_LENGTH and len(lines) <= STREAM_LINES and not checks
    if vectorises and accumulators and reads <= 1 and fits:
        return _streams(loop, lines, accumulators, emitter)
    if not accumulators:
        v = loop.variable
        blocks = blocked_loops(v, loop.start, loop.stop, loop.length, lines, emitter.addresses)
        if blocks is not None:
            return blocks
    clauses = [c for a in accumulators for c in a.clauses()] if vectorises else []
    if checks:
        clauses.append("reduction(|:bad)")
    pragma = ["#pragma omp simd" + "".join(f" {c}" for c in clauses)] if vectorises else []
    return [*pragma, loop.header, *("    " + s for s in lines), "}"]


def _streams(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    emitter: Emitter,
) -> list[str]:
    count = emitter.fresh("q")
    v = loop.variable
    out = [f"int64_t {count} = ({loop.stop} - {loop.start}) / {STREAMS};"]
    clauses: list[str] = []
    bodies: list[str] = []
    names = [n for a in accumulators for n in a.all_names]
    for k in range(STREAMS):
        own = {n: f"{n}_{k}" for n in names} if k else {}
        for a in accumulators:
            if k:
                out += [_renamed(s, own) for s in a.declare()]
            clauses += [_renamed(c, own) for c in a.clauses()]
        bodies.append(f"    {{ int64_t {v} = {loop.start} + {k} * {count} + t;")
        bodies += [f"        {_renamed(s, own)}" for s in lines]
        bodies.append("    }")
    pragma = "#pragma omp simd" + "".join(f" {c}" for c in clauses)
    out += [pragma, f"for (int64_t t = 0; t < {count}; t++) {{", *bodies, "}"]
    for left, right in ((0, 1), (2, 3), (0, 2)):
        for a in accumulators:
            one = [f"{n}_{left}" if left else n for n in a.names]
            other = [f"{n}_{right}" for n in a.names]
            out += combine_lines(a.monoid, a.dtypes, one, other, emitter)
            if a.nan:
                out.append(f"{a.nan}{f'_{left}' if left else ''} |= {a.nan}_{right};")
    rest = Loop(v, f"{loop.start} + {STREAMS} * {count}", loop.stop, STREAMS)
    clauses = [c for a in accumulators for c in a.clauses()]
    out += [rest.header, *("    " + s for s in lines), "}"]
    return out


def _renamed(text: str, names: dict[str, str]) -> str:
    return _WORD.sub(lambda m: names.get(m.group(), m.group()), text) if names else text


def leading_to(lines: Sequence[str], value: str) -> list[str]:
    """Those of the statements that the C value `value` depends on."""
    wanted = {value}
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
    steps = leading_to(lines, value)
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
