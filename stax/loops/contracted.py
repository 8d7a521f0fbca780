"""Float32 arithmetic as compilers contract it: a product that only a sum reads is not rounded.

Input: NumPy arrays of floats (half types are computed in float32, float64 by `contracted_f64`).
Output: the same shape and dtype.
JAX's samplers come from a compiler that fuses multiplications with additions and has its own
logarithms and error functions, so a sampler that is to give the same numbers must round where it
rounds.  The logarithms are Cephes' (the polynomials of `logf` and `log1p`), the error function is
Eigen's quotient of polynomials, its inverse is Giles' for single precision ("Approximating the
erfinv function", GPU Computing Gems, 2011), log-gamma is Lanczos' sum with g = 7 and nine terms.

The public logarithms and `erfinv` are others, which are more accurate; `vecmath_contracted` has
these functions in C, `prelude` in Triton.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.dtypes import FLOAT32, FLOAT64
from stax.loops import contracted_f64

_F = FLOAT32.type
_HALF = _F(0.5)
_ONE = _F(1)
BLOCK = 1 << 14  # elements whose intermediate results stay in the cache


def fma(a: Any, b: Any, c: Any) -> Any:
    """The sum `a * b + c`, rounded once; that of half types to float32 first."""
    dtype = np.result_type(a, b, c)
    if dtype == FLOAT64:
        return contracted_f64.fma(a, b, c)
    if dtype.itemsize == 8:
        return a * b + c
    product = np.multiply(a, b, dtype=np.float64)  # exact
    out = np.asarray(product + c)
    # Where the rounded sum lies half way between two float32, it must lean to the exact one.
    between = (out.view(np.uint64) & np.uint64(2**29 - 1)) == np.uint64(2**28)
    if between.any():
        product, c = (np.broadcast_to(v, out.shape)[between] for v in (product, c))
        total = out[between]
        part = total - product
        error = (product - (total - part)) + (c - part)
        out[between] = np.where(
            error == 0, total, np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        )
    return out.astype(FLOAT32).astype(dtype, copy=False)[()]


# Below, what is called wide is a float64 array of float32 numbers, so that `fused` converts less.


def wide(x: Any) -> Any:
    return x.astype(FLOAT64)


def rounded(x: Any) -> Any:
    return x.astype(FLOAT32).astype(FLOAT64)


def fused(a: Any, b: Any, c: Any) -> Any:
    """`fma` of wide operands, wide."""
    out = a * b
    out += c
    out[...] = out.astype(FLOAT32)
    return out


def constants(*values: float) -> tuple[float, ...]:
    return tuple(float(_F(v)) for v in values)


def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """By Horner's rule from the highest power down, wide."""
    out = np.full_like(x, coefficients[0])
    narrow = np.empty(x.shape, FLOAT32)
    for c in coefficients[1:]:
        out *= x
        out += c
        narrow[...] = out
        out[...] = narrow
    return out


