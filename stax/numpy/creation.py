"""Array creation that takes part in tracing: zeros, ones, full, arange, eye, array, ...

Input: NumPy's arguments.  Output: plain NumPy arrays when no transformation runs; inside one,
traced values, so that in-place writes of traced values into them work.  Fills are one literal
repeated and ranges are an `iota`, so neither occupies memory in a compiled program.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Remote, aval_of
from stax.core.keys import takes_keys
from stax.core.source import user_source
from stax.core.trace import (
    ARRAY_FUNCTIONS,
    EVAL,
    STATE,
    Tracer,
    as_traced,
    fresh,
)
from stax.dtypes import DType
from stax.errors import ConfigurationError, ShapeError
from stax.numpy.manipulation import diagonal, moveaxis
from stax.numpy.promotion import (
    array_like,
    as_dtype,
    asarray_dtype,
    coerce,
    has_nested_tracer,
    stored,
    strong,
)
from stax.numpy.rearranging import pad
from stax.numpy.registration import (
    axis_index,
    broadcast_to_shape,
    check_device,
    converted,
    implements,
    nested_array,
    operand,
    shape_tuple,
)
from stax.primitives import elementwise as el
from stax.primitives.shapes import concatenate, iota, scalar_zero
from stax.primitives.views import broadcast, reshape

__all__ = [
    "arange",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "astype",
    "copy",
    "diag",
    "diagflat",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "geomspace",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "vander",
    "zeros",
    "zeros_like",
]

Array = Any
INT64 = np.dtype(np.int64)


def creates(*functions: Any) -> Callable[[Any], Any]:
    """Make the decorated function the traced version of creation functions.

    NumPy's own runs when no transformation does; `like=` chooses nothing here.
    """
    plain = functions[0]

    def decorate(traced: Any) -> Any:
        @functools.wraps(traced)
        def public(*args: Any, **kwargs: Any) -> Any:
            like = kwargs.pop("like", None)
            if STATE.trace is EVAL and not isinstance(like, Tracer):
                return plain(*args, **kwargs)
            check_device(kwargs.pop("device", None), plain.__name__)
            return as_traced(traced(*args, **kwargs))

        for function in functions:
            ARRAY_FUNCTIONS[function] = public
        return public

    return decorate


def _filled(shape: Any, value: Any, dtype: DType) -> Array:
    return broadcast(np.asarray(value).astype(dtype)[()], shape_tuple(shape))


@creates(np.zeros)
def zeros(
    shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """An array of zeros."""
    return _filled(shape, 0, asarray_dtype(dtype or float))


@creates(np.ones)
def ones(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """An array of ones."""
    return _filled(shape, 1, asarray_dtype(dtype or float))


@creates(np.empty)
def empty(
    shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """An array to be written to; zeros while tracing."""
    return _filled(shape, 0, asarray_dtype(dtype or float))


@creates(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Array:
    value = operand(fill_value, "full")
    if dtype is not None:
        value = as_dtype(value, asarray_dtype(dtype))
    return broadcast_to_shape(value, shape_tuple(shape))


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Array:
    """An array filled with one value, which may be traced."""
    if isinstance(fill_value, Tracer):
        check_device(device, "full")
        return as_traced(_full.__wrapped__(shape, fill_value, dtype))
    return _full(shape, fill_value, dtype, order, device=device, like=like)


ARRAY_FUNCTIONS[np.full] = full


def _like(name: str, plain: Any, value: Any) -> Any:
    @implements(plain)
    def public(
        a: Array,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        device: Any = None,
    ) -> Array:
        check_device(device, name)
        aval = aval_of(operand(a, name))
        kind = aval.dtype if dtype is None else asarray_dtype(dtype)
        return as_traced(_filled(aval.shape if shape is None else shape, value, kind))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"An array of the shape and dtype of `a`; as `numpy.{name}`."
    return public


zeros_like = _like("zeros_like", np.zeros_like, 0)
ones_like = _like("ones_like", np.ones_like, 1)
empty_like = _like("empty_like", np.empty_like, 0)


@implements(np.full_like)
def full_like(
    a: Array,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    device: Any = None,
) -> Array:
    """An array of the shape and dtype of `a` filled with one value."""
    check_device(device, "full_like")
    aval = aval_of(operand(a, "full_like"))
    kind = aval.dtype if dtype is None else asarray_dtype(dtype)
    value = as_dtype(stored(fill_value, kind, "full_like"), kind)
    return as_traced(broadcast_to_shape(value, aval.shape if shape is None else shape_tuple(shape)))


# -------------------------------------------------------------------------- from existing values


@takes_keys
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Array:
    """An array of `object`, which may be a nest of lists of traced values; as `numpy.array`."""
    if isinstance(object, Remote):
        object = as_traced(object)
        if isinstance(object, Remote):
            value = object if dtype is None else as_dtype(object, asarray_dtype(dtype))
            lead = (1,) * (ndmin - len(object.shape))
            return reshape(value, (*lead, *object.shape)) if lead else value
    if STATE.trace is EVAL and not has_nested_tracer(object) and not isinstance(like, Tracer):
        return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)  # type: ignore[call-overload]  # order is a str
    value = nested_array(object) if isinstance(object, list | tuple) else object
    if not isinstance(value, Tracer):
        value = np.asarray(value, None if dtype is None else asarray_dtype(dtype))
    elif dtype is not None:
        value = converted(value, asarray_dtype(dtype))
    have = aval_of(value).shape
    if len(have) < ndmin:
        value = reshape(value, (*(1,) * (ndmin - len(have)), *have))
    value = as_traced(value)
    return fresh(value) if copy and value is object else value


@takes_keys
def asarray(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    like: Any = None,
) -> Array:
    """`a` as an array, without a copy where that can be; as `numpy.asarray`."""
    check_device(device, "asarray")
    plain = STATE.trace is EVAL and not isinstance(a, Remote)
    if plain and not has_nested_tracer(a) and not isinstance(like, Tracer):
        return np.asarray(a, dtype, order, copy=copy)
    value = array(a, dtype, copy=bool(copy))
    if copy is not None and not copy and value is not a:
        raise ConfigurationError(
            "asarray needs a copy, which copy=False forbids",
            op="asarray",
            operands=[a] if isinstance(a, Tracer) else (),
            where=user_source() or None,
            hint="leave copy= out, or pass an array that has the dtype already",
        )
    return value


asanyarray = asarray
for _plain, _ours in (
    (np.array, array),
    (np.asarray, asarray),
    (np.asanyarray, asarray),
    (np.ascontiguousarray, asarray),
    (np.asfortranarray, asarray),
    (np.require, asarray),
):
    ARRAY_FUNCTIONS[_plain] = _ours


# How `stax.from_dlpack` shares arrays on devices, once that module is there.
DLPACK_HOOK: list[Callable[..., Any]] = []


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The array behind an object with `__dlpack__`, sharing its memory; as `numpy.from_dlpack`.

    An array on a CUDA device becomes a `stax.DeviceArray`; see `stax.from_dlpack`.
    """
    for hook in DLPACK_HOOK:
        return hook(x, device=device, copy=copy)
    return as_traced(np.from_dlpack(x, device=device, copy=copy))


@implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """`a` as a row-major array of at least one dimension."""
    value = asarray(a, dtype)
    return value if value.shape else reshape(value, (1,))


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """A copy of `a`, which writes to `a` do not reach; as `numpy.copy`."""
    return fresh(as_traced(operand(a, "copy")))


@implements(np.astype, shares=True)
def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """`x` as `dtype`; as `numpy.astype`."""
    check_device(device, "astype")
    value = operand(x, "astype")
    kind = asarray_dtype(dtype)
    if aval_of(value).dtype == kind and not aval_of(value).weak:
        return fresh(value) if copy else value
    return converted(value, kind)


# --------------------------------------------------------------------------------------- ranges


@creates(np.arange)
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    like: Any = None,
) -> Array:
    """Evenly spaced values in a half-open range, whose bounds are static; as `numpy.arange`."""
    start, stop, step = (v.item() if isinstance(v, Tracer) else v for v in (start, stop, step))
    if stop is None:
        start, stop = 0, start
    values = [np.asarray(v)[()] for v in (start, stop, step) if v is not None]
    plain = np.arange(
        *(v for v in (start, stop, step) if v is not None)
        if start is not None
        else (0, stop, 1 if step is None else step),
        dtype=dtype,
    )
    kind = plain.dtype
    if kind.kind not in "iu" or not len(plain) or not all(v.dtype.kind in "iub" for v in values):
        return plain
    first = int(plain[0])
    stride = int(plain[1]) - first if len(plain) > 1 else 1
    out = iota((len(plain),), 0, kind)
    if stride != 1:
        out = el.mul(out, kind.type(stride))
    return el.add(out, kind.type(first)) if first else out


