/* Memory of results from a quarter of a megabyte on, kept when they die: touching fresh pages costs
   many times a pass over warm ones, and the C library returns blocks of such sizes to the system. A
   result owns its memory, as any array of NumPy's; the pool is its memory handler. Of blocks below
   POOL_LARGE at most POOL_MOST[0] bytes wait for reuse, of larger ones POOL_MOST[1]; the oldest goes
   first. Everything runs under the interpreter's lock. */

#include <stdlib.h>
#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#define POOL_SIZE(data) malloc_usable_size(data)
#elif defined(__APPLE__)
#include <malloc/malloc.h>
#define POOL_SIZE(data) malloc_size(data)
#endif

enum { POOL_SLOTS = 64 };
static const size_t POOL_LEAST = (size_t)256 << 10, POOL_LARGE = (size_t)32 << 20;
static const size_t POOL_MOST[2] = {(size_t)256 << 20, (size_t)1 << 30};
static const size_t POOL_PAGE = (size_t)2 << 20, POOL_LINE = 64;

typedef struct { void *data; size_t bytes; } Block;
static Block pool_blocks[POOL_SLOTS];   /* oldest first */
static int pool_count = 0;
static size_t pool_held[2] = {0, 0};

static void pool_remove(int at) {
    pool_held[pool_blocks[at].bytes >= POOL_LARGE] -= pool_blocks[at].bytes;
    memmove(pool_blocks + at, pool_blocks + at + 1, (pool_count - at - 1) * sizeof(Block));
    pool_count--;
}

static void pool_drop(int at) {
    void *data = pool_blocks[at].data;
    pool_remove(at);
    free(data);
}

#if defined(POOL_SIZE)
static void pool_give(void *data) {
    size_t bytes = POOL_SIZE(data);
    int large = bytes >= POOL_LARGE;
    if (bytes < POOL_LEAST || bytes > POOL_MOST[large]) {
        free(data);
        return;
    }
    while (pool_held[large] + bytes > POOL_MOST[large]) {
        int oldest = 0;
        while ((pool_blocks[oldest].bytes >= POOL_LARGE) != large) oldest++;
        pool_drop(oldest);
    }
    if (pool_count == POOL_SLOTS) pool_drop(0);
    pool_blocks[pool_count++] = (Block){data, bytes};
    pool_held[large] += bytes;
}

static void *pool_take(size_t bytes) {
    int best = -1;
    for (int i = 0; i < pool_count; i++)
        if (pool_blocks[i].bytes >= bytes && pool_blocks[i].bytes <= bytes + bytes / 4
            && (best < 0 || pool_blocks[i].bytes < pool_blocks[best].bytes))
            best = i;
    if (best >= 0) {
        void *data = pool_blocks[best].data;
        pool_remove(best);
        return data;
    }
    void *data = NULL;
    size_t line = bytes >= 2 * POOL_PAGE ? POOL_PAGE : POOL_LINE;
    if (posix_memalign(&data, line, bytes)) {
        while (pool_count) pool_drop(0);
        if (posix_memalign(&data, line, bytes)) return NULL;
    }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (line == POOL_PAGE) madvise(data, bytes, MADV_HUGEPAGE);
#endif
    return data;
}

static void *pool_malloc(void *unused, size_t bytes) {
    return bytes < POOL_LEAST ? malloc(bytes) : pool_take(bytes);
}

static void *pool_calloc(void *unused, size_t count, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) return NULL;
    void *data = pool_malloc(NULL, bytes);
    return data ? memset(data, 0, bytes) : NULL;
}

static void pool_free(void *unused, void *data, size_t bytes) {
    if (data) pool_give(data);
}

static void *pool_realloc(void *unused, void *data, size_t bytes) {
    void *moved = pool_malloc(NULL, bytes);
    if (!moved || !data) return moved;
    size_t kept = POOL_SIZE(data);
    memcpy(moved, data, kept < bytes ? kept : bytes);
    pool_give(data);
    return moved;
}

static PyDataMem_Handler pool_handler = {
    "stax_pool", 1, {NULL, pool_malloc, pool_calloc, pool_realloc, pool_free}};
static PyObject *pool_capsule = NULL;

/* A fresh C-contiguous array from the pool; steals a reference to descr. */
static PyObject *pooled_array(PyArray_Descr *descr, int nd, const npy_intp *dims) {
    if (!pool_capsule) pool_capsule = PyCapsule_New(&pool_handler, "mem_handler", NULL);
    PyObject *before = pool_capsule ? PyDataMem_SetHandler(pool_capsule) : NULL;
    if (!before) {
        Py_DECREF(descr);
        return NULL;
    }
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, NULL, 0, NULL);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *own = PyDataMem_SetHandler(before);
    Py_DECREF(before);
    Py_XDECREF(own);
    if (own) PyErr_Restore(type, value, traceback);
    else Py_CLEAR(array);
    return array;
}
#endif

/* A fresh C-contiguous array; steals a reference to descr. */
static PyObject *fresh_array(PyArray_Descr *descr, int nd, const npy_intp *dims) {
#if defined(POOL_SIZE)
    size_t bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < nd; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)dims[i], &bytes)) {
            bytes = 0;
            break;
        }
    }
    if (bytes >= POOL_LEAST && !PyDataType_REFCHK(descr)) return pooled_array(descr, nd, dims);
#endif
    return PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, NULL, 0, NULL);
}

static PyObject *pool_empty(PyObject *module, PyObject *args) {
    PyArray_Descr *descr = NULL;
    PyArray_Dims dims = {NULL, 0};
    if (!PyArg_ParseTuple(args, "O&O&", PyArray_DescrConverter, &descr, PyArray_IntpConverter,
                          &dims)) {
        Py_XDECREF(descr);
        PyDimMem_FREE(dims.ptr);
        return NULL;
    }
    PyObject *array = fresh_array(descr, dims.len, dims.ptr);
    PyDimMem_FREE(dims.ptr);
    return array;
}

static PyObject *pool_bytes(PyObject *module, PyObject *unused) {
    return PyLong_FromSize_t(pool_held[0] + pool_held[1]);
}

static PyObject *pool_clear(PyObject *module, PyObject *unused) {
    while (pool_count) pool_drop(0);
    Py_RETURN_NONE;
}
