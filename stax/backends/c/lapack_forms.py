"""Schur and Hessenberg forms, square roots, Sylvester equations, banded systems, by NumPy's LAPACK.

Input: nothing. Output: C text of `stax_<routine>_<type>` for float32, float64, complex64 and
complex128 (square roots in double precision only), and the table of LAPACK's addresses that it is
bound to. It is the counterpart of `lapack`, whose frame and conventions it shares, for what SciPy
has and NumPy has not; only programs that call one of these load it. The steps are SciPy's, so that
Schur forms, for one, have its signs and its order of eigenvalues.
"""

from __future__ import annotations

import functools

from stax.backends.c import lapack

# Of each type: C's name, that of its real parts, LAPACK's letter, the prefix of unitary matrices.
_TYPES = {
    "f32": ("float", "float", "s", "or"),
    "f64": ("double", "double", "d", "or"),
    "c64": ("complex64_t", "float", "c", "un"),
    "c128": ("complex128_t", "double", "z", "un"),
}
_FUNCTIONS = ("gees", "gehrd", "@ghr", "trsyl", "gemm", "gtsv", "gbsv")
_TYPED_ROUTINES = ("schur", "hessenberg", "solve_sylvester", "solve_banded")
ROUTINES = (
    *(f"{routine}_{tag}" for routine in _TYPED_ROUTINES for tag in _TYPES),
    "sqrtm_f64",
    "sqrtm_c128",
)

_REAL = """\
#define STAX_CONJ(x) (x)
#define STAX_REAL(x) (x)
#define STAX_VALUES(w, n) w, w + n
#define STAX_ALSO(...)
"""
_COMPLEX = """\
#define STAX_CONJ(x) (~(x))
#define STAX_REAL(x) (__real__(x))
#define STAX_VALUES(w, n) (STAX_ELEMENT *)(w)
#define STAX_ALSO(...) __VA_ARGS__
"""
_RELEASE = """\
#undef STAX_CONJ
#undef STAX_REAL
#undef STAX_VALUES
#undef STAX_ALSO
#undef STAX_ELEMENT
#undef STAX_LAPACK
"""

