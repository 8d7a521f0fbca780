"""C text of the scalar arithmetic that C itself leaves different from NumPy, as rows for `vecmath`.

Integer division that rounds down and does not trap, float remainders as NumPy computes them,
maximum and minimum that keep NaN, shifts by any count, rounding, classification, and the
conversions between half-precision formats and float. Every function exists for each element type
it makes sense for; type tags are f32, f64, i8 ... u64 and b8.
"""

from __future__ import annotations

__all__ = ["rows"]

_FLOATS = {
    "f32": ("float", "f", "int32_t", "uint32_t"),
    "f64": ("double", "", "int64_t", "uint64_t"),
}

_FLOAT_ROWS = r"""
//: abs_@t 1
STAX_INLINE @ct stax_abs_@t(@ct x) { return __builtin_fabs@s(x); }
//: negative_@t 1
STAX_INLINE @ct stax_negative_@t(@ct x) {
    return stax_from_bits_@t(stax_bits_@t(x) ^ (@ut)1 << (8 * sizeof x - 1));
}
//: sign_@t 2
STAX_INLINE @ct stax_sign_@t(@ct x) {
    @ct y = x > 0 ? (@ct)1 : (@ct)0;
    y = x < 0 ? (@ct)-1 : y;
    return x != x ? x : y;
}
//: max_@t 1
STAX_INLINE @ct stax_max_@t(@ct x, @ct y) { return (x >= y) | (x != x) ? x : y; }
//: min_@t 1
STAX_INLINE @ct stax_min_@t(@ct x, @ct y) { return (x <= y) | (x != x) ? x : y; }
//: fmax_@t 1
STAX_INLINE @ct stax_fmax_@t(@ct x, @ct y) { return (x >= y) | (y != y) ? x : y; }
//: fmin_@t 1
STAX_INLINE @ct stax_fmin_@t(@ct x, @ct y) { return (x <= y) | (y != y) ? x : y; }
//: relu_@t 1
STAX_INLINE @ct stax_relu_@t(@ct x) { return x < 0 ? (@ct)0 : x; }
//: sqrt_@t 6
STAX_INLINE @ct stax_sqrt_@t(@ct x) { return __builtin_sqrt@s(x); }
//: rsqrt_@t 8
STAX_INLINE @ct stax_rsqrt_@t(@ct x) { return (@ct)1 / __builtin_sqrt@s(x); }
//: floor_@t 1
STAX_INLINE @ct stax_floor_@t(@ct x) { return __builtin_floor@s(x); }
//: ceil_@t 1
STAX_INLINE @ct stax_ceil_@t(@ct x) { return __builtin_ceil@s(x); }
//: trunc_@t 1
STAX_INLINE @ct stax_trunc_@t(@ct x) { return __builtin_trunc@s(x); }
//: rint_@t 1
STAX_INLINE @ct stax_rint_@t(@ct x) { return __builtin_rint@s(x); }
//: copysign_@t 1
STAX_INLINE @ct stax_copysign_@t(@ct x, @ct y) { return __builtin_copysign@s(x, y); }
//: nextafter_@t 6
STAX_INLINE @ct stax_nextafter_@t(@ct x, @ct y) {
    @it i = (@it)stax_bits_@t(x);
    i += ((y > x) == (x > 0)) ? 1 : -1;
    @ct r = stax_from_bits_@t((@ut)i);
    r = x == 0 ? __builtin_copysign@s(stax_from_bits_@t(1), y) : r;
    r = x == y ? y : r;
    return (x != x) | (y != y) ? x + y : r;
}
//: isnan_@t 1
STAX_INLINE uint8_t stax_isnan_@t(@ct x) { return x != x; }
//: isinf_@t 1
STAX_INLINE uint8_t stax_isinf_@t(@ct x) { return __builtin_fabs@s(x) == __builtin_inf@s(); }
//: isfinite_@t 1
STAX_INLINE uint8_t stax_isfinite_@t(@ct x) { return __builtin_fabs@s(x) < __builtin_inf@s(); }
//: signbit_@t 1
STAX_INLINE uint8_t stax_signbit_@t(@ct x) { return (@it)stax_bits_@t(x) < 0; }
//: fmod_@t 20 scalar
STAX_INLINE @ct stax_fmod_@t(@ct x, @ct y) {
    @ct a = __builtin_fabs@s(x), b = __builtin_fabs@s(y);
    @ct q = a / b;
    if (!((q < (@ct)0x1p22) & (b < __builtin_inf@s()))) {
        STAX_CLEAN;
        return __builtin_fmod@s(x, y);
    }
    @ct r = __builtin_fma@s(-__builtin_trunc@s(q), b, a);
    r = r < 0 ? r + b : r;
    return __builtin_copysign@s(r, x);
}
//: mod_@t 24 scalar
STAX_INLINE @ct stax_mod_@t(@ct x, @ct y) {
    @ct r = stax_fmod_@t(x, y);
    if (y == 0) return r;
    if (r == 0) return __builtin_copysign@s((@ct)0, y);
    return (y < 0) != (r < 0) ? r + y : r;
}
//: floordiv_@t 28 scalar
STAX_INLINE @ct stax_floordiv_@t(@ct x, @ct y) {
    if (y == 0) return x / y;
    @ct r = stax_fmod_@t(x, y);
    @ct q = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0)) q -= 1;
    if (q == 0) return __builtin_copysign@s((@ct)0, x / y);
    @ct f = __builtin_floor@s(q);
    return q - f > (@ct)0.5 ? f + 1 : f;
}
//: integer_pow_@t 10 scalar
STAX_INLINE @ct stax_integer_pow_@t(@ct x, int64_t n) {
    uint64_t k = n < 0 ? -(uint64_t)n : (uint64_t)n;
    @ct r = 1;
    for (; k; k >>= 1, x *= x) r = k & 1 ? r * x : r;
    return n < 0 ? 1 / r : r;
}
"""

