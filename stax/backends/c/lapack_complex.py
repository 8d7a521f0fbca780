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

_GENERAL = """\
typedef complex128_t stax_z;
typedef void (*stax_geev_c128)(const char *, const char *, const stax_int *, stax_z *,
    const stax_int *, stax_z *, stax_z *, const stax_int *, stax_z *, const stax_int *, stax_z *,
    const stax_int *, double *, stax_int *, size_t, size_t);
typedef void (*stax_geev_f64)(const char *, const char *, const stax_int *, double *,
    const stax_int *, double *, double *, double *, const stax_int *, double *, const stax_int *,
    double *, const stax_int *, stax_int *, size_t, size_t);

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
    stax_z *room = malloc((size_t)(length * STAX_BYTES));
    if (!room) return -1;
    stax_turn_c128(from, n, n, n, a, n);
    STAX_LAPACK(geev)("N", job, &size, a, &size, w, &none, &one, v, &ldv, room, &length, reals,
                      &info, 1, 1);
    free(room);
    memcpy(values, w, (size_t)(n * STAX_BYTES));
    if (out) stax_turn_c128(v, n, n, n, out, n);
    return info != 0;
}
static int stax_general_f64(int64_t n, char *work, const double *from, stax_z *values,
        stax_z *out) {
    double *a = (double *)work, *v = a + n * n, *re = v + (out ? n * n : 1), *im = re + n;
    double none = 0, ask_room = 0;
    stax_int size = n, one = 1, info = 0, ask = -1, ldv = out ? n : 1;
    const char *job = out ? "V" : "N";
    stax_geev_f64 geev = (stax_geev_f64)stax_lapack[STAX_F64_geev];
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
    int64_t n = s[1], bytes = (2 * n * n + 2 * n + 2) * STAX_BYTES; \\
    return stax_each(s, threads, p, stax_eig_one_##tag, bytes, 50 * n * n * (n + 16)); \\
} \\
int32_t stax_eigvals_##tag(const int64_t *s, int32_t threads, void *const *p) { \\
    int64_t n = s[1], bytes = (n * n + 2 * n + 2) * STAX_BYTES; \\
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
    double = lapack.double("c128", "complex128_t")
    return "".join([lapack.header(slots, bits), *typed, double, _GENERAL])
