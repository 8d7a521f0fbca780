/* The dispatcher: a callable that recognises its arguments and runs a compiled program on them.

   A Dispatcher holds entries. An entry describes one signature (a tree of exact tuples, lists and
   dicts whose leaves are arrays of given dtype and shape, Python scalars, NumPy scalars, None or
   static values), the address of a C function, and the tree of its results. A call walks the
   arguments against the entries; the first that matches allocates the results and runs. Anything
   else goes to the slow path, a Python callable. See dispatch.py for the Python interface. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

/* pool.c stands here: fresh_array, pool_empty, pool_bytes, pool_clear */

/* What runs once a signature is left as it is written: half of the compiler's time. A call runs the
   parts between WARM and COLD. */
#if !defined(__clang__) && __GNUC__ >= 12
#define COLD _Pragma("GCC optimize(\"O0\")")
#define WARM _Pragma("GCC reset_options")
#else
#define COLD
#define WARM
#endif

COLD
/* subscript.c stands here: subscript_hold, set_subscript */

enum { N_ARRAY, N_FLOAT, N_INT, N_BOOL, N_COMPLEX, N_SCALAR, N_NONE, N_TUPLE, N_LIST, N_DICT, N_STATIC,
       N_NAMED, N_CUSTOM, N_CONST, N_CALL };
enum { MAX_DEPTH = 64, STACK_LEAVES = 64, STACK_OUTPUTS = 32 };

typedef int32_t (*run_function)(void **inputs, void **outputs, void *context);

typedef struct {
    uint8_t kind;
    int type_num;        /* arrays: dtype; dicts: whether a key is no str */
    int nd;              /* arrays: dimensions; containers: children; results: number */
    npy_intp *dims;
    PyObject *ref;       /* dict: keys; static: value; scalar, named: type; call: callable;
                            custom: (type, what is not a child) */
} Node;

typedef struct {
    PyArray_Descr *descr;
    int nd;
    int donor;           /* leaf whose memory this result takes over, or -1 */
    npy_intp *dims;
} Result;

typedef struct {
    Py_ssize_t refs;
    Py_ssize_t positional;
    PyObject *names;     /* sorted keyword names, or NULL */
    Node *nodes;
    Py_ssize_t node_count;
    Py_ssize_t leaf_count;
    Result *results;
    Py_ssize_t result_count;
    Node *tree;
    Py_ssize_t tree_count;
    PyObject **constants;
    Py_ssize_t constant_count;
    run_function run;
    PyObject *python_run; /* callable(inputs, outputs) instead of run */
    void *context;
    size_t workspace_bytes;
    void *workspace;     /* kept between calls; NULL while in use */
    int release_gil;
    PyObject *on_error;
    PyObject *keep_alive;
} Entry;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *slow_path;
    PyObject *dict;
    PyObject *weakrefs;
    Entry **entries;
    Py_ssize_t entry_count;
    Py_ssize_t capacity;
    Py_ssize_t hits;
    Py_ssize_t misses;
} Dispatcher;

static PyTypeObject DispatcherType;
static PyObject *flatten_node = NULL; /* value -> (children, the rest), None for a leaf */
static _Thread_local long trace_depth = 0;

/* ------------------------------------------------------------------------------- the entries */

static void nodes_free(Node *nodes, Py_ssize_t count) {
    for (Py_ssize_t i = 0; nodes && i < count; i++) {
        Py_XDECREF(nodes[i].ref);
        PyMem_Free(nodes[i].dims);
    }
    PyMem_Free(nodes);
}

static void entry_free(Entry *entry) {
    Py_XDECREF(entry->names);
    nodes_free(entry->nodes, entry->node_count);
    nodes_free(entry->tree, entry->tree_count);
    for (Py_ssize_t i = 0; i < entry->result_count; i++) {
        Py_XDECREF(entry->results[i].descr);
        PyMem_Free(entry->results[i].dims);
    }
    PyMem_Free(entry->results);
    for (Py_ssize_t i = 0; i < entry->constant_count; i++) Py_XDECREF(entry->constants[i]);
    PyMem_Free(entry->constants);
    Py_XDECREF(entry->python_run);
    Py_XDECREF(entry->on_error);
    Py_XDECREF(entry->keep_alive);
    PyMem_RawFree(entry->workspace);
    PyMem_Free(entry);
}

static int entry_visit(Entry *entry, visitproc visit, void *arg) {
    Py_VISIT(entry->python_run);
    Py_VISIT(entry->on_error);
    Py_VISIT(entry->keep_alive);
    for (Py_ssize_t i = 0; i < entry->node_count; i++) Py_VISIT(entry->nodes[i].ref);
    for (Py_ssize_t i = 0; i < entry->tree_count; i++) Py_VISIT(entry->tree[i].ref);
    return 0;
}

/* A growing list of nodes. */
typedef struct { Node *items; Py_ssize_t count, room; Py_ssize_t leaves; } Nodes;

static Node *nodes_add(Nodes *nodes, int kind) {
    if (nodes->count == nodes->room) {
        Py_ssize_t room = nodes->room ? nodes->room * 2 : 16;
        Node *items = PyMem_Realloc(nodes->items, room * sizeof(Node));
        if (!items) { PyErr_NoMemory(); return NULL; }
        nodes->items = items;
        nodes->room = room;
    }
    Node *node = &nodes->items[nodes->count++];
    memset(node, 0, sizeof *node);
    node->kind = (uint8_t)kind;
    return node;
}

static int plain_type_num(int type_num) {
    return (type_num >= NPY_BOOL && type_num <= NPY_CLONGDOUBLE) || type_num == NPY_HALF
        || type_num >= NPY_USERDEF;
}

static int usable_array(PyArrayObject *array) {
    return PyArray_ISNOTSWAPPED(array) && plain_type_num(PyArray_TYPE(array));
}

