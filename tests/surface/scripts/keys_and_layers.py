"""Keys that fan out, layers and losses."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random, nn
from functools import partial

key = random.key(7)

results = {}

# split fan out
ks = random.split(key, 5)
out = [
    ks,
    jax.vmap(lambda k: random.normal(k, (2,)))(ks),
    random.split(key, (2, 2)).shape,
    str(ks.dtype)[:3],
]
results["split fan out"] = out

# unpack
a, b, *rest = random.split(key, 4)
out = [a, b, len(rest)]
results["unpack"] = out

# fold loop
out = lax.scan(lambda k, i: (random.fold_in(k, i), random.uniform(k)), key, jnp.arange(4))
results["fold loop"] = out

# key in carry
out = lax.fori_loop(
    0, 3, lambda i, c: (random.split(c[0])[0], c[1] + random.normal(c[0])), (key, 0.0)
)
results["key in carry"] = out

# key tree
ks = dict(zip("abc", random.split(key, 3)))
out = jax.tree.map(lambda k: random.uniform(k), ks)
results["key tree"] = out

# params init tree of keys
shapes = {"w": (2, 3), "b": (3,)}
ks = jax.tree.unflatten(
    jax.tree.structure(shapes, is_leaf=lambda x: isinstance(x, tuple)), random.split(key, 2)
)
out = (
    jax.tree.map(
        lambda k, s: random.normal(k, s),
        ks,
        shapes,
        is_leaf=lambda x: isinstance(x, tuple) and all(isinstance(i, int) for i in x),
    )
    if True
    else 0
)
results["params init tree of keys"] = out

# key cond
out = lax.cond(True, lambda k: random.normal(k), lambda k: random.uniform(k), key)
results["key cond"] = out

# key where
out = random.key_data(
    jnp.where(jnp.array([True, False]), random.split(key), random.split(random.key(1)))
)
results["key where"] = out

# key indexing
ks = random.split(key, (3, 2))
out = [ks[0], ks[:, 1], ks[1, 0], ks.reshape(6)[4], ks.T.shape, ks.ndim, ks.size, len(ks)]
results["key indexing"] = out


# issubdtype
out = [
    jnp.issubdtype(key.dtype, jax.dtypes.prng_key),
    jnp.issubdtype(random.PRNGKey(0).dtype, jax.dtypes.prng_key),
]
results["issubdtype"] = out

# key impl
out = str(random.key_impl(key))
results["key impl"] = out

# wrap clone
out = [random.wrap_key_data(random.key_data(key)), random.clone(key)]
results["wrap clone"] = out

# iter keys
out = [random.uniform(k) for k in random.split(key, 3)]
results["iter keys"] = out

# zip scan keys
out = lax.map(lambda k: random.randint(k, (2,), 0, 10), random.split(key, 3))
results["zip scan keys"] = out


# dropout
def dropout(k, x, r):
    return jnp.where(random.bernoulli(k, 1 - r, x.shape), x / (1 - r), 0)


out = dropout(key, jnp.ones((3, 4)), 0.3)
results["dropout"] = out

# jit static shape key
out = partial(jax.jit, static_argnames="shape")(lambda k, shape: random.normal(k, shape))(
    key, shape=(2, 2)
)
results["jit static shape key"] = out

# vmapped categorical & choice
out = [
    jax.vmap(random.categorical)(random.split(key, 3), jnp.arange(12.0).reshape(3, 4)),
    jax.vmap(lambda k: random.choice(k, jnp.arange(10), (3,), replace=False))(random.split(key, 2)),
    jax.vmap(lambda k: random.permutation(k, 5))(random.split(key, 2)),
]
results["vmapped categorical & choice"] = out


# mlp
def init(k, sizes):
    return [
        (random.normal(kk, (m, n)) * jnp.sqrt(2 / m), jnp.zeros(n))
        for kk, m, n in zip(random.split(k, len(sizes) - 1), sizes[:-1], sizes[1:])
    ]


def mlp(p, x):
    for w, b in p[:-1]:
        x = nn.relu(x @ w + b)
    w, b = p[-1]
    return nn.log_softmax(x @ w + b)


P = init(key, [4, 8, 3])
x = random.normal(random.key(1), (5, 4))
out = [mlp(P, x), jax.grad(lambda p: -mlp(p, x)[:, 0].mean())(P)]
results["mlp"] = out

# nn activations
v = jnp.linspace(-3, 3, 7)
out = [
    getattr(nn, n)(v)
    for n in "relu relu6 sigmoid softplus silu swish log_sigmoid elu selu gelu hard_tanh hard_sigmoid hard_silu hard_swish celu mish soft_sign leaky_relu squareplus sparse_plus sparse_sigmoid identity log1mexp".split()
    if hasattr(nn, n) and n != "log1mexp"
] + [
    nn.glu(jnp.arange(6.0).reshape(1, 6)),
    nn.gelu(v, approximate=False),
    nn.leaky_relu(v, 0.2),
    nn.elu(v, 2.0),
    nn.celu(v, 0.5),
    nn.log1mexp(jnp.array([0.1, 1.0])),
]
results["nn activations"] = out

# nn grads
out = [
    jax.vmap(jax.grad(getattr(nn, n)))(v)
    for n in "relu relu6 sigmoid softplus silu log_sigmoid elu selu gelu hard_tanh hard_sigmoid hard_silu celu mish soft_sign leaky_relu squareplus sparse_plus".split()
]
results["nn grads"] = out

# softmax where
m = jnp.array([True, False, True, True, False, True, True])
out = [
    nn.softmax(v, where=m),
    nn.log_softmax(v, where=m),
    nn.logsumexp(v, where=m, b=2.0),
    nn.standardize(v),
    nn.standardize(v, where=m, epsilon=1e-3),
    nn.softmax(v.reshape(1, 7), axis=None) if False else 0,
    nn.softmax(jnp.ones((2, 3)), axis=(0, 1)),
]
results["softmax where"] = out

# one hot
out = [
    nn.one_hot(jnp.array([0, 2, 5, -1]), 3),
    nn.one_hot(jnp.array([[0], [1]]), 2, axis=0),
    nn.one_hot(1, 3, dtype=jnp.int32),
    nn.one_hot(jnp.array([1]), 3, axis=0),
]
results["one hot"] = out

q = random.normal(key, (2, 4, 2, 8))
k = random.normal(random.key(2), (2, 5, 2, 8))


# dpa residual
r = nn.dot_product_attention(q, k, k, return_residual=True)
out = list(r)
results["dpa residual"] = out

# initializers
I = nn.initializers
out = [
    f(key, (4, 6))
    for f in (
        I.glorot_uniform(),
        I.glorot_normal(),
        I.he_uniform(),
        I.he_normal(),
        I.lecun_uniform(),
        I.lecun_normal(),
        I.xavier_uniform(),
        I.kaiming_normal(),
        I.orthogonal(),
        I.normal(0.1),
        I.uniform(0.2),
        I.truncated_normal(0.1),
        I.zeros,
        I.ones,
        I.constant(3.0),
        I.variance_scaling(2.0, "fan_avg", "uniform"),
        I.variance_scaling(1.0, "fan_out", "truncated_normal", in_axis=0, out_axis=1),
    )
] + [
    I.delta_orthogonal()(key, (3, 4, 4)),
    I.he_normal(in_axis=-1, out_axis=-2, batch_axis=0)(key, (2, 3, 4), jnp.float32),
]
results["initializers"] = out


# lstm cell
def lstm(p, c, x):
    h, cc = c
    i, f, g, o = jnp.split(jnp.concatenate([x, h]) @ p, 4)
    cc = nn.sigmoid(f + 1) * cc + nn.sigmoid(i) * jnp.tanh(g)
    h = nn.sigmoid(o) * jnp.tanh(cc)
    return (h, cc), h


pl = random.normal(key, (5, 12)) * 0.1
out = jax.grad(
    lambda p: lax.scan(partial(lstm, p), (jnp.zeros(3), jnp.zeros(3)), jnp.ones((4, 2)))[1].sum()
)(pl)
results["lstm cell"] = out


# gru vmapped
def gru(p, h, x):
    z = nn.sigmoid(p[0] @ jnp.r_[x, h])
    r = nn.sigmoid(p[1] @ jnp.r_[x, h])
    n = jnp.tanh(p[2] @ jnp.r_[x, r * h])
    return (1 - z) * n + z * h


pg = random.normal(key, (3, 3, 5))
out = jax.vmap(lambda xs: lax.scan(lambda h, x: (gru(pg, h, x), None), jnp.zeros(3), xs)[0])(
    jnp.ones((2, 4, 2))
)
results["gru vmapped"] = out

# conv net
img = random.normal(key, (2, 8, 8, 3))
kr = random.normal(key, (3, 3, 3, 4))
out = [
    lax.conv_general_dilated(img, kr, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    lax.reduce_window(img, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    lax.avg_pool(img, (2, 2)) if hasattr(lax, "avg_pool") else 0,
]
results["conv net"] = out

# group norm / layer norm / batch norm
x4 = random.normal(key, (2, 6, 4))
out = [
    (x4 - x4.mean(-1, keepdims=True)) * lax.rsqrt(x4.var(-1, keepdims=True) + 1e-5),
    nn.standardize(x4, axis=(1, 2)),
]
results["group norm / layer norm / batch norm"] = out


# rotary
def rope(x, th=1e4):
    d = x.shape[-1] // 2
    f = th ** (-jnp.arange(d) / d)
    a = jnp.arange(x.shape[0])[:, None] * f
    s, c = jnp.sin(a), jnp.cos(a)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


out = rope(random.normal(key, (5, 8)))
results["rotary"] = out

# moe top2
lg = random.normal(key, (6, 4))
w, idx = lax.top_k(nn.softmax(lg), 2)
out = [w, idx, jnp.zeros((6, 4)).at[jnp.arange(6)[:, None], idx].set(w)]
results["moe top2"] = out

# beam-ish
out = lax.top_k(jnp.array([[3, 1, 2], [5, 5, 4]]), 2)
results["beam-ish"] = out

# gumbel softmax
out = nn.softmax((jnp.log(jnp.array([0.1, 0.2, 0.7])) + random.gumbel(key, (3,))) / 0.5)
results["gumbel softmax"] = out

# label smoothing ce
lab = nn.one_hot(jnp.array([0, 1]), 3)
out = -((lab * 0.9 + 0.1 / 3) * nn.log_softmax(jnp.arange(6.0).reshape(2, 3))).sum(-1)
results["label smoothing ce"] = out

# focal/bce
lgt = jnp.array([-100.0, 0.0, 100.0])
out = [jax.vmap(jax.grad(lambda l: nn.softplus(-l)))(lgt), -nn.log_sigmoid(lgt)]
results["focal/bce"] = out

# embedding grad
out = jax.grad(lambda E: E[jnp.array([0, 2, 2])].sum())(jnp.ones((4, 2)))
results["embedding grad"] = out

# take modes
E = jnp.arange(8.0).reshape(4, 2)
out = [jnp.take(E, jnp.array([0, 9, -1]), axis=0, mode=m) for m in ("fill", "clip", "wrap")] + [
    jnp.take(E, jnp.array([1, 7]), axis=0, fill_value=-5.0, mode="fill")
]
results["take modes"] = out

# segment ops
out = [
    jax.ops.segment_sum(jnp.arange(5.0), jnp.array([0, 1, 1, 3, 0]), 4),
    jax.ops.segment_max(jnp.arange(5.0), jnp.array([0, 1, 1, 3, 0]), 4),
    jax.ops.segment_prod(jnp.arange(1.0, 6), jnp.array([0, 1, 1, 3, 0]), 4),
    jax.ops.segment_min(jnp.arange(5), jnp.array([0, 1, 1, 3, 0]), 4),
]
results["segment ops"] = out

# Keys are compared by their words.
results = jax.tree.map(
    lambda v: (
        random.key_data(v)
        if hasattr(v, "dtype") and jnp.issubdtype(v.dtype, jax.dtypes.prng_key)
        else v
    ),
    results,
)
