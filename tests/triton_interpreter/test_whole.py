"""From end to end: real machine code, the real driver layer, a fake driver, interpreted launches.

The programs are compiled by another process, because this one cannot; here they come from the
cache, are launched through the driver's interface with its own packing of arguments, and the fake
driver hands each launch to the interpreter, which works on the fake device's memory.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stax
from stax.backends.triton import device
from tests.device import fake
from tests.triton_interpreter.machine import InterpretedFunction
from tests.triton_interpreter.whole import PROGRAMS

ROOT = Path(__file__).parents[2]


class Host:
    """What an interpreted function counts its launches on."""

    launches = 0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A cache with compiled programs, and the fake driver."""
    directory = tmp_path_factory.mktemp("whole")
    library = fake.build(directory)
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env |= {"STAX_CACHE_DIR": str(directory / "cache"), "STAX_CUDA_DRIVER": str(library)}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "tests.triton_interpreter.whole"]
    subprocess.run(command, check=True, env=env, cwd=ROOT)
    return directory, library


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_from_end_to_end(place, name, monkeypatch):
    directory, library = place
    monkeypatch.setenv("STAX_CACHE_DIR", str(directory / "cache"))
    monkeypatch.setenv("STAX_CUDA_DRIVER", str(library))
    monkeypatch.setenv("STAX_CUBLAS", "off")
    device.install(None)
    machine = device.machine(0)
    assert isinstance(machine, device.CudaDevice)
    known = {}
    make = machine.function

    def function(name, source):
        found = make(name, source)
        known[name.encode()] = (InterpretedFunction(Host, name, source), len(source.types))
        return found

    machine.function = function
    faults = []

    @fake.CALLBACK
    def on_launch(name, grid, count, values):
        try:
            interpreted, wanted = known[name]
            assert count >= wanted
            kinds = interpreted.types
            given = [values[k] for k in range(wanted)]
            given = [
                ctypes.c_int32(v & 0xFFFFFFFF).value if t == "i32" else v
                for v, t in zip(given, kinds, strict=True)
            ]
            interpreted.launch(grid, given)
        except BaseException as error:
            faults.append(error)

    controls = fake.controls(library)
    controls.fake_on_launch(on_launch)
    f, args = PROGRAMS[name]
    program = stax.jit(f, backend="triton")
    wanted = f(*args)
    try:
        for _ in range(4):  # the last runs replay a captured graph
            found = program(*args)
            assert faults == []
            np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    finally:
        controls.fake_on_launch(ctypes.cast(None, fake.CALLBACK))
    assert controls.fake_fault() == b""