static int is_named_tuple(PyObject *value) {
    return PyTuple_Check(value) && !PyTuple_CheckExact(value)
        && PyObject_HasAttrString((PyObject *)Py_TYPE(value), "_fields");
}

/* Append the description of one argument. 0 on success, 1 when it has no fast path, -1 on error. */
static int describe_custom(Nodes *nodes, PyObject *value, int depth);

static int describe(Nodes *nodes, PyObject *value, int depth) {
    if (depth > MAX_DEPTH) return 1;
    if (PyArray_CheckExact(value)) {
        PyArrayObject *array = (PyArrayObject *)value;
        if (!usable_array(array)) return 1;
        Node *node = nodes_add(nodes, N_ARRAY);
        if (!node) return -1;
        node->type_num = PyArray_TYPE(array);
        node->nd = PyArray_NDIM(array);
        node->dims = PyMem_Malloc((node->nd ? node->nd : 1) * sizeof(npy_intp));
        if (!node->dims) { PyErr_NoMemory(); return -1; }
        memcpy(node->dims, PyArray_DIMS(array), node->nd * sizeof(npy_intp));
        nodes->leaves++;
        return 0;
    }
    int kind = PyFloat_CheckExact(value) ? N_FLOAT : PyBool_Check(value) ? N_BOOL
        : PyLong_CheckExact(value) ? N_INT : PyComplex_CheckExact(value) ? N_COMPLEX : -1;
    if (kind == N_INT) {
        int overflow;
        PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return 1;
    }
    if (kind >= 0) {
        nodes->leaves++;
        return nodes_add(nodes, kind) ? 0 : -1;
    }
    if (value == Py_None) return nodes_add(nodes, N_NONE) ? 0 : -1;
    if (PyArray_CheckScalar(value) && !PyArray_Check(value)) {
        PyArray_Descr *descr = PyArray_DescrFromScalar(value);
        if (!descr) { PyErr_Clear(); return 1; }
        int plain = plain_type_num(descr->type_num) && descr->type_num < NPY_USERDEF
            && descr->type_num != NPY_LONGDOUBLE && descr->type_num != NPY_CLONGDOUBLE;
        int type_num = descr->type_num;
        Py_DECREF(descr);
        if (!plain) return 1;
        Node *node = nodes_add(nodes, N_SCALAR);
        if (!node) return -1;
        node->type_num = type_num;
        node->ref = Py_NewRef((PyObject *)Py_TYPE(value));
        nodes->leaves++;
        return 0;
    }
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || is_named_tuple(value)) {
        int list = PyList_CheckExact(value);
        Py_ssize_t count = list ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
        int exact = list || PyTuple_CheckExact(value);
        Node *node = nodes_add(nodes, list ? N_LIST : exact ? N_TUPLE : N_NAMED);
        if (!node) return -1;
        node->nd = (int)count;
        if (!exact) node->ref = Py_NewRef((PyObject *)Py_TYPE(value));
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *item = list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
            int status = describe(nodes, item, depth + 1);
            if (status) return status;
        }
        return 0;
    }
    if (PyDict_CheckExact(value)) {
        PyObject *keys = PyDict_Keys(value);
        if (!keys) return -1;
        if (PyList_Sort(keys) < 0) {
            PyErr_Clear();
            Py_DECREF(keys);
            return 1;
        }
        Node *node = nodes_add(nodes, N_DICT);
        if (!node) { Py_DECREF(keys); return -1; }
        node->nd = (int)PyList_GET_SIZE(keys);
        node->ref = PyList_AsTuple(keys);
        Py_DECREF(keys);
        if (!node->ref) return -1;
        PyObject *names = node->ref;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
            node->type_num |= !PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
            PyObject *item = PyDict_GetItemWithError(value, PyTuple_GET_ITEM(names, i));
            if (!item) return PyErr_Occurred() ? -1 : 1;
            int status = describe(nodes, item, depth + 1);
            if (status) return status;
        }
        return 0;
    }
    return describe_custom(nodes, value, depth);
}

/* The children and the rest of a value of a registered class; NULL without an error for a leaf. */
static PyObject *parts_of(PyObject *value) {
    if (!flatten_node) return NULL;
    PyObject *parts = PyObject_CallOneArg(flatten_node, value);
    if (parts && (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) != 2
                  || !PyTuple_CheckExact(PyTuple_GET_ITEM(parts, 0))))
        Py_CLEAR(parts);
    return parts;
}

static int describe_custom(Nodes *nodes, PyObject *value, int depth) {
    PyObject *parts = parts_of(value);
    if (!parts) {  /* the slow way meets the error again */
        PyErr_Clear();
        return 1;
    }
    PyObject *children = PyTuple_GET_ITEM(parts, 0);
    Node *node = nodes_add(nodes, N_CUSTOM);
    int status = -1;
    if (node) {
        node->nd = (int)PyTuple_GET_SIZE(children);
        node->ref = PyTuple_Pack(2, Py_TYPE(value), PyTuple_GET_ITEM(parts, 1));
        status = node->ref ? 0 : -1;
    }
    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(children); i++)
        status = describe(nodes, PyTuple_GET_ITEM(children, i), depth + 1);
    Py_DECREF(parts);
    return status;
}

static int describe_static(Nodes *nodes, PyObject *value) {
    Node *node = nodes_add(nodes, N_STATIC);
    if (!node) return -1;
    node->ref = Py_NewRef(value);
    return 0;
}

WARM
/* ---------------------------------------------------------------------------------- matching */

static inline void entry_release(Entry *entry) {
    if (entry && --entry->refs <= 0) entry_free(entry);
}

typedef struct {
    void **inputs;
    PyObject **owners;   /* the object behind each leaf, borrowed */
    int64_t *slots;      /* two words for each leaf: values of scalars */
    Py_ssize_t count;
    PyObject *held;      /* a list that keeps the children of registered classes, or NULL */
    int scattered;       /* whether a leaf is an array that programs cannot read as it lies */
} Leaves;

