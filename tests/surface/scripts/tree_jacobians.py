"""Jacobians of functions of trees, rules of one's own, saved values."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random
from functools import partial
from stax import jacfwd, jacrev, hessian


def f(p, x):
    return {"y": jnp.tanh(p["w"] @ x) + p["b"], "n": jnp.sum(x**2)}


p = {"w": jnp.arange(6.0).reshape(2, 3) / 6, "b": jnp.array([0.1, 0.2])}
x = jnp.array([1.0, 2.0, 3.0])

results = {}

# jacfwd pytree
out = jacfwd(f)(p, x)
results["jacfwd pytree"] = out

# jacrev pytree
out = jacrev(f, argnums=(0, 1))(p, x)
results["jacrev pytree"] = out

# hessian pytree
out = hessian(lambda p, x: f(p, x)["y"].sum())(p, x)
results["hessian pytree"] = out

# jacfwd of jacrev
out = jacfwd(jacrev(lambda x: jnp.outer(x, x).sum(0)))(x)
results["jacfwd of jacrev"] = out

# jac has_aux
out = [
    jacfwd(lambda x: (x**2, {"s": x.sum()}), has_aux=True)(x),
    jacrev(lambda x: (x**2, x.sum()), has_aux=True)(x),
]
results["jac has_aux"] = out

# jac argnums seq
out = jacfwd(lambda a, b, c: a * b + c, argnums=(0, 2))(1.0, 2.0, 3.0)
results["jac argnums seq"] = out

# jac neg argnum
out = jacrev(lambda a, b: a * b**2, argnums=-1)(2.0, 3.0)
results["jac neg argnum"] = out

# jac holomorphic
out = [
    jacfwd(lambda z: z**2, holomorphic=True)(jnp.array([1 + 2j, 3j])),
    jacrev(lambda z: z**3, holomorphic=True)(jnp.array([1 + 2j, 3j])),
]
results["jac holomorphic"] = out

# jacrev allow int
out = jax.grad(lambda x, y: x * y, argnums=(0, 1), allow_int=True)(2.0, 3)
results["jacrev allow int"] = out

# vmap jac in_axes dict
out = jax.vmap(jacrev(lambda p, x: p["w"] @ x), in_axes=({"w": None, "b": None}, 0))(
    p, jnp.stack([x, 2 * x])
)
results["vmap jac in_axes dict"] = out


# per-example
def loss(p, x, y):
    return jnp.sum((f(p, x)["y"] - y) ** 2)


XB = jnp.stack([x, -x, x / 2])
YB = jnp.ones((3, 2))
out = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(p, XB, YB)
results["per-example"] = out

# per-example dict axes
out = jax.vmap(jax.grad(lambda p, b: loss(p, b["x"], b["y"])), in_axes=(None, {"x": 0, "y": 1}))(
    p, {"x": XB, "y": YB.T}
)
results["per-example dict axes"] = out

# ensembles out axes
P = jax.tree.map(lambda a: jnp.stack([a, a * 2]), p)
out = [jax.vmap(lambda p, x: f(p, x), in_axes=(0, None), out_axes={"y": 1, "n": None})(P, x)]
results["ensembles out axes"] = out

# vmap axis_size
out = jax.vmap(lambda: jnp.ones(2), axis_size=3)()
results["vmap axis_size"] = out

# vmap axis name
out = jax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.arange(1.0, 4.0))
results["vmap axis name"] = out

# nested vmap two names
out = jax.vmap(
    jax.vmap(lambda x: x - lax.pmean(lax.pmean(x, "a"), "b"), axis_name="a"), axis_name="b"
)(jnp.arange(6.0).reshape(2, 3))
results["nested vmap two names"] = out


# vmap of grad clipping
def clipped(p, x, y):
    g = jax.grad(loss)(p, x, y)
    n = jnp.sqrt(sum(jnp.sum(l**2) for l in jax.tree.leaves(g)))
    return jax.tree.map(lambda l: l / jnp.maximum(1.0, n), g)


out = jax.tree.map(lambda g: g.mean(0), jax.vmap(clipped, (None, 0, 0))(p, XB, YB))
results["vmap of grad clipping"] = out


# custom_vjp nondiff
@partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def app(g, x, n):
    return g(x) * n


def fwd(g, x, n):
    return app(g, x, n), x


def bwd(g, n, res, ct):
    return (ct * jnp.cos(res) * n * 10,)


app.defvjp(fwd, bwd)
out = [
    jax.grad(lambda x: app(jnp.sin, x, 3))(1.0),
    jax.jit(jax.grad(lambda x: app(jnp.sin, x, 3)))(1.0),
    jax.vmap(jax.grad(lambda x: app(jnp.sin, x, 2)))(x),
]
results["custom_vjp nondiff"] = out


# custom_vjp pytrees none
@jax.custom_vjp
def h(p, x):
    return p["a"] * x, p["b"]


h.defvjp(lambda p, x: (h(p, x), (p, x)), lambda r, ct: ({"a": ct[0] * r[1], "b": ct[1]}, None))
out = jax.grad(lambda p, x: sum(h(p, x)))({"a": 2.0, "b": 3.0}, 4.0)
results["custom_vjp pytrees none"] = out

# custom_vjp none grads x
out = jax.grad(lambda p, x: sum(h(p, x)), 1)({"a": 2.0, "b": 3.0}, 4.0)
results["custom_vjp none grads x"] = out


# custom_vjp optimize_remat
@jax.custom_vjp
def q(x):
    return x**2


q.defvjp(lambda x: (x**2, x), lambda r, g: (g * 3 * r,), optimize_remat=True)
out = [jax.grad(q)(2.0), jax.grad(jax.checkpoint(q))(2.0)]
results["custom_vjp optimize_remat"] = out


# custom_vjp symbolic zeros
@jax.custom_vjp
def z(x, y):
    return x * y


def zf(x, y):
    return x.value * y.value, (x.value, y.value, x.perturbed, y.perturbed)


def zb(r, g):
    return (g * r[1] * 100, g * r[0])


z.defvjp(zf, zb, symbolic_zeros=True)
out = [jax.grad(z)(2.0, 3.0), jax.grad(z, (0, 1))(2.0, 3.0)]
results["custom_vjp symbolic zeros"] = out


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def pw(x, n):
    return x**n


@pw.defjvp
def _(n, pr, tg):
    return pw(pr[0], n), 5 * n * tg[0]


# defjvps
@jax.custom_jvp
def m(x, y):
    return x * y


m.defjvps(lambda t, ans, x, y: 7 * t, None)
out = [jax.grad(m, (0, 1))(2.0, 3.0)]
results["defjvps"] = out


@jax.custom_jvp
def cz(x, y):
    return x + y


@partial(cz.defjvp, symbolic_zeros=True)
def _(p, t):
    from stax.custom_derivatives import SymbolicZero

    return cz(*p), (t[0] if type(t[0]) is not SymbolicZero else 0.0 * p[0]) + (
        0.0 if type(t[1]) is SymbolicZero else 9 * t[1]
    )


# clip gradient identity
@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def cg(lo, hi, x):
    return x


cg.defvjp(lambda lo, hi, x: (x, None), lambda lo, hi, _, g: (jnp.clip(g, lo, hi),))
out = jax.grad(lambda x: (cg(-1.0, 1.0, x) ** 2).sum())(x)
results["clip gradient identity"] = out

# straight through
st = lambda x: x + lax.stop_gradient(jnp.round(x) - x)
out = jax.grad(lambda x: (st(x) ** 2).sum())(x * 0.4)
results["straight through"] = out


# gradient reversal
@jax.custom_vjp
def rev(x):
    return x


rev.defvjp(lambda x: (x, ()), lambda _, g: (-g,))
out = jax.grad(lambda p: loss(p, rev(x), YB[0]))(p)
results["gradient reversal"] = out

# checkpoint names policy
from stax.ad_checkpoint import checkpoint_name, print_saved_residuals


def net(w, x):
    a = checkpoint_name(jnp.sin(w @ x), "a")
    b = checkpoint_name(jnp.cos(w @ a[:3] if a.shape[0] >= 3 else a), "b")
    return b.sum()


W = jnp.eye(3) * 0.5
cp = jax.checkpoint_policies
out = [
    jax.grad(jax.checkpoint(net, policy=pol))(W, x)
    for pol in (
        cp.save_only_these_names("a"),
        cp.save_anything_except_these_names("b"),
        cp.save_any_names_but_these("a"),
        cp.everything_saveable,
        cp.nothing_saveable,
        cp.dots_saveable,
        cp.checkpoint_dots,
        cp.dots_with_no_batch_dims_saveable,
        cp.checkpoint_dots_with_no_batch_dims,
        cp.save_from_both_policies(cp.dots_saveable, cp.save_only_these_names("a")),
    )
]
results["checkpoint names policy"] = out

# checkpoint offload
out = jax.grad(
    jax.checkpoint(
        net,
        policy=cp.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=[],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    )
)(W, x)
results["checkpoint offload"] = out

# checkpoint static argnums
out = jax.grad(jax.checkpoint(lambda x, n: jnp.sin(x) ** n if n > 1 else x, static_argnums=(1,)))(
    1.0, 3
)
results["checkpoint static argnums"] = out

# remat alias prevent_cse
out = jax.grad(jax.remat(lambda x: jnp.sin(jnp.sin(x)), prevent_cse=False))(1.0)
results["remat alias prevent_cse"] = out

# saved residuals
import io, contextlib

b = io.StringIO()
with contextlib.redirect_stdout(b):
    print_saved_residuals(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), 1.0)
out = len(b.getvalue().splitlines()) > 0
results["saved residuals"] = out

# vjp
y, vf = jax.vjp(f, p, x)
out = [y, vf({"y": jnp.ones(2), "n": 1.0})]
results["vjp"] = out

# vjp has_aux
y, vf, aux = jax.vjp(lambda x: (x**2, "s"), x, has_aux=True)
out = [y, vf(x), aux]
results["vjp has_aux"] = out

# linearize
y, lin = jax.linearize(f, p, x)
out = [y, lin(p, x)]
results["linearize"] = out

# linearize has_aux
y, lin, aux = jax.linearize(lambda x: (x**2, x.sum()), x, has_aux=True)
out = [y, lin(x), aux]
results["linearize has_aux"] = out

# linear_transpose
out = jax.linear_transpose(lambda x: jnp.dot(W, x) * 2, x)(x)
results["linear_transpose"] = out

# closure_convert
g2, cs = jax.closure_convert(lambda t: jnp.sin(t) * x.sum(), 1.0)
out = [g2(1.0, *cs)]
results["closure_convert"] = out

# jvp of jit with kwargs
out = jax.jvp(jax.jit(lambda a, b: a * b["k"]), (2.0, {"k": 3.0}), (1.0, {"k": 1.0}))
results["jvp of jit with kwargs"] = out

# jvp tangents float0
out = jax.jvp(lambda a, n: a * n, (2.0, 3), (1.0, np.zeros((), jax.dtypes.float0)))
results["jvp tangents float0"] = out

# grad float0 value
out = str(jax.grad(lambda n, a: a * n, allow_int=True)(3, 2.0).dtype)
results["grad float0 value"] = out

# value_and_grad argnames
try:
    out = jax.value_and_grad(lambda x, *, y: x * y, argnums=0)(2.0, y=3.0)
except Exception as e:
    out = type(e).__name__
results["value_and_grad argnames"] = out

# grad complex non holo
out = jax.grad(lambda z: jnp.abs(z) ** 2)(1.0 + 2j)
results["grad complex non holo"] = out

# grad non scalar err
try:
    jax.grad(lambda x: x)(x)
    out = 0
except TypeError:
    out = "TypeError"
results["grad non scalar err"] = out


# custom_gradient
@jax.custom_gradient
def cgr(x):
    return x**2, lambda g: g * 11


out = [jax.grad(cgr)(3.0), cgr(3.0)]
results["custom_gradient"] = out

# hvp fwdrev
hvp = lambda f, pr, tg: jax.jvp(jax.grad(f), pr, tg)[1]
out = hvp(lambda p: f(p, x)["y"].sum(), (p,), (p,))
results["hvp fwdrev"] = out

# jet
from stax.experimental.jet import jet

out = jet(lambda x: jnp.sin(x) * x, (1.0,), ((1.0, 0.0, 0.0),))
results["jet"] = out

# odeint
from stax.experimental.ode import odeint

out = [
    odeint(lambda y, t, a: -a * y, jnp.array([1.0, 2.0]), jnp.linspace(0, 1, 5), 0.5),
    jax.grad(
        lambda a: odeint(
            lambda y, t, a: -a * y, jnp.array([1.0, 2.0]), jnp.linspace(0, 1, 5), a
        ).sum()
    )(0.5),
]
results["odeint"] = out

# root implicit


def solve(f, x0):
    return lax.custom_root(
        f,
        x0,
        lambda f, x: lax.fori_loop(0, 30, lambda i, x: x - f(x) / jax.grad(f)(x), x),
        lambda g, y: y / g(1.0),
    )


out = jax.grad(lambda a: solve(lambda x: x**2 - a, 1.0))(2.0)
results["root implicit"] = out

# check_grads
from stax.test_util import check_grads

check_grads(lambda x: jnp.sin(x) * x, (1.0,), order=2)
out = 1
results["check_grads"] = out
