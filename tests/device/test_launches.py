"""Programs compiled for a fake device, which runs nothing but checks every launch."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import stax
from stax.backends.triton import device, driver
from stax.backends.triton.array import put
from stax.errors import DeviceError, OutOfBoundsError
from tests.device import fake

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_an_operator_is_a_program_and_a_part_is_a_copy(cuda):
    x = put(X)
    y = x + 1
    assert isinstance(y, stax.DeviceArray)
    launched = cuda.fake_launches()
    assert launched == 1
    assert isinstance(x.sum(0) - y[0], stax.DeviceArray)
    assert cuda.fake_launches() == launched + 2
    assert isinstance((x[1:] > 3).reshape(-1), stax.DeviceArray)
    assert cuda.fake_launches() == launched + 3
    assert cuda.fake_fault() == b""


def test_prototypes_are_those_of_the_header(tmp_path):
    spec = importlib.util.find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    include = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    text = tmp_path / "prototypes.c"
    text.write_text(f"#include <stddef.h>\n#include <cuda.h>\n{driver.PROTOTYPES}\n")
    command = [fake.compiler(), "-fsyntax-only", "-Wall", "-Werror", f"-I{include}", str(text)]
    subprocess.run(command, check=True)


def test_arguments_block_and_grid(cuda):
    seen = []

    @fake.CALLBACK
    def on_launch(name, grid, count, values):
        seen.append((name, grid, [values[k] for k in range(count)]))

    cuda.fake_on_launch(on_launch)
    x, y = put(X), put(X)
    out = stax.jit(lambda x, y: x * y + 1, backend="triton")(x, y)
    ((name, grid, values),) = seen
    assert (name, grid) == (b"kernel0", 1)
    assert values[:3] == [x.address, y.address, out.address]
    assert values[3:] == [0] * len(values[3:])  # scratch pointers, not needed
    assert cuda.fake_fault() == b""


def test_flags_are_passed_and_read(cuda):
    @fake.CALLBACK
    def on_launch(name, grid, count, values):
        flags, flag = values[count - 4], values[count - 3]
        fake.ctypes.c_int32.from_address(flags + 4 * flag).value = 1

    f = stax.jit(lambda x, i: x[i], backend="triton")
    f(X[0], np.array([1, 2]))
    cuda.fake_on_launch(on_launch)
    with pytest.raises(OutOfBoundsError, match="size 4"):
        f(X[0], np.array([1, 2]))


def test_shared_memory_beyond_the_default_is_asked_for(cuda):
    a = np.zeros((512, 512), np.float16)
    program = stax.jit(lambda a: (a @ a) + 1, backend="triton")
    program(a)
    assert cuda.fake_fault() == b""


def test_a_failed_launch_is_named_and_nothing_leaks(cuda):
    f = stax.jit(lambda x: x.sum(0) * 2, backend="triton")
    x = put(X)
    f(x)
    before = fake.used(cuda)
    cuda.fake_plant(b"cuLaunchKernel", 701, 0)
    with pytest.raises(DeviceError, match=r"of kernel kernel0 failed: .*OUT_OF_RESOURCES"):
        f(x)
    assert fake.used(cuda) == before


def test_memory_that_runs_out_in_a_program_is_reported_and_given_back(cuda):
    f = stax.jit(lambda x: (np.exp(x)[:, None] * x).sum(0)[::-1] * 2, backend="triton")
    x = put(np.ones(500, np.float32))
    f(x)
    held = fake.used(cuda)
    cuda.fake_set(1, 12040, held + 10_000)
    big = stax.jit(lambda x: x[:, None] + x, backend="triton")
    with pytest.raises(DeviceError, match=r"no 1,000,000 bytes for .*float32\[500, 500\]") as info:
        big(x)
    assert "array float32[500] (2,000 bytes)" in str(info.value)
    assert "smaller batches" in str(info.value)
    assert fake.used(cuda) == held
    f(x)  # what fits still runs
    cuda.fake_plant(b"cuMemAllocAsync", 2, 0)
    f(x)  # memory that is kept is given back and the allocation tried again
    cuda.fake_plant(b"cuMemAllocAsync", 999, 0)
    with pytest.raises(DeviceError, match="cuMemAllocAsync failed"):
        put(np.ones(400, np.float32))
    assert fake.used(cuda) == held
    assert cuda.fake_fault() == b""


def started_singly(cuda, f, x):
    """The kernels that a run of `f` starts one by one: none where it is a graph."""
    machine = device.machine(0)
    calls = []
    kept = machine.launcher
    machine.launcher = lambda *a: calls.append(a) or kept(*a)
    before = cuda.fake_launches()
    f(x)
    machine.launcher = kept
    assert cuda.fake_launches() > before
    return len(calls)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "name",
    ["cuStreamBeginCapture_v2", "cuLaunchKernel", "cuStreamEndCapture",
     "cuGraphInstantiateWithFlags"],
)  # fmt: skip
def test_memory_that_runs_out_while_a_program_is_captured(cuda, name, times):
    """What is kept is given back; if that is not enough the program runs kernel by kernel."""
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    x = put(np.ones((100, 100), np.float32))
    machine = device.machine(0)
    attempts = []
    kept = machine.captured

    def captured(work):
        if attempts and times == 1:
            return kept(work)  # memory that is given back comes again from elsewhere
        unused = put(np.ones(7777))
        del unused
        assert machine._kept
        cuda.fake_plant(name.encode(), driver.OUT_OF_MEMORY, 0)
        cuda.fake_repeat(times)
        attempts.append(kept(work))
        assert not machine._kept
        return attempts[-1]

    machine.captured = captured
    for _ in range(8):
        f(x)
    assert attempts
    assert all((a is None) == (times == 2) for a in attempts)
    assert (started_singly(cuda, f, x) == 0) == (times == 1)
    assert cuda.fake_fault() == b""


def test_another_failure_while_a_program_is_captured_is_raised(cuda):
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    x = put(np.ones((100, 100), np.float32))
    cuda.fake_plant(b"cuGraphInstantiateWithFlags", 999, 0)
    f(x)
    with pytest.raises(DeviceError, match="cuGraphInstantiateWithFlags failed: CUDA_ERROR_FAKE"):
        f(x)


@pytest.mark.parametrize("times", [1, 2, 4])
def test_memory_that_runs_out_when_a_graph_is_launched(cuda, times):
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    x = put(np.ones((100, 100), np.float32))
    for _ in range(5):
        f(x)
    cuda.fake_plant(b"cuGraphLaunch", driver.OUT_OF_MEMORY, 0)
    cuda.fake_repeat(times)
    assert (started_singly(cuda, f, x) == 0) == (times == 1)
    for _ in range(4):
        f(x)
    assert cuda.fake_fault() == b""


@pytest.mark.parametrize(
    ("name", "what"),
    [("cuLaunchKernel", "to start kernel kernel0"), ("cuModuleLoadData", "for kernel kernel0")],
)
def test_memory_that_runs_out_for_a_kernel(cuda, name, what):
    """Starting a kernel and loading it take memory too."""
    x = put(np.ones((100, 100), np.float32))
    for times in (1, 2):
        f = stax.jit(lambda x: np.exp(x) * 7 - x.sum(), backend="triton")
        device.machine(0)._functions.clear()
        held = fake.used(cuda)
        cuda.fake_plant(name.encode(), driver.OUT_OF_MEMORY, 0)
        cuda.fake_repeat(times)
        if times == 1:
            assert f(x).shape == x.shape
            continue
        with pytest.raises(DeviceError, match=f"has no memory {what}: .*largest values") as info:
            f(x)
        assert "array float32[100, 100] (40,000 bytes)" in str(info.value)
        del info  # its frames hold the results
        assert fake.used(cuda) == held
    assert cuda.fake_fault() == b""


def test_ten_thousand_launches_leave_nothing(cuda):
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    x = put(np.ones((100, 100), np.float32))
    f(x)
    held, before = fake.used(cuda), cuda.fake_launches()
    per_run = before
    for _ in range(10_000 // per_run):
        f(x)
    assert fake.used(cuda) == held
    assert cuda.fake_launches() - before >= 10_000 - per_run


def test_a_program_run_again_on_the_same_memory_is_one_graph(cuda):
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    x = put(np.ones((100, 100), np.float32))
    for _ in range(6):
        f(x)
    machine = device.machine(0)
    calls = []
    kept = machine.launcher
    machine.launcher = lambda *a: calls.append(a) or kept(*a)
    before = cuda.fake_launches()
    for _ in range(3):
        f(x)
    assert cuda.fake_launches() > before
    assert calls == []  # the whole program is one launch
    assert cuda.fake_fault() == b""


def test_events_measure_time(cuda):
    f = stax.jit(lambda x: x + 1, backend="triton")
    x = put(X)
    before = cuda.fake_live_events()
    assert 0 <= device.machine(0).seconds(lambda: f(x)) < 10
    assert cuda.fake_live_events() == before


def test_a_program_runs_where_its_arguments_are(cuda):
    cuda.fake_set(2, 12040, 1 << 30)
    f = stax.jit(lambda x, y: x + y, backend="triton")
    assert f(X, X).device == "cuda:0"
    there = put(X, 1)
    for _ in range(4):  # the last as captured graphs
        assert f(there, X).device == "cuda:1"
        assert f(put(X), X).device == "cuda:0"
    with pytest.raises(DeviceError, match=r"argument y is on cuda:1, another one on device 0"):
        f(put(X), there)
    assert cuda.fake_fault() == b""


def test_a_loop_is_captured_with_memory_of_its_own(cuda):
    def f(x):
        return stax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), np.zeros(5, np.float32), x)

    program = stax.jit(f, backend="triton")
    x = put(np.ones((20, 5), np.float32))
    for _ in range(6):
        program(x)
    machine = device.machine(0)
    calls = []
    kept = machine.launcher
    machine.launcher = lambda *a: calls.append(a) or kept(*a)
    before = cuda.fake_launches()
    program(x)
    assert calls == []
    assert cuda.fake_launches() - before >= 20
    assert cuda.fake_fault() == b""


def test_a_program_for_another_architecture(cuda):
    device.machine(0)
    compiled = stax.jit(lambda x: x + 1).lower(X, device="cuda:sm_80").compile()
    with pytest.raises(DeviceError, match=r"compiled for cuda:sm_80; device 0 is cuda:sm_90"):
        compiled(X)
    compiled = stax.jit(lambda x: x + 1).lower(X, device="hip:gfx942").compile()
    with pytest.raises(DeviceError, match="compiled for hip:gfx942, on which programs cannot be"):
        compiled(X)
    here = stax.jit(lambda x: x + 1).lower(X, device="cuda:sm_90").compile()
    assert here(X).shape == X.shape
    analysis = here.memory_analysis()
    assert analysis["output_bytes"] == X.nbytes
    costs = here.cost_analysis()
    assert (costs["kernels"], costs["bytes"], costs["calls"]) == (1, 2 * X.nbytes, 0)


@pytest.mark.parametrize(("size", "kernels", "grid"), [(1024, 3, 64), (4096, 4, 132)])
def test_the_fastest_blocks_are_measured_once_and_remembered(
    cuda, tmp_path, monkeypatch, size, kernels, grid
):
    """The last choice is made the fastest: blocks of 128 by 128, or programs that stay."""
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path / "cache"))
    grids = []

    @fake.CALLBACK
    def on_launch(name, grid, count, values):
        grids.append(grid)

    cuda.fake_on_launch(on_launch)
    a = np.zeros((size, size), np.float16)
    for round_ in range(2):
        machine = device.CudaDevice(driver.driver(), 0)
        device.install(machine)
        kept = machine.seconds
        measured = []

        def slow_unless_last(work, kept=kept, measured=measured):
            measured.append(kept(work))
            return 1.0 if len(measured) <= 3 * (kernels - 1) else 0.5

        machine.seconds = slow_unless_last
        x = put(a)
        f = stax.jit(lambda x: np.tanh(x @ x), backend="triton")
        f(x)
        assert len(measured) == (3 * kernels if round_ == 0 else 0)  # three rounds
        assert grids[-1] == grid
    assert cuda.fake_fault() == b""


WARM = """
import sys
import threading
import numpy as np, stax
f = stax.jit(stax.grad(lambda x: (np.tanh(x) * x.sum()).sum()), backend="triton")
f(np.ones((30, 40), np.float32))
print(sorted({m.split(".")[0] for m in sys.modules} & {"triton", "sympy", "torch", "networkx"}))
"""


def test_a_warm_start_imports_neither_triton_nor_sympy(fake_library, tmp_path, monkeypatch):
    monkeypatch.setenv("STAX_CUDA_DRIVER", str(fake_library))
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path / "cache"))
    outs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WARM], capture_output=True, text=True, check=True
        )
        outs.append(done.stdout.strip())
    assert outs == ["['triton']", "[]"]


ABSENT = """
import sys
import threading
sys.modules["triton"] = None
import numpy as np, stax
try:
    stax.jit(lambda x: np.arctan(x) * 123, backend="triton")(np.ones(3))
