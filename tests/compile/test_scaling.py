"""Size: long chains, diamonds, and stages whose work grows no faster than the program."""

from __future__ import annotations

import cProfile

import numpy as np
import pytest

import stax

STAGES = ("transform", "partition", "lower", "schedule", "emit")


def chain(length):
    def f(x):
        for k in range(length):
            x = np.sin(x) if k % 3 == 0 else x * 1.01 if k % 3 == 1 else x + 0.1
        return x.sum()

    return f


def compile_work(length):
    """The number of function calls, Python's and C's, from the traced graph to C text.

    Counted rather than timed: the count is the same on a busy machine.
    """
    traced = stax.jit(stax.grad(chain(length))).trace(np.ones(16))
    profile = cProfile.Profile()
    profile.enable()
    lowered = traced.lower()
    source = lowered.as_text("source")
    profile.disable()
    assert source
    assert all(stage in lowered.timings for stage in STAGES)
    return sum(entry.callcount for entry in profile.getstats())


def test_four_times_the_operations_take_at_most_five_times_the_work():
    compile_work(100)
    small, large = compile_work(500), compile_work(2000)
    assert large <= 5 * small


@pytest.mark.slow
def test_a_chain_of_3000_operations_compiles_with_its_gradient():
    x = np.linspace(0.1, 1, 16)
    found = stax.jit(stax.grad(chain(3000)))(x)
    np.testing.assert_allclose(found, stax.grad(chain(3000))(x), rtol=1e-9)


@pytest.mark.parametrize("f", [np.tanh, np.exp, np.sin], ids=lambda f: f.__name__)
def test_a_function_used_often_is_compiled_once(f):
    def often(x):
        for _ in range(100):
            x = f(x) * 0.1
        return x

    x = np.linspace(-2, 2, 1000)
    source = stax.jit(often).lower(x).as_text("source")
    assert source.count(f"stax_{f.__name__}_f64(") <= 3
    np.testing.assert_allclose(stax.jit(often)(x), often(x), rtol=1e-13)


def test_a_diamond_of_depth_60_stays_small():
    def diamond(x):
        for _ in range(60):
            x = x * 0.5 + x * 0.5
        return x.sum()

    x = np.ones(8)
    lowered = stax.jit(stax.grad(diamond)).lower(x)
    assert len(lowered.as_text("loops").splitlines()) < 400
    np.testing.assert_allclose(stax.jit(stax.grad(diamond))(x), 1)
    np.testing.assert_allclose(stax.jit(stax.hessian(diamond))(x), 0, atol=1e-300)
