"""Kalman filter and smoother, parallel prefixes, a particle filter."""

import stax as jax
import stax.numpy as jnp
import stax.scipy as jsp
from stax import random, lax, jit, vmap, grad
from stax.scipy.stats import multivariate_normal
from dataclasses import dataclass


@jax.tree_util.register_dataclass
@dataclass
class LDS:
    A: jax.Array
    C: jax.Array
    Q: jax.Array
    R: jax.Array
    mu: jax.Array
    Sigma: jax.Array


dt = 0.1
A = jnp.array([[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1]])
lds = LDS(A, jnp.eye(2, 4), 0.01 * jnp.eye(4), 0.1 * jnp.eye(2), jnp.zeros(4), jnp.eye(4))


def sample(params, key, T):
    k1, k2, k3 = random.split(key, 3)
    x0 = random.multivariate_normal(k1, params.mu, params.Sigma)
    ws = random.multivariate_normal(k2, jnp.zeros(4), params.Q, shape=(T,))
    vs = random.multivariate_normal(k3, jnp.zeros(2), params.R, (T,))

    def step(x, wv):
        w, v = wv
        y = params.C @ x + v
        return params.A @ x + w, (x, y)

    _, (xs, ys) = lax.scan(step, x0, (ws, vs))
    return xs, ys


def kalman_filter(params, ys):
    I = jnp.eye(params.A.shape[0])

    def step(carry, y):
        mu, Sig, ll = carry
        S = params.C @ Sig @ params.C.T + params.R
        ll = ll + multivariate_normal.logpdf(y, params.C @ mu, S)
        K = jsp.linalg.solve(S, params.C @ Sig, assume_a="pos").T
        mu_f = mu + K @ (y - params.C @ mu)
        Sig_f = (I - K @ params.C) @ Sig
        return (params.A @ mu_f, params.A @ Sig_f @ params.A.T + params.Q, ll), (mu_f, Sig_f)

    (_, _, ll), out = lax.scan(step, (params.mu, params.Sigma, 0.0), ys)
    return ll, out


def smoother(params, mus, Sigs):
    def step(carry, args):
        m, S = carry
        mf, Sf = args
        Sp = params.A @ Sf @ params.A.T + params.Q
        G = jnp.linalg.solve(Sp, params.A @ Sf).T
        m = mf + G @ (m - params.A @ mf)
        S = Sf + G @ (S - Sp) @ G.T
        return (m, S), (m, S)

    _, (ms, Ss) = lax.scan(step, (mus[-1], Sigs[-1]), (mus[:-1], Sigs[:-1]), reverse=True)
    return jnp.concatenate([ms, mus[-1:]]), jnp.concatenate([Ss, Sigs[-1:]])


# parallel prefix filter for scalar case
def assoc(elem1, elem2):
    a1, b1 = elem1
    a2, b2 = elem2
    return a2 @ a1, jnp.einsum("...ij,...j->...i", a2, b1) + b2


xs, ys = jax.jit(sample, static_argnums=2)(lds, random.PRNGKey(0), 30)
ll, (mus, Sigs) = jit(kalman_filter)(lds, ys)
sm, sS = jit(smoother)(lds, mus, Sigs)
g = grad(lambda p: kalman_filter(p, ys)[0])(lds)
batch_keys = random.split(random.key(7), 3)
bx, by = vmap(lambda k: sample(lds, k, 10))(batch_keys)
bll = vmap(lambda y: kalman_filter(lds, y)[0])(by)
As = jnp.stack([A] * 8)
bs = jnp.arange(32.0).reshape(8, 4) / 10
pa, pb = lax.associative_scan(assoc, (As, bs))


# particle filter
def particle_filter(key, ys, n):
    def step(carry, y):
        key, parts = carry
        key, k1, k2 = random.split(key, 3)
        parts = parts @ lds.A.T + random.normal(k1, parts.shape) * 0.1
        logw = multivariate_normal.logpdf(y, parts @ lds.C.T, lds.R)
        w = jax.nn.softmax(logw)
        idx = random.choice(k2, n, (n,), p=w)
        ess = 1 / jnp.sum(w**2)
        return (key, parts[idx]), (
            jnp.average(parts, axis=0, weights=w),
            ess,
            jsp.special.logsumexp(logw) - jnp.log(n),
        )

    parts = random.normal(key, (n, 4))
    _, out = lax.scan(step, (key, parts), ys)
    return out


pf = jit(particle_filter, static_argnames="n")(random.PRNGKey(4), ys, n=50)


def systematic(w, u):
    n = w.shape[0]
    pos = (u + jnp.arange(n)) / n
    return jnp.clip(jnp.searchsorted(jnp.cumsum(w), pos), 0, n - 1)


res = systematic(jnp.array([0.1, 0.2, 0.5, 0.2]), random.uniform(random.PRNGKey(1)))
results = dict(
    xs=xs,
    ys=ys,
    ll=ll,
    mus=mus,
    Sigs=Sigs,
    sm=sm,
    sS=sS,
    gA=g.A,
    gQ=g.Q + g.Q.T,
    gR=g.R + g.R.T,
    gmu=g.mu,
    by=by,
    bll=bll,
    pa=pa,
    pb=pb,
    pf=pf,
    res=res,
)
