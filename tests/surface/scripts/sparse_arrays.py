"""Sparse arrays: products, sums, derivatives."""

import stax as jax
import stax.numpy as jnp
from stax.experimental import sparse
from stax.experimental.sparse import BCOO

results = {}

dense = jnp.array([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 4.0, 0.0]])
m = BCOO.fromdense(dense)
v, w = jnp.arange(4.0) + 1, jnp.arange(3.0) + 1
results["parts"] = [m.data, m.indices, m.nse, m.shape, m.n_sparse, m.n_dense, str(m)]
roomy = BCOO.fromdense(dense, nse=6)
results["roomy"] = [roomy.data, roomy.indices, roomy @ v, roomy.todense(), roomy.sum()]
results["products"] = [m @ v, w @ m, m @ jnp.ones((4, 2)), jnp.ones((2, 3)) @ m, m.T @ w]
results["sparse product"] = (m @ m.T).todense()
results["jit"] = jax.jit(lambda m, v: m @ v)(m, v)
results["vmap"] = jax.vmap(lambda v: m @ v)(jnp.stack([v, -v]))
results["vmap of sparse"] = jax.vmap(lambda d, v: BCOO((d, m.indices), shape=m.shape) @ v)(
    jnp.stack([m.data, 2 * m.data]), jnp.stack([v, v])
)
results["arithmetic"] = [
    a.todense() for a in (m * 2, 2 * m, -m, m / 2, m + m, m - 3 * m, m * dense, m * m, abs(-m))
]
results["sums"] = [m.sum(), m.sum(0).todense(), m.sum(axis=1).todense()]
twice = (m + m).sum_duplicates()
results["duplicates"] = [twice.data, twice.indices]
room = jax.jit(lambda m: (m + m).sum_duplicates(nse=6))(m)
results["duplicates in room"] = [room.data, room.indices]
mixed = BCOO((jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([[2], [0], [2], [7]])), shape=(3,))
results["outside"] = [mixed.todense(), mixed.sum_duplicates().data, mixed.sort_indices().indices]
results["shapes"] = [m.reshape(4, 3).todense(), m[0].todense(), m[:, 1:3].todense(), m.T.shape]
blocks = BCOO.fromdense(dense, n_dense=1)
results["dense axis"] = [blocks.data, blocks.indices, blocks.todense(), blocks.sum(0).todense()]
results["dot"] = sparse.bcoo_dot_general(
    m, jnp.ones((4, 2)), dimension_numbers=(([1], [0]), ([], []))
)
results["extract"] = sparse.bcoo_extract(m, dense + 1).data
results["eye"] = [sparse.eye(3).todense(), sparse.empty((2, 3)).todense()]


def loss(m, v):
    return jnp.sum((m @ v) ** 2)


slope = sparse.grad(loss)(m, v)
results["grad"] = [slope.data, slope.todense(), jax.grad(loss, 1)(m, v)]
value, slopes = sparse.value_and_grad(loss, argnums=(0, 1))(m, v)
results["value and grad"] = [value, slopes[0].data, slopes[1]]
results["jit grad"] = jax.jit(lambda m, v: sparse.grad(loss)(m, v).data)(m, v)
results["hessian"] = jax.hessian(lambda d: loss(BCOO((d, m.indices), shape=m.shape), v))(m.data)
results["from dense grad"] = jax.grad(lambda x: loss(BCOO.fromdense(x, nse=4), v))(dense)


@jax.jit
def power(m):
    def step(v, _):
        v = m @ (m.T @ v)
        return v / jnp.linalg.norm(v), None

    return jax.lax.scan(step, jnp.ones(3) / 2, None, length=20)[0]


results["scan"] = power(m)
results["leaves"] = len(jax.tree.leaves(m))
