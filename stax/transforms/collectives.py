"""Collectives: operations across the axis that `vmap(..., axis_name=...)` maps over.

Input: values that differ between examples, and the axis' name.  Output: sums, extrema, gathers
and permutations across the examples.  A collective is a primitive whose `batch` rule does the work
in the `vmap` that binds the name; everything inside sees one example only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    FALLBACK,
    NONLINEAR,
    NOT_DIFFERENTIABLE,
    Primitive,
    Recompute,
    Sentinel,
    Zero,
)
from stax.core.source import user_source
from stax.core.trace import STATE, Trace, bind1
from stax.errors import ShapeError, StaticArgumentError
from stax.primitives.indexing import gather
from stax.primitives.reductions import reduce_max, reduce_min
from stax.primitives.shapes import iota, pad
from stax.primitives.views import batched_front, move_axis, reduce_sum, reshape
from stax.pytree import tree_map
from stax.transforms.vmap import BatchTrace

Rule = Callable[..., Any]


def _unbound(name: Any) -> StaticArgumentError:
    return StaticArgumentError(
        f"the axis name {name!r} is not bound",
        where=user_source() or None,
        hint="call the function under stax.vmap(..., axis_name=...)",
    )


def axis_size(axis_name: Any) -> int:
    """The extent of a named axis (the product, for a tuple of names)."""
    if isinstance(axis_name, tuple):
        return math.prod(axis_size(n) for n in axis_name)
    trace: Trace | None = STATE.trace
    while trace is not None:
        if isinstance(trace, BatchTrace) and trace.axis_name == axis_name:
            return trace.size
        trace = trace.parent
    raise _unbound(axis_name)


def _collective(
    name: str,
    *,
    across: Rule,
    aval: Rule = lambda x, **params: x,
    jvp: Rule | Sentinel | None = None,
    transpose: Rule | Sentinel = NONLINEAR,
    along: Rule | None = None,
) -> Primitive:
    """A row for a collective of one operand.

    `across(x, size, **params)` computes it for `x` with the mapped axis in front and returns
    (result, axis or None); `along(x, **params)` gives the parameters for one more, unrelated,
    batch axis in front of `x`.
    """

    def batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        if params["name"] == axis_name:
            rest = {k: v for k, v in params.items() if k not in ("name", "extent")}
            out, place = across(batched_front(x, dim, size), size, **rest)
            return (out,), (place,)
        moved = params if along is None else along(**params)
        return (bind1(row, move_axis(x, dim, 0), **moved),), (0,)

    def unbound(*args: Any, **params: Any) -> Any:
        raise _unbound(params["name"])

    def linear(primals: Any, out: Any, tangents: Any, **params: Any) -> Any:
        return bind1(row, tangents[0], **params)

    row = Primitive(
        name,
        family="collective",
        abstract_eval=aval,
        impl=unbound,
        jvp=linear if jvp is None else jvp,
        transpose=transpose,
        batch=batch,
        lower=FALLBACK,
        cost=lambda in_avals, out_avals, params: in_avals[0].size,
        recompute=Recompute.EXPENSIVE,
    )
    return row


def _linear_transpose(rule: Rule) -> Rule:
    def transpose(ct: Any, x: Any, **params: Any) -> tuple[Any]:
        return (Zero(x.aval) if isinstance(ct, Zero) else rule(ct, **params),)

    return transpose


psum_p: Primitive = _collective(
    "psum",
    across=lambda x, size: (reduce_sum(x, [0]), None),
    transpose=_linear_transpose(lambda ct, **params: bind1(psum_p, ct, **params)),
)
pmax_p: Primitive = _collective(
    "pmax", across=lambda x, size: (reduce_max(x, [0]), None), jvp=NOT_DIFFERENTIABLE
)
pmin_p: Primitive = _collective(
    "pmin", across=lambda x, size: (reduce_min(x, [0]), None), jvp=NOT_DIFFERENTIABLE
)


def _gather_aval(x: Aval, *, name: Any, extent: int, axis: int) -> Aval:
    return x.update(shape=(*x.shape[:axis], extent, *x.shape[axis:]))


all_gather_p: Primitive = _collective(
    "all_gather",
    aval=_gather_aval,
    across=lambda x, size, axis: (move_axis(x, 0, axis), None),
    along=lambda axis, **params: {**params, "axis": axis + 1},
    transpose=_linear_transpose(
        lambda ct, name, extent, axis: bind1(
            psum_scatter_p, ct, name=name, extent=extent, axis=axis
        )
    ),
)


def _scatter_aval(x: Aval, *, name: Any, extent: int, axis: int) -> Aval:
    if not 0 <= axis < x.ndim or x.shape[axis] != extent:
        raise ShapeError(
            f"axis {axis} must have the extent {extent} of the mapped axis",
            op="psum_scatter",
            operands=[str(x)],
        )
    return x.update(shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


psum_scatter_p: Primitive = _collective(
    "psum_scatter",
    aval=_scatter_aval,
    across=lambda x, size, axis: (reduce_sum(x, [0]), axis),
    along=lambda axis, **params: {**params, "axis": axis + 1},
    transpose=_linear_transpose(
        lambda ct, name, extent, axis: bind1(all_gather_p, ct, name=name, extent=extent, axis=axis)
    ),
)


def _exchange_aval(x: Aval, *, name: Any, extent: int, split: int, concat: int) -> Aval:
    if not 0 <= split < x.ndim or x.shape[split] != extent:
        raise ShapeError(
            f"split_axis {split} must have the extent {extent} of the mapped axis",
            op="all_to_all",
            operands=[str(x)],
        )
    rest = [*x.shape[:split], *x.shape[split + 1 :]]
    rest.insert(concat, extent)
    return x.update(shape=tuple(rest))


def _exchange(x: Any, size: int, split: int, concat: int) -> tuple[Any, int]:
    # The example's number becomes axis `concat` of each result; axis `split` becomes the batch.
    moved = move_axis(x, split + 1, 0)
    return move_axis(moved, 1, concat + 1), 0


all_to_all_p: Primitive = _collective(
    "all_to_all",
    aval=_exchange_aval,
    across=_exchange,
    along=lambda split, concat, **params: {**params, "split": split + 1, "concat": concat + 1},
    transpose=_linear_transpose(
        lambda ct, name, extent, split, concat: bind1(
            all_to_all_p, ct, name=name, extent=extent, split=concat, concat=split
        )
    ),
)


def _permute(x: Any, size: int, perm: Sequence[tuple[int, int]]) -> tuple[Any, int]:
    source = np.full(size, size, np.int64)  # the row of zeros that is appended
    for start, stop in perm:
        source[stop] = start
    zero = np.zeros((), aval_of(x).dtype)[()]
    rank = len(aval_of(x).shape)
    low, high = [0] * rank, [1] + [0] * (rank - 1)
    padded = pad(x, zero, low, high, [0] * rank)
    return gather(padded, [source], [0], mode="promise"), 0


ppermute_p: Primitive = _collective(
    "ppermute",
    across=_permute,
    transpose=_linear_transpose(
        lambda ct, name, perm: bind1(
            ppermute_p, ct, name=name, perm=tuple((stop, start) for start, stop in perm)
        )
    ),
)


def _index_batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    return (iota((size,), 0, np.int64),), (0,)


def _index_unbound(*, name: Any) -> Any:
    raise _unbound(name)


axis_index_p = Primitive(
    "axis_index",
    family="collective",
    abstract_eval=lambda *, name: Aval((), np.dtype(np.int64)),
    impl=_index_unbound,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NONLINEAR,
    batch=_index_batch,
    lower=FALLBACK,
    cost=lambda in_avals, out_avals, params: 0,
    recompute=Recompute.CHEAP,
)


# --- the user's side ----------------------------------------------------------------------------


def _names(axis_name: Any) -> tuple[Any, ...]:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def _each(prim: Primitive, x: Any, axis_name: Any) -> Any:
    def leaf(value: Any) -> Any:
        for name in _names(axis_name):
            axis_size(name)
            value = bind1(prim, value, name=name)
        return value

    return tree_map(leaf, x)


def _checked(prim: Primitive, value: Any, **params: Any) -> Any:
    """Bind `prim`, after its types have been found right."""
    prim.out_avals([aval_of(value)], params)
    return bind1(prim, value, **params)


def psum(x: Any, axis_name: Any) -> Any:
    """The sum of `x` (a tree) over the examples of a named axis; `psum(1, name)` is its extent.

    Args:
      axis_name: the name that `vmap`, `pmap` or `shard_map` gave the axis, or several names.

    Raises:
      StaticArgumentError: no surrounding transformation has an axis of that name.

    >>> stax.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """

    def leaf(value: Any) -> Any:
        if isinstance(value, int | float | complex | np.generic):
            scalar: Any = value
            return scalar * axis_size(axis_name)
        for name in _names(axis_name):
            axis_size(name)
            value = bind1(psum_p, value, name=name)
        return value

    return tree_map(leaf, x)


def pmean(x: Any, axis_name: Any) -> Any:
    """The mean of `x` (a tree) over the examples of a named axis.

    >>> stax.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    return tree_map(lambda value: psum(value, axis_name) / axis_size(axis_name), x)


