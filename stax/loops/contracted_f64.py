"""Float64 arithmetic as compilers contract it: the functions of float64 random numbers.

Input: arrays of float64.  Output: the same shape.  `contracted` has the same in float32, and says
what they are for.  The logarithm is that of C libraries (ARM's optimized routines) as compiled for
machines with fused multiply-add instructions; its `log1p` is Cephes' quotient of polynomials near
0; the inverse of the error function is Giles' for double precision ("Approximating the erfinv
function", GPU Computing Gems, 2011).  All are the same on every machine.  The error function is the
C library's, wherever that rounds.

NumPy has no `fma`, but its complex products take such instructions, and make these functions fast.
Where a trial shows that they do not round so, the sums are taken exactly, in parts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.dtypes import FLOAT64
from stax.loops.log_table import LOGARITHMS, RECIPROCALS

BLOCK = 1 << 13  # elements whose intermediate results stay in the cache
_VECTOR = 64  # more elements than vectors of NumPy's loops take at a time


# ---------------------------------------------------------------------------- sums of products


def exact_fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` rounded once, in plain float64 operations.

    The product and both sums are taken apart into a number and what rounding it lost; the small
    parts are added with rounding to odd (Boldo and Melquiond, "Emulation of a FMA and correctly
    rounded sums", 2008).  Products are below 2^1000 and lose no digits below 2^-1074.
    """
    product = a * b
    total = product + c
    lost, low = _sum(c, _lost_product(a, b, product))
    high, part = _sum(product, lost)
    out = high + _odd(low, part)
    return np.where(np.isfinite(total), out, total)


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _lost_product(a: Any, b: Any, product: Any) -> Any:
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The sum rounded, and what rounding it lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd(a: Any, b: Any) -> Any:
    """The sum, rounded to the neighbour of odd digits unless it is exact."""
    total, lost = _sum(a, b)
    total, lost = np.atleast_1d(total, lost)
    words = total.view(np.int64)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    out = words + np.where((lost != 0) & (words & 1 == 0), step, 0)
    return out.view(FLOAT64).reshape(np.shape(total))


class _Parts:
    """Sums of products of `size` elements, rounded once, by exact parts."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, a: Any, b: Any, c: Any) -> Any:
        return exact_fma(a, b, c)

    def polynomial(self, coefficients: tuple[float, ...], x: Any) -> Any:
        """By Horner's rule from the highest power down."""
        out = np.full(self._size, coefficients[0])
        for c in coefficients[1:]:
            out = exact_fma(out, x, c)
        return out


