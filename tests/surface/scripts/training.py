"""Training loops: Adam by hand, momentum, minibatches, donated state, checkpoint, schedules."""

from functools import partial
from typing import NamedTuple

import stax as jax
import stax.numpy as jnp
from stax import lax, nn, random

results = {}


class State(NamedTuple):
    params: dict
    mu: dict
    nu: dict
    step: jax.Array


def init(key):
    k1, k2 = random.split(key)
    params = {
        "w1": nn.initializers.glorot_uniform()(k1, (2, 16)),
        "b1": jnp.zeros((16,)),
        "w2": nn.initializers.he_normal()(k2, (16, 1)),
        "b2": jnp.zeros((1,)),
    }
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    return State(params, zeros(), zeros(), jnp.zeros((), jnp.int32))


@jax.checkpoint
def hidden(params, x):
    return nn.gelu(x @ params["w1"] + params["b1"])


def predict(params, x):
    return (hidden(params, x) @ params["w2"] + params["b2"])[:, 0]


def loss(params, x, y, weight_decay=1e-3):
    residual = predict(params, x) - y
    l2 = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
    return jnp.mean(residual**2) + weight_decay * l2, {"mse": jnp.mean(residual**2)}


@partial(jax.jit, donate_argnums=0)
def update(state, x, y, lr):
    (value, aux), grads = jax.value_and_grad(loss, has_aux=True)(state.params, x, y)
    step = state.step + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mu, grads)
    nu = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * g**2, state.nu, grads)
    mhat = jax.tree.map(lambda m: m / (1 - 0.9**step), mu)
    nhat = jax.tree.map(lambda n: n / (1 - 0.999**step), nu)
    params = jax.tree.map(
        lambda p, m, n: p - lr * m / (jnp.sqrt(n) + 1e-8), state.params, mhat, nhat
    )
    return State(params, mu, nu, step), (value, aux)


key = random.key(0)
key, init_key, data_key = random.split(key, 3)
x = random.uniform(data_key, (64, 2), minval=-1, maxval=1)
y = jnp.sin(3 * x[:, 0]) * x[:, 1]
state = init(init_key)
values = []
for _i in range(20):
    key, batch_key = random.split(key)
    rows = random.permutation(batch_key, 64)[:16]
    state, (value, aux) = update(state, x[rows], y[rows], 0.01)
    values.append(aux["mse"])
results["values"] = jnp.stack(values)
results["params"] = state.params
results["step"] = state.step


def epoch(state, batches):
    return lax.scan(lambda s, b: update(s, b[0], b[1], 0.005), state, batches)


state, (losses, _) = jax.jit(epoch)(init(init_key), (x.reshape(4, 16, 2), y.reshape(4, 16)))
results["epoch"] = losses
results["dropout"] = random.bernoulli(random.key(3), 0.5, (4,)) * 2.0
results["softmax"] = nn.softmax(jnp.arange(4.0), where=jnp.array([True, True, False, True]))
results["xent"] = -jnp.take_along_axis(
    nn.log_softmax(jnp.eye(3)), jnp.array([[0], [2], [1]]), axis=1
)
results["norm"] = jnp.linalg.norm(
    jnp.concatenate([jnp.ravel(p) for p in jax.tree.leaves(state.params)])
)
