"""dot_general: the one primitive behind matmul, tensordot, einsum and their derivatives.

Input: two arrays of one dtype and `dimension_numbers = ((lhs contracted, rhs contracted),
(lhs batch, rhs batch))`.  Output: batch axes, then the free axes of lhs, then those of rhs.  The
NumPy meaning is one `np.matmul` of three-dimensional operands; half types accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Linear, Primitive, Recompute, Zero
from stax.core.trace import bind1
from stax.dtypes import DType, accumulator
from stax.errors import DtypeError, ShapeError
from stax.loops.contract import WIDEST, are_scores, lower_dot
from stax.primitives.casts import convert
from stax.primitives.elementwise import add
from stax.primitives.families_arrays import check_axes, size_of
from stax.primitives.views import move_axis, transpose

__all__ = ["WIDEST", "are_scores", "dot_general", "dot_general_p", "free_axes", "matrix_sizes"]

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


def free_axes(ndim: int, contracted: Sequence[int], batch: Sequence[int]) -> Axes:
    """The axes that are neither contracted nor batch axes."""
    return tuple(k for k in range(ndim) if k not in contracted and k not in batch)


def matrix_sizes(x: Aval, y: Aval, dimension_numbers: DimensionNumbers) -> tuple[int, ...]:
    """The product as one of matrices: their number, rows, columns, and what is contracted."""
    (xc, yc), (xb, yb) = dimension_numbers
    batch, inner = (size_of([x.shape[k] for k in axes]) for axes in (xb, xc))
    rows, columns = (
        size_of([a.shape[k] for k in free_axes(a.ndim, c, b)])
        for a, c, b in ((x, xc, xb), (y, yc, yb))
    )
    return batch, rows, columns, inner


def _dot_aval(x: Aval, y: Aval, *, dimension_numbers: DimensionNumbers, dtype: DType) -> Aval:
    (xc, yc), (xb, yb) = dimension_numbers
    for axes, aval in ((xc + xb, x), (yc + yb, y)):
        check_axes(axes, aval, "dot_general")
    if len(xc) != len(yc) or len(xb) != len(yb):
        raise ShapeError(
            f"dimension numbers {dimension_numbers} do not pair up",
            op="dot_general",
            operands=[x, y],
        )
    for what, left, right in (("contracted", xc, yc), ("batch", xb, yb)):
        for a, b in zip(left, right, strict=True):
            if x.shape[a] != y.shape[b]:
                raise ShapeError(
                    f"{what} dimensions differ: axis {a} of the first operand has {x.shape[a]}, "
                    f"axis {b} of the second has {y.shape[b]}",
                    op="dot_general",
                    operands=[x, y],
                )
    if x.dtype != y.dtype:
        raise DtypeError("needs operands of one dtype", op="dot_general", operands=[x, y])
    xf, yf = free_axes(x.ndim, xc, xb), free_axes(y.ndim, yc, yb)
    shape = [x.shape[k] for k in (*xb, *xf)] + [y.shape[k] for k in yf]
    return Aval(tuple(shape), dtype)


def _dot_impl(x: Any, y: Any, *, dimension_numbers: DimensionNumbers, dtype: DType) -> Any:
    (xc, yc), (xb, yb) = dimension_numbers
    x, y = np.asarray(x), np.asarray(y)
    xf, yf = free_axes(x.ndim, xc, xb), free_axes(y.ndim, yc, yb)
    batch = [x.shape[k] for k in xb]
    rows, columns = [x.shape[k] for k in xf], [y.shape[k] for k in yf]
    inner = size_of([x.shape[k] for k in xc])
    wide = accumulator(np.result_type(dtype) if dtype.kind in "biufc" else dtype)
    left = x.transpose(*xb, *xf, *xc).reshape(*batch, size_of(rows), inner)
    right = y.transpose(*yb, *yc, *yf).reshape(*batch, inner, size_of(columns))
    with np.errstate(all="ignore"):
        out = np.matmul(left.astype(wide, copy=False), right.astype(wide, copy=False))
    return out.reshape((*batch, *rows, *columns)).astype(dtype, copy=False)


def _dot_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    left = None if isinstance(tx, Zero) else bind1(dot_general_p, tx, y, **params)
    right = None if isinstance(ty, Zero) else bind1(dot_general_p, x, ty, **params)
    if left is None or right is None:
        return right if left is None else left
    return add(left, right)


def _dot_transpose(
    ct: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers, dtype: DType
) -> tuple[Any, Any]:
    (xc, yc), (xb, yb) = dimension_numbers
    if isinstance(ct, Zero):
        return tuple(Zero(v.aval) if isinstance(v, Linear) else None for v in (x, y))  # type: ignore[return-value]  # a pair
    if isinstance(x, Linear):
        return _operand_cotangent(ct, y, x.aval, xc, xb, yc, yb, first=True), None
    return None, _operand_cotangent(ct, x, y.aval, yc, yb, xc, xb, first=False)


def _operand_cotangent(
    ct: Any, other: Any, aval: Aval, c: Axes, b: Axes, oc: Axes, ob: Axes, *, first: bool
) -> Any:
    """The cotangent of the operand of type `aval`, whose axes are c, b; the other's are oc, ob.

    Where a product of halves was asked for in a wider type, its cotangent is of that type: the
    product is formed there, and rounded to the operand's type at the end.
    """
    wide = aval_of(ct).dtype
    if aval_of(other).dtype != wide:
        other = convert(other, wide)
    mine = free_axes(aval.ndim, c, b)
    others = free_axes(aval_of(other).ndim, oc, ob)
    n = len(b)
    if first:
        in_ct = tuple(range(n + len(mine), n + len(mine) + len(others)))
    else:
        in_ct = tuple(range(n, n + len(others)))
    batch = tuple(range(n))
    # The contracted axes come out in the order of the other operand's remaining axes.
    order = np.argsort(oc).tolist()
    if first:
        out = dot_general(ct, other, ((in_ct, others), (batch, ob)))
        have = [*b, *mine, *(c[k] for k in order)]
    else:
        out = dot_general(other, ct, ((others, in_ct), (ob, batch)))
        have = [*b, *(c[k] for k in order), *mine]
    out = transpose(out, np.argsort(have).tolist())
    return out if aval.dtype == wide else convert(out, aval.dtype)


def _dot_batch(
    args: Any, dims: Any, *, dimension_numbers: DimensionNumbers, dtype: DType
) -> tuple[Any, int]:
    (xc, yc), (xb, yb) = dimension_numbers
    (x, y), (xd, yd) = args, dims

    def up(axes: Axes, d: int) -> Axes:
        return tuple(a + (a >= d) for a in axes)

    if xd is not None and yd is not None:
        x, y = move_axis(x, xd, 0), move_axis(y, yd, 0)
        numbers = ((up(xc, 0), up(yc, 0)), ((0, *up(xb, 0)), (0, *up(yb, 0))))
        return bind1(dot_general_p, x, y, dimension_numbers=numbers, dtype=dtype), 0
    if xd is not None:
        numbers = ((up(xc, xd), yc), (up(xb, xd), yb))
        out = bind1(dot_general_p, x, y, dimension_numbers=numbers, dtype=dtype)
        free = free_axes(len(x.shape), numbers[0][0], numbers[1][0])
        return out, len(xb) + free.index(xd)
    numbers = ((xc, up(yc, yd)), (xb, up(yb, yd)))
    out = bind1(dot_general_p, x, y, dimension_numbers=numbers, dtype=dtype)
    rows = aval_of(x).ndim - len(xc) - len(xb)
    free = free_axes(len(y.shape), numbers[0][1], numbers[1][1])
    return out, len(xb) + rows + free.index(yd)


def _dot_cost(in_avals: Any, out_avals: Any, params: Any) -> int:
    (xc, _), _ = params["dimension_numbers"]
    return 2 * int(out_avals[0].size) * size_of([in_avals[0].shape[k] for k in xc])


dot_general_p = Primitive(
    "dot_general",
    family="contraction",
    abstract_eval=_dot_aval,
    impl=_dot_impl,
    jvp=_dot_jvp,
    transpose=_dot_transpose,
    batch=_dot_batch,
    lower=lower_dot,
    cost=_dot_cost,
    recompute=Recompute.EXPENSIVE,
)


def dot_general(x: Any, y: Any, dimension_numbers: Any, dtype: DType | None = None) -> Any:
    """Sum of products over the contracted axes, for each index of the batch axes."""
    (xc, yc), (xb, yb) = dimension_numbers
    numbers = (
        (tuple(map(int, xc)), tuple(map(int, yc))),
        (tuple(map(int, xb)), tuple(map(int, yb))),
    )
    dtype = aval_of(x).dtype if dtype is None else np.dtype(dtype)
    return bind1(dot_general_p, x, y, dimension_numbers=numbers, dtype=dtype)
