"""Matrix products from C: the BLAS inside NumPy, found and called through function pointers.

Input: nothing, or the element types a program multiplies. Output: the addresses of the cblas
functions in the library that NumPy itself loaded (or another one on the system), and C text of
`stax_gemm_<type>` wrappers. A wrapper computes C = op(A) op(B) + beta C on row-major matrices, and
chooses: a row- or column-wise kernel for vectors, BLAS otherwise; where there is no BLAS, straight
loops for small sizes and blocked ones for others. A large product is cut into blocks that its shape
alone decides, each multiplied by BLAS on one thread: so the bits do not depend on the number of
threads, as they would with the library's own. The pointers are bound once per library through
`stax_bind_blas`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stax.backends.c.gemm_large import (
    BLOCKED,
    LARGE_BLAS,
    LARGE_CBLAS,
    LARGE_LOOPS,
    TILE_SIZES,
    TILED,
)

__all__ = ["BLAS_TYPES", "Blas", "find_blas", "gemm_source"]

# Position in the pointer table of each type's gemm; the last are set_ and get_num_threads.
BLAS_TYPES: dict[str, tuple[str, int]] = {
    "f32": ("s", 0),
    "f64": ("d", 1),
    "c64": ("c", 2),
    "c128": ("z", 3),
}
_VECTORS = {"sgemv": 4, "dgemv": 5}
_SET_THREADS = 6
_GET_THREADS = 7
_TABLE_LENGTH = 8
_C_TYPES = {
    "f32": "float",
    "f64": "double",
    "c64": "float _Complex",
    "c128": "double _Complex",
    **{f"{s}{b}": f"{p}{b}_t" for s, p in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
}
# (prefix, suffix, bits of an integer argument)
_NAMINGS = (
    ("scipy_", "64_", 64),
    ("scipy_", "", 32),
    ("", "64_", 64),
    ("", "_64", 64),
    ("", "", 32),
)


@dataclass(frozen=True)
class Blas:
    """A BLAS: where it is, its integers' width, and the pointer table for `stax_bind_blas`."""

    path: str
    integer_bits: int
    table: tuple[int, ...]
    handle: ctypes.CDLL
    set_threads_name: str

    def address(self, name: str) -> int:
        """Return the address of `sgemm`, `dgemm`, `cgemm`, `zgemm`, `sgemv` or `dgemv`."""
        slots = {f"{letter}gemm": slot for letter, slot in BLAS_TYPES.values()} | _VECTORS
        return self.table[slots[name]]

    def pointer_table(self) -> ctypes.Array[ctypes.c_void_p]:
        """Return the table as a C array; keep it alive while bound."""
        return (ctypes.c_void_p * _TABLE_LENGTH)(*self.table)

    def set_num_threads(self, count: int) -> None:
        """Set the number of threads of the library, for NumPy's own products too."""
        if self.set_threads_name:
            getattr(self.handle, self.set_threads_name)(ctypes.c_int(count))


def _libraries() -> Iterator[str]:
    """Yield the files a BLAS may be in, NumPy's own first."""
    package = Path(np.__file__).parent
    folders = [package.parent / "numpy.libs", package / ".dylibs", package / ".libs"]
    for module in ("scipy_openblas64", "scipy_openblas32"):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin:
            folders.append(Path(spec.origin).parent / "lib")
    folders += [package.parent / "scipy.libs", package.parent / "scipy" / ".dylibs"]
    for folder in folders:
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                if "openblas" in path.name and {".so", ".dylib"} & set(path.suffixes):
                    yield str(path)
    if sys.platform == "darwin":
        yield "/System/Library/Frameworks/Accelerate.framework/Accelerate"
        names = ["libopenblas.dylib", "libcblas.3.dylib"]
    else:
        names = ["libopenblas.so.0", "libcblas.so.3", "libblas.so.3"]
    for name in names:
        local = Path(sys.prefix) / "lib" / name
        if local.exists():
            yield str(local)
    yield from names


