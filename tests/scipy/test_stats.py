"""`stax.scipy.stats`: values against SciPy, derivatives in points and parameters, tails, edges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

import stax
from stax.errors import ShapeError
from stax.scipy import stats

X = np.array([-9.0, -2.5, -1.0, -0.3, 0.0, 0.2, 0.5, 0.9, 1.0, 1.7, 4.0, 30.0])
Q = np.array([0.0, 1e-6, 0.1, 0.5, 0.8, 1 - 1e-6, 1.0])
CONTINUOUS: dict[str, tuple[float, ...]] = {
    "beta": (0.7, 2.5), "cauchy": (), "chi2": (3.0,), "expon": (), "f": (2.5, 4.0),
    "gamma": (1.7,), "gennorm": (1.5,), "gumbel_l": (), "gumbel_r": (), "halfnorm": (),
    "invgamma": (2.1,), "laplace": (), "logistic": (), "lognorm": (0.7,), "norm": (),
    "pareto": (1.3,), "rayleigh": (), "t": (3.3,), "truncnorm": (-1.2, 2.0), "uniform": (),
    "vonmises": (1.2,), "weibull_min": (1.4,), "wrapcauchy": (0.4,),
}  # fmt: skip
METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")


@pytest.fixture(autouse=True)
def _quiet_scipy() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def has(distribution: Any, method: str, *args: Any) -> bool:
    try:
        getattr(distribution, method)(*args)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("name", CONTINUOUS)
def test_values(name: str) -> None:
    shapes = CONTINUOUS[name]
    own, other = getattr(stats, name), getattr(reference, name)
    x = X[np.abs(X) < 3] if name == "vonmises" else X
    methods = [m for m in METHODS if has(own, m, Q, *shapes)]

    def points(method: str) -> Any:
        return Q if method in ("ppf", "isf") else x

    def compare(method: str, got: Any, want: Any) -> None:
        # SciPy loses digits in some logarithms of probabilities near 1.
        tolerance = 1e-7 if method[:3] == "log" or points(method) is Q else 1e-10
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-15, err_msg=method)

    moved = {"loc": 0.3, "scale": 1.9}
    for extra in ({}, moved):
        for m in methods:
            want = getattr(other, m)(points(m), *shapes, **extra)
            compare(m, getattr(own, m)(points(m), *shapes, **extra), want)

    @stax.jit
    def everything(x: Any, q: Any, loc: Any, scale: Any) -> Any:
        at = {m: q if points(m) is Q else x for m in methods}
        return {m: getattr(own, m)(at[m], *shapes, loc=loc, scale=scale) for m in methods}

    for m, got in everything(x, Q, *moved.values()).items():
        compare(m, got, getattr(other, m)(points(m), *shapes, **moved))
    assert own.logpdf(np.float32(0.5), *shapes).dtype == np.float32


@pytest.mark.parametrize("method", ["logpdf", "cdf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives(name: str, method: str) -> None:
    own, function = getattr(stats, name), getattr(getattr(reference, name), method, None)
    point = [2.9 if name == "pareto" else 0.62, *CONTINUOUS[name], 0.1, 1.3]
    if not has(own, method, *point):
        return
    for k in range(len(point)):

        def along(v: Any, k: int = k) -> Any:
            return function(*(v if j == k else p for j, p in enumerate(point)))

        step = 1e-6
        want = (along(point[k] + step) - along(point[k] - step)) / (2 * step)
        slope = stax.grad(getattr(own, method), k)(*point)
        np.testing.assert_allclose(slope, want, rtol=2e-6, atol=1e-8)
    every = stax.grad(getattr(own, method), tuple(range(len(point))))
    np.testing.assert_allclose(stax.jit(every)(*point), every(*point), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_the_support_slopes_are_zero(name: str) -> None:
    own, shapes = getattr(stats, name), CONTINUOUS[name]
    x = np.array([-50.0, -1.5, 0.5, 60.0])
    slopes = stax.grad(lambda v: own.pdf(v, *shapes).sum())(x)
    assert np.isfinite(slopes).all()
    dead = own.pdf(x, *shapes) == 0
    assert (slopes[dead] == 0).all()


def test_far_tails_keep_their_digits() -> None:
    close = np.testing.assert_allclose
    close(stats.norm.logsf(40.0), reference.norm.logsf(40.0), rtol=1e-13)
    close(stats.norm.logcdf(-1e4), -5e7 - math.log(1e4 * math.sqrt(2 * math.pi)), rtol=1e-13)
    close(stats.cauchy.cdf(-1e20), 1e-20 / math.pi, rtol=1e-13)
    close(stats.logistic.sf(500.0), math.exp(-500), rtol=1e-13)
    close(stats.logistic.logcdf(50.0), -math.exp(-50), rtol=1e-13)
    close(stats.expon.logcdf(1e-20), math.log(1e-20), rtol=1e-13)
    close(stats.gumbel_r.logsf(50.0), -50, rtol=1e-13)
    close(stats.truncnorm.logpdf(31.0, 30.0, 40.0), -30.5 - reference.norm.logsf(30) - 450
          - 0.5 * math.log(2 * math.pi), rtol=1e-12)  # fmt: skip
    close(stax.grad(lambda v: stats.t.cdf(v, 3.0))(0.0), reference.t.pdf(0, 3), rtol=1e-13)


def test_wrong_parameters() -> None:
    assert np.isnan(stats.norm.logpdf(0.0, 0.0, -1.0))
    assert np.isnan(stats.gamma.logpdf(1.0, -1.0))
    assert np.isnan(stats.norm.pdf(math.nan))
    assert np.isnan(stats.norm.ppf(1.5))
    with pytest.raises(TypeError, match="needs a"):
        stats.gamma.logpdf(1.0)
    with pytest.raises(TypeError, match="unexpected"):
        stats.norm.logpdf(1.0, mean=0.0)
    with pytest.raises(AttributeError, match="ppf"):
        stats.gamma.ppf(0.5, 2.0)


K = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 7.0, 2.5])
DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,), "betabinom": (7, 1.2, 2.0), "binom": (7, 0.4), "geom": (0.3,),
    "nbinom": (2.5, 0.4), "poisson": (2.3,),
}  # fmt: skip


COUNT_METHODS = ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf")


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("loc", [0, 1])
def test_counts(name: str, loc: int) -> None:
    own, other, shapes = getattr(stats, name), getattr(reference, name), DISCRETE[name]
    methods = [m for m in COUNT_METHODS if has(own, m, K, *shapes)]

    @stax.jit
    def everything(k: Any) -> Any:
        return {m: getattr(own, m)(k, *shapes, loc=loc) for m in methods}

    compiled = everything(K)
    for m in methods:
        want = getattr(other, m)(K, *shapes, loc=loc)
        got = getattr(own, m)(K, *shapes, loc=loc)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-15, err_msg=m)
        np.testing.assert_allclose(compiled[m], want, rtol=1e-9, atol=1e-15, err_msg=m)


def test_counts_at_degenerate_parameters() -> None:
    assert stats.poisson.logpmf(0, 0.0) == 0
    assert stats.binom.logpmf(0, 5, 0.0) == 0
    assert stats.binom.logpmf(5, 5, 1.0) == 0
    slope = stax.grad(lambda p: stats.binom.logpmf(3, 5, p))(0.3)
    np.testing.assert_allclose(slope, 3 / 0.3 - 2 / 0.7, rtol=1e-13)
    q = np.array([0.0, 0.5, 0.7, 0.71, 1.0])
    np.testing.assert_array_equal(stats.bernoulli.ppf(q, 0.3), [0, 0, 0, 1, 1])


def test_dirichlet() -> None:
    parts, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.0, 2.0, 3.5])
    want = reference.dirichlet.logpdf(parts, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(parts, alpha), want, rtol=1e-13)
    np.testing.assert_allclose(stats.dirichlet.logpdf(parts[:2], alpha), want, rtol=1e-13)
    several = np.stack([parts, parts[::-1]], 1)
    assert stats.dirichlet.pdf(several, alpha).shape == (2,)
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, 0.2]), alpha) == -math.inf
    with pytest.raises(ShapeError, match="parts"):
        stats.dirichlet.logpdf(np.ones(5), alpha)


def test_multinomial() -> None:
    p = np.array([0.2, 0.3, 0.5])
    want = reference.multinomial.logpmf([1, 2, 3], 6, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(np.array([1, 2, 3]), 6, p), want)
    assert stats.multinomial.pmf(np.array([1, 2, 4]), 6, p) == 0


def test_multivariate_normal() -> None:
    cov, mean = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, -0.2])
    points = X.reshape(2, 3, 2) / 5
    want = reference.multivariate_normal.logpdf(points, mean, cov)
    got = stats.multivariate_normal.logpdf(points, mean, cov)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    jitted = stax.jit(stats.multivariate_normal.logpdf)(points, mean, cov)
    np.testing.assert_allclose(jitted, want, rtol=1e-11)
    covs = np.stack([cov, 2 * cov, 3 * cov])
    want = [reference.multivariate_normal.logpdf(points[0, k], mean, covs[k]) for k in range(3)]
    got = stats.multivariate_normal.logpdf(points[0], mean, covs)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    mapped = stax.vmap(stats.multivariate_normal.logpdf, in_axes=(0, None, 0))
    np.testing.assert_allclose(mapped(points[0], mean, covs), want, rtol=1e-12)
    got = stats.multivariate_normal.logpdf(points[0], mean, 2.0)
    want = reference.multivariate_normal.logpdf(points[0], mean, 2.0)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    slope = stax.grad(lambda m: stats.multivariate_normal.logpdf(points[0, 0], m, cov))(mean)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, points[0, 0] - mean), rtol=1e-12)


def test_methods_that_a_distribution_lacks_are_no_attributes() -> None:
    for distribution in (stats.beta, stats.norm, stats.gamma, stats.t, stats.poisson, stats.geom):
        for name in ("cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
            if hasattr(distribution, name):
                assert callable(getattr(distribution, name))
            else:
                with pytest.raises(AttributeError, match=name):
                    getattr(distribution, name)
    assert hasattr(stats.norm, "ppf")
    assert not hasattr(stats.beta, "ppf")
    assert hasattr(stats.beta, "logsf")
    assert not hasattr(stats.poisson, "isf")
    assert "at most" in (type(stats.norm).cdf.__doc__ or "")
