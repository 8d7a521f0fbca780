"""Interpolation on a grid: `RegularGridInterpolator`, as in SciPy.

Input: increasing points along each axis, and values on the grid they make.  Output: a function of
points, by linear interpolation or by the nearest grid point, differentiable in values and points.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.dtypes import is_inexact
from stax.errors import ShapeError

__all__ = ["RegularGridInterpolator"]

Array = Any


class RegularGridInterpolator:
    """A function given by its values on a grid.

    Args:
      points: increasing coordinates along each axis, at least two.
      values: an array whose first axes are those of the grid; further axes are carried along.
      method: "linear" or "nearest".
      bounds_error: raise ValueError for points outside; traced points are not looked at.
      fill_value: the value outside; None extrapolates from the outermost cells.

    >>> f = RegularGridInterpolator((np.arange(3.0), np.arange(2.0)), np.arange(6.0).reshape(3, 2))
    >>> f(np.array([[0.5, 0.5], [2.0, 1.0]]))
    array([1.5, 5. ])
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        if method not in ("linear", "nearest"):
            raise ValueError(f"Method '{method}' is not defined; use 'linear' or 'nearest'")
        values = snp.asarray(values)
        self.values = values if is_inexact(aval_of(values).dtype) else values.astype(np.float64)
        self.grid = tuple(snp.asarray(p) for p in points)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        shape = self.values.shape
        if len(self.grid) > len(shape):
            raise ShapeError(
                f"There are {len(self.grid)} point arrays, but values has {len(shape)} dimensions",
                op="RegularGridInterpolator",
                where=user_source() or None,
            )
        for axis, p in enumerate(self.grid):
            if p.shape != (shape[axis],) or shape[axis] < 2:
                raise ShapeError(
                    f"the points of axis {axis} have shape {p.shape}, values has {shape[axis]} "
                    "there; at least 2 are needed",
                    op="RegularGridInterpolator",
                    where=user_source() or None,
                )
            if not isinstance(p, Tracer) and not bool((np.diff(p) > 0).all()):
                raise ValueError(f"The points in dimension {axis} must be strictly ascending")

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points `xi`: an array whose last axis is as long as the grid has axes,
        or a tuple of arrays, one for each.
        """
        method = self.method if method is None else method
        if isinstance(xi, tuple | list):
            xi = snp.stack(snp.broadcast_arrays(*(snp.asarray(x) for x in xi)), -1)
        xi = snp.asarray(xi)
        if xi.shape[-1:] != (len(self.grid),):
            raise ShapeError(
                f"points of shape {xi.shape} for a grid of {len(self.grid)} axes",
                op="RegularGridInterpolator",
                where=user_source() or None,
            )
        at = [xi[..., k] for k in range(len(self.grid))]
        edges = []
        outside: Any = False
        for points, x in zip(self.grid, at, strict=True):
            p = snp.asarray(points)  # traced where `x` is, so that it can be indexed
            cell = snp.clip(snp.searchsorted(p, x, side="right") - 1, 0, p.shape[0] - 2)
            edges.append((cell, (x - p[cell]) / (p[cell + 1] - p[cell])))
            outside = outside | (x < p[0]) | (x > p[-1])
        if self.bounds_error and not isinstance(outside, Tracer) and bool(np.any(outside)):
            raise ValueError("One of the requested xi is out of bounds")
        value = self._nearest(edges) if method == "nearest" else self._linear(edges)
        if self.fill_value is None:
            return value
        tail = (1,) * (len(value.shape) - len(xi.shape) + 1)
        fill = snp.asarray(self.fill_value, aval_of(value).dtype)
        return snp.where(outside.reshape(*outside.shape, *tail), fill, value)

    def _nearest(self, edges: list[tuple[Array, Array]]) -> Array:
        values = snp.asarray(self.values)
        return values[tuple(snp.where(part <= 0.5, cell, cell + 1) for cell, part in edges)]

    def _linear(self, edges: list[tuple[Array, Array]]) -> Array:
        total: Any = 0.0
        values = snp.asarray(self.values)
        for corner in itertools.product((0, 1), repeat=len(edges)):
            weight: Any = 1.0
            for side, (_, part) in zip(corner, edges, strict=True):
                weight = weight * (part if side else 1 - part)
            value = values[tuple(c + s for s, (c, _) in zip(corner, edges, strict=True))]
            tail = (1,) * (len(value.shape) - len(weight.shape))
            total = total + value * weight.reshape(*weight.shape, *tail)
        return total
