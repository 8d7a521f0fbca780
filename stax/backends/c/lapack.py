"""Linear algebra in C: the LAPACK that NumPy brought along, called matrix by matrix.

Input: nothing.  Output: C text of `stax_<routine>_<type>`, and the table of LAPACK's addresses that
it is bound to.  A stack of matrices is shared out between threads.  The
routines get the matrices as NumPy hands them over, column by column, and so give NumPy's bits,
with NumPy's signs of eigenvectors; only triangular work (cholesky, triangular_solve) reads the
rows where they lie, as the columns of the transposed problem.  A result other than 0 is -1 when
memory is short, 1 when LAPACK says that the matrix does not allow it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from stax.backends.c.gemm import find_blas

TAGS = {"f32": ("float", "s"), "f64": ("double", "d")}
FUNCTIONS = ("potrf", "gesv", "getrf", "trsm", "geqrf", "orgqr", "syevd", "gesdd")
DOUBLE_ROUTINES = (
    "cholesky solve inv det adjugate slogdet qr eigh eigvalsh svd svdvals pinv".split()
)
ROUTINES = (
    *(f"{routine}_{tag}" for routine in ("lu", "triangular_solve") for tag in TAGS),
    *(f"{routine}_f64" for routine in DOUBLE_ROUTINES),
)

_HEADER = """\
extern void *malloc(size_t);
extern void free(void *);
extern void *memcpy(void *, const void *, size_t);
extern double log(double);
extern double exp(double);
typedef @integer stax_int;
static void *const *stax_lapack;
void stax_bind_lapack(void *const *table) { stax_lapack = table; }
/* One matrix of a stack: sizes, workspace, operands and results, its number. */
typedef int (*stax_matrix_work)(const int64_t *, char *, void *const *, int64_t);
static int32_t stax_each(const int64_t *s, int32_t threads, void *const *p, stax_matrix_work one,
        int64_t bytes, int64_t operations) {
    int32_t failed = 0;
    if (threads > s[0]) threads = (int32_t)s[0];
#pragma omp parallel num_threads(threads) if (threads > 1 && s[0] * operations > 200000)
    {
        char *work = malloc((size_t)bytes + 64);
        if (!work) failed = -1;
        else {
            char *start = (char *)(((uintptr_t)work + 63) & ~(uintptr_t)63);
#pragma omp for schedule(static)
            for (int64_t i = 0; i < s[0]; i++)
                if (!failed) {
                    int info = one(s, start, p, i);
                    if (info) failed = info < 0 ? info : 1;
                }
            free(work);
        }
    }
    return failed;
}
"""

_TURN = """\
/* to[j, i] = from[i, j] of a row-major m by n matrix; the rows of `to` are `ld` apart. */
static void stax_turn_@t(const @ct *restrict from, int64_t m, int64_t n, int64_t step,
        @ct *restrict to, int64_t ld) {
    for (int64_t i0 = 0; i0 < m; i0 += 16)
        for (int64_t j0 = 0; j0 < n; j0 += 16) {
            int64_t i1 = i0 + 16 < m ? i0 + 16 : m, j1 = j0 + 16 < n ? j0 + 16 : n;
            for (int64_t j = j0; j < j1; j++)
                for (int64_t i = i0; i < i1; i++) to[j * ld + i] = from[i * step + j];
        }
}
"""

# What SciPy computes in the type of the matrices.
_TYPED = """\
typedef void (*stax_getrf_@t)(const stax_int *, const stax_int *, @ct *, const stax_int *,
    stax_int *, stax_int *);
typedef void (*stax_trsm_@t)(const char *, const char *, const char *, const char *,
    const stax_int *, const stax_int *, const @ct *, const @ct *, const stax_int *, @ct *,
    const stax_int *, size_t, size_t, size_t, size_t);
#define STAX_LAPACK(name) ((stax_##name##_@t)stax_lapack[STAX_@T_##name])

