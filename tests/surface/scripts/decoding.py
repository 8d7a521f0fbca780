"""A small transformer: kv cache, greedy and sampled decoding, masks, beam search, positional encodings."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, jit, nn
from functools import partial

results = {}
V, D, H, T = 11, 8, 2, 6
ks = random.split(random.key(5), 8)
P = {
    "emb": random.normal(ks[0], (V, D)) * 0.5,
    "pos": random.normal(ks[1], (T, D)) * 0.1,
    "wq": random.normal(ks[2], (D, D)) * 0.4,
    "wk": random.normal(ks[3], (D, D)) * 0.4,
    "wv": random.normal(ks[4], (D, D)) * 0.4,
    "wo": random.normal(ks[5], (D, D)) * 0.4,
    "w1": random.normal(ks[6], (D, 16)) * 0.4,
    "w2": random.normal(ks[7], (16, D)) * 0.4,
    "g": jnp.ones(D),
}


def ln(x, g):
    return g * (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def block(p, x):
    h = ln(x, p["g"])
    n = x.shape[0]
    q, k, v = (jnp.reshape(h @ p[w], (n, H, D // H)) for w in ("wq", "wk", "wv"))
    s = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(D // H)
    s = jnp.where(jnp.arange(n)[:, None] >= jnp.arange(n), s, jnp.finfo(s.dtype).min)
    x = x + jnp.einsum("hqk,khd->qhd", nn.softmax(s), v).reshape(n, D) @ p["wo"]
    return x + nn.gelu(ln(x, p["g"]) @ p["w1"]) @ p["w2"]


def model(p, toks):
    return block(p, p["emb"][toks] + p["pos"][: len(toks)]) @ p["emb"].T


toks = jnp.array([1, 5, 3, 9, 2, 7])
results["logits"] = jit(model)(P, toks)[-1]


def loss(p, t):
    return -jnp.mean(jnp.take_along_axis(nn.log_softmax(model(p, t[:-1])), t[1:, None], -1))


results["grad"] = jax.tree.map(lambda g: jnp.sum(g**2), jit(jax.grad(loss))(P, toks))


def cached(p, cache, pos, tok):
    x = jnp.asarray(p["emb"])[tok] + jnp.asarray(p["pos"])[pos]
    h = ln(x, p["g"])
    q, k, v = (jnp.reshape(h @ p[w], (H, D // H)) for w in ("wq", "wk", "wv"))
    K = lax.dynamic_update_index_in_dim(cache["k"], k, pos, 0)
    Vv = cache["v"].at[pos].set(v)
    s = jnp.einsum("hd,thd->ht", q, K) / jnp.sqrt(D // H)
    s = jnp.where(jnp.arange(T) <= pos, s, -jnp.inf)
    x = x + jnp.einsum("ht,thd->hd", nn.softmax(s, -1), Vv).reshape(D) @ p["wo"]
    x = x + nn.gelu(ln(x, p["g"]) @ p["w1"]) @ p["w2"]
    return {"k": K, "v": Vv}, x @ p["emb"].T


c0 = {"k": jnp.zeros((T, H, D // H)), "v": jnp.zeros((T, H, D // H))}


def greedy(p, first):
    def step(c, pos):
        cache, tok = c
        cache, lg = cached(p, cache, pos, tok)
        nxt = jnp.argmax(lg)
        return (cache, nxt), nxt

    return lax.scan(step, (c0, first), jnp.arange(T))[1]


results["greedy"] = jit(greedy)(P, 1)
results["same"] = (
    jnp.abs(
        lax.scan(lambda c, pt: cached(P, c, *pt), c0, (jnp.arange(T), toks))[1][-1]
        - model(P, toks)[-1]
    ).max()
    < 1e-9
)


def sample(p, key, first, temp, k):
    def cond(s):
        return (s[2] < T) & (s[1] != 0)

    def body(s):
        cache, tok, pos, key, out = s
        key, sub = random.split(key)
        cache, lg = cached(p, cache, pos, tok)
        top, ix = lax.top_k(lg / temp, k)
        nxt = ix[random.categorical(sub, top)]
        return cache, nxt, pos + 1, key, out.at[pos].set(nxt)

    return lax.while_loop(cond, body, (c0, first, 0, key, jnp.full(T, -1)))[4]


results["sample"] = jit(sample, static_argnums=4)(P, random.key(1), jnp.int32(1), 0.8, 3)
results["samples"] = jax.vmap(lambda k: sample(P, k, jnp.int32(1), 1.0, 4))(
    random.split(random.key(2), 3)
)


def nucleus(lg, p):
    srt = jnp.sort(lg)[::-1]
    cum = jnp.cumsum(nn.softmax(srt))
    cut = srt[jnp.sum(cum < p)]
    return jnp.where(lg < cut, -jnp.inf, lg)


results["nucleus"] = nn.softmax(nucleus(jnp.arange(5.0), 0.9))


def beam(p, B=3):
    seqs = jnp.zeros((B, T), int).at[:, 0].set(1)
    sc = jnp.where(jnp.arange(B) == 0, 0.0, -1e9)
    for t in range(1, T):
        lg = nn.log_softmax(jax.vmap(lambda s: model(p, s))(seqs)[:, t - 1])
        tot = (sc[:, None] + lg).ravel()
        sc, ix = lax.top_k(tot, B)
        seqs = seqs[ix // V].at[:, t].set(ix % V)
    return seqs, sc


results["beam"] = jit(beam)(P)
pe = lambda n, d: jnp.concatenate(
    [f(jnp.arange(n)[:, None] / 1e4 ** (2 * jnp.arange(d // 2) / d)) for f in (jnp.sin, jnp.cos)],
    -1,
)
results["pe"] = pe(4, 6)


def alibi(n):
    return -jnp.abs(jnp.arange(n)[:, None] - jnp.arange(n)) * 0.5


results["alibi"] = alibi(3)
pad = jnp.array([[1, 2, 0], [3, 0, 0]])
mask = pad != 0
results["mask"] = [
    jnp.where(mask[..., None], P["emb"][pad], 0).sum(1)[:, :3] / mask.sum(1, keepdims=True),
    mask[:, None, :] * mask[:, :, None],
]
results["smooth"] = -jnp.sum((0.9 * nn.one_hot(2, 5) + 0.1 / 5) * nn.log_softmax(jnp.arange(5.0)))


def moe(x, Wg, We):
    g = nn.softmax(x @ Wg)
    top, ix = lax.top_k(g, 2)
    top = top / top.sum(-1, keepdims=True)
    return jnp.einsum("nk,nkd->nd", top, jnp.einsum("nd,nkde->nke", x, We[ix]))


results["moe"] = jit(moe)(
    P["emb"][:4], random.normal(ks[0], (D, 3)), random.normal(ks[1], (3, D, D))
)


def lora(x, W, A, B):
    return x @ W + (x @ A) @ B * 2


results["lora"] = jax.grad(lambda AB: lora(P["emb"], P["wq"], *AB).sum())(
    (P["w1"][:, :2], P["w2"][:2])
)


def ssm(A, Bx):
    return lax.associative_scan(
        lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jnp.broadcast_to(A, Bx.shape), Bx)
    )[1]


results["ssm"] = jax.grad(lambda A: ssm(A, P["emb"]).sum())(jnp.linspace(0.1, 0.9, D))
results["remat"] = jit(
    jax.grad(
        lambda p: lax.scan(
            jax.checkpoint(lambda h, _: (block(p, h), None)), p["emb"][toks], None, length=3
        )[0].sum()
    )
)(P)["g"]