def pmax(x: Any, axis_name: Any) -> Any:
    """The largest `x` among the examples of a named axis."""
    return _each(pmax_p, x, axis_name)


def pmin(x: Any, axis_name: Any) -> Any:
    """The smallest `x` among the examples of a named axis."""
    return _each(pmin_p, x, axis_name)


def all_gather(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    """Every example's `x`, stacked along a new axis (joined along `axis`, when tiled).

    >>> stax.vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.array([1, 2]))
    array([[1, 2],
           [1, 2]])
    """
    size = axis_size(axis_name)

    def leaf(value: Any) -> Any:
        shape = aval_of(value).shape
        place = axis % (len(shape) + (not tiled))
        out = _checked(all_gather_p, value, name=axis_name, extent=size, axis=place)
        if not tiled:
            return out
        return reshape(out, (*shape[:place], size * shape[place], *shape[place + 1 :]))

    return tree_map(leaf, x)


def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0, tiled: bool = False) -> Any:
    """The sum over the examples, of which each keeps its part along `scatter_dimension`."""
    size = axis_size(axis_name)

    def leaf(value: Any) -> Any:
        shape = aval_of(value).shape
        axis = scatter_dimension % max(len(shape), 1)
        if tiled:
            value = _split(value, axis, size)
        out = _checked(psum_scatter_p, value, name=axis_name, extent=size, axis=axis)
        return out

    return tree_map(leaf, x)