/* sizes: stack, m, n; packed factors, exchanges from 0, the permutation */
static int stax_lu_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    @ct *a = (@ct *)work;
    stax_int *pivots = (stax_int *)(a + m * n + (m * n & 1)), rows = m, columns = n, info = 0;
    int32_t *exchanged = (int32_t *)p[2] + i * k, *order = (int32_t *)p[3] + i * m;
    stax_turn_@t((const @ct *)p[0] + i * m * n, m, n, n, a, m);
    STAX_LAPACK(getrf)(&rows, &columns, a, &rows, pivots, &info);
    stax_turn_@t(a, n, m, m, (@ct *)p[1] + i * m * n, n);
    for (int64_t j = 0; j < m; j++) order[j] = (int32_t)j;
    for (int64_t j = 0; j < k; j++) {
        int32_t other = (int32_t)pivots[j] - 1, here = order[j];
        exchanged[j] = other;
        order[j] = order[other];
        order[other] = here;
    }
    return info < 0;
}
int32_t stax_lu_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2];
    int64_t bytes = (m * n + 1) * (int64_t)sizeof(@ct) + (m + n) * (int64_t)sizeof(stax_int);
    return stax_each(s, threads, p, stax_lu_one_@t, bytes, m * n * ((m < n ? m : n) + 16));
}

/* sizes: stack, n, n, rows and columns of b, left, lower, transposed, conjugated, unit */
static int stax_triangular_solve_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1], rows = s[3], columns = s[4];
    @ct *out = (@ct *)p[2] + i * rows * columns, one = 1;
    stax_int height = columns, width = rows, size = n;
    (void)work;
    memcpy(out, (const @ct *)p[1] + i * rows * columns, (size_t)(rows * columns) * sizeof(@ct));
    STAX_LAPACK(trsm)(s[5] ? "R" : "L", s[6] ? "U" : "L", s[7] ? (s[8] ? "C" : "T") : "N",
        s[9] ? "U" : "N",
        &height, &width, &one, (const @ct *)p[0] + i * n * n, &size, out, &height, 1, 1, 1, 1);
    return 0;
}
int32_t stax_triangular_solve_@t(const int64_t *s, int32_t threads, void *const *p) {
    return stax_each(s, threads, p, stax_triangular_solve_one_@t, 0,
                     s[1] * (s[3] * s[4] + 64));
}

#undef STAX_LAPACK
"""

# What differs between real and complex numbers.  STAX_ALSO is what complex ones need besides.
_REAL = """\
#define STAX_REAL(x) (x)
#define STAX_CONJ(x) (x)
#define STAX_TIMES(x, y) ((x) * (y))
#define STAX_SIZE(x) __builtin_fabs(x)
#define STAX_DIRECTION(x, radius) ((x) < 0 ? -1.0 : 1.0)
#define STAX_ALSO(...)
#define STAX_COST 1
"""
_COMPLEX = """\
#define STAX_REAL(x) (__real__(x))
#define STAX_CONJ(x) (~(x))
#define STAX_TIMES(x, y) stax_times(x, y)
#define STAX_SIZE(x) hypot(__real__(x), __imag__(x))
#define STAX_DIRECTION(x, radius) \\
    __builtin_complex(__real__(x) / (radius), __imag__(x) / (radius))
#define STAX_ALSO(...) __VA_ARGS__
#define STAX_COST 4
extern double hypot(double, double);
STAX_INLINE complex128_t stax_times(complex128_t x, complex128_t y) {
    double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(a * c - b * d, a * d + b * c);
}
"""

# What NumPy computes in double precision, whatever the type of the matrices.
_DOUBLE = """\
typedef void (*stax_potrf_@t)(const char *, const stax_int *, @ct *, const stax_int *,
    stax_int *, size_t);
typedef void (*stax_gesv_@t)(const stax_int *, const stax_int *, @ct *, const stax_int *,
    stax_int *, @ct *, const stax_int *, stax_int *);
typedef void (*stax_geqrf_@t)(const stax_int *, const stax_int *, @ct *, const stax_int *,
    @ct *, @ct *, const stax_int *, stax_int *);
