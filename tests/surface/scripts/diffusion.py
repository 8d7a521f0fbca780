"""Implicit time steps, square roots of matrices, linear systems driven by noise, kernels."""

import stax as jax
import stax.numpy as jnp
import stax.scipy as jsp
import numpy as np
from stax import lax

results = {}

# Implicit steps of the heat equation: a tridiagonal system in every step of a scan.
n, dt = 24, 2e-3
grid = jnp.linspace(0.0, 1.0, n)
h = grid[1] - grid[0]


def implicit_step(u, kappa):
    k = jnp.concatenate([kappa[:1], kappa])
    low = (-dt / h**2 * k[:-1]).at[0].set(0.0)
    high = (-dt / h**2 * k[1:]).at[-1].set(0.0)
    diag = 1.0 - low - high
    return lax.linalg.tridiagonal_solve(low, diag, high, u[:, None])[:, 0]


def heat(kappa, u0, steps=15):
    return lax.scan(lambda u, _: (implicit_step(u, kappa), u.sum()), u0, None, length=steps)


u0 = jnp.exp(-60 * (grid - 0.4) ** 2)
kappa = 1.0 + 0.5 * jnp.sin(6 * grid)
final, masses = jax.jit(heat)(kappa, u0)
results["heat"] = final
results["mass"] = masses
results["conductivity_grad"] = jax.jit(jax.grad(lambda k: (heat(k, u0)[0] ** 2).sum()))(kappa)
results["many"] = jax.vmap(lambda s: heat(kappa * s, u0)[0][::6])(jnp.array([0.5, 1.0, 2.0]))
results["tangent"] = jax.jvp(lambda k: heat(k, u0)[0], (kappa,), (jnp.ones(n),))[1][::5]

# Square roots: the distance of Gaussians, whitening, a matrix geometric mean.
a = jnp.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
b = jnp.array([[1.0, -0.4, 0.2], [-0.4, 2.5, 0.3], [0.2, 0.3, 1.7]])
root = lambda m: jnp.real(jsp.linalg.sqrtm(m))
results["sqrtm"] = jax.jit(root)(a)
results["sqrtm_squared"] = jax.jit(lambda m: root(m) @ root(m))(b)


@jax.jit
def wasserstein(a, b):
    r = root(a)
    return jnp.trace(a + b - 2 * root(r @ b @ r))


results["wasserstein"] = wasserstein(a, b)


@jax.jit
def geometric_mean(a, b):
    r = root(a)
    ri = jnp.linalg.inv(r)
    return r @ root(ri @ b @ ri) @ r


results["mean"] = geometric_mean(a, b)


def symmetric_root(m):
    w, v = jnp.linalg.eigh(m)
    return (v * jnp.sqrt(w)) @ v.T


results["root_grad"] = jax.grad(lambda m: symmetric_root(m + m.T).sum())(a)

# A linear system driven by noise: exponentials, polar factors, Lyapunov's equation as a linear solve.
drift = jnp.array([[-1.0, 0.5, 0.0], [0.0, -2.0, 0.3], [0.2, 0.0, -0.7]])
noise = jnp.diag(jnp.array([0.5, 1.0, 0.2]))


@jax.jit
def stationary(drift):
    eye = jnp.eye(3)
    system = jnp.kron(drift, eye) + jnp.kron(eye, drift)
    return jnp.linalg.solve(system, -noise.reshape(-1)).reshape(3, 3)


results["lyapunov"] = stationary(drift)
results["lyapunov_grad"] = jax.grad(lambda d: jnp.linalg.slogdet(stationary(d))[1])(drift)
results["expm"] = jax.jit(jsp.linalg.expm)(drift * 0.7)
results["expm_path"] = jax.vmap(lambda t: jsp.linalg.expm(drift * t) @ jnp.ones(3))(jnp.arange(4.0))
results["expm_grad"] = jax.grad(lambda t: jsp.linalg.expm(drift * t).sum())(0.5)
u, p = jax.jit(jsp.linalg.polar)(drift)
results["polar"] = [u, p]
t, z = jax.jit(jsp.linalg.schur)(a)
results["schur"] = jnp.sort(jnp.diag(t))
results["schur_back"] = z @ t @ z.T

# Kernels: Cholesky updates of one row at a time, log-likelihoods.
points = jnp.linspace(0.0, 2.0, 8)
kernel = jnp.exp(-((points[:, None] - points) ** 2)) + 0.05 * jnp.eye(8)
y = jnp.sin(3 * points)


@jax.jit
def loglik(kernel):
    c = jsp.linalg.cho_factor(kernel, lower=True)
    return -0.5 * y @ jsp.linalg.cho_solve(c, y) - jnp.log(jnp.diag(c[0])).sum()


results["loglik"] = loglik(kernel)
results["loglik_grad"] = jnp.diag(jax.grad(loglik)(kernel))
upper = jnp.linalg.cholesky(kernel).T
results["updated"] = jnp.triu(lax.linalg.cholesky_update(upper, y))
results["gram"] = lax.linalg.symmetric_product(
    jnp.outer(y, points), kernel, alpha=0.5, beta=2.0, symmetrize_output=True
)
