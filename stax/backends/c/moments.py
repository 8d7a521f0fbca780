"""Welford triples along a row and down the columns.

Input: a stage's loop and the values whose variance is wanted.  Output: lines of C that leave count,
mean and sum of squared deviations in three accumulators.  A piece of a row that stays in the first
cache is read twice, for its mean and for the squares around it: that is the triple of the piece to
within the rounding of two sums in lanes.  Triples of pieces are merged in order by the rule of the
monoid, single ones in double precision.  So memory is read once, and the bits follow from the
length of the row.  Down the columns each row is one more element of all triples, whose count is
the same.

The values are differences from the first element, which keeps means apart that are close beside
their size.  A row of one piece has no means to compare, and is read without the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stax.backends.c.along import element_loop, leading_to
from stax.backends.c.handler import INNER_DEPTH, CValue, Emitter
from stax.backends.c.lanes import Ahead, Loop
from stax.backends.c.reductions import Accumulator, combine_lines
from stax.dtypes import DType
from stax.loops.body import Instr
from stax.loops.monoids import SUM, WELFORD
from stax.loops.realize import THRESHOLDS
from stax.loops.scalar_ops import c_type

HELD = np.dtype(np.float64)  # triples between pieces
PIECE = THRESHOLDS["cpu"].piece


@dataclass
class Samples:
    """A value of the loop whose triples are merged into three accumulators.

    `plain` is the value before the first element was subtracted; `merges` says that the
    accumulators hold something already: other rows, or other pieces.
    """

    value: CValue
    plain: CValue
    names: Sequence[str]
    merges: bool


@dataclass
class Stage:
    """A loop along the row with what it updates; `outer` are the headers of loops around it."""

    outer: Sequence[str]
    loop: Loop
    total: int  # elements of a row, or a bound
    lines: Sequence[str]
    accumulators: Sequence[Accumulator] = ()
    samples: Sequence[Samples] = ()
    ahead: Sequence[Ahead] = ()

    def printed(self, emitter: Emitter) -> list[str]:
        """All of it as C."""
        piece, loop = PIECE, self.loop
        if not self.samples:
            return self._nested(self.lines, self.accumulators, emitter, self.ahead)
        if self.outer or self.total <= piece:
            known = loop.fixed is not None
            count = f"{self.total}" if known else f"({loop.stop} - {loop.start})"
            if not self.outer:
                return self._twice(count, emitter)
            samples = [replace(s, plain=s.value) for s in self.samples]
            return replace(self, samples=samples)._twice(count, emitter)
        samples = [replace(s, plain=s.value, merges=True) for s in self.samples]
        part = Loop(loop.variable, "from", "upto", piece)
        inner = replace(self, loop=part, total=piece, samples=samples)
        return [
            f"for (int64_t from = {loop.start}; from < {loop.stop}; from += {piece}) {{",
            f"    int64_t upto = from + {piece} < {loop.stop} ? from + {piece} : {loop.stop};",
            *("    " + s for s in inner.printed(emitter)),
            "}",
        ]

    def _nested(
        self,
        lines: Sequence[str],
        accumulators: Sequence[Accumulator],
        emitter: Emitter,
        ahead: Sequence[Ahead] = (),
    ) -> list[str]:
        found = element_loop(self.loop, lines, accumulators, emitter, ahead, not self.outer)
        closed = ["}"] * len(self.outer)
        return [*found.before, *self.outer, *found.inside, *closed, *found.after]

    def _twice(self, count: str, emitter: Emitter) -> list[str]:
        """A loop for the means, among all else, and one for the squares around them."""
        distinct = {s.plain.text: s for s in self.samples}
        lines, again = list(self.lines), leading_to(self.lines, distinct)
        middle: list[str] = []
        out: list[str] = []
        parts: dict[str, list[str]] = {}
        totals: list[Accumulator] = []
        squares: list[Accumulator] = []
        for text, sample in distinct.items():
            value, kind = sample.plain, c_type(sample.plain.dtype)
            total = None if sample.merges else self._sum_of(value)
            if total is None:
                total = Accumulator(SUM, value.dtype, emitter)
                totals.append(total)
                out += total.declare()
                lines += total.update([value])
            spread = Accumulator(SUM, value.dtype, emitter)
            squares.append(spread)
            out += spread.declare()
            mean, away = emitter.fresh("m"), emitter.fresh("d")
            middle.append(f"{kind} {mean} = {total.names[0]} / {count};")
            again.append(f"{kind} {away} = {text} - {mean};")
            again += spread.update([CValue(f"{away} * {away}", value.dtype, value.depth)])
            parts[text] = [f"({kind}){count}", mean, spread.names[0]]
        out += [*self._nested(lines, [*self.accumulators, *totals], emitter), *middle]
        out += self._nested(again, squares, emitter, self.ahead)
        for s in self.samples:
            own = parts[s.plain.text]
            if s.merges:
                out += combine_lines(WELFORD, (HELD,) * 3, list(s.names), own, emitter)
            else:
                out += [f"{n} = {p};" for n, p in zip(s.names, own, strict=True)]
        return ["{", *("    " + s for s in out), "}"]

    def _sum_of(self, value: CValue) -> Accumulator | None:
        """The sum of a value over the row, where the stage computes it anyway."""
        for a in self.accumulators:
            if a.monoid is SUM and a.watched == value.text and a.dtypes[0] == value.dtype:
                return a
        return None


def before_difference(
    instrs: Sequence[Instr], reduction: Instr, values: Mapping[int, CValue]
) -> CValue:
    """The sampled value without the subtraction of something that is fixed along the row."""
    sampled = reduction.args[1]
    if instrs[sampled].op == "sub":
        value, first = (values[a] for a in instrs[sampled].args)
        if first.depth != INNER_DEPTH:
            return value
    return values[sampled]


def one_more_row(
    value: CValue, mean: str, squares: str, weight: str, emitter: Emitter
) -> list[str]:
    """Merge a value into the triple of its column; `weight` is one over the new count."""
    kind, away, moved = c_type(value.dtype), emitter.fresh("d"), emitter.fresh("m")
    return [
        f"{kind} {away} = {value.text} - {mean};",
        f"{kind} {moved} = {mean} + {away} * {weight};",
        f"{mean} = {moved};",
        f"{squares} = {squares} + {away} * ({value.text} - {moved});",
    ]


def narrowed(component: CValue, dtype: DType) -> CValue:
    """A component of a triple in the type of the values."""
    text = f"({c_type(dtype)}){component.text}"
    return component if component.dtype == dtype else CValue(f"({text})", dtype, component.depth)
