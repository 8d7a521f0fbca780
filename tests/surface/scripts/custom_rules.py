"""custom_jvp and custom_vjp: stable functions, clipping, fixed points, symbolic zeros."""

import stax as jax
import stax.numpy as jnp
from stax import custom_jvp, custom_vjp, grad, jit, vmap, jvp, vjp, lax
from functools import partial

results = {}


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,) = primals
    (x_dot,) = tangents
    ans = log1pexp(x)
    return ans, (1 - 1 / (1 + jnp.exp(x))) * x_dot


results["l"] = [
    log1pexp(3.0),
    jit(log1pexp)(3.0),
    jit(grad(log1pexp))(100.0),
    vmap(jit(grad(log1pexp)))(jnp.arange(4.0)),
    grad(grad(log1pexp))(1.0),
]


@custom_jvp
def f(x, y):
    return x * y**2


f.defjvps(
    lambda x_dot, primal_out, x, y: (y**2) * x_dot,
    lambda y_dot, primal_out, x, y: 2 * x * y * y_dot,
)
results["defjvps"] = [f(2.0, 3.0), grad(f, 0)(2.0, 3.0), grad(f, 1)(2.0, 3.0)]


@custom_jvp
def f2(x, y):
    return x * y**2


f2.defjvps(lambda x_dot, primal_out, x, y: (y**2) * x_dot, None)
results["none"] = [grad(f2, 0)(2.0, 3.0), grad(f2, 1)(2.0, 3.0)]


@custom_vjp
def clip_gradient(lo, hi, x):
    return x


def clip_fwd(lo, hi, x):
    return x, (lo, hi)


def clip_bwd(res, g):
    lo, hi = res
    return None, None, jnp.clip(g, lo, hi)


clip_gradient.defvjp(clip_fwd, clip_bwd)
t = jnp.linspace(0, 10, 11)
results["clip"] = [
    vmap(grad(jnp.sin))(t),
    vmap(grad(lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x))))(t),
    jit(vmap(grad(lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x)))))(t),
]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x_guess):
    def cond_fun(carry):
        x_prev, x = carry
        return jnp.abs(x_prev - x) > 1e-9

    def body_fun(carry):
        _, x = carry
        return x, f(a, x)

    _, x_star = lax.while_loop(cond_fun, body_fun, (x_guess, f(a, x_guess)))
    return x_star


def fixed_point_fwd(f, a, x_init):
    x_star = fixed_point(f, a, x_init)
    return x_star, (a, x_star)


def fixed_point_rev(f, res, x_star_bar):
    a, x_star = res
    _, vjp_a = vjp(lambda a: f(a, x_star), a)
    (a_bar,) = vjp_a(fixed_point(partial(rev_iter, f), (a, x_star, x_star_bar), x_star_bar))
    return a_bar, jnp.zeros_like(x_star)


def rev_iter(f, packed, u):
    a, x_star, x_star_bar = packed
    _, vjp_x = vjp(lambda x: f(a, x), x_star)
    return x_star_bar + vjp_x(u)[0]


fixed_point.defvjp(fixed_point_fwd, fixed_point_rev)


def newton_sqrt(a):
    update = lambda a, x: 0.5 * (x + a / x)
    return fixed_point(update, a, a)


results["fp"] = [
    newton_sqrt(2.0),
    jit(vmap(newton_sqrt))(jnp.array([1.0, 2.0, 3.0, 4.0])),
    grad(newton_sqrt)(2.0),
    grad(grad(newton_sqrt))(2.0),
    jit(grad(newton_sqrt))(2.0),
    vmap(grad(newton_sqrt))(jnp.array([1.0, 4.0])),
]


@partial(custom_jvp, nondiff_argnums=(0, 2))
def app(f, x, n):
    return f(x) * n


@app.defjvp
def app_jvp(f, n, primals, tangents):
    (x,) = primals
    (x_dot,) = tangents
    return f(x) * n, 2.0 * x_dot


results["nondiff"] = [app(lambda x: x**3, 3.0, 2), grad(app, 1)(lambda x: x**3, 3.0, 2)]
from collections import namedtuple

Point = namedtuple("Point", ["x", "y"])


@custom_jvp
def pf(pt):
    return {"a": pt.x**2, "b": (jnp.sin(pt.x), jnp.cos(pt.y))}


@pf.defjvp
def pf_jvp(primals, tangents):
    (pt,) = primals
    (pt_dot,) = tangents
    ans = pf(pt)
    return ans, {
        "a": 2 * pt.x * pt_dot.x,
        "b": (jnp.cos(pt.x) * pt_dot.x, -jnp.sin(pt.y) * pt_dot.y),
    }


def pfun(pt):
    dct = pf(pt)
    return dct["a"] + dct["b"][0]


results["pt"] = [pf(Point(1.0, 2.0)), grad(pfun)(Point(1.0, 2.0))]


@jax.custom_vjp
def fsz(x, y):
    return jnp.sin(x) * y


def fsz_fwd(x, y):
    return jnp.sin(x.value) * y.value, (x.value if x.perturbed else None, y.value)


