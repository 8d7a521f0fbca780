"""C text of the double-precision trigonometric and error functions, as rows for `vecmath`.

Written as in `vecmath_f64`: straight-line code only. Angles of any size are reduced after Payne
and Hanek, with products by 2/pi that are exact in pairs of doubles; erfc is exp(-x^2) times a
polynomial; erfinv is two steps of Halley's method. lgamma is the C library's.
"""

from __future__ import annotations

__all__ = ["ROWS", "two_over_pi_table"]

# 2/pi in binary, 1280 bits after the point, as an integer.
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
_TWO_OVER_PI_BITS = 1280


def two_over_pi_table() -> str:
    """Return the C table of (2/pi * 2^(32 b)) mod 4, each row as the sum of four doubles."""
    rows = []
    for bucket in range(31):
        rest = (_TWO_OVER_PI << (32 * bucket)) % (4 << _TWO_OVER_PI_BITS)
        parts = []
        for _ in range(4):
            drop = max(0, rest.bit_length() - 53)
            head = (rest >> drop) << drop
            rest -= head
            # An integer of 53 significant bits divided by a power of two: exact.
            parts.append((head / (1 << _TWO_OVER_PI_BITS)).hex())
        rows.append("    " + ", ".join(parts) + ",")
    body = "\n".join(rows)
    return f"static const double stax_two_over_pi_f64[] = {{\n{body}\n}};\n"


