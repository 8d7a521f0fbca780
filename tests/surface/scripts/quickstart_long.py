"""A quickstart: selu, logistic regression, static arguments, trees."""

import stax as jax
import stax.numpy as jnp
from stax import grad, jit, vmap, random
from functools import partial
import numpy as np

results = {}


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


x = jnp.arange(5.0)
results["selu"] = selu(x)
key = random.PRNGKey(1701)
x = random.normal(key, (100,))
selu_jit = jit(selu)
results["selu_jit"] = selu_jit(x).block_until_ready()


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


results["grad"] = grad(sum_logistic)(jnp.arange(3.0))


def first_finite_differences(f, x, eps=1e-3):
    return jnp.array([(f(x + eps * v) - f(x - eps * v)) / (2 * eps) for v in jnp.eye(len(x))])


results["fd"] = first_finite_differences(sum_logistic, jnp.arange(3.0))
results["ggg"] = grad(jit(grad(jit(grad(sum_logistic)))))(1.0)
results["jac"] = jax.jacobian(jnp.exp)(jnp.arange(3.0))
results["hess"] = jit(jax.jacfwd(jax.jacrev(sum_logistic)))(jnp.arange(3.0))
key1, key2 = random.split(key)
mat = random.normal(key1, (15, 10))
batched_x = random.normal(key2, (5, 10))


def apply_matrix(x):
    return jnp.dot(mat, x)


@jit
def vmap_batched(batched_x):
    return vmap(apply_matrix)(batched_x)


results["vmap"] = vmap_batched(batched_x)
np.testing.assert_allclose(vmap(apply_matrix)(batched_x), jnp.dot(batched_x, mat.T), rtol=1e-6)


# logistic
def sigmoid(x):
    return 0.5 * (jnp.tanh(x / 2) + 1)


def predict(W, b, inputs):
    return sigmoid(jnp.dot(inputs, W) + b)


inputs = jnp.array(
    [[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]
)
targets = jnp.array([True, True, False, True])


def loss(W, b):
    preds = predict(W, b, inputs)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


key, W_key, b_key = random.split(key, 3)
W = random.normal(W_key, (3,))
b = random.normal(b_key, ())
results["Wg"] = grad(loss, argnums=0)(W, b)
results["Wb"] = grad(loss, (0, 1))(W, b)
results["vg"] = jax.value_and_grad(loss, (0, 1))(W, b)


def loss2(p):
    return loss(p["W"], p["b"])


results["dict"] = grad(loss2)({"W": W, "b": b})
from stax.test_util import check_grads

check_grads(loss, (W, b), order=2)


@partial(jit, static_argnames=["n"])
def power(x, n):
    for _ in range(n):
        x = x * x
    return x


results["power"] = power(1.1, n=3)


@partial(jit, static_argnums=(1,))
def f(x, neg):
    return -x if neg else x


results["static"] = [f(1, True), f(1, False)]
results["weak"] = [
    str((jnp.ones(3, jnp.float32) * 2.0).dtype),
    str(jnp.asarray(3).dtype),
    str(jnp.array([1.0]).dtype),
]
print(x.shape, x.dtype, x.ndim, x.size, x)
results["meth"] = [
    x.mean(),
    x.std(),
    x.argmax(),
    x.reshape(10, 10).T.sum(0),
    x.astype(jnp.int32).max(),
]
results["devs"] = len(x.devices()) if hasattr(x, "devices") else 1
results["add"] = jnp.add(1, 1.0)
results["tree"] = jax.tree.map(
    lambda p, g: p - 0.1 * g, {"W": W, "b": b}, grad(loss2)({"W": W, "b": b})
)
results["tm"] = jax.tree_util.tree_map(lambda *xs: sum(xs), [1, 2], [3, 4])
step = jit(lambda p: jax.tree.map(lambda a, g: a - 0.5 * g, p, grad(loss2)(p)))
p = {"W": W, "b": b}
for i in range(20):
    p = step(p)
results["trained"] = p
results["acc"] = jnp.mean((predict(p["W"], p["b"], inputs) > 0.5) == targets)
x = jnp.linspace(0, 10, 1000)
results["sin"] = (2 * jnp.sin(x) * jnp.cos(x))[::100]
y = jnp.zeros((2, 3)).at[0, 0].set(10)
results["at"] = y
results["lax"] = jax.lax.add(1.0, 1.0)


def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


norm_compiled = jit(norm)
X = jnp.array(np.random.RandomState(1701).rand(1000, 10))
results["norm"] = norm_compiled(X)[:3]
