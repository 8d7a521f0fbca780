"""Simulations: life, Mandelbrot, Lorenz, heat, waves, n-body, Ising, ray marching."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, jit, grad, vmap
from functools import partial

results = {}
key = random.PRNGKey(3)


@jit
def life(b):
    n = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | (b & (n == 2))).astype(b.dtype)


b = random.bernoulli(key, 0.4, (8, 8)).astype(jnp.int32)
results["life"] = lax.fori_loop(0, 5, lambda i, b: life(b), b)


def mandel(c, n=30):
    def body(i, s):
        z, k = s
        z = jnp.where(jnp.abs(z) <= 2, z * z + c, z)
        return z, k + (jnp.abs(z) <= 2)

    return lax.fori_loop(0, n, body, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]


x, y = jnp.meshgrid(jnp.linspace(-2, 1, 7), jnp.linspace(-1, 1, 5))
results["mandel"] = jit(mandel)(x + 1j * y)


def lorenz(s, t=0, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = s
    return jnp.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


@partial(jit, static_argnums=(0, 2))
def rk4(f, s, n, dt):
    def step(s, _):
        k1 = f(s)
        k2 = f(s + dt / 2 * k1)
        k3 = f(s + dt / 2 * k2)
        k4 = f(s + dt * k3)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return s, s

    return lax.scan(step, s, None, length=n)


results["lorenz"] = rk4(lorenz, jnp.ones(3), 50, 0.01)[1][::10]
results["lyap"] = jax.jacfwd(lambda s: rk4(lorenz, s, 20, 0.01)[0])(jnp.ones(3))


def heat(u, _):
    return u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])), u.sum()


results["heat"] = lax.scan(heat, jnp.zeros(20).at[10].set(1.0), None, length=30)
results["ginv"] = grad(lambda u0: jnp.sum((lax.scan(heat, u0, None, length=10)[0] - 0.1) ** 2))(
    jnp.zeros(20).at[10].set(1.0)
)


def wave(s, _):
    u, v = s
    lap = sum(jnp.roll(u, d, a) for d in (1, -1) for a in (0, 1)) - 4 * u
    v = v + 0.1 * lap
    return (u + 0.1 * v, v), None


r = jnp.linspace(-1, 1, 9)
u0 = jnp.exp(-10 * (r[:, None] ** 2 + r[None] ** 2))
results["wave"] = lax.scan(wave, (u0, jnp.zeros_like(u0)), None, length=12)[0][0]
pos = random.normal(key, (5, 3))
m = jnp.arange(1.0, 6.0)


def energy(q):
    d = q[:, None] - q[None]
    r = jnp.sqrt((d**2).sum(-1) + 0.01)
    i, j = jnp.triu_indices(5, 1)
    return -jnp.sum(m[i] * m[j] / r[i, j])


def leap(s, _):
    q, p = s
    p = p - 0.005 * grad(energy)(q)
    q = q + 0.01 * p / m[:, None]
    p = p - 0.005 * grad(energy)(q)
    return (q, p), energy(q) + 0.5 * jnp.sum(p**2 / m[:, None])


results["nbody"] = jit(lambda q: lax.scan(leap, (q, jnp.zeros_like(q)), None, length=10))(pos)


def ising(s, k):
    k1, k2 = random.split(k)
    par = jnp.indices(s.shape).sum(0) % 2
    for c in (0, 1):
        nb = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
        p = jax.nn.sigmoid(0.8 * nb)
        s = jnp.where(
            par == c, jnp.where(random.uniform(random.fold_in(k1, c), s.shape) < p, 1, -1), s
        )
    return s, s.mean()


results["ising"] = lax.scan(ising, jnp.ones((6, 6), int), random.split(key, 8))[1]
sdf = lambda p: jnp.minimum(jnp.linalg.norm(p - jnp.array([0.0, 0, 3])) - 1.0, p[1] + 1.0)


def march(d):
    t = lax.fori_loop(0, 40, lambda i, t: t + sdf(t * d), 0.0)
    n = grad(sdf)(t * d)
    return jnp.where(t < 10, jnp.clip(n @ jnp.array([0.6, 0.7, -0.4]), 0, 1), 0.0)


dirs = vmap(lambda v: v / jnp.linalg.norm(v))(
    jnp.stack(
        [a.ravel() for a in jnp.meshgrid(jnp.linspace(-0.5, 0.5, 5), jnp.linspace(-0.5, 0.5, 4))]
        + [jnp.ones(20)],
        1,
    )
)
results["ray"] = jit(vmap(march))(dirs)
pend = lambda s, t, L: jnp.array([s[1], -9.8 / L * jnp.sin(s[0])])


def euler(L):
    return lax.scan(
        lambda s, t: (s + 0.02 * pend(s, t, L), s[0]), jnp.array([0.5, 0.0]), jnp.arange(25)
    )[0][0]


results["pend"] = [euler(1.0), grad(euler)(1.0), jax.hessian(euler)(1.0)]
lag = lambda q, v: 0.5 * v @ v - 9.8 * (1 - jnp.cos(q)).sum()


def acc(q, v):
    return jnp.linalg.solve(
        jax.hessian(lag, 1)(q, v), grad(lag, 0)(q, v) - jax.jacfwd(grad(lag, 1), 0)(q, v) @ v
    )


results["lagr"] = acc(jnp.array([0.3, 0.7]), jnp.array([0.1, -0.2]))
results["walk"] = jnp.cumsum(random.choice(key, jnp.array([-1, 1]), (12,)))


def sde(x, k):
    return x - 0.1 * x + jnp.sqrt(0.1) * random.normal(k), x


results["ou"] = lax.scan(sde, 1.0, random.split(key, 6))[1]


def brownian_bridge(k):
    return jnp.cumsum(random.normal(k, (5,))) - jnp.linspace(0, 1, 5) * random.normal(k)


results["bb"] = vmap(brownian_bridge)(random.split(key, 2))
