"""S5.5b: the backward loop of the example reads h and the upstream gradient, and nothing else."""

from __future__ import annotations

import re

import numpy as np

import stax


def f(x, W):
    return stax.nn.gelu(x @ W, approximate=False).sum()


RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 64), np.float32)
W = RNG.standard_normal((64, 64), np.float32)


def backward(ct, x, W):
    """The gradient of W for an upstream gradient that is an argument."""
    return stax.vjp(lambda W: f(x, W), W)[1](ct)[0]


def test_s5_5b_the_kernel_reads_h_and_the_scalar():
    lowered = stax.jit(backward).lower(np.float32(1), X, W)
    h, h_bar, _ = [b for b in lowered.buffers if b.kind != "input"]
    assert (h.kind, h_bar.kind) == ("extern:matmul", "pointwise")
    assert set(h_bar.input_names) == {"ct", h.name}
    assert h_bar.ranges == (32, 64)
    assert [op for op in ("ops.erf(", "ops.exp(") if op in h_bar.text] == ["ops.erf(", "ops.exp("]


def test_s5_5b_the_c_function_has_three_pointers():
    lowered = stax.jit(backward).lower(np.float32(1), X, W)
    (kernel,) = lowered.kernels
    text = lowered.as_text("source")
    text = text[text.index(f"static int32_t {kernel.name}(") :]
    signature, body = text.split("{", 1)
    body = body[: body.index("\n}\n")]
    pointers = re.findall(r"(const )?float \*restrict (p\d)", signature)
    assert [bool(const) for const, _ in pointers].count(True) == 2
    assert len(pointers) == 3
    assert "stax_erf_f32(" in body
    assert "stax_exp_f32(" in body
    reads = set(re.findall(r"= (p\d)\[", body))
    writes = set(re.findall(r"^\s*(p\d)\[.*\] =", body, re.M))
    assert len(reads) == 2
    assert len(writes) == 1


def test_s5_5b_the_value_is_right():
    found = stax.jit(backward)(np.float32(2), X, W)
    np.testing.assert_allclose(found, 2 * stax.grad(f, argnums=1)(X, W), rtol=2e-4, atol=1e-3)
