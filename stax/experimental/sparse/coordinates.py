"""The places of the values of a sparse array: as rows of indices, and as numbers.

Input: an array's indices, one row a value, and its shape.  Output: their columns, what is inside
(a place outside the shape holds nothing), places numbered in row-major order, and back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from stax import numpy as snp

Shape = tuple[int, ...]


class Sparse(Protocol):
    """What is read of a sparse array; `indices` has shape (nse, n_sparse)."""

    data: Any
    indices: Any
    shape: Shape

    @property
    def nse(self) -> int:
        """How many values there is room for."""

    @property
    def n_sparse(self) -> int:
        """How many axes are sparse, the first ones."""

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""


def sparse_shape(m: Sparse) -> Shape:
    """The extents of the sparse axes."""
    return m.shape[: m.n_sparse]


def columns_of(m: Sparse, axes: Sequence[int] | None = None) -> tuple[Any, ...]:
    """The indices along each sparse axis, or along some."""
    return tuple(m.indices[:, k] for k in (range(m.n_sparse) if axes is None else axes))


def is_inside(m: Sparse) -> Any:
    """Which places are inside."""
    bounds = np.array(sparse_shape(m), m.indices.dtype)
    return snp.all((m.indices >= 0) & (m.indices < bounds), axis=1)


def spread(flags: Any, data: Any) -> Any:
    """Flags of the values, with axes for those of `data`."""
    return flags.reshape(flags.shape[0], *(1,) * (len(data.shape) - 1))


def values_inside(m: Sparse) -> Any:
    """The values, those outside replaced by zero."""
    return snp.where(spread(is_inside(m), m.data), m.data, snp.zeros((), m.dtype))


def flat_places(m: Sparse) -> Any:
    """Each place as one number, that of all places for one outside."""
    shape = sparse_shape(m)
    flat: Any = snp.zeros(m.nse, np.int64)
    for column, n in zip(columns_of(m), shape, strict=True):
        flat = flat * n + column.astype(np.int64)
    return snp.where(is_inside(m), flat, math.prod(shape))


def places(flat: Any, shape: Shape, dtype: Any) -> Any:
    """The inverse of `flat_places`: rows of indices; `shape` itself for a place outside."""
    columns = []
    rest, inside = flat, flat < math.prod(shape)
    for n in reversed(shape):
        columns.append(snp.where(inside, rest % max(n, 1), n))
        rest = rest // max(n, 1)
    if not columns:
        return snp.zeros((flat.shape[0], 0), dtype)
    return snp.stack(columns[::-1], axis=1).astype(dtype)
