"""Order: sort, argsort, lexsort, partition, searchsorted, digitize, interp.

Input: NumPy's arguments.  Output: sorts of rows, and searches in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import Tracer
from stax.errors import DtypeError, ShapeError
from stax.numpy.indexing import getitem
from stax.numpy.promotion import as_dtype, coerce
from stax.numpy.registration import (
    axis_index,
    broadcast_to_shape,
    converted,
    implements,
    lines,
    operand,
)
from stax.primitives import elementwise as el
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.dynamic_slices import searchsorted as search_row
from stax.primitives.indexing import gather
from stax.primitives.shapes import iota, scalar_zero, slice_axis
from stax.primitives.sorting import sort as sort_rows
from stax.primitives.sorting import taken_along

__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "interp",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
]

Array = Any


def _plain_sort(a: Any, axis: Any = -1, *args: Any, descending: bool = False, **kw: Any) -> Any:
    out = np.sort(a, axis, *args, **kw)
    return np.flip(out, -1 if axis is None else axis) if descending else out


def _plain_argsort(
    a: Any, axis: Any = -1, kind: Any = None, *args: Any, descending: bool = False, **kw: Any
) -> Any:
    if not descending:
        if kind is None and kw.get("stable") is None:  # like the compiled one; not NumPy's own
            kind = "stable"
        return np.argsort(a, axis, kind, *args, **kw)
    if axis is None:
        a, axis = np.ravel(a), -1
    order = np.argsort(np.flip(a, axis), axis, kind="stable")
    return np.shape(a)[axis] - 1 - np.flip(order, axis)


@implements(_plain_sort, np.sort)
def sort(
    a: Array,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Array:
    """`a` sorted along `axis`, NaN last; as `numpy.sort`."""
    x = operand(a, "sort")
    if axis is None:
        x, axis = vw.reshape(x, (aval_of(x).size,)), 0
    k = axis_index(axis, len(x.shape), "sort")
    (out,) = sort_rows((x,), k)
    return vw.rev(out, [k]) if descending else out


@implements(_plain_argsort, np.argsort)
def argsort(
    a: Array,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Array:
    """The permutation that sorts `a` along `axis`, stably where `kind` does not say otherwise.

    Otherwise as `numpy.argsort`; with `descending` the largest comes first.
    """
    x, k = lines(operand(a, "argsort"), axis, "argsort")
    if not descending:
        return sort_rows((x, iota(x.shape, k)), k)[1]
    # Reversing twice keeps equal elements in their order.
    backwards = sort_rows((vw.rev(x, [k]), vw.rev(iota(x.shape, k), [k])), k)[1]
    return vw.rev(backwards, [k])


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The permutation that sorts by several keys, the last first; as `numpy.lexsort`."""
    rows = [operand(r, "lexsort") for r in keys]
    if rows and not rows[0].shape and axis in (0, -1):
        return np.int64(0)
    k = axis_index(axis, len(rows[0].shape), "lexsort")
    return sort_rows((*rows[::-1], iota(rows[0].shape, k)), k, len(rows))[-1]


