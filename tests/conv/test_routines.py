"""A convolution's library holds the blocks that its sizes need, and no other."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
from stax.backends.c.convolution import convolution_source, is_convolution, symbol
from stax.backends.c.routines import addresses
from stax.backends.c.toolchain import find_toolchain
from stax.lax import conv_general_dilated

needs_compiler = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler here")


def test_text_holds_what_is_asked_for() -> None:
    text = convolution_source(["conv_f32_28", "product_f32"])
    assert "int32_t stax_conv_f32(" in text
    assert "swapped" not in text
    assert "double" not in text
    assert "int32_t stax_conv_swapped_f64(" in convolution_source(["conv_swapped_f64_9"])
    assert is_convolution("conv_f32_28")
    assert not is_convolution("conv_f32")
    assert symbol("conv_swapped_f64_9") == "stax_conv_swapped_f64"


@needs_compiler
@pytest.mark.parametrize("width", [1, 2, 5, 6, 7, 12, 13, 23, 24, 25, 37])
def test_every_width_finds_its_blocks(width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.standard_normal((2, 9, width, 16)).astype(np.float32)
    w = rng.standard_normal((3, 3, 16, 32)).astype(np.float32)

    def loss(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        dims = ("NHWC", "HWIO", "NHWC")
        return (conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims) ** 2).sum()

    gradient = stax.grad(loss, (0, 1))
    lowered = stax.jit(gradient).lower(x, w)
    names = [n for n in lowered.source.image.routines if is_convolution(n)]
    assert any(re.fullmatch(rf"conv_f32_{width}", n) for n in names)
    assert all(addresses(lowered.source.image.routines))
    for found, expected in zip(stax.jit(gradient)(x, w), gradient(x, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-3)
