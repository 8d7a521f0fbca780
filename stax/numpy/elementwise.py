"""Elementwise NumPy functions that are not ufuncs: parts, rounding, tests, sinc, nan_to_num.

Input: arrays or traced values.  Output: what NumPy's function of the same name gives.  Importing
this module also fills the matching methods of tracers (`x.real`, `x.round()`, `x.conj()`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import record_view
from stax.core.trace import METHODS, Tracer, fresh
from stax.dtypes import FLOAT64, finfo, is_complex
from stax.errors import DtypeError
from stax.numpy import ufuncs
from stax.numpy.promotion import as_dtype, coerce
from stax.numpy.registration import deliver, implements, operand
from stax.numpy.ufunc_rules import complex_rint, constant_like
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from stax.primitives.casts import convert
from stax.primitives.families import BOOL, kind_of, literal

__all__ = [
    "angle",
    "around",
    "fix",
    "imag",
    "isclose",
    "iscomplex",
    "isneginf",
    "isposinf",
    "isreal",
    "nan_to_num",
    "real",
    "real_if_close",
    "round",
    "sinc",
]

Array = Any


def inexact(x: Array) -> Array:
    """`x`, integers and Booleans converted to float64."""
    return x if kind_of(aval_of(x).dtype) in "fc" else as_dtype(x, FLOAT64)


def zeros_of(x: Array) -> Array:
    """Zeros of the shape and dtype of `x`."""
    return constant_like(x, 0)


# ---------------------------------------------------------------------------------------- parts


@implements(np.real, shares=True)
def real(val: Array) -> Array:
    """The real part; a view."""
    x = operand(val, "real")
    if not is_complex(aval_of(x).dtype):
        return x
    return record_view(
        el.real(x), x, el.real, lambda base, part: el.complex_(part, el.imag(base)), np.real
    )


@implements(np.imag)
def imag(val: Array) -> Array:
    """The imaginary part, a view; zero for real values."""
    x = operand(val, "imag")
    if not is_complex(aval_of(x).dtype):
        return zeros_of(x)
    return record_view(
        el.imag(x), x, el.imag, lambda base, part: el.complex_(el.real(base), part), np.imag
    )


@implements(np.angle)
def angle(z: Array, deg: bool = False) -> Array:
    """The argument of complex numbers, in (-pi, pi]."""
    x = operand(z, "angle")
    if is_complex(aval_of(x).dtype):
        out = tr.atan2(el.imag(x), el.real(x))
    else:
        out = ufuncs.arctan2(0, x)
    return tr.times(out, 180 / math.pi) if deg else out


@implements(np.isreal)
def isreal(x: Array) -> Array:
    """Whether the imaginary part is zero."""
    x = operand(x, "isreal")
    if not is_complex(aval_of(x).dtype):
        return constant_like(x, True, BOOL)
    return el.eq(el.imag(x), aval_of(el.imag(x)).dtype.type(0))


@implements(np.iscomplex)
def iscomplex(x: Array) -> Array:
    """Whether the imaginary part is not zero."""
    return el.logical_not(isreal(x))


@implements(np.real_if_close, shares=True)
def real_if_close(a: Array, tol: float = 100) -> Array:
    """`a` itself: whether the imaginary parts vanish is not known while tracing."""
    return operand(a, "real_if_close")


# -------------------------------------------------------------------------------------- rounding


def _rounded(x: Array, decimals: int) -> Array:
    dtype = aval_of(x).dtype
    if dtype == BOOL:
        return convert(x, np.dtype(np.float16))  # NumPy's narrowest loop of rint
    if kind_of(dtype) in "bi":
        if decimals >= 0:
            return fresh(x)
        return convert(_rounded(as_dtype(x, FLOAT64), decimals), dtype)
    rint = complex_rint if is_complex(dtype) else el.rint
    if decimals == 0:
        return rint(x)
    scale = literal(10.0 ** abs(decimals), x)
    if decimals > 0:
        return el.div(rint(el.mul(x, scale)), scale)
    return el.mul(rint(el.div(x, scale)), scale)


@implements(np.round)
def round(a: Array, decimals: int = 0, out: Any = None) -> Array:
    """`a` rounded to the given number of decimals, halves to the even neighbour."""
    return deliver(_rounded(operand(a, "round"), int(decimals)), out, "round")


@implements(np.around)
def around(a: Array, decimals: int = 0, out: Any = None) -> Array:
    """The same as `round`."""
    return deliver(_rounded(operand(a, "around"), int(decimals)), out, "around")


@implements(np.fix)
def fix(x: Array, out: Any = None) -> Array:
    """`x` rounded towards zero."""
    x = operand(x, "fix")
    value = fresh(x) if kind_of(aval_of(x).dtype) in "bi" else el.trunc(x)
    return deliver(value, out, "fix")


# ----------------------------------------------------------------------------------- predicates


def _infinite(x: Array, negative: bool) -> Array:
    kind = kind_of(aval_of(x).dtype)
    if kind == "c":
        op = "isneginf" if negative else "isposinf"
        raise DtypeError("is ambiguous for complex numbers", op=op, operands=[str(aval_of(x))])
    if kind in "bi":
        return constant_like(x, False, BOOL)
    return el.eq(x, literal(-math.inf if negative else math.inf, x))


@implements(np.isposinf)
def isposinf(x: Array, out: Any = None) -> Array:
    """Whether the value is +inf."""
    return deliver(_infinite(operand(x, "isposinf"), False), out, "isposinf")


@implements(np.isneginf)
def isneginf(x: Array, out: Any = None) -> Array:
    """Whether the value is -inf."""
    return deliver(_infinite(operand(x, "isneginf"), True), out, "isneginf")


@implements(np.isclose)
def isclose(
    a: Array, b: Array, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """|a - b| <= atol + rtol * |b|, infinities being close to themselves."""
    x, y = coerce(inexact(operand(a, "isclose")), inexact(operand(b, "isclose")))
    size = el.abs_(y)
    bound = ufuncs.add(atol, ufuncs.multiply(rtol, size))
    near = ufuncs.less_equal(el.abs_(el.sub(x, y)), bound)
    close = el.logical_or(el.logical_and(near, ufuncs.isfinite(y)), el.eq(x, y))
    if not equal_nan:
        return close
    return el.logical_or(close, el.logical_and(ufuncs.isnan(x), ufuncs.isnan(y)))


# --------------------------------------------------------------------------- sinc and nan_to_num

# sin(u)/u = sum (-1)^k u^(2k) / (2k+1)!, below 1e-19 after ten terms for |u| <= 1.
_SINC_TERMS = [(-1) ** k / math.factorial(2 * k + 1) for k in range(11)]


def _sinc_real(u: Array) -> Array:
    u2 = el.square(u)
    series = literal(_SINC_TERMS[-1], u)
    for term in reversed(_SINC_TERMS[:-1]):
        series = el.add(el.mul(series, u2), literal(term, u))
    # Near zero the series has right derivatives of every order; sin(u)/u would cancel.
    near = el.le(el.abs_(u), literal(1, el.abs_(u)))
    away = el.select(near, literal(1, u), u)
    return el.select(near, series, el.div(tr.sin(away), away))


@implements(np.sinc)
def sinc(x: Array) -> Array:
    """sin(pi x) / (pi x), 1 at zero, smooth there."""
    x = inexact(operand(x, "sinc"))
    return _sinc_real(tr.times(x, math.pi))


def _nan_to_num(x: Array, nan: Any, posinf: Any, neginf: Any) -> Array:
    dtype = aval_of(x).dtype
    if is_complex(dtype):
        parts = (_nan_to_num(p, nan, posinf, neginf) for p in (el.real(x), el.imag(x)))
        return el.complex_(*parts)
    if kind_of(dtype) in "bi":
        return fresh(x)
    info = finfo(dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    x = el.select(el.isnan(x), as_dtype(nan, dtype), x)
    x = el.select(_infinite(x, False), as_dtype(high, dtype), x)
    return el.select(_infinite(x, True), as_dtype(low, dtype), x)


@implements(np.nan_to_num, shares=True)
def nan_to_num(
    x: Array, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """`x` with NaN and the infinities replaced, in place with `copy=False`."""
    value = operand(x, "nan_to_num")
    result = _nan_to_num(value, nan, posinf, neginf)
    return result if copy or not isinstance(value, Tracer) else deliver(result, value, "nan_to_num")


# --------------------------------------------------------------------------------------- methods


def _writable_imag(x: Tracer) -> Array:
    if not is_complex(x.dtype):
        raise DtypeError(f"an array of {x.dtype} has no imaginary part to set", op="imag")
    return imag(x)


METHODS["real"] = real
METHODS["imag"] = imag
METHODS["writable_imag"] = _writable_imag
METHODS["conj"] = METHODS["conjugate"] = lambda x: el.conj(x) if is_complex(x.dtype) else x
METHODS["round"] = lambda x, decimals=0, out=None: deliver(_rounded(x, int(decimals)), out, "round")
METHODS["__round__"] = lambda x, ndigits=None: _rounded(x, int(ndigits or 0))
