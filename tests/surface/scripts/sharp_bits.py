"""Where array programs surprise: pure functions, updates, keys, NaNs, dtypes, shapes."""

import numpy as np

import stax as jax
import stax.numpy as jnp
from stax import grad, jit, lax, random

jax.config.update("jax_enable_x64", True)
results = {}
x = jnp.zeros((3, 3), dtype=jnp.float32)
updated = x.at[1, :].set(1.0)
results["set"] = updated
results["add"] = jnp.ones((5, 6)).at[::2, 3:].add(7.0)
results["many"] = jnp.zeros(3).at[jnp.array([0, 0, 2])].add(1.0)
results["mul"] = jnp.arange(4.0).at[1:].multiply(2).at[0].max(5.0).at[-1].divide(3.0)
results["get"] = jnp.arange(10.0).at[jnp.array([3, 11])].get(mode="fill", fill_value=-1.0)
results["apply"] = jnp.arange(4.0).at[2].apply(jnp.sin)
results["drop"] = jnp.arange(4.0).at[9].set(1.0, mode="drop")
results["reduce"] = lax.fori_loop(0, 10, lambda i, x: x + jnp.arange(10)[i], 0)
key = random.PRNGKey(43)
results["normal"] = random.normal(key, shape=(3,))
results["same"] = random.normal(key, shape=(3,)) == random.normal(key, shape=(3,))
key, subkey = random.split(key)
results["split"] = random.normal(subkey, shape=(1,))
key, *subkeys = random.split(key, 4)
results["subkeys"] = jnp.stack([random.uniform(k) for k in subkeys])
results["f64"] = str(random.uniform(random.key(0), (2,), dtype=jnp.float64).dtype)
results["f32"] = random.uniform(random.key(0), (2,), dtype=jnp.float32)


def f(x):
    return jnp.where(x < 3, 3 * x**2, -4 * x)


results["where"] = grad(f)(2.0)
results["double_where"] = grad(lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0))(
    0.0
)
results["sum_list"] = jnp.sum(jnp.array([1.0, 2.0]))
counter = []


@jit
def impure(x):
    counter.append(1)
    return x + 1


impure(4.0), impure(5.0)
results["traces"] = len(counter)
impure(jnp.array([5.0]))
results["retraces"] = len(counter)


@jit
def shapes(x):
    return x.reshape(np.prod(x.shape))


results["static_shape"] = shapes(jnp.ones((2, 3)))
results["dtype"] = (jnp.arange(3, dtype=jnp.int32) + 1.5).sum()
results["weak"] = str((jnp.float32(1) * 2.0).dtype)
results["int_weak"] = str((jnp.arange(3, dtype=jnp.int8) + 1).dtype)
results["convolve"] = jnp.convolve(jnp.ones(3), jnp.array([1.0, 2.0]))
results["conv"] = lax.conv(jnp.ones((1, 1, 5, 5)), jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")
results["size"] = jit(lambda a: jnp.nonzero(a, size=2)[0])(jnp.array([0, 3, 0, 4]))
results["unique"] = jnp.unique(jnp.array([3, 1, 3]), size=2)
results["dynamic"] = lax.dynamic_slice(jnp.arange(10), (3,), (4,))
results["update"] = lax.dynamic_update_slice(jnp.arange(5.0), jnp.ones(2), (4,))
results["stats"] = [jnp.var(jnp.arange(5.0)), jnp.median(jnp.arange(4.0)), jnp.std(jnp.arange(3.0))]
results["clip"] = jnp.clip(jnp.arange(5), 1, 3)
results["asarray"] = jnp.asarray([1, 2.5]).astype(jnp.int32)
