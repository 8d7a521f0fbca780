"""Stopped gradients, straight-through, all Jacobians, complex derivatives, own rules."""

import stax as jax
import stax.numpy as jnp
from stax import (
    grad,
    jacfwd,
    jacrev,
    jit,
    jvp,
    vjp,
    vmap,
    hessian,
    lax,
    random,
    custom_jvp,
    custom_vjp,
    linearize,
)
from stax.test_util import check_grads
import numpy as np
from functools import partial

r = {}
# td(0)
value_fn = lambda theta, state: jnp.dot(theta, state)
theta = jnp.array([0.1, -0.1, 0.0])
s_tm1 = jnp.array([1.0, 2.0, -1.0])
r_t = jnp.array(1.0)
s_t = jnp.array([2.0, 1.0, 0.0])


def td_loss(theta, s0, rt, s1):
    target = rt + value_fn(theta, s1)
    return -0.5 * ((lax.stop_gradient(target) - value_fn(theta, s0)) ** 2)


r["td"] = grad(td_loss)(theta, s_tm1, r_t, s_t)
b = tuple(jnp.stack([a, 2 * a]) for a in (s_tm1, r_t, s_t))
r["tdb"] = jit(vmap(grad(td_loss), in_axes=(None, 0, 0, 0)))(theta, *b)


def st(f, x):
    z = x - lax.stop_gradient(x)
    return z + lax.stop_gradient(f(x))


r["st"] = [st(jnp.round, 3.2), grad(partial(st, jnp.round))(3.2), grad(jnp.round)(3.2)]
r["hvp"] = [
    grad(lambda x: jnp.vdot(grad(lambda x: jnp.sum(jnp.tanh(x) ** 3))(x), v))(jnp.arange(3.0))
    for v in (jnp.ones(3), jnp.arange(3.0))
]


def hvpf(f, x, v):
    return jvp(grad(f), (x,), (v,))[1]


r["hvpf"] = hvpf(
    lambda x: jnp.prod(x) + x[0] ** 3, jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0, 1.0])
)
A = random.normal(random.key(0), (4, 3))
x = random.normal(random.key(1), (3,))
f = lambda x: jnp.sin(A @ x)
r["jac"] = [jacfwd(f)(x), jacrev(f)(x), jacfwd(jacrev(f))(x)]
y, pull = vjp(f, x)
r["vjpm"] = vmap(pull)(jnp.eye(4))
y, push = jax.jvp(f, (x,), (jnp.ones(3),))
r["jvp"] = push
y, lin = linearize(f, x)
r["lin"] = vmap(lin)(jnp.eye(3))
r["lt"] = jax.linear_transpose(lambda x: A @ x, x)(jnp.arange(4.0))
r["trees"] = hessian(lambda p: jnp.sum(p["w"] ** 2 * p["b"]))(
    {"w": jnp.arange(2.0), "b": jnp.array(3.0)}
)
r["argn"] = grad(lambda a, b, c: a * b**2 * c**3, argnums=(0, 2))(1.0, 2.0, 3.0)
r["aux"] = grad(lambda x: (jnp.sum(x**2), {"n": x.shape[0], "y": x * 2}), has_aux=True)(x)
r["cx"] = [
    grad(lambda z: (z**3).real)(1.0 + 2j),
    grad(jnp.sin, holomorphic=True)(1.0 + 2j),
    grad(lambda z: jnp.abs(z) ** 2)(3.0 + 1j),
    vjp(lambda z: jnp.conj(z) * z, 1 + 1j)[1](1 + 0j),
]
r["nest"] = grad(grad(grad(lambda x: jnp.sin(x) * jnp.exp(x))))(0.5)
d = lambda f, n: f if n == 0 else grad(d(f, n - 1))
r["tay"] = [d(lambda x: jnp.log1p(jnp.exp(x)), n)(0.0) for n in range(5)]


# custom rules
@custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def _(primals, tangents):
    (x,) = primals
    (t,) = tangents
    ans = log1pexp(x)
    return ans, (1 - 1 / (1 + jnp.exp(x))) * t


r["l1p"] = [
    grad(log1pexp)(100.0),
    jit(grad(log1pexp))(100.0),
    vmap(jit(grad(log1pexp)))(jnp.arange(3.0)),
    grad(grad(log1pexp))(1.0),
]


@custom_jvp
def ff(x, y):
    return jnp.sin(x) * y


ff.defjvps(lambda xd, ans, x, y: jnp.cos(x) * xd * y, lambda yd, ans, x, y: jnp.sin(x) * yd)
r["defjvps"] = grad(ff, (0, 1))(2.0, 3.0)


@custom_vjp
def clip_grad(lo, hi, x):
    return x


clip_grad.defvjp(
    lambda lo, hi, x: (x, (lo, hi)), lambda res, g: (None, None, jnp.clip(g, res[0], res[1]))
)
r["clip"] = vmap(grad(lambda x: jnp.sin(clip_grad(-0.75, 0.75, x))))(jnp.linspace(0, 10, 9))


@partial(custom_jvp, nondiff_argnums=(0,))
def app(f, x):
    return f(x)


@app.defjvp
def app_jvp(f, p, t):
    return f(p[0]), 2.0 * t[0]


r["nd"] = grad(lambda x: app(lambda x: x**3, x))(3.0)


@partial(custom_vjp, nondiff_argnames=("n",))
def rep(x, n):
    return x**n


rep.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (n * 10 * g * x,))
r["ndn"] = grad(rep)(2.0, 3)


@jax.custom_gradient
def cg(x):
    return x**2, lambda g: (g * x,)


r["cg"] = grad(cg)(3.0)


@custom_jvp
def xlogy(x, y):
    return jnp.where(x == 0, 0.0, x * jnp.log(y))


xlogy.defjvp(
    lambda p, t: (xlogy(*p), t[0] * jnp.log(p[1]) + t[1] * p[0] / p[1]), symbolic_zeros=False
)
r["xlogy"] = grad(xlogy, (0, 1))(2.0, 3.0)
check_grads(lambda x: jnp.sum(jnp.tanh(x) ** 2), (x,), order=2, modes=["fwd", "rev"])
r["cl"] = jax.closure_convert(lambda x: x * A.sum(), 1.0)[0](2.0)
r["safe"] = grad(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))(0.0)
r["ju"] = jax.numpy.unwrap(jnp.array([0.0, 3.0, 6.5, 9.0]))
r["gsort"] = [
    jacrev(jnp.sort)(x),
    grad(lambda x: lax.top_k(x, 2)[0].sum())(x),
    grad(lambda x: jnp.median(x))(x),
    grad(lambda x: jnp.max(x))(jnp.array([1.0, 2.0, 2.0])),
]
r["gn"] = [
    grad(jnp.linalg.norm)(x),
    grad(jnp.linalg.det)(A[:3]),
    grad(lambda a: jnp.linalg.svd(a, compute_uv=False).sum())(A),
    grad(lambda a: jnp.linalg.eigvalsh(a.T @ a)[-1])(A),
]
r["flat"] = [
    np.asarray(v).shape
    for v in jax.tree.leaves(jacrev(lambda p: {"o": p["a"] @ p["b"]})({"a": A, "b": x}))
]
results = r
