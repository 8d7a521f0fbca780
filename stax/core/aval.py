"""Abstract values: the shape and dtype of a traced value, interned so that equality is cheap."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from stax.dtypes import WEAK_DTYPES, DType, short_name, tangent_dtype
from stax.errors import DtypeError


class Aval:
    """Shape, dtype and weakness of a value.

    `weak` marks a value that stands for a Python scalar: it does not widen the arrays it meets
    (NEP 50).  Instances are interned: equal avals are the same object.
    """

    __slots__ = ("shape", "dtype", "weak", "ndim", "size", "nbytes", "_text")
    shape: tuple[int, ...]
    dtype: DType
    weak: bool
    ndim: int
    size: int  # elements
    nbytes: int  # of a dense array of this type
    _text: str
    _interned: ClassVar[dict[tuple[Any, ...], Aval]] = {}

    def __new__(cls, shape: tuple[int, ...], dtype: DType, weak: bool = False) -> Aval:
        key = (shape, dtype, weak)
        found = cls._interned.get(key)
        if found is not None:
            return found
        dtype = np.dtype(dtype)
        if not dtype.isnative:  # a matter of the memory that an array lies in
            return cls(shape, dtype.newbyteorder("="), weak)
        self = object.__new__(cls)
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "weak", bool(weak))
        object.__setattr__(self, "ndim", len(self.shape))
        object.__setattr__(self, "size", math.prod(self.shape))
        object.__setattr__(self, "nbytes", self.size * dtype.itemsize)
        mark = "~" if weak else ""
        text = f"{short_name(self.dtype)}{mark}[{','.join(map(str, self.shape))}]"
        object.__setattr__(self, "_text", text)
        return cls._interned.setdefault((self.shape, self.dtype, self.weak), self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("Aval is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Aval, (self.shape, self.dtype, self.weak))

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def strong(self) -> Aval:
        """The same type without weakness."""
        return Aval(self.shape, self.dtype) if self.weak else self

    def tangent(self) -> Aval:
        """The type of a tangent of this value."""
        return Aval(self.shape, tangent_dtype(self.dtype))

    def update(self, shape: tuple[int, ...] | None = None, dtype: DType | None = None) -> Aval:
        """A strong aval with the given fields replaced."""
        return Aval(self.shape if shape is None else shape, self.dtype if dtype is None else dtype)


class Remote:
    """An array in memory that NumPy does not reach, such as a device's; it never changes.

    What is computed with it outside of transformations, and by them with the values they know, is
    computed where it lies (`core.trace.ELSEWHERE`).
    """

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: DType

    @property
    def aval(self) -> Aval:
        """Type of the value."""
        return Aval(self.shape, self.dtype)

    # Not an abstract class: its own instance check is slower than that of plain classes.
    @abstractmethod
    def put_beside(self, value: Any) -> Remote:
        """A copy of an array of NumPy's where this one lies."""


def aval_of(value: Any) -> Aval:
    """The type of a NumPy array, NumPy scalar, Python scalar or traced value."""
    aval = getattr(value, "aval", None)
    if aval is not None:
        return aval  # type: ignore[no-any-return]  # tracers carry theirs
    weak = WEAK_DTYPES.get(type(value))
    if weak is not None:
        return Aval((), weak, True)
    if isinstance(value, np.ndarray | np.generic):
        check_meaning(value)
        return Aval(value.shape, value.dtype)
    array = np.asarray(value)
    return Aval(array.shape, array.dtype)


# Subclasses whose operations mean something else than an array's: their meaning would be lost.
# By name: a program without masked arrays has not loaded their module, which takes 10 ms.
_OF_THEIR_OWN = {
    ("numpy.ma", "MaskedArray"): (
        "mask",
        "pass x.filled(0) and the mask x.mask as arrays of their own",
    ),
    ("numpy", "matrix"): ("matrix product for `*`", "pass np.asarray(x) and write x @ y"),
}


def check_meaning(array: Any) -> None:
    """Raise DtypeError for an array whose class gives its operations another meaning."""
    if type(array) is np.ndarray or isinstance(array, np.generic):
        return
    for (module, name), (what, hint) in _OF_THEIR_OWN.items():
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(array, kind):
            raise DtypeError(
                f"a {type(array).__name__} cannot be traced: its {what} would be lost",
                operands=[f"{type(array).__name__} {Aval(array.shape, array.dtype)}"],
                hint=hint,
            )
