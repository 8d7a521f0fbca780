"""Choosing elements: where, select, clip, take, insert, delete, put, bincount, ...

Input: NumPy's arguments.  Output: selects, gathers and scatters.  Functions whose result shape
depends on values (nonzero, unique, ...) work where the values are known while tracing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import assign
from stax.core.source import user_source
from stax.core.trace import Tracer, as_traced, fresh
from stax.dtypes import DType, is_inexact
from stax.errors import ConcretizationError, DtypeError, MutationError, ShapeError
from stax.numpy.indexing import fitted, getitem, written
from stax.numpy.promotion import array_like, as_dtype, coerce, stored
from stax.numpy.rearranging import along
from stax.numpy.reductions import truth
from stax.numpy.registration import (
    axis_index,
    broadcast_to_shape,
    converted,
    deliver,
    implements,
    lines,
    nested_array,
    operand,
    refuse_unread,
)
from stax.primitives import elementwise as el
from stax.primitives import shapes as sh
from stax.primitives import views as vw
from stax.primitives.families import kind_of
from stax.primitives.indexing import gather
from stax.primitives.shapes import iota, scalar_zero

__all__ = [
    "argwhere",
    "bincount",
    "choose",
    "clip",
    "compress",
    "copyto",
    "delete",
    "extract",
    "fill_diagonal",
    "flatnonzero",
    "insert",
    "nonzero",
    "piecewise",
    "place",
    "put",
    "put_along_axis",
    "putmask",
    "select",
    "take",
    "take_along_axis",
    "where",
]

Array = Any
INT64 = np.dtype(np.int64)


def known_places(value: Any, op: str) -> Any:
    """The NumPy value of positions along an axis; an empty list has no dtype to go by."""
    places = known(value, op)
    return places.astype(np.int64) if places.size == 0 and not hasattr(value, "dtype") else places


def known(value: Any, op: str) -> Any:
    """The NumPy value of an argument that decides a shape.

    Raises:
      ConcretizationError: it is not known while tracing.
    """
    if not isinstance(value, Tracer):
        return np.asarray(value)
    found = value.concrete()
    if found is None:
        raise ConcretizationError(
            f"the result's shape depends on the values of a traced array of type {value.aval}",
            op=op,
            where=user_source() or None,
            hint=f"{_way_out(op)}, or call the function outside jit",
        )
    return np.asarray(found)


def _way_out(op: str) -> str:
    """What fixes the shape of an operation's result where its values are not known."""
    if op == "bincount":
        return "give the number of bins with minlength=, or stax.numpy.bincount(..., length=)"
    if op in _HAVE_SIZE:
        return (
            f"fix the shape: stax.numpy.{op}(..., size=n) cuts or fills the result; or use a mask "
            "with stax.numpy.where(mask, x, 0)"
        )
    return "use a mask with stax.numpy.where(mask, x, 0)"


# Operations that `stax.numpy` has with `size=`, which NumPy does not have (`sized.py`).
_HAVE_SIZE = frozenset(
    "argwhere compress extract flatnonzero intersect1d nonzero setdiff1d setxor1d union1d "
    "unique".split()
)


# --------------------------------------------------------------------------------------- where


