"""Calls of the matrix product in a program.

Input: an external buffer of kind "matmul", whose operands are strided views, and the C pointers of
buffers.  Output: the statement that calls the routine in the program's context, once or in loops
over the batch axes that have no common stride.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stax.loops.buffers import ExternBuffer, ExternInput
from stax.loops.scalar_ops import type_tag
from stax.schedule.kernel import row_major


def product_routine(buffer: ExternBuffer) -> str:
    """The name of the routine that computes `buffer`."""
    return f"product_{type_tag(buffer.dtype)}"


def product_call(buffer: ExternBuffer, names: Mapping[str, str], slot: int) -> str:
    """The statement that computes `buffer` by the routine at a slot of the program's table.

    `names` are the C pointers of the buffers.
    """
    p = buffer.params
    m, n, k = p["m"], p["n"], p["k"]
    batch = max((i.layout.shape[:-2] for i in buffer.inputs), key=len)
    left = _operand(buffer.inputs[0], batch, m, k, names)
    right = _operand(buffer.inputs[1], batch, k, n, names)
    # The routine takes one batch axis; loops run over those before it.
    target = [*(s * m * n for s in row_major(batch))]
    outer = [f"t{axis}" for axis in range(len(batch) - 1)]
    heads = [
        f"for (int64_t {t} = 0; {t} < {extent}; {t}++) "
        for t, extent in zip(outer, batch, strict=False)
    ]
    moved = [
        "".join(f" + {stride} * {t}" for t, stride in zip(outer, strides, strict=False))
        for strides in (left.batch, right.batch, target)
    ]
    return (
        f"{''.join(heads)}((stax_{product_routine(buffer)})ctx->products[{slot}])({batch[-1]}, "
        f"{left.turned}, {right.turned}, {m}, {n}, {k}, "
        f"{left.pointer}{moved[0]}, {left.leading}, {left.batch[-1]}, "
        f"{right.pointer}{moved[1]}, {right.leading}, {right.batch[-1]}, "
        f"{names[buffer.name]}{moved[2]}, {n}, {m * n});"
    )


class _Matrix(NamedTuple):
    """An operand of a product in C."""

    turned: int  # whether it is stored transposed
    pointer: str
    leading: int
    batch: Sequence[int]  # the stride of each batch axis


def _operand(
    operand: ExternInput,
    batch: Sequence[int],
    rows: int,
    columns: int,
    names: Mapping[str, str],
) -> _Matrix:
    """A `[*batch, rows, columns]` view, whose batch axes may be one with a common stride."""
    *own, row, column = operand.layout.strides
    strides = [own[0] * s for s in row_major(batch)] if len(own) < len(batch) else own
    strides = [s if n > 1 else 0 for s, n in zip(strides, batch, strict=True)]
    pointer = f"{names[operand.buffer]} + {operand.layout.offset}"
    straight = (columns == 1 or column == 1) and (rows == 1 or row >= columns)
    if straight:
        return _Matrix(0, pointer, row if rows > 1 else columns, strides)
    return _Matrix(1, pointer, column if columns > 1 else rows, strides)