@creates(np.eye)
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Array:
    """Ones on a diagonal and zeros elsewhere; as `numpy.eye`."""
    n = operator.index(N)
    shape = (n, n if M is None else operator.index(M))
    return converted(_diagonal_mask(shape, k), asarray_dtype(dtype or float))


def _diagonal_mask(shape: tuple[int, int], k: int) -> Array:
    return el.eq(el.add(iota(shape, 0), np.int64(k)), iota(shape, 1))


@creates(np.identity)
def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix; as `numpy.identity`."""
    return converted(_diagonal_mask((n, n), 0), asarray_dtype(dtype or float))


@creates(np.tri)
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Array:
    """Ones on and below a diagonal; as `numpy.tri`."""
    return converted(lower_mask((N, N if M is None else M), k), asarray_dtype(dtype or float))


def lower_mask(shape: Sequence[int], k: int) -> Array:
    """True on and below the k-th diagonal of the last two axes of `shape`."""
    n = len(shape)
    return el.ge(el.add(iota(shape, n - 2), np.int64(k)), iota(shape, n - 1))


@implements(np.tril)
def tril(m: Array, k: int = 0) -> Array:
    """`m` with the elements above the k-th diagonal zeroed; as `numpy.tril`."""
    x = operand(m, "tril")
    return el.select(_triangle(x, k, "tril"), x, scalar_zero(x.dtype))


@implements(np.triu)
def triu(m: Array, k: int = 0) -> Array:
    """`m` with the elements below the k-th diagonal zeroed; as `numpy.triu`."""
    x = operand(m, "triu")
    return el.select(_triangle(x, k - 1, "triu"), scalar_zero(x.dtype), x)


def _triangle(x: Array, k: int, op: str) -> Array:
    """The elements of `x` on or below a diagonal; a vector stands for equal rows."""
    if not x.shape:
        raise ShapeError("needs an array with axes", op=op, operands=[x])
    return lower_mask((*x.shape, *x.shape)[-2:] if len(x.shape) == 1 else x.shape, k)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Evenly spaced values between bounds that may be traced; as `numpy.linspace`."""
    check_device(device, "linspace")
    # Python numbers are weak, also next to a float32.
    ends = coerce(array_like(start, "linspace"), array_like(stop, "linspace"), 1.0)[:2]
    a, b = (strong(v) for v in ends)
    shape = np.broadcast_shapes(aval_of(a).shape, aval_of(b).shape)
    kind = aval_of(a).dtype
    count = operator.index(num)
    parts = count - 1 if endpoint else count
    spread = (count, *(1,) * len(shape))
    place = converted(iota(spread, 0), kind)
    width = el.sub(b, a)
    step = el.div(width, kind.type(max(parts, 1)))
    out = el.add(el.mul(place, step), a)
    if endpoint and count > 1:
        last = el.eq(iota(spread, 0), np.int64(count - 1))
        out = el.select(
            broadcast_to_shape(last, (count, *shape)), broadcast_to_shape(b, (count, *shape)), out
        )
    out = broadcast_to_shape(out, (count, *shape))
    if dtype is not None:
        target = asarray_dtype(dtype)
        out = converted(out if target.kind not in "iu" else _floored(out), target)
    if axis:
        out = moveaxis(out, 0, axis_index(axis, len(shape) + 1, "linspace"))
    return (out, step) if retstep else out


