"""Functions whose shape depends on values, given the shape; writes that return a copy instead.

Input: NumPy's arguments, and JAX's further ones: `size` and `fill_value`, `length`,
`total_repeat_length`, `mode`, `inplace=False`.  Output: without those, the function of the same
name from its own module; with `size`, results cut or filled to that many elements, which traced
arrays need.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import METHODS
from stax.errors import ShapeError
from stax.numpy import rearranging, selection, sets
from stax.numpy.at import at
from stax.numpy.creation import arange, copy, full
from stax.numpy.manipulation import concatenate, ravel, stack
from stax.numpy.promotion import as_dtype, coerce
from stax.numpy.reductions import cumsum
from stax.numpy.registration import axis_index, operand
from stax.numpy.sets import (
    INT64,
    UniqueAllResult,
    UniqueCountsResult,
    UniqueInverseResult,
    flattened,
    isin,
)
from stax.numpy.sorting import searchsorted
from stax.numpy.ufunc_rules import truth
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.shapes import scalar_zero, slice_axis
from stax.primitives.sorting import sort as sort_rows
from stax.primitives.views import broadcast, reshape

__all__ = [
    "argwhere",
    "bincount",
    "compress",
    "extract",
    "fill_diagonal",
    "flatnonzero",
    "intersect1d",
    "nonzero",
    "place",
    "put",
    "put_along_axis",
    "repeat",
    "setdiff1d",
    "setxor1d",
    "take",
    "take_along_axis",
    "union1d",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]

Array = Any


def _places(mask: Array, size: Any) -> tuple[Array, Array]:
    """The first `size` positions where a vector of truths holds, and which of them there are."""
    count, n = operator.index(size), aval_of(mask).shape[0]
    rank = el.sub(cumsum(convert(mask, INT64), 0), np.int64(1))
    target = el.select(mask, rank, np.int64(count))
    found = at(full(count, n, INT64))[target].set(arange(n), mode="drop", unique_indices=False)
    exists = el.lt(found, np.int64(n))
    return el.select(exists, found, np.int64(0)), exists


# ------------------------------------------------------------------------ where something holds


def nonzero(a: Array, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not zero; as `numpy.nonzero`, or `size` of them.

    >>> nonzero(np.array([0, 3, 0, 4]), size=3)
    (array([1, 3, 0]),)
    """
    if size is None:
        return selection.nonzero(a)
    x = operand(a, "nonzero")
    shape = aval_of(x).shape
    if not shape:
        raise ShapeError(
            "a scalar has no indices", op="nonzero", operands=[x], hint="use np.atleast_1d"
        )
    flat, exists = _places(reshape(truth(x), (aval_of(x).size,)), size)
    fills = fill_value if isinstance(fill_value, tuple | list) else [fill_value] * len(shape)
    out = []
    for k, fill in enumerate(fills):
        stride = int(np.prod(shape[k + 1 :], dtype=np.int64))
        index = el.floordiv(flat, np.int64(np.maximum(stride, 1)))
        if k:
            index = el.mod(index, np.int64(np.maximum(shape[k], 1)))
        other = np.int64(0) if fill is None else as_dtype(fill, INT64)
        out.append(el.select(exists, index, other))
    return tuple(out)


