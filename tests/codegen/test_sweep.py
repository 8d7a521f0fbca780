"""Every kernel of the suite's programs compiles, without spills and within shared memory.

With `-m fuzz` as many as compile in STAX_FUZZ_SECONDS, others every time; all of them with
STAX_TRITON_FULL=1 (about an hour on two cores), or by `python -m tests.codegen.sweep`.
"""

from __future__ import annotations

import os
import random

import pytest

from benchmarks.gpu_kernels import DEVICES
from stax.backends.triton.build import shared_limit
from tests.codegen import sweep

FULL = os.environ.get("STAX_TRITON_FULL") == "1"


@pytest.mark.fuzz
@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_compiles(device):
    kernels = sweep.distinct(sweep.programs(), (device,))
    seconds = float("inf") if FULL else float(os.environ.get("STAX_FUZZ_SECONDS", "60")) / 3
    random.shuffle(kernels)
    found = list(sweep.swept(kernels, 2, seconds))
    assert found
    assert [f.fault for f in found if f.fault] == []
    if FULL:
        assert len(found) == len(kernels)


def test_a_sweep_takes_each_kernel_once_and_names_faults():
    programs = [p for p in sweep.programs(("random",)) if p[0].startswith("program 7 ")]
    kernels = sweep.distinct([*programs, *programs], ("cuda:sm_90",))
    assert len({k[2].key for k in kernels}) == len(kernels) > 0
    (found,) = sweep.swept(kernels[:1], 1)
    assert (found.fault, found.origin) == ("", kernels[0][0])
    assert found.registers > 0
    spilled = sweep.Found("p, kernel0", "hip:gfx942", spilled=8)
    assert spilled.fault.startswith("p, kernel0 for hip:gfx942 spills 8 bytes")
    full = sweep.Found("p", "hip:gfx942", shared=shared_limit("hip:gfx942") + 1)
    assert "65537 bytes" in full.fault
