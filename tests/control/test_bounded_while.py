"""`while_loop(max_steps=...)`: the loop's value, and the derivative of the scan it stands for."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import NonDifferentiableError, StaticArgumentError
from stax.lax.bounded import tree_shape

W = np.random.default_rng(0).standard_normal((4, 4)) / 2
X = np.linspace(-1, 1, 4)


def loop(w, x, steps, **bound):
    """`steps` turns of a map, ended by the condition."""

    def body(state):
        k, x = state
        return k + 1, np.tanh(w @ x) + 0.1 * x

    return lax.while_loop(lambda s: s[0] < steps, body, (0, x), **bound)[1]


def reference(w, x, steps):
    f = lambda x, _: (np.tanh(w @ x) + 0.1 * x, None)
    return lax.scan(f, x, None, steps)[0]


def total(f, steps, **bound):
    return lambda w, x: (f(w, x, steps, **bound) ** 2).sum()


@pytest.mark.parametrize("slots", [None, 40, 12, 9])
@pytest.mark.parametrize("steps", [0, 1, 7, 17, 20, 30])
def test_gradients_are_those_of_the_scan(steps, slots):
    f = total(loop, steps, max_steps=20, slots=slots)
    plain = total(reference, min(steps, 20))
    assert f(W, X) == pytest.approx(plain(W, X), rel=1e-12)
    want = stax.grad(plain, (0, 1))(W, X)
    for gradient in (stax.grad(f, (0, 1)), stax.jit(stax.grad(f, (0, 1)))):
        for a, b in zip(gradient(W, X), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14)


def test_other_transformations():
    f, plain = total(loop, 9, max_steps=16), total(reference, 9)
    g, h = (lambda x: f(W, x)), (lambda x: plain(W, x))
    np.testing.assert_allclose(stax.jvp(g, (X,), (X,)), stax.jvp(h, (X,), (X,)))
    np.testing.assert_allclose(stax.hessian(g)(X), stax.hessian(h)(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        stax.jit(stax.jacrev(stax.grad(g)))(X), stax.hessian(h)(X), rtol=1e-9, atol=1e-12
    )
    many = np.stack([X, 2 * X, -X])
    np.testing.assert_allclose(stax.vmap(stax.grad(g))(many), stax.vmap(stax.grad(h))(many))
    batched = lambda v: stax.vmap(g)(v).sum()
    np.testing.assert_allclose(stax.jit(stax.grad(batched))(many), stax.vmap(stax.grad(h))(many))


def test_a_batch_whose_loops_end_at_different_times():
    f = lambda x: lax.while_loop(lambda v: v < 10.0, lambda v: v * v, x, max_steps=8)
    xs = np.array([1.5, 2.0, 4.0, 11.0])
    want = [stax.grad(f)(x) for x in xs]
    np.testing.assert_allclose(stax.vmap(stax.grad(f))(xs), want)
    np.testing.assert_allclose(stax.jit(stax.grad(lambda v: stax.vmap(f)(v).sum()))(xs), want)


def test_a_root_found_by_newtons_method():
    def root(a):
        done = lambda x: abs(x * x - a) > 1e-12
        return lax.while_loop(done, lambda x: 0.5 * (x + a / x), a, max_steps=50)

    for a in (2.0, 9.0):
        assert stax.grad(root)(a) == pytest.approx(0.5 / np.sqrt(a), rel=1e-9)
        assert stax.jit(stax.grad(root))(a) == pytest.approx(0.5 / np.sqrt(a), rel=1e-9)


def test_memory_goes_with_the_slots_not_the_steps():
    x = np.linspace(0, 1, 512)

    def peak(max_steps, slots):
        def f(x):
            body = lambda s: (s[0] + 1, s[1] + 1e-3 * np.sin(s[1]))
            go = lambda s: s[0] < 1000
            out = lax.while_loop(go, body, (0, x), max_steps=max_steps, slots=slots)[1]
            return out.sum()

        return stax.jit(stax.grad(f)).lower(x).peak_bytes

    few = peak(10_000, 40)
    assert few <= (40 + 16) * x.nbytes
    assert peak(10_000, None) <= (200 + 16) * x.nbytes
    assert peak(100, None) < few


def test_shapes_of_trees():
    for n in (1, 2, 10, 1000, 10_000):
        for slots in (None, 10_000, 300, 60):
            depth, width = tree_shape(n, slots)
            assert width**depth >= n
            assert slots is None or depth * width <= slots
    with pytest.raises(StaticArgumentError, match="too few"):
        tree_shape(1000, 5)


@pytest.mark.parametrize("bound", [{"max_steps": 0}, {"max_steps": 2.5}, {"slots": 3}])
def test_nonsense_bounds(bound):
    with pytest.raises(StaticArgumentError, match="while_loop"):
        lax.while_loop(lambda v: v < 3, lambda v: v + 1, 0, **bound)


def test_without_a_bound_the_way_out_is_named():
    with pytest.raises(NonDifferentiableError, match="max_steps"):
        stax.grad(lambda x: lax.while_loop(lambda v: v < 3.0, lambda v: v * 2.0, x))(1.0)