static inline int is_dense(PyArrayObject *array) {
    int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    return (PyArray_FLAGS(array) & wanted) == wanted;
}

static int same_static(PyObject *known, PyObject *value) {
    if (known == value) return 1;
    if (Py_TYPE(known) != Py_TYPE(value)) return 0;
    if (PyFloat_Check(known)) {
        double a = PyFloat_AS_DOUBLE(known), b = PyFloat_AS_DOUBLE(value);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyTuple_Check(known)) {  /* (1,), (1.0,) and (True,) are equal and not the same constant */
        Py_ssize_t size = PyTuple_GET_SIZE(known);
        if (PyTuple_GET_SIZE(value) != size) return 0;
        for (Py_ssize_t i = 0; i < size; i++)
            if (!same_static(PyTuple_GET_ITEM(known, i), PyTuple_GET_ITEM(value, i))) return 0;
        return 1;
    }
    if (PyComplex_Check(known) || PyArray_IsScalar(known, Inexact)) {  /* signs of zeros count */
        PyObject *a = PyObject_Repr(known), *b = PyObject_Repr(value);
        int same = a && b && PyUnicode_Compare(a, b) == 0;
        Py_XDECREF(a);
        Py_XDECREF(b);
        if (PyErr_Occurred()) PyErr_Clear();
        return same;
    }
    int equal = PyObject_RichCompareBool(known, value, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
}

/* Whether a dict has the very keys: 1, 1.0 and True find the same item. */
static int same_keys(PyObject *known, PyObject *dict) {
    PyObject *keys = PyDict_Keys(dict);
    Py_ssize_t count = PyTuple_GET_SIZE(known), i = 0;
    if (!keys || PyList_Sort(keys) < 0) PyErr_Clear();
    else if (PyList_GET_SIZE(keys) == count)
        while (i < count && same_static(PyTuple_GET_ITEM(known, i), PyList_GET_ITEM(keys, i))) i++;
    Py_XDECREF(keys);
    return i == count;
}

/* Match one argument against its description; returns the node after it, or NULL. */
static const Node *match(const Node *node, PyObject *value, Leaves *leaves) {
    const Node *next = node + 1;
    void *data;
    switch (node->kind) {
    case N_ARRAY: {
        if (!PyArray_CheckExact(value)) return NULL;
        PyArrayObject *array = (PyArrayObject *)value;
        if (PyArray_TYPE(array) != node->type_num || PyArray_NDIM(array) != node->nd
            || !PyArray_ISNOTSWAPPED(array))
            return NULL;
        const npy_intp *dims = PyArray_DIMS(array);
        for (int i = 0; i < node->nd; i++)
            if (dims[i] != node->dims[i]) return NULL;
        data = PyArray_DATA(array);
        leaves->scattered |= !is_dense(array);
        break;
    }
    case N_FLOAT: {
        if (!PyFloat_CheckExact(value)) return NULL;
        double number = PyFloat_AS_DOUBLE(value);
        data = leaves->slots + 2 * leaves->count;
        memcpy(data, &number, sizeof number);
        break;
    }
    case N_INT: {
        if (!PyLong_CheckExact(value)) return NULL;
        int overflow;
        int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return NULL;
        data = leaves->slots + 2 * leaves->count;
        memcpy(data, &number, sizeof number);
        break;
    }
    case N_BOOL: {
        if (!PyBool_Check(value)) return NULL;
        data = leaves->slots + 2 * leaves->count;
        *(uint8_t *)data = value == Py_True;
        break;
    }
    case N_COMPLEX: {
        if (!PyComplex_CheckExact(value)) return NULL;
        Py_complex number = ((PyComplexObject *)value)->cval;
        data = leaves->slots + 2 * leaves->count;
        memcpy(data, &number, sizeof number);
        break;
    }
    case N_SCALAR:
        if ((PyObject *)Py_TYPE(value) != node->ref) return NULL;
        data = leaves->slots + 2 * leaves->count;
        PyArray_ScalarAsCtype(value, data);
        break;
    case N_NONE:
        return value == Py_None ? next : NULL;
    case N_STATIC:
        return same_static(node->ref, value) ? next : NULL;
    case N_TUPLE:
        if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != node->nd) return NULL;
        for (int i = 0; i < node->nd && next; i++)
            next = match(next, PyTuple_GET_ITEM(value, i), leaves);
        return next;
    case N_NAMED:
        if ((PyObject *)Py_TYPE(value) != node->ref || PyTuple_GET_SIZE(value) != node->nd)
            return NULL;
        for (int i = 0; i < node->nd && next; i++)
            next = match(next, PyTuple_GET_ITEM(value, i), leaves);
        return next;
    case N_CUSTOM: {
        if ((PyObject *)Py_TYPE(value) != PyTuple_GET_ITEM(node->ref, 0)) return NULL;
        PyObject *parts = parts_of(value);
        if (parts && !leaves->held) leaves->held = PyList_New(0);
        int kept = parts && leaves->held && PyList_Append(leaves->held, parts) == 0;
        Py_XDECREF(parts);
        if (!kept) {  /* the slow way meets the error again */
            PyErr_Clear();
            return NULL;
        }
        PyObject *children = PyTuple_GET_ITEM(parts, 0);
        if (PyTuple_GET_SIZE(children) != node->nd
            || !same_static(PyTuple_GET_ITEM(node->ref, 1), PyTuple_GET_ITEM(parts, 1)))
            return NULL;
        for (int i = 0; i < node->nd && next; i++)
            next = match(next, PyTuple_GET_ITEM(children, i), leaves);
        return next;
    }
    case N_LIST: {
        if (!PyList_CheckExact(value)) return NULL;
        for (int i = 0; i < node->nd && next; i++) {
            if (PyList_GET_SIZE(value) != node->nd) return NULL;
            next = match(next, PyList_GET_ITEM(value, i), leaves);
        }
        return PyList_GET_SIZE(value) == node->nd ? next : NULL;
    }
    case N_DICT: {
        if (!PyDict_CheckExact(value) || PyDict_GET_SIZE(value) != node->nd) return NULL;
        if (node->type_num && !same_keys(node->ref, value)) return NULL;
        for (int i = 0; i < node->nd && next; i++) {
            PyObject *item = PyDict_GetItemWithError(value, PyTuple_GET_ITEM(node->ref, i));
            if (!item) {
                PyErr_Clear();
                return NULL;
            }
            next = match(next, item, leaves);
        }
        return next;
    }
    default:
        return NULL;
    }
    leaves->inputs[leaves->count] = data;
    leaves->owners[leaves->count++] = value;
    return next;
}

