"""Scientific programs: a Gaussian process, HMC, Newton's method, an ODE, implicit layers."""

import stax as jax
import stax.numpy as jnp
import stax.scipy as jsp
import stax.scipy.linalg
from stax import grad, hessian, jit, lax, random, vmap
from stax.experimental.ode import odeint
from stax.scipy.special import gammaln, logsumexp
from stax.scipy.stats import norm

results = {}
x = jnp.linspace(0.0, 3.0, 12)
y = jnp.sin(2 * x)


def kernel(params, a, b):
    return jnp.exp(params["var"]) * jnp.exp(-0.5 * ((a - b) / jnp.exp(params["len"])) ** 2)


def gram(params, a, b):
    return vmap(lambda u: vmap(lambda v: kernel(params, u, v))(b))(a)


def negative_log_marginal(params):
    K = gram(params, x, x) + (jnp.exp(params["noise"]) + 1e-6) * jnp.eye(len(x))
    L = jnp.linalg.cholesky(K)
    alpha = jsp.linalg.cho_solve((L, True), y)
    return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diag(L))) + 0.5 * len(x) * jnp.log(2 * jnp.pi)


params = {"var": 0.0, "len": -0.5, "noise": -3.0}
params = jax.tree.map(jnp.asarray, params)
results["nlml"] = jit(jax.value_and_grad(negative_log_marginal))(params)


def log_prob(q):
    return jnp.sum(norm.logpdf(q, loc=1.0, scale=2.0)) - 0.1 * jnp.sum(q**4)


@jit
def leapfrog(q, p, eps=0.05):
    def step(carry, _):
        q, p = carry
        p = p + 0.5 * eps * grad(log_prob)(q)
        q = q + eps * p
        p = p + 0.5 * eps * grad(log_prob)(q)
        return (q, p), log_prob(q)

    return lax.scan(step, (q, p), None, length=10)


results["hmc"] = leapfrog(jnp.array([0.5, -0.5]), random.normal(random.key(0), (2,)))


def rosenbrock(v):
    return jnp.sum(100.0 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2)


v = jnp.array([-1.2, 1.0, 0.5])
for _ in range(3):
    v = v - jnp.linalg.solve(hessian(rosenbrock)(v), grad(rosenbrock)(v))
results["newton"] = v


def pendulum(state, t, g):
    theta, omega = state
    return jnp.array([omega, -g * jnp.sin(theta)])


t = jnp.linspace(0.0, 1.0, 5)
results["ode"] = odeint(pendulum, jnp.array([0.5, 0.0]), t, 9.8)
results["ode_grad"] = grad(lambda g: odeint(pendulum, jnp.array([0.5, 0.0]), t, g)[-1, 0])(9.8)
A = jnp.array([[4.0, 1.0], [1.0, 3.0]])
b = jnp.array([1.0, 2.0])
results["implicit"] = jax.jacobian(
    lambda b: lax.custom_linear_solve(
        lambda u: A @ u, b, lambda mv, r: jnp.linalg.solve(A, r), symmetric=True
    )
)(b)
results["special"] = [gammaln(4.5), logsumexp(jnp.arange(3.0)), jsp.special.erf(0.5)]
results["expm"] = jsp.linalg.expm(A / 4)
results["eigh"] = jnp.linalg.eigh(A)[0]
results["det"] = grad(lambda M: jnp.linalg.slogdet(M)[1])(A)
results["svd"] = jnp.linalg.svd(A, compute_uv=False)
results["fft"] = jnp.abs(jnp.fft.rfft(y))
results["interp"] = jnp.interp(jnp.array([0.1, 2.2]), x, y)
results["polyfit"] = jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x)[:3]