@implements(np.where)
def where(condition: Array, x: Any = None, y: Any = None, /) -> Any:
    """`x` where the condition holds, else `y`; as `numpy.where`."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ShapeError("either both or neither of x and y should be given", op="where")
    mask = truth(operand(condition, "where"))
    a, b = coerce(array_like(x, "where"), array_like(y, "where"))
    return el.select(mask, a, b)


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """For each element the choice of the first condition that holds; as `numpy.select`."""
    if len(condlist) != len(choicelist):
        raise ShapeError("list of cases must be same length as list of conditions", op="select")
    if not len(condlist):
        raise ShapeError("select with an empty condition list is not possible", op="select")
    *choices, out = coerce(
        *(array_like(c, "select") for c in choicelist), array_like(default, "select")
    )
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        out = el.select(truth(operand(condition, "select")), choice, out)
    return out


@implements(np.choose)
def choose(a: Array, choices: Any, out: Any = None, mode: str = "raise") -> Array:
    """For each element the choice numbered by `a`; as `numpy.choose`."""
    index = operand(a, "choose")
    options = coerce(*(operand(c, "choose") for c in choices))
    shape = np.broadcast_shapes(aval_of(index).shape, *(aval_of(c).shape for c in options))
    options = [vw.reshape(broadcast_to_shape(c, shape), (1, *shape)) for c in options]
    index = broadcast_to_shape(index, shape)
    stacked = sh.concatenate(options, 0)
    places = [converted(index, INT64), *(iota(shape, k) for k in range(len(shape)))]
    how = {"raise": "error", "clip": "clip", "wrap": "wrap"}[mode]
    return deliver(gather(stacked, places, range(len(shape) + 1), how), out, "choose")


@implements(np.piecewise)
def piecewise(x: Array, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """A function given piece by piece; every piece is computed everywhere; as `numpy.piecewise`."""
    v = operand(x, "piecewise")
    conditions = condlist if isinstance(condlist, list | tuple) else [condlist]
    pieces = list(funclist)
    if len(pieces) == len(conditions):
        pieces.append(0)
    values = [f(v, *args, **kw) if callable(f) else f for f in pieces]
    out = broadcast_to_shape(as_dtype(array_like(values[-1], "piecewise"), v.dtype), v.shape)
    for condition, value in zip(conditions, values[:-1], strict=True):
        out = el.select(
            truth(operand(condition, "piecewise")),
            as_dtype(array_like(value, "piecewise"), v.dtype),
            out,
        )
    return out


def _end(name: str, value: Any, old: Any) -> Any:
    """An end of an interval by its name in the standard, or as NumPy's `a_min` and `a_max`."""
    value, old = (None if v is np._NoValue else v for v in (value, old))
    if value is not None and old is not None:
        raise ValueError(f"clip takes {name}= or a_{name}=, not both")
    return old if value is None else value


def _plain_clip(
    a: Any,
    min: Any = None,
    max: Any = None,
    out: Any = None,
    *,
    a_min: Any = None,
    a_max: Any = None,
    **kwargs: Any,
) -> Any:
    return np.clip(a, _end("min", min, a_min), _end("max", max, a_max), out, **kwargs)


@implements(_plain_clip, np.clip)
def clip(
    a: Array,
    min: Any = None,
    max: Any = None,
    out: Any = None,
    *,
    a_min: Any = None,
    a_max: Any = None,
    **kwargs: Any,
) -> Array:
    """`a` moved into an interval, either end of which may be left out; as `numpy.clip`.

    The ends pass the gradient.
    """
    refuse_unread("clip", {k: v for k, v in kwargs.items() if k != "where" or v is not True})
    low, high = _end("min", min, a_min), _end("max", max, a_max)
    x = array_like(a, "clip")
    # A Python integer past the end of an integer dtype bounds nothing, in NumPy too.
    dtype = aval_of(x).dtype
    if dtype.kind in "iu":
        if type(low) is int and low <= np.iinfo(dtype).min:
            low = None
        if type(high) is int and high >= np.iinfo(dtype).max:
            high = None
    bounds = [array_like(b, "clip") for b in (low, high) if b is not None]
    x, *ends = coerce(x, *bounds)
    if low is not None and high is not None:
        shape = np.broadcast_shapes(*(aval_of(v).shape for v in (x, *ends)))
        x = broadcast_to_shape(x, shape)
        value = el.clamp(ends[0], x, ends[1])
    elif low is not None:
        value = el.clamp(ends[0], x, _largest(x))
    elif high is not None:
        value = el.clamp(_smallest(x), x, ends[0])
    else:
        value = x
    return deliver(value, out, "clip")


def _largest(like: Any) -> Any:
    aval = aval_of(like)
    end = np.inf if is_inexact(aval.dtype) else np.iinfo(aval.dtype).max
    return end if aval.weak else aval.dtype.type(end)


def _smallest(like: Any) -> Any:
    aval = aval_of(like)
    end = -np.inf if is_inexact(aval.dtype) else np.iinfo(aval.dtype).min
    return end if aval.weak else aval.dtype.type(end)


# ---------------------------------------------------------------------------------------- take


