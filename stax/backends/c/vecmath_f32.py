"""C text of the single-precision functions, as rows for `vecmath`.

The functions of everyday programs (exp, log, tanh, sigmoid, erf, ...) are computed in single
precision, eight lanes to an AVX2 vector; the rest go through the double-precision function, which
rounds them almost correctly. As in `vecmath_f64` there is no branch and no table.
"""

from __future__ import annotations

__all__ = ["ROWS", "THROUGH_F64", "through_f64"]

# Functions whose float version is the double one, rounded: name -> (operands, flops).
THROUGH_F64: dict[str, tuple[int, int]] = {
    "log2": (1, 60),
    "log10": (1, 60),
    "sinh": (1, 100),
    "asinh": (1, 100),
    "acosh": (1, 100),
    "atanh": (1, 90),
    "cbrt": (1, 80),
    "atan": (1, 60),
    "atan2": (2, 80),
    "asin": (1, 60),
    "acos": (1, 60),
    "erfc": (1, 150),
    "erfinv": (1, 400),
}


def through_f64() -> str:
    """Return the rows of the functions in `THROUGH_F64`."""
    rows = []
    for name, (operands, flops) in THROUGH_F64.items():
        parameters = ", ".join(f"float {v}" for v in "xy"[:operands])
        values = ", ".join(f"(double){v}" for v in "xy"[:operands])
        rows.append(
            f"//: {name}_f32 {flops}\n"
            f"STAX_INLINE float stax_{name}_f32({parameters}) {{\n"
            f"    return (float)stax_{name}_f64({values});\n}}\n"
        )
    return "".join(rows)


