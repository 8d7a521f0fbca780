"""A transformer with a cache: greedy, top-k and nucleus sampling, beam search, training."""

import stax as jax
import stax.numpy as jnp
from stax import lax, random, nn
from functools import partial
import math

V, D, H, L, T = 11, 16, 2, 2, 12


def init(key):
    def dense(k, i, o):
        return {
            "kernel": nn.initializers.lecun_normal()(k, (i, o), jnp.float64),
            "bias": jnp.zeros((o,)),
        }

    ks = iter(random.split(key, 50))
    p = {
        "emb": nn.initializers.normal(0.5)(next(ks), (V, D), jnp.float64),
        "pos": nn.initializers.truncated_normal(0.1)(next(ks), (T, D), jnp.float64),
        "layers": [],
    }
    for _ in range(L):
        p["layers"].append(
            {
                "ln1": jnp.ones(D),
                "q": dense(next(ks), D, D),
                "k": dense(next(ks), D, D),
                "v": dense(next(ks), D, D),
                "o": dense(next(ks), D, D),
                "ln2": jnp.ones(D),
                "up": dense(next(ks), D, 4 * D),
                "down": dense(next(ks), 4 * D, D),
            }
        )
    return p


def lin(p, x):
    return x @ p["kernel"] + p["bias"]


def norm(g, x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g


def split(x):
    return jnp.swapaxes(x.reshape(x.shape[:-1] + (H, D // H)), -2, -3)


def forward(p, toks):
    x = p["emb"][toks] + p["pos"][: toks.shape[-1]]
    mask = jnp.tril(jnp.ones((toks.shape[-1],) * 2, bool))
    for l in p["layers"]:
        h = norm(l["ln1"], x)
        q, k, v = (split(lin(l[n], h)) for n in "qkv")
        s = jnp.einsum("...hqd,...hkd->...hqk", q, k) / math.sqrt(D // H)
        s = jnp.where(mask, s, -jnp.inf)
        a = jnp.einsum("...hqk,...hkd->...hqd", nn.softmax(s), v)
        x = x + lin(l["o"], jnp.swapaxes(a, -2, -3).reshape(x.shape))
        h = norm(l["ln2"], x)
        x = x + lin(l["down"], nn.gelu(lin(l["up"], h)))
    return x @ p["emb"].T


def empty_cache():
    return [{"k": jnp.zeros((H, T, D // H)), "v": jnp.zeros((H, T, D // H))} for _ in range(L)]


def step(p, cache, tok, i):
    x = p["emb"][tok] + lax.dynamic_index_in_dim(p["pos"], i, keepdims=False)
    new = []
    for l, c in zip(p["layers"], cache):
        h = norm(l["ln1"], x)
        q, k, v = (lin(l[n], h).reshape(H, D // H) for n in "qkv")
        ck = lax.dynamic_update_slice(c["k"], k[:, None], (0, i, 0))
        cv = lax.dynamic_update_slice_in_dim(c["v"], v[:, None], i, axis=1)
        new.append({"k": ck, "v": cv})
        s = jnp.einsum("hd,htd->ht", q, ck) / math.sqrt(D // H)
        s = jnp.where(jnp.arange(T) <= i, s, jnp.finfo(s.dtype).min)
        x = x + lin(l["o"], jnp.einsum("ht,htd->hd", nn.softmax(s, axis=-1), cv).reshape(D))
        x = x + lin(l["down"], nn.gelu(lin(l["up"], norm(l["ln2"], x))))
    return p["emb"] @ x, new


p = init(random.PRNGKey(42))
toks = random.randint(random.PRNGKey(1), (3, T), 0, V)
logits = jax.jit(forward)(p, toks)


@jax.jit
def greedy(p, prompt):
    n = prompt.shape[0]
    buf = jnp.zeros(T, prompt.dtype).at[:n].set(prompt)

    def body(i, c):
        buf, cache = c
        lg, cache = step(p, cache, buf[i], i)
        nxt = jnp.argmax(lg).astype(buf.dtype)
        buf = buf.at[i + 1].set(
            jnp.where(i + 1 < n, buf[jnp.minimum(i + 1, T - 1)], nxt), mode="drop"
        )
        return buf, cache

    return lax.fori_loop(0, T - 1, body, (buf, empty_cache()))[0]


g1 = greedy(p, jnp.array([1, 2, 3]))
gb = jax.vmap(greedy, (None, 0))(p, toks[:, :4])


@partial(jax.jit, static_argnames=("k", "temp"))
def sample(p, prompt_tok, key, k=4, temp=0.8):
    def body(c, key):
        tok, i, cache = c
        lg, cache = step(p, cache, tok, i)
        val, idx = lax.top_k(lg / temp, k)
        tok = idx[random.categorical(key, val)].astype(tok.dtype)
        return (tok, i + 1, cache), tok

    return lax.scan(body, (prompt_tok, 0, empty_cache()), random.split(key, T))[1]


sm = sample(p, jnp.int32(3), random.PRNGKey(0))


def nucleus(lg, pth):
    order = jnp.argsort(-lg)
    pr = nn.softmax(lg[order])
    cut = jnp.cumsum(pr) - pr > pth
    return jnp.full_like(lg, -jnp.inf).at[order].set(jnp.where(cut, -jnp.inf, lg[order]))


nu = jax.vmap(partial(nucleus, pth=0.7))(logits[0])


@partial(jax.jit, static_argnums=2)
def beam(p, start, B):
    lg, cache = step(p, empty_cache(), start, 0)
    sc, tk = lax.top_k(nn.log_softmax(lg), B)
    caches = jax.tree.map(lambda x: jnp.broadcast_to(x, (B,) + x.shape), cache)
    seqs = jnp.zeros((B, T), int).at[:, 0].set(start).at[:, 1].set(tk)

    def body(s):
        i, seqs, sc, caches = s
        lg, caches = jax.vmap(step, in_axes=(None, 0, 0, None))(p, caches, seqs[:, i], i)
        tot = sc[:, None] + nn.log_softmax(lg)
        sc, flat = lax.top_k(tot.ravel(), B)
        parent, tok = jnp.divmod(flat, V)
        caches = jax.tree.map(lambda c: c[parent], caches)
        seqs = seqs[parent].at[:, i + 1].set(tok)
        return i + 1, seqs, sc, caches

    _, seqs, sc, _ = lax.while_loop(lambda s: s[0] < T - 1, body, (1, seqs, sc, caches))
    return seqs, sc


bs, bsc = beam(p, 2, 3)


def loss(p, t):
    lg = forward(p, t[:, :-1])
    lab = nn.one_hot(t[:, 1:], V)
    return -jnp.mean(jnp.sum(nn.log_softmax(lg) * lab, -1))


ls = []
pp = p
upd = jax.jit(
    lambda p, t: (lambda v, g: (v, jax.tree.map(lambda a, b: a - 0.1 * b, p, g)))(
        *jax.value_and_grad(loss)(p, t)
    )
)
for _ in range(5):
    v, pp = upd(pp, toks)
    ls.append(v)
gr = jax.grad(jax.checkpoint(loss))(p, toks)
results = dict(
    logits=logits,
    g1=g1,
    gb=gb,
    sm=sm,
    nu=nu,
    bs=bs,
    bsc=bsc,
    ls=ls,
    gr=gr["layers"][0]["q"],
    n=jax.tree_util.tree_reduce(lambda a, b: a + b.size, p, 0),
)
