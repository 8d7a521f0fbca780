"""Every kernel of the suite's programs compiles, without spills and within shared memory.

With `-m fuzz` as many as compile in STAX_FUZZ_SECONDS, others for each state of the package; all of
them with STAX_TRITON_FULL=1 (twenty minutes of processor time), or by
`python -m tests.codegen.sweep`.
"""

from __future__ import annotations

import math
import os
import random

import pytest

from benchmarks.gpu_kernels import DEVICES
from stax.backends.triton.build import shared_limit
from stax.errors import CompilationError
from tests.codegen import sweep
from tests.fuzzing import SECONDS, first_seed

FULL = os.environ.get("STAX_TRITON_FULL") == "1"


@pytest.mark.fuzz
@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_compiles(device):
    if FULL:
        whole = sweep.sweep_of(list(sweep.programs()), (device,), 2, math.inf)
        assert whole.done == whole.programs
        found = list(whole.kernels.values())
    else:
        kernels = sweep.distinct(sweep.programs(), (device,))
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


def broken(device):
    raise CompilationError("no such kernel")


def ending(device):
    os._exit(1)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_compiler_that_ends_its_process_is_a_fault_and_the_rest_is_done(
    monkeypatch, capsys, jobs
):
    few = [p for p in sweep.programs(("random",)) if p[0].startswith("program 7")][:2]
    monkeypatch.setattr(sweep, "programs", lambda kinds: iter([few[0], ("one", ending), few[1]]))
    assert sweep.main(["random", "--device", "cuda:sm_90", "--jobs", jobs]) == 1
    said = capsys.readouterr().out
    assert "one for cuda:sm_90: the compiler ended its process" in said
    kernels = len(sweep.distinct(few, ("cuda:sm_90",)))
    assert f"3 of 3 programs, {kernels + 1} distinct kernels" in said


def test_a_sweep_counts_what_it_did_and_fails_at_a_fault(monkeypatch, capsys):
    few = [p for p in sweep.programs(("random",)) if p[0].startswith("program 7")][:2]
    monkeypatch.setattr(sweep, "programs", lambda kinds: iter([*few, *few]))
    arguments = ["random", "--device", "cuda:sm_90", "--jobs", "1"]
    assert sweep.main(arguments) == 0
    kernels = len(sweep.distinct(few, ("cuda:sm_90",)))
    said = capsys.readouterr().out
    assert f"4 of 4 programs, {kernels} distinct kernels on cuda:sm_90: 0 faults" in said
    assert sweep.main([*arguments, "--seconds", "0"]) == 2
    assert "1 of 4 programs" in capsys.readouterr().out
    monkeypatch.setattr(sweep, "programs", lambda kinds: iter([("one", broken), *few]))
    assert sweep.main(arguments) == 1
    said = capsys.readouterr().out
    assert "one for cuda:sm_90: CompilationError: no such kernel" in said
    assert "1 faults" in said
