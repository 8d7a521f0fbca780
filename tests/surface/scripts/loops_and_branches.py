"""Loops and branches from the small to automata, sieves and edit distances."""

import stax as jax
import stax.numpy as jnp
import numpy as np
import operator
from stax import grad, jit, lax, random, vmap
from functools import partial

r = {}


def f(x):
    return 3.0 * x**2 if x < 3 else -4 * x


r["pw"] = [grad(f)(2.0), grad(f)(4.0)]
g = jit(f, static_argnums=(0,))
r["pws"] = g(2.0)
try:
    jit(f)(2)
    r["err"] = "none"
except jax.errors.ConcretizationTypeError as e:
    r["err"] = "concretization"


def fl(x, n):
    y = 0.0
    for i in range(n):
        y = y + x[i]
    return y


r["loop"] = jit(fl, static_argnums=(1,))(jnp.array([2.0, 3.0, 4.0]), 2)
r["loopn"] = jit(fl, static_argnames="n")(jnp.array([2.0, 3.0, 4.0]), n=3)
r["ex"] = jit(lambda l, v: jnp.ones((l,)) * v, static_argnums=(0,))(3, 5.0)
op = jnp.array([0.0])
r["cond"] = [
    lax.cond(True, lambda x: x + 1, lambda x: x - 1, op),
    lax.cond(False, lambda x: x + 1, lambda x: x - 1, op),
]
r["cond3"] = lax.cond(
    jnp.array(3) > 2, lambda a, b: a @ b, lambda a, b: (a - b).sum(), jnp.arange(3.0), jnp.ones(3)
)
r["sw"] = [
    lax.switch(i, [lambda x: x, lambda x: x * 2, lambda x: -x], 3.0) for i in (-3, 0, 1, 2, 9)
]
r["swv"] = vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x))(
    jnp.array([0, 2, 1, 1]), jnp.linspace(0, 1, 4)
)
r["swg"] = vmap(grad(lambda x, i: lax.switch(i, (jnp.sin, jnp.cos, jnp.tanh), x)), (None, 0))(
    0.3, jnp.arange(3)
)
r["while"] = lax.while_loop(lambda x: x < 10, lambda x: x + 1, 0)
r["fori"] = lax.fori_loop(0, 10, lambda i, x: x + i, 0)
r["foriv"] = jit(lambda n: lax.fori_loop(0, n, lambda i, x: x * 2 + i, 1))(5)
r["sel"] = jnp.select(
    [jnp.array([True, False, False]), jnp.array([False, True, False])],
    [jnp.zeros(3), jnp.ones(3)],
    7,
)
r["pw2"] = jnp.piecewise(
    jnp.linspace(-2, 2, 5), [jnp.linspace(-2, 2, 5) < 0], [lambda x: -x, lambda x: x**2]
)


# python logic with jit
def even(n):
    return not (n % 2)


r["even"] = even(3)
r["colla"] = vmap(
    lambda n: lax.while_loop(
        lambda c: c[0] != 1,
        lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
        (n, 0),
    )[1]
)(jnp.arange(1, 20))
r["gcd"] = vmap(
    lambda a, b: lax.while_loop(lambda ab: ab[1] > 0, lambda ab: (ab[1], ab[0] % ab[1]), (a, b))[0]
)(jnp.array([12, 35, 81]), jnp.array([18, 49, 27]))
r["mandel"] = vmap(
    vmap(
        lambda c: lax.while_loop(
            lambda s: (jnp.abs(s[0]) < 2) & (s[1] < 30),
            lambda s: (s[0] ** 2 + c, s[1] + 1),
            (0j * c, 0),
        )[1]
    )
)((jnp.linspace(-2, 1, 7)[:, None] + 1j * jnp.linspace(-1, 1, 5)))


def rule30(cells, _):
    l, rr = jnp.roll(cells, 1), jnp.roll(cells, -1)
    return (l ^ (cells | rr)), cells


