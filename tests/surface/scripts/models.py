"""Layers as functions and as classes: LSTM, attention, normalisation, dropout, convolution."""

from functools import partial
from typing import Any, NamedTuple

import stax as jax
import stax.numpy as jnp
from stax import lax, nn, random

results = {}


class LSTMParams(NamedTuple):
    wx: jax.Array
    wh: jax.Array
    b: jax.Array


class Carry(NamedTuple):
    h: jax.Array
    c: jax.Array


def lstm_init(key, inputs, hidden):
    k1, k2 = random.split(key)
    scale = 1 / jnp.sqrt(hidden)
    return LSTMParams(
        random.uniform(k1, (inputs, 4 * hidden), minval=-scale, maxval=scale),
        random.uniform(k2, (hidden, 4 * hidden), minval=-scale, maxval=scale),
        jnp.zeros(4 * hidden),
    )


def lstm(params, xs):
    hidden = params.wh.shape[0]

    def step(carry, x):
        gates = x @ params.wx + carry.h @ params.wh + params.b
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f + 1) * carry.c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return Carry(h, c), h

    init = Carry(jnp.zeros(hidden), jnp.zeros(hidden))
    return lax.scan(step, init, xs)


params = lstm_init(random.key(0), 3, 5)
xs = random.normal(random.key(1), (7, 3))
last, hs = lstm(params, xs)
results["lstm"] = (last, hs[-1])
results["lstm_grad"] = jax.jit(jax.grad(lambda p: lstm(p, xs)[1].sum()))(params)
batch = random.normal(random.key(2), (4, 7, 3))
results["lstm_batch"] = jax.jit(jax.vmap(lstm, in_axes=(None, 0)))(params, batch)[1].sum(0)


def attention(q, k, v, mask=None):
    logits = jnp.einsum("...qd,...kd->...qk", q, k) / jnp.sqrt(q.shape[-1])
    if mask is not None:
        logits = jnp.where(mask, logits, -1e9)
    return jnp.einsum("...qk,...kd->...qd", nn.softmax(logits, axis=-1), v)


def multi_head(params, x, heads, mask):
    def project(w):
        return (x @ w).reshape(x.shape[0], heads, -1).swapaxes(0, 1)

    out = attention(project(params["q"]), project(params["k"]), project(params["v"]), mask)
    return out.swapaxes(0, 1).reshape(x.shape[0], -1) @ params["o"]


keys = random.split(random.key(3), 4)
weights = {n: random.normal(k, (8, 8)) * 0.3 for n, k in zip("qkvo", keys, strict=True)}
tokens = random.normal(random.key(4), (6, 8))
causal = jnp.tril(jnp.ones((6, 6), dtype=bool))
results["attention"] = multi_head(weights, tokens, 2, causal)
results["attention_grad"] = jax.grad(lambda w: (multi_head(w, tokens, 2, causal) ** 2).sum())(
    weights
)


def layer_norm(x, scale, offset, eps=1e-6):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return scale * (x - mean) * lax.rsqrt(variance + eps) + offset


results["layer_norm"] = jax.jacrev(lambda x: layer_norm(x, 2.0, 0.5).sum(0))(tokens[:2])


def batch_norm(x, state, momentum=0.9, train=True):
    if train:
        mean, var = x.mean(0), x.var(0)
        state = {
            "mean": momentum * state["mean"] + (1 - momentum) * mean,
            "var": momentum * state["var"] + (1 - momentum) * var,
        }
    else:
        mean, var = state["mean"], state["var"]
    return (x - mean) / jnp.sqrt(var + 1e-5), state


state = {"mean": jnp.zeros(8), "var": jnp.ones(8)}
normed, state = jax.jit(batch_norm, static_argnames=("train",))(tokens, state, train=True)
results["batch_norm"] = (normed[0], state)
results["batch_norm_eval"] = batch_norm(tokens, state, train=False)[0][0]


def dropout(key, x, rate):
    keep = random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


results["dropout"] = dropout(random.key(5), tokens, 0.25)


class Model:
    """A class whose method is compiled; the object is a static argument."""

    def __init__(self, width: int) -> None:
        self.width = width

    @partial(jax.jit, static_argnums=0)
    def apply(self, params: Any, x: Any) -> Any:
        for layer in params:
            x = nn.relu(x @ layer["w"] + layer["b"])
        return x[:, : self.width]


layers = [{"w": jnp.eye(8) * 0.5, "b": jnp.ones(8) * k} for k in range(2)]
results["method"] = Model(3).apply(layers, tokens)
images = random.normal(random.key(6), (2, 8, 8, 1))
kernel = random.normal(random.key(7), (3, 3, 1, 4)) * 0.2


def convolution(kernel, images):
    out = lax.conv_general_dilated(
        images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return lax.reduce_window(nn.relu(out), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


results["convolution"] = convolution(kernel, images)
results["convolution_grad"] = jax.jit(jax.grad(lambda k: convolution(k, images).sum()))(kernel)
logits = random.normal(random.key(8), (5, 3))
labels = jnp.array([0, 2, 1, 1, 0])
results["loss"] = -jnp.mean(nn.log_softmax(logits)[jnp.arange(5), labels])
results["gumbel"] = nn.softmax((logits + random.gumbel(random.key(9), logits.shape)) / 0.5)
results["sampled"] = random.categorical(random.key(10), logits)
results["embedding"] = jax.grad(lambda e: (e[labels] ** 2).sum())(logits)
