"""NumPy indexing on traced values: reads, in-place writes, and the functional `.at[...]` writes.

Input: an index as NumPy takes it (integers, slices, None, Ellipsis, lists, integer and boolean
arrays, traced integers).  Output: static slices for the basic part, then one gather or scatter for
the array part.  Indices known while tracing are checked at once and need no check at run time;
traced ones are checked when they are used (mode "error"), unless another mode is asked for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import assign, record_view
from stax.core.source import user_source
from stax.core.trace import METHODS, Tracer, fresh
from stax.errors import (
    ConcretizationError,
    NonConcreteBooleanIndexError,
    OutOfBoundsError,
    ShapeError,
)
from stax.numpy.promotion import array_like, as_dtype, has_nested_tracer, stored
from stax.numpy.registration import broadcast_to_shape, converted, nested_array
from stax.primitives import elementwise as el
from stax.primitives.dynamic_slices import dynamic_update_slice
from stax.primitives.indexing import gather, scatter
from stax.primitives.shapes import iota, strided_slice
from stax.primitives.views import Shape, broadcast, reshape, rev, transpose

_UNIQUE_CHECK_LIMIT = 1 << 20
# Modes whose negative indices count from the end, and what the counted ones are read by.
COUNTED = {"clip_signed": "clip", "promise_signed": "promise"}


def _bad_index(message: str, kind: type[Any] = ShapeError, hint: str | None = None) -> Exception:
    error: Exception = kind(message, op="index", where=user_source() or None, hint=hint)
    return error


class BasicIndex:
    """Slices, static integers and new axes: a view of the array."""

    __slots__ = ("shape", "key", "start", "limit", "strides", "reverse", "inner", "result")

    def __init__(self, shape: Shape, items: Sequence[Any]) -> None:
        """`items` holds an int, a slice or None; the first two consume an axis each."""
        self.shape = shape
        self.key = tuple(items)
        start, limit, strides, reverse = [], [], [], []
        inner: list[int] = []
        result: list[int] = []
        axis = 0
        for item in items:
            if item is None:
                result.append(1)
                continue
            n = shape[axis]
            if isinstance(item, slice):
                if isinstance(item.step, int) and item.step == 0:
                    raise ShapeError("a slice's step cannot be zero", op="index")
                a, b, s = item.indices(n)
                count = len(range(a, b, s))
                if s < 0:
                    a, s = (a + (count - 1) * s if count else 0), -s
                    if count > 1:
                        reverse.append(axis)
                if count == 0:
                    a, b, s = 0, 0, 1
                else:
                    b = a + (count - 1) * s + 1
                if count == n:
                    s = 1
                result.append(count)
            else:
                a = item + n if item < 0 else item
                if not 0 <= a < n:
                    raise _bad_index(
                        f"index {item} is out of bounds for axis {axis} with size {n}",
                        OutOfBoundsError,
                    )
                b, s, count = a + 1, 1, 1
            start.append(a)
            limit.append(b)
            strides.append(s)
            inner.append(count)
            axis += 1
        self.start, self.limit, self.strides = tuple(start), tuple(limit), tuple(strides)
        self.reverse = tuple(reverse)
        self.inner, self.result = tuple(inner), tuple(result)

    def read(self, x: Any) -> Any:
        """The view of `x`."""
        y = strided_slice(x, self.start, self.limit, self.strides)
        return reshape(rev(y, self.reverse), self.result)

    def layout(self, array: Any) -> Any:
        """The view of a NumPy array."""
        return array[(*self.key, Ellipsis)]

    def write(self, x: Any, value: Any) -> Any:
        """A copy of `x` in which the view is `value`, of the view's shape."""
        value = rev(reshape(value, self.inner), self.reverse)
        if self.inner == self.shape:
            return value
        if not all(self.inner):
            return x
        if all(s == 1 for s in self.strides):
            return dynamic_update_slice(x, value, [np.int64(a) for a in self.start])
        axes = range(len(self.inner))
        index = []
        for k, (a, s) in enumerate(zip(self.start, self.strides, strict=True)):
            place = iota(self.inner, k)
            index.append(el.add(el.mul(place, np.int64(s)), np.int64(a)))
        return scatter(x, value, index, axes, "set", unique=True, mode="promise")


