"""S6.5a: mean and variance are one reduction of Welford triples, shown through public names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax


def layernorm(x: Any) -> Any:
    away = x - np.mean(x, -1, keepdims=True)
    return away / np.sqrt(np.mean(away * away, -1, keepdims=True) + 1e-5)


def buffers(f: Callable[..., Any], x: Any, kind: str = "reduction") -> list[str]:
    return [b.text.splitlines()[0] for b in stax.jit(f).lower(x).buffers if b.kind == kind]


X = np.random.default_rng(0).standard_normal((60, 100)).astype(np.float32)
WRITTEN = {
    "var": (lambda x: np.var(x, -1), "[60]×[100]"),
    "std": (lambda x: np.std(x, -1, ddof=1, keepdims=True), "[60]×[100]"),
    "down the columns": (lambda x: np.var(x, 0), "[100]×[60]"),
    "of everything": (lambda x: np.var(x), "[]×[60, 100]"),
    "of several axes": (lambda x: np.var(x.reshape(3, 20, 100), (0, 2)), "[20]×[3, 100]"),
    "batched": (stax.vmap(lambda x: np.var(x)), "[60]×[100]"),
    "by hand": (lambda x: ((x - x.mean(1)[:, None]) ** 2).sum(1), "[60]×[100]"),
    "of a layer": (layernorm, "[60]×[100]"),
    "standardised": (lambda x: stax.nn.standardize(x), "[60]×[100]"),
    "of half precision": (lambda x: np.var(x.astype(np.float16), -1), "[60]×[100]"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_s6_5a_a_variance_is_a_reduction_of_welford_triples(name: str) -> None:
    f, loops = WRITTEN[name]
    (found,) = [b for b in buffers(f, X) if "welford" in b]
    assert f"reduction welford over {loops}" in found
    expected = np.asarray(f(X), np.float64)
    tolerance = 2e-3 if "half" in name else 1e-5
    np.testing.assert_allclose(stax.jit(f)(X), expected, rtol=tolerance, atol=tolerance)


def test_s6_5a_it_needs_no_mean_first() -> None:
    """A variance alone is one kernel that reads its argument, and no sum is made."""
    for axis in (0, 1, None):
        lowered = stax.jit(lambda x, axis=axis: np.var(x, axis)).lower(X)
        assert [t for t in buffers(lambda x, axis=axis: np.var(x, axis), X) if " sum " in t] == []
        readers = [b for b in lowered.buffers if any("x[" in str(r) for r in b.reads)]
        assert len(readers) == 1
    # In the gradient the mean is needed, and the variance still is one reduction.
    g = stax.grad(lambda x: layernorm(x).sum() * 2)
    assert sum("welford" in b for b in buffers(g, X)) == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ((x - x.mean(0)) ** 2).sum(1),  # another mean
        lambda x: ((x - x.mean(1)[:, None]) ** 2).sum(0),
        lambda x: ((x - x.sum(1)[:, None] / 99) ** 2).sum(1),  # not a mean
        lambda x: ((x - (2 * x).mean(1)[:, None]) ** 2).sum(1),
        lambda x: ((x - x.mean(1)[:, None]) * (x - x.mean())).sum(1),
        lambda x: ((x.mean(1)[:, None] - x[::-1]) ** 2).sum(1),
        lambda x: ((x[:, :60] - x[:, :60].mean(1)) ** 2).sum(1),  # the mean of another row
    ],
)
def test_s6_5a_what_only_looks_like_a_variance_is_none(f: Callable[[Any], Any]) -> None:
    assert not any("welford" in b for b in buffers(f, X))
    np.testing.assert_allclose(stax.jit(f)(X), f(X), rtol=2e-5)


FAR = {
    "short rows": ((50, 100), 1),
    "rows": ((8, 1000), 1),
    "long rows": ((3, 70_001), 1),
    "columns": ((3000, 50), 0),
    "few rows": ((9, 3000), 0),
    "everything": ((300, 500), None),
    "one row": ((100_003,), None),
    "outer axes": ((40, 30, 20), (0, 2)),
    "short inner axis": ((40, 30, 3), (0, 2)),
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize(("dtype", "mean"), [(np.float32, 1e4), (np.float64, 1e8)])
def test_s6_5a_far_from_zero_it_is_as_exact_as_two_passes(
    name: str, dtype: type, mean: float
) -> None:
    shape, axis = FAR[name]
    x = (np.random.default_rng(1).standard_normal(shape) + mean).astype(dtype)
    wide = x.astype(np.longdouble)
    exact = np.var(wide - wide.ravel()[0], axis)
    unit = np.finfo(dtype).eps

    def error(found: Any) -> float:
        return float(np.max(np.abs(found - exact) / exact)) / unit

    found = error(stax.jit(lambda x: np.var(x, axis))(x))
    assert found <= max(error(np.var(x, axis)), 16), found


OPTIONS = {
    "ddof": lambda x: np.var(x, 1, ddof=1),
    "more ddof than elements": lambda x: np.var(x, 1, ddof=200),
    "correction": lambda x: np.std(x, 0, correction=1.5),
    "keepdims": lambda x: np.var(x, (0, 1), keepdims=True),
    "where": lambda x: np.var(x, 1, where=x > 0),
    "mean": lambda x: np.var(x, 1, mean=np.mean(x, 1, keepdims=True)),
    "dtype": lambda x: np.var(x, 1, dtype=np.float64),
    "complex": lambda x: np.var(x + 1j * x[::-1], 1),
    "half": lambda x: np.var(x.astype(np.float16), 0),
    "integers": lambda x: np.var((x * 9).astype(np.int32), 1),
    "no elements": lambda x: np.var(x[:, :0], 1),
    "no results": lambda x: np.var(x[:0], 1),
    "one element": lambda x: np.var(x[:, :1], 1),
    "equal elements": lambda x: np.var(x * 0 + np.float32(1e4), 1),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_s6_5a_options_mean_what_they_mean_in_numpy(name: str) -> None:
    f = OPTIONS[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = f(X)
        found = stax.jit(f)(X)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = 5e-3 if wanted.dtype == np.float16 else 2e-6
    np.testing.assert_allclose(found, wanted, rtol=tolerance, equal_nan=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(7, 40), (3, 9000)])
def test_s6_5a_nan_and_infinity_reach_their_own_row(shape: tuple[int, int], bad: float) -> None:
    x = np.random.default_rng(2).standard_normal(shape)
    for place in (0, 17, shape[1] - 1):
        y = x.copy()
        y[1, place] = bad
        for axis in (0, 1):
            with np.errstate(all="ignore"):
                wanted = np.var(y, axis)
            found = stax.jit(lambda x, axis=axis: np.var(x, axis))(y)
            np.testing.assert_allclose(found, wanted, rtol=1e-12, equal_nan=True)


def test_s6_5a_derivatives_of_every_order_go_through() -> None:
    x = X[:6, :20].astype(np.float64)
    f = lambda x: (np.var(x, -1) ** 1.5).sum()
    g = stax.jit(stax.grad(f))
    away = x - x.mean(-1, keepdims=True)
    wanted = 1.5 * np.sqrt(x.var(-1, keepdims=True)) * 2 * away / 20
    np.testing.assert_allclose(g(x), wanted, rtol=1e-12)
    np.testing.assert_allclose(stax.grad(stax.jit(f))(x), wanted, rtol=1e-12)
    v = np.cos(x)
    turned = stax.jit(lambda x, v: stax.hvp(f, (x,), (v,)))(x, v)
    np.testing.assert_allclose(turned, stax.hvp(f, (x,), (v,)), rtol=1e-10)


def test_squares_of_what_has_fewer_axes_than_the_difference_are_no_variance():
    points, q = np.arange(60.0).reshape(20, 3), np.arange(36.0).reshape(12, 3)
    distances = stax.vmap(lambda q: ((points - q) ** 2).sum(-1))
    np.testing.assert_allclose(
        stax.jit(distances)(q), ((points - q[:, None]) ** 2).sum(-1), rtol=1e-14
    )
    f = lambda v, w: ((v - w[:, None, None]) ** 2).sum((0, 2))
    np.testing.assert_allclose(stax.jit(f)(points, q[:, 0]), f(points, q[:, 0]), rtol=1e-14)
    f = lambda v, w: ((v - w) ** 2).sum()
    np.testing.assert_allclose(stax.jit(f)(2.0, q), f(2.0, q), rtol=1e-14)
