"""Distributions of vectors: Dirichlet, multinomial, multivariate normal.

Input: vectors along the last axis (along the first for the Dirichlet, as in SciPy).  Output:
logarithmic densities and densities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.errors import ShapeError
from stax.numpy.inexact import floating
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.primitives.reductions import reduce_all
from stax.primitives.special import lgamma
from stax.primitives.special_integrals import xlogy
from stax.primitives.views import move_axis, reduce_sum, reshape


def _last(x: Any) -> list[int]:
    return [len(aval_of(x).shape) - 1]


class _Dirichlet:
    """The Dirichlet distribution; `x` holds the parts of a whole along its first axis."""

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density; the last part may be left out."""
        x, alpha = floating("dirichlet.logpdf", x, alpha)
        shape, parts = aval_of(x).shape, aval_of(alpha).shape
        if len(parts) != 1 or not shape or shape[0] not in (parts[0], parts[0] - 1):
            raise ShapeError(
                f"x of shape {shape} has not the {parts} parts of alpha",
                op="dirichlet.logpdf",
                operands=[str(aval_of(x)), str(aval_of(alpha))],
            )
        if shape[0] != parts[0]:
            rest = el.sub(literal(1, x), reduce_sum(x, [0]))
            x = snp.concatenate([x, reshape(rest, (1, *shape[1:]))], 0)
        x = move_axis(x, 0, len(shape) - 1)
        positive = reduce_all(el.ge(x, literal(0, x)), _last(x))
        whole = el.abs_(el.sub(reduce_sum(x, _last(x)), literal(1, x)))
        inside = el.logical_and(positive, el.lt(whole, literal(1e-6, x)))
        safe = el.select(el.ge(x, literal(0, x)), x, tr.one(x))
        density = reduce_sum(xlogy(el.sub(alpha, tr.one(alpha)), safe), _last(x))
        scale = el.sub(reduce_sum(lgamma(alpha), [0]), lgamma(reduce_sum(alpha, [0])))
        value = el.sub(density, scale)
        return el.select(inside, value, literal(-math.inf, value))

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return tr.exp(self.logpdf(x, alpha))


class _Multinomial:
    """The multinomial distribution; counts and probabilities are along the last axis."""

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """The logarithm of the probability of the counts `x`."""
        x, n, p = floating("multinomial.logpmf", x, n, p)
        safe = el.select(el.ge(x, literal(0, x)), x, literal(0, x))
        terms = el.sub(xlogy(safe, p), lgamma(el.add(safe, tr.one(x))))
        value = el.add(lgamma(el.add(n, tr.one(n))), reduce_sum(terms, _last(terms)))
        whole = el.logical_and(el.ge(x, literal(0, x)), el.eq(x, el.floor(x)))
        inside = el.logical_and(reduce_all(whole, _last(x)), el.eq(reduce_sum(x, _last(x)), n))
        return el.select(inside, value, literal(-math.inf, value))

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """The probability of the counts `x`."""
        return tr.exp(self.logpmf(x, n, p))


class _MultivariateNormal:
    """The normal distribution of vectors; they are along the last axis."""

    def logpdf(self, x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
        """The logarithm of the density."""
        if allow_singular is not None:
            raise ShapeError("singular covariances are refused", op="multivariate_normal.logpdf")
        x, mean, cov = floating("multivariate_normal.logpdf", x, mean, cov)
        centred = el.sub(x, mean)
        if not aval_of(mean).shape:
            variance = reshape(cov, ())
            return -0.5 * el.square(centred) / variance - 0.5 * tr.log(2 * math.pi * variance)
        n = aval_of(mean).shape[-1]
        if not aval_of(cov).shape:
            spread = el.mul(cov, np.eye(n, dtype=aval_of(cov).dtype))
        else:
            spread = cov
        if aval_of(spread).shape[-2:] != (n, n):
            raise ShapeError(
                f"a mean of {n} numbers needs a covariance of shape ({n}, {n})",
                op="multivariate_normal.logpdf",
                operands=[str(aval_of(mean)), str(aval_of(cov))],
            )
        factor = snp.linalg.cholesky(spread)
        if len(aval_of(factor).shape) == 2:
            # One factor for all vectors: they become the columns of one system.
            flat = reshape(centred, (-1 if n == 0 else _count(centred, n), n))
            white = snp.linalg.solve(factor, snp.matrix_transpose(flat))
            distance = reshape(reduce_sum(el.square(white), [0]), aval_of(centred).shape[:-1])
        else:
            shape = np.broadcast_shapes(aval_of(centred).shape[:-1], aval_of(factor).shape[:-2])
            wide = snp.broadcast_to(centred, (*shape, n))
            white = snp.linalg.solve(snp.broadcast_to(factor, (*shape, n, n)), wide[..., None])
            distance = reduce_sum(el.square(white), [len(shape), len(shape) + 1])
        diagonal = snp.diagonal(factor, axis1=-2, axis2=-1)
        half = reduce_sum(tr.log(diagonal), _last(diagonal))
        return -0.5 * distance - half - 0.5 * n * math.log(2 * math.pi)

    def pdf(self, x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return tr.exp(self.logpdf(x, mean, cov))


def _count(x: Any, n: int) -> int:
    return int(aval_of(x).size) // n


dirichlet = _Dirichlet()
multinomial = _Multinomial()
multivariate_normal = _MultivariateNormal()

__all__ = ["dirichlet", "multinomial", "multivariate_normal"]