_INTEGER_ROWS = r"""
//: max_@t 1
STAX_INLINE @ct stax_max_@t(@ct x, @ct y) { return x > y ? x : y; }
//: min_@t 1
STAX_INLINE @ct stax_min_@t(@ct x, @ct y) { return x < y ? x : y; }
//: fmax_@t 1
STAX_INLINE @ct stax_fmax_@t(@ct x, @ct y) { return x > y ? x : y; }
//: fmin_@t 1
STAX_INLINE @ct stax_fmin_@t(@ct x, @ct y) { return x < y ? x : y; }
//: relu_@t 1
STAX_INLINE @ct stax_relu_@t(@ct x) { return x > 0 ? x : 0; }
//: shift_left_@t 1
STAX_INLINE @ct stax_shift_left_@t(@ct x, @ct y) {
    return (@ut)y < @bits ? (@ct)((@ut)x << ((@ut)y & (@bits - 1))) : 0;
}
//: integer_pow_@t 10 scalar
STAX_INLINE @ct stax_integer_pow_@t(@ct x, int64_t n) {
    @ct r = 1;
    for (uint64_t k = n < 0 ? 0 : (uint64_t)n; k; k >>= 1) {
        r = k & 1 ? (@ct)((@wide)r * (@wide)x) : r;
        x = (@ct)((@wide)x * (@wide)x);
    }
    return r;
}
"""

