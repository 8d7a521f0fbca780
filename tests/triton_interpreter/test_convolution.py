"""Convolutions and long contractions as products of matrices, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import stax

RNG = np.random.default_rng(7)
conv = stax.lax.conv_general_dilated


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def call(**params):
    return lambda x, w: conv(x, w, **params)


LAST = ("NHWC", "HWIO", "NHWC")
CASES = {
    "channels first": (
        call(window_strides=(1, 1), padding="SAME"), normal(2, 5, 9, 8), normal(6, 5, 3, 3), 1),
    "channels last": (
        call(window_strides=(2, 1), padding=((2, 0), (1, 3)), dimension_numbers=LAST),
        normal(2, 9, 8, 5), normal(3, 2, 5, 6), 1),
    "holes": (
        call(window_strides=(1, 2), padding="VALID", rhs_dilation=(2, 3)),
        normal(2, 4, 12, 13), normal(4, 4, 3, 3), 1),
    "holes of the image": (
        call(window_strides=(1, 1), padding=((3, 2), (1, 1)), lhs_dilation=(2, 3)),
        normal(1, 4, 5, 4), normal(5, 4, 3, 2), 1),
    "cropped": (
        call(window_strides=(1,), padding=((-2, -1),)), normal(3, 4, 20), normal(4, 4, 3), 1),
    "groups": (
        call(window_strides=(1, 1), padding="SAME", feature_group_count=2),
        normal(2, 8, 6, 7), normal(10, 4, 3, 3), 1),
    "groups of the batch": (
        call(window_strides=(1, 1), padding="SAME", batch_group_count=2),
        normal(4, 4, 6, 7), normal(8, 4, 3, 3), 1),
    "volume": (
        call(window_strides=(1, 1, 2), padding="SAME"), normal(1, 4, 5, 4, 6),
        normal(4, 4, 2, 3, 2), 1),
    "doubles": (
        call(window_strides=(1, 1), padding="SAME"), normal(1, 4, 9, 8, dtype=np.float64),
        normal(4, 4, 3, 3, dtype=np.float64), 1),
    "halves": (
        call(window_strides=(1, 1), padding="SAME"), normal(1, 4, 9, 8, dtype=np.float16),
        normal(4, 4, 3, 3, dtype=np.float16), 1),
    "few features": (
        call(window_strides=(1, 1), padding="SAME"), normal(2, 1, 9, 8), normal(2, 1, 3, 3), 0),
}  # fmt: skip


def close(found, wanted, tolerance=2e-5):
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        np.testing.assert_allclose(a, b, tolerance, tolerance * max(np.abs(b).max(), 1))


def products(f, *args):
    """How many kernels multiply matrices."""
    lowered = stax.jit(f).lower(*args, device="cuda:sm_90")
    return sum("tl.dot(" in k.body for k in lowered.source.kernels)


@pytest.mark.parametrize("name", CASES)
def test_convolution(name):
    f, x, w, count = CASES[name]
    assert products(f, x, w) == count
    tolerance = 4e-3 if name == "halves" else 2e-5
    close(stax.jit(f, backend="triton")(x, w), f(x, w), tolerance)


@pytest.mark.parametrize("name", ["channels last", "holes of the image", "groups"])
def test_gradient(name):
    f, x, w, _ = CASES[name]
    gradient = stax.grad(lambda x, w: np.sin(f(x, w)).sum(), (0, 1))
    close(stax.jit(gradient, backend="triton")(x, w), gradient(x, w), 1e-4)


def test_what_reads_a_convolution_is_computed_on_its_block():
    x, w, b = normal(2, 9, 8, 5), normal(3, 3, 5, 6), normal(6)

    def f(x, w, b):
        return np.maximum(conv(x, w, (1, 1), "SAME", dimension_numbers=LAST) + b, 0)

    lowered = stax.jit(f).lower(x, w, b, device="cuda:sm_90")
    assert len(lowered.source.kernels) == 1
    close(stax.jit(f, backend="triton")(x, w, b), f(x, w, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_long_contraction_is_cut_into_pieces(dtype):
    x, y = normal(6144, 20, dtype=dtype) / 8, normal(6144, 24, dtype=dtype) / 8
    f = lambda x, y: np.tanh(x.T @ y)
    lowered = stax.jit(f).lower(x, y, device="cuda:sm_90")
    first, *rest = lowered.source.kernels
    assert first.grid == 12
    assert not any("tl.dot(" in k.body for k in rest)
    close(stax.jit(f, backend="triton")(x, y), f(x, y), 4e-3 if dtype is np.float16 else 1e-5)


def test_a_small_result_of_a_long_convolution_is_cut_into_pieces():
    x, w = normal(2, 32, 33, 4), normal(3, 3, 4, 8)

    def loss(w):
        out = conv(x, w, (1, 1), "SAME", dimension_numbers=LAST)
        return (out * out).sum()

    gradient = stax.grad(loss)
    lowered = stax.jit(gradient).lower(w, device="cuda:sm_90")
    assert any(b.kind == "extern:conv_gemm" and b.params["pieces"] > 1 for b in lowered.buffers
               if b.kind.startswith("extern"))  # fmt: skip
    close(stax.jit(gradient, backend="triton")(w), gradient(w), 1e-4)
