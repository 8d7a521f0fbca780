"""Arrays on a device.

Input: an address with shape and dtype, or a NumPy array to copy.  Output: a `DeviceArray`: dense,
row-major, immutable from Python.  Programs of the Triton back end take and return them without
copies; NumPy gets a copy through `__array__`; other libraries share the memory through DLPack and
`__cuda_array_interface__`.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.backends.triton import dlpack
from stax.backends.triton.device import ALIGNMENT, CudaDevice, Machine, holder, machine
from stax.backends.triton.methods import Methods
from stax.dtypes import DType
from stax.errors import DeviceError, DtypeError, MutationError

_UNSAID = object()


def _fixed(name: str, way: str) -> Any:
    """What an array was made with, which NumPy's arrays let their users replace."""

    def refuse(array: DeviceArray, value: Any) -> None:
        raise MutationError(
            f"the {name} of an array on {array.device} cannot be assigned to: such arrays never "
            "change",
            hint=way,
        )

    return property(operator.attrgetter(f"_{name}"), refuse)


class DeviceArray(Methods):
    """A dense row-major array in the memory of a device.

    Operators, ufuncs and methods run on the device and give such arrays; each is a small compiled
    program.  Other functions of NumPy take a copy in the memory of the process and give NumPy
    arrays.
    """

    __slots__ = ("_address", "_dtype", "_keep", "_machine", "_owned", "_shape")
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
        self._address = address
        self._shape = shape
        self._dtype = dtype
        self._owned = owned
        self._keep = keep

    if not TYPE_CHECKING:
        shape = _fixed("shape", "write x = x.reshape(shape)")
        dtype = _fixed("dtype", "write x = x.astype(dtype), or x.to_numpy().view(dtype)")

    @property
    def address(self) -> int:
        """The place of the first element in the device's memory."""
        return self._address

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
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

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
        out = self._machine.host_array(self.shape, self.dtype)
        self._machine.download(out, self.address)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot be seen from NumPy without a copy")
        out = self.to_numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __copy__(self) -> DeviceArray:
        return self  # never changes

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a copy in the memory of the process; read onto the device of that number."""
        return put, (self.to_numpy(), self._machine.index)

    def part(self, shape: tuple[int, ...], start: int) -> DeviceArray:
        """The elements from a byte on in another shape, sharing memory."""
        return DeviceArray(self._machine, self.address + start, shape, self.dtype, False, self)

    def copied_part(self, shape: tuple[int, ...], start: int) -> DeviceArray:
        """The same as a copy on the device; the whole array shares memory."""
        if math.prod(shape) == self.size:
            return self.part(shape, 0)
        return _copied(self._machine, self.address + start, shape, self.dtype)

    def put_beside(self, value: Any) -> DeviceArray:
        """An array of the process on the device of this one."""
        return copied_to(self._machine, np.asarray(value))

    def block_until_ready(self) -> DeviceArray:
        """The array itself, once its value is computed."""
        self._machine.synchronize()
        return self

    def item(self, *index: Any) -> Any:
        """The only element, or that at an index, as a Python number."""
        return self.to_numpy().item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.to_numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return operator.index(self.to_numpy())

    def __format__(self, form: str) -> str:
        return format(self.item(), form) if form and not self.shape else format(str(self), form)

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
        return dlpack.CUDA, self._machine.index

    def __dlpack__(
        self,
        *,
        stream: Any = _UNSAID,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule that shares the memory; the value is computed before it is returned.

        Asked for the CPU's memory (`numpy.from_dlpack(x, device="cpu")`), a copy.

        Raises:
          BufferError: the taker cannot read a device, or wants the array on another one.
        """
        if dl_device is not None and dl_device[0] == dlpack.CPU:
            if copy is False:
                raise BufferError("an array on a device reaches the CPU by a copy only")
            return self.to_numpy().__dlpack__(max_version=max_version)
        if stream is _UNSAID and max_version is not None:
            # Who knows of devices names a stream. NumPy would refuse the capsule, which then dies
            # while an exception is set, and the call back into Python would lose that.
            raise BufferError(
                f"the array is on {self.device}, and who asks for its memory reads the CPU's; "
                'np.asarray(x) or np.from_dlpack(x, device="cpu") copies it'
            )
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the array is on {self.device}, not on DLPack's {dl_device}")
        if copy:
            fresh = _copied(self._machine, self.address, self.shape, self.dtype)
            return fresh.__dlpack__(stream=stream, max_version=max_version)
        self._machine.synchronize()
        tensor = dlpack.Tensor(self.address, self._machine.index, self.shape, self.dtype)
        return dlpack.capsule(tensor, self, max_version)

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            self._machine.free(self._address)