typedef void (*stax_@orthogonal_@t)(const stax_int *, const stax_int *, const stax_int *, @ct *,
    const stax_int *, const @ct *, @ct *, const stax_int *, stax_int *);
typedef void (*stax_@symmetric_@t)(const char *, const char *, const stax_int *, @ct *,
    const stax_int *, double *, @ct *, const stax_int *, STAX_ALSO(double *, const stax_int *,)
    stax_int *, const stax_int *, stax_int *, size_t, size_t);
typedef void (*stax_gesdd_@t)(const char *, const stax_int *, const stax_int *, @ct *,
    const stax_int *, double *, @ct *, const stax_int *, @ct *, const stax_int *, @ct *,
    const stax_int *, STAX_ALSO(double *,) stax_int *, stax_int *, size_t);
#define STAX_LAPACK(name) ((stax_##name##_@t)stax_lapack[STAX_@T_##name])
#define STAX_BYTES (int64_t)sizeof(@ct)

/* sizes: stack, n, n; the rows of the lower triangle are the columns of an upper one */
static int stax_cholesky_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    const @ct *a = (const @ct *)p[0] + i * n * n;
    @ct *out = (@ct *)p[1] + i * n * n;
    stax_int size = n, info = 0;
    (void)work;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c <= r; c++) out[r * n + c] = a[r * n + c];
        for (int64_t c = r + 1; c < n; c++) out[r * n + c] = 0;
    }
    STAX_LAPACK(potrf)("U", &size, out, &size, &info, 1);
    return info != 0;
}
int32_t stax_cholesky_@t(const int64_t *s, int32_t threads, void *const *p) {
    return stax_each(s, threads, p, stax_cholesky_one_@t, 0,
                     STAX_COST * s[1] * s[1] * (s[1] + 16));
}

/* sizes: stack, n, n, n, k */
static int stax_solve_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1], k = s[4];
    @ct *a = (@ct *)work, *b = a + n * n;
    stax_int *pivots = (stax_int *)(b + n * k), size = n, columns = k, info = 0;
    stax_turn_@t((const @ct *)p[0] + i * n * n, n, n, n, a, n);
    stax_turn_@t((const @ct *)p[1] + i * n * k, n, k, k, b, n);
    STAX_LAPACK(gesv)(&size, &columns, a, &size, pivots, b, &size, &info);
    stax_turn_@t(b, k, n, n, (@ct *)p[2] + i * n * k, k);
    return info != 0;
}
int32_t stax_solve_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], k = s[4];
    int64_t bytes = n * (n + k) * STAX_BYTES + n * (int64_t)sizeof(stax_int);
    return stax_each(s, threads, p, stax_solve_one_@t, bytes,
                     STAX_COST * n * n * (n + 2 * k + 16));
}

/* sizes: stack, n, n */
static int stax_inv_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    @ct *a = (@ct *)work, *b = a + n * n;
    stax_int *pivots = (stax_int *)(b + n * n), size = n, info = 0;
    stax_turn_@t((const @ct *)p[0] + i * n * n, n, n, n, a, n);
    for (int64_t j = 0; j < n * n; j++) b[j] = 0;
    for (int64_t j = 0; j < n; j++) b[j * n + j] = 1;
    STAX_LAPACK(gesv)(&size, &size, a, &size, pivots, b, &size, &info);
    stax_turn_@t(b, n, n, n, (@ct *)p[1] + i * n * n, n);
    return info != 0;
}
int32_t stax_inv_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], bytes = 2 * n * n * STAX_BYTES + n * (int64_t)sizeof(stax_int);
    return stax_each(s, threads, p, stax_inv_one_@t, bytes, STAX_COST * n * n * (3 * n + 16));
}

