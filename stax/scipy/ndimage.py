"""Interpolation in images: `map_coordinates`, with the modes and the edges of JAX.

Input: an array and one array of coordinates for each of its axes.  Output: the values there, by
the nearest element or linearly, differentiable in both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_inexact
from stax.errors import ShapeError

__all__ = ["map_coordinates"]

Array = Any


def _mirrored(index: Array, size: int) -> Array:
    last = size - 1
    return snp.abs((index + last) % (2 * last) - last) if last else snp.zeros_like(index)


# What an index outside becomes; "constant" has a value for those.
_INSIDE: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: snp.clip(index, 0, size - 1),
    "nearest": lambda index, size: snp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: _mirrored(2 * index + 1, 2 * size + 1) // 2,
}


def _nearby(c: Array, order: int) -> list[tuple[Array, Array]]:
    """The indices around a coordinate, and the weight of each (None for all of it)."""
    if order == 0 or not is_inexact(aval_of(c).dtype):
        away = snp.sign(c) * snp.floor(snp.abs(c) + 0.5)  # halves away from zero, as in SciPy
        return [(away.astype(np.int64), None)]
    below = snp.floor(c)
    above = c - below
    first = below.astype(np.int64)
    return [(first, 1 - above), (first + 1, above)]


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Array:
    """The values of `input` at `coordinates`, between its elements.

    Args:
      input: an array.
      coordinates: one array for each axis of `input`, in units of its elements; they broadcast.
      order: 0 for the nearest element, 1 for linear interpolation.
      mode: what lies outside: "constant" (elements of the value `cval`, so that a coordinate just
        outside is interpolated between an edge and `cval`; SciPy's "grid-constant"), "nearest",
        "wrap" (period of the extent), "mirror" or "reflect".

    Returns:
      An array of the coordinates' shape and `input`'s dtype; integers are rounded.

    Raises:
      ShapeError: not one coordinate for each axis. ValueError: an unknown mode or order.

    >>> image = np.arange(6.0).reshape(2, 3)
    >>> map_coordinates(image, [np.array([0.5, 1.0]), np.array([0.5, 2.0])], order=1)
    array([2., 5.])
    """
    image = snp.asarray(input)
    where = [snp.asarray(c) for c in coordinates]
    if len(where) != len(image.shape):
        raise ShapeError(
            f"map_coordinates: {len(where)} coordinates for an array of {len(image.shape)} axes",
            op="map_coordinates",
            operands=[str(aval_of(image))],
            where=user_source() or None,
            hint="pass one array of coordinates for each axis",
        )
    if mode not in _INSIDE:
        raise ValueError(f"map_coordinates: mode={mode!r} is not one of {sorted(_INSIDE)}")
    if order not in (0, 1):
        raise ValueError(f"map_coordinates: order={order!r}; stax interpolates with order 0 or 1")
    corners = []
    for c, size in zip(where, image.shape, strict=True):
        axis = []
        for index, weight in _nearby(c, order):
            outside = (index < 0) | (index >= size) if mode == "constant" else None
            axis.append((_INSIDE[mode](index, size), outside, weight))
        corners.append(axis)
    total: Any = None
    for corner in itertools.product(*corners):
        value = image[tuple(index for index, _, _ in corner)]
        for _, outside, _ in corner:
            if outside is not None:
                value = snp.where(outside, snp.asarray(cval, aval_of(image).dtype), value)
        for _, _, weight in corner:
            value = value if weight is None else value * weight
        total = value if total is None else total + value
    dtype = aval_of(image).dtype
    if not is_inexact(dtype) and is_inexact(aval_of(total).dtype):
        total = snp.round(total)
    return total.astype(dtype)
