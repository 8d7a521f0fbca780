"""Lowering of sliding windows: a reduction over the window at every place.

Input: a tensor and the parameters of a window row, one number for each axis.  Output: a reduction
whose element outside the array is the monoid's identity, or, for positions, a reduction of pairs
(value, place in the window) in which places outside the array never win.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.loops.construct import INT64, full, pad
from stax.loops.layout import Index, contiguous_strides
from stax.loops.monoids import NO_INDEX, Monoid, monoid
from stax.loops.nodes import Reduction
from stax.loops.ops import Value, ops
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.symbolic import linearize
from stax.loops.tensors import LoopTensor, TensorNode, loop_tensor

if TYPE_CHECKING:
    from stax.loops.lower import Lowering

Axes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def window_reduction(
    ctx: Lowering,
    node: TensorNode,
    kind: str,
    extents: Axes,
    *,
    window: Axes,
    strides: Axes,
    padding: Pairs,
    base_dilation: Axes,
    window_dilation: Axes,
    positions: bool = False,
) -> LoopTensor:
    """`kind` (sum, max, min) over the window; with `positions` where in it the extreme lies."""
    wide = np.dtype(np.float32) if is_half(node.dtype) else node.dtype
    merge: Monoid = monoid(("argmax" if kind == "max" else "argmin") if positions else kind)
    outside = merge.identity(wide)[0]
    if not positions and any(map(any, padding)) and node.size:
        # A framed copy is read without a condition for each element.
        low, high = (tuple(p[k] for p in padding) for k in (0, 1))
        interior = tuple(d - 1 for d in base_dilation)
        node = pad(node, low, high, interior, full((), outside, node.dtype))
        padding, base_dilation = ((0, 0),) * node.ndim, (1,) * node.ndim
    if not node.is_realized and node.size:
        node = ctx.realize(node, "read by a window")
    load = node.loader()
    over = [k for k, n in enumerate(window) if n != 1] or [0]
    shape = tuple(window[k] for k in over)
    places = contiguous_strides(shape)

    def element(index: Index, rindex: Index) -> tuple[Value, ...]:
        tap: list[Any] = [0] * len(window)
        for k, e in zip(over, rindex, strict=True):
            tap[k] = e
        inside: Value = None
        source = []
        for k, e in enumerate(index):
            at = e * strides[k] + tap[k] * window_dilation[k] - padding[k][0]
            n, holes = node.shape[k], base_dilation[k]
            reach = (extents[k] - 1) * strides[k] + (window[k] - 1) * window_dilation[k]
            conditions = []
            place = ops.index_expr(at, INT64) if padding[k] != (0, 0) or holes != 1 else None
            if padding[k][0] > 0:
                conditions.append(ops.ge(place, ops.constant(0, INT64)))
            if reach - padding[k][0] >= (n - 1) * holes + 1:
                place = ops.index_expr(at, INT64) if place is None else place
                conditions.append(ops.lt(place, ops.constant((n - 1) * holes + 1, INT64)))
            if holes != 1:
                phase = ops.index_expr(at % holes, INT64)
                conditions.append(ops.eq(phase, ops.constant(0, INT64)))
                at = at // holes
            source.append(at)
            for condition in conditions:
                inside = condition if inside is None else ops.logical_and(inside, condition)

        def guarded(read: Callable[[], Value], other: Value) -> Value:
            return read() if inside is None else ops.masked(inside, read, other)

        value = guarded(lambda: ops.cast(load(tuple(source)), wide), ops.constant(outside, wide))
        if not positions:
            return (value,)
        where = linearize(rindex, places)
        return value, guarded(lambda: ops.index_expr(where, INT64), ops.constant(NO_INDEX, INT64))

    data = Reduction(
        ranges=extents,
        reduction_ranges=shape,
        inner_fn=element,
        monoid=merge,
        dtype=INT64 if positions else node.dtype,
        acc_dtype=compute_dtype(wide),
        project=int(positions),
    )
    return loop_tensor(data, [node])
