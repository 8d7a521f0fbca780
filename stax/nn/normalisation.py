"""Softmax and its relatives, and standardisation: functions that normalise along axes.

Input: an array, the axes, and optionally a mask (`where`) of the elements that count.  Output: the
normalised array or the reduced one.  The largest element is taken out before exponentials are
formed, so nothing overflows; what a mask leaves out has neither value nor derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import is_complex
from stax.errors import ShapeError
from stax.numpy.inexact import inexact
from stax.numpy.promotion import array_like, as_dtype
from stax.numpy.registration import axes_tuple, broadcast_to_shape
from stax.primitives import elementwise as el
from stax.primitives.casts import convert, stop_gradient
from stax.primitives.families import literal
from stax.primitives.reductions import reduce_max
from stax.primitives.transcendental import below_infinity, exp, expm1, log, log1p, rsqrt
from stax.primitives.views import broadcast, reduce_sum, reshape

Axis = Any
BOOL = np.dtype(np.bool_)


def _kept(x: Any, axes: tuple[int, ...], like: Any) -> Any:
    """A reduced array with its lost axes back, of extent 1."""
    shape = aval_of(like).shape
    return reshape(x, [1 if k in axes else n for k, n in enumerate(shape)])


def _mask(where: Any, x: Any, op: str) -> Any:
    """The mask as Booleans of the shape of `x`, or None."""
    if where is None:
        return None
    where = as_dtype(array_like(where, op), BOOL)
    return broadcast_to_shape(where, aval_of(x).shape)


def _masked(x: Any, mask: Any, value: float) -> Any:
    return x if mask is None else el.select(mask, x, literal(value, x))


def _largest(x: Any, axes: tuple[int, ...], mask: Any) -> Any:
    """The largest element along `axes`, kept as axes of extent 1, without derivative."""
    size = math.prod(aval_of(x).shape[a] for a in axes)
    if size == 0:
        shape = [1 if k in axes else n for k, n in enumerate(aval_of(x).shape)]
        return broadcast(literal(0, x), shape)
    return _kept(reduce_max(_masked(stop_gradient(x), mask, -math.inf), axes), axes, x)


def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) along `axis`, without overflow.

    With `return_sign` the logarithm of the size of the sum, and its sign; without it a negative
    sum gives NaN.
    """
    if b is None:
        (x,) = inexact("logsumexp", a)
        weight = None
    else:
        x, weight = inexact("logsumexp", a, b)
        shape = np.broadcast_shapes(aval_of(x).shape, aval_of(weight).shape)
        x, weight = broadcast(x, shape), broadcast(weight, shape)
    axes = axes_tuple(axis, len(aval_of(x).shape), "logsumexp")
    mask = _mask(where, x, "logsumexp")
    if weight is not None:
        used = el.ne(weight, literal(0, weight))
        mask = used if mask is None else el.logical_and(mask, used)
    if is_complex(aval_of(x).dtype):
        top = _largest(el.real(x), axes, mask)
        top = lost = el.select(el.isfinite(top), top, literal(0, top))
        shifted = el.sub(x, el.complex_(top, literal(0, top)))
    else:
        # Infinities share the sum among them: as finite numbers they are 0 below the largest.
        lost = _largest(x, axes, mask)
        x = below_infinity(x)
        top = below_infinity(lost)
        top = el.select(el.isfinite(top), top, literal(0, top))
        lost = el.select(el.eq(lost, literal(math.inf, lost)), lost, top)
        shifted = el.sub(x, top)
    part = exp(shifted)
    if weight is not None:
        part = el.mul(part, weight)
    total = reduce_sum(_masked(part, mask, 0), axes)
    out, sign = _log_of_sum(total, return_sign)
    lost = reshape(lost, aval_of(out).shape)
    if is_complex(aval_of(out).dtype):
        lost = el.complex_(lost, literal(0, lost))
    out = el.add(out, lost)
    if keepdims:
        out, sign = _kept(out, axes, x), None if sign is None else _kept(sign, axes, x)
    return (out, sign) if return_sign else out


