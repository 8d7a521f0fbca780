"""Cutting the loops of pointwise kernels.

Input: the bodies of a kernel and the index expressions of their loops.  Output: where the loop
along a row may be cut so that no piece of a concatenation or padding has to be tested for inside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stax.loops.body import Instr
from stax.loops.scalar_ops import SCALAR_OPS, ScalarOp
from stax.loops.symbolic import Expr, Symbol, affine_coefficients, affine_parts

MOST_SEGMENTS = 12


def breakpoints(
    bodies: Iterable[tuple[Sequence[Instr], Sequence[Expr]]], loop: Symbol
) -> list[int]:
    """Positions of `loop` at which a comparison with a constant changes its outcome.

    Empty when there are none, or too many to be worth a loop for each piece.
    """
    extent = int(loop.hi) + 1
    found: set[int] = set()
    for instrs, indexes in bodies:
        for instr in instrs:
            row = SCALAR_OPS.get(instr.op)
            if row is None or row.arity != 2 or instr.dtype.kind != "b":
                continue
            sides = [instrs[a] for a in instr.args]
            for place, (side, other) in enumerate((sides, sides[::-1])):
                if side.op == "index_expr" and other.op == "constant":
                    found |= _changes(row, place, indexes[side.attrs[0]], other.attrs[0], loop)
    cuts = sorted(k for k in found if 0 < k < extent)
    return cuts if 0 < len(cuts) < MOST_SEGMENTS else []


def _changes(row: ScalarOp, place: int, expr: Expr, value: object, loop: Symbol) -> set[int]:
    """Where the comparison of `expr`, its operand number `place`, with the constant changes."""
    if not isinstance(value, int) or expr.symbols != {loop}:
        return set()
    found = affine_coefficients(expr, (loop,))
    if found is None or abs(found[loop]) != 1:
        return set()
    offset = affine_parts(expr)[1]
    at = value - offset if found[loop] == 1 else offset - value

    def outcome(k: int) -> bool:
        sides = (found[loop] * k + offset, value)
        return bool(row.numpy(*(sides if place == 0 else sides[::-1])))

    return {k for k in (at, at + 1) if outcome(k - 1) != outcome(k)}
