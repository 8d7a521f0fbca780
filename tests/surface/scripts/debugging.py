"""Seeing inside: prints, callbacks, shapes without running, jaxprs, disable_jit, errors."""

import numpy as np

import stax as jax
import stax.numpy as jnp

results = {}


@jax.jit
def f(x):
    jax.debug.print("x = {x}", x=x)
    y = jnp.sin(x)
    jax.debug.print("y has mean {:.3f}", y.mean())
    return y


results["f"] = f(jnp.arange(3.0))
seen = []
jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(float(v)), x))(2.5)
jax.effects_barrier()
results["seen"] = seen


def host_sin(x):
    return jax.pure_callback(
        np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims"
    )


results["callback"] = jax.jit(host_sin)(jnp.arange(3.0))
results["callback_vmap"] = jax.vmap(host_sin)(jnp.arange(3.0))
shape = jax.eval_shape(
    lambda a, b: a @ b, jnp.ones((2, 3)), jax.ShapeDtypeStruct((3, 4), jnp.float32)
)
results["shape"] = list(shape.shape)
jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
results["jaxpr"] = "sin" in str(jaxpr)
with jax.disable_jit():
    results["eager"] = jax.jit(lambda x: x + 1 if x > 0 else x)(3.0)


@jax.jit
def leaky(x):
    leaked.append(x)
    return x


leaked = []
leaky(1.0)
try:
    leaked[0] + 1
except jax.errors.UnexpectedTracerError:
    results["leak"] = 1
try:
    jax.jit(lambda x: np.asarray(x))(1.0)
except jax.errors.TracerArrayConversionError:
    results["array"] = 1
try:
    jax.jit(lambda x, n: jnp.zeros(n) + x)(1.0, 3)
except TypeError:
    results["shape_error"] = 1
try:
    jax.jit(lambda x: 1 if x else 0)(True)
except jax.errors.TracerBoolConversionError:
    results["bool"] = 1
try:
    jax.grad(lambda x: x)(3)
except TypeError:
    results["int"] = 1
try:
    jax.grad(lambda x: jnp.ones(2) * x)(3.0)
except TypeError:
    results["vector"] = 1
compiled = jax.jit(lambda x: x * 2).lower(jnp.ones(3)).compile()
results["aot"] = compiled(jnp.arange(3.0))
results["cost"] = isinstance(jax.jit(lambda x: x * 2).lower(1.0).as_text(), str)
with jax.ensure_compile_time_eval():
    results["known"] = jnp.arange(3).sum()
with jax.named_scope("block"):
    results["scope"] = jnp.ones(())
results["devices"] = len(jax.devices()) > 0
results["put"] = jax.device_put(np.arange(3.0))
results["get"] = jax.device_get({"a": jnp.ones(2)})
results["tracer"] = jax.jit(lambda x: (jnp.array(isinstance(x, jax.core.Tracer)), x)[0])(1.0)