class ArrayIndex:
    """Integer arrays, after a basic index: a copy of selected elements."""

    __slots__ = ("basic", "axes", "adjacent", "index", "known", "mode", "unique", "perm")

    def __init__(
        self,
        basic: BasicIndex,
        axes: Sequence[int],
        index: Sequence[Any],
        adjacent: bool,
        mode: str,
        unique: bool,
    ) -> None:
        self.basic = basic
        self.axes = tuple(axes)
        self.adjacent = adjacent
        common = _common_shape(index)
        if mode in COUNTED:
            # Negative indices count from the end before anything else is said of them.
            index = [_from_front(i, basic.result[a]) for i, a in zip(index, axes, strict=True)]
            mode = COUNTED[mode]
        known = all(not isinstance(i, Tracer) for i in index)
        shape = basic.result
        if known:
            index, mode = _checked([np.asarray(i) for i in index], self.axes, shape, mode)
            unique = unique or _is_unique(index, self.axes, shape, common)
        self.known = index if known else None
        self.unique = unique or not common
        self.mode = mode
        self.index = [broadcast_to_shape(i, common) for i in index]
        # NumPy puts the index dimensions where the arrays stood when those stood together.
        lead = len(common)
        rest = len(shape) - len(self.axes)
        at = self.axes[0] if adjacent and self.axes else 0
        self.perm = (*range(lead, lead + at), *range(lead), *range(lead + at, lead + rest))

    def read(self, x: Any) -> Any:
        """The selected elements of `x`."""
        y = gather(self.basic.read(x), self.index, self.axes, self.mode)
        return transpose(y, self.perm)

    def write(self, x: Any, value: Any, kind: str) -> Any:
        """A copy of `x` with `value`, of the selection's shape, combined into the selection."""
        y = self.basic.read(x)
        value = transpose(value, np.argsort(self.perm).tolist())
        y = scatter(y, value, self.index, self.axes, kind, unique=self.unique, mode=self.mode)
        return self.basic.write(x, y)

    def further(self, what: str) -> Iterator[ArrayIndex]:
        """The places named a second time, then those named a third time, and so on.

        ShapeError where the indices are traced and might name a place twice.
        """
        if self.unique or math.prod(aval_of(self.index[0]).shape) == 1:
            return
        if self.known is None:
            raise ShapeError(
                "a place changes once for each time that an index names it, and how often traced "
                "indices do is not known",
                op=what,
                operands=[f"index {aval_of(i)}" for i in self.index],
                where=user_source() or None,
                hint="pass unique_indices=True where they name each place once, or write "
                "x.at[i].set(f(x[i])) to change each once",
            )
        places = np.stack([np.ravel(i) for i in np.broadcast_arrays(*self.known)])
        inverse = np.unique(places, axis=1, return_inverse=True)[1].reshape(-1)
        order = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse)
        turn = np.empty(order.size, np.int64)
        turn[order] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        for k in range(1, int(counts.max(initial=0))):
            now = list(places[:, turn == k])
            yield ArrayIndex(self.basic, self.axes, now, self.adjacent, self.mode, unique=True)

    @property
    def result(self) -> Shape:
        """Shape of the selection."""
        shape = self.basic.result
        common = aval_of(self.index[0]).shape
        full = common + tuple(n for k, n in enumerate(shape) if k not in self.axes)
        return tuple(full[p] for p in self.perm)


class MaskIndex:
    """One boolean mask over the leading axes, for writes of values that need no counting."""

    __slots__ = ("mask",)

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def spread(self, shape: Shape) -> Any:
        """The mask repeated over the trailing axes."""
        return broadcast(self.mask, shape, range(len(aval_of(self.mask).shape)))


def _from_front(i: Any, n: int) -> Any:
    if not isinstance(i, Tracer):
        i = np.asarray(i, np.int64)
        return np.where(i < 0, i + n, i)
    i = converted(i, np.dtype(np.int64))
    return el.select(el.lt(i, np.int64(0)), el.add(i, np.int64(n)), i)


def _common_shape(index: Sequence[Any]) -> Shape:
    shapes = [aval_of(i).shape for i in index]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise _bad_index(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            + " ".join(map(str, shapes)),
            OutOfBoundsError,
        ) from None


def _checked(index: list[Any], axes: Shape, shape: Shape, mode: str) -> tuple[list[Any], str]:
    """Known indices counted from the front; OutOfBoundsError for one outside."""
    out: list[Any] = []
    inside = True
    for i, axis in zip(index, axes, strict=True):
        n = shape[axis]
        i = i.astype(np.int64)
        if mode == "clip":
            i = np.clip(i, 0, max(n - 1, 0))
        elif mode == "wrap" and n:
            i = i % n
        else:
            i = np.where(i < 0, i + n, i)
        bad = (i < 0) | (i >= n)
        if bad.any():
            inside = False
            if mode in ("error", "promise"):
                raise _bad_index(
                    f"index {int(np.asarray(index[len(out)])[bad].flat[0])} is out of bounds for "
                    f"axis {axis} with size {n}",
                    OutOfBoundsError,
                )
            i = np.where(bad, n, i)
        out.append(i)
    return out, "promise" if inside else mode


