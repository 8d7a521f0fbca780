"""`stax.lax`, reductions: sums and their kin over static axes, running merges, sorting.

Input: arrays or traced values under JAX's names and argument orders.  Output: the reduction
primitives; `reduce` takes any associative function of two scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.source import user_source
from stax.core.staging import stage
from stax.dtypes import DType, is_integer
from stax.errors import ShapeError
from stax.numpy.promotion import as_dtype
from stax.numpy.reductions import truth
from stax.numpy.registration import axes_tuple, axis_index
from stax.numpy.registration import operand as as_operand
from stax.primitives import cumulative as cu
from stax.primitives import elementwise as el
from stax.primitives import reductions as rd
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.sorting import sort as sort_rows
from stax.pytree import tree_flatten, tree_unflatten

__all__ = [
    "argmax",
    "argmin",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_xor",
    "reduce_prod",
    "reduce_sum",
    "sort",
    "sort_key_val",
    "top_k",
]

Array = Any


def _over(op: str, x: Array, axes: Any) -> tuple[Array, tuple[int, ...]]:
    x = as_operand(x, op)
    return x, axes_tuple(tuple(axes), len(x.shape), op)


def reduce_sum(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The sum over `axes`, in the operand's dtype.

    Raises:
      AxisError: there is no such axis.

    >>> reduce_sum(np.ones((2, 3)), [0])
    array([2., 2., 2.])
    """
    return vw.reduce_sum(*_over("reduce_sum", operand, axes))


