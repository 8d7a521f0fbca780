"""Loop nodes: a tensor as a function from an index to a value.

Input: ranges and a closure over ``ops``. Output: one of four immutable descriptions of how a tensor
is computed: :class:`Pointwise` (one value at each index), :class:`Reduction` (merged over further
loops), :class:`Scan` (running merge along one axis), :class:`Scatter` (updates of an initial value
at computed places). None of them says in which order, or where the values are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stax.loops.layout import Index, Shape
from stax.loops.monoids import Monoid
from stax.loops.ops import Value

Loader = Callable[[Index], Value]
ReductionFn = Callable[[Index, Index], tuple[Value, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Pointwise:
    """``inner_fn(index)`` at every index of ``ranges``."""

    ranges: Shape
    inner_fn: Loader
    dtype: np.dtype

    kind = "pointwise"

    @property
    def shape(self) -> Shape:
        return self.ranges

    @property
    def reduction_ranges(self) -> Shape:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """``monoid`` over ``reduction_ranges`` of ``inner_fn(index, rindex)``, a tuple of components.

    The components are computed in ``acc_dtype`` (or what the monoid asks for it); component
    ``project`` of the result is stored as ``dtype``.
    """

    ranges: Shape
    reduction_ranges: Shape
    inner_fn: ReductionFn
    monoid: Monoid
    dtype: np.dtype
    acc_dtype: np.dtype
    project: int = 0

    kind = "reduction"

    @property
    def shape(self) -> Shape:
        return self.ranges


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The running ``monoid`` of ``inner_fn(index)`` along ``axis``, the element itself included."""

    ranges: Shape
    axis: int
    inner_fn: Callable[[Index], tuple[Value, ...]]
    monoid: Monoid
    dtype: np.dtype
    acc_dtype: np.dtype
    reverse: bool = False
    project: int = 0

    kind = "scan"

    @property
    def shape(self) -> Shape:
        return self.ranges

    @property
    def reduction_ranges(self) -> Shape:
        return (self.ranges[self.axis],)


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """An array that starts as ``init`` and is then updated at computed places, in index order.

    For every ``u`` in ``ranges`` the element at ``index_fn(u)`` takes ``value_fn(u)`` by ``mode``:
    "set", "add", "mul", "min" or "max". ``mask_fn`` (if given) says which updates happen.
    """

    shape: Shape
    ranges: Shape
    init: Loader
    index_fn: Callable[[Index], Index]
    value_fn: Loader
    mode: str
    dtype: np.dtype
    mask_fn: Loader | None = None

    kind = "scatter"

    @property
    def reduction_ranges(self) -> Shape:
        return ()


LoopNode = Pointwise | Reduction | Scan | Scatter
