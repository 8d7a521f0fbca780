"""Sequences and histograms on traced values: convolve, gradient, unwrap, histogram, i0, ...

Input: NumPy's arguments.  Output: compositions of products, differences and scatters; bins are
counted by `searchsorted` and an indexed add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.dtypes import FLOAT64, is_inexact
from stax.errors import ConcretizationError, DtypeError, ShapeError
from stax.numpy.indexing import written
from stax.numpy.manipulation import concatenate, unstack
from stax.numpy.precision import with_precision
from stax.numpy.promotion import as_dtype, coerce
from stax.numpy.reductions import diff
from stax.numpy.registration import axes_tuple, axis_index, converted, implements, operand, strong
from stax.numpy.selection import known
from stax.numpy.sorting import searchsorted
from stax.numpy.taps import full_convolution, padded_convolution
from stax.primitives import elementwise as el
from stax.primitives import special_bessel
from stax.primitives.shapes import scalar_zero, slice_axis
from stax.primitives.views import broadcast, reshape, rev

__all__ = [
    "convolve",
    "correlate",
    "ediff1d",
    "gradient",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "i0",
    "sort_complex",
    "trim_zeros",
    "unwrap",
]

Array = Any


def _convolved(a: Any, v: Any, mode: str, op: str) -> Array:
    x, y = coerce(strong(operand(a, op)), strong(operand(v, op)))
    if len(x.shape) > 1 or len(y.shape) > 1 or not aval_of(x).size or not aval_of(y).size:
        raise ShapeError("operands must be vectors that are not empty", op=op)
    x, y = (reshape(t, (aval_of(t).size,)) for t in (x, y))
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    n, m = x.shape[0], y.shape[0]
    if mode == "valid":
        return padded_convolution(x, y, 0)
    # Only floats have infinities, whose product with padding would be NaN.
    inexact = is_inexact(aval_of(x).dtype)
    full = full_convolution(x, y) if inexact else padded_convolution(x, y, m - 1)
    if mode == "full":
        return full
    if mode == "same":
        first = (m - 1) // 2
        return slice_axis(full, 0, first, first + n)
    raise ShapeError(f"mode {mode!r} is not one of full, same, valid", op=op)


@with_precision
@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """The discrete convolution of two vectors; as `numpy.convolve`."""
    return _convolved(a, v, mode, "convolve")


@with_precision
@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """The cross-correlation of two vectors; as `numpy.correlate`."""
    x, y = operand(a, "correlate"), operand(v, "correlate")
    swapped = aval_of(y).size > aval_of(x).size
    y = el.conj(y) if aval_of(y).dtype.kind == "c" else y
    if swapped and mode != "full":
        # NumPy correlates the shorter with the longer and turns the result around.
        return rev(_convolved(rev(x, [0]), y, mode, "correlate"), [0])
    return _convolved(x, rev(y, [0]), mode, "correlate")


def _no_truth(x: Array, op: str) -> Array:
    if aval_of(x).dtype == np.bool_:
        raise DtypeError(
            "Boolean values have no differences", op=op, hint="convert them to integers first"
        )
    return x


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours in the flattened input; as `numpy.ediff1d`."""
    x = _no_truth(operand(ary, "ediff1d"), "ediff1d")
    x = diff(reshape(x, (aval_of(x).size,)))
    parts = [x]
    for place, extra in ((0, to_begin), (1, to_end)):
        if extra is not None:
            e = as_dtype(operand(extra, "ediff1d"), x.dtype)
            parts.insert(0 if place == 0 else len(parts), reshape(e, (aval_of(e).size,)))
    return concatenate(parts, 0)


