"""A pytree of arrays as one flat vector, and back.

Input: a pytree of arrays, traced or not. Output: a 1-D array and the function that undoes it. Only
NumPy functions are called, so the same code serves arrays and tracers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stax import dtypes
from stax.errors import DtypeError, ShapeError
from stax.pytree import tree_flatten

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the leaves of a pytree in one vector, and the function from such a vector back.

    Args:
      pytree: arrays or scalars; mixed dtypes are promoted in the vector and restored on the way
        back.

    Returns:
      `(flat, unravel)`; `flat` has shape `(total size,)`.

    >>> flat, unravel = ravel_pytree({"a": np.ones(2), "b": np.zeros((1, 2))})
    >>> flat
    array([1., 1., 0., 0.])
    >>> unravel(flat * 2)
    {'a': array([2., 2.]), 'b': array([[0., 0.]])}
    """
    leaves, treedef = tree_flatten(pytree)
    arrays = [leaf if hasattr(leaf, "shape") else np.asarray(leaf) for leaf in leaves]
    shapes = [tuple(array.shape) for array in arrays]
    kinds = [np.dtype(array.dtype) for array in arrays]
    common = dtypes.promote(kinds) if kinds else np.dtype(float)
    sizes = [math.prod(shape) for shape in shapes]
    total = sum(sizes)

    def unravel(flat: Any) -> Any:
        if tuple(flat.shape) != (total,):
            raise ShapeError(f"expected shape ({total},), got {tuple(flat.shape)}", op="unravel")
        if np.dtype(flat.dtype) != common:
            raise DtypeError(f"expected dtype {common}, got {flat.dtype}", op="unravel")
        parts, start = [], 0
        for shape, size, kind in zip(shapes, sizes, kinds, strict=True):
            part = np.reshape(flat[start : start + size], shape)
            parts.append(part if kind == common else part.astype(kind))
            start += size
        return treedef.unflatten(parts)

    if not arrays:
        return np.zeros(0), unravel
    rows = [np.ravel(array) for array in arrays]
    cast = [
        row if kind == common else row.astype(common) for row, kind in zip(rows, kinds, strict=True)
    ]
    return np.concatenate(cast), unravel
