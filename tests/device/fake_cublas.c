/* cuBLAS without a device: column-major products on host memory, for tests. */
#include <stdlib.h>

static int calls, fail, refused;
int fake_cublas_calls(void) { return calls; }
void fake_cublas_fail(int code) { fail = code; }

void fake_cublas_refuse(int times) { refused = times; }
int cublasCreate_v2(void **handle) { *handle = malloc(8); return refused-- > 0 ? 3 : 0; }
int cublasSetStream_v2(void *handle, void *stream) { return !handle || (long)stream / 16 != 1; }
int cublasSetMathMode(void *handle, int mode) { return !handle || mode; }
int cublasSetWorkspace_v2(void *handle, void *work, size_t size) { return !handle || !work || !size; }

#define AT(x, trans, ld, r, c) x[(trans) ? (c) + (size_t)(r) * (ld) : (r) + (size_t)(c) * (ld)]
#define RUN(T)                                                                                   \
    for (int b = 0; b < batch; b++) {                                                            \
        const T *x = (const T *)A + b * sa, *y = (const T *)B + b * sb;                          \
        T *z = (T *)C + b * sc;                                                                  \
        for (int j = 0; j < n; j++)                                                              \
            for (int i = 0; i < m; i++) {                                                        \
                double sum = 0;                                                                  \
                for (int l = 0; l < k; l++) sum += (double)AT(x, ta, lda, i, l) * AT(y, tb, ldb, l, j); \
                z[i + (size_t)j * ldc] = (T)(*(const T *)alpha * sum);                           \
            }                                                                                    \
    }

int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k,
                               const void *alpha, const void *A, int at, int lda, long long sa,
                               const void *B, int bt, int ldb, long long sb, const void *beta,
                               void *C, int ct, int ldc, long long sc, int batch, int compute,
                               int algorithm) {
    (void)beta; (void)algorithm;
    if (fail) { int code = fail; fail = 0; return code; }
    if (!handle || at != bt || at != ct || compute != (at ? 70 : 68)) return 7;
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;
    calls++;
    if (at == 0) { RUN(float) } else if (at == 1) { RUN(double) } else return 15;
    return 0;
}
