"""Meshes and shardings on one device: the names, checked, and what they mean there.

Input: devices, axis names, and which axis of an array is spread over which axis of the mesh.
Output: descriptions that `device_put`, `jit` and `with_sharding_constraint` take, and `shard_map`.
Programs run on one device, so every axis of a mesh has extent 1, every block is the whole array,
and nothing moves; a mesh of several devices is refused when it is made.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ConfigurationError, DeviceError, ShapeError
from stax.pytree import tree_flatten, tree_map
from stax.transforms.arguments import check_callable
from stax.transforms.vmap import vmap

# The names of `stax.sharding`; `shard_map` and `with_sharding_constraint` have theirs elsewhere.
__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "reshard",
    "set_mesh",
    "use_mesh",
]


class AxisType(enum.Enum):
    """How the axes of a mesh are used in JAX; on one device there is no difference."""

    Auto = "auto"
    Explicit = "explicit"
    Manual = "manual"

    def __repr__(self) -> str:
        return self.name


class PartitionSpec(Sequence[Any]):
    """For each axis of an array the mesh axis it is spread over: a name, several, or None.

    >>> PartitionSpec("x", None)
    P('x', None)
    """

    __slots__ = ("_parts",)
    UNCONSTRAINED: Any = type("UNCONSTRAINED", (), {"__repr__": lambda self: "UNCONSTRAINED"})()

    def __init__(self, *partitions: Any) -> None:
        self._parts = tuple(tuple(p) if isinstance(p, list) else p for p in partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __len__(self) -> int:
        return len(self._parts)

    def __add__(self, other: Sequence[Any]) -> PartitionSpec:
        return PartitionSpec(*self._parts, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec | tuple) and self._parts == tuple(other)

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self._parts))}{',' if len(self._parts) == 1 else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, self._parts

    def names(self) -> list[Any]:
        """The axis names in it, in order."""
        found: list[Any] = []
        for part in self._parts:
            if part is not None and part is not PartitionSpec.UNCONSTRAINED:
                found.extend(part if isinstance(part, tuple) else (part,))
        return found


class AbstractMesh:
    """The axis names of a mesh and their extents, without devices."""

    def __init__(
        self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None, **_: Any
    ) -> None:
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.axis_sizes = tuple(int(n) for n in axis_sizes)
        if len(self.axis_names) != len(self.axis_sizes):
            raise ShapeError(
                f"a mesh of {len(self.axis_sizes)} axes has {len(self.axis_names)} axis names",
                operands=[str(self.axis_sizes), str(self.axis_names)],
                where=user_source() or None,
            )
        if len(set(self.axis_names)) != len(self.axis_names):
            raise ShapeError(f"an axis name stands twice in {self.axis_names}")
        self.axis_types = tuple(axis_types or (AxisType.Auto,) * len(self.axis_names))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The extent of each axis by its name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return int(np.prod(self.axis_sizes, dtype=np.int64))

    @property
    def empty(self) -> bool:
        """True for a mesh without axes."""
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def _fields(self) -> tuple[Any, ...]:
        return type(self), self.axis_names, self.axis_sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


class Mesh(AbstractMesh):
    """One device under axis names, each of extent 1.

    Args:
      devices: an array of devices with as many axes as there are names.
      axis_names: a name or several.

    Raises:
      DeviceError: more than one device.
      ShapeError: another number of names.

    >>> dict(Mesh(np.array(stax.devices()), ("x",)).shape)
    {'x': 1}
    """

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None, **_: Any) -> None:
        self.devices = np.array(devices, dtype=object)
        super().__init__(self.devices.shape, axis_names, axis_types)
        if self.devices.size != 1:
            raise DeviceError(
                f"a mesh of {self.devices.size} devices: programs run on one device",
                where=user_source() or None,
                hint="make the mesh of one, stax.make_mesh((1,), ('x',)), or map over an axis with "
                "stax.vmap(f, axis_name='x')",
            )

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process: all of them."""
        return list(self.devices.flat)

    @property
    def device_ids(self) -> Any:
        """The numbers of the devices."""
        return np.array([d.id for d in self.devices.flat]).reshape(self.devices.shape)

    def __enter__(self) -> Mesh:
        _STATE.meshes.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _STATE.meshes.pop()


