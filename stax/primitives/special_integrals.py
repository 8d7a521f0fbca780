"""Error, exponential, trigonometric and Fresnel integrals, and products with logarithms.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.
SciPy computes the values; derivatives are written so that they do not cancel in the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from stax.dtypes import is_half
from stax.loops import library
from stax.loops.ops import ops
from stax.primitives.elementwise import (
    abs_,
    add,
    div,
    eq,
    gt,
    guarded_div,
    guarded_mul,
    lt,
    mul,
    neg,
    reciprocal,
    select,
    square,
    sub,
)
from stax.primitives.families import binary, literal, unary
from stax.primitives.special import erf, special_function
from stax.primitives.special_gamma import scipy_row
from stax.primitives.transcendental import (
    cos,
    exp,
    log,
    log1p,
    one,
    polynomial,
    series_at,
    sin,
    times,
)

# --------------------------------------------------------------------------- error functions

_ROOT_PI = math.sqrt(math.pi)


def _tail(x: Any, near: Any, coefficients: tuple[float, ...]) -> Any:
    """`near(x)`, but for abs(x) > 50 an asymptotic series in 1 / x**2, without its constant."""
    far = gt(abs_(x), literal(50, x))
    inverse = reciprocal(square(select(far, x, literal(50, x))))
    series = mul(inverse, polynomial(inverse, coefficients))
    return select(far, series, near(select(far, literal(50, x), x)))


def _erfcx_near(x: Any) -> Any:
    return sub(times(mul(x, erfcx(x)), 2), literal(2 / _ROOT_PI, x))


_ERFCX_SERIES = tuple(c / _ROOT_PI for c in (-1.0, 1.5, -3.75, 13.125))


def _erfcx_slope(x: Any) -> Any:
    # The series holds on the right; far left erfcx overflows.
    return select(lt(x, literal(-50, x)), _erfcx_near(x), _tail(x, _erfcx_near, _ERFCX_SERIES))


erfcx = scipy_row("erfcx", "erfcx", [lambda t, out, x: guarded_mul(t, _erfcx_slope(x))])


def _dawsn_near(x: Any) -> Any:
    return sub(one(x), times(mul(x, dawsn(x)), 2))


_DAWSN_SERIES = (-0.5, -0.75, -1.875, -6.5625)
dawsn = scipy_row(
    "dawsn", "dawsn", [lambda t, out, x: guarded_mul(t, _tail(x, _dawsn_near, _DAWSN_SERIES))]
)
erfcinv = scipy_row(
    "erfcinv",
    "erfcinv",
    [lambda t, out, x: neg(guarded_mul(t, times(exp(square(out)), _ROOT_PI / 2)))],
)
ndtri = scipy_row(
    "ndtri",
    "ndtri",
    [lambda t, out, p: guarded_mul(t, times(exp(times(square(out), 0.5)), math.sqrt(2 * math.pi)))],
)


def _log_ndtr_slope(out: Any, x: Any) -> Any:
    """The normal density over its distribution function."""
    low = lt(x, literal(0, x))
    left = reciprocal(erfcx(times(select(low, x, literal(0, x)), -math.sqrt(0.5))))
    right = exp(sub(times(square(select(low, literal(0, x), x)), -0.5), out))
    return select(
        low, times(left, math.sqrt(2 / math.pi)), times(right, 1 / math.sqrt(2 * math.pi))
    )


log_ndtr = scipy_row(
    "log_ndtr", "log_ndtr", [lambda t, out, x: guarded_mul(t, _log_ndtr_slope(out, x))]
)


def _owens_density(h: Any, a: Any) -> Any:
    unit = add(one(a), square(a))
    return div(exp(times(mul(square(h), unit), -0.5)), times(unit, 2 * math.pi))


def _owens_in_h(h: Any, a: Any) -> Any:
    cut = erf(times(mul(a, h), math.sqrt(0.5)))
    return times(mul(exp(times(square(h), -0.5)), cut), -1 / (2 * math.sqrt(2 * math.pi)))


owens_t = scipy_row(
    "owens_t",
    "owens_t",
    [
        lambda t, out, h, a: mul(t, _owens_in_h(h, a)),
        lambda t, out, h, a: mul(t, _owens_density(h, a)),
    ],
)

# ---------------------------------------------------------------------- exponential integrals

exp1 = scipy_row("exp1", "exp1", [lambda t, out, x: neg(guarded_div(mul(t, exp(neg(x))), x))])
expi = scipy_row("expi", "expi", [lambda t, out, x: guarded_div(mul(t, exp(x)), x)])


def _expn_slope(t: Any, out: Any, x: Any, *, n: int) -> Any:
    return neg(guarded_mul(t, expn(x, n=n - 1))) if n > 0 else _expn_zero_slope(t, x)


def _expn_zero_slope(t: Any, x: Any) -> Any:
    # E_0(x) = exp(-x) / x
    inverse = reciprocal(x)
    return neg(guarded_mul(t, mul(mul(exp(neg(x)), inverse), add(one(x), inverse))))


_scipy_expn = special_function("expn", None)
_expn_p, expn = unary(
    "expn",
    lambda x, *, n: _scipy_expn(n, x),
    _expn_slope,
    accepts="f",
    weight=60.0,
    lower=library.expn,
)
expn.__doc__ = "The integral of exp(-x t) / t**n over t > 1: expn(x, n=n)."


def _exprel_slope(x: Any) -> Any:
    series = tuple(1 / (math.factorial(m) * (m + 2)) for m in range(14))
    return series_at(x, 0.5, series, lambda v: div(sub(exp(v), exprel(v)), v))


exprel = scipy_row("exprel", "exprel", [lambda t, out, x: guarded_mul(t, _exprel_slope(x))])
exprel.__doc__ = "(exp(x) - 1) / x, and 1 at 0."

# ----------------------------------------------------- trigonometric integrals, dilogarithm


def _part(name: str, index: int) -> Callable[[Any], Any]:
    """One of the results of a function of SciPy that has two."""

    def call(x: Any) -> Any:
        x = np.asarray(x)
        wide = x.astype(np.float32) if is_half(x.dtype) else x
        both = getattr(import_module("scipy.special"), name)(wide)
        return np.asarray(both[index]).astype(x.dtype)[()]

    return call


_SINC = tuple(0.0 if m % 2 else (-1) ** (m // 2) / math.factorial(m + 1) for m in range(15))


def _sinc(x: Any) -> Any:
    return series_at(x, 0.5, _SINC, lambda v: div(sin(v), v))


def _row(name: str, scipy: str, index: int, slope: Callable[[Any], Any]) -> Callable[..., Any]:
    return unary(
        name,
        _part(scipy, index),
        lambda t, out, x: guarded_mul(t, slope(x)),
        accepts="f",
        weight=60.0,
        lower=library.ufunc_routine(scipy, results=2, pick=index),
    )[1]


def _quarter_turns(x: Any) -> Any:
    return times(square(x), math.pi / 2)


sine_integral = _row("sine_integral", "sici", 0, _sinc)
cosine_integral = _row("cosine_integral", "sici", 1, lambda x: div(cos(x), x))
fresnel_sine = _row("fresnel_sine", "fresnel", 0, lambda x: sin(_quarter_turns(x)))
fresnel_cosine = _row("fresnel_cosine", "fresnel", 1, lambda x: cos(_quarter_turns(x)))


def _spence_slope(x: Any) -> Any:
    """The quotient log(x) / (1 - x), which is -1 at 1."""
    series = tuple(-((-1) ** m) / (m + 1) for m in range(17))
    return series_at(sub(x, one(x)), 0.1, series, lambda y: neg(div(log1p(y), y)))


spence = scipy_row("spence", "spence", [lambda t, out, x: guarded_mul(t, _spence_slope(x))])

# --------------------------------------------------------------- products with logarithms


def _xlogy(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        zero = np.equal(x, 0) & ~np.isnan(y)
        return np.where(zero, np.zeros((), np.asarray(x).dtype), x * np.log(y))[()]


def _xlog1py(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        zero = np.equal(x, 0) & ~np.isnan(y)
        return np.where(zero, np.zeros((), np.asarray(x).dtype), x * np.log1p(y))[()]


def _zero_times(x: Any, y: Any, product: Any) -> Any:
    nothing = ops.constant(0, ops.dtype_of(x))
    zero = ops.logical_and(ops.eq(x, nothing), ops.eq(y, y))
    return ops.where(zero, nothing, product)


def _ratio(x: Any, y: Any) -> Any:
    """The quotient x / y, and 0 where x is 0."""
    zero = eq(x, literal(0, x))
    return select(zero, literal(0, x), div(x, select(zero, one(y), y)))


_xlogy_p, xlogy = binary(
    "xlogy",
    _xlogy,
    lambda t, out, x, y: guarded_mul(t, log(y)),
    lambda t, out, x, y: guarded_mul(t, _ratio(x, y)),
    accepts="f",
    scalar=lambda x, y: _zero_times(x, y, ops.mul(x, ops.log(y))),
    weight=15.0,
)
xlogy.__doc__ = "The product x log y, and 0 where x is 0."
_xlog1py_p, xlog1py = binary(
    "xlog1py",
    _xlog1py,
    lambda t, out, x, y: guarded_mul(t, log1p(y)),
    lambda t, out, x, y: guarded_mul(t, _ratio(x, add(y, one(y)))),
    accepts="f",
    scalar=lambda x, y: _zero_times(x, y, ops.mul(x, ops.log1p(y))),
    weight=15.0,
)
xlog1py.__doc__ = "x log(1 + y), and 0 where x is 0."
