"""Generated kernels compile for every architecture, without spills and within shared memory.

A few programs of every kind, and a few samples; test_sweep.py takes them all.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import stax
from stax.backends.triton.build import CUDA, HIP, image_of, shared_limit, target_of
from stax.backends.triton.kernel import Operand
from stax.backends.triton.run import TritonProgram, described
from stax.backends.triton.templates import choices, matmul
from stax.dtypes import bfloat16
from stax.errors import CompilationError, ConfigurationError, DeviceError
from stax.primitives.contracted import contracted_power
from tests.codegen.sweep import SAMPLES

FULL = os.environ.get("STAX_TRITON_FULL") == "1"
DEVICES = ("cuda:sm_80", "cuda:sm_90", "hip:gfx942")
F32 = np.dtype(np.float32)
X = np.ones((64, 1000), np.float32)


def loss(w, b, x):
    h = stax.nn.gelu(x @ w + b)
    return (stax.nn.softmax(h, -1) * h).sum()


PROGRAMS = {
    "pointwise": (lambda x: np.tanh(x) * 2 + np.exp(-x), X),
    "angles": (lambda x: np.cos(np.sin(x[:50, :50]) * 100), X),
    "tiled": (lambda x, y: x.T + y, X, X.T.copy()),
    "softmax": (lambda x: stax.nn.softmax(x, -1), X),
    "long softmax": (lambda x: stax.nn.softmax(x, -1), np.ones((64, 50_000), np.float32)),
    "statistics": (lambda x: (x.var(0), x.argmax(1), x.max(), (x > 0).any(1)), X),
    "split": (lambda x: x.sum(), np.ones(1_000_000)),
    "scan": (lambda x: (np.cumsum(x, 1), np.cumprod(x[0])), X),
    "cut scan": (lambda x: (np.cumsum(x), np.cumsum(x[::-1] > 0)), np.ones(100_000, np.float32)),
    "gather": (lambda x, i: x[i] * 2, X, np.zeros(50, np.int64)),
    "scatter": (
        lambda x, i: (stax.at(x)[i].set(x[:9]), stax.at(x)[i].add(1.0), stax.at(x)[i].max(0.0)),
        X, np.zeros(9, np.int64),
    ),
    "integers": (lambda i: (i // 7, i % 5, i << 2, i >> 1, abs(i), i**3), np.arange(99)),
    "halves": (lambda x: (np.exp(x), x.sum(0)), X.astype(np.float16)),
    "two precisions": (
        lambda x: np.rint(x) + np.trunc(x) + np.sqrt(x)
        + (np.rint(x.astype(float)) + np.trunc(x.astype(float)) + np.sqrt(x.astype(float))), X,
    ),
    "powers of draws": (contracted_power, X, X),
    "special": (lambda x: (stax.lax.erf(x), stax.lax.lgamma(x), stax.lax.digamma(x)), X),
    "layer": (stax.grad(loss, (0, 1)), np.ones((1000, 64), np.float32), np.ones(64, np.float32), X),
    "operands": (
        lambda x, w: np.tanh((x * 2).astype(np.float16) @ (w - 1).astype(np.float16).T),
        np.ones((500, 1000), np.float32), np.ones((96, 1000), np.float32),
    ),
    "attention": (
        stax.grad(lambda q: stax.nn.dot_product_attention(q, q, q, is_causal=True).sum()),
        np.ones((4, 512, 4, 64), np.float32),
    ),
    "convolution": (
        lambda x, w: np.tanh(stax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))),
        np.ones((8, 28, 28, 32), np.float16), np.ones((3, 3, 32, 64), np.float16),
    ),
    "random": (lambda k: stax.random.normal(k, (1000,)), stax.random.key(0)),
}  # fmt: skip


def check(f, args, device):
    """Every kernel of a program compiles and fits."""
    lowered = stax.jit(f).lower(*args, device=device)
    program = TritonProgram(lowered.source, device, {})
    for name, figures in described(program).items():
        assert figures["spilled_bytes"] == 0, name
        assert figures["shared_bytes"] <= shared_limit(device), name
        image = image_of(name, program.kernels[name], device)
        sizes = [size for _, size in image.parameters]
        wanted = [4 if t == "i32" else 8 for t in program.kernels[name].types.values()]
        if device.startswith("cuda"):
            assert sizes[: len(wanted)] == wanted  # parameters in the order of the source
            assert set(sizes[len(wanted) :]) <= {8}  # then scratch pointers
    return program


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile(name):
    f, *args = PROGRAMS[name]
    for device in (
        DEVICES
        if FULL
        or name in ("softmax", "layer", "angles", "operands", "two precisions", "powers of draws")
        else DEVICES[1:2]
    ):
        check(f, args, device)


@pytest.mark.parametrize("sample", SAMPLES[::40], ids=str)
def test_samples_compile(sample):
    args = sample.make(np.random.default_rng(0), np.dtype(sample.dtypes[0]))
    for device in DEVICES[1:]:
        check(sample.fn, args, device)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
def test_products_of_every_type_and_size_compile(dtype):
    dtype = np.dtype(dtype)
    operand = Operand("a", 0, (0, 256, 1))
    for blocks in choices(dtype)[-1 if not FULL else 0 :]:
        out = np.dtype(np.float64) if dtype.itemsize == 8 else F32
        source = matmul("product", (1, 256, 256, 256), operand, operand, operand, (dtype, out),
                        blocks)  # fmt: skip
        image = image_of("product", source, "cuda:sm_90")
        assert image.shared <= shared_limit("cuda:sm_90")
        assert image.vectors[0] > 0  # 128-bit accesses


def test_products_whose_programs_stay_compile():
    lowered = stax.jit(lambda x: x @ x).lower(
        stax.ShapeDtypeStruct((4096, 4096), np.dtype(np.float16)), device="cuda:sm_90"
    )
    (source,) = lowered.source.kernels
    stays = source.variants()[-1]
    assert (source.grid, stays.grid) == (512, 132)
    image = image_of("product", stays, "cuda:sm_90")
    assert (image.spilled, image.shared <= shared_limit("cuda:sm_90")) == (0, True)


def test_pointwise_kernels_read_and_write_128_bits():
    lowered = stax.jit(lambda x, y: x * y + 1).lower(X, X, device="cuda:sm_90")
    program = TritonProgram(lowered.source, "cuda:sm_90", {})
    (figures,) = described(program).values()
    assert figures["accesses_128"] or figures["accesses_64"]
    assert lowered.compile().kernel_analysis() == described(program)


def test_architectures_that_cannot_be_compiled_for():
    for device in ("cuda:sm_60", "cuda:gfx942", "hip:sm_90", "metal"):
        with pytest.raises(DeviceError, match="cannot be compiled for"):
            target_of(device)


@pytest.mark.parametrize(
    "device",
    ["cuda:sm_70", "cuda:sm_77", "cuda:sm_91", "cuda:0", "cuda:90", "hip", "hip:gfx", "hip:gfx000",
     "hip:sm_90", "hip:gfx1030"],
)  # fmt: skip
def test_an_architecture_is_refused_before_anything_is_printed_for_it(device):
    with pytest.raises(DeviceError, match="cannot be compiled for") as found:
        stax.jit(lambda x: x + 1).lower(X, device=device)
    assert all(name in str(found.value) for name in ("75, 80", "121 or larger", "gfx942"))


def test_an_architecture_newer_than_all_that_are_known_is_left_to_triton():
    assert target_of("cuda:sm_999") == ("cuda", 999, 32)


@pytest.mark.parametrize(
    "device", [*(f"cuda:sm_{n}" for n in CUDA), *(f"hip:{name}" for name in HIP)]
)
def test_every_known_architecture_compiles(device):
    """A matrix product and a reduction, each for all of them when STAX_TRITON_FULL is set."""
    if not FULL and device not in ("cuda:sm_75", "cuda:sm_121", "hip:gfx1201"):
        assert target_of(device)[0] == device.partition(":")[0]
        return
    check(lambda x: (np.tanh(x @ x.T), np.exp(x).sum(1)), (X[:, :80].copy(),), device)


@pytest.mark.parametrize("device", ["cpu:0", "CUDA:sm_90", "tpu", b"cpu", 3])
def test_a_device_that_is_none(device):
    with pytest.raises(ConfigurationError, match="is not 'cpu', 'cuda:sm_NN' or 'hip:gfxNNN'"):
        stax.jit(lambda x: x + 1).lower(X, device=device)


def test_what_triton_refuses_is_an_error_of_ours():
    lowered = stax.jit(lambda x: x + 1).lower(X, device="cuda:sm_90")
    (source,) = lowered.source.kernels
    broken = type(source)(
        "broken", source.parameters, source.written, source.types, "    nonsense(p0)", 1, 4
    )
    with pytest.raises(CompilationError, match="triton could not compile broken"):
        image_of("broken", broken, "cuda:sm_90")