/* sizes: stack, n, n; the sign of the determinant and the logarithm of its size */
static void stax_signed_log_@t(const int64_t *s, char *work, const @ct *from, @ct *sign,
        double *logarithm) {
    int64_t n = s[1];
    @ct *a = (@ct *)work, turned = 1;
    stax_int *pivots = (stax_int *)(a + n * n), size = n, info = 0;
    double total = 0;
    stax_turn_@t(from, n, n, n, a, n);
    STAX_LAPACK(getrf)(&size, &size, a, &size, pivots, &info);
    if (info > 0) {
        *sign = 0;
        *logarithm = -(double)__builtin_inf();
        return;
    }
    for (int64_t j = 0; j < n; j++)
        if (pivots[j] != j + 1) turned = -turned;
    for (int64_t j = 0; j < n; j++) {
        @ct x = a[j * n + j];
        double radius = STAX_SIZE(x);
        turned = STAX_TIMES(turned, STAX_DIRECTION(x, radius));
        total += log(radius);
    }
    *sign = turned;
    *logarithm = total;
}
static @ct stax_determinant_@t(const int64_t *s, char *work, const @ct *from) {
    @ct sign;
    double logarithm;
    stax_signed_log_@t(s, work, from, &sign, &logarithm);
    return STAX_TIMES(sign, (@ct)exp(logarithm));
}
static int stax_slogdet_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    stax_signed_log_@t(s, work, (const @ct *)p[0] + i * s[1] * s[1], (@ct *)p[1] + i,
                       (double *)p[2] + i);
    return 0;
}
static int stax_det_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    ((@ct *)p[1])[i] = stax_determinant_@t(s, work, (const @ct *)p[0] + i * s[1] * s[1]);
    return 0;
}
static int64_t stax_det_bytes_@t(int64_t n) {
    return n * n * STAX_BYTES + n * (int64_t)sizeof(stax_int);
}
int32_t stax_slogdet_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_slogdet_one_@t, stax_det_bytes_@t(n),
                     STAX_COST * n * n * (n + 16));
}
int32_t stax_det_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_det_one_@t, stax_det_bytes_@t(n),
                     STAX_COST * n * n * (n + 16));
}

/* sizes: stack, m, n, complete */
static int64_t stax_qr_room_@t(const int64_t *s) {
    stax_int m = s[1], n = s[2], k = m < n ? m : n, q = s[3] ? m : k, info = 0, ask = -1;
    @ct first = 0, second = 0, none = 0;
    STAX_LAPACK(geqrf)(&m, &n, &none, &m, &none, &first, &ask, &info);
    STAX_LAPACK(@orthogonal)(&m, &q, &k, &none, &m, &none, &second, &ask, &info);
    return (int64_t)(STAX_REAL(first) > STAX_REAL(second) ? STAX_REAL(first) : STAX_REAL(second));
}
static int stax_qr_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, q = s[3] ? m : k;
    int64_t wide = n > q ? n : q;
    @ct *a = (@ct *)work, *scale = a + m * wide, *room = scale + k;
    @ct *right = (@ct *)p[2] + i * q * n;
    stax_int rows = m, columns = n, kept = k, made = q, info = 0, length = stax_qr_room_@t(s);
    stax_turn_@t((const @ct *)p[0] + i * m * n, m, n, n, a, m);
    STAX_LAPACK(geqrf)(&rows, &columns, a, &rows, scale, room, &length, &info);
    if (info) return 1;
    for (int64_t r = 0; r < q; r++)
        for (int64_t c = 0; c < n; c++) right[r * n + c] = c >= r ? a[c * m + r] : 0;
    STAX_LAPACK(@orthogonal)(&rows, &made, &kept, a, &rows, scale, room, &length, &info);
    stax_turn_@t(a, q, m, m, (@ct *)p[1] + i * m * q, q);
    return info != 0;
}
int32_t stax_qr_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, q = s[3] ? m : k;
    int64_t bytes = (m * (n > q ? n : q) + k + stax_qr_room_@t(s)) * STAX_BYTES;
    return stax_each(s, threads, p, stax_qr_one_@t, bytes, STAX_COST * 3 * m * n * (k + 16));
}

