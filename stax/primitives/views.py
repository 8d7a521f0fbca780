"""Views and their dual: reshape, transpose, broadcast, rev, and the sum that transposes broadcast.

Input: a value and static parameters.  Output: rows that are index transformations, each beside
the Python function that binds it, and `sum`, which stands here because broadcast and sum are
each other's transpose.  Nothing here needs elementwise rows, whose rules need all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Recompute
from stax.core.trace import bind1
from stax.dtypes import DType, accumulator, is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.loops import rules
from stax.primitives.families_arrays import (
    check_axes,
    input_cost,
    linear_shape_op,
    shifted,
    size_of,
    without_axes,
)

Shape = tuple[int, ...]


def scalar_zero(dtype: DType) -> Any:
    """The zero of `dtype` as a NumPy scalar, which is written in place in the IR."""
    return np.zeros((), dtype)[()]


# ------------------------------------------------------------------------------------ reshape


def _reshape_aval(x: Aval, *, shape: Shape) -> Aval:
    if size_of(shape) != x.size:
        raise ShapeError(
            f"cannot reshape array of size {x.size} into shape {shape}", op="reshape", operands=[x]
        )
    return x.update(shape=shape)


def _reshape_batch(args: Any, dims: Any, *, shape: Shape) -> tuple[Any, int]:
    x = move_axis(args[0], dims[0], 0)
    return reshape(x, (x.shape[0], *shape)), 0


reshape_p = linear_shape_op(
    "reshape",
    abstract_eval=_reshape_aval,
    impl=lambda x, *, shape: np.reshape(x, shape),
    transpose=lambda ct, aval, *, shape: reshape(ct, aval.shape),
    batch=_reshape_batch,
    lower=rules.reshape,
)


def reshape(x: Any, shape: Sequence[int]) -> Any:
    """`x` with the same elements in row-major order under another shape (no -1 here)."""
    shape = tuple(shape)
    return x if aval_of(x).shape == shape else bind1(reshape_p, x, shape=shape)


# ---------------------------------------------------------------------------------- transpose


def _transpose_aval(x: Aval, *, perm: Shape) -> Aval:
    if sorted(perm) != list(range(x.ndim)):
        raise ShapeError(
            f"{perm} is not a permutation of the {x.ndim} axes", op="transpose", operands=[x]
        )
    return x.update(shape=tuple(x.shape[p] for p in perm))


def _transpose_batch(args: Any, dims: Any, *, perm: Shape) -> tuple[Any, int]:
    (dim,) = dims
    return transpose(args[0], (dim, *shifted(perm, dim))), 0


transpose_p = linear_shape_op(
    "transpose",
    abstract_eval=_transpose_aval,
    impl=lambda x, *, perm: np.transpose(x, perm),
    transpose=lambda ct, aval, *, perm: transpose(ct, np.argsort(perm).tolist()),
    batch=_transpose_batch,
    lower=rules.transpose,
)


def transpose(x: Any, perm: Sequence[int]) -> Any:
    """`x` with axis k of the result being axis perm[k] of `x`."""
    perm = tuple(int(p) for p in perm)
    return x if perm == tuple(range(len(perm))) else bind1(transpose_p, x, perm=perm)


def move_axis(x: Any, source: int, destination: int) -> Any:
    """`x` with one axis moved."""
    if source == destination:
        return x
    perm = [k for k in range(len(x.shape)) if k != source]
    perm.insert(destination, source)
    return transpose(x, perm)


# ---------------------------------------------------------------------------------- broadcast


def _broadcast_aval(x: Aval, *, shape: Shape, dims: Shape) -> Aval:
    if len(dims) != x.ndim or list(dims) != sorted(set(dims)):
        raise ShapeError(
            f"dims {dims} must name one result axis for each operand axis, in order",
            op="broadcast",
            operands=[x],
        )
    for n, d in zip(x.shape, dims, strict=True):
        if not 0 <= d < len(shape) or n not in (1, shape[d]):
            raise ShapeError(
                f"cannot broadcast {x.shape} to {shape} along axes {dims}",
                op="broadcast",
                operands=[x],
            )
    return x.update(shape=shape)


def _broadcast_impl(x: Any, *, shape: Shape, dims: Shape) -> Any:
    x = np.asarray(x)
    spread = [1] * len(shape)
    for n, d in zip(x.shape, dims, strict=True):
        spread[d] = n
    return np.broadcast_to(x.reshape(spread), shape)


def _broadcast_transpose(ct: Any, aval: Aval, *, shape: Shape, dims: Shape) -> Any:
    kept = {d for n, d in zip(aval.shape, dims, strict=True) if n == shape[d]}
    return reshape(reduce_sum(ct, [d for d in range(len(shape)) if d not in kept]), aval.shape)


def _broadcast_batch(args: Any, dims: Any, /, *, shape: Shape, **params: Any) -> tuple[Any, int]:
    x = move_axis(args[0], dims[0], 0)
    return broadcast(x, (x.shape[0], *shape), (0, *(d + 1 for d in params["dims"]))), 0


broadcast_p = linear_shape_op(
    "broadcast",
    abstract_eval=_broadcast_aval,
    impl=_broadcast_impl,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    lower=rules.broadcast,
)


def broadcast(x: Any, shape: Sequence[int], dims: Sequence[int] | None = None) -> Any:
    """`x` repeated to `shape`; operand axis k is result axis dims[k] (trailing axes by default)."""
    shape = tuple(shape)
    have = aval_of(x).shape
    if dims is None:
        dims = range(len(shape) - len(have), len(shape))
    dims = tuple(dims)
    if have == shape and dims == tuple(range(len(shape))):
        return x
    return bind1(broadcast_p, x, shape=shape, dims=dims)


def batched_front(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its batch axis in front, made by repetition when it has none."""
    if dim is None:
        return broadcast(x, (size, *aval_of(x).shape))
    return move_axis(x, dim, 0)


