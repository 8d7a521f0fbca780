"""Interval analysis of integers: for every operation a rule that contains each concrete result.

Input: closed intervals with integer or infinite ends. Output: an interval for the result, never too
narrow. Proof obligations such as "this address fits in 32 bits" or "this index needs no check" are
read off the answer; a wide answer only means that nothing was proved. All rules are over the
unbounded integers; :func:`wrap` then accounts for the width of a machine type.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from stax.loops.symbolic import Expr, Symbol

INF = math.inf


class Interval(NamedTuple):
    """The integers ``n`` with ``lo <= n <= hi``; either end may be infinite."""

    lo: float
    hi: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | np.integer) and self.lo <= int(value) <= self.hi

    def inside(self, lo: float, hi: float) -> bool:
        """Whether every value lies in ``[lo, hi]``."""
        return lo <= self.lo and self.hi <= hi

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi}]"


EVERYTHING = Interval(-INF, INF)
BOOL = Interval(0, 1)


def point(value: int) -> Interval:
    """The interval of one value."""
    return Interval(value, value)


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval that contains both."""
    return Interval(min(a.lo, b.lo), max(a.hi, b.hi))


@functools.cache
def of_dtype(dtype: np.dtype) -> Interval:
    """All values of an integer or Boolean type; everything for other types."""
    if dtype.kind == "b":
        return BOOL
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return Interval(int(info.min), int(info.max))
    return EVERYTHING


def wrap(interval: Interval, dtype: np.dtype) -> Interval:
    """The interval after storing into ``dtype``: unchanged if it fits, else all of the type."""
    limits = of_dtype(dtype)
    return interval if interval.inside(*limits) else limits


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _floor_quotient(a: float, b: float) -> float:
    if abs(b) == INF:
        if a == 0:
            return 0
        return 0 if (a > 0) == (b > 0) else -1
    return math.copysign(INF, a) * math.copysign(1, b) if abs(a) == INF else a // b


def add(a: Interval, b: Interval) -> Interval:
    return Interval(a.lo + b.lo, a.hi + b.hi)


def sub(a: Interval, b: Interval) -> Interval:
    return Interval(a.lo - b.hi, a.hi - b.lo)


def neg(a: Interval) -> Interval:
    return Interval(-a.hi, -a.lo)


def mul(a: Interval, b: Interval) -> Interval:
    corners = [_times(x, y) for x in a for y in b]
    return Interval(min(corners), max(corners))


def absolute(a: Interval) -> Interval:
    if a.lo >= 0:
        return a
    if a.hi <= 0:
        return neg(a)
    return Interval(0, max(-a.lo, a.hi))


def sign(a: Interval) -> Interval:
    return Interval(_signum(a.lo), _signum(a.hi))


def _signum(x: float) -> int:
    return (x > 0) - (x < 0)


def _division_corners(a: Interval, b: Interval) -> list[float]:
    """Quotients at the corners, the divisor taken on each side of zero; 0 stands for ``x // 0``."""
    divisors: list[float] = []
    if b.lo < 0:
        divisors += [b.lo, min(b.hi, -1)]
    if b.hi > 0:
        divisors += [max(b.lo, 1), b.hi]
    corners: list[float] = [0] if b.lo <= 0 <= b.hi else []
    corners += [_floor_quotient(x, y) for x in a for y in divisors]
    return corners


def floordiv(a: Interval, b: Interval) -> Interval:
    corners = _division_corners(a, b)
    return Interval(min(corners), max(corners))


def mod(a: Interval, b: Interval) -> Interval:
    """Remainder with the sign of the divisor; ``x mod 0`` is 0."""
    if a.lo >= 0 and b.lo > a.hi:
        return a
    lo: float = 0
    hi: float = 0
    if b.hi > 0:
        hi = b.hi - 1
        if a.lo >= 0:
            hi = min(hi, a.hi)
    if b.lo < 0:
        lo = b.lo + 1
        if a.hi <= 0:
            lo = max(lo, a.lo)
    return Interval(lo, hi)


def fmod(a: Interval, b: Interval) -> Interval:
    """Remainder with the sign of the dividend; ``x fmod 0`` is 0."""
    largest = max(abs(b.lo), abs(b.hi))
    reach = max(largest - 1, 0)
    lo = max(a.lo, -reach) if a.lo < 0 else 0
    hi = min(a.hi, reach) if a.hi > 0 else 0
    return Interval(lo, hi)


def minimum(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.lo, b.lo), min(a.hi, b.hi))


def maximum(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.lo, b.lo), max(a.hi, b.hi))


def relu(a: Interval) -> Interval:
    return maximum(a, point(0))


