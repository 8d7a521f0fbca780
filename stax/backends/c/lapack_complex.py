"""Linear algebra of complex matrices in C, and eigenvalues of general ones, by NumPy's LAPACK.

Input: nothing. Output: C text of `stax_<routine>_c128` (`lu` and `triangular_solve` for c64 too)
and of `stax_eig_f64` and `stax_eigvals_f64`, whose results are complex, and the table of LAPACK's
addresses that it is bound to. It is the counterpart of `lapack`, whose frame and conventions it
shares; only programs that have such matrices load it.
"""

from __future__ import annotations

import functools

from stax.backends.c import lapack

_FUNCTIONS = (
    ("C64", "getrf", "cgetrf"),
    ("C64", "trsm", "ctrsm"),
    ("C128", "getrf", "zgetrf"),
    ("C128", "trsm", "ztrsm"),
    ("C128", "potrf", "zpotrf"),
    ("C128", "gesv", "zgesv"),
    ("C128", "geqrf", "zgeqrf"),
    ("C128", "ungqr", "zungqr"),
    ("C128", "heevd", "zheevd"),
    ("C128", "gesdd", "zgesdd"),
    ("C128", "geev", "zgeev"),
    ("F64", "geev", "dgeev"),
)
ROUTINES = (
    *(f"{routine}_{tag}" for routine in ("lu", "triangular_solve") for tag in ("c64", "c128")),
    *(f"{routine}_c128" for routine in lapack.DOUBLE_ROUTINES),
    *(f"{routine}_{tag}" for routine in ("eig", "eigvals") for tag in ("f64", "c128")),
)

