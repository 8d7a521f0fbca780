"""Tables looked up by traced numbers: embeddings, chains, grids, neighbours."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random

results = {}

# Tables that functions close over, and methods of them with traced arguments.
table = jnp.sin(jnp.arange(24.0)).reshape(6, 4)
edges = jnp.array([-1.0, -0.5, 0.0, 0.25, 0.75])
weights = jnp.cos(jnp.arange(4.0))
ids = jnp.array([[0, 3, 5], [2, 2, 1]])

results["rows"] = jax.jit(lambda i: table[i])(ids)
results["take"] = jax.jit(lambda i: table.take(i, axis=0).sum(-1))(ids)
results["take_columns"] = jax.vmap(lambda i: table.take(i, axis=1))(ids % 4)
results["dot"] = jax.jit(lambda v: table.dot(v))(weights)
results["dot_grad"] = jax.grad(lambda v: table.dot(v).clip(-0.5, v.sum()).sum())(weights)
results["clip"] = jax.jit(lambda lo: table.clip(lo, 0.5))(-0.25)
results["clip_max"] = jax.grad(lambda hi: table.clip(max=hi).sum())(0.3)
results["bins"] = jax.jit(lambda v: edges.searchsorted(v))(table)
results["bins_right"] = jax.jit(lambda v: jnp.searchsorted(edges, v, side="right"))(edges)
results["digitize"] = jax.jit(lambda v: jnp.digitize(v, edges))(table[0])
results["masked_sum"] = jax.jit(lambda t: table.sum(axis=0, where=table > t))(0.1)
results["masked_mean"] = jax.jit(lambda t: table.mean(where=table > t))(0.1)
results["masked_max"] = jax.jit(lambda t: table.max(axis=1, where=table > t, initial=-9.0))(0.1)
results["masked_any"] = jax.vmap(lambda t: table.any(axis=1, where=table > t))(jnp.arange(3.0) / 3)
results["choose"] = jax.jit(lambda k: jnp.choose(k, [table[0], table[1]], mode="clip"))(
    jnp.array([0, 1, 1, 0])
)


# A bigram model: counts by scatter, samples by lookup, perplexity.
text = jnp.array([0, 1, 2, 1, 0, 1, 1, 2, 0, 1, 2, 2, 1, 0])
counts = jnp.zeros((3, 3)).at[text[:-1], text[1:]].add(1.0)
model = (counts + 0.5) / (counts + 0.5).sum(1, keepdims=True)
results["bigram"] = model


def sample(key, first, n):
    def step(carry, key):
        nxt = random.categorical(key, jnp.log(model)[carry])
        return nxt, nxt

    return lax.scan(step, first, random.split(key, n))[1]


results["sampled"] = jax.jit(sample, static_argnums=2)(random.key(3), 0, 12)
results["perplexity"] = jax.jit(lambda t: jnp.exp(-jnp.log(model[t[:-1], t[1:]]).mean()))(text)

# Viterbi over a table of transitions, and the path read back by lookups.
trans = jnp.log(jnp.array([[0.7, 0.3], [0.4, 0.6]]))
emit = jnp.log(jnp.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]))


@jax.jit
def viterbi(observed):
    def step(score, o):
        through = score[:, None] + trans
        return through.max(0) + emit[:, o], through.argmax(0)

    first = jnp.log(jnp.array([0.6, 0.4])) + emit[:, observed[0]]
    last, back = lax.scan(step, first, observed[1:])
    end = last.argmax()

    def follow(state, pointers):
        return pointers[state], state

    first_state, rest = lax.scan(follow, end, back, reverse=True)
    return jnp.concatenate([first_state[None], rest]), last.max()


results["viterbi"] = viterbi(jnp.array([0, 1, 2, 2, 0, 0, 1]))

# A grid world by table lookups: value iteration and the greedy walk.
moves = jnp.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
reward = jnp.zeros((4, 4)).at[3, 3].set(1.0).at[1, 2].set(-1.0)
cells = jnp.stack(jnp.meshgrid(jnp.arange(4), jnp.arange(4), indexing="ij"), -1)


@jax.jit
def iterate(values):
    def update(_, values):
        nxt = (cells[:, :, None] + moves).clip(0, 3)
        reach = reward[nxt[..., 0], nxt[..., 1]] + 0.9 * values[nxt[..., 0], nxt[..., 1]]
        return reach.max(-1)

    return lax.fori_loop(0, 30, update, values)


values = iterate(jnp.zeros((4, 4)))
results["values"] = values


def walk(start):
    def step(at, _):
        nxt = (at + moves).clip(0, 3)
        best = (reward + 0.9 * values)[nxt[:, 0], nxt[:, 1]].argmax()
        return nxt[best], nxt[best]

    return lax.scan(step, start, None, length=6)[1]


results["walks"] = jax.vmap(walk)(jnp.array([[0, 0], [3, 0]]))

# Nearest neighbours of a table, by distances and by hashes.
points = random.normal(random.key(0), (20, 3))


def nearest(q, k=3):
    d = ((points - q) ** 2).sum(-1)
    value, index = lax.top_k(-d, k)
    return index, points.take(index, axis=0).mean(0)


results["knn"] = jax.jit(jax.vmap(nearest))(points[:4] + 0.1)
planes = random.normal(random.key(1), (3, 5))
codes = ((points @ planes > 0) * 2 ** jnp.arange(5)).sum(-1)
results["codes"] = codes
results["bucket"] = jax.jit(
    lambda q: (codes == ((planes.T.dot(q) > 0) * 2 ** jnp.arange(5)).sum()).sum()
)(points[7])
