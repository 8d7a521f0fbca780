"""Reductions over segments, under `jax.ops`' names: rows that share a number are combined.

Input: data, and for each of its rows the number of its segment.  Output: one row per segment; an
empty segment has the operation's identity.  Rows with a number outside 0 ... num_segments - 1 are
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import Tracer
from stax.errors import ConcretizationError, ShapeError
from stax.numpy.at import at
from stax.numpy.creation import full
from stax.numpy.promotion import array_like
from stax.numpy.selection import where
from stax.numpy.ufuncs import minimum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

Array = Any


def _segments(
    op: str, data: Array, segment_ids: Array, num_segments: int | None, kind: str, mode: Any
) -> Array:
    data, ids = array_like(data, op), array_like(segment_ids, op)
    rows, shape = aval_of(data), aval_of(ids).shape
    if rows.shape[: len(shape)] != shape:
        raise ShapeError(
            f"segment_ids of shape {shape} does not number the leading axes of data",
            op=op,
            operands=[data],
        )
    if num_segments is None:
        if isinstance(ids, Tracer) and ids.concrete() is None:
            raise ConcretizationError(
                "the number of segments depends on the values of segment_ids",
                op=op,
                hint="pass num_segments",
            )
        known = ids.concrete() if isinstance(ids, Tracer) else ids
        num_segments = int(np.max(known, initial=-1)) + 1
    out = full((num_segments, *rows.shape[len(shape) :]), _identity(kind, rows.dtype), rows.dtype)
    # A negative number is outside too, so it is moved beyond the last segment, which the type of
    # the numbers may not reach; so is what would be negative as an index, beyond 2**63.
    if aval_of(ids).dtype.kind == "u":
        ids = minimum(ids, np.uint64(num_segments))
    else:
        ids = where(ids < 0, np.int64(num_segments), ids)
    return getattr(at(out)[ids], kind)(data, mode="drop" if mode is None else mode)


def _identity(kind: str, dtype: np.dtype[Any]) -> Any:
    if kind in ("add", "multiply"):
        return dtype.type(kind == "multiply")
    sign = -1 if kind == "max" else 1
    if dtype.kind == "b":
        return kind == "min"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if kind == "max" else info.max
    return dtype.type(sign * np.inf)


def _segment_function(name: str, kind: str, doc: str) -> Callable[..., Array]:
    def public(
        data: Array,
        segment_ids: Array,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
    ) -> Array:
        return _segments(name, data, segment_ids, num_segments, kind, mode)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = doc
    return public


segment_sum = _segment_function(
    "segment_sum",
    "add",
    """The sums of the rows of each segment.

    Args:
      data: an array, of which the leading axes are numbered.
      segment_ids: integers, of the shape of those axes.
      num_segments: the extent of the result's first axis; by default one more than the largest
        number, which then must be known while tracing.
      mode: what becomes of rows with other numbers, as in `x.at`; they are left out by default.

    Raises:
      ShapeError: the numbers do not have the shape of leading axes of `data`.
      ConcretizationError: traced numbers without `num_segments`.

    >>> segment_sum(np.arange(4.0), np.array([0, 0, 2, 2]))
    array([1., 0., 5.])
    """,
)
segment_prod = _segment_function(
    "segment_prod",
    "multiply",
    """The products of the rows of each segment, 1 where it has none; otherwise as `segment_sum`.

    >>> segment_prod(np.array([2, 3, 4]), np.array([0, 0, 1]))
    array([6, 4])
    """,
)
segment_max = _segment_function(
    "segment_max",
    "max",
    """The largest row of each segment, element by element; otherwise as `segment_sum`.

    A segment without rows has the least number of the dtype, minus infinity for floats.

    >>> segment_max(np.array([2, 3, 4]), np.array([0, 0, 1]))
    array([3, 4])
    """,
)
segment_min = _segment_function(
    "segment_min",
    "min",
    """The smallest row of each segment, element by element; otherwise as `segment_sum`.

    A segment without rows has the largest number of the dtype, infinity for floats.

    >>> segment_min(np.array([2, 3, 4]), np.array([0, 0, 1]))
    array([2, 4])
    """,
)
