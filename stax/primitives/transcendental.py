"""Transcendental rows: roots, powers, exponentials, logarithms, trigonometry, hyperbolics.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.
Derivatives keep their relative accuracy in the tails (`sigmoid'` and `tanh'` do not cancel), and a
factor that can be infinite multiplies through `guarded_mul` or `guarded_div`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import finfo, is_complex
from stax.loops import contracted
from stax.loops.ops import ops
from stax.primitives.elementwise import (
    abs_,
    add,
    divide_tangent,
    eq,
    ge,
    guarded_div,
    guarded_mul,
    logical_and,
    lt,
    mul,
    neg,
    select,
    square,
    sub,
)
from stax.primitives.families import Function, binary, literal, unary


def one(x: Any) -> Any:
    """1 in the dtype of `x`."""
    return literal(1, x)


def times(x: Any, factor: float) -> Any:
    """`x * factor` with the factor in the dtype of `x`."""
    return mul(x, literal(factor, x))


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial with these coefficients, the constant first."""
    out: Any = literal(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        out = add(mul(out, x), literal(c, x))
    return out


def series_at(x: Any, radius: float, coefficients: Sequence[float], far: Any) -> Any:
    """A power series where abs(x) is below `radius`, and the function `far` elsewhere.

    For quotients like sin(x) / x: the value alone could be put in place at 0, but then every
    derivative there would be 0.
    """
    small = lt(abs_(x), literal(radius, x))
    near = polynomial(select(small, x, literal(0, x)), coefficients)
    return select(small, near, far(select(small, literal(radius, x), x)))


def _constant(value: float, x: Any) -> Any:
    """A constant of a loop body, in the dtype of the loop value `x`."""
    return ops.constant(value, ops.dtype_of(x))


# Rules name functions that are bound further down.
sigmoid: Function
cos: Function
cosh: Function
sech2: Function

# -------------------------------------------------------------------------------- roots, powers


def _rsqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


sqrt_p, sqrt = unary(
    "sqrt", np.sqrt, lambda t, out, x: divide_tangent(times(t, 0.5), out), weight=4.0
)
rsqrt_p, rsqrt = unary(
    "rsqrt", _rsqrt, lambda t, out, x: guarded_mul(times(t, -0.5), mul(out, square(out))),
    weight=5.0,
)  # fmt: skip
cbrt_p, cbrt = unary(
    "cbrt",
    np.cbrt,
    lambda t, out, x: guarded_div(t, times(square(out), 3)),
    accepts="f",
    weight=10.0,
)


def pow_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    # x**0 is flat; the product 0 * x**-1 says so too, and has the derivative in y, unless the
    # power is infinite or x is NaN.
    tame = ge(abs_(x), literal(float(finfo(aval_of(x).dtype).tiny), abs_(x)))
    flat = select(tame, np.False_, eq(y, literal(0, y)))
    factor = mul(y, power(x, select(flat, one(y), sub(y, one(y)))))
    return guarded_mul(t, select(flat, literal(0, factor), factor))


def pow_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    # 0**y is flat in y > 0; log(1) stands in for log(0) there.
    at_zero = eq(x, literal(0, x))
    flat = at_zero if is_complex(aval_of(x).dtype) else _and(at_zero, ge(y, literal(0, y)))
    return guarded_mul(t, mul(log(select(flat, one(x), x)), out))


def _and(a: Any, b: Any) -> Any:
    return select(a, b, np.False_)


pow_p, power = binary("pow", np.power, pow_base, pow_exponent, accepts="ifc", weight=20.0)
hypot_p, hypot = binary(
    "hypot",
    np.hypot,
    lambda t, out, x, y: guarded_mul(t, _ratio(x, out)),
    lambda t, out, x, y: guarded_mul(t, _ratio(y, out)),
    accepts="f",
    weight=6.0,
)


def _ratio(x: Any, size: Any) -> Any:
    """The ratio x / size, and 0 where the size is 0."""
    empty = eq(size, literal(0, size))
    return guarded_div(x, select(empty, one(size), size))


# --------------------------------------------------------------------- exponentials, logarithms

exp_p, exp = unary("exp", np.exp, lambda t, out, x: guarded_mul(t, out), weight=10.0)
exp2_p, exp2 = unary(
    "exp2", np.exp2, lambda t, out, x: guarded_mul(t, times(out, math.log(2))), weight=10.0
)
expm1_p, expm1 = unary("expm1", np.expm1, lambda t, out, x: guarded_mul(t, exp(x)), weight=12.0)
log_p, log = unary("log", np.log, lambda t, out, x: guarded_div(t, x), weight=10.0)
log2_p, log2 = unary(
    "log2", np.log2, lambda t, out, x: guarded_div(t, times(x, math.log(2))), weight=10.0
)
log10_p, log10 = unary(
    "log10", np.log10, lambda t, out, x: guarded_div(t, times(x, math.log(10))), weight=10.0
)
log1p_p, log1p = unary(
    "log1p", np.log1p, lambda t, out, x: guarded_div(t, add(x, one(x))), weight=12.0
)
# Those of random numbers: see `contracted`.
contracted_log_p, contracted_log = unary(
    "contracted_log",
    contracted.log,
    lambda t, out, x: guarded_div(t, x),
    accepts="f",
    weight=10.0,
)
contracted_log1p_p, contracted_log1p = unary(
    "contracted_log1p",
    contracted.log1p,
    lambda t, out, x: guarded_div(t, add(x, one(x))),
    accepts="f",
    weight=12.0,
)


def _sigmoid(x: Any) -> Any:
    # One exponential of a negative number: no overflow, and accurate at both ends.
    e = np.exp(-np.abs(x))
    top = np.where(np.greater_equal(x, 0), np.asarray(e).dtype.type(1), e)
    return np.true_divide(top, np.add(e, np.asarray(e).dtype.type(1)))


def _sigmoid_any(x: Any) -> Any:
    if np.iscomplexobj(x):
        return np.reciprocal(np.add(np.exp(np.negative(x)), np.asarray(x).dtype.type(1)))
    return _sigmoid(x)


sigmoid_p, sigmoid = unary(
    "sigmoid",
    _sigmoid_any,
    lambda t, out, x: mul(times(t, 0.25), sech2(times(x, 0.5))),
    weight=12.0,
)


def _slope_of_logaddexp(x: Any, y: Any) -> Any:
    # Equal infinities count as a tie; their difference would be NaN. Equal finite values keep their
    # difference, which has the derivatives of higher order.
    tie = logical_and(eq(x, y), eq(abs_(x), literal(math.inf, x)))
    return sigmoid(sub(select(tie, literal(0, x), x), select(tie, literal(0, y), y)))


logaddexp_p, logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    lambda t, out, x, y: mul(t, _slope_of_logaddexp(x, y)),
    lambda t, out, x, y: mul(t, _slope_of_logaddexp(y, x)),
    accepts="f",
    weight=25.0,
    scalar=lambda x, y: _scalar_logaddexp(x, y),
)


