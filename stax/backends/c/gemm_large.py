"""Large matrix products in C: calls of a BLAS in blocks, or loops of our own in blocks and tiles.

Input: nothing.  Output: the texts of which `gemm` makes `stax_gemm_large_<type>`, with `@t`, `@ct`
and the like in place of what differs from type to type.  A large product is cut into blocks that
its shape alone decides, each on one thread, so that the bits do not depend on how many there are.
"""

from __future__ import annotations

__all__ = ["BLOCKED", "LARGE_BLAS", "LARGE_CBLAS", "LARGE_LOOPS", "TILED", "TILE_SIZES"]

BLOCKED = """\
static void stax_gemm_blocked_@t(int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *restrict a, int64_t lda, const @ct *restrict b, int64_t ldb, int accumulate,
        @ct *restrict c, int64_t ldc) {
#pragma omp parallel for num_threads(stax_product_threads) if (parallel : m * n * k > 2000000)
    for (int64_t i0 = 0; i0 < m; i0 += 32) {
        @ct pack[64 * 64];
        int64_t mi = m - i0 < 32 ? m - i0 : 32;
        if (!accumulate)
            for (int64_t i = 0; i < mi; i++)
                for (int64_t j = 0; j < n; j++) c[(i0 + i) * ldc + j] = 0;
        for (int64_t p0 = 0; p0 < k; p0 += 64) {
            int64_t kp = k - p0 < 64 ? k - p0 : 64;
            for (int64_t j0 = 0; j0 < n; j0 += 64) {
                int64_t nj = n - j0 < 64 ? n - j0 : 64;
                for (int64_t p = 0; p < kp; p++)
                    for (int64_t j = 0; j < nj; j++)
                        pack[p * 64 + j] = tb ? b[(j0 + j) * ldb + p0 + p]
                                              : b[(p0 + p) * ldb + j0 + j];
                stax_gemm_small_@t(ta, 0, mi, nj, kp,
                    ta ? a + p0 * lda + i0 : a + i0 * lda + p0, lda, pack, 64, 1,
                    c + i0 * ldc + j0, ldc);
            }
        }
    }
}
"""

# Tiles of C stay in registers while packed rows of A and columns of B go by. To be compiled with
# products and sums contracted, and with as wide vectors as the machine has.
TILE_SIZES = """\
#if defined(__AVX512F__)
#define STAX_TILE_BYTES 64
#define STAX_TILE_ROWS 12
#elif defined(__AVX__)
#define STAX_TILE_BYTES 32
#define STAX_TILE_ROWS 6
#elif defined(__aarch64__)
#define STAX_TILE_BYTES 16
#define STAX_TILE_ROWS 12
#else
#define STAX_TILE_BYTES 16
#define STAX_TILE_ROWS 6
#endif
#define STAX_TILE_BLOCK 96
#define STAX_TILE_DEPTH 256
#define STAX_TILE_SPAN 512
"""

