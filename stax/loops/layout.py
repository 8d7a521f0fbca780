"""Layouts: where the element at an index lies in memory, and views as changes of strides.

Input: shapes, strides in elements, an offset. Output: flat addresses and the layout of a view.
Every view that permutes, slices, broadcasts or inserts and removes axes of length 1 is again
strides and an offset; a reshape is too exactly when the axes that it merges are contiguous with
each other, otherwise :func:`reshape_index` keeps floor division and modulo in the index.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stax.errors import ShapeError
from stax.loops.symbolic import Expr, delinearize, linearize

Shape = tuple[int, ...]
Index = tuple[Expr, ...]


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> Shape:
    """Dense strides when the axes lie in memory in ``order``, outermost first."""
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class FixedLayout:
    """Element ``i`` of ``shape`` lies at ``offset + sum(strides * i)``; strides count elements."""

    shape: Shape
    strides: Shape
    offset: int = 0

    def __str__(self) -> str:
        tail = f" + {self.offset}" if self.offset else ""
        return f"[{_joined(self.shape)}] strides ({_joined(self.strides)}){tail}"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are dense in row-major order."""
        if 0 in self.shape:
            return True
        dense = contiguous_strides(self.shape)
        return all(
            have == want or extent == 1
            for have, want, extent in zip(self.strides, dense, self.shape, strict=True)
        )

    @property
    def extent(self) -> int:
        """One more than the largest address, 0 for an empty array."""
        if 0 in self.shape:
            return 0
        reach = (s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True) if s > 0)
        return 1 + self.offset + sum(reach)

    def address(self, index: Sequence[Expr]) -> Expr:
        """The flat position of the element at ``index``."""
        return linearize(index, self.strides, self.offset)

    def permute(self, axes: Sequence[int]) -> FixedLayout:
        return FixedLayout(
            tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset
        )

    def slice(
        self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]
    ) -> FixedLayout:
        """Element ``i`` of the result is element ``start + step * i``; steps may be negative."""
        offset = self.offset
        if 0 not in shape:
            offset += sum(t * a for t, a in zip(self.strides, starts, strict=True))
        strides = tuple(t * k for t, k in zip(self.strides, steps, strict=True))
        return FixedLayout(tuple(shape), strides, offset)

    def flip(self, axes: Iterable[int]) -> FixedLayout:
        turned = set(axes)
        starts = tuple(max(n - 1, 0) if a in turned else 0 for a, n in enumerate(self.shape))
        steps = tuple(-1 if a in turned else 1 for a in range(len(self.shape)))
        return self.slice(starts, self.shape, steps)

    def broadcast(self, shape: Sequence[int], axes: Sequence[int]) -> FixedLayout:
        """Axis ``k`` becomes axis ``axes[k]`` of ``shape``; new and stretched axes get stride 0."""
        strides = [0] * len(shape)
        for axis, target in enumerate(axes):
            if self.shape[axis] == shape[target]:
                strides[target] = self.strides[axis]
            elif self.shape[axis] != 1:
                raise ShapeError(
                    f"cannot broadcast axis {axis} of {self.shape} to {shape[target]} in "
                    f"{tuple(shape)}"
                )
        return FixedLayout(tuple(shape), tuple(strides), self.offset)

    def expand(self, shape: Sequence[int]) -> FixedLayout:
        """NumPy broadcasting: axes are matched from the right."""
        lead = len(shape) - len(self.shape)
        return self.broadcast(shape, tuple(range(lead, len(shape))))

    def squeeze(self, axes: Iterable[int]) -> FixedLayout:
        gone = set(axes)
        keep = [a for a in range(len(self.shape)) if a not in gone]
        return self.permute(keep)

    def unsqueeze(self, axes: Iterable[int]) -> FixedLayout:
        """New axes of length 1 at the given positions of the result."""
        new = set(axes)
        old = iter(zip(self.shape, self.strides, strict=True))
        pairs = [(1, 0) if a in new else next(old) for a in range(len(self.shape) + len(new))]
        return FixedLayout(tuple(n for n, _ in pairs), tuple(t for _, t in pairs), self.offset)

    def reshape(self, shape: Sequence[int]) -> FixedLayout | None:
        """The layout of the reshaped array, or None when no strides express it."""
        target = tuple(shape)
        if math.prod(target) != self.size:
            raise ShapeError(f"cannot reshape {self.shape} into {target}")
        if 0 in target:
            return FixedLayout(target, contiguous_strides(target), self.offset)
        merged: list[list[int]] = []
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if extent == 1:
                continue
            if merged and merged[-1][1] == extent * stride:
                merged[-1] = [merged[-1][0] * extent, stride]
            else:
                merged.append([extent, stride])
        strides = [0] * len(target)
        axis = len(target) - 1
        for extent, stride in reversed(merged):
            step, left = stride, extent
            while left > 1:
                if axis < 0:
                    return None
                if target[axis] > 1:
                    if left % target[axis]:
                        return None
                    left //= target[axis]
                strides[axis] = step
                step *= target[axis]
                axis -= 1
        return FixedLayout(target, tuple(strides), self.offset)