def _log_of_sum(total: Any, with_sign: bool) -> tuple[Any, Any]:
    """log(total), flat where the total is 0, or log(abs(total)) and the sign."""
    if is_complex(aval_of(total).dtype):
        if not with_sign:
            return log(total), None
        size = el.abs_(total)
        safe = el.select(el.eq(size, literal(0, size)), literal(1, size), size)
        return log(size), el.div(total, el.complex_(safe, literal(0, safe)))
    sign = el.sign(total) if with_sign else None
    size = el.abs_(total) if with_sign else total
    empty = el.eq(size, literal(0, size))
    safe = el.select(empty, literal(1, size), size)
    return el.select(empty, literal(-math.inf, size), log(safe)), sign


def logmeanexp(a: Any, axis: Axis = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(a))) along `axis`.

    >>> logmeanexp(np.array([1000.0, 1000.0]))
    1000.0
    """
    out = logsumexp(a, axis=axis, where=where, keepdims=keepdims)
    (x,) = inexact("logmeanexp", a)
    axes = axes_tuple(axis, len(aval_of(x).shape), "logmeanexp")
    mask = _mask(where, x, "logmeanexp")
    if mask is None:
        count: Any = literal(math.prod(aval_of(x).shape[k] for k in axes), out)
    else:
        count = reduce_sum(convert(mask, aval_of(out).dtype), axes)
        if keepdims:
            count = _kept(count, axes, x)
    return el.sub(out, log(count))


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis`; 0 where the mask is false.

    `axis` may be several axes. `where` is a mask that broadcasts to `x`; masked elements count for
    nothing. The largest element is subtracted first, so nothing overflows.

    Raises:
      AxisError: there is no such axis.

    >>> softmax(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """
    (x,) = inexact("softmax", x)
    axes = axes_tuple(axis, len(aval_of(x).shape), "softmax")
    mask = _mask(where, x, "softmax")
    part = _masked(exp(el.sub(x, _largest(x, axes, mask))), mask, 0)
    return el.div(part, _kept(reduce_sum(part, axes), axes, x))


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """log(softmax(x)) along `axis`; -inf where the mask is false.

    Arguments as in `softmax`; accurate where a probability is too small for a float.

    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    (x,) = inexact("log_softmax", x)
    axes = axes_tuple(axis, len(aval_of(x).shape), "log_softmax")
    mask = _mask(where, x, "log_softmax")
    shifted = el.sub(x, _largest(x, axes, mask))
    total = reduce_sum(_masked(exp(shifted), mask, 0), axes)
    return _masked(el.sub(shifted, _kept(log(total), axes, x)), mask, -math.inf)


def standardize(
    x: Any,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "stable",
) -> Any:
    """`x` moved and scaled to mean 0 and variance 1 along `axis`.

    The variance is that of the differences from the mean; `algorithm="fast"` takes the mean of
    squares less the square of the mean, which loses digits where the mean is large.
    """
    (x,) = inexact("standardize", x)
    dtype = aval_of(x).dtype
    axes = axes_tuple(axis, len(aval_of(x).shape), "standardize")
    mask = _mask(where, x, "standardize")

    def average(value: Any) -> Any:
        total = _kept(reduce_sum(_masked(value, mask, 0), axes), axes, x)
        if mask is None:
            size = math.prod(aval_of(x).shape[k] for k in axes)
            return el.div(total, literal(size, total))
        return el.div(total, _kept(reduce_sum(convert(mask, dtype), axes), axes, x))

    if algorithm not in ("stable", "fast"):
        raise ShapeError(f"algorithm is 'stable' or 'fast', not {algorithm!r}", op="standardize")
    mean = average(x) if mean is None else as_dtype(array_like(mean, "standardize"), dtype)
    centred = el.sub(x, mean)
    if variance is not None:
        variance = as_dtype(array_like(variance, "standardize"), dtype)
    elif algorithm == "stable":
        variance = average(el.square(centred))
    else:
        variance = el.sub(average(el.square(x)), el.square(mean))
        variance = el.maximum(variance, literal(0, variance))
    epsilon = as_dtype(array_like(epsilon, "standardize"), dtype)
    return el.mul(centred, rsqrt(el.add(variance, epsilon)))


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, accurate for small and for large x."""
    (x,) = inexact("log1mexp", x)
    small = el.lt(x, literal(math.log(2), x))
    near = log(el.neg(expm1(el.neg(el.select(small, x, literal(1, x))))))
    far = log1p(el.neg(exp(el.neg(el.select(small, literal(1, x), x)))))
    return el.select(small, near, far)