class _Complex:
    """The same by products of complex numbers.

    (a + i) (c + b i) has the imaginary part a*b + c, of which NumPy rounds c and then the sum.
    """

    def __init__(self, size: int) -> None:
        # Whole vectors: what remains of a line may be computed otherwise.
        padded = max(-(-size // _VECTOR) * _VECTOR, _VECTOR)
        self._left, self._right = np.ones((2, padded), np.complex128)
        self._factor = self._left.real[:size]
        self._value, self._addend = self._right.imag[:size], self._right.real[:size]
        self._left.imag = 1

    def __call__(self, a: Any, b: Any, c: Any) -> Any:
        self._factor[...] = a
        self._value[...] = b
        self._addend[...] = c
        np.multiply(self._left, self._right, out=self._right)
        return self._value.copy()

    def polynomial(self, coefficients: tuple[float, ...], x: Any) -> Any:
        """By Horner's rule from the highest power down."""
        self._factor[...] = x
        self._value[...] = coefficients[0]
        for c in coefficients[1:]:
            self._addend[...] = c
            np.multiply(self._left, self._right, out=self._right)
        return self._value.copy()


@functools.cache
def _way() -> Callable[[int], Any]:
    """The faster of the two that rounds once on this machine."""
    a, b = np.linspace(0.1, 1.7, 2 * 999).reshape(2, -1) ** 3
    c = np.concatenate([-a[:500] * b[:500], b[500:]])
    same = all(
        np.array_equal(_Complex(n)(a[-n:], b[-n:], c[-n:]), exact_fma(a[-n:], b[-n:], c[-n:]))
        for n in (1, 999)
    )
    return _Complex if same else _Parts


def fused_sums(size: int) -> Any:
    """Sums of products, rounded once, for arrays of one dimension and `size` elements."""
    return _way()(size)


def fma(a: Any, b: Any, c: Any) -> Any:
    """The sum `a * b + c`, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    out = np.empty(a.shape)
    flat, rest = out.reshape(-1), [v.reshape(-1) for v in (a, b, c)]
    for start in range(0, flat.size, BLOCK):
        parts = [v[start : start + BLOCK] for v in rest]
        with np.errstate(all="ignore"):
            flat[start : start + BLOCK] = fused_sums(parts[0].size)(*parts)
    return out[()]


def in_blocks(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of any array, from that of blocks of one dimension."""

    @functools.wraps(function)
    def blocks(x: Any) -> Any:
        x = np.asarray(x)
        flat = x.astype(FLOAT64, copy=False).reshape(-1)
        out = np.empty(flat.shape)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, BLOCK):
                out[start : start + BLOCK] = function(flat[start : start + BLOCK])
        return out.reshape(x.shape)[()]

    return blocks


def _at(out: Any, where: Any, function: Callable[[Any], Any], x: Any) -> None:
    """Write the function of the elements of `x` that are chosen."""
    # Positions: NumPy takes several times as long for a mask.
    at = np.flatnonzero(where)
    if at.size:
        out[at] = function(x.take(at))


# --------------------------------------------------------------------------- logarithms

LN2_HIGH, LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
# log(1 + r) - r over r*r, from the constant up, for |r| < 2^-8 and for r of the range `NEAR_ONE`.
LOG = (
    -0.5000000000000001, 0.33333333331825593, -0.2499999999622955, 0.20000304511814496,
    -0.16667054827627667,
)  # fmt: skip
LOG_NEAR_ONE = (
    -0.5, 0.3333333333333352, -0.24999999999998432, 0.19999999999320328, -0.16666666669929706,
    0.14285715076560868, -0.12499997863982555, 0.11110712032936046, -0.10000486757818193,
    0.09181994006195467, -0.08328363062289341,
)  # fmt: skip
NEAR_ONE = (0.9375, 1.064697265625)  # the first number in it, and the first one beyond it
TINY = float(np.finfo(FLOAT64).tiny)
SPLIT = 2.0**27  # takes a number apart into halves
START = 0x3FE6000000000000  # the bits of the first number of the table
WIDTH = 45  # bits of a mantissa that do not choose an entry of the table


def _log_far(x: Any) -> Any:
    """Of positive normal numbers not near 1."""
    return _log_words(x.view(np.int64))


def _log_words(words: Any) -> Any:
    """Of the numbers with these bits; the exponent in them may be below those of normal numbers."""
    fma = fused_sums(words.size)
    offset = words - START
    entry = (offset >> WIDTH) & 127
    exponent = offset >> 52
    part = (words - (exponent << 52)).view(FLOAT64)
    exponent = exponent.astype(FLOAT64)
    r = fma(part, RECIPROCALS.take(entry), -1.0)
    known = exponent * LN2_HIGH + LOGARITHMS.take(entry)  # an exact product
    high = known + r
    square = r * r
    low = fma(exponent, LN2_LOW, (known - high) + r)
    low = fma(square, LOG[0], low)
    rest = fma(fma(r, LOG[4], LOG[3]), square, fma(r, LOG[2], LOG[1]))
    return fma(r * square, rest, low) + high


def _log_near(x: Any) -> Any:
    """Of numbers near 1."""
    fma, b = fused_sums(x.size), LOG_NEAR_ONE
    r = x - 1.0
    square = r * r
    cube = r * square
    first = fma(square, b[3], fma(r, b[2], b[1]))
    second = fma(square, b[6], fma(r, b[5], b[4]))
    third = fma(cube, b[10], fma(square, b[9], fma(r, b[8], b[7])))
    rest = fma(fma(third, cube, second), cube, first)
    # r - r*r/2 in two parts, with the square of the upper half of the digits of r, which is exact.
    scaled = r * SPLIT
    upper = (r + scaled) - scaled
    half = upper * upper * b[0]
    high = r + half
    low = fma((r - upper) * b[0], r + upper, (r - high) + half)
    return high + fma(rest, cube, low)


def _log_other(x: Any) -> Any:
    """Of zeros, subnormal and negative numbers, and what is not finite."""
    out = np.log(x)
    _at(out, (x > 0) & (x < TINY), _log_subnormal, x)
    return out


def _log_subnormal(x: Any) -> Any:
    return _log_words((x * 2.0**52).view(np.int64) - (52 << 52))


@in_blocks
def log(x: Any) -> Any:
    """The natural logarithm."""
    out = _log_far(x)  # of all, as most are of this kind
    _at(out, (x >= NEAR_ONE[0]) & (x < NEAR_ONE[1]), _log_near, x)
    _at(out, ~((x >= TINY) & (x < np.inf)), _log_other, x)
    return out


# The quotient of polynomials of log1p, from the highest power down.
LOG1P_TOP = (
    4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969e0,
    2.9911919328553073277375e1, 6.0949667980987787057556e1, 5.7112963590585538103336e1,
    2.0039553499201281259648e1,
)  # fmt: skip
LOG1P_BOTTOM = (
    1.0, 1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2,
    3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1,
)  # fmt: skip
NEAR = 0.41421356237309503  # the square root of 2, less 1: the range of the quotient


def _log1p_near(x: Any) -> Any:
    fused = fused_sums(x.size)
    square = x * x
    quotient = fused.polynomial(LOG1P_TOP, x) / fused.polynomial(LOG1P_BOTTOM, x)
    return x + ((x * square) * quotient + square * -0.5)


def _log1p_far(x: Any) -> Any:
    """Of what is so far from 0 that 1 + x is not near 1."""
    x = x + 1.0
    out = _log_far(x)
    _at(out, ~((x > 0) & (x < np.inf)), np.log, x)
    return out


def _log1p(x: Any) -> Any:
    near = np.abs(x) < NEAR
    out = np.empty(x.shape)
    _at(out, near, _log1p_near, x)
    _at(out, ~near, _log1p_far, x)
    return out


@in_blocks
def log1p(x: Any) -> Any:
    """The logarithm of 1 + x: near 0 by a quotient of polynomials, else by `log`."""
    return _log1p(x)


# erfinv(x) / x, from the highest power down, for w = -log(1 - x*x): in w - 3.125 where w is below
# 6.25, in sqrt(w) - 3.25 where it is below 16, and in sqrt(w) - 5 elsewhere.
GILES_LOW = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip
GILES_MIDDLE = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip
GILES_HIGH = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip
LOW, HIGH = 6.25, 16.0
CENTRES = (3.125, 3.25, 5.0)


@in_blocks
def erfinv(x: Any) -> Any:
    """The inverse of the error function."""
    w = -_log1p(-(x * x))
    out = _ratio(GILES_LOW, w - CENTRES[0])  # of all, as nearly all are of this kind
    high = ~(w < HIGH)
    _at(out, ~(high | (w < LOW)), _ratio_middle, w)
    _at(out, high, _ratio_high, w)
    out[np.abs(x) == 1] = np.inf
    return out * x


def _ratio(coefficients: tuple[float, ...], v: Any) -> Any:
    return fused_sums(v.size).polynomial(coefficients, v)


def _ratio_middle(w: Any) -> Any:
    return _ratio(GILES_MIDDLE, np.sqrt(w) - CENTRES[1])


def _ratio_high(w: Any) -> Any:
    return _ratio(GILES_HIGH, np.sqrt(w) - CENTRES[2])


def of_floats(function: Callable[[float], float], doc: str) -> Callable[[Any], Any]:
    """The function of arrays, from that of one float; NaN where that raises an error."""

    def quiet(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan

    elementwise = np.vectorize(quiet, otypes=[FLOAT64])

    def of_arrays(x: Any) -> Any:
        return elementwise(x).reshape(np.shape(x))[()]

    of_arrays.__doc__ = doc
    return of_arrays


erf = of_floats(math.erf, "The error function of the C library.")