static int match_entry(const Entry *entry, PyObject *const *args, Py_ssize_t positional,
                       PyObject *names, Leaves *leaves) {
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    Py_ssize_t known = entry->names ? PyTuple_GET_SIZE(entry->names) : 0;
    if (positional != entry->positional || named != known) return 0;
    leaves->count = leaves->scattered = 0;
    const Node *node = entry->nodes;
    for (Py_ssize_t i = 0; i < positional; i++)
        if (!(node = match(node, args[i], leaves))) return 0;
    for (Py_ssize_t i = 0; i < known; i++) {
        PyObject *name = PyTuple_GET_ITEM(entry->names, i);
        Py_ssize_t at = 0;
        while (at < named && PyTuple_GET_ITEM(names, at) != name) at++;
        if (at == named)
            for (at = 0; at < named; at++)
                if (PyUnicode_Compare(PyTuple_GET_ITEM(names, at), name) == 0) break;
        if (at == named || !(node = match(node, args[positional + at], leaves))) return 0;
    }
    return 1;
}

/* ---------------------------------------------------------------------------------- results */

/* Build one result from its template; advances *at past it. New reference. */
static PyObject *build(const Node **at, PyObject **results) {
    const Node *node = (*at)++;
    switch (node->kind) {
    case N_ARRAY:
        return Py_NewRef(results[node->nd]);
    case N_NONE:
        Py_RETURN_NONE;
    case N_CONST:
        return Py_NewRef(node->ref);
    case N_LIST: {
        PyObject *list = PyList_New(node->nd);
        for (int i = 0; list && i < node->nd; i++) {
            PyObject *item = build(at, results);
            if (!item) Py_CLEAR(list);
            else PyList_SET_ITEM(list, i, item);
        }
        return list;
    }
    case N_DICT: {
        PyObject *dict = PyDict_New();
        for (int i = 0; dict && i < node->nd; i++) {
            PyObject *item = build(at, results);
            if (!item || PyDict_SetItem(dict, PyTuple_GET_ITEM(node->ref, i), item) < 0)
                Py_CLEAR(dict);
            Py_XDECREF(item);
        }
        return dict;
    }
    default: { /* N_TUPLE, N_CALL */
        PyObject *tuple = PyTuple_New(node->nd);
        for (int i = 0; tuple && i < node->nd; i++) {
            PyObject *item = build(at, results);
            if (!item) Py_CLEAR(tuple);
            else PyTuple_SET_ITEM(tuple, i, item);
        }
        if (!tuple || node->kind == N_TUPLE) return tuple;
        PyObject *made = PyObject_Call(node->ref, tuple, NULL);
        Py_DECREF(tuple);
        return made;
    }
    }
}

static void *aligned_workspace(void *block) {
    return (void *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
}

static PyObject *run_python(const Entry *entry, const Leaves *leaves, PyObject **results) {
    PyObject *inputs = PyList_New(leaves->count + entry->constant_count);
    PyObject *outputs = PyList_New(entry->result_count);
    PyObject *answer = NULL;
    if (inputs && outputs) {
        for (Py_ssize_t i = 0; i < leaves->count; i++)
            PyList_SET_ITEM(inputs, i, Py_NewRef(leaves->owners[i]));
        for (Py_ssize_t i = 0; i < entry->constant_count; i++)
            PyList_SET_ITEM(inputs, leaves->count + i, Py_NewRef(entry->constants[i]));
        for (Py_ssize_t i = 0; i < entry->result_count; i++)
            PyList_SET_ITEM(outputs, i, Py_NewRef(results[i]));
        answer = PyObject_CallFunctionObjArgs(entry->python_run, inputs, outputs, NULL);
    }
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    return answer;
}

/* Whether a result may live in its donor's memory: writable, alike, and nobody else's input. */
static int may_take_over(const Result *result, const Leaves *leaves) {
    PyObject *owner = leaves->owners[result->donor];
    if (!PyArray_CheckExact(owner)) return 0;
    PyArrayObject *array = (PyArrayObject *)owner;
    if (!PyArray_ISWRITEABLE(array) || PyArray_TYPE(array) != result->descr->type_num
        || PyArray_NDIM(array) != result->nd
        || !PyArray_CompareLists(PyArray_DIMS(array), result->dims, result->nd))
        return 0;
    char *begin = PyArray_BYTES(array), *end = begin + PyArray_NBYTES(array);
    for (Py_ssize_t i = 0; i < leaves->count; i++) {
        if (i == result->donor || !PyArray_CheckExact(leaves->owners[i])) continue;
        PyArrayObject *other = (PyArrayObject *)leaves->owners[i];
        if (PyArray_BYTES(other) < end && begin < PyArray_BYTES(other) + PyArray_NBYTES(other))
            return 0;
    }
    return 1;
}

/* Put copies in the places of arrays that programs cannot read as they lie: 0, or -1 on error. */
static int gather(Leaves *leaves) {
    if (!leaves->held && !(leaves->held = PyList_New(0))) return -1;
    /* Copying lets other threads run, which may drop an array from a list: hold the leaves. */
    for (Py_ssize_t i = 0; i < leaves->count; i++)
        if (PyList_Append(leaves->held, leaves->owners[i]) < 0) return -1;
    for (Py_ssize_t i = 0; i < leaves->count; i++) {
        PyArrayObject *array = (PyArrayObject *)leaves->owners[i];
        if (!PyArray_CheckExact(array) || is_dense(array)) continue;
        PyArray_Descr *descr = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(array));
        PyObject *copy = fresh_array(descr, PyArray_NDIM(array), PyArray_DIMS(array));
        int failed = !copy || PyArray_CopyInto((PyArrayObject *)copy, array) < 0
            || PyList_Append(leaves->held, copy) < 0;
        Py_XDECREF(copy);
        if (failed) return -1;
        leaves->owners[i] = copy;
        leaves->inputs[i] = PyArray_DATA((PyArrayObject *)copy);
    }
    return 0;
}

