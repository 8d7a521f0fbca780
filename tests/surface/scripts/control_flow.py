"""cond, switch, while, fori, scan, associative_scan, map and select, nested."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, jit, grad, vmap
from functools import partial

results = {}
results["cond"] = [
    lax.cond(True, lambda x: x + 1, lambda x: x - 1, jnp.array([0.0])),
    lax.cond(False, lambda x: x + 1, lambda x: x - 1, jnp.array([0.0])),
]
results["cond2"] = jit(lambda p, a, b: lax.cond(p, lambda a, b: a * b, lambda a, b: a - b, a, b))(
    True, 3.0, 4.0
)
results["cond0"] = lax.cond(jnp.array(1.0) > 0, lambda: 1.0, lambda: 2.0)
results["condop"] = lax.cond(True, lambda t: t["a"], lambda t: t["b"], {"a": 1.0, "b": 2.0})
results["condkw"] = (
    lax.cond(pred=False, true_fun=lambda x: x, false_fun=lambda x: -x, operand=3.0)
    if False
    else lax.cond(False, lambda x: x, lambda x: -x, operand=3.0)
)
results["gcond"] = [
    grad(lambda x: lax.cond(x > 0, lambda x: x**2, lambda x: -x, x))(v) for v in (3.0, -3.0)
]
results["vcond"] = vmap(lambda x: lax.cond(x > 0, jnp.sqrt, jnp.zeros_like, x))(
    jnp.array([-1.0, 4.0])
)
results["switch"] = [
    lax.switch(i, [lambda x: x, lambda x: 2 * x, lambda x: x**2], 3.0) for i in (-1, 0, 1, 2, 5)
]
results["vswitch"] = vmap(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0]))(jnp.array([0, 1, 7]))
results["while"] = lax.while_loop(lambda x: x < 10, lambda x: x + 1, 0.0)
results["whilet"] = jit(
    lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, 1.0))
)(5)
results["vwhile"] = vmap(
    lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, 1.0))
)(jnp.array([1, 5, 0]))
results["jwhile"] = jax.jvp(
    lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * x, 1.0), (2.0,), (1.0,)
)
results["fori"] = lax.fori_loop(0, 5, lambda i, v: v + i, 0)
results["forig"] = grad(lambda x: lax.fori_loop(0, 5, lambda i, v: v * x + i, 1.0))(1.5)
results["foridyn"] = jit(lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 0.5 + x, 1.0))(4, 2.0)
results["foriat"] = lax.fori_loop(0, 5, lambda i, a: a.at[i].set(i**2), jnp.zeros(5))
results["foriat2"] = lax.fori_loop(1, 6, lambda i, a: a.at[i].add(a[i - 1]), jnp.ones(6))


def step(carry, x):
    h, n = carry
    h = jnp.tanh(h + x["u"])
    return (h, n + 1), {"h": h, "y": h * x["v"]}


xs = {"u": jnp.arange(4.0), "v": jnp.ones((4, 2))}
results["scan"] = lax.scan(step, (jnp.zeros(2), 0), xs)
results["scanr"] = lax.scan(step, (jnp.zeros(2), 0), xs, reverse=True, unroll=2)
results["scann"] = lax.scan(lambda c, _: (c * 2, c), 1, None, length=5)
results["scani"] = lax.scan(lambda c, i: (c + i, c * i), 0, jnp.arange(5))
results["scang"] = grad(lambda h: jnp.sum(lax.scan(step, (h, 0), xs)[1]["y"]))(jnp.ones(2))
results["scanv"] = vmap(lambda h: lax.scan(step, (h, 0), xs)[0][0])(jnp.ones((3, 2)))
results["cum"] = [
    lax.cumsum(jnp.arange(6.0).reshape(2, 3), axis=1),
    lax.cumprod(jnp.arange(1.0, 5.0), reverse=True),
    lax.cummax(jnp.array([1, 3, 2])),
    lax.cummin(jnp.array([3, 1, 2])),
    lax.cumlogsumexp(jnp.array([3.0, 1, 2])),
]
results["assoc"] = lax.associative_scan(jnp.add, jnp.arange(5.0))
results["assoc2"] = lax.associative_scan(
    lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jnp.full(5, 0.5), jnp.arange(5.0))
)
results["assocr"] = lax.associative_scan(
    jnp.multiply, jnp.arange(1.0, 7.0).reshape(2, 3), reverse=True, axis=1
)
results["assocm"] = vmap(lambda z: z)(
    lax.associative_scan(jnp.matmul, jnp.stack([jnp.eye(2) * k for k in range(1, 5)]))
)
results["map"] = lax.map(lambda x: x**2 + 1, jnp.arange(4.0))
results["mapb"] = lax.map(lambda t: t[0] * t[1], (jnp.arange(5.0), jnp.ones(5)), batch_size=2)
results["sel"] = [
    lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2)),
    lax.select_n(jnp.array([0, 2, 1]), jnp.zeros(3), jnp.ones(3), 2 * jnp.ones(3)),
    jnp.select([jnp.arange(4) < 1, jnp.arange(4) > 2], [jnp.ones(4), 2 * jnp.ones(4)], 7.0),
    jnp.piecewise(jnp.arange(4.0), [jnp.arange(4.0) < 2], [lambda x: -x, lambda x: x**2]),
]


@jit
def f(x):
    for i in range(3):
        x = 2 * x
    return x


results["py"] = f(3)
results["g"] = grad(lambda x: 3.0 * x**2 if x < 3 else -4 * x)(2.0)


@partial(jit, static_argnums=0)
def h(n, x):
    y = 0.0
    for i in range(n):
        y = y + x[i]
    return y


results["loop"] = h(2, jnp.array([2.0, 3.0, 4.0]))
results["foriwhile"] = jit(
    lambda x: lax.while_loop(lambda s: jnp.any(s > 1), lambda s: jnp.where(s > 1, s / 2, s), x)
)(jnp.array([3.0, 9.0]))


def collatz(n):
    return lax.while_loop(
        lambda c: c[0] != 1,
        lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
        (n, 0),
    )[1]


results["collatz"] = [collatz(27), vmap(collatz)(jnp.arange(1, 8))]


def nested(x):
    return lax.fori_loop(
        0,
        3,
        lambda i, x: lax.cond(
            i % 2 == 0, lambda x: lax.fori_loop(0, i + 1, lambda j, y: y + j, x), lambda x: x * 2, x
        ),
        x,
    )


results["nested"] = [nested(1.0), jit(nested)(1.0), jax.jvp(nested, (1.0,), (1.0,))]
results["fib"] = lax.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (0, 1), length=10)[1]
results["scanx"] = lax.scan(
    lambda c, xy: (c + xy[0] @ xy[1], None),
    jnp.zeros((2, 2)),
    (jnp.ones((3, 2, 4)), jnp.ones((3, 4, 2))),
)
results["none"] = lax.scan(lambda c, x: (None, x), None, jnp.arange(3))
results["ckpt"] = grad(
    lambda x: lax.scan(jax.checkpoint(lambda c, _: (jnp.sin(c), None)), x, None, length=10)[0]
)(1.0)
results["iflt"] = lax.fori_loop(np.int32(0), np.int32(3), lambda i, x: x + 1, 0)
results["bisect"] = jit(
    lambda lo, hi: lax.fori_loop(
        0,
        60,
        lambda _, b: (lambda m: lax.cond(m**3 - m - 2 > 0, lambda: (b[0], m), lambda: (m, b[1])))(
            0.5 * (b[0] + b[1])
        ),
        (lo, hi),
    )
)(1.0, 2.0)
results["clamp"] = lax.clamp(0.0, jnp.array([-1.0, 0.5, 3.0]), 1.0)
results["and"] = [
    jnp.logical_and(True, jnp.array([True, False])),
    jnp.all(jnp.array([1, 0])),
    jnp.any(jnp.array([1, 0])),
]
results["reduce_and"] = [
    lax.reduce_and(jnp.array([True, False]), (0,)),
    lax.reduce_or(jnp.array([True, False]), (0,)),
    lax.reduce_max(jnp.arange(6).reshape(2, 3), (1,)),
    lax.reduce_xor(jnp.array([1, 3, 6]), (0,)),
]
