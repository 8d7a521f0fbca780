"""Optimisation by hand: Newton, quasi-Newton, Gauss-Newton, ADMM, projections, duals."""

import stax as jax
import stax.numpy as jnp
from stax import lax, jit, grad, vmap, hessian, jacfwd, jacrev, random
from stax.flatten_util import ravel_pytree
from functools import partial

results = {}
rosen = lambda x: jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@partial(jit, static_argnums=0)
def newton(f, x):
    def cond(s):
        return (jnp.linalg.norm(grad(f)(s[0])) > 1e-8) & (s[1] < 50)

    return lax.while_loop(
        cond, lambda s: (s[0] - jnp.linalg.solve(hessian(f)(s[0]), grad(f)(s[0])), s[1] + 1), (x, 0)
    )


results["newton"] = newton(rosen, jnp.array([0.8, 0.6]))


def backtrack(f, x, d, a=1.0):
    return lax.while_loop(
        lambda a: f(x + a * d) > f(x) + 1e-4 * a * grad(f)(x) @ d, lambda a: a * 0.5, a
    )


def gd(x, _):
    g = grad(rosen)(x)
    a = backtrack(rosen, x, -g)
    return x - a * g, a


results["gd"] = lax.scan(gd, jnp.array([-1.0, 1.0]), None, length=20)


def bfgs_step(s, _):
    x, H = s
    g = grad(rosen)(x)
    d = -H @ g
    a = backtrack(rosen, x, d)
    xn = x + a * d
    sv = xn - x
    yv = grad(rosen)(xn) - g
    r = 1 / (yv @ sv)
    I = jnp.eye(2)
    Hn = (I - r * jnp.outer(sv, yv)) @ H @ (I - r * jnp.outer(yv, sv)) + r * jnp.outer(sv, sv)
    return (xn, jnp.where(yv @ sv > 1e-12, Hn, H)), rosen(xn)


results["bfgs"] = jit(lambda x: lax.scan(bfgs_step, (x, jnp.eye(2)), None, length=15))(
    jnp.array([-1.0, 1.0])
)[0][0]


def two_loop(S, Y, g):
    rho = 1 / jnp.sum(S * Y, 1)

    def f(q, i):
        a = rho[i] * S[i] @ q
        return q - a * Y[i], a

    q, al = lax.scan(f, g, jnp.arange(len(S))[::-1])
    q = q * (S[-1] @ Y[-1]) / (Y[-1] @ Y[-1])
    return lax.fori_loop(
        0, len(S), lambda i, q: q + S[i] * (al[len(S) - 1 - i] - rho[i] * Y[i] @ q), q
    )


results["lbfgs"] = jit(two_loop)(
    jnp.eye(3)[:2] + 0.1, 2 * jnp.eye(3)[:2] + 0.3, jnp.arange(1.0, 4.0)
)
t = jnp.linspace(0, 1, 12)
yd = 2 * jnp.exp(-3 * t)
res = lambda p: p[0] * jnp.exp(-p[1] * t) - yd


def gn(p, lam):
    J, r = jacfwd(res)(p), res(p)
    A = J.T @ J
    return p - jnp.linalg.solve(A + lam * jnp.diag(jnp.diag(A)), J.T @ r), jnp.sum(r**2)


results["lm"] = lax.scan(gn, jnp.array([1.0, 1.0]), 0.1 ** jnp.arange(8.0))
A = random.normal(random.key(0), (10, 6))
b = A @ jnp.array([1.0, 0, 0, -2.0, 0, 0])
soft = lambda x, k: jnp.sign(x) * jnp.maximum(jnp.abs(x) - k, 0)


def ista(x, _):
    return soft(x - 0.03 * A.T @ (A @ x - b), 0.03 * 0.1), None


results["ista"] = lax.scan(ista, jnp.zeros(6), None, length=100)[0]
L = jnp.linalg.cholesky(A.T @ A + jnp.eye(6))


def admm(s, _):
    x, z, u = s
    x = jax.scipy.linalg.cho_solve((L, True), A.T @ b + z - u)
    z = soft(x + u, 0.1)
    return (x, z, u + x - z), None


