"""S5.2: the cost of the gradient is a constant multiple of the function's, and adjoints add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax.core.graph import Graph
from stax.transforms.simplify import simplify

# Operations that move values and compute nothing.
MOVES = {"broadcast", "reshape", "transpose", "convert", "slice", "pad", "concatenate", "rev"}

Unary = Callable[[Any], Any]
UNARY: list[Unary] = [
    np.exp,
    lambda v: np.log(v),
    np.tanh,
    lambda v: stax.lax.logistic(v),
    lambda v: np.sqrt(v),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
]


def operations(graph: Graph) -> int:
    """Scalar operations: one per element a computing equation writes (reads, for a sum)."""
    total = 0
    for eqn in graph.eqns:
        if eqn.op == "sum":
            total += int(np.prod(eqn.inputs[0].shape, dtype=np.int64))
        elif eqn.op not in MOVES:
            total += sum(int(np.prod(v.shape, dtype=np.int64)) for v in eqn.outputs)
    return total


def straight_line(seed: int, steps: int) -> Callable[[Any], Any]:
    """A random program of + - * / and exp, log, tanh, sigmoid, sqrt, then a sum."""
    rng = np.random.default_rng(seed)
    plan = []
    for k in range(steps):
        a, b = rng.integers(0, k + 1, 2)
        unary = rng.random() < 0.5
        plan.append((unary, int(a), int(b), int(rng.integers(len(UNARY if unary else BINARY)))))

    def program(x: Any) -> Any:
        values = [x]
        for unary, a, b, k in plan:
            values.append(UNARY[k](values[a]) if unary else BINARY[k](values[a], values[b]))
        return values[-1].sum()

    return program


@pytest.mark.parametrize("n", [10, 10_000])
@pytest.mark.parametrize("seed", range(40))
def test_s5_2a_gradient_costs_at_most_five_times_the_function(seed: int, n: int) -> None:
    program = straight_line(seed, 3 + seed % 20)
    x = np.linspace(1.0, 2.0, n)
    work = operations(simplify(stax.make_ir(program)(x)))
    both = operations(simplify(stax.make_ir(stax.value_and_grad(program))(x)))
    assert both <= 5 * work + 5  # the few operations on the scalar result


@pytest.mark.parametrize("seed", range(10))
def test_s5_2a_the_ratio_does_not_depend_on_the_dimension(seed: int) -> None:
    program = straight_line(seed, 12)

    def ratio(n: int) -> float:
        x = np.linspace(1.0, 2.0, n)
        both = operations(simplify(stax.make_ir(stax.value_and_grad(program))(x)))
        return both / operations(simplify(stax.make_ir(program)(x)))

    assert ratio(10_000) <= ratio(10) + 1e-9


def diamond(depth: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        v = x
        for k in range(depth):
            v = np.sin(v) * 0.7 + np.cos(v * (k + 1)) * 0.3
        return np.sum(v * v)

    return f


def shared(x: Any) -> Any:
    a = np.exp(x * 0.3)
    b = a * x
    c = a + b
    return np.sum(a * b * c) + np.sum(c[::-1] * a) + a[0] * c[1]


@pytest.mark.parametrize("f", [diamond(1), diamond(6), shared])
def test_s5_2b_adjoints_of_shared_values_accumulate(f: Any) -> None:
    x = np.array([0.3, -0.2, 0.9])
    step = 1e-6
    basis = np.eye(3) * step
    central = np.array([(f(x + e) - f(x - e)) / (2 * step) for e in basis])
    gradient = stax.grad(f)(x)
    np.testing.assert_allclose(gradient, central, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(gradient, stax.jacfwd(f)(x), rtol=1e-12)


def test_s5_2b_work_on_a_diamond_is_linear_in_its_depth() -> None:
    x = np.ones(3)
    sizes = [len(stax.make_ir(stax.grad(diamond(d)))(x).eqns) for d in (10, 20, 40)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])