_TYPED = """\
#define STAX_ELEMENT @ct
typedef void (*stax_gees_@t)(const char *, const char *, void *, const stax_int *, @ct *,
    const stax_int *, stax_int *, @values, @ct *, const stax_int *, @ct *, const stax_int *,
    STAX_ALSO(@rt *,) stax_int *, stax_int *, size_t, size_t);
typedef void (*stax_gehrd_@t)(const stax_int *, const stax_int *, const stax_int *, @ct *,
    const stax_int *, @ct *, @ct *, const stax_int *, stax_int *);
typedef void (*stax_ghr_@t)(const stax_int *, const stax_int *, const stax_int *, @ct *,
    const stax_int *, const @ct *, @ct *, const stax_int *, stax_int *);
typedef void (*stax_trsyl_@t)(const char *, const char *, const stax_int *, const stax_int *,
    const stax_int *, const @ct *, const stax_int *, const @ct *, const stax_int *, @ct *,
    const stax_int *, @rt *, stax_int *, size_t, size_t);
typedef void (*stax_gemm_@t)(const char *, const char *, const stax_int *, const stax_int *,
    const stax_int *, const @ct *, const @ct *, const stax_int *, const @ct *, const stax_int *,
    const @ct *, @ct *, const stax_int *, size_t, size_t);
typedef void (*stax_gtsv_@t)(const stax_int *, const stax_int *, @ct *, @ct *, @ct *, @ct *,
    const stax_int *, stax_int *);
typedef void (*stax_gbsv_@t)(const stax_int *, const stax_int *, const stax_int *,
    const stax_int *, @ct *, const stax_int *, stax_int *, @ct *, const stax_int *, stax_int *);
#define STAX_LAPACK(name) ((stax_##name##_@t)stax_lapack[STAX_@T_##name])

static int stax_finite_@t(const @ct *from, int64_t count) {
    const @rt *x = (const @rt *)from;
    int odd = 0;
    count *= (int64_t)(sizeof(@ct) / sizeof(@rt));
    for (int64_t j = 0; j < count; j++) odd |= !(__builtin_fabs(x[j]) < __builtin_inf());
    return !odd;
}
/* c = a b, or with their conjugate transposes; all column by column. */
static void stax_times_@t(const char *turn_a, const char *turn_b, stax_int m, stax_int n,
        stax_int k, const @ct *a, stax_int lda, const @ct *b, stax_int ldb, @ct *c) {
    @ct one = 1, zero = 0;
    STAX_LAPACK(gemm)(turn_a, turn_b, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &m, 1, 1);
}
/* The Schur form in place, and its vectors; both column by column. */
static int stax_form_@t(stax_int n, @ct *a, @ct *z) {
    stax_int ask = -1, info = 0, kept = 0;
    @ct ask_room = 0;
    @rt no_values[2];
    if (!stax_finite_@t(a, (int64_t)n * n)) return 1;
    STAX_LAPACK(gees)("V", "N", 0, &n, a, &n, &kept, STAX_VALUES(no_values, 1), z, &n, &ask_room,
                      &ask, STAX_ALSO(no_values,) 0, &info, 1, 1);
    stax_int length = (stax_int)STAX_REAL(ask_room);
    @ct *room = malloc((size_t)length * sizeof(@ct) + (size_t)(3 * n) * sizeof(@rt));
    if (!room) return -1;
    @rt *w = (@rt *)(room + length);
    STAX_LAPACK(gees)("V", "N", 0, &n, a, &n, &kept, STAX_VALUES(w, n), z, &n, room, &length,
                      STAX_ALSO(w + 2 * n,) 0, &info, 1, 1);
    free(room);
    return info != 0;
}

/* sizes: stack, n, n; the form and its vectors */
static int stax_schur_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    @ct *a = (@ct *)work, *z = a + n * n;
    stax_turn_@t((const @ct *)p[0] + i * n * n, n, n, n, a, n);
    int info = stax_form_@t((stax_int)n, a, z);
    stax_turn_@t(a, n, n, n, (@ct *)p[1] + i * n * n, n);
    stax_turn_@t(z, n, n, n, (@ct *)p[2] + i * n * n, n);
    return info;
}
int32_t stax_schur_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_schur_one_@t, 2 * n * n * (int64_t)sizeof(@ct),
                     50 * n * n * (n + 16));
}

/* sizes: stack, n, n; the form and its vectors.  Two rows are of that form as they stand. */
static int64_t stax_hessenberg_room_@t(stax_int n) {
    stax_int one = 1, ask = -1, info = 0;
    @ct first = 0, second = 0, none = 0;
    STAX_LAPACK(gehrd)(&n, &one, &n, &none, &n, &none, &first, &ask, &info);
    STAX_LAPACK(ghr)(&n, &one, &n, &none, &n, &none, &second, &ask, &info);
    return (int64_t)(STAX_REAL(first) > STAX_REAL(second) ? STAX_REAL(first) : STAX_REAL(second));
}
static int stax_hessenberg_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    const @ct *from = (const @ct *)p[0] + i * n * n;
    @ct *a = (@ct *)work, *scale = a + n * n, *room = scale + n;
    @ct *form = (@ct *)p[1] + i * n * n, *vectors = (@ct *)p[2] + i * n * n;
    if (!stax_finite_@t(from, n * n)) return 1;
    if (n <= 2) {
        memcpy(form, from, (size_t)(n * n) * sizeof(@ct));
        for (int64_t j = 0; j < n * n; j++) vectors[j] = j % (n + 1) == 0;
        return 0;
    }
    stax_int size = n, one = 1, info = 0, length = stax_hessenberg_room_@t(size);
    stax_turn_@t(from, n, n, n, a, n);
    STAX_LAPACK(gehrd)(&size, &one, &size, a, &size, scale, room, &length, &info);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) form[r * n + c] = r <= c + 1 ? a[c * n + r] : 0;
    if (info) return 1;
    STAX_LAPACK(ghr)(&size, &one, &size, a, &size, scale, room, &length, &info);
    stax_turn_@t(a, n, n, n, vectors, n);
    return info != 0;
}
int32_t stax_hessenberg_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], room = stax_hessenberg_room_@t((stax_int)n);
    return stax_each(s, threads, p, stax_hessenberg_one_@t,
                     (n * n + n + room) * (int64_t)sizeof(@ct), 10 * n * n * (n + 16));
}

/* sizes: stack, m, m, n, n, m, n; x of a x + x b = q */
static int stax_solve_sylvester_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[3];
    @ct *r = (@ct *)work, *u = r + m * m, *t = u + m * m, *v = t + n * n;
    @ct *f = v + n * n, *g = f + m * n;
    const @ct *b = (const @ct *)p[1] + i * n * n;
    stax_int rows = m, columns = n, sign = 1, info = 0;
    @rt scale = 1;
    stax_turn_@t((const @ct *)p[0] + i * m * m, m, m, m, r, m);
    for (int64_t j = 0; j < n * n; j++) t[j] = STAX_CONJ(b[j]);
    int bad = stax_form_@t(rows, r, u);
    if (!bad) bad = stax_form_@t(columns, t, v);
    if (bad) return bad;
    stax_turn_@t((const @ct *)p[2] + i * m * n, m, n, n, f, m);
    stax_times_@t("C", "N", rows, columns, rows, u, rows, f, rows, g);
    stax_times_@t("N", "N", rows, columns, columns, g, rows, v, columns, f);
    STAX_LAPACK(trsyl)("N", "C", &sign, &rows, &columns, r, &rows, t, &columns, f, &rows, &scale,
                       &info, 1, 1);
    for (int64_t j = 0; j < m * n; j++) f[j] *= scale;
    stax_times_@t("N", "N", rows, columns, rows, u, rows, f, rows, g);
    stax_times_@t("N", "C", rows, columns, columns, g, rows, v, columns, f);
    stax_turn_@t(f, n, m, m, (@ct *)p[3] + i * m * n, n);
    return info < 0;
}
int32_t stax_solve_sylvester_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[3], count = 2 * (m * m + n * n + m * n);
    return stax_each(s, threads, p, stax_solve_sylvester_one_@t, count * (int64_t)sizeof(@ct),
                     50 * (m * m * (m + 16) + n * n * (n + 16)));
}

/* sizes: stack, lower + upper + 1, n, n, k, lower, upper; the rows are diagonals */
static int stax_solve_banded_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t bands = s[1], n = s[2], k = s[4], high = bands + s[5];
    const @ct *from = (const @ct *)p[0] + i * bands * n;
    @ct *a = (@ct *)work, *x = a + high * n;
    stax_int *pivots = (stax_int *)(x + n * k), size = n, columns = k, tall = high, info = 0;
    stax_int lower = s[5], upper = s[6];
    stax_turn_@t((const @ct *)p[1] + i * n * k, n, k, k, x, n);
    if (lower == 1 && upper == 1) {
        memcpy(a, from, (size_t)(bands * n) * sizeof(@ct));
        STAX_LAPACK(gtsv)(&size, &columns, a + 2 * n, a + n, a + 1, x, &size, &info);
    } else {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t r = 0; r < s[5]; r++) a[j * high + r] = 0;
            for (int64_t r = 0; r < bands; r++) a[j * high + s[5] + r] = from[r * n + j];
        }
        STAX_LAPACK(gbsv)(&size, &lower, &upper, &columns, a, &tall, pivots, x, &size, &info);
    }
    stax_turn_@t(x, k, n, n, (@ct *)p[2] + i * n * k, k);
    return info != 0;
}
int32_t stax_solve_banded_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t bands = s[1], n = s[2], k = s[4], count = n * (bands + s[5] + k);
    return stax_each(s, threads, p, stax_solve_banded_one_@t,
                     (count + 1) * (int64_t)sizeof(@ct) + n * (int64_t)sizeof(stax_int),
                     n * (bands * (s[5] + 2) + 4 * k * bands));
}
"""

