"""Meshes and shardings of one device: nothing moves, and what does not fit is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import ConfigurationError, DeviceError, ShapeError
from stax.experimental import mesh_utils
from stax.experimental.pjit import pjit
from stax.experimental.shard_map import shard_map
from stax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from stax.sharding import PartitionSpec as P

MESH = stax.make_mesh((1,), ("x",), (AxisType.Auto,))
X = np.arange(6.0).reshape(3, 2)


def test_a_mesh_is_one_device() -> None:
    devices = stax.devices()
    for wrong in (
        lambda: stax.make_mesh((2,), ("x",)),
        lambda: Mesh(devices * 2, ("x",)),
        lambda: mesh_utils.create_device_mesh((2, 2)),
    ):
        with pytest.raises(DeviceError, match="one device"):
            wrong()
    with pytest.raises(ShapeError, match="1 axes has 2 axis names"):
        Mesh(devices, ("x", "y"))
    with pytest.raises(ShapeError, match="twice"):
        stax.make_mesh((1, 1), ("x", "x"))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="no axis 'y'"):
        NamedSharding(MESH, P("y"))
    with pytest.raises(ShapeError, match="'x' once"):
        NamedSharding(MESH, P("x", "x"))
    deep = NamedSharding(MESH, P(None, None, "x"))
    for use in (stax.device_put, lax.with_sharding_constraint):
        with pytest.raises(ShapeError, match=r"3 axes or more[\s\S]*f64\[3,2\]"):
            use(X, deep)
    with pytest.raises(ConfigurationError, match="set_mesh"):
        lax.with_sharding_constraint(X, P("x"))
    with pytest.raises(ConfigurationError, match="make_mesh"):
        stax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x"))(X)
    for specs in ((P("y"), P()), (P(), P("y"))):
        with pytest.raises(ShapeError, match="no axis 'y'"):
            stax.shard_map(lambda x: x, mesh=MESH, in_specs=specs[0], out_specs=specs[1])(X)
    with pytest.raises(ShapeError, match="3 axes or more"):
        stax.shard_map(lambda x: x, mesh=MESH, in_specs=P(), out_specs=P(None, None, "x"))(X)


def test_values_stay_as_they_are() -> None:
    rows = NamedSharding(MESH, P("x"))
    for place in (rows, {"a": rows, "b": None}, {"a": "cpu", "b": rows}):
        put = stax.device_put({"a": X, "b": X[0]}, place)
        np.testing.assert_array_equal(put["a"], X)
        np.testing.assert_array_equal(put["b"], X[0])
    assert X.sharding == SingleDeviceSharding(stax.devices()[0])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(X.addressable_shards[0].data, X)  # type: ignore[attr-defined]
    constrained = stax.jit(lambda x: lax.with_sharding_constraint({"a": x}, rows)["a"] * 2)
    np.testing.assert_array_equal(constrained(X), 2 * X)
    assert stax.grad(lambda x: lax.with_sharding_constraint(x, rows).sum())(X).sum() == 6
    compiled = pjit(lambda x: x + 1, in_shardings=rows, out_shardings=None)
    np.testing.assert_array_equal(compiled(X), X + 1)


def test_shard_map_sees_whole_arrays_and_names() -> None:
    def f(x: Any, w: Any) -> Any:
        assert x.shape == (3, 2)
        return lax.psum(x @ w, "x"), lax.all_gather(x, "x"), lax.axis_index("x")

    specs = {"mesh": MESH, "in_specs": (P("x"), P()), "out_specs": P()}
    for run in (stax.shard_map(f, **specs), stax.jit(shard_map(f, **specs))):
        total, gathered, index = run(X, np.ones(2))
        np.testing.assert_array_equal(total, X.sum(1))
        np.testing.assert_array_equal(gathered, X[None])
        assert index == 0
    batched = stax.vmap(stax.shard_map(lambda x: lax.psum(x, "x"), **{**specs, "in_specs": P()}))
    np.testing.assert_array_equal(batched(X), X)


def test_the_surrounding_mesh() -> None:
    assert stax.sharding.get_mesh().empty
    with MESH:
        np.testing.assert_array_equal(lax.with_sharding_constraint(X, P("x")), X)
        with stax.set_mesh(stax.make_mesh((1,), "y")):
            assert stax.sharding.get_abstract_mesh().axis_names == ("y",)
            mapped = stax.shard_map(lambda x: lax.psum(x, "y"), in_specs=P("y"), out_specs=P())
            np.testing.assert_array_equal(mapped(X), X)
        assert stax.sharding.get_mesh() is MESH
    assert stax.sharding.get_mesh().empty


def test_specifications_are_values() -> None:
    spec = P(("x", "y"), None)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert list(spec) == [("x", "y"), None]
    assert stax.tree.leaves({"a": spec}) == [spec]
    assert len({NamedSharding(MESH, P("x")), NamedSharding(MESH, P("x"))}) == 1
