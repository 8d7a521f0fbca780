"""Every benchmark workload lowers for a device, in as many kernels as recorded here at most."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from benchmarks.gpu_kernels import lowered_workload

# Generated kernels and products of the whole program.
MOST_KERNELS = {
    "a": 1, "b32": 1, "b64": 1, "c": 1, "d": 1, "e_fwd": 1, "e_grad": 3, "f": 1, "g": 1, "h": 1,
    "i": 1, "j": 1, "k_gather": 1, "k_scatter": 2, "l": 1, "m": 1, "n": 5, "o_sgd": 13,
    "o_adam": 13, "p": 5, "q": 54, "r": 16, "s": 24, "t": 2, "u": 5, "v": 16, "w": 4, "x": 1,
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