def _split(x: Any, axis: int, size: int) -> Any:
    """`x` with `axis` divided into (size, rest)."""
    shape = aval_of(x).shape
    if not shape or shape[axis] % size:
        raise ShapeError(
            f"axis {axis} of {shape} is not divisible by the extent {size} of the mapped axis"
        )
    return reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    """Example j receives slice j along `split_axis` of every example, along `concat_axis`."""
    size = axis_size(axis_name)

    def leaf(value: Any) -> Any:
        rank = len(aval_of(value).shape)
        split, concat = split_axis % rank, concat_axis % rank
        if not tiled:
            return _checked(
                all_to_all_p, value, name=axis_name, extent=size, split=split, concat=concat
            )
        parts = _split(value, split, size)
        out = _checked(all_to_all_p, parts, name=axis_name, extent=size, split=split, concat=concat)
        shape = aval_of(out).shape
        return reshape(
            out, (*shape[:concat], shape[concat] * shape[concat + 1], *shape[concat + 2 :])
        )

    return tree_map(leaf, x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """`x` of example `start` handed to example `stop` for each pair of `perm`; zeros elsewhere."""
    size = axis_size(axis_name)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    if len({a for a, _ in pairs}) != len(pairs) or len({b for _, b in pairs}) != len(pairs):
        raise StaticArgumentError(f"ppermute: perm={pairs} names a source or a target twice")
    if any(not (0 <= a < size and 0 <= b < size) for a, b in pairs):
        raise StaticArgumentError(f"ppermute: perm={pairs} for an axis of extent {size}")
    return tree_map(lambda value: bind1(ppermute_p, value, name=axis_name, perm=pairs), x)


def axis_index(axis_name: Any) -> Any:
    """The number of this example along a named axis (row-major, for a tuple of names)."""
    total: Any = 0
    for name in _names(axis_name):
        size = axis_size(name)
        index = bind1(axis_index_p, name=name)
        total = index if isinstance(total, int) else total * size + index
    return total


__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
]