def fsz_bwd(res, g):
    x, y = res
    return (None if x is None else jnp.cos(x) * y * g, None if x is not None else g * 7.0)


fsz.defvjp(fsz_fwd, fsz_bwd, symbolic_zeros=True)
results["sz"] = [grad(fsz)(1.0, 2.0), grad(fsz, 1)(1.0, 2.0)]


@jax.custom_jvp
def sj(x, y):
    return x * y


def sj_jvp(primals, tangents):
    x, y = primals
    xd, yd = tangents
    out = x * y
    t = 0.0
    if type(xd) is not jax.custom_derivatives.SymbolicZero:
        t = t + 3 * xd * y
    if type(yd) is not jax.custom_derivatives.SymbolicZero:
        t = t + 5 * yd * x
    return out, t


sj.defjvp(sj_jvp, symbolic_zeros=True)
results["sj"] = [grad(sj)(1.0, 2.0), grad(sj, 1)(1.0, 2.0), grad(sj, (0, 1))(1.0, 2.0)]


@jax.custom_gradient
def cg(x):
    y = jnp.exp(x)
    return y, lambda g: 2 * g * y


results["cg"] = [cg(1.0), grad(cg)(1.0)]


@jax.custom_vjp
def kw(x, scale=2.0):
    return x * scale


kw.defvjp(lambda x, scale=2.0: (x * scale, scale), lambda s, g: (g * s * 10, jnp.zeros(())))
results["kw"] = [kw(1.0), grad(kw)(1.0), grad(lambda x: kw(x, scale=3.0))(1.0)]


@jax.custom_jvp
def safe_norm(x):
    return jnp.sqrt(jnp.sum(x * x))


@safe_norm.defjvp
def _(primals, tangents):
    (x,) = primals
    (t,) = tangents
    n = safe_norm(x)
    return n, jnp.where(n == 0, 0.0, jnp.vdot(x, t) / jnp.where(n == 0, 1.0, n))


results["sn"] = [
    grad(safe_norm)(jnp.zeros(3)),
    jax.jacfwd(jax.grad(safe_norm))(jnp.array([3.0, 4.0])),
    jit(jax.hessian(safe_norm))(jnp.array([3.0, 4.0])),
]


@jax.custom_vjp
def straight_through(x):
    return jnp.sign(x)


straight_through.defvjp(lambda x: (straight_through(x), None), lambda _, g: (g,))
results["st"] = jax.jacrev(lambda w: straight_through(w) * jnp.arange(3.0))(
    jnp.array([0.2, -1.0, 2.0])
)


def debug_fwd(x):
    return x, x


@jax.custom_vjp
def debug(x):
    return x


log = []


def debug_bwd(x, g):
    jax.debug.callback(lambda g: log.append(float(g)), g)
    return (g,)


debug.defvjp(debug_fwd, debug_bwd)
grad(lambda x: debug(x**2) * 3)(2.0)
jit(grad(lambda x: debug(x**2) * 3))(2.0)
jax.effects_barrier()
results["log"] = log


# in scan
def body(c, x):
    return clip_gradient(-0.5, 0.5, c) * x, log1pexp(c)


results["scan"] = grad(lambda c, xs: jnp.sum(lax.scan(body, c, xs)[1]))(1.0, jnp.arange(1.0, 4.0))


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def huber(x, delta, mode):
    return jnp.where(jnp.abs(x) < delta, 0.5 * x**2, delta * (jnp.abs(x) - 0.5 * delta))


huber.defvjp(lambda x, d, m: (huber(x, d, m), x), lambda d, m, x, g: (jnp.clip(x, -d, d) * g,))
results["hub"] = jit(vmap(grad(huber), (0, None, None)), static_argnums=(1, 2))(
    jnp.linspace(-2, 2, 5), 1.0, "x"
)


def solve(f, z0):
    return lax.while_loop(
        lambda c: jnp.linalg.norm(c[0] - c[1]) > 1e-10, lambda c: (c[1], f(c[1])), (z0, f(z0))
    )[1]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_layer(f, params, x):
    return solve(lambda z: f(params, x, z), jnp.zeros_like(x))


def fl_fwd(f, params, x):
    z = fixed_layer(f, params, x)
    return z, (params, x, z)


def fl_bwd(f, res, zb):
    params, x, z = res
    _, vjp_a = vjp(lambda p, x: f(p, x, z), params, x)
    _, vjp_z = vjp(lambda z: f(params, x, z), z)
    return vjp_a(solve(lambda u: vjp_z(u)[0] + zb, jnp.zeros_like(z)))


fixed_layer.defvjp(fl_fwd, fl_bwd)
W = jax.random.normal(jax.random.key(0), (4, 4)) / 4
layer = lambda W, x, z: jnp.tanh(W @ z + x)
results["deq"] = [
    fixed_layer(layer, W, jnp.ones(4)),
    grad(lambda W: fixed_layer(layer, W, jnp.ones(4)).sum())(W),
    jit(grad(lambda x: fixed_layer(layer, W, x).sum()))(jnp.ones(4)),
]
