"""Per-example gradients, private SGD, ensembles, kernels, named axes."""

import stax as jax
import stax.numpy as jnp
from stax import vmap, grad, jit, random, lax
import functools
from stax.flatten_util import ravel_pytree

results = {}


def predict(params, inputs):
    for W, b in params:
        outputs = jnp.dot(inputs, W) + b
        inputs = jnp.tanh(outputs)
    return outputs


def loss(params, batch):
    inputs, targets = batch
    return jnp.sum((predict(params, inputs) - targets) ** 2)


sizes = [4, 6, 2]
keys = random.split(random.PRNGKey(0), len(sizes))
params = [
    (random.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n))
    for k, m, n in zip(keys, sizes[:-1], sizes[1:])
]
batch = (random.normal(random.PRNGKey(1), (8, 4)), random.normal(random.PRNGKey(2), (8, 2)))
per = vmap(grad(loss), in_axes=(None, 0))(params, batch)
results["per"] = per
tot = grad(loss)(params, batch)
results["diff"] = [
    jnp.abs(a.sum(0) - b).max() for a, b in zip(jax.tree.leaves(per), jax.tree.leaves(tot))
]


def clipped_grad(params, l2_norm_clip, single):
    grads = grad(loss)(params, single)
    nonempty, tree_def = jax.tree_util.tree_flatten(grads)
    total = jnp.linalg.norm(jnp.array([jnp.linalg.norm(g.ravel()) for g in nonempty]))
    divisor = jnp.maximum(total / l2_norm_clip, 1.0)
    return jax.tree_util.tree_unflatten(tree_def, [g / divisor for g in nonempty])


def private_grad(params, batch, rng, l2, noise, n):
    clipped = vmap(clipped_grad, (None, None, 0))(params, l2, batch)
    flat, td = jax.tree_util.tree_flatten(clipped)
    agg = [g.sum(0) for g in flat]
    rngs = random.split(rng, len(agg))
    noised = [g + l2 * noise * random.normal(r, g.shape) for r, g in zip(rngs, agg)]
    return jax.tree_util.tree_unflatten(td, [g / n for g in noised])


results["dp"] = jit(private_grad, static_argnums=(5,))(
    params, batch, random.PRNGKey(3), 1.5, 0.8, 8
)
results["norms"] = vmap(
    lambda b: jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grad(loss)(params, b))))
)(batch)
results["ens"] = vmap(
    vmap(lambda k, x: predict([(random.normal(k, (4, 2)), jnp.zeros(2))], x), (None, 0)), (0, None)
)(random.split(random.key(5), 3), batch[0])
results["axes"] = [
    vmap(jnp.dot, (0, None))(jnp.ones((3, 2)), jnp.ones(2)),
    vmap(jnp.dot, (1, 1), 0)(jnp.arange(6.0).reshape(2, 3), jnp.ones((2, 3))),
    vmap(lambda x: x, in_axes=-1, out_axes=-1)(jnp.arange(6.0).reshape(2, 3)),
]
results["psum"] = vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.arange(1.0, 4.0))
results["nest"] = vmap(vmap(lambda x, y: x * y, (None, 0)), (0, None))(
    jnp.arange(3.0), jnp.arange(4.0)
)
results["jac"] = vmap(jax.jacrev(lambda x: predict(params, x)))(batch[0])[:2]
results["hess_diag"] = vmap(lambda b: jnp.diag(jax.hessian(lambda x: predict(params, x)[0])(b)))(
    batch[0]
)
results["influence"] = vmap(
    lambda b: jnp.vdot(ravel_pytree(grad(loss)(params, b))[0], ravel_pytree(tot)[0])
)(batch)
results["ntk"] = (lambda J: J @ J.T)(
    jnp.concatenate(
        [
            g.reshape(8, -1)
            for g in jax.tree.leaves(
                vmap(grad(lambda p, x: predict(p, x)[0]), (None, 0))(params, batch[0])
            )
        ],
        1,
    )
)
results["fisher"] = vmap(
    lambda b: sum(jnp.sum(g**2) for g in jax.tree.leaves(grad(loss)(params, b)))
)(batch).mean()
results["pmean"] = vmap(
    lambda x: (lax.pmean(x, "b"), lax.pmax(x, "b"), lax.axis_index("b")), axis_name="b"
)(jnp.arange(4.0))
results["spmd"] = vmap(
    lambda p, x: p - 0.1 * lax.pmean(grad(lambda p: (p * x) ** 2)(p), "d"),
    axis_name="d",
    in_axes=(None, 0),
    out_axes=0,
)(1.0, jnp.arange(3.0))
results["size"] = vmap(lambda: random.normal(random.key(0)), axis_size=3)()
results["spmd_axis"] = vmap(
    lambda x, y: x + y, in_axes=({"a": 0, "b": None}, None) if False else (0, None)
)(jnp.arange(3), 1)