except stax.errors.CompilerNotFoundError as error:
    print(error)
"""


def test_without_triton_and_without_a_cached_program(fake_library, tmp_path, monkeypatch):
    monkeypatch.setenv("STAX_CUDA_DRIVER", str(fake_library))
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True
    )
    assert "compiled by triton, which cannot be imported" in done.stdout
    assert "pip install 'stax[gpu]'" in done.stdout


@pytest.mark.parametrize("meanwhile", ["launch", "read", "put"])
def test_what_another_thread_issues_while_a_program_is_captured_runs(cuda, meanwhile):
    """Only the launches of the program itself become its graph, and nothing has to wait."""
    x = put(X)
    f = stax.jit(lambda x: np.exp(x) * x.sum(), backend="triton")
    other = stax.jit(lambda x: np.cos(x) + 3, backend="triton")
    other(x)
    work = {"launch": lambda: other(x), "read": x.to_numpy, "put": lambda: put(X * 2)}[meanwhile]
    machine = device.machine(0)
    kept, capture = machine.launcher, machine.captured
    launched, seen, captures = [], [], []

    def launcher(*args):
        if captures and not seen:
            seen.append("started")
            before = cuda.fake_launches()
            beside = threading.Thread(target=lambda: seen.append(work()))
            beside.start()
            beside.join()
            launched.append(cuda.fake_launches() - before)
        return kept(*args)

    machine.launcher = launcher
    machine.captured = lambda work: captures.append(1) or capture(work)
    for _ in range(4):
        out = f(x)
    assert out.shape == X.shape
    assert len(seen) == 2  # it came to an end without an error
    assert launched == [1 if meanwhile == "launch" else 0]
    machine.launcher = kept
    before, kernels = cuda.fake_launches(), len(f.lower(x).source.kernels)
    f(x)
    assert cuda.fake_launches() - before == kernels  # replayed: its own and no other
    assert cuda.fake_fault() == b""


def test_memory_of_a_loop_that_runs_out_is_given_back(cuda):
    def f(x, start):
        return stax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), start, x)

    program = stax.jit(f, backend="triton")
    x, start = put(np.ones((20, 900), np.float32)), put(np.zeros(900, np.float32))
    held, refused = fake.used(cuda), 0
    for room in range(0, 40_000, 1000):
        cuda.fake_set(1, 12040, held + room)
        with contextlib.suppress(DeviceError):
            program(x, start)
            break
        refused += 1
        assert fake.used(cuda) == held
    assert refused > 6  # somewhere among the results, the carries and the temporaries
    assert cuda.fake_fault() == b""
