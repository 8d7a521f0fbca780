"""Measure the Triton back end on a GPU: `python -m benchmarks.gpu`.

First the bandwidth of a copy on the device, which is what memory-bound programs are compared with;
then every program is checked against NumPy and timed with the device's own events.  Where torch is
installed, the same programs in torch.compile, its matrix product, attention and convolution stand
beside.  The table goes to the terminal and to benchmarks/work/gpu.md.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stax
from stax.backends.triton import device
from stax.backends.triton.array import put

WORK = Path(__file__).parent / "work"
MISSING = """\
There is no GPU to measure on: {}
This takes a machine with an NVIDIA GPU (sm_75 or newer), its driver (12.0 or newer) and triton
(pip install 'stax[gpu]'); torch, built for CUDA, is measured beside if it is installed.
What would run, counted and compiled without a GPU: python -m benchmarks.gpu_kernels --compile"""
RNG = np.random.default_rng(0)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    """Rows with mean 0 and variance 1, scaled and shifted."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * g + b


def softmax(x: Any) -> Any:
    """Exponentials of each row, divided by their sum."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mlp(params: Any, x: Any, y: Any) -> Any:
    """The loss of three layers."""
    for w, b in params[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = params[-1]
    return ((x @ w + b - y) ** 2).mean()


def normal(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Any:
    """Random numbers."""
    return (RNG.standard_normal(shape) * scale).astype(dtype)


ROWS, COLUMNS = 16384, 2048
BIG_BYTES = 4 * ROWS * COLUMNS


def big() -> Any:
    """The array that programs bound by memory run over."""
    return normal(ROWS, COLUMNS)


def memory_bound_programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]]:
    """By name: a function, its arguments, and the passes over `big()` that those and the results
    take."""
    x, g, b = big(), normal(COLUMNS), normal(COLUMNS)
    y = x[::-1].copy()
    return {
        "pointwise x*y+tanh(x)": (lambda x, y: x * y + np.tanh(x), (x, y), 3),
        "sum of rows": (lambda x: (x * x).sum(-1), (x,), 1),
        "sum of columns": (lambda x: (x * x).sum(0), (x,), 1),
        "sum": (lambda x: (x * x).sum(), (x,), 1),
        "transposed": (lambda x, y: x.T + y, (x, x.T.copy()), 3),
        "softmax": (softmax, (x,), 2),
        "softmax gradient": (lambda x, c: stax.vjp(softmax, x)[1](c)[0], (x, y), 3),
        "layer norm": (layer_norm, (x, g, b), 2),
        "layer norm gradient": (
            lambda x, g, b, c: stax.vjp(layer_norm, x, g, b)[1](c),
            (x, g, b, y),
            3,
        ),
        "cumulative sum of rows": (lambda x: np.cumsum(x, -1), (x,), 2),
    }


def seconds(machine: Any, run: Callable[[], Any], least: float = 0.2) -> float:
    """Seconds a run, the median of five batches."""
    run()
    run()
    run()
    machine.synchronize()
    start = time.perf_counter()
    run()
    machine.synchronize()
    count = max(1, int(least / 5 / max(time.perf_counter() - start, 1e-6)))

    def batch() -> None:
        for _ in range(count):
            run()

    return sorted(machine.seconds(batch) / count for _ in range(5))[2]


def agrees(found: Any, wanted: Any, tolerance: float) -> bool:
    """Whether results agree with NumPy's."""
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        if np.abs(a - b).max() > tolerance * max(np.abs(b).max(), 1e-30):
            return False
    return True


def copy_bandwidth(machine: Any) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    x, y = (put(big()) for _ in range(2))
    return 2 * x.nbytes / seconds(machine, lambda: machine.copy(y.address, x.address, x.nbytes))