def _take_mode(mode: str) -> str:
    names = {"raise": "error", "clip": "clip", "wrap": "wrap", "fill": "fill"}
    if mode not in names:
        raise ShapeError(f"mode {mode!r} is not one of {tuple(names)}", op="take")
    return names[mode]


def _index_array(indices: Any, op: str) -> Any:
    index = operand(nested_array(indices) if isinstance(indices, list | tuple) else indices, op)
    if not hasattr(indices, "dtype") and not isinstance(index, Tracer) and not aval_of(index).size:
        return np.zeros(aval_of(index).shape, np.int64)  # of an empty list
    if isinstance(index, Tracer) and index.concrete() is not None:
        index = np.asarray(index.concrete())
    return index


@implements(np.take)
def take(a: Array, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Array:
    """The elements at `indices` along `axis`; as `numpy.take`."""
    x, k = lines(operand(a, "take"), axis, "take")
    index = _index_array(indices, "take")
    how = _take_mode(mode)
    lead = (slice(None),) * k
    if how == "error":
        # An index that is one integer reads a view; `take` gives a copy, as NumPy's does.
        return deliver(fresh(getitem(x, (*lead, index))), out, "take")
    y = gather(x, [index], [k], how)
    n = len(aval_of(index).shape)
    perm = (*range(n, n + k), *range(n), *range(n + k, len(aval_of(y).shape)))
    return deliver(vw.transpose(y, perm), out, "take")


@implements(np.take_along_axis)
def take_along_axis(arr: Array, indices: Any, axis: Any = -1) -> Array:
    """`arr` read along `axis` at an index array of as many axes; as `numpy.take_along_axis`."""
    x = operand(arr, "take_along_axis")
    index = _index_array(indices, "take_along_axis")
    if axis is None:
        x, axis = vw.reshape(x, (aval_of(x).size,)), 0
    k = axis_index(axis, len(x.shape), "take_along_axis")
    return getitem(x, _along_index(x, index, k))


def _along_index(x: Array, index: Any, axis: int) -> tuple[Any, ...]:
    n = len(x.shape)
    if len(aval_of(index).shape) != n:
        raise ShapeError(
            "`indices` and `arr` must have the same number of dimensions", op="take_along_axis"
        )
    grid: list[Any] = []
    for k in range(n):
        if k == axis:
            grid.append(index)
        else:
            grid.append(np.arange(x.shape[k]).reshape([-1 if d == k else 1 for d in range(n)]))
    return tuple(grid)


def _check_traced(array: Any, name: str) -> None:
    """Refuse to write what is traced, a value or a place, into a plain array."""
    if not isinstance(array, Tracer):
        raise MutationError(
            "a traced value cannot be written into a plain NumPy array",
            op=name,
            operands=[str(aval_of(array))],
            where=user_source() or None,
            hint="make the array with stax.numpy.zeros or np.zeros(..., like=x)",
        )


@implements(np.put_along_axis)
def put_along_axis(arr: Array, indices: Any, values: Any, axis: Any) -> None:
    """Write into a traced array along `axis`; as `numpy.put_along_axis`."""
    _check_traced(arr, "put_along_axis")
    index = _index_array(indices, "put_along_axis")
    values = stored(values, arr.dtype, "put_along_axis")
    if axis is None:
        flat = vw.reshape(arr, (arr.size,))
        assign(arr, vw.reshape(written(flat, index, values), arr.shape))
        return
    k = axis_index(axis, len(arr.shape), "put_along_axis")
    assign(arr, written(arr, _along_index(arr, index, k), values))


@implements(np.put)
def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write at flat positions of a traced array; as `numpy.put`."""
    _check_traced(a, "put")
    index = _index_array(ind, "put")
    flat = vw.reshape(a, (a.size,))
    count = aval_of(index).size
    values = stored(v, a.dtype, "put")
    values = vw.reshape(values, (aval_of(values).size,))
    if values.shape[0] != count:
        values = along(values, np.resize(np.arange(values.shape[0]), count), 0)
    index = vw.reshape(index, (count,))
    assign(a, vw.reshape(written(flat, index, values, mode=_take_mode(mode)), a.shape))


@implements(np.compress)
def compress(condition: Any, a: Array, axis: Any = None, out: Any = None) -> Array:
    """The slices along `axis` for which a known condition holds; as `numpy.compress`."""
    x = operand(a, "compress")
    if axis is None:
        x, axis = vw.reshape(x, (aval_of(x).size,)), 0
    k = axis_index(axis, len(x.shape), "compress")
    return deliver(along(x, np.flatnonzero(known(condition, "compress")), k), out, "compress")


@implements(np.extract)
def extract(condition: Any, arr: Array) -> Array:
    """The elements where a known condition holds; as `numpy.extract`."""
    return compress(np.ravel(known(condition, "extract")), arr)


@implements(np.nonzero)
def nonzero(a: Array) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, of a value known while tracing."""
    return tuple(as_traced(i) for i in np.nonzero(known(a, "nonzero")))


@implements(np.flatnonzero)
def flatnonzero(a: Array) -> Array:
    """The flat indices of the elements that are not zero."""
    return as_traced(np.flatnonzero(known(a, "flatnonzero")))


@implements(np.argwhere)
def argwhere(a: Array) -> Array:
    """The indices of the elements that are not zero, one row each."""
    return as_traced(np.argwhere(known(a, "argwhere")))


@implements(np.insert)
def insert(arr: Array, obj: Any, values: Any, axis: Any = None) -> Array:
    """`arr` with values inserted before known positions; as `numpy.insert`."""
    x = operand(arr, "insert")
    if axis is None:
        x, axis = vw.reshape(x, (aval_of(x).size,)), 0
    k = axis_index(axis, len(x.shape), "insert")
    n = x.shape[k]
    # NumPy itself says where old and new elements go, from an array of positions.
    at = obj if isinstance(obj, slice) else known_places(obj, "insert")
    marks = np.insert(np.arange(n), at, -1)
    fresh = marks < 0
    count = int(fresh.sum())
    new = as_dtype(stored(values, x.dtype, "insert"), x.dtype)
    shape = (*x.shape[:k], count, *x.shape[k + 1 :])
    if not isinstance(at, slice) and np.ndim(at) == 0 and len(aval_of(new).shape) > 0:
        have = aval_of(new).shape
        have = (*(1,) * (len(shape) - len(have)), *have)
        new = vw.move_axis(vw.reshape(new, have), 0, k) if len(shape) > 1 else vw.reshape(new, have)
        count = max(count, new.shape[k])
        shape = (*x.shape[:k], count, *x.shape[k + 1 :])
        place = int(at) + n if int(at) < 0 else int(at)
        marks = np.insert(np.arange(n), [place] * count, -1)
        fresh = marks < 0
    new = broadcast_to_shape(new, shape)
    order = np.empty(n + count, np.int64)
    order[~fresh] = np.arange(n)
    # Several new elements at known places keep the order NumPy gives them.
    if isinstance(at, np.ndarray) and at.ndim and at.size > 1:
        order[fresh] = n + np.argsort(np.where(at < 0, at + n, at), kind="stable")
    else:
        order[fresh] = n + np.arange(count)
    return along(sh.concatenate([x, new], k), order, k)


@implements(np.delete)
def _delete(arr: Array, obj: Any, axis: Any = None) -> Array:
    x = operand(arr, "delete")
    if axis is None:
        x, axis = vw.reshape(x, (aval_of(x).size,)), 0
    k = axis_index(axis, len(x.shape), "delete")
    at = obj if isinstance(obj, slice) else known_places(obj, "delete")
    return along(x, np.delete(np.arange(x.shape[k]), at), k)


def delete(arr: Array, obj: Any, axis: Any = None, *, assume_unique_indices: bool = False) -> Array:
    """`arr` without the elements at known positions; as `numpy.delete`.

    `assume_unique_indices` is a promise that nothing here depends on.
    """
    return _delete(arr, obj, axis)


@implements(np.bincount)
def bincount(x: Array, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each integer occurs; `minlength`, or known values, decide the length."""
    index = operand(x, "bincount")
    length = operator.index(minlength)
    concrete = index.concrete() if isinstance(index, Tracer) else np.asarray(index)
    if concrete is not None:
        length = max(length, int(np.max(concrete, initial=-1)) + 1)
    elif not length:
        known(index, "bincount")
    if weights is None:
        values: Any = vw.broadcast(np.int64(1), index.shape)
    else:
        values = converted(operand(weights, "bincount"), np.dtype(np.float64))
    counts = vw.broadcast(scalar_zero(aval_of(values).dtype), (length,))
    return written(counts, index, values, "add")


@implements(np.fill_diagonal)
def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Write the diagonal of a traced array; as `numpy.fill_diagonal`."""
    _check_traced(a, "fill_diagonal")
    if len(a.shape) < 2:
        raise ShapeError("array must be at least 2-d", op="fill_diagonal")
    if len(a.shape) > 2 and len(set(a.shape)) > 1:
        raise ShapeError(
            "All dimensions of input must be of equal length",
            op="fill_diagonal",
            operands=[str(a.aval)],
            where=user_source() or None,
        )
    # Of a tall matrix with `wrap` the diagonal begins again below an empty row.
    size = math.prod(a.shape)
    end = size if wrap or len(a.shape) > 2 else min(size, a.shape[1] ** 2)
    step = 1 + sum(math.prod(a.shape[k:]) for k in range(1, len(a.shape)))
    places = np.unravel_index(np.arange(0, end, step), a.shape)
    n = len(places[0])
    values = stored(val, a.dtype, "fill_diagonal")
    values = vw.reshape(values, (aval_of(values).size,))
    if values.shape[0] != n:
        values = along(values, np.resize(np.arange(values.shape[0]), n), 0)
    assign(a, written(a, places, values))


def _check_cast(value: Any, dtype: DType, casting: str) -> None:
    """Refuse a copy that `casting` does not allow; a Python number counts by its kind alone."""
    have = aval_of(array_like(value, "copyto"))
    order = "bifc"
    by_kind = have.weak and casting in ("same_kind", "safe")
    if by_kind and order.index(kind_of(have.dtype)) <= order.index(kind_of(dtype)):
        return
    if not np.can_cast(have.dtype, dtype, casting):  # type: ignore[arg-type]  # casting is a str
        raise DtypeError(
            f"values of type {have} cannot be cast to {dtype} by the rule {casting!r}",
            op="copyto",
            where=user_source() or None,
            hint="pass casting='unsafe', or convert first with .astype",
        )


@implements(np.copyto)
def copyto(dst: Array, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Copy values into a traced array, where a condition holds; as `numpy.copyto`."""
    _check_traced(dst, "copyto")
    _check_cast(src, dst.dtype, casting)
    # Of Python's numbers only integers are weak to NumPy here.
    source = stored(src, dst.dtype, "copyto") if type(src) is int else operand(src, "copyto")
    value = fitted(source, dst.shape, dst.dtype)
    if where is not True:
        value = el.select(
            broadcast_to_shape(truth(operand(where, "copyto")), dst.shape), value, dst
        )
    assign(dst, value)


@implements(np.place)
def place(arr: Array, mask: Any, vals: Any) -> None:
    """Write values, one after the other, where a mask holds; as `numpy.place`."""
    _check_traced(arr, "place")
    source = stored(vals, arr.dtype, "place")
    count = aval_of(source).size
    where = operand(mask, "place")
    if aval_of(where).size != arr.size:
        raise ShapeError("place: mask and data must be the same size", operands=[arr, where])
    if not count:
        raise ShapeError("Cannot insert from an empty array!", op="place", operands=[source])
    chosen = vw.reshape(truth(where), arr.shape)
    turn = np.cumsum(vw.reshape(chosen, (arr.size,))) - 1
    new = getitem(vw.reshape(source, (count,)), np.remainder(turn, count))
    copyto(arr, vw.reshape(new, arr.shape), "unsafe", chosen)


@implements(np.putmask)
def putmask(a: Array, mask: Any, values: Any) -> None:
    """Write values where a mask holds; as `numpy.putmask`."""
    _check_traced(a, "putmask")
    source = stored(values, a.dtype, "putmask")
    flat = vw.reshape(source, (aval_of(source).size,))
    if flat.shape[0] != a.size:
        flat = along(flat, np.resize(np.arange(flat.shape[0]), a.size), 0)
    copyto(a, vw.reshape(flat, a.shape), "unsafe", mask)
