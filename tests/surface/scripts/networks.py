"""Activations with derivatives, initializers, attention, losses, layers."""

import stax as jax
import stax.numpy as jnp
from stax import nn, random
import stax.nn as jnn
from stax.nn import initializers as init

results = {}
x = jnp.array([-3.0, -1.0, -0.1, 0.0, 0.2, 1.5, 7.0])
for name in "relu relu6 sigmoid softplus sparse_plus soft_sign silu swish log_sigmoid leaky_relu hard_sigmoid hard_silu hard_swish hard_tanh elu celu selu gelu glu squareplus mish softmax log_softmax identity tanh".split():
    f = getattr(nn, name)
    arg = x[:6] if name == "glu" else x
    results[name] = [f(arg), jax.grad(lambda v: jnp.sum(f(v) * jnp.arange(f(v).shape[0])))(arg)]
results["args"] = [
    nn.gelu(x, approximate=False),
    nn.leaky_relu(x, 0.3),
    nn.elu(x, 2.0),
    nn.celu(x, alpha=0.5),
    nn.squareplus(x, 2.0),
    nn.softmax(x.reshape(7, 1), axis=0),
    nn.softmax(x, where=x > 0),
    nn.log_softmax(x, where=x > 0, axis=-1),
    nn.logsumexp(x),
    nn.logsumexp(x, b=jnp.abs(x)),
    nn.logsumexp(x.reshape(1, 7), axis=1, keepdims=True),
    nn.logmeanexp(x) if hasattr(nn, "logmeanexp") else 0,
    nn.standardize(x),
    nn.standardize(x.reshape(7, 1), axis=0, epsilon=1e-3),
    nn.one_hot(jnp.array([0, 2, 5]), 3),
    nn.one_hot(jnp.array([0, 1]), 3, dtype=jnp.float32, axis=0),
    nn.relu(jnp.array([-1, 2])),
    nn.log1mexp(jnp.array([0.5, 3.0])) if hasattr(nn, "log1mexp") else 0,
]
key = random.key(0)
for n in "glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform orthogonal xavier_normal xavier_uniform kaiming_normal kaiming_uniform".split():
    results["i_" + n] = (
        jnp.abs(getattr(init, n)()(key, (4, 3)))
        if n == "orthogonal"
        else getattr(init, n)()(key, (4, 3))
    )
results["i"] = [
    init.normal(0.1)(key, (3,)),
    init.uniform(2.0)(key, (3,)),
    init.truncated_normal(0.5)(key, (3,)),
    init.zeros(key, (2,)),
    init.ones(key, (2,), jnp.float32),
    init.constant(3.0)(key, (2,)),
    init.variance_scaling(2.0, "fan_avg", "uniform")(key, (4, 5), jnp.float32),
    init.glorot_normal(in_axis=1, out_axis=0)(key, (3, 4)),
    init.he_normal()(key, (3, 3, 2, 4)),
    init.variance_scaling(1.0, "fan_in", "truncated_normal", batch_axis=0)(key, (2, 3, 4)),
    list(init.delta_orthogonal()(key, (3, 3, 4, 4)).shape),
]
q, k, v = (random.normal(kk, (2, 5, 3, 4)) for kk in random.split(key, 3))
results["att"] = [
    nn.dot_product_attention(q, k, v),
    nn.dot_product_attention(q, k, v, is_causal=True),
    nn.dot_product_attention(q, k, v, scale=0.3, mask=jnp.tril(jnp.ones((5, 5), bool))[None, None]),
    nn.dot_product_attention(q, k, v, bias=jnp.ones((1, 3, 5, 5)) * jnp.arange(5)),
    nn.dot_product_attention(q[0], k[0], v[0]),
    nn.dot_product_attention(
        q,
        k,
        v,
        query_seq_lengths=jnp.array([3, 5], dtype=jnp.int32),
        key_value_seq_lengths=jnp.array([2, 4], dtype=jnp.int32),
    ),
]


def ce(logits, labels):
    return -jnp.mean(jnp.sum(nn.log_softmax(logits) * nn.one_hot(labels, logits.shape[-1]), -1))


results["ce"] = jax.value_and_grad(ce)(random.normal(key, (4, 3)), jnp.array([0, 2, 1, 1]))
results["ga"] = [
    jax.grad(lambda x: nn.softmax(x)[0])(x),
    jax.hessian(lambda x: nn.logsumexp(x))(x[:3]),
    jax.grad(nn.logsumexp)(jnp.array([-jnp.inf, 0.0])),
    jax.grad(lambda x: nn.gelu(x).sum())(x),
    jax.vmap(jax.grad(nn.silu))(x),
    jax.vmap(jax.grad(jax.grad(nn.softplus)))(x),
]


def bn(x, g, b, eps=1e-5):
    m = jnp.mean(x, axis=0, keepdims=True)
    v = jnp.var(x, axis=0, keepdims=True)
    return g * (x - m) / jnp.sqrt(v + eps) + b


results["bn"] = jax.grad(lambda x: jnp.sum(bn(x, 2.0, 1.0) ** 3))(random.normal(key, (6, 3)))


def rms(x):
    return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


results["rms"] = jax.jit(rms)(q)[0, 0]


def rope(x):
    d = x.shape[-1]
    pos = jnp.arange(x.shape[-3])[:, None, None]
    fr = 1.0 / 10000 ** (jnp.arange(0, d, 2) / d)
    s, c = jnp.sin(pos * fr), jnp.cos(pos * fr)
    x1, x2 = x[..., ::2], x[..., 1::2]
    return jnp.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).reshape(x.shape)


results["rope"] = rope(q)[0, :, 0]


def mha(p, x, n):
    B, T, D = x.shape
    q, k, v = jnp.split(x @ p["qkv"], 3, -1)
    sh = lambda t: t.reshape(B, T, n, D // n).swapaxes(1, 2)
    q, k, v = map(sh, (q, k, v))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(D // n)
    s = jnp.where(jnp.tril(jnp.ones((T, T), dtype=bool)), s, -1e9)
    return (
        jnp.einsum("bhqk,bhkd->bhqd", nn.softmax(s, -1), v).swapaxes(1, 2).reshape(B, T, D) @ p["o"]
    )


p = {"qkv": random.normal(key, (8, 24)) * 0.2, "o": random.normal(key, (8, 8)) * 0.2}
results["mha"] = jax.jit(
    jax.grad(lambda p: mha(p, jnp.ones((1, 4, 8)) * jnp.arange(4)[:, None], 2).sum())
)(p)
