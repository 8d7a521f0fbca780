"""NumPy's shape manipulation on traced values: reshape, transpose, stack, split, roll, pad, ...

Input: NumPy's arguments; shapes and axes are static.  Output: shape primitives.  What is a view in
NumPy is one here: the result remembers its base, so an in-place write to either reaches both.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import layout_of, record_view, reshaped_layout
from stax.core.source import user_source
from stax.core.trace import Tracer, fresh
from stax.errors import ShapeError
from stax.numpy.indexing import getitem
from stax.numpy.promotion import as_dtype, asarray_dtype, coerce
from stax.numpy.registration import (
    axes_tuple,
    axis_index,
    broadcast_to_shape,
    deliver,
    implements,
    nested_array,
    operand,
    reduced_axes,
    shape_tuple,
    strong,
)
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.indexing import scatter
from stax.primitives.shapes import slice_axis

__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "diagonal",
    "dsplit",
    "dstack",
    "expand_dims",
    "hsplit",
    "hstack",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "rollaxis",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
]

Array = Any


def viewed(
    x: Array,
    read: Callable[[Any], Any],
    write: Callable[[Any], Any] | None,
    layout: Callable[[Any], Any],
) -> Array:
    """`read(x)` as a view of `x`; `write` takes the view's new value back to the base's.

    `layout` is the same step on a NumPy array.
    """
    y = read(x)
    if not isinstance(x, Tracer):
        return y
    return record_view(y, x, read, None if write is None else lambda base, new: write(new), layout)


def reshaped(x: Array, shape: Sequence[int]) -> Array:
    """`x` under another shape; a view where NumPy's would be one."""
    have = aval_of(x).shape
    if hasattr(x, "origin") and reshaped_layout(layout_of(x), shape) is None:
        return fresh(vw.reshape(x, shape))
    return viewed(
        x,
        lambda v: vw.reshape(v, shape),
        lambda v: vw.reshape(v, have),
        lambda a: reshaped_layout(a, shape),
    )


def permuted(x: Array, perm: Sequence[int]) -> Array:
    """`x` with permuted axes, as a view."""
    back = np.argsort(np.asarray(perm, np.int64)).tolist()
    return viewed(
        x,
        lambda v: vw.transpose(v, perm),
        lambda v: vw.transpose(v, back),
        lambda a: a.transpose(perm),
    )


def resolved_shape(shape: Any, size: int, have: Any, op: str) -> tuple[int, ...]:
    """`shape` with -1 replaced by what is left.

    Raises:
      ShapeError: the sizes do not fit.
    """
    dims = list(shape_tuple(shape))
    unknown = [k for k, n in enumerate(dims) if n < 0]
    if len(unknown) > 1:
        raise ShapeError("can only specify one unknown dimension", op=op)
    if unknown:
        rest = math.prod(n for n in dims if n >= 0)
        if rest and size % rest == 0:
            dims[unknown[0]] = size // rest
    if math.prod(dims) != size or any(n < 0 for n in dims):
        raise ShapeError(
            f"cannot reshape array of size {size} into shape {shape_tuple(shape)}",
            op=op,
            operands=[str(aval_of(have))],
            where=user_source() or None,
        )
    return tuple(dims)


@implements(np.reshape)
def reshape(a: Array, /, shape: Any = None, order: str = "C", *, copy: Any = None) -> Array:
    """`a` under another shape (one extent may be -1); as `numpy.reshape`."""
    x = operand(a, "reshape")
    target = resolved_shape(shape, aval_of(x).size, x, "reshape")
    if element_order(order, x, "reshape") == "F":
        if copy is not None and not copy and len(x.shape) > 1:
            raise ShapeError(
                "order='F' needs a copy, which copy=False forbids", op="reshape", operands=[x]
            )
        flipped = permuted(fresh(x) if copy else x, range(len(x.shape))[::-1])
        return permuted(reshaped(flipped, target[::-1]), range(len(target))[::-1])
    if copy:
        x = fresh(x)
    elif (
        copy is not None and hasattr(x, "origin") and reshaped_layout(layout_of(x), target) is None
    ):
        raise ShapeError(
            f"reshape to {target} needs a copy, which copy=False forbids",
            op="reshape",
            operands=[x],
            where=user_source() or None,
            hint="leave copy= out, or reshape before the axes are permuted",
        )
    return reshaped(x, target)