def _is_unique(index: Sequence[Any], axes: Shape, shape: Shape, common: Shape) -> bool:
    count = math.prod(common)
    if count > _UNIQUE_CHECK_LIMIT or count == 0:
        return count == 0
    flat = np.zeros(common, np.int64)
    for i, axis in zip(index, axes, strict=True):
        flat = flat * shape[axis] + i
    return len(np.unique(flat)) == count


def _known(item: Any) -> Any:
    """The NumPy value of an index that is known while tracing, else the index itself."""
    if isinstance(item, Tracer):
        value = item.concrete()
        return item if value is None else np.asarray(value)
    return item


def parse_index(
    shape: Shape, index: Any, mode: str = "error", unique: bool = False, writing: bool = False
) -> BasicIndex | ArrayIndex | MaskIndex:
    """What `index` selects of an array of `shape`.

    Raises:
      OutOfBoundsError: a known index is outside, or there are more indices than axes.
      NonConcreteBooleanIndexError: a mask whose values are not known decides a shape.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_normal(item) for item in items]
    if writing and len(items) == 1 and _is_mask(items[0]):
        if aval_of(items[0]).shape != shape[: aval_of(items[0]).ndim]:
            raise _mask_mismatch(items[0], shape)
        return MaskIndex(items[0])
    used = 0
    for item in items:
        if item is None or item is Ellipsis:
            continue
        used += aval_of(item).ndim if _is_mask(item) else 1
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise _bad_index("an index can only have a single ellipsis ('...')", OutOfBoundsError)
    if used > len(shape):
        raise _bad_index(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed",
            OutOfBoundsError,
        )
    fill: list[Any] = [slice(None)] * (len(shape) - used)
    if ellipses:
        at = next(k for k, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = fill
    else:
        items += fill
    if mode != "error":
        items = _outside_as_arrays(shape, items)
    if all(item is None or isinstance(item, int | slice) for item in items):
        return BasicIndex(shape, items)
    return _array_index(shape, items, mode, unique)


def _outside_as_arrays(shape: Shape, items: Sequence[Any]) -> list[Any]:
    """The items with integers outside the array as 0-d arrays, whose mode says what they mean."""
    found, axis = [], 0
    for item in items:
        if type(item) is int and not -shape[axis] <= item < shape[axis]:
            item = np.asarray(item)
        found.append(item)
        if item is not None:
            axis += aval_of(item).ndim if _is_mask(item) else 1
    return found


def _normal(item: Any) -> Any:
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        try:
            return slice(*(None if v is None else operator.index(v) for v in _ends(item)))
        except ConcretizationError:
            raise _bad_index(
                "a slice with traced bounds has no static size",
                ConcretizationError,
                "use stax.lax.dynamic_slice(x, starts, sizes), or take the elements with "
                "x[start + np.arange(size)]",
            ) from None
    if isinstance(item, bool | np.bool_):
        return np.asarray(item)
    item = _known(item)
    if isinstance(item, Tracer):
        return _checked_kind(item)
    if isinstance(item, list | tuple) and has_nested_tracer(item):
        return _checked_kind(nested_array(list(item)))
    if isinstance(item, float | str):
        raise _bad_index(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays "
            f"are valid indices, not {item!r}",
            OutOfBoundsError,
        )
    if not hasattr(item, "dtype") and not isinstance(item, list | tuple | range):
        return operator.index(item)
    array = np.asarray(item)
    if array.size == 0 and not hasattr(item, "dtype"):
        array = array.astype(np.int64)
    _checked_kind(array)
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    return array


def _ends(item: slice) -> tuple[Any, Any, Any]:
    return item.start, item.stop, item.step


def _checked_kind(item: Any) -> Any:
    if aval_of(item).dtype.kind not in "iub":
        raise _bad_index(
            f"arrays used as indices must be of integer (or boolean) type, not "
            f"{aval_of(item).dtype}",
            OutOfBoundsError,
        )
    return item


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tracer | np.ndarray) and item.dtype.kind == "b"


def _mask_mismatch(mask: Any, shape: Shape) -> Exception:
    return _bad_index(
        f"boolean index did not match indexed array: the array has shape {shape}, the mask "
        f"{aval_of(mask).shape}",
        OutOfBoundsError,
    )


def _array_index(shape: Shape, items: list[Any], mode: str, unique: bool) -> ArrayIndex:
    """Split a mixed index into its basic part and index arrays over the axes that result."""
    basic: list[Any] = []
    axes: list[int] = []
    index: list[Any] = []
    runs = 0
    inside = False
    at = 0  # the axis of the array the next item consumes
    for item in items:
        if item is None or isinstance(item, slice):
            basic.append(item)
            at += item is not None
            inside = False
            continue
        runs += not inside
        inside = True
        if _is_mask(item):
            if isinstance(item, Tracer):
                raise _bad_index(
                    f"a boolean mask of type {item.aval} whose values are not known while tracing "
                    "was used as an index, so the shape of the result depends on values",
                    NonConcreteBooleanIndexError,
                    "use stax.numpy.where(mask, x, 0) (three arguments), a sum weighted by the "
                    "mask, x[mask] = value for writes, or x[:] = np.where(mask, x * 2, x) for "
                    "x[mask] *= 2",
                )
            if item.shape != shape[at : at + item.ndim]:
                raise _mask_mismatch(item, shape[at:])
            if item.ndim == 0:
                # A scalar truth adds an axis of extent one or zero.
                basic.append(None)
                axes.append(len(basic) - 1)
                index.append(np.zeros(int(item), np.int64))
                continue
            for positions in np.nonzero(item):
                basic.append(slice(None))
                axes.append(len(basic) - 1)
                index.append(positions)
            at += item.ndim
            continue
        basic.append(slice(None))
        axes.append(len(basic) - 1)
        index.append(item if isinstance(item, Tracer) else np.asarray(item))
        at += 1
    return ArrayIndex(BasicIndex(shape, basic), axes, index, runs == 1, mode, unique)


# --------------------------------------------------------------------------------------- reads


def _has_ellipsis(index: Any) -> bool:
    return index is Ellipsis or (isinstance(index, tuple) and any(i is Ellipsis for i in index))


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`; a view of `x` when the index is basic, but an element is a value of its own."""
    parsed = parse_index(x.shape, index)
    if isinstance(parsed, ArrayIndex):
        return parsed.read(x)
    assert isinstance(parsed, BasicIndex)
    if not parsed.result and not _has_ellipsis(index):
        return fresh(parsed.read(x))  # as NumPy's scalar, which writes to `x` do not reach
    return record_view(parsed.read(x), x, parsed.read, parsed.write, parsed.layout)


