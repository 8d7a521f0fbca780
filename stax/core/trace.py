"""Traces and tracers: what happens when a primitive is bound.

`bind` hands a primitive to the current trace.  With no transformation running that is `EVAL`,
which calls the primitive's NumPy implementation.  Each transformation installs a trace whose
`process` interprets the primitive its own way and delegates to its `parent`; a tracer is a value
as seen by one trace.  A value that belongs to another live trace is a constant for this one; one
that belongs to a finished trace has leaked.

The ambient state of a thread is one record: the current trace, and the phase, region and source
that new equations are tagged with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stax.core.aval import Aval, Remote, aval_of
from stax.core.primitive import BINDER, Primitive
from stax.core.refusals import (
    index_error,
    is_index_of_caller,
    is_stored_by_caller,
    leak_error,
    located,
    no_array_error,
    no_version_error,
    number_error,
    plain_write_error,
)
from stax.core.source import place_of, user_place, user_source
from stax.dtypes import DType, is_inexact
from stax.errors import (
    LOCATE,
    ConcretizationError,
    MutationError,
    StaxError,
)


class Trace:
    """One interpretation of primitives.  `parent` interprets what this one delegates."""

    __slots__ = ("parent", "alive")

    def __init__(self, parent: Trace | None) -> None:
        self.parent = parent
        self.alive = True

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The results of binding `prim`; always a tuple."""
        raise TypeError(f"{type(self).__name__} does not interpret primitives")

    def lift(self, value: Any) -> Any:
        """`value` as this trace's tracer (itself, where the trace has none)."""
        return value

    def owns(self, value: Any) -> bool:
        """True when `value` is a tracer of this trace."""
        return isinstance(value, Tracer) and value.owner is self

    def stands_for(self, trace: Trace) -> bool:
        """True when `trace` is this one, or one whose tracers this one takes as its own."""
        return trace is self


class EvalTrace(Trace):
    """No transformation: NumPy computes."""

    __slots__ = ()

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Call the primitive's NumPy implementation."""
        for arg in args:
            if type(arg) is np.ndarray:
                continue
            if isinstance(arg, Tracer):
                raise leak_error(arg.aval, prim.name)
            if isinstance(arg, Remote):
                return ELSEWHERE[0](prim, args, params)
        try:
            out = prim.impl(*args, **params)
        except (ValueError, TypeError, IndexError) as error:
            if not isinstance(error, StaxError):
                _check_types(prim, args, params)
            raise
        outs = tuple(out) if prim.multi else (out,)
        if STATE.debug_nans:
            _check_for("a NaN", np.isnan, prim, args, outs)
        if STATE.debug_infs:
            _check_for("an infinity", np.isinf, prim, args, outs)
        return outs