_DOUBLE = """\
typedef complex128_t stax_z;
typedef void (*stax_potrf_z)(const char *, const stax_int *, stax_z *, const stax_int *, stax_int *,
    size_t);
typedef void (*stax_gesv_z)(const stax_int *, const stax_int *, stax_z *, const stax_int *,
    stax_int *, stax_z *, const stax_int *, stax_int *);
typedef void (*stax_getrf_z)(const stax_int *, const stax_int *, stax_z *, const stax_int *,
    stax_int *, stax_int *);
typedef void (*stax_geqrf_z)(const stax_int *, const stax_int *, stax_z *, const stax_int *,
    stax_z *, stax_z *, const stax_int *, stax_int *);
typedef void (*stax_ungqr_z)(const stax_int *, const stax_int *, const stax_int *, stax_z *,
    const stax_int *, const stax_z *, stax_z *, const stax_int *, stax_int *);
typedef void (*stax_heevd_z)(const char *, const char *, const stax_int *, stax_z *,
    const stax_int *, double *, stax_z *, const stax_int *, double *, const stax_int *, stax_int *,
    const stax_int *, stax_int *, size_t, size_t);
typedef void (*stax_gesdd_z)(const char *, const stax_int *, const stax_int *, stax_z *,
    const stax_int *, double *, stax_z *, const stax_int *, stax_z *, const stax_int *, stax_z *,
    const stax_int *, double *, stax_int *, stax_int *, size_t);
typedef void (*stax_geev_z)(const char *, const char *, const stax_int *, stax_z *,
    const stax_int *, stax_z *, stax_z *, const stax_int *, stax_z *, const stax_int *, stax_z *,
    const stax_int *, double *, stax_int *, size_t, size_t);
typedef void (*stax_geev_d)(const char *, const char *, const stax_int *, double *,
    const stax_int *, double *, double *, double *, const stax_int *, double *, const stax_int *,
    double *, const stax_int *, stax_int *, size_t, size_t);
#define STAX_LAPACK(name) ((stax_##name##_z)stax_lapack[STAX_C128_##name])
#define STAX_Z (int64_t)sizeof(stax_z)
STAX_INLINE stax_z stax_times(stax_z x, stax_z y) {
    double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(a * c - b * d, a * d + b * c);
}

/* sizes: stack, n, n; the rows of the lower triangle are the columns of an upper one */
static int stax_cholesky_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    const stax_z *a = (const stax_z *)p[0] + i * n * n;
    stax_z *out = (stax_z *)p[1] + i * n * n;
    stax_int size = n, info = 0;
    (void)work;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c <= r; c++) out[r * n + c] = a[r * n + c];
        for (int64_t c = r + 1; c < n; c++) out[r * n + c] = 0;
    }
    STAX_LAPACK(potrf)("U", &size, out, &size, &info, 1);
    return info != 0;
}
int32_t stax_cholesky_c128(const int64_t *s, int32_t threads, void *const *p) {
    return stax_each(s, threads, p, stax_cholesky_one_c128, 0, 4 * s[1] * s[1] * (s[1] + 16));
}

/* sizes: stack, n, n, n, k */
static int stax_solve_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1], k = s[4];
    stax_z *a = (stax_z *)work, *b = a + n * n;
    stax_int *pivots = (stax_int *)(b + n * k), size = n, columns = k, info = 0;
    stax_turn_c128((const stax_z *)p[0] + i * n * n, n, n, n, a, n);
    stax_turn_c128((const stax_z *)p[1] + i * n * k, n, k, k, b, n);
    STAX_LAPACK(gesv)(&size, &columns, a, &size, pivots, b, &size, &info);
    stax_turn_c128(b, k, n, n, (stax_z *)p[2] + i * n * k, k);
    return info != 0;
}
int32_t stax_solve_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], k = s[4];
    int64_t bytes = n * (n + k) * STAX_Z + n * (int64_t)sizeof(stax_int);
    return stax_each(s, threads, p, stax_solve_one_c128, bytes, 4 * n * n * (n + 2 * k + 16));
}

/* sizes: stack, n, n */
static int stax_inv_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    stax_z *a = (stax_z *)work, *b = a + n * n;
    stax_int *pivots = (stax_int *)(b + n * n), size = n, info = 0;
    stax_turn_c128((const stax_z *)p[0] + i * n * n, n, n, n, a, n);
    for (int64_t j = 0; j < n * n; j++) b[j] = 0;
    for (int64_t j = 0; j < n; j++) b[j * n + j] = 1;
    STAX_LAPACK(gesv)(&size, &size, a, &size, pivots, b, &size, &info);
    stax_turn_c128(b, n, n, n, (stax_z *)p[1] + i * n * n, n);
    return info != 0;
}
int32_t stax_inv_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], bytes = 2 * n * n * STAX_Z + n * (int64_t)sizeof(stax_int);
    return stax_each(s, threads, p, stax_inv_one_c128, bytes, 4 * n * n * (3 * n + 16));
}

/* sizes: stack, n, n; the phase of the determinant and the logarithm of its size */
extern double hypot(double, double);
static void stax_phase_and_log(const int64_t *s, char *work, const stax_z *from, stax_z *phase,
        double *logarithm) {
    int64_t n = s[1];
    stax_z *a = (stax_z *)work, turned = 1;
    stax_int *pivots = (stax_int *)(a + n * n), size = n, info = 0;
    double total = 0;
    stax_turn_c128(from, n, n, n, a, n);
    STAX_LAPACK(getrf)(&size, &size, a, &size, pivots, &info);
    if (info > 0) {
        *phase = 0;
        *logarithm = -(double)__builtin_inf();
        return;
    }
    for (int64_t j = 0; j < n; j++)
        if (pivots[j] != j + 1) turned = -turned;
    for (int64_t j = 0; j < n; j++) {
        stax_z x = a[j * n + j];
        double radius = hypot(__real__ x, __imag__ x);
        turned = stax_times(turned, __builtin_complex(__real__ x / radius, __imag__ x / radius));
        total += log(radius);
    }
    *phase = turned;
    *logarithm = total;
}
static int64_t stax_det_bytes_c128(int64_t n) {
    return n * n * STAX_Z + n * (int64_t)sizeof(stax_int);
}
static int stax_slogdet_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    stax_phase_and_log(s, work, (const stax_z *)p[0] + i * s[1] * s[1], (stax_z *)p[1] + i,
                       (double *)p[2] + i);
    return 0;
}
static stax_z stax_determinant(const int64_t *s, char *work, const stax_z *from) {
    stax_z phase;
    double logarithm;
    stax_phase_and_log(s, work, from, &phase, &logarithm);
    return stax_times(phase, __builtin_complex(exp(logarithm), 0.0));
}
static int stax_det_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    ((stax_z *)p[1])[i] = stax_determinant(s, work, (const stax_z *)p[0] + i * s[1] * s[1]);
    return 0;
}
int32_t stax_slogdet_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_slogdet_one_c128, stax_det_bytes_c128(n),
                     4 * n * n * (n + 16));
}
int32_t stax_det_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_det_one_c128, stax_det_bytes_c128(n),
                     4 * n * n * (n + 16));
}

/* sizes: stack, m, n, complete */
static int64_t stax_qr_room_c128(const int64_t *s) {
    stax_int m = s[1], n = s[2], k = m < n ? m : n, q = s[3] ? m : k, info = 0, ask = -1;
    stax_z first = 0, second = 0, none = 0;
    STAX_LAPACK(geqrf)(&m, &n, &none, &m, &none, &first, &ask, &info);
    STAX_LAPACK(ungqr)(&m, &q, &k, &none, &m, &none, &second, &ask, &info);
    return (int64_t)(__real__ first > __real__ second ? __real__ first : __real__ second);
}
static int stax_qr_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, q = s[3] ? m : k;
    int64_t wide = n > q ? n : q;
    stax_z *a = (stax_z *)work, *scale = a + m * wide, *room = scale + k;
    stax_z *right = (stax_z *)p[2] + i * q * n;
    stax_int rows = m, columns = n, kept = k, made = q, info = 0, length = stax_qr_room_c128(s);
    stax_turn_c128((const stax_z *)p[0] + i * m * n, m, n, n, a, m);
    STAX_LAPACK(geqrf)(&rows, &columns, a, &rows, scale, room, &length, &info);
    if (info) return 1;
    for (int64_t r = 0; r < q; r++)
        for (int64_t c = 0; c < n; c++) right[r * n + c] = c >= r ? a[c * m + r] : 0;
    STAX_LAPACK(ungqr)(&rows, &made, &kept, a, &rows, scale, room, &length, &info);
    stax_turn_c128(a, q, m, m, (stax_z *)p[1] + i * m * q, q);
    return info != 0;
}
int32_t stax_qr_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    int64_t bytes = (m * (m > n ? m : n) + k + stax_qr_room_c128(s)) * STAX_Z;
    return stax_each(s, threads, p, stax_qr_one_c128, bytes, 12 * m * n * (k + 16));
}

/* sizes: stack, n, n, lower; values and, when `vectors`, vectors */
static int stax_spectrum_c128(const int64_t *s, char *work, const stax_z *from, int vectors,
        double *values, stax_z *out) {
    int64_t n = s[1];
    stax_z *a = (stax_z *)work, ask_room = 0;
    double *w = (double *)(a + n * n), ask_reals = 0;
    stax_int size = n, info = 0, ask = -1, ask_integers = 0;
    const char *job = vectors ? "V" : "N", *half = s[3] ? "L" : "U";
    STAX_LAPACK(heevd)(job, half, &size, a, &size, w, &ask_room, &ask, &ask_reals, &ask,
                       &ask_integers, &ask, &info, 1, 1);
    stax_int length = (stax_int)__real__ ask_room, reals = (stax_int)ask_reals;
    stax_int count = ask_integers;
    char *room = malloc((size_t)(length * STAX_Z + reals * 8 + count * (int64_t)sizeof(stax_int)));
    if (!room) return -1;
    double *second = (double *)(room + length * STAX_Z);
    stax_turn_c128(from, n, n, n, a, n);
    STAX_LAPACK(heevd)(job, half, &size, a, &size, w, (stax_z *)room, &length, second, &reals,
                       (stax_int *)(second + reals), &count, &info, 1, 1);
    free(room);
    memcpy(values, w, (size_t)n * sizeof(double));
    if (vectors) stax_turn_c128(a, n, n, n, out, n);
    return info != 0;
}
static int stax_eigh_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    return stax_spectrum_c128(s, work, (const stax_z *)p[0] + i * n * n, 1, (double *)p[1] + i * n,
                              (stax_z *)p[2] + i * n * n);
}
static int stax_eigvalsh_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1];
    const stax_z *from = (const stax_z *)p[0] + i * n * n;
    return stax_spectrum_c128(s, work, from, 0, (double *)p[1] + i * n, 0);
}
int32_t stax_eigh_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_eigh_one_c128, n * (n + 1) * STAX_Z,
                     36 * n * n * (n + 16));
}
int32_t stax_eigvalsh_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1];
    return stax_each(s, threads, p, stax_eigvalsh_one_c128, n * (n + 1) * STAX_Z,
                     8 * n * n * (n + 16));
}

/* sizes: stack, m, n, full; u, values and vh, or the values alone when there is no u */
static int stax_singular_c128(const int64_t *s, char *work, const stax_z *from, stax_z *u,
        double *values, stax_z *vh) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, l = m < n ? n : m;
    int64_t left = u ? (s[3] ? m : k) : 1, right = u ? (s[3] ? n : k) : 1;
    stax_z *a = (stax_z *)work, *us = a + m * n, *vs = us + (u ? m * left : 1), ask_room = 0;
    double *w = (double *)(vs + (u ? right * n : 1));
    stax_int rows = m, columns = n, ldv = right, info = 0, ask = -1, none = 0;
    const char *job = u ? (s[3] ? "A" : "S") : "N";
    double no_reals = 0;
    STAX_LAPACK(gesdd)(job, &rows, &columns, a, &rows, w, us, &rows, vs, &ldv, &ask_room, &ask,
                       &no_reals, &none, &info, 1);
    stax_int length = (stax_int)__real__ ask_room;
    int64_t reals = 5 * k * k + 7 * k, more = 2 * l * k + 2 * k * k + k;
    if (reals < more) reals = more;
    char *room = malloc((size_t)(length * STAX_Z + reals * 8 + 8 * k * (int64_t)sizeof(stax_int)));
    if (!room) return -1;
    double *second = (double *)(room + length * STAX_Z);
    stax_turn_c128(from, m, n, n, a, m);
    STAX_LAPACK(gesdd)(job, &rows, &columns, a, &rows, w, us, &rows, vs, &ldv, (stax_z *)room,
                       &length, second, (stax_int *)(second + reals), &info, 1);
    free(room);
    memcpy(values, w, (size_t)k * sizeof(double));
    if (u) {
        stax_turn_c128(us, left, m, m, u, left);
        stax_turn_c128(vs, n, right, right, vh, n);
    }
    return info != 0;
}
static int64_t stax_singular_bytes(int64_t m, int64_t n) {
    return (m * n + m * m + n * n + (m < n ? m : n) + 2) * STAX_Z;
}
static int stax_svd_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, left = s[3] ? m : k, right = s[3] ? n : k;
    const stax_z *from = (const stax_z *)p[0] + i * m * n;
    return stax_singular_c128(s, work, from, (stax_z *)p[1] + i * m * left, (double *)p[2] + i * k,
                              (stax_z *)p[3] + i * right * n);
}
static int stax_svdvals_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    const stax_z *from = (const stax_z *)p[0] + i * m * n;
    return stax_singular_c128(s, work, from, 0, (double *)p[1] + i * k, 0);
}
int32_t stax_svd_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    return stax_each(s, threads, p, stax_svd_one_c128, stax_singular_bytes(m, n),
                     36 * m * n * (k + 16));
}
int32_t stax_svdvals_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    return stax_each(s, threads, p, stax_svdvals_one_c128, stax_singular_bytes(m, n),
                     8 * m * n * (k + 16));
}

/* sizes: stack, n, n; det(a) inv(a), from singular values, so of singular matrices too */
static int stax_adjugate_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t n = s[1], sizes[] = {1, n, n, 0};
    stax_z *u = (stax_z *)work, *vh = u + n * n, *out = (stax_z *)p[1] + i * n * n, phase;
    double *values = (double *)(vh + n * n), *others = values + n, running = 1;
    char *rest = (char *)(others + n);
    int info = stax_singular_c128(sizes, rest, (const stax_z *)p[0] + i * n * n, u, values, vh);
    if (info) return info;
    phase = stax_times(stax_determinant(sizes, rest, u), stax_determinant(sizes, rest, vh));
    for (int64_t k = 0; k < n; k++) { others[k] = running; running *= values[k]; }
    running = 1;
    for (int64_t k = n - 1; k >= 0; k--) { others[k] *= running; running *= values[k]; }
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) {
            stax_z sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += stax_times(~vh[k * n + r] * others[k], ~u[c * n + k]);
            out[r * n + c] = stax_times(phase, sum);
        }
    return 0;
}
int32_t stax_adjugate_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t n = s[1], bytes = (2 * n * n + n) * STAX_Z + stax_singular_bytes(n, n);
    bytes += stax_det_bytes_c128(n);
    return stax_each(s, threads, p, stax_adjugate_one_c128, bytes, 48 * n * n * (n + 16));
}

/* sizes: stack, m, n; of each matrix the share of the largest singular value that counts as 0 */
static int stax_pinv_one_c128(const int64_t *s, char *work, void *const *p, int64_t i) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n, sizes[] = {1, m, n, 0};
    stax_z *u = (stax_z *)work, *vh = u + m * k, *out = (stax_z *)p[2] + i * n * m;
    double *values = (double *)(vh + k * n), cutoff;
    char *rest = (char *)(values + k + (k & 1));
    int info = stax_singular_c128(sizes, rest, (const stax_z *)p[0] + i * m * n, u, values, vh);
    if (info) return info;
    cutoff = ((const double *)p[1])[i] * values[0];
    for (int64_t j = 0; j < k; j++) values[j] = values[j] > cutoff ? 1 / values[j] : 0;
    for (int64_t r = 0; r < m; r++)
        for (int64_t j = 0; j < k; j++) u[r * k + j] = ~u[r * k + j] * values[j];
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < m; r++) {
            stax_z sum = 0;
            for (int64_t j = 0; j < k; j++) sum += stax_times(~vh[j * n + c], u[r * k + j]);
            out[c * m + r] = sum;
        }
    return 0;
}
int32_t stax_pinv_c128(const int64_t *s, int32_t threads, void *const *p) {
    int64_t m = s[1], n = s[2], k = m < n ? m : n;
    int64_t bytes = (m * k + k * n + k) * STAX_Z + stax_singular_bytes(m, n);
    return stax_each(s, threads, p, stax_pinv_one_c128, bytes, 48 * m * n * (k + 16));
}

/* sizes: stack, n, n; values and, when there is room for them, vectors */
static int stax_finite(const double *x, int64_t count) {
    int odd = 0;
    for (int64_t j = 0; j < count; j++) odd |= !(__builtin_fabs(x[j]) < __builtin_inf());
    return !odd;
}
static int stax_general_c128(int64_t n, char *work, const stax_z *from, stax_z *values,
        stax_z *out) {
    stax_z *a = (stax_z *)work, *v = a + n * n, *w = v + (out ? n * n : 1), none = 0, ask_room = 0;
    double *reals = (double *)(w + n);
    stax_int size = n, one = 1, info = 0, ask = -1, ldv = out ? n : 1;
    const char *job = out ? "V" : "N";
    if (!stax_finite((const double *)from, 2 * n * n)) return 1;
    STAX_LAPACK(geev)("N", job, &size, a, &size, w, &none, &one, v, &ldv, &ask_room, &ask, reals,
                      &info, 1, 1);
    stax_int length = (stax_int)__real__ ask_room;
    stax_z *room = malloc((size_t)(length * STAX_Z));
    if (!room) return -1;
    stax_turn_c128(from, n, n, n, a, n);
    STAX_LAPACK(geev)("N", job, &size, a, &size, w, &none, &one, v, &ldv, room, &length, reals,
                      &info, 1, 1);
    free(room);
    memcpy(values, w, (size_t)(n * STAX_Z));
    if (out) stax_turn_c128(v, n, n, n, out, n);
    return info != 0;
}
static int stax_general_f64(int64_t n, char *work, const double *from, stax_z *values,
        stax_z *out) {
    double *a = (double *)work, *v = a + n * n, *re = v + (out ? n * n : 1), *im = re + n;
    double none = 0, ask_room = 0;
    stax_int size = n, one = 1, info = 0, ask = -1, ldv = out ? n : 1;
    const char *job = out ? "V" : "N";
    stax_geev_d geev = (stax_geev_d)stax_lapack[STAX_F64_geev];
    if (!stax_finite(from, n * n)) return 1;
    geev("N", job, &size, a, &size, re, im, &none, &one, v, &ldv, &ask_room, &ask, &info, 1, 1);
    stax_int length = (stax_int)ask_room;
    double *room = malloc((size_t)length * 8);
    if (!room) return -1;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++) a[c * n + r] = from[r * n + c];
    geev("N", job, &size, a, &size, re, im, &none, &one, v, &ldv, room, &length, &info, 1, 1);
    free(room);
    for (int64_t j = 0; j < n; j++) values[j] = __builtin_complex(re[j], im[j]);
    for (int64_t j = 0; out && j < n; j++) {
        /* The vectors of a pair lie as real and imaginary part side by side. */
        int pair = im[j] != 0 && j + 1 < n;
        for (int64_t r = 0; r < n; r++) {
            stax_z x = __builtin_complex(v[j * n + r], pair ? v[(j + 1) * n + r] : 0);
            out[r * n + j] = x;
            if (pair) out[r * n + j + 1] = ~x;
        }
        j += pair;
    }
    return info != 0;
}
#define STAX_GENERAL(tag, type) \\
static int stax_eig_one_##tag(const int64_t *s, char *work, void *const *p, int64_t i) { \\
    return stax_general_##tag(s[1], work, (const type *)p[0] + i * s[1] * s[1], \\
        (stax_z *)p[1] + i * s[1], (stax_z *)p[2] + i * s[1] * s[1]); \\
} \\
static int stax_eigvals_one_##tag(const int64_t *s, char *work, void *const *p, int64_t i) { \\
    return stax_general_##tag(s[1], work, (const type *)p[0] + i * s[1] * s[1], \\
        (stax_z *)p[1] + i * s[1], 0); \\
} \\
int32_t stax_eig_##tag(const int64_t *s, int32_t threads, void *const *p) { \\
    int64_t n = s[1], bytes = (2 * n * n + 2 * n + 2) * STAX_Z; \\
    return stax_each(s, threads, p, stax_eig_one_##tag, bytes, 50 * n * n * (n + 16)); \\
} \\
int32_t stax_eigvals_##tag(const int64_t *s, int32_t threads, void *const *p) { \\
    int64_t n = s[1], bytes = (n * n + 2 * n + 2) * STAX_Z; \\
    return stax_each(s, threads, p, stax_eigvals_one_##tag, bytes, 20 * n * n * (n + 16)); \\
}
STAX_GENERAL(f64, double)
STAX_GENERAL(c128, stax_z)
"""


@functools.cache
def lapack_table() -> tuple[int, tuple[int, ...]] | None:
    """Bits of LAPACK's integers, and the addresses of its functions; None without."""
    return lapack.addresses(tuple(name for _, _, name in _FUNCTIONS))


def lapack_source(bits: int) -> str:
    """C text of the routines for a LAPACK with integers of so many bits.

    It needs `vecmath.PREAMBLE` before it and exports `stax_bind_lapack(void *const *table)`, to be
    called once with the addresses of `lapack_table`.
    """
    slots = [f"STAX_{tag}_{function}" for tag, function, _ in _FUNCTIONS]
    typed = [
        lapack.typed(tag, ct) for tag, ct in (("c64", "complex64_t"), ("c128", "complex128_t"))
    ]
    return "".join([lapack.header(slots, bits), *typed, _DOUBLE])
