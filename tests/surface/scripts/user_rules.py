"""Rules of the user's in every position: methods, keyword arguments, integers, trees, loops, batches, second order."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import custom_jvp, custom_vjp, grad, jit, vmap, jvp, vjp, lax, hessian, jacrev, jacfwd
from functools import partial

results = {}
x3 = jnp.array([0.3, -0.7, 1.1])


@partial(custom_jvp, nondiff_argnums=(1,))
def scale(x, k):
    return x * k


@scale.defjvp
def _(k, primals, tangents):
    return scale(primals[0], k), 10.0 * k * tangents[0]


results["nd"] = [
    grad(scale)(1.0, 3),
    jit(grad(scale), static_argnums=1)(1.0, 3),
    vmap(lambda x: grad(scale)(x, 2))(x3),
    jit(vmap(lambda x: scale(x, 2.5)))(x3),
]


class Layer:
    def __init__(self, w):
        self.w = w

    @partial(custom_vjp, nondiff_argnums=(0,))
    def f(self, x):
        return x * self.w

    def fwd(self, x):
        return self.f(x), x

    def bwd(self, res, g):
        return (g * 100.0 + res,)

    f.defvjp(fwd, bwd)


@custom_vjp
def gather(x, i):
    return x[i]


gather.defvjp(
    lambda x, i: (x[i], (i, x.shape[0])), lambda r, g: (jnp.zeros(r[1]).at[r[0]].add(7 * g), None)
)
results["int"] = [
    grad(lambda x: gather(x, 1) ** 2)(x3),
    jit(grad(lambda x, i: gather(x, i) ** 2))(x3, 2),
    vmap(grad(lambda x, i: gather(x, i)), (None, 0))(x3, jnp.array([0, 2])),
]


@custom_vjp
def intarg(x, n):
    return x * n


intarg.defvjp(lambda x, n: (x * n, n), lambda n, g: (g * n * 2, np.zeros((), jax.dtypes.float0)))
results["f0"] = grad(intarg)(2.0, 3)


@custom_vjp
def tree(p, x):
    return {"y": p["w"] * x + p["b"]}


tree.defvjp(
    lambda p, x: (tree(p, x), (p, x)),
    lambda r, g: ({"w": g["y"] * r[1] * 3, "b": g["y"]}, g["y"] * r[0]["w"]),
)
results["tree"] = [
    grad(lambda p: tree(p, 2.0)["y"] ** 2)({"w": 3.0, "b": 1.0}),
    jit(grad(lambda p, x: tree(p, x)["y"], (0, 1)))({"w": 3.0, "b": 1.0}, 2.0),
    vmap(grad(lambda p, x: tree(p, x)["y"]), (None, 0))({"w": 3.0, "b": 1.0}, x3),
]


@custom_jvp
def relu(x):
    return jnp.maximum(x, 0)


relu.defjvps(lambda t, out, x: jnp.where(x > 0, t, 0.1 * t))
results["second"] = [
    grad(grad(lambda x: relu(x) ** 3))(2.0),
    hessian(lambda x: jnp.sum(relu(x) ** 2))(x3),
    jacfwd(jacrev(lambda x: relu(x) * x))(x3),
    jvp(grad(lambda x: relu(x) ** 2), (2.0,), (1.0,)),
]


@custom_vjp
def sq(x):
    return x * x


sq.defvjp(lambda x: (sq(x), x), lambda x, g: (g * 2 * jnp.sin(x),))
results["vjp2"] = [
    grad(grad(sq))(0.5),
    grad(grad(grad(lambda x: sq(sq(x)))))(0.5),
    vmap(grad(grad(sq)))(x3),
    jit(grad(jit(grad(sq))))(0.5),
]
results["scan"] = [
    grad(lambda x: lax.scan(lambda c, _: (sq(c) * 0.5, relu(c)), x, None, length=4)[1].sum())(0.8),
    jit(grad(lambda x: lax.fori_loop(0, 3, lambda i, c: sq(c), x)))(0.8),
    grad(lambda x: lax.cond(x > 0, sq, lambda y: y, x))(0.5),
    grad(lambda x: lax.map(sq, x).sum())(x3),
    jacrev(lambda x: lax.associative_scan(lambda a, b: a + sq(b), x))(x3),
]
results["ck"] = [
    grad(jax.checkpoint(lambda x: sq(relu(x))))(0.5),
    jit(grad(lambda x: jax.checkpoint(sq)(x) + jax.checkpoint(relu)(x)))(0.5),
]


@jax.custom_jvp
def withkw(x, *, p=2):
    return x**p


try:
    withkw.defjvp(lambda pr, t: (withkw(*pr), t[0]))
    results["kw"] = withkw(3.0)
except TypeError:
    results["kw"] = 9.0


@partial(custom_vjp, nondiff_argnums=(0, 3))
def apply(f, x, y, mode):
    return f(x, y)


def apply_fwd(f, x, y, mode):
    out, pull = vjp(f, x, y)
    return out, pull


def apply_bwd(f, mode, pull, g):
    return tuple(jnp.clip(c, -1, 1) if mode == "clip" else c for c in pull(g))


apply.defvjp(apply_fwd, apply_bwd)
results["pull"] = [
    grad(lambda x: apply(lambda a, b: a * b * 5, x, 2.0, "clip"))(1.0),
    jit(grad(lambda x, y: apply(lambda a, b: jnp.sin(a) * b, x, y, "none"), (0, 1)))(1.0, 2.0),
    vmap(grad(lambda x: apply(lambda a, b: a * b * 5, x, 2.0, "clip")))(x3),
]


@custom_vjp
def gradient_reversal(x, lam):
    return x


gradient_reversal.defvjp(
    lambda x, lam: (x, lam), lambda lam, g: (jax.tree.map(lambda t: -lam * t, g), None)
)
results["rev"] = [
    grad(lambda x: gradient_reversal(x, 0.5).sum())(x3),
    grad(lambda d: sum(jax.tree.leaves(gradient_reversal(d, 2.0))))({"a": 1.0, "b": 2.0}),
]


@custom_jvp
def multi(x, y):
    return x * y, x + y


@multi.defjvp
def _(p, t):
    x, y = p
    dx, dy = t
    return multi(x, y), (dx * y + x * dy, 2 * dx + 3 * dy)


results["multi"] = [
    jacfwd(multi, (0, 1))(2.0, 3.0),
    jacrev(multi, (0, 1))(2.0, 3.0),
    vmap(jacrev(multi))(x3, x3),
    jvp(multi, (2.0, 3.0), (1.0, 0.0)),
]


@jax.custom_gradient
def clipped(x):
    return jnp.sum(x**2), lambda g: (g * jnp.clip(2 * x, -1, 1),)


results["cg"] = [grad(clipped)(x3), jit(grad(clipped))(x3)]
f = custom_jvp(lambda x: jnp.where(x == 0, 1.0, jnp.sin(x) / jnp.where(x == 0, 1.0, x)))
f.defjvp(
    lambda p, t: (
        f(p[0]),
        jnp.where(
            p[0] == 0,
            0.0,
            (p[0] * jnp.cos(p[0]) - jnp.sin(p[0])) / jnp.where(p[0] == 0, 1.0, p[0]) ** 2,
        )
        * t[0],
    )
)
results["sinc"] = [grad(f)(0.0), vmap(grad(f))(x3), grad(grad(f))(0.5)]


def implicit(a, b):
    @custom_vjp
    def solve(a, b):
        return lax.fori_loop(0, 60, lambda i, x: x - (x**3 + a * x - b) / (3 * x**2 + a), 1.0)

    def fwd(a, b):
        x = solve(a, b)
        return x, (a, x)

    def bwd(r, g):
        a, x = r
        d = g / (3 * x**2 + a)
        return -d * x, d

    solve.defvjp(fwd, bwd)
    return solve(a, b)


results["impl"] = [
    implicit(1.0, 3.0),
    grad(implicit, (0, 1))(1.0, 3.0),
    vmap(grad(implicit), (0, None))(jnp.array([1.0, 2.0]), 3.0),
    jit(vmap(implicit, (None, 0)))(1.0, jnp.array([1.0, 5.0])),
    grad(grad(implicit))(1.0, 3.0),
]
