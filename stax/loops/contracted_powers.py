"""Float32 exponentials, powers, tangents and reciprocal roots as JAX computes them on CPUs.

Input: NumPy arrays of floats (half types are computed in float32, float64 by
`contracted_powers_f64`).  Output: the same shape and dtype.
`contracted` says why random numbers have functions of their own.  The exponential is Cephes'
(`expf`), contracted.  Powers and tangents are the C library's there: powers Szabolcs Nagy's (of
ARM's optimized routines, in GNU's library since 2.28), in double precision with tables, tangents
Sun's kernel in single precision (in GNU's library up to 2.40).  The reciprocal root is two of
Newton's steps from the estimate that x86's `rsqrtss` gives, which is that of Intel's processors.
Results below the smallest normal number are zero, as they are there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stax.dtypes import FLOAT32, FLOAT64
from stax.loops import contracted_powers_f64
from stax.loops.contracted import (
    BLOCK,
    LN2_HIGH,
    LN2_LOW,
    constants,
    fused,
    in_precision,
    polynomial,
    rounded,
    wide,
)

_F = FLOAT32.type
TINY = float(np.finfo(FLOAT32).tiny)

# exp(r) - 1 - r over r*r for abs(r) up to log(2)/2, from the highest power down.
EXP = constants(
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip
EXP_START, EXP_END, LOG2_E = constants(-87.8, 88.8, 1.44269504088896341)
EXP_MOST = 127.0  # the largest exponent of two


def _exp(x: Any) -> Any:
    x = wide(np.clip(x, _F(EXP_START), _F(EXP_END)))
    whole = np.floor(fused(x, LOG2_E, 0.5))
    np.clip(whole, -EXP_MOST, EXP_MOST, out=whole)
    r = fused(whole, -LN2_LOW, fused(whole, -LN2_HIGH, x))
    out = fused(polynomial(EXP, r), rounded(r * r), r).astype(FLOAT32) + _F(1)
    with np.errstate(invalid="ignore"):  # of NaN
        scale = (whole.astype(np.int32) + np.int32(127)) << np.int32(23)
    out *= scale.view(FLOAT32)
    out[out < TINY] = 0
    return out


exp = in_precision(_exp, contracted_powers_f64.exp)
exp.__doc__ = "The exponential function, contracted; float32 by Cephes' polynomial."


# For x = 2**k * z with z from 0.7 to 1.4: near the middle c of each sixteenth of that range, 1/c
# and log2(c).
INVERSE = tuple(float.fromhex(v) for v in (
    "0x1.661ec79f8f3bep+0", "0x1.571ed4aaf883dp+0", "0x1.49539f0f010b0p+0", "0x1.3c995b0b80385p+0",
    "0x1.30d190c8864a5p+0", "0x1.25e227b0b8ea0p+0", "0x1.1bb4a4a1a343fp+0", "0x1.12358f08ae5bap+0",
    "0x1.0953f419900a7p+0", "0x1.0000000000000p+0", "0x1.e608cfd9a47acp-1", "0x1.ca4b31f026aa0p-1",
    "0x1.b2036576afce6p-1", "0x1.9c2d163a1aa2dp-1", "0x1.886e6037841edp-1", "0x1.767dcf5534862p-1",
))  # fmt: skip
LOG2 = tuple(float.fromhex(v) for v in (
    "-0x1.efec65b963019p-2", "-0x1.b0b6832d4fca4p-2", "-0x1.7418b0a1fb77bp-2",
    "-0x1.39de91a6dcf7bp-2", "-0x1.01d9bf3f2b631p-2", "-0x1.97c1d1b3b7af0p-3",
    "-0x1.2f9e393af3c9fp-3", "-0x1.960cbbf788d5cp-4", "-0x1.a6f9db6475fcep-5", "0x0.0p+0",
    "0x1.338ca9f24f53dp-4", "0x1.476a9543891bap-3", "0x1.e840b4ac4e4d2p-3", "0x1.40645f0c6651cp-2",
    "0x1.88e9c2c1b9ff8p-2", "0x1.ce0a44eb17bccp-2",
))  # fmt: skip
# log2(1 + r) over r, from the highest power down.
LOG2_NEAR = tuple(float.fromhex(v) for v in (
    "0x1.27616c9496e0bp-2", "-0x1.71969a075c67ap-2", "0x1.ec70a6ca7baddp-2",
    "-0x1.7154748bef6c8p-1", "0x1.71547652ab82bp+0",
))  # fmt: skip
# 2**r - 1 over r for abs(r) up to 1/64, from the highest power down.
EXP2_NEAR = tuple(float.fromhex(v) for v in (
    "0x1.c6af84b912394p-5", "0x1.ebfce50fac4f3p-3", "0x1.62e42ff0c52d6p-1",
))  # fmt: skip
RANGE_START = 0x3F330000  # the bits of where z's range begins
PARTS = 32  # powers of two in the table


def _root_of_two(k: int) -> float:
    """2**(k / PARTS), rounded once: square roots, rounded down, of a large power of two."""
    value = 1 << (k + PARTS * 64)
    for _ in range(PARTS.bit_length() - 1):
        value = math.isqrt(value)
    return value / 2**64


ROOTS = tuple(_root_of_two(k) for k in range(PARTS))
POWER_END = 200.0  # powers of two beyond which any float32 overflows or underflows


def _power(x: Any, y: Any) -> Any:
    """`x**y` of float32 arrays of one dimension."""
    size = np.abs(x)
    word = size.view(np.uint32)
    above = word - np.uint32(RANGE_START)
    part = (above >> np.uint32(19)) & np.uint32(15)
    exponent = above.view(np.int32) >> np.int32(23)
    z = wide((word - (above & np.uint32(0xFF800000))).view(FLOAT32))
    r = z * np.take(INVERSE, part) - 1
    a, b, c, d, e = LOG2_NEAR
    square = r * r
    low = e * r + (np.take(LOG2, part) + exponent)
    log2 = (a * r + b) * (square * square) + ((c * r + d) * square + low)
    log2[size < TINY] = -np.inf
    ordinary = size < np.inf
    if not ordinary.all():
        log2 = np.where(ordinary, log2, size)
    scaled = np.clip(y * log2, -POWER_END, POWER_END)
    steps = np.rint(scaled * PARTS)
    r = scaled - steps * (1 / PARTS)
    steps = steps.astype(np.int32)
    a, b, c = EXP2_NEAR
    factor = (a * r + b) * (r * r) + (c * r + 1)
    root = np.take(ROOTS, steps & (PARTS - 1))
    out = np.ldexp(factor * root, steps >> (PARTS.bit_length() - 1)).astype(FLOAT32)
    out[out < TINY] = 0
    out[(size == 1) | (y == 0)] = 1
    negative = np.flatnonzero(np.signbit(x))
    if negative.size:
        base, exponent = x.take(negative), y.take(negative)
        whole = np.rint(exponent) == exponent
        odd = whole & (np.rint(exponent / 2) * 2 != exponent)
        broken = (base < 0) & (base > -np.inf) & ~whole
        sign = np.where(odd, _F(-1), _F(1))
        out[negative] *= np.where(broken, _F(np.nan), sign)
    return out


def power(x: Any, y: Any) -> Any:
    """Powers, as GNU's C library rounds them: those of float32 are computed in double precision."""
    dtype = np.result_type(x, y)
    if dtype.itemsize == 8:
        return contracted_powers_f64.power(x, y)
    with np.errstate(all="ignore"):
        x, y = np.broadcast_arrays(np.asarray(x, FLOAT32), np.asarray(y, FLOAT32))
        base, exponent = x.reshape(-1), y.reshape(-1)
        out = np.empty(base.shape, np.dtype(dtype.type))
        for start in range(0, base.size, BLOCK):
            at = slice(start, start + BLOCK)
            out[at] = _power(np.ascontiguousarray(base[at]), exponent[at])
    return out.reshape(x.shape)[()]


