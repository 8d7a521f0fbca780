"""C text of the double-precision functions, as rows for `vecmath`.

Every function is a straight line of arithmetic and selections: no branch, call or table, so that
the compiler turns a loop over it into vector code and an element has the same bits in the vector
body, in the remainder of a loop and in scalar code. Polynomials interpolate the function at
Chebyshev nodes of the reduced interval and are evaluated with explicit fused multiply-adds. Each
row opens with `//: name flops`; `scalar` marks what does not vectorise.
"""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
//: bits_f64 0
STAX_INLINE uint64_t stax_bits_f64(double x) {
    union { double f; uint64_t u; } v;
    v.f = x;
    return v.u;
}
//: from_bits_f64 0
STAX_INLINE double stax_from_bits_f64(uint64_t u) {
    union { double f; uint64_t u; } v;
    v.u = u;
    return v.f;
}
//: power2_f64 2
// 2^n for an integral n in [-1022, 1023]
STAX_INLINE double stax_power2_f64(double n) {
    return stax_from_bits_f64(stax_bits_f64(n + (0x1.8p52 + 1023.0)) << 52);
}
//: signed_f64 2
// y >= 0 with the sign of x
STAX_INLINE double stax_signed_f64(double y, double x) {
    return stax_from_bits_f64(stax_bits_f64(y) | (stax_bits_f64(x) & 0x8000000000000000ull));
}
//: ldexp_f64 6
// y * 2^n for t = 1.5 * 2^52 + n and n <= 1025, in two factors: a denormal result is rounded once
STAX_INLINE double stax_ldexp_f64(double y, double t) {
    double small = t < 0x1.8p52 - 960.0 ? 0x1p-63 : 2.0;
    y *= stax_from_bits_f64((stax_bits_f64(t) << 52)
        + (0x7fe0000000000000ull - stax_bits_f64(small)));
    y *= small;
    return t < 0x1.8p52 - 1076.0 ? 0.0 : y;
}
//: exp_terms_f64 12
// (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2
STAX_INLINE double stax_exp_terms_f64(double r) {
    double z = r * r, w = z * z;
    double a = __builtin_fma(0x1.5555555555556p-3, r, 0x1.0000000000001p-1);
    double b = __builtin_fma(0x1.1111111110996p-7, r, 0x1.5555555553d05p-5);
    double c = __builtin_fma(0x1.a01a01a7da98dp-13, r, 0x1.6c16c178b0646p-10);
    double d = __builtin_fma(0x1.71de0d573888bp-19, r, 0x1.a019b87f7a6e9p-16);
    double e = __builtin_fma(0x1.af39789bfd689p-26, r, 0x1.28922d8c8d4fbp-22);
    a = __builtin_fma(b, z, a);
    c = __builtin_fma(__builtin_fma(e, z, d), z, c);
    return __builtin_fma(c, w, a);
}
//: exp_poly_f64 14
// expm1(hi + lo) for |hi| <= ln(2)/2 and a small lo
STAX_INLINE double stax_exp_poly_f64(double hi, double lo) {
    double r = hi + lo;
    double low = (hi - r) + lo;
    return r + __builtin_fma(r * r, stax_exp_terms_f64(r), low);
}
//: exp_core_f64 22
// 2^shift * exp(hi + lo) for |hi| <= 1400; below 2^1025; a shift of -0.0 costs nothing
STAX_INLINE double stax_exp_core_f64(double hi, double lo, double shift) {
    double t = __builtin_fma(hi, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, hi);
    double low = __builtin_fma(-n, 0x1.abc9e3b39803fp-56, lo);
    return stax_ldexp_f64(1.0 + stax_exp_poly_f64(r, low), t + shift);
}
//: exp_times_f64 22
// (y + rest) * exp(hi + lo) for |hi| <= 1400, below 2^1024
STAX_INLINE double stax_exp_times_f64(double y, double rest, double hi, double lo) {
    double t = __builtin_fma(hi, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, hi);
    double low = __builtin_fma(-n, 0x1.abc9e3b39803fp-56, lo);
    return stax_ldexp_f64(y + __builtin_fma(y, stax_exp_poly_f64(r, low), rest), t);
}
//: exp_low_f64 20
// exp(x) for x <= 710
STAX_INLINE double stax_exp_low_f64(double x) {
    double t = __builtin_fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, x);
    r = __builtin_fma(-n, 0x1.abc9e3b39803fp-56, r);
    return stax_ldexp_f64(__builtin_fma(stax_exp_terms_f64(r), r * r, 1.0 + r), t);
}
//: exp_single_f64 18
// exp(x) for |x| <= 700, to single precision
STAX_INLINE double stax_exp_single_f64(double x) {
    double t = __builtin_fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double r = __builtin_fma(0x1.8p52 - t, 0x1.62e42fefa39efp-1, x);
    double z = r * r;
    double a = __builtin_fma(0x1.55549105765a7p-3, r, 0x1.fffffb97b10cbp-2);
    double b = __builtin_fma(0x1.123a1e073b02cp-7, r, 0x1.5558f2eb847c0p-5);
    a = __builtin_fma(__builtin_fma(0x1.6a23d46c82de0p-10, z, b), z, a);
    double s = stax_from_bits_f64((stax_bits_f64(t) << 52) + 0x3ff0000000000000ull);
    return __builtin_fma(a, z, 1.0 + r) * s;
}
//: exp_f64 22
STAX_INLINE double stax_exp_f64(double x) {
    double y = stax_exp_low_f64(x);
    return x > 710.0 ? __builtin_inf() : y;
}
//: exp2_f64 22
STAX_INLINE double stax_exp2_f64(double x) {
    double t = x + 0x1.8p52;
    double f = x - (t - 0x1.8p52);
    double r = f * 0x1.62e42fefa39efp-1;
    double low = __builtin_fma(f, 0x1.62e42fefa39efp-1, -r) + f * 0x1.abc9e3b39803fp-56;
    double y = stax_ldexp_f64(1.0 + stax_exp_poly_f64(r, low), t);
    return x > 1025.0 ? __builtin_inf() : y;
}
//: expm1_f64 24
STAX_INLINE double stax_expm1_f64(double x) {
    double t = __builtin_fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, x);
    double p = stax_exp_poly_f64(r, n * -0x1.abc9e3b39803fp-56);
    double s = stax_from_bits_f64((stax_bits_f64(t) << 52) + 0x3fe0000000000000ull);
    double y = __builtin_fma(s, p, s - 0.5) * 2.0;
    y = t < 0x1.8p52 - 56.0 ? -1.0 : y;
    y = x > 710.0 ? __builtin_inf() : y;
    return __builtin_fabs(x) < 0x1p-54 ? x : y;
}
//: log_fix_f64 3
STAX_INLINE double stax_log_fix_f64(double x, double y) {
    double special = x == 0.0 ? -__builtin_inf() : __builtin_nan("");
    y = x < __builtin_inf() ? y : x;
    return x > 0.0 ? y : special;
}
//: log_split_f64 6
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))
typedef struct { double k, f; } stax_split_f64;
STAX_INLINE stax_split_f64 stax_log_split_f64(double x) {
    double scale = x < 0x1p-1022 ? 0x1p54 : 1.0;
    uint64_t u = stax_bits_f64(x * scale) + 0x95f619980c433ull;
    uint64_t n = (u + (0x7ff0000000000000ull - stax_bits_f64(scale))) >> 52;
    stax_split_f64 out;
    out.k = stax_from_bits_f64(n | 0x4330000000000000ull) - (0x1p52 + 2047.0);
    out.f = stax_from_bits_f64((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
    return out;
}
//: log_single_f64 16
// x = 2^k e^f with |f| <= ln(2)/2, to single precision, for a normal x
STAX_INLINE stax_split_f64 stax_log_single_f64(double x) {
    uint64_t u = stax_bits_f64(x) + 0x95f619980c433ull;
    double f = stax_from_bits_f64((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 0x1.91173ab8bb385p-3;
    p = __builtin_fma(p, z, 0x1.c62af8ebf4880p-3);
    p = __builtin_fma(p, z, 0x1.2494123c84804p-2);
    p = __builtin_fma(p, z, 0x1.999996a89e98fp-2);
    p = __builtin_fma(p, z, 0x1.555555561e7c5p-1);
    stax_split_f64 out;
    out.k = stax_from_bits_f64((u >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0);
    out.f = __builtin_fma(s * z, p, s + s);
    return out;
}
//: log_tail_f64 12
// log(1 + f) - f + f^2/2 with s = f / (2 + f): s (f^2/2 + R(s^2))
STAX_INLINE double stax_log_tail_f64(double f, double half_square) {
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 0x1.2b5f68a50d903p-3;
    p = __builtin_fma(p, z, 0x1.39fdcceb4bb45p-3);
    p = __builtin_fma(p, z, 0x1.7462b91b8df65p-3);
    p = __builtin_fma(p, z, 0x1.c71c62d5e53ep-3);
    p = __builtin_fma(p, z, 0x1.2492492dfd86cp-2);
    p = __builtin_fma(p, z, 0x1.9999999995273p-2);
    p = __builtin_fma(p, z, 0x1.5555555555558p-1);
    return s * __builtin_fma(z, p, half_square);
}
//: log_f64 24
STAX_INLINE double stax_log_f64(double x) {
    stax_split_f64 v = stax_log_split_f64(x);
    double half_square = 0.5 * v.f * v.f;
    double tail = stax_log_tail_f64(v.f, half_square);
    double low = __builtin_fma(v.k, 0x1.3de6af278ece6p-42, tail);
    double y = __builtin_fma(v.k, 0x1.62e42fefa3p-1, v.f - (half_square - low));
    return stax_log_fix_f64(x, y);
}
//: log1p_f64 32
// the exponent is that of 1 + x rounded; the fraction (1 + x) / 2^k - 1 is rounded once
STAX_INLINE double stax_log1p_f64(double x) {
    double u = 1.0 + x;
    uint64_t b = stax_bits_f64(u) + 0x95f619980c433ull;
    double k = stax_from_bits_f64((b >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0);
    double s = stax_from_bits_f64(0x8000000000000000ull - (b & 0xfff0000000000000ull));
    double f = __builtin_fma(0.25 * x, s, __builtin_fma(0.25, s, -1.0));
    double half_square = 0.5 * f * f;
    double tail = stax_log_tail_f64(f, half_square);
    double low = __builtin_fma(k, 0x1.3de6af278ece6p-42, tail);
    double y = __builtin_fma(k, 0x1.62e42fefa3p-1, f - (half_square - low));
    y = stax_log_fix_f64(u, y);
    return __builtin_fabs(x) < 0x1p-53 ? x : y;
}
//: log_ratio_f64 34
// log(x) * (hi + lo) + k part: the common body of log2 and log10
STAX_INLINE double stax_log_ratio_f64(double x, double hi, double lo, double khi, double klo) {
    stax_split_f64 v = stax_log_split_f64(x);
    double half_square = 0.5 * v.f * v.f;
    double half_low = __builtin_fma(0.5 * v.f, v.f, -half_square);
    double tail = stax_log_tail_f64(v.f, half_square) - half_low;
    double a = v.f - half_square;
    double b = ((v.f - a) - half_square) + tail;
    double t = a * hi;
    double t_low = __builtin_fma(a, hi, -t) + __builtin_fma(b, hi, a * lo);
    double k = v.k * khi;
    double sum = k + t;
    double rest = __builtin_fabs(k) >= __builtin_fabs(t) ? (k - sum) + t : (t - sum) + k;
    return stax_log_fix_f64(x, sum + (rest + __builtin_fma(v.k, klo, t_low)));
}
//: log2_f64 36
STAX_INLINE double stax_log2_f64(double x) {
    return stax_log_ratio_f64(x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1.0, 0.0);
}
//: log10_f64 36
STAX_INLINE double stax_log10_f64(double x) {
    return stax_log_ratio_f64(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57,
                              0x1.34413509f6p-2, 0x1.9fef311f12b36p-42);
}
//: log_pair_f64 45
// log(x) for finite x > 0 as the sum of two doubles, relative error about 2^-65
STAX_INLINE stax_split_f64 stax_log_pair_f64(double x) {
    stax_split_f64 v = stax_log_split_f64(x);
    double d = v.f + 2.0;
    double d_low = v.f - (d - 2.0);
    double inverse = 1.0 / d;
    double s = v.f * inverse;
    double s_low = (__builtin_fma(-s, d, v.f) - s * d_low) * inverse;
    double z = s * s;
    double z_low = __builtin_fma(s, s, -z) + 2.0 * s * s_low;
    double c = s * z;
    double c_low = __builtin_fma(s, z, -c) + __builtin_fma(s, z_low, s_low * z);
    double t = 0x1.5555555555555p-1 * c;
    double t_low = __builtin_fma(0x1.5555555555555p-1, c, -t) + 0x1.5555555555555p-55 * c;
    t_low = __builtin_fma(0x1.5555555555555p-1, c_low, t_low);
    double p = 0x1.e03a7acf07f85p-4;
    p = __builtin_fma(p, z, 0x1.df7ba1f4809c3p-4);
    p = __builtin_fma(p, z, 0x1.1118cd67251c5p-3);
    p = __builtin_fma(p, z, 0x1.3b1395b82701ep-3);
    p = __builtin_fma(p, z, 0x1.745d177ad436ap-3);
    p = __builtin_fma(p, z, 0x1.c71c71c6ea5acp-3);
    p = __builtin_fma(p, z, 0x1.2492492492522p-2);
    p = __builtin_fma(p, z, 0x1.999999999999ap-2);
    double h = 2.0 * s + t;
    double l = ((2.0 * s - h) + t) + (__builtin_fma(c * z, p, t_low) + 2.0 * s_low);
    double big = v.k * 0x1.62e42fefa3p-1;
    stax_split_f64 out;
    double sum = big + h;
    double rest = ((big - sum) + h) + __builtin_fma(v.k, 0x1.3de6af278ece6p-42, l);
    out.k = sum + rest;
    out.f = (sum - out.k) + rest;
    return out;
}
//: pow_log_f64 2
// log(a) for a = |x|, given y for finite a > 0
STAX_INLINE double stax_pow_log_f64(double a, double y) {
    y = a < __builtin_inf() ? y : a;
    return a == 0.0 ? -__builtin_inf() : y;
}
//: pow_fix_f64 12
// the special cases of x^y, given |x|^y in r
STAX_INLINE double stax_pow_fix_f64(double x, double y, double r) {
    double half = 0.5 * y;
    uint8_t broken = __builtin_rint(y) != y;
    uint8_t odd = (__builtin_rint(half) != half) & !broken;
    r = (__builtin_fabs(x) == 1.0) | (y == 0.0) ? 1.0 : r;
    uint64_t flip = odd ? 0x8000000000000000ull : 0;
    r = stax_from_bits_f64(stax_bits_f64(r) ^ (flip & stax_bits_f64(x)));
    return (x < 0.0) & (x > -__builtin_inf()) & broken ? __builtin_nan("") : r;
}
//: pow_f64 90
STAX_INLINE double stax_pow_f64(double x, double y) {
    double a = __builtin_fabs(x);
    stax_split_f64 v = stax_log_pair_f64(a);
    double k = stax_pow_log_f64(a, v.k);
    double hi = y * k;
    double lo = __builtin_fma(y, k, -hi) + y * v.f;
    lo = __builtin_fabs(hi) < 800.0 ? lo : 0.0;
    hi = hi > 710.0 ? 710.0 : hi;
    hi = hi < -800.0 ? -800.0 : hi;
    return stax_pow_fix_f64(x, y, stax_exp_core_f64(hi, lo, -0.0));
}
//: tanh_f64 34
// -e / (2 + e) with e = expm1(-2|x|), numerator and denominator each rounded once
STAX_INLINE double stax_tanh_f64(double x) {
    double a = __builtin_fabs(x);
    a = a > 22.0 ? 22.0 : a;
    double t = __builtin_fma(a, -0x1.71547652b82fep+1, 0x1.8p52);
    double n = t - 0x1.8p52;
    double r = __builtin_fma(n, -0x1.62e42fefa39efp-1, -2.0 * a);
    r = __builtin_fma(n, -0x1.abc9e3b39803fp-56, r);
    double p = __builtin_fma(r * r, stax_exp_terms_f64(r), r);
    double s = stax_from_bits_f64((stax_bits_f64(t) << 52) + 0x3ff0000000000000ull);
    double top = __builtin_fma(-s, p, 1.0 - s);
    double bottom = __builtin_fma(s, p, 1.0 + s);
    return stax_signed_f64(top / bottom, x);
}
//: sigmoid_f64 32
// e / (1 + e), written e - e y where the sum 1 + e would lose digits of a small e
STAX_INLINE double stax_sigmoid_f64(double x) {
    double e = stax_exp_low_f64(x > 40.0 ? 40.0 : x);
    double y = e / (1.0 + e);
    return x < 0.0 ? __builtin_fma(-e, y, e) : y;
}
//: sinh_f64 60
STAX_INLINE double stax_sinh_f64(double x) {
    double a = __builtin_fabs(x);
    double t = stax_expm1_f64(a);
    double near = 0.5 * (t + t / (t + 1.0));
    double e = stax_exp_core_f64(a > 711.0 ? 711.0 : a, 0.0, -1.0);
    double far = e - 0.25 / e;
    double y = a < 1.0 ? near : far;
    return __builtin_copysign(a < 0x1p-27 ? a : y, x);
}
//: cosh_f64 30
STAX_INLINE double stax_cosh_f64(double x) {
    double a = __builtin_fabs(x);
    double e = stax_exp_core_f64(a > 711.0 ? 711.0 : a, 0.0, -1.0);
    return e + 0.25 / e;
}
//: asinh_f64 50
STAX_INLINE double stax_asinh_f64(double x) {
    double a = __builtin_fabs(x);
    double b = a > 0x1p28 ? 0x1p28 : a;
    double square = b * b;
    double near = b + square / (1.0 + __builtin_sqrt(1.0 + square));
    double big = a > 0x1p28 ? 1.0 : 0.0;
    double y = stax_log1p_f64(a > 0x1p28 ? a - 1.0 : near) + big * 0x1.62e42fefa39efp-1;
    return __builtin_copysign(a < 0x1p-27 ? a : y, x);
}
//: acosh_f64 50
STAX_INLINE double stax_acosh_f64(double x) {
    double t = x - 1.0;
    double b = x > 0x1p28 ? 0x1p28 : t;
    double near = t + __builtin_sqrt(__builtin_fma(b, b, 2.0 * b));
    double big = x > 0x1p28 ? 0x1.62e42fefa39efp-1 : 0.0;
    double y = stax_log1p_f64(x > 0x1p28 ? t : near) + big;
    return x < 1.0 ? __builtin_nan("") : y;
}
//: atanh_f64 45
STAX_INLINE double stax_atanh_f64(double x) {
    double a = __builtin_fabs(x);
    double y = 0.5 * stax_log1p_f64(2.0 * a / (1.0 - a));
    y = a > 1.0 ? __builtin_nan("") : y;
    return __builtin_copysign(a < 0x1p-27 ? a : y, x);
}
//: cbrt_f64 45
STAX_INLINE double stax_cbrt_f64(double x) {
    double a = __builtin_fabs(x);
    double y = a < 0x1p-1022 ? a * 0x1p54 : a;
    double third = a < 0x1p-1022 ? 18.0 : 0.0;
    uint64_t u = stax_bits_f64(y);
    double e = stax_from_bits_f64((u >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0);
    double q = (__builtin_fma(e, 0x1.5555555555555p-2, -0.333) + 0x1.8p52) - 0x1.8p52;
    double m = stax_from_bits_f64((u & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    m *= stax_power2_f64(__builtin_fma(q, -3.0, e));
    double p = 0x1.5a7ca1362129ep-19;
    p = __builtin_fma(p, m, -0x1.8e234751b23bap-14);
    p = __builtin_fma(p, m, 0x1.82cc1c40bc138p-10);
    p = __builtin_fma(p, m, -0x1.9f829cb2fdbbbp-7);
    p = __builtin_fma(p, m, 0x1.10a679807fa0ap-4);
    p = __builtin_fma(p, m, -0x1.d2e6c45182729p-3);
    p = __builtin_fma(p, m, 0x1.417c128aef599p-1);
    p = __builtin_fma(p, m, 0x1.171824adc18aap-1);
    double c = p * p * p;
    p *= __builtin_fma(2.0, m, c) / __builtin_fma(2.0, c, m);
    double square = p * p;
    double square_low = __builtin_fma(p, p, -square);
    double cube = square * p;
    double cube_low = __builtin_fma(square, p, -cube) + square_low * p;
    p -= ((cube - m) + cube_low) / (3.0 * square);
    double r = p * stax_power2_f64(q - third);
    r = a < __builtin_inf() ? r : a;
    return __builtin_copysign(a == 0.0 ? a : r, x);
}
//: hypot_f64 20
STAX_INLINE double stax_hypot_f64(double x, double y) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y);
    double hi = a > b ? a : b, lo = a > b ? b : a;
    double down = hi > 0x1p500 ? 0x1p-600 : 1.0;
    double scale = hi < 0x1p-450 ? 0x1p600 : down;
    double u = hi * scale, v = lo * scale;
    double square = u * u, other = v * v;
    double low = __builtin_fma(u, u, -square) + __builtin_fma(v, v, -other);
    double sum = square + other;
    low += (square - sum) + other;
    double root = __builtin_sqrt(sum);
    double fix = (low - __builtin_fma(root, root, -sum)) / (2.0 * root);
    double r = (sum > 0.0 ? root + fix : 0.0) * (1.0 / scale);
    r = (x != x) | (y != y) ? __builtin_nan("") : r;
    return (a == __builtin_inf()) | (b == __builtin_inf()) ? __builtin_inf() : r;
}
//: atan_poly_f64 14
STAX_INLINE double stax_atan_poly_f64(double t) {
    double z = t * t;
    double p = -0x1.39f38ad451ea7p-6;
    p = __builtin_fma(p, z, 0x1.41495cefb6c73p-5);
    p = __builtin_fma(p, z, -0x1.a090d1950d2b4p-5);
    p = __builtin_fma(p, z, 0x1.dfe49b2919c4ep-5);
    p = __builtin_fma(p, z, -0x1.10fa5ee9ab25cp-4);
    p = __builtin_fma(p, z, 0x1.3b126143b5cbcp-4);
    p = __builtin_fma(p, z, -0x1.745d0b153ffadp-4);
    p = __builtin_fma(p, z, 0x1.c71c7184c32bfp-4);
    p = __builtin_fma(p, z, -0x1.24924924355d5p-3);
    p = __builtin_fma(p, z, 0x1.999999999933dp-3);
    p = __builtin_fma(p, z, -0x1.5555555555555p-2);
    return z * t * p;
}
//: atan_ratio_f64 30
// atan(lo / hi) for 0 <= lo <= hi, as offset + rest
STAX_INLINE stax_split_f64 stax_atan_ratio_f64(double lo, double hi) {
    double wide = lo > hi * 0x1.a827999fcef32p-2 ? 1.0 : 0.0;
    double top = wide > 0.0 ? lo - hi : lo;
    double bottom = wide > 0.0 ? lo + hi : hi;
    double t = top / bottom;
    stax_split_f64 out;
    out.k = wide * 0x1.921fb54442d18p-1;
    out.f = t + (stax_atan_poly_f64(t) + wide * 0x1.1a62633145c07p-55);
    return out;
}
//: atan_f64 36
STAX_INLINE double stax_atan_f64(double x) {
    double a = __builtin_fabs(x);
    double b = a > 0x1p60 ? 0x1p60 : a;
    stax_split_f64 v = stax_atan_ratio_f64(b > 1.0 ? 1.0 : b, b > 1.0 ? b : 1.0);
    double far = (0x1.921fb54442d18p+0 - v.k) - (v.f - 0x1.1a62633145c07p-54);
    return __builtin_copysign(b > 1.0 ? far : v.k + v.f, x);
}
//: atan2_f64 45
STAX_INLINE double stax_atan2_f64(double y, double x) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y);
    double hi = a > b ? a : b, lo = a > b ? b : a;
    double scale = hi > 0x1p1000 ? 0x1p-60 : 1.0;
    scale = hi < 0x1p-900 ? 0x1p100 : scale;
    double both = (lo == __builtin_inf()) | (hi == 0.0) ? 1.0 : 0.0;
    double one = hi == 0.0 ? 0.0 : 1.0;
    double top = both > 0.0 ? one : lo * scale;
    double bottom = both > 0.0 ? 1.0 : hi * scale;
    bottom = (both == 0.0) & (hi == __builtin_inf()) ? __builtin_inf() : bottom;
    stax_split_f64 v = stax_atan_ratio_f64(top, bottom);
    double wide = (0x1.921fb54442d18p+0 - v.k) - (v.f - 0x1.1a62633145c07p-54);
    double r = b > a ? wide : v.k + v.f;
    double left = b > a
        ? (0x1.921fb54442d18p+0 + v.k) + (v.f + 0x1.1a62633145c07p-54)
        : (0x1.921fb54442d18p+1 - v.k) - (v.f - 0x1.1a62633145c07p-53);
    r = __builtin_copysign(1.0, x) < 0.0 ? left : r;
    r = (x != x) | (y != y) ? __builtin_nan("") : r;
    return __builtin_copysign(r, y);
}
//: asin_poly_f64 16
STAX_INLINE double stax_asin_poly_f64(double z) {
    double p = 0x1.e70d4739cfcdbp-6;
    p = __builtin_fma(p, z, -0x1.3e33ab81c9ef2p-6);
    p = __builtin_fma(p, z, 0x1.42690e2347252p-6);
    p = __builtin_fma(p, z, 0x1.8899fb37b6777p-9);
    p = __builtin_fma(p, z, 0x1.31cd3bf734fap-7);
    p = __builtin_fma(p, z, 0x1.3b374c6a2c89fp-7);
    p = __builtin_fma(p, z, 0x1.7b04b32731abp-7);
    p = __builtin_fma(p, z, 0x1.c9907f8c561b2p-7);
    p = __builtin_fma(p, z, 0x1.1c4efe1e6966p-6);
    p = __builtin_fma(p, z, 0x1.6e8ba118f5fd7p-6);
    p = __builtin_fma(p, z, 0x1.f1c71c7a8c0eap-6);
    p = __builtin_fma(p, z, 0x1.6db6db6dabd04p-5);
    p = __builtin_fma(p, z, 0x1.333333333338bp-4);
    p = __builtin_fma(p, z, 0x1.5555555555555p-3);
    return z * p;
}
//: asin_f64 32
STAX_INLINE double stax_asin_f64(double x) {
    double a = __builtin_fabs(x);
    double z = a < 0.5 ? a * a : 0.5 * (1.0 - a);
    double s = a < 0.5 ? a : __builtin_sqrt(z);
    double tail = stax_asin_poly_f64(z);
    double near = __builtin_fma(s, tail, s);
    double low = __builtin_fma(-s, s, z) / (s + s);
    low = s > 0.0 ? low : 0.0;
    double rest = 0x1.1a62633145c07p-54 - 2.0 * __builtin_fma(s, tail, low);
    double far = 0x1.921fb54442d18p+0 - (2.0 * s - rest);
    return __builtin_copysign(a < 0.5 ? near : far, x);
}
//: acos_f64 32
STAX_INLINE double stax_acos_f64(double x) {
    double a = __builtin_fabs(x);
    double z = a < 0.5 ? a * a : 0.5 * (1.0 - a);
    double s = a < 0.5 ? a : __builtin_sqrt(z);
    double tail = stax_asin_poly_f64(z);
    double low = __builtin_fma(-s, s, z) / (s + s);
    low = s > 0.0 ? low : 0.0;
    double signed_s = __builtin_copysign(s, x);
    double near = 0x1.921fb54442d18p+0 - (signed_s - (0x1.1a62633145c07p-54 - signed_s * tail));
    double right = 2.0 * (s + __builtin_fma(s, tail, low));
    double rest = 0x1.1a62633145c07p-53 - 2.0 * __builtin_fma(s, tail, low);
    double left = 0x1.921fb54442d18p+1 - (2.0 * s - rest);
    double far = x < 0.0 ? left : right;
    return a < 0.5 ? near : far;
}
"""
