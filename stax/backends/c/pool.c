/* Memory of large results, kept when they die: touching fresh pages costs many times a pass over
   warm ones, and the C library returns blocks of this size to the system at once. A result of at
   least POOL_LEAST bytes lives in a block owned by a capsule, its base object; the capsule's end
   puts the block back. At most POOL_MOST bytes wait for reuse; the oldest block goes first. */

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { POOL_SLOTS = 16 };
static const size_t POOL_LEAST = (size_t)32 << 20, POOL_MOST = (size_t)1 << 30;
static const size_t POOL_PAGE = (size_t)2 << 20;

typedef struct { void *data; size_t bytes; } Block;
static Block pool_blocks[POOL_SLOTS];   /* oldest first */
static int pool_count = 0;
static size_t pool_held = 0;

static void pool_remove(int at) {
    pool_held -= pool_blocks[at].bytes;
    memmove(pool_blocks + at, pool_blocks + at + 1, (pool_count - at - 1) * sizeof(Block));
    pool_count--;
}

static void pool_drop_oldest(void) {
    void *data = pool_blocks[0].data;
    pool_remove(0);
    free(data);
}

static void pool_give(void *data, size_t bytes) {
    if (bytes > POOL_MOST) {
        free(data);
        return;
    }
    while (pool_count && (pool_count == POOL_SLOTS || pool_held + bytes > POOL_MOST))
        pool_drop_oldest();
    pool_blocks[pool_count++] = (Block){data, bytes};
    pool_held += bytes;
}

static void *pool_take(size_t *bytes) {
    int best = -1;
    for (int i = 0; i < pool_count; i++)
        if (pool_blocks[i].bytes >= *bytes && pool_blocks[i].bytes <= *bytes + *bytes / 4
            && (best < 0 || pool_blocks[i].bytes < pool_blocks[best].bytes))
            best = i;
    if (best >= 0) {
        Block block = pool_blocks[best];
        pool_remove(best);
        *bytes = block.bytes;
        return block.data;
    }
    void *data = NULL;
    *bytes = (*bytes + POOL_PAGE - 1) / POOL_PAGE * POOL_PAGE;
    if (posix_memalign(&data, POOL_PAGE, *bytes)) {
        while (pool_count) pool_drop_oldest();
        if (posix_memalign(&data, POOL_PAGE, *bytes)) return NULL;
    }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(data, *bytes, MADV_HUGEPAGE);
#endif
    return data;
}

static void pool_capsule_end(PyObject *capsule) {
    void *data = PyCapsule_GetPointer(capsule, NULL);
    if (data) pool_give(data, (size_t)(uintptr_t)PyCapsule_GetContext(capsule));
}

/* A fresh C-contiguous array; steals a reference to descr. */
static PyObject *fresh_array(PyArray_Descr *descr, int nd, const npy_intp *dims) {
    size_t bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < nd; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)dims[i], &bytes)) {
            bytes = 0;
            break;
        }
    }
    if (bytes < POOL_LEAST || PyDataType_REFCHK(descr))
        return PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, NULL, 0, NULL);
    void *data = pool_take(&bytes);
    if (!data) {
        Py_DECREF(descr);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(data, NULL, pool_capsule_end);
    if (!capsule) {
        Py_DECREF(descr);
        pool_give(data, bytes);
        return NULL;
    }
    PyCapsule_SetContext(capsule, (void *)(uintptr_t)bytes);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, data,
                                           NPY_ARRAY_CARRAY, NULL);
    if (!array) {
        Py_DECREF(capsule);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, capsule) < 0) Py_CLEAR(array);
    return array;
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
    return PyLong_FromSize_t(pool_held);
}

static PyObject *pool_clear(PyObject *module, PyObject *unused) {
    while (pool_count) pool_drop_oldest();
    Py_RETURN_NONE;
}
