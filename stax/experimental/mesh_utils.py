"""Arrays of devices for a mesh; see `stax.transforms.sharding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.placement import devices_of_mesh

__all__ = ["create_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **_: Any
) -> Any:
    """An array of devices of shape `mesh_shape`, for `Mesh`.

    Raises:
      DeviceError: it holds another number of devices than there are.
    """
    return devices_of_mesh(mesh_shape, devices)