# The method of Bjorck and Hammarling (1983) on a triangular Schur form, column by column.
_ROOT = """\
extern @ct @sqrt(@ct);
static void stax_root_@t(int64_t n, @ct *a, const @ct *z, @ct *room) {
    for (int64_t j = 0; j < n; j++) {
        @ct *column = a + j * n;
        column[j] = @sqrt(column[j]);
        for (int64_t k = j - 1; k >= 0; k--) {
            const @ct *other = a + k * n;
            if (column[k] != 0) column[k] /= other[k] + column[j];
            @ct factor = column[k];
            for (int64_t i = 0; i < k; i++) column[i] -= @product(other[i], factor);
        }
    }
    stax_times_@t("N", "N", n, n, n, z, n, a, n, room);
    stax_times_@t("N", "C", n, n, n, room, n, z, n, a);
}
"""
_ROOTS = """\
typedef complex128_t stax_z;
extern double hypot(double, double);
#define STAX_TIMES(x, y) ((x) * (y))
STAX_INLINE stax_z stax_product(stax_z x, stax_z y) {
    double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(a * c - b * d, a * d + b * c);
}
@roots
/* sizes: stack, n, n; NaN where the matrix is not finite */
static int stax_sqrtm_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    stax_z *a = (stax_z *)work, *out = (stax_z *)p[1] + i * n * n;
    const stax_z *from = (const stax_z *)p[0] + i * n * n;
    if (!stax_finite_c128(from, n * n)) {
        double nan = __builtin_nan("");
        for (int64_t j = 0; j < n * n; j++) out[j] = __builtin_complex(nan, nan);
        return 0;
    }
    stax_turn_c128(from, n, n, n, a, n);
    int info = stax_form_c128((stax_int)n, a, a + n * n);
    if (info) return info;
    stax_root_c128(n, a, a + n * n, a + 2 * n * n);
    stax_turn_c128(a, n, n, n, out, n);
    return 0;
}
static int stax_sqrtm_one_f64(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    stax_z *a = (stax_z *)work;
    double *out = (double *)p[1] + i * n * n, largest = 1, beside = 0;
    const double *from = (const double *)p[0] + i * n * n;
    if (!stax_finite_f64(from, n * n)) {
        for (int64_t j = 0; j < n * n; j++) out[j] = __builtin_nan("");
        return 0;
    }
    double *form = (double *)work;
    stax_turn_f64(from, n, n, n, form, n);
    int info = stax_form_f64((stax_int)n, form, form + n * n), odd = 0;
    if (info) return info;
    for (int64_t j = 0; j < n; j++)
        odd |= form[j * n + j] < 0 || (j + 1 < n && form[j * n + j + 1] != 0);
    if (!odd) {
        stax_root_f64(n, form, form + n * n, form + 2 * n * n);
        stax_turn_f64(form, n, n, n, out, n);
        return 0;
    }
    /* Pairs of eigenvalues may have a real root, negative ones by a rounding only. */
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) a[c * n + r] = from[r * n + c];
    info = stax_form_c128((stax_int)n, a, a + n * n);
    if (info) return info;
    stax_root_c128(n, a, a + n * n, a + 2 * n * n);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) {
            double re = __real__ a[c * n + r], im = __imag__ a[c * n + r], size = hypot(re, im);
            out[r * n + c] = re;
            if (size > largest) largest = size;
            if (__builtin_fabs(im) > beside) beside = __builtin_fabs(im);
        }
    return beside > 1e-7 * largest;
}
#define STAX_ROOTS(tag) \\
int32_t stax_sqrtm_##tag(const int64_t *s, int32_t threads, void *const *p) { \\
    int64_t n = s[1]; \\
    return stax_each(s, threads, p, stax_sqrtm_one_##tag, 3 * n * n * (int64_t)sizeof(stax_z), \\
                     100 * n * n * (n + 16)); \\
}
STAX_ROOTS(f64)
STAX_ROOTS(c128)
"""


