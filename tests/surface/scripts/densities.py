"""Log densities batched by vmap: variational inference, HMC, Langevin, Gibbs."""

import functools, itertools, re, sys, time
import stax as jax
from stax import lax, random
import stax.numpy as jnp
import stax.scipy as jsp
import numpy as np
import scipy as sp

# autobatching log densities
np.random.seed(10009)
num_features = 10
num_points = 100
true_beta = np.random.randn(num_features).astype(jnp.float64)
all_x = np.random.randn(num_points, num_features).astype(jnp.float64)
y = (np.random.rand(num_points) < sp.special.expit(all_x.dot(true_beta))).astype(jnp.int32)


def log_joint(beta):
    result = 0.0
    result = result + jnp.sum(jsp.stats.norm.logpdf(beta, loc=0.0, scale=1.0))
    result = result + jnp.sum(-jnp.log(1 + jnp.exp(-(2 * y - 1) * jnp.dot(all_x, beta))))
    return result


r = {}
r["lj"] = log_joint(np.ones(num_features))
try:
    batched_test_beta = np.random.randn(10, num_features)
    r["bad"] = np.shape(log_joint(np.tile(true_beta, (10, 1))))
except Exception as e:
    r["bad"] = "raised"
batched = np.random.randn(10, num_features)
vmap_log_joint = jax.vmap(log_joint)
r["vlj"] = vmap_log_joint(batched)


@jax.jit
def log_joint(beta):
    return jnp.sum(jsp.stats.norm.logpdf(beta, loc=0.0, scale=10.0)) + jnp.sum(
        -jnp.log(1 + jnp.exp(-(2 * y - 1) * jnp.dot(all_x, beta)))
    )


batched_log_joint = jax.jit(jax.vmap(log_joint))


def elbo(beta_loc, beta_log_scale, epsilon):
    beta_sample = beta_loc + jnp.exp(beta_log_scale) * epsilon
    return jnp.mean(batched_log_joint(beta_sample), 0) + jnp.sum(
        beta_log_scale - 0.5 * np.log(2 * np.pi)
    )


elbo = jax.jit(elbo)
elbo_val_and_grad = jax.jit(jax.value_and_grad(elbo, argnums=(0, 1)))


def normal_sample(key, shape):
    new_key, sub_key = random.split(key)
    return new_key, random.normal(sub_key, shape)


normal_sample = jax.jit(normal_sample, static_argnums=(1,))
key = random.key(10003)
beta_loc = jnp.zeros(num_features, jnp.float64)
beta_log_scale = jnp.zeros(num_features, jnp.float64)
vals = []
for i in range(100):
    key, epsilon = normal_sample(key, (16, num_features))
    v, (gl, gs) = elbo_val_and_grad(beta_loc, beta_log_scale, epsilon)
    beta_loc += 0.01 * gl
    beta_log_scale += 0.01 * gs
    vals.append(v)
r["vals"] = vals
r["loc"] = beta_loc
r["ls"] = beta_log_scale


# HMC
def hmc_step(key, beta, logp, eps, n):
    k1, k2 = random.split(key)
    p0 = random.normal(k1, beta.shape)
    g = jax.grad(logp)

    def leap(i, s):
        b, p = s
        p = p + eps / 2 * g(b)
        b = b + eps * p
        p = p + eps / 2 * g(b)
        return b, p

    b, p = lax.fori_loop(0, n, leap, (beta, p0))
    a = logp(b) - 0.5 * p @ p - logp(beta) + 0.5 * p0 @ p0
    acc = jnp.log(random.uniform(k2)) < a
    return jnp.where(acc, b, beta), acc


@functools.partial(jax.jit, static_argnames=["n"])
def chain(key, beta, n):
    def f(b, k):
        b, acc = hmc_step(k, b, log_joint, 0.05, 5)
        return b, (b, acc)

    return lax.scan(f, beta, random.split(key, n))[1]


r["hmc"], r["acc"] = chain(random.key(3), jnp.zeros(num_features), n=20)
r["chains"] = jax.vmap(lambda k: chain(k, jnp.zeros(num_features), 5)[0][-1])(
    random.split(random.key(8), 3)
)


# MALA / Langevin / SGLD
def sgld(c, k):
    b = c
    i = random.choice(k, num_points, (20,), replace=False)
    x, yy = jnp.asarray(all_x)[i], jnp.asarray(y)[i]
    gr = jax.grad(
        lambda b: (
            jsp.stats.norm.logpdf(b).sum()
            + 5 * jsp.stats.bernoulli.logpmf(yy, jax.nn.sigmoid(x @ b)).sum()
        )
    )(b)
    b = b + 5e-3 * gr + jnp.sqrt(1e-2) * random.normal(random.fold_in(k, 1), b.shape)
    return b, b


r["sgld"] = lax.scan(sgld, jnp.zeros(num_features), random.split(random.key(4), 15))[1]
# Laplace approximation
H = -jax.hessian(log_joint)(beta_loc)
r["H"] = H
r["logdet"] = jnp.linalg.slogdet(H)
mh = lambda k, x, lp: (
    lambda prop: jnp.where(
        jnp.log(random.uniform(random.fold_in(k, 0))) < lp(prop) - lp(x), prop, x
    )
)(x + 0.3 * random.normal(k, x.shape))
r["mh"] = lax.scan(
    lambda x, k: (lambda z: (z, z))(mh(k, x, lambda x: jsp.stats.t.logpdf(x, 3.0).sum())),
    jnp.zeros(2),
    random.split(random.key(1), 12),
)[1]


# gibbs on ising
def ising(key, s, beta):
    def sweep(s, k):
        for par in (0, 1):
            k, sub = random.split(k)
            nb = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
            mask = (jnp.indices(s.shape).sum(0) % 2) == par
            pr = jax.nn.sigmoid(2 * beta * nb)
            s = jnp.where(mask, jnp.where(random.uniform(sub, s.shape) < pr, 1, -1), s)
        return s, s.mean()

    return lax.scan(sweep, s, random.split(key, 6))


r["ising"] = jax.jit(ising)(random.key(0), jnp.ones((8, 8), int), 0.44)
results = r
