"""Float32 arithmetic as compilers contract it: a product that only a sum reads is not rounded.

Input: NumPy arrays of float32 (float64 is computed without contraction).  Output: the same shape.
A draw by rejection is a decision between neighbouring floats.  JAX's samplers come from a compiler
that fuses multiplications with additions and has its own logarithms, so a sampler that is to give
the same numbers must round where it rounds.  The logarithms are Cephes' (the polynomials of `logf`
and `log1p`), log-gamma is Lanczos' sum with g = 7 and nine terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.dtypes import FLOAT32

_F = FLOAT32.type
_HALF = _F(0.5)
_ONE = _F(1)


def fma(a: Any, b: Any, c: Any) -> Any:
    """The sum `a * b + c`, rounded once where the operands are float32.

    The product of two float32 is exact in float64.  The sum is rounded there first, which shows
    only where it then lies half way between two float32: once in 2**29.
    """
    if np.result_type(a, b, c) != FLOAT32:
        return a * b + c
    return (np.multiply(a, b, dtype=np.float64) + c).astype(FLOAT32)


# log(1 + x) - x + x*x/2 over x**3, for 1 + x between sqrt(1/2) and sqrt(2).
_LOG = tuple(
    _F(c)
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
        -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
_LN2_LOW, _LN2_HIGH = _F(-2.12194440e-4), _F(0.693359375)


def log(x: Any) -> Any:
    """The natural logarithm; float32 by Cephes' polynomial, contracted."""
    if x.dtype != FLOAT32:
        return np.log(x)
    word = np.maximum(x, np.finfo(FLOAT32).tiny).view(np.uint32)
    exponent = ((word >> np.uint32(23)).astype(np.int32) - 126).astype(FLOAT32)
    part = (word & np.uint32(0x007FFFFF) | np.uint32(0x3F000000)).view(FLOAT32)
    low = part < np.sqrt(_HALF)
    exponent = exponent - low.astype(FLOAT32)
    y = (part - _ONE) + np.where(low, part, _F(0))
    square = y * y
    cube = square * y
    a, b, c = (fma(fma(_LOG[k], y, _LOG[k + 1]), y, _LOG[k + 2]) for k in (0, 3, 6))
    rest = fma(fma(fma(a, cube, b), cube, c), cube, exponent * _LN2_LOW)
    out = fma(exponent, _LN2_HIGH, fma(-_HALF, square, y) + rest)
    out = np.where(x == 0, _F(-np.inf), np.where(np.isposinf(x), x, out))
    return np.where((x < 0) | np.isnan(x), _F(np.nan), out)


# The quotient of polynomials of log1p, from the highest power down.
_LOG1P_TOP = tuple(
    _F(c)
    for c in (
        4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969e0,
        2.9911919328553073277375e1, 6.0949667980987787057556e1, 5.7112963590585538103336e1,
        2.0039553499201281259648e1,
    )
)  # fmt: skip
_LOG1P_BOTTOM = tuple(
    _F(c)
    for c in (
        1.0, 1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2,
        3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1,
    )
)  # fmt: skip


def _polynomial(coefficients: tuple[Any, ...], x: Any) -> Any:
    out = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        out = fma(out, x, c)
    return out


def log1p(x: Any) -> Any:
    """The logarithm of 1 + x; float32 by Cephes' quotient near 0 and by `log` elsewhere."""
    if x.dtype != FLOAT32:
        return np.log1p(x)
    square = x * x
    near = (x * square) * (_polynomial(_LOG1P_TOP, x) / _polynomial(_LOG1P_BOTTOM, x))
    near = x + fma(-_HALF, square, near)
    return np.where(np.abs(x) < np.sqrt(_F(2)) - _ONE, near, log(x + _ONE))


_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_LANCZOS_G = 7


def log_factorial(k: Any) -> Any:
    """The logarithm of k! for k >= -1/2, by Lanczos' sum, contracted."""
    c = k.dtype.type
    total = c(1)
    for n, coefficient in enumerate(_LANCZOS, 1):
        total = total + c(coefficient) / (k + c(n))
    shift = _LANCZOS_G + 0.5
    log_t = log1p(k * c(1 / shift)) + c(np.log(shift))
    gap = (k + c(0.5)) - (k + c(shift)) / log_t
    return fma(gap, log_t, c(np.log(2 * np.pi) / 2)) + log(total)
