"""Names for annotations and `isinstance`: Array, ArrayLike, DTypeLike.

Input: nothing.  Output: `Array`, which holds for NumPy arrays and scalars, arrays on a device and
traced values (no object is made by it: an array is a `numpy.ndarray`), and the unions of what
functions accept.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from stax.backends.triton.methods import Methods
from stax.core.keys import KeyArray
from stax.core.trace import Tracer

__all__ = ["Array", "ArrayLike", "DTypeLike"]


_KINDS = (np.ndarray, np.generic, Tracer, KeyArray, Methods)


class _ArrayMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _KINDS)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _KINDS)


class Array(metaclass=_ArrayMeta):
    """What `isinstance(x, Array)` holds for: NumPy arrays and scalars, keys, arrays on a
    device, traced values."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Arrays are made by `stax.numpy.array` and its kin."""
        raise TypeError("Array names a kind of value; make one with stax.numpy.array or zeros")


ArrayLike = Union[Array, np.ndarray[Any, Any], np.generic, bool, int, float, complex]  # noqa: UP007 - `|` is not defined for the metaclass
DTypeLike = Union[str, type, np.dtype[Any]]  # noqa: UP007 - beside the line above
