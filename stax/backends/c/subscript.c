/* `table[i]` where `table` is a plain array and `i` a traced value.

   Python gives the left operand of a subscript no say to the right one, so NumPy would look the
   index up itself and fail. While some thread traces, NumPy's subscript slot leads here: an index
   with a traced value in it goes to a Python function, everything else on to NumPy. When no thread
   traces the slot is NumPy's own again. Part of dispatch.c. */

static PyTypeObject *traced_type;    /* base class of traced values */
static PyObject *traced_subscript;   /* f(array, index): a result, or NotImplemented */
static binaryfunc numpy_subscript;
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

static PyObject *subscript(PyObject *array, PyObject *index) {
    if (has_traced(index)) {
        PyObject *found = PyObject_CallFunctionObjArgs(traced_subscript, array, index, NULL);
        if (found != Py_NotImplemented) return found;
        Py_DECREF(found);
    }
    return numpy_subscript(array, index);
}

/* A thread starts (on) or stops tracing. */
static void subscript_hold(int on) {
    PyMappingMethods *slots = PyArray_Type.tp_as_mapping;
    tracing_threads += on ? 1 : -1;
    if (on && traced_type && slots->mp_subscript != subscript) {
        numpy_subscript = slots->mp_subscript;
        slots->mp_subscript = subscript;
    } else if (!on && tracing_threads == 0 && slots->mp_subscript == subscript) {
        slots->mp_subscript = numpy_subscript;
    }
}

static PyObject *set_subscript(PyObject *module, PyObject *args) {
    PyObject *type, *function;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &function)) return NULL;
    Py_XSETREF(traced_subscript, Py_NewRef(function));
    Py_INCREF(type);
    traced_type = (PyTypeObject *)type;
    Py_RETURN_NONE;
}