def _floored(x: Array) -> Array:
    return el.floor(x)


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Powers of `base` with evenly spaced exponents; as `numpy.logspace`."""
    exponents = linspace(start, stop, num, endpoint, False, None, axis)
    out = np.power(base, exponents)
    return out if dtype is None else converted(out, asarray_dtype(dtype))


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Array:
    """Values evenly spaced on a log scale, for positive bounds; as `numpy.geomspace`."""
    wide = np.zeros((), asarray_dtype(dtype or float))[()]
    ends = coerce(operand(start, "geomspace"), operand(stop, "geomspace"), wide, 1.0)
    start, stop = ends[:2]
    out = np.exp(linspace(np.log(start), np.log(stop), num, endpoint, False, None, axis))
    return out if dtype is None else converted(out, asarray_dtype(dtype))


@implements(np.meshgrid)
def meshgrid(
    *xi: Array, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Coordinate arrays from coordinate vectors; as `numpy.meshgrid`."""
    if indexing not in ("xy", "ij"):
        raise ShapeError("valid values for `indexing` are 'xy' and 'ij'", op="meshgrid")
    vectors = [operand(x, "meshgrid") for x in xi]
    n = len(vectors)
    sizes = [aval_of(v).size for v in vectors]
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    full_shape = [0] * n
    for place, size in zip(places, sizes, strict=True):
        full_shape[place] = size
    out = []
    for vector, place, size in zip(vectors, places, sizes, strict=True):
        if sparse:
            out.append(reshape(vector, [size if d == place else 1 for d in range(n)]))
        else:
            out.append(broadcast(reshape(vector, (size,)), full_shape, (place,)))
    return tuple(fresh(v) if copy else v for v in out)


@creates(np.indices)
def _indices(dimensions: Any, dtype: Any = int) -> Array:
    shape = shape_tuple(dimensions)
    kind = asarray_dtype(dtype)
    return concatenate([reshape(iota(shape, k, kind), (1, *shape)) for k in range(len(shape))], 0)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Arrays of the indices of a grid; as `numpy.indices`."""
    if sparse:
        return np.indices(dimensions, dtype, sparse=True)
    return _indices(dimensions, dtype)


@implements(np.diag)
def diag(v: Array, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with that diagonal; as `numpy.diag`."""
    x = operand(v, "diag")
    if len(x.shape) == 2:
        return diagonal(x, k)
    if len(x.shape) != 1:
        raise ShapeError("input must be 1- or 2-d", op="diag", operands=[x])
    n = x.shape[0] + abs(k)
    mask = _diagonal_mask((n, n), k)
    column = pad(x, (max(k, 0), max(-k, 0)))
    return el.select(mask, broadcast(column, (n, n)), scalar_zero(x.dtype))


@implements(np.diagflat)
def diagflat(v: Array, k: int = 0) -> Array:
    """A matrix with the flattened input on its k-th diagonal; as `numpy.diagflat`."""
    x = operand(v, "diagflat")
    return diag(reshape(x, (aval_of(x).size,)), k)


@implements(np.vander)
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of a vector as columns; as `numpy.vander`."""
    v = operand(x, "vander")
    if len(v.shape) != 1:
        raise ShapeError("x must be a one-dimensional array", op="vander", operands=[v])
    n = v.shape[0] if N is None else N
    v = converted(v, np.promote_types(v.dtype, INT64))
    one = broadcast(np.ones((), v.dtype)[()], v.shape)
    columns = [one]
    for _ in range(n - 1):
        columns.append(el.mul(columns[-1], v))
    columns = columns[:n] if increasing else columns[:n][::-1]
    if not columns:
        return _filled((v.shape[0], 0), 0, v.dtype)
    return concatenate([reshape(c, (v.shape[0], 1)) for c in columns], 1)