TILED = """\
typedef @ct stax_tile_@t __attribute__((vector_size(STAX_TILE_BYTES), aligned(sizeof(@ct))));
enum { stax_tile_lanes_@t = STAX_TILE_BYTES / (int)sizeof(@ct),
       stax_tile_width_@t = 2 * stax_tile_lanes_@t };
static void stax_gemm_tile_@t(int64_t k, const @ct *restrict a, const @ct *restrict b,
        @ct *restrict c, int64_t ldc, int64_t rows, int64_t columns, int first) {
    stax_tile_@t sums[STAX_TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < STAX_TILE_ROWS; i++) sums[i][0] = sums[i][1] = (stax_tile_@t){0};
    for (int64_t p = 0; p < k; p++) {
        stax_tile_@t b0 = *(const stax_tile_@t *)(b + p * stax_tile_width_@t);
        stax_tile_@t b1 = *(const stax_tile_@t *)(b + p * stax_tile_width_@t + stax_tile_lanes_@t);
#pragma GCC unroll 16
        for (int i = 0; i < STAX_TILE_ROWS; i++) {
            sums[i][0] += b0 * a[p * STAX_TILE_ROWS + i];
            sums[i][1] += b1 * a[p * STAX_TILE_ROWS + i];
        }
    }
    if (rows == STAX_TILE_ROWS && columns == stax_tile_width_@t) {
#pragma GCC unroll 16
        for (int i = 0; i < STAX_TILE_ROWS; i++)
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                stax_tile_@t *to = (stax_tile_@t *)(c + i * ldc + h * stax_tile_lanes_@t);
                *to = first ? sums[i][h] : *to + sums[i][h];
            }
        return;
    }
    @ct all[STAX_TILE_ROWS][stax_tile_width_@t];
#pragma GCC unroll 16
    for (int i = 0; i < STAX_TILE_ROWS; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            *(stax_tile_@t *)(all[i] + h * stax_tile_lanes_@t) = sums[i][h];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * ldc + j] = first ? all[i][j] : c[i * ldc + j] + all[i][j];
}
static void stax_gemm_blocked_@t(int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *restrict a, int64_t lda, const @ct *restrict b, int64_t ldb, int accumulate,
        @ct *restrict c, int64_t ldc) {
    const int64_t w = stax_tile_width_@t, h = STAX_TILE_ROWS;
    int64_t down = (m + STAX_TILE_BLOCK - 1) / STAX_TILE_BLOCK;
    int64_t across = (n + STAX_TILE_SPAN - 1) / STAX_TILE_SPAN;
#pragma omp parallel for num_threads(stax_product_threads) if (parallel : m * n * k > 2000000)
    for (int64_t block = 0; block < down * across; block++) {
        @ct left[STAX_TILE_BLOCK * STAX_TILE_DEPTH] __attribute__((aligned(64)));
        @ct right[STAX_TILE_DEPTH * stax_tile_width_@t] __attribute__((aligned(64)));
        int64_t i0 = block / across * STAX_TILE_BLOCK, s0 = block % across * STAX_TILE_SPAN;
        int64_t mi = m - i0 < STAX_TILE_BLOCK ? m - i0 : STAX_TILE_BLOCK;
        int64_t end = n - s0 < STAX_TILE_SPAN ? n : s0 + STAX_TILE_SPAN;
        for (int64_t p0 = 0; p0 < k; p0 += STAX_TILE_DEPTH) {
            int64_t kp = k - p0 < STAX_TILE_DEPTH ? k - p0 : STAX_TILE_DEPTH;
            for (int64_t i = 0; i < mi; i += h) {
                int64_t rows = mi - i < h ? mi - i : h, step = ta ? 1 : lda, next = ta ? lda : 1;
                const @ct *from = a + (i0 + i) * step + p0 * next;
                @ct *to = left + i * kp;
                if (rows == h) {
                    for (int64_t p = 0; p < kp; p++)
#pragma GCC unroll 16
                        for (int r = 0; r < STAX_TILE_ROWS; r++)
                            to[p * STAX_TILE_ROWS + r] = from[p * next + r * step];
                } else
                    for (int64_t p = 0; p < kp; p++)
                        for (int64_t r = 0; r < h; r++)
                            to[p * h + r] = r < rows ? from[p * next + r * step] : 0;
            }
            for (int64_t j0 = s0; j0 < end; j0 += w) {
                int64_t nj = end - j0 < w ? end - j0 : w;
                const @ct *from = tb ? b + j0 * ldb + p0 : b + p0 * ldb + j0;
                for (int64_t p = 0; p < kp; p++) {
                    @ct *to = right + p * w;
                    int64_t j = 0;
                    if (tb)
                        for (; j < nj; j++) to[j] = from[j * ldb + p];
                    else if (nj == w)
                        for (; j < stax_tile_width_@t; j += stax_tile_lanes_@t)
                            *(stax_tile_@t *)(to + j) = *(const stax_tile_@t *)(from + p * ldb + j);
                    else
                        for (; j < nj; j++) to[j] = from[p * ldb + j];
                    for (; j < w; j++) to[j] = 0;
                }
                for (int64_t i = 0; i < mi; i += h)
                    stax_gemm_tile_@t(kp, left + i * kp, right, c + (i0 + i) * ldc + j0, ldc,
                        mi - i < h ? mi - i : h, nj, p0 == 0 && !accumulate);
            }
        }
        if (k == 0 && !accumulate)
            for (int64_t i = 0; i < mi; i++)
                for (int64_t j = s0; j < end; j++) c[(i0 + i) * ldc + j] = 0;
    }
}
"""

