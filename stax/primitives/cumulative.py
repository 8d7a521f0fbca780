"""Cumulative primitives along one axis: cumsum, cumprod, cummax, cummin, cumlogsumexp, and the
first-order linear recurrence that is the derivative of the nonlinear ones.

Input: a value, the axis and the direction.  Output: rows beside the functions that bind them.
`linear_recurrence(a, b)` solves h[i] = a[i] * h[i-1] + b[i]: it is linear in `b`, and its
transpose is a recurrence in the other direction.  The tangent of cumprod is one with a = x and
b = out[i-1] * t[i], which needs no division and so is right where factors are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    FALLBACK,
    NONLINEAR,
    Primitive,
    Recompute,
    Rule,
    Sentinel,
    Zero,
)
from stax.core.trace import bind1
from stax.dtypes import DType, accumulator, is_complex, is_float, is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.loops import rules
from stax.primitives.elementwise import add, eq, logical_and, maximum, minimum, mul, select, sub
from stax.primitives.families import literal
from stax.primitives.families_arrays import batch_size, check_axes, checked, input_cost, shifted
from stax.primitives.indexing import gather
from stax.primitives.shapes import concatenate, iota, slice_axis
from stax.primitives.transcendental import exp
from stax.primitives.views import batched_front, broadcast


def delayed(x: Any, axis: int, reverse: bool, first: Any) -> Any:
    """`x` shifted by one along the direction of travel, `first` entering."""
    n = x.shape[axis]
    if n == 0:
        return x
    one = [1 if k == axis else m for k, m in enumerate(x.shape)]
    entering = broadcast(np.asarray(first, x.dtype)[()], one)
    if reverse:
        return concatenate([slice_axis(x, axis, 1, n), entering], axis)
    return concatenate([entering, slice_axis(x, axis, 0, n - 1)], axis)


def _accumulated(function: Callable[..., Any], x: Any, axis: int, reverse: bool) -> Any:
    if reverse:
        return np.flip(function(np.flip(x, axis), axis), axis)
    return function(x, axis)


def _cumulative_batch(row: Callable[[], Primitive]) -> Rule:
    def batch(args: Any, dims: Any, *, axis: int, **params: Any) -> tuple[Any, int]:
        (wide,) = shifted((axis,), dims[0])
        return bind1(row(), args[0], axis=wide, **params), dims[0]

    return batch


def _cumulative(
    name: str,
    *,
    impl: Rule,
    jvp: Rule,
    transpose: Rule | Sentinel = NONLINEAR,
    accepts: Callable[[DType], bool] = lambda dtype: True,
    lower: Rule | Sentinel = FALLBACK,
) -> Primitive:
    def abstract_eval(x: Aval, *, axis: int, reverse: bool, **params: Any) -> Aval:
        check_axes((axis,), x, name)
        dtype = params.get("dtype", x.dtype)
        if not accepts(x.dtype):
            raise DtypeError(f"does not take {x.dtype}", op=name, operands=[x])
        if dtype != x.dtype and (is_inexact(x.dtype) or not is_integer(dtype)):
            raise DtypeError(f"{name} of {x.dtype} is not of dtype {dtype}", op=name, operands=[x])
        return x.update(dtype=dtype)

    row: Primitive = Primitive(
        name,
        family="scan",
        abstract_eval=abstract_eval,
        impl=checked(name, abstract_eval, impl),
        jvp=jvp,
        transpose=transpose,
        batch=_cumulative_batch(lambda: row),
        lower=lower,
        cost=input_cost,
        recompute=Recompute.EXPENSIVE,
    )
    return row


# ------------------------------------------------------------------------------------- cumsum


def _not_bool(dtype: DType) -> bool:
    return dtype.kind != "b"


def _cumsum_impl(x: Any, *, axis: int, reverse: bool, dtype: DType) -> Any:
    wide = accumulator(dtype)
    out = _accumulated(lambda v, k: np.cumsum(v, axis=k, dtype=wide), x, axis, reverse)
    return out.astype(dtype, copy=False)


def _cumsum_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    return bind1(cumsum_p, tangents[0], **params)


def _cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool, dtype: DType) -> tuple[Any]:
    if isinstance(ct, Zero):
        return (Zero(x.aval),)
    return (cumsum(ct, axis, not reverse),)


cumsum_p = _cumulative(
    "cumsum",
    accepts=_not_bool,
    impl=_cumsum_impl,
    jvp=_cumsum_jvp,
    transpose=_cumsum_transpose,
    lower=rules.scan("sum"),
)


def cumsum(x: Any, axis: int, reverse: bool = False, dtype: DType | None = None) -> Any:
    """Running sums along `axis` (from the end when `reverse`)."""
    dtype = aval_of(x).dtype if dtype is None else np.dtype(dtype)
    return bind1(cumsum_p, x, axis=axis, reverse=bool(reverse), dtype=dtype)


# -------------------------------------------------------------------------- linear recurrence


def _recurrence_aval(a: Aval, b: Aval, *, axis: int, reverse: bool) -> Aval:
    check_axes((axis,), b, "linear_recurrence")
    if a.shape != b.shape:
        raise ShapeError("needs operands of one shape", op="linear_recurrence", operands=[a, b])
    if a.dtype != b.dtype or not is_inexact(a.dtype):
        raise DtypeError(
            "needs operands of one floating dtype", op="linear_recurrence", operands=[a, b]
        )
    return b.strong()


def _recurrence_impl(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    wide = accumulator(b.dtype)
    a = np.moveaxis(a, axis, 0).astype(wide, copy=False)
    b = np.moveaxis(b, axis, 0).astype(wide, copy=False)
    if reverse:
        a, b = a[::-1], b[::-1]
    out = None
    if len(b) > 256 and b.size < 64 * len(b):
        out = _doubled(a, b)
    if out is None or not np.isfinite(out).all():
        out = np.empty_like(b)
        state = np.zeros(b.shape[1:], wide)
        for k in range(len(b)):
            state = a[k] * state + b[k]
            out[k] = state
    return np.moveaxis(out[::-1] if reverse else out, 0, axis)


def _doubled(a: Any, b: Any) -> Any:
    """The recurrence along axis 0 in log2(n) vectorised rounds, for long and narrow arrays."""
    factor, state = a.copy(), b.copy()
    step = 1
    with np.errstate(all="ignore"):
        while step < len(b):
            state[step:] += factor[step:] * state[:-step].copy()
            factor[step:] *= factor[:-step].copy()
            step *= 2
    return state


def _recurrence_jvp(primals: Any, outs: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
    (a, _), out, (ta, tb) = primals, outs, tangents
    force = None if isinstance(tb, Zero) else tb
    if not isinstance(ta, Zero):
        pushed = mul(delayed(out, axis, reverse, 0), ta)
        force = pushed if force is None else add(pushed, force)
    return linear_recurrence(a, force, axis, reverse)


def _recurrence_transpose(ct: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> tuple[None, Any]:
    if isinstance(ct, Zero):
        return None, Zero(b.aval)
    return None, linear_recurrence(delayed(a, axis, not reverse, 0), ct, axis, not reverse)


def _recurrence_batch(args: Any, dims: Any, *, axis: int, reverse: bool) -> tuple[Any, int]:
    size = batch_size(args, dims)
    a, b = (batched_front(x, d, size) for x, d in zip(args, dims, strict=True))
    return linear_recurrence(a, b, axis + 1, reverse), 0


def _recurrence_cost(in_avals: Any, out_avals: Any, params: Any) -> int:
    return 2 * int(out_avals[0].size)


linear_recurrence_p = Primitive(
    "linear_recurrence",
    family="scan",
    abstract_eval=_recurrence_aval,
    impl=lambda a, b, **params: _recurrence_impl(a, b, **params).astype(b.dtype, copy=False),
    jvp=_recurrence_jvp,
    transpose=_recurrence_transpose,
    batch=_recurrence_batch,
    lower=rules.linear_recurrence,
    cost=_recurrence_cost,
    recompute=Recompute.EXPENSIVE,
)


def linear_recurrence(a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
    """The h with h[i] = a[i] * h[i-1] + b[i] along `axis`, starting from zero."""
    return bind1(linear_recurrence_p, a, b, axis=axis, reverse=bool(reverse))


# ------------------------------------------------------------------------------------ cumprod


def _cumprod_impl(x: Any, *, axis: int, reverse: bool, dtype: DType) -> Any:
    wide = accumulator(dtype)
    out = _accumulated(lambda v, k: np.cumprod(v, axis=k, dtype=wide), x, axis, reverse)
    return out.astype(dtype, copy=False)


def _cumprod_jvp(
    primals: Any, outs: Any, tangents: Any, *, axis: int, reverse: bool, dtype: DType
) -> Any:
    (x,), out, (t,) = primals, outs, tangents
    return linear_recurrence(x, mul(delayed(out, axis, reverse, 1), t), axis, reverse)


cumprod_p = _cumulative(
    "cumprod", accepts=_not_bool, impl=_cumprod_impl, jvp=_cumprod_jvp, lower=rules.scan("prod")
)


def cumprod(x: Any, axis: int, reverse: bool = False, dtype: DType | None = None) -> Any:
    """Running products along `axis` (from the end when `reverse`)."""
    dtype = aval_of(x).dtype if dtype is None else np.dtype(dtype)
    return bind1(cumprod_p, x, axis=axis, reverse=bool(reverse), dtype=dtype)


# ----------------------------------------------------------------------------- cummax, cummin


def _cumulative_extremum_jvp(
    primals: Any, outs: Any, tangents: Any, *, axis: int, reverse: bool
) -> Any:
    # Each result is one element of x: the last one so far that equals the running extremum.
    (x,), out, (t,) = primals, outs, tangents
    place = iota(x.shape, axis)
    if reverse:
        place = sub(np.int64(x.shape[axis] - 1), place)
    fresh = select(eq(x, out), place, np.int64(0))
    source = cummax(fresh, axis, reverse)
    if reverse:
        source = sub(np.int64(x.shape[axis] - 1), source)
    index = [source if k == axis else iota(x.shape, k) for k in range(len(x.shape))]
    return gather(t, index, tuple(range(len(x.shape))), mode="promise")


def _extremum_impl(function: np.ufunc) -> Rule:
    def impl(x: Any, *, axis: int, reverse: bool) -> Any:
        return _accumulated(lambda v, k: function.accumulate(v, axis=k), x, axis, reverse)

    return impl


cummax_p = _cumulative(
    "cummax",
    impl=_extremum_impl(np.maximum),
    jvp=_cumulative_extremum_jvp,
    lower=rules.scan("max"),
    accepts=lambda dtype: not is_complex(dtype),
)
cummin_p = _cumulative(
    "cummin",
    impl=_extremum_impl(np.minimum),
    jvp=_cumulative_extremum_jvp,
    lower=rules.scan("min"),
    accepts=lambda dtype: not is_complex(dtype),
)


def cummax(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running maxima along `axis`."""
    return bind1(cummax_p, x, axis=axis, reverse=bool(reverse))


