"""`stax.lax`, shape part: reshape, broadcasts, slices with static bounds, joins, creation.

Input: arrays or traced values and static parameters, under JAX's names and argument orders.
Output: the shape primitives; Python scalars count as arrays of their own dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.keys import takes_keys
from stax.core.source import user_source
from stax.core.trace import as_traced, fresh
from stax.errors import DtypeError, ShapeError
from stax.numpy import creation, manipulation, rearranging
from stax.numpy.promotion import as_dtype, asarray_dtype
from stax.numpy.registration import axes_tuple, axis_index, shape_tuple
from stax.numpy.registration import operand as as_operand
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.families import kind_of

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "broadcast_to_rank",
    "broadcasted_iota",
    "collapse",
    "concatenate",
    "empty",
    "expand_dims",
    "full",
    "full_like",
    "index_in_dim",
    "iota",
    "pad",
    "reshape",
    "rev",
    "slice",
    "slice_in_dim",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]

Array = Any


@takes_keys
def reshape(
    operand: Array, new_sizes: Any, dimensions: Any = None, *, out_sharding: Any = None
) -> Array:
    """`operand` with another shape; `dimensions` permutes its axes first.

    Elements keep their row-major order; one extent may be -1.

    Raises:
      ValueError: another number of elements.

    >>> reshape(np.arange(4), (2, 2))
    array([[0, 1],
           [2, 3]])
    """
    x = as_operand(operand, "reshape")
    if dimensions is not None:
        x = vw.transpose(x, dimensions)
    return manipulation.reshaped(
        x, manipulation.resolved_shape(new_sizes, aval_of(x).size, x, "reshape")
    )


@takes_keys
def broadcast(operand: Array, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """`operand` repeated along new leading axes.

    >>> broadcast(np.arange(2), (3,)).shape
    (3, 2)
    """
    x = as_operand(operand, "broadcast")
    return vw.broadcast(x, (*sizes, *x.shape))


@takes_keys
def broadcast_in_dim(
    operand: Array, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """`operand` repeated to `shape`, its axes being `broadcast_dimensions` of the result.

    Axis `k` of `operand` is axis `broadcast_dimensions[k]` of the result, in increasing order; its
    extent is the result's, or 1.

    Raises:
      ShapeError: dimensions that do not increase, or extents that do not fit.

    >>> broadcast_in_dim(np.array([1, 2]), (2, 3), (0,))
    array([[1, 1, 1],
           [2, 2, 2]])
    """
    x = as_operand(operand, "broadcast_in_dim")
    dims = [operator.index(d) for d in broadcast_dimensions]
    if dims != sorted(set(dims)) or len(dims) != len(x.shape):
        raise ShapeError(
            f"broadcast_dimensions {tuple(dims)} must be increasing, one for each operand axis",
            op="broadcast_in_dim",
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )
    return vw.broadcast(x, shape_tuple(shape), dims)


def broadcast_to_rank(x: Array, rank: int) -> Array:
    """`x` with leading axes of extent 1, `rank` axes in all."""
    shape = aval_of(as_operand(x, "broadcast_to_rank")).shape
    return vw.reshape(as_operand(x, "broadcast_to_rank"), (1,) * (rank - len(shape)) + shape)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The common shape of `shapes`.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return np.broadcast_shapes(*shapes)


@takes_keys
def expand_dims(array: Array, dimensions: Any) -> Array:
    """`array` with new axes of extent one.

    `dimensions` are positions in the result, an integer or several.

    >>> expand_dims(np.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    return manipulation.expand_dims(array, dimensions)


@takes_keys
def squeeze(array: Array, dimensions: Any) -> Array:
    """`array` without the named axes of extent one.

    Raises:
      ValueError: an axis of another extent.

    >>> squeeze(np.ones((1, 3)), (0,)).shape
    (3,)
    """
    return manipulation.squeeze(array, dimensions)


@takes_keys
def collapse(operand: Array, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """`operand` with neighbouring axes merged into one.

    They are those from `start_dimension` up to, without, `stop_dimension` (the end by default).

    >>> collapse(np.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    x = as_operand(operand, "collapse")
    n = len(x.shape)
    first = axis_index(start_dimension, n, "collapse")
    last = n if stop_dimension is None else stop_dimension % (n + 1)
    merged = math.prod(x.shape[first:last])
    return manipulation.reshaped(x, (*x.shape[:first], merged, *x.shape[last:]))


@takes_keys
def transpose(operand: Array, permutation: Sequence[int]) -> Array:
    """`operand` with its axes permuted.

    >>> transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return manipulation.transpose(operand, tuple(permutation))


@takes_keys
def rev(operand: Array, dimensions: Sequence[int]) -> Array:
    """`operand` with the order along axes reversed.

    >>> rev(np.arange(3), [0])
    array([2, 1, 0])
    """
    x = as_operand(operand, "rev")
    return fresh(vw.rev(x, axes_tuple(tuple(dimensions), len(x.shape), "rev")))


@takes_keys
def slice(
    operand: Array,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """`operand[start:limit:stride]` on every axis.

    All bounds are static and inside the array; `dynamic_slice` takes traced starts.

    Raises:
      ShapeError: a bound outside the array, or a stride below 1.

    >>> slice(np.arange(10), [2], [8], [3])
    array([2, 5])
    """
    x = as_operand(operand, "slice")
    steps = (1,) * len(x.shape) if strides is None else tuple(strides)
    for n, a, b, s in zip(x.shape, start_indices, limit_indices, steps, strict=True):
        if not 0 <= a <= b <= n or s < 1:
            raise ShapeError(
                f"[{a}:{b}:{s}] is outside an axis of extent {n}",
                op="slice",
                operands=[str(aval_of(x))],
                where=user_source() or None,
            )
    return sh.strided_slice(x, start_indices, limit_indices, steps)


@takes_keys
def slice_in_dim(
    operand: Array, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0
) -> Array:
    """`operand[start:limit:stride]` on one axis.

    Negative bounds count from the end; None is the end itself.

    >>> slice_in_dim(np.arange(5), 1, -1)
    array([1, 2, 3])
    """
    x = as_operand(operand, "slice_in_dim")
    k = axis_index(axis, len(x.shape), "slice_in_dim")
    n = x.shape[k]
    start = 0 if start_index is None else operator.index(start_index)
    limit = n if limit_index is None else operator.index(limit_index)
    start, limit = (v + n if v < 0 else v for v in (start, limit))
    return sh.slice_axis(x, k, start, limit, stride)


@takes_keys
def index_in_dim(operand: Array, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice of `operand` at one static index of an axis.

    Raises:
      AxisError: there is no such axis or element.

    >>> index_in_dim(np.arange(6).reshape(2, 3), 1, keepdims=False)
    array([3, 4, 5])
    """
    x = as_operand(operand, "index_in_dim")
    k = axis_index(axis, len(x.shape), "index_in_dim")
    at = axis_index(index, x.shape[k], "index_in_dim")
    y = fresh(sh.slice_axis(x, k, at, at + 1))
    return y if keepdims else vw.reshape(y, (*x.shape[:k], *x.shape[k + 1 :]))


@takes_keys
def concatenate(operands: Sequence[Array], dimension: int) -> Array:
    """The arrays one after the other along an axis.

    Raises:
      ValueError: extents that differ along another axis.

    >>> concatenate([np.zeros(1), np.ones(2)], 0)
    array([0., 1., 1.])
    """
    return manipulation.concatenate(list(operands), dimension)


@takes_keys
def stack(operands: Sequence[Array], axis: int = 0) -> Array:
    """The arrays along a new axis.

    >>> stack([np.zeros(2), np.ones(2)], 1).shape
    (2, 2)
    """
    return manipulation.stack(list(operands), axis)


@takes_keys
def unstack(x: Array, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis.

    >>> unstack(np.arange(4).reshape(2, 2))
    (array([0, 1]), array([2, 3]))
    """
    return tuple(manipulation.unstack(x, axis=axis))


@takes_keys
def split(operand: Array, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """The parts of `operand` of given extents along an axis.

    Raises:
      ShapeError: the extents do not add up to that of the axis.

    >>> split(np.arange(5), (2, 3))
    [array([0, 1]), array([2, 3, 4])]
    """
    x = as_operand(operand, "split")
    k = axis_index(axis, len(x.shape), "split")
    if sum(sizes) != x.shape[k]:
        raise ShapeError(
            f"sizes {tuple(sizes)} do not add up to the extent {x.shape[k]}",
            op="split",
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )
    ends = np.cumsum([0, *sizes]).tolist()
    return [sh.slice_axis(x, k, a, a + n) for a, n in zip(ends, sizes, strict=False)]


@takes_keys
def tile(operand: Array, reps: Sequence[int]) -> Array:
    """`operand` repeated along each axis.

    >>> tile(np.array([1, 2]), (2,))
    array([1, 2, 1, 2])
    """
    return rearranging.tile(operand, tuple(reps))


def pad(operand: Array, padding_value: Any, padding_config: Sequence[Any]) -> Array:
    """`operand` with (low, high, interior) padding on each axis; negative amounts remove.

    `interior` elements of padding come between neighbours. `padding_value` is a scalar.

    Raises:
      ShapeError: not as many amounts as axes, or more is removed than there is, or the padding
        is an array of axes.
      DtypeError: the padding is of a wider kind than the operand: a float for integers.

    >>> pad(np.array([1.0, 2.0]), 0.0, [(1, 0, 1)])
    array([0., 1., 0., 2.])
    """
    x, value = as_operand(operand, "pad"), as_operand(padding_value, "pad")
    have, where = aval_of(value), user_source() or None
    operands = [str(aval_of(x)), str(have)]
    if have.shape:
        raise ShapeError(
            "the padding is no single number", op="pad", operands=operands, where=where
        )
    kinds = "bifc"
    if kinds.index(kind_of(have.dtype)) > kinds.index(kind_of(x.dtype)):
        raise DtypeError(
            f"an array of {x.dtype} is padded with {have}",
            op="pad",
            operands=operands,
            where=where,
            hint="convert one of them with .astype",
        )
    amounts = [tuple(operator.index(n) for n in amount) for amount in padding_config]
    if len(amounts) != len(x.shape) or any(len(amount) != 3 for amount in amounts):
        raise ShapeError(
            f"{len(amounts)} amounts of padding for {len(x.shape)} axes"
            if len(amounts) != len(x.shape)
            else f"{padding_config} is not a (low, high, interior) for each axis",
            op="pad",
            operands=operands[:1],
            where=where,
        )
    low, high, interior = zip(*amounts, strict=True) if amounts else ((), (), ())
    return sh.pad(x, as_dtype(value, x.dtype), low, high, interior)


def iota(dtype: Any, size: int) -> Array:
    """0, 1, ..., size - 1.

    >>> iota(np.float32, 3)
    array([0., 1., 2.], dtype=float32)
    """
    return as_traced(sh.iota((operator.index(size),), 0, asarray_dtype(dtype)))


def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Array:
    """The index along one axis, for each element of an array of `shape`.

    >>> broadcasted_iota(np.int32, (2, 2), 1)
    array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return as_traced(sh.iota(shape_tuple(shape), dimension, asarray_dtype(dtype)))


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Array:
    """An array filled with one value.

    >>> full((2,), 7.0)
    array([7., 7.])
    """
    return creation.full(shape, fill_value, dtype)


def full_like(
    x: Array, fill_value: Any, dtype: Any = None, shape: Any = None, *, sharding: Any = None
) -> Array:
    """An array of the shape and dtype of `x` filled with one value."""
    return creation.full_like(x, fill_value, dtype, shape=shape)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Array:
    """An array to be written to; zeros while tracing."""
    return creation.empty(shape, dtype)
