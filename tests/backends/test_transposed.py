"""Tiles transposed in vector registers: every shape, on processors with less than this one has."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest

import stax
from stax.backends.c.toolchain import find_toolchain
from stax.backends.c.vecmath import definitions

X86 = platform.machine().lower() in ("x86_64", "amd64")
NARROWER = [(), ("-mno-avx512f",), ("-mno-avx512f", "-mno-avx2")] if X86 else [()]


@pytest.mark.parametrize("without", NARROWER, ids=lambda flags: " ".join(flags) or "all")
@pytest.mark.parametrize("bits", [32, 64])
def test_every_shape_of_a_tile(bits, without):
    toolchain = find_toolchain()
    if toolchain is None:
        pytest.skip("needs a C compiler")
    text = definitions([f"transpose_b{bits}"])
    parameters = "void *a, int64_t s, void *b, int64_t t, int64_t m, int64_t n"
    text += f"void run({parameters}) {{ stax_transpose_b{bits}(a, s, b, t, m, n); }}\n"
    run = toolchain.load(text, extra=without).handle.run
    rng = np.random.default_rng(0)
    for rows, columns in [(1, 1), (8, 8), (16, 16), (15, 17), (16, 40), (64, 64), (33, 5), (64, 1)]:
        source = rng.integers(0, 2**31, (columns + 1, rows + 3)).astype(f"u{bits // 8}")
        target = np.zeros((rows, columns + 2), source.dtype)
        shape = [source.shape[1], target.shape[1], rows, columns]
        step, to, m, n = map(ctypes.c_int64, shape)
        run(
            ctypes.c_void_p(source.ctypes.data), step, ctypes.c_void_p(target.ctypes.data), to, m, n
        )
        assert np.array_equal(target[:, :columns], source[:columns, :rows].T)
        assert not target[:, columns:].any()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u4", "u8", "?"])
@pytest.mark.parametrize("shape", [(64, 64), (65, 200), (130, 79)], ids=str)
def test_transposed_operands_of_every_type(dtype, shape):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, shape).astype(dtype)
    y = rng.integers(0, 100, shape[::-1]).astype(dtype)
    for f in (lambda x, y: x.T | y if x.dtype == bool else x.T * 2 + y, lambda x, y: x.T[::-1] + y):
        found, expected = stax.jit(f)(x, y), f(x, y)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
