"""Reductions in lanes of vectors: every length, type and place of a NaN gives what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax.backends.c import forks

LENGTHS = (5, 17, 64, 100, 391)


def reductions(module: Any, x: Any) -> tuple[Any, ...]:
    truth = x > 0
    return (
        module.sum(x, -1),
        module.prod(x, -1),
        module.max(x, -1),
        module.min(x, -1),
        module.any(truth, -1),
        module.all(truth, -1),
        module.argmax(x, -1),
    )


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint16"])
def test_values(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(1, 3, (7, n)).astype(dtype)
    if x.dtype.kind == "f":
        x = (1 + rng.standard_normal((7, n)) / 16).astype(dtype)
    f = stax.jit(lambda x: reductions(stax.numpy, x))
    tolerance = 1e-2 if dtype == "float16" else 1e-5 if dtype == "float32" else 1e-12
    for a, b in zip(f(x), reductions(np, x), strict=True):
        assert a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=tolerance)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_nan_is_seen_wherever_it_is(n: int, dtype: type) -> None:
    f = stax.jit(lambda x: (stax.numpy.max(x, -1), stax.numpy.min(x, -1)))
    x = np.zeros((n + 1, n), dtype)
    x[np.arange(n), np.arange(n)] = np.nan  # each row has one, but for the last
    x[:, 0] = np.where(np.isnan(x[:, 0]), np.nan, np.inf)
    for found, wanted in zip(f(x), (x.max(-1), x.min(-1)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not np.isnan(f(x)[0][-1])


def test_infinities_are_not_taken_for_nan() -> None:
    x = np.full((3, 100), -np.inf, np.float32)
    x[1, 40] = np.inf
    assert stax.jit(lambda x: x.max(-1))(x).tolist() == [-np.inf, np.inf, -np.inf]
    assert stax.jit(lambda x: x.argmax(-1))(x).tolist() == [0, 40, 0]


def test_the_lane_of_an_element_follows_from_its_place() -> None:
    """Whatever else runs in its loop, a sum has the same bits."""
    x = np.ones((4096, 1000), np.float32)
    text = stax.jit(lambda x: x.sum(-1)).lower(x).as_text("source")
    assert "for (int64_t t = 0; t < 960; t += 64)" in text
    assert "for (int64_t k = 0; k < 40; k++) {" in text  # the rest goes to the first 40 lanes
    assert "1000*x0 + t + 1000" in text  # the next row is fetched ahead
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 1000)).astype(np.float32)
    many = lambda x: (x.sum(-1), np.exp(x).sum(-1), (x * x).sum(-1), x.max(-1), np.tanh(x).sum(-1))
    alone = stax.jit(lambda x: x.sum(-1))(x)
    assert stax.jit(many)(x)[0].tobytes() == alone.tobytes()


@pytest.mark.parametrize("n", [255, 256, 257, 320, 1000, 20_000])
def test_the_first_of_equal_extremes_is_found_wherever_it_is(n: int) -> None:
    for dtype in (np.float64, np.int16):
        f = stax.jit(lambda x: (stax.numpy.argmax(x, -1), stax.numpy.argmin(x, -1)))
        places = [k for k in (0, 1, 63, 64, 250, 255, 256, 257, n - 66, n - 2, n - 1) if 0 <= k < n]
        x = np.zeros((len(places) + 1, n), dtype)
        for row, place in enumerate(places):
            x[row, place] = x[row, n - 1] = 3
            x[row, place // 2] -= 5
        for found, wanted in zip(f(x), (x.argmax(-1), x.argmin(-1)), strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert stax.jit(lambda x: x.argmax())(x[4]) == x[4].argmax()


def test_lanes_are_folded_by_one_function_for_all_loops() -> None:
    """What ends a reduction is the same everywhere, and compilers read it once."""
    x = np.ones((64, 256), np.float32)
    sums = lambda x: (x.sum(-1), (x - x.mean(-1, keepdims=True)).sum(-1), np.exp(x).sum(-1))
    text = stax.jit(sums).lower(x).as_text("source")
    kernels = text[text.index("static int32_t kernel0") : text.index("int32_t stax_run")]
    assert kernels.count("stax_fold_sum_f32(") >= 3
    assert text.count("float stax_fold_sum_f32(") == 1
    assert "k < 32;" not in kernels


def test_a_program_of_one_thread_has_the_bits_of_one_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is compiled without parallel regions."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((8, 24, 24, 8)).astype(np.float32)
    w = rng.standard_normal((3, 3, 8, 16)).astype(np.float32)

    def f(x: Any, w: Any) -> Any:
        y = stax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return np.exp(np.tanh(y) / y.max(-1, keepdims=True)).sum((0, 1)), y.mean(), y

    found = []
    for threads in (1, 2):
        monkeypatch.setattr(forks, "available_threads", lambda threads=threads: threads)
        found.append([np.asarray(v).tobytes() for v in stax.jit(lambda x, w: f(x, w))(x, w)])
    assert found[0] == found[1]
