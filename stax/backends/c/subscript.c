/* `table[i]` and `table.dot(x)` where `table` is a plain array and `i` or `x` a traced value.

   Python gives the left operand of a subscript, or the owner of a method, no say to the others, so
   NumPy would look the index up itself and fail. While some thread traces, the subscript slots of
   NumPy's array types and the functions behind some of their methods lead here: what has a traced
   value in it goes to a Python function, everything else on to NumPy. When no thread traces they
   are NumPy's own again. Part of dispatch.c. */

static PyTypeObject *traced_type;    /* base class of traced values */
static PyObject *traced_subscript;   /* f(array, index): a result, or NotImplemented */
static PyObject *traced_method;      /* f(name, array, args, kwargs): a result */
static long tracing_threads;         /* changed with the GIL held */

static inline int is_traced(PyObject *index) {
    return Py_TYPE(index) != &PyLong_Type && Py_TYPE(index) != &PySlice_Type
        && PyObject_TypeCheck(index, traced_type);
}

static int has_traced(PyObject *index) {
    if (!PyTuple_CheckExact(index)) return is_traced(index);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(index); k++)
        if (is_traced(PyTuple_GET_ITEM(index, k))) return 1;
    return 0;
}

/* ---------------------------------------------------------------------------- subscripts */

#define ARRAY_TYPES 2
static PyTypeObject *array_types[ARRAY_TYPES];   /* a subclass with a slot of its own first */
static binaryfunc numpy_subscripts[ARRAY_TYPES];

static PyObject *subscript(PyObject *array, PyObject *index) {
    if (has_traced(index)) {
        PyObject *found = PyObject_CallFunctionObjArgs(traced_subscript, array, index, NULL);
        if (found != Py_NotImplemented) return found;
        Py_DECREF(found);
    }
    int k = Py_TYPE(array) == &PyArray_Type ? ARRAY_TYPES - 1 : 0;
    while (k + 1 < ARRAY_TYPES && !PyType_IsSubtype(Py_TYPE(array), array_types[k])) k++;
    return numpy_subscripts[k](array, index);
}

/* ------------------------------------------------------------------------------- methods */

typedef struct {
    const char *name;
    int flags;               /* how NumPy's function is called */
    PyCFunction ours, numpys;
    PyMethodDef *entry;      /* where the interpreter looks the function up, at every call */
} method;

#define FAST(apply) apply(clip) apply(dot) apply(searchsorted) apply(take) apply(argpartition) \
    apply(sum) apply(prod) apply(max) apply(min) apply(mean) apply(std) apply(var) apply(any) \
    apply(all)
#define PLAIN(apply) apply(choose) apply(compress) apply(repeat)
#define NUMBER(name) AT_##name,
enum { FAST(NUMBER) PLAIN(NUMBER) METHODS };
static method methods[METHODS];

static int is_traced_argument(PyObject *value) {
    if (!PyList_CheckExact(value)) return has_traced(value);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(value); k++)
        if (is_traced(PyList_GET_ITEM(value, k))) return 1;
    return 0;
}

static PyObject *call_traced(int n, PyObject *array, PyObject *args, PyObject *kwargs) {
    PyObject *name = PyUnicode_FromString(methods[n].name), *found = NULL;
    if (name)
        found = PyObject_CallFunctionObjArgs(traced_method, name, array, args,
                                             kwargs ? kwargs : Py_None, NULL);
    Py_XDECREF(name);
    return found;
}