_SIGNED_ROWS = r"""
//: pow_@t 40 scalar
STAX_INLINE @ct stax_pow_@t(@ct x, @ct y) {
    @ct below = (@ct)(x == 1 || (x == -1 && !(y & 1)) ? 1 : x == -1 ? -1 : 0);  /* 1 / x**-y */
    return y < 0 ? below : stax_integer_pow_@t(x, (int64_t)y);
}
//: abs_@t 1
STAX_INLINE @ct stax_abs_@t(@ct x) { return (@ct)(x < 0 ? -x : x); }
//: sign_@t 2
STAX_INLINE @ct stax_sign_@t(@ct x) { return (@ct)((x > 0) - (x < 0)); }
//: shift_right_@t 1
STAX_INLINE @ct stax_shift_right_@t(@ct x, @ct y) {
    return (@ct)(x >> ((@ut)y < @bits ? (@ut)y & (@bits - 1) : @bits - 1));
}
//: floordiv_@t 12
STAX_INLINE @ct stax_floordiv_@t(@ct x, @ct y) {
    if (__builtin_constant_p(y) && y > 0 && !(y & (y - 1)))
        return (@ct)(x >> __builtin_ctzll((unsigned long long)y));
    @ct d = (y == 0) | (y == -1) ? 1 : y;
    @ct q = (@ct)(x / d);
    q = (@ct)(q - ((x % d != 0) & ((x < 0) != (d < 0))));
    q = y == -1 ? (@ct)-x : q;
    return y == 0 ? 0 : q;
}
//: mod_@t 12
STAX_INLINE @ct stax_mod_@t(@ct x, @ct y) {
    if (__builtin_constant_p(y) && y > 0 && !(y & (y - 1))) return (@ct)(x & (y - 1));
    @ct d = (y == 0) | (y == -1) ? 1 : y;
    @ct r = (@ct)(x % d);
    return (@ct)(r + ((r != 0) & ((r < 0) != (d < 0)) ? d : 0));
}
//: fmod_@t 12
STAX_INLINE @ct stax_fmod_@t(@ct x, @ct y) {
    @ct d = (y == 0) | (y == -1) ? 1 : y;
    return (@ct)(x % d);
}
//: gcd_@t 60 scalar
STAX_INLINE @ct stax_gcd_@t(@ct x, @ct y) {
    @ut a = x < 0 ? (@ut)(0 - (@ut)x) : (@ut)x, b = y < 0 ? (@ut)(0 - (@ut)y) : (@ut)y;
    while (b) { @ut r = (@ut)(a % b); a = b; b = r; }
    return (@ct)a;
}
//: lcm_@t 70 scalar
STAX_INLINE @ct stax_lcm_@t(@ct x, @ct y) {
    @ut a = x < 0 ? (@ut)(0 - (@ut)x) : (@ut)x, b = y < 0 ? (@ut)(0 - (@ut)y) : (@ut)y;
    @ut g = (@ut)stax_gcd_@t(x, y);
    return (@ct)(g ? (@wide)(a / g) * (@wide)b : 0);
}
"""

_UNSIGNED_ROWS = r"""
//: pow_@t 40 scalar
STAX_INLINE @ct stax_pow_@t(@ct x, @ct y) {  /* y may be beyond what an int64_t holds */
    @ct h = stax_integer_pow_@t(x, (int64_t)(y >> 1));
    @ct r = (@ct)((@wide)h * (@wide)h);
    return y & 1 ? (@ct)((@wide)r * (@wide)x) : r;
}
//: abs_@t 1
STAX_INLINE @ct stax_abs_@t(@ct x) { return x; }
//: sign_@t 1
STAX_INLINE @ct stax_sign_@t(@ct x) { return x > 0; }
//: shift_right_@t 1
STAX_INLINE @ct stax_shift_right_@t(@ct x, @ct y) {
    return y < @bits ? (@ct)(x >> (y & (@bits - 1))) : 0;
}
//: floordiv_@t 10
STAX_INLINE @ct stax_floordiv_@t(@ct x, @ct y) {
    @ct q = (@ct)(x / (y == 0 ? 1 : y));
    return y == 0 ? 0 : q;
}
//: mod_@t 10
STAX_INLINE @ct stax_mod_@t(@ct x, @ct y) {
    @ct r = (@ct)(x % (y == 0 ? 1 : y));
    return y == 0 ? 0 : r;
}
//: fmod_@t 10
STAX_INLINE @ct stax_fmod_@t(@ct x, @ct y) { return stax_mod_@t(x, y); }
//: gcd_@t 60 scalar
STAX_INLINE @ct stax_gcd_@t(@ct x, @ct y) {
    while (y) { @ct r = (@ct)(x % y); x = y; y = r; }
    return x;
}
//: lcm_@t 70 scalar
STAX_INLINE @ct stax_lcm_@t(@ct x, @ct y) {
    @ct g = stax_gcd_@t(x, y);
    return (@ct)(g ? (@wide)(x / g) * (@wide)y : 0);
}
"""

