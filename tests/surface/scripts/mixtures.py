"""Densities fitted to data: mixtures, counts, posteriors, kernel estimates."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random
from stax.scipy import stats
from stax.scipy.special import logsumexp, digamma, gammaln
from stax.scipy.optimize import minimize

results = {}
key = random.key(5)
which = random.bernoulli(key, 0.4, (60,))
data = jnp.where(
    which[:, None],
    random.normal(random.fold_in(key, 1), (60, 2)) * 0.6 + 2.0,
    random.normal(random.fold_in(key, 2), (60, 2)),
)
results["data"] = [data.mean(0), data.std(0)]

# A mixture of Gaussians by expectation and maximisation, in one loop.
start = (
    jnp.log(jnp.array([0.5, 0.5])),
    jnp.array([[-0.5, 0.0], [1.0, 1.5]]),
    jnp.stack([jnp.eye(2), jnp.eye(2)]),
)


def responsibilities(params, x):
    logw, means, covs = params
    each = jax.vmap(lambda m, c: stats.multivariate_normal.logpdf(x, m, c))(means, covs).T + logw
    total = logsumexp(each, axis=1, keepdims=True)
    return jnp.exp(each - total), total.sum()


def em_step(params, _):
    r, loglik = responsibilities(params, data)
    counts = r.sum(0)
    means = (r.T @ data) / counts[:, None]
    centred = data[:, None] - means
    covs = jnp.einsum("nk,nki,nkj->kij", r, centred, centred) / counts[:, None, None]
    return (jnp.log(counts / 60), means, covs), loglik


fitted, logliks = jax.jit(lambda p: lax.scan(em_step, p, None, length=25))(start)
results["fitted"] = [jnp.exp(fitted[0]), fitted[1], fitted[2]]
results["logliks"] = logliks
results["grad_at_fit"] = jax.grad(lambda m: responsibilities((fitted[0], m, fitted[2]), data)[1])(
    fitted[1] + 0.1
)
results["assigned"] = responsibilities(fitted, data)[0].argmax(1)


# The same likelihood climbed by gradients of unconstrained parameters.
def unpack(v):
    logits, means, raw = v[:2], v[2:6].reshape(2, 2), v[6:8]
    return jax.nn.log_softmax(logits), means, jnp.exp(raw)[:, None, None] * jnp.eye(2)


def negative(v):
    return -responsibilities(unpack(v), data)[1] / 60


v0 = jnp.concatenate([jnp.zeros(2), start[1].reshape(-1), jnp.zeros(2)])
found = minimize(negative, v0, method="BFGS")
results["climbed"] = jnp.round(unpack(found.x)[1], 3)
results["climbed_value"] = jnp.round(found.fun, 6)
results["hessian"] = jax.hessian(negative)(v0)[2:4]

# Gamma and negative binomial by Newton's method on the log-density.
draws = random.gamma(random.fold_in(key, 3), 2.5, (40,)) * 0.8


def gamma_loglik(p):
    a, scale = jnp.exp(p)
    return stats.gamma.logpdf(draws, a, scale=scale).mean()


def newton(p, _):
    g, h = jax.grad(gamma_loglik)(p), jax.hessian(gamma_loglik)(p)
    return p - jnp.linalg.solve(h, g), gamma_loglik(p)


p, path = jax.jit(lambda p: lax.scan(newton, p, None, length=8))(jnp.array([0.6, -0.3]))
results["gamma"] = [jnp.exp(p), path]
counts = random.poisson(random.fold_in(key, 4), 3.0, (30,))
results["nbinom"] = jax.jit(jax.vmap(lambda n: stats.nbinom.logpmf(counts, n, 0.5).sum()))(
    jnp.array([1.0, 3.0, 9.0])
)
results["poisson"] = jax.grad(lambda r: stats.poisson.logpmf(counts, r).sum())(2.5)

# A Dirichlet posterior, its entropy and divergence, and stick breaking.
alpha = jnp.array([1.5, 2.0, 4.0])


def entropy(a):
    s = a.sum()
    return gammaln(a).sum() - gammaln(s) + (s - 3) * digamma(s) - ((a - 1) * digamma(a)).sum()


results["entropy"] = [entropy(alpha), jax.grad(entropy)(alpha)]
results["dirichlet"] = stats.dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), alpha)
sticks = random.beta(random.fold_in(key, 5), 1.0, 2.0, (6,))
results["sticks"] = sticks * jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - sticks)[:-1]])

# Kernel densities and quantiles of them.
kde = lambda x: logsumexp(stats.norm.logpdf(x[:, None], data[:, 0], 0.4), axis=1) - jnp.log(60.0)
grid = jnp.linspace(-2.0, 3.0, 9)
results["kde"] = jax.jit(kde)(grid)
results["kde_slope"] = jax.vmap(jax.grad(lambda x: kde(x[None])[0]))(grid)
results["tails"] = [
    stats.norm.isf(jnp.array([0.1, 0.01])),
    stats.norm.ppf(0.9),
    stats.t.logpdf(0.3, 4.0),
    stats.beta.cdf(0.3, 2.0, 3.0),
]
results["methods"] = [
    hasattr(stats.beta, "ppf"),
    hasattr(stats.norm, "ppf"),
    hasattr(stats.gamma, "isf"),
]