# The blocks of a large product: 256 rows or columns and more, about 16 blocks; or as many as there
# are threads, where the library shows that cuts change no bit of a product. Each cut makes it pack
# one of the operands once more, a tenth of the time of a product. What does
# nothing but call the library is compiled briefly. For a matrix with few columns (or rows) the
# library packs as much as it multiplies, but not up to a million products: blocks of that size take
# 0.8 of the time for 10 columns, 0.4 for 4.
LARGE_BLAS = """\
typedef void (*stax_blas_product_@t)(int, int, int, stax_blas_int, stax_blas_int, stax_blas_int,
    @scalar, const @ct *, stax_blas_int, const @ct *, stax_blas_int, @scalar, @ct *, stax_blas_int);
static int stax_cuts_show_@t = -1;
STAX_BRIEF static int stax_try_cuts_@t(void) {
    extern void *malloc(size_t);
    extern void free(void *);
    enum { M = 272, N = 288, K = 400, ROW = 128, COLUMN = 144 };
    @ct *a = malloc(sizeof(@ct) * (M * K + K * N + 2 * M * N));
    if (!a) return 1;
    @ct *b = a + M * K, *c = b + K * N, *d = c + M * N, one = 1, beta = 0;
    uint32_t seed = 1;
    for (int64_t i = 0; i < M * K + K * N; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = (@ct)((double)(int32_t)seed / 2147483648.0);
    }
    stax_blas_product_@t product = (stax_blas_product_@t)stax_blas[@slot];
    product(101, 111, 111, M, N, K, @one, a, K, b, N, @beta, c, N);
    for (int64_t i = 0; i < M; i += i ? M : ROW)
        for (int64_t j = 0; j < N; j += COLUMN)
            product(101, 111, 111, i ? M - ROW : ROW, COLUMN, K, @one, a + i * K, K, b + j, N,
                @beta, d + i * N + j, N);
    int show = 0;
    for (int64_t i = 0; i < M * N; i++) show |= c[i] != d[i];
    free(a);
    return show;
}
STAX_INLINE void stax_gemm_block_@t(int64_t block, int64_t rows, int64_t columns, int ta, int tb,
        int64_t m, int64_t n, int64_t k, const @ct *a, int64_t lda, int64_t sa, const @ct *b,
        int64_t ldb, int64_t sb, int accumulate, @ct *c, int64_t ldc, int64_t sc) {
    @ct one = 1, beta = accumulate ? 1 : 0;
    int64_t r = block % rows, q = block / rows % columns, i = block / (rows * columns);
    int64_t r0 = m * r / rows & -16, r1 = r + 1 < rows ? m * (r + 1) / rows & -16 : m;
    int64_t q0 = n * q / columns & -16, q1 = q + 1 < columns ? n * (q + 1) / columns & -16 : n;
    ((stax_blas_product_@t)stax_blas[@slot])(101, ta ? 112 : 111, tb ? 112 : 111,
        r1 - r0, q1 - q0, k, @one,
        a + i * sa + (ta ? r0 : r0 * lda), lda, b + i * sb + (tb ? q0 * ldb : q0), ldb,
        @beta, c + i * sc + r0 * ldc + q0, ldc);
}
STAX_BRIEF static void stax_gemm_large_@t(int64_t batch, int ta, int tb, int64_t m, int64_t n,
        int64_t k, const @ct *a, int64_t lda, int64_t sa, const @ct *b, int64_t ldb, int64_t sb,
        int accumulate, @ct *c, int64_t ldc, int64_t sc) {
    if (k == 0) {
        for (int64_t i = 0; i < batch && !accumulate; i++)
            for (int64_t r = 0; r < m; r++)
                for (int64_t j = 0; j < n; j++) c[i * sc + r * ldc + j] = 0;
        return;
    }
    int64_t rows = 1, columns = 1;
    int64_t products = m * n * k;
    int narrow = @real && !tb && (m < n ? m : n) <= 12 && k <= 1024 && products > 1000000
        && products < 16000000;
    if (products >= 16000000) {
        rows = m >= 512 ? m / 256 : 1;
        columns = n >= 512 && rows < 16 ? n / 256 : 1;
        if (columns > 16 / rows && columns > 1) columns = 16 / rows;
    }
    stax_blas_enter();
    int64_t parts = (stax_product_threads + batch - 1) / batch;
    if (narrow) {
        int64_t blocks = (products + 899999) / 900000;
        if (m >= n) rows = blocks;
        else columns = blocks;
    } else if (parts < rows * columns && parts * 128 <= (m >= n ? m : n)) {
        if (stax_cuts_show_@t < 0) stax_cuts_show_@t = stax_try_cuts_@t();
        if (!stax_cuts_show_@t) rows = m >= n ? parts : 1, columns = m >= n ? 1 : parts;
    }
    int64_t blocks = batch * rows * columns;
    /* A region of one thread costs as much as a product of 16 by 16. */
    if (stax_product_threads > 1 && blocks > 1 && batch * m * n * k > 1000000) {
#pragma omp parallel for num_threads(stax_product_threads)
        for (int64_t block = 0; block < blocks; block++)
            stax_gemm_block_@t(block, rows, columns, ta, tb, m, n, k, a, lda, sa, b, ldb, sb,
                accumulate, c, ldc, sc);
    } else {
        for (int64_t block = 0; block < blocks; block++)
            stax_gemm_block_@t(block, rows, columns, ta, tb, m, n, k, a, lda, sa, b, ldb, sb,
                accumulate, c, ldc, sc);
    }
    stax_blas_leave();
}
"""

