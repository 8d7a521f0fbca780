"""`stax.lax`, indexed access: dynamic slices, gather and scatter with XLA's dimension numbers.

Input: arrays or traced values under JAX's names.  Output: `dynamic_slice` and its kin clamp starts
into the array; `gather` and `scatter` spell their windows out as index arrays for the primitives
of the same names.  By default a window that reaches outside is moved inside for reads, and writes
nothing, as in JAX.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import aval_of
from stax.core.keys import takes_keys
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.errors import ShapeError
from stax.numpy.promotion import as_dtype
from stax.numpy.registration import axis_index, broadcast_to_shape, converted
from stax.numpy.registration import operand as as_operand
from stax.primitives import dynamic_slices as ds
from stax.primitives import elementwise as el
from stax.primitives import indexing as ix
from stax.primitives import shapes as sh
from stax.primitives import views as vw

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "gather",
    "index_take",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]

Array = Any
INT64 = np.dtype(np.int64)


def _start(value: Any, extent: int) -> Any:
    """A start index counted from the front."""
    if isinstance(value, Tracer):
        known = value.concrete()
        if known is None:
            i = converted(value, INT64)
            if value.dtype.kind == "u":
                return i
            return el.select(el.lt(i, np.int64(0)), el.add(i, np.int64(extent)), i)
        value = known
    i = int(np.asarray(value))
    return np.int64(i + extent if i < 0 else i)


def _starts(values: Any, shape: Sequence[int]) -> list[Any]:
    if not isinstance(values, list | tuple):
        values = list(values)
    if len(values) != len(shape):
        raise ShapeError(
            f"{len(values)} start indices for {len(shape)} axes",
            op="dynamic_slice",
            where=user_source() or None,
        )
    return [_start(v, n) for v, n in zip(values, shape, strict=True)]


@takes_keys
def dynamic_slice(
    operand: Array,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: Any = True,
) -> Array:
    """The window of static `slice_sizes` at traced starts, which are clamped into the array.

    Args:
      start_indices: an integer for each axis, known or traced; negative ones count from the end.
      slice_sizes: a Python integer for each axis, the shape of the result.

    Raises:
      ShapeError: the window is larger than the array, or not as many starts as axes.

    >>> stax.jit(lambda x, i: dynamic_slice(x, (i,), (2,)))(np.arange(5), 3)
    array([3, 4])
    """
    x = as_operand(operand, "dynamic_slice")
    _check_window("dynamic_slice", x, tuple(slice_sizes))
    return ds.dynamic_slice(x, _starts(start_indices, x.shape), tuple(slice_sizes))


def _check_window(op: str, x: Array, sizes: Sequence[int]) -> None:
    if len(sizes) != len(x.shape) or any(
        not 0 <= m <= n for m, n in zip(sizes, x.shape, strict=False)
    ):
        raise ShapeError(
            f"a window of {tuple(sizes)} does not fit into {x.shape}",
            op=op,
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )


@takes_keys
def dynamic_update_slice(
    operand: Array, update: Array, start_indices: Any, *, allow_negative_indices: Any = True
) -> Array:
    """A copy of `operand` with the window at traced starts replaced by `update`.

    Starts as in `dynamic_slice`; the window has the shape of `update`, which takes the dtype of
    `operand`.

    Raises:
      ShapeError: the window is larger than the array, or not as many starts as axes.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
    array([0., 1., 1., 0.])
    """
    x = as_operand(operand, "dynamic_update_slice")
    u = as_dtype(as_operand(update, "dynamic_update_slice"), x.dtype)
    _check_window("dynamic_update_slice", x, u.shape)
    return ds.dynamic_update_slice(x, u, _starts(start_indices, x.shape))


def _on_axis(x: Array, start: Any, size: int, axis: int, op: str) -> tuple[list[Any], list[int]]:
    k = axis_index(axis, len(x.shape), op)
    starts: list[Any] = [np.int64(0)] * len(x.shape)
    sizes = list(x.shape)
    starts[k], sizes[k] = _start(start, x.shape[k]), size
    return starts, sizes


@takes_keys
def dynamic_slice_in_dim(
    operand: Array,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: Any = True,
) -> Array:
    """A window along one axis at a traced start.

    >>> dynamic_slice_in_dim(np.arange(6).reshape(3, 2), 1, 2)
    array([[2, 3],
           [4, 5]])
    """
    x = as_operand(operand, "dynamic_slice_in_dim")
    starts, sizes = _on_axis(x, start_index, slice_size, axis, "dynamic_slice_in_dim")
    return ds.dynamic_slice(x, starts, sizes)


@takes_keys
def dynamic_index_in_dim(
    operand: Array,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: Any = True,
) -> Array:
    """The slice at a traced index of one axis.

    >>> dynamic_index_in_dim(np.arange(6).reshape(3, 2), 1, keepdims=False)
    array([2, 3])
    """
    x = as_operand(operand, "dynamic_index_in_dim")
    y = dynamic_slice_in_dim(x, index, 1, axis)
    if keepdims:
        return y
    k = axis_index(axis, len(x.shape), "dynamic_index_in_dim")
    return vw.reshape(y, (*x.shape[:k], *x.shape[k + 1 :]))


@takes_keys
def dynamic_update_slice_in_dim(
    operand: Array,
    update: Array,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: Any = True,
) -> Array:
    """A copy with a window along one axis, at a traced start, replaced.

    >>> dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
    array([0., 1., 1., 0.])
    """
    x = as_operand(operand, "dynamic_update_slice_in_dim")
    u = as_dtype(as_operand(update, "dynamic_update_slice_in_dim"), x.dtype)
    k = axis_index(axis, len(x.shape), "dynamic_update_slice_in_dim")
    starts, _sizes = _on_axis(x, start_index, u.shape[k], axis, "dynamic_update_slice_in_dim")
    return ds.dynamic_update_slice(x, u, starts)


@takes_keys
def dynamic_update_index_in_dim(
    operand: Array, update: Array, index: Any, axis: int, *, allow_negative_indices: Any = True
) -> Array:
    """A copy with the slice at a traced index of one axis replaced.

    >>> dynamic_update_index_in_dim(np.zeros((2, 2)), np.ones(2), 1, 0)
    array([[0., 0.],
           [1., 1.]])
    """
    x = as_operand(operand, "dynamic_update_index_in_dim")
    k = axis_index(axis, len(x.shape), "dynamic_update_index_in_dim")
    u = as_dtype(as_operand(update, "dynamic_update_index_in_dim"), x.dtype)
    shape = (*x.shape[:k], 1, *x.shape[k + 1 :])
    if len(aval_of(u).shape) != len(shape):
        u = vw.reshape(broadcast_to_shape(u, (*x.shape[:k], *x.shape[k + 1 :])), shape)
    return dynamic_update_slice_in_dim(x, u, index, k)


@takes_keys
def index_take(src: Array, idxs: Any, axes: Sequence[int]) -> Array:
    """The elements at index arrays along `axes`, index axes first."""
    x = as_operand(src, "index_take")
    index = [as_operand(i, "index_take") for i in idxs]
    return ix.gather(x, index, axes, "fill")


# ------------------------------------------------------------------------------ gather, scatter


class GatherScatterMode(enum.Enum):
    """What a window outside the array means."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise"


