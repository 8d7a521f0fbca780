"""Every benchmark workload lowers for a device, in as many kernels as recorded here at most."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
from benchmarks.gpu_kernels import lowered_workload

# Generated kernels and products of the whole program.
MOST_KERNELS = {
    "a": 1, "b32": 1, "b64": 1, "c": 1, "d": 1, "e_fwd": 1, "e_grad": 3, "f": 1, "g": 1, "h": 1,
    "i": 1, "j": 1, "k_gather": 1, "k_scatter": 2, "l": 1, "m": 1, "n": 5, "o_sgd": 13,
    "o_adam": 13, "p": 5, "q": 54, "r": 14, "s": 24, "t": 2, "u": 5, "v": 16, "w": 4, "x": 1,
    "x_grad": 1, "y16": 48,
}  # fmt: skip


@pytest.mark.parametrize("name", MOST_KERNELS)
def test_workload_lowers(name):
    lowered = lowered_workload(name)
    assert lowered.fallbacks == []
    assert "@triton.jit" in lowered.as_text("source")
    launches = len(lowered.source.kernels)
    assert launches <= MOST_KERNELS[name], launches


def test_a_long_operand_is_not_made_by_a_few_programs():
    def f(x, w):
        return (x * 2) @ w

    w = np.ones((1568, 10), np.float32)
    kernels = [
        len(
            stax.jit(f).lower(np.ones((m, 1568), np.float32), w, device="cuda:sm_90").source.kernels
        )
        for m in (64, 8192)
    ]
    assert kernels == [2, 1]


# What Inductor launches and moves, in kB: `python -m benchmarks.gpu_inductor` says it.
INDUCTOR = {"l": (1, 33_686), "p": (6, 107_204), "e_grad": (4, 84_489), "r": (19, 40_600)}


@pytest.mark.parametrize("name", INDUCTOR)
def test_a_workload_moves_no_more_than_inductor_does(name):
    found = lowered_workload(name).source.traffic
    launches, kilobytes = INDUCTOR[name]
    assert found.launches <= launches
    assert found.nbytes <= 1000 * kilobytes


def down_columns(x, y):
    return (1 / (1 + np.exp(-y))) @ x


def test_few_long_columns_are_read_side_by_side():
    """Neighbouring columns by one program, and the factor of a row where the row is read."""
    x, y = np.ones((100_000, 40)), np.ones(100_000)
    for f in (down_columns, lambda x, y: x.T @ (1 / (1 + np.exp(-y)))):
        first, second = stax.jit(f).lower(x, y, device="cuda:sm_90").source.kernels
        assert re.search(r"tl\.load\(p\d \+ \(40\*x0 \+ x1\)", first.body)
        assert "exp(" in first.body
        assert first.grid > 132
        assert second.scratch == first.scratch
    sums = stax.jit(lambda x: (x * x).sum(0)).lower(x, device="cuda:sm_90").source.kernels
    assert re.search(r"tl\.load\(p\d \+ \(40\*x0 \+ x1\)", sums[0].body)
    # Along rows every program would compute the whole factor.
    rows = stax.jit(lambda x, y: x @ np.exp(y)).lower(x, y[:40], device="cuda:sm_90")
    assert len(rows.source.kernels) == 2


def test_a_factor_of_many_operations_is_stored_once():
    def f(x, y):
        for _ in range(20):
            y = np.sin(y) * 2
        return y @ x

    lowered = stax.jit(f).lower(np.ones((100_000, 40)), np.ones(100_000), device="cuda:sm_90")
    assert "sin(" in lowered.source.kernels[0].body
    assert "sin(" not in lowered.source.kernels[1].body
