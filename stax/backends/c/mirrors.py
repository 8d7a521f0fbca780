"""Values that are each other's negative, zeros apart.

Input: the real operations of a loop, one after the other.  Output: for each value a name and a
sign: two values of one name and opposite signs are each other's negative, whatever the loop reads,
but for the sign of a zero.  Rounding to the nearest is the same on both sides of zero, so that
`(b - a) * c` is `-((a - b) * c)` to the bit; where the difference is zero, both are `+0`.

A sum that begins with zero does not see the sign of a zero added to it, and is never `-0` itself:
the sum of negatives is zero minus the sum.  The forces of pairs of bodies are such sums, those on
one body of a pair and those on the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stax.loops.scalar_ops import ScalarOp

Image = tuple[str, int]


class Mirrors:
    """The name and the sign of each value noted so far."""

    def __init__(self) -> None:
        self._noted: list[tuple[ScalarOp, Sequence[str], str]] = []  # not looked at yet
        self._images: dict[str, Image] = {}
        self._known: dict[Hashable, Image] = {}

    def of(self, value: str) -> Image:
        """The name and the sign of a value, given as C text; its own text where it is new."""
        noted, self._noted = self._noted, []
        for one in noted:
            self._look_at(*one)
        return self._images.get(value, (value, 1))

    def note(self, row: ScalarOp, operands: Sequence[str], value: str) -> None:
        """Say that `value` is what `row` gives for the operands."""
        if row.summands or row.odd:
            self._noted.append((row, operands, value))

    def _look_at(self, row: ScalarOp, operands: Sequence[str], value: str) -> None:
        if value in self._images:
            return
        images = [self._images.get(text, (text, 1)) for text in operands]
        if row.summands:
            terms = sorted((n, s * t) for (n, s), t in zip(images, row.summands, strict=True))
            sign = terms[0][1]
            key: Hashable = ("sum", *((n, s * sign) for n, s in terms))
            if len(terms) == 1:
                self._images[value] = terms[0]
                return
        else:
            # The sign of a zero counts where the operation is not odd: in a divisor.
            names = [
                (n, 0) if k in row.odd else (operands[k], 1) for k, (n, _) in enumerate(images)
            ]
            sign = 1
            for k in row.odd:
                sign *= images[k][1]
            key = (row.name, *(sorted(names) if row.commutes else names))
        name, own = self._known.setdefault(key, (value, sign))
        self._images[value] = name, sign * own
