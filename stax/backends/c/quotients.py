"""Several divisions by one value that changes along the row.

Input: the statements of one element of a loop and the sums they update.  Output: a loop that
divides once for each divisor, the others replaced by multiplications with the same bits (the
method of `division`).  Beside a square root, as in the forces between bodies, the unit that
divides is what the loop waits for.

Where the divisor and the quotient lie in the middle of their range of exponents, every step is
exact or rounds as it should; that test is an addition of integers each, and what it says is kept
for the row.  A row with a quotient outside (a zero, an infinity, NaN) is computed again with
divisions, and so are those that follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stax.backends.c.division import FAST
from stax.backends.c.handler import CValue, Emitter
from stax.backends.c.lanes import Ahead, Loop, Pieces, fold_lines, lane_loop
from stax.backends.c.reductions import Accumulator
from stax.dtypes import DType
from stax.loops.monoids import ANY

LEAST_LENGTH = 64
_DIVISION = re.compile(r"^(float|double) (\w+) = \((\w+|[\d.e+-]+f?|\(-[\d.e+-]+f?\)) / (v\d+)\);$")
_DEFINED = re.compile(r"^\w+ (\w+) = ")
_STORED = re.compile(r"^(\w+)\[")
_READ = re.compile(r"\b(\w+)\[")


@dataclass(frozen=True)
class _Kind:
    """A type: its functions' suffix, its bits as an integer, and the ranges of exponents.

    An exponent field plus `divisor` has its highest bit set for divisors from 2^-299 to 2^725
    (2^-43 to 2^85), plus `quotient` for quotients from 2^-611 to 2^413 (2^-60 to 2^68): remainders
    are above the smallest number, reciprocals and what is missing to them are normal.
    """

    suffix: str
    bits: str
    dtype: DType
    mantissa: int
    top: int
    divisor: int
    quotient: int

    def sane(self, value: str, ctype: str, offset: int) -> str:
        """The bits of a value, moved so that bit `top` says whether it is in the range."""
        bits = f"((union {{ {ctype} a; {self.bits} b; }}){{ .a = {value} }}).b"
        return f"({bits} + (({self.bits}){offset} << {self.mantissa}))"


_KINDS = {
    "float": _Kind("f", "int32_t", np.dtype(np.int32), 23, 30, 44, 61),
    "double": _Kind("", "int64_t", np.dtype(np.int64), 52, 62, 300, 612),
}


def quotient_loop(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    emitter: Emitter,
    ahead: Sequence[Ahead] = (),
) -> Pieces | None:
    """The loop over `lines` and its folds; None where no divisor that it computes is shared."""
    own = {m.group(1) for m in map(_DEFINED.match, lines) if m is not None}
    counts: dict[tuple[str, str], int] = {}
    for m in map(_DIVISION.match, lines):
        if m is not None and m.group(4) in own:
            counts[m.group(4), m.group(1)] = counts.get((m.group(4), m.group(1)), 0) + 1
    shared = {d: ctype for (d, ctype), n in counts.items() if n > 1}
    stored = {m.group(1) for m in map(_STORED.match, lines) if m is not None}
    read = {name for s in lines for name in _READ.findall(s[s.find("=") :])}
    apart = any(a.place for a in accumulators) or bool(stored & read)
    if not shared or apart or loop.length < LEAST_LENGTH or len(set(shared.values())) > 1:
        return None
    ctype = next(iter(shared.values()))
    odd = Accumulator(ANY, _KINDS[ctype].dtype, emitter)
    fast: list[str] = []
    seen: set[str] = set()
    for s in lines:
        m = _DIVISION.match(s)
        found = m is not None and m.group(4) in shared
        fast += _replaced(m, seen, odd) if m is not None and found else [s]
    quick = lane_loop(loop, fast, [*accumulators, odd], ahead)
    plain = lane_loop(loop, lines, accumulators, ahead)
    folds = [s for a in accumulators for s in fold_lines(a, loop.length)]
    name = odd.names[0]
    return Pieces(
        inside=[
            f"{_KINDS[ctype].bits} {name} = 0;",
            f"if ({FAST}) {{",
            *("    " + s for s in (*quick.before, *quick.inside)),
            *("    " + s for s in fold_lines(odd, loop.length)),
            f"    {name} = ({name} >> {_KINDS[ctype].top}) & 1;",
            f"    {FAST} &= !{name};",
            f"    if (!{name}) {{",
            *("        " + s for s in folds),
            "    }",
            f"}} else {name} = 1;",
            f"if ({name}) {{",
            *("    " + s for s in (*plain.before, *plain.inside, *plain.after)),
            "}",
        ]
    )


def _replaced(m: re.Match[str], seen: set[str], odd: Accumulator) -> list[str]:
    """The statements that take the place of a division."""
    ctype, name, x, d = m.groups()
    kind = _KINDS[ctype]
    fma = f"__builtin_fma{kind.suffix}"
    out: list[str] = []
    if d not in seen:
        seen.add(d)
        out = [
            f"{ctype} {d}r = (1 / {d});",
            f"{ctype} {d}e = {fma}(-{d}, {d}r, 1);",
            f"{ctype} {d}s = ({d}e * {d}r);",
            f"{kind.bits} {d}b = {kind.sane(d, ctype, kind.divisor)};",
        ]
    if x in ("1.0", "1.0f"):
        return [*out, f"{ctype} {name} = {d}r;"]
    out += [
        f"{ctype} {name}q = {fma}({x}, {d}r, ({x} * {d}s));",
        f"{ctype} {name}e = {fma}(-{name}q, {d}, {x});",
        f"{ctype} {name} = {fma}({name}e, {d}r, {name}q);",
        f"{kind.bits} {name}b = ~({d}b & {kind.sane(name, ctype, kind.quotient)});",
        *odd.update([CValue(f"{name}b", kind.dtype, 0)]),
    ]
    return out