_BOOLEAN_ROWS = r"""
//: max_b8 1
STAX_INLINE uint8_t stax_max_b8(uint8_t x, uint8_t y) { return x | y; }
//: min_b8 1
STAX_INLINE uint8_t stax_min_b8(uint8_t x, uint8_t y) { return x & y; }
//: fmax_b8 1
STAX_INLINE uint8_t stax_fmax_b8(uint8_t x, uint8_t y) { return x | y; }
//: fmin_b8 1
STAX_INLINE uint8_t stax_fmin_b8(uint8_t x, uint8_t y) { return x & y; }
//: abs_b8 1
STAX_INLINE uint8_t stax_abs_b8(uint8_t x) { return x; }
//: relu_b8 1
STAX_INLINE uint8_t stax_relu_b8(uint8_t x) { return x; }
"""

_HALF_ROWS = r"""
//: f16_to_f32 4
STAX_INLINE float stax_f16_to_f32(uint16_t h) {
    uint32_t m = (uint32_t)(h & 0x7fff) << 13;
    float f = stax_from_bits_f32(m) * 0x1p112f;
    uint32_t u = m >= 0x0f800000u ? m | 0x7f800000u : stax_bits_f32(f);
    return stax_from_bits_f32(u | ((uint32_t)(h & 0x8000) << 16));
}
//: f32_to_f16 10
// rounds to nearest even, through denormals and overflow
STAX_INLINE uint16_t stax_f32_to_f16(float x) {
    uint32_t u = stax_bits_f32(x);
    uint32_t a = u & 0x7fffffffu;
    uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1)) >> 13;
    uint32_t tiny = stax_bits_f32(stax_from_bits_f32(a) + 0.5f) - 0x3f000000u;
    uint32_t r = a < 0x38800000u ? tiny : normal;
    r = a >= 0x47800000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    return (uint16_t)(r | ((u >> 16) & 0x8000u));
}
//: f64_to_f16 14
// first to float with the lost bits kept in the last one, so that only one rounding happens
STAX_INLINE uint16_t stax_f64_to_f16(double x) {
    float y = (float)x;
    double back = (double)y;
    uint32_t u = stax_bits_f32(y);
    uint32_t odd = (__builtin_fabs(back) > __builtin_fabs(x) ? u - 1 : u) | 1;
    u = (back != x) & (__builtin_fabs(x) < 0x1p100) ? odd : u;
    return stax_f32_to_f16(stax_from_bits_f32(u));
}
//: f16_to_f64 5
STAX_INLINE double stax_f16_to_f64(uint16_t h) { return (double)stax_f16_to_f32(h); }
//: bf16_to_f32 1
STAX_INLINE float stax_bf16_to_f32(uint16_t h) { return stax_from_bits_f32((uint32_t)h << 16); }
//: f32_to_bf16 5
STAX_INLINE uint16_t stax_f32_to_bf16(float x) {
    uint32_t u = stax_bits_f32(x);
    uint32_t r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)(x != x ? ((u >> 16) & 0x8000u) | 0x7fc0u : r);
}
//: f64_to_bf16 6
STAX_INLINE uint16_t stax_f64_to_bf16(double x) { return stax_f32_to_bf16((float)x); }
//: bf16_to_f64 2
STAX_INLINE double stax_bf16_to_f64(uint16_t h) { return (double)stax_bf16_to_f32(h); }
"""


def _fill(text: str, **values: str) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"@{name}", values[name])
    return text


def rows() -> str:
    """Return the rows of every function of this module, for every type."""
    parts = [_BOOLEAN_ROWS, _HALF_ROWS]
    for tag, (c_type, suffix, signed, unsigned) in _FLOATS.items():
        parts.append(_fill(_FLOAT_ROWS, t=tag, ct=c_type, s=suffix, it=signed, ut=unsigned))
    for bits in (8, 16, 32, 64):
        wide = "uint64_t" if bits == 64 else "uint32_t"
        for letter, prefix, special in (("i", "int", _SIGNED_ROWS), ("u", "uint", _UNSIGNED_ROWS)):
            parts.append(
                _fill(
                    _INTEGER_ROWS + special,
                    t=f"{letter}{bits}",
                    ct=f"{prefix}{bits}_t",
                    ut=f"uint{bits}_t",
                    bits=str(bits),
                    wide=wide,
                )
            )
    return "".join(parts)
