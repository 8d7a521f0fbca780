"""Prints, callbacks, jaxprs, lowering, switches, profiler annotations."""

import stax as jax
import stax.numpy as jnp
import numpy as np
import functools

results = {}


@jax.jit
def f(x):
    jax.debug.print("x: {}", x)
    jax.debug.print("x: {x} {y:.2f}", x=x, y=x.sum(), ordered=True)
    return x * 2


results["print"] = f(jnp.arange(3))
seen = []


def cb(v, tag=None):
    seen.append((np.asarray(v).tolist(), tag))


@jax.jit
def g(x):
    jax.debug.callback(cb, x, tag="t")
    jax.debug.callback(functools.partial(cb, tag="p"), x + 1, ordered=True)
    return x


g(1.0)
jax.effects_barrier()
results["seen"] = sorted(map(str, seen))
jax.vmap(g)(jnp.arange(2.0))
results["nseen"] = len(seen)


def host(x):
    return np.sin(x) * 2


results["pure"] = jax.jit(
    lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((3,), jnp.float64), x)
)(jnp.arange(3.0))
results["pure2"] = jax.jit(
    lambda x: jax.pure_callback(
        lambda a: (np.sum(a), np.max(a)),
        (jax.ShapeDtypeStruct((), x.dtype), jax.ShapeDtypeStruct((), x.dtype)),
        x,
    )
)(jnp.arange(3.0))
results["purev"] = jax.vmap(
    lambda x: jax.pure_callback(
        host, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential"
    )
)(jnp.arange(3.0))
from stax.experimental import io_callback

cnt = []
results["io"] = jax.jit(
    lambda x: io_callback(
        lambda v: (cnt.append(1), np.float64(v + 1))[1],
        jax.ShapeDtypeStruct((), jnp.float64),
        x,
        ordered=True,
    )
)(1.0)


@jax.jit
def pd(x):
    jax.lax.cond(x > 0, lambda _: jax.debug.print("pos {x}", x=x), lambda _: None, 0)
    return x


results["pd"] = pd(1.0)
results["dis"] = []
with jax.disable_jit():

    def loopy(x):
        while x < 10:
            x = x * 2
        return x

    results["dis"].append(jax.jit(loopy)(1.0))
results["named"] = jax.jit(jax.named_call(lambda x: x + 1, name="inc"))(1.0)
with jax.named_scope("abc"):
    results["scope"] = jnp.sin(1.0)


@jax.named_scope("deco")
def deco(x):
    return x * 3


results["deco"] = deco(2.0)
jp = jax.make_jaxpr(lambda x, y: (x @ y).sum())(jnp.ones((2, 3)), jnp.ones(3))
results["jp"] = [len(jp.jaxpr.eqns) > 0, len(jp.jaxpr.invars), len(jp.jaxpr.outvars)]
results["avals"] = [list(a.shape) for a in jp.in_avals] + [list(a.shape) for a in jp.out_avals]
sh = jax.eval_shape(
    lambda p, x: {"o": x @ p["w"]},
    {"w": jax.ShapeDtypeStruct((3, 4), jnp.float32)},
    jax.ShapeDtypeStruct((2, 3), jnp.float32),
)
results["es"] = [list(sh["o"].shape), sh["o"].dtype.name, sh["o"].ndim, sh["o"].size]
low = jax.jit(lambda x: jnp.sin(x) + 1).lower(jnp.ones(3))
comp = low.compile()
results["comp"] = [
    comp(jnp.zeros(3)),
    isinstance(low.as_text(), str),
    isinstance(comp.cost_analysis(), (dict, list, type(None))),
]
tr = jax.jit(lambda x: x).trace(1.0)
results["trace"] = isinstance(str(tr.jaxpr), str)
results["isT"] = jax.jit(lambda x: (lambda: x + isinstance(x, jax.core.Tracer))())(1.0)
leak = []


def lk(x):
    leak.append(x)
    return x


jax.jit(lk)(1.0)
try:
    leak[0] + 1
    results["leak"] = 0
except jax.errors.UnexpectedTracerError:
    results["leak"] = 1
with jax.checking_leaks():
    results["cl"] = jax.jit(lambda x: x + 1)(1.0)
with jax.debug_nans(False):
    results["nan"] = jnp.log(-1.0)
with jax.debug_infs(False):
    results["inf"] = jnp.log(0.0)
with jax.default_matmul_precision("float32"):
    results["mm"] = jnp.ones((2, 2)) @ jnp.ones((2, 2))
with jax.numpy_dtype_promotion("standard"):
    results["promo"] = jnp.ones(2) + 1
with jax.log_compiles(False):
    results["lc"] = 1
with jax.transfer_guard("allow"):
    results["tg"] = 1
with jax.numpy_rank_promotion("allow"):
    results["rp"] = jnp.ones((2, 2)) + jnp.ones(2)
jax.clear_caches()
fj = jax.jit(lambda x: x + 1)
fj(1.0)
fj.clear_cache()
results["cc"] = fj(2.0)
with jax.profiler.TraceAnnotation("x"):
    results["prof"] = 1


@jax.profiler.annotate_function
def ann(x):
    return x


results["ann"] = ann(1)
from stax.ad_checkpoint import print_saved_residuals, checkpoint_name

print_saved_residuals(lambda x: jnp.sin(jnp.sin(x)), 1.0)
results["ver"] = isinstance(jax.__version__, str)
results["ce"] = jax.closure_convert(lambda x: x + 1, 1.0)[0](2.0)
results["wrapped"] = fj.__wrapped__(1.0)
results["dev"] = [
    jax.device_count() >= 1,
    jax.default_backend() == "cpu",
    jax.local_device_count() >= 1,
    str(jax.devices()[0].platform),
]
results["cache"] = fj._cache_size() if hasattr(fj, "_cache_size") else 1
with jax.default_device(jax.devices("cpu")[0]):
    results["dd"] = jnp.ones(1)
results["put"] = jax.device_put({"a": np.ones(2)}, jax.devices()[0])
results["put2"] = jax.device_put(jnp.ones(2), device=jax.devices("cpu")[0])
results["typeof"] = [list(jax.typeof(jnp.ones(2)).shape)]
results["env"] = jax.config.values is not None if hasattr(jax.config, "values") else True