LARGE_LOOPS = """\
static void stax_gemm_large_@t(int64_t batch, int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *a, int64_t lda, int64_t sa, const @ct *b, int64_t ldb, int64_t sb,
        int accumulate, @ct *c, int64_t ldc, int64_t sc) {
    for (int64_t i = 0; i < batch; i++)
        stax_gemm_blocked_@t(ta, tb, m, n, k, a + i * sa, lda, b + i * sb, ldb, accumulate,
                             c + i * sc, ldc);
}
"""

LARGE_CBLAS = """\
#if defined(STAX_CBLAS)
static void stax_gemm_large_@t(int64_t batch, int ta, int tb, int64_t m, int64_t n, int64_t k,
        const @ct *a, int64_t lda, int64_t sa, const @ct *b, int64_t ldb, int64_t sb,
        int accumulate, @ct *c, int64_t ldc, int64_t sc) {
    for (int64_t i = 0; i < batch; i++) {
        if (k == 0)
            stax_gemm_small_@t(0, 0, m, n, 0, a, lda, b, ldb, accumulate, c + i * sc, ldc);
        else
            cblas_@lettergemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                tb ? CblasTrans : CblasNoTrans, m, n, k, 1, a + i * sa, lda, b + i * sb, ldb,
                accumulate ? 1 : 0, c + i * sc, ldc);
    }
}
#else
"""
