"""checkpoint with every policy, in scans, nested."""

import stax as jax
import stax.numpy as jnp
import functools
from stax.ad_checkpoint import checkpoint_name

results = {}


def g(W, x):
    return jnp.sin(jnp.dot(W, x))


def f(W1, W2, W3, x):
    x = g(W1, x)
    x = g(W2, x)
    return g(W3, x)


W1 = jnp.ones((5, 4)) * 0.1
W2 = jnp.ones((6, 5)) * 0.2
W3 = jnp.ones((7, 6)) * 0.3
x = jnp.arange(4.0)
L = lambda h: lambda *a: h(*a).sum()
results["plain"] = jax.grad(L(f))(W1, W2, W3, x)


def f2(W1, W2, W3, x):
    x = jax.checkpoint(g)(W1, x)
    x = jax.checkpoint(g)(W2, x)
    return jax.checkpoint(g)(W3, x)


results["ck"] = jax.grad(L(f2), (0, 1, 2))(W1, W2, W3, x)
for name in (
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
):
    results[name] = jax.jit(
        jax.grad(L(jax.checkpoint(f, policy=getattr(jax.checkpoint_policies, name))))
    )(W1, W2, W3, x)


def f4(W1, W2, W3, x):
    x = checkpoint_name(g(W1, x), name="a")
    x = checkpoint_name(g(W2, x), name="b")
    return g(W3, x)


results["names"] = jax.grad(
    L(jax.checkpoint(f4, policy=jax.checkpoint_policies.save_only_these_names("a")))
)(W1, W2, W3, x)
results["names2"] = jax.grad(
    L(jax.checkpoint(f4, policy=jax.checkpoint_policies.save_anything_except_these_names("a")))
)(W1, W2, W3, x)
results["both"] = jax.grad(
    L(
        jax.remat(
            f4,
            policy=jax.checkpoint_policies.save_from_both_policies(
                jax.checkpoint_policies.dots_saveable,
                jax.checkpoint_policies.save_only_these_names("a"),
            ),
        )
    )
)(W1, W2, W3, x)


@functools.partial(jax.checkpoint, static_argnums=(1,))
def st(x, flag):
    return jnp.sin(x) if flag else x


results["st"] = jax.grad(lambda x: st(x, True))(1.0)


@jax.checkpoint
def deco(x):
    return jnp.sin(jnp.cos(x))


results["deco"] = [
    jax.grad(deco)(1.0),
    jax.grad(jax.grad(deco))(1.0),
    jax.jit(jax.grad(deco))(1.0),
    jax.hessian(deco)(1.0),
    jax.vmap(jax.grad(deco))(jnp.arange(3.0)),
]


def chain(funs):
    def comp(x):
        for h in funs:
            x = h(x)
        return x

    return comp


def rec(funs):
    if len(funs) == 1:
        return funs[0]
    f1, f2 = rec(funs[: len(funs) // 2]), rec(funs[len(funs) // 2 :])
    return lambda x: f1(jax.checkpoint(f2)(x))


results["rec"] = jax.grad(rec([jnp.sin] * 8))(3.0)
results["prevent"] = jax.jit(
    jax.grad(
        lambda xs: jax.lax.scan(
            jax.checkpoint(lambda c, x: (jnp.tanh(c * x), c), prevent_cse=False), 1.0, xs
        )[0]
    )
)(jnp.arange(1.0, 5.0))
results["polscan"] = jax.grad(
    lambda w: jax.lax.scan(
        functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)(
            lambda c, _: (jnp.tanh(w @ c), None)
        ),
        jnp.ones(4),
        None,
        length=5,
    )[0].sum()
)(jnp.eye(4) * 0.5)
results["kw"] = jax.grad(lambda x: jax.checkpoint(lambda x, *, k: x**k)(x, k=3.0))(2.0)
from stax.experimental import ode
