"""Kernels that differ in the length of their outermost loop alone share a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c.lengths import Lengths
from stax.backends.c.toolchain import find_toolchain
from stax.tree_util import tree_leaves, tree_map

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

SIZES = ((300, 700), (512, 512), (640, 250), (33, 5))
RNG = np.random.default_rng(8)


def update(weights: Any, gradients: Any, moments: Any) -> Any:
    moments = tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments, gradients)
    return tree_map(lambda w, m: w - 0.01 * m / (1 + abs(m)), weights, moments), moments


def arrays() -> list[np.ndarray]:
    return [RNG.standard_normal(s).astype(np.float32) for s in SIZES]


def functions(text: str) -> int:
    return text.count("static int32_t kernel")


def test_an_update_of_large_weights_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    args = arrays(), arrays(), arrays()
    shared = stax.jit(lambda *a: update(*a))
    text, found = shared.lower(*args).as_text("source"), shared(*args)
    assert "int64_t length" in text
    monkeypatch.setattr(Lengths, "shared", lambda self, source: (source, []))
    apart = stax.jit(lambda *a: update(*a))
    assert functions(text) < functions(apart.lower(*args).as_text("source"))
    for one, other, plain in zip(
        *map(tree_leaves, (found, apart(*args), update(*args))), strict=True
    ):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, plain, rtol=1e-5, atol=1e-6)


def test_rows_of_one_width_share_the_function_of_their_reduction() -> None:
    def f(x: Any, y: Any) -> Any:
        return tuple(snp.exp(a - a.max(-1, keepdims=True)).sum(-1) for a in (x, y))

    x, y = (RNG.standard_normal((n, 100)) for n in (55, 77))
    text = stax.jit(f).lower(x, y).as_text("source")
    assert functions(text) == text.count("x0 < length") == 1
    for found, expected in zip(stax.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_other_loops_keep_their_numbers() -> None:
    """Where the number stands elsewhere too, and where the loop is vectorised."""

    def f(x: Any, y: Any) -> Any:
        return tuple((a + 1, a.T * 2) for a in (x, y))

    x, y = RNG.standard_normal((40, 40)), RNG.standard_normal((24, 24))
    text = stax.jit(f).lower(x, y).as_text("source")
    assert "length" not in text
    for one, other in zip(stax.jit(f)(x, y), f(x, y), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_divide_a_shared_loop_as_its_own() -> None:
    args = tuple(RNG.standard_normal(n) for n in (640_000, 1_280_000))
    f = lambda x, y: (snp.tanh(x) * 2, snp.tanh(y) * 2)
    text = stax.jit(f).lower(*args).as_text("source")
    assert "< length" in text
    alone = [stax.jit(lambda x: snp.tanh(x) * 2)(x) for x in args]
    for one, other in zip(stax.jit(f)(*args), alone, strict=True):
        np.testing.assert_array_equal(one, other)