def flatnonzero(a: Array, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The flat indices of the elements that are not zero, or `size` of them."""
    if size is None:
        return selection.flatnonzero(a)
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Array, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not zero, one row each, or `size` of them."""
    if size is None:
        return selection.argwhere(a)
    if not aval_of(operand(a, "argwhere")).shape:
        return np.zeros((size, 0), INT64)
    return stack(nonzero(a, size=size, fill_value=fill_value), 1)


def where(
    condition: Array,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where the condition holds, else `y`; of a condition alone, its `nonzero`."""
    if size is not None and x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None and y is None:
        return selection.where(condition)
    if x is None or y is None:
        raise ShapeError("either both or neither of x and y should be given", op="where")
    return selection.where(condition, x, y)


def compress(
    condition: Any,
    a: Array,
    axis: Any = None,
    out: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Array:
    """The slices along `axis` for which a condition holds, or `size` of them."""
    if size is None:
        return selection.compress(condition, a, axis, out)
    x = flattened(a, "compress") if axis is None else operand(a, "compress")
    k = axis_index(axis or 0, len(aval_of(x).shape), "compress")
    places, exists = _places(truth(operand(condition, "compress")), size)
    values = selection.take(x, places, k, mode="wrap")
    shape = [-1 if d == k else 1 for d in range(len(values.shape))]
    marks = reshape(exists, [values.shape[k] if n < 0 else 1 for n in shape])
    return el.select(marks, values, as_dtype(fill_value, values.dtype))


def extract(condition: Any, arr: Array, *, size: int | None = None, fill_value: Any = 0) -> Array:
    """The elements where a condition holds, or `size` of them."""
    if size is None:
        return selection.extract(condition, arr)
    return compress(flattened(condition, "extract"), arr, size=size, fill_value=fill_value)


# --------------------------------------------------------------------------------- set functions


def _sorted_first(x: Array) -> tuple[Array, Array]:
    """A vector sorted, and which of its elements differ from the one before."""
    (ordered,) = sort_rows((x,), 0)
    n = aval_of(ordered).shape[0]
    if n == 0:
        return ordered, np.ones(0, bool)
    differs = el.ne(slice_axis(ordered, 0, 0, n - 1), slice_axis(ordered, 0, 1, n))
    return ordered, concatenate([np.ones(1, bool), differs], 0)


def _members(values: Array, mask: Array, size: int, fill_value: Any) -> Array:
    if not aval_of(values).shape[0]:
        values, mask = full((1,), 0, aval_of(values).dtype), full((1,), False)
    places, exists = _places(mask, size)
    found = selection.take(values, places, 0, mode="wrap")
    # Without fill_value the rest repeats the first member (zero when there is none).
    if fill_value is None:
        fill = el.select(exists[:1], found[:1], broadcast(scalar_zero(found.dtype), (1,)))
    else:
        fill = as_dtype(fill_value, found.dtype)
    return el.select(exists, found, fill)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The sorted distinct elements of either, or `size` of them."""
    if size is None:
        return sets.union1d(ar1, ar2)
    both = concatenate([flattened(ar1, "union1d"), flattened(ar2, "union1d")], 0)
    return sets.unique(both, size=size, fill_value=fill_value)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The sorted distinct elements of both, or `size` of them."""
    if size is None or return_indices:
        return sets.intersect1d(ar1, ar2, assume_unique, return_indices)
    a, b = coerce(flattened(ar1, "intersect1d"), flattened(ar2, "intersect1d"))
    ordered, first = _sorted_first(a)
    return _members(ordered, el.logical_and(first, isin(ordered, b)), size, fill_value)


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The sorted distinct elements of the first that are not in the second, or `size` of them.

    Without `fill_value`, zeros follow where there are fewer.
    """
    if size is None:
        return sets.setdiff1d(ar1, ar2, assume_unique)
    ordered, first = _sorted_first(flattened(ar1, "setdiff1d"))
    outside = isin(ordered, flattened(ar2, "setdiff1d"), invert=True)
    fill_value = 0 if fill_value is None else fill_value
    return _members(ordered, el.logical_and(first, outside), size, fill_value)


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The sorted distinct elements of exactly one of the two, or `size` of them."""
    if size is None:
        return sets.setxor1d(ar1, ar2, assume_unique)
    a, b = coerce(flattened(ar1, "setxor1d"), flattened(ar2, "setxor1d"))
    ordered, first = _sorted_first(concatenate([a, b], 0))
    one = el.ne(isin(ordered, a), isin(ordered, b))
    return _members(ordered, el.logical_and(first, one), size, fill_value)


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """Distinct values, first positions, inverse and counts; as `numpy.unique_all`."""
    if size is None:
        return sets.unique_all(x)
    found = sets.unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAllResult(*found)


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """Distinct values and counts; as `numpy.unique_counts`."""
    if size is None:
        return sets.unique_counts(x)
    found = sets.unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCountsResult(*found)


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """Distinct values and the inverse; as `numpy.unique_inverse`."""
    if size is None:
        return sets.unique_inverse(x)
    found = sets.unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverseResult(*found)


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Distinct values; as `numpy.unique_values`."""
    if size is None:
        return sets.unique_values(x)
    return sets.unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ------------------------------------------------------------------------------ counts and reads


def bincount(
    x: Array, /, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """How often each integer occurs; with `length`, of the integers below it (negative are 0)."""
    if length is None:
        return selection.bincount(x, weights, minlength)
    index = operand(x, "bincount")
    index = el.select(
        el.lt(index, aval_of(index).dtype.type(0)), aval_of(index).dtype.type(0), index
    )
    if weights is None:
        values, dtype = np.int64(1), INT64
    else:
        values = operand(weights, "bincount")
        dtype = aval_of(values).dtype
    return at(full(operator.index(length), 0, dtype))[index].add(values, mode="drop")


def repeat(
    a: Array, repeats: Any, axis: Any = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element repeated; with `total_repeat_length` the counts may be traced.

    The result is then cut to that length, or filled with the last element.
    """
    if total_repeat_length is None:
        return rearranging.repeat(a, repeats, axis)
    x = flattened(a, "repeat") if axis is None else operand(a, "repeat")
    k = axis_index(axis or 0, len(aval_of(x).shape), "repeat")
    n = aval_of(x).shape[k]
    counts = el.add(operand(repeats, "repeat"), np.zeros(n, aval_of(operand(repeats, "")).dtype))
    ends = cumsum(counts, 0)
    index = searchsorted(ends, arange(operator.index(total_repeat_length)), "right")
    return selection.take(x, index, k, mode="clip")


def take(
    a: Array,
    indices: Any,
    axis: Any = None,
    out: Any = None,
    mode: str | None = "raise",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements at `indices` along `axis`; as `numpy.take`, with the modes of `x.at` too."""
    if fill_value is None and mode in ("raise", "clip", "wrap", None):
        return selection.take(a, indices, axis, out, mode or "raise")
    x = flattened(a, "take") if axis is None else operand(a, "take")
    k = axis_index(axis or 0, len(aval_of(x).shape), "take")
    index = (slice(None),) * k + (operand(indices, "take"),)
    return at(x)[index].get(mode="fill" if mode in ("raise", None) else mode, fill_value=fill_value)


def take_along_axis(
    arr: Array, indices: Any, axis: Any = -1, mode: str | None = None, fill_value: Any = None
) -> Array:
    """`arr` read along `axis` at an index array of as many axes; `mode` as in `x.at`."""
    if mode is None and fill_value is None:
        return selection.take_along_axis(arr, indices, axis)
    x = flattened(arr, "take_along_axis") if axis is None else operand(arr, "take_along_axis")
    k = axis_index(axis or 0, len(aval_of(x).shape), "take_along_axis")
    index = selection._along_index(x, operand(indices, "take_along_axis"), k)
    return at(x)[index].get(mode=mode or "fill", fill_value=fill_value)


# --------------------------------------------------------------------------- writes into a copy


def put(
    a: Array, ind: Any, v: Any, mode: str | None = "raise", *, inplace: bool = True
) -> Array | None:
    """Write at flat positions; as `numpy.put`, or into a copy that is returned."""
    target = a if inplace else copy(a)
    selection.put(target, ind, v, mode or "raise")
    return None if inplace else target


def put_along_axis(
    arr: Array, indices: Any, values: Any, axis: Any, *, inplace: bool = True
) -> Array | None:
    """Write along `axis`; as `numpy.put_along_axis`, or into a copy that is returned."""
    target = arr if inplace else copy(arr)
    selection.put_along_axis(target, indices, values, axis)
    return None if inplace else target


def place(arr: Array, mask: Any, vals: Any, *, inplace: bool = True) -> Array | None:
    """Write where a mask holds; as `numpy.place`, or into a copy that is returned."""
    target = arr if inplace else copy(arr)
    selection.place(target, mask, vals)
    return None if inplace else target


def fill_diagonal(a: Array, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array | None:
    """Write the diagonal; as `numpy.fill_diagonal`, or into a copy that is returned."""
    target = a if inplace else copy(a)
    selection.fill_diagonal(target, val, wrap)
    return None if inplace else target


METHODS.update({"nonzero": nonzero, "repeat": repeat, "take": take})
