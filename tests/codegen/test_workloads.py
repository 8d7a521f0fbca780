"""Every benchmark workload lowers for a device, in as many kernels as recorded here at most."""

from __future__ import annotations

import pytest

from benchmarks.gpu_kernels import DEVICES, compiled_figures, lowered_workload
from benchmarks.workloads import WORKLOADS

# Generated kernels and products of the whole program.
MOST_KERNELS = {
    "a": 1, "b32": 1, "b64": 1, "c": 1, "d": 1, "e_fwd": 1, "e_grad": 3, "f": 1, "g": 1, "h": 1,
    "i": 1, "j": 1, "k_gather": 1, "k_scatter": 3, "l": 3, "m": 1, "n": 5, "o_sgd": 16,
    "o_adam": 16, "p": 7, "q": 63, "r": 23, "s": 24, "t": 2, "u": 7, "v": 19, "w": 5, "x": 1,
    "x_grad": 1, "y16": 49,
}  # fmt: skip


@pytest.mark.parametrize("name", MOST_KERNELS)
def test_workload_lowers(name):
    lowered = lowered_workload(name)
    assert lowered.fallbacks == []
    assert "@triton.jit" in lowered.as_text("source")
    launches = len(lowered.source.kernels)
    assert launches <= MOST_KERNELS[name], launches


@pytest.mark.fuzz
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_kernel_of_a_workload_compiles_without_spills_and_fits(name, device):
    pytest.importorskip("triton")
    found = compiled_figures(lowered_workload(name, device), device)
    assert found.faults == ()
