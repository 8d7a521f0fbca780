"""Order statistics on traced values: quantile, percentile, median, and those without NaN.

Input: NumPy's arguments.  Output: a sort of rows, and elements of it by NumPy's formulas for the
place of a level.  With weights an element stands for its share of their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.dtypes import FLOAT64, is_inexact, real_part_dtype
from stax.errors import ConfigurationError, DtypeError, ShapeError
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
from stax.primitives.cumulative import cumsum
from stax.primitives.indexing import gather
from stax.primitives.shapes import scalar_zero, slice_axis
from stax.primitives.sorting import sort as sort_rows
from stax.primitives.views import broadcast, reduce_sum, reshape, transpose

__all__ = [
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]

Array = Any

# Continuous methods of Hyndman and Fan as (alpha, beta).
_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}


def _place(q: Array, count: Array, method: str) -> Array:
    """The fractional position of the quantile among `count` sorted elements."""
    if method in _CONTINUOUS:
        a, b = _CONTINUOUS[method]
        place = count * q + (a + q * (1 - a - b)) - 1
    elif method == "inverted_cdf":
        place = np.ceil(count * q) - 1
    elif method in ("lower", "higher", "midpoint", "nearest"):
        place = (count - 1) * q
        if method == "lower":
            place = np.floor(place)
        elif method == "higher":
            place = np.ceil(place)
        elif method == "nearest":
            place = np.rint(place)
        else:
            place = 0.5 * (np.floor(place) + np.ceil(place))
    else:
        raise ShapeError(
            f"method {method!r} is not supported on traced values; use one of "
            f"{(*_CONTINUOUS, 'lower', 'higher', 'midpoint', 'nearest', 'inverted_cdf')}",
            op="quantile",
            where=user_source() or None,
        )
    return np.clip(place, 0, count - 1)


def _check_levels(q: Any, top: int, op: str) -> None:
    """Raise for levels that are known and not between 0 and `top`, as NumPy does."""
    known = q.concrete() if isinstance(q, Tracer) else q
    if known is not None and not np.all((np.asarray(known) >= 0) & (np.asarray(known) <= top)):
        kind = "Quantiles" if top == 1 else "Percentiles"
        raise ConfigurationError(
            f"{kind} must be in the range [0, {top}], got {known}",
            op=op,
            where=user_source() or None,
        )


def _hundredths(q: Any, op: str) -> Any:
    if isinstance(q, int | float):
        return float(q) / 100
    return el.div(converted(operand(q, op), FLOAT64), np.float64(100))


def _between(below: Array, above: Array, share: Array, result: Any, method: str, op: str) -> Array:
    """The value at `share` of the way, by NumPy's formulas, which decide about infinities."""
    low, high = converted(below, result), converted(above, result)
    if "median" in op:
        middle = el.div(el.add(low, high), result.type(2))
        return el.select(el.eq(share, scalar_zero(aval_of(share).dtype)), low, middle)
    if method not in _CONTINUOUS and method != "midpoint":
        return low
    step = converted(el.sub(above, below), result)
    upward = el.add(low, el.mul(step, share))
    downward = el.sub(high, el.mul(step, el.sub(result.type(1), share)))
    return el.select(el.ge(share, result.type(0.5)), downward, upward)


def _weights_in_rows(weights: Any, x: Array, axis: Any, axes: Sequence[int], op: str) -> Array:
    """The weights in the shape of `x` with its reduced axes last, as one."""
    w = converted(operand(weights, op), FLOAT64)
    kept = [k for k in range(len(x.shape)) if k not in axes]
    if w.shape != x.shape:
        given = axis if isinstance(axis, tuple | list) else (axis,)
        order = [axis_index(k, len(x.shape), op) for k in given] if axis is not None else []
        if axis is None or w.shape != tuple(x.shape[k] for k in order):
            raise ShapeError(
                "weights have the shape of the array, or of the axes that are given",
                op=op,
                operands=[str(aval_of(x)), str(aval_of(w))],
                where=user_source() or None,
            )
        w = transpose(w, [order.index(k) for k in sorted(axes)])
        w = broadcast(w, x.shape, sorted(axes))
    count = math.prod(x.shape[k] for k in axes)
    return reshape(transpose(w, [*kept, *axes]), [*(x.shape[k] for k in kept), count])


def _weighted(rows: Array, weights: Array, levels: Array, skip_nan: bool) -> tuple[Array, Array]:
    """The first of the sorted elements whose share of the weights reaches each level.

    Returns their positions, of shape (*levels, *rows), and whether there is any weight.
    """
    last = len(rows.shape) - 1
    if skip_nan:
        weights = el.select(el.ne(rows, rows), scalar_zero(FLOAT64), weights)
    running = cumsum(weights, last)
    total = slice_axis(running, last, rows.shape[last] - 1, rows.shape[last])
    share = el.div(running, broadcast_to_shape(total, rows.shape))
    if aval_of(levels).dtype.kind == "f":
        share = converted(share, aval_of(levels).dtype)
    # Elements without weight in front are not reached by level 0 either.
    zero = scalar_zero(aval_of(share).dtype)
    share = el.select(el.eq(share, zero), el.sub(zero, zero.dtype.type(1)), share)
    shape = (*aval_of(levels).shape, *rows.shape)
    level = converted(levels, aval_of(share).dtype)
    level = reshape(level, (*aval_of(levels).shape, *(1,) * len(rows.shape)))
    below = el.lt(broadcast_to_shape(share, shape), broadcast_to_shape(level, shape))
    place = reduce_sum(converted(below, np.dtype(np.int64)), [len(shape) - 1])
    total = reshape(total, rows.shape[:-1])
    some = el.logical_and(el.gt(total, np.float64(0)), el.lt(total, np.float64(np.inf)))
    return el.minimum(place, np.int64(rows.shape[last] - 1)), some