def _largest(dtype: Any) -> Any:
    return ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]  # a class of C


below_infinity_p, below_infinity = unary(
    "below_infinity",
    lambda x: np.minimum(x, _largest(np.asarray(x).dtype)),
    lambda t, out, x: t,
    accepts="f",
    scalar=lambda x: ops.min(x, ops.constant(float(_largest(ops.dtype_of(x))), ops.dtype_of(x))),
)
below_infinity.__doc__ = """`x`, with the largest finite number for infinity; its derivative is 1.

A difference from the largest of several numbers is then 0 for an infinite one, with derivative 1.
"""


def _scalar_logaddexp(x: Any, y: Any) -> Any:
    gap = ops.neg(ops.abs(ops.sub(x, y)))
    tied = ops.add(x, _constant(math.log(2), x))
    return ops.where(ops.eq(x, y), tied, ops.add(ops.max(x, y), ops.log1p(ops.exp(gap))))


# ---------------------------------------------------------------------------------- trigonometry


def _inverse_slope(x: Any) -> Any:
    """sqrt(1 - x*x), without cancellation at 1."""
    return sqrt(mul(sub(one(x), x), add(one(x), x)))


def _plus_one_squared(x: Any) -> Any:
    return add(square(x), one(x))


def _root_plus_one(x: Any) -> Any:
    """sqrt(1 + x*x), which does not overflow for a real x."""
    return sqrt(_plus_one_squared(x)) if is_complex(aval_of(x).dtype) else hypot(x, one(x))


