"""Derivatives of order two and three through compiled code equal the uncompiled ones."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.compile import simplified
from stax.programs.options import CompileOptions
from stax.transforms.partition import equation_cost
from tests.budget.models import chain
from tests.fuzzing import fuzz
from tests.programs import Program, random_program

OPTIONS = CompileOptions.of()


def close(got, want):
    stax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8), got, want)


def program(seed: int) -> tuple[Program, tuple]:
    p = random_program(seed, scalar=True, smooth=True)
    rng = np.random.default_rng(seed)
    return p, tuple(rng.standard_normal(np.shape(a)) for a in p.args)


def orders(fn, count, tangents, jit):
    """Gradients of order 1 to 3 along tangents, and Hessian products both ways."""
    numbers = tuple(range(count))

    def along(g):
        return lambda *a: sum((u * v).sum() for u, v in zip(g(*a), tangents, strict=True))

    first = jit(stax.grad(fn, numbers))
    second = jit(stax.grad(along(first), numbers))
    third = jit(stax.grad(along(second), numbers))
    forward_over_reverse = jit(lambda *a: stax.hvp(fn, a, tangents))
    return first, second, third, forward_over_reverse


@pytest.mark.parametrize("seed", range(40))
def test_orders_on_random_programs(seed):
    p, tangents = program(seed)
    plain = orders(p.fn, len(p.args), tangents, lambda f: f)
    compiled = orders(p.fn, len(p.args), tangents, lambda f: stax.jit(f, backend="numpy"))
    found = [f(*p.args) for f in compiled]
    for a, b in zip(found, [f(*p.args) for f in plain], strict=True):
        close(a, b)
    close(found[1], found[3])


@pytest.mark.parametrize("seed", range(100, 104))
def test_orders_through_c(seed):
    p, tangents = program(seed)
    plain = orders(p.fn, len(p.args), tangents, lambda f: f)
    compiled = orders(p.fn, len(p.args), tangents, stax.jit)
    for f, g in zip(compiled, plain, strict=True):
        close(f(*p.args), g(*p.args))


def test_nested_compilation_of_gradients():
    f = lambda x: np.sin(x) * np.exp(x * 0.3)
    nested = stax.jit(stax.grad(stax.jit(stax.grad(stax.jit(stax.grad(f))))))
    assert nested(0.7) == pytest.approx(stax.grad(stax.grad(stax.grad(f)))(0.7), rel=1e-12)
    g = lambda x: (np.tanh(x * x[::-1]) ** 2).sum()
    x = np.linspace(0.1, 1, 4)
    want = stax.hessian(g)(x)
    for h in (stax.jit(stax.hessian(g)), stax.hessian(stax.jit(g))):
        np.testing.assert_allclose(h(x), want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(stax.hvp(stax.jit(g), (x,), (x,))[0], want @ x, rtol=1e-10)


def test_a_hessian_product_costs_at_most_four_gradients():
    f, args = chain(depth=6, rows=32, width=32)

    def cost(h):
        graph = simplified(stax.jit(h).trace(*args).graph, OPTIONS, {})
        return sum(map(equation_cost, graph.eqns))

    gradient = cost(stax.grad(f, (0, 1)))
    assert cost(lambda *a: stax.hvp(f, a, a)) <= 4 * gradient


def test_second_order_under_a_budget():
    f, (ws, x) = chain(depth=6, rows=32, width=16)
    h = lambda w: stax.hvp(lambda v: f(v, x), (w,), (w,))
    want = stax.jit(h)(ws)
    curve = stax.memory_curve(h)(ws)
    assert len(curve.points) > 1
    for point in (curve.points[0], curve.points[-1]):
        budgeted = stax.jit(h, memory_budget=point.peak_bytes)
        for a, b in zip(stax.tree.leaves(budgeted(ws)), stax.tree.leaves(want), strict=True):
            np.testing.assert_array_equal(a, b)


def check_every_order(seed, **jit_options):
    """Hessians, products of order two and three, and three gradients compiled one in the other."""
    p, tangents = program(seed)
    numbers = tuple(range(len(p.args)))
    jit = lambda f: stax.jit(f, **jit_options)

    def along(g):
        return lambda *a: sum((u * v).sum() for u, v in zip(g(*a), tangents, strict=True))

    def nested(step):
        first = step(stax.grad(step(p.fn), numbers))
        second = step(stax.grad(along(first), numbers))
        return step(stax.grad(along(second), numbers))

    third = lambda *a: stax.hvp(along(lambda *b: stax.grad(p.fn, numbers)(*b)), a, tangents)
    pairs = [
        (nested(jit), nested(lambda f: f)),
        (jit(stax.hessian(p.fn, numbers)), stax.hessian(p.fn, numbers)),
        (jit(lambda *a: stax.hvp(p.fn, a, tangents)), lambda *a: stax.hvp(p.fn, a, tangents)),
        (jit(third), third),
    ]
    for compiled, plain in pairs:
        close(compiled(*p.args), plain(*p.args))
    close(pairs[3][0](*p.args), pairs[0][1](*p.args))


@pytest.mark.parametrize("seed", range(500, 504))
def test_every_order(seed):
    check_every_order(seed, backend="numpy")


@pytest.mark.fuzz
def test_every_order_at_length():
    options = lambda seed: {} if seed % 4 == 0 else {"backend": "numpy"}
    fuzz(lambda seed: check_every_order(seed, **options(seed)), rate=1.0)
