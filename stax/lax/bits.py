"""`stax.lax`, the bits of numbers: counting, shifting and reading them as another dtype.

Input: arrays or traced values of integers, for reading of any dtype.  Output: the same shape, but
for reading as a dtype of another width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Remote, aval_of
from stax.core.trace import Tracer, fresh
from stax.dtypes import is_integer
from stax.errors import DtypeError, ShapeError
from stax.numpy.promotion import array_like, asarray_dtype, check_kinds, coerce
from stax.primitives import casts, views
from stax.primitives import elementwise as el
from stax.primitives.families import literal

__all__ = [
    "bitcast_convert_type",
    "clz",
    "mulhi",
    "population_count",
    "shift_right_logical",
]


def population_count(x: Any) -> Any:
    """The number of one bits of an integer, in its own dtype.

    Raises:
      DtypeError: `x` is no array of integers.

    >>> population_count(np.array([7, 8, -1], np.int8))
    array([3, 1, 8], dtype=int8)
    """
    value = array_like(x, "population_count")
    check_kinds("population_count", "i", value)
    return el.population_count(value)


def clz(x: Any) -> Any:
    """The number of leading zero bits of an integer, in its own dtype.

    Raises:
      DtypeError: `x` is no array of integers.

    >>> clz(np.array([0, 1, 255], np.uint8))
    array([8, 7, 0], dtype=uint8)
    """
    value = array_like(x, "clz")
    check_kinds("clz", "i", value)
    dtype = aval_of(value).dtype
    bits = dtype.itemsize * 8
    spread = casts.bitcast(value, np.dtype(f"u{dtype.itemsize}"))
    step = 1
    while step < bits:  # every bit below the leading one is set
        spread = el.bitwise_or(spread, el.shift_right(spread, literal(step, spread)))
        step *= 2
    ones = el.population_count(spread)
    return casts.convert(el.sub(literal(bits, ones), ones), dtype)


def mulhi(x: Any, y: Any, /) -> Any:
    """The upper half of the product of two integers of one dtype, whose lower half is `x * y`.

    Raises:
      DtypeError: they are no integers, or of two dtypes.

    >>> int(mulhi(np.uint8(200), np.uint8(3)))
    2
    """
    a, b = coerce(array_like(x, "mulhi"), array_like(y, "mulhi"))
    dtype = aval_of(a).dtype
    operands = [str(aval_of(v)) for v in (x, y)]
    if not is_integer(dtype) or len({aval_of(v).dtype for v in (x, y)}) > 1:
        raise DtypeError("takes integers of one dtype", op="mulhi", operands=operands)
    bits = dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}8")
        product = el.mul(casts.convert(a, wide), casts.convert(b, wide))
        return casts.convert(el.shift_right(product, wide.type(bits)), dtype)
    # Four products of halves; the upper ones carry the sign.
    half, low = dtype.type(32), dtype.type(0xFFFFFFFF)
    (a1, a0), (b1, b0) = ((el.shift_right(v, half), el.bitwise_and(v, low)) for v in (a, b))
    unsigned = np.dtype(np.uint64)
    lowest = el.mul(casts.convert(a0, unsigned), casts.convert(b0, unsigned))
    carry = casts.convert(el.shift_right(lowest, np.uint64(32)), dtype)
    middle = el.add(el.mul(a1, b0), carry)
    other = el.add(el.mul(a0, b1), el.bitwise_and(middle, low))
    upper = el.add(el.mul(a1, b1), el.shift_right(middle, half))
    return el.add(upper, el.shift_right(other, half))


def shift_right_logical(x: Any, y: Any) -> Any:
    """The integers `x` shifted right by `y` bits, zeros coming in from the left.

    Raises:
      DtypeError: they are no integers.

    >>> shift_right_logical(np.array([-8], np.int8), np.int8(1))
    array([124], dtype=int8)
    """
    a, b = coerce(array_like(x, "shift_right_logical"), array_like(y, "shift_right_logical"))
    check_kinds("shift_right_logical", "i", a, b)
    dtype = aval_of(a).dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    shifted = el.shift_right(casts.bitcast(a, unsigned), casts.bitcast(b, unsigned))
    return casts.bitcast(shifted, dtype)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of `operand` read as another dtype.

    A narrower dtype gives a new last axis, the lowest bits first; a wider one takes the last axis.

    Raises:
      ShapeError: the last axis does not hold the parts of one wider element.
    """
    op = "bitcast_convert_type"
    x, target = array_like(operand, op), asarray_dtype(new_dtype)
    x = x if isinstance(x, Tracer | Remote) else np.asarray(x)
    shape, source = aval_of(x).shape, aval_of(x).dtype
    if source.itemsize == target.itemsize:
        return fresh(casts.bitcast(x, target))
    narrow, wide = sorted((source.itemsize, target.itemsize))
    parts, small, large = wide // narrow, np.dtype(f"u{narrow}"), np.dtype(f"u{wide}")
    shifts = 8 * narrow * np.arange(parts, dtype=large)
    if source.itemsize == wide:
        words = views.reshape(casts.bitcast(x, large), (*shape, 1))
        return casts.bitcast(casts.convert(el.shift_right(words, shifts), small), target)
    if shape[-1:] != (parts,):
        raise ShapeError(
            f"{source} of shape {shape} as {target}: the last axis must hold the {parts} parts of "
            "an element",
            op=op,
            operands=[str(aval_of(x))],
        )
    words = el.shift_left(casts.convert(casts.bitcast(x, small), large), shifts)
    return casts.bitcast(views.reduce_sum(words, [len(shape) - 1]), target)