class Table:
    """Lines of the report."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *cells: object) -> None:
        """One row."""
        line = "| " + " | ".join(str(c) for c in cells) + " |"
        self.lines.append(line)
        print(line, flush=True)


def memory_bound(machine: Any, table: Table, copy: float, check: bool) -> bool:
    """Programs whose time is that of their memory traffic."""
    right = True
    table.say("program", "agrees", "time", "GB/s", "of a copy", "torch.compile")
    table.say(*["---"] * 6)
    for name, (f, args, passes) in memory_bound_programs().items():
        program = stax.jit(f, backend="triton")
        given = [put(a) for a in args]
        good = not check or agrees(program(*given), f(*args), 2e-4)
        right &= good
        taken = seconds(machine, lambda p=program, g=given: p(*g))  # type: ignore[misc]  # bound
        rate = passes * BIG_BYTES / taken
        other = torch_seconds(name, args)
        beside = f"{other * 1e6:.0f} us" if other else "-"
        share = f"{100 * rate / copy:.0f} %"
        table.say(name, "yes" if good else "NO", f"{taken * 1e6:.0f} us", f"{rate / 1e9:.0f}",
                  share, beside)  # fmt: skip
    return right


def products(machine: Any, table: Table, check: bool) -> bool:
    """Matrix products of every type."""
    right = True
    table.say("product", "agrees", "time", "TFLOP/s", "torch (cuBLAS)")
    table.say(*["---"] * 5)
    for kind in ("float16", "bfloat16", "float32"):
        dtype = stax.dtypes.bfloat16 if kind == "bfloat16" else np.dtype(kind)
        for n in (1024, 2048, 4096, 8192):
            x, y = (normal(n, n, dtype=dtype, scale=0.1) for _ in range(2))
            program = stax.jit(lambda x, y: x @ y, backend="triton")
            rounded = stax.jit(lambda x, y: x @ y, backend="triton", matmul_precision="tf32")
            a, b = put(x), put(y)
            good = True
            if check and n <= 2048:
                wide = x.astype(np.float32) @ y.astype(np.float32)
                good = agrees(program(a, b), wide, 1e-5 if kind == "float32" else 2e-2)
            right &= good
            taken = seconds(machine, lambda p=program, g=(a, b): p(*g))  # type: ignore[misc]
            other = torch_product(kind, n)
            beside = f"{2 * n**3 / other / 1e12:.0f}" if other else "-"
            table.say(f"{kind} {n}", "yes" if good else "NO", f"{taken * 1e6:.0f} us",
                      f"{2 * n**3 / taken / 1e12:.1f}", beside)  # fmt: skip
            if kind == "float32":
                good = not check or n > 2048 or agrees(rounded(a, b), x @ y, 2e-3)
                right &= good
                taken = seconds(machine, lambda p=rounded, g=(a, b): p(*g))  # type: ignore[misc]
                table.say(f"tf32 {n}", "yes" if good else "NO", f"{taken * 1e6:.0f} us",
                          f"{2 * n**3 / taken / 1e12:.1f}", "-")  # fmt: skip
    return right


def fused(machine: Any, table: Table, check: bool) -> bool:
    """Attention, forward and backward, and convolutions."""
    right = True
    table.say("program", "agrees", "time", "TFLOP/s", "torch")
    table.say(*["---"] * 5)
    product = stax.nn.dot_product_attention
    for kind in ("float16", "float32"):
        for batch, length, heads, depth in ((4, 2048, 16, 64), (1, 8192, 16, 128)):
            shape = (batch, length, heads, depth)
            q, k, v, ct = (put(normal(*shape, dtype=kind)) for _ in range(4))
            work = 4 * batch * heads * length**2 * depth

            def forward(q: Any, k: Any, v: Any) -> Any:
                return product(q, k, v)

            def backward(q: Any, k: Any, v: Any, ct: Any) -> Any:
                return stax.vjp(forward, q, k, v)[1](ct)

            small = [normal(1, 256, 2, depth, dtype=kind) for _ in range(4)]
            for what, f, args, times in (
                ("attention", forward, (q, k, v), 1),
                ("attention with gradients", backward, (q, k, v, ct), 3.5),
            ):
                program = stax.jit(f, backend="triton", matmul_precision="tf32")
                given = small[: len(args)]
                good = not check or agrees(
                    stax.jit(f, backend="triton")(*given),
                    f(*given),
                    1e-2 if kind[-2:] == "16" else 1e-4,
                )
                right &= good
                taken = seconds(machine, lambda p=program, g=args: p(*g))  # type: ignore[misc]
                other = torch_attention(shape, kind, what != "attention")
                table.say(
                    f"{what} {kind} {shape}", "yes" if good else "NO", f"{taken * 1e6:.0f} us",
                    f"{times * work / taken / 1e12:.1f}", f"{other * 1e6:.0f} us" if other else "-",
                )  # fmt: skip
    for kind in ("float16", "float32"):
        x, w = normal(32, 56, 56, 128, dtype=kind), normal(3, 3, 128, 128, dtype=kind, scale=0.03)

        def convolution(x: Any, w: Any) -> Any:
            order = ("NHWC", "HWIO", "NHWC")
            return stax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)

        program = stax.jit(convolution, backend="triton", matmul_precision="tf32")
        cut = (x[:1, :16, :16], w)
        good = not check or agrees(
            stax.jit(convolution, backend="triton")(*cut),
            convolution(*cut),
            1e-2 if kind == "float16" else 1e-4,
        )
        right &= good
        given = (put(x), put(w))
        taken = seconds(machine, lambda p=program, g=given: p(*g))  # type: ignore[misc]
        other = torch_convolution(kind)
        work = 2 * 32 * 56 * 56 * 9 * 128 * 128
        table.say(
            f"convolution {kind}", "yes" if good else "NO", f"{taken * 1e6:.0f} us",
            f"{work / taken / 1e12:.1f}", f"{other * 1e6:.0f} us" if other else "-",
        )  # fmt: skip
    return right


def steps(machine: Any, table: Table, check: bool) -> bool:
    """Training steps."""
    sizes = (1024, 4096, 4096, 256)
    params = [
        (normal(m, n, scale=m**-0.5), np.zeros(n, np.float32))
        for m, n in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    x, y = normal(1024, sizes[0]), normal(1024, sizes[-1])

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = stax.value_and_grad(mlp)(params, x, y)
        return value, stax.tree.map(lambda p, g: p - 0.01 * g, params, gradients)

    program = stax.jit(step, backend="triton")
    given = stax.tree.map(put, (params, x, y))
    good = not check or agrees(program(*given), stax.jit(step)(params, x, y), 1e-3)
    taken = seconds(machine, lambda: program(*given))
    table.say("step", "agrees", "time")
    table.say(*["---"] * 3)
    table.say(
        "gradient step of an MLP, batch 1024", "yes" if good else "NO", f"{taken * 1e6:.0f} us"
    )
    return good


# ------------------------------------------------------------------------------------- torch


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


def torch_seconds(name: str, args: tuple[Any, ...]) -> float:
    """torch.compile's seconds for one of `memory_bound_programs`; 0 where there is none."""
    torch = _torch()
    programs: dict[str, Callable[..., Any]] = {
        "pointwise x*y+tanh(x)": lambda x, y: x * y + torch.tanh(x),
        "sum of rows": lambda x: (x * x).sum(-1),
        "sum of columns": lambda x: (x * x).sum(0),
        "sum": lambda x: (x * x).sum(),
        "transposed": lambda x, y: x.T + y,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer norm": lambda x, g, b: torch.nn.functional.layer_norm(x, (COLUMNS,), g, b),
        "cumulative sum of rows": lambda x: torch.cumsum(x, -1),
    }
    if torch is None or name not in programs:
        return 0.0
    compiled = torch.compile(programs[name])
    given = [torch.as_tensor(a, device="cuda") for a in args]
    return _torch_time(torch, lambda: compiled(*given))


