"""S6.1, S6.2, S6.3: the buffers of a lowered graph, rules of each kind, and the first example."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp


def computed(lowered):
    return [b for b in lowered.buffers if b.kind not in ("input", "constant")]


def loops_of(f, *args):
    """The text of the only computed buffer."""
    (buffer,) = computed(stax.jit(f).lower(*args))
    return buffer


# ---------------------------------------------------------------------------------- S6.1


def test_s6_1_input_computed_and_fallback_buffers():
    def f(x):
        return stax.lax.igamma_grad_a(x * 2, x) + 1

    x = np.array([[3.0, 1.0], [0.5, 2.0]], np.float32)
    compiled = stax.jit(f)
    lowered = compiled.lower(x)
    kinds = [b.kind for b in lowered.buffers]
    assert kinds == ["input", "pointwise", "pointwise", "extern:fallback", "pointwise"]
    (note,) = lowered.fallbacks
    assert (note.op, note.reason) == ("gamma_slope", "no lowering rule")
    assert note.source.split(":")[0].endswith("test_s6_1_lowering.py")
    np.testing.assert_array_equal(compiled(x), f(x))


def test_s6_1_strict_refuses_fallbacks():
    with pytest.raises(stax.errors.StrictModeError, match="gamma_slope"):
        stax.jit(stax.lax.igamma_grad_a, strict=True)(np.ones(3), np.ones(3))


def test_s6_1_input_layout_is_the_callers_and_output_is_in_memory():
    lowered = stax.jit(lambda x: (x + 1, x.T)).lower(np.ones((2, 3)))
    inputs, *rest = lowered.buffers
    assert inputs.layout.strides == (3, 1)
    assert [b.layout.strides for b in rest] == [(3, 1), (2, 1)]


# ---------------------------------------------------------------------------------- S6.2


def test_s6_2_pointwise_reduction_and_view():
    x = np.ones((40, 6))
    assert loops_of(lambda x: np.exp(x), x).kind == "pointwise"
    assert loops_of(lambda x: x.max(0), x).kind == "reduction"
    view = loops_of(lambda x: -x[::2, None].T, x)
    assert view.kind == "pointwise"
    assert [str(r) for r in view.reads] == ["x[i0 + 12*i2]"]


def test_s6_2_creation_reads_nothing():
    buffer = loops_of(lambda: snp.arange(5) * 2 + snp.ones(5))
    assert buffer.kind == "pointwise"
    assert buffer.reads == ()
    np.testing.assert_array_equal(
        stax.jit(lambda: snp.arange(5) * 2 + snp.ones(5))(), [1, 3, 5, 7, 9]
    )


def test_s6_2_indirect_read_and_scatter_are_dual():
    x, i = np.arange(4.0), np.array([3, 0, 3])
    read = loops_of(lambda x, i: x[i] * 2, x, i)
    assert "ops.bind" in read.text
    assert "ops.load('x', s0)" in read.text

    def scatter(x, i):
        return stax.at(x)[i].set(x[:3]), stax.at(x)[i].add(10.0)

    scatters = [b for b in stax.jit(scatter).lower(x, i).buffers if b.kind == "scatter"]
    stores = [line for b in scatters for line in b.text.splitlines() if ", s0, " in line]
    assert sorted("mode='add'" in line for line in stores) == [False, True]
    first, second = stax.jit(scatter)(x, i)
    assert first[0] == 1.0
    assert first[3] in (0.0, 2.0)  # a repeated index: either write may win
    np.testing.assert_array_equal(second, [10, 1, 2, 23])


def test_s6_2_concatenation_is_one_masked_pointwise_node():
    x, y = np.arange(3.0), np.arange(2.0)
    buffer = loops_of(lambda x, y: np.concatenate([x, y]) * 2, x, y)
    assert (buffer.kind, buffer.ranges) == ("pointwise", (5,))
    assert buffer.text.count("mask=") == 2
    assert {str(r) for r in buffer.reads} == {"x[i0]", "y[i0 - 3]"}


def test_s6_2_type_promotion_is_in_the_loop():
    x, i = np.ones(3, np.float32), np.ones(3, np.int32)
    buffer = loops_of(lambda x, i: x + i, x, i)
    assert buffer.dtype == (x + i).dtype == np.float64
    assert buffer.text.count("ops.cast") == 2
    assert loops_of(lambda i: i / 2, i).dtype == np.float64
    assert loops_of(lambda x, i: x < i, x, i).dtype == np.bool_


@pytest.mark.parametrize("dtype", [np.float16, stax.dtypes.bfloat16])
def test_s6_2_half_precision_is_computed_in_single(dtype):
    # In half precision 1 + 2**-12 - 1 is 0; in single precision it is 2**-12.
    x = np.full(3, 2.0**-12, dtype)
    compiled = stax.jit(lambda x: (x + 1) - 1)
    source = compiled.lower(x).as_text("source")
    assert "float v" in source
    result = compiled(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float64), 2.0**-12)


# ---------------------------------------------------------------------------------- S6.3


def test_s6_3_chain_and_sum_are_one_reduction_buffer():
    def f(x, y):
        return (stax.nn.relu(x + y) * 2).sum(-1)

    x = np.ones((64, 128), np.float32)
    lowered = stax.jit(f).lower(x, x)
    a, b, out = lowered.buffers
    assert (a.kind, b.kind, out.kind) == ("input", "input", "reduction")
    assert (out.ranges, out.reduction_ranges) == ((64,), (128,))
    assert [str(r) for r in out.reads] == ["x[128*i0 + r0]", "y[128*i0 + r0]"]
    assert len(lowered.kernels) == 1
    assert lowered.as_text("loops") == "\n".join(
        [
            "x: f32 [64, 128] strides (128, 1) = input",
            "y: f32 [64, 128] strides (128, 1) = input",
            "buf2: f32 [64] strides (1) = reduction sum over [64]×[128]",
            "  for i0 < 64; over r0 < 128:",
            "  tmp0 = ops.load('x', 128*i0 + r0)",
            "  tmp1 = ops.load('y', 128*i0 + r0)",
            "  tmp2 = ops.add(tmp0, tmp1)",
            "  tmp3 = ops.relu(tmp2)",
            "  tmp4 = ops.constant(2.0, f32)",
            "  tmp5 = ops.mul(tmp3, tmp4)",
            "  tmp6 = ops.reduction('sum', tmp5)",
            "  ops.store('buf2', i0, tmp6)",
        ]
    )