# ---------------------------------------------------------------------------------------- rev


def _rev_aval(x: Aval, *, axes: Shape) -> Aval:
    check_axes(axes, x, "rev")
    return x.strong()


def _rev_batch(args: Any, dims: Any, *, axes: Shape) -> tuple[Any, int]:
    return rev(args[0], shifted(axes, dims[0])), dims[0]


rev_p = linear_shape_op(
    "rev",
    abstract_eval=_rev_aval,
    impl=lambda x, *, axes: np.flip(x, axes),
    transpose=lambda ct, aval, *, axes: rev(ct, axes),
    batch=_rev_batch,
    lower=rules.rev,
)


def rev(x: Any, axes: Sequence[int]) -> Any:
    """`x` with the order of the elements along `axes` reversed."""
    axes = tuple(axes)
    return bind1(rev_p, x, axes=axes) if axes else x


# ---------------------------------------------------------------------------------------- sum


def _sum_aval(x: Aval, *, axes: Shape, dtype: DType) -> Aval:
    check_axes(axes, x, "sum")
    if x.dtype != dtype and (is_inexact(x.dtype) or not is_integer(dtype)):
        raise DtypeError(f"a sum of {x.dtype} is not of dtype {dtype}", op="sum", operands=[x])
    return Aval(without_axes(x.shape, axes), dtype)


def _sum_impl(x: Any, *, axes: Shape, dtype: DType) -> Any:
    wide = accumulator(dtype)
    return np.asarray(np.sum(x, axis=axes, dtype=wide)).astype(dtype, copy=False)


def _sum_batch(args: Any, dims: Any, *, axes: Shape, dtype: DType) -> tuple[Any, int]:
    wide = shifted(axes, dims[0])
    out = bind1(sum_p, args[0], axes=wide, dtype=dtype)
    return out, dims[0] - sum(a < dims[0] for a in wide)


def _sum_transpose(ct: Any, aval: Aval, *, axes: Shape, dtype: DType) -> Any:
    return broadcast(ct, aval.shape, [k for k in range(aval.ndim) if k not in axes])


sum_p = linear_shape_op(
    "sum",
    family="reduction",
    abstract_eval=_sum_aval,
    impl=_sum_impl,
    transpose=_sum_transpose,
    batch=_sum_batch,
    lower=rules.reduce_sum,
    recompute=Recompute.REDUCTION,
    cost=input_cost,
)


def reduce_sum(x: Any, axes: Sequence[int], dtype: DType | None = None) -> Any:
    """The sum over `axes`, which are dropped; half types accumulate in float32."""
    axes = tuple(sorted(axes))
    aval = aval_of(x)
    if dtype is None:
        dtype = aval.dtype
    if not axes and dtype == aval.dtype:
        return x
    return bind1(sum_p, x, axes=axes, dtype=np.dtype(dtype))