def torch_product(kind: str, n: int) -> float:
    """Seconds of cuBLAS, through torch; 0 where there is none."""
    torch = _torch()
    if torch is None:
        return 0.0
    x = torch.randn(n, n, device="cuda", dtype=getattr(torch, kind))
    return _torch_time(torch, lambda: x @ x)


def torch_attention(shape: tuple[int, int, int, int], kind: str, gradients: bool) -> float:
    """Seconds of torch's fused attention; 0 where there is none."""
    torch = _torch()
    if torch is None:
        return 0.0
    b, t, n, h = shape
    dtype = getattr(torch, kind)
    q, k, v = (
        torch.randn(b, n, t, h, device="cuda", dtype=dtype, requires_grad=gradients)
        for _ in range(3)
    )
    f = torch.nn.functional.scaled_dot_product_attention
    if not gradients:
        return _torch_time(torch, lambda: f(q, k, v))
    ct = torch.randn_like(q)
    return _torch_time(torch, lambda: torch.autograd.grad(f(q, k, v), (q, k, v), ct))


def torch_convolution(kind: str) -> float:
    """Seconds of torch's convolution, channels last; 0 where there is none."""
    torch = _torch()
    if torch is None:
        return 0.0
    dtype = getattr(torch, kind)
    last = {"memory_format": torch.channels_last}
    x = torch.randn(32, 128, 56, 56, device="cuda", dtype=dtype).to(**last)
    w = torch.randn(128, 128, 3, 3, device="cuda", dtype=dtype).to(**last)
    return _torch_time(torch, lambda: torch.nn.functional.conv2d(x, w, padding=1))


def _torch_time(torch: Any, run: Callable[[], Any]) -> float:
    for _ in range(3):
        run()
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(20):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 20e3)
    return sorted(times)[2]


def main(arguments: list[str] | None = None) -> int:
    """Measure; the exit status is 1 if a result is wrong, 2 if there is nothing to measure on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--no-check", action="store_true", help="measure only")
    parser.add_argument("--only", choices=("memory", "products", "fused", "steps"), help="one part")
    options = parser.parse_args(arguments)
    try:
        machine = device.machine(0)
    except stax.errors.DeviceError as error:
        print(MISSING.format(str(error).splitlines()[0]), file=sys.stderr)
        return 2
    assert isinstance(machine, device.CudaDevice)
    table, check = Table(), not options.no_check
    copy = copy_bandwidth(machine)
    table.lines.append(f"{machine.model}, {machine.name}: a copy moves {copy / 1e9:.0f} GB/s\n")
    print(table.lines[-1])
    right = True
    if options.only in (None, "memory"):
        right &= memory_bound(machine, table, copy, check)
    if options.only in (None, "products"):
        right &= products(machine, table, check)
    if options.only in (None, "fused"):
        right &= fused(machine, table, check)
    if options.only in (None, "steps"):
        right &= steps(machine, table, check)
    WORK.mkdir(exist_ok=True)
    (WORK / "gpu.md").write_text("\n".join(table.lines) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