def put(value: Any, index: int = 0) -> DeviceArray:
    """`value` on a device: a copy of an array, or an array of another library as it lies there.

    Raises:
      DeviceError: there is no such device, or the array is on another one.
      DtypeError: arrays of that type cannot be on a device.
    """
    on = machine(index)
    if isinstance(value, DeviceArray):
        if value.machine is on:
            return value
        return put(value.to_numpy(), index)
    if is_on_device(value):
        found = shared(value)
        return found if found.machine is on else put(found.to_numpy(), index)
    array = np.asarray(value)
    dtype = array.dtype.newbyteorder("=")
    if dtype not in dlpack.DTYPES:
        raise DtypeError(
            f"arrays of {array.dtype} cannot be put on {on.name}",
            hint="convert to one of " + ", ".join(d.name for d in dlpack.DTYPES),
        )
    return copied_to(on, array.astype(dtype, copy=False))


def copied_to(on: Machine, array: np.ndarray[Any, Any]) -> DeviceArray:
    """A copy of an array of the process on a machine."""
    dense = np.ascontiguousarray(array).reshape(array.shape)
    address = on.allocate(dense.nbytes, f"array {dense.dtype}{list(dense.shape)}")
    made = DeviceArray(on, address, dense.shape, dense.dtype)  # gives it back if that fails
    on.upload(address, dense)
    return made


def is_on_device(value: Any) -> bool:
    """Whether an object of another library says that its memory is a CUDA device's."""
    where = getattr(value, "__dlpack_device__", None)
    if where is not None:
        return int(where()[0]) in dlpack.ON_CUDA
    return hasattr(value, "__cuda_array_interface__")


def shared(value: Any, copy: bool | None = None) -> DeviceArray:
    """The memory of another library's array on a device, kept alive; no element is copied.

    It is copied if `copy` asks for it, or if its address is not a multiple of 16 bytes.

    Raises:
      DeviceError: the array is not row-major, has a mask, is not where the driver finds memory, or
        would have to be copied against `copy=False`.
      DtypeError: there is no such type here.
    """
    if isinstance(value, DeviceArray):
        return _copied(value.machine, value.address, value.shape, value.dtype) if copy else value
    if hasattr(value, "__dlpack_device__"):
        on = machine(int(value.__dlpack_device__()[1]))
        tensor, keep = dlpack.taken(value, on.stream_address if isinstance(on, CudaDevice) else 0)
        shape, dtype, address = tensor.shape, tensor.dtype, tensor.address
        strides = tensor.strides
    else:
        on, address, shape, dtype, strides = _described(value.__cuda_array_interface__)
        keep = value
    if strides is not None and 0 not in shape and not _is_dense(shape, strides):
        raise DeviceError(
            f"the array of shape {shape} on the device is not row-major (strides {strides})",
            hint="make it contiguous first",
        )
    if copy or address % ALIGNMENT:
        if copy is False:
            raise DeviceError(
                f"the array at {address:#x} is not aligned to {ALIGNMENT} bytes, so it is copied",
                hint="leave copy= open",
            )
        fresh = _copied(on, address, shape, dtype)
        on.synchronize()  # the memory is its owner's again
        return fresh
    return DeviceArray(on, address, shape, dtype, owned=False, keep=keep)


def _described(
    interface: dict[str, Any],
) -> tuple[Machine, int, tuple[int, ...], DType, tuple[int, ...] | None]:
    """Device, address, shape, dtype and strides (in elements) of `__cuda_array_interface__`.

    The interface does not say which device it means: the driver does.  Work on the stream that it
    names is waited for.
    """
    shape = tuple(map(int, interface["shape"]))
    dtype = np.dtype(interface["typestr"])
    if dtype not in dlpack.DTYPES:
        raise DtypeError(f"an array of type {interface['typestr']!r} has no dtype on a device")
    if interface.get("mask") is not None:
        raise DeviceError(
            "the array on the device has a mask, which arrays here do not have",
            hint="fill what is masked first",
        )
    address = int(interface["data"][0])
    on = machine(holder(address) if address else 0)
    strides = interface.get("strides")
    if strides is not None:
        strides = tuple(s // dtype.itemsize for s in strides)
    stream = interface.get("stream")
    if stream is not None:
        if stream == 0:
            raise DeviceError(
                "__cuda_array_interface__ names stream 0, which may be either of two",
                hint="1 is the legacy default stream, 2 that of the thread",
            )
        if isinstance(on, CudaDevice):
            on.wait_for(int(stream))
    return on, address, shape, dtype, strides


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _copied(on: Machine, address: int, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
    nbytes = math.prod(shape) * dtype.itemsize
    fresh = on.allocate(nbytes, f"array {dtype}{list(shape)}")
    on.copy(fresh, address, nbytes)
    return DeviceArray(on, fresh, shape, dtype)
