"""Matrices times vectors in the order of additions that JAX's have, so that draws agree.

Input: a mean, matrices and vectors, of float64.  Output: the products, and the mean added.  With
several vectors each product is added to the sum of those before it and rounded once; with fewer
than eight, of four to seven elements, it is rounded itself; with one vector there are four such
sums side by side, which are added last.  Other dtypes take the ordinary product.
"""

from __future__ import annotations

import functools
from typing import Any

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.primitives.shapes import concatenate, slice_axis
from stax.primitives.views import reshape
from stax.random import steps

LANES = 4
ROWS = 8  # rows, or vectors, that are computed together; four rows that are left otherwise
LONG = 32  # columns up to which the order is known, and programs stay short


def moved(mean: Any, matrix: Any, vectors: Any) -> Any:
    """`mean` (..., n) and `matrix` (..., n, n) times each of the `vectors` (..., n)."""
    count = aval_of(vectors).shape[-1]
    if aval_of(vectors).dtype.itemsize < 8 or count > LONG or not count:
        return mean + snp.einsum("...ij,...j->...i", matrix, vectors)
    columns, numbers = _columns(matrix), _columns(vectors, keep=True)
    if count == 1:
        return steps.fused(columns[0], numbers[0], mean)
    each = aval_of(vectors).size * count // max(aval_of(matrix).size, 1)
    if count < LANES or each >= ROWS or (each > 1 and count >= ROWS):
        return mean + _in_order(columns, numbers)
    if each > 1:
        return mean + _rounded(columns, numbers)
    return mean + _by_lanes(columns, numbers)


def _columns(x: Any, keep: bool = False) -> list[Any]:
    """The slices along the last axis; `keep` leaves that axis."""
    shape = aval_of(x).shape
    last = len(shape) - 1
    parts = [slice_axis(x, last, k, k + 1) for k in range(shape[last])]
    return parts if keep else [reshape(part, shape[:-1]) for part in parts]


def _in_order(matrix: list[Any], vector: list[Any]) -> Any:
    """The sum of products of columns and numbers."""
    total = steps.mul(matrix[0], vector[0])
    for column, number in zip(matrix[1:], vector[1:], strict=True):
        total = steps.fused(column, number, total)
    return total


def _rounded(matrix: list[Any], vector: list[Any]) -> Any:
    """The same with every product rounded."""
    products = [steps.mul(column, number) for column, number in zip(matrix, vector, strict=True)]
    return functools.reduce(steps.add, products)


def _by_lanes(matrix: list[Any], vector: list[Any]) -> Any:
    whole = len(matrix) // LANES * LANES
    lanes = [_in_order(matrix[k:whole:LANES], vector[k:whole:LANES]) for k in range(LANES)]
    a, b, c, d = lanes
    total = steps.add(steps.add(a, c), steps.add(b, d))
    if len(matrix) % ROWS == LANES:
        last = len(aval_of(total).shape) - 1
        a, b, c, d = (slice_axis(x, last, whole - LANES, whole) for x in lanes)
        end = steps.add(steps.add(a, b), steps.add(c, d))
        total = concatenate([slice_axis(total, last, 0, whole - LANES), end], last)
    if whole < len(matrix):
        total = steps.add(total, _in_order(matrix[whole:], vector[whole:]))
    return total
