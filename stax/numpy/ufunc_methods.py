"""Methods of universal functions: `np.add.reduce(x)`, `.accumulate`, `.reduceat`, `.outer`, `.at`.

Input: a ufunc and traced arguments.  Output: what NumPy's method gives.  Sums, products, extrema
and truths have reductions and scans of their own; other associative functions are combined in a
tree of logarithmic depth, the rest from left to right.  Importing this module fills UFUNC_METHODS
of `core.trace` and gives the functions of `stax.numpy` the same methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import assign
from stax.core.source import user_source
from stax.core.trace import UFUNC_METHODS, Tracer
from stax.errors import DtypeError, MutationError, ShapeError
from stax.numpy import reductions, ufuncs
from stax.numpy.creation import copy
from stax.numpy.indexing import written
from stax.numpy.manipulation import concatenate, expand_dims
from stax.numpy.promotion import asarray_dtype, is_plain
from stax.numpy.registration import (
    axis_index,
    converted,
    deliver,
    operand,
    reduced_axes,
)
from stax.numpy.selection import known
from stax.primitives.shapes import slice_axis
from stax.primitives.views import reshape

Array = Any

_REDUCE: dict[np.ufunc, Any] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.logical_and: reductions.all_,
    np.logical_or: reductions.any_,
}
_ACCUMULATE: dict[np.ufunc, Any] = {
    np.add: reductions.cumsum,
    np.multiply: reductions.cumprod,
    np.maximum: reductions.cummax,
    np.minimum: reductions.cummin,
}
_ASSOCIATIVE = frozenset(
    {
        np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.fmax, np.fmin, np.gcd, np.hypot, np.lcm,
        np.logaddexp, np.logaddexp2, np.logical_xor, np.logical_and, np.logical_or,
    }
)  # fmt: skip
_AT: dict[np.ufunc, str] = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.maximum: "max",
    np.minimum: "min",
}
# How many steps one after the other are written out for functions that are not associative.
UNROLLED = 1024


def _unsupported(ufunc: np.ufunc, method: str, why: str = "") -> DtypeError:
    return DtypeError(
        f"np.{ufunc.__name__}.{method} has no traced version{why}",
        where=user_source() or None,
        hint="use stax.lax.scan or stax.lax.associative_scan, or stax.pure_callback to call it on "
        "concrete values",
    )


def _binary(ufunc: np.ufunc, method: str) -> Callable[..., Any]:
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"{method} only supported for binary functions that return one value")
    return ufuncs.function_of(ufunc)


def _checked_length(ufunc: np.ufunc, method: str, n: int) -> None:
    if n > UNROLLED:
        raise _unsupported(ufunc, method, f" along {n} elements: it is not associative")


def _folded(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    """The reduction along one axis, of extent 1 afterwards."""
    apply = _binary(ufunc, "reduce")
    n = aval_of(x).shape[axis]
    if n == 0:
        if ufunc.identity is None:
            raise ShapeError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity",
                where=user_source() or None,
            )
        shape = [1 if k == axis else m for k, m in enumerate(aval_of(x).shape)]
        dtype = ufunc.resolve_dtypes((aval_of(x).dtype,) * 2 + (None,))[2]
        return np.full(shape, ufunc.identity, dtype)
    if ufunc not in _ASSOCIATIVE:
        _checked_length(ufunc, "reduce", n)
        parts = [slice_axis(x, axis, k, k + 1) for k in range(n)]
        return functools.reduce(apply, parts)
    while n > 1:
        half = n // 2
        pairs = apply(slice_axis(x, axis, 0, half), slice_axis(x, axis, half, 2 * half))
        x = pairs if n == 2 * half else concatenate([pairs, slice_axis(x, axis, n - 1, n)], axis)
        n -= half
    return x


def _without(x: Array, axes: Any, keepdims: bool) -> Array:
    if keepdims:
        return x
    return reshape(x, [n for k, n in enumerate(aval_of(x).shape) if k not in axes])


def ufunc_reduce(
    ufunc: np.ufunc,
    array: Array,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Array:
    """`np.add.reduce(x)` and its kin."""
    out = out[0] if isinstance(out, tuple) else out
    function = _REDUCE.get(ufunc)
    if function is not None:
        options: dict[str, Any] = {"keepdims": keepdims}
        if dtype is not None:
            options["dtype"] = dtype
        if initial is not np._NoValue:
            options["initial"] = initial
        if where is not True:
            options["where"] = where
        return deliver(function(array, axis=axis, **options), out, ufunc.__name__)
    if where is not True:
        raise _unsupported(ufunc, "reduce", " with where=")
    x = operand(array, ufunc.__name__)
    if dtype is not None:
        x = converted(x, asarray_dtype(dtype))
    axes = reduced_axes(axis, len(aval_of(x).shape), ufunc.__name__)
    shape = aval_of(x).shape
    for k in axes:
        x = _folded(ufunc, x, k)
    alone = bool(axes) and all(shape[k] == 1 for k in axes)
    if alone and initial is np._NoValue and ufunc.identity is not None:
        initial = converted(np.asarray(ufunc.identity), aval_of(x).dtype)
    if initial is not np._NoValue and initial is not None:
        x = _binary(ufunc, "reduce")(initial, x)
    return deliver(_without(x, axes, keepdims), out, ufunc.__name__)


def ufunc_accumulate(
    ufunc: np.ufunc, array: Array, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Array:
    """`np.add.accumulate(x)` and its kin."""
    out = out[0] if isinstance(out, tuple) else out
    function = _ACCUMULATE.get(ufunc)
    if function is not None:
        value = function(array, axis) if dtype is None else function(array, axis, dtype)
        return deliver(value, out, ufunc.__name__)
    apply = _binary(ufunc, "accumulate")
    x = operand(array, ufunc.__name__)
    if dtype is not None:
        x = converted(x, asarray_dtype(dtype))
    k = axis_index(axis, len(aval_of(x).shape), ufunc.__name__)
    n = aval_of(x).shape[k]
    if ufunc in _ASSOCIATIVE:
        step = 1
        while step < n:
            moved = apply(slice_axis(x, k, 0, n - step), slice_axis(x, k, step, n))
            x = concatenate([slice_axis(x, k, 0, step), moved], k)
            step *= 2
    elif n > 1:
        _checked_length(ufunc, "accumulate", n)
        parts = [slice_axis(x, k, 0, 1)]
        for j in range(1, n):
            parts.append(apply(parts[-1], slice_axis(x, k, j, j + 1)))
        x = concatenate(parts, k)
    return deliver(x, out, ufunc.__name__)


def ufunc_reduceat(
    ufunc: np.ufunc, array: Array, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Array:
    """`np.add.reduceat(x, indices)` and its kin, for known indices."""
    out = out[0] if isinstance(out, tuple) else out
    x = operand(array, ufunc.__name__)
    k = axis_index(axis, len(aval_of(x).shape), ufunc.__name__)
    n = aval_of(x).shape[k]
    places = [int(i) for i in np.ravel(known(indices, f"{ufunc.__name__}.reduceat"))]
    if any(not 0 <= i < n for i in places):
        raise ShapeError(
            f"reduceat: an index of {places} is outside an axis of extent {n}",
            where=user_source() or None,
        )
    parts = []
    for start, stop in zip(places, [*places[1:], n], strict=True):
        part = slice_axis(x, k, start, max(stop, start + 1))
        parts.append(ufunc_reduce(ufunc, part, k, dtype, None, True))
    return deliver(concatenate(parts, k), out, ufunc.__name__)


def ufunc_outer(ufunc: np.ufunc, a: Array, b: Array, **kwargs: Any) -> Array:
    """`np.multiply.outer(a, b)` and its kin."""
    a, b = operand(a, ufunc.__name__), operand(b, ufunc.__name__)
    left, right = aval_of(a).shape, aval_of(b).shape
    wide = expand_dims(a, tuple(range(len(left), len(left) + len(right)))) if right else a
    return _binary(ufunc, "outer")(wide, b, **kwargs)


def ufunc_at(ufunc: np.ufunc, a: Array, indices: Any, b: Any = None) -> None:
    """`np.add.at(x, i, v)` and its kin, in place; every index counts, repeated ones too."""
    if not isinstance(a, Tracer):
        raise MutationError(
            f"np.{ufunc.__name__}.at would write a traced value into a plain NumPy array",
            where=user_source() or None,
            hint="make the array with stax.numpy.zeros or np.zeros(..., like=x)",
        )
    kind = _AT.get(ufunc)
    if kind is None:
        raise _unsupported(ufunc, "at")
    if kind in ("add", "sub", "mul"):
        _check_whole(ufunc, a, b)
    assign(a, written(a, indices, b, kind))


def _check_whole(ufunc: np.ufunc, a: Array, b: Any) -> None:
    """DtypeError for fractions that meet integers: NumPy cuts each result, not each value."""
    dtype = aval_of(a).dtype
    value = operand(b, f"{ufunc.__name__}.at")
    if dtype.kind not in "iu" or aval_of(value).dtype.kind not in "fc":
        return
    if not isinstance(value, Tracer) and np.all(value == np.trunc(np.real(value))):
        return
    raise DtypeError(
        f"np.{ufunc.__name__}.at of an array of {dtype} with fractions: what is cut off depends on "
        "the order of the writes",
        operands=[a, value],
        where=user_source() or None,
        hint=f"convert one of them: x.astype(float), or the values with .astype(np.{dtype})",
    )


UFUNC_METHODS.update(
    {
        "reduce": ufunc_reduce,
        "accumulate": ufunc_accumulate,
        "reduceat": ufunc_reduceat,
        "outer": ufunc_outer,
        "at": ufunc_at,
    }
)


def _method(ufunc: np.ufunc, name: str) -> Callable[..., Any]:
    traced, plain = UFUNC_METHODS[name], getattr(ufunc, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        if is_plain((*args, *kwargs.values())):
            return plain(*args, **kwargs)
        return traced(ufunc, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"`numpy.{ufunc.__name__}.{name}`, also on traced values."
    return method


def _at(ufunc: np.ufunc) -> Callable[..., Any]:
    write = _method(ufunc, "at")

    def at(a: Array, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        target = a if inplace else copy(a)
        write(*((target, indices) if b is None else (target, indices, b)))
        return None if inplace else target

    at.__doc__ = f"`numpy.{ufunc.__name__}.at`, or a changed copy with `inplace=False`."
    return at


for _ufunc, _function in ufuncs.functions().items():
    for _name in ("reduce", "accumulate", "reduceat", "outer"):
        setattr(_function, _name, _method(_ufunc, _name))
    _function.at = _at(_ufunc)  # type: ignore[attr-defined]  # as a ufunc has
    for _name in ("nin", "nout", "nargs", "identity", "ntypes", "types", "signature"):
        setattr(_function, _name, getattr(_ufunc, _name))