@dataclass(frozen=True, slots=True)
class FlexibleLayout:
    """A buffer of ``shape`` whose strides are not decided yet."""

    shape: Shape

    def __str__(self) -> str:
        return f"[{_joined(self.shape)}] flexible"

    def fixed(self, order: Sequence[int] | None = None) -> FixedLayout:
        """Dense strides, the axes in memory in ``order`` (row-major by default)."""
        if order is None:
            return contiguous(self.shape)
        axes = order
        return FixedLayout(self.shape, strides_in_order(self.shape, tuple(axes)))


Layout = FixedLayout | FlexibleLayout


def contiguous(shape: Sequence[int], offset: int = 0) -> FixedLayout:
    """The row-major layout of ``shape``."""
    return _contiguous(tuple(shape), offset)


@functools.lru_cache(maxsize=4096)
def _contiguous(shape: Shape, offset: int) -> FixedLayout:
    return FixedLayout(shape, contiguous_strides(shape), offset)


def reshape_index(index: Sequence[Expr], old: Sequence[int], new: Sequence[int]) -> Index:
    """The index into shape ``old`` of the element at ``index`` in its reshape to ``new``."""
    return _reshape_index(tuple(index), tuple(old), tuple(new))


@functools.lru_cache(maxsize=4096)  # asked each time that a value is looked at
def _reshape_index(index: Index, old: Shape, new: Shape) -> Index:
    matched = _matched_axes(old, new)
    if matched is not None:
        out: list[Expr] = []
        for old_axes, new_axes in matched:
            part = [index[a] for a in new_axes]
            extents = [new[a] for a in new_axes]
            flat = linearize(part, contiguous_strides(extents))
            out.extend(delinearize(flat, [old[a] for a in old_axes]))
        return tuple(out)
    return delinearize(linearize(index, contiguous_strides(new)), old)


def _matched_axes(
    old: Sequence[int], new: Sequence[int]
) -> list[tuple[list[int], list[int]]] | None:
    """Runs of axes of equal total length on both sides, so that each is rewritten on its own."""
    if 0 in old or 0 in new:
        return None
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left: list[int] = []
        right: list[int] = []
        n = m = 1
        if i < len(old):
            n *= old[i]
            left.append(i)
            i += 1
        if j < len(new):
            m *= new[j]
            right.append(j)
            j += 1
        while n != m:
            if n < m and i < len(old):
                n *= old[i]
                left.append(i)
                i += 1
            elif m < n and j < len(new):
                m *= new[j]
                right.append(j)
                j += 1
            else:
                return None
        runs.append((left, right))
    return runs


def preferred_order(stride_votes: Sequence[Sequence[int]], shape: Sequence[int]) -> Shape:
    """The order of axes, outermost first, that makes most of the given reads contiguous.

    Each vote is the list of strides that one read has along the axes. Axis ``a`` goes outside axis
    ``b`` when more reads have the larger stride along ``a``; with no majority the order stays.
    """
    axes = list(range(len(shape)))
    if not stride_votes or len(axes) < 2:
        return tuple(axes)

    def outside(a: int, b: int) -> int:
        score = 0
        for strides in stride_votes:
            x, y = abs(strides[a]), abs(strides[b])
            if x and y and x != y:
                score += 1 if x > y else -1
        return score

    # Insertion sort: stable, and well defined although votes need not be transitive.
    order: list[int] = []
    for axis in axes:
        place = len(order)
        while place and outside(order[place - 1], axis) < 0:
            place -= 1
        order.insert(place, axis)
    return tuple(order)


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(str(n) for n in numbers)