/* Run a matched entry. New reference, or NULL with an error set. */
static PyObject *run_entry(Entry *entry, Leaves *leaves) {
    PyObject *small_results[STACK_OUTPUTS];
    void *small_pointers[STACK_OUTPUTS];
    PyObject **results = small_results;
    void **pointers = small_pointers;
    PyObject *answer = NULL;
    Py_ssize_t made = 0;
    int32_t code = 0;
    int held = entry->release_gil || entry->python_run != NULL;
    if (entry->result_count > STACK_OUTPUTS) {
        results = PyMem_Malloc(entry->result_count * (sizeof *results + sizeof *pointers));
        if (!results) return PyErr_NoMemory();
        pointers = (void **)(results + entry->result_count);
    }
    entry->refs++;
    /* Without the lock another thread may drop an array from a list: hold the leaves. */
    if (held)
        for (Py_ssize_t i = 0; i < leaves->count; i++) Py_INCREF(leaves->owners[i]);
    for (; made < entry->result_count; made++) {
        const Result *result = &entry->results[made];
        PyObject *array;
        if (result->donor >= 0 && may_take_over(result, leaves)) {
            array = Py_NewRef(leaves->owners[result->donor]);
        } else {
            Py_INCREF(result->descr);
            array = fresh_array(result->descr, result->nd, result->dims);
        }
        if (!array) goto done;
        results[made] = array;
        pointers[made] = PyArray_DATA((PyArrayObject *)array);
    }
    for (Py_ssize_t i = 0; i < entry->constant_count; i++)
        leaves->inputs[leaves->count + i] = PyArray_DATA((PyArrayObject *)entry->constants[i]);
    if (entry->python_run) {
        PyObject *status = run_python(entry, leaves, results);
        if (!status) goto done;
        Py_DECREF(status);
    } else {
        void *context = entry->context, *block = NULL;
        if (entry->workspace_bytes) {
            block = entry->workspace;
            entry->workspace = NULL;
            if (!block) block = PyMem_RawMalloc(entry->workspace_bytes + 64);
            if (!block) { PyErr_NoMemory(); goto done; }
            context = aligned_workspace(block);
        }
        if (entry->release_gil) {
            Py_BEGIN_ALLOW_THREADS
            code = entry->run(leaves->inputs, pointers, context);
            Py_END_ALLOW_THREADS
        } else {
            code = entry->run(leaves->inputs, pointers, context);
        }
        if (block) {
            if (entry->workspace) PyMem_RawFree(block);
            else entry->workspace = block;
        }
    }
    if (code) {
        if (entry->on_error)
            answer = PyObject_CallFunction(entry->on_error, "i", (int)code);
        else
            PyErr_Format(PyExc_RuntimeError, "a compiled program failed with code %d", (int)code);
    } else if (!PyErr_Occurred()) {
        const Node *at = entry->tree;
        answer = build(&at, results);
    }
done:
    for (Py_ssize_t i = 0; i < made; i++) Py_DECREF(results[i]);
    if (held)
        for (Py_ssize_t i = 0; i < leaves->count; i++) Py_DECREF(leaves->owners[i]);
    if (results != small_results) PyMem_Free(results);
    entry_release(entry);
    return answer;
}

/* Find an entry and run it: 1 with *answer (NULL on error), 0 when none matches. */
static int try_fast(Dispatcher *self, PyObject *const *args, Py_ssize_t positional,
                    PyObject *names, PyObject **answer) {
    void *inputs[STACK_LEAVES];
    PyObject *owners[STACK_LEAVES];
    int64_t slots[2 * STACK_LEAVES];
    for (Py_ssize_t i = 0; i < self->entry_count; i++) {
        Entry *entry = self->entries[i];
        Leaves leaves = {inputs, owners, slots, 0, NULL, 0};
        Py_ssize_t wide = entry->leaf_count + entry->constant_count;
        int64_t *memory = NULL;
        if (wide > STACK_LEAVES) {
            memory = PyMem_Malloc(wide * 4 * sizeof(int64_t));
            if (!memory) { *answer = PyErr_NoMemory(); return 1; }
            leaves.slots = memory;
            leaves.inputs = (void **)(memory + 2 * wide);
            leaves.owners = (PyObject **)(memory + 3 * wide);
        }
        /* A static value's __eq__ is Python code: it may drop the entry or reorder the list. */
        entry->refs++;
        int found = match_entry(entry, args, positional, names, &leaves);
        if (found) {
            if (i && i < self->entry_count && self->entries[i] == entry) {
                memmove(self->entries + 1, self->entries, i * sizeof(Entry *));
                self->entries[0] = entry;
            }
            self->hits++;
            *answer = leaves.scattered && gather(&leaves) < 0 ? NULL : run_entry(entry, &leaves);
        }
        entry_release(entry);
        PyMem_Free(memory);
        Py_XDECREF(leaves.held);
        if (found) return 1;
    }
    return 0;
}

