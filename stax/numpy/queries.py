"""Questions about arrays and dtypes: sizes, kinds, promotion, equality of whole arrays.

Input: arrays, traced values or dtypes.  Output: what NumPy answers.  Shapes and dtypes of traced
values are known, so these answers are plain Python objects; only `allclose`, `array_equal` and
`array_equiv` look at values and give traced Booleans.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import can_cast as _can_cast
from numpy import isdtype, promote_types

from stax.core.aval import aval_of
from stax.core.trace import ARRAY_FUNCTIONS, Tracer
from stax.dtypes import WEAK_EXEMPLARS, DType, issubdtype, promote
from stax.errors import ShapeError
from stax.numpy import reductions, ufuncs
from stax.numpy.elementwise import isclose
from stax.numpy.registration import implements, operand
from stax.primitives.families import broadcast_shape

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "can_cast",
    "iscomplexobj",
    "isdtype",
    "isrealobj",
    "isscalar",
    "issubdtype",
    "ndim",
    "promote_types",
    "result_type",
    "shape",
    "size",
]

Array = Any


@implements(np.ndim)
def ndim(a: Array) -> int:
    """The number of dimensions."""
    return len(aval_of(operand(a, "ndim")).shape)


@implements(np.shape)
def shape(a: Array) -> tuple[int, ...]:
    """The extents."""
    return aval_of(operand(a, "shape")).shape


@implements(np.size)
def size(a: Array, axis: Any = None) -> int:
    """The number of elements, or the extent of one axis."""
    aval = aval_of(operand(a, "size"))
    if axis is None:
        return aval.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([aval.shape[k] for k in axes], dtype=np.int64))


@implements(np.iscomplexobj)
def iscomplexobj(x: Array) -> bool:
    """Whether the dtype is complex."""
    return aval_of(operand(x, "iscomplexobj")).dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Array) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a scalar, or a traced value that stands for one."""
    return element.aval.weak if isinstance(element, Tracer) else np.isscalar(element)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of a combination of arrays, scalars and dtypes, under NumPy 2's rules."""
    found: list[Any] = []
    for item in arrays_and_dtypes:
        if isinstance(item, Tracer):
            aval = item.aval
            found.append(WEAK_EXEMPLARS[aval.dtype.kind] if aval.weak else aval.dtype)
        else:
            found.append(item)
    try:
        return np.result_type(*found)
    except TypeError:  # bfloat16 with a dtype NumPy cannot combine it with
        avals = [aval_of(np.empty((), f) if isinstance(f, np.dtype | type) else f) for f in found]
        return promote([a.dtype for a in avals if not a.weak], [a.dtype for a in avals if a.weak])


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast follows the casting rule."""
    return _can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


ARRAY_FUNCTIONS[np.result_type] = result_type
ARRAY_FUNCTIONS[np.can_cast] = can_cast


@implements(np.allclose)
def allclose(
    a: Array, b: Array, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, as in `isclose`."""
    return reductions.all_(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> Array:
    """Whether both have the same shape and the same elements."""
    x, y = operand(a1, "array_equal"), operand(a2, "array_equal")
    if aval_of(x).shape != aval_of(y).shape:
        return np.False_
    same = ufuncs.equal(x, y)
    if equal_nan:
        same = ufuncs.logical_or(same, ufuncs.logical_and(ufuncs.isnan(x), ufuncs.isnan(y)))
    return reductions.all_(same)


@implements(np.array_equiv)
def array_equiv(a1: Array, a2: Array) -> Array:
    """Whether both broadcast to one shape and have equal elements there."""
    x, y = operand(a1, "array_equiv"), operand(a2, "array_equiv")
    try:
        broadcast_shape("array_equiv", [aval_of(x), aval_of(y)])
    except ShapeError:
        return np.False_
    return reductions.all_(ufuncs.equal(x, y))