ROWS = r"""
//: bits_f32 0
STAX_INLINE uint32_t stax_bits_f32(float x) {
    union { float f; uint32_t u; } v;
    v.f = x;
    return v.u;
}
//: from_bits_f32 0
STAX_INLINE float stax_from_bits_f32(uint32_t u) {
    union { float f; uint32_t u; } v;
    v.u = u;
    return v.f;
}
//: power2_f32 2
// 2^n for an integral n in [-126, 127]
STAX_INLINE float stax_power2_f32(float n) {
    return stax_from_bits_f32(stax_bits_f32(n + (0x1.8p23f + 127.0f)) << 23);
}
//: scale_f32 6
STAX_INLINE float stax_scale_f32(float y, float n) {
    float half = (n * 0.5f + 0x1.8p23f) - 0x1.8p23f;
    return y * stax_power2_f32(half) * stax_power2_f32(n - half);
}
//: exp_core_f32 16
// 2^shift * exp(x + low) for |x| <= 120
STAX_INLINE float stax_exp_core_f32(float x, float low, float shift) {
    float n = __builtin_fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    float r = __builtin_fmaf(-n, 0x1.62e43p-1f, x);
    r = __builtin_fmaf(-n, -0x1.05c61p-29f, r) + low;
    float p = 0x1.6d11fep-10f;
    p = __builtin_fmaf(p, r, 0x1.120c62p-7f);
    p = __builtin_fmaf(p, r, 0x1.555518p-5f);
    p = __builtin_fmaf(p, r, 0x1.5554dcp-3f);
    p = __builtin_fmaf(p, r, 0x1p-1f);
    float head = 1.0f + r;
    float rest = (1.0f - head) + r;
    return stax_scale_f32(head + __builtin_fmaf(r * r, p, rest), n + shift);
}
//: exp_f32 16
STAX_INLINE float stax_exp_f32(float x) {
    float c = x > 100.0f ? 100.0f : x;
    c = c < -110.0f ? -110.0f : c;
    return stax_exp_core_f32(c, 0.0f, 0.0f);
}
//: exp2_f32 14
STAX_INLINE float stax_exp2_f32(float x) {
    float c = x > 140.0f ? 140.0f : x;
    c = c < -160.0f ? -160.0f : c;
    float n = (c + 0x1.8p23f) - 0x1.8p23f;
    float r = c - n;
    float p = 0x1.00a646p-16f;
    p = __builtin_fmaf(p, r, 0x1.44414p-13f);
    p = __builtin_fmaf(p, r, 0x1.5d879ep-10f);
    p = __builtin_fmaf(p, r, 0x1.3b2a1ap-7f);
    p = __builtin_fmaf(p, r, 0x1.c6b08ep-5f);
    p = __builtin_fmaf(p, r, 0x1.ebfbep-3f);
    p = __builtin_fmaf(p, r, 0x1.62e43p-1f);
    return stax_scale_f32(__builtin_fmaf(r, p, 1.0f), n);
}
//: expm1_f32 18
STAX_INLINE float stax_expm1_f32(float x) {
    float c = x > 89.0f ? 89.0f : x;
    c = c < -30.0f ? -30.0f : c;
    float n = __builtin_fmaf(c, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    float r = __builtin_fmaf(-n, 0x1.62e43p-1f, c);
    float low = n * 0x1.05c61p-29f;
    float p = 0x1.a125f6p-13f;
    p = __builtin_fmaf(p, r, 0x1.6d444ap-10f);
    p = __builtin_fmaf(p, r, 0x1.1110ep-7f);
    p = __builtin_fmaf(p, r, 0x1.5554e8p-5f);
    p = __builtin_fmaf(p, r, 0x1.555556p-3f);
    p = __builtin_fmaf(p, r, 0x1p-1f);
    p = r + __builtin_fmaf(r * r, p, low);
    float s = stax_power2_f32(n - 1.0f);
    float y = __builtin_fmaf(s, p, s - 0.5f) * 2.0f;
    return __builtin_fabsf(x) < 0x1p-25f ? x : y;
}
//: log_fix_f32 3
STAX_INLINE float stax_log_fix_f32(float x, float y) {
    float special = x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    y = x < __builtin_inff() ? y : x;
    return x > 0.0f ? y : special;
}
//: log_split_f32 6
typedef struct { float k, f; } stax_split_f32;
STAX_INLINE stax_split_f32 stax_log_split_f32(float x) {
    float y = x < 0x1p-126f ? x * 0x1p23f : x;
    int32_t bias = x < 0x1p-126f ? 150 : 127;
    uint32_t u = stax_bits_f32(y) + 0x004afb0du;
    stax_split_f32 out;
    out.k = (float)((int32_t)(u >> 23) - bias);
    out.f = stax_from_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    return out;
}
//: log_f32 16
STAX_INLINE float stax_log_f32(float x) {
    stax_split_f32 v = stax_log_split_f32(x);
    float f = v.f, square = f * f;
    float p = 0x1.1d8ea6p-4f;
    p = __builtin_fmaf(p, f, -0x1.d635bcp-4f);
    p = __builtin_fmaf(p, f, 0x1.dea282p-4f);
    p = __builtin_fmaf(p, f, -0x1.fcf4c6p-4f);
    p = __builtin_fmaf(p, f, 0x1.23d21ap-3f);
    p = __builtin_fmaf(p, f, -0x1.555b4ap-3f);
    p = __builtin_fmaf(p, f, 0x1.999d5ap-3f);
    p = __builtin_fmaf(p, f, -0x1.fffffcp-3f);
    p = __builtin_fmaf(p, f, 0x1.555554p-2f);
    float low = __builtin_fmaf(v.k, -0x1.05c61p-29f, square * f * p);
    float y = __builtin_fmaf(v.k, 0x1.62e43p-1f, f + __builtin_fmaf(-0.5f, square, low));
    return stax_log_fix_f32(x, y);
}
//: log1p_f32 26
STAX_INLINE float stax_log1p_f32(float x) {
    float u = 1.0f + x;
    float t = u - 1.0f;
    float rest = ((1.0f - (u - t)) + (x - t)) / u;
    stax_split_f32 v = stax_log_split_f32(u);
    float f = v.f, square = f * f;
    float p = 0x1.1d8ea6p-4f;
    p = __builtin_fmaf(p, f, -0x1.d635bcp-4f);
    p = __builtin_fmaf(p, f, 0x1.dea282p-4f);
    p = __builtin_fmaf(p, f, -0x1.fcf4c6p-4f);
    p = __builtin_fmaf(p, f, 0x1.23d21ap-3f);
    p = __builtin_fmaf(p, f, -0x1.555b4ap-3f);
    p = __builtin_fmaf(p, f, 0x1.999d5ap-3f);
    p = __builtin_fmaf(p, f, -0x1.fffffcp-3f);
    p = __builtin_fmaf(p, f, 0x1.555554p-2f);
    float low = __builtin_fmaf(v.k, -0x1.05c61p-29f, square * f * p) + rest;
    float y = __builtin_fmaf(v.k, 0x1.62e43p-1f, f + __builtin_fmaf(-0.5f, square, low));
    y = stax_log_fix_f32(u, y);
    return __builtin_fabsf(x) < 0x1p-24f ? x : y;
}
//: tanh_f32 24
STAX_INLINE float stax_tanh_f32(float x) {
    float a = __builtin_fabsf(x);
    float z = a * a;
    float p = 0x1.224fcep-9f;
    p = __builtin_fmaf(p, z, -0x1.0f1266p-7f);
    p = __builtin_fmaf(p, z, 0x1.644a1ep-6f);
    p = __builtin_fmaf(p, z, -0x1.ba02aap-5f);
    p = __builtin_fmaf(p, z, 0x1.1110d8p-3f);
    p = __builtin_fmaf(p, z, -0x1.555556p-2f);
    float near = __builtin_fmaf(a * z, p, a);
    float b = a > 12.0f ? 12.0f : a;
    float far = 1.0f - 2.0f / (1.0f + stax_exp_core_f32(2.0f * b, 0.0f, 0.0f));
    return __builtin_copysignf(a < 0.625f ? near : far, x);
}
//: sigmoid_f32 22
STAX_INLINE float stax_sigmoid_f32(float x) {
    float e = stax_exp_f32(-__builtin_fabsf(x));
    float s = 1.0f + e;
    float low = (1.0f - s) + e;
    float q = (x < 0.0f ? e : 1.0f) / s;
    // 1/s is q or 1 - q: take back what the sum lost
    return __builtin_fmaf(-q * low, x < 0.0f ? 1.0f - q : q, q);
}
//: cosh_f32 22
STAX_INLINE float stax_cosh_f32(float x) {
    float a = __builtin_fabsf(x);
    float e = stax_exp_core_f32(a > 100.0f ? 100.0f : a, 0.0f, -1.0f);
    return e + 0.25f / e;
}
//: erf_f32 40
STAX_INLINE float stax_erf_near_f32(float a) {
    float z = a * a;
    float p = 0x1.4a569p-14f;
    p = __builtin_fmaf(p, z, -0x1.a45088p-11f);
    p = __builtin_fmaf(p, z, 0x1.54127p-8f);
    p = __builtin_fmaf(p, z, -0x1.b7fabap-6f);
    p = __builtin_fmaf(p, z, 0x1.ce2d1p-4f);
    p = __builtin_fmaf(p, z, -0x1.81273ep-2f);
    p = __builtin_fmaf(p, z, 0x1.06eba8p-3f);
    return __builtin_fmaf(a, p, a);
}
STAX_INLINE float stax_erf_f32(float x) {
    float a = __builtin_fabsf(x);
    float near = stax_erf_near_f32(a < 1.0f ? a : 1.0f);
    float b = a > 4.0f ? 4.0f : a;
    float p = -0x1.7e9638p-25f;
    p = __builtin_fmaf(p, b, 0x1.5c34d2p-19f);
    p = __builtin_fmaf(p, b, -0x1.ccd686p-15f);
    p = __builtin_fmaf(p, b, 0x1.51487ap-11f);
    p = __builtin_fmaf(p, b, -0x1.41d538p-8f);
    p = __builtin_fmaf(p, b, 0x1.b60be4p-6f);
    p = __builtin_fmaf(p, b, -0x1.c49b32p-4f);
    p = __builtin_fmaf(p, b, -0x1.4351cep-1f);
    p = __builtin_fmaf(p, b, -0x1.216122p+0f);
    p = __builtin_fmaf(p, b, 0x1.6e903cp-12f);
    float far = 1.0f - stax_exp_core_f32(p, 0.0f, 0.0f);
    float y = a < 0.95f ? near : far;
    return __builtin_copysignf(x != x ? x : y, x);
}
//: trig_f32 40
// |x| / (pi/2) modulo 4 in double precision: products with 29-bit pieces of 2/pi are exact
STAX_INLINE double stax_trig_f32(float x) {
    double a = __builtin_fabs((double)x);
    double s = stax_mod4_f64(a * 0x1.45f306dp-1);
    s += stax_mod4_f64(a * 0x1.9391054p-30);
    s += stax_mod4_f64(a * 0x1.4fe13abp-59);
    s += stax_mod4_f64(a * 0x1.d1f534dp-88);
    s += stax_mod4_f64(a * 0x1.b81b6c5p-117);
    s = stax_mod4_f64(s);
    return s + (a * 0x1.5993c4p-148 + a * 0x1.c820ff2p-175);
}
//: sin_poly_f32 8
STAX_INLINE double stax_sin_poly_f32(double r) {
    double z = r * r;
    double p = 0x1.6da8eb8e30cdfp-19;
    p = __builtin_fma(p, z, -0x1.a01365cb7d412p-13);
    p = __builtin_fma(p, z, 0x1.11110dbdfb29p-7);
    p = __builtin_fma(p, z, -0x1.5555555449984p-3);
    return __builtin_fma(r * z, p, r);
}
//: cos_poly_f32 8
STAX_INLINE double stax_cos_poly_f32(double r) {
    double z = r * r;
    double p = -0x1.2516355dc2b23p-22;
    p = __builtin_fma(p, z, 0x1.a01598916be1p-16);
    p = __builtin_fma(p, z, -0x1.6c16bf340de7ep-10);
    p = __builtin_fma(p, z, 0x1.55555554fbfbfp-5);
    return __builtin_fma(z * z, p, __builtin_fma(-0.5, z, 1.0));
}
//: sin_f32 64
STAX_INLINE float stax_sin_f32(float x) {
    double t = stax_trig_f32(x);
    double n = __builtin_rint(t);
    double r = (t - n) * 0x1.921fb54442d18p+0;
    uint64_t q = stax_bits_f64(n + 0x1.8p52);
    double y = q & 1 ? stax_cos_poly_f32(r) : stax_sin_poly_f32(r);
    y = stax_from_bits_f64(stax_bits_f64(y) ^ ((q & 2) << 62));
    float w = __builtin_copysignf(1.0f, x) * (float)y;
    w = __builtin_fabsf(x) < 0x1p-20f ? x : w;
    return __builtin_fabsf(x) < __builtin_inff() ? w : __builtin_nanf("");
}
//: cos_f32 64
STAX_INLINE float stax_cos_f32(float x) {
    double t = stax_trig_f32(x);
    double n = __builtin_rint(t);
    double r = (t - n) * 0x1.921fb54442d18p+0;
    uint64_t q = stax_bits_f64(n + 0x1.8p52);
    double y = q & 1 ? stax_sin_poly_f32(r) : stax_cos_poly_f32(r);
    y = stax_from_bits_f64(stax_bits_f64(y) ^ (((q + 1) & 2) << 62));
    return __builtin_fabsf(x) < __builtin_inff() ? (float)y : __builtin_nanf("");
}
//: tan_f32 70
STAX_INLINE float stax_tan_f32(float x) {
    double t = stax_trig_f32(x);
    double n = __builtin_rint(t);
    double r = (t - n) * 0x1.921fb54442d18p+0;
    uint64_t q = stax_bits_f64(n + 0x1.8p52);
    double s = stax_sin_poly_f32(r), c = stax_cos_poly_f32(r);
    double y = (q & 1 ? -c : s) / (q & 1 ? s : c);
    float w = __builtin_copysignf(1.0f, x) * (float)y;
    w = __builtin_fabsf(x) < 0x1p-20f ? x : w;
    return __builtin_fabsf(x) < __builtin_inff() ? w : __builtin_nanf("");
}
//: pow_f32 70
STAX_INLINE float stax_pow_f32(float x, float y) {
    double a = __builtin_fabs((double)x), b = (double)y;
    stax_split_f64 v = stax_log_split_f64(a);
    double half_square = 0.5 * v.f * v.f;
    double tail = stax_log_tail_f64(v.f, half_square);
    double l = __builtin_fma(v.k, 0x1.62e42fefa39efp-1, v.f - (half_square - tail));
    double p = b * l;
    p = p > 200.0 ? 200.0 : p;
    p = p < -200.0 ? -200.0 : p;
    return (float)stax_pow_fix_f64((double)x, b, stax_exp_core_f64(p, 0.0, 0.0));
}
//: hypot_f32 10
STAX_INLINE float stax_hypot_f32(float x, float y) {
    double a = (double)x, b = (double)y;
    float r = (float)__builtin_sqrt(__builtin_fma(a, a, b * b));
    float inf = __builtin_inff();
    return (__builtin_fabsf(x) == inf) | (__builtin_fabsf(y) == inf) ? inf : r;
}
//: lgamma_f32 60 scalar
STAX_INLINE float stax_lgamma_f32(float x) { return (float)stax_lgamma_f64((double)x); }
//: digamma_f32 60 scalar
STAX_INLINE float stax_digamma_f32(float x) { return (float)stax_digamma_f64((double)x); }
"""
