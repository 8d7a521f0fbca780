"""Checks of values that survive jit, vmap, grad and loops, as results."""

import stax as jax
import stax.numpy as jnp
from stax import lax
from stax.experimental import checkify

results = {}


def both(name, f, *args, errors=checkify.user_checks, wrap=jax.jit):
    err, out = wrap(checkify.checkify(f, errors=errors))(*args)
    text = err.get()
    results[name] = [None if text is None else text.strip(), out]


def log(x):
    checkify.check(x > 0, "x must be positive, got {} and {y}", x, y=x + 1)
    return jnp.log(x)


x = jnp.arange(3.0)
one, minus, zero = jnp.array(1.0), jnp.array(-1.0), jnp.array(0.0)
both("holds", log, one)
both("fails", log, minus)
both("first of two", lambda x: (log(x), checkify.check(x > 5, "second"))[0], minus)
both("second of two", lambda x: (log(x), checkify.check(x > 5, "second"))[0], one)
both("array", lambda x: (checkify.check(jnp.all(x > 0), "in {a}", a=x), x.sum())[1], x)
both("nan", lambda x: jnp.sin(x) + 1, jnp.array(jnp.inf), errors=checkify.nan_checks)
both("no nan", lambda x: jnp.sin(x) + 1, one, errors=checkify.nan_checks)
both("nan not looked for", lambda x: jnp.log(x), minus)
both("branch not taken", lambda x: jnp.where(x > 0, jnp.log(x), 0.0), minus,
     errors=checkify.nan_checks)  # fmt: skip
both("division", lambda x, y: x / y, one, zero, errors=checkify.div_checks)
both("both floats", lambda x, y: x / y, zero, zero, errors=checkify.float_checks)
for i in (1, 5, -1):
    both(f"read {i}", lambda x, i: x[i], x, jnp.array(i), errors=checkify.index_checks)
    both(f"write {i}", lambda x, i: x.at[i].set(7.0), x, jnp.array(i), errors=checkify.index_checks)
both("reads", lambda x, i: x[i], x, jnp.array([0, 7, 9]), errors=checkify.index_checks)
both("two axes", lambda x, i: x[i, i + 1], jnp.ones((3, 3)), jnp.array([0, 2, 1]),
     errors=checkify.index_checks)  # fmt: skip
both("window", lambda x, i: lax.dynamic_slice(x, (i,), (2,)), x, jnp.array(2),
     errors=checkify.index_checks)  # fmt: skip


def step(c, x):
    checkify.check(x < 3, "bad x {}", x)
    return c + x, c * x


both("scan", lambda xs: lax.scan(step, 0.0, xs), jnp.arange(6.0))
both("scan holds", lambda xs: lax.scan(step, 0.0, xs), jnp.arange(3.0))


def count(i):
    checkify.check(i != 2, "i is {}", i)
    return i + 1


def going(n, i):
    checkify.check(i < 4, "asked at {}", i)
    return i < n


both("while", lambda n: lax.while_loop(lambda i: i < n, count, 0), jnp.array(5))
both("while, condition", lambda n: lax.while_loop(lambda i: going(n, i), lambda i: i + 1, 0),
     jnp.array(5))  # fmt: skip
both("while, both", lambda n: lax.while_loop(lambda i: going(n, i), count, 3), jnp.array(6))
both("fori", lambda n: lax.fori_loop(0, n, lambda i, c: count(i) + c, 0), jnp.array(5))


def negative(x):
    checkify.check(x < 0, "not negative: {}", x)
    return x


for p in (True, False):
    both(f"cond {p}", lambda p: lax.cond(p, negative, lambda x: -x, 3.0), jnp.array(p))
both("inside vmap", lambda xs: jax.vmap(step)(xs, xs), jnp.arange(4.0))
both("outside vmap", log, jnp.array([1.0, -2.0, -3.0]), wrap=jax.vmap)
both("outside vmap, holds", log, jnp.array([1.0, 2.0]), wrap=jax.vmap)
both("jit of vmap", log, jnp.array([[1.0, -2.0]]), wrap=lambda f: jax.jit(jax.vmap(jax.vmap(f))))
both("inside grad", jax.grad(log), minus)
both("nan of grad", jax.grad(lambda x: jnp.sqrt(x) * x), minus, errors=checkify.nan_checks)
results["grad outside"] = jax.grad(lambda x: checkify.checkify(log)(x)[1])(3.0)
both("inside checkpoint", jax.grad(jax.checkpoint(log)), minus)
both("custom rule", jax.grad(lambda x: jax.nn.relu(log(x)) ** 2), jnp.array(3.0),
     errors=checkify.all_checks)  # fmt: skip


def nested(x):
    err, y = checkify.checkify(log)(x)
    checkify.check_error(err)
    return y


both("nested", nested, minus)
both("nested, holds", nested, one)
both("both kinds", log, minus, errors=checkify.user_checks | checkify.float_checks)
both("debug", lambda x: checkify.debug_check(x > 0, "debug"), minus)
try:
    checkify.checkify(log)(minus)[0].throw()
except checkify.JaxRuntimeError as error:
    results["thrown"] = str(error).splitlines()[0]
try:
    log(minus)
except checkify.JaxRuntimeError as error:
    results["raised"] = str(error).splitlines()[0]
results["no error"] = checkify.init_error.get() is None