ROWS = r"""
//: mod4_f64 3
STAX_INLINE double stax_mod4_f64(double p) {
    return __builtin_fma(__builtin_rint(p * 0.25), -4.0, p);
}
//: trig_f64 60
// |x| reduced to r + low in [-pi/4, pi/4] and a quarter q modulo 4, right for every finite x
typedef struct { double r, low; uint64_t q; } stax_angle_f64;
STAX_INLINE stax_angle_f64 stax_trig_f64(double x) {
    uint64_t u = stax_bits_f64(x) & 0x7fffffffffffffffull;
    int64_t over = (int64_t)(u >> 52) - 1076;
    over = over > 0 ? over : 0;
    uint64_t bucket = (uint64_t)over >> 5;
    int64_t i = (int64_t)(bucket << 2);
    const double *c = stax_two_over_pi_f64;
    double a = stax_from_bits_f64(u - (bucket << 57));
    double p0 = a * c[i], p1 = a * c[i + 1], p2 = a * c[i + 2];
    double e0 = __builtin_fma(a, c[i], -p0);
    double e1 = __builtin_fma(a, c[i + 1], -p1);
    double e2 = __builtin_fma(a, c[i + 2], -p2) + a * c[i + 3];
    double a0 = stax_mod4_f64(p0), a1 = stax_mod4_f64(e0), a2 = stax_mod4_f64(p1);
    double h = a0 + a1, t = h - a0;
    double l = (a0 - (h - t)) + (a1 - t);
    double g = h + a2;
    t = g - h;
    double l2 = (h - (g - t)) + (a2 - t);
    double n = __builtin_rint(g);
    double f = g - n;
    double s = e1 + p2;
    t = s - e1;
    double s_low = (e1 - (s - t)) + (p2 - t);
    // Several small terms may exceed f when it has cancelled: add them exactly, then renormalise.
    double v = l + l2, v_low;
    t = v - l;
    v_low = (l - (v - t)) + (l2 - t);
    double w = f + s;
    t = w - f;
    double w_low = (f - (w - t)) + (s - t);
    double y = w + v;
    t = y - w;
    double y_low = (w - (y - t)) + (v - t);
    y_low += w_low + (v_low + (s_low + e2));
    double hi = y + y_low;
    double lo = (y - hi) + y_low;
    stax_angle_f64 out;
    out.r = hi * 0x1.921fb54442d18p+0;
    out.low = __builtin_fma(hi, 0x1.921fb54442d18p+0, -out.r)
        + __builtin_fma(hi, 0x1.1a62633145c07p-54, lo * 0x1.921fb54442d18p+0);
    out.q = stax_bits_f64(n + 0x1.8p52);
    return out;
}
//: sin_poly_f64 14
STAX_INLINE double stax_sin_poly_f64(double r, double low) {
    double z = r * r;
    double p = 0x1.5dfb39c3139b6p-33;
    p = __builtin_fma(p, z, -0x1.ae5fde7f12068p-26);
    p = __builtin_fma(p, z, 0x1.71de376b644ccp-19);
    p = __builtin_fma(p, z, -0x1.a01a019e620eep-13);
    p = __builtin_fma(p, z, 0x1.1111111110b23p-7);
    p = __builtin_fma(p, z, -0x1.5555555555555p-3);
    return r + __builtin_fma(r * z, p, __builtin_fma(-0.5 * z, low, low));
}
//: cos_poly_f64 16
STAX_INLINE double stax_cos_poly_f64(double r, double low) {
    double z = r * r;
    double p = -0x1.906dbf4fda044p-37;
    p = __builtin_fma(p, z, 0x1.1eeb52a201da3p-29);
    p = __builtin_fma(p, z, -0x1.27e4fa0241f7cp-22);
    p = __builtin_fma(p, z, 0x1.a01a019f3dde1p-16);
    p = __builtin_fma(p, z, -0x1.6c16c16c1691fp-10);
    p = __builtin_fma(p, z, 0x1.5555555555555p-5);
    double half = 0.5 * z;
    double head = 1.0 - half;
    return head + (((1.0 - head) - half) + __builtin_fma(z * z, p, -r * low));
}
//: sin_f64 95
STAX_INLINE double stax_sin_f64(double x) {
    stax_angle_f64 v = stax_trig_f64(x);
    double s = stax_sin_poly_f64(v.r, v.low), c = stax_cos_poly_f64(v.r, v.low);
    double y = v.q & 1 ? c : s;
    uint64_t sign = (stax_bits_f64(x) & 0x8000000000000000ull) ^ ((v.q & 2) << 62);
    y = stax_from_bits_f64(stax_bits_f64(y) ^ sign);
    y = __builtin_fabs(x) < 0x1p-27 ? x : y;
    return __builtin_fabs(x) < __builtin_inf() ? y : __builtin_nan("");
}
//: cos_f64 95
STAX_INLINE double stax_cos_f64(double x) {
    stax_angle_f64 v = stax_trig_f64(x);
    double s = stax_sin_poly_f64(v.r, v.low), c = stax_cos_poly_f64(v.r, v.low);
    double y = v.q & 1 ? s : c;
    y = stax_from_bits_f64(stax_bits_f64(y) ^ (((v.q + 1) & 2) << 62));
    return __builtin_fabs(x) < __builtin_inf() ? y : __builtin_nan("");
}
//: tan_f64 105
STAX_INLINE double stax_tan_f64(double x) {
    stax_angle_f64 v = stax_trig_f64(x);
    double s = stax_sin_poly_f64(v.r, v.low), c = stax_cos_poly_f64(v.r, v.low);
    double y = (v.q & 1 ? -c : s) / (v.q & 1 ? s : c);
    y = stax_from_bits_f64(stax_bits_f64(y) ^ (stax_bits_f64(x) & 0x8000000000000000ull));
    y = __builtin_fabs(x) < 0x1p-27 ? x : y;
    return __builtin_fabs(x) < __builtin_inf() ? y : __builtin_nan("");
}
//: erf_near_f64 14
STAX_INLINE double stax_erf_near_f64(double x) {
    double z = x * x;
    double p = -0x1.ac9585a44fe29p-31;
    p = __builtin_fma(p, z, 0x1.d76af6ca49787p-27);
    p = __builtin_fma(p, z, -0x1.5c131500d3f88p-23);
    p = __builtin_fma(p, z, 0x1.b981d78881a5dp-20);
    p = __builtin_fma(p, z, -0x1.f4ca838adb73bp-17);
    p = __builtin_fma(p, z, 0x1.f9a2be4f731a1p-14);
    p = __builtin_fma(p, z, -0x1.c02db0665e53dp-11);
    p = __builtin_fma(p, z, 0x1.565bccfa44156p-8);
    p = __builtin_fma(p, z, -0x1.b82ce31203772p-6);
    p = __builtin_fma(p, z, 0x1.ce2f21a040f66p-4);
    p = __builtin_fma(p, z, -0x1.812746b0379c1p-2);
    p = __builtin_fma(p, z, 0x1.06eba8214db68p-3);
    return __builtin_fma(x, p, x);
}
//: erfc_far_f64 70
// erfc(a) for a >= 0.5: exp(-a^2) g(t) / (1 + 2a), with g a polynomial in t = (a - 4) / (a + 4)
STAX_INLINE double stax_erfc_far_f64(double a) {
    double b = a > 28.0 ? 28.0 : a;
    double t = (b - 4.0) / (b + 4.0);
    double p = 0x1.61b7cfc6699ccp-30;
    p = __builtin_fma(p, t, 0x1.0a7cf86f44568p-29);
    p = __builtin_fma(p, t, -0x1.e41a276e46899p-27);
    p = __builtin_fma(p, t, -0x1.3866f4de619dep-26);
    p = __builtin_fma(p, t, 0x1.d8301872c9038p-24);
    p = __builtin_fma(p, t, 0x1.41c517b922a77p-24);
    p = __builtin_fma(p, t, -0x1.bb109f7cc4d63p-21);
    p = __builtin_fma(p, t, 0x1.3b5310e04330dp-22);
    p = __builtin_fma(p, t, 0x1.7f2ab0df7bb7fp-18);
    p = __builtin_fma(p, t, -0x1.788c610cecef8p-17);
    p = __builtin_fma(p, t, -0x1.9959a647892bdp-16);
    p = __builtin_fma(p, t, 0x1.3be06814345eap-13);
    p = __builtin_fma(p, t, -0x1.a1df20f90b476p-13);
    p = __builtin_fma(p, t, -0x1.8d4a9c4626a7p-11);
    p = __builtin_fma(p, t, 0x1.49c6727ef8298p-8);
    p = __builtin_fma(p, t, -0x1.0962388275ee7p-6);
    p = __builtin_fma(p, t, 0x1.3079edf69c8c1p-5);
    p = __builtin_fma(p, t, -0x1.0fb06dfe56bbcp-4);
    p = __builtin_fma(p, t, 0x1.7fee004e11958p-4);
    p = __builtin_fma(p, t, -0x1.9ddb23c3e87e9p-4);
    p = __builtin_fma(p, t, 0x1.16ecefcfa53ep-4);
    p = __builtin_fma(p, t, 0x1.f7f5df66fd693p-7);
    p = __builtin_fma(p, t, -0x1.1df1ad154a28fp-3);
    // The last sum and the quotient are carried in two parts.
    double head = __builtin_fma(p, t, 0x1.3ba5916e9fd7fp+0);
    double rest = __builtin_fma(p, t, 0x1.3ba5916e9fd7fp+0 - head);
    double square = b * b;
    double low = __builtin_fma(b, b, -square);
    double d = __builtin_fma(2.0, b, 1.0);
    double d_low = 1.0 - (d - 2.0 * b);
    double inverse = 1.0 / d;
    double q = head * inverse;
    rest = __builtin_fma(-q, d_low, __builtin_fma(-q, d, head) + rest) * inverse;
    return stax_exp_times_f64(q, rest, -square, -low);
}
//: erf_f64 56
// -expm1(y) with y = log(erfc(|x|)), a polynomial times |x|
STAX_INLINE double stax_erf_f64(double x) {
    double a = __builtin_fabs(x);
    a = a > 5.93 ? 5.93 : a;
    double w = a * a, v = w * w, u = v * v;
    double p0 = __builtin_fma(-0x1.a4f4e2a1a9b41p-4, a, -0x1.45f306dc9c8d9p-1);
    p0 = __builtin_fma(__builtin_fma(0x1.b6b6a1cb84219p-13, a, 0x1.396685908d15cp-6), w, p0);
    double p1 = __builtin_fma(0x1.35663be631937p-11, a, -0x1.bca691e08ccbbp-10);
    p1 = __builtin_fma(__builtin_fma(-0x1.0e32f55864d0cp-14, a, -0x1.b29af9e584f07p-16), w, p1);
    double p2 = __builtin_fma(-0x1.a96d9385cbc6ep-19, a, 0x1.f0328f25d7566p-16);
    p2 = __builtin_fma(__builtin_fma(0x1.116cac6e08406p-19, a, -0x1.a47f254b555a8p-19), w, p2);
    double p3 = __builtin_fma(0x1.920806a8d53d8p-27, a, -0x1.32595f714c683p-21);
    p3 = __builtin_fma(__builtin_fma(-0x1.2917d87b55a6fp-25, a, 0x1.1a56ba64f609fp-24), w, p3);
    double p4 = __builtin_fma(-0x1.4470692d8245ap-29, a, 0x1.722ee1cbe75f8p-27);
    p4 = __builtin_fma(__builtin_fma(-0x1.7a67fb9130df5p-35, a, 0x1.9d82fd8cf260dp-32), w, p4);
    double p5 = __builtin_fma(-0x1.6ba808c9ad977p-43, a, 0x1.d9837c938c125p-39);
    p5 = __builtin_fma(0x1.02dc3ca0e19d1p-48, w, p5);
    p0 = __builtin_fma(p1, v, p0);
    p2 = __builtin_fma(p3, v, p2);
    p4 = __builtin_fma(p5, v, p4);
    p0 = __builtin_fma(p2, u, p0);
    p0 = __builtin_fma(p4, u * u, p0);
    double y = __builtin_fma(a, -0x1.20dd750429b6dp+0, p0 * w);
    double t = __builtin_fma(y, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, y);
    r = __builtin_fma(-n, 0x1.abc9e3b39803fp-56, r);
    double p = __builtin_fma(r * r, stax_exp_terms_f64(r), r);
    double s = stax_from_bits_f64((stax_bits_f64(t) << 52) + 0x3ff0000000000000ull);
    return stax_signed_f64(__builtin_fma(-s, p, 1.0 - s), x);
}
//: erfc_f64 85
STAX_INLINE double stax_erfc_f64(double x) {
    double a = __builtin_fabs(x);
    double near = 1.0 - stax_erf_near_f64(a < 0.5 ? x : 0.5);
    double far = stax_erfc_far_f64(a);
    far = x < 0.0 ? 2.0 - far : far;
    double y = a < 0.5 ? near : far;
    return x != x ? x : y;
}
//: erfinv_step_f64 120
STAX_INLINE double stax_erfinv_step_f64(double y, double a, double rest) {
    double near = stax_erf_near_f64(y < 1.0 ? y : 1.0) - a;
    double far = rest - stax_erfc_far_f64(y);
    double d = (y < 0.5 ? near : far) * 0x1.c5bf891b4ef6bp-1 * stax_exp_f64(y * y);
    return y - d / __builtin_fma(y, d, 1.0);
}
//: erfinv_f64 250
// two steps of Halley's method from a polynomial in sqrt(-log(1 - x^2))
STAX_INLINE double stax_erfinv_f64(double x) {
    double a = __builtin_fabs(x);
    double rest = 1.0 - a;
    double s = __builtin_sqrt(-stax_log_f64(rest * (1.0 + a)));
    s = s < 6.2 ? s : 6.2;
    double p = -0x1.0e22fe3a3ded1p-16;
    p = __builtin_fma(p, s, 0x1.e25fe9c636793p-12);
    p = __builtin_fma(p, s, -0x1.61600e9198491p-8);
    p = __builtin_fma(p, s, 0x1.0e293aac0f49cp-5);
    p = __builtin_fma(p, s, -0x1.c06cefa856566p-4);
    p = __builtin_fma(p, s, 0x1.74e80003806cap-3);
    p = __builtin_fma(p, s, -0x1.183e18564b769p-3);
    p = __builtin_fma(p, s, 0x1.24b095c0dc226p-2);
    p = __builtin_fma(p, s, -0x1.1a99f804e4c57p-7);
    p = __builtin_fma(p, s, 0x1.c5e15acd9ba6fp-1);
    double y = p * a;
    y = stax_erfinv_step_f64(y, a, rest);
    y = stax_erfinv_step_f64(y, a, rest);
    y = a < 0x1p-30 ? a * 0x1.c5bf891b4ef6bp-1 : y;
    y = a == 1.0 ? __builtin_inf() : y;
    y = a > 1.0 ? __builtin_nan("") : y;
    y = x != x ? x : y;
    return __builtin_copysign(y, x);
}
//: lgamma_f64 60 scalar
STAX_LIBRARY(double, stax_libm_lgamma, "lgamma")
// SciPy's value at -infinity, where the C library's is +infinity
STAX_INLINE double stax_lgamma_f64(double x) {
    return x == -__builtin_inf() ? x : stax_libm_lgamma(x);
}
//: digamma_f64 60 scalar
// on [1, 2] the distance from the root times 31/32 and a small rational function; elsewhere by
// recurrence, reflection, and from 10 up by the asymptotic series
static double stax_digamma_f64(double x) {
    double shift = 0.0;
    if (x == 0.0) return __builtin_copysign(__builtin_inf(), -x);
    if (x < 0.0) {
        double f = x - __builtin_rint(x);
        if (f == 0.0) return __builtin_nan("");
        double t = f * 0x1.921fb54442d18p+1;
        shift = -0x1.921fb54442d18p+1 / stax_tan_f64(t);
        x = 1.0 - x;
    }
    if (x >= 10.0) {
        double w = 1.0 / (x * x);
        double series = w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240
            - w * (1.0 / 132 - w * (691.0 / 32760 - w * (1.0 / 12 - w * 3617.0 / 8160)))))));
        return stax_log_f64(x) - 0.5 / x - series + shift;
    }
    double sum = 0.0, low = 0.0;  // the sum of reciprocals, with what rounding takes from it
    while (x > 2.0) {
        x -= 1.0;
        double r = 1.0 / x, next = sum + r;
        low += __builtin_fma(-r, x, 1.0) / x + (sum > r ? r - (next - sum) : sum - (next - r));
        sum = next;
    }
    // NaN ends here too
    if (!(x >= 1.0)) {
        double r = 1.0 / x;
        low -= __builtin_fma(-r, x, 1.0) / x;
        sum -= r;
        low += x - ((x + 1.0) - 1.0);  // the slope there is between 1 and 1.7
        x += 1.0;
    }
    double t = x - 1.0, near = x - 0x1.762d86356be3fp+0, far = -0x1.b86a722197829p-54;
    double p = -0x1.e4c5886bbff74p-14;
    p = __builtin_fma(p, t, -0x1.5d414078afb2ep-8);
    p = __builtin_fma(p, t, -0x1.17c992f2be331p-4);
    p = __builtin_fma(p, t, -0x1.58f8baa3724fcp-2);
    p = __builtin_fma(p, t, -0x1.47aa222e35e9fp-1);
    p = __builtin_fma(p, t, -0x1.eeab48334f717p-3);
    p = __builtin_fma(p, t, 0x1.2063a69894978p-2);
    double q = 0x1.f92059df5b1d1p-14;
    q = __builtin_fma(q, t, 0x1.8fd563129c5eap-8);
    q = __builtin_fma(q, t, 0x1.7539385d2a729p-4);
    q = __builtin_fma(q, t, 0x1.246015d6a895ep-1);
    q = __builtin_fma(q, t, 0x1.a9bf32a0bb7acp+0);
    q = __builtin_fma(q, t, 0x1.16ad65259c04ep+1);
    q = __builtin_fma(q, t, 1.0);
    double rest = p / q, slope = 31.0 / 32 + rest;
    double part = __builtin_fma(near, 31.0 / 32, __builtin_fma(near, rest, far * slope));
    double whole = sum + part;
    low += sum > part || sum < -part ? part - (whole - sum) : sum - (whole - part);
    return shift == 0.0 ? whole + low : whole + (shift + low);
}
"""
