"""C text of complex arithmetic, as rows for `vecmath`, with the formulas and the bits of NumPy.

Type tags are c64 and c128.  A product takes multiply-add instructions where NumPy's vector loops do
(the processor has them); a power multiplies plainly, as NumPy's does.  A quotient is scaled by the
larger part of the divisor.  Exponentials, logarithms and their kin are functions of the C library,
which is where NumPy has them from, but for two in single precision.
"""

from __future__ import annotations

__all__ = ["rows"]

# tag: type, type of a part, suffix of functions of that type, its tag
_TYPES = {
    "c64": ("complex64_t", "float", "f", "f32"),
    "c128": ("complex128_t", "double", "", "f64"),
}

_ARITHMETIC = r"""
//: mul_@t 4
STAX_INLINE @ct stax_mul_@t(@ct x, @ct y) {
    @rt a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
#if STAX_FMA
    return __builtin_complex(__builtin_fma@s(a, c, -(b * d)), __builtin_fma@s(a, d, b * c));
#else
    return __builtin_complex(a * c - b * d, a * d + b * c);
#endif
}
//: plain_mul_@t 6
STAX_INLINE @ct stax_plain_mul_@t(@ct x, @ct y) {
    @rt a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
#if STAX_FMA
    /* Products of their own: where a difference and a sum of products alternate, GCC's vectoriser
       contracts them whatever it is told. */
    @rt ac = __builtin_fma@s(a, c, -(@rt)0), bd = __builtin_fma@s(b, d, -(@rt)0);
    @rt ad = __builtin_fma@s(a, d, -(@rt)0), bc = __builtin_fma@s(b, c, -(@rt)0);
    return __builtin_complex(ac - bd, ad + bc);
#else
    return __builtin_complex(a * c - b * d, a * d + b * c);
#endif
}
//: negative_@t 2
STAX_INLINE @ct stax_negative_@t(@ct x) {
    return __builtin_complex(stax_negative_@part(__real__ x), stax_negative_@part(__imag__ x));
}
//: conj_@t 1
STAX_INLINE @ct stax_conj_@t(@ct x) {
    return __builtin_complex(__real__ x, stax_negative_@part(__imag__ x));
}
//: div_@t 9
STAX_INLINE @ct stax_div_@t(@ct x, @ct y) {
    @rt a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    int real = __builtin_fabs@s(c) >= __builtin_fabs@s(d);
    @rt large = real ? c : d, small = real ? d : c, p = real ? a : b, q = real ? b : a;
    @rt ratio = small / large, scale = 1 / (large + small * ratio);
    @rt re = (p + q * ratio) * scale, im = real ? q - p * ratio : p * ratio - q;
    im = im * scale;
    int zero = (c == 0) & (d == 0);
    @rt inf = __builtin_inf@s();
    return __builtin_complex(zero ? a * inf : re, zero ? b * inf : im);
}
//: reciprocal_@t 8
STAX_INLINE @ct stax_reciprocal_@t(@ct x) {
    @rt a = __real__ x, b = __imag__ x;
    int real = __builtin_fabs@s(b) <= __builtin_fabs@s(a);
    @rt large = real ? a : b, small = real ? b : a;
    @rt ratio = small / large, size = large + small * ratio;
    return __builtin_complex((real ? 1 : ratio) / size, (real ? -ratio : -1) / size);
}
//: abs_@t 8
STAX_INLINE @rt stax_abs_@t(@ct z) {
    @rt x = __builtin_fabs@s(__real__ z), y = __builtin_fabs@s(__imag__ z);
    @rt large = x > y ? x : y, small = x > y ? y : x;
    @rt ratio = large == 0 ? small : small / large;
#if STAX_FMA
    @rt r = large * __builtin_sqrt@s(__builtin_fma@s(ratio, ratio, 1));
#else
    @rt r = large * __builtin_sqrt@s(ratio * ratio + 1);
#endif
    @rt inf = __builtin_inf@s();
    return (x == inf) | (y == inf) ? inf : r;
}
//: isnan_@t 2
STAX_INLINE uint8_t stax_isnan_@t(@ct x) { return x != x; }
//: isinf_@t 2
STAX_INLINE uint8_t stax_isinf_@t(@ct x) {
    @rt inf = __builtin_inf@s();
    return (__builtin_fabs@s(__real__ x) == inf) | (__builtin_fabs@s(__imag__ x) == inf);
}
//: isfinite_@t 2
STAX_INLINE uint8_t stax_isfinite_@t(@ct x) {
    @rt inf = __builtin_inf@s();
    return (__builtin_fabs@s(__real__ x) < inf) & (__builtin_fabs@s(__imag__ x) < inf);
}
@ordered//: max_@t 3
STAX_INLINE @ct stax_max_@t(@ct x, @ct y) { return stax_ge_@t(x, y) | (x != x) ? x : y; }
//: min_@t 3
STAX_INLINE @ct stax_min_@t(@ct x, @ct y) { return stax_le_@t(x, y) | (x != x) ? x : y; }
//: fmax_@t 3
STAX_INLINE @ct stax_fmax_@t(@ct x, @ct y) { return stax_ge_@t(x, y) | (y != y) ? x : y; }
//: fmin_@t 3
STAX_INLINE @ct stax_fmin_@t(@ct x, @ct y) { return stax_le_@t(x, y) | (y != y) ? x : y; }
//: integer_pow_@t 30 scalar
STAX_INLINE @ct stax_integer_pow_@t(@ct x, int64_t n) {
    @ct one = 1, r = one, none = __builtin_complex(__builtin_nan@s(""), __builtin_nan@s(""));
    uint64_t k = n < 0 ? -(uint64_t)n : (uint64_t)n;
    if (n == 0) return one;
    if (x == 0) return n > 0 ? (@ct)0 : none;
    if (n == 1) return x;
    if (n == 2) return stax_plain_mul_@t(x, x);
    if (n == 3) return stax_plain_mul_@t(x, stax_plain_mul_@t(x, x));
    if (k >= 100) return stax_libm_pow_@t(x, (@rt)n);
    for (;;) {
        if (k & 1) r = stax_plain_mul_@t(r, x);
        k >>= 1;
        if (!k) break;
        x = stax_plain_mul_@t(x, x);
    }
    return n < 0 ? stax_div_@t(one, r) : r;
}
//: pow_@t 60 scalar
STAX_INLINE @ct stax_pow_@t(@ct x, @ct y) {
    @rt c = __real__ y, d = __imag__ y;
    if (d == 0 && c > -100 && c < 100 && (@rt)(int64_t)c == c)
        return stax_integer_pow_@t(x, (int64_t)c);
    if (x == 0) {
        @rt r = c > 0 ? 0 : __builtin_nan@s("");
        return __builtin_complex(r, r);
    }
    return stax_libm_pow_@t(x, y);
}
//: libm_pow_@t 60 scalar
STAX_LIBRARY2(@ct, stax_libm_pow_@t, "cpow@s")
//: rsqrt_@t 30 scalar
STAX_INLINE @ct stax_rsqrt_@t(@ct x) { return stax_reciprocal_@t(stax_libm_sqrt_@t(x)); }
//: sigmoid_@t 50 scalar
STAX_INLINE @ct stax_sigmoid_@t(@ct x) {
    return stax_reciprocal_@t(stax_libm_exp_@t(stax_negative_@t(x)) + 1);
}
//: exp2_@t 40 scalar
STAX_INLINE @ct stax_exp2_@t(@ct x) {
    return stax_libm_exp_@t(__builtin_complex(__real__ x * (@rt)@ln2, __imag__ x * (@rt)@ln2));
}
//: log2_@t 40 scalar
STAX_INLINE @ct stax_log2_@t(@ct x) {
    @ct y = stax_libm_log_@t(x);
    return __builtin_complex(__real__ y * (@rt)@log2e, __imag__ y * (@rt)@log2e);
}
//: log10_@t 40 scalar
STAX_INLINE @ct stax_log10_@t(@ct x) {
    @ct y = stax_libm_log_@t(x);
    return __builtin_complex(__real__ y * (@rt)@log10e, __imag__ y * (@rt)@log10e);
}
//: log1p_@t 40 scalar
STAX_LIBRARY2(@rt, stax_libm_hypot@s, "hypot@s")
STAX_LIBRARY2(@rt, stax_libm_atan2@s, "atan2@s")
STAX_LIBRARY(@rt, stax_libm_log@s, "log@s")
STAX_INLINE @ct stax_log1p_@t(@ct x) {
    @rt re = __real__ x + 1, im = __imag__ x;
    return __builtin_complex(stax_libm_log@s(stax_libm_hypot@s(re, im)), stax_libm_atan2@s(im, re));
}
//: expm1_@t 60 scalar
STAX_LIBRARY(@rt, stax_libm_expm1@s, "expm1@s")
STAX_LIBRARY(@rt, stax_libm_exp@s, "exp@s")
STAX_LIBRARY(@rt, stax_libm_sin@s, "sin@s")
STAX_LIBRARY(@rt, stax_libm_cos@s, "cos@s")
STAX_INLINE @ct stax_expm1_@t(@ct x) {
    @rt im = __imag__ x, half = stax_libm_sin@s(im / 2), size = stax_libm_exp@s(__real__ x);
    @rt re = stax_libm_expm1@s(__real__ x) * stax_libm_cos@s(im) - 2 * half * half;
    return __builtin_complex(re, size * stax_libm_sin@s(im));
}
"""

