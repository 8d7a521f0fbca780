"""C text of the logarithms and error functions of float32 random numbers, as rows for `vecmath`.

The formulas, and where each of them rounds, are those of `stax.loops.contracted`, to the last bit:
`__builtin_fmaf` rounds once on every machine, by an instruction or by the C library.
`vecmath_contracted_f64` has those of double precision.
"""

from __future__ import annotations

from stax.loops.contracted import (
    ERF_BOTTOM,
    ERF_END,
    ERF_TOP,
    GILES_HIGH,
    GILES_LOW,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    LOG1P_BOTTOM,
    LOG1P_TOP,
    NEAR,
    ROOT_HALF,
)

__all__ = ["polynomial", "rows", "single"]


def single(value: float) -> str:
    """The C text of a float32 number."""
    return f"{value.hex()}f"


def polynomial(name: str, coefficients: tuple[float, ...], x: str) -> str:
    """Statements that define `name`, by Horner's rule from the highest power down."""
    first, *rest = coefficients
    steps = "".join(f"\n    {name} = __builtin_fmaf({name}, {x}, {single(c)});" for c in rest)
    return f"float {name} = {single(first)};{steps}"


def rows() -> str:
    """Return the rows of the functions in single precision."""
    a, b, c = (polynomial(v, LOG[k : k + 3], "y") for v, k in (("a", 0), ("b", 3), ("c", 6)))
    ratio = "".join(
        f"\n    p = __builtin_fmaf(p, v, high ? {single(far)} : {single(near)});"
        for near, far in zip(GILES_LOW[1:], GILES_HIGH[1:], strict=True)
    )
    return f"""//: contracted_log_f32 32
STAX_INLINE float stax_contracted_log_f32(float x) {{
    uint32_t u = stax_bits_f32(x > 0x1p-126f ? x : 0x1p-126f);
    float exponent = (float)((int32_t)(u >> 23) - 126);
    float part = stax_from_bits_f32((u & 0x007fffffu) | 0x3f000000u);
    float y = (part - 1.0f) + (part < {single(ROOT_HALF)} ? part : 0.0f);
    exponent = exponent - (part < {single(ROOT_HALF)} ? 1.0f : 0.0f);
    float square = y * y, cube = square * y;
    {a}
    {b}
    {c}
    a = __builtin_fmaf(__builtin_fmaf(a, cube, b), cube, c);
    a = __builtin_fmaf(a, cube, exponent * {single(LN2_LOW)});
    a = __builtin_fmaf(exponent, {single(LN2_HIGH)}, __builtin_fmaf(square, -0.5f, y) + a);
    a = x == __builtin_inff() ? x : a;
    a = x == 0 ? -__builtin_inff() : a;
    return x >= 0 ? a : __builtin_nanf("");
}}
//: contracted_log1p_f32 70
STAX_INLINE float stax_contracted_log1p_f32(float x) {{
    float square = x * x;
    {polynomial("top", LOG1P_TOP, "x")}
    {polynomial("bottom", LOG1P_BOTTOM, "x")}
    float near = __builtin_fmaf(square, -0.5f, (x * square) * (top / bottom)) + x;
    float far = stax_contracted_log_f32(x + 1.0f);
    return __builtin_fabsf(x) < {single(NEAR)} ? near : far;
}}
//: contracted_erf_f32 36
STAX_INLINE float stax_contracted_erf_f32(float x) {{
    float v = x > {single(ERF_END)} ? {single(ERF_END)} : x;
    v = v < {single(-ERF_END)} ? {single(-ERF_END)} : v;
    float square = v * v;
    {polynomial("top", ERF_TOP, "square")}
    {polynomial("bottom", ERF_BOTTOM, "square")}
    float value = v * top / bottom;
    return __builtin_fabsf(x) >= {single(ERF_END)} ? __builtin_copysignf(1.0f, x) : value;
}}
//: contracted_erfinv_f32 100
STAX_INLINE float stax_contracted_erfinv_f32(float x) {{
    float w = -stax_contracted_log1p_f32(-(x * x));
    int high = !(w < 5.0f);
    float v = high ? __builtin_sqrtf(w) - 3.0f : w - 2.5f;
    float p = high ? {single(GILES_HIGH[0])} : {single(GILES_LOW[0])};{ratio}
    p = __builtin_fabsf(x) == 1.0f ? __builtin_inff() : p;
    return p * x;
}}
"""
