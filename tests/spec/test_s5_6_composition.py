"""S5.6: the forward part is compiled at the call, the backward part when it is first needed."""

from __future__ import annotations

import numpy as np

import stax
from stax.programs.options import counters


def test_s5_6_the_backward_part_is_compiled_at_its_first_use():
    def f(x):
        return np.tanh(x @ x.T).sum(1) * 0.7311

    x = np.random.default_rng(0).standard_normal((20, 20))
    compiled = stax.jit(f)
    before = counters.compiled
    y, pull = stax.vjp(compiled, x)
    assert counters.compiled == before + 1  # the forward part, which also saves
    (g,) = pull(np.ones(20))
    assert counters.compiled == before + 2
    (again,) = pull(np.full(20, 2.0))
    assert counters.compiled == before + 2
    np.testing.assert_allclose(y, f(x), rtol=1e-12)
    wanted, plain_pull = stax.vjp(f, x)
    np.testing.assert_allclose(y, wanted, rtol=1e-12)
    np.testing.assert_allclose(g, plain_pull(np.ones(20))[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(again, 2 * g, rtol=1e-12, atol=1e-12)


def test_s5_6_forward_and_backward_programs_are_kept():
    compiled = stax.jit(lambda x: np.exp(x).sum() * 0.5311)
    x = np.linspace(0, 1, 7)
    stax.vjp(compiled, x)[1](1.0)
    before = counters.compiled
    stax.vjp(compiled, x + 1)[1](1.0)
    assert counters.compiled == before


def test_s5_6_without_a_pull_back_nothing_is_compiled_for_it():
    compiled = stax.jit(lambda x: (np.sin(x) * 0.3311).sum())
    before = counters.compiled
    stax.vjp(compiled, np.ones(5))
    stax.vjp(compiled, np.ones(5))
    assert counters.compiled == before + 1