static PyObject *call_slow(Dispatcher *self, PyObject *const *args, Py_ssize_t positional,
                           PyObject *names) {
    PyObject *tuple = PyTuple_New(positional);
    PyObject *named = PyDict_New();
    PyObject *answer = NULL;
    self->misses++;
    if (!tuple || !named) goto done;
    for (Py_ssize_t i = 0; i < positional; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), args[positional + i]) < 0) goto done;
    if (!self->slow_path) {
        PyErr_SetString(PyExc_RuntimeError, "this dispatcher has no slow path");
        goto done;
    }
    answer = PyObject_CallFunctionObjArgs(self->slow_path, tuple, named, NULL);
done:
    Py_XDECREF(tuple);
    Py_XDECREF(named);
    return answer;
}

static PyObject *dispatcher_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                       PyObject *names) {
    Dispatcher *self = (Dispatcher *)object;
    Py_ssize_t positional = PyVectorcall_NARGS(nargsf);
    PyObject *answer;
    if (trace_depth == 0 && try_fast(self, args, positional, names, &answer)) return answer;
    return call_slow(self, args, positional, names);
}

COLD
/* ------------------------------------------------------------------------------- the methods */

static int parse_tree(Nodes *nodes, PyObject *spec, Py_ssize_t results, int depth) {
    if (depth > MAX_DEPTH) {
        PyErr_SetString(PyExc_ValueError, "output tree is too deep");
        return -1;
    }
    if (spec == Py_None) return nodes_add(nodes, N_NONE) ? 0 : -1;
    if (PyLong_CheckExact(spec)) {
        long index = PyLong_AsLong(spec);
        if (index < 0 || index >= results) {
            PyErr_SetString(PyExc_ValueError, "output tree names a result that is not there");
            return -1;
        }
        Node *node = nodes_add(nodes, N_ARRAY);
        if (!node) return -1;
        node->nd = (int)index;
        return 0;
    }
    const char *kind = NULL;
    PyObject *first = NULL, *second = NULL;
    if (!PyTuple_CheckExact(spec) || !PyArg_ParseTuple(spec, "sO|O", &kind, &first, &second)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "bad output tree %R", spec);
        return -1;
    }
    PyObject *children = second ? second : first;
    int code = !strcmp(kind, "tuple") ? N_TUPLE : !strcmp(kind, "list") ? N_LIST
        : !strcmp(kind, "dict") ? N_DICT : !strcmp(kind, "call") ? N_CALL
        : !strcmp(kind, "const") ? N_CONST : -1;
    if (code < 0 || (second == NULL) != (code == N_TUPLE || code == N_LIST || code == N_CONST)) {
        PyErr_Format(PyExc_ValueError, "bad output tree %R", spec);
        return -1;
    }
    Py_ssize_t at = nodes->count;
    if (!nodes_add(nodes, code)) return -1;
    if (code == N_CONST) {
        nodes->items[at].ref = Py_NewRef(first);
        return 0;
    }
    PyObject *items = PySequence_Tuple(children);
    if (!items) return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    nodes->items[at].nd = (int)count;
    if (code == N_DICT) {
        nodes->items[at].ref = PySequence_Tuple(first);
        if (!nodes->items[at].ref || PyTuple_GET_SIZE(nodes->items[at].ref) != count) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "as many keys as children are needed");
            Py_DECREF(items);
            return -1;
        }
    } else if (code == N_CALL) {
        nodes->items[at].ref = Py_NewRef(first);
    }
    int status = 0;
    for (Py_ssize_t i = 0; !status && i < count; i++)
        status = parse_tree(nodes, PyTuple_GET_ITEM(items, i), results, depth + 1);
    Py_DECREF(items);
    return status;
}

static int parse_results(Entry *entry, PyObject *outputs, PyObject *donors) {
    PyObject *items = PySequence_Tuple(outputs);
    if (!items) return -1;
    int status = -1;
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    entry->results = PyMem_Calloc(count ? count : 1, sizeof(Result));
    if (!entry->results) { PyErr_NoMemory(); goto done; }
    entry->result_count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Result *result = &entry->results[i];
        PyObject *dtype, *shape;
        result->donor = -1;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(items, i), "OO", &dtype, &shape)) goto done;
        if (!PyArray_DescrConverter(dtype, &result->descr)) goto done;
        PyArray_Dims dims = {NULL, 0};
        if (!PyArray_IntpConverter(shape, &dims)) goto done;
        result->nd = dims.len;
        result->dims = PyMem_Malloc((dims.len ? dims.len : 1) * sizeof(npy_intp));
        if (result->dims && dims.len)
            memcpy(result->dims, dims.ptr, dims.len * sizeof(npy_intp));
        PyDimMem_FREE(dims.ptr);
        if (!result->dims) { PyErr_NoMemory(); goto done; }
    }
    if (donors && donors != Py_None) {
        PyObject *key, *value;
        Py_ssize_t position = 0;
        while (PyDict_Next(donors, &position, &key, &value)) {
            Py_ssize_t to = PyLong_AsSsize_t(key), from = PyLong_AsSsize_t(value);
            if (PyErr_Occurred()) goto done;
            if (to < 0 || to >= count || from < 0 || from >= entry->leaf_count) {
                PyErr_SetString(PyExc_ValueError, "a donated leaf or result is not there");
                goto done;
            }
            entry->results[to].donor = (int)from;
        }
    }
    status = 0;
done:
    Py_DECREF(items);
    return status;
}

static int is_static(PyObject *set, PyObject *key) {
    if (!set || set == Py_None) return 0;
    return PySequence_Contains(set, key);
}

