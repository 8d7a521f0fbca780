"""Constructors of lazy tensors: what lowering rules are written with.

Input: tensor nodes and functions over ``ops``. Output: lazy tensor nodes. Each constructor composes
the loaders of its inputs into one closure; none of them allocates memory or makes a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.loops.layout import Index, Shape, contiguous_strides
from stax.loops.monoids import Monoid
from stax.loops.nodes import Loader, Pointwise, Reduction, Scan, Scatter
from stax.loops.ops import Value, ops
from stax.loops.scalar_ops import is_half
from stax.loops.symbolic import ZERO, Expr, IntLike, as_expr, linearize
from stax.loops.tensors import (
    LoopTensor,
    TensorNode,
    broadcast_loader,
    broadcast_shapes,
    loop_tensor,
)

INT64 = np.dtype(np.int64)


def pointwise(
    fn: Callable[..., Value], *inputs: TensorNode, dtype: np.dtype, shape: Shape | None = None
) -> LoopTensor:
    """``fn`` of the elements of ``inputs``, which broadcast to ``shape`` (their common shape)."""
    target = broadcast_shapes(x.shape for x in inputs) if shape is None else shape
    loaders = [broadcast_loader(x, target) for x in inputs]
    if len(loaders) == 1:
        load = loaders[0]

        def inner(index: Index) -> Value:
            return fn(load(index))

    elif len(loaders) == 2:
        left, right = loaders

        def inner(index: Index) -> Value:
            return fn(left(index), right(index))

    else:

        def inner(index: Index) -> Value:
            return fn(*[load(index) for load in loaders])

    return loop_tensor(Pointwise(target, inner, dtype), inputs)


def cast(node: TensorNode, dtype: np.dtype) -> TensorNode:
    """The elements converted to another type."""
    if node.dtype == dtype:
        return node
    return pointwise(lambda x: ops.cast(x, dtype), node, dtype=dtype)


def rounded(node: TensorNode) -> TensorNode:
    """The elements as memory holds them: loop bodies compute half types in float32."""
    dtype = node.dtype
    return pointwise(lambda x: ops.cast(x, dtype), node, dtype=dtype) if is_half(dtype) else node


def full(shape: Shape, value: Any, dtype: np.dtype) -> LoopTensor:
    """The same constant everywhere."""
    return LoopTensor(Pointwise(shape, lambda index: ops.constant(value, dtype), dtype), 1, 0)


def from_index(
    shape: Shape, expr: Callable[[Index], IntLike], dtype: np.dtype = INT64
) -> LoopTensor:
    """The value of an index expression at every index."""
    inner = lambda index: ops.index_expr(as_expr(expr(index)), dtype)
    return LoopTensor(Pointwise(shape, inner, dtype), 1, 0)


def iota(shape: Shape, axis: int, dtype: np.dtype = INT64) -> LoopTensor:
    """The position along ``axis``."""
    return from_index(shape, lambda index: index[axis], dtype)


def interleave(kept: Sequence[int], axes: Sequence[int], index: Index, rindex: Index) -> Index:
    """The index whose axes ``kept`` come from one index and whose ``axes`` from the other."""
    whole: list[Expr] = [ZERO] * (len(kept) + len(axes))
    for a, e in zip(kept, index, strict=True):
        whole[a] = e
    for a, e in zip(axes, rindex, strict=True):
        whole[a] = e
    return tuple(whole)


def reduction(
    node: TensorNode,
    axes: Sequence[int],
    monoid: Monoid,
    dtype: np.dtype,
    acc_dtype: np.dtype | None = None,
    prepare: Callable[[Value], tuple[Value, ...]] | None = None,
    project: int = 0,
) -> LoopTensor:
    """``monoid`` over ``axes``, which disappear; ``prepare`` makes components from an element."""
    gone = tuple(sorted(axes))
    kept = tuple(a for a in range(node.ndim) if a not in gone)
    load = node.loader()
    make: Callable[[Value], tuple[Value, ...]] = prepare or (lambda value: (value,))

    def inner(index: Index, rindex: Index) -> tuple[Value, ...]:
        return make(load(interleave(kept, gone, index, rindex)))

    data = Reduction(
        ranges=tuple(node.shape[a] for a in kept),
        reduction_ranges=tuple(node.shape[a] for a in gone),
        inner_fn=inner,
        monoid=monoid,
        dtype=dtype,
        acc_dtype=acc_dtype or dtype,
        project=project,
    )
    return loop_tensor(data, (node,))


def arg_reduction(
    node: TensorNode, axes: Sequence[int], monoid: Monoid, dtype: np.dtype = INT64
) -> LoopTensor:
    """The row-major position within ``axes`` of the extreme element, the first of equals."""
    gone = tuple(sorted(axes))
    kept = tuple(a for a in range(node.ndim) if a not in gone)
    extents = tuple(node.shape[a] for a in gone)
    strides = contiguous_strides(extents)
    load = node.loader()

    def inner(index: Index, rindex: Index) -> tuple[Value, ...]:
        value = load(interleave(kept, gone, index, rindex))
        return value, ops.index_expr(linearize(rindex, strides), INT64)

    data = Reduction(
        ranges=tuple(node.shape[a] for a in kept),
        reduction_ranges=extents,
        inner_fn=inner,
        monoid=monoid,
        dtype=dtype,
        acc_dtype=node.dtype,
        project=1,
    )
    return loop_tensor(data, (node,))


def scan(
    node: TensorNode,
    axis: int,
    monoid: Monoid,
    dtype: np.dtype,
    acc_dtype: np.dtype | None = None,
    reverse: bool = False,
) -> LoopTensor:
    """The running ``monoid`` along ``axis``, each element included in its own result."""
    load = node.loader()
    data = Scan(
        ranges=node.shape,
        axis=axis,
        inner_fn=lambda index: (load(index),),
        monoid=monoid,
        dtype=dtype,
        acc_dtype=acc_dtype or dtype,
        reverse=reverse,
    )
    return loop_tensor(data, (node,))


def scatter(
    init: TensorNode,
    updates: TensorNode,
    index_fn: Callable[[Index], Index],
    mode: str,
    reads: Sequence[TensorNode] = (),
    mask_fn: Loader | None = None,
) -> LoopTensor:
    """``init`` with the element at ``index_fn(u)`` updated by ``updates[u]`` for every ``u``, in
    order.

    ``reads`` are the nodes that ``index_fn`` and ``mask_fn`` read.
    """
    data = Scatter(
        shape=init.shape,
        ranges=updates.shape,
        init=init.loader(),
        index_fn=index_fn,
        value_fn=updates.loader(),
        mode=mode,
        dtype=init.dtype,
        mask_fn=mask_fn,
    )
    return loop_tensor(data, (init, updates, *reads))


def concatenate(nodes: Sequence[TensorNode], axis: int, dtype: np.dtype) -> LoopTensor:
    """The nodes one after the other along ``axis``: one pointwise node with masked reads."""
    parts = [n for n in nodes if n.shape[axis]] or list(nodes[:1])
    loaders = [n.loader() for n in parts]
    starts = [0]
    for n in parts:
        starts.append(starts[-1] + n.shape[axis])
    shape = (*parts[0].shape[:axis], starts[-1], *parts[0].shape[axis + 1 :])

    def piece(k: int, index: Index) -> Value:
        moved = (*index[:axis], index[axis] - starts[k], *index[axis + 1 :])
        return loaders[k](moved)

    def inner(index: Index) -> Value:
        position = ops.index_expr(index[axis], INT64)
        last = len(parts) - 1
        at_or_after = [None] + [
            ops.ge(position, ops.constant(starts[k], INT64)) for k in range(1, len(parts))
        ]
        # Built from the last piece to the first: each select adds the piece before.
        result: Value = None
        for k in range(last, -1, -1):
            inside = at_or_after[k]
            if k < last:
                before = ops.logical_not(at_or_after[k + 1])
                inside = before if inside is None else ops.logical_and(inside, before)
            if inside is None:
                return piece(k, index)
            other = ops.constant(0, dtype) if result is None else result
            result = ops.masked(inside, functools.partial(piece, k, index), other)
        return result

    return loop_tensor(Pointwise(shape, inner, dtype), nodes)


def padded_shape(
    shape: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[int, ...]:
    """Extents with `low` and `high` around an axis and `interior` between its elements."""
    return tuple(
        a + n + max(n - 1, 0) * k + b for n, a, b, k in zip(shape, low, high, interior, strict=True)
    )


def pad(
    node: TensorNode,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    value: TensorNode,
) -> LoopTensor:
    """The node inside a frame of ``value`` (a scalar node); negative amounts cut off."""
    shape = padded_shape(node.shape, low, high, interior)
    load, fill = node.loader(), value.loader()

    def inner(index: Index) -> Value:
        inside: Value = None
        source: list[Expr] = []
        for e, n, a, k in zip(index, node.shape, low, interior, strict=True):
            moved = e - a
            position = ops.index_expr(moved, INT64)
            conditions = [
                ops.ge(position, ops.constant(0, INT64)),
                ops.lt(position, ops.constant(n + (n - 1) * k, INT64)),
            ]
            if k:
                phase = ops.index_expr(moved % (k + 1), INT64)
                conditions.append(ops.eq(phase, ops.constant(0, INT64)))
                moved = moved // (k + 1)
            source.append(moved)
            for condition in conditions:
                inside = condition if inside is None else ops.logical_and(inside, condition)
        if inside is None:
            return load(index)
        return ops.masked(inside, lambda: load(tuple(source)), fill(()))

    return loop_tensor(Pointwise(shape, inner, node.dtype), (node, value))
