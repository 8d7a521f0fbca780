"""Shape primitives that cut and join: slice, pad, concatenate, iota.

Input: values and static parameters.  Output: rows that move elements without computing on them,
each beside the Python function that binds it.  A slice transposes to a pad and a pad to a slice;
a concatenation to its slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    NONLINEAR,
    ZERO_DERIVATIVE,
    Linear,
    Primitive,
    Recompute,
    Zero,
)
from stax.core.trace import bind1
from stax.dtypes import DType
from stax.errors import DtypeError, ShapeError
from stax.loops import rules
from stax.primitives.elementwise import select, sub
from stax.primitives.families_arrays import (
    batch_size,
    check_axes,
    checked,
    linear_shape_op,
    no_cost,
)
from stax.primitives.views import Shape, batched_front, broadcast, reduce_sum


def scalar_zero(dtype: DType) -> Any:
    """The zero of `dtype` as a NumPy scalar, which is written in place in the IR."""
    return np.zeros((), dtype)[()]


def zeros(shape: Sequence[int], dtype: DType) -> Any:
    """An array of zeros that exists only in the IR: one literal, repeated."""
    return broadcast(scalar_zero(dtype), shape)


def instantiate(value: Any) -> Any:
    """`value`, or the zeros a structural zero stands for."""
    return zeros(value.aval.shape, value.aval.dtype) if isinstance(value, Zero) else value


# ---------------------------------------------------------------------------------- slice


def slice_extent(start: int, limit: int, stride: int) -> int:
    """Number of elements from start to limit in steps of stride."""
    return max(0, -((start - limit) // stride))


def _slice_aval(x: Aval, *, start: Shape, limit: Shape, strides: Shape) -> Aval:
    if not len(start) == len(limit) == len(strides) == x.ndim:
        raise ShapeError(
            f"start {start}, limit {limit}, strides {strides} need {x.ndim} entries",
            op="slice",
            operands=[x],
        )
    for n, a, b, s in zip(x.shape, start, limit, strides, strict=True):
        if not 0 <= a <= b <= n or s < 1:
            raise ShapeError(
                f"[{a}:{b}:{s}] is outside an axis of extent {n}", op="slice", operands=[x]
            )
    return x.update(
        shape=tuple(slice_extent(a, b, s) for a, b, s in zip(start, limit, strides, strict=True))
    )


def _slice_impl(x: Any, *, start: Shape, limit: Shape, strides: Shape) -> Any:
    return x[tuple(slice(a, b, s) for a, b, s in zip(start, limit, strides, strict=True))]


def _slice_transpose(ct: Any, aval: Aval, *, start: Shape, limit: Shape, strides: Shape) -> Any:
    high = [
        n - (a + max(0, (m - 1) * s + 1 if m else 0))
        for n, a, m, s in zip(aval.shape, start, ct.shape, strides, strict=True)
    ]
    return pad(ct, scalar_zero(aval.dtype), start, high, [s - 1 for s in strides])


def _slice_batch(
    args: Any, dims: Any, *, start: Shape, limit: Shape, strides: Shape
) -> tuple[Any, int]:
    dim, x = dims[0], args[0]

    def widened(values: Shape, extra: int) -> list[int]:
        return [*values[:dim], extra, *values[dim:]]

    n = x.shape[dim]
    return strided_slice(x, widened(start, 0), widened(limit, n), widened(strides, 1)), dim


slice_p = linear_shape_op(
    "slice",
    abstract_eval=_slice_aval,
    impl=checked("slice", _slice_aval, _slice_impl),
    transpose=_slice_transpose,
    batch=_slice_batch,
    lower=rules.strided_slice,
)


def strided_slice(
    x: Any, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """`x[start:limit:strides]` on every axis; 0 <= start <= limit <= extent, strides >= 1."""
    shape = aval_of(x).shape
    strides = (1,) * len(shape) if strides is None else tuple(strides)
    start, limit = tuple(start), tuple(limit)
    if limit == shape and not any(start) and all(s == 1 for s in strides):
        return x
    return bind1(slice_p, x, start=start, limit=limit, strides=strides)


def slice_axis(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """`x[start:limit:stride]` on one axis."""
    shape = aval_of(x).shape
    low, high, step = [0] * len(shape), list(shape), [1] * len(shape)
    low[axis], high[axis], step[axis] = start, limit, stride
    return strided_slice(x, low, high, step)


# ---------------------------------------------------------------------------------------- pad


def _pad_aval(x: Aval, value: Aval, *, low: Shape, high: Shape, interior: Shape) -> Aval:
    if value.shape != ():
        raise ShapeError("the padding value must be a scalar", op="pad", operands=[x, value])
    if value.dtype != x.dtype:
        raise DtypeError("the padding value needs the array's dtype", op="pad", operands=[x, value])
    shape = []
    for n, a, b, i in zip(x.shape, low, high, interior, strict=True):
        m = a + b + n + max(0, n - 1) * i
        if m < 0 or i < 0:
            raise ShapeError(
                f"padding ({a}, {b}, interior {i}) leaves a negative extent of axis of {n}",
                op="pad",
                operands=[x],
            )
        shape.append(m)
    return x.update(shape=tuple(shape))


def _pad_impl(x: Any, value: Any, *, low: Shape, high: Shape, interior: Shape) -> Any:
    x = np.asarray(x)
    full = [
        max(0, a) + max(0, b) + n + max(0, n - 1) * i
        for n, a, b, i in zip(x.shape, low, high, interior, strict=True)
    ]
    left = [m - max(0, -a) - max(0, -b) for m, a, b in zip(full, low, high, strict=True)]
    if min((*left, *interior), default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    out = np.full(full, value, x.dtype)
    inside = tuple(
        slice(max(0, a), max(0, a) + n + max(0, n - 1) * i, i + 1)
        for n, a, i in zip(x.shape, low, interior, strict=True)
    )
    out[inside] = x
    return out[
        tuple(slice(max(0, -a), m - max(0, -b)) for m, a, b in zip(full, low, high, strict=True))
    ]


def _pad_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    x, value = (instantiate(t) for t in tangents)
    return bind1(pad_p, x, value, **params)


def _pad_transpose(
    ct: Any, x: Any, value: Any, *, low: Shape, high: Shape, interior: Shape
) -> tuple[Any, Any]:
    if isinstance(ct, Zero):
        return tuple(Zero(a.aval) if isinstance(a, Linear) else None for a in (x, value))  # type: ignore[return-value]  # a pair
    shape = x.aval.shape if isinstance(x, Linear) else aval_of(x).shape
    inner = pad(ct, scalar_zero(ct.dtype), [-a for a in low], [-b for b in high])
    inner = strided_slice(inner, (0,) * len(shape), inner.shape, [i + 1 for i in interior])
    to_x = inner if isinstance(x, Linear) else None
    to_value = None
    if isinstance(value, Linear):
        kept = pad(inner, scalar_zero(ct.dtype), low, high, interior)
        to_value = sub(reduce_sum_all(ct), reduce_sum_all(kept))
    return to_x, to_value


def reduce_sum_all(x: Any) -> Any:
    """Sum of all elements."""
    return reduce_sum(x, range(len(x.shape)))


def _pad_batch(
    args: Any, dims: Any, *, low: Shape, high: Shape, interior: Shape
) -> tuple[Any, int]:
    size = batch_size(args, dims)
    x = batched_front(args[0], dims[0], size)
    wide = {"low": (0, *low), "high": (0, *high), "interior": (0, *interior)}
    if dims[1] is None:
        return bind1(pad_p, x, args[1], **wide), 0
    value = broadcast(args[1], (size, *([1] * (len(x.shape) - 1))), (0,))
    mask = pad(broadcast(np.True_, x.shape), np.False_, **wide)
    padded = pad(x, scalar_zero(x.dtype), **wide)
    return select(mask, padded, broadcast(value, padded.shape)), 0


pad_p = Primitive(
    "pad",
    family="view",
    abstract_eval=_pad_aval,
    impl=_pad_impl,
    jvp=_pad_jvp,
    transpose=_pad_transpose,
    batch=_pad_batch,
    lower=rules.pad,
    cost=no_cost,
    recompute=Recompute.CHEAP,
)


def pad(
    x: Any,
    value: Any,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Any:
    """`x` with `value` before, after and between its elements; negative counts remove elements."""
    low, high = tuple(low), tuple(high)
    interior = (0,) * len(low) if interior is None else tuple(interior)
    if not any(low) and not any(high) and not any(interior):
        return x
    return bind1(pad_p, x, value, low=low, high=high, interior=interior)


# -------------------------------------------------------------------------------- concatenate


def _concatenate_aval(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    check_axes((axis,), first, "concatenate")
    extent = 0
    for k, x in enumerate(xs):
        if x.dtype != first.dtype:
            raise DtypeError(
                f"operand {k} is {x.dtype}, operand 0 is {first.dtype}",
                op="concatenate",
                operands=xs,
            )
        if x.ndim != first.ndim or any(
            a != b for d, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if d != axis
        ):
            raise ShapeError(
                f"all dimensions except axis {axis} must match; operand {k} is {x.shape}, "
                f"operand 0 is {first.shape}",
                op="concatenate",
                operands=xs,
            )
        extent += x.shape[axis]
    return first.update(shape=(*first.shape[:axis], extent, *first.shape[axis + 1 :]))


def _concatenate_jvp(primals: Any, outs: Any, tangents: Any, *, axis: int) -> Any:
    return concatenate([instantiate(t) for t in tangents], axis)


def _concatenate_transpose(ct: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    if isinstance(ct, Zero):
        return tuple(Zero(x.aval) if isinstance(x, Linear) else None for x in xs)
    out: list[Any] = []
    at = 0
    for x in xs:
        n = x.aval.shape[axis] if isinstance(x, Linear) else aval_of(x).shape[axis]
        out.append(slice_axis(ct, axis, at, at + n) if isinstance(x, Linear) else None)
        at += n
    return tuple(out)


def _concatenate_batch(args: Any, dims: Any, *, axis: int) -> tuple[Any, int]:
    size = batch_size(args, dims)
    wide = [batched_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    return concatenate(wide, axis + 1), 0


concatenate_p = Primitive(
    "concatenate",
    family="view",
    abstract_eval=_concatenate_aval,
    impl=lambda *xs, axis: np.concatenate(xs, axis),
    jvp=_concatenate_jvp,
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    lower=rules.concatenate,
    cost=no_cost,
    recompute=Recompute.CHEAP,
)


def concatenate(xs: Sequence[Any], axis: int) -> Any:
    """The arrays `xs`, of one dtype, one after the other along `axis`."""
    return xs[0] if len(xs) == 1 else bind1(concatenate_p, *xs, axis=axis)


# --------------------------------------------------------------------------------------- iota


def _iota_aval(*, shape: Shape, dimension: int, dtype: DType) -> Aval:
    if not 0 <= dimension < len(shape):
        raise ShapeError(f"dimension {dimension} is outside shape {shape}", op="iota")
    return Aval(shape, dtype)


def _iota_impl(*, shape: Shape, dimension: int, dtype: DType) -> Any:
    spread = [1] * len(shape)
    spread[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(spread), shape)


def _iota_batch(args: Any, dims: Any, **params: Any) -> tuple[Any, None]:
    return bind1(iota_p, **params), None


iota_p = Primitive(
    "iota",
    family="creation",
    abstract_eval=_iota_aval,
    impl=_iota_impl,
    jvp=ZERO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=_iota_batch,
    lower=rules.iota,
    cost=no_cost,
    recompute=Recompute.VIEW,
)


def iota(shape: Sequence[int], dimension: int = 0, dtype: Any = np.int64) -> Any:
    """The array whose element at index i is i[dimension]."""
    return bind1(iota_p, shape=tuple(shape), dimension=dimension, dtype=np.dtype(dtype))