/* Fill the signature of the arguments. 0, 1 when they have no fast path, -1 on error. */
static int describe_call(Entry *entry, PyObject *args, PyObject *kwargs, PyObject *statics) {
    Nodes nodes = {NULL, 0, 0, 0};
    int status = 0;
    entry->positional = PyTuple_GET_SIZE(args);
    for (Py_ssize_t i = 0; !status && i < entry->positional; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        int fixed = index ? is_static(statics, index) : -1;
        Py_XDECREF(index);
        PyObject *value = PyTuple_GET_ITEM(args, i);
        status = fixed < 0 ? -1 : fixed ? describe_static(&nodes, value) : describe(&nodes, value, 0);
    }
    if (!status && kwargs && PyDict_GET_SIZE(kwargs)) {
        PyObject *names = PyDict_Keys(kwargs);
        if (!names || PyList_Sort(names) < 0 || !(entry->names = PyList_AsTuple(names)))
            status = -1;
        Py_XDECREF(names);
        for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(entry->names); i++) {
            PyObject *name = PyTuple_GET_ITEM(entry->names, i);
            PyObject *value = PyDict_GetItemWithError(kwargs, name);
            int fixed = is_static(statics, name);
            status = !value || fixed < 0 ? -1
                : fixed ? describe_static(&nodes, value) : describe(&nodes, value, 0);
        }
    }
    entry->nodes = nodes.items;
    entry->node_count = nodes.count;
    entry->leaf_count = nodes.leaves;
    return status;
}

static PyObject *dispatcher_add_entry(Dispatcher *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"args", "kwargs", "run", "outputs", "output_tree", "constants",
                            "statics", "context", "workspace_bytes", "release_gil", "on_error",
                            "donated", "keep_alive", NULL};
    PyObject *call_args, *call_kwargs, *run, *outputs, *tree, *constants = NULL, *statics = NULL;
    PyObject *context = NULL, *on_error = NULL, *donors = NULL, *keep_alive = NULL;
    Py_ssize_t workspace = 0;
    int release_gil = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!OOO|$OOOnpOOO", names, &PyTuple_Type,
                                     &call_args, &PyDict_Type, &call_kwargs, &run, &outputs, &tree,
                                     &constants, &statics, &context, &workspace, &release_gil,
                                     &on_error, &donors, &keep_alive))
        return NULL;
    if (workspace < 0 || (donors && donors != Py_None && !PyDict_Check(donors))) {
        PyErr_SetString(PyExc_ValueError, "workspace_bytes must be >= 0 and donated a dict");
        return NULL;
    }
    Entry *entry = PyMem_Calloc(1, sizeof(Entry));
    if (!entry) return PyErr_NoMemory();
    entry->refs = 1;
    int status = describe_call(entry, call_args, call_kwargs, statics);
    if (status) goto fail;
    status = -1;
    if (PyCallable_Check(run)) {
        entry->python_run = Py_NewRef(run);
    } else {
        entry->run = (run_function)PyLong_AsVoidPtr(run);
        if (PyErr_Occurred()) goto fail;
        if (!entry->run) {
            PyErr_SetString(PyExc_ValueError, "run is a null address");
            goto fail;
        }
    }
    if (context && context != Py_None) {
        entry->context = PyLong_AsVoidPtr(context);
        if (PyErr_Occurred()) goto fail;
    }
    if (parse_results(entry, outputs, donors) < 0) goto fail;
    if (constants && constants != Py_None) {
        PyObject *items = PySequence_Tuple(constants);
        if (!items) goto fail;
        Py_ssize_t count = PyTuple_GET_SIZE(items);
        entry->constants = PyMem_Calloc(count ? count : 1, sizeof(PyObject *));
        for (Py_ssize_t i = 0; entry->constants && i < count; i++) {
            PyObject *item = PyTuple_GET_ITEM(items, i);
            if (!PyArray_Check(item) || !usable_array((PyArrayObject *)item)
                || !is_dense((PyArrayObject *)item)) {
                PyErr_SetString(PyExc_TypeError, "constants must be contiguous arrays");
                Py_DECREF(items);
                goto fail;
            }
            entry->constants[entry->constant_count++] = Py_NewRef(item);
        }
        Py_DECREF(items);
        if (!entry->constants) { PyErr_NoMemory(); goto fail; }
    }
    Nodes nodes = {NULL, 0, 0, 0};
    int parsed = parse_tree(&nodes, tree, entry->result_count, 0);
    entry->tree = nodes.items;
    entry->tree_count = nodes.count;
    if (parsed < 0) goto fail;
    entry->workspace_bytes = (size_t)workspace;
    entry->release_gil = release_gil;
    entry->on_error = on_error && on_error != Py_None ? Py_NewRef(on_error) : NULL;
    entry->keep_alive = keep_alive ? Py_NewRef(keep_alive) : NULL;
    if (self->entry_count == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : 4;
        Entry **entries = PyMem_Realloc(self->entries, capacity * sizeof(Entry *));
        if (!entries) { PyErr_NoMemory(); goto fail; }
        self->entries = entries;
        self->capacity = capacity;
    }
    memmove(self->entries + 1, self->entries, self->entry_count * sizeof(Entry *));
    self->entries[0] = entry;
    self->entry_count++;
    Py_RETURN_TRUE;
fail:
    entry_release(entry);
    if (status == 1) Py_RETURN_FALSE;
    return NULL;
}