def _check_types(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Raise what tracing would have raised, where NumPy failed on operands that do not fit."""
    try:
        prim.out_avals([aval_of(a) for a in args], params)
    except StaxError as error:
        located(error, prim.name, STATE.source or user_source())
        raise error from None


def _check_for(
    what: str, test: Any, prim: Primitive, args: Sequence[Any], outs: Sequence[Any]
) -> None:
    """Raise FloatingPointError when a result has a NaN (an infinity) that no operand has."""
    for out in outs:
        if is_inexact(aval_of(out).dtype) and test(out).any():
            inexact = (a for a in args if is_inexact(aval_of(a).dtype))
            if not any(test(a).any() for a in inexact):
                where = STATE.source or user_source()
                raise FloatingPointError(f"{prim.name} gave {what}\n  at {where}")


EVAL = EvalTrace(None)
# Computes an operation on values of which one is no array of NumPy's.
ELSEWHERE: list[Callable[[Primitive, Sequence[Any], dict[str, Any]], tuple[Any, ...]]] = []


class _State(threading.local):
    """The ambient record of a thread."""

    trace: Trace = EVAL
    phase: str = "forward"
    region: int = 0
    source: str | None = None
    jit_disabled: bool = False
    debug_nans: bool = False
    # What loops keep for their backward part that say nothing themselves, by their length.
    loops: Callable[[int], Any] | None = None
    debug_infs: bool = False
    # The last refusal to give a number, as arguments of `number_error`: NumPy may swallow it.
    refused: tuple[str, str, str, str] | None = None


STATE = _State()


LOCATE.append(lambda: STATE.source or user_source())


@contextmanager
def use_trace(trace: Trace) -> Iterator[None]:
    """Install `trace` as the current one."""
    before = STATE.trace
    STATE.trace = trace
    on_depth_change(before, trace)
    try:
        yield
    except TypeError as error:
        if STATE.refused is not None and not isinstance(error, StaxError):
            refused, STATE.refused = STATE.refused, None
            if place_of(error) == refused[-1]:  # NumPy's own, in place of ours
                raise number_error(*refused) from error
        raise
    except ValueError as error:
        cause = error.__cause__
        if isinstance(cause, ConcretizationError):  # NumPy's, about `a[i] = traced`
            raise MutationError(
                "a traced value cannot be stored into an array made by plain NumPy",
                operands=cause.operands,
                where=cause.where,
                hint="make the array with stax.numpy.zeros or np.zeros(..., like=x)",
            ) from cause
        raise
    finally:
        STATE.trace = before
        on_depth_change(trace, before)


# The C dispatcher does not run while a thread traces; it installs its switch here.
DEPTH_HOOK: list[Callable[[int], Any]] = []


def on_depth_change(before: Trace, after: Trace) -> None:
    """Tell the dispatcher when a thread starts or stops tracing."""
    if DEPTH_HOOK and (before is EVAL) != (after is EVAL):
        DEPTH_HOOK[0](0 if after is EVAL and not in_python() else 1)


def in_python() -> bool:
    """True when compiled functions of this thread are run by Python: jit off, or NaNs sought."""
    return STATE.jit_disabled or STATE.debug_nans or STATE.debug_infs


def run_in_python(
    jit_disabled: bool | None = None,
    debug_nans: bool | None = None,
    debug_infs: bool | None = None,
) -> None:
    """Switch the running of compiled programs off or on, or the search for NaNs or infinities."""
    if jit_disabled is not None:
        STATE.jit_disabled = jit_disabled
    if debug_nans is not None:
        STATE.debug_nans = debug_nans
        np.seterr(invalid="raise" if debug_nans else "warn")
    if debug_infs is not None:
        STATE.debug_infs = debug_infs
        choice: Any = "raise" if debug_infs else "warn"
        np.seterr(divide=choice, over=choice)
    if DEPTH_HOOK:
        DEPTH_HOOK[0](0 if STATE.trace is EVAL and not in_python() else 1)


@contextmanager
def tagged(
    phase: str | None = None, region: int | None = None, source: str | None = None
) -> Iterator[None]:
    """Tag the equations staged inside with a phase, a recomputation region or a source."""
    before = STATE.phase, STATE.region, STATE.source
    if phase is not None:
        STATE.phase = phase
    if region is not None:
        STATE.region = region
    if source is not None:
        STATE.source = source
    try:
        yield
    finally:
        STATE.phase, STATE.region, STATE.source = before


def bind(prim: Primitive, *args: Any, **params: Any) -> tuple[Any, ...]:
    """Apply `prim` to values; the results as a tuple."""
    return STATE.trace.process(prim, args, params)


BINDER.append(bind)


def bind1(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a single-result primitive."""
    return STATE.trace.process(prim, args, params)[0]


def is_tracing() -> bool:
    """True while some transformation runs."""
    return STATE.trace is not EVAL


def as_traced(value: Any) -> Any:
    """A freshly created array as the running transformation's value (itself when none runs)."""
    return STATE.trace.lift(value)


# What operators, methods, indexing and NumPy functions on tracers do belongs to the user's
# surface, which sits above this module and fills these tables when it is imported.
METHODS: dict[str, Callable[..., Any]] = {}
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
UFUNC_METHODS: dict[str, Callable[..., Any]] = {}
# Asked about a ufunc that is in no table, such as one of SciPy's; the answer is kept.
UFUNC_FINDERS: list[Callable[[np.ufunc], Callable[..., Any] | None]] = []
ARRAY_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}