def square_or_power(a: Interval, exponent: int) -> Interval:
    """``a ** exponent`` for a non-negative exponent."""
    if exponent == 0:
        return point(1)
    base = absolute(a) if exponent % 2 == 0 else a
    return Interval(_power(base.lo, exponent), _power(base.hi, exponent))


def _power(x: float, exponent: int) -> float:
    return x if abs(x) == INF and exponent % 2 else x**exponent


def power(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 and b.lo >= 0 and b.hi <= 64 and a.hi < INF:
        smallest = min(_power(a.lo, int(b.lo)), _power(a.lo, int(b.hi)))
        return Interval(min(smallest, 1) if b.lo == 0 else smallest, max(a.hi, 1) ** int(b.hi))
    return EVERYTHING


def _bits_above(x: float) -> float:
    return INF if x == INF else (1 << int(x).bit_length()) - 1


def bitwise_and(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 and b.lo >= 0:
        return Interval(0, min(a.hi, b.hi))
    if a.lo >= 0:
        return Interval(0, a.hi)
    if b.lo >= 0:
        return Interval(0, b.hi)
    return _signed_bits(a, b)


def bitwise_or(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 and b.lo >= 0:
        return Interval(max(a.lo, b.lo), _bits_above(max(a.hi, b.hi)))
    return _signed_bits(a, b)


def bitwise_xor(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 and b.lo >= 0:
        return Interval(0, _bits_above(max(a.hi, b.hi)))
    return _signed_bits(a, b)


def _signed_bits(a: Interval, b: Interval) -> Interval:
    ends = (a.lo, a.hi, b.lo, b.hi)
    if any(abs(e) == INF for e in ends):
        return EVERYTHING
    width = max(int(e if e >= 0 else ~int(e)).bit_length() for e in ends)
    return Interval(-(1 << width), (1 << width) - 1)


def bitwise_not(a: Interval) -> Interval:
    return Interval(-1 - a.hi, -1 - a.lo)


def shift_left(a: Interval, b: Interval) -> Interval:
    """``a << b``; an amount outside the type's width gives 0, so 0 stays possible there."""
    if b.lo < 0 or b.hi > 63:
        return EVERYTHING
    corners = [_times(x, 1 << int(y)) for x in a for y in b]
    return Interval(min(corners), max(corners))


def shift_right(a: Interval, b: Interval) -> Interval:
    """``a >> b``: towards zero for positive values, towards -1 for negative ones."""
    lo = a.lo if a.lo < 0 else 0
    hi = a.hi if a.hi > 0 else -1
    if b.lo >= 0 and b.hi <= 63:
        corners = [x if abs(x) == INF else int(x) >> int(y) for x in a for y in b]
        return Interval(min(corners), max(corners))
    return Interval(lo, max(hi, 0))


def compare(kind: str, a: Interval, b: Interval) -> Interval:
    """The truth of a comparison: one of [0, 0], [1, 1] and [0, 1]."""
    if kind in ("gt", "ge"):
        return compare("lt" if kind == "gt" else "le", b, a)
    if kind == "lt":
        return point(1) if a.hi < b.lo else point(0) if a.lo >= b.hi else BOOL
    if kind == "le":
        return point(1) if a.hi <= b.lo else point(0) if a.lo > b.hi else BOOL
    apart = a.hi < b.lo or b.hi < a.lo
    same = a.lo == a.hi == b.lo == b.hi
    if apart or same:
        return point(int(same if kind == "eq" else apart))
    return BOOL


def both(a: Interval, b: Interval) -> Interval:
    """Logical and of two truths."""
    a, b = truth(a), truth(b)
    return Interval(min(a.lo, b.lo), min(a.hi, b.hi))


def either(a: Interval, b: Interval) -> Interval:
    """Logical or of two truths."""
    a, b = truth(a), truth(b)
    return Interval(max(a.lo, b.lo), max(a.hi, b.hi))


def select(condition: Interval, a: Interval, b: Interval) -> Interval:
    if condition.lo == 1:
        return a
    if condition.hi == 0:
        return b
    return hull(a, b)


def truth(a: Interval) -> Interval:
    """The interval of ``a != 0``."""
    return compare("ne", a, point(0))


RULES: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "add": add,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}
_DOMAIN = {"constant": point, **RULES}


def bounds(e: Expr, var_ranges: Mapping[Symbol, Interval] | None = None) -> Interval:
    """The interval of an index expression, for narrower ranges of some symbols if given."""
    if not var_ranges:
        return Interval(e.lo, e.hi)
    known = var_ranges
    return e.interpret(lambda s: known.get(s, Interval(s.lo, s.hi)), _DOMAIN)
