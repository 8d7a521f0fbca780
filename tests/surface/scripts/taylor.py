"""Derivatives along curves: jet of functions of one and several arguments, of networks, of jit."""

import stax as jax
import stax.numpy as jnp
from stax.experimental.jet import jet
from stax.experimental import jet as jet_module

results = {}
results["sin"] = jet(jnp.sin, (0.5,), ((1.0, 0.0, 0.0),))
results["product"] = jet(
    lambda x, y: jnp.exp(x) * jnp.tanh(y), (0.3, 0.7), ((1.0, 0.5, -0.2), (2.0, 0.0, 1.0))
)
w = jnp.arange(6.0).reshape(2, 3) / 7
x, v = jnp.array([0.1, -0.4, 0.9]), jnp.array([1.0, 2.0, -1.0])
results["layer"] = jet_module.jet(lambda x: jnp.tanh(w @ x), (x,), ((v, x * v),))
results["jit"] = jax.jit(lambda x: jet(jnp.cos, (x,), ((1.0, 0.0),)))(0.3)
results["grad"] = jax.grad(lambda x: jet(jnp.exp, (2 * x,), ((x, 1.0),))[1][1])(0.3)
results["vmap"] = jax.vmap(lambda x: jet(lambda x: x**3, (x,), ((1.0, 0.0, 0.0),)))(x)
