"""A VAE, coupling flow, GAN step, diffusion, codebooks and scores."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, nn, jit, vmap, grad
from functools import partial
from stax.nn.initializers import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    zeros,
    normal,
    variance_scaling,
    constant,
    uniform,
)

r = {}
key = random.PRNGKey(0)


# VAE
def mlp(key, *s):
    ks = random.split(key, len(s) - 1)
    return [
        (glorot_normal()(k, (a, b), jnp.float64), zeros(k, (b,), jnp.float64))
        for k, a, b in zip(ks, s[:-1], s[1:])
    ]


def run(p, x, act=nn.softplus):
    *h, (w, b) = p
    for W, B in h:
        x = act(x @ W + B)
    return x @ w + b


enc, dec = mlp(key, 8, 12, 6), mlp(random.fold_in(key, 1), 3, 12, 8)


def elbo(key, params, x):
    e, d = params
    mu, lv = jnp.split(run(e, x), 2, axis=-1)
    z = mu + jnp.exp(0.5 * lv) * random.normal(key, mu.shape)
    lg = run(d, z)
    lp = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x, -1.0, 1.0) * lg), -1)
    kl = -0.5 * jnp.sum(1.0 + lv - mu**2.0 - jnp.exp(lv), -1)
    return lp - kl


@jit
def vstep(params, key, x):
    k = random.split(key, x.shape[0])
    l, g = jax.value_and_grad(lambda p: -jnp.mean(vmap(elbo, (0, None, 0))(k, p, x)))(params)
    return jax.tree.map(lambda a, b: a - 0.05 * b, params, g), l


data = random.bernoulli(random.PRNGKey(5), 0.3, (32, 8))
ps, ls = (enc, dec), []
for e in range(6):
    perm = random.permutation(random.fold_in(key, e), 32)
    for i in range(2):
        bt = lax.dynamic_slice_in_dim(data[perm], i * 16, 16)
        ps, l = vstep(ps, random.fold_in(key, 100 + e * 2 + i), bt)
        ls.append(l)
r["vae"] = ls


# real nvp
def coup(p, x, flip, inv=False):
    a, b = jnp.split(x, 2, -1)
    if flip:
        a, b = b, a
    s, t = jnp.split(run(p, a, jnp.tanh), 2, -1)
    s = jnp.tanh(s)
    b = (b - t) * jnp.exp(-s) if inv else b * jnp.exp(s) + t
    return jnp.concatenate([b, a] if flip else [a, b], -1), s.sum(-1)


fp = [mlp(k, 1, 8, 2) for k in random.split(key, 4)]


def logp(fp, x):
    ld = 0.0
    for i, p in reversed(list(enumerate(fp))):
        x, l = coup(p, x, i % 2 == 1, True)
        ld = ld - l
    return jax.scipy.stats.norm.logpdf(x).sum(-1) + ld


def samp(fp, z):
    for i, p in enumerate(fp):
        z, _ = coup(p, z, i % 2)
    return z


th = random.uniform(key, (40,)) * jnp.pi
moons = jnp.stack([jnp.cos(th), jnp.sin(th)], -1) + 0.05 * random.normal(key, (40, 2))
for _ in range(4):
    fp = jax.tree.map(lambda a, g: a + 0.1 * g, fp, jit(grad(lambda f: logp(f, moons).mean()))(fp))
r["nvp"] = logp(fp, moons).mean()
r["samp"] = samp(fp, random.normal(key, (5, 2)))
r["ldj"] = vmap(lambda z: jnp.linalg.slogdet(jax.jacfwd(partial(samp, fp))(z))[1])(
    random.normal(key, (5, 2))
)
# GAN
G, D = mlp(key, 2, 8, 2), mlp(random.fold_in(key, 9), 2, 8, 1)


@jit
def gan(carry, k):
    G, D = carry
    z = random.truncated_normal(k, -2.0, 2.0, (40, 2))
    bce = lambda l, y: jnp.mean(jnp.maximum(l, 0) - l * y + jnp.log1p(jnp.exp(-jnp.abs(l))))
    dl, dg = jax.value_and_grad(
        lambda D: (
            bce(run(D, moons), 1.0) + bce(run(D, lax.stop_gradient(run(G, z, nn.leaky_relu))), 0.0)
        )
    )(D)
    D = jax.tree.map(lambda p, g: p - 0.1 * g, D, dg)
    gp = vmap(grad(lambda x: run(D, x)[0]))(moons)
    gl, gg = jax.value_and_grad(lambda G: bce(run(D, run(G, z, nn.leaky_relu)), 1.0))(G)
    return (jax.tree.map(lambda p, g: p - 0.1 * g, G, gg), D), (
        dl,
        gl,
        (jnp.linalg.norm(gp, axis=-1) - 1).mean(),
    )


r["gan"] = lax.scan(gan, (G, D), random.split(key, 8))[1]
# diffusion
T = 10
betas = jnp.linspace(1e-2, 0.3, T)
ab = jnp.cumprod(1 - betas)


def temb(t):
    f = jnp.exp(-jnp.log(100.0) * jnp.arange(2) / 2)
    a = t[..., None] * f
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


eps = mlp(key, 6, 16, 2)


def dloss(p, k):
    k1, k2 = random.split(k)
    t = random.randint(k1, (40,), 0, T)
    n = random.normal(k2, moons.shape)
    xt = jnp.sqrt(ab[t])[:, None] * moons + jnp.sqrt(1 - ab[t])[:, None] * n
    return jnp.mean((run(p, jnp.concatenate([xt, temb(t)], -1), nn.silu) - n) ** 2)


def ds(p, k):
    l, g = jax.value_and_grad(dloss)(p, k)
    return jax.tree.map(lambda a, b: a - 0.05 * b, p, g), l


eps, r["diff"] = lax.scan(ds, eps, random.split(key, 10))


def rev(x, tk):
    t, k = tk
    e = run(eps, jnp.concatenate([x, jnp.broadcast_to(temb(t), (4, 4))], -1), nn.silu)
    m = (x - betas[t] / jnp.sqrt(1 - ab[t]) * e) / jnp.sqrt(1 - betas[t])
    x = m + jnp.where(t > 0, jnp.sqrt(betas[t]), 0.0) * random.normal(k, x.shape)
    return x, x


r["rev"] = lax.scan(rev, random.normal(key, (4, 2)), (jnp.arange(T)[::-1], random.split(key, T)))[0]
r["init"] = [
    he_normal()(key, (3, 4), jnp.float64),
    variance_scaling(2.0, "fan_out", "uniform")(key, (3, 4), jnp.float64),
    constant(0.5)(key, (2,)),
    glorot_uniform(in_axis=-1, out_axis=-2)(key, (2, 3, 4), jnp.float64),
    uniform(0.1)(key, (3,), jnp.float64),
]
# VQ codebook straight-through & gumbel softmax
cb = random.normal(key, (5, 2))


def vq(x):
    d = jnp.sum((x[:, None] - cb) ** 2, -1)
    i = d.argmin(-1)
    q = cb[i]
    return x + lax.stop_gradient(q - x), i, jnp.bincount(i, length=5)


r["vq"] = vq(moons)
r["gum"] = nn.softmax((jnp.arange(4.0) + random.gumbel(key, (3, 4))) / 0.5)
r["score"] = vmap(
    grad(
        lambda x: jax.scipy.special.logsumexp(
            jnp.array(
                [
                    jax.scipy.stats.multivariate_normal.logpdf(x, m, jnp.eye(2) * 0.3)
                    for m in moons[:3]
                ]
            )
        )
    )
)(moons[:4])
results = r
