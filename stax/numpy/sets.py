"""Set functions: unique and its kin, isin, intersect1d, union1d, setdiff1d, setxor1d.

Input: arrays; where a result's shape depends on values, those must be known while tracing.
Output: the elements themselves are gathered, so they keep their derivatives.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import as_traced
from stax.dtypes import is_inexact
from stax.errors import ShapeError
from stax.numpy.creation import full, zeros
from stax.numpy.manipulation import concatenate
from stax.numpy.promotion import as_dtype, coerce
from stax.numpy.rearranging import along
from stax.numpy.registration import axis_index, implements, operand, strong
from stax.numpy.selection import known
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.cumulative import cumsum
from stax.primitives.dynamic_slices import searchsorted
from stax.primitives.indexing import gather, scatter
from stax.primitives.reductions import reduce_any
from stax.primitives.shapes import iota, slice_axis
from stax.primitives.sorting import sort as sort_rows
from stax.primitives.views import reshape

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
]

Array = Any
INT64 = np.dtype(np.int64)


def flattened(a: Any, op: str) -> Array:
    """The elements in one row, of a type that is not weak."""
    x = strong(operand(a, op))
    return reshape(x, (aval_of(x).size,))


@implements(np.unique)
def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The sorted distinct elements; as `numpy.unique`."""
    x = operand(ar, "unique")
    values = known(x, "unique")
    _, index, inverse, counts = np.unique(values, True, True, True, axis, equal_nan=equal_nan)
    if axis is None:
        out = along(flattened(x, "unique"), index, 0)
    else:
        out = along(x, index, axis_index(axis, len(x.shape), "unique"))
    wanted = ((return_index, index), (return_inverse, inverse), (return_counts, counts))
    extra = [as_traced(v) for flag, v in wanted if flag]
    return (out, *extra) if extra else out


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The sorted distinct elements; as `numpy.unique`, or `size` of them.

    With `size`, which traced arrays need, the result is cut or filled to that many elements:
    values with `fill_value` (the smallest element), counts with 0, indices with that of the first.
    """
    flags = (return_index, return_inverse, return_counts)
    if size is None:
        # Older releases of NumPy do not know `sorted`; its default is what they do.
        return _unique(ar, *flags, axis, equal_nan=equal_nan)
    if axis is not None:
        raise ShapeError(
            "size= needs axis=None: rows are not compared in compiled code",
            op="unique",
            where=user_source() or None,
        )
    found = _of_size(operand(ar, "unique"), operator.index(size), fill_value, equal_nan)
    wanted = [v for flag, v in zip(flags, found[1:], strict=True) if flag]
    return (found[0], *wanted) if wanted else found[0]


def _of_size(
    x: Array, size: int, fill_value: Any, equal_nan: bool
) -> tuple[Array, Array, Array, Array]:
    """Values, indices, inverse and counts of the first `size` distinct elements."""
    flat = flattened(x, "unique")
    n = flat.shape[0]
    if n == 0:
        fill = 0 if fill_value is None else fill_value
        nothing = zeros(size, np.int64)
        return full(size, fill, aval_of(flat).dtype), nothing, zeros(x.shape, np.int64), nothing
    ordered, order = sort_rows((flat, iota((n,))), 0)
    before, after = slice_axis(ordered, 0, 0, n - 1), slice_axis(ordered, 0, 1, n)
    differs = el.ne(before, after)
    if equal_nan and is_inexact(aval_of(flat).dtype):
        same = el.logical_and(el.ne(before, before), el.ne(after, after))
        differs = el.logical_and(differs, el.logical_not(same))
    starts = concatenate([np.ones(1, bool), differs], 0)
    rank = el.sub(cumsum(convert(starts, INT64), 0), INT64.type(1))
    places = searchsorted(rank, np.arange(size + 1), side="left")
    first, following = slice_axis(places, 0, 0, size), slice_axis(places, 0, 1, size + 1)
    exists = el.lt(first, np.int64(n))
    at = el.select(exists, first, np.int64(0))
    values = gather(ordered, [at], [0], "promise")
    if fill_value is not None:
        values = el.select(exists, values, as_dtype(fill_value, aval_of(values).dtype))
    index = gather(order, [at], [0], "promise")
    inverse = scatter(zeros(n, np.int64), rank, [order], [0], "set", unique=True, mode="promise")
    counts = el.select(exists, el.sub(following, first), np.int64(0))
    return values, index, reshape(inverse, x.shape), counts


class UniqueAllResult(NamedTuple):
    """Distinct values, where they first occur, how to rebuild the input, and how often each is."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """Distinct values and how to rebuild the input from them."""

    values: Array
    inverse_indices: Array


@implements(np.unique_all)
def unique_all(x: Any) -> UniqueAllResult:
    """As `numpy.unique_all`."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: Any) -> UniqueCountsResult:
    """As `numpy.unique_counts`."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Any) -> UniqueInverseResult:
    """As `numpy.unique_inverse`."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_values)
def unique_values(x: Any) -> Array:
    """As `numpy.unique_values`."""
    return unique(x, equal_nan=False)


@implements(np.isin)
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Array:
    """For each element whether it occurs among `test_elements`; as `numpy.isin`."""
    x, tests = coerce(operand(element, "isin"), flattened(test_elements, "isin"))
    shape = aval_of(x).shape
    found = reduce_any(el.eq(reshape(strong(x), (*shape, 1)), tests), [len(shape)])
    return el.logical_not(found) if invert else found


def _pair(ar1: Any, ar2: Any, op: str) -> tuple[Array, Array, Any, Any]:
    x, y = coerce(flattened(ar1, op), flattened(ar2, op))
    return x, y, known(x, op), known(y, op)


@implements(np.intersect1d)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The sorted elements that occur in both; as `numpy.intersect1d`."""
    x, _, a, b = _pair(ar1, ar2, "intersect1d")
    _, first, second = np.intersect1d(a, b, assume_unique, True)
    out = along(x, first, 0)
    return (out, as_traced(first), as_traced(second)) if return_indices else out


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Array:
    """The sorted elements that occur in either; as `numpy.union1d`."""
    x, y, _, _ = _pair(ar1, ar2, "union1d")
    return unique(concatenate([x, y], 0))


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The elements of the first that are not in the second; as `numpy.setdiff1d`."""
    x, _, a, b = _pair(ar1, ar2, "setdiff1d")
    order = np.arange(len(a)) if assume_unique else np.unique(a, True)[1]
    return along(x, order[~np.isin(a[order], b)], 0)


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The sorted elements that occur in one only; as `numpy.setxor1d`."""
    x, y, a, b = _pair(ar1, ar2, "setxor1d")
    both = np.concatenate([a, b])
    _, index = np.unique(both, True)
    index = index[np.isin(both[index], a) ^ np.isin(both[index], b)]
    return along(concatenate([x, y], 0), index, 0)
