"""Differential equations, their adjoints, fixed points and roots differentiated implicitly."""

import stax as jax
import stax.numpy as jnp
from stax import lax, custom_vjp, custom_jvp, custom_derivatives
from stax.flatten_util import ravel_pytree
from stax.experimental.ode import odeint
from functools import partial


def rk4(f, y0, ts, *args):
    def step(carry, t1):
        y, t0 = carry
        h = t1 - t0
        k1 = f(y, t0, *args)
        k2 = f(jax.tree.map(lambda a, b: a + h / 2 * b, y, k1), t0 + h / 2, *args)
        k3 = f(jax.tree.map(lambda a, b: a + h / 2 * b, y, k2), t0 + h / 2, *args)
        k4 = f(jax.tree.map(lambda a, b: a + h * b, y, k3), t1, *args)
        y = jax.tree.map(
            lambda a, p, q, r, s: a + h / 6 * (p + 2 * q + 2 * r + s), y, k1, k2, k3, k4
        )
        return (y, t1), y

    _, ys = lax.scan(step, (y0, ts[0]), ts[1:])
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, ys)


@partial(custom_vjp, nondiff_argnums=(0,))
def adj(f, y0, ts, args):
    return rk4(lambda y, t, *a: f(y, t, *a), y0, ts, *args)


def adj_fwd(f, y0, ts, args):
    ys = adj(f, y0, ts, args)
    return ys, (ys, ts, args)


def adj_bwd(f, res, g):
    ys, ts, args = res
    fa, unravel = ravel_pytree(args)

    def aug(s, nt, *a):
        y, lam, _ = s
        out, vjp = jax.vjp(lambda y, a: f(y, -nt, *a), y, args)
        dy, da = vjp(lam)
        return -out, dy, ravel_pytree(da)[0]

    def body(carry, i):
        lam, ga = carry
        t = jnp.array([-ts[i], -ts[i - 1]])
        y, lam, ga = jax.tree.map(lambda v: v[-1], rk4(aug, (ys[i], lam, ga), t))
        return (lam + g[i - 1], ga), None

    (lam, ga), _ = lax.scan(body, (g[-1], jnp.zeros_like(fa)), jnp.arange(len(ts) - 1, 0, -1))
    return lam, jnp.zeros_like(ts), unravel(ga)


adj.defvjp(adj_fwd, adj_bwd)


def pend(y, t, m, c):
    th, w = y
    return jnp.array([w, -m * w - c * jnp.sin(th)])


y0 = jnp.array([jnp.pi - 0.1, 0.0])
ts = jnp.linspace(0.0, 4.0, 41)
sol = odeint(pend, y0, ts, 0.25, 9.8)
s2 = rk4(pend, y0, ts, 0.25, 9.8)
go = jax.grad(
    lambda y0, m, c: (odeint(pend, y0, ts, m, c, rtol=1e-9, atol=1e-9)[-1] ** 2).sum(), (0, 1, 2)
)(y0, 0.25, 9.8)
ga = jax.jit(jax.grad(lambda y0, a: (adj(pend, y0, ts, a) ** 2).sum(), (0, 1)))(y0, (0.25, 9.8))
gr = jax.grad(lambda y0, a: (rk4(pend, y0, ts, *a) ** 2).sum(), (0, 1))(y0, (0.25, 9.8))
vm = jax.vmap(lambda y: odeint(pend, y, ts, 0.25, 9.8, rtol=1e-8, atol=1e-8)[-1])(
    jnp.stack([y0, y0 * 0.5])
)
lor = jax.jit(
    lambda s: rk4(
        lambda y, t: {
            "x": 10 * (y["y"] - y["x"]),
            "y": y["x"] * (28 - y["z"]) - y["y"],
            "z": y["x"] * y["y"] - 8 / 3 * y["z"],
        },
        s,
        jnp.linspace(0, 1, 101),
    )
)(dict(x=1.0, y=1.0, z=1.0) if False else jax.tree.map(jnp.asarray, dict(x=1.0, y=1.0, z=1.0)))
J = jax.jacfwd(lambda y: rk4(pend, y, ts, 0.25, 9.8)[-1])(y0)


# leapfrog with fori and symplectic energy
def H(q, p):
    return 0.5 * jnp.dot(p, p) - 1 / jnp.linalg.norm(q)


def leap(q, p, dt, n):
    def body(_, qp):
        q, p = qp
        p = p - dt / 2 * jax.grad(H, 0)(q, p)
        q = q + dt * jax.grad(H, 1)(q, p)
        p = p - dt / 2 * jax.grad(H, 0)(q, p)
        return q, p

    return lax.fori_loop(0, n, body, (q, p))


q, p = jax.jit(leap, static_argnums=3)(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.1]), 0.01, 200)


# implicit differentiation
@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x0):
    def cond(c):
        return jnp.max(jnp.abs(c[0] - c[1])) > 1e-10

    def body(c):
        return c[1], f(a, c[1])

    return lax.while_loop(cond, body, (x0, f(a, x0)))[1]


def fp_fwd(f, a, x0):
    x = fixed_point(f, a, x0)
    return x, (a, x)


def rev_iter(f, packed, u):
    a, x, v = packed
    _, vx = jax.vjp(lambda x: f(a, x), x)
    return v + vx(u)[0]


def fp_bwd(f, res, v):
    a, x = res
    _, va = jax.vjp(lambda a: f(a, x), a)
    w = fixed_point(partial(rev_iter, f), (a, x, v), v)
    return va(w)[0], jnp.zeros_like(x)


fixed_point.defvjp(fp_fwd, fp_bwd)


def newton_sqrt(a):
    return fixed_point(lambda a, x: 0.5 * (x + a / x), a, jnp.asarray(a))


W = jnp.array([[0.2, -0.3], [0.1, 0.4]])
deq = lambda W, x: fixed_point(lambda W, z: jnp.tanh(W @ z + x), W, jnp.zeros(2))
root = lambda a: lax.custom_root(
    lambda x: x**3 + a * x - 1,
    jnp.float64(0.5),
    lambda f, x: lax.fori_loop(0, 20, lambda i, x: x - f(x) / jax.grad(f)(x), x),
    lambda g, y: y / g(1.0),
)
results = dict(
    sol=sol,
    s2=s2,
    go=go,
    ga=ga,
    gr=gr,
    vm=vm,
    lor=lor,
    J=J,
    q=q,
    p=p,
    sq=[newton_sqrt(2.0), jax.grad(newton_sqrt)(2.0), jax.grad(jax.grad(newton_sqrt))(2.0)],
    deq=[deq(W, jnp.ones(2)), jax.jacrev(deq)(W, jnp.ones(2))],
    root=[root(2.0), jax.grad(root)(2.0), jax.vmap(jax.grad(root))(jnp.array([1.0, 2.0, 3.0]))],
)