@functools.cache
def lapack_table() -> tuple[int, tuple[int, ...]] | None:
    """Bits of LAPACK's integers, and the addresses of its functions for each type; None without."""
    return lapack.addresses(
        tuple(
            letter + function.replace("@", unitary)
            for _, _, letter, unitary in _TYPES.values()
            for function in _FUNCTIONS
        )
    )


def lapack_source(bits: int) -> str:
    """C text of the routines for a LAPACK with integers of so many bits.

    It needs `vecmath.PREAMBLE` before it and exports `stax_bind_lapack(void *const *table)`, to be
    called once with the addresses of `lapack_table`.
    """
    slots = [f"STAX_{t.upper()}_{f.replace('@', '')}" for t in _TYPES for f in _FUNCTIONS]
    parts = [lapack.header(slots, bits)]
    for tag, (ct, rt, _, _) in _TYPES.items():
        is_real = ct == rt
        text = _TYPED.replace("@rt", rt)
        text = text.replace("@values", "@ct *, @ct *" if is_real else "@ct *")
        macros = _REAL if is_real else _COMPLEX
        parts += [macros, lapack.turning(tag, ct), lapack.spelled(text, tag, ct), _RELEASE]
    names = {"f64": ("sqrt", "STAX_TIMES"), "c128": ("csqrt", "stax_product")}
    roots = "".join(
        lapack.spelled(_ROOT.replace("@sqrt", root).replace("@product", product), tag, ct)
        for tag, (root, product) in names.items()
        for ct in (_TYPES[tag][0],)
    )
    return "".join([*parts, _ROOTS.replace("@roots\n", roots)])