def element_order(order: Any, x: Array, op: str) -> str:
    """ "C" or "F": how `order` reads the elements of `x`.

    Raises:
      ShapeError: no such order, or one that goes by the layout in memory where that matters.
    """
    name = "C" if order is None else order.upper() if isinstance(order, str) else order
    if name in ("C", "F"):
        return str(name)
    if name not in ("A", "K"):
        raise ShapeError(f"order={order!r} is not one of C, F, A", op=op, operands=[x])
    if sum(n > 1 for n in x.shape) > 1:
        raise ShapeError(
            f"order={order!r} reads the elements as they lie in memory, and a traced value does "
            "not lie in memory",
            op=op,
            operands=[x],
            where=user_source() or None,
            hint="say order='C' (by rows, the default) or order='F' (by columns)",
        )
    return "C"


@implements(np.ravel)
def ravel(a: Array, order: str = "C") -> Array:
    """`a` as a vector; as `numpy.ravel`."""
    x = operand(a, "ravel")
    return reshape(x, -1, element_order(order, x, "ravel"))


@implements(np.transpose, np.permute_dims)
def transpose(a: Array, axes: Any = None) -> Array:
    """`a` with permuted (by default reversed) axes; as `numpy.transpose`."""
    x = operand(a, "transpose")
    n = len(x.shape)
    if axes is None:
        return permuted(x, range(n)[::-1])
    axes = axes if isinstance(axes, tuple | list | np.ndarray) else (axes,)
    perm = axes_tuple(tuple(axes), n, "transpose")
    if len(perm) != n:
        raise ShapeError(f"axes {tuple(axes)} don't match array of {n} dimensions", op="transpose")
    return permuted(x, perm)


permute_dims = transpose


@implements(np.matrix_transpose)
def matrix_transpose(x: Array, /) -> Array:
    """`x` with its last two axes exchanged."""
    x = operand(x, "matrix_transpose")
    n = len(x.shape)
    if n < 2:
        raise ShapeError(f"needs at least two dimensions, got {n}", op="matrix_transpose")
    return permuted(x, (*range(n - 2), n - 1, n - 2))