static PyObject *dispatcher_call_fast(Dispatcher *self, PyObject *args) {
    PyObject *call_args, *call_kwargs, *answer;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &call_args, &PyDict_Type, &call_kwargs))
        return NULL;
    Py_ssize_t positional = PyTuple_GET_SIZE(call_args), named = PyDict_GET_SIZE(call_kwargs);
    PyObject *names = named ? PyTuple_New(named) : NULL;
    PyObject **all = PyMem_Malloc((positional + named + 1) * sizeof(PyObject *));
    if (!all || (named && !names)) {
        PyMem_Free(all);
        Py_XDECREF(names);
        return PyErr_NoMemory();
    }
    Py_ssize_t count = 0, position = 0;
    for (; count < positional; count++) all[count] = Py_NewRef(PyTuple_GET_ITEM(call_args, count));
    PyObject *key, *value;
    while (named && PyDict_Next(call_kwargs, &position, &key, &value)) {
        PyTuple_SET_ITEM(names, count - positional, Py_NewRef(key));
        all[count++] = Py_NewRef(value);
    }
    if (!try_fast(self, all, positional, names, &answer)) answer = Py_NewRef(Py_NotImplemented);
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(all[i]);
    PyMem_Free(all);
    Py_XDECREF(names);
    return answer;
}

static PyObject *dispatcher_clear_entries(Dispatcher *self, PyObject *unused) {
    Entry **entries = self->entries;
    Py_ssize_t count = self->entry_count;
    self->entries = NULL;
    self->entry_count = self->capacity = 0;
    for (Py_ssize_t i = 0; i < count; i++) entry_release(entries[i]);
    PyMem_Free(entries);
    Py_RETURN_NONE;
}

static PyObject *dispatcher_get(PyObject *self, PyObject *object, PyObject *type) {
    if (object == NULL || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

static PyObject *dispatcher_repr(Dispatcher *self) {
    PyObject *name = self->dict ? PyDict_GetItemString(self->dict, "__qualname__") : NULL;
    return name ? PyUnicode_FromFormat("<compiled %S>", name)
                : PyUnicode_FromFormat("<Dispatcher at %p>", self);
}

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slow_path", NULL};
    PyObject *slow_path = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &slow_path)) return NULL;
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = dispatcher_vectorcall;
    self->slow_path = slow_path && slow_path != Py_None ? Py_NewRef(slow_path) : NULL;
    return (PyObject *)self;
}

static int dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg) {
    Py_VISIT(self->slow_path);
    Py_VISIT(self->dict);
    for (Py_ssize_t i = 0; i < self->entry_count; i++) {
        /* An entry in use by a running call is owned by that call too: leave it alone. */
        if (self->entries[i]->refs > 1) continue;
        int status = entry_visit(self->entries[i], visit, arg);
        if (status) return status;
    }
    return 0;
}

static int dispatcher_clear(Dispatcher *self) {
    Py_CLEAR(self->slow_path);
    Py_CLEAR(self->dict);
    PyObject *none = dispatcher_clear_entries(self, NULL);
    Py_XDECREF(none);
    return 0;
}

static void dispatcher_dealloc(Dispatcher *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    dispatcher_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef dispatcher_methods[] = {
    {"add_entry", (PyCFunction)(void (*)(void))dispatcher_add_entry, METH_VARARGS | METH_KEYWORDS,
     "Register a program for calls like the one given; False when they have no fast path."},
    {"call_fast", (PyCFunction)dispatcher_call_fast, METH_VARARGS,
     "Run the entry that matches (args, kwargs); NotImplemented when there is none."},
    {"clear_entries", (PyCFunction)dispatcher_clear_entries, METH_NOARGS, "Forget every entry."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef dispatcher_members[] = {
    {"slow_path", T_OBJECT, offsetof(Dispatcher, slow_path), 0, "callable(args, kwargs)"},
    {"entry_count", T_PYSSIZET, offsetof(Dispatcher, entry_count), READONLY, "entries held"},
    {"hits", T_PYSSIZET, offsetof(Dispatcher, hits), READONLY, "calls that an entry took"},
    {"misses", T_PYSSIZET, offsetof(Dispatcher, misses), READONLY, "calls of the slow path"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef dispatcher_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject DispatcherType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stax_dispatch.Dispatcher",
    .tp_doc = "Callable that runs a compiled program on arguments it knows.",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL
        | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = dispatcher_new,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_repr = (reprfunc)dispatcher_repr,
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_descr_get = dispatcher_get,
    .tp_methods = dispatcher_methods,
    .tp_members = dispatcher_members,
    .tp_getset = dispatcher_getset,
    .tp_dictoffset = offsetof(Dispatcher, dict),
    .tp_weaklistoffset = offsetof(Dispatcher, weakrefs),
};

static PyObject *set_trace_depth(PyObject *module, PyObject *value) {
    long depth = PyLong_AsLong(value);
    if (depth == -1 && PyErr_Occurred()) return NULL;
    long before = trace_depth;
    trace_depth = depth;
    if ((before > 0) != (depth > 0)) subscript_hold(depth > 0);
    return PyLong_FromLong(before);
}

static PyObject *set_flatten_node(PyObject *module, PyObject *value) {
    Py_XSETREF(flatten_node, Py_NewRef(value));
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"set_flatten_node", set_flatten_node, METH_O,
     "Set the function value -> (children, the rest) for registered classes, None for leaves."},
    {"set_trace_depth", set_trace_depth, METH_O,
     "Set this thread's trace depth and return the one before; above 0 every call is slow."},
    {"set_subscript", set_subscript, METH_VARARGS,
     "set_subscript(type, f, g, subclass): f and g take subscripts and methods with such values."},
    {"empty", pool_empty, METH_VARARGS, "empty(dtype, shape): an array as results are made."},
    {"pool_bytes", pool_bytes, METH_NOARGS, "Bytes of dead results kept for reuse."},
    {"pool_clear", pool_clear, METH_NOARGS, "Give the kept memory back to the system."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "stax_dispatch", NULL, -1, module_methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_stax_dispatch(void) {
    import_array();
    if (PyType_Ready(&DispatcherType) < 0) return NULL;
    PyObject *module = PyModule_Create(&module_definition);
    if (!module) return NULL;
    if (PyModule_AddObject(module, "Dispatcher", Py_NewRef((PyObject *)&DispatcherType)) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
