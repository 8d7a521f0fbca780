"""Float64 exponentials, powers, tangents and reciprocal roots as JAX computes them on CPUs.

Input: arrays of float64.  Output: the same shape.  `contracted_f64` says how sums are rounded once.
The exponential is Cephes' (`exp`), contracted.  Powers are the C library's there: Szabolcs Nagy's
(of ARM's optimized routines, in GNU's library since 2.28), a logarithm in two parts and an
exponential with tables, as compiled for machines with fused multiply-add instructions.  Powers
below the smallest normal number are zero, as they are there.  The tangent is the C library's,
wherever that rounds.  The reciprocal root is two of Newton's steps from the estimate that
`vrsqrt14pd` of AVX-512 gives; processors without it lead JAX to another one.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from stax.dtypes import FLOAT64
from stax.loops.contracted_f64 import (
    BLOCK,
    LN2_HIGH,
    LN2_LOW,
    TINY,
    fused_sums,
    in_blocks,
    of_floats,
)

SHIFT = 1.5 * 2.0**52  # a sum with it rounds to a whole number, which is in the last bits

# exp(r) is 1 + 2 p / (q - p) with p = r EXP_TOP(r*r), q = EXP_BOTTOM(r*r), the highest power first.
EXP_TOP = (1.26177193074810590878e-4, 3.02994407707441961300e-2, 1.0)
EXP_BOTTOM = (
    3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1, 2.0,
)  # fmt: skip
EXP_START, EXP_END = -708.3964185322641, 709.782712893384
EXP_LN2 = (6.93145751953125e-1, 1.42860682030941723212e-6)
LOG2_E = 1.4426950408889634


@in_blocks
def exp(x: Any) -> Any:
    """The exponential function."""
    fused = fused_sums(x.size)
    v = np.clip(x, EXP_START, EXP_END)
    whole = np.floor(fused(v, LOG2_E, 0.5))
    r = fused(whole, -EXP_LN2[1], v - whole * EXP_LN2[0])  # the first product is exact
    square = r * r
    top = fused.polynomial(EXP_TOP, square) * r
    out = top / (fused.polynomial(EXP_BOTTOM, square) - top) * 2.0 + 1.0
    exponent = whole.astype(np.int32)
    half = exponent >> 1
    out *= _power_of_two(half)
    out *= _power_of_two(exponent - half)
    out[x < EXP_START] = 0.0
    out[x > EXP_END] = np.inf
    return out


def _power_of_two(k: Any) -> Any:
    return ((k.astype(np.int64) + 1023) << 52).view(FLOAT64)


# The logarithm of a power's base: entry number k of the table is for the numbers of
# [POWER_START, 2 POWER_START) with k in the seven bits below the exponent.
POWER_START = 0x3FE6955500000000  # bits
# log(1 + r) - r over r*r: the first two times 1, the next two times -2, the others times 4, as they
# are multiplied by powers of -r/2.
POWER_LOG = (
    -0.5, -0.6666666666666679, 0.5000000000000007, 0.7999999995323976, -0.6666666663487739,
    -1.142909628459501, 1.0000415263675542,
)  # fmt: skip
POWER_BITS = 7
ENTRIES = 1 << POWER_BITS
_DIGITS = 160  # bits of the fixed-point numbers that tables are made from


@functools.cache
def log_table() -> tuple[Any, Any, Any]:
    """For each entry the reciprocal 1/c of a number, of few bits, and log(c) in two parts."""
    whole = {256: 0}  # log(m / 256)
    for m in range(256, 363):
        whole[m + 1] = whole[m] + _log_ratio(m)
    for m in range(256, 180, -1):
        whole[m - 1] = whole[m] - _log_ratio(m - 1)
    words = POWER_START + (np.arange(ENTRIES + 1) << (52 - POWER_BITS))
    ends = words.view(FLOAT64)
    reciprocals = 2 / (ends[:-1] + ends[1:])
    unit = np.where(reciprocals < 1, 1 / 256, 1 / 128)
    reciprocals = np.rint(reciprocals / unit) * unit
    high, low = np.empty((2, ENTRIES))
    for k, m in enumerate((reciprocals * 256).astype(int)):
        exact = -whole[int(m)]
        steps = (exact + (1 << (_DIGITS - 44))) >> (_DIGITS - 43)  # 2**-43 each
        high[k] = steps / 2**43
        low[k] = (exact - (steps << (_DIGITS - 43))) / 2**_DIGITS
    return reciprocals, high, low


def _log_ratio(m: int) -> int:
    """log((m + 1) / m), as a whole number of 2**-_DIGITS."""
    n, k, total = 2 * m + 1, 1, 0
    term = (2 << _DIGITS) // n
    while term:
        total += term // k
        term //= n * n
        k += 2
    return total


# The exponential of a power's logarithm: exp(r) - 1 - r over r*r, the lowest power first.
INVERSE_STEP = 184.6649652337873  # ENTRIES / log(2)
STEP_HIGH, STEP_LOW = -0.005415212348111709, -1.2864023111638346e-14
POWER_EXP = (0.49999999999996786, 0.16666666666665886, 0.0416666808410674, 0.008333335853059549)
POWER_END = 710.0  # logarithms beyond which powers overflow or are below the smallest normal number
ROUNDED_TWICE = -512.0  # up to here the last sum of products is rounded twice
MARGIN = 64  # powers of two that are multiplied last, so that intermediate results are in range


@functools.cache
def exp_table() -> tuple[Any, Any]:
    """What the exponential of k log(2) / ENTRIES is made from.

    The bits of the nearest float, less those of k / ENTRIES in the exponent; and the relative
    difference from it.
    """
    root = 2 << _DIGITS
    for _ in range(POWER_BITS):
        root = math.isqrt(root << _DIGITS)
    nearest, above = np.empty((2, ENTRIES))
    power = 1 << _DIGITS
    for k in range(ENTRIES):
        nearest[k] = power / 2**_DIGITS
        short = int(nearest[k] * 2**52) << (_DIGITS - 52)
        above[k] = (power - short) / short
        power = power * root >> _DIGITS
    return nearest.view(np.int64) - (np.arange(ENTRIES) << (52 - POWER_BITS)), above


def _power(x: Any, y: Any) -> Any:
    """Of blocks of one dimension."""
    fused, size = fused_sums(x.size), np.abs(x)
    ordinary = (size > 0) & (size < np.inf)
    high, low = _log_in_parts(fused, size)
    if not ordinary.all():
        high, low = np.where(ordinary, high, np.log(size)), np.where(ordinary, low, 0.0)
    product = y * high
    lost = fused(y, low, fused(y, high, -product))
    out = _exp_of_parts(fused, product, lost)
    out[product > POWER_END] = np.inf
    out[(product < -POWER_END) | (out < TINY)] = 0.0
    out[(size == 1) | (y == 0)] = 1.0
    negative = np.flatnonzero(np.signbit(x))
    if negative.size:
        out[negative] *= _sign_of_power(x.take(negative), y.take(negative))
    return out


def _log_in_parts(fused: Any, x: Any) -> tuple[Any, Any]:
    """log(x), and what that lacks, of positive finite numbers."""
    words = x.view(np.int64)
    small = x < TINY
    if small.any():
        words = np.where(small, (x * 2.0**52).view(np.int64) - (52 << 52), words)
    offset = words - POWER_START
    entry = (offset >> (52 - POWER_BITS)) & (ENTRIES - 1)
    exponent = offset >> 52
    part = (words - (exponent << 52)).view(FLOAT64)
    exponent = exponent.astype(FLOAT64)
    reciprocal, log_high, log_low = (table.take(entry) for table in log_table())
    a = POWER_LOG
    r = fused(part, reciprocal, -1.0)
    known = exponent * LN2_HIGH + log_high  # an exact product
    near = known + r
    half = r * a[0]
    square = r * half
    high = near + square
    low = fused(exponent, LN2_LOW, log_low) + ((known - near) + r)
    low = (low + fused(half, r, -square)) + ((near - high) + square)
    rest = fused(fused(r, a[6], a[5]), square, fused(r, a[4], a[3]))
    rest = fused(square, rest, fused(r, a[2], a[1]))
    low = fused(r * square, rest, low)
    total = high + low
    return total, (high - total) + low


def _exp_of_parts(fused: Any, x: Any, low: Any) -> Any:
    """exp(x + low) of an x up to `POWER_END`."""
    shifted = fused(x, INVERSE_STEP, SHIFT)
    steps = shifted.view(np.int64)
    whole = shifted - SHIFT
    r = low + fused(whole, STEP_LOW, x + whole * STEP_HIGH)  # the last product is exact
    words, above = exp_table()
    entry, (a, b, c, d) = steps & (ENTRIES - 1), POWER_EXP
    square = r * r
    rest = fused(fused(r, b, a), square, r + above.take(entry))
    rest = fused(fused(r, d, c), square * square, rest)
    # Nearer to 1, so that neither the factor nor the sum is out of range.
    bias = np.where(x < 0, MARGIN, -MARGIN)
    scale = (words.take(entry) + (steps << (52 - POWER_BITS)) + (bias << 52)).view(FLOAT64)
    out = fused(rest, scale, scale)
    small = np.flatnonzero(x <= ROUNDED_TWICE)
    if small.size:
        out[small] = scale.take(small) + scale.take(small) * rest.take(small)
    return out * np.where(x < 0, 2.0**-MARGIN, 2.0**MARGIN)


def _sign_of_power(x: Any, y: Any) -> Any:
    """The factor of a power of a negative number: NaN where the exponent is not whole."""
    whole = np.rint(y) == y
    odd = whole & (np.rint(y / 2) * 2 != y)
    broken = (x < 0) & (x > -np.inf) & ~whole
    return np.where(broken, np.nan, np.where(odd, -1.0, 1.0))


def power(x: Any, y: Any) -> Any:
    """Powers."""
    x, y = np.broadcast_arrays(np.asarray(x, FLOAT64), np.asarray(y, FLOAT64))
    out = np.empty(x.shape)
    flat, base, exponent = out.reshape(-1), x.reshape(-1), y.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):
            at = slice(start, start + BLOCK)
            flat[at] = _power(np.ascontiguousarray(base[at]), exponent[at])
    return out[()]


tan = of_floats(math.tan, "The tangent of the C library; NaN of infinities.")


# The estimate of a reciprocal root: for each 32nd of [1, 2) and of [2, 4) a straight line, in whole
# numbers: its value at the left end times 2**19, and what it loses over a 1024th of the piece times
# 2**26.  The estimate has 17 bits after the point, the rest cut off.
ESTIMATE_ENDS = (
    524265, 516257, 508613, 501298, 494286, 487559, 481101, 474897, 468922, 463169, 457623, 452276,
    447106, 442106, 437279, 432603, 428071, 423683, 419423, 415288, 411277, 407379, 403592, 399907,
    396319, 392827, 389430, 386110, 382879, 379734, 376655, 373658, 370709, 365049, 359644, 354468,
    349516, 344759, 340193, 335801, 331581, 327515, 323589, 319805, 316149, 312618, 309201, 305899,
    302695, 299587, 296575, 293657, 290819, 288062, 285380, 282776, 280242, 277773, 275367, 273022,
    270741, 268509, 266336, 264214,
)  # fmt: skip
ESTIMATE_SLOPES = (
    1001, 955, 915, 877, 841, 807, 775, 747, 719, 693, 669, 647, 625, 603, 585, 567, 549, 533, 517,
    501, 487, 473, 461, 449, 437, 425, 415, 403, 393, 385, 375, 367, 707, 675, 647, 619, 595, 571,
    549, 527, 509, 491, 473, 457, 441, 427, 413, 401, 389, 377, 365, 355, 345, 335, 325, 317, 309,
    301, 293, 285, 279, 271, 265, 259,
)  # fmt: skip
ESTIMATE_BITS = 17


def estimated_root(x: Any) -> Any:
    """The estimate of `1 / sqrt(x)`, within 2**-14 of it; x positive and normal."""
    words = x.view(np.int64)
    exponent = (words >> 52) - 1023
    piece = (exponent & 1) << 5 | (words >> 47) & 31
    along = (words >> 37) & 1023
    line = (np.take(ESTIMATE_ENDS, piece) << 7) - np.take(ESTIMATE_SLOPES, piece) * along
    line >>= 9
    whole = (words & ((1 << 52) - 1) == 0) & (exponent & 1 == 0)
    line[whole] = 1 << ESTIMATE_BITS  # a power of four has an exact root
    return np.ldexp(line.astype(FLOAT64), -ESTIMATE_BITS - (exponent >> 1))


@in_blocks
def reciprocal_root(x: Any) -> Any:
    """The inverse of the square root."""
    ordinary = (x >= TINY) & (x < np.inf)
    v = np.where(ordinary, x, 1.0)
    fused, y = fused_sums(x.size), estimated_root(v)
    for _ in range(2):
        y = fused(-0.5 * y, fused(v * y, y, -1.0), y)
    return np.where(ordinary, y, 1 / np.sqrt(x))
