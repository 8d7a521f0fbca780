"""Rearranging elements: flip, roll, rot90, tile, repeat, pad, resize, sliding windows.

Input: NumPy's arguments, counts and widths static.  Output: slices, reversals and concatenations,
or one gather with an index that is known while tracing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.errors import ConcretizationError, MutationError, ShapeError
from stax.numpy.indexing import getitem
from stax.numpy.manipulation import concatenate, permuted, stack
from stax.numpy.promotion import as_dtype, stored
from stax.numpy.registration import (
    axes_tuple,
    axis_index,
    converted,
    implements,
    lines,
    operand,
    shape_tuple,
)
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.indexing import gather
from stax.primitives.reductions import reduce_max, reduce_min
from stax.primitives.shapes import slice_axis

__all__ = [
    "flip",
    "fliplr",
    "flipud",
    "pad",
    "repeat",
    "resize",
    "roll",
    "rot90",
    "tile",
]

Array = Any


def along(x: Array, index: Any, axis: int) -> Array:
    """The elements of `x` at a known index vector along `axis`."""
    index = np.asarray(index, np.int64)
    y = gather(x, [index], [axis], "promise")
    return vw.move_axis(y, 0, axis) if index.ndim == 1 else y


@implements(np.flip)
def flip(m: Array, axis: Any = None) -> Array:
    """`m` with the order along axes reversed, as a view; as `numpy.flip`."""
    x = operand(m, "flip")
    axes = axes_tuple(axis, len(x.shape), "flip")
    index = tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(len(x.shape)))
    return getitem(x, index)


@implements(np.fliplr)
def fliplr(m: Array) -> Array:
    """`m` with its columns reversed."""
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Array) -> Array:
    """`m` with its rows reversed."""
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Array, k: int = 1, axes: Any = (0, 1)) -> Array:
    """`m` rotated by 90 degrees `k` times in the plane of two axes; as `numpy.rot90`."""
    x = operand(m, "rot90")
    i, j = axes_tuple(tuple(axes), len(x.shape), "rot90")
    turns = operator.index(k) % 4
    perm = list(range(len(x.shape)))
    perm[i], perm[j] = perm[j], perm[i]
    if turns == 0:
        return getitem(x, Ellipsis)
    if turns == 2:
        return flip(flip(x, i), j)
    if turns == 1:
        return permuted(flip(x, j), perm)
    return flip(permuted(x, perm), j)


@implements(np.roll)
def roll(a: Array, shift: Any, axis: Any = None) -> Array:
    """`a` with its elements shifted around along axes; `shift` may be traced; as `numpy.roll`."""
    x = operand(a, "roll")
    if axis is None:
        flat = vw.reshape(x, (aval_of(x).size,))
        return vw.reshape(roll(flat, shift, 0), x.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,)
    pairs = np.broadcast(np.empty(len(axes)), np.empty(len(shifts)))
    for k in range(pairs.size):
        d = axis_index(axes[k % len(axes)], len(x.shape), "roll")
        amount = shifts[k % len(shifts)]
        n = x.shape[d]
        if n == 0:
            continue
        if isinstance(amount, Tracer) and amount.concrete() is None:
            place = np.arange(n) - converted(amount, np.dtype(np.int64))
            x = vw.move_axis(gather(x, [place % n], [d], "promise"), 0, d)
            continue
        by = operator.index(amount) % n
        if by:
            x = sh.concatenate([slice_axis(x, d, n - by, n), slice_axis(x, d, 0, n - by)], d)
    return x


@implements(np.tile)
def tile(A: Array, reps: Any) -> Array:
    """`A` repeated `reps` times along each axis; as `numpy.tile`."""
    x = operand(A, "tile")
    counts = shape_tuple(reps)
    rank = max(len(counts), len(x.shape))
    counts = (*(1,) * (rank - len(counts)), *counts)
    shape = (*(1,) * (rank - len(x.shape)), *x.shape)
    interleaved = [v for pair in zip(counts, shape, strict=True) for v in pair]
    y = vw.reshape(x, shape)
    y = vw.broadcast(y, interleaved, range(1, 2 * rank, 2))
    return vw.reshape(y, [c * n for c, n in zip(counts, shape, strict=True)])


@implements(np.repeat)
def repeat(a: Array, repeats: Any, axis: Any = None) -> Array:
    """Each element repeated; the counts are static; as `numpy.repeat`."""
    x, k = lines(operand(a, "repeat"), axis, "repeat")
    counts = _known_counts(repeats)
    n = x.shape[k]
    if counts.size == 1:
        times = int(counts.reshape(()))
        shape = (*x.shape[: k + 1], times, *x.shape[k + 1 :])
        y = vw.broadcast(x, shape, [d for d in range(len(shape)) if d != k + 1])
        return vw.reshape(y, (*x.shape[:k], n * times, *x.shape[k + 1 :]))
    if counts.shape == (0,):
        counts = counts.astype(np.int64)
    if counts.shape != (n,):
        raise ShapeError(
            f"{counts.size} repeat counts for an axis of extent {n}",
            op="repeat",
            where=user_source() or None,
        )
    return along(x, np.repeat(np.arange(n), counts), k)


def _known_counts(repeats: Any) -> Any:
    if not isinstance(repeats, Tracer):
        return np.asarray(repeats)
    found = repeats.concrete()
    if found is None:
        raise ConcretizationError(
            f"the result's shape depends on the values of traced counts of type {repeats.aval}",
            op="repeat",
            where=user_source() or None,
            hint="give total_repeat_length=, which fixes the shape, or keep the counts static",
        )
    return np.asarray(found)


@implements(np.resize)
def resize(a: Array, new_shape: Any) -> Array:
    """`a` repeated or cut to fill a shape; as `numpy.resize`."""
    x = operand(a, "resize")
    shape = shape_tuple(new_shape)
    size = int(np.prod(shape, dtype=np.int64))
    if aval_of(x).size == 0:
        return np.zeros(shape, aval_of(x).dtype)
    flat = vw.reshape(x, (aval_of(x).size,))
    index = np.resize(np.arange(flat.shape[0]), size)
    return vw.reshape(along(flat, index, 0), shape)


# ----------------------------------------------------------------------------------------- pad


def _pairs(value: Any, ndim: int, what: str) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        pairs: list[tuple[Any, Any]] = [(0, 0)] * ndim
        for axis, item in value.items():
            k = axis_index(axis, ndim, "pad")
            pairs[k] = (item[0], item[-1]) if isinstance(item, tuple | list) else (item, item)
        return pairs
    if isinstance(value, Tracer) or not hasattr(value, "__len__"):
        return [(value, value)] * ndim
    items = list(value)
    if items and not isinstance(items[0], tuple | list | np.ndarray):
        if len(items) == 1:
            return [(items[0], items[0])] * ndim
        if len(items) == 2:
            return [(items[0], items[1])] * ndim
    pairs = [(i[0], i[-1]) for i in items]
    if len(pairs) == 1:
        return pairs * ndim
    if len(pairs) != ndim:
        raise ShapeError(f"{what} needs one pair for each of {ndim} axes", op="pad")
    return pairs


def _mirror(n: int, low: int, high: int, mode: str) -> Any:
    place = np.arange(-low, n + high)
    if mode == "edge":
        return np.clip(place, 0, n - 1)
    if mode == "wrap":
        return place % n
    if mode == "symmetric":
        place = place % (2 * n)
        return np.where(place < n, place, 2 * n - 1 - place)
    if n == 1:
        return np.zeros_like(place)
    place = place % (2 * n - 2)
    return np.where(place < n, place, 2 * n - 2 - place)


@implements(np.pad)
def pad(array: Array, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Array:
    """`array` with elements added at its borders; as `numpy.pad`.

    Modes constant, edge, reflect, symmetric, wrap, empty, maximum, minimum, mean and linear_ramp.
    """
    x = operand(array, "pad")
    n = len(x.shape)
    widths = [(operator.index(a), operator.index(b)) for a, b in _pairs(pad_width, n, "pad_width")]
    if any(a < 0 or b < 0 for a, b in widths):
        raise ShapeError("index can't contain negative values", op="pad")
    if not n:
        return x  # there is no border to add to
    if mode in ("constant", "empty"):
        values = _pairs(kwargs.get("constant_values", 0), n, "constant_values")
        return _constant_pad(x, widths, values)
    if mode in ("edge", "wrap", "symmetric", "reflect"):
        if kwargs.get("reflect_type", "even") != "even":
            return _odd_reflect(x, widths, mode)
        for k, (low, high) in enumerate(widths):
            if low or high:
                if x.shape[k] == 0:
                    raise ShapeError(f"can't extend empty axis {k} using mode {mode!r}", op="pad")
                x = along(x, _mirror(x.shape[k], low, high, mode), k)
        return x
    if mode in ("maximum", "minimum", "mean", "linear_ramp"):
        return _statistic_pad(x, widths, mode, kwargs)
    raise ShapeError(
        f"mode {mode!r} is not supported on traced values",
        op="pad",
        where=user_source() or None,
        hint="use constant, edge, reflect, symmetric, wrap, maximum, minimum, mean or linear_ramp",
    )


def _constant_pad(x: Array, widths: Sequence[Any], values: Sequence[Any]) -> Array:
    cells = [as_dtype(stored(v, x.dtype, "pad"), x.dtype) for pair in values for v in pair]
    first = cells[0]
    plain = not any(isinstance(c, Tracer) for c in cells)
    if all(c is first for c in cells) or (plain and all(np.array_equal(c, first) for c in cells)):
        value = first if isinstance(first, Tracer) else np.asarray(first)[()]
        return sh.pad(x, value, [a for a, _ in widths], [b for _, b in widths])
    for k, (low, high) in enumerate(widths):
        before, after = cells[2 * k : 2 * k + 2]
        shape = list(x.shape)
        parts = [x]
        if low:
            shape[k] = low
            parts.insert(0, vw.broadcast(before, shape))
        if high:
            shape[k] = high
            parts.append(vw.broadcast(after, shape))
        x = sh.concatenate(parts, k)
    return x


def _odd_reflect(x: Array, widths: Sequence[Any], mode: str) -> Array:
    for k, (low, high) in enumerate(widths):
        n = x.shape[k]
        inner = n - 1 if mode == "reflect" else n
        while (low or high) and inner > 0:
            a, b = min(low, inner), min(high, inner)
            skip = 1 if mode == "reflect" else 0
            m = x.shape[k]
            first, last = slice_axis(x, k, 0, 1), slice_axis(x, k, m - 1, m)
            left = vw.rev(slice_axis(x, k, skip, skip + a), [k])
            right = vw.rev(slice_axis(x, k, m - skip - b, m - skip), [k])
            x = sh.concatenate([2 * first - left, x, 2 * last - right], k)
            low, high = low - a, high - b
    return x


def _statistic_pad(x: Array, widths: Sequence[Any], mode: str, kwargs: dict[str, Any]) -> Array:
    lengths = kwargs.get("stat_length")
    spans = None if lengths is None else _pairs(lengths, len(x.shape), "stat_length")
    ends = _pairs(kwargs.get("end_values", 0), len(x.shape), "end_values")
    for k, (low, high) in enumerate(widths):
        n = x.shape[k]
        sides = []
        for count, front in ((low, True), (high, False)):
            edge = slice_axis(x, k, 0, 1) if front else slice_axis(x, k, n - 1, n)
            shape = [count if d == k else m for d, m in enumerate(x.shape)]
            if mode == "linear_ramp":
                end = as_dtype(operand(ends[k][0 if front else 1], "pad"), x.dtype)
                steps = np.linspace(0, 1, count, endpoint=False) if count else np.zeros(0)
                weight = (steps if front else steps[::-1]).astype(x.dtype)
                weight = weight.reshape([-1 if d == k else 1 for d in range(len(x.shape))])
                sides.append(end + weight * (edge - end))
                continue
            span = n if spans is None else min(n, spans[k][0 if front else 1])
            part = slice_axis(x, k, 0, span) if front else slice_axis(x, k, n - span, n)
            if mode == "mean":
                value = np.mean(part, axis=k, keepdims=True)
            else:
                reduce = reduce_max if mode == "maximum" else reduce_min
                value = vw.reshape(reduce(part, [k]), edge.shape)
            sides.append(vw.broadcast(as_dtype(value, x.dtype), shape))
        x = concatenate([sides[0], x, sides[1]], k)
    return x


_SLICED = 16  # windows up to this length are slices put side by side, longer ones one gather


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Array, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """All windows of `x`, their axes last; as `numpy.lib.stride_tricks.sliding_window_view`.

    An axis may be given more than once: windows of windows.
    """
    x = operand(x, "sliding_window_view")
    if writeable:
        raise MutationError(
            "sliding_window_view: a traced value has no windows that can be written into",
            operands=[f"x: {aval_of(x)}"],
            where=user_source() or None,
            hint="write into the array itself",
        )
    rank = len(x.shape)
    windows = shape_tuple(window_shape)
    if axis is None:
        axes: tuple[int, ...] = tuple(range(rank))
    else:
        given = axis if isinstance(axis, tuple | list) else (axis,)
        axes = tuple(axis_index(k, rank, "sliding_window_view") for k in given)
    room = list(x.shape)
    for size, k in zip(windows, axes, strict=False):
        room[k] -= size - 1
    if len(windows) != len(axes) or min(windows, default=0) < 0 or min(room, default=1) < 1:
        raise ShapeError(
            f"sliding_window_view: windows of {windows} along axes {axes} do not fit",
            operands=[f"x: {aval_of(x)}"],
            where=user_source() or None,
            hint="give one size for each axis, no larger than the axis",
        )
    for size, k in zip(windows, axes, strict=True):
        count = x.shape[k] - size + 1
        if 0 < size <= _SLICED:
            x = stack([slice_axis(x, k, j, j + count) for j in range(size)], -1)
        else:
            index = np.arange(count)[:, None] + np.arange(size)
            y = gather(x, [index], [k], "promise")
            # The axes of windows and of places come first: (count, size, the others).
            rest = list(range(2, len(y.shape)))
            x = permuted(y, [*rest[:k], 0, *rest[k:], 1])
    return x
