"""Python control flow under transformations, and lax's structured one."""

from functools import partial

import stax as jax
import stax.numpy as jnp
from stax import grad, jit, lax

results = {}


def f(x):
    if x < 3:
        return 3.0 * x**2
    return -4 * x


results["branches"] = (grad(f)(2.0), grad(f)(4.0))


@jit
def loop(x):
    for _i in range(3):
        x = 2 * x
    return x


results["loop"] = loop(3)


@jit
def over(x):
    y = 0.0
    for i in range(x.shape[0]):
        y = y + x[i]
    return y


results["over"] = over(jnp.array([1.0, 2.0, 3.0]))
static = jit(f, static_argnames="x")
results["static"] = static(2.0)


def g(x, n):
    y = 0.0
    for i in range(n):
        y = y + x[i]
    return y


results["static_n"] = jit(g, static_argnames="n")(jnp.array([2.0, 3.0, 4.0]), 2)
try:
    jit(f)(2)
except jax.errors.ConcretizationTypeError:
    results["refused"] = 1


def example(length, val):
    return jnp.ones((length,)) * val


results["example"] = jit(example, static_argnums=0)(5, 4)
operand = jnp.array([0.0])
results["cond"] = (
    lax.cond(True, lambda x: x + 1, lambda x: x - 1, operand),
    lax.cond(False, lambda x: x + 1, lambda x: x - 1, operand),
)
init_val = 0
results["while"] = lax.while_loop(lambda x: x < 10, lambda x: x + 1, init_val)
results["fori"] = lax.fori_loop(0, 10, lambda i, x: x + i, 0)
results["switch"] = [
    lax.switch(i, [lambda x: x, lambda x: x**2, lambda x: -x], 3.0) for i in (-1, 0, 1, 2, 5)
]


def cumulative(carry, x):
    carry = carry + x
    return carry, carry * 2


results["scan"] = lax.scan(cumulative, 0.0, jnp.arange(4.0))
results["scan_reverse"] = lax.scan(cumulative, 0.0, jnp.arange(4.0), reverse=True)
results["map"] = lax.map(lambda x: x**2, jnp.arange(4.0))
results["associative"] = lax.associative_scan(jnp.add, jnp.arange(5.0))


def rnn(params, xs):
    W, U, b = params

    def step(h, x):
        h = jnp.tanh(W @ h + U @ x + b)
        return h, h

    return lax.scan(step, jnp.zeros(3), xs)[1].sum()


params = (jnp.eye(3) * 0.5, jnp.ones((3, 2)) * 0.1, jnp.arange(3.0) * 0.01)
xs = jnp.arange(8.0).reshape(4, 2) / 8
results["rnn"] = jit(grad(rnn))(params, xs)


@partial(jit, static_argnums=(1,))
def power(x, n):
    return lax.fori_loop(0, n, lambda i, y: y * x, 1.0)


results["power"] = grad(power)(3.0, 4)
results["where"] = jnp.where(jnp.array([True, False]), jnp.array([1.0, 2.0]), 0.0)
results["select"] = lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2))
results["bounded"] = jax.vmap(lambda x: lax.while_loop(lambda v: v < 100, lambda v: v * 2, x))(
    jnp.array([1.0, 30.0, 200.0])
)
results["vmap_cond"] = jax.vmap(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(
    jnp.array([-1.0, 2.0])
)
results["fib"] = lax.fori_loop(0, 20, lambda i, ab: (ab[1], ab[0] + ab[1]), (0, 1))
