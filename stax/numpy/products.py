"""NumPy's products on traced values: matmul, dot, tensordot, einsum, inner, outer, kron, trace.

Input: NumPy's arguments.  Output: `dot_general` with explicit dimension numbers.  Operands are
promoted first; a batch axis of extent one is repeated as in NumPy's broadcasting.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import UFUNCS
from stax.errors import ShapeError
from stax.numpy.manipulation import diagonal
from stax.numpy.precision import with_precision
from stax.numpy.promotion import asarray_dtype, coerce
from stax.numpy.reductions import sum as sum_over
from stax.numpy.registration import (
    axes_tuple,
    axis_index,
    converted,
    deliver,
    implements,
    operand,
    refuse_unread,
)
from stax.numpy.ufunc_rules import multiply
from stax.primitives import elementwise as el
from stax.primitives.contractions import dot_general
from stax.primitives.shapes import concatenate, slice_axis
from stax.primitives.views import broadcast, move_axis, reshape

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]

Array = Any


def _pair(a: Any, b: Any, op: str, dtype: Any = None) -> tuple[Array, Array]:
    x, y = coerce(operand(a, op), operand(b, op))
    if dtype is not None:
        kind = asarray_dtype(dtype)
        x, y = converted(x, kind), converted(y, kind)
    return x, y


def _mismatch(op: str, x: Array, y: Array) -> ShapeError:
    return ShapeError(
        f"shapes {x.shape} and {y.shape} do not fit",
        op=op,
        operands=[str(aval_of(x)), str(aval_of(y))],
        where=user_source() or None,
        hint="the last axis of the first operand must have the extent of the second-to-last "
        "(or only) axis of the second",
    )


def _matmul(x: Array, y: Array) -> Array:
    """`x @ y` of operands of one dtype with at least one axis."""
    n, m = len(x.shape), len(y.shape)
    if n == 0 or m == 0 or x.shape[-1] != y.shape[max(m - 2, 0)]:
        raise _mismatch("matmul", x, y)
    if n == 1 or m <= 2:
        if n == 1 and m > 2:
            out = dot_general(x, y, (((0,), (m - 2,)), ((), ())))
            return out
        return dot_general(x, y, (((n - 1,), (max(m - 2, 0),)), ((), ())))
    if n == 2:
        # One matrix against a stack: the stack's axes come out behind the matrix's rows.
        out = dot_general(x, y, (((1,), (m - 2,)), ((), ())))
        return move_axis(out, 0, m - 2)
    lead = max(n, m) - 2
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise _mismatch("matmul", x, y) from None
    x = broadcast(x, (*batch, *x.shape[-2:]))
    y = broadcast(y, (*batch, *y.shape[-2:]))
    axes = tuple(range(lead))
    return dot_general(x, y, (((lead + 1,), (lead,)), (axes, axes)))


@with_precision
@implements(np.matmul, halves=True)
def matmul(x1: Array, x2: Array, /, out: Any = None, *, dtype: Any = None, **kwargs: Any) -> Array:
    """The matrix product, stacks of matrices broadcasting; as `numpy.matmul`."""
    refuse_unread("matmul", kwargs)
    return deliver(_matmul(*_pair(x1, x2, "matmul", dtype)), out, "matmul")


UFUNCS[np.matmul] = matmul


@with_precision
@implements(np.dot, halves=True)
def dot(a: Array, b: Array, out: Any = None) -> Array:
    """The dot product: last axis of `a`, second-to-last of `b`; as `numpy.dot`."""
    x, y = _pair(a, b, "dot")
    if not x.shape or not y.shape:
        return deliver(el.mul(x, y), out, "dot")
    n, m = len(x.shape), len(y.shape)
    if x.shape[-1] != y.shape[max(m - 2, 0)]:
        raise _mismatch("dot", x, y)
    value = dot_general(x, y, (((n - 1,), (max(m - 2, 0),)), ((), ())))
    return deliver(value, out, "dot")


@with_precision
@implements(np.vdot, halves=True)
def vdot(a: Array, b: Array, /) -> Array:
    """The dot product of flattened inputs, the first conjugated; as `numpy.vdot`."""
    x, y = _pair(a, b, "vdot")
    if aval_of(x).size != aval_of(y).size:
        raise _mismatch("vdot", x, y)
    x, y = (reshape(v, (aval_of(v).size,)) for v in (x, y))
    return dot_general(conjugated(x), y, (((0,), (0,)), ((), ())))


def conjugated(x: Array) -> Array:
    """`x` conjugated where it is complex."""
    return el.conj(x) if aval_of(x).dtype.kind == "c" else x


@with_precision
@implements(np.inner, halves=True)
def inner(a: Array, b: Array, /) -> Array:
    """Sum of products over the last axes; as `numpy.inner`."""
    x, y = _pair(a, b, "inner")
    if not x.shape or not y.shape:
        return el.mul(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch("inner", x, y)
    return dot_general(x, y, (((len(x.shape) - 1,), (len(y.shape) - 1,)), ((), ())))


@implements(np.outer)
def outer(a: Array, b: Array, out: Any = None) -> Array:
    """Products of all pairs of elements; as `numpy.outer`."""
    x, y = _pair(a, b, "outer")
    column = reshape(x, (aval_of(x).size, 1))
    return deliver(multiply(column, reshape(y, (1, aval_of(y).size))), out, "outer")


def _vector_product(op: str, x: Array, y: Array, axis: int, conjugate: bool) -> Array:
    for v in (x, y):
        if not v.shape:
            raise ShapeError("operands must have at least one dimension", op=op)
    x = move_axis(x, axis_index(axis, len(x.shape), op), len(x.shape) - 1)
    y = move_axis(y, axis_index(axis, len(y.shape), op), len(y.shape) - 1)
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch(op, x, y)
    batch = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    x, y = (broadcast(v, (*batch, v.shape[-1])) for v in (x, y))
    axes, last = tuple(range(len(batch))), (len(batch),)
    return dot_general(conjugated(x) if conjugate else x, y, ((last, last), (axes, axes)))


@with_precision
@implements(np.vecdot, halves=True)
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1, **kwargs: Any) -> Array:
    """Dot products of vectors along an axis, the first conjugated; as `numpy.vecdot`."""
    refuse_unread("vecdot", kwargs)
    return _vector_product("vecdot", *_pair(x1, x2, "vecdot"), axis, True)


UFUNCS[np.vecdot] = vecdot


def _against_matrix(op: str, matrix: Array, vector: Array, side: int) -> Array:
    if len(matrix.shape) < 2 or not vector.shape or matrix.shape[side] != vector.shape[-1]:
        raise _mismatch(op, matrix, vector)
    if len(vector.shape) == 1:
        n = len(matrix.shape)
        return dot_general(matrix, vector, (((n + side,), (0,)), ((), ())))
    column = reshape(vector, (*vector.shape, 1))
    if side == -2:
        n = len(matrix.shape)
        matrix = move_axis(matrix, n - 1, n - 2)
    out = _matmul(matrix, column)
    return reshape(out, out.shape[:-1])


def matvec(x1: Array, x2: Array, /, **kwargs: Any) -> Array:
    """Matrices applied to vectors, both broadcasting; as `numpy.matvec`."""
    refuse_unread("matvec", kwargs)
    return _against_matrix("matvec", *_pair(x1, x2, "matvec"), -1)


def vecmat(x1: Array, x2: Array, /, **kwargs: Any) -> Array:
    """Vectors, conjugated, applied to matrices from the left; as `numpy.vecmat`."""
    refuse_unread("vecmat", kwargs)
    vector, matrix = _pair(x1, x2, "vecmat")
    return _against_matrix("vecmat", matrix, conjugated(vector), -2)


if hasattr(np, "matvec"):  # NumPy 2.2
    matvec = UFUNCS[np.matvec] = with_precision(implements(np.matvec)(matvec))
    vecmat = UFUNCS[np.vecmat] = with_precision(implements(np.vecmat)(vecmat))


@with_precision
@implements(np.tensordot, halves=True)
def tensordot(a: Array, b: Array, axes: Any = 2) -> Array:
    """Sum of products over given axes; as `numpy.tensordot`."""
    x, y = _pair(a, b, "tensordot")
    n, m = len(x.shape), len(y.shape)
    if isinstance(axes, list | tuple):
        first, second = axes
        left = axes_tuple(first if isinstance(first, list | tuple) else (first,), n, "tensordot")
        second = second if isinstance(second, list | tuple) else (second,)
        right = axes_tuple(second, m, "tensordot")
    else:
        count = operator.index(axes)
        left, right = tuple(range(n - count, n)), tuple(range(count))
    if len(left) != len(right) or any(
        x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)
    ):
        raise _mismatch("tensordot", x, y)
    return dot_general(x, y, ((left, right), ((), ())))


@implements(np.kron)
def kron(a: Array, b: Array) -> Array:
    """The Kronecker product; as `numpy.kron`."""
    x, y = _pair(a, b, "kron")
    n = max(len(x.shape), len(y.shape))
    x = reshape(x, (*(1,) * (n - len(x.shape)), *x.shape))
    y = reshape(y, (*(1,) * (n - len(y.shape)), *y.shape))
    wide_x = [v for k in range(n) for v in (x.shape[k], 1)]
    wide_y = [v for k in range(n) for v in (1, y.shape[k])]
    out = multiply(reshape(x, wide_x), reshape(y, wide_y))
    return reshape(out, [i * j for i, j in zip(x.shape, y.shape, strict=True)])


@implements(np.cross)
def cross(
    a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Array:
    """The cross product of vectors of three components; as `numpy.cross`."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _pair(a, b, "cross")
    x = move_axis(x, axis_index(axisa, len(x.shape), "cross"), len(x.shape) - 1)
    y = move_axis(y, axis_index(axisb, len(y.shape), "cross"), len(y.shape) - 1)
    if not {x.shape[-1], y.shape[-1]} <= {2, 3}:
        raise ShapeError("incompatible dimensions for cross product (must be 2 or 3)", op="cross")
    planar = x.shape[-1] == 2 and y.shape[-1] == 2

    def component(v: Array, k: int) -> Array:
        n = len(v.shape) - 1
        return None if k >= v.shape[-1] else reshape(slice_axis(v, n, k, k + 1), v.shape[:-1])

    def product(i: int, j: int) -> Array:
        left, right = component(x, i), component(y, j)
        return None if left is None or right is None else el.mul(left, right)

    def difference(i: int, j: int) -> Array:
        first, second = product(i, j), product(j, i)
        if second is None:
            return first
        return el.neg(second) if first is None else el.sub(first, second)

    if planar:
        return difference(0, 1)
    parts = [difference(1, 2), difference(2, 0), difference(0, 1)]
    shape = np.broadcast_shapes(*(aval_of(p).shape for p in parts))
    out = concatenate([reshape(broadcast(p, shape), (*shape, 1)) for p in parts], len(shape))
    return move_axis(out, len(shape), axis_index(axisc, len(shape) + 1, "cross"))


@implements(np.trace)
def trace(
    a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Array:
    """The sum of a diagonal; as `numpy.trace`."""
    return deliver(sum_over(diagonal(a, offset, axis1, axis2), -1, dtype), out, "trace")
