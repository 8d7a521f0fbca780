"""A memory budget reaches the states that loops keep for their backward part."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import MemoryBudgetError
from tests.budget.models import lstm


def close(got, want):
    stax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), got, want)


def peak(compiled):
    return compiled.memory_analysis()["peak_bytes"]


def test_a_recurrent_net_within_a_budget():
    f, args = lstm(steps=100)
    plain = stax.jit(stax.value_and_grad(f))
    want, whole = plain(*args), peak(plain.lower(*args).compile())
    measured = []
    for budget in (0.6, 0.25, 0.12):
        g = stax.jit(stax.value_and_grad(f), memory_budget=budget)
        compiled = g.lower(*args).compile()
        measured.append(peak(compiled))
        assert measured[-1] <= budget * whole
        close(compiled(*args), want)
    assert measured == sorted(measured, reverse=True)
    with pytest.raises(MemoryBudgetError) as caught:
        stax.jit(stax.value_and_grad(f), memory_budget="1KiB")(*args)
    assert caught.value.least < 0.12 * whole


def test_a_long_chain_gets_a_binomial_schedule():
    x = np.linspace(0, 1, 256)

    def f(x):
        return lax.fori_loop(0, 2000, lambda i, v: v + 1e-3 * np.sin(v), x).sum()

    want = stax.grad(f)(x)
    budgeted = stax.jit(stax.grad(f), memory_budget="100KiB")
    lowered = budgeted.lower(x)
    assert "chain" in lowered.as_text("joint")
    assert lowered.peak_bytes <= 100 * 1024 < 2000 * x.nbytes
    np.testing.assert_allclose(budgeted(x), want, rtol=1e-10)
    curve = stax.memory_curve(stax.grad(f))(x)
    assert curve.least < 0.02 * curve.everything


def test_loops_inside_compiled_functions_and_loops():
    w = np.eye(16) * 0.9

    @stax.jit
    def inner(v, w):
        return lax.fori_loop(0, 64, lambda i, v: np.tanh(w @ v), v)

    def f(w, v):
        out = lax.scan(lambda v, _: (inner(v, w), None), v, None, 8)[0]
        return (out * out).sum()

    v = np.linspace(-1, 1, 16)
    want = stax.grad(f)(w, v)
    whole = stax.jit(stax.grad(f)).lower(w, v).peak_bytes
    budgeted = stax.jit(stax.grad(f), memory_budget=0.3)
    assert budgeted.lower(w, v).peak_bytes <= 0.3 * whole
    np.testing.assert_allclose(budgeted(w, v), want, rtol=1e-9)


def test_what_the_user_says_of_a_loop_stays():
    def f(x):
        scheme = stax.Binomial(slots=4)
        return lax.scan(lambda v, _: (np.sin(v), None), x, None, 50, checkpoint=scheme)[0].sum()

    x = np.ones(32)
    lowered = stax.jit(stax.grad(f), memory_budget=1.0).lower(x)
    assert "slots=4" in lowered.as_text("joint")
    with pytest.raises(MemoryBudgetError):
        stax.jit(stax.grad(f), memory_budget=8)(x)
