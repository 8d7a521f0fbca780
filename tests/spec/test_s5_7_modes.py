"""S5.7: forward mode keeps nothing, Jacobians are one batched pass, an hvp a constant multiple."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.core.graph import Graph
from stax.transforms.simplify import simplify

MOVES = {"broadcast", "reshape", "transpose", "convert", "slice", "pad", "concatenate", "rev"}


def peak_arrays(run: Any, nbytes: int) -> float:
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / nbytes


def chain(x: Any) -> Any:
    for _ in range(40):
        x = np.sin(x)
    return x


def test_s5_7a_jvp_keeps_no_residuals() -> None:
    x = np.ones(100_000)
    pushed = peak_arrays(lambda: stax.jvp(chain, (x,), (x,)), x.nbytes)
    pulled = peak_arrays(lambda: stax.vjp(chain, x)[1](x), x.nbytes)
    assert pushed < 8
    assert pulled > 40


class Counter:
    """A map from R^n to R^m that counts the tangents pushed and the cotangents pulled."""

    def __init__(self, n: int, m: int) -> None:
        self.matrix = np.arange(1.0, n * m + 1).reshape(m, n)
        self.pushes = 0
        self.pulls = 0
        forward = stax.custom_jvp(lambda x: self.matrix @ np.sin(x))
        forward.defjvp(self.push)
        self.forward = forward
        reverse = stax.custom_vjp(lambda x: self.matrix @ np.sin(x))
        reverse.defvjp(lambda x: (self.matrix @ np.sin(x), x), self.pull)
        self.reverse = reverse

    def push(self, primals: Any, tangents: Any) -> Any:
        self.pushes += 1
        (x,), (t,) = primals, tangents
        return self.matrix @ np.sin(x), self.matrix @ (np.cos(x) * t)

    def pull(self, x: Any, ct: Any) -> Any:
        self.pulls += 1
        return (np.cos(x) * (ct @ self.matrix),)


@pytest.mark.parametrize(("n", "m"), [(5, 2), (2, 7)])
def test_s5_7a_jacobians_are_one_batched_pass(n: int, m: int) -> None:
    x = np.arange(1.0, n + 1)
    f = Counter(n, m)
    want = f.matrix * np.cos(x)
    np.testing.assert_allclose(stax.jacfwd(f.forward)(x), want)
    assert f.pushes == 1
    np.testing.assert_allclose(stax.jacrev(f.reverse)(x), want)
    assert f.pulls == 1


def test_s5_7a_jacfwd_pushes_n_tangents_and_jacrev_pulls_m() -> None:
    n, m = 5, 2
    w = np.arange(1.0, n * m + 1).reshape(m, n)
    f = lambda x: np.tanh(w @ np.sin(x))
    x = np.arange(1.0, n + 1)

    def batches(graph: Graph, width: int) -> set[int]:
        """Leading extents of the values of shape (batch, width)."""
        return {v.shape[0] for e in graph.eqns for v in e.outputs if v.shape[1:] == (width,)}

    forward, reverse = stax.make_ir(stax.jacfwd(f))(x), stax.make_ir(stax.jacrev(f))(x)
    assert n in batches(forward, n) | {
        v.shape[1] for e in forward.eqns for v in e.outputs if v.shape[:1] == (n,) and v.ndim == 2
    }
    assert m in batches(reverse, m) | batches(reverse, n)
    # One pass: the number of equations does not grow with the number of directions.
    wider = np.ones((3 * m, 3 * n))
    g = lambda x: np.tanh(wider @ np.sin(x))
    assert len(stax.make_ir(stax.jacfwd(g))(np.ones(3 * n)).eqns) == len(forward.eqns)
    assert len(stax.make_ir(stax.jacrev(g))(np.ones(3 * n)).eqns) == len(reverse.eqns)


def loss(x: Any) -> Any:
    for _ in range(5):
        x = np.tanh(x * 1.1) + 0.1 * np.sin(x)
    return np.sum(x * x) / (1.0 + np.sum(np.exp(-x)))


def operations(graph: Graph) -> int:
    total = 0
    for eqn in graph.eqns:
        if eqn.op == "sum":
            total += int(np.prod(eqn.inputs[0].shape, dtype=np.int64))
        elif eqn.op not in MOVES:
            total += sum(int(np.prod(v.shape, dtype=np.int64)) for v in eqn.outputs)
    return total


def test_s5_7b_hvp_is_the_hessian_times_the_vector() -> None:
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=6), rng.normal(size=6)
    full = stax.hessian(loss)(x)
    np.testing.assert_allclose(full, full.T, rtol=1e-10, atol=1e-12)
    (forward_over_reverse,) = stax.hvp(loss, (x,), (v,))
    np.testing.assert_allclose(forward_over_reverse, full @ v, rtol=1e-10, atol=1e-12)
    reverse_over_reverse = stax.grad(lambda x: stax.grad(loss)(x) @ v)(x)
    np.testing.assert_allclose(reverse_over_reverse, full @ v, rtol=1e-10, atol=1e-12)
    reverse_over_forward = stax.grad(lambda x: stax.jvp(loss, (x,), (v,))[1])(x)
    np.testing.assert_allclose(reverse_over_forward, full @ v, rtol=1e-10, atol=1e-12)
    step = 1e-5
    differences = (stax.grad(loss)(x + step * v) - stax.grad(loss)(x - step * v)) / (2 * step)
    np.testing.assert_allclose(forward_over_reverse, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [10, 1000])
def test_s5_7b_hvp_costs_a_constant_multiple(n: int) -> None:
    x = np.linspace(-1.0, 1.0, n)
    work = operations(simplify(stax.make_ir(loss)(x)))
    product = operations(simplify(stax.make_ir(lambda x, v: stax.hvp(loss, (x,), (v,)))(x, x)))
    assert product <= 15 * work


def test_s5_7c_an_exported_function_has_the_derivatives_it_was_exported_with() -> None:
    exported = stax.export.deserialize(stax.export(np.sin, vjp_order=1)(0.3).serialize())
    assert exported.call(0.3) == pytest.approx(np.sin(0.3))
    assert stax.grad(exported.call)(0.3) == pytest.approx(np.cos(0.3))
    for second in (
        stax.grad(stax.grad(exported.call)),
        stax.hessian(exported.call),
        stax.jit(stax.grad(stax.grad(exported.call))),
        lambda x: stax.hvp(exported.call, (x,), (1.0,)),
    ):
        with pytest.raises(errors.NonDifferentiableError, match="exported function sin") as caught:
            second(0.3)
        assert "vjp_order" in str(caught.value)
    twice = stax.export(np.sin, vjp_order=2)(0.3)
    assert stax.grad(stax.grad(twice.call))(0.3) == pytest.approx(-np.sin(0.3))


def test_s5_7c_a_callback_without_a_rule_has_a_value_and_no_derivative() -> None:
    def f(x: Any) -> Any:
        return stax.pure_callback(np.sin, x, x)

    for whole in (f, stax.jit(f)):
        assert whole(0.3) == pytest.approx(np.sin(0.3))
        with pytest.raises(errors.NonDifferentiableError, match="callback sin") as caught:
            stax.grad(whole)(0.3)
        assert "custom_vjp" in str(caught.value)