/* sizes: stack, n, n, lower; values and, when `vectors`, vectors */
static int stax_spectrum_@t(const int64_t *s, char *work, const @ct *from, int vectors,
        double *values, @ct *out) {
    int64_t n = s[1];
    @ct *a = (@ct *)work, ask_room = 0;
    double *w = (double *)(a + n * n), ask_reals = 0;
    stax_int size = n, info = 0, ask = -1, ask_integers = 0;
    const char *job = vectors ? "V" : "N", *half = s[3] ? "L" : "U";
    STAX_LAPACK(@symmetric)(job, half, &size, a, &size, w, &ask_room, &ask,
                            STAX_ALSO(&ask_reals, &ask,) &ask_integers, &ask, &info, 1, 1);
    stax_int length = (stax_int)STAX_REAL(ask_room), reals = (stax_int)ask_reals;
    stax_int count = ask_integers;
    char *room = malloc((size_t)(length * STAX_BYTES + reals * (int64_t)sizeof(double)
                                 + count * (int64_t)sizeof(stax_int)));
    if (!room) return -1;
    double *second = (double *)(room + length * STAX_BYTES);
    stax_turn_@t(from, n, n, n, a, n);
    STAX_LAPACK(@symmetric)(job, half, &size, a, &size, w, (@ct *)room, &length,
                            STAX_ALSO(second, &reals,) (stax_int *)(second + reals), &count, &info,
                            1, 1);
    free(room);
    memcpy(values, w, (size_t)n * sizeof(double));
    if (vectors) stax_turn_@t(a, n, n, n, out, n);
    return info != 0;
}
static int stax_eigh_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    return stax_spectrum_@t(s, work, (const @ct *)p[0] + i * n * n, 1, (double *)p[1] + i * n,
                            (@ct *)p[2] + i * n * n);
}
static int stax_eigvalsh_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    const @ct *from = (const @ct *)p[0] + i * n * n;
    return stax_spectrum_@t(s, work, from, 0, (double *)p[1] + i * n, 0);
}
int32_t stax_eigh_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], bytes = n * (n + 1) * STAX_BYTES;
    return stax_each(s, threads, p, stax_eigh_one_@t, bytes, STAX_COST * 9 * n * n * (n + 16));
}
int32_t stax_eigvalsh_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], bytes = n * (n + 1) * STAX_BYTES;
    return stax_each(s, threads, p, stax_eigvalsh_one_@t, bytes, STAX_COST * 2 * n * n * (n + 16));
}