def _address(handle: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(getattr(handle, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def _open(path: str) -> Blas | None:
    try:
        handle = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix, suffix, bits in _NAMINGS:
        table = [0] * _TABLE_LENGTH
        for letter, slot in BLAS_TYPES.values():
            table[slot] = _address(handle, f"{prefix}cblas_{letter}gemm{suffix}")
        for name, slot in _VECTORS.items():
            table[slot] = _address(handle, f"{prefix}cblas_{name}{suffix}")
        if not all(table[:_SET_THREADS]):
            continue
        threads = f"{prefix}openblas_set_num_threads{suffix}"
        table[_SET_THREADS] = _address(handle, threads)
        table[_GET_THREADS] = _address(handle, threads.replace("_set_", "_get_"))
        name = threads if table[_SET_THREADS] else ""
        return Blas(path, bits, tuple(table), handle, name)
    return None


@functools.cache
def find_blas() -> Blas | None:
    """Return the BLAS to call, the one NumPy uses where it can be found; None without any."""
    for path in _libraries():
        blas = _open(path)
        if blas is not None:
            return blas
    return None


_TABLE_SOURCE = """\
typedef %(integer)s stax_blas_int;
static void *const *stax_blas;
void stax_bind_blas(void *const *table) { stax_blas = table; }
static int32_t stax_product_threads = 1;
void stax_set_product_threads(int32_t count) { stax_product_threads = count > 1 ? count : 1; }
#define STAX_MULTIPLY_ADD(x, y, z) ((z) + (x) * (y))
"""

# z + x * y of complex numbers, without the compiler's care for infinities.
_COMPLEX = """\
STAX_INLINE @ct stax_fma_@t(@ct x, @ct y, @ct z) {
    @rt a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
#if STAX_FMA
    return __builtin_complex(__builtin_fma@s(-b, d, __builtin_fma@s(a, c, __real__ z)),
                             __builtin_fma@s(b, c, __builtin_fma@s(a, d, __imag__ z)));
#else
    return __builtin_complex(__real__ z + (a * c - b * d), __imag__ z + (a * d + b * c));
#endif
}
"""

# The library runs on one thread while any of our products does: NumPy's setting is put back after.
_THREADS = f"""\
static int32_t stax_blas_busy, stax_blas_users, stax_blas_before;
static void stax_blas_enter(void) {{
    if (!stax_blas[{_SET_THREADS}] || !stax_blas[{_GET_THREADS}]) return;
    while (__atomic_exchange_n(&stax_blas_busy, 1, __ATOMIC_ACQUIRE));
    if (stax_blas_users++ == 0) {{
        stax_blas_before = ((int (*)(void))stax_blas[{_GET_THREADS}])();
        if (stax_blas_before > 1) ((void (*)(int))stax_blas[{_SET_THREADS}])(1);
    }}
    __atomic_store_n(&stax_blas_busy, 0, __ATOMIC_RELEASE);
}}
static void stax_blas_leave(void) {{
    if (!stax_blas[{_SET_THREADS}] || !stax_blas[{_GET_THREADS}]) return;
    while (__atomic_exchange_n(&stax_blas_busy, 1, __ATOMIC_ACQUIRE));
    if (--stax_blas_users == 0 && stax_blas_before > 1)
        ((void (*)(int))stax_blas[{_SET_THREADS}])(stax_blas_before);
    __atomic_store_n(&stax_blas_busy, 0, __ATOMIC_RELEASE);
}}
"""

# Plain loops: row-major, A is M x K (K x M when ta), B is K x N (N x K when tb).
_LOOPS = """\
STAX_INLINE void stax_gemm_small_@t(int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *restrict a, int64_t lda, const @ct *restrict b, int64_t ldb, int accumulate,
        @ct *restrict c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        if (tb) {
            for (int64_t j = 0; j < n; j++) {
                @ct sum = 0;
                for (int64_t p = 0; p < k; p++)
                    sum = @fma(a[ta ? p * lda + i : i * lda + p], b[j * ldb + p], sum);
                c[i * ldc + j] = accumulate ? c[i * ldc + j] + sum : sum;
            }
        } else {
            @ct *restrict row = c + i * ldc;
            if (!accumulate)
                for (int64_t j = 0; j < n; j++) row[j] = 0;
            for (int64_t p = 0; p < k; p++) {
                @ct x = a[ta ? p * lda + i : i * lda + p];
                const @ct *restrict other = b + p * ldb;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) row[j] = @fma(x, other[j], row[j]);
            }
        }
    }
}
"""

# One row times x in four sums of fixed width; complex types have no vectors and take plain loops.
_LANES = """\
typedef @ct stax_lanes_@t __attribute__((vector_size(32), aligned(sizeof(@ct))));
"""
_ROWWISE = """\
    if (!trans && dx == 1) {
#pragma omp parallel for num_threads(stax_product_threads) if (parallel : rows * columns > 200000)
        for (int64_t i = 0; i < rows; i++) {
            const @ct *restrict row = a + i * lda;
            const int w = sizeof(stax_lanes_@t) / sizeof(@ct);
            stax_lanes_@t s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            int64_t j = 0;
            for (; j + 4 * w <= columns; j += 4 * w) {
                const stax_lanes_@t *p = (const void *)(row + j), *q = (const void *)(x + j);
                s0 += p[0] * q[0];
                s1 += p[1] * q[1];
                s2 += p[2] * q[2];
                s3 += p[3] * q[3];
            }
            s0 = (s0 + s1) + (s2 + s3);
            @ct sum = 0;
            for (; j < columns; j++) sum = @fma(row[j], x[j], sum);
            for (int l = 0; l < w; l++) sum += s0[l];
            y[i * dy] = accumulate ? y[i * dy] + sum : sum;
        }
    } else
"""

# y = op(A) x for a row-major A; each output is one fixed sum, whatever the number of threads.
_VECTOR = """\
@lanes
STAX_BRIEF static void stax_gemv_strided_@t(int trans, int64_t rows, int64_t columns,
        const @ct *restrict a, int64_t lda, const @ct *restrict x, int64_t dx, int accumulate,
        @ct *restrict y, int64_t dy) {
    int64_t outer = trans ? columns : rows, inner = trans ? rows : columns;
    for (int64_t i = 0; i < outer; i++) {
        @ct sum = 0;
        for (int64_t j = 0; j < inner; j++)
            sum = @fma(a[trans ? j * lda + i : i * lda + j], x[j * dx], sum);
        y[i * dy] = accumulate ? y[i * dy] + sum : sum;
    }
}
static void stax_gemv_@t(int trans, int64_t rows, int64_t columns, const @ct *restrict a,
        int64_t lda, const @ct *restrict x, int64_t dx, int accumulate, @ct *restrict y,
        int64_t dy) {
@rowwise    if (trans && dy == 1) {
#pragma omp parallel for num_threads(stax_product_threads) if (parallel : rows * columns > 200000)
        for (int64_t j0 = 0; j0 < columns; j0 += 1024) {
            int64_t n = columns - j0 < 1024 ? columns - j0 : 1024;
            @ct *restrict out = y + j0;
            if (!accumulate)
                for (int64_t j = 0; j < n; j++) out[j] = 0;
            int64_t i = 0;
            for (; i + 4 <= rows; i += 4) {
                const @ct *p = x + i * dx;
                @ct s0 = p[0], s1 = p[dx], s2 = p[2 * dx], s3 = p[3 * dx];
                const @ct *restrict r0 = a + i * lda + j0, *restrict r1 = r0 + lda;
                const @ct *restrict r2 = r1 + lda, *restrict r3 = r2 + lda;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) {
                    @ct sum = @fma(s1, r1[j], @fma(s0, r0[j], out[j]));
                    out[j] = @fma(s3, r3[j], @fma(s2, r2[j], sum));
                }
            }
            for (; i < rows; i++) {
                @ct s = x[i * dx];
                const @ct *restrict row = a + i * lda + j0;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) out[j] = @fma(s, row[j], out[j]);
            }
        }
    } else
        stax_gemv_strided_@t(trans, rows, columns, a, lda, x, dx, accumulate, y, dy);
}
"""

# Without a BLAS: OpenBLAS takes 0.25 us instead of 1.5 for 16 by 16, and less from 4 by 4 on.
_SMALL = """\
    if (m <= 16 && n <= 16 && k <= 16) {
#pragma omp parallel for num_threads(stax_product_threads) \\
    if (parallel : batch * m * n * k > 100000)
        for (int64_t i = 0; i < batch; i++)
            stax_gemm_small_@t(ta, tb, m, n, k, a + i * sa, lda, b + i * sb, ldb, accumulate,
                               c + i * sc, ldc);
        return;
    }
"""
_CHOICE = """\
// C = op(A) op(B), added to C when accumulate is not 0, for `batch` products; a stride of 0
// repeats a matrix
static void stax_gemm_batch_@t(int64_t batch, int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *a, int64_t lda, int64_t sa, const @ct *b, int64_t ldb, int64_t sb,
        int accumulate, @ct *c, int64_t ldc, int64_t sc) {
@small    if (n == 1) {
        for (int64_t i = 0; i < batch; i++)
            stax_gemv_@t(ta, ta ? k : m, ta ? m : k, a + i * sa, lda, b + i * sb, tb ? 1 : ldb,
                         accumulate, c + i * sc, ldc);
    } else if (m == 1) {
        for (int64_t i = 0; i < batch; i++)
            stax_gemv_@t(!tb, tb ? n : k, tb ? k : n, b + i * sb, ldb, a + i * sa, ta ? lda : 1,
                         accumulate, c + i * sc, 1);
    } else {
        stax_gemm_large_@t(batch, ta, tb, m, n, k, a, lda, sa, b, ldb, sb, accumulate, c, ldc, sc);
    }
}
STAX_INLINE void stax_gemm_@t(int ta, int tb, int64_t m, int64_t n, int64_t k, const @ct *a,
        int64_t lda, const @ct *b, int64_t ldb, int accumulate, @ct *c, int64_t ldc) {
    stax_gemm_batch_@t(1, ta, tb, m, n, k, a, lda, 0, b, ldb, 0, accumulate, c, ldc, 0);
}
"""


# For files that are compiled elsewhere: a BLAS is a choice of whoever compiles them.
_STANDALONE = """\
#if defined(STAX_CBLAS)
#include <cblas.h>
#endif
#define STAX_MULTIPLY_ADD(x, y, z) ((z) + (x) * (y))
/* Without the instruction, fma() is a slow function of the C library. */
#if defined(__FMA__) || defined(__aarch64__)
#define STAX_FMA_f32 __builtin_fmaf
#define STAX_FMA_f64 __builtin_fma
#else
#define STAX_FMA_f32 STAX_MULTIPLY_ADD
#define STAX_FMA_f64 STAX_MULTIPLY_ADD
#endif
"""


def gemm_source(types: Iterable[str], *, use_blas: bool = True) -> str:
    """Return C text that defines `stax_gemm_<t>` and `stax_gemm_batch_<t>` for the types named.

    Types are f32, f64, c64, c128 and i8 to u64. The text needs `vecmath.PREAMBLE` before it and
    exports `stax_bind_blas(void *const *table)`, to be called once with `Blas.pointer_table()`
    before the first product; without a BLAS, or with `use_blas` off, the call is harmless. All
    matrices are row-major; `ta`, `tb` say that a matrix is stored transposed; `lda`, `ldb`, `ldc`
    are row lengths in memory, in elements. `stax_set_product_threads(int32_t)`, also exported,
    says how many threads a product may use (1 before the first call); it does not change the bits.
    """
    blas = find_blas() if use_blas else None
    wide = blas is None or blas.integer_bits == 64
    parts = [_TABLE_SOURCE % {"integer": "int64_t" if wide else "int32_t"}]
    parts.append(_THREADS if blas is not None else TILE_SIZES)
    for tag in dict.fromkeys(types):
        bound = blas is not None and tag in BLAS_TYPES
        large = LARGE_BLAS if bound else (TILED if tag in _FMA else BLOCKED) + LARGE_LOOPS
        fma = f"stax_fma_{tag}" if tag in _PARTS else "STAX_MULTIPLY_ADD"
        parts.append(_typed(tag, large, _FMA.get(tag, fma)))
    return "".join(parts)


def standalone_gemm_source(types: Iterable[str]) -> str:
    """As `gemm_source`, for real floating types, with nothing to bind and nothing exported.

    Products are plain loops in blocks, or the library of `<cblas.h>` where the macro STAX_CBLAS is
    defined; `stax_product_threads`, their number of threads, is to be defined before the text.
    """
    large = LARGE_CBLAS + TILED + LARGE_LOOPS + "#endif\n"
    parts = [_typed(tag, large, f"STAX_FMA_{tag}") for tag in types]
    return "".join([_STANDALONE, TILE_SIZES, *parts])


_FMA = {"f32": "__builtin_fmaf", "f64": "__builtin_fma"}
_PARTS = {"c64": ("float", "f"), "c128": ("double", "")}


def _typed(tag: str, large: str, fma: str) -> str:
    """The functions of one type; `large` is the one for large products."""
    real = not tag.startswith("c")
    values = {"ct": _C_TYPES[tag], "t": tag, "fma": fma}
    values |= {"lanes": _LANES if real else "", "rowwise": _ROWWISE if real else ""}
    if tag in BLAS_TYPES:
        letter, slot = BLAS_TYPES[tag]
        values |= {
            "letter": letter,
            "slot": str(slot),
            "scalar": values["ct"] if real else "const void *",
            "one": "one" if real else "&one",
            "beta": "beta" if real else "&beta",
            "real": str(int(real)),
        }
    small = large is not LARGE_BLAS
    text = (_LOOPS if small else "") + _VECTOR + large
    text += _CHOICE.replace("@small", _SMALL if small else "")
    if not real:
        text = _COMPLEX + text
        values["rt"], values["s"] = _PARTS[tag]
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"@{name}", values[name])
    return text
