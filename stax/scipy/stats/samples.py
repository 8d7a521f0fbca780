"""Samples: their mode, ranks and standard error, and densities estimated from them.

Input: arrays of observations.  Output: SciPy's numbers, of shapes that do not depend on values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.lax.reductions import cummax, cummin
from stax.nn.normalisation import logsumexp
from stax.numpy.inexact import floating
from stax.pytree_registry import register_pytree_node_class
from stax.random.keys import split
from stax.random.selections import choice
from stax.random.uniforms import normal
from stax.scipy.linalg import solve_triangular
from stax.scipy.special.functions import ndtr

__all__ = ["ModeResult", "gaussian_kde", "mode", "rankdata", "sem"]

Array = Any


class ModeResult(NamedTuple):
    """The most common value, and how often it is there."""

    mode: Array
    count: Array


def _flat(a: Any, axis: int | None) -> tuple[Array, int]:
    x = snp.asarray(a)
    return (snp.ravel(x), 0) if axis is None else (x, axis)


def _refuse_omit(nan_policy: str, op: str) -> None:
    if nan_policy != "propagate":
        raise ValueError(f"{op}: nan_policy={nan_policy!r}; NaNs are propagated, remove them first")


def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most common value along `axis` (the smallest of several), and its count.

    >>> mode(np.array([1, 2, 2, 3]))
    ModeResult(mode=2, count=2)
    """
    _refuse_omit(nan_policy, "mode")
    x, along = _flat(a, axis)
    ordered = snp.moveaxis(snp.sort(x, axis=along), along, 0)
    size = ordered.shape[0]
    # A value's run ends where it last stands; its length is the distance from where it begins.
    begins = snp.concatenate(
        [snp.ones((1, *ordered.shape[1:]), bool), ordered[1:] != ordered[:-1]], axis=0
    )
    index = snp.arange(size).reshape(size, *(1,) * (len(ordered.shape) - 1))
    start = cummax(snp.where(begins, index, 0), axis=0)
    lengths = index - start + 1
    best = snp.argmax(lengths, axis=0)[None]
    value = snp.take_along_axis(ordered, best, axis=0)
    count = snp.take_along_axis(lengths, best, axis=0)
    if keepdims:
        if axis is None:
            shape = (1,) * len(aval_of(snp.asarray(a)).shape)
            return ModeResult(value.reshape(shape), count.reshape(shape))
        return ModeResult(snp.moveaxis(value, 0, along), snp.moveaxis(count, 0, along))
    return ModeResult(value[0], count[0])


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The ranks of the values, from 1; `method` says what equal values get.

    Args:
      method: "average" of their places, "min", "max", "dense" (no gaps), "ordinal" (all differ).
      axis: along which to rank; the flat array by default.

    >>> rankdata(np.array([0, 2, 3, 2]))
    array([1. , 2.5, 4. , 2.5])
    """
    _refuse_omit(nan_policy, "rankdata")
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f'unknown method "{method}"')
    x, along = _flat(a, axis)
    x = snp.moveaxis(x, along, -1)
    size = x.shape[-1]
    order = snp.argsort(x, axis=-1, kind="stable")
    place = snp.argsort(order, axis=-1, kind="stable")
    if method == "ordinal":
        return snp.moveaxis(place + 1, -1, along)
    ordered = snp.take_along_axis(x, order, axis=-1)
    changes = snp.concatenate(
        [snp.ones((*x.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], axis=-1
    )
    index = snp.arange(size)
    first = cummax(snp.where(changes, index, 0), axis=x.ndim - 1)
    ends = snp.concatenate([changes[..., 1:], snp.ones((*x.shape[:-1], 1), bool)], axis=-1)
    last = cummin(snp.where(ends, index, size), axis=x.ndim - 1, reverse=True)
    ranks = {
        "dense": lambda: snp.cumsum(changes, axis=-1),
        "min": lambda: first + 1,
        "max": lambda: last + 1,
        "average": lambda: (first + last + 2) * 0.5,
    }[method]()
    return snp.moveaxis(snp.take_along_axis(ranks, place, axis=-1), -1, along)


def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean: the standard deviation over the root of the count.

    >>> float(sem(np.array([1.0, 2.0, 3.0, 4.0]))) == float(np.std([1, 2, 3, 4], ddof=1) / 2)
    True
    """
    _refuse_omit(nan_policy, "sem")
    (x,) = floating("sem", a)
    x, along = (snp.ravel(x), 0) if axis is None else (x, axis)
    root = float(np.sqrt(x.shape[along]))
    out = snp.std(x, axis=along, ddof=ddof, keepdims=keepdims) / root
    if keepdims and axis is None:
        return out.reshape((1,) * len(aval_of(snp.asarray(a)).shape))
    return out