def _quantile(
    a: Array,
    q: Any,
    axis: Any,
    method: str,
    keepdims: Any,
    skip_nan: bool,
    op: str,
    weights: Any = None,
) -> Array:
    if weights is not None and method != "inverted_cdf":
        raise ConfigurationError(
            f"Only method 'inverted_cdf' supports weights. Got: {method}.",
            op=op,
            where=user_source() or None,
        )
    x, where = operand(a, op), operand(q, op)
    if aval_of(x).dtype.kind == "c" and "median" not in op:
        raise DtypeError("a must be an array of real numbers", op=op)
    if aval_of(x).dtype.kind == "b" and "median" not in op:
        raise DtypeError("needs numbers, not truth values", op=op)
    axes = axes_tuple(axis, len(x.shape), op)
    shape = x.shape
    kept = [k for k in range(len(shape)) if k not in axes]
    n = math.prod(shape[k] for k in axes)
    flat = reshape(transpose(x, [*kept, *axes]), [*(shape[k] for k in kept), n])
    between = method in _CONTINUOUS or method == "midpoint"
    if not is_inexact(aval_of(flat).dtype) and (between or not n):
        flat = converted(flat, FLOAT64)
    kind = aval_of(flat).dtype
    # Levels that are an array take part in the type of the result, as in NumPy.
    alone = isinstance(q, float | int) or not between
    result = kind if alone else np.result_type(kind, aval_of(where).dtype)
    given, where = where, converted(where, FLOAT64)
    last = len(kept)
    if n == 0 and (skip_nan or op == "median"):
        flat = np.full((*flat.shape[:-1], 1), np.nan, kind)
        n, weights = 1, None
    if weights is None:
        (rows,) = sort_rows((flat,), last)
    else:
        rows, heavy = sort_rows((flat, _weights_in_rows(weights, x, axis, axes, op)), last)
    levels = aval_of(where).shape
    lead = tuple(rows.shape[:-1])
    full = (*levels, *lead)
    spread = reshape(where, (*levels, *(1,) * len(lead)))
    bad = el.ne(flat, flat)
    if skip_nan:
        valid = reduce_sum(converted(el.logical_not(bad), FLOAT64), [last])
        count: Any = el.maximum(valid, np.float64(1))
    else:
        count = np.float64(n)

    def picked(index: Array) -> Array:
        grid = [broadcast(np.arange(m), full, (len(levels) + k,)) for k, m in enumerate(lead)]
        return gather(rows, [*grid, index], range(last + 1), "promise")

    missing = np.asarray(np.nan if is_inexact(result) else 0).astype(result)[()]
    if weights is None:
        place = broadcast_to_shape(_place(spread, count, method), full)
        low = el.floor(place)
        share = converted(el.sub(place, low), real_part_dtype(result)) if between else low
        first = converted(low, np.dtype(np.int64))
        second = el.minimum(el.add(first, np.int64(1)), np.int64(max(n - 1, 0)))
        value = _between(picked(first), picked(second), share, result, method, op)
    else:
        first, some = _weighted(rows, heavy, given, skip_nan)
        value = el.select(broadcast_to_shape(some, full), converted(picked(first), result), missing)
    if skip_nan:
        none = broadcast_to_shape(el.eq(valid, np.float64(0)), full)
        value = el.select(none, missing, value)
    else:
        tail = reshape(slice_axis(rows, last, n - 1, n), lead) if n else None
        if tail is not None:
            # Of complex numbers the one that is no number is the result, as it is.
            nan = missing if result.kind != "c" else broadcast_to_shape(tail, full)
            value = el.select(broadcast_to_shape(el.ne(tail, tail), full), nan, value)
    if keepdims is not NoValue and keepdims:
        value = reshape(value, (*levels, *(1 if k in axes else m for k, m in enumerate(shape))))
    return value


def _at_levels(function: Callable[..., Any], elements: str) -> Callable[..., Array]:
    """The traced version of one of NumPy's functions of levels: its name says which."""
    op = function.__name__
    skip_nan, hundredths = op.startswith("nan"), op.endswith("percentile")

    def public(
        a: Array,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Array:
        _check_levels(q, 100 if hundredths else 1, op)
        levels = _hundredths(q, op) if hundredths else q
        value = _quantile(a, levels, axis, method, keepdims, skip_nan, op, weights)
        return deliver(value, out, op)

    public.__name__ = public.__qualname__ = op
    kind = "Percentiles" if hundredths else "Quantiles"
    public.__doc__ = f"{kind} {elements}; as `numpy.{op}`."
    return implements(function)(public)


quantile = _at_levels(np.quantile, "by sorting")
percentile = _at_levels(np.percentile, "by sorting")
nanquantile = _at_levels(np.nanquantile, "of the elements that are not NaN")
nanpercentile = _at_levels(np.nanpercentile, "of the elements that are not NaN")


def _from_zero(value: Array) -> Array:
    """A sum that starts from 0.0, as NumPy's of the elements in the middle."""
    return el.add(value, scalar_zero(aval_of(value).dtype))


@implements(np.median)
def median(
    a: Array,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: Any = False,
) -> Array:
    """The middle element, or the mean of the two in the middle; as `numpy.median`."""
    value = _from_zero(_quantile(a, np.float64(0.5), axis, "linear", keepdims, False, "median"))
    return deliver(value, out, "median")


@implements(np.nanmedian)
def nanmedian(
    a: Array,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: Any = False,
) -> Array:
    """The median of the elements that are not NaN; as `numpy.nanmedian`."""
    value = _from_zero(_quantile(a, np.float64(0.5), axis, "linear", keepdims, True, "nanmedian"))
    return deliver(value, out, "nanmedian")
