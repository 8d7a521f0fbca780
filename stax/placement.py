"""Where arrays live: the CPU of this process, under the names that scripts ask it by.

Input: nothing, or a tree of arrays.  Output: the list of devices, and the arrays themselves: values
on the CPU are NumPy arrays, there is nothing to move and nothing to wait for.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.backends import on_demand
from stax.core.aval import Aval, Remote, aval_of
from stax.core.trace import Tracer, as_traced
from stax.errors import DeviceError
from stax.numpy.array_methods import add as add_array_method
from stax.numpy.creation import DLPACK_HOOK, array
from stax.pytree import tree_flatten, tree_leaves, tree_map
from stax.transforms.sharding import Mesh, Sharding, SingleDeviceSharding

__all__ = [
    "Device",
    "block_until_ready",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "effects_barrier",
    "from_dlpack",
    "local_device_count",
    "local_devices",
    "make_mesh",
    "process_count",
    "process_index",
    "typeof",
]


class Device:
    """A device by platform and number; the CPU is `Device("cpu", 0)`."""

    __slots__ = ("platform", "id")

    def __init__(self, platform: str = "cpu", id: int = 0) -> None:
        self.platform = platform
        self.id = id

    @property
    def device_kind(self) -> str:
        """The platform's name."""
        return self.platform

    @property
    def process_index(self) -> int:
        """Always 0: a program runs in one process."""
        return 0

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Device) and (self.platform, self.id) == (other.platform, other.id)
        return same or other == self.platform

    def __hash__(self) -> int:
        return hash(self.platform)

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"


_CPU = Device()
_HERE = SingleDeviceSharding(_CPU)


@dataclasses.dataclass(frozen=True)
class Shard:
    """The part of an array on one device: all of it."""

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Any


def _sharding_of(array: Any) -> SingleDeviceSharding:
    """The sharding of an array, where JAX is not loaded.

    JAX takes whatever has a sharding for an array of its own, and would fail on NumPy's.
    """
    if "jax" in sys.modules:
        raise AttributeError("NumPy's arrays have no sharding in a program that loads JAX")
    return _HERE


add_array_method("devices", lambda self: {_CPU})
add_array_method("sharding", property(_sharding_of))
add_array_method("is_fully_replicated", property(lambda self: True))
add_array_method("is_fully_addressable", property(lambda self: True))
add_array_method(
    "addressable_shards",
    property(lambda self: [Shard(_CPU, (slice(None),) * self.ndim, 0, self)]),
)
_GPU = ("cuda", "gpu")


def devices(backend: str | None = None) -> list[Device]:
    """The devices that programs run on.

    Raises:
      DeviceError: there is no such platform.
    """
    if backend in (None, "cpu"):
        return [_CPU]
    if backend in _GPU:
        found = on_demand("triton.device").count()
        if not found:
            on_demand("triton.device").machine(0)  # says what is missing
        return [Device("cuda", k) for k in range(found)]
    raise DeviceError(
        f"no device of the platform {backend!r}",
        hint="arrays live on 'cpu' or 'cuda'; compile for others with jit(f).lower(device=...)",
    )


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Device]:
    """The same as `devices`."""
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """The number of devices."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices."""
    return len(devices(backend))


def default_backend() -> str:
    """The platform on which arrays live."""
    return "cpu"