@register_pytree_node_class
class gaussian_kde:
    """A density estimated from a sample, as a sum of normal densities around its points.

    Args:
      dataset: points, one a column, or a vector of numbers.
      bw_method: the factor on the sample's covariance: "scott" (the default), "silverman", a
        number, or a function of this object.
      weights: of the points; equal by default.

    The object is a pytree, so it passes through transformations.

    >>> density = gaussian_kde(np.array([-1.0, 0.0, 1.0]))
    >>> bool(density(0.0)[0] > density(3.0)[0])
    True

    Source: D. W. Scott, Multivariate Density Estimation (1992).
    """

    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array
    neff: Array

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        (points,) = floating("gaussian_kde", dataset)
        self.dataset = snp.atleast_2d(points)
        if self.dataset.shape[1] < 2:
            raise ShapeError(
                "`dataset` input should have multiple elements.",
                op="gaussian_kde",
                operands=[str(aval_of(points))],
                where=user_source() or None,
            )
        n = self.dataset.shape[1]
        if weights is None:
            self.weights = snp.full(n, 1.0 / n, aval_of(self.dataset).dtype)
        else:
            (given,) = floating("gaussian_kde", weights)
            if given.shape != (n,):
                raise ShapeError(
                    f"{n} points have weights of shape {given.shape}", op="gaussian_kde"
                )
            self.weights = given / snp.sum(given)
        self.neff = 1.0 / snp.sum(self.weights**2)
        centred = self.dataset - snp.sum(self.dataset * self.weights, axis=1, keepdims=True)
        sample = (centred * self.weights) @ centred.T / (1.0 - snp.sum(self.weights**2))
        self.covariance = sample * self._factor(bw_method) ** 2
        self.inv_cov = snp.linalg.inv(self.covariance)

    def _factor(self, bw_method: Any) -> Any:
        d = self.d
        if bw_method is None or bw_method == "scott":
            return self.neff ** (-1.0 / (d + 4))
        if bw_method == "silverman":
            return (self.neff * (d + 2) / 4.0) ** (-1.0 / (d + 4))
        if callable(bw_method):
            return bw_method(self)
        if isinstance(bw_method, str):
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
        return bw_method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays."""
        return (self.dataset, self.weights, self.covariance, self.inv_cov, self.neff), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Any) -> gaussian_kde:
        """The object of these arrays."""
        made = object.__new__(cls)
        made.dataset, made.weights, made.covariance, made.inv_cov, made.neff = children
        return made

    @property
    def d(self) -> int:
        """How many coordinates a point has."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """How many points there are."""
        return int(self.dataset.shape[1])

    def _points(self, points: Any) -> Array:
        (x,) = floating("gaussian_kde", points)
        x = snp.atleast_2d(x)
        if x.shape[0] != self.d and x.shape[0] == 1 and x.shape[1] == self.d:
            x = x.reshape(self.d, 1)
        if x.shape[0] != self.d:
            raise ShapeError(
                f"points have dimension {x.shape[0]}, dataset has dimension {self.d}",
                op="gaussian_kde",
                operands=[str(aval_of(x))],
                where=user_source() or None,
            )
        return x

    def logpdf(self, x: Any) -> Array:
        """The logarithm of the density at points, one a column."""
        return self._log_sum(self._points(x), self.covariance)

    def _log_sum(self, points: Array, covariance: Array) -> Array:
        """Log of sum_k weight_k N(point; data_k, covariance), for each point."""
        root = snp.linalg.cholesky(covariance)
        white = solve_triangular(root, self.dataset, lower=True)
        at = solve_triangular(root, points, lower=True)
        energy = 0.5 * snp.sum((at[:, :, None] - white[:, None, :]) ** 2, axis=0)
        volume = 0.5 * self.d * np.log(2 * np.pi) + snp.sum(snp.log(snp.diagonal(root)))
        return logsumexp(-energy - volume, axis=1, b=self.weights[None])

    def evaluate(self, points: Any) -> Array:
        """The density at points, one a column."""
        return snp.exp(self.logpdf(points))

    def pdf(self, x: Any) -> Array:
        """The same as `evaluate`."""
        return self.evaluate(x)

    def __call__(self, points: Any) -> Array:
        """The same as `evaluate`."""
        return self.evaluate(points)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density times that of a normal variable."""
        mean = snp.atleast_1d(snp.squeeze(snp.asarray(mean)))
        cov = snp.atleast_2d(snp.asarray(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(
                f"a mean of shape {mean.shape} and a covariance of shape {cov.shape} for data of "
                f"dimension {self.d}",
                op="gaussian_kde.integrate_gaussian",
            )
        return snp.exp(self._log_sum(mean[:, None], self.covariance + cov))[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Array:
        """The integral of a density of numbers from `low` to `high`."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        width = snp.sqrt(self.covariance[0, 0])
        mass = ndtr((high - self.dataset[0]) / width) - ndtr((low - self.dataset[0]) / width)
        return snp.sum(self.weights * mass)

    def integrate_kde(self, other: Any) -> Array:
        """The integral of the product with another estimate."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        logs = self._log_sum(other.dataset, self.covariance + other.covariance)
        return snp.sum(snp.exp(logs) * other.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Points drawn from the density, of shape (d, *shape)."""
        first, second = split(key)
        chosen = snp.asarray(self.dataset)[:, choice(first, self.n, shape, p=self.weights)]
        root = snp.linalg.cholesky(self.covariance)
        noise = normal(second, (self.d, *shape), aval_of(self.dataset).dtype)
        return chosen + snp.tensordot(root, noise, axes=1)
