"""Polynomials in NumPy's old convention (highest power first) on traced coefficients.

Input: coefficient vectors.  Output: what `numpy.polyval` and its kin give.  Leading zeros cannot
be trimmed where coefficients are traced, so sums and products keep their full length.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import is_half
from stax.errors import ShapeError
from stax.numpy.creation import vander
from stax.numpy.linalg.decompositions import eigvals
from stax.numpy.manipulation import atleast_1d, concatenate
from stax.numpy.promotion import coerce
from stax.numpy.registration import broadcast_to_shape, converted, implements, operand, strong
from stax.numpy.signals import convolve
from stax.numpy.ufunc_rules import add, multiply
from stax.primitives import elementwise as el
from stax.primitives.shapes import pad, scalar_zero, slice_axis
from stax.primitives.views import reshape

__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]

Array = Any


def _vector(p: Any, op: str) -> Array:
    x = atleast_1d(strong(operand(p, op)))
    if len(x.shape) != 1:
        raise ShapeError("coefficients must be a vector", op=op, operands=[str(aval_of(x))])
    return x


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Array:
    """The value of a polynomial, by Horner's rule; as `numpy.polyval`."""
    coefficients = _vector(p, "polyval")
    v = operand(x, "polyval")
    coefficients, v = coerce(coefficients, v)
    out = broadcast_to_shape(scalar_zero(aval_of(v).dtype), aval_of(v).shape)
    for k in range(coefficients.shape[0]):
        c = reshape(slice_axis(coefficients, 0, k, k + 1), ())
        out = add(multiply(out, v), c)
    return out


def _aligned(a1: Any, a2: Any, op: str) -> tuple[Array, Array]:
    a, b = coerce(_vector(a1, op), _vector(a2, op))
    n = max(a.shape[0], b.shape[0])
    zero = scalar_zero(a.dtype)
    a, b = (pad(v, zero, (n - v.shape[0],), (0,)) for v in (a, b))
    return a, b


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Array:
    """The sum of two polynomials."""
    return el.add(*_aligned(a1, a2, "polyadd"))


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Array:
    """The difference of two polynomials."""
    return el.sub(*_aligned(a1, a2, "polysub"))


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Array:
    """The product of two polynomials."""
    first, second = coerce(_vector(a1, "polymul"), _vector(a2, "polymul"))
    if 0 in (*first.shape, *second.shape):
        return np.zeros(1, aval_of(first).dtype)  # without coefficients the polynomial is 0
    return convolve(first, second)


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Array:
    """The m-th derivative of a polynomial."""
    x = _vector(p, "polyder")
    order = operator.index(m)
    if order < 0:
        raise ShapeError("order of derivative must be positive", op="polyder")
    for _ in range(order):
        n = x.shape[0]
        powers = np.arange(n - 1, 0, -1)
        x = el.mul(*coerce(slice_axis(x, 0, 0, max(n - 1, 0)), powers))
    return x


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The m-th integral of a polynomial, with integration constants `k`."""
    x = _vector(p, "polyint")
    order = operator.index(m)
    if order < 0:
        raise ShapeError("order of integral must be positive", op="polyint")
    constants = _vector(0 if k is None else k, "polyint")
    for j in range(order):
        n = x.shape[0]
        c = slice_axis(
            constants, 0, min(j, constants.shape[0] - 1), min(j, constants.shape[0] - 1) + 1
        )
        x = concatenate([np.true_divide(x, np.arange(n, 0, -1)), c], 0)
    return x


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Array:
    """The polynomial with the given roots; as `numpy.poly` of a vector."""
    roots = _vector(seq_of_zeros, "poly")
    roots = coerce(roots, 1.0)[0]
    if is_half(aval_of(roots).dtype):
        roots = converted(roots, np.dtype(np.float64))
    out: Any = np.ones(1, roots.dtype)
    for k in range(roots.shape[0]):
        root = slice_axis(roots, 0, k, k + 1)
        out = convolve(out, concatenate([np.ones(1, roots.dtype), el.neg(root)], 0))
    return out


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials; the remainder keeps its leading zeros."""
    w, d = coerce(_vector(u, "polydiv"), _vector(v, "polydiv"), 0.0)[:2]
    m, n = w.shape[0] - 1, d.shape[0] - 1
    scale = slice_axis(d, 0, 0, 1)
    if m < n:
        return np.zeros(1, w.dtype), w
    quotient = []
    for _ in range(m - n + 1):
        q = el.div(slice_axis(w, 0, 0, 1), scale)
        quotient.append(q)
        head = el.sub(slice_axis(w, 0, 0, n + 1), el.mul(q, d))
        w = concatenate([head, slice_axis(w, 0, n + 1, w.shape[0])], 0)
        w = slice_axis(w, 0, 1, w.shape[0])
    return concatenate(quotient, 0), w if w.shape[0] else np.zeros(1, d.dtype)


@implements(np.polyfit)
def polyfit(
    x: Any,
    y: Any,
    deg: Any,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Any:
    """The least-squares polynomial of degree `deg` through points; as `numpy.polyfit`.

    Raises:
      ShapeError: the points do not fit, or the covariance is asked for.
    """
    if cov:
        raise ShapeError("cov is not supported on traced values", op="polyfit")
    points, values = coerce(strong(operand(x, "polyfit")), strong(operand(y, "polyfit")), 0.0)[:2]
    if len(points.shape) != 1 or values.shape[:1] != points.shape or len(values.shape) > 2:
        raise ShapeError(
            f"x must be a vector and y as long, got {points.shape} and {values.shape}",
            op="polyfit",
        )
    if points.shape[0] == 0:
        raise ShapeError("expected non-empty vector for x", op="polyfit")
    matrix = vander(points, operator.index(deg) + 1)
    if w is not None:
        weights = operand(w, "polyfit")
        matrix = matrix * reshape(weights, (points.shape[0], 1))
        spread = (points.shape[0], *(1,) * (len(values.shape) - 1))
        values = values * reshape(weights, spread)
    # Columns of equal length make the cut-off meaningful and the solution accurate.
    scale = np.sqrt(np.sum(matrix * matrix, axis=0))
    limit = points.shape[0] * np.finfo(points.dtype).eps if rcond is None else rcond
    solution, *rest = np.linalg.lstsq(matrix / scale, values, limit)
    column = (matrix.shape[1], *(1,) * (len(values.shape) - 1))
    found = solution / reshape(scale, column)
    return (found, *rest, limit) if full else found


def _plain_roots(p: Any, *, strip_zeros: bool = True) -> Array:
    return np.roots(p)


@implements(_plain_roots, np.roots)
def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial whose leading coefficient is not zero; as `numpy.roots`.

    Traced coefficients are not searched for zeros: the roots are those of the companion matrix.
    """
    c = coerce(_vector(p, "roots"), 1.0)[0]
    n = c.shape[0]
    if n < 2:
        return np.zeros(0, np.complex128)
    row = el.neg(el.div(slice_axis(c, 0, 1, n), slice_axis(c, 0, 0, 1)))
    below = np.eye(n - 2, n - 1, dtype=c.dtype)
    return eigvals(concatenate([reshape(row, (1, n - 1)), below], 0))