static PyObject *call_fast(int n, PyObject *array, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    int traced = 0;
    for (Py_ssize_t k = 0; k < count + named; k++) traced |= is_traced_argument(args[k]);
    if (!traced)
        return ((_PyCFunctionFastWithKeywords)(void (*)(void))methods[n].numpys)(array, args,
                                                                                count, names);
    PyObject *tuple = PyTuple_New(count), *dict = PyDict_New(), *found = NULL;
    if (tuple && dict) {
        int failed = 0;
        for (Py_ssize_t k = 0; k < count; k++) PyTuple_SET_ITEM(tuple, k, Py_NewRef(args[k]));
        for (Py_ssize_t k = 0; k < named; k++)
            failed |= PyDict_SetItem(dict, PyTuple_GET_ITEM(names, k), args[count + k]);
        if (!failed) found = call_traced(n, array, tuple, dict);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return found;
}

static PyObject *call_plain(int n, PyObject *array, PyObject *args, PyObject *kwargs) {
    int traced = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); k++)
        traced |= is_traced_argument(PyTuple_GET_ITEM(args, k));
    PyObject *key, *value;
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value);)
        traced |= is_traced_argument(value);
    if (traced) return call_traced(n, array, args, kwargs);
    return ((PyCFunctionWithKeywords)(void (*)(void))methods[n].numpys)(array, args, kwargs);
}

#define FAST_CALL(name)                                                                    \
    static PyObject *ours_##name(PyObject *array, PyObject *const *args, Py_ssize_t count, \
                                 PyObject *names) {                                        \
        return call_fast(AT_##name, array, args, count, names);                            \
    }
#define PLAIN_CALL(name)                                                                  \
    static PyObject *ours_##name(PyObject *array, PyObject *args, PyObject *kwargs) {     \
        return call_plain(AT_##name, array, args, kwargs);                                \
    }
FAST(FAST_CALL)
PLAIN(PLAIN_CALL)
#define FAST_ROW(name) \
    {#name, METH_FASTCALL | METH_KEYWORDS, (PyCFunction)(void (*)(void))ours_##name, 0, 0},
#define PLAIN_ROW(name) \
    {#name, METH_VARARGS | METH_KEYWORDS, (PyCFunction)(void (*)(void))ours_##name, 0, 0},
static method methods[METHODS] = {FAST(FAST_ROW) PLAIN(PLAIN_ROW)};

/* -------------------------------------------------------------------- on while something traces */

/* A thread starts (on) or stops tracing. */
static void subscript_hold(int on) {
    tracing_threads += on ? 1 : -1;
    if (!traced_type || (!on && tracing_threads != 0)) return;
    for (int k = 0; k < ARRAY_TYPES; k++) {
        PyMappingMethods *slots = array_types[k]->tp_as_mapping;
        if (on && slots->mp_subscript != subscript) {
            numpy_subscripts[k] = slots->mp_subscript;
            slots->mp_subscript = subscript;
        } else if (!on && slots->mp_subscript == subscript) {
            slots->mp_subscript = numpy_subscripts[k];
        }
    }
    for (method *m = methods; m < methods + METHODS; m++) {
        if (!m->entry) continue;
        if (on && m->entry->ml_meth != m->ours) {
            m->numpys = m->entry->ml_meth;
            m->entry->ml_meth = m->ours;
        } else if (!on && m->entry->ml_meth == m->ours) {
            m->entry->ml_meth = m->numpys;
        }
    }
}

/* (type of traced values, f(array, index), f(name, array, args, kwargs), subclass of arrays) */
static PyObject *set_subscript(PyObject *module, PyObject *args) {
    PyObject *type, *by_index, *by_name, *subclass;
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyType_Type, &type, &by_index, &by_name, &PyType_Type,
                          &subclass))
        return NULL;
    Py_XSETREF(traced_subscript, Py_NewRef(by_index));
    Py_XSETREF(traced_method, Py_NewRef(by_name));
    array_types[0] = (PyTypeObject *)Py_NewRef(subclass);
    array_types[1] = &PyArray_Type;
    for (method *m = methods; m < methods + METHODS; m++) {
        PyObject *found = PyDict_GetItemString(PyArray_Type.tp_dict, m->name);
        if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type)) continue;
        PyMethodDef *entry = ((PyMethodDescrObject *)found)->d_method;
        if (entry->ml_flags == m->flags) m->entry = entry;
    }
    traced_type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}
