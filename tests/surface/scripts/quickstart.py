"""A first tour: arrays, jit, gradients, batching, random numbers."""

import stax as jax
import stax.numpy as jnp
from stax import grad, jit, random, vmap

results = {}


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


x = jnp.arange(5.0)
results["selu"] = selu(x)
key = random.key(1701)
noise = random.normal(key, (1_000,))
selu_jit = jit(selu)
_ = selu_jit(noise)
results["selu_jit"] = selu_jit(noise).block_until_ready().sum()


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


x_small = jnp.arange(3.0)
results["grad"] = grad(sum_logistic)(x_small)


def first_finite_differences(f, x, eps=1e-3):
    return jnp.array([(f(x + eps * v) - f(x - eps * v)) / (2 * eps) for v in jnp.eye(len(x))])


results["differences"] = first_finite_differences(sum_logistic, x_small)
results["third"] = grad(jit(grad(jit(grad(sum_logistic)))))(1.0)
results["jacobian"] = jax.jacobian(jnp.exp)(x_small)


def hessian(fun):
    return jit(jax.jacfwd(jax.jacrev(fun)))


results["hessian"] = hessian(sum_logistic)(x_small)

key1, key2 = random.split(key)
mat = random.normal(key1, (15, 10))
batched_x = random.normal(key2, (6, 10))


def apply_matrix(x):
    return jnp.dot(mat, x)


def naively_batched(v_batched):
    return jnp.stack([apply_matrix(v) for v in v_batched])


@jit
def batched(batched_x):
    return jnp.dot(batched_x, mat.T)


@jit
def vmap_batched(batched_x):
    return vmap(apply_matrix)(batched_x)


results["naive"] = naively_batched(batched_x)
results["batched"] = batched(batched_x)
results["vmap"] = vmap_batched(batched_x)
assert jnp.allclose(results["naive"], results["vmap"], atol=1e-4), "batched products agree"
results["linspace"] = jnp.linspace(0, 10, 11)[::2]
results["mask"] = jnp.array([1.0, -2.0, 3.0])[jnp.array([True, False, True])]
results["type"] = isinstance(x, jax.Array)