_MODE_NAMES = {
    None: "fill",
    "clip": "clip",
    "fill": "fill",
    "drop": "fill",
    "promise_in_bounds": "promise",
}


class GatherDimensionNumbers(NamedTuple):
    """How the axes of a gather correspond; JAX's fields."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How the axes of a scatter correspond; JAX's fields."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def _mode_of(mode: Any) -> str:
    if isinstance(mode, GatherScatterMode):
        return mode.value
    if mode not in _MODE_NAMES:
        raise ShapeError(f"mode {mode!r} is not one of {tuple(_MODE_NAMES)}", op="gather")
    return _MODE_NAMES[mode]


class _Windows(NamedTuple):
    """Index arrays for windows: axes of the operand, their indices, and whether each is inside."""

    axes: tuple[int, ...]
    places: list[Array]
    inside: Array
    batch: tuple[int, ...]
    offsets: tuple[int, ...]  # operand axes that appear in the result, in order
    indexed: tuple[int, ...]  # those of them that the index arrays span


def _windows(
    shape: Sequence[int],
    starts: Array,
    sizes: Sequence[int],
    index_map: Sequence[int],
    dropped: Sequence[int],
    batching: Sequence[int],
    index_batching: Sequence[int],
    mode: str,
) -> _Windows:
    starts = converted(starts, INT64)
    batch = tuple(aval_of(starts).shape[:-1])
    last = len(batch)
    hidden = set(dropped) | set(batching)
    offsets = tuple(d for d in range(len(shape)) if d not in hidden)
    axes = [d for d in range(len(shape)) if d in index_map or d in hidden or sizes[d] != shape[d]]
    indexed = tuple(d for d in axes if d not in hidden)
    full = (*batch, *(sizes[d] for d in indexed))
    inside: Any = None
    index = []
    for d in axes:
        if d in batching:
            where = index_batching[list(batching).index(d)]
            index.append(sh.iota(full, where))
            continue
        if d in index_map:
            column = sh.slice_axis(
                starts, last, list(index_map).index(d), list(index_map).index(d) + 1
            )
            at = vw.reshape(column, batch)
        else:
            at = vw.broadcast(np.int64(0), batch)
        room = np.int64(shape[d] - sizes[d])
        clamped = el.clamp(np.int64(0), at, room)
        if mode == "fill":
            here = el.eq(clamped, at)
            inside = here if inside is None else el.logical_and(inside, here)
        spread = vw.broadcast(clamped if mode != "promise" else at, full, range(last))
        if d in indexed:
            spread = el.add(spread, sh.iota(full, last + indexed.index(d)))
        index.append(spread)
    return _Windows(tuple(axes), index, inside, batch, offsets, indexed)


def _result_order(w: _Windows, offset_dims: Sequence[int]) -> list[int]:
    """Where each axis of (batch + indexed + remaining) goes in the user's result."""
    n = len(w.batch)
    rest = [d for d in w.offsets if d not in w.indexed]
    have = [*w.indexed, *rest]
    total = n + len(have)
    batch_places = [k for k in range(total) if k not in offset_dims]
    perm = [0] * total
    for k, place in enumerate(batch_places):
        perm[place] = k
    for k, place in enumerate(offset_dims):
        perm[place] = n + have.index(w.offsets[k])
    return perm