r["ca"] = lax.scan(rule30, jnp.zeros(31, jnp.int32).at[15].set(1), None, length=12)[1]
table = jnp.array([int(b) for b in f"{110:08b}"][::-1])
r["ca110"] = lax.scan(
    lambda c, _: (table[4 * jnp.roll(c, 1) + 2 * c + jnp.roll(c, -1)], c),
    jnp.zeros(20, int).at[-1].set(1),
    length=10,
)[1]


def life(b):
    n = lax.conv(
        b[None, None], jnp.array([[[[1, 1, 1], [1, 0, 1], [1, 1, 1]]]], b.dtype), (1, 1), "SAME"
    )[0, 0]
    return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)


r["life"] = lax.fori_loop(
    0,
    5,
    lambda i, b: life(b),
    random.bernoulli(random.PRNGKey(0), 0.4, (10, 10)).astype(jnp.float32),
)
r["bub"] = jit(
    lambda a: lax.fori_loop(
        0,
        a.size,
        lambda i, a: lax.fori_loop(
            0,
            a.size - 1,
            lambda j, a: lax.cond(
                a[j] > a[j + 1], lambda a: a.at[j].set(a[j + 1]).at[j + 1].set(a[j]), lambda a: a, a
            ),
            a,
        ),
        a,
    )
)(jnp.array([5, 2, 9, 1, 7]))
r["bis"] = jit(
    lambda k: lax.fori_loop(
        0,
        40,
        lambda i, lh: (
            lambda m: jax.tree.map(partial(jnp.where, m**3 < k), (m, lh[1]), (lh[0], m))
        )((lh[0] + lh[1]) / 2),
        (0.0, k),
    )
)(2.0)
r["edit"] = jit(
    lambda a, b: lax.scan(
        lambda row, ca: (lambda new: (new, None))(
            jnp.concatenate(
                [
                    row[:1] + 1,
                    lax.scan(
                        lambda left, x: (lambda v: (v, v))(
                            jnp.minimum(jnp.minimum(left + 1, x[1] + 1), x[0] + (x[2] != ca))
                        ),
                        row[0] + 1,
                        (row[:-1], row[1:], b),
                    )[1],
                ]
            )
        ),
        jnp.arange(len(b) + 1),
        a,
    )[0][-1]
)(jnp.array([1, 2, 3, 4, 5]), jnp.array([1, 3, 3, 5, 6, 7]))
r["sieve"] = lax.fori_loop(
    2,
    8,
    lambda i, s: jnp.where((jnp.arange(50) % i == 0) & (jnp.arange(50) > i), False, s),
    jnp.ones(50, bool).at[:2].set(False),
)
r["map"] = lax.map(
    lambda xy: xy[0] @ xy[1], (jnp.arange(12.0).reshape(4, 3), jnp.ones((4, 3))), batch_size=2
)
r["assoc"] = lax.associative_scan(jnp.maximum, jnp.array([1.0, 5.0, 2.0, 7.0, 3.0]), reverse=True)
r["dyn"] = [
    lax.dynamic_slice(jnp.arange(12).reshape(3, 4), (1, 3), (2, 2)),
    lax.dynamic_update_slice(jnp.zeros(5), jnp.ones(3), (4,)),
]
r["unroll"] = lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(7.0), unroll=3)
r["cumop"] = [
    lax.cumsum(jnp.arange(5), reverse=True),
    lax.cumlogsumexp(jnp.arange(4.0)),
    lax.cummax(jnp.array([1, 3, 2])),
]
r["reduce"] = lax.reduce(
    jnp.arange(12.0).reshape(3, 4), 1.0, operator.mul if False else lax.mul, (0,)
)
r["grads"] = grad(lambda x: lax.fori_loop(0, 5, lambda i, y: y * x + i, 1.0))(1.3)
r["jacs"] = jax.jacfwd(lambda x: lax.while_loop(lambda y: jnp.sum(y) < 10, lambda y: y * x, x))(
    jnp.array([1.5, 1.2])
)
r["xor"] = jit(lambda x: lax.reduce(x, jnp.int32(0), lax.bitwise_xor, (0,)))(
    jnp.array([1, 5, 7], jnp.int32)
)
r["andnot"] = jnp.where(jnp.array([1, 0]) & ~jnp.array([0, 1]), 3, 4)
results = r
