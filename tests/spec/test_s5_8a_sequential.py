"""S5.8a: a chain in c segments keeps c + l / c states at most and runs every step at most twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stax
from stax.transforms.simplify import inline_calls, simplify


def chain(length):
    return [lambda x, k=k: np.sin(x) + 0.1 * k for k in range(length)]


@pytest.mark.parametrize(("length", "segments"), [(16, 4), (25, 5), (30, 3), (12, 12), (10, 1)])
def test_s5_8a_every_step_runs_at_most_twice(length, segments):
    f = lambda x: stax.checkpoint_sequential(chain(length), segments, x)
    flat = simplify(inline_calls(stax.make_ir(stax.value_and_grad(f))(0.3)))
    assert sum(e.op == "sin" for e in flat.eqns) <= 2 * length
    want = stax.grad(lambda x: _plain(chain(length), x))(0.3)
    assert stax.grad(f)(0.3) == pytest.approx(want, rel=1e-13)


def _plain(steps, x):
    for step in steps:
        x = step(x)
    return x


@pytest.mark.parametrize(("length", "segments"), [(16, 4), (36, 6), (30, 3)])
def test_s5_8a_stored_states(length, segments):
    """Counted on the graph: states read by later backward work than the step that makes them."""
    f = lambda x: stax.checkpoint_sequential(chain(length), segments, x).sum()
    x = np.linspace(0, 1, 8)
    flat = simplify(inline_calls(stax.make_ir(stax.grad(f))(x)))
    states = {v for e in flat.eqns if e.op in ("sin", "add") for v in e.outputs if v.shape == (8,)}
    states = {v for v in states if not _only_read_next(v, flat)} | {flat.inputs[0]}
    last = {}
    for k, eqn in enumerate(flat.eqns):
        for atom in eqn.inputs:
            if atom in states:
                last[atom] = k
    alive = {flat.inputs[0]}
    peak = 1
    for k, eqn in enumerate(flat.eqns):
        alive |= {v for v in eqn.outputs if v in states and v in last}
        peak = max(peak, len(alive))
        alive = {v for v in alive if last.get(v, -1) > k}
    assert peak <= segments + math.ceil(length / segments) + 1  # one is being computed


def _only_read_next(var, graph):
    """True for a value inside a step, which the next equation consumes."""
    reads = [k for k, e in enumerate(graph.eqns) if var in e.inputs]
    made = next(k for k, e in enumerate(graph.eqns) if var in e.outputs)
    return reads == [made + 1]


def test_s5_8a_the_compiled_peak_falls_to_twice_the_root():
    n, length = 4096, 36
    matrix = np.eye(64)

    def step(x):
        return np.sin(x @ matrix)

    def peak(f):
        x = np.ones((n // 64, 64))
        return stax.jit(stax.grad(f)).lower(x).source.plan.nbytes / x.nbytes

    plain = peak(lambda x: _plain([step] * length, x).sum())
    sequential = peak(lambda x: stax.checkpoint_sequential([step] * length, 6, x).sum())
    assert plain >= length
    assert sequential <= 2 * math.isqrt(length) + 2
