"""LSTM, GRU, CTC, CRF, linear recurrences, attention variants, experts."""

import stax as jax
import stax.numpy as jnp
from stax import lax, random, nn, jit, vmap, grad
from functools import partial
from collections import namedtuple
import math

r = {}
key = random.PRNGKey(7)
LSTMState = namedtuple("LSTMState", "h c")


def lstm(p, s, x):
    g = x @ p["wx"] + s.h @ p["wh"] + p["b"]
    i, f, o, u = jnp.split(g, 4, axis=-1)
    c = nn.sigmoid(f + 1.0) * s.c + nn.sigmoid(i) * jnp.tanh(u)
    h = nn.sigmoid(o) * jnp.tanh(c)
    return LSTMState(h, c), h


def gru(p, h, x):
    zr = nn.sigmoid(x @ p["wx"][:, :8] + h @ p["wh"][:, :8])
    z, rr = zr[..., :4], zr[..., 4:]
    n = jnp.tanh(x @ p["wx"][:, 8:12] + (rr * h) @ p["wh"][:, 8:12])
    h = (1 - z) * n + z * h
    return h, h


p = {
    "wx": random.normal(key, (3, 16)) * 0.4,
    "wh": random.normal(random.fold_in(key, 1), (4, 16)) * 0.4,
    "b": jnp.zeros(16),
}
xs = random.normal(random.fold_in(key, 2), (9, 2, 3))
s0 = LSTMState(jnp.zeros((2, 4)), jnp.zeros((2, 4)))
last, hs = lax.scan(partial(lstm, p), s0, xs)
r["lstm"] = [list(last), hs]
r["gru"] = lax.scan(partial(gru, p), jnp.zeros((2, 4)), xs)[1]
lens = jnp.array([4, 9])


def masked(s, tx):
    t, x = tx
    n, h = lstm(p, s, x)
    k = (t < lens)[:, None]
    return jax.tree.map(lambda a, b: jnp.where(k, a, b), n, s), h * k


r["mask"] = list(lax.scan(masked, s0, (jnp.arange(9), xs))[0])
bi = lambda x: jnp.concatenate(
    [lax.scan(partial(lstm, p), s0, x)[1], lax.scan(partial(lstm, p), s0, x, reverse=True)[1]], -1
)
r["bi"] = jit(bi)(xs)
loss = lambda p: jnp.mean(lax.scan(jax.checkpoint(partial(lstm, p)), s0, xs)[1] ** 2)
r["g"] = grad(loss)(p)
r["g2"] = jax.jvp(grad(loss), (p,), (p,))[1]
r["gn"] = jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(grad(loss)(p))))


# CTC
def ctc(logp, labels, blank=0):
    ext = jnp.full(2 * len(labels) + 1, blank).at[1::2].set(labels)
    S = ext.shape[0]
    skip = (ext != blank) & (ext != jnp.roll(ext, 2)) & (jnp.arange(S) >= 2)
    NEG = -1e30
    a0 = jnp.full(S, NEG).at[0].set(logp[0, blank]).at[1].set(logp[0, ext[1]])

    def step(a, lp):
        a1 = jnp.concatenate([jnp.array([NEG]), a[:-1]])
        a2 = jnp.where(skip, jnp.roll(a, 2), NEG)
        a = jnp.logaddexp(jnp.logaddexp(a, a1), a2) + lp[ext]
        return a, a

    a, _ = lax.scan(step, a0, logp[1:])
    return -jnp.logaddexp(a[-1], a[-2])


lg = random.normal(key, (10, 5))
lb = jnp.array([1, 3, 3, 2])
r["ctc"] = jax.value_and_grad(lambda l: ctc(nn.log_softmax(l), lb))(lg)
r["ctcb"] = vmap(lambda l, b: ctc(nn.log_softmax(l), b))(
    jnp.stack([lg, -lg]), jnp.stack([lb, lb[::-1]])
)


# CRF
def crf(e, t, y):
    sc = e[jnp.arange(len(y)), y].sum() + t[y[:-1], y[1:]].sum()
    a, _ = lax.scan(
        lambda a, x: (jax.scipy.special.logsumexp(a[:, None] + t, axis=0) + x, None), e[0], e[1:]
    )
    return sc - jax.scipy.special.logsumexp(a)