# -------------------------------------------------------------------------------------- writes


def fitted(value: Any, shape: Shape, dtype: Any) -> Any:
    """`value` as it is stored in a selection of `shape` and `dtype`."""
    value = array_like(value, "index")
    if not isinstance(value, Tracer):
        value = np.asarray(value).astype(dtype)
    have = aval_of(value).shape
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    if have != aval_of(value).shape:
        value = reshape(value, have)
    value = converted(value, dtype)
    if len(have) > len(shape) or any(
        n not in (1, m) for n, m in zip(have[::-1], shape[::-1], strict=False)
    ):
        raise _bad_index(
            f"shape mismatch: value array of shape {have} could not be broadcast to indexing "
            f"result of shape {shape}"
        )
    return broadcast_to_shape(value, shape)


_COMBINE = {
    "add": el.add,
    "mul": el.mul,
    "min": el.minimum,
    "max": el.maximum,
}


def combined(old: Any, new: Any, kind: str) -> Any:
    """The stored value after writing `new` over `old`."""
    if kind == "set":
        return new
    if old.dtype == np.bool_ and kind in ("add", "max"):
        return el.logical_or(old, new)
    if old.dtype == np.bool_:
        return el.logical_and(old, new)
    return _COMBINE[kind](old, new)


def written(
    x: Any, index: Any, value: Any, kind: str = "set", mode: str = "error", unique: bool = False
) -> Any:
    """A copy of `x` with `value` combined into the elements that `index` selects."""
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    if kind == "sub":  # negated in the array's dtype: in one of its own, uint8 2 would be 254
        value, kind = np.negative(as_dtype(array_like(value, "index"), dtype)), "add"
    parsed = parse_index(shape, index, mode, unique, writing=True)
    if isinstance(parsed, MaskIndex):
        trailing = shape[aval_of(parsed.mask).ndim :]
        have = aval_of(array_like(value, "index")).shape
        if len(have) <= len(trailing):
            value = broadcast_to_shape(fitted(value, trailing, dtype), shape)
            return el.select(parsed.spread(shape), combined(x, value, kind), x)
        parsed = parse_index(shape, index, mode, unique)
        assert not isinstance(parsed, MaskIndex)
    return put_at(x, parsed, value, kind)


def put_at(x: Any, parsed: BasicIndex | ArrayIndex, value: Any, kind: str = "set") -> Any:
    """A copy of `x` with `value` combined into the elements that an index selects."""
    dtype = aval_of(x).dtype
    if isinstance(parsed, BasicIndex):
        value = fitted(value, parsed.result, dtype)
        old = None if kind == "set" else parsed.read(x)
        return parsed.write(x, combined(old, value, kind))
    if dtype == np.bool_ and kind != "set":
        kind = {"add": "max", "mul": "min"}.get(kind, kind)
    return parsed.write(x, fitted(value, parsed.result, dtype), kind)


def setitem(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` on a traced value."""
    assign(x, written(x, index, stored(value, x.dtype, "assignment")))


METHODS["__getitem__"] = getitem
METHODS["__setitem__"] = setitem
