"""C text of the exponential, power and tangent of float32 draws, and of the contracted sum.

The formulas, and where each of them rounds, are those of `stax.loops.contracted_powers`, to the
last bit.  `vecmath_contracted_powers_f64` has those of double precision.
"""

from __future__ import annotations

from stax.backends.c.vecmath_contracted import polynomial, single
from stax.loops.contracted import LN2_HIGH, LN2_LOW
from stax.loops.contracted_powers import (
    EXP,
    EXP2_NEAR,
    EXP_END,
    EXP_MOST,
    EXP_START,
    HALF_PI,
    INVERSE,
    LOG2,
    LOG2_E,
    LOG2_NEAR,
    PARTS,
    POWER_END,
    QUARTER_PI,
    RANGE_START,
    ROOTS,
    TAN,
    TAN_END,
    TAN_FOLD,
    TAN_TINY,
    TINY,
)

__all__ = ["rows"]


def _chosen(name: str, values: tuple[float, ...], index: str) -> str:
    """Statements that give `name` the value of a table at `index`.

    By halves of the table: selections vectorise, where loads from many places would not.
    """
    lines = []
    level = [v.hex() for v in values]
    bit = 1
    while len(level) > 1:
        pairs = zip(level[1::2], level[::2], strict=True)
        names = [f"{name}_{bit}_{k}" for k in range(len(level) // 2)]
        lines += [
            f"double {made} = {index} & {bit} ? {odd} : {even};"
            for made, (odd, even) in zip(names, pairs, strict=True)
        ]
        level, bit = names, 2 * bit
    return "\n    ".join([*lines, f"double {name} = {level[0]};"])


def _exponential() -> str:
    f = single
    return f"""//: contracted_exp_f32 24
STAX_INLINE float stax_contracted_exp_f32(float x) {{
    x = x < {f(EXP_START)} ? {f(EXP_START)} : x;
    x = x > {f(EXP_END)} ? {f(EXP_END)} : x;
    float whole = __builtin_floorf(__builtin_fmaf(x, {f(LOG2_E)}, 0.5f));
    whole = whole < {f(-EXP_MOST)} ? {f(-EXP_MOST)} : whole;
    whole = whole > {f(EXP_MOST)} ? {f(EXP_MOST)} : whole;
    float r = __builtin_fmaf(whole, {f(-LN2_HIGH)}, x);
    r = __builtin_fmaf(whole, {f(-LN2_LOW)}, r);
    {polynomial("p", EXP, "r")}
    p = __builtin_fmaf(p, r * r, r) + 1.0f;
    int32_t exponent = whole == whole ? (int32_t)whole : 0;
    p = p * stax_from_bits_f32((uint32_t)(exponent + 127) << 23);
    return p < {f(TINY)} ? 0.0f : p;
}}
"""


def _power() -> str:
    a, b, c, d, e = (v.hex() for v in LOG2_NEAR)
    u, v, w = (x.hex() for x in EXP2_NEAR)
    shift = PARTS.bit_length() - 1
    return f"""//: contracted_power_f32 50
STAX_INLINE float stax_contracted_power_f32(float x, float y) {{
    float size = __builtin_fabsf(x);
    uint32_t word = stax_bits_f32(size), above = word - {RANGE_START}u;
    uint64_t part = (above >> 19) & 15;
    {_chosen("inverse", INVERSE, "part")}
    {_chosen("logarithm", LOG2, "part")}
    double z = (double)stax_from_bits_f32(word - (above & 0xff800000u));
    double r = z * inverse - 1.0, square = r * r;
    double low = {e} * r + (logarithm + (double)((int32_t)above >> 23));
    double p = ({a} * r + {b}) * (square * square) + (({c} * r + {d}) * square + low);
    p = size < {single(TINY)} ? -__builtin_inf() : p;
    p = size < __builtin_inff() ? p : (double)size;
    p = (double)y * p;
    p = p < {-POWER_END} ? {-POWER_END} : p;
    p = p > {POWER_END} ? {POWER_END} : p;
    double steps = __builtin_rint(p * {PARTS}.0);
    r = p - steps * {1 / PARTS};
    int32_t count = steps == steps ? (int32_t)steps : 0;
    double factor = ({u} * r + {v}) * (r * r) + ({w} * r + 1.0);
    double two = stax_from_bits_f64((uint64_t)((count >> {shift}) + 1023) << 52);
    uint64_t rest = count & {PARTS - 1};
    {_chosen("root", ROOTS, "rest")}
    float out = (float)(factor * root * two);
    out = out < {single(TINY)} ? 0.0f : out;
    return (float)stax_pow_fix_f64((double)x, (double)y, (double)out);
}}
"""


def _tangent() -> str:
    f = single
    high, low = (f(v) for v in QUARTER_PI)
    pairs = "".join(
        f"\n    odd = {f(TAN[k])} + w * odd; even = {f(TAN[k + 1])} + w * even;"
        for k in range(9, 0, -2)
    )
    return f"""//: contracted_tan_f32 70
STAX_INLINE float stax_contracted_tan_f32(float x) {{
    float size = __builtin_fabsf(x);
    double gap = (double)(size < {f(TAN_END)} ? x : 0.0f);
    double multiple = __builtin_floor(gap * {(1 / HALF_PI).hex()} + 0.5);
    multiple = size <= {high} ? 0.0 : multiple;
    int turned = (int32_t)multiple & 1;
    gap = gap - multiple * {HALF_PI.hex()};
    float x0 = (float)gap, x1 = (float)(gap - (double)x0);
    int folded = __builtin_fabsf(x0) >= {f(TAN_FOLD)};
    float sign = folded && x0 < 0.0f ? -1.0f : 1.0f, unit = turned ? -1.0f : 1.0f;
    float v = folded ? ({high} - sign * x0) + ({low} - sign * x1) : x0;
    x1 = folded ? 0.0f : x1;
    float z = v * v, w = z * z, odd = {f(TAN[11])}, even = {f(TAN[12])};{pairs}
    float s = z * v;
    float r = x1 + z * (s * (odd + z * even) + x1);
    r = r + {f(TAN[0])} * s;
    float total = v + r;
    float far = sign * (unit - 2.0f * (v - (total * total / (total + unit) - r)));
    float close = sign * unit * (1.0f - 2.0f * unit * v);
    far = __builtin_fabsf(v) < 0x1p-13f ? close : far;
    float head = stax_from_bits_f32(stax_bits_f32(total) & 0xfffff000u);
    float inverse = -1.0f / total;
    float part = stax_from_bits_f32(stax_bits_f32(inverse) & 0xfffff000u);
    float error = (1.0f + part * head) + part * (r - (head - v));
    float out = turned ? part + inverse * error : total;
    out = folded ? far : out;
    out = __builtin_fabsf(x0) < {f(TAN_TINY)} ? (turned ? -1.0f / x0 : x0) : out;
    return size < {f(TAN_END)} ? out : __builtin_nanf("");
}}
"""


_SUMS = """//: contracted_fma_f32 2
STAX_INLINE float stax_contracted_fma_f32(float x, float y, float z) {
    return __builtin_fmaf(x, y, z);
}
//: contracted_fma_f64 2
STAX_INLINE double stax_contracted_fma_f64(double x, double y, double z) {
    return __builtin_fma(x, y, z);
}
"""


def rows() -> str:
    """Return the rows of the functions in single precision, and of the sum in both."""
    return _exponential() + _power() + _tangent() + _SUMS