# In single precision some are computed in double and rounded once, so that loops vectorise: within
# two units in the last place of the C library's, and nearer to the truth. (A logarithm is not: the
# library's own error is larger where it is small.)
_SINGLE = r"""
//: exp_c64 90
STAX_INLINE complex64_t stax_exp_c64(complex64_t x) {
    float a = __real__ x, b = __imag__ x, inf = __builtin_inff();
    double size = stax_exp_f64((double)a);
    float re = (float)(size * stax_cos_f64((double)b));
    float im = (float)(size * stax_sin_f64((double)b));
    int wild = !(__builtin_fabsf(b) < inf);
    re = wild & (a == inf) ? inf : wild & (a == -inf) ? 0.0f : re;
    im = b == 0 ? b : wild & (a == -inf) ? __builtin_copysignf(0.0f, b) : im;
    return __builtin_complex(re, im);
}
//: sqrt_c64 30
STAX_INLINE complex64_t stax_sqrt_c64(complex64_t x) {
    double a = __real__ x, b = __imag__ x, size = __builtin_fabs(a), inf = __builtin_inf();
    double root = __builtin_sqrt(0.5 * (size + __builtin_sqrt(a * a + b * b)));
    double other = root == 0 ? __builtin_fabs(b) : __builtin_fabs(b) / (2 * root);
    int endless = __builtin_fabs(b) == inf, ray = size == inf;
    root = endless | ray ? inf : root;
    other = endless ? inf : ray ? __builtin_fabs(b) * 0 : other;
    double re = a < 0 ? other : root, im = a < 0 ? root : other;
    return __builtin_complex((float)re, (float)__builtin_copysign(im, b));
}
"""

