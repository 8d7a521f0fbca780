"""C text of the single-precision functions, as rows for `vecmath`.

The functions of everyday programs (exp, log, tanh, sigmoid, erf, ...) are computed in single
precision, eight lanes to an AVX2 vector; the rest go through the double-precision function, which
rounds them almost correctly. As in `vecmath_f64` there is no branch and no table.
"""

from __future__ import annotations

__all__ = ["ROWS", "THROUGH_F64", "through_f64"]

# Functions whose float version is the double one, rounded: name -> (operands, flops).
THROUGH_F64: dict[str, tuple[int, int]] = {
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
//: signed_f32 2
// y >= 0 with the sign of x
STAX_INLINE float stax_signed_f32(float y, float x) {
    return stax_from_bits_f32(stax_bits_f32(y) | (stax_bits_f32(x) & 0x80000000u));
}
//: ldexp_f32 6
// y * 2^n for t = 1.5 * 2^23 + n and n <= 129, in two factors: a denormal result is rounded once
STAX_INLINE float stax_ldexp_f32(float y, float t) {
    float small = t < 0x1.8p23f - 100.0f ? 0x1p-63f : 2.0f;
    y *= stax_from_bits_f32((stax_bits_f32(t) << 23) + (0x7f000000u - stax_bits_f32(small)));
    y *= small;
    return t < 0x1.8p23f - 151.0f ? 0.0f : y;
}
//: exp_low_f32 14
// 2^shift * exp(x) below 2^129; a shift of -0.0 costs nothing
STAX_INLINE float stax_exp_low_f32(float x, float shift) {
    float t = __builtin_fmaf(x, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = __builtin_fmaf(-n, 0x1.62e43p-1f, x);
    r = __builtin_fmaf(-n, -0x1.05c61p-29f, r);
    float z = r * r;
    float p = __builtin_fmaf(0x1.555466p-3f, r, 0x1p-1f);
    float q = __builtin_fmaf(0x1.1257a2p-7f, r, 0x1.555302p-5f);
    q = __builtin_fmaf(0x1.6fe472p-10f, z, q);
    p = __builtin_fmaf(q, z, p);
    return stax_ldexp_f32(__builtin_fmaf(p, z, 1.0f + r), t + shift);
}
//: exp_f32 16
STAX_INLINE float stax_exp_f32(float x) {
    float y = stax_exp_low_f32(x, -0.0f);
    return x > 89.0f ? __builtin_inff() : y;
}
//: exp2_f32 14
STAX_INLINE float stax_exp2_f32(float x) {
    float t = x + 0x1.8p23f;
    float r = x - (t - 0x1.8p23f);
    float z = r * r;
    float p = __builtin_fmaf(0x1.ebfb94p-3f, r, 0x1.62e43p-1f);
    float q = __builtin_fmaf(0x1.3b6808p-7f, r, 0x1.c6af9ep-5f);
    q = __builtin_fmaf(__builtin_fmaf(0x1.17b27ap-13f, r, 0x1.5ef4aap-10f), z, q);
    p = __builtin_fmaf(q, z, p);
    float y = stax_ldexp_f32(__builtin_fmaf(p, r, 1.0f), t);
    return x > 129.0f ? __builtin_inff() : y;
}
//: expm1_f32 18
STAX_INLINE float stax_expm1_f32(float x) {
    float t = __builtin_fmaf(x, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = __builtin_fmaf(-n, 0x1.62e43p-1f, x);
    r = __builtin_fmaf(-n, -0x1.05c61p-29f, r);
    float z = r * r;
    float p = __builtin_fmaf(0x1.55552cp-3f, r, 0x1p-1f);
    float q = __builtin_fmaf(0x1.1155a6p-7f, r, 0x1.555502p-5f);
    q = __builtin_fmaf(__builtin_fmaf(0x1.3b90d4p-13f, r, 0x1.6d2e48p-10f), z, q);
    p = __builtin_fmaf(q, z, p);
    p = __builtin_fmaf(p, z, r);
    float s = stax_from_bits_f32((stax_bits_f32(t) << 23) + 0x3f000000u);
    float y = __builtin_fmaf(s, p, s - 0.5f) * 2.0f;
    y = t < 0x1.8p23f - 26.0f ? -1.0f : y;
    y = x <= 89.0f ? y : x + __builtin_inff();
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
    float scale = x < 0x1p-126f ? 0x1p23f : 1.0f;
    uint32_t u = stax_bits_f32(x * scale);
    uint32_t n = (u - 0x3f3504f3u) & 0xff800000u;
    stax_split_f32 out;
    out.k = (float)((int32_t)(n + (0x3f800000u - stax_bits_f32(scale))) >> 23);
    out.f = stax_from_bits_f32(u - n) - 1.0f;
    return out;
}
//: log_reduce_f32 20
// k log(2) + log(1 + f)
STAX_INLINE float stax_log_reduce_f32(float k, float f) {
    float z = f * f;
    float a = __builtin_fmaf(-0x1.000228p-2f, f, 0x1.555554p-2f);
    float b = __builtin_fmaf(-0x1.54722p-3f, f, 0x1.99a036p-3f);
    float c = __builtin_fmaf(-0x1.0d80ecp-3f, f, 0x1.22d5ecp-3f);
    float d = __builtin_fmaf(-0x1.38ed4cp-4f, f, 0x1.056de6p-3f);
    a = __builtin_fmaf(b, z, a);
    c = __builtin_fmaf(d, z, c);
    a = __builtin_fmaf(c, z * z, a);
    float low = __builtin_fmaf(-0.5f, z, k * -0x1.05c61p-29f);
    return __builtin_fmaf(k, 0x1.62e43p-1f, f) + __builtin_fmaf(a, z * f, low);
}
//: log_f32 26
STAX_INLINE float stax_log_f32(float x) {
    stax_split_f32 v = stax_log_split_f32(x);
    return stax_log_fix_f32(x, stax_log_reduce_f32(v.k, v.f));
}
//: log1p_f32 26
// the exponent is that of 1 + x rounded; the fraction (1 + x) / 2^k - 1 is rounded once
STAX_INLINE float stax_log1p_f32(float x) {
    float u = 1.0f + x;
    uint32_t n = (stax_bits_f32(u) - 0x3f3504f3u) & 0xff800000u;
    float s = stax_from_bits_f32(0x40800000u - n);
    float f = __builtin_fmaf(0.25f * x, s, __builtin_fmaf(0.25f, s, -1.0f));
    float y = stax_log_reduce_f32((float)((int32_t)n >> 23), f);
    y = stax_log_fix_f32(u, y);
    return __builtin_fabsf(x) < 0x1p-24f ? x : y;
}
//: tanh_f32 24
// -e / (2 + e) with e = expm1(-2|x|), numerator and denominator each rounded once
STAX_INLINE float stax_tanh_f32(float x) {
    float a = __builtin_fabsf(x);
    a = a > 9.25f ? 9.25f : a;
    float t = __builtin_fmaf(a, 0x1.715476p+1f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = __builtin_fmaf(n, -0x1.62e43p-2f, a);
    float z = r * r;
    float p = __builtin_fmaf(0x1.5554aap+0f, r, -0x1.fffffep+0f);
    float q = __builtin_fmaf(0x1.122bf6p-2f, r, -0x1.555798p-1f);
    q = __builtin_fmaf(-0x1.6acab4p-4f, z, q);
    p = __builtin_fmaf(q, z, p);
    p = __builtin_fmaf(p, z, r + r);
    float s = stax_from_bits_f32(0x3f800000u - (stax_bits_f32(t) << 23));
    float top = __builtin_fmaf(s, p, 1.0f - s);
    float bottom = __builtin_fmaf(-s, p, 1.0f + s);
    return stax_signed_f32(top / bottom, x);
}
//: sigmoid_f32 22
// e / (1 + e), written e - e y where the sum 1 + e would lose digits of a small e
STAX_INLINE float stax_sigmoid_f32(float x) {
    float e = stax_exp_low_f32(x > 20.0f ? 20.0f : x, -0.0f);
    float y = e / (1.0f + e);
    return x < 0.0f ? __builtin_fmaf(-e, y, e) : y;
}
//: cosh_f32 22
STAX_INLINE float stax_cosh_f32(float x) {
    float a = __builtin_fabsf(x);
    float e = stax_exp_low_f32(a > 90.0f ? 90.0f : a, -1.0f);
    return e + 0.25f / e;
}
//: erf_f32 34
// -expm1(y) with y = log(erfc(|x|)), a polynomial times |x|
STAX_INLINE float stax_erf_f32(float x) {
    float a = __builtin_fabsf(x);
    a = a > 3.95f ? 3.95f : a;
    float w = a * a;
    float b = __builtin_fmaf(0x1.36ce24p-17f, a, -0x1.edae3ap-14f);
    float c = __builtin_fmaf(0x1.4be922p-11f, a, -0x1.b51e94p-10f);
    float d = __builtin_fmaf(0x1.515fecp-13f, a, 0x1.39cca4p-6f);
    float u = __builtin_fmaf(-0x1.a4fa4ap-4f, a, -0x1.45f2fap-1f);
    u = __builtin_fmaf(d, w, u);
    u = __builtin_fmaf(__builtin_fmaf(b, w, c), w * w, u);
    float y = __builtin_fmaf(a, -0x1.20dd76p+0f, __builtin_fmaf(u, w, a * 0x1.d098dcp-25f));
    float t = __builtin_fmaf(y, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = __builtin_fmaf(n, -0x1.62e43p-1f, y);
    float z = r * r;
    float p = __builtin_fmaf(-0x1.5554aap-3f, r, -0x1.fffffep-2f);
    float q = __builtin_fmaf(-0x1.122bf6p-7f, r, -0x1.555798p-5f);
    q = __builtin_fmaf(-0x1.6acab4p-10f, z, q);
    p = __builtin_fmaf(q, z, p);
    p = __builtin_fmaf(p, z, -r);
    float s = stax_from_bits_f32((stax_bits_f32(t) << 23) + 0x3f800000u);
    return stax_signed_f32(__builtin_fmaf(s, p, 1.0f - s), x);
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
    stax_split_f64 v = stax_log_single_f64(a);
    double p = b * stax_pow_log_f64(a, __builtin_fma(v.k, 0x1.62e42fefa39efp-1, v.f));
    p = p > 200.0 ? 200.0 : p;
    p = p < -200.0 ? -200.0 : p;
    return (float)stax_pow_fix_f64((double)x, b, stax_exp_single_f64(p));
}
//: log2_f32 36
STAX_INLINE float stax_log2_f32(float x) {
    stax_split_f64 v = stax_log_single_f64((double)x);
    return stax_log_fix_f32(x, (float)__builtin_fma(v.f, 0x1.71547652b82fep+0, v.k));
}
//: log10_f32 36
STAX_INLINE float stax_log10_f32(float x) {
    stax_split_f64 v = stax_log_single_f64((double)x);
    double y = __builtin_fma(v.f, 0x1.bcb7b1526e50ep-2, v.k * 0x1.34413509f79ffp-2);
    return stax_log_fix_f32(x, (float)y);
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
