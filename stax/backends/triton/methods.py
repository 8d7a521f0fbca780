"""The operators and methods of arrays on a device.

Input: calls such as `x + y`, `np.exp(x)`, `x.sum(0)`, `x[2:5]`.  Output: arrays on the device.
What only gives elements another shape, and a part that lies in one piece, need no program.  All
else is handed to what `COMPUTE` holds, which runs small compiled programs; that stands above the
back ends, and the public names put it there.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stax.core.aval import Remote
from stax.core.trace import ARRAY_FUNCTIONS, Tracer
from stax.dtypes import is_supported
from stax.errors import MutationError

if TYPE_CHECKING:
    from stax.backends.triton.array import DeviceArray

COMPUTE: list[Callable[..., Any]] = []
"""`compute(function, name, args, kwargs)`: a function of arrays, under a name that is its own."""

_WRITING = frozenset((np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis))
_OF_TYPES = frozenset(
    (np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj,
     np.common_type)
)  # fmt: skip

_Mixin = np.lib.mixins.NDArrayOperatorsMixin


def compute(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Any) -> Any:
    """What the function gives for arrays on a device, by a program there."""
    if not COMPUTE:
        import_module("stax.api")  # an array was read from a pickle before anything else was used
    return COMPUTE[0](function, name, tuple(args), dict(kwargs))


def on_host(value: Any) -> Any:
    """The value with arrays on a device as copies in the memory of the process."""
    if isinstance(value, Methods):
        return cast("DeviceArray", value).to_numpy()
    if type(value) in (tuple, list):
        return type(value)(on_host(v) for v in value)
    return value


def _method(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return compute(operator.methodcaller, name, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = f"`numpy.ndarray.{name}`, computed on the device."
    return method


def _property(name: str) -> Any:
    def read(self: Any) -> Any:
        return compute(operator.attrgetter, name, (self,), {})

    return property(read, doc=f"`numpy.ndarray.{name}`, computed on the device.")


class Methods(_Mixin, Remote):
    """What a `DeviceArray` can do beside holding its elements."""

    __slots__ = ()

    # The array never changes, so `x += y` gives `x` another value, as it does with numbers.
    __iadd__, __isub__, __imul__ = _Mixin.__add__, _Mixin.__sub__, _Mixin.__mul__
    __itruediv__, __ifloordiv__ = _Mixin.__truediv__, _Mixin.__floordiv__
    __imod__, __ipow__, __imatmul__ = _Mixin.__mod__, _Mixin.__pow__, _Mixin.__matmul__
    __iand__, __ior__, __ixor__ = _Mixin.__and__, _Mixin.__or__, _Mixin.__xor__
    __ilshift__, __irshift__ = _Mixin.__lshift__, _Mixin.__rshift__

    T, mT, real, imag = (_property(name) for name in ("T", "mT", "real", "imag"))

    sum, prod, mean, std, var = (_method(n) for n in ("sum", "prod", "mean", "std", "var"))
    max, min, argmax, argmin = (_method(n) for n in ("max", "min", "argmax", "argmin"))
    all, any, ptp = (_method(n) for n in ("all", "any", "ptp"))
    cumsum, cumprod = _method("cumsum"), _method("cumprod")
    transpose, swapaxes, diagonal = (_method(n) for n in ("transpose", "swapaxes", "diagonal"))
    dot, trace, take, repeat = (_method(n) for n in ("dot", "trace", "take", "repeat"))
    argsort, searchsorted = _method("argsort"), _method("searchsorted")
    clip, round, conj, conjugate = (_method(n) for n in ("clip", "round", "conj", "conjugate"))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for target in inputs[:1] if method == "at" else kwargs.get("out", ()):
            _refuse_to_write(ufunc.__name__, target)
        if method != "__call__" or kwargs.get("out") is not None:
            given = [on_host(v) for v in inputs]
            return getattr(ufunc, method)(*given, **{k: on_host(v) for k, v in kwargs.items()})
        return compute(ufunc, ufunc.__name__, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        traced = any(issubclass(t, Tracer) for t in types)
        place, name = _written(function)
        target = kwargs.get(name, args[place] if place < len(args) else None)
        _refuse_to_write(function.__name__, target)
        if function in _OF_TYPES:
            outlines = [_outline(v) if isinstance(v, Methods) else v for v in args]
            return function(*outlines, **kwargs)
        if not traced and (function not in ARRAY_FUNCTIONS or target is not None):
            return function(*on_host(args), **{k: on_host(v) for k, v in kwargs.items()})
        return compute(function, function.__name__, args, kwargs)

    def __eq__(self, other: Any) -> Any:
        return self._compared(operator.eq, np.equal, other)

    def __ne__(self, other: Any) -> Any:
        return self._compared(operator.ne, np.not_equal, other)

    __hash__ = None  # type: ignore[assignment]  # as of NumPy's arrays

    def _compared(self, plain: Any, ufunc: np.ufunc, other: Any) -> Any:
        """What NumPy's comparison gives for what is no number, too: a text equals none."""
        if _is_numeric(other):
            return ufunc(self, other)
        found = plain(_here(self).to_numpy(), other)
        here = isinstance(found, np.ndarray | np.generic)
        return _here(self).put_beside(found) if here else found

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """`numpy.ndarray.astype`, computed on the device; the array itself if it is of the type."""
        if np.dtype(dtype) == self.dtype:
            return self
        return compute(operator.methodcaller, "astype", (self, np.dtype(dtype), *args), kwargs)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The elements in another shape, sharing memory."""
        wanted = shape[0] if len(shape) == 1 else shape
        if order == "F":
            return compute(operator.methodcaller, "reshape", (self, wanted), {"order": order})
        return _here(self).part(_outline(self).reshape(wanted).shape, 0)

    def ravel(self, order: str = "C") -> Any:
        """The elements as a vector, sharing memory."""
        return self.reshape(-1, order="F" if order == "F" else "C")

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        """Without axes of length one, sharing memory."""
        return _here(self).part(_outline(self).squeeze(axis).shape, 0)

    def copy(self, order: str = "C") -> Any:
        """The array itself, which never changes."""
        return self

    def __getitem__(self, index: Any) -> Any:
        """A part: copied on the device where it lies in one piece, else by a program.

        Which elements a mask selects is known to the host alone: it works on a copy.
        """
        keys = index if isinstance(index, tuple) else (index,)
        keys = tuple(_listed(k) if isinstance(k, list) else k for k in keys)
        if any(getattr(k, "dtype", None) == np.bool_ or isinstance(k, bool) for k in keys):
            found = _here(self).to_numpy()[on_host(keys)]
            return _here(self).put_beside(found)
        if all(k is None or k is Ellipsis or isinstance(k, slice) or _is_integer(k) for k in keys):
            keys = tuple(operator.index(k) if _is_integer(k) else k for k in keys)
            outline = _outline(self)
            part = outline[keys if Ellipsis in keys else (*keys, ...)]
            if part.flags.c_contiguous:
                start = part.ctypes.data - outline.ctypes.data
                return _here(self).copied_part(part.shape, start)
        return compute(operator.getitem, "[]", (self, *keys), {})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            known = not name.startswith("__") and hasattr(np.ndarray, name)
            more = f"; the copy that x.to_numpy() makes has {name}" if known else ""
            raise AttributeError(f"'DeviceArray' object has no attribute {name!r}{more}")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise MutationError(
            f"an element of an array on {_here(self).device} cannot be assigned to: such arrays "
            "never change",
            hint="write x = x.at[index].set(value)",
        )

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __round__(self, digits: int | None = None) -> Any:
        if not self.shape:
            return round(_here(self).item(), digits)
        return self.round(digits or 0)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over an array without axes")
        return (self[k] for k in range(self.shape[0]))

    @property
    def at(self) -> Any:
        """`x.at[index].set(value)` and its kin: a changed copy, made on the device."""
        return _Changes(self)


class _Changes:
    def __init__(self, array: Any, index: Any = None) -> None:
        self._array, self._index = array, index

    def __getitem__(self, index: Any) -> _Changes:
        return _Changes(self._array, index if isinstance(index, tuple) else (index,))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def change(*values: Any, **kwargs: Any) -> Any:
            args = (self._array, self._index, *values)
            return compute(_changed(name), f"at.{name}", args, kwargs)

        return change


@functools.cache
def _changed(name: str) -> Callable[..., Any]:
    def run(array: Any, index: Any, *values: Any, **kwargs: Any) -> Any:
        return getattr(array.at[index], name)(*values, **kwargs)

    return run


def _here(array: Methods) -> DeviceArray:
    return cast("DeviceArray", array)


def _listed(key: list[Any]) -> np.ndarray[Any, Any]:
    """A list of places as an array; NumPy reads one without elements as integers."""
    found = np.asarray(key)
    return found if found.size else found.astype(np.intp)


def _is_numeric(value: Any) -> bool:
    """Whether a value is of numbers that programs have; texts, dates and records are not."""
    if isinstance(value, list | tuple):
        return all(_is_numeric(v) for v in value)
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        return is_supported(dtype.newbyteorder("="))
    return dtype is not None or isinstance(value, int | float | complex)


@functools.cache
def _written(function: Callable[..., Any]) -> tuple[int, str]:
    """Place and name of the argument that a function writes to."""
    names = inspect.signature(function).parameters
    if function in _WRITING:
        return 0, next(iter(names))
    found = names.get("out")
    if found is None or found.kind is found.KEYWORD_ONLY:
        return sys.maxsize, "out"
    return list(names).index("out"), "out"


def _refuse_to_write(name: str, target: Any) -> None:
    if isinstance(target, Methods):
        raise MutationError(
            f"{name}: an array on {_here(target).device} cannot be written to, it never changes",
            hint="leave out= away, or write x = x.at[index].set(value)",
        )


def _is_integer(key: Any) -> bool:
    if isinstance(key, int | np.integer):
        return True
    return isinstance(key, Methods) and key.shape == () and key.dtype.kind in "iu"


def _outline(array: Methods) -> np.ndarray[Any, Any]:
    """A view of the array's shape whose elements must not be touched: NumPy finds shapes by it."""
    one = np.empty((), array.dtype)
    steps = [one.itemsize * math.prod(array.shape[k + 1 :]) for k in range(len(array.shape))]
    return np.lib.stride_tricks.as_strided(one, array.shape, steps, writeable=False)