def reduce_prod(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The product over `axes`, in the operand's dtype.

    >>> reduce_prod(np.array([[1, 2], [3, 4]]), [1])
    array([ 2, 12])
    """
    return rd.reduce_prod(*_over("reduce_prod", operand, axes))


def reduce_max(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The largest element over `axes`.

    The result has the operand's dtype and its shape without `axes`; the gradient of ties is shared.

    Raises:
      ShapeError: an axis of extent 0, which has no largest element.

    >>> reduce_max(np.array([[1, 5], [3, 4]]), [0])
    array([3, 5])
    """
    return rd.reduce_max(*_over("reduce_max", operand, axes))


def reduce_min(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The smallest element over `axes`.

    Otherwise as `reduce_max`.

    >>> reduce_min(np.array([[1, 5], [3, 4]]), [0])
    array([1, 4])
    """
    return rd.reduce_min(*_over("reduce_min", operand, axes))


def _of_bits(x: Array, axes: Any, start: int, merge: Callable[..., Any]) -> Array:
    """A reduction of integers, bit by bit."""
    dtype = aval_of(x).dtype
    return reduce(x, np.asarray(start).astype(dtype)[()], merge, axes)


def reduce_and(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """True where all booleans over `axes` are; of integers, the bits that all have.

    >>> reduce_and(np.array([6, 3]), [0])
    2
    """
    x, k = _over("reduce_and", operand, axes)
    if is_integer(aval_of(x).dtype):
        return _of_bits(x, k, -1, el.bitwise_and)
    return rd.reduce_all(truth(x), k)


def reduce_or(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """True where some boolean over `axes` is; of integers, the bits that some have.

    >>> reduce_or(np.array([6, 3]), [0])
    7
    """
    x, k = _over("reduce_or", operand, axes)
    if is_integer(aval_of(x).dtype):
        return _of_bits(x, k, 0, el.bitwise_or)
    return rd.reduce_any(truth(x), k)


def reduce_xor(operand: Array, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """True where an odd number of booleans over `axes` is; of integers, bit by bit.

    >>> reduce_xor(np.array([True, True, True]), [0])
    True
    """
    x, k = _over("reduce_xor", operand, axes)
    if is_integer(aval_of(x).dtype):
        return _of_bits(x, k, 0, el.bitwise_xor)
    return reduce(truth(x), False, el.ne, k)


def argmax(operand: Array, axis: int, index_dtype: Any = np.int32) -> Array:
    """The position of the first largest element along `axis`; that of a NaN, if there is one.

    Raises:
      AxisError: there is no such axis.

    >>> argmax(np.array([[1, 3, 3]]), 1)
    array([1], dtype=int32)
    """
    x = as_operand(operand, "argmax")
    return rd.argmax(x, axis_index(axis, len(x.shape), "argmax"), index_dtype)


def argmin(operand: Array, axis: int, index_dtype: Any = np.int32) -> Array:
    """The position of the first smallest element along `axis`.

    Otherwise as `argmax`.

    >>> argmin(np.array([[3, 1, 1]]), 1)
    array([1], dtype=int32)
    """
    x = as_operand(operand, "argmin")
    return rd.argmin(x, axis_index(axis, len(x.shape), "argmin"), index_dtype)


def _running(name: str, row: Callable[..., Any]) -> Callable[..., Any]:
    def public(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
        x = as_operand(operand, name)
        return row(x, axis_index(axis, len(x.shape), name), reverse)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""The running {name[3:]} along an axis, from the end when `reverse`.

    Raises:
      AxisError: there is no such axis.
    """
    return public


cumsum = _running("cumsum", cu.cumsum)
cumprod = _running("cumprod", cu.cumprod)
cummax = _running("cummax", cu.cummax)
cummin = _running("cummin", cu.cummin)
cumlogsumexp = _running("cumlogsumexp", cu.cumlogsumexp)


# ------------------------------------------------------------------------------ any monoid at all

_KNOWN: dict[str, Callable[..., Any]] = {
    "add": vw.reduce_sum,
    "mul": rd.reduce_prod,
    "maximum": rd.reduce_max,
    "minimum": rd.reduce_min,
    "logical_and": rd.reduce_all,
    "logical_or": rd.reduce_any,
}


def _named_monoid(computation: Callable[..., Any], dtype: DType) -> str | None:
    """The primitive that `computation` is, when it is a single one of two scalars."""
    scalar = Aval((), dtype)
    graph = stage(lambda a, b: tree_flatten(computation(a, b))[0], [scalar, scalar])
    if len(graph.eqns) != 1 or graph.constants or graph.outputs != graph.eqns[0].outputs:
        return None
    eqn = graph.eqns[0]
    same = set(eqn.inputs) == set(graph.inputs) and len(eqn.inputs) == 2
    return eqn.op if same and eqn.op in _KNOWN else None


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[..., Any],
    dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Any:
    """Merge elements over `dimensions` by an associative `computation` with identity `init_values`.

    `computation` takes two trees of scalars and works elementwise on arrays.
    """
    flat, tree = tree_flatten(operands)
    inits = tree_flatten(init_values)[0]
    xs = [as_operand(x, "reduce") for x in flat]
    if len(inits) != len(xs) or any(x.shape != xs[0].shape for x in xs):
        raise ShapeError(
            "operands need one shape and one initial value each",
            op="reduce",
            operands=[str(aval_of(x)) for x in xs],
            where=user_source() or None,
        )
    inits = [
        as_dtype(as_operand(i, "reduce"), aval_of(x).dtype) for i, x in zip(inits, xs, strict=True)
    ]
    axes = axes_tuple(tuple(dimensions), len(xs[0].shape), "reduce")

    def merge(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = computation(tree_unflatten(tree, list(a)), tree_unflatten(tree, list(b)))
        return list(tree_flatten(out)[0])

    name = _named_monoid(computation, aval_of(xs[0]).dtype) if len(xs) == 1 else None
    if name is not None and all(xs[0].shape[k] for k in axes):
        outs = merge([_KNOWN[name](xs[0], axes)], inits)
        return tree_unflatten(tree, outs)
    shape = xs[0].shape
    kept = [k for k in range(len(shape)) if k not in axes]
    lead = [shape[k] for k in kept]
    count = int(np.prod([shape[k] for k in axes], dtype=np.int64))
    values = [vw.reshape(vw.transpose(x, [*axes, *kept]), [count, *lead]) for x in xs]
    # Halve the first axis until one element is left; an odd element waits for the next round.
    while count > 1:
        half = count // 2
        first = [sh.slice_axis(v, 0, 0, half) for v in values]
        second = [sh.slice_axis(v, 0, half, 2 * half) for v in values]
        rest = [sh.slice_axis(v, 0, 2 * half, count) for v in values]
        values = merge(first, second)
        if count % 2:
            values = [sh.concatenate([v, r], 0) for v, r in zip(values, rest, strict=True)]
        count -= half
    wide = [vw.broadcast(i, lead) for i in inits]
    if not count:
        return tree_unflatten(tree, wide)
    outs = merge(wide, [vw.reshape(v, lead) for v in values])
    return tree_unflatten(tree, outs)


# ------------------------------------------------------------------------------------- sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort one array, or several by the first `num_keys`, along an axis; NaN comes last.

    Args:
      operand: an array, or a tuple of arrays of one shape that are permuted alike.
      is_stable: accepted for compatibility; equal elements always keep their order.
      num_keys: arrays that decide, the first first.

    Raises:
      AxisError: there is no such axis.

    >>> sort((np.array([2, 1, 2]), np.array([5, 6, 4])), num_keys=2)
    (array([1, 2, 2]), array([6, 4, 5]))
    """
    several = isinstance(operand, tuple | list)
    xs = [as_operand(x, "sort") for x in (operand if several else (operand,))]
    k = axis_index(dimension, len(xs[0].shape), "sort")
    outs = sort_rows(xs, k, num_keys)
    return tuple(outs) if several else outs[0]


def sort_key_val(
    keys: Array, values: Array, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort `keys` and permute `values` along.

    >>> sort_key_val(np.array([2, 1]), np.array([5.0, 6.0]))
    (array([1, 2]), array([6., 5.]))
    """
    ordered = sort((keys, values), dimension, is_stable)
    return ordered[0], ordered[1]


def top_k(operand: Array, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along an axis, in descending order, and their positions (int32).

    Of equal elements the first comes first. Both results have extent `k` along `axis`.

    Raises:
      ShapeError: the axis has fewer than `k` elements.

    >>> top_k(np.array([3.0, 1.0, 4.0, 1.0]), 2)
    (array([4., 3.]), array([2, 0], dtype=int32))
    """
    x = as_operand(operand, "top_k")
    axis = axis_index(axis, len(x.shape), "top_k")
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ShapeError(
            f"k={k} elements of an axis of {n}",
            op="top_k",
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )
    # Reversed before and after, so that of equal elements the first comes first.
    place = sh.iota(x.shape, axis, np.int32)
    values, order = sort_rows((vw.rev(x, [axis]), vw.rev(place, [axis])), axis)
    values, order = (sh.slice_axis(v, axis, n - k, n) for v in (values, order))
    return vw.rev(values, [axis]), vw.rev(order, [axis])