class Tracer:
    """A value inside a transformation.  NumPy functions, operators and methods work on it.

    A tracer is a handle: an in-place write moves another value into it (`core.functionalize`,
    which keeps `origin`, `views`, `role` and `version`; they are unset on most tracers).
    `owner` is the trace it belongs to.
    """

    __slots__ = ("owner", "origin", "views", "role", "version", "__weakref__")
    __array_priority__ = 1000.0
    __hash__ = object.__hash__
    owner: Trace
    origin: Any
    views: Any
    role: str
    version: int

    @property
    def aval(self) -> Aval:
        """Type of the value."""
        raise TypeError(f"{type(self).__name__} has no type")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """NumPy dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of a dense array of this type."""
        return self.aval.nbytes

    def concrete(self) -> Any:
        """The NumPy value when it is known while tracing, else None."""
        return None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if is_stored_by_caller():
            raise plain_write_error(self.aval)
        if is_index_of_caller():
            known = self.concrete() if self.dtype.kind in "biu" else None
            if known is None:
                raise index_error(self.aval)
            return np.asarray(known, dtype)
        raise no_array_error(self.aval)

    def __bool__(self) -> bool:
        return bool(self._require("bool", "if, while, and, or, not, assert"))

    def __int__(self) -> int:
        return int(self._require("int", "int()"))

    def __float__(self) -> float:
        if is_stored_by_caller() and is_inexact(self.aval.dtype):
            raise no_array_error(self.aval)
        return float(self._require("float", "float()"))

    def __complex__(self) -> complex:
        if is_stored_by_caller() and is_inexact(self.aval.dtype):
            raise no_array_error(self.aval)
        return complex(self._require("complex", "complex()"))

    def __index__(self) -> int:
        value = self._require("index", "range(), a shape or a list index")
        if not np.issubdtype(np.asarray(value).dtype, np.integer):
            raise TypeError("only integer values can be used as an index")
        return int(value)

    def item(self, *args: Any) -> Any:
        """The Python scalar, where the value is known while tracing."""
        return np.asarray(self._require("item", ".item()")).item(*args)

    def tolist(self) -> Any:
        """The nested list, where the value is known while tracing."""
        return np.asarray(self._require("item", ".tolist()")).tolist()

    def _require(self, what: str, construct: str) -> Any:
        value = self.concrete()
        if value is not None:
            return value
        STATE.refused = (what, construct, str(self.aval), user_place())
        raise number_error(*STATE.refused)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            handler = UFUNC_METHODS.get(method)
            if handler is None:
                raise no_version_error(f"{ufunc.__name__}.{method}")
            return handler(ufunc, *inputs, **kwargs)
        function = UFUNCS.get(ufunc) or _found_ufunc(ufunc)
        return function(*inputs, **kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        function = ARRAY_FUNCTIONS.get(func)
        if function is None:
            raise no_version_error(func.__name__)
        return function(*args, **kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return METHODS["__array_namespace__"](self, api_version=api_version)

    def __setitem__(self, index: Any, value: Any) -> None:
        METHODS["__setitem__"](self, index, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        get = METHODS["__getitem__"]
        return iter([get(self, k) for k in range(self.shape[0])])

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.aval}>"

    def __format__(self, spec: str) -> str:
        value = self.concrete()
        return repr(self) if value is None else format(np.asarray(value).item(), spec)

    def __copy__(self) -> Tracer:
        found: Tracer = fresh(self)
        return found

    def __deepcopy__(self, memo: Any) -> Tracer:
        found: Tracer = fresh(self)
        return found


def _forward(name: str) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return METHODS[name](self, *args, **kwargs)

    method.__name__ = name
    return method


def _forward_property(name: str) -> property:
    def write(self: Tracer, value: Any) -> None:
        METHODS.get(f"writable_{name}", METHODS[name])(self)[...] = value

    return property(lambda self: METHODS[name](self), write if name in _WRITABLE else None)


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
_OPERATORS = (
    [f"__{n}__" for n in _BINARY]
    + [f"__r{n}__" for n in _BINARY]
    + [f"__i{n}__" for n in _BINARY if n != "divmod"]
    + [f"__{n}__" for n in "eq ne lt le gt ge neg pos abs invert getitem round".split()]
)
_METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy "
    "cumprod cumsum diagonal dot fill flatten max mean min nonzero partition prod ptp put ravel "
    "repeat reshape round searchsorted sort squeeze std sum swapaxes take trace transpose var "
    "view block_until_ready to_device"
).split()
_PROPERTIES = "T mT real imag at flat device".split()
_WRITABLE = frozenset({"real", "imag", "flat"})

for _name in _OPERATORS + _METHODS:
    setattr(Tracer, _name, _forward(_name))
for _name in _PROPERTIES:
    setattr(Tracer, _name, _forward_property(_name))


def _found_ufunc(ufunc: np.ufunc) -> Callable[..., Any]:
    for finder in UFUNC_FINDERS:
        function = finder(ufunc)
        if function is not None:
            UFUNCS[ufunc] = function
            return function
    raise no_version_error(ufunc.__name__)


def plain_subscript(array: Any, index: Any) -> Any:
    """`array[index]` of a plain array where the index holds traced values.

    NotImplemented where all of them are known: NumPy looks those up itself.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if all(p.concrete() is not None for p in parts if isinstance(p, Tracer)):
        return NotImplemented
    return METHODS["__getitem__"](array, index)


def plain_method(
    name: str, array: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """`array.name(*args, **kwargs)` of a plain array where the arguments hold traced values."""
    return METHODS[name](array, *args, **(kwargs or {}))


# The slots that belong to the handle and not to the value it stands for.
_HANDLE_SLOTS = frozenset({"__weakref__", "owner", "origin", "views", "role", "version"})
_value_slots: dict[type, tuple[str, ...]] = {}


def value_slots(kind: type) -> tuple[str, ...]:
    """The slots of a class of tracers that say what it stands for."""
    found = _value_slots.get(kind)
    if found is None:
        names = [n for c in kind.__mro__ for n in getattr(c, "__slots__", ())]
        found = _value_slots[kind] = tuple(n for n in names if n not in _HANDLE_SLOTS)
    return found


def fresh(value: Any) -> Any:
    """A copy of a value, made by the current transformation as the result of any operation is."""
    if not isinstance(value, Tracer):
        return value.copy() if isinstance(value, np.ndarray) else value
    handle, trace = handle_of(value), STATE.trace
    return handle if trace is EVAL or trace.stands_for(value.owner) else trace.lift(handle)


def handle_of(value: Tracer) -> Tracer:
    """A new handle for what a tracer stands for now; later writes to either do not meet."""
    kind = type(value)
    handle: Tracer = object.__new__(kind)
    handle.owner = value.owner
    for name in value_slots(kind):
        setattr(handle, name, getattr(value, name))
    return handle