@implements(np.partition)
def partition(a: Array, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Array:
    """`a` sorted, which is one of its partitions; as `numpy.partition`."""
    _check_kth(kth, a, axis, "partition")
    return sort(a, axis)


def _check_kth(kth: Any, a: Array, axis: Any, op: str) -> None:
    x, k = lines(operand(a, op), axis, op)
    n = aval_of(x).shape[k]
    for place in () if isinstance(kth, Tracer) else np.atleast_1d(kth):
        if not -n <= place < n:
            raise ShapeError(f"kth(={place}) out of bounds ({n})", op=op)


@implements(np.argpartition)
def argpartition(a: Array, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Array:
    """The permutation of `partition`; as `numpy.argpartition`."""
    _check_kth(kth, a, axis, "argpartition")
    return argsort(a, axis)


@implements(np.searchsorted)
def _searched(a: Array, v: Array, side: str = "left", sorter: Any = None) -> Array:
    if side not in ("left", "right"):
        raise ShapeError(f"side must be 'left' or 'right', not {side!r}", op="searchsorted")
    keys, values = coerce(operand(a, "searchsorted"), operand(v, "searchsorted"))
    if sorter is not None:
        keys = getitem(keys, sorter) if isinstance(keys, Tracer) else keys[sorter]
    return search_row(keys, values, side)


SEARCH_METHODS = ("scan", "scan_unrolled", "sort", "compare_all")


def searchsorted(
    a: Array, v: Array, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Array:
    """Where `v` would be inserted into the sorted vector `a`; as `numpy.searchsorted`.

    `method` names one of JAX's ways of searching, which all give the same; here each value is found
    by bisection.

    Raises:
      ValueError: `method` is none of "scan", "scan_unrolled", "sort", "compare_all".
    """
    if method not in SEARCH_METHODS:
        raise ValueError(f"method must be one of {', '.join(SEARCH_METHODS)}, got {method!r}")
    return _searched(a, v, side, sorter)


@implements(np.digitize)
def digitize(x: Array, bins: Array, right: bool = False) -> Array:
    """The bin of each element; the bins are monotonic; as `numpy.digitize`."""
    edges = operand(bins, "digitize")
    if aval_of(operand(x, "digitize")).dtype.kind == "c":
        raise DtypeError("x may not be complex", op="digitize")
    side = "left" if right else "right"
    n = edges.shape[0]
    if n < 2:
        return searchsorted(edges, x, side)
    falling = el.lt(slice_axis(edges, 0, n - 1, n), slice_axis(edges, 0, 0, 1))
    down = el.sub(np.int64(n), searchsorted(vw.rev(edges, [0]), x, side))
    return el.select(vw.reshape(falling, ()), down, searchsorted(edges, x, side))


@implements(np.interp)
def _interpolated(
    x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    v, px, pf = (operand(t, "interp") for t in (x, xp, fp))
    if len(px.shape) != 1 or px.shape != pf.shape or px.shape[0] == 0:
        raise ShapeError("fp and xp are not vectors of the same length", op="interp")
    v, px = coerce(v, px, np.float64(0))[:2]
    pf = coerce(pf, np.float64(0))[0]
    if period is not None:
        span = abs(period)
        v, px = np.mod(v, span), np.mod(px, span)
        order = argsort(px)
        px, pf = taken_along(px, order, 0), taken_along(pf, order, 0)
        n = px.shape[0]
        px = sh.concatenate(
            [slice_axis(px, 0, n - 1, n) - span, px, slice_axis(px, 0, 0, 1) + span], 0
        )
        pf = sh.concatenate([slice_axis(pf, 0, n - 1, n), pf, slice_axis(pf, 0, 0, 1)], 0)
        left = right = None
    n = px.shape[0]
    if n == 1:
        out = broadcast_to_shape(getitem(pf, 0), v.shape)
    else:
        above = el.clamp(np.int64(1), search_row(px, v, "right"), np.int64(n - 1))
        below = el.sub(above, np.int64(1))
        x0, x1 = (gather(px, [i], [0], "promise") for i in (below, above))
        y0, y1 = (gather(pf, [i], [0], "promise") for i in (below, above))
        width = el.sub(x1, x0)
        flat = el.eq(width, scalar_zero(width.dtype))
        ratio = el.div(el.sub(v, x0), el.select(flat, np.float64(1), width))
        inside = el.add(el.mul(converted(ratio, pf.dtype), el.sub(y1, y0)), y0)
        out = el.select(flat, y0, inside)
    for outside, end, given in (
        (el.lt(v, getitem(px, 0)), 0, left),
        (el.gt(v, getitem(px, n - 1)), n - 1, right),
    ):
        if given is None:
            value = getitem(pf, end)
        elif not isinstance(given, str):
            value = as_dtype(operand(given, "interp"), pf.dtype)
        elif given == "extrapolate":
            continue
        else:
            raise DtypeError(
                f"{given!r} is no value outside the points",
                op="interp",
                hint='a number, None (the value at the end) or "extrapolate"',
            )
        out = el.select(outside, value, out)
    return out


def interp(
    x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Piecewise linear interpolation through points of increasing `xp`; as `numpy.interp`.

    `left` and `right` may also be "extrapolate": the line through the two points at that end.
    """
    # NumPy has no such line: the traced version takes plain arrays as well.
    lines = isinstance(left, str) or isinstance(right, str)
    own = _interpolated.__wrapped__ if lines else _interpolated  # type: ignore[attr-defined]
    return own(x, xp, fp, left, right, period)