def _slope(x: Array, spacing: Any, axis: int, edge_order: int) -> Array:
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ShapeError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
            f"elements are required; axis {axis} has {n}",
            op="gradient",
            where=user_source() or None,
        )

    def part(a: int, b: int) -> Array:
        return slice_axis(x, axis, a, b)

    uneven = aval_of(spacing).shape != ()
    if uneven:
        shape = [n - 1 if k == axis else 1 for k in range(len(x.shape))]
        d = reshape(np.diff(spacing), shape)
        h0, h1 = slice_axis(d, axis, 0, n - 2), slice_axis(d, axis, 1, n - 1)
        inner = (
            -(h1) / (h0 * (h0 + h1)) * part(0, n - 2)
            + (h1 - h0) / (h0 * h1) * part(1, n - 1)
            + h0 / (h1 * (h0 + h1)) * part(2, n)
        )
        first, last = slice_axis(d, axis, 0, 1), slice_axis(d, axis, n - 2, n - 1)
    else:
        inner = (part(2, n) - part(0, n - 2)) / (2.0 * spacing)
        first = last = spacing
    if edge_order == 1:
        head = (part(1, 2) - part(0, 1)) / first
        tail = (part(n - 1, n) - part(n - 2, n - 1)) / last
    elif uneven:
        a, b = slice_axis(d, axis, 0, 1), slice_axis(d, axis, 1, 2)
        head = (
            -(2 * a + b) / (a * (a + b)) * part(0, 1)
            + (a + b) / (a * b) * part(1, 2)
            - a / (b * (a + b)) * part(2, 3)
        )
        a, b = slice_axis(d, axis, n - 3, n - 2), slice_axis(d, axis, n - 2, n - 1)
        tail = (
            b / (a * (a + b)) * part(n - 3, n - 2)
            - (b + a) / (a * b) * part(n - 2, n - 1)
            + (2 * b + a) / (b * (a + b)) * part(n - 1, n)
        )
    else:
        head = (-1.5 * part(0, 1) + 2.0 * part(1, 2) - 0.5 * part(2, 3)) / spacing
        tail = (
            1.5 * part(n - 1, n) - 2.0 * part(n - 2, n - 1) + 0.5 * part(n - 3, n - 2)
        ) / spacing
    return concatenate([head, inner, tail], axis)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along axes; as `numpy.gradient`."""
    x = _no_truth(operand(f, "gradient"), "gradient")
    if not is_inexact(aval_of(x).dtype):
        x = converted(x, FLOAT64)
    axes = axes_tuple(axis, len(x.shape), "gradient")
    spacings = [operand(v, "gradient") for v in varargs] or [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"{len(spacings)} spacings for {len(axes)} axes", op="gradient")
    out = tuple(_slope(x, s, k, edge_order) for s, k in zip(spacings, axes, strict=True))
    return out[0] if len(out) == 1 else out


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Array:
    """Phases with jumps of more than half a period removed; as `numpy.unwrap`."""
    x = operand(p, "unwrap")
    k = axis_index(axis, len(x.shape), "unwrap")
    # Differences are taken in the type of the input, where unsigned ones wrap around.
    step = diff(x, axis=k)
    dtype = np.result_type(aval_of(step).dtype, period)
    if x.shape[k] == 0:
        return as_dtype(x, dtype)
    whole = dtype.kind in "iu"
    high = period // 2 if whole else period / 2
    limit = period / 2 if discont is None else discont
    wide = as_dtype(step, dtype)
    wrapped = np.mod(wide + high, period) - high
    if not (whole and period % 2):
        wrapped = np.where((wrapped == -high) & (step > 0), dtype.type(high), wrapped)
    correction = np.where(np.abs(step) < limit, dtype.type(0), wrapped - wide)
    x = as_dtype(x, dtype)
    tail = slice_axis(x, k, 1, x.shape[k]) + np.cumsum(correction, axis=k)
    return concatenate([slice_axis(x, k, 0, 1), as_dtype(tail, dtype)], k)


@implements(np.i0)
def i0(x: Any) -> Array:
    """The modified Bessel function of order zero; as `numpy.i0`."""
    v = operand(x, "i0")
    return special_bessel.i0(v if is_inexact(aval_of(v).dtype) else converted(v, FLOAT64))


@implements(np.sort_complex)
def sort_complex(a: Any) -> Array:
    """The values sorted by real, then imaginary part, as complex numbers."""
    x = operand(a, "sort_complex")
    dtype = aval_of(x).dtype
    narrow = dtype.kind == "c" or (dtype.kind in "iu" and dtype.itemsize <= 2)
    kind = np.result_type(dtype, np.complex64) if narrow else np.dtype(np.complex128)
    return np.sort(converted(x, kind))


@implements(np.trim_zeros, shares=True)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """An array without leading and trailing zeros, whose places must be known while tracing."""
    x = operand(filt, "trim_zeros")
    places = np.nonzero(known(x, "trim_zeros"))
    for k in axes_tuple(axis, len(places), "trim_zeros"):
        n, found = x.shape[k], places[k]
        first = (int(found.min()) if len(found) else n) if "f" in trim.lower() else 0
        last = (int(found.max()) + 1 if len(found) else 0) if "b" in trim.lower() else n
        x = slice_axis(x, k, min(first, last), last)
    return x


# ---------------------------------------------------------------------------------- histograms


@implements(np.histogram_bin_edges, shares=True)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of bins, given their number or the edges; as `numpy.histogram_bin_edges`."""
    x = operand(a, "histogram")
    if isinstance(bins, str):
        return np.histogram_bin_edges(known(x, "histogram"), bins, range, weights)
    edges = operand(bins, "histogram")
    if len(aval_of(edges).shape) == 1:
        return edges
    if isinstance(edges, Tracer):
        raise ConcretizationError(
            "the number of bins decides a shape and must be static", op="histogram"
        )
    count = int(edges)
    have = aval_of(x).dtype
    kind = have if is_inexact(have) else FLOAT64
    if range is not None:
        return np.linspace(range[0], range[1], count + 1, dtype=kind)
    v = converted(reshape(x, (aval_of(x).size,)), FLOAT64)
    if not aval_of(v).size:
        return np.linspace(0.0, 1.0, count + 1, dtype=kind)
    low, high = np.min(v), np.max(v)
    same = low == high
    low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
    return np.linspace(low, high, count + 1, dtype=kind)


