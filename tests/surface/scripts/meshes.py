"""Meshes and shardings, on one device."""

import numpy as np

import stax as jax
import stax.numpy as jnp
from stax import lax
from stax.experimental import mesh_utils
from stax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from stax.sharding import PartitionSpec as P

results = {}

mesh = Mesh(mesh_utils.create_device_mesh((1, 1)), axis_names=("data", "model"))
results["mesh"] = [dict(mesh.shape), mesh.axis_names, mesh.size, repr(mesh)]
results["specs"] = [
    repr(s) for s in (P("data", None), P(), P(("data", "model")), P("data") + P(None))
]
results["equal"] = [P("data") == P("data"), P("data") == P(None), hash(P("x")) == hash(P("x"))]

rows = NamedSharding(mesh, P("data", None))
results["sharding"] = [
    repr(rows.spec),
    rows.shard_shape((8, 4)),
    rows.is_fully_replicated,
    rows == NamedSharding(mesh, P("data", None)),
    rows.is_equivalent_to(NamedSharding(mesh, P()), 2),
    len(rows.device_set),
]
x = jnp.arange(8.0).reshape(4, 2)
placed = jax.device_put(x, rows)
results["placed"] = placed
results["tree"] = jax.device_put(
    {"w": x, "b": x[0]}, {"w": rows, "b": SingleDeviceSharding(jax.devices()[0])}
)
results["shards"] = [np.asarray(s.data) for s in placed.addressable_shards]


def layer(params, x):
    h = lax.with_sharding_constraint(x @ params["w"], NamedSharding(mesh, P("data", "model")))
    return jnp.tanh(h).sum()


params = {"w": jnp.ones((2, 3)) / 4}
step = jax.jit(
    jax.value_and_grad(layer),
    in_shardings=({"w": NamedSharding(mesh, P(None, "model"))}, rows),
    out_shardings=None,
)
results["step"] = step(params, placed)
with jax.set_mesh(mesh):
    results["surrounded"] = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, P("data")))(x)


def block(x, w):
    partial = x @ w
    whole = lax.psum(partial, "model")
    rows = lax.all_gather(whole, "data", tiled=True)
    return whole + lax.axis_index("data"), lax.pmean(jnp.sum(rows), ("data", "model"))


sharded = jax.shard_map(
    block,
    mesh=mesh,
    in_specs=(P("data", "model"), P("model", None)),
    out_specs=(P("data", None), P()),
    check_vma=False,
)
results["shard_map"] = jax.jit(sharded)(x, jnp.ones((2, 3)))
results["shard_map grad"] = jax.grad(lambda w: sharded(x, w)[1])(jnp.ones((2, 3)))


@jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P("data"))
def ring(x):
    return lax.ppermute(x, "data", [(0, 0)]) + lax.psum(1, "data")


results["ring"] = ring(jnp.arange(3.0))
