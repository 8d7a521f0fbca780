"""DLPack: sharing arrays on a device with other libraries, both ways.

Input: a dense array's address, shape and type, or an object with `__dlpack__`.  Output: a capsule,
or the tensor in one.  A capsule holds a structure of C with a function that its taker calls when
it is done; both forms are made and taken, with a version and without.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.dtypes import DType, bfloat16
from stax.errors import DtypeError

CPU, CUDA, MANAGED = 1, 2, 13  # DLPack's numbers of platforms
ON_CUDA = (CUDA, MANAGED)
VERSION = (1, 0)
_READ_ONLY = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
# What an array that is put on a device may be of.
DTYPES: tuple[DType, ...] = (
    *map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")),
    *map(np.dtype, ("c8", "c16")),  # kept there; programs compute with them in NumPy, on copies
    bfloat16,
)
_BFLOAT = 4


@dataclass(frozen=True)
class Tensor:
    """An array on a device; `strides` count elements, None for row-major."""

    address: int
    device: int
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """What a capsule without a version points to."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):
    """What a capsule with a version points to."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_FORMS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_exported: dict[int, tuple[Any, ...]] = {}


def _forget(pointer: int) -> None:
    _exported.pop(pointer, None)


_delete = _DELETER(_forget)

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _abandoned(capsule: Any) -> None:
    """A capsule that nobody took gives its tensor back."""
    for name in _FORMS:
        if capsule and _is_capsule(capsule, name):
            _forget(_capsule_pointer(capsule, name))


_drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_abandoned)


def capsule(tensor: Tensor, owner: Any, max_version: tuple[int, int] | None = None) -> Any:
    """A capsule with a row-major tensor; `owner` lives until its taker is done with it."""
    ndim = len(tensor.shape)
    steps, step = [], 1
    for n in reversed(tensor.shape):
        steps.append(step)
        step *= n
    shape = (ctypes.c_int64 * max(ndim, 1))(*tensor.shape)
    strides = (ctypes.c_int64 * max(ndim, 1))(*reversed(steps))
    code = _BFLOAT if tensor.dtype == bfloat16 else _CODES[tensor.dtype.kind]
    held = _Tensor(
        tensor.address,
        _Device(CUDA, tensor.device),
        ndim,
        _Type(code, 8 * tensor.dtype.itemsize, 1),
        shape,
        strides,
        0,
    )
    made: Any
    if max_version is not None and max_version[0] >= VERSION[0]:
        made, name = _Versioned(*VERSION, None, _delete, _READ_ONLY, held), b"dltensor_versioned"
    else:
        made, name = _Managed(held, None, _delete), b"dltensor"
    address = ctypes.addressof(made)
    _exported[address] = (made, shape, strides, owner)
    return _new_capsule(address, name, ctypes.cast(_drop, ctypes.c_void_p))


class Taken:
    """A tensor taken from a capsule; it is given back when nobody uses it any more."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(ctypes.addressof(self._managed))


def taken(value: Any, stream: int) -> tuple[Tensor, Taken]:
    """The tensor behind an object with `__dlpack__`, ready for work on a stream; who keeps it.

    Raises:
      DtypeError: its type is unknown here.
    """
    wanted = stream or None
    try:
        given = value.__dlpack__(stream=wanted, max_version=VERSION)
    except TypeError:  # a producer from before versions
        given = value.__dlpack__(stream=wanted)
    name = next((n for n in _FORMS if _is_capsule(id(given), n)), None)
    if name is None:
        raise TypeError(f"{type(value).__name__}.__dlpack__ gave no capsule with a tensor")
    managed = _FORMS[name].from_address(_capsule_pointer(id(given), name))
    # From here on the tensor is given back by us, not by the capsule.
    used = ctypes.c_char_p(_USED[name])
    _rename(given, used)
    keep = Taken(managed)
    held = managed.tensor
    shape = tuple(held.shape[: held.ndim])
    strides = tuple(held.strides[: held.ndim]) if held.strides else None
    dtype = _dtype_of(held.dtype)
    address = (held.data or 0) + held.offset
    return Tensor(address, held.device.index, shape, dtype, strides), keep


_USED = {name: b"used_" + name for name in _FORMS}  # capsules keep the pointer, not a copy


def _dtype_of(given: _Type) -> DType:
    if given.lanes == 1 and given.code == _BFLOAT and given.bits == 16:
        return bfloat16
    kind = _KINDS.get(given.code)
    sizes = (64, 128) if kind == "c" else (16, 32, 64) if kind == "f" else (8, 16, 32, 64)
    if kind is None or given.lanes != 1 or given.bits not in sizes:
        raise DtypeError(
            f"an array of DLPack's type code {given.code} with {given.bits} bits in "
            f"{given.lanes} lanes has no dtype on a device"
        )
    return np.dtype(np.bool_) if kind == "b" else np.dtype(f"{kind}{given.bits // 8}")
