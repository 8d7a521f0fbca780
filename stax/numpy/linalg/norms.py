"""`numpy.linalg` norms: norm, vector_norm, matrix_norm, cond.

Input: arrays, the order, the axes.  Output: NumPy's norms.  The derivative of a norm at zero is
zero, not NaN; where elements tie for the largest they share it equally.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy.inexact import as_library_takes_them
from stax.numpy.linalg.operands import Array, matrices
from stax.numpy.registration import axes_tuple, implements
from stax.primitives import elementwise as el
from stax.primitives import linalg_spectral as spectral
from stax.primitives.casts import convert
from stax.primitives.linalg_solve import inv
from stax.primitives.reductions import reduce_max, reduce_min
from stax.primitives.shapes import scalar_zero
from stax.primitives.transcendental import power, sqrt
from stax.primitives.views import move_axis, reduce_sum, reshape

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]

_MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


def _squares(x: Array) -> Array:
    if x.dtype.kind != "c":
        return el.square(x)
    return el.add(el.square(el.real(x)), el.square(el.imag(x)))


def _away_from_zero(value: Array, root: Any) -> Array:
    """`root(value)`, and a zero without a derivative where `value` is zero."""
    nothing = el.eq(value, scalar_zero(value.dtype))
    safe = el.select(nothing, value.dtype.type(1), value)
    return el.select(nothing, scalar_zero(value.dtype), root(safe))


def _euclidean(x: Array, axes: tuple[int, ...]) -> Array:
    return _away_from_zero(reduce_sum(_squares(x), axes), sqrt)


def _modulus(x: Array) -> Array:
    return el.abs_(x)


def _extreme(x: Array, axis: int, largest: bool, op: str) -> Array:
    if x.shape[axis] == 0:
        if not largest:
            raise ShapeError("zero-size array has no smallest element", op=op)
        return reduce_sum(x, (axis,))
    return (reduce_max if largest else reduce_min)(x, (axis,))


def _vector(x: Array, order: Any, axes: tuple[int, ...], op: str) -> Array:
    """The norm over `axes`, all elements as one vector."""
    if order is None or order == 2:
        return _euclidean(x, axes)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    size = _modulus(x)
    if order in (np.inf, -np.inf):
        for axis in sorted(axes, reverse=True):
            size = _extreme(size, axis, order > 0, op)
        return size
    if order == 0:
        return reduce_sum(convert(el.ne(x, scalar_zero(x.dtype)), size.dtype), axes)
    if order == 1:
        return reduce_sum(size, axes)
    p = size.dtype.type(order)
    if order < 0:
        return power(reduce_sum(power(size, p), axes), size.dtype.type(1 / order))
    # A zero element adds nothing, and its power has no derivative below order one.
    terms = _away_from_zero(size, lambda v: power(v, p))
    return _away_from_zero(reduce_sum(terms, axes), lambda v: power(v, v.dtype.type(1 / order)))


def _matrix(x: Array, order: Any, row: int, column: int, op: str) -> Array:
    """The norm of the matrices whose axes are `row` and `column`."""
    if order not in _MATRIX_ORDERS and order not in (None, "f"):
        raise ValueError("Invalid norm order for matrices.")
    if order in (None, "fro", "f"):
        return _euclidean(x, tuple(sorted((row, column))))
    if order in (2, -2, "nuc"):
        n = len(x.shape)
        turned = move_axis(x, row, n - 1)
        column -= column > row
        values = spectral.svdvals(move_axis(turned, column, n - 1))
        last = len(values.shape) - 1
        if order == "nuc":
            return reduce_sum(values, (last,))
        return _extreme(values, last, order == 2, op)
    summed, kept = (row, column) if order in (1, -1) else (column, row)
    sums = reduce_sum(_modulus(x), (summed,))
    return _extreme(sums, kept - (kept > summed), order > 0, op)


def _kept(value: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims:
        return value
    return reshape(value, [1 if k in axes else n for k, n in enumerate(shape)])


@implements(np.linalg.norm)
def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """A vector or matrix norm; zero derivative at zero; as `numpy.linalg.norm`."""
    (a,) = as_library_takes_them("norm", x)
    n = len(a.shape)
    axes = axes_tuple(axis, n, "norm")
    if axis is None and ord is None:
        return _kept(_euclidean(a, axes), a.shape, axes, keepdims)
    if len(axes) == 1:
        return _kept(_vector(a, ord, axes, "norm"), a.shape, axes, keepdims)
    if len(axes) == 2:
        return _kept(_matrix(a, ord, *axes, "norm"), a.shape, axes, keepdims)
    raise ShapeError(
        "Improper number of dimensions to norm",
        op="norm",
        operands=[str(aval_of(a))],
        where=user_source() or None,
        hint="name one axis for vectors or two for matrices",
    )


@implements(np.linalg.vector_norm)
def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The norm over `axis` of all elements as one vector; as `numpy.linalg.vector_norm`."""
    (a,) = as_library_takes_them("vector_norm", x)
    axes = axes_tuple(axis, len(a.shape), "vector_norm")
    return _kept(_vector(a, ord, axes, "vector_norm"), a.shape, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices in the last two axes; as `numpy.linalg.matrix_norm`."""
    (a,) = matrices("matrix_norm", x)
    n = len(a.shape)
    return _kept(_matrix(a, ord, n - 2, n - 1, "matrix_norm"), a.shape, (n - 2, n - 1), keepdims)


@implements(np.linalg.cond)
def cond(x: Array, p: Any = None) -> Array:
    """The condition number in the norm `p`; as `numpy.linalg.cond`."""
    (a,) = matrices("cond", x)
    n = len(a.shape)
    if p in (None, 2, -2):
        values = spectral.svdvals(a)
        last = len(values.shape) - 1
        largest, smallest = reduce_max(values, (last,)), reduce_min(values, (last,))
        found = el.div(smallest, largest) if p == -2 else el.div(largest, smallest)
    else:
        first = _matrix(a, p, n - 2, n - 1, "cond")
        found = el.mul(first, _matrix(inv(a), p, n - 2, n - 1, "cond"))
    # 0 / 0, of a matrix of zeros, is a condition too, unless the matrix itself is not a number.
    given = reduce_max(convert(el.ne(a, a), found.dtype), (n - 2, n - 1))
    endless = el.logical_and(el.ne(found, found), el.eq(given, scalar_zero(found.dtype)))
    return el.select(endless, found.dtype.type(np.inf), found)