/* sizes: stack, m, n, full; u, values and vh, or the values alone when there is no u */
static int64_t stax_singular_bytes_@t(const int64_t *s, int vectors) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, full = vectors && s[3];
    int64_t sides = vectors ? m * (full ? m : k) + (full ? n : k) * n : 2;
    return (m * n + sides) * STAX_BYTES + k * (int64_t)sizeof(double);
}
static int stax_singular_@t(const int64_t *s, char *work, const @ct *from, @ct *u,
        double *values, @ct *vh) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, reals = 0;
    int64_t left = u ? (s[3] ? m : k) : 1, right = u ? (s[3] ? n : k) : 1;
    @ct *a = (@ct *)work, *us = a + m * n, *vs = us + (u ? m * left : 1), ask_room = 0;
    double *w = (double *)(vs + (u ? right * n : 1));
    stax_int rows = m, columns = n, ldv = right, info = 0, ask = -1, none = 0;
    const char *job = u ? (s[3] ? "A" : "S") : "N";
    STAX_ALSO(double no_reals = 0;)
    STAX_LAPACK(gesdd)(job, &rows, &columns, a, &rows, w, us, &rows, vs, &ldv, &ask_room, &ask,
                       STAX_ALSO(&no_reals,) &none, &info, 1);
    stax_int length = (stax_int)STAX_REAL(ask_room);
    STAX_ALSO(
        int64_t l = m < n ? n : m, least = 5 * k * k + 7 * k, more = 2 * l * k + 2 * k * k + k;
        reals = least < more ? more : least;
    )
    char *room = malloc((size_t)(length * STAX_BYTES + reals * (int64_t)sizeof(double)
                                 + 8 * k * (int64_t)sizeof(stax_int)));
    if (!room) return -1;
    double *second = (double *)(room + length * STAX_BYTES);
    stax_turn_@t(from, m, n, n, a, m);
    STAX_LAPACK(gesdd)(job, &rows, &columns, a, &rows, w, us, &rows, vs, &ldv, (@ct *)room,
                       &length, STAX_ALSO(second,) (stax_int *)(second + reals), &info, 1);
    free(room);
    memcpy(values, w, (size_t)k * sizeof(double));
    if (u) {
        stax_turn_@t(us, left, m, m, u, left);
        stax_turn_@t(vs, n, right, right, vh, n);
    }
    return info != 0;
}
static int stax_svd_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, left = s[3] ? m : k, right = s[3] ? n : k;
    const @ct *from = (const @ct *)p[0] + i * m * n;
    return stax_singular_@t(s, work, from, (@ct *)p[1] + i * m * left, (double *)p[2] + i * k,
                            (@ct *)p[3] + i * right * n);
}
static int stax_svdvals_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    const @ct *from = (const @ct *)p[0] + i * m * n;
    return stax_singular_@t(s, work, from, 0, (double *)p[1] + i * k, 0);
}
int32_t stax_svd_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    return stax_each(s, threads, p, stax_svd_one_@t, stax_singular_bytes_@t(s, 1),
                     STAX_COST * 9 * m * n * (k + 16));
}
int32_t stax_svdvals_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    return stax_each(s, threads, p, stax_svdvals_one_@t, stax_singular_bytes_@t(s, 0),
                     STAX_COST * 2 * m * n * (k + 16));
}

/* sizes: stack, n, n; det(a) inv(a), from singular values, so of singular matrices too */
static int stax_adjugate_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1], sizes[] = {1, n, n, 0};
    @ct *u = (@ct *)work, *vh = u + n * n, *others = vh + n * n, *out = (@ct *)p[1] + i * n * n;
    double *values = (double *)(others + n), running = 1;
    char *rest = (char *)(values + n + (n & 1));
    int info = stax_singular_@t(sizes, rest, (const @ct *)p[0] + i * n * n, u, values, vh);
    if (info) return info;
    @ct phase = stax_determinant_@t(sizes, rest, u);
    phase = STAX_TIMES(phase, stax_determinant_@t(sizes, rest, vh));
    for (int64_t k = 0; k < n; k++) { others[k] = running; running *= values[k]; }
    running = 1;
    for (int64_t k = n - 1; k >= 0; k--) {
        others[k] = STAX_TIMES(others[k], phase * running);
        running *= values[k];
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) {
            @ct sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += STAX_TIMES(STAX_TIMES(STAX_CONJ(vh[k * n + r]), others[k]),
                                  STAX_CONJ(u[c * n + k]));
            out[r * n + c] = sum;
        }
    return 0;
}
int32_t stax_adjugate_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], sizes[] = {1, n, n, 0};
    int64_t bytes = (2 * n * n + n) * STAX_BYTES + (n + 1) * (int64_t)sizeof(double)
        + stax_singular_bytes_@t(sizes, 1) + stax_det_bytes_@t(n);
    return stax_each(s, threads, p, stax_adjugate_one_@t, bytes,
                     STAX_COST * 12 * n * n * (n + 16));
}

/* sizes: stack, m, n; p[1] has for each matrix the share of its largest singular value below which
   one counts as 0 */
