"""Optimisers and training loops written by hand."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random
from functools import partial

key = random.key(0)
X = random.normal(key, (32, 4))
y = X @ jnp.array([1.0, -2.0, 0.5, 3.0]) + 0.1


def loss(p, X, y):
    return jnp.mean((X @ p["w"] + p["b"] - y) ** 2)


p0 = {"w": jnp.zeros(4), "b": 0.0}

results = {}


# sgd fori
def step(i, p):
    g = jax.grad(loss)(p, X, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g)


out = lax.fori_loop(0, 50, step, p0)
results["sgd fori"] = out


# momentum scan
def step(c, _):
    p, m = c
    l, g = jax.value_and_grad(loss)(p, X, y)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    p = jax.tree.map(lambda p, m: p - 0.02 * m, p, m)
    return (p, m), l


(p, m), ls = lax.scan(step, (p0, jax.tree.map(jnp.zeros_like, p0)), None, length=40)
out = [p, ls]
results["momentum scan"] = out


# adam class
class Adam:
    def __init__(s, lr=1e-1, b1=0.9, b2=0.999, eps=1e-8):
        s.lr, s.b1, s.b2, s.eps = lr, b1, b2, eps

    def init(s, p):
        return (
            jnp.zeros([], jnp.int32),
            jax.tree.map(jnp.zeros_like, p),
            jax.tree.map(jnp.zeros_like, p),
        )

    @partial(jax.jit, static_argnums=0)
    def update(s, g, st, p):
        t, m, v = st
        t = t + 1
        m = jax.tree.map(lambda m, g: s.b1 * m + (1 - s.b1) * g, m, g)
        v = jax.tree.map(lambda v, g: s.b2 * v + (1 - s.b2) * g * g, v, g)
        mh = jax.tree.map(lambda m: m / (1 - s.b1**t), m)
        vh = jax.tree.map(lambda v: v / (1 - s.b2**t), v)
        return jax.tree.map(lambda p, m, v: p - s.lr * m / (jnp.sqrt(v) + s.eps), p, mh, vh), (
            t,
            m,
            v,
        )


o = Adam()
p, st = p0, o.init(p0)
for _ in range(20):
    p, st = o.update(jax.grad(loss)(p, X, y), st, p)
out = [p, st]
results["adam class"] = out

# clip by global norm
g = jax.grad(loss)(p0, X, y)
n = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(g)))
out = [n, jax.tree.map(lambda x: x * jnp.minimum(1.0, 1.0 / n), g)]
results["clip by global norm"] = out


# lr schedule cond
def lr(i):
    return lax.cond(i < 10, lambda: 0.1, lambda: 0.01)


out = jax.vmap(lr)(jnp.arange(20))
results["lr schedule cond"] = out


# warmup cosine piecewise
def sched(t):
    return jnp.where(t < 5, t / 5.0, 0.5 * (1 + jnp.cos(jnp.pi * (t - 5) / 15)))


out = jax.jit(jax.vmap(sched))(jnp.arange(20))
results["warmup cosine piecewise"] = out

# switch sched
out = [lax.switch(i, [lambda x: x, lambda x: x / 2, lambda x: x / 4], 8.0) for i in range(-1, 5)]
results["switch sched"] = out


# early stop while
def cond(c):
    return (c[2] > 1e-3) & (c[1] < 200)


def body(c):
    l, g = jax.value_and_grad(loss)(c[0], X, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, c[0], g), c[1] + 1, l


out = lax.while_loop(cond, body, (p0, 0, jnp.inf))
results["early stop while"] = out


# minibatch dynamic slice
def ep(p, k):
    perm = random.permutation(k, 32)

    def b(p, i):
        idx = lax.dynamic_slice_in_dim(perm, i * 8, 8)
        g = jax.grad(loss)(p, X[idx], y[idx])
        return jax.tree.map(lambda a, b: a - 0.05 * b, p, g), None

    return lax.scan(b, p, jnp.arange(4))


out = lax.scan(ep, p0, random.split(key, 3))
results["minibatch dynamic slice"] = out

# minibatch reshape
out = lax.scan(
    lambda p, b: (jax.tree.map(lambda a, g: a - 0.05 * g, p, jax.grad(loss)(p, *b)), loss(p, *b)),
    p0,
    (X.reshape(4, 8, 4), y.reshape(4, 8)),
)
results["minibatch reshape"] = out

# newton
H = jax.hessian(lambda w: loss({"w": w, "b": 0.1}, X, y))(jnp.zeros(4))
G = jax.grad(lambda w: loss({"w": w, "b": 0.1}, X, y))(jnp.zeros(4))
out = jnp.linalg.solve(H, -G)
results["newton"] = out

# gauss newton jac
r = lambda w: X @ w - y
J = jax.jacfwd(r)(jnp.zeros(4))
out = [J.shape, jnp.linalg.lstsq(J, -r(jnp.zeros(4)))[0]]
results["gauss newton jac"] = out

# hvp cg
hv = lambda v: jax.jvp(jax.grad(lambda w: loss({"w": w, "b": 0.0}, X, y)), (jnp.zeros(4),), (v,))[1]
from stax.scipy.sparse.linalg import cg, gmres, bicgstab

out = [cg(hv, G)[0], gmres(hv, G)[0], bicgstab(hv, G)[0]]
results["hvp cg"] = out

# cg pytree
A = lambda p: {"a": 2 * p["a"], "b": p["b"] * 3 + p["a"].sum() * 0}
out = cg(
    A,
    {"a": jnp.ones(2), "b": jnp.array([3.0])},
    x0={"a": jnp.zeros(2), "b": jnp.zeros(1)},
    tol=1e-8,
    maxiter=10,
    M=lambda p: p,
)
results["cg pytree"] = out

# minimize
from stax.scipy.optimize import minimize


def rosen(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


r = minimize(rosen, jnp.zeros(4), method="BFGS")
out = [r.x, r.success, r.status, r.fun, r.nfev * 0, r.jac.shape, r.hess_inv.shape]
results["minimize"] = out


# minimize jit args tol options
r = jax.jit(
    lambda x, a: minimize(
        lambda x, a: jnp.sum((x - a) ** 2),
        x,
        args=(a,),
        method="BFGS",
        tol=1e-6,
        options=dict(maxiter=50),
    )
)(jnp.zeros(2), jnp.array([1.0, 2.0]))
out = [r.x, r.success]
results["minimize jit args tol options"] = out

# minimize bad
try:
    minimize(rosen, jnp.zeros(4), method="nelder")
    out = "x"
except Exception as e:
    out = type(e).__name__
try:
    minimize(lambda x, a: x.sum(), jnp.zeros(4), args=3.0, method="BFGS")
    out += "x"
except Exception as e:
    out += type(e).__name__
results["minimize bad"] = out


# line search proj grad
def proj(x):
    return x / jnp.maximum(1.0, jnp.linalg.norm(x))


out = lax.fori_loop(
    0,
    30,
    lambda i, x: proj(x - 0.1 * jax.grad(lambda x: ((x - jnp.array([2.0, 1.0])) ** 2).sum())(x)),
    jnp.zeros(2),
)
results["line search proj grad"] = out

# fori unroll reverse
out = jax.grad(lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * x, x))(1.1)
results["fori unroll reverse"] = out

# fori lower>upper neg
out = [
    lax.fori_loop(5, 2, lambda i, c: c + 1, 0),
    lax.fori_loop(-3, 2, lambda i, c: c + i, 0),
    lax.fori_loop(jnp.int32(0), jnp.int32(3), lambda i, c: c + i, jnp.int32(0)),
]
results["fori lower>upper neg"] = out


# fori float carry type err
try:
    out = lax.fori_loop(0, 3, lambda i, c: c + 1.5, 0)
except Exception as e:
    out = type(e).__name__
results["fori float carry type err"] = out

# scan weak promote
out = lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(3.0, dtype=jnp.float32)) if False else 0
results["scan weak promote"] = out

# associative scan ema
out = lax.associative_scan(
    lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jnp.full(6, 0.9), jnp.arange(6.0))
)
results["associative scan ema"] = out

# donate
f = jax.jit(lambda p, g: jax.tree.map(lambda a, b: a - b, p, g), donate_argnums=(0,))
out = f({"a": jnp.ones(2)}, {"a": jnp.ones(2)})
results["donate"] = out

# donate names
f = jax.jit(lambda p, *, lr: p * lr, donate_argnames="p", static_argnames=["lr"])
out = f(jnp.ones(2), lr=2)
results["donate names"] = out

# lamb trust
w = jnp.ones(3)
u = jnp.arange(3.0)
out = w - 0.1 * jnp.where(jnp.linalg.norm(u) > 0, jnp.linalg.norm(w) / jnp.linalg.norm(u), 1.0) * u
results["lamb trust"] = out

# ema params
out = jax.tree.map(lambda e, p: 0.99 * e + 0.01 * p, p0, {"w": jnp.ones(4), "b": 1.0})
results["ema params"] = out

# loss scale inf check
out = jnp.all(
    jnp.array(
        [
            jnp.all(jnp.isfinite(x))
            for x in jax.tree.leaves({"a": jnp.array([1.0, jnp.inf]), "b": jnp.ones(2)})
        ]
    )
)
results["loss scale inf check"] = out

# swag outer
out = jax.vmap(
    lambda lr: lax.fori_loop(
        0, 10, lambda i, p: jax.tree.map(lambda a, b: a - lr * b, p, jax.grad(loss)(p, X, y)), p0
    )
)(jnp.array([0.01, 0.1]))
results["swag outer"] = out

# meta grad through training
out = jax.grad(
    lambda lr: loss(
        lax.fori_loop(
            0,
            10,
            lambda i, p: jax.tree.map(lambda a, b: a - lr * b, p, jax.grad(loss)(p, X, y)),
            p0,
        ),
        X,
        y,
    )
)(0.05)
results["meta grad through training"] = out

# meta grad scan remat
out = jax.grad(
    lambda lr: loss(
        lax.scan(
            jax.checkpoint(
                lambda p, _: (
                    jax.tree.map(lambda a, b: a - lr * b, p, jax.grad(loss)(p, X, y)),
                    None,
                )
            ),
            p0,
            None,
            length=10,
        )[0],
        X,
        y,
    )
)(0.05)
results["meta grad scan remat"] = out
