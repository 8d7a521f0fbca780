"""C text of the logarithms and error functions of float64 random numbers, as rows for `vecmath`.

The formulas, and where each of them rounds, are those of `stax.loops.contracted_f64`, to the last
bit: `__builtin_fma` rounds once on every machine, by an instruction or by the C library.
"""

from __future__ import annotations

from stax.loops.contracted_f64 import (
    CENTRES,
    GILES_HIGH,
    GILES_LOW,
    GILES_MIDDLE,
    HIGH,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    LOG1P_BOTTOM,
    LOG1P_TOP,
    LOG_NEAR_ONE,
    LOW,
    NEAR,
    NEAR_ONE,
    SPLIT,
    START,
    WIDTH,
)
from stax.loops.log_table import LOGARITHMS, RECIPROCALS

__all__ = ["number", "polynomial", "rows"]

_ONE = 0x3FF0000000000000  # the bits of 1.0


def number(value: float) -> str:
    """The C text of a float64 number."""
    return float(value).hex()


def polynomial(name: str, coefficients: tuple[float, ...], x: str) -> str:
    """Statements that define `name`, by Horner's rule from the highest power down."""
    first, *rest = coefficients
    steps = "".join(f"\n    {name} = __builtin_fma({name}, {x}, {number(c)});" for c in rest)
    return f"double {name} = {number(first)};{steps}"


def _ratio() -> str:
    """The steps of the three polynomials, the shorter ones with zeros in front."""
    count = len(GILES_LOW)
    low, middle, high = (
        (0.0,) * (count - len(c)) + c for c in (GILES_LOW, GILES_MIDDLE, GILES_HIGH)
    )
    return "".join(
        f"\n    p = __builtin_fma(p, v, low ? {number(a)} : high ? {number(c)} : {number(b)});"
        for a, b, c in zip(low, middle, high, strict=True)
    )


def rows() -> str:
    """Return the rows of the functions in double precision."""
    pairs = zip(RECIPROCALS, LOGARITHMS, strict=True)
    table = ",\n".join(f"    {number(a)}, {number(b)}" for a, b in pairs)
    a, n = LOG, LOG_NEAR_ONE
    return f"""//: contracted_log_table_f64 0
static const double stax_contracted_log_table_f64[] = {{
{table}
}};
//: contracted_log_far_f64 24
// log(x) - less * log(2) of a positive normal number that is not near 1
STAX_INLINE double stax_contracted_log_far_f64(double x, double less) {{
    uint64_t b = stax_bits_f64(x) + {_ONE - START:#x}ull;
    double k = stax_from_bits_f64((b >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0) - less;
    double part = stax_from_bits_f64(stax_bits_f64(x) - (b & 0xfff0000000000000ull) + {_ONE:#x}ull);
    uint64_t entry = (b >> {WIDTH} & 127) * 2;
    double r = __builtin_fma(part, stax_contracted_log_table_f64[entry], -1.0);
    double known = k * {number(LN2_HIGH)} + stax_contracted_log_table_f64[entry + 1];
    double high = known + r, square = r * r;
    double low = __builtin_fma(k, {number(LN2_LOW)}, (known - high) + r);
    low = __builtin_fma(square, {number(a[0])}, low);
    double rest = __builtin_fma(__builtin_fma(r, {number(a[4])}, {number(a[3])}), square,
                                __builtin_fma(r, {number(a[2])}, {number(a[1])}));
    return __builtin_fma(r * square, rest, low) + high;
}}
//: contracted_log_near_f64 30
// log(x) of a number near 1
STAX_INLINE double stax_contracted_log_near_f64(double x) {{
    double r = x - 1.0, square = r * r, cube = r * square;
    double a = __builtin_fma(r, {number(n[2])}, {number(n[1])});
    double b = __builtin_fma(r, {number(n[5])}, {number(n[4])});
    double c = __builtin_fma(r, {number(n[8])}, {number(n[7])});
    a = __builtin_fma(square, {number(n[3])}, a);
    b = __builtin_fma(square, {number(n[6])}, b);
    c = __builtin_fma(cube, {number(n[10])}, __builtin_fma(square, {number(n[9])}, c));
    double rest = __builtin_fma(__builtin_fma(c, cube, b), cube, a);
    double scaled = r * {number(SPLIT)};
    double upper = (r + scaled) - scaled;
    double half = upper * upper * -0.5, high = r + half;
    double low = __builtin_fma((r - upper) * -0.5, r + upper, (r - high) + half);
    return high + __builtin_fma(rest, cube, low);
}}
//: contracted_log_fix_f64 4
// y, or the logarithm of an x that is no positive finite number
STAX_INLINE double stax_contracted_log_fix_f64(double x, double y) {{
    y = x == __builtin_inf() ? x : y;
    y = x == 0 ? -__builtin_inf() : y;
    return x >= 0 ? y : __builtin_nan("");
}}
//: contracted_log_f64 64
STAX_INLINE double stax_contracted_log_f64(double x) {{
    int small = x < 0x1p-1022;
    double far = stax_contracted_log_far_f64(small ? x * 0x1p52 : x, small ? 52.0 : 0.0);
    double near = stax_contracted_log_near_f64(x);
    far = stax_contracted_log_fix_f64(x, far);
    return x >= {number(NEAR_ONE[0])} && x < {number(NEAR_ONE[1])} ? near : far;
}}
//: contracted_log1p_f64 62
STAX_INLINE double stax_contracted_log1p_f64(double x) {{
    double square = x * x;
    {polynomial("top", LOG1P_TOP, "x")}
    {polynomial("bottom", LOG1P_BOTTOM, "x")}
    double near = x + ((x * square) * (top / bottom) + square * -0.5);
    double u = x + 1.0;
    double far = stax_contracted_log_fix_f64(u, stax_contracted_log_far_f64(u, 0.0));
    return __builtin_fabs(x) < {number(NEAR)} ? near : far;
}}
//: contracted_erfinv_f64 140
STAX_INLINE double stax_contracted_erfinv_f64(double x) {{
    double w = -stax_contracted_log1p_f64(-(x * x));
    int low = w < {number(LOW)}, high = !(w < {number(HIGH)});
    double v = low ? w - {number(CENTRES[0])}
                   : __builtin_sqrt(w) - (high ? {number(CENTRES[2])} : {number(CENTRES[1])});
    double p = 0.0;{_ratio()}
    p = __builtin_fabs(x) == 1.0 ? __builtin_inf() : p;
    return p * x;
}}
//: contracted_erf_f64 60 scalar
STAX_LIBRARY(double, stax_libm_erf, "erf")
STAX_INLINE double stax_contracted_erf_f64(double x) {{ return stax_libm_erf(x); }}
"""
