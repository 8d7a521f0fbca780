"""Index expressions: canonical text, simplification by range, and truth against brute force."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import time

import numpy as np
import pytest
import sympy

from stax.loops.ranges import Interval, bounds
from stax.loops.symbolic import (
    ZERO,
    Expr,
    Symbol,
    affine_coefficients,
    constant,
    delinearize,
    linearize,
    loop_variable,
    loop_variables,
    maximum,
    minimum,
    symbol,
    to_sympy,
)

I0, I1 = loop_variables("i", (16, 8))
R0 = loop_variable("r0", 128)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (16384 * I0 + 8192 * I1 + R0, "16384*i0 + 8192*i1 + r0"),
        (R0 + 256 * I1 + I0, "i0 + 256*i1 + r0"),
        ((3 * R0) % 128, "(3*r0) mod 128"),
        (5 - I0, "-i0 + 5"),
        ((R0 + 1) // 2 - 2, "(r0 + 1) // 2 - 2"),
        (4 * (R0 // 8), "4*(r0 // 8)"),
        (I0 * I1 + 1, "i0*i1 + 1"),
        (minimum(R0, I0 + 3), "min(i0 + 3, r0)"),
        (constant(-3), "-3"),
    ],
)
def test_text_is_stable(expr: Expr, text: str) -> None:
    assert str(expr) == text


def test_division_splits_by_divisibility_and_range() -> None:
    assert (8 * I0 + I1) // 8 is I0
    assert (8 * I0 + I1) % 8 is I1
    assert (15 - 8 * I0 - I1) // 8 is 1 - I0
    assert (7 - I1) // 8 is ZERO
    assert (R0 // 4) // 8 is R0 // 32
    assert (R0 % 64) % 16 is R0 % 16
    assert (R0 % 64) // 16 is (R0 // 16) % 4
    assert (4 * R0) % 128 is 4 * (R0 % 32)
    assert (128 * I0 + R0) % 128 is R0
    assert (I0 + 5 * R0 + 7) % 5 is (I0 + 2) % 5


def test_parts_join_again() -> None:
    assert 8 * (R0 // 8) + R0 % 8 is R0
    for shape in [(16, 8), (4, 4, 8), (2, 64), (128,), (1, 128, 1)]:
        strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        assert linearize(delinearize(R0, shape), strides) is R0


def test_equal_expressions_are_one_object() -> None:
    a = 3 * I0 + 2 * I1 + 1
    b = 1 + I1 + I0 + I1 + 2 * I0
    assert a is b
    assert copy.deepcopy(a) is a
    assert pickle.loads(pickle.dumps(a % 5)) is a % 5


def test_truth_value_is_refused() -> None:
    with pytest.raises(TypeError, match="truth"):
        bool(I0)


def test_coefficients() -> None:
    assert isinstance(I0, Symbol)
    assert isinstance(R0, Symbol)
    assert affine_coefficients(3 * I0 + R0 // 2, (I0,)) == {I0: 3}
    assert affine_coefficients(3 * I0 + R0 // 2, (I0, R0)) is None
    assert affine_coefficients(constant(4), (I0,)) == {I0: 0}


def random_expression(rng: random.Random, leaves: list[Expr], depth: int) -> Expr:
    if depth == 0:
        return rng.choice([*leaves, constant(rng.randint(-9, 9))])
    a = random_expression(rng, leaves, depth - 1)
    b = random_expression(rng, leaves, rng.randrange(depth))
    kind = rng.randrange(9)
    if kind < 3:
        return a + b
    if kind == 3:
        return a - b
    if kind == 4:
        return a * rng.randint(-8, 8)
    if kind == 5:
        return a // rng.choice([-4, 2, 3, 4, 6, 8, 12])
    if kind == 6:
        return a % rng.choice([-4, 2, 3, 4, 6, 8, 12])
    if kind == 7:
        return minimum(a, b) if rng.random() < 0.5 else maximum(a, b)
    return a * b


@pytest.mark.parametrize("seed", range(150))
def test_simplification_preserves_every_value(seed: int) -> None:
    shape = (3, 4, 6)
    leaves: list[Expr] = list(loop_variables("i", shape))
    built = random_expression(random.Random(seed), leaves, 5)
    for point in itertools.product(*map(range, shape)):
        plain = random_expression(random.Random(seed), [constant(p) for p in point], 5)
        env = {s: p for s, p in zip(leaves, point, strict=True) if isinstance(s, Symbol)}
        value = built.evaluate(env)
        assert constant(value) is plain
        assert built.lo <= value <= built.hi
        narrow = {s: Interval(p, p) for s, p in env.items()}
        assert value in bounds(built, narrow)
        assert built.substitute(env) is constant(value)


@pytest.mark.parametrize("seed", range(12))
def test_sympy_agrees(seed: int) -> None:
    leaves: list[Expr] = list(loop_variables("i", (3, 4)))
    e = random_expression(random.Random(1000 + seed), leaves, 4)
    oracle = to_sympy(e)
    for point in itertools.product(range(3), range(4)):
        env = {s: p for s, p in zip(leaves, point, strict=True) if isinstance(s, Symbol)}
        names = {sympy.Symbol(s.name, integer=True): p for s, p in env.items()}
        assert int(oracle.subs(names)) == e.evaluate(env)


def test_evaluates_arrays() -> None:
    grid = {I0: np.arange(16)[:, None], I1: np.arange(8)[None, :]}
    value = ((3 * I0 + I1) % 7 + minimum(I0, I1)).evaluate(grid)
    i, j = np.mgrid[:16, :8]
    np.testing.assert_array_equal(value, (3 * i + j) % 7 + np.minimum(i, j))


def test_unbounded_symbols() -> None:
    s = symbol("s0", float("-inf"), float("inf"))
    assert str(s % 8) == "s0 mod 8"
    assert (s % 8).hi == 7
    assert (s // 8).lo == float("-inf")
    assert (s - s) is ZERO


def test_construction_is_fast() -> None:
    x, y = loop_variables("i", (1 << 20, 1 << 20))
    start = time.perf_counter()
    for k in range(5000):
        (x * (k % 50 + 3) + y) // 4
    assert time.perf_counter() - start < 0.5
