"""Lowering rules of array operations: views, reductions, scans, indexed reads and writes.

Input: lazy tensors and an equation's parameters.  Output: a lazy tensor.  A view rewrites indices,
a concatenation or padding is one pointwise node with masked reads, an indexed read turns loaded
integers into index symbols (checked unless their range proves them inside), an indexed write is
a scatter.  Rows of `stax.primitives` name these rules in their `lower` field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.dtypes import accumulator
from stax.loops import construct
from stax.loops.layout import Index, Shape
from stax.loops.monoids import monoid
from stax.loops.nodes import Loader, Pointwise, Scan
from stax.loops.ops import Value, ops
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.symbolic import Expr
from stax.loops.tensors import TensorNode, loop_tensor

if TYPE_CHECKING:
    from stax.loops.lower import Lowering

INT64 = np.dtype(np.int64)

# ------------------------------------------------------------------------------------------ views


def reshape(ctx: Lowering, x: TensorNode, *, shape: Shape) -> TensorNode:
    """Another shape of the same elements."""
    return x.reshape(shape)


def transpose(ctx: Lowering, x: TensorNode, *, perm: Shape) -> TensorNode:
    """Axes in another order."""
    return x.permute(perm)


def broadcast(ctx: Lowering, x: TensorNode, *, shape: Shape, dims: Shape) -> TensorNode:
    """Axes `dims` of the result are those of `x`; the others repeat."""
    return x.broadcast_in_dim(shape, dims)


def rev(ctx: Lowering, x: TensorNode, *, axes: Shape) -> TensorNode:
    """Axes in reverse order."""
    return x.flip(axes)


def strided_slice(
    ctx: Lowering, x: TensorNode, *, start: Shape, limit: Shape, strides: Shape
) -> TensorNode:
    """`x[start:limit:strides]`."""
    shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(start, limit, strides, strict=True)]
    return x.slice(start, shape, strides)


def pad(
    ctx: Lowering, x: TensorNode, value: TensorNode, *, low: Shape, high: Shape, interior: Shape
) -> TensorNode:
    """`x` in a frame of `value`; negative amounts cut."""
    if 0 in x.shape:
        return value.expand(construct.padded_shape(x.shape, low, high, interior))
    return construct.pad(x, low, high, interior, value)


def concatenate(ctx: Lowering, *xs: TensorNode, axis: int) -> TensorNode:
    """One after the other along `axis`."""
    return construct.concatenate(xs, axis, xs[0].dtype)


def iota(ctx: Lowering, *, shape: Shape, dimension: int, dtype: np.dtype) -> TensorNode:
    """The index along `dimension`."""
    return construct.iota(shape, dimension, dtype)


# ------------------------------------------------------------------------------------- reductions


def _accumulated(name: str, x: TensorNode, axes: Shape, dtype: np.dtype) -> TensorNode:
    wide = accumulator(dtype)
    load = construct.cast(x, wide)
    if not axes:
        return construct.cast(load, dtype)
    return construct.reduction(load, axes, monoid(name), dtype, wide)


def reduce_sum(ctx: Lowering, x: TensorNode, *, axes: Shape, dtype: np.dtype) -> TensorNode:
    """Sum in the accumulation dtype."""
    return _accumulated("sum", x, axes, dtype)


def reduce_prod(ctx: Lowering, x: TensorNode, *, axes: Shape, dtype: np.dtype) -> TensorNode:
    """Product in the accumulation dtype."""
    return _accumulated("prod", x, axes, dtype)


def reduce_extreme(name: str) -> Callable[..., TensorNode]:
    """The rule of a maximum or minimum."""

    def rule(ctx: Lowering, x: TensorNode, *, axes: Shape) -> TensorNode:
        if not axes:
            return x
        if x.dtype.kind == "b":
            return construct.reduction(x, axes, monoid("any" if name == "max" else "all"), x.dtype)
        return construct.reduction(x, axes, monoid(name), x.dtype, compute_dtype(x.dtype))

    return rule


def reduce_truth(name: str) -> Callable[..., TensorNode]:
    """The rule of any or all."""

    def rule(ctx: Lowering, x: TensorNode, *, axes: Shape) -> TensorNode:
        truth = construct.cast(construct.rounded(x), np.dtype(np.bool_))
        return construct.reduction(truth, axes, monoid(name), truth.dtype) if axes else truth

    return rule


def arg_extreme(name: str) -> Callable[..., TensorNode]:
    """The rule of argmax or argmin along one axis."""

    def rule(ctx: Lowering, x: TensorNode, *, axis: int, dtype: np.dtype) -> TensorNode:
        wide = x.dtype
        if wide.kind == "b":
            wide = np.dtype(np.uint8)
        if is_half(wide):
            x, wide = construct.rounded(x), compute_dtype(wide)
        # The index is an integer whatever the value is; it is converted after the merge.
        found = construct.arg_reduction(construct.cast(x, wide), (axis,), monoid(name))
        return construct.cast(ctx.realize(found, "the position of an extreme"), dtype)

    return rule


def scan(name: str) -> Callable[..., TensorNode]:
    """The rule of a running merge along one axis."""

    def rule(
        ctx: Lowering,
        x: TensorNode,
        *,
        axis: int,
        reverse: bool,
        dtype: np.dtype | None = None,
    ) -> TensorNode:
        target = x.dtype if dtype is None else dtype
        wide = compute_dtype(accumulator(target))
        merge = name
        if target.kind == "b":
            merge = {"max": "any", "min": "all"}[name]
        return construct.scan(
            construct.cast(x, wide), axis, monoid(merge), target, wide, reverse=reverse
        )

    return rule


def linear_recurrence(
    ctx: Lowering, a: TensorNode, b: TensorNode, *, axis: int, reverse: bool
) -> TensorNode:
    """The h with h[i] = a[i] * h[i-1] + b[i] along `axis`."""
    wide = compute_dtype(accumulator(b.dtype))
    factor, value = construct.cast(a, wide).loader(), construct.cast(b, wide).loader()
    data = Scan(
        ranges=b.shape,
        axis=axis,
        inner_fn=lambda index: (value(index), factor(index)),
        monoid=monoid("recurrence"),
        dtype=b.dtype,
        acc_dtype=wide,
        reverse=reverse,
    )
    return loop_tensor(data, (a, b))


# ----------------------------------------------------------------------------------- indexed access


def _resolve(raw: Value, size: int, mode: str) -> tuple[Expr, Value | None]:
    """The index symbol for a loaded integer, and the condition that it was inside (mode "fill")."""
    value = ops.cast(raw, INT64)
    if mode == "error":
        return ops.indirect(value, size), None
    if mode == "promise":
        return ops.indirect(value, size, check=False, wrap=False), None
    zero, last = ops.constant(0, INT64), ops.constant(max(size - 1, 0), INT64)
    if mode == "clip":
        inside = ops.min(ops.max(value, zero), last)
        return ops.indirect(inside, size, check=False, wrap=False), None
    count = ops.constant(max(size, 1), INT64)
    if mode == "wrap":
        return ops.indirect(ops.mod(value, count), size, check=False, wrap=False), None
    known = ops.where(ops.lt(value, zero), ops.add(value, count), value)
    good = ops.logical_and(ops.le(zero, known), ops.lt(known, ops.constant(size, INT64)))
    safe = ops.min(ops.max(known, zero), last)
    return ops.indirect(safe, size, check=False, wrap=False), good


def _both(a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return b if a is None else a
    return ops.logical_and(a, b)


def _place(
    loaders: Sequence[Loader],
    axes: Shape,
    shape: Shape,
    index: Index,
    lead: int,
    mode: str,
) -> tuple[Index, Value | None]:
    """The index into an array of `shape` for position `index` of idx shape + remaining axes."""
    where: list[Expr | None] = [None] * len(shape)
    inside: Value | None = None
    for load, axis in zip(loaders, axes, strict=True):
        where[axis], good = _resolve(load(index[:lead]), shape[axis], mode)
        inside = _both(inside, good)
    rest = iter(index[lead:])
    return tuple(next(rest) if e is None else e for e in where), inside


def _fill_value(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if dtype.kind == "i" else limits.max
    return float("nan")


def gather(ctx: Lowering, x: TensorNode, *idx: TensorNode, axes: Shape, mode: str) -> TensorNode:
    """The elements at the index arrays; idx shape + the other axes of `x`."""
    if 0 in x.shape:
        return NotImplemented  # type: ignore[no-any-return]  # an empty array: NumPy's rule
    common = idx[0].shape
    rest = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    shape = (*common, *rest)
    if not x.is_realized and int(np.prod(shape)) > x.size:
        x = ctx.realize(x, "read at computed places more often than it has elements")
    load, loaders, source = x.loader(), [i.loader() for i in idx], x.shape

    def inner(index: Index) -> Value:
        where, inside = _place(loaders, axes, source, index, len(common), mode)
        if inside is None:
            return load(where)
        other = ops.constant(_fill_value(x.dtype), x.dtype)
        return ops.masked(inside, lambda: load(where), other)

    return loop_tensor(Pointwise(shape, inner, x.dtype), [x, *idx])


def scatter(
    ctx: Lowering,
    x: TensorNode,
    updates: TensorNode,
    *idx: TensorNode,
    axes: Shape,
    kind: str,
    unique: bool,
    mode: str,
) -> TensorNode:
    """`x` with `updates` merged in at the index arrays."""
    if 0 in x.shape:
        return NotImplemented  # type: ignore[no-any-return]  # an empty array: NumPy's rule
    if 0 in updates.shape:
        return x  # there are no indices
    loaders, shape, lead = [i.loader() for i in idx], x.shape, idx[0].ndim

    def index_fn(index: Index) -> Index:
        return _place(loaders, axes, shape, index, lead, mode)[0]

    def mask_fn(index: Index) -> Value:
        return _place(loaders, axes, shape, index, lead, mode)[1]

    mask = mask_fn if mode == "fill" else None
    return construct.scatter(x, updates, index_fn, kind, idx, mask)


def _starts(starts: Sequence[TensorNode], shape: Shape, sizes: Shape) -> list[Expr]:
    found = []
    for start, n, m in zip(starts, shape, sizes, strict=True):
        value = ops.cast(start.loader()(()), INT64)
        last = ops.constant(n - m, INT64)
        inside = ops.min(ops.max(value, ops.constant(0, INT64)), last)
        found.append(ops.indirect(inside, n - m + 1, check=False, wrap=False))
    return found


def dynamic_slice(ctx: Lowering, x: TensorNode, *starts: TensorNode, sizes: Shape) -> TensorNode:
    """The window of `sizes` at `starts`, clamped inside."""
    load, shape = x.loader(), x.shape

    def inner(index: Index) -> Value:
        first = _starts(starts, shape, sizes)
        return load(tuple(a + e for a, e in zip(first, index, strict=True)))

    return loop_tensor(Pointwise(sizes, inner, x.dtype), [x, *starts])


def dynamic_update_slice(
    ctx: Lowering, x: TensorNode, update: TensorNode, *starts: TensorNode
) -> TensorNode:
    """`x` with the window at `starts` replaced."""
    if 0 in update.shape:
        return x
    shape, sizes = x.shape, update.shape

    def index_fn(index: Index) -> Index:
        first = _starts(starts, shape, sizes)
        return tuple(a + e for a, e in zip(first, index, strict=True))

    return construct.scatter(x, update, index_fn, "set", starts)