def devices_of_mesh(shape: Sequence[int], given: Sequence[Any] | None) -> Any:
    """The devices (all, by default) as an array of `shape`.

    Raises:
      DeviceError: there is another number of them.
    """
    found = devices() if given is None else list(given)
    if math.prod(shape) != len(found):
        raise DeviceError(
            f"a mesh of shape {tuple(shape)} wants {math.prod(shape)} devices, there "
            f"{'is' if len(found) == 1 else 'are'} {len(found)}",
            hint="programs run on one device: every axis of a mesh has extent 1",
        )
    return np.array(found, dtype=object).reshape(tuple(shape))


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Any,
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the one device, whose axes all have extent 1.

    Raises:
      DeviceError: the shape wants more devices.
      ShapeError: another number of names.

    >>> dict(make_mesh((1,), ("x",)).shape)
    {'x': 1}
    """
    return Mesh(devices_of_mesh(axis_shapes, devices), axis_names, axis_types)


def _is_place(value: Any) -> bool:
    return value is None or isinstance(value, Device | Sharding | str)


def device_put(x: Any, device: Any = None, *, donate: bool = False, may_alias: Any = None) -> Any:
    """The leaves of `x` as arrays of their own: NumPy arrays, or `DeviceArray`s on "cuda:0".

    Args:
      device: one of `devices(...)`, "cpu", "cuda", "cuda:1", or a sharding; or a tree of them that
        is a prefix of `x`.

    Raises:
      DeviceError: there is no such device.
      ShapeError: a sharding is for arrays of more axes.

    >>> device_put([1.0, np.arange(2)])
    [array(1.), array([0, 1])]
    """
    if not _is_place(device):
        places, structure = tree_flatten(device, _is_place)
        for place in places:
            if not _is_place(place):
                raise DeviceError(
                    f"{place!r} of type {type(place).__name__} names no device",
                    hint='one of devices(...), "cpu", "cuda", "cuda:1", or a sharding',
                )
        parts = structure.flatten_up_to(x)
        put_each = [device_put(part, place) for part, place in zip(parts, places, strict=True)]
        return structure.unflatten(put_each)
    if isinstance(device, Sharding):
        for leaf in tree_leaves(x):
            device.check(leaf)
        device = device.one_device
    if device is None or device == _CPU:
        return tree_map(_on_cpu, x)
    platform, number = _named(device)
    known = devices(platform)
    index = number or 0
    if platform not in _GPU:
        return tree_map(_on_cpu, x)
    if index >= len(known):
        raise DeviceError(f"there is no device {index} of {len(known)} of the platform cuda")
    put = on_demand("triton.array").put
    return tree_map(lambda leaf: put(leaf, index), x)


def _on_cpu(leaf: Any) -> Any:
    return array(np.asarray(leaf) if isinstance(leaf, Remote) else leaf)


def _named(device: Any) -> tuple[str, int | None]:
    """The platform and, if it is said, the number of a device."""
    platform, _, number = str(getattr(device, "platform", device)).partition(":")
    if not re.fullmatch(r"\d*", number, re.ASCII):
        raise DeviceError(
            f"{device!r} names no device: {number!r} is not the number of one",
            hint=f'for example "{platform}:0"',
        )
    return platform, int(number) if number else getattr(device, "id", None)


_ON_CUDA = (2, 13)  # DLPack's numbers of memory that a CUDA device reads


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """The array behind an object with `__dlpack__`, sharing its memory.

    Args:
      x: an array of NumPy, torch, CuPy, JAX and others; row-major if it is on a device.
      device: "cpu" for a copy in the memory of the process; by default where the array is.
      copy: True always copies, False never.

    Returns:
      A NumPy array, or for an array on a CUDA device a `stax.DeviceArray`, which work on the
      stream of programs may use at once.

    Raises:
      DeviceError: it is not row-major, there is no driver, or it is not on the device asked for.
      BufferError: its owner cannot share it that way.

    >>> from_dlpack(np.arange(3.0))
    array([0., 1., 2.])
    """
    where = getattr(x, "__dlpack_device__", None)
    on_device = where is not None and int(where()[0]) in _ON_CUDA
    platform, number = _named(device)
    if on_device and platform != "cpu":
        index = int(where()[1])  # type: ignore[misc]  # it is on one, so it says where
        if device is not None and (platform not in _GPU or number not in (None, index)):
            raise DeviceError(
                f"from_dlpack shares memory, and this array is on cuda:{index}, not on {device!r}",
                hint="copy it with stax.device_put",
            )
        return on_demand("triton.array").shared(x, copy)
    if platform in _GPU:
        raise DeviceError(
            "from_dlpack shares memory, and this array is not on a device",
            hint='copy it with stax.device_put(x, "cuda")',
        )
    cpu: Any = None if device is None else platform  # any other word is NumPy's to refuse
    return as_traced(np.from_dlpack(x, device=cpu, copy=copy))


DLPACK_HOOK.append(from_dlpack)


def device_get(x: Any) -> Any:
    """The leaves of the pytree `x` as NumPy arrays; a traced one is returned as it is.

    It waits for what a device still computes.

    >>> device_get({"a": 1.0})
    {'a': array(1.)}
    """
    return tree_map(lambda leaf: leaf if isinstance(leaf, Tracer) else np.asarray(leaf), x)


def block_until_ready(x: Any) -> Any:
    """The pytree `x`, once what lies on a device is computed; on the CPU nothing is waited for.

    For measuring time: calls return before a device is done.
    """
    return tree_map(lambda v: v.block_until_ready() if hasattr(v, "machine") else v, x)


def effects_barrier() -> None:
    """Wait for prints and callbacks: they are done when a call returns."""


def process_index(backend: str | None = None) -> int:
    """The number of this process among those that run the program: 0."""
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes run the program: one."""
    return 1


def typeof(x: Any) -> Aval:
    """The type of an array, a number or a traced value: its shape, dtype and weakness.

    >>> typeof(np.zeros((2, 3), np.float32))
    f32[2,3]
    """
    return aval_of(x)