@implements(np.swapaxes)
def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged; as `numpy.swapaxes`."""
    x = operand(a, "swapaxes")
    perm = list(range(len(x.shape)))
    i, j = (axis_index(k, len(perm), "swapaxes") for k in (axis1, axis2))
    perm[i], perm[j] = perm[j], perm[i]
    return permuted(x, perm)


@implements(np.moveaxis)
def moveaxis(a: Array, source: Any, destination: Any) -> Array:
    """`a` with axes moved; as `numpy.moveaxis`."""
    x = operand(a, "moveaxis")
    n = len(x.shape)
    src, dst = axes_tuple(source, n, "moveaxis"), axes_tuple(destination, n, "moveaxis")
    if len(src) != len(dst):
        raise ShapeError(
            "`source` and `destination` arguments must have the same number of elements",
            op="moveaxis",
        )
    order = [k for k in range(n) if k not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return permuted(x, order)


@implements(np.rollaxis)
def rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    """`a` with one axis rolled back to a position; as `numpy.rollaxis`."""
    x = operand(a, "rollaxis")
    n = len(x.shape)
    k = axis_index(axis, n, "rollaxis")
    at = start + n if start < 0 else start
    order = [d for d in range(n) if d != k]
    order.insert(at - (k < at), k)
    return permuted(x, order)


@implements(np.expand_dims)
def expand_dims(a: Array, axis: Any) -> Array:
    """`a` with new axes of extent one; as `numpy.expand_dims`."""
    x = operand(a, "expand_dims")
    extra = axis if isinstance(axis, tuple | list) else (axis,)
    n = len(x.shape) + len(extra)
    axes = axes_tuple(tuple(extra), n, "expand_dims")
    rest = iter(x.shape)
    return reshaped(x, [1 if k in axes else next(rest) for k in range(n)])


@implements(np.squeeze)
def squeeze(a: Array, axis: Any = None) -> Array:
    """`a` without axes of extent one; as `numpy.squeeze`."""
    x = operand(a, "squeeze")
    if axis is None:
        return reshaped(x, [n for n in x.shape if n != 1])
    axes = reduced_axes(axis, len(x.shape), "squeeze")
    for k in axes:
        if x.shape[k] != 1:
            raise ShapeError(
                "cannot select an axis to squeeze out which has size not equal to one",
                op="squeeze",
                operands=[str(aval_of(x))],
                where=user_source() or None,
            )
    return reshaped(x, [n for k, n in enumerate(x.shape) if k not in axes])


@implements(np.broadcast_to)
def broadcast_to(array: Array, shape: Any, subok: bool = False) -> Array:
    """`array` repeated to `shape`, as a read-only view; as `numpy.broadcast_to`."""
    x = operand(array, "broadcast_to")
    target = shape_tuple(shape)
    have = x.shape
    if len(have) > len(target) or any(
        n not in (1, m) for n, m in zip(have[::-1], target[::-1], strict=False)
    ):
        raise ShapeError(
            f"cannot broadcast {have} to {target}",
            op="broadcast_to",
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )
    return viewed(
        x,
        lambda v: broadcast_to_shape(v, target),
        None,
        lambda a: np.broadcast_to(a, target),
    )


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The common shape of `shapes`."""
    return np.broadcast_shapes(*shapes)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Array, subok: bool = False) -> tuple[Array, ...]:
    """The arrays repeated to their common shape; as `numpy.broadcast_arrays`."""
    xs = [operand(a, "broadcast_arrays") for a in args]
    shape = np.broadcast_shapes(*(aval_of(x).shape for x in xs))
    return tuple(
        broadcast_to(x, shape) if isinstance(x, Tracer) else np.broadcast_to(x, shape) for x in xs
    )


def _atleast(name: str, plain: Any, shape_of: Callable[[tuple[int, ...]], Sequence[int]]) -> Any:
    @implements(plain)
    def public(*arys: Array) -> Any:
        xs = [operand(a, name) for a in arys]
        out = tuple(reshaped(x, shape_of(x.shape)) for x in xs)
        return out[0] if len(out) == 1 else out

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"The arrays with at least that many dimensions; as `numpy.{name}`."
    return public


atleast_1d = _atleast("atleast_1d", np.atleast_1d, lambda s: s or (1,))
atleast_2d = _atleast("atleast_2d", np.atleast_2d, lambda s: s if len(s) > 1 else (1, *(s or (1,))))
atleast_3d = _atleast(
    "atleast_3d",
    np.atleast_3d,
    lambda s: s if len(s) > 2 else ((1, *(s or (1,)), 1) if len(s) < 2 else (*s, 1)),
)


# ------------------------------------------------------------------------------------- joining


def _sequence(arrays: Any, op: str) -> list[Array]:
    if isinstance(arrays, Tracer | np.ndarray):
        return [
            getitem(arrays, k) if isinstance(arrays, Tracer) else arrays[k]
            for k in range(arrays.shape[0])
        ]
    found = [nested_array(a) if isinstance(a, list | tuple) else operand(a, op) for a in arrays]
    if not found:
        raise ShapeError("need at least one array", op=op, where=user_source() or None)
    return found