def _bins(x: Array, edges: Array) -> tuple[Array, Array]:
    """The bin of each element, and whether it lies in any."""
    n = edges.shape[0]
    x, edges = coerce(x, edges)
    place = el.sub(searchsorted(edges, x, "right"), np.int64(1))
    last = reshape(slice_axis(edges, 0, n - 1, n), ())
    # The last bin is closed on the right.
    place = el.select(el.eq(x, last), np.int64(n - 2), place)
    inside = el.logical_and(el.ge(place, np.int64(0)), el.lt(place, np.int64(n - 1)))
    return place, inside


@implements(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, Array]:
    """Counts, or sums of weights, in bins; as `numpy.histogram`."""
    x = operand(a, "histogram")
    edges = histogram_bin_edges(x, bins, range, weights)
    count, (out_edges,) = _histogramdd([x], [edges], density, weights)
    return count, out_edges


def _histogramdd(
    columns: Sequence[Array], edges: Sequence[Array], density: Any, weights: Any
) -> tuple[Array, list[Array]]:
    shape = tuple(e.shape[0] - 1 for e in edges)
    index, inside = [], None
    for x, e in zip(columns, edges, strict=True):
        place, here = _bins(reshape(x, (aval_of(x).size,)), e)
        index.append(place)
        inside = here if inside is None else el.logical_and(inside, here)
    if weights is None:
        amount: Any = broadcast(np.int64(1), aval_of(index[0]).shape)
    else:
        amount = strong(operand(weights, "histogram"))
        amount = reshape(amount, (aval_of(amount).size,))
    dtype = aval_of(amount).dtype
    amount = el.select(inside, amount, scalar_zero(dtype))
    index = [el.clamp(np.int64(0), i, np.int64(n - 1)) for i, n in zip(index, shape, strict=True)]
    blank = broadcast(scalar_zero(dtype), shape)
    count = written(blank, tuple(index), amount, "add", "promise")
    if density:
        volume: Any = np.float64(1)
        for k, e in enumerate(edges):
            width = diff(e)
            spread = [n if d == k else 1 for d, n in enumerate(shape)]
            volume = volume * reshape(width, spread)
        count = count / volume / np.sum(count)
    return count, list(edges)


@implements(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, list[Array]]:
    """Counts in a grid of bins; as `numpy.histogramdd`."""
    if isinstance(sample, list | tuple):
        columns = [operand(c, "histogramdd") for c in sample]
    else:
        points = operand(sample, "histogramdd")
        points = points if len(points.shape) == 2 else reshape(points, (points.shape[0], 1))
        columns = list(unstack(points, axis=1))
    several = isinstance(bins, list | tuple) and len(bins) == len(columns)
    each = bins if several else [bins] * len(columns)
    spans = [None] * len(columns) if range is None else range
    edges = [histogram_bin_edges(c, b, s) for c, b, s in zip(columns, each, spans, strict=True)]
    count, edges = _histogramdd(columns, edges, density, weights)
    return converted(count, FLOAT64), edges


@implements(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """Counts in a grid of two axes, as floats; as `numpy.histogram2d`."""
    count, edges = histogramdd([x, y], bins, range, density, weights)
    return converted(count, FLOAT64), edges[0], edges[1]