results["admm"] = jit(lambda: lax.scan(admm, (jnp.zeros(6),) * 3, None, length=50)[0][1])()
proj = lambda v: (
    lambda u: jnp.maximum(
        v
        - ((jnp.cumsum(u) - 1) / jnp.arange(1, len(u) + 1))[
            jnp.sum(u - (jnp.cumsum(u) - 1) / jnp.arange(1, len(u) + 1) > 0) - 1
        ],
        0,
    )
)(jnp.sort(v)[::-1])
results["simplex"] = [
    jit(proj)(jnp.array([0.5, 1.2, -0.3])),
    jacrev(proj)(jnp.array([0.5, 1.2, -0.3])),
]


def cg(Ax, b, n):
    def it(s, _):
        x, r, p = s
        Ap = Ax(p)
        a = r @ r / (p @ Ap)
        x = x + a * p
        rn = r - a * Ap
        return (x, rn, rn + (rn @ rn) / (r @ r) * p), jnp.linalg.norm(rn)

    return lax.scan(it, (jnp.zeros_like(b), b, b), None, length=n)


results["cg"] = cg(lambda v: A.T @ (A @ v) + v, A.T @ b, 5)
hvp = lambda f, x, v: jax.jvp(grad(f), (x,), (v,))[1]
results["ncg"] = cg(lambda v: hvp(rosen, jnp.ones(2), v), jnp.ones(2), 2)[0][0]


def dual(lam):
    return -0.5 * jnp.sum((jnp.ones(3) * lam) ** 2) + lam


results["dual"] = lax.fori_loop(0, 50, lambda i, l: jnp.maximum(l + 0.1 * grad(dual)(l), 0), 0.0)


def frank(x, k):
    g = A.T @ (A @ x - b)
    s = -5.0 * jnp.sign(g) * (jnp.arange(6) == jnp.argmax(jnp.abs(g)))
    return x + 2 / (k + 2) * (s - x), None


results["fw"] = lax.scan(frank, jnp.zeros(6), jnp.arange(40))[0]
ridge = lambda lam: jnp.linalg.solve(A.T @ A + lam * jnp.eye(6), A.T @ b)
results["hyper"] = [grad(lambda l: jnp.sum((A @ ridge(l) - b) ** 2))(0.5), jacfwd(ridge)(0.5)]
unroll = lambda lr: rosen(
    lax.fori_loop(0, 10, lambda i, x: x - lr * grad(rosen)(x), jnp.array([0.5, 0.5]))
)
results["meta"] = [grad(unroll)(1e-3), jit(jax.value_and_grad(unroll))(1e-3)]
golden = lambda f, a, b: lax.fori_loop(
    0,
    40,
    lambda i, s: (lambda c, d: lax.cond(f(c) < f(d), lambda: (s[0], d), lambda: (c, s[1])))(
        s[1] - 0.618 * (s[1] - s[0]), s[0] + 0.618 * (s[1] - s[0])
    ),
    (a, b),
)
results["golden"] = golden(lambda x: (x - 0.3) ** 2, 0.0, 1.0)


def power_it(M, n=60):
    v = lax.fori_loop(
        0, n, lambda i, v: (lambda w: w / jnp.linalg.norm(w))(M @ v), jnp.ones(len(M))
    )
    return v @ M @ v


results["power"] = grad(power_it)(A.T @ A) @ jnp.ones(6)
results["lanczos"] = jnp.linalg.eigvalsh(A.T @ A)[-2:]
sd = vmap(
    lambda x0: lax.fori_loop(0, 30, lambda i, x: x - 0.1 * grad(lambda x: (x**2 - 1) ** 2)(x), x0)
)(jnp.linspace(-2, 2, 5))
results["multi"] = sd
flat, un = ravel_pytree({"a": jnp.ones(2), "b": {"c": jnp.zeros((2, 2))}})
results["nat"] = un(jnp.linalg.solve(jnp.eye(6) * 2, flat))["b"]["c"]


def saddle(s, _):
    x, y = s
    gx, gy = grad(lambda x, y: x * y + 0.1 * x**2 - 0.1 * y**2, (0, 1))(x, y)
    return (x - 0.1 * gx, y + 0.1 * gy), None


results["saddle"] = lax.scan(saddle, (1.0, 1.0), None, length=20)[0]
