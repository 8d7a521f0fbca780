"""Loops with binomial checkpointing: the same derivatives, few stored states, compiled."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import StaticArgumentError
from stax.transforms.chains import Action, Op, checked_count

W = np.random.default_rng(0).standard_normal((5, 5)) / 2
XS = np.random.default_rng(1).standard_normal((13, 5))
X0 = np.ones(5)
SCHEME = stax.Binomial(slots=3)


def loss(x0, W, xs, checkpoint=None, reverse=False):
    def step(carry, x):
        z = np.tanh(W @ carry + x)
        return z, z.sum()

    last, ys = lax.scan(step, x0, xs, checkpoint=checkpoint, reverse=reverse)
    return (last**2).sum() + (ys * np.arange(13.0)).sum()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(reverse, compiled):
    want = stax.grad(lambda *a: loss(*a, reverse=reverse), (0, 1, 2))(X0, W, XS)
    gradient = stax.grad(lambda *a: loss(*a, SCHEME, reverse), (0, 1, 2))
    found = (stax.jit(gradient) if compiled else gradient)(X0, W, XS)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_other_transformations():
    plain = lambda x: loss(x, W, XS)
    f = lambda x: loss(x, W, XS, SCHEME)
    np.testing.assert_allclose(stax.jvp(f, (X0,), (X0,)), stax.jvp(plain, (X0,), (X0,)))
    np.testing.assert_allclose(stax.hessian(f)(X0), stax.hessian(plain)(X0), rtol=1e-10)
    twice = lambda h: stax.jacrev(stax.grad(h))
    np.testing.assert_allclose(stax.jit(twice(f))(X0), twice(plain)(X0), rtol=1e-10)
    many = np.stack([X0, 2 * X0])
    want = stax.vmap(stax.grad(plain))(many)
    for h in (stax.vmap(stax.grad(f)), stax.grad(lambda v: stax.vmap(f)(v).sum())):
        np.testing.assert_allclose(h(many), want, rtol=1e-12)
        np.testing.assert_allclose(stax.jit(h)(many), want, rtol=1e-12)
    g = stax.jit(f)
    np.testing.assert_allclose(stax.grad(g)(X0), stax.grad(plain)(X0), rtol=1e-12)


def test_fori_loop():
    f = lambda c, scheme: (
        lambda x: lax.fori_loop(
            0, 50, lambda i, v: v + c * np.sin(v) / (i + 1.0), x, checkpoint=scheme
        )
    )
    want = stax.grad(f(0.1, None))(0.3)
    assert stax.grad(f(0.1, SCHEME))(0.3) == pytest.approx(want, rel=1e-13)
    assert stax.jit(stax.grad(f(0.1, stax.Binomial(slots=1))))(0.3) == pytest.approx(want)


def long_chain(steps, scheme):
    def f(x):
        last, _ = lax.scan(
            lambda v, _: (v + 1e-4 * np.sin(v), None), x, None, steps, checkpoint=scheme
        )
        return last.sum()

    return stax.jit(stax.grad(f)).lower(np.linspace(0, 1, 64))


def test_a_chain_of_100_000_steps_at_constant_memory():
    scheme = stax.Binomial(slots=20)
    long = long_chain(100_000, scheme).compile()
    short = long_chain(1_000, scheme).compile()
    peaks = [c.memory_analysis()["temporary_bytes"] for c in (short, long)]
    assert peaks[0] == peaks[1] < 64 * 8 * 40
    assert long_chain(1_000, None).compile().memory_analysis()["temporary_bytes"] > 1_000 * 64 * 8
    x = np.linspace(0, 1, 64)
    gradient = long(x)
    # d sum(z_l) / d z_0 is a product of one factor a step.
    value, factor = x.copy(), np.ones(64)
    for _ in range(100_000):
        factor *= 1 + 1e-4 * np.cos(value)
        value += 1e-4 * np.sin(value)
    np.testing.assert_allclose(gradient, factor, rtol=1e-9)


def test_the_number_of_steps_is_the_predicted_one():
    length, scheme = 40, stax.Binomial(slots=4)
    f = lambda x: lax.scan(lambda v, _: (np.sin(v), None), x, None, length, checkpoint=scheme)[0]
    graph = stax.make_ir(stax.grad(f))(1.0)
    (eqn,) = [e for e in graph.eqns if e.op == "chain"]
    table = dict(graph.constants)[eqn.inputs[0]]
    actions = [Action(Op(op), int(place), int(count)) for op, place, count in table]
    count = checked_count(actions, length, scheme.slots)
    assert count.forward_steps == scheme.forward_steps(length)


def test_unknown_schemes():
    with pytest.raises(StaticArgumentError, match="Binomial"):
        lax.scan(lambda c, _: (c, None), 1.0, None, 3, checkpoint="binomial")


@pytest.mark.parametrize("outer", ["all", "sqrt", stax.Binomial(slots=2)])
@pytest.mark.parametrize("inner", [None, "all", stax.Binomial(slots=3)])
def test_loops_in_loops(outer, inner):
    def f(w, x, outer, inner):
        def rows(v):
            return lax.scan(lambda v, _: (np.tanh(w @ v), None), v, None, 6, checkpoint=inner)[0]

        out = lax.scan(lambda v, _: (rows(v), None), x, None, 5, checkpoint=outer)[0]
        return (out * out).sum()

    want = stax.grad(lambda *a: f(*a, None, None), (0, 1))(W, X0)
    gradient = stax.grad(lambda *a: f(*a, outer, inner), (0, 1))
    for g in (gradient, stax.jit(gradient)):
        for a, b in zip(g(W, X0), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
