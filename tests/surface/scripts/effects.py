"""Callbacks, prints, staging, errors caught by class, samplers."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, jit, vmap, grad, random
from stax.experimental import io_callback
import functools, io, contextlib

r = {}


@jit
def f(x):
    jax.debug.print("x = {x} and {}", x.sum(), x=x[0], ordered=True)
    y = jnp.sin(x)
    jax.debug.callback(lambda v: log.append(float(v)), y.sum(), ordered=True)
    return y


log = []
r["f"] = f(jnp.arange(3.0))
jax.effects_barrier()
r["log"] = log


def host(x):
    return np.sinh(x)


@jax.custom_jvp
def sinh(x):
    return jax.pure_callback(
        host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"
    )


sinh.defjvp(lambda p, t: (sinh(p[0]), jnp.cosh(p[0]) * t[0]))
r["pc"] = [
    jit(sinh)(jnp.arange(3.0)),
    jit(vmap(sinh))(jnp.arange(4.0)),
    grad(lambda x: sinh(x).sum())(jnp.arange(3.0)),
]
r["pc2"] = vmap(
    lambda x: jax.pure_callback(
        lambda v: v * 2, jax.ShapeDtypeStruct((), jnp.float64), x, vmap_method="broadcast_all"
    )
)(jnp.arange(3.0))
rng = np.random.default_rng(0)
seen = []


def put(v):
    seen.append(np.asarray(v).tolist())
    return np.int32(len(seen))


@jit
def g(x):
    return lax.scan(
        lambda c, i: (
            c + io_callback(put, jax.ShapeDtypeStruct((), jnp.int32), i, ordered=True),
            c,
        ),
        jnp.int32(0),
        x,
    )


r["io"] = g(jnp.arange(4))
r["seen"] = seen


with jax.disable_jit():
    r["nojit"] = jit(lambda x: float(x) + 1)(2.0)
jx = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(jnp.float64(1))
r["jx"] = [
    len(jx.jaxpr.eqns),
    len(jx.jaxpr.invars),
    [e.primitive.name for e in jx.jaxpr.eqns],
    jx.jaxpr.outvars[0].aval.shape == (),
    str(jx.out_avals[0].dtype),
]
sh = jax.eval_shape(
    lambda a, b: {"o": a @ b},
    jax.ShapeDtypeStruct((3, 4), jnp.float32),
    jax.ShapeDtypeStruct((4, 5), jnp.float32),
)
r["es"] = [list(sh["o"].shape), str(sh["o"].dtype)]
low = jit(lambda x: x + 1).lower(jnp.ones(3))
comp = low.compile()
r["aot"] = comp(jnp.arange(3.0))
r["astext"] = len(low.as_text()) > 0
n = 0


@jit
def counted(x):
    global n
    n += 1
    return x * 2


for v in (1.0, 2.0, jnp.ones(3), jnp.zeros(3)):
    counted(v)
r["traces"] = n
with jax.named_scope("hi"):
    r["ns"] = jit(jax.named_call(lambda x: x + 1, name="q"))(1)
try:
    jit(lambda x: 1 if x > 0 else 2)(1.0)
    r["e1"] = ""
except jax.errors.TracerBoolConversionError:
    r["e1"] = "bool"
try:
    jit(lambda x: np.sin(np.asarray(x)))(1.0)
    r["e2"] = ""
except jax.errors.TracerArrayConversionError:
    r["e2"] = "array"
try:
    jit(lambda n: jnp.zeros(n))(3)
    r["e3"] = ""
except TypeError:
    r["e3"] = "type"
try:
    jit(lambda x: x[x > 0])(jnp.arange(3))
    r["e4"] = ""
except jax.errors.NonConcreteBooleanIndexError:
    r["e4"] = "nb"
try:
    jit(lambda x: [1, 2, 3][x])(0)
    r["e5"] = ""
except jax.errors.TracerIntegerConversionError:
    r["e5"] = "int"
leak = []
jit(lambda x: leak.append(x) or x)(1.0)
try:
    leak[0] + 1
    r["e6"] = ""
except jax.errors.UnexpectedTracerError:
    r["e6"] = "leak"
try:
    jit(lambda x, n: x, static_argnums=1)(1.0, np.ones(2))
    r["e7"] = ""
except ValueError:
    r["e7"] = "hash"
try:
    lax.scan(lambda c, x: (c.astype(jnp.float32), x), jnp.float64(0), jnp.ones(2))
    r["e8"] = ""
except TypeError:
    r["e8"] = "carry"
try:
    lax.cond(True, lambda: jnp.ones(2), lambda: jnp.ones(3))
    r["e9"] = ""
except TypeError:
    r["e9"] = "branch"
try:
    grad(lambda x: x)(jnp.ones(2))
    r["e10"] = ""
except TypeError:
    r["e10"] = "scalar"
try:
    grad(lambda x: x * 1.0)(1)
    r["e11"] = ""
except TypeError:
    r["e11"] = "int"
try:
    vmap(lambda a, b: a + b)(jnp.ones(2), jnp.ones(3))
    r["e12"] = ""
except ValueError:
    r["e12"] = "sizes"
r["dp"] = [
    jax.device_count() > 0,
    jax.local_device_count() >= 1,
    jax.process_index(),
    jax.default_backend() in ("cpu", "gpu"),
]
r["x"] = jax.device_get(jax.device_put(jnp.arange(3)))
r["isarr"] = isinstance(jnp.ones(2), jax.Array)
r["live"] = jax.block_until_ready({"a": jnp.ones(2)})
key = random.key(0)
r["key"] = [random.key_data(key), random.key_data(random.clone(key)), str(random.key_impl(key))]
r["wrap"] = random.normal(random.wrap_key_data(jnp.array([0, 1], jnp.uint32)), (2,))

r["bits"] = [
    random.bits(key, (3,)),
    random.bits(key, (2,), jnp.uint8),
    random.rademacher(key, (4,)),
    random.ball(key, 2, shape=(3,)),
    random.orthogonal(key, 2),
    random.maxwell(key, (2,)),
    random.permutation(key, jnp.arange(6).reshape(3, 2), axis=1, independent=True),
]
r["samp"] = [
    random.beta(key, 2.0, 3.0, (2,)),
    random.gamma(key, 2.0, (2,)),
    random.poisson(key, 3.0, (4,)),
    random.exponential(key, (2,)),
    random.laplace(key, (2,)),
    random.cauchy(key, (2,)),
    random.t(key, 3.0, (2,)),
    random.logistic(key, (2,)),
    random.pareto(key, 2.0, (2,)),
    random.weibull_min(key, 1.0, 2.0, (2,)),
    random.rayleigh(key, 1.0, (2,)),
    random.chisquare(key, 3.0, shape=(2,)),
    random.geometric(key, 0.3, (3,)),
    random.binomial(key, 10, 0.4, (3,)),
    random.triangular(key, 0.0, 0.5, 1.0, (2,)),
    random.lognormal(key, shape=(2,)),
    random.wald(key, 1.0, (2,)),
    random.generalized_normal(key, 1.5, (2,)),
    random.f(key, 2.0, 3.0, (2,)),
    random.double_sided_maxwell(key, 0.0, 1.0, (2,)),
    random.multinomial(key, 10.0, jnp.array([0.2, 0.8])),
    random.loggamma(key, 0.5, (2,)),
]
results = r
