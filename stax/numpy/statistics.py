"""NumPy's statistics on traced values: mean, var, std, average, cov, ...

Input: NumPy's arguments.  Output: compositions of reductions.  Variance is computed in two
passes; half types accumulate in float32; the gradient of std is zero where the variance is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import FLOAT64, DType, accumulator, is_inexact, real_part_dtype
from stax.errors import ShapeError
from stax.numpy.products import conjugated, matmul
from stax.numpy.promotion import as_dtype, asarray_dtype, coerce
from stax.numpy.reductions import masked, restored, truth, without_nan
from stax.numpy.registration import (
    NoValue,
    axes_tuple,
    axis_index,
    broadcast_to_shape,
    converted,
    deliver,
    implements,
    operand,
)
from stax.primitives import elementwise as el
from stax.primitives.indexing import gather
from stax.primitives.reductions import expanded
from stax.primitives.shapes import concatenate, scalar_zero, slice_axis
from stax.primitives.views import broadcast, reduce_sum, reshape, transpose

__all__ = [
    "average",
    "corrcoef",
    "cov",
    "mean",
    "nanmean",
    "nanstd",
    "nanvar",
    "std",
    "trapezoid",
    "var",
]

Array = Any


def _given(where: Any) -> bool:
    return where is not True and where is not NoValue and where is not None


def _mean_dtypes(x: Array, dtype: Any) -> tuple[DType, DType]:
    """The dtype of the result and the one the sum is carried in."""
    kind = aval_of(x).dtype
    result = asarray_dtype(dtype) if dtype is not None else (kind if is_inexact(kind) else FLOAT64)
    return result, accumulator(result)


def _count(x: Array, axes: Sequence[int], where: Any, dtype: DType, op: str) -> Any:
    """How many elements are averaged: a scalar, or an array when a mask decides."""
    if not _given(where):
        return dtype.type(math.prod(x.shape[k] for k in axes))
    mask = broadcast_to_shape(truth(operand(where, op)), x.shape)
    return reduce_sum(converted(mask, dtype), axes)


def _mean(x: Array, axes: Sequence[int], where: Any, wide: DType, op: str) -> Array:
    total = reduce_sum(masked(converted(x, wide), where, 0, op), axes)
    return (
        el.div(total, _count(x, axes, where, real_part_dtype(wide), op))
        if wide.kind != "c"
        else (el.div(total, converted(_count(x, axes, where, real_part_dtype(wide), op), wide)))
    )


@implements(np.mean, halves=True)
def mean(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Array:
    """Arithmetic mean over `axis`; as `numpy.mean`."""
    x = operand(a, "mean")
    axes = axes_tuple(axis, len(x.shape), "mean")
    result, wide = _mean_dtypes(x, dtype)
    value = converted(_mean(x, axes, where, wide, "mean"), result)
    return deliver(restored(value, x.shape, axes, keepdims), out, "mean")


def _variance(
    a: Array, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, given_mean: Any, op: str
) -> tuple[Array, DType]:
    """The variance in the dtype it is carried in, and the dtype of the result."""
    x = operand(a, op)
    axes = axes_tuple(axis, len(x.shape), op)
    result, wide = _mean_dtypes(x, dtype)
    x = converted(x, wide)
    if given_mean is NoValue or given_mean is None:
        center = expanded(_mean(x, axes, where, wide, op), axes, x)
    else:
        center = broadcast_to_shape(converted(operand(given_mean, op), wide), x.shape)
    # Masked before it is squared: the derivative of a square reads it, and may not meet a NaN.
    away = masked(el.sub(x, center), where, 0, op)
    if wide.kind == "c":
        square = el.add(el.square(el.real(away)), el.square(el.imag(away)))
    else:
        square = el.square(away)
    real = real_part_dtype(wide)
    total = reduce_sum(square, axes)
    count = _count(x, axes, where, real, op)
    if _given(where):
        freedom = el.maximum(el.sub(count, real.type(ddof)), real.type(0))
    else:
        freedom = real.type(max(float(count) - ddof, 0))
    value = el.div(total, freedom)
    return restored(value, x.shape, axes, keepdims), real_part_dtype(result)


def _freedom(ddof: Any, correction: Any) -> Any:
    return ddof if correction is NoValue or correction is None else correction


@implements(np.var, halves=True)
def var(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    """Variance over `axis`, in two passes; as `numpy.var`."""
    freedom = _freedom(ddof, correction)
    value, kind = _variance(a, axis, dtype, freedom, keepdims, where, mean, "var")
    return deliver(converted(value, kind), out, "var")


@implements(np.std, halves=True)
def std(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    """Standard deviation over `axis`, with gradient zero where it is zero; as `numpy.std`."""
    freedom = _freedom(ddof, correction)
    value, kind = _variance(a, axis, dtype, freedom, keepdims, where, mean, "std")
    return deliver(converted(guarded_sqrt(value), kind), out, "std")


def guarded_sqrt(x: Array) -> Array:
    """The square root, whose derivative at zero is taken to be zero."""
    dtype = aval_of(x).dtype
    zero = el.eq(x, scalar_zero(dtype))
    root = np.sqrt(el.select(zero, dtype.type(1), x))
    return el.select(zero, scalar_zero(dtype), root)


@implements(np.average)
def average(
    a: Array,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: Any = False,
) -> Any:
    """Weighted mean; as `numpy.average`."""
    x = operand(a, "average")
    axes = axes_tuple(axis, len(x.shape), "average")
    if weights is None:
        value = mean(x, axis, keepdims=keepdims)
        count = aval_of(x).size // max(1, aval_of(value).size)
        scale = broadcast_to_shape(value.dtype.type(count), aval_of(value).shape)
        return (value, scale) if returned else value
    w = operand(weights, "average")
    if not is_inexact(aval_of(x).dtype):
        x = converted(x, FLOAT64)
    x, w = coerce(x, w)
    if w.shape != x.shape:
        if axis is None or len(w.shape) != len(axes):
            raise ShapeError(
                "shape of weights must be consistent with shape of a along specified axis",
                op="average",
                where=user_source() or None,
            )
        w = broadcast(w, x.shape, axes)
    scale = reduce_sum(w, axes)
    value = el.div(reduce_sum(el.mul(x, w), axes), scale)
    value = restored(value, x.shape, axes, keepdims)
    scale = restored(scale, x.shape, axes, keepdims)
    return (value, scale) if returned else value


# --------------------------------------------------------------------------- NaN-ignoring moments


def _valid(a: Array, where: Any, op: str) -> tuple[Array, Any]:
    x, bad = without_nan(a, 0, op)
    if bad is None:
        return x, where
    good = el.logical_not(bad)
    if _given(where):
        good = el.logical_and(good, broadcast_to_shape(truth(operand(where, op)), x.shape))
    return x, good


@implements(np.nanmean)
def nanmean(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Array:
    """Mean of the elements that are not NaN; as `numpy.nanmean`."""
    x, good = _valid(a, where, "nanmean")
    return mean(x, axis, dtype, out, keepdims, where=good)


@implements(np.nanvar)
def nanvar(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    """Variance of the elements that are not NaN; as `numpy.nanvar`."""
    x, good = _valid(a, where, "nanvar")
    return var(x, axis, dtype, out, _freedom(ddof, correction), keepdims, where=good, mean=mean)


@implements(np.nanstd)
def nanstd(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    """Standard deviation of the elements that are not NaN; as `numpy.nanstd`."""
    x, good = _valid(a, where, "nanstd")
    return std(x, axis, dtype, out, _freedom(ddof, correction), keepdims, where=good, mean=mean)


# ---------------------------------------------------------------------------------- covariance


@implements(np.cov)
def cov(
    m: Array,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Array:
    """The covariance matrix of variables in rows; as `numpy.cov`."""
    x = operand(m, "cov")
    if len(x.shape) > 2:
        raise ShapeError("m has more than 2 dimensions", op="cov", where=user_source() or None)
    rows = _variables(x, rowvar)
    if y is not None:
        other = _variables(operand(y, "cov"), rowvar)
        rows, other = coerce(rows, other)
        rows = concatenate([rows, other], 0)
    wide = np.result_type(aval_of(rows).dtype, FLOAT64)
    rows = converted(rows, wide if dtype is None else asarray_dtype(dtype))
    kind = rows.dtype
    n = rows.shape[1]
    freedom = (0 if bias else 1) if ddof is None else operator.index(ddof)
    weights: Any = None
    for w in (fweights, aweights):
        if w is not None:
            w = as_dtype(operand(w, "cov"), kind)
            weights = w if weights is None else el.mul(weights, w)
    if weights is None:
        center = el.div(reduce_sum(rows, [1]), kind.type(n))
        away = el.sub(rows, reshape(center, (rows.shape[0], 1)))
        weighted, factor = away, kind.type(max(n - freedom, 0))
    else:
        total = reduce_sum(weights, [0])
        center = el.div(reduce_sum(el.mul(rows, weights), [1]), total)
        away = el.sub(rows, reshape(center, (rows.shape[0], 1)))
        weighted = el.mul(away, weights)
        if freedom == 0:
            factor = total
        elif aweights is None:
            factor = el.sub(total, kind.type(freedom))
        else:
            aw = as_dtype(operand(aweights, "cov"), kind)
            twice = reduce_sum(el.mul(weights, aw), [0])
            factor = el.sub(total, el.div(el.mul(kind.type(freedom), twice), total))
    value = el.div(matmul(weighted, conjugated(transpose(away, (1, 0)))), factor)
    return reshape(value, [k for k in value.shape if k != 1])


def _variables(x: Array, rowvar: bool) -> Array:
    if len(x.shape) < 2:
        return reshape(x, (1, aval_of(x).size))
    return x if rowvar or x.shape[0] == 1 else transpose(x, (1, 0))


@implements(np.corrcoef)
def corrcoef(x: Array, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """Correlation coefficients of variables in rows; as `numpy.corrcoef`."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return el.div(c, c)
    n = c.shape[0]
    place = np.arange(n)
    scale = np.sqrt(gather(c, [place, place], [0, 1], "promise"))
    scaled = el.div(el.div(c, reshape(scale, (n, 1))), reshape(scale, (1, n)))
    return el.clamp(c.dtype.type(-1), scaled, c.dtype.type(1)) if c.dtype.kind != "c" else scaled


@implements(np.trapezoid)
def trapezoid(y: Array, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral by the trapezoidal rule along `axis`; as `numpy.trapezoid`."""
    v = operand(y, "trapezoid")
    k = axis_index(axis, len(v.shape), "trapezoid")
    n = v.shape[k]
    inner = max(n - 1, 0)
    both = slice_axis(v, k, n - inner, n) + slice_axis(v, k, 0, inner)
    if x is None:
        width: Any = dx
    else:
        p = operand(x, "trapezoid")
        d = k if len(p.shape) == len(v.shape) else 0
        width = slice_axis(p, d, n - inner, n) - slice_axis(p, d, 0, inner)
        if len(p.shape) == 1 and len(v.shape) > 1:
            width = reshape(width, [inner if j == k else 1 for j in range(len(v.shape))])
    return reduce_sum(width * both / 2.0, [k])