def gather(
    operand: Array,
    start_indices: Array,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Windows of `operand` at starts in the last axis of `start_indices`; as `jax.lax.gather`."""
    x = as_operand(operand, "gather")
    numbers = GatherDimensionNumbers(*dimension_numbers)
    how = "clip" if mode is None and fill_value is None else _mode_of(mode)
    _check_window("gather", x, tuple(slice_sizes))
    w = _windows(
        x.shape,
        as_operand(start_indices, "gather"),
        tuple(slice_sizes),
        numbers.start_index_map,
        numbers.collapsed_slice_dims,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
        how,
    )
    if w.axes:
        y = ix.gather(x, w.places, w.axes, "promise")
    else:
        y = vw.broadcast(x, (*w.batch, *x.shape))
    if w.inside is not None:
        value = ix.fill_value(x.dtype) if fill_value is None else fill_value
        mask = vw.broadcast(w.inside, aval_of(y).shape, range(len(w.batch)))
        y = el.select(mask, y, as_dtype(as_operand(value, "gather"), x.dtype))
    return vw.transpose(y, _result_order(w, numbers.offset_dims))


MOST_ELEMENTS = 1 << 22  # of windows that are compared element by element


def _scatter(
    kind: str,
    operand: Array,
    scatter_indices: Array,
    updates: Array,
    dimension_numbers: ScatterDimensionNumbers,
    unique_indices: bool,
    mode: Any,
    change: Callable[[Array, Array], Array] | None = None,
) -> Array:
    x = as_operand(operand, "scatter")
    u = as_dtype(as_operand(updates, "scatter"), x.dtype)
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    hidden = set(numbers.inserted_window_dims) | set(numbers.operand_batching_dims)
    windows = iter(aval_of(u).shape[k] for k in numbers.update_window_dims)
    sizes = tuple(1 if d in hidden else next(windows) for d in range(len(x.shape)))
    how = _mode_of(mode)
    w = _windows(
        x.shape,
        as_operand(scatter_indices, "scatter"),
        sizes,
        numbers.scatter_dims_to_operand_dims,
        numbers.inserted_window_dims,
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
        how,
    )
    order = _result_order(w, numbers.update_window_dims)
    u = vw.transpose(u, np.argsort(order).tolist())
    index = w.places
    if w.inside is not None:
        # A window outside is sent beyond the end, where writes are dropped.
        lead = range(len(w.batch))
        index = [
            el.select(vw.broadcast(w.inside, aval_of(i).shape, lead), i, np.int64(x.shape[a]))
            for i, a in zip(index, w.axes, strict=True)
        ]
    where = "fill" if w.inside is not None else "promise"
    if change is not None:
        if not (unique_indices or _apart(scatter_indices, numbers, x.shape, sizes)):
            raise ShapeError(
                "an element changes once for each window that it lies in, and these are not known "
                "to lie apart",
                op="scatter_apply",
                operands=[str(aval_of(x))],
                where=user_source() or None,
                hint="pass unique_indices=True where no two windows share an element; "
                "x.at[i].apply takes indices that repeat where they are known",
            )
        old = ix.gather(x, w.places, w.axes, "promise")
        u, kind = change(old, u), "set"
    return ix.scatter(x, u, index, w.axes, kind, unique=unique_indices, mode=where)


def _apart(starts: Any, numbers: ScatterDimensionNumbers, shape: vw.Shape, sizes: Any) -> bool:
    """Whether the windows are known to share no element; those of different batches never do."""
    lead = aval_of(starts).shape[:-1]
    batches = numbers.scatter_indices_batching_dims
    if math.prod(n for k, n in enumerate(lead) if k not in batches) <= 1:
        return True
    value = starts.concrete() if isinstance(starts, Tracer) else starts
    elements = math.prod(lead) * math.prod(sizes)
    if value is None or elements > MOST_ELEMENTS:
        return False
    corners = np.zeros((*lead, len(shape)), np.int64)
    for column, a in enumerate(numbers.scatter_dims_to_operand_dims):
        corners[..., a] = np.clip(np.asarray(value)[..., column], 0, shape[a] - sizes[a])
    for a, k in zip(numbers.operand_batching_dims, batches, strict=True):
        corners[..., a] = np.indices(lead, sparse=True)[k]
    cells = np.indices(sizes).reshape(len(shape), -1).T
    reached = corners.reshape(-1, 1, len(shape)) + cells
    flat = np.ravel_multi_index(tuple(np.moveaxis(reached.reshape(-1, len(shape)), 1, 0)), shape)
    return bool(len(np.unique(flat)) == elements)


def _scatter_function(name: str, kind: str, doc: str) -> Callable[..., Any]:
    def public(
        operand: Array,
        scatter_indices: Array,
        updates: Array,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        return _scatter(
            kind, operand, scatter_indices, updates, dimension_numbers, unique_indices, mode
        )

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"A copy of `operand` with windows of `updates` {doc}; as `jax.lax.{name}`."
    return public


scatter = _scatter_function("scatter", "set", "written")
scatter_add = _scatter_function("scatter_add", "add", "added")
scatter_mul = _scatter_function("scatter_mul", "mul", "multiplied in")
scatter_min = _scatter_function("scatter_min", "min", "merged by minimum")
scatter_max = _scatter_function("scatter_max", "max", "merged by maximum")


def scatter_sub(
    operand: Array,
    scatter_indices: Array,
    updates: Array,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """A copy of `operand` with windows of `updates` subtracted; as `jax.lax.scatter_sub`."""
    negative = el.neg(as_dtype(as_operand(updates, "scatter"), aval_of(operand).dtype))
    return _scatter(
        "add", operand, scatter_indices, negative, dimension_numbers, unique_indices, mode
    )


def scatter_apply(
    operand: Array,
    scatter_indices: Array,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """A copy of `operand` with `func` applied to windows; as `jax.lax.scatter_apply`.

    ShapeError where several windows might name an element twice: `unique_indices=True` says that
    none does.
    """
    updates = vw.broadcast(np.zeros((), aval_of(operand).dtype)[()], tuple(update_shape))
    return _scatter(
        "set",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        unique_indices,
        mode,
        lambda old, _: func(old),
    )