def _joined(xs: Sequence[Array], axis: int, dtype: Any, op: str) -> Array:
    values = coerce(*xs)
    if dtype is not None:
        values = [as_dtype(v, asarray_dtype(dtype)) for v in values]
    first = aval_of(values[0]).shape
    for k, v in enumerate(values):
        have = aval_of(v).shape
        if len(have) != len(first) or any(
            a != b for d, (a, b) in enumerate(zip(have, first, strict=True)) if d != axis
        ):
            raise ShapeError(
                "all the input array dimensions except for the concatenation axis must match "
                f"exactly; array 0 has shape {first}, array {k} has shape {have}",
                op=op,
                where=user_source() or None,
            )
    # A single array, such as a row that was read as a view, is copied too.
    return fresh(values[0]) if len(values) == 1 else sh.concatenate(values, axis)


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Array:
    """The arrays one after the other along `axis`; as `numpy.concatenate`."""
    xs = _sequence(arrays, "concatenate")
    if axis is None:
        xs, axis = [vw.reshape(x, (aval_of(x).size,)) for x in xs], 0
    if not xs[0].shape:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", op="concatenate")
    k = axis_index(axis, len(xs[0].shape), "concatenate")
    return deliver(_joined(xs, k, dtype, "concatenate"), out, "concatenate")


concat = concatenate