# (tan(x) - x) over x**3, in x*x, from the lowest power up.
TAN = constants(
    3.3333334327e-1, 1.3333334029e-1, 5.3968254477e-2, 2.1869488060e-2, 8.8632395491e-3,
    3.5920790397e-3, 1.4562094584e-3, 5.8804126456e-4, 2.4646313977e-4, 7.8179444245e-5,
    7.1407252108e-5, -1.8558637748e-5, 2.5907305826e-5,
)  # fmt: skip
HALF_PI = math.pi / 2
QUARTER_PI = constants(7.8539812565e-1, 3.7748947079e-8)
TAN_FOLD = float(np.uint32(0x3F2CA140).view(_F))  # where tan is had from pi/4 - x
TAN_TINY = 2.0**-13  # below it tan(x) is x
TAN_END = 120.0  # up to here multiples of pi/2 are taken off in double precision
_CUT = np.uint32(0xFFFFF000)  # keeps twelve bits of a number


def _cut(x: Any) -> Any:
    return (x.view(np.uint32) & _CUT).view(FLOAT32)


def _tan(x: Any) -> Any:
    """Without contraction; x of float32, of one dimension."""
    with np.errstate(all="ignore"):
        return _tan_quietly(x)


def _tan_quietly(x: Any) -> Any:
    size = np.abs(x)
    double = np.where(size < _F(TAN_END), x, _F(0)).astype(FLOAT64)
    multiple = np.floor(double * (1 / HALF_PI) + 0.5)
    multiple[size <= _F(QUARTER_PI[0])] = 0
    gap = double - multiple * HALF_PI
    high = gap.astype(FLOAT32)
    low = (gap - high).astype(FLOAT32)
    turned = multiple % 2 == 1  # then tan(x) = -1 / tan(high + low)
    folded = np.abs(high) >= _F(TAN_FOLD)
    sign = np.where(folded & (high < 0), _F(-1), _F(1))
    v = np.where(folded, (_F(QUARTER_PI[0]) - sign * high) + (_F(QUARTER_PI[1]) - sign * low), high)
    low = np.where(folded, _F(0), low)
    z = v * v
    w = z * z
    odd, even = _F(TAN[11]), _F(TAN[12])
    for k in range(9, 0, -2):
        odd, even = _F(TAN[k]) + w * odd, _F(TAN[k + 1]) + w * even
    s = z * v
    r = low + z * (s * (odd + z * even) + low)
    r = r + _F(TAN[0]) * s
    total = v + r
    unit = np.where(turned, _F(-1), _F(1))
    # From pi/4 - x: 1 - 2 v / (1 + v) and its inverse.
    flipped = sign * (unit - _F(2) * (v - (total * total / (total + unit) - r)))
    short = sign * unit * (_F(1) - _F(2) * unit * v)
    flipped = np.where(np.abs(v) < _F(2.0**-13), short, flipped)
    head, inverse = _cut(total), _F(-1) / total
    inverse_head = _cut(inverse)
    error = (_F(1) + inverse_head * head) + inverse_head * (r - (head - v))
    out = np.where(turned, inverse_head + inverse * error, total)
    out = np.where(folded, flipped, out)
    small = np.abs(high) < _F(TAN_TINY)
    out = np.where(small, np.where(turned, _F(-1) / high, high), out)
    out[~(size < _F(TAN_END))] = np.nan
    return out


tan = in_precision(_tan, contracted_powers_f64.tan)
tan.__doc__ = "The tangent of the C library; float32's of GNU's up to 2.40, NaN from 120 on."


def reciprocal_root(x: Any) -> Any:
    """The inverse of the square root, contracted; half types are computed in float32."""
    x = np.asarray(x)
    if x.dtype.itemsize == 8:
        return contracted_powers_f64.reciprocal_root(x)
    return _reciprocal_root(x.astype(FLOAT32)).astype(x.dtype)


def _reciprocal_root(x: Any) -> Any:
    # The estimate is the inverse root of the middle of the 2**-11 around, to twelve bits.
    middle = (x.view(np.uint32) & np.uint32(0xFFFFE000) | np.uint32(0x1000)).view(FLOAT32)
    mantissa, exponent = np.frexp(1 / np.sqrt(wide(middle)))
    y = np.ldexp(np.rint(mantissa * 2.0**13), exponent - 13)
    x = wide(x)
    for _ in range(2):
        y = fused(-0.5 * y, fused(rounded(x * y), y, -1.0), y)
    return y.astype(FLOAT32)
