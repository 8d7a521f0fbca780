"""Divisions by a value that is fixed along the row.

Input: the statements of one element of a loop.  Output: lines of C that give the same bits with
multiplications in place of a division, or None where there is none to replace.  A division keeps
its unit busy for ten cycles and more; what takes its place takes two or three.

With `r` the reciprocal of `d` rounded, and `s` what is missing to it, `q = fma(x, r, x * s)` lies
within a hair of half a unit of `x / d`, so that `x - q * d` is exact and one step of Markstein's
correction rounds correctly.  That holds for divisors far from the ends of the range and quotients
that are not tiny, and for +0 by positive divisors (what masks leave); the loop notes whether one of
them is another (another zero, an infinity, NaN), and then runs once more with divisions, as do the
rows that follow: data with many of them pays once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from stax.backends.c.handler import CValue, Emitter
from stax.backends.c.lanes import Loop, lane_loop
from stax.backends.c.reductions import Accumulator
from stax.loops.monoids import ANY

CHUNK = 1024  # elements that are divided again together
# Of a row, from which it pays: below, real divisions take less than what is tested and folded
# once a row.  A vector of doubles takes twice the time of one of floats, and holds half as many.
LEAST_LENGTH = {"float": 1024, "double": 192}
MOST_DIVISIONS = 2
FAST = "multiplies"  # the variable, one for each thread, that says whether it is worth a try
INT32 = np.dtype(np.int32)
# Of each type: the suffix of its functions, the range of divisors and the least quotient.
RANGES = {"float": ("f", "0x1p-30f", "0x1p30f", "0x1p-60f"),
          "double": ("", "0x1p-200", "0x1p200", "0x1p-500")}  # fmt: skip

_DIVISION = re.compile(r"^(float|double) (\w+) = \((\w+) / ([A-Za-z_]\w*)\);$")
_DEFINED = re.compile(r"^\w+ (\w+) = ")
_STORED = re.compile(r"^(\w+)\[")
_READ = re.compile(r"\b(\w+)\[")


def declared(lines: Sequence[str]) -> list[str]:
    """The declaration of the variable that the loops in `lines` try multiplications by, if any."""
    return [f"int {FAST} = STAX_FMA;"] if any(FAST in s for s in lines) else []


def divided_loop(loop: Loop, lines: Sequence[str], emitter: Emitter) -> list[str] | None:
    """The loop over `lines` with its divisions by fixed values replaced."""
    own = {m.group(1) for m in map(_DEFINED.match, lines) if m is not None} | {loop.variable}
    found = [m for m in map(_DIVISION.match, lines) if m is not None and m.group(4) not in own]
    stored = {m.group(1) for m in map(_STORED.match, lines) if m is not None}
    read = {name for s in lines for name in _READ.findall(s[s.find("=") :])}
    if not 0 < len(found) <= MOST_DIVISIONS or stored & read:
        return None
    if loop.length < max(LEAST_LENGTH[m.group(1)] for m in found):
        return None
    tiny = Accumulator(ANY, INT32, emitter)
    kinds = {m.group(4): m.group(1) for m in found}
    fast = [part for s in lines for part in _replaced(s, kinds, tiny)]
    inside = []
    for d, kind in kinds.items():
        fma = f"__builtin_fma{RANGES[kind][0]}"
        inside.append(f"{kind} {d}_r = 1 / {d}, {d}_s = {fma}(-{d}, {d}_r, 1) * {d}_r;")
        inside.append(f"int32_t {d}_z = !({d} > 0);")
    tests = [
        f"__builtin_fabs{RANGES[k][0]}({d}) {sign} {limit}"
        for d, k in kinds.items()
        for sign, limit in zip((">=", "<="), RANGES[k][1:3], strict=True)
    ]
    whole = loop.fixed is not None and loop.fixed <= CHUNK
    part = loop if whole else Loop(loop.variable, "from", "upto", CHUNK)
    pieces = lane_loop(part, fast, [tiny])
    again = Loop(part.variable, part.start, part.stop, part.length)
    name = tiny.names[0]
    inside += [
        *tiny.declare(),
        f"if ({FAST} && {' && '.join(tests)}) {{",
        *("    " + s for s in (*pieces.before, *pieces.inside, *pieces.after)),
        f"    {FAST} &= !{name};",
        f"}} else {name} = 1;",
        f"if ({name}) {{",
        "    #pragma omp simd",
        f"    {again.header}",
        *("        " + s for s in lines),
        "    }",
        "}",
    ]
    if whole:
        return ["{", *("    " + s for s in inside), "}"]
    return [
        f"for (int64_t from = {loop.start}; from < {loop.stop}; from += {CHUNK}) {{",
        f"    int64_t upto = from + {CHUNK} < {loop.stop} ? from + {CHUNK} : {loop.stop};",
        *("    " + s for s in inside),
        "}",
    ]


def _replaced(line: str, kinds: dict[str, str], tiny: Accumulator) -> list[str]:
    """The statement, or those that take the place of its division."""
    m = _DIVISION.match(line)
    if m is None or m.group(4) not in kinds:
        return [line]
    kind, name, x, d = m.groups()
    suffix, _, _, least = RANGES[kind]
    whole = {"float": "int32_t", "double": "int64_t"}[kind]
    fma = f"__builtin_fma{suffix}"
    bits = f"((union {{ {kind} a; {whole} b; }}){{ .a = {x} }}).b"
    small = f"(__builtin_fabs{suffix}({name}) >= {least} ? 0 : ({bits} != 0) | {d}_z)"
    return [
        f"{kind} {name}q = {fma}({x}, {d}_r, {x} * {d}_s);",
        f"{kind} {name}e = {fma}(-{name}q, {d}, {x});",
        f"{kind} {name} = {fma}({name}e, {d}_r, {name}q);",
        *tiny.update([CValue(small, INT32, 0)]),
    ]