sin_p, sin = unary("sin", np.sin, lambda t, out, x: mul(t, cos(x)), weight=15.0)
cos_p, cos = unary("cos", np.cos, lambda t, out, x: neg(mul(t, sin(x))), weight=15.0)
tan_p, tan = unary(
    "tan", np.tan, lambda t, out, x: guarded_mul(t, _plus_one_squared(out)), weight=20.0
)
asin_p, asin = unary(
    "asin", np.arcsin, lambda t, out, x: guarded_div(t, _inverse_slope(x)), weight=20.0
)
acos_p, acos = unary(
    "acos", np.arccos, lambda t, out, x: neg(guarded_div(t, _inverse_slope(x))), weight=20.0
)
atan_p, atan = unary(
    "atan", np.arctan, lambda t, out, x: guarded_div(t, _plus_one_squared(x)), weight=20.0
)


def _radius_squared(x: Any, y: Any) -> Any:
    return add(square(x), square(y))


atan2_p, atan2 = binary(
    "atan2",
    np.arctan2,
    lambda t, out, y, x: guarded_mul(t, guarded_div(x, _radius_squared(x, y))),
    lambda t, out, y, x: neg(guarded_mul(t, guarded_div(y, _radius_squared(x, y)))),
    accepts="f",
    weight=25.0,
)

# ------------------------------------------------------------------------------------ hyperbolics


def _sech2(x: Any) -> Any:
    if np.iscomplexobj(x):
        return np.reciprocal(np.square(np.cosh(x)))
    e = np.exp(np.multiply(np.abs(x), np.asarray(x).dtype.type(-2)))
    four, unit = np.asarray(e).dtype.type(4), np.asarray(e).dtype.type(1)
    return np.true_divide(np.multiply(four, e), np.square(np.add(e, unit)))


def _scalar_sech2(x: Any) -> Any:
    if is_complex(ops.dtype_of(x)):
        even = ops.cosh(x)
        return ops.reciprocal(ops.mul(even, even))
    e = ops.exp(ops.mul(ops.abs(x), _constant(-2, x)))
    below = ops.add(e, _constant(1, x))
    return ops.div(ops.mul(_constant(4, x), e), ops.mul(below, below))


sinh_p, sinh = unary("sinh", np.sinh, lambda t, out, x: guarded_mul(t, cosh(x)), weight=15.0)
cosh_p, cosh = unary("cosh", np.cosh, lambda t, out, x: guarded_mul(t, sinh(x)), weight=15.0)
tanh_p, tanh = unary("tanh", np.tanh, lambda t, out, x: mul(t, sech2(x)), weight=15.0)
sech2_p, sech2 = unary(
    "sech2",
    _sech2,
    lambda t, out, x: mul(t, times(mul(out, tanh(x)), -2)),
    weight=15.0,
    scalar=_scalar_sech2,
)
sech2.__doc__ = "1 / cosh(x)**2, the derivative of tanh, accurate where tanh is near 1."
asinh_p, asinh = unary(
    "asinh", np.arcsinh, lambda t, out, x: guarded_div(t, _root_plus_one(x)), weight=20.0
)
acosh_p, acosh = unary(
    "acosh",
    np.arccosh,
    lambda t, out, x: guarded_div(t, mul(sqrt(sub(x, one(x))), sqrt(add(x, one(x))))),
    weight=20.0,
)
atanh_p, atanh = unary(
    "atanh",
    np.arctanh,
    lambda t, out, x: guarded_div(t, mul(sub(one(x), x), add(one(x), x))),
    weight=20.0,
)
