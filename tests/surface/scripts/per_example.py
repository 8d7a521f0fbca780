"""Per-example gradients by vmap of grad, clipped as in private training; a small MLP."""

import stax as jax
import stax.numpy as jnp
from stax import grad, jit, nn, random, tree_util, vmap

results = {}


def init(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) * jnp.sqrt(2.0 / m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=False)
    ]


def forward(params, x):
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    last = params[-1]
    return x @ last["w"] + last["b"]


def loss(params, x, y):
    logits = forward(params, x)
    return -jnp.sum(nn.log_softmax(logits) * nn.one_hot(y, 3))


params = init(random.key(0), (4, 8, 3))
xkey, ykey = random.split(random.key(1))
X = random.normal(xkey, (10, 4))
Y = random.randint(ykey, (10,), 0, 3)
per_example = jit(vmap(grad(loss), in_axes=(None, 0, 0)))
grads = per_example(params, X, Y)
results["shapes"] = [list(g.shape) for g in tree_util.tree_leaves(grads)]
mean = jax.tree.map(lambda g: g.mean(0), grads)
batch = grad(lambda p: vmap(loss, (None, 0, 0))(p, X, Y).mean())(params)
results["mean"] = mean
results["batch"] = batch
norms = jnp.sqrt(sum(jnp.sum(g.reshape(10, -1) ** 2, 1) for g in jax.tree.leaves(grads)))
results["norms"] = norms
scale = jnp.minimum(1.0, 1.0 / norms)
results["clipped"] = jax.tree.map(lambda g: jnp.einsum("b,b...->...", scale, g) / 10, grads)


@jit
def step(params, x, y):
    value, g = jax.value_and_grad(lambda p: vmap(loss, (None, 0, 0))(p, x, y).mean())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, g), value


history = []
for _ in range(10):
    params, value = step(params, X, Y)
    history.append(value)
results["history"] = jnp.array(history)
results["accuracy"] = jnp.mean(jnp.argmax(forward(params, X), -1) == Y)
