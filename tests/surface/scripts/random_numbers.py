"""Keys, and a draw from every distribution."""

import stax as jax
import stax.numpy as jnp
from stax import random
import stax.random as jr

results = {}
key = random.key(42)
results["data"] = random.key_data(key)
results["old"] = random.PRNGKey(42)
results["wrap"] = random.normal(random.wrap_key_data(jnp.array([0, 5], dtype=jnp.uint32)))
k1, k2 = random.split(key)
results["split"] = [random.key_data(k1), random.key_data(k2)]
results["fold"] = random.key_data(random.fold_in(key, 7))
results["splitn"] = random.key_data(random.split(key, (2, 3)))
results["bits"] = [
    random.bits(key, (3,)),
    random.bits(key, (3,), jnp.uint8),
    random.bits(key, (2,), jnp.uint64),
]
s = (4,)
results["uniform"] = [
    random.uniform(key),
    random.uniform(key, s),
    random.uniform(key, s, minval=-1, maxval=2),
    random.uniform(key, s, jnp.float32),
]
results["normal"] = [
    random.normal(key, s),
    random.normal(key, s, jnp.float32),
    random.normal(key, (2,), jnp.complex64),
    random.normal(key, (2,), dtype=jnp.complex128),
]
results["randint"] = [
    random.randint(key, s, 0, 10),
    random.randint(key, s, -5, 5, dtype=jnp.int32),
    random.randint(key, shape=(2,), minval=0, maxval=jnp.array([5, 100])),
]
results["perm"] = [
    random.permutation(key, 8),
    random.permutation(key, jnp.arange(6.0).reshape(3, 2)),
    random.permutation(key, jnp.arange(6).reshape(2, 3), axis=1, independent=True),
]
results["choice"] = [
    random.choice(key, 5, s),
    random.choice(key, jnp.arange(10.0), (3,), replace=False),
    random.choice(key, 4, (6,), p=jnp.array([0.1, 0.2, 0.3, 0.4])),
    random.choice(key, 5, (3,), replace=False, p=jnp.array([0.1, 0.2, 0.3, 0.2, 0.2])),
]
results["bern"] = [random.bernoulli(key, 0.3, s), random.bernoulli(key, jnp.array([0.1, 0.9]))]
results["cat"] = [
    random.categorical(key, jnp.log(jnp.array([0.1, 0.4, 0.5])), shape=(5,)),
    random.categorical(key, jnp.zeros((3, 4)), axis=1),
    random.categorical(key, jnp.zeros((3, 4)), axis=-1, shape=(2, 3)),
]
results["beta"] = random.beta(key, 2.0, 3.0, s)
results["gamma"] = [
    random.gamma(key, 2.5, s),
    random.gamma(key, jnp.array([0.3, 5.0])),
    random.loggamma(key, 0.1, s),
]
results["dir"] = random.dirichlet(key, jnp.array([1.0, 2.0, 3.0]), (2,))
results["exp"] = random.exponential(key, s)
results["gumbel"] = random.gumbel(key, s)
results["lap"] = random.laplace(key, s)
results["logistic"] = random.logistic(key, s)
results["cauchy"] = random.cauchy(key, s)
results["poisson"] = [random.poisson(key, 3.0, s), random.poisson(key, jnp.array([0.5, 50.0]))]
results["t"] = random.t(key, 4.0, s)
results["chi2"] = random.chisquare(key, 3.0, shape=s)
results["f"] = random.f(key, 3.0, 4.0, shape=s)
results["tn"] = [
    random.truncated_normal(key, -1.0, 2.0, s),
    random.truncated_normal(key, -2, 2, s, jnp.float32),
]
results["mvn"] = [
    random.multivariate_normal(key, jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]]), (3,)),
    random.multivariate_normal(key, jnp.ones(2), jnp.eye(2), method="svd").shape[0],
]
results["binom"] = random.binomial(key, 10, 0.3, s)
results["geom"] = random.geometric(key, 0.3, s)
results["pareto"] = random.pareto(key, 2.0, s)
results["ray"] = random.rayleigh(key, 2.0, shape=s)
results["tri"] = random.triangular(key, 0.0, 0.3, 1.0, s)
results["wald"] = random.wald(key, 2.0, s)
results["weib"] = random.weibull_min(key, 2.0, 3.0, s)
results["logn"] = random.lognormal(key, 0.5, s)
results["max"] = [
    random.maxwell(key, s),
    random.double_sided_maxwell(key, 0.0, 1.0, s),
    random.rademacher(key, s),
    random.generalized_normal(key, 2.0, s),
    random.ball(key, 3, shape=(2,)),
    random.orthogonal(key, 3),
]
results["multi"] = random.multinomial(key, 10, jnp.array([0.2, 0.3, 0.5]))
results["jit"] = jax.jit(lambda k: random.normal(k, (3,)))(key)
results["jitsplit"] = jax.jit(lambda k: random.uniform(random.split(k, 3)[1]))(key)
results["vmap"] = jax.vmap(random.normal)(random.split(key, 3))
results["vmapu"] = jax.vmap(lambda k, n: random.uniform(k, (2,)) * n)(
    random.split(key, 3), jnp.arange(3)
)
results["scan"] = jax.lax.scan(
    lambda k, _: (random.split(k)[0], random.normal(random.split(k)[1])), key, None, length=4
)[1]
results["scanold"] = jax.lax.scan(
    lambda k, _: (random.split(k)[0], random.normal(random.split(k)[1])),
    random.PRNGKey(0),
    None,
    length=4,
)
results["greparam"] = jax.grad(lambda m, k: jnp.mean(m + 2 * random.normal(k, (5,))) ** 2)(1.0, key)
results["ggamma"] = jax.grad(lambda a: jnp.sum(random.gamma(key, a, (4,))))(2.0)
results["dtype"] = [
    str(random.normal(key, s).dtype),
    str(random.randint(key, s, 0, 3).dtype),
    str(random.PRNGKey(0).dtype),
]
results["iter"] = [random.uniform(k) for k in random.split(key, 3)]
results["index"] = random.normal(random.split(key, 5)[3], (2,))
key, *subs = random.split(key, 4)
results["star"] = [random.normal(k) for k in subs]
results["impl"] = str(random.key_impl(key))
results["clone"] = random.normal(random.clone(key))
results["stack"] = jax.vmap(random.uniform)(jnp.stack([key, random.key(3)]))
results["cond"] = jax.lax.cond(True, lambda k: random.normal(k), lambda k: random.uniform(k), key)
results["foldloop"] = jax.lax.fori_loop(
    0, 4, lambda i, a: a + random.normal(random.fold_in(key, i)), 0.0
)
results["treeks"] = jax.tree.map(lambda k: random.normal(k, (2,)), {"a": k1, "b": k2})
seq = jr.split(jr.PRNGKey(0), num=2)
results["jr"] = jr.uniform(key=seq[0], shape=(2,), minval=0.0, maxval=1.0)
results["drop"] = jnp.where(random.bernoulli(key, p=0.5, shape=(6,)), jnp.ones(6) / 0.5, 0)
results["where_keys"] = random.key_data(
    jnp.where(jnp.array([True, False]), random.split(key), random.split(k1))
)