def cummin(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running minima along `axis`."""
    return bind1(cummin_p, x, axis=axis, reverse=bool(reverse))


# ------------------------------------------------------------------------------- cumlogsumexp


def _cumlogsumexp_impl(x: Any, *, axis: int, reverse: bool) -> Any:
    wide = x.astype(accumulator(x.dtype), copy=False)
    with np.errstate(all="ignore"):
        out = _accumulated(lambda v, k: np.logaddexp.accumulate(v, axis=k), wide, axis, reverse)
    return out.astype(x.dtype, copy=False)


def _cumlogsumexp_jvp(primals: Any, outs: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
    (x,), out, (t,) = primals, outs, tangents
    # Infinite results (all -inf, or an inf) are replaced in the differences, so exp sees no NaN.
    low = least_finite(x.dtype)
    safe = minimum(maximum(out, low), -low)
    before = delayed(safe, axis, reverse, low)
    decay, own = exp(sub(before, safe)), exp(sub(minimum(x, -low), safe))
    # An infinity that meets another shares with it, as in a chain of logaddexp.
    infinity = literal(np.inf, x)
    met = logical_and(eq(x, infinity), eq(delayed(out, axis, reverse, low), infinity))
    half = literal(0.5, x)
    decay, own = select(met, half, decay), select(met, half, own)
    return linear_recurrence(decay, mul(own, t), axis, reverse)


def least_finite(dtype: DType) -> Any:
    """The most negative finite number of a floating dtype."""
    return np.nextafter(dtype.type(-np.inf), dtype.type(0))


cumlogsumexp_p = _cumulative(
    "cumlogsumexp",
    impl=_cumlogsumexp_impl,
    jvp=_cumlogsumexp_jvp,
    accepts=is_float,
    lower=rules.scan("logaddexp"),
)


def cumlogsumexp(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running log-sum-exp along `axis`."""
    return bind1(cumlogsumexp_p, x, axis=axis, reverse=bool(reverse))