@implements(np.stack)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Array:
    """The arrays, of one shape, along a new axis; as `numpy.stack`."""
    xs = [strong(x) for x in _sequence(arrays, "stack")]
    shape = aval_of(xs[0]).shape
    if any(aval_of(x).shape != shape for x in xs):
        raise ShapeError(
            f"all input arrays must have the same shape, got {[aval_of(x).shape for x in xs]}",
            op="stack",
            where=user_source() or None,
        )
    k = axis_index(axis, len(shape) + 1, "stack")
    wide = (*shape[:k], 1, *shape[k:])
    xs = [vw.reshape(x, wide) for x in xs]
    return deliver(_joined(xs, k, dtype, "stack"), out, "stack")


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Array:
    """The arrays stacked row by row; as `numpy.vstack`."""
    return concatenate([atleast_2d(x) for x in _sequence(tup, "vstack")], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Array:
    """The arrays stacked column by column; as `numpy.hstack`."""
    xs = [atleast_1d(x) for x in _sequence(tup, "hstack")]
    return concatenate(xs, 0 if len(xs[0].shape) == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Array:
    """The arrays stacked along a third axis; as `numpy.dstack`."""
    return concatenate([atleast_3d(x) for x in _sequence(tup, "dstack")], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Array:
    """Vectors as columns of a matrix; as `numpy.column_stack`."""
    xs = _sequence(tup, "column_stack")
    columns = [x if len(x.shape) > 1 else vw.reshape(x, (aval_of(x).size, 1)) for x in xs]
    return concatenate(columns, 1)


@implements(np.append)
def append(arr: Array, values: Array, axis: Any = None) -> Array:
    """`arr` followed by `values`; as `numpy.append`."""
    return concatenate([arr, values], axis)


@implements(np.block)
def block(arrays: Any) -> Array:
    """An array from nested lists of blocks; as `numpy.block`."""

    def depth(tree: Any) -> int:
        return 1 + max(depth(t) for t in tree) if isinstance(tree, list) else 0

    def build(tree: Any, level: int) -> Array:
        if isinstance(tree, list):
            return concatenate([build(t, level - 1) for t in tree], -level)
        x = operand(tree, "block")
        missing = rank - len(x.shape)
        return vw.reshape(x, (*(1,) * missing, *x.shape)) if missing > 0 else x

    rank = depth(arrays)
    leaves: list[Any] = [arrays]
    while any(isinstance(t, list) for t in leaves):
        leaves = [u for t in leaves for u in (t if isinstance(t, list) else [t])]
    rank = max(
        [rank, *(len(np.shape(t) if not isinstance(t, Tracer) else t.shape) for t in leaves)]
    )
    return build(arrays, depth(arrays))


# ----------------------------------------------------------------------------------- splitting


@implements(np.array_split)
def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`ary` cut along `axis` into parts of nearly equal extent; as `numpy.array_split`."""
    x = operand(ary, "array_split")
    k = axis_index(axis, len(x.shape), "array_split")
    n = x.shape[k]
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        cuts = [0, *(operator.index(i) for i in indices_or_sections), n]
    else:
        if sections <= 0:
            raise ShapeError("number sections must be larger than 0.", op="array_split")
        each, extra = divmod(n, sections)
        sizes = [each + 1] * extra + [each] * (sections - extra)
        cuts = [0, *np.cumsum(sizes).tolist()]
    lead = (slice(None),) * k
    return [getitem(x, (*lead, slice(a, b))) for a, b in itertools.pairwise(cuts)]


@implements(np.split)
def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`ary` cut along `axis` into equal parts or at given places; as `numpy.split`."""
    x = operand(ary, "split")
    if not isinstance(indices_or_sections, list | tuple | np.ndarray):
        n = x.shape[axis_index(axis, len(x.shape), "split")]
        if n % operator.index(indices_or_sections):
            raise ShapeError(
                f"an axis of {n} does not split into {indices_or_sections} equal parts",
                op="split",
                where=user_source() or None,
            )
    return array_split(x, indices_or_sections, axis)


def _axis_split(name: str, plain: Any, axis_of: Callable[[int], int]) -> Any:
    @implements(plain)
    def public(ary: Array, indices_or_sections: Any) -> list[Array]:
        x = operand(ary, name)
        return split(x, indices_or_sections, axis_of(len(x.shape)))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"`ary` cut into parts; as `numpy.{name}`."
    return public


hsplit = _axis_split("hsplit", np.hsplit, lambda n: 1 if n > 1 else 0)
vsplit = _axis_split("vsplit", np.vsplit, lambda n: 0)
dsplit = _axis_split("dsplit", np.dsplit, lambda n: 2)


@implements(np.unstack)
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of `x` along `axis`; as `numpy.unstack`."""
    x = operand(x, "unstack")
    k = axis_index(axis, len(x.shape), "unstack")
    lead = (slice(None),) * k
    return tuple(getitem(x, (*lead, i)) for i in range(x.shape[k]))


def diagonal_view(x: Array, offset: int, i: int, j: int, writable: bool) -> Array:
    """The diagonal of axes `i` and `j`, last in the result, as a view."""
    rows, columns = x.shape[i], x.shape[j]
    start_row, start_column = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - start_row, columns - start_column))
    order = [k for k in range(len(x.shape)) if k not in (i, j)] + [i, j]
    rest = [x.shape[k] for k in order[:-2]]
    # Element (r, c) is at r * columns + c: the diagonal is a stride of columns + 1.
    first = start_row * columns + start_column if count else 0
    last = first + (count - 1) * (columns + 1) + 1 if count else 0

    def flat(value: Any) -> Any:
        return vw.reshape(vw.transpose(value, order), (*rest, rows * columns))

    def read(value: Any) -> Any:
        return slice_axis(flat(value), len(rest), first, last, columns + 1)

    def write(base: Any, new: Any) -> Any:
        places = np.arange(first, last, columns + 1)
        axis = len(rest)
        moved = vw.move_axis(flat(base), axis, 0)
        moved = scatter(moved, vw.move_axis(new, axis, 0), [places], [0], "set")
        whole = vw.reshape(vw.move_axis(moved, 0, axis), (*rest, rows, columns))
        return vw.transpose(whole, np.argsort(order).tolist())

    def layout(array: Any) -> Any:
        return array.diagonal(offset, i, j)

    return record_view(read(x), x, read, write if writable else None, layout)


@implements(np.diagonal)
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, last in the result, as a read-only view; as `numpy.diagonal`."""
    x = operand(a, "diagonal")
    i, j = axes_tuple((axis1, axis2), len(x.shape), "diagonal")
    return diagonal_view(x, offset, i, j, writable=False)
