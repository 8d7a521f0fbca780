"""Keys as arrays of their own dtype: indexed, stacked, carried by loops, kept in trees."""

import stax as jax
import stax.numpy as jnp
from stax import lax, random

results = {}

key = random.key(42)
results["one key"] = [str(key.dtype), key.shape, key.ndim, key.size]
results["kinds"] = [
    bool(jnp.issubdtype(key.dtype, jax.dtypes.prng_key)),
    bool(jnp.issubdtype(random.PRNGKey(0).dtype, jax.dtypes.prng_key)),
    isinstance(key, jax.Array),
    str(random.key_impl(key)),
]
keys = random.split(key, (2, 3))
results["split"] = random.key_data(keys)
results["moved"] = random.key_data(jnp.concatenate([keys.T[0], keys[1, ::-1].reshape(3)]))
results["wrapped"] = random.normal(random.wrap_key_data(random.key_data(keys))[1, 2], (3,))
results["fold"] = random.key_data(random.fold_in(keys[0, 0], 7))
results["equal"] = keys == keys.at[0, 1].set(key)
results["same numbers"] = random.uniform(random.PRNGKey(42), (3,)) - random.uniform(key, (3,))

flat = keys.ravel()
results["vmap"] = jax.vmap(lambda k, x: x * random.normal(k, (2,)))(flat, jnp.arange(6.0))
results["last axis"] = jax.vmap(jax.vmap(random.uniform), in_axes=-1)(keys)
results["map"] = lax.map(random.exponential, flat)


@jax.jit
def walk(key, n):
    def step(carry, _):
        key, x = carry
        key, sub = random.split(key)
        x = x + random.normal(sub)
        return (key, x), x

    (key, x), path = lax.scan(step, (key, 0.0), None, length=4)
    return random.key_data(lax.fori_loop(0, n, _fold, key)), path


def _fold(i, key):
    return random.fold_in(key, i)


results["loops"] = walk(key, 3)


@jax.jit
def chosen(keys, i, flip):
    k = jnp.where(flip, keys[i], lax.dynamic_index_in_dim(keys, i + 1, keepdims=False))
    return lax.cond(flip, lambda k: random.normal(k), lambda k: random.uniform(k), k)


results["chosen"] = [chosen(flat, 1, True), chosen(flat, 1, False)]

params = {"w": jnp.ones((2, 2)), "b": (jnp.zeros(2),)}
structure = jax.tree.structure(params)
tree = jax.tree.unflatten(structure, list(random.split(key, structure.num_leaves)))
results["tree"] = jax.tree.map(lambda k, p: p + random.normal(k, p.shape), tree, params)
results["leaves"] = [len(jax.tree.leaves(tree)), str(jax.tree.leaves(tree)[0].dtype)]


def loss(w, key):
    return jnp.sum(w**2 * random.bernoulli(key, 0.5, w.shape))


results["grad"] = jax.grad(jax.checkpoint(loss))(jnp.arange(6.0), key)
results["grads"] = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(jnp.arange(3.0), flat)

state = jnp.array([1, 2, 3, 4], dtype=jnp.uint32)
for name in ("RNG_DEFAULT", "RNG_THREE_FRY"):
    for dtype in (jnp.uint8, jnp.uint32, jnp.uint64):
        draw = jax.jit(
            lambda s, a=name, d=dtype: lax.rng_bit_generator(s, (3, 3), d, lax.RandomAlgorithm[a])
        )
        results[f"bits {name} {jnp.dtype(dtype)}"] = draw(state)
