"""vmap: axes, pytrees of axes, nesting, names, collectives, and jnp.vectorize."""

from functools import partial

import stax as jax
import stax.numpy as jnp
from stax import lax, vmap

results = {}
x = jnp.arange(5)
w = jnp.array([2.0, 3.0, 4.0])


def convolve(x, w):
    output = []
    for i in range(1, len(x) - 1):
        output.append(jnp.dot(x[i - 1 : i + 2], w))
    return jnp.array(output)


results["one"] = convolve(x, w)
xs = jnp.stack([x, x + 1])
ws = jnp.stack([w, w * 2])
results["auto"] = vmap(convolve)(xs, ws)
results["axis1"] = vmap(convolve, in_axes=1, out_axes=1)(jnp.transpose(xs), jnp.transpose(ws))
results["none"] = vmap(convolve, in_axes=[0, None])(xs, w)
results["jit"] = jax.jit(vmap(convolve))(xs, ws)
f = lambda d, k: d["a"] @ d["b"] * k
tree = {"a": jnp.arange(12.0).reshape(3, 4), "b": jnp.ones((4, 2))}
results["dict"] = vmap(f, in_axes=({"a": 0, "b": None}, None))(tree, 2.0)
results["dict_out"] = vmap(lambda v: {"s": v.sum(), "v": v}, out_axes={"s": 0, "v": 1})(tree["a"])
results["outer"] = vmap(vmap(jnp.multiply, (None, 0)), (0, None))(jnp.arange(3.0), jnp.arange(4.0))
results["pairwise"] = vmap(lambda a: vmap(lambda b: jnp.sum((a - b) ** 2))(tree["a"]))(tree["a"])


@partial(vmap, axis_name="i")
def normalise(v):
    return v / lax.psum(v, "i")


results["psum"] = normalise(jnp.arange(1.0, 5.0))
results["pmean"] = vmap(lambda v: v - lax.pmean(v, axis_name="n"), axis_name="n")(jnp.arange(4.0))
results["index"] = vmap(lambda v: lax.axis_index("n") * v, axis_name="n")(jnp.ones(3))
results["size"] = vmap(lambda: lax.axis_index("k"), axis_size=3, axis_name="k")()
results["vectorize"] = jnp.vectorize(lambda a, b: jnp.dot(a, b), signature="(n),(n)->()")(
    tree["a"], jnp.ones(4)
)
results["jacobians"] = vmap(jax.jacrev(lambda v: jnp.array([v[0] * v[1], jnp.sin(v[0])])))(
    jnp.ones((3, 2))
)
results["spmd"] = vmap(lambda a, i: a[i], in_axes=(0, 0))(tree["a"], jnp.array([0, 3, 1]))
results["linalg"] = vmap(jnp.linalg.solve)(
    jnp.stack([jnp.eye(2) * 2, jnp.eye(2)]), jnp.ones((2, 2, 1))
)
results["keys"] = vmap(lambda k: jax.random.uniform(k, (2,)))(
    jax.random.split(jax.random.key(7), 3)
)
