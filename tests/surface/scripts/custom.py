"""Derivative rules of one's own: log1pexp, a fixed point, clipping, statics, pytrees."""

from functools import partial

import stax as jax
import stax.numpy as jnp
from stax import custom_jvp, custom_vjp, grad, jit, jvp, lax, vjp, vmap

results = {}


@custom_jvp
def f(x, y):
    return jnp.sin(x) * y


@f.defjvp
def f_jvp(primals, tangents):
    x, y = primals
    x_dot, y_dot = tangents
    return f(x, y), jnp.cos(x) * x_dot * y + jnp.sin(x) * y_dot


results["jvp"] = jvp(f, (2.0, 3.0), (1.0, 0.0))
results["grad"] = grad(f)(2.0, 3.0)


@custom_vjp
def g(x, y):
    return jnp.sin(x) * y


def g_fwd(x, y):
    return g(x, y), (jnp.cos(x), jnp.sin(x), y)


def g_bwd(res, ct):
    cos_x, sin_x, y = res
    return (cos_x * ct * y, sin_x * ct)


g.defvjp(g_fwd, g_bwd)
results["vjp"] = grad(g, (0, 1))(2.0, 3.0)


def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


results["unstable"] = vmap(jit(grad(log1pexp)))(jnp.arange(3.0))


@custom_jvp
def log1pexp2(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp2.defjvp
def log1pexp2_jvp(primals, tangents):
    (x,) = primals
    (x_dot,) = tangents
    ans = log1pexp2(x)
    return ans, (1 - 1 / (1 + jnp.exp(x))) * x_dot


results["stable"] = grad(log1pexp2)(100.0)
results["stable_vmap"] = vmap(jit(grad(grad(log1pexp2))))(jnp.arange(3.0))


@custom_jvp
def relu_like(x, y):
    return jnp.where(x > 0, x / (1 + jnp.sqrt(jnp.abs(y))), 0.0)


relu_like.defjvps(
    lambda x_dot, ans, x, y: jnp.where(x > 0, x_dot / (1 + jnp.sqrt(jnp.abs(y))), 0.0), None
)
results["defjvps"] = grad(relu_like)(1.0, 4.0)


@custom_vjp
def clip_gradient(lo, hi, x):
    return x


def clip_gradient_fwd(lo, hi, x):
    return x, (lo, hi)


def clip_gradient_bwd(res, ct):
    lo, hi = res
    return (None, None, jnp.clip(ct, lo, hi))


clip_gradient.defvjp(clip_gradient_fwd, clip_gradient_bwd)
results["clipped"] = vmap(grad(lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x))))(
    jnp.linspace(0, 10, 8)
)


@partial(custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x_guess):
    def cond_fun(carry):
        x_prev, x = carry
        return jnp.abs(x_prev - x) > 1e-6

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


results["sqrt"] = newton_sqrt(2.0)
results["sqrt_grad"] = grad(newton_sqrt)(2.0)
results["sqrt_hess"] = grad(grad(newton_sqrt))(2.0)
results["sqrt_vmap"] = jit(vmap(newton_sqrt))(jnp.array([1.0, 2.0, 3.0, 4.0]))


@partial(custom_jvp, nondiff_argnums=(0,))
def app(f, x):
    return f(x)


@app.defjvp
def app_jvp(f, primals, tangents):
    (x,) = primals
    (x_dot,) = tangents
    return f(x), 2.0 * x_dot


results["app"] = grad(app, argnums=1)(lambda x: x**3, 1.0)


@partial(custom_vjp, nondiff_argnums=(0, 2))
def app2(f, x, g):
    return f(g(x))


app2.defvjp(lambda f, x, g: (f(g(x)), x), lambda f, g, x, ct: (5.0 * ct,))
results["app2"] = grad(app2, 1)(lambda x: x**3, 1.0, lambda y: 5 * y)


@custom_jvp
def dict_fun(pt):
    return {"a": pt["x"] ** 2, "b": (jnp.sin(pt["x"]), jnp.cos(pt["y"]))}


@dict_fun.defjvp
def dict_jvp(primals, tangents):
    (pt,), (pt_dot,) = primals, tangents
    ans = dict_fun(pt)
    dot = {
        "a": 2 * pt["x"] * pt_dot["x"],
        "b": (jnp.cos(pt["x"]) * pt_dot["x"], -jnp.sin(pt["y"]) * pt_dot["y"]),
    }
    return ans, dot


def fun(pt):
    d = dict_fun(pt)
    return d["a"] + d["b"][0]


results["pytree"] = grad(fun)({"x": 1.0, "y": 2.0})


@jax.custom_gradient
def scaled(x):
    return x**2, lambda ct: (ct * 10 * x,)


results["custom_gradient"] = grad(scaled)(3.0)
results["stop"] = grad(lambda x: x * lax.stop_gradient(x))(3.0)
straight = lambda x: x + lax.stop_gradient(jnp.round(x) - x)
results["straight_through"] = (straight(3.2), grad(straight)(3.2))
