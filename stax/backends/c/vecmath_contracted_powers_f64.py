"""C text of the exponentials, powers and tangents of float64 random numbers, as rows for `vecmath`.

The formulas, and where each of them rounds, are those of `stax.loops.contracted_powers_f64`, to
the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stax.backends.c.vecmath_contracted_f64 import number, polynomial
from stax.loops.contracted_f64 import LN2_HIGH, LN2_LOW, TINY
from stax.loops.contracted_powers_f64 import (
    ENTRIES,
    EXP_BOTTOM,
    EXP_END,
    EXP_LN2,
    EXP_START,
    EXP_TOP,
    INVERSE_STEP,
    LOG2_E,
    MARGIN,
    POWER_BITS,
    POWER_END,
    POWER_EXP,
    POWER_LOG,
    POWER_START,
    ROUNDED_TWICE,
    SHIFT,
    STEP_HIGH,
    STEP_LOW,
    exp_table,
    log_table,
)

__all__ = ["TABLES", "rows"]

_ONE = 0x3FF0000000000000  # the bits of 1.0


def rows() -> str:
    """Return the rows of the functions in double precision."""
    a, e = [number(v) for v in POWER_LOG], [number(v) for v in POWER_EXP]
    shift = 52 - POWER_BITS
    return f"""//: contracted_exp_f64 32
STAX_INLINE double stax_contracted_exp_f64(double x) {{
    double v = x < {number(EXP_START)} ? {number(EXP_START)} : x;
    v = v > {number(EXP_END)} ? {number(EXP_END)} : v;
    double whole = __builtin_floor(__builtin_fma(v, {number(LOG2_E)}, 0.5));
    double r = __builtin_fma(whole, {number(-EXP_LN2[1])}, v - whole * {number(EXP_LN2[0])});
    double square = r * r;
    {polynomial("top", EXP_TOP, "square")}
    {polynomial("bottom", EXP_BOTTOM, "square")}
    top = top * r;
    double out = top / (bottom - top) * 2.0 + 1.0;
    // The exponents are added: no result in the range is below the smallest normal number.
    uint64_t k = stax_bits_f64(whole + {number(SHIFT)}) << 52;
    out = stax_from_bits_f64(stax_bits_f64(out) + k);
    out = x < {number(EXP_START)} ? 0.0 : out;
    out = x > {number(EXP_END)} ? __builtin_inf() : out;
    return x == x ? out : x;
}}
//: contracted_power_f64 130
STAX_INLINE double stax_contracted_power_f64(double x, double y) {{
    double size = __builtin_fabs(x);
    int small = size < 0x1p-1022;
    uint64_t bits = stax_bits_f64(small ? size * 0x1p52 : size);
    uint64_t b = bits + {_ONE - POWER_START:#x}ull;
    double k = stax_from_bits_f64((b >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0);
    k = small ? k - 52.0 : k;
    double part = stax_from_bits_f64(bits - (b & 0xfff0000000000000ull) + {_ONE:#x}ull);
    uint64_t entry = (b >> {shift} & {ENTRIES - 1}) * 3;
    double r = __builtin_fma(part, stax_contracted_power_log_table_f64[entry], -1.0);
    double known = k * {number(LN2_HIGH)} + stax_contracted_power_log_table_f64[entry + 1];
    double near = known + r;
    double half = r * {a[0]}, square = r * half, high = near + square;
    double low = __builtin_fma(k, {number(LN2_LOW)},
                               stax_contracted_power_log_table_f64[entry + 2]);
    low = low + ((known - near) + r);
    low = (low + __builtin_fma(half, r, -square)) + ((near - high) + square);
    double rest = __builtin_fma(__builtin_fma(r, {a[6]}, {a[5]}), square,
                                __builtin_fma(r, {a[4]}, {a[3]}));
    rest = __builtin_fma(square, rest, __builtin_fma(r, {a[2]}, {a[1]}));
    low = __builtin_fma(r * square, rest, low);
    double log = high + low;
    low = (high - log) + low;
    // log(size) + low
    log = size == 0 ? -__builtin_inf() : log;
    low = size == 0 ? 0.0 : low;
    log = size < __builtin_inf() ? log : size;
    low = size < __builtin_inf() ? low : 0.0;
    double product = y * log;
    double lost = __builtin_fma(y, low, __builtin_fma(y, log, -product));
    double shifted = __builtin_fma(product, {number(INVERSE_STEP)}, {number(SHIFT)});
    uint64_t steps = stax_bits_f64(shifted);
    double whole = shifted - {number(SHIFT)};
    r = lost + __builtin_fma(whole, {number(STEP_LOW)}, product + whole * {number(STEP_HIGH)});
    square = r * r;
    rest = __builtin_fma(__builtin_fma(r, {e[1]}, {e[0]}), square,
                         r + stax_contracted_power_rest_table_f64[steps & {ENTRIES - 1}]);
    rest = __builtin_fma(__builtin_fma(r, {e[3]}, {e[2]}), square * square, rest);
    uint64_t bias = product < 0 ? {MARGIN << 52:#x}ull : {2**64 - (MARGIN << 52):#x}ull;
    uint64_t word = stax_contracted_power_exp_table_f64[steps & {ENTRIES - 1}];
    double scale = stax_from_bits_f64(word + (steps << {shift}) + bias);
    double once = __builtin_fma(rest, scale, scale);
    double twice = scale + scale * rest;
    double out = (product <= {number(ROUNDED_TWICE)} ? twice : once)
        * (product < 0 ? {number(2.0**-MARGIN)} : {number(2.0**MARGIN)});
    out = product > {number(POWER_END)} ? __builtin_inf() : out;
    out = product < {number(-POWER_END)} || out < {number(TINY)} ? 0.0 : out;
    out = size == 1.0 || y == 0 ? 1.0 : out;
    int whole_y = __builtin_rint(y) == y;
    int odd = whole_y && __builtin_rint(y * 0.5) * 2.0 != y;
    int broken = x < 0 && x > -__builtin_inf() && !whole_y;
    double sign = broken ? __builtin_nan("") : odd ? -1.0 : 1.0;
    int negative = (stax_bits_f64(x) >> 63) != 0;
    return negative ? out * sign : out;
}}
//: contracted_tan_f64 60 scalar
STAX_LIBRARY(double, stax_libm_tan, "tan")
STAX_INLINE double stax_contracted_tan_f64(double x) {{ return stax_libm_tan(x); }}
"""


def _table(kind: str, name: str, words: Iterable[str]) -> str:
    """A table of the powers, a line for each of `words`."""
    lines = ",\n".join(f"    {word}" for word in words)
    return f"static const {kind} stax_contracted_power_{name}_table_f64[] = {{\n{lines}\n}};\n"


def _logs() -> str:
    rows = zip(*log_table(), strict=True)
    return _table("double", "log", (", ".join(map(number, row)) for row in rows))


def _exps() -> str:
    return _table("uint64_t", "exp", (f"{int(word):#x}" for word in exp_table()[0]))


def _rests() -> str:
    return _table("double", "rest", map(number, exp_table()[1]))


# Tables take milliseconds to compute, and few programs need them.
TABLES: dict[str, Callable[[], str]] = {
    "contracted_power_log_table_f64": _logs,
    "contracted_power_exp_table_f64": _exps,
    "contracted_power_rest_table_f64": _rests,
}
