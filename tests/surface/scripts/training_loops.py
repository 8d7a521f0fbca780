"""Training loops whose data lie in the module: minibatches by traced indices."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import random, lax, jit, grad, vmap
import stax.nn as jnn

results = {}
key = random.PRNGKey(0)
X = random.normal(key, (64, 5))
w_true = jnp.arange(1.0, 6.0)
Y = X @ w_true + 0.01 * random.normal(random.PRNGKey(1), (64,))


def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


@jit
def sgd_step(w, key):
    idx = random.randint(key, (16,), 0, X.shape[0])
    return w - 0.05 * grad(loss)(w, jnp.asarray(X)[idx], jnp.asarray(Y)[idx])


w = jnp.zeros(5)
for k in random.split(random.PRNGKey(2), 50):
    w = sgd_step(w, k)
results["sgd"] = w


def epoch(w, key):
    perm = random.permutation(key, 64).reshape(4, 16)

    def step(w, idx):
        l, g = jax.value_and_grad(loss)(w, jnp.asarray(X)[idx], jnp.asarray(Y)[idx])
        return w - 0.05 * g, l

    return lax.scan(step, w, perm)


results["epochs"] = lax.scan(epoch, jnp.zeros(5), random.split(key, 6))


# adam
def adam_init(p):
    return (jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), 0)


def adam_update(g, s, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
    m, v, t = s
    t = t + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, g)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, g)
    up = jax.tree.map(
        lambda m, v: -lr * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps), m, v
    )
    return up, (m, v, t)


def mlp_init(key, sizes):
    return [
        {"w": random.normal(k, (a, b)) * jnp.sqrt(2 / a), "b": jnp.zeros((b,))}
        for k, a, b in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:])
    ]


def mlp(p, x):
    for l in p[:-1]:
        x = jnn.relu(x @ l["w"] + l["b"])
    return x @ p[-1]["w"] + p[-1]["b"]


labels = (X[:, 0] * X[:, 1] > 0).astype(int)


def xent(p, x, y):
    return -jnp.mean(jnp.take_along_axis(jnn.log_softmax(mlp(p, x)), y[:, None], axis=1))


@jit
def train_step(p, s, x, y):
    l, g = jax.value_and_grad(xent)(p, x, y)
    up, s = adam_update(g, s)
    return jax.tree.map(lambda a, b: a + b, p, up), s, l


p = mlp_init(key, [5, 16, 2])
s = adam_init(p)
losses = []
for i in range(30):
    p, s, l = train_step(p, s, X, labels)
    losses.append(l)
results["adam"] = jnp.array(losses)[::5]
results["acc"] = jnp.mean(jnp.argmax(mlp(p, X), -1) == labels)


# cnn
def cnn(p, x):
    x = lax.conv_general_dilated(
        x, p["k1"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = jnn.relu(x + p["b1"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape((x.shape[0], -1))
    return x @ p["w"]


pc = {
    "k1": random.normal(key, (3, 3, 1, 4)) * 0.3,
    "b1": jnp.zeros(4),
    "w": random.normal(key, (64, 3)) * 0.1,
}
imgs = random.normal(key, (8, 8, 8, 1))
ly = jnp.arange(8) % 3


def lc(p):
    return -jnp.mean(jnn.log_softmax(cnn(p, imgs))[jnp.arange(8), ly])


@jit
def stepc(p):
    return jax.tree.map(lambda a, g: a - 0.3 * g, p, grad(lc)(p))


for _ in range(10):
    pc = stepc(pc)
results["cnn"] = [lc(pc), pc["b1"]]
# rnn/lstm char model with embedding table in params
V, H = 7, 6


def lstm_init(k):
    ks = random.split(k, 3)
    return {
        "E": random.normal(ks[0], (V, H)) * 0.3,
        "W": random.normal(ks[1], (2 * H, 4 * H)) * 0.3,
        "b": jnp.zeros(4 * H),
        "O": random.normal(ks[2], (H, V)) * 0.3,
    }


def lstm(p, toks):
    def step(c, t):
        h, cc = c
        z = jnp.concatenate([p["E"][t], h]) @ p["W"] + p["b"]
        i, f, g, o = jnp.split(z, 4)
        cc = jnn.sigmoid(f + 1) * cc + jnn.sigmoid(i) * jnp.tanh(g)
        h = jnn.sigmoid(o) * jnp.tanh(cc)
        return (h, cc), h @ p["O"]

    return lax.scan(step, (jnp.zeros(H), jnp.zeros(H)), toks)[1]


toks = random.randint(key, (4, 9), 0, V)


def ll(p):
    lg = vmap(lstm, (None, 0))(p, toks[:, :-1])
    return -jnp.mean(jnp.sum(jnn.one_hot(toks[:, 1:], V) * jnn.log_softmax(lg), -1))


pl = lstm_init(key)
for _ in range(5):
    pl = jit(lambda p: jax.tree.map(lambda a, g: a - 1.0 * g, p, grad(ll)(p)))(pl)
results["lstm"] = [ll(pl), pl["b"][:4]]
# lookup of schedule
schedule = jnp.linspace(1.0, 0.1, 10)


@jit
def scheduled(i):
    return jnp.asarray(schedule)[i] * 2


results["sched"] = [scheduled(i) for i in range(3)]
results["fsched"] = lax.fori_loop(0, 10, lambda i, s: s + jnp.asarray(schedule)[i] * i, 0.0)
onehot_table = jnp.eye(4)
results["tab"] = vmap(lambda t: jnp.asarray(onehot_table)[t] @ jnp.arange(4.0))(jnp.array([1, 3]))
P = jnp.array([[0.9, 0.1], [0.4, 0.6]])


def markov(s, k):
    s = random.categorical(k, jnp.log(jnp.asarray(P)[s]))
    return s, s


results["markov"] = lax.scan(markov, 0, random.split(key, 12))[1]


@jit
def eval_batch(i):
    return lax.dynamic_slice_in_dim(X, i * 16, 16).sum()


results["dyn"] = [eval_batch(i) for i in range(2)]
