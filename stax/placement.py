"""Where arrays live: the CPU of this process, under the names that scripts ask it by.

Input: nothing, or a tree of arrays.  Output: the list of devices, and the arrays themselves: values
on the CPU are NumPy arrays, there is nothing to move and nothing to wait for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.backends import on_demand
from stax.core.aval import Aval, aval_of
from stax.core.trace import Tracer
from stax.errors import DeviceError
from stax.numpy.creation import array
from stax.pytree import tree_map

__all__ = [
    "Device",
    "block_until_ready",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "effects_barrier",
    "local_device_count",
    "local_devices",
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
        if found:
            return [Device("cuda", k) for k in range(found)]
    raise DeviceError(
        f"no device of the platform {backend!r}",
        hint="arrays live on the CPU; compile for others with jit(f).lower(device=...)",
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


def device_put(x: Any, device: Any = None, *, donate: bool = False, may_alias: Any = None) -> Any:
    """The leaves of `x` as arrays of their own: NumPy arrays, or `DeviceArray`s on "cuda:0".

    Args:
      device: one of `devices(...)`, or "cpu", "cuda", "cuda:1".

    Raises:
      DeviceError: there is no such device.
    """
    if device is None or device == _CPU:
        return tree_map(array, x)
    platform, _, number = str(getattr(device, "platform", device)).partition(":")
    known = devices(platform)
    index = int(number) if number.isdigit() else int(getattr(device, "id", 0))
    if platform not in _GPU:
        return tree_map(array, x)
    if index >= len(known):
        raise DeviceError(f"there is no device {index} of {len(known)} of the platform cuda")
    put = on_demand("triton.array").put
    return tree_map(lambda leaf: put(leaf, index), x)


def device_get(x: Any) -> Any:
    """The leaves of `x` as NumPy arrays; a traced one is returned as it is."""
    return tree_map(lambda leaf: leaf if isinstance(leaf, Tracer) else np.asarray(leaf), x)


def block_until_ready(x: Any) -> Any:
    """`x`, once what lies on a device is computed; on the CPU it is when a call returns."""
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
