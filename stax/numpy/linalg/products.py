"""`numpy.linalg` products: the array-API spellings, and multi_dot in its cheapest order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy import products
from stax.numpy.linalg.operands import Array
from stax.numpy.manipulation import diagonal as diagonal_along
from stax.numpy.manipulation import matrix_transpose as transposed
from stax.numpy.precision import with_precision
from stax.numpy.registration import deliver, implements, operand

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_transpose",
    "multi_dot",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


@with_precision
@implements(np.linalg.matmul)
def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product; as `numpy.linalg.matmul`."""
    return products.matmul(x1, x2)


@implements(np.linalg.matrix_transpose)
def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged; as `numpy.linalg.matrix_transpose`."""
    return transposed(x)


@implements(np.linalg.outer)
def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors; as `numpy.linalg.outer`."""
    for value in (x1, x2):
        if len(operand(value, "outer").shape) != 1:
            raise ShapeError(
                "Input arrays must be one-dimensional", op="outer", where=user_source() or None
            )
    return products.outer(x1, x2)


@implements(np.linalg.cross)
def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of three components; as `numpy.linalg.cross`."""
    for value in (x1, x2):
        if operand(value, "cross").shape[axis] != 3:
            raise ShapeError(
                "Both input arrays must be (arrays of) 3-dimensional vectors",
                op="cross",
                where=user_source() or None,
            )
    return products.cross(x1, x2, axis=axis)


@with_precision
@implements(np.linalg.tensordot)
def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """The sum of products over given axes; as `numpy.linalg.tensordot`."""
    return products.tensordot(x1, x2, axes=axes)


@with_precision
@implements(np.linalg.vecdot)
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Dot products along an axis, the first conjugated; as `numpy.linalg.vecdot`."""
    return products.vecdot(x1, x2, axis=axis)


@implements(np.linalg.diagonal)
def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes; as `numpy.linalg.diagonal`."""
    return diagonal_along(x, offset, axis1=-2, axis2=-1)


@implements(np.linalg.trace)
def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The traces of the matrices in the last two axes; as `numpy.linalg.trace`."""
    return products.trace(x, offset, axis1=-2, axis2=-1, dtype=dtype)


@with_precision
@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Array:
    """The product of several matrices in the cheapest order; as `numpy.linalg.multi_dot`."""
    factors = [operand(a, "multi_dot") for a in arrays]
    if len(factors) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = len(factors[0].shape) == 1, len(factors[-1].shape) == 1
    shapes = [f.shape for f in factors]
    if first:
        shapes[0] = (1, *shapes[0])
    if last:
        shapes[-1] = (*shapes[-1], 1)
    for left, right in itertools.pairwise(shapes):
        if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
            raise ShapeError(
                f"matrices of shapes {left} and {right} do not fit",
                op="multi_dot",
                where=user_source() or None,
            )
    extents = [shapes[0][0], *(s[1] for s in shapes)]
    return deliver(_in_order(factors, _splits(extents)), out, "multi_dot")


def _splits(extents: list[int]) -> dict[tuple[int, int], int]:
    """Where each range of factors is split in the cheapest order (Cormen et al., 15.2)."""
    n = len(extents) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _in_order(factors: list[Array], split: dict[tuple[int, int], int]) -> Array:
    n = len(factors)
    done: dict[tuple[int, int], Array] = {(i, i): f for i, f in enumerate(factors)}
    pending = [(0, n - 1)]
    while pending:
        i, j = pending[-1]
        k = split[i, j]
        missing = [part for part in ((i, k), (k + 1, j)) if part not in done]
        if missing:
            pending.extend(missing)
            continue
        done[i, j] = products.dot(done[i, k], done[k + 1, j])
        pending.pop()
    return done[0, n - 1]
