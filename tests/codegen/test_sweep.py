"""Every kernel of the suite's programs compiles, without spills and within shared memory.

With `-m fuzz` as many as compile in STAX_FUZZ_SECONDS, others for each state of the package; all of
them with STAX_TRITON_FULL=1 (about an hour on two cores), or by `python -m tests.codegen.sweep`.
"""

from __future__ import annotations

import math
import os
import random

import pytest

from benchmarks.gpu_kernels import DEVICES
from stax.backends.triton.build import shared_limit
from tests.codegen import sweep
from tests.fuzzing import SECONDS, first_seed

FULL = os.environ.get("STAX_TRITON_FULL") == "1"


@pytest.mark.fuzz
@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_compiles(device):
    kernels = sweep.distinct(sweep.programs(), (device,))
    if FULL:
        found = list(sweep.swept(kernels, 2))
        assert len(found) == len(kernels)
    else:
        # As many as a usual machine compiles in that time, so that one state tries the same ones.
        random.Random(first_seed()).shuffle(kernels)
        found = list(sweep.swept(kernels[: math.ceil(SECONDS / 3)], 2, SECONDS / 3))
    assert found
    assert [f.fault for f in found if f.fault] == []


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
