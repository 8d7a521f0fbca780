"""S5.5b, S6.4c, S6.5b, S6.6, S6.8d for devices: what the Triton source of a program reads and does.

No device and no triton are needed to print it.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
from stax.compile import lowered_graph
from stax.programs.options import CompileOptions
from tests.loops.programs import merged

DEVICE = "cuda:sm_90"


def function_text(lowered, name):
    """One function of the source."""
    text = lowered.as_text("source")
    start = text.index(f"def {name}(")
    return text[start:].split("\n@triton.jit")[0]


# ---------------------------------------------------------------------------------- S5.5b


def f(x, W):
    return stax.nn.gelu(x @ W, approximate=False).sum()


def backward(ct, x, W):
    """The gradient of W for an upstream gradient that is an argument."""
    return stax.vjp(lambda W: f(x, W), W)[1](ct)[0]


def test_s5_5b_the_device_kernel_reads_h_and_the_scalar_upstream_gradient():
    x = np.ones((32, 64), np.float32)
    w = np.ones((64, 64), np.float32)
    graph = stax.make_ir(backward)(np.float32(1), x, w)
    # With its steps apart: by default the kernel is computed on the block of the product itself.
    lowered = lowered_graph(graph, CompileOptions.of(fuse=False), DEVICE)
    h, h_bar, _ = [b for b in lowered.buffers if b.kind != "input"]
    assert h.kind == "extern:matmul"
    (kernel,) = lowered.kernels
    text = function_text(lowered, kernel.name)
    assert set(re.findall(r"tl\.load\((p\d)", text)) == {"p0", "p1"}
    assert re.findall(r"tl\.store\((p\d)", text) == ["p2"]
    source = next(s for s in lowered.source.kernels if s.name == kernel.name)
    assert set(source.parameters) == {"ct", h.name, h_bar.name}
    assert source.written == {h_bar.name}
    assert text.count("libdevice.erf(") == 1
    assert text.count("libdevice.exp(") == 1
    # The upstream gradient is one scalar, read without an index.
    ct = source.parameters.index("ct")
    assert f"tl.load(p{ct} + 0)" in text


def test_s5_5b_by_default_h_stays_in_registers():
    x = np.ones((32, 64), np.float32)
    w = np.ones((64, 64), np.float32)
    lowered = stax.jit(backward).lower(np.float32(1), x, w, device=DEVICE)
    first, _ = lowered.source.kernels
    text = function_text(lowered, first.name)
    assert "tl.dot(" in text
    assert "libdevice.erf(" in text
    assert text.count("tl.store(") == 1


# ---------------------------------------------------------------------------------- S6.4c


def test_s6_4c_a_transposed_operand_is_read_by_strides_and_tiled_in_two_dimensions():
    x, y = np.ones((512, 256), np.float32), np.ones((256, 512), np.float32)
    lowered = stax.jit(lambda x, y: x.T + y).lower(x, y, device=DEVICE)
    (buffer,) = [b for b in lowered.buffers if b.kind != "input"]
    assert buffer.kind == "pointwise"
    assert [str(r) for r in buffer.reads] == ["x[i0 + 256*i1]", "y[512*i0 + i1]"]
    text = function_text(lowered, "kernel0")
    assert "tl.load(p0 + (x0 + 256*x1))" in text
    assert "tl.load(p1 + (512*x0 + x1))" in text
    assert "[None, :]" in text  # two axes of a block, so that both reads are contiguous
    assert "[:, None]" in text


# ---------------------------------------------------------------------------------- S6.5b


def test_s6_5b_lowering_for_a_device_splits_a_long_row():
    x = np.ones((64, 16384), np.float32)
    lowered = stax.jit(lambda x: (x * x).sum(-1)).lower(x, device=DEVICE)
    first, second = [b for b in lowered.buffers if b.kind == "reduction"]
    assert (first.ranges, first.reduction_ranges) == ((64, 2), (8192,))
    assert (second.ranges, second.reduction_ranges) == ((64,), (2,))
    assert [str(r) for r in first.reads] == ["x[16384*i0 + 8192*i1 + r0]"]
    assert [str(r) for r in merged(first.body).reads] == ["x[r0 + 8192*x0]"]
    assert lowered.lowered.outputs == [second.name]
    assert [s.grid for s in lowered.source.kernels] == [128, 64]


def test_s6_5b_the_cpu_and_short_rows_are_not_split():
    x = np.ones((64, 16384), np.float32)
    assert len(stax.jit(lambda x: x.sum(-1)).lower(x).buffers) == 2
    short = np.ones((64, 8192), np.float32)
    assert len(stax.jit(lambda x: x.sum(-1)).lower(short, device=DEVICE).buffers) == 2
    many = np.ones((264, 16384), np.float32)
    assert len(stax.jit(lambda x: x.sum(-1)).lower(many, device=DEVICE).buffers) == 2


@pytest.mark.parametrize(("device", "segments"), [("cuda:sm_90", 123), ("cuda:sm_80", 123)])
def test_s6_5b_a_whole_sum_has_many_partial_results(device, segments):
    x = np.ones(1_000_000, np.float32)
    lowered = stax.jit(lambda x: x.sum()).lower(x, device=device)
    first, _ = [b for b in lowered.buffers if b.kind == "reduction"]
    assert first.ranges == (segments,)


# ---------------------------------------------------------------------------------- S6.6


def test_s6_6_a_device_recomputes_a_transcendental_for_its_readers():
    def g(x):
        h = np.tanh(x)
        return h[::-1] + 1, h * h[:, ::-1]

    x = np.ones((4, 6), np.float32)
    assert len([b for b in stax.jit(g).lower(x).buffers if b.kind == "pointwise"]) == 3
    lowered = stax.jit(g).lower(x, device=DEVICE)
    assert len([b for b in lowered.buffers if b.kind == "pointwise"]) == 2
    assert "libdevice.tanh(" in lowered.as_text("source")


# ---------------------------------------------------------------------------------- S6.8d


@pytest.mark.parametrize(("rows", "wide"), [(1 << 18, False), (1 << 20, True)])
def test_s6_8d_addresses_take_64_bits_only_when_they_must(rows, wide):
    x = stax.ShapeDtypeStruct((rows, 1 << 12), np.dtype(np.float32))
    text = stax.jit(lambda x: x + 1).lower(x, device=DEVICE).as_text("source")
    assert ("tl.int64" in text) is wide


def test_s6_8d_a_gathered_index_is_narrowed_once_it_is_known_to_be_inside():
    x, i = np.ones(100, np.float32), np.zeros(50, np.int64)
    text = stax.jit(lambda x, i: x[i] * 2).lower(x, i, device=DEVICE).as_text("source")
    assert re.search(r"tl\.minimum\(tl\.maximum\(v\d+, 0\), 99\)\.to\(tl\.int32\)", text)
