"""Programs that read a jaxpr: evaluators, an inverse, counts."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax
from stax.extend import core

results = {}


def f(x, w):
    h = jnp.tanh(x @ w)
    return jnp.sum(jnp.exp(-h * h), axis=-1)


x = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)
w = jnp.cos(jnp.arange(6.0)).reshape(3, 2)
closed = jax.make_jaxpr(f)(x, w)
results["eval"] = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x, w)
results["as_fun"] = core.jaxpr_as_fun(closed)(x, w)


def eval_by_hand(jaxpr, consts, *args):
    env = {}

    def read(var):
        return var.val if type(var) is core.Literal else env[var]

    for var, val in zip(jaxpr.invars, args):
        env[var] = val
    for var, val in zip(jaxpr.constvars, consts):
        env[var] = val
    for eqn in jaxpr.eqns:
        vals = [read(v) for v in eqn.invars]
        outs = eqn.primitive.bind(*vals, **eqn.params)
        if not eqn.primitive.multiple_results:
            outs = [outs]
        for var, val in zip(eqn.outvars, outs):
            env[var] = val
    return [read(v) for v in jaxpr.outvars]


results["by_hand"] = eval_by_hand(closed.jaxpr, closed.consts, x, w)
results["by_hand_jit"] = jax.jit(lambda x, w: eval_by_hand(closed.jaxpr, closed.consts, x, w))(x, w)
results["by_hand_grad"] = jax.grad(
    lambda w: eval_by_hand(closed.jaxpr, closed.consts, x, w)[0].sum()
)(w)
results["by_hand_vmap"] = jax.vmap(
    lambda s: eval_by_hand(closed.jaxpr, closed.consts, x * s, w)[0]
)(jnp.arange(3.0))

# The inverse of a function, equation by equation from the end.
inverses = {
    lax.exp_p: jnp.log,
    lax.tanh_p: jnp.arctanh,
    lax.sin_p: jnp.arcsin,
    lax.neg_p: jnp.negative,
    lax.logistic_p: lambda y: jnp.log(y) - jnp.log1p(-y),
}


def inverse(fun):
    def inverted(*args):
        closed = jax.make_jaxpr(fun)(*args)
        jaxpr, env = closed.jaxpr, {}
        for var, val in zip(jaxpr.outvars, args):
            env[var] = val
        for eqn in jaxpr.eqns[::-1]:
            if eqn.primitive not in inverses:
                raise ValueError(f"{eqn.primitive} has no inverse")
            (y,) = [env[v] for v in eqn.outvars]
            env[eqn.invars[0]] = inverses[eqn.primitive](y)
        return env[jaxpr.invars[0]]

    return inverted


def chain(x):
    return jnp.exp(-jnp.tanh(jnp.sin(x)))


at = jnp.linspace(-1.0, 1.0, 5)
back = inverse(chain)
results["inverse"] = back(chain(at))
results["inverse_jit"] = jax.jit(inverse(chain))(chain(at))
results["inverse_grad"] = jax.vmap(jax.grad(back))(chain(at))
results["inverse_vmap"] = jax.vmap(back)(chain(jnp.stack([at, at / 2])))
results["inverse_logistic"] = inverse(lambda x: lax.logistic(x))(jnp.array([0.25, 0.5, 0.9]))
try:
    inverse(lambda x: jnp.cosh(x))(jnp.array([1.5]))
except ValueError:
    results["no_inverse"] = 1
results["counts"] = [
    sum(e.primitive is lax.exp_p for e in closed.jaxpr.eqns),
    sum(e.primitive is lax.dot_general_p for e in closed.jaxpr.eqns),
    sum(e.primitive.name == "tanh" for e in closed.jaxpr.eqns),
    len(closed.jaxpr.invars),
    len(closed.jaxpr.outvars),
    [list(v.aval.shape) for v in closed.jaxpr.outvars],
]