# By the real part, then by the imaginary part; a NaN in one imaginary part compares as false.
_ORDERED = r"""
//: @name_@t 3
STAX_INLINE uint8_t stax_@name_@t(@ct x, @ct y) {
    @rt a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return ((a @strict c) & (b == b) & (d == d)) | ((a == c) & (b @sign d));
}
"""

_LIBRARY = r"""
//: libm_@name_@t 30 scalar
STAX_LIBRARY(@ct, stax_libm_@name_@t, "c@name@s")
"""
_NAMED = r"""
//: @name_@t 30 scalar
STAX_INLINE @ct stax_@name_@t(@ct x) { return stax_libm_@name_@t(x); }
"""

# Those that the C library has as `c<name>`.
_FUNCTIONS = (
    *("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CONSTANTS = {
    "log10e": "0.434294481903251827651128918916605082",
    "log2e": "1.442695040888963407359924681001892137",
    "ln2": "0.693147180559945309417232121458176568",
}


def rows() -> str:
    """Return the text of all rows, one for each type."""
    ordered = "".join(
        _ORDERED.replace("@name", name).replace("@strict", sign[0]).replace("@sign", sign)
        for name, sign in _SIGNS.items()
    )
    parts = []
    for tag, (ct, rt, suffix, part) in _TYPES.items():
        text = _ARITHMETIC.replace("@ordered", ordered.lstrip())
        for name in _FUNCTIONS:
            named = "" if f" {name}_{tag} " in _SINGLE else _NAMED
            text += (_LIBRARY + named).replace("@name", name)
        types = {"ct": ct, "rt": rt, "part": part, "s": suffix, "t": tag}
        for name, value in (_CONSTANTS | types).items():
            text = text.replace(f"@{name}", value)
        parts.append(text)
    return "".join([*parts, _SINGLE])
