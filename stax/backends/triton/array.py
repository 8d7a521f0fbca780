"""Arrays on a device.

Input: an address with shape and dtype, or a NumPy array to copy.  Output: a `DeviceArray`: dense,
row-major, immutable from Python.  Programs of the Triton back end take and return them without
copies; NumPy gets a copy through `__array__`; other libraries share the memory through DLPack and
`__cuda_array_interface__`.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from stax.backends.triton.device import ALIGNMENT, CudaDevice, Machine, machine
from stax.dtypes import DType
from stax.errors import DeviceError, DtypeError

CUDA = 2  # DLPack's number for the platform
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A dense row-major array in the memory of a device.

    NumPy's functions and the operators work on it outside of programs too, on a copy in the
    memory of the process, and give NumPy arrays.
    """

    __slots__ = ("_keep", "_machine", "_owned", "address", "dtype", "shape")
    __array_priority__ = 2000

    def __init__(
        self,
        on: Machine,
        address: int,
        shape: tuple[int, ...],
        dtype: DType,
        owned: bool = True,
        keep: Any = None,
    ) -> None:
        self._machine = on
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self._owned = owned
        self._keep = keep

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The device, such as "cuda:0"."""
        return f"{self._machine.name.partition(':')[0]}:{self._machine.index}"

    @property
    def machine(self) -> Machine:
        """The device that holds it."""
        return self._machine

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """A copy in the memory of the process; waits for the value to be computed."""
        out = np.empty(self.shape, self.dtype)
        self._machine.download(out, self.address)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot be seen from NumPy without a copy")
        out = self.to_numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        given = [v.to_numpy() if isinstance(v, DeviceArray) else v for v in inputs]
        if any(isinstance(v, DeviceArray) for v in kwargs.get("out", ())):
            return NotImplemented
        return getattr(ufunc, method)(*given, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return self.to_numpy()[index]

    def block_until_ready(self) -> DeviceArray:
        """The array itself, once its value is computed."""
        self._machine.synchronize()
        return self

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.to_numpy().item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.to_numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.to_numpy())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({self.to_numpy()!r}, device={self.device!r})"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not isinstance(self._machine, CudaDevice):
            raise AttributeError("__cuda_array_interface__")
        self._machine.synchronize()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, True),
            "version": 3,
            "strides": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._machine.index

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A capsule that shares the memory; the value is computed before it is returned."""
        self._machine.synchronize()
        return _capsule(self)

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            self._machine.free(self.address)


def put(value: Any, index: int = 0) -> DeviceArray:
    """`value` on a device: a copy of an array, or an array of another library as it lies there.

    Raises:
      DeviceError: there is no such device, or the array is on another one.
    """
    on = machine(index)
    if isinstance(value, DeviceArray):
        if value.machine is on:
            return value
        return put(value.to_numpy(), index)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _shared(value, interface, on)
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind not in "iufb" and array.dtype.name != "bfloat16":
        raise DtypeError(f"arrays of {array.dtype} cannot be put on {on.name}")
    address = on.allocate(array.nbytes, f"array {array.dtype}{list(array.shape)}")
    on.upload(address, array)
    return DeviceArray(on, address, array.shape, array.dtype)


def _shared(value: Any, interface: dict[str, Any], on: Machine) -> DeviceArray:
    """Memory of another library; copied when it is not dense or not aligned."""
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    address = int(interface["data"][0])
    expected = tuple(int(s) for s in np.empty(shape, np.bool_).strides)
    expected = tuple(s * dtype.itemsize for s in expected)
    strides = interface.get("strides")
    if strides is not None and tuple(strides) != expected:
        raise DeviceError(
            f"the array of shape {shape} on the device is not row-major (strides {strides})",
            hint="make it contiguous first",
        )
    if address % ALIGNMENT:
        nbytes = math.prod(shape) * dtype.itemsize
        fresh = on.allocate(nbytes, f"array {dtype}{list(shape)}")
        on.copy(fresh, address, nbytes)
        return DeviceArray(on, fresh, shape, dtype)
    return DeviceArray(on, address, shape, dtype, owned=False, keep=value)


# ---------------------------------------------------------------------------------- DLPack


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


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (
    ("tensor", _Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", _DELETER),
)
_exported: dict[int, tuple[Any, ...]] = {}


def _forget(pointer: Any) -> None:
    _exported.pop(ctypes.addressof(pointer.contents), None)


_delete = _DELETER(_forget)


_NAME = b"dltensor"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)


def _abandoned(capsule: Any) -> None:
    """A capsule that nobody took gives its tensor back."""
    if capsule and _is_capsule(capsule, _NAME):
        _exported.pop(_capsule_pointer(capsule, _NAME), None)


_drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_abandoned)


def _capsule(array: DeviceArray) -> Any:
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    steps, step = [], 1
    for n in reversed(array.shape):
        steps.append(step)
        step *= n
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*reversed(steps))
    code = 4 if array.dtype.name == "bfloat16" else _CODES[array.dtype.kind]
    managed = _Managed(
        _Tensor(
            array.address,
            _Device(CUDA, array.machine.index),
            array.ndim,
            _Type(code, 8 * array.dtype.itemsize, 1),
            shape,
            strides,
            0,
        ),
        None,
        _delete,
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, strides, array)
    return _new_capsule(address, _NAME, ctypes.cast(_drop, ctypes.c_void_p))