static int stax_pinv_one_@t(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, sizes[] = {1, m, n, 0};
    @ct *u = (@ct *)work, *vh = u + m * k, *out = (@ct *)p[2] + i * n * m;
    double *values = (double *)(vh + k * n);
    char *rest = (char *)(values + k + (k & 1));
    int info = stax_singular_@t(sizes, rest, (const @ct *)p[0] + i * m * n, u, values, vh);
    if (info) return info;
    double cutoff = ((const double *)p[1])[i] * values[0];
    for (int64_t j = 0; j < k; j++) values[j] = values[j] > cutoff ? 1 / values[j] : 0;
    for (int64_t r = 0; r < m; r++)
        for (int64_t j = 0; j < k; j++) u[r * k + j] = STAX_CONJ(u[r * k + j]) * values[j];
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < m; r++) {
            @ct sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += STAX_TIMES(STAX_CONJ(vh[j * n + c]), u[r * k + j]);
            out[c * m + r] = sum;
        }
    return 0;
}
int32_t stax_pinv_@t(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, sizes[] = {1, m, n, 0};
    int64_t bytes = (m * k + k * n) * STAX_BYTES + (k + 1) * (int64_t)sizeof(double)
        + stax_singular_bytes_@t(sizes, 1);
    return stax_each(s, threads, p, stax_pinv_one_@t, bytes, STAX_COST * 12 * m * n * (k + 16));
}
"""

# (prefix, suffix, bits of an integer) of Fortran names, by the library's naming of cblas.
_NAMINGS = (("scipy_", "_64_", 64), ("scipy_", "_", 32), ("", "_64_", 64), ("", "_", 32))


def addresses(names: tuple[str, ...]) -> tuple[int, tuple[int, ...]] | None:
    """Bits of LAPACK's integers, and the addresses of functions; None where one is missing.

    Only the library that matrix products use is looked into: one that NumPy loaded, as a rule.
    """
    blas = find_blas()
    if blas is None:
        return None
    for prefix, suffix, bits in _NAMINGS:
        if bits != blas.integer_bits:
            continue
        table: list[int] = []
        for name in names:
            try:
                entry = getattr(blas.handle, f"{prefix}{name}{suffix}")
            except AttributeError:
                break
            table.append(ctypes.cast(entry, ctypes.c_void_p).value or 0)
        if len(table) == len(names):
            return bits, tuple(table)
    return None


@functools.cache
def lapack_table() -> tuple[int, tuple[int, ...]] | None:
    """Bits of LAPACK's integers, and the addresses of its functions for each type; None without."""
    return addresses(tuple(f"{letter}{f}" for _, letter in TAGS.values() for f in FUNCTIONS))


def header(slots: Sequence[str], bits: int) -> str:
    """The beginning of a file of routines; `slots` name the entries of its table."""
    return f"enum {{ {', '.join(slots)} }};\n" + _HEADER.replace("@integer", f"int{bits}_t")


def turning(tag: str, ct: str) -> str:
    """`stax_turn_<tag>`, which transposes a matrix."""
    return spelled(_TURN, tag, ct)


def typed(tag: str, ct: str) -> str:
    """The routines that compute in the type of the matrices, for one type."""
    return turning(tag, ct) + spelled(_TYPED, tag, ct)


def double(tag: str, ct: str) -> str:
    """The routines that compute in double precision, for "f64" or "c128"."""
    is_real = tag == "f64"
    text = _DOUBLE.replace("@orthogonal", "orgqr" if is_real else "ungqr")
    text = text.replace("@symmetric", "syevd" if is_real else "heevd")
    return (_REAL if is_real else _COMPLEX) + spelled(text, tag, ct)


def spelled(text: str, tag: str, ct: str) -> str:
    """A template for one type of elements."""
    return text.replace("@ct", ct).replace("@T", tag.upper()).replace("@t", tag)


def lapack_source(bits: int) -> str:
    """C text of the routines for a LAPACK with integers of so many bits.

    It needs `vecmath.PREAMBLE` before it and exports `stax_bind_lapack(void *const *table)`, to be
    called once with the addresses of `lapack_table`.
    """
    slots = [f"STAX_{t.upper()}_{f}" for t in TAGS for f in FUNCTIONS]
    parts = [typed(tag, ct) for tag, (ct, _) in TAGS.items()]
    return "".join([header(slots, bits), *parts, double("f64", "double")])