class _State(threading.local):
    """The meshes that surround the code of a thread."""

    def __init__(self) -> None:
        self.meshes: list[Mesh] = []


_STATE = _State()
_EMPTY = AbstractMesh((), ())


def get_mesh() -> Any:
    """The mesh that surrounds the caller; an empty one when there is none."""
    return _STATE.meshes[-1] if _STATE.meshes else _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """The mesh that surrounds the caller, without its devices."""
    found: AbstractMesh = get_mesh().abstract_mesh
    return found


class set_mesh:
    """Make `mesh` the surrounding one: from here on, or in a block with `with set_mesh(mesh):`."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        _STATE.meshes.append(mesh)

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(self, *exception: Any) -> None:
        _STATE.meshes.pop()


use_mesh = set_mesh


# ------------------------------------------------------------------------------------- shardings


class Sharding:
    """How an array lies on devices; here, on one."""

    memory_kind: str | None = "device"

    @property
    def one_device(self) -> Any:
        """The device."""
        raise TypeError(f"{type(self).__name__} has no device")

    @property
    def device_set(self) -> set[Any]:
        """The devices: one."""
        return {self.one_device}

    @property
    def addressable_devices(self) -> set[Any]:
        """Those of this process: the same."""
        return self.device_set

    @property
    def num_devices(self) -> int:
        """One."""
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        """True: the device has the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """True: all devices belong to this process."""
        return True

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a device's block: that of the array."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """The part of an array that each device has: all of it."""
        return {self.one_device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether two shardings place an array alike: they do on the same device."""
        return isinstance(other, Sharding) and self.device_set == other.device_set

    def check(self, value: Any) -> None:
        """Raise ShapeError where an array cannot be spread that way."""


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        self.device = device
        self.memory_kind = memory_kind or "device"

    @property
    def one_device(self) -> Any:
        """The device."""
        return self.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self.memory_kind})"


class NamedSharding(Sharding):
    """Axes of an array spread over the named axes of a mesh.

    Raises:
      ShapeError: the mesh has no such axis, or a name stands twice.
    """

    def __init__(self, mesh: Any, spec: Any, *, memory_kind: str | None = None, **_: Any) -> None:
        self.mesh = mesh
        self.spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        self.memory_kind = memory_kind or "device"
        check_names(self.spec, mesh, "NamedSharding")

    @property
    def one_device(self) -> Any:
        """The device."""
        return self.mesh.devices.flat[0]

    def check(self, value: Any) -> None:
        check_rank(self.spec, value, "sharding")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (
            other.mesh,
            other.spec,
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        axes = ", ".join(f"{name!r}: {n}" for name, n in self.mesh.shape.items())
        return (
            f"NamedSharding(mesh=Mesh({axes}, axis_types={self.mesh.axis_types}), "
            f"spec={self.spec}, memory_kind={self.memory_kind})"
        )


def check_names(spec: PartitionSpec, mesh: Any, what: str) -> None:
    """Raise ShapeError unless every name in `spec` is an axis of the mesh, and stands once."""
    names = spec.names()
    unknown = [n for n in names if n not in mesh.axis_names]
    twice = [n for n in names if names.count(n) > 1]
    if unknown or twice:
        fault = f"no axis {unknown[0]!r}" if unknown else f"{twice[0]!r} once"
        raise ShapeError(
            f"{what}: {spec} does not fit the mesh, which has {fault}",
            operands=[f"axes {mesh.axis_names}"],
            where=user_source() or None,
        )


def check_rank(spec: PartitionSpec, value: Any, what: str) -> None:
    """Raise ShapeError when `spec` has more axes than the array."""
    aval = aval_of(value)
    if len(spec) > len(aval.shape):
        raise ShapeError(
            f"{what}: {spec} is for arrays of {len(spec)} axes or more",
            operands=[str(aval)],
            where=user_source() or None,
        )


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, PartitionSpec)


def _each(specs: Any, tree: Any, act: Callable[[Any, Any], None]) -> None:
    """`act(spec, leaf)` for every leaf below each of `specs`, a prefix of `tree`."""
    flat, structure = tree_flatten(specs, _is_spec)
    for spec, part in zip(flat, structure.flatten_up_to(tree), strict=True):
        for leaf in tree_flatten(part)[0]:
            act(spec, leaf)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`, which lies as it has to: all of it on the one device.

    Args:
      x: a tree of arrays.
      shardings: shardings, or PartitionSpecs of the surrounding mesh; a prefix of the tree.

    Raises:
      ConfigurationError: a PartitionSpec where no mesh surrounds the call.
      ShapeError: it is for arrays of more axes, or the mesh has no such axis.
    """

    def check(sharding: Any, leaf: Any) -> None:
        if isinstance(sharding, Sharding):
            sharding.check(leaf)
        elif isinstance(sharding, PartitionSpec):
            mesh = get_mesh()
            if mesh.empty:
                raise ConfigurationError(
                    "with_sharding_constraint: a PartitionSpec means a mesh, and none surrounds it",
                    where=user_source() or None,
                    hint="write `with stax.set_mesh(mesh):` around it, or pass "
                    "NamedSharding(mesh, spec)",
                )
            NamedSharding(mesh, sharding).check(leaf)

    _each(shardings, x, check)
    return tree_map(lambda leaf: leaf, x)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The same as `with_sharding_constraint`."""
    return with_sharding_constraint(xs, out_shardings)


# ------------------------------------------------------------------------------------- shard_map


def shard_map(
    f: Callable[..., Any] | None = None,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    axis_names: Any = (),
    check_vma: bool = True,
    check_rep: bool = True,
    auto: Any = (),
) -> Any:
    """`f` on every device's block of the arguments, with collectives over the mesh's axis names.

    On one device the block is the whole array, and an axis name has extent 1.

    Args:
      mesh: a Mesh; by default the surrounding one.
      in_specs, out_specs: PartitionSpecs for the arguments and the results, as prefixes of them.
      axis_names, check_vma, check_rep, auto: accepted for compatibility, without effect.

    Raises:
      ConfigurationError: no mesh.
      ShapeError: the mesh has no such axis, or the specification more axes than the array.

    >>> mesh = stax.make_mesh((1,), ("x",))
    >>> total = lambda v: stax.lax.psum(v, "x")
    >>> P = PartitionSpec
    >>> shard_map(total, mesh=mesh, in_specs=P("x"), out_specs=P())(np.ones(2))
    array([1., 1.])
    """
    given = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    if f is None:
        return functools.partial(shard_map, **given)
    check_callable(f, "shard_map")

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        over = get_mesh() if mesh is None else mesh
        if over.empty:
            raise ConfigurationError(
                "shard_map: no mesh is given, and none surrounds the call",
                where=user_source() or None,
                hint="pass mesh=stax.make_mesh((1,), ('x',))",
            )

        def check(spec: Any, leaf: Any) -> None:
            if spec is not None:
                check_names(spec, over, "shard_map")
                check_rank(spec, leaf, "shard_map")

        _each(in_specs, args, check)
        run = f
        for name in reversed(over.axis_names):
            run = functools.partial(_under, run, name)
        result = run(*args)
        _each(out_specs, result, check)
        return result

    return mapped


def _under(f: Callable[..., Any], name: Any, *args: Any) -> Any:
    """`f(*args)` with an axis `name` of extent 1 around it, which no array has."""
    one = vmap(lambda: f(*args), axis_name=name, axis_size=1)()
    return tree_map(lambda leaf: leaf[0], one)