def in_precision(
    single: Callable[[Any], Any], double: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """The function that is `single` on float32 (a block at a time) and half types, else `double`.

    `single` takes and gives float32 arrays of one dimension.
    """

    @functools.wraps(single)
    def function(x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.itemsize == 8:
            return double(x)
        dtype = np.dtype(x.dtype.type)  # in the machine's byte order
        flat = x.astype(FLOAT32, copy=False).reshape(-1)
        if flat.size <= BLOCK:
            out = single(flat).astype(dtype, copy=False)
        else:
            out = np.empty(flat.shape, dtype)
            for start in range(0, flat.size, BLOCK):
                out[start : start + BLOCK] = single(flat[start : start + BLOCK])
        return out.reshape(x.shape)[()]

    return function


# log(1 + x) - x + x*x/2 over x**3, for 1 + x between sqrt(1/2) and sqrt(2).
LOG = constants(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
    -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
LN2_LOW, LN2_HIGH = constants(-2.12194440e-4, 0.693359375)
ROOT_HALF = float(np.sqrt(_HALF))


def _log(x: Any) -> Any:
    word = np.maximum(x, np.finfo(FLOAT32).tiny).view(np.uint32)
    exponent = wide((word >> np.uint32(23)).astype(np.int32) - np.int32(126))
    part = (word & np.uint32(0x007FFFFF) | np.uint32(0x3F000000)).view(FLOAT32)
    low = part < _F(ROOT_HALF)
    exponent -= low
    y = wide((part - _ONE) + part * low)
    square = rounded(y * y)
    cube = rounded(square * y)
    a, b, c = (polynomial(LOG[k : k + 3], y) for k in (0, 3, 6))
    rest = fused(fused(fused(a, cube, b), cube, c), cube, rounded(exponent * LN2_LOW))
    rest = rounded(fused(square, -0.5, y) + rest)
    out = fused(exponent, LN2_HIGH, rest).astype(FLOAT32)
    special = np.flatnonzero(~((x > 0) & (x < np.inf)))
    if special.size:
        with np.errstate(all="ignore"):
            out[special] = np.log(x.take(special))
    return out


log = in_precision(_log, contracted_f64.log)
log.__doc__ = "The natural logarithm, contracted; float32 by Cephes' polynomial."


# The quotient of polynomials of log1p, from the highest power down.
LOG1P_TOP = constants(
    4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969e0,
    2.9911919328553073277375e1, 6.0949667980987787057556e1, 5.7112963590585538103336e1,
    2.0039553499201281259648e1,
)  # fmt: skip
LOG1P_BOTTOM = constants(
    1.0, 1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2,
    3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1,
)  # fmt: skip
NEAR = float(np.sqrt(_F(2)) - _ONE)  # the range of `log1p`'s quotient


def _log1p_near(x: Any) -> Any:
    x = wide(x)
    square = rounded(x * x)
    quotient = rounded(polynomial(LOG1P_TOP, x) / polynomial(LOG1P_BOTTOM, x))
    rest = fused(square, -0.5, rounded(rounded(x * square) * quotient))
    return (x + rest).astype(FLOAT32)


def _log1p_far(x: Any) -> Any:
    return _log(x + _ONE)


def _log1p(x: Any) -> Any:
    near = np.abs(x) < _F(NEAR)
    out = np.empty_like(x)
    # Positions: NumPy takes several times as long for a mask.
    for where, function in ((near, _log1p_near), (~near, _log1p_far)):
        at = np.flatnonzero(where)
        if at.size:
            out[at] = function(x.take(at))
    return out


log1p = in_precision(_log1p, contracted_f64.log1p)
log1p.__doc__ = "The logarithm of 1 + x by Cephes' quotient near 0, else by `log`."


# erf(x) / x as a quotient of polynomials in x*x, from the highest power down: the approximation of
# Eigen's vector functions.  From ERF_END on erf(x) is 1, where JAX's compiler computes it beside a
# product, as draws do.
ERF_TOP = constants(
    2.2905065861350646e-4, 3.4082910107109506e-3, 5.0955695062380861e-2, 1.8520832239976145e-1,
    1.128379143519084,
)  # fmt: skip
ERF_BOTTOM = constants(
    -1.1791602954361697e-7, 2.3547966471313185e-5, 1.0179625278914885e-3,
    1.4070470171167667e-2, 1.1098505178285362e-1, 4.9746925110067538e-1, 1.0,
)  # fmt: skip
ERF_END = float(_F(3.7439211627767994))


def _erf(x: Any) -> Any:
    v = wide(np.clip(x, _F(-ERF_END), _F(ERF_END)))
    square = rounded(v * v)
    top = rounded(v * polynomial(ERF_TOP, square))
    value = (top / polynomial(ERF_BOTTOM, square)).astype(FLOAT32)
    return np.where(np.abs(x) >= _F(ERF_END), np.copysign(_F(1), x), value)


erf = in_precision(_erf, contracted_f64.erf)
erf.__doc__ = "The error function, contracted; float64 by the C library."


# erfinv(x) / x, from the highest power down: in w - 2.5 where w = -log(1 - x*x) is below 5, and in
# sqrt(w) - 3 elsewhere.
GILES_LOW = constants(
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
GILES_HIGH = constants(
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erfinv(x: Any) -> Any:
    w = -_log1p(-(x * x))
    ratio = polynomial(GILES_LOW, wide(w - _F(2.5))).astype(FLOAT32)
    high = np.flatnonzero(~(w < 5))
    if high.size:
        ratio[high] = polynomial(GILES_HIGH, wide(np.sqrt(w.take(high)) - _F(3)))
        ratio[np.abs(x) == 1] = np.inf
    return ratio * x


erfinv = in_precision(_erfinv, contracted_f64.erfinv)
erfinv.__doc__ = "The inverse of the error function by Giles' polynomials, contracted."


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
