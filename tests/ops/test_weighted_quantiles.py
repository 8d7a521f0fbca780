"""Quantiles with weights, compiled, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.errors import ConfigurationError, ShapeError

X = np.random.default_rng(0).integers(0, 9, (3, 4, 5)).astype(float)
W = np.random.default_rng(1).integers(0, 4, X.shape).astype(float) + (X[..., :1] == X)
LEVELS = {
    None: 0.5,
    0: np.array([0.0, 0.25, 0.4, 1.0]),
    -1: np.array([[0.1], [0.9]], np.float32),
    (0, 2): 1,
    (2, 0): np.float32(0.4),
}
FUNCTIONS = ["quantile", "nanquantile", "percentile", "nanpercentile"]


def same(name, x, q, **options):
    f = getattr(np, name)
    q = q * 100 if "percentile" in name else q
    want = f(x, q, method="inverted_cdf", **options)
    weights = options.pop("weights")
    got = stax.jit(lambda x, w: f(x, q, method="inverted_cdf", weights=w, **options))(x, weights)
    assert np.shape(got) == np.shape(want)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", LEVELS)
def test_weights_of_every_element(name, axis):
    same(name, X, LEVELS[axis], axis=axis, weights=W)


@pytest.mark.parametrize("axis", [1, (0, 2), (2, 0)])
def test_weights_of_an_axis(axis):
    weights = {1: np.array([0.0, 1, 2, 1]), (0, 2): W[:, 0], (2, 0): W[:, 0].T}
    same("quantile", X, 0.5, axis=axis, weights=weights[axis], keepdims=True)


def test_integers_single_precision_and_nan():
    same("quantile", X.astype(np.int32), 0.3, axis=0, weights=W)
    same("percentile", X.astype(np.float32), 0.3, axis=0, weights=W)
    holes = np.where(X == 3, np.nan, X)
    for name in FUNCTIONS:
        same(name, holes, 0.5, axis=1, weights=W + 1)


@pytest.mark.parametrize("method", ["lower", "higher", "nearest", "inverted_cdf"])
def test_integers_stay_integers_where_an_element_is_taken(method):
    x = X.astype(np.int32)
    for q in (0.3, np.array([0.0, 0.7])):
        want = np.quantile(x, q, axis=1, method=method)
        got = stax.jit(lambda x: np.quantile(x, q, axis=1, method=method))(x)  # noqa: B023 - used at once
        assert got.dtype == want.dtype == np.int32
        np.testing.assert_array_equal(got, want)


def test_refused():
    f = stax.jit(lambda x, w: np.quantile(x, 0.5, weights=w))
    with pytest.raises(ConfigurationError, match="Only method 'inverted_cdf' supports weights"):
        f(X, W)
    g = stax.jit(lambda x, w: np.quantile(x, 0.5, axis=1, weights=w, method="inverted_cdf"))
    with pytest.raises(ShapeError, match="weights have the shape"):
        g(X, W[0])
