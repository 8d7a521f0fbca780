"""Algorithms with loops: power iteration, k-means, a Kalman filter, Metropolis, line search."""

import stax as jax
import stax.numpy as jnp
from stax import jit, lax, random, vmap

results = {}
A = jnp.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])


@jit
def power_iteration(A, tolerance=1e-10):
    def going(state):
        v, previous, k = state
        return (jnp.linalg.norm(v - previous) > tolerance) & (k < 500)

    def step(state):
        v, _, k = state
        w = A @ v
        return w / jnp.linalg.norm(w), v, k + 1

    v = jnp.ones(A.shape[0]) / jnp.sqrt(A.shape[0])
    v, _, k = lax.while_loop(going, step, (v, jnp.zeros_like(v), 0))
    return v @ A @ v, k


results["power"] = power_iteration(A)
points = jnp.concatenate(
    [random.normal(k, (8, 2)) * 0.3 + jnp.array(c) for k, c in zip(
        random.split(random.key(0), 3), [(0.0, 0.0), (3.0, 0.0), (0.0, 3.0)], strict=True)]
)  # fmt: skip


def k_means(points, centres, steps):
    def step(centres, _):
        distances = jnp.sum((points[:, None] - centres[None]) ** 2, -1)
        nearest = jnp.argmin(distances, 1)
        totals = jax.ops.segment_sum(points, nearest, num_segments=3)
        counts = jax.ops.segment_sum(jnp.ones(len(points)), nearest, num_segments=3)
        return totals / jnp.maximum(counts, 1)[:, None], distances.min(1).sum()

    return lax.scan(step, centres, None, length=steps)


results["k_means"] = jit(k_means, static_argnums=2)(points, points[::8], 4)


def kalman(measurements, q, r):
    F = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    H = jnp.array([[1.0, 0.0]])

    def step(carry, z):
        x, P = carry
        x, P = F @ x, F @ P @ F.T + q * jnp.eye(2)
        S = H @ P @ H.T + r
        K = jnp.linalg.solve(S, H @ P).T
        innovation = z - H @ x
        x = x + K @ innovation
        P = (jnp.eye(2) - K @ H) @ P
        likelihood = -0.5 * (innovation**2 / S[0, 0] + jnp.log(2 * jnp.pi * S[0, 0]))[0]
        return (x, P), (x, likelihood)

    _, (xs, likelihoods) = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measurements)
    return likelihoods.sum(), xs


track = jnp.arange(10.0)[:, None] + 0.1 * random.normal(random.key(1), (10, 1))
results["kalman"] = jit(kalman)(track, 0.01, 0.1)
results["kalman_grad"] = jax.grad(lambda q, r: kalman(track, q, r)[0], (0, 1))(0.01, 0.1)


def metropolis(key, log_prob, start, steps, width):
    def step(state, key):
        x, value = state
        propose, accept = random.split(key)
        y = x + width * random.normal(propose, x.shape)
        new = log_prob(y)
        take = jnp.log(random.uniform(accept)) < new - value
        state = jax.tree.map(lambda a, b: jnp.where(take, a, b), (y, new), (x, value))
        return state, (state[0], take)

    return lax.scan(step, (start, log_prob(start)), random.split(key, steps))[1]


chain, taken = jit(metropolis, static_argnums=(1, 3))(
    random.key(2), lambda x: -0.5 * jnp.sum(x**2), jnp.ones(2), 50, 0.8
)
results["metropolis"] = (chain[::10], taken.mean())
several = vmap(lambda k: metropolis(k, lambda x: -jnp.sum(x**4), jnp.zeros(1), 20, 0.5)[0])
results["chains"] = several(random.split(random.key(3), 4))[:, -1]


def backtracking(f, x, slope=0.3):
    value, grad = jax.value_and_grad(f)(x)

    def going(t):
        return f(x - t * grad) > value - slope * t * jnp.vdot(grad, grad)

    return x - lax.while_loop(going, lambda t: t * 0.5, 1.0) * grad


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


x = jnp.array([-1.0, 1.0])
for _ in range(20):
    x = jit(backtracking, static_argnums=0)(rosenbrock, x)
results["descent"] = (x, rosenbrock(x))


def bisect(f, low, high):
    def step(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        left = jnp.sign(f(middle)) == jnp.sign(f(low))
        return jnp.where(left, middle, low), jnp.where(left, high, middle)

    return sum(lax.fori_loop(0, 40, step, (low, high))) / 2


results["bisect"] = bisect(lambda t: jnp.cos(t) - t, 0.0, 1.0)


def edit_distance(a, b):
    def row(previous, char):
        def cell(left, above):
            diagonal, up, other = above
            best = jnp.minimum(jnp.minimum(left + 1, up + 1), diagonal + (char != other))
            return best, best

        first = previous[0] + 1
        _, rest = lax.scan(cell, first, (previous[:-1], previous[1:], b))
        return jnp.concatenate([first[None], rest]), None

    return lax.scan(row, jnp.arange(len(b) + 1), a)[0][-1]


results["edits"] = edit_distance(jnp.array([1, 2, 3, 4]), jnp.array([1, 3, 4, 4, 5]))


def life(board, steps):
    def step(_, board):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        count = sum(jnp.roll(board, s, (0, 1)) for s in shifts)
        return ((count == 3) | ((board == 1) & (count == 2))).astype(board.dtype)

    return lax.fori_loop(0, steps, step, board)


glider = (
    jnp.zeros((6, 6), jnp.int32).at[jnp.array([0, 1, 2, 2, 2]), jnp.array([1, 2, 0, 1, 2])].set(1)
)
results["life"] = jit(life, static_argnums=1)(glider, 5)
sieve = jnp.ones(30, bool).at[:2].set(False)
for p in (2, 3, 5):
    sieve = sieve.at[p * p :: p].set(False)
results["primes"] = jnp.nonzero(sieve)[0]
table = (
    jnp.zeros((3, 3)).at[jnp.array([0, 1, 1]), jnp.array([2, 0, 0])].add(jnp.array([1.0, 2.0, 3.0]))
)
results["scatter"] = table
order = jnp.argsort(points[:, 0])
results["sorted"] = points[order][:3]
results["bins"] = jnp.digitize(points[:5, 0], jnp.linspace(-1, 4, 6))
results["cumulative"] = lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (
    jnp.array([0.5, 0.25, 2.0]), jnp.array([1.0, 2.0, 3.0])))  # fmt: skip