r["crf"] = jax.value_and_grad(crf, (0, 1))(
    lg, jnp.eye(5) * 0.3, jnp.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
)


# soft-dtw
def sdtw(D, gam=0.5):
    n, m = D.shape
    R = jnp.full((n + 1, m + 1), jnp.inf).at[0, 0].set(0.0)

    def body(k, R):
        i, j = k // m + 1, k % m + 1
        v = -gam * jax.scipy.special.logsumexp(
            -jnp.array([R[i - 1, j], R[i, j - 1], R[i - 1, j - 1]]) / gam
        )
        return R.at[i, j].set(D[i - 1, j - 1] + v)

    return lax.fori_loop(0, n * m, body, R)[-1, -1]


D = (jnp.arange(4.0)[:, None] - jnp.arange(5.0)[None]) ** 2 / 3
r["sdtw"] = [sdtw(D), jit(sdtw)(D)]


# linear recurrences / S4 / EMA by associative scan
def binop(l, rr):
    return l[0] * rr[0], rr[0] * l[1] + rr[1]


A = nn.sigmoid(random.normal(key, (9, 4)))
B = random.normal(key, (9, 4))
r["ssm"] = lax.associative_scan(binop, (A, B))[1]
r["ssmg"] = grad(lambda A: (lax.associative_scan(binop, (A, B))[1] ** 2).sum())(A)
Ad = jnp.array([[0.9, 0.1], [-0.1, 0.9]])
K = jnp.stack(
    [
        jnp.array([1.0, 0.0]) @ jnp.linalg.matrix_power(Ad, i) @ jnp.array([0.0, 1.0])
        for i in range(8)
    ]
)
r["s4"] = jnp.fft.irfft(jnp.fft.rfft(K, 16) * jnp.fft.rfft(jnp.arange(8.0), 16), 16)[:8]


def rope(x, base=100.0):
    f = base ** (-jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
    t = jnp.arange(x.shape[-2])
    c, s = jnp.cos(t[:, None] * f), jnp.sin(t[:, None] * f)
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


q = random.normal(key, (2, 6, 3, 4))
r["rope"] = rope(jnp.moveaxis(q, -2, -3))
r["sdpa"] = [
    nn.dot_product_attention(q, q, q, is_causal=True),
    nn.dot_product_attention(
        q, q[:, :, :1], q[:, :, :1], scale=0.3, mask=jnp.tril(jnp.ones((6, 6), bool))[None, None]
    ),
]
alibi = -jnp.abs(jnp.arange(6)[:, None] - jnp.arange(6)) * (2.0 ** -jnp.arange(1, 4))[:, None, None]
r["alibi"] = alibi


# MoE top-2
def moe(x, wg, we):
    pr = nn.softmax(x @ wg)
    v, i = lax.top_k(pr, 2)
    v = v / v.sum(-1, keepdims=True)
    oh = nn.one_hot(i, 4) * v[..., None]
    return jnp.einsum("tke,td,edf->tf", oh, x, we), jnp.einsum("tke->e", oh)


r["moe"] = moe(q[0, :, 0], random.normal(key, (4, 4)), random.normal(key, (4, 4, 5)))


def online(c, kv):
    m, l, a = c
    k, v = kv
    s = q[0, 0, 0] @ k
    m2 = jnp.maximum(m, s)
    sc = jnp.exp(m - m2)
    return (m2, l * sc + jnp.exp(s - m2), a * sc + jnp.exp(s - m2) * v), None


(m, l, a), _ = lax.scan(online, (-jnp.inf, 0.0, jnp.zeros(4)), (q[0, :, 1], q[0, :, 2]))
r["flash"] = a / l
r["bpe"] = jnp.take(jnp.array([3, 1, 4, 1, 5]), jnp.array([[0, -1], [2, 7]]), mode="clip")
r["embg"] = grad(lambda E: (E[jnp.array([0, 2, 2])] ** 2).sum())(random.normal(key, (4, 2)))
r["ls"] = -jnp.mean(
    jnp.sum(nn.log_softmax(lg) * (nn.one_hot(jnp.arange(10) % 5, 5) * 0.9 + 0.02), -1)
)
r["standard"] = nn.standardize(lg, axis=-1, epsilon=1e-5)
r["glu"] = nn.glu(lg[:, :4])
results = r
