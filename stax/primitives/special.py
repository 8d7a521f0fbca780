"""Special functions: erf and its relatives, gamma functions, and the activation gelu.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.
SciPy computes them where it is installed (imported at the first use); otherwise the C library's
functions or the expansions below do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from stax.dtypes import is_half
from stax.errors import StaxError
from stax.loops import contracted, library
from stax.loops.ops import ops
from stax.primitives.elementwise import add, clamp, guarded_mul, mul, neg, square
from stax.primitives.families import Function, literal, unary
from stax.primitives.transcendental import exp, sech2, tanh, times

# Rules name functions that are bound further down.
digamma: Function
polygamma: Function

_FOUND: dict[str, Callable[..., Any]] = {}


def special_function(name: str, fallback: Callable[..., Any] | None) -> Callable[..., Any]:
    """`scipy.special.<name>`, or the elementwise `fallback` of a float where SciPy is absent.

    The result has the dtype of the argument; half types are computed in float32.
    """

    def find() -> Callable[..., Any]:
        try:
            return getattr(import_module("scipy.special"), name)  # type: ignore[no-any-return]  # a ufunc
        except ImportError:
            if fallback is None:
                raise StaxError(f"{name} needs SciPy (pip install scipy)") from None
            return np.vectorize(fallback, otypes=[np.float64])

    def call(*args: Any) -> Any:
        function = _FOUND.get(name)
        if function is None:
            function = _FOUND[name] = find()
        dtype = np.asarray(args[-1]).dtype
        if is_half(dtype):
            args = tuple(np.asarray(a, np.float32) for a in args)
        return np.asarray(function(*args)).astype(dtype, copy=False)[()]

    return call


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _digamma(x: float) -> float:
    """Recurrence up to x >= 6, then the asymptotic series; reflection for negative x."""
    if x <= 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return total + math.log(x) - 0.5 / x - series


def _erfinv(y: float) -> float:
    """Giles's single-precision approximation, then three Newton steps on erf or erfc."""
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    w = -math.log1p(-y * y)
    root = math.sqrt(w)
    x = y * (1.0 + 0.1 * w) if w < 5 else math.copysign(root, y)
    for _ in range(12):
        gap = (
            math.erf(x) - y if abs(y) < 0.5 else math.copysign((1 - abs(y)) - math.erfc(abs(x)), y)
        )
        step = gap * math.sqrt(math.pi) / 2 * math.exp(x * x)
        x -= step / (1 + x * step)
    return x


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _gauss(x: Any, scale: float) -> Any:
    """The product scale * exp(-x*x)."""
    return times(exp(neg(square(x))), scale)


erf_p, erf = unary(
    "erf",
    special_function("erf", math.erf),
    lambda t, out, x: mul(t, _gauss(x, _TWO_OVER_ROOT_PI)),
    accepts="f",
    weight=20.0,
)
erfc_p, erfc = unary(
    "erfc",
    special_function("erfc", math.erfc),
    lambda t, out, x: mul(t, _gauss(x, -_TWO_OVER_ROOT_PI)),
    accepts="f",
    weight=20.0,
)
erfinv_p, erfinv = unary(
    "erfinv",
    special_function("erfinv", _erfinv),
    lambda t, out, x: guarded_mul(t, times(exp(square(out)), 1 / _TWO_OVER_ROOT_PI)),
    accepts="f",
    weight=30.0,
)
contracted_erf_p, contracted_erf = unary(
    "contracted_erf",
    contracted.erf,
    lambda t, out, x: mul(t, _gauss(x, _TWO_OVER_ROOT_PI)),
    accepts="f",
    weight=20.0,
)
contracted_erfinv_p, contracted_erfinv = unary(
    "contracted_erfinv",
    contracted.erfinv,
    lambda t, out, x: guarded_mul(t, times(exp(square(out)), 1 / _TWO_OVER_ROOT_PI)),
    accepts="f",
    weight=20.0,
)
lgamma_p, lgamma = unary(
    "lgamma",
    special_function("gammaln", _lgamma),
    lambda t, out, x: guarded_mul(t, digamma(x)),
    accepts="f",
    weight=40.0,
)
digamma_p, digamma = unary(
    "digamma",
    special_function("psi", _digamma),
    lambda t, out, x: guarded_mul(t, polygamma(x, n=1)),
    accepts="f",
    weight=40.0,
)
_scipy_polygamma = special_function("polygamma", None)
polygamma_p, polygamma = unary(
    "polygamma",
    lambda x, *, n: _scipy_polygamma(n, x),
    lambda t, out, x, *, n: guarded_mul(t, polygamma(x, n=n + 1)),
    accepts="f",
    weight=60.0,
    lower=library.polygamma,
)

# ------------------------------------------------------------------------------------------ gelu

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_GONE = -10.0  # the largest x whose Phi is 0 in double precision, rounded down
_FAR = 40.0  # an x at which the density and the slope of tanh are 0


def _gelu_impl(x: Any, *, approximate: bool) -> Any:
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float32) if is_half(dtype) else np.asarray(x)
    if approximate:
        inner = x.dtype.type(_ROOT_2_OVER_PI) * (x + x.dtype.type(_CUBIC) * x * x * x)
        phi = np.tanh(inner)
    else:
        phi = erf_p.impl(x * x.dtype.type(_ROOT_HALF))
    factor = np.maximum(x, x.dtype.type(_GONE))  # -inf has the limit 0
    return (factor * x.dtype.type(0.5) * (phi + x.dtype.type(1))).astype(dtype)[()]


def _gelu_scalar(x: Any, *, approximate: bool) -> Any:
    def c(value: float) -> Any:
        return ops.constant(value, ops.dtype_of(x))

    if approximate:
        cube = ops.mul(ops.mul(ops.mul(c(_CUBIC), x), x), x)
        phi = ops.tanh(ops.mul(c(_ROOT_2_OVER_PI), ops.add(x, cube)))
    else:
        phi = ops.erf(ops.mul(x, c(_ROOT_HALF)))
    factor = ops.max(x, c(_GONE))
    return ops.mul(ops.mul(factor, c(0.5)), ops.add(phi, c(1)))


def _gelu_slope(x: Any, approximate: bool) -> Any:
    """Phi(x) + x phi(x), or the derivative of the tanh form; reads x alone."""
    unit = literal(1, x)
    # Far out densities and slopes are 0: at infinity the products are limits, and not NaN.
    near = clamp(literal(-_FAR, x), x, literal(_FAR, x))
    if not approximate:
        phi = times(add(erf(times(x, _ROOT_HALF)), unit), 0.5)
        density = times(exp(times(square(near), -0.5)), 1 / math.sqrt(2 * math.pi))
        return add(phi, mul(near, density))
    x, x2 = near, square(near)
    inner = mul(times(x, _ROOT_2_OVER_PI), add(times(x2, _CUBIC), unit))
    inner_slope = times(add(times(x2, 3 * _CUBIC), unit), _ROOT_2_OVER_PI)
    left = times(add(tanh(inner), unit), 0.5)
    return add(left, mul(times(x, 0.5), mul(sech2(inner), inner_slope)))


gelu_p, _bind_gelu = unary(
    "gelu",
    _gelu_impl,
    lambda t, out, x, *, approximate: mul(t, _gelu_slope(x, approximate)),
    accepts="f",
    weight=25.0,
    scalar=_gelu_scalar,
)


def gelu(x: Any, approximate: bool) -> Any:
    """The activation x Phi(x), with Phi by erf, or by its tanh approximation."""
    return _bind_gelu(x, approximate=approximate)
