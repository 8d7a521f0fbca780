"""Bits, uniform floats, integers, and the draws that are one step from them.

Input: a key, a shape, a dtype and bounds.  Output: independent draws.  A float in [0, 1) takes as
many random bits as its mantissa has: they become a number in [1, 2), from which 1 is taken.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.dtypes import DType, is_complex, is_float, is_half, is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.numpy.promotion import asarray_dtype
from stax.primitives import elementwise as el
from stax.primitives.casts import bitcast, convert, stop_gradient
from stax.primitives.families import literal
from stax.primitives.shapes import slice_axis
from stax.primitives.views import broadcast, reshape
from stax.random import steps
from stax.random.keys import as_shape, check_key, hashed, split, words_of


def draw_dtype(op: str, dtype: Any, default: Any, kinds: str = "f") -> DType:
    """The dtype of a draw, of a kind in `kinds` (f, c, i, u).

    Raises:
      DtypeError: it is of another kind.
    """
    if isinstance(dtype, int | float | np.ndarray):
        raise DtypeError(
            f"dtype={dtype!r} names no dtype",
            op=op,
            where=user_source() or None,
            hint="give what follows the shape by name: dtype=, minval=, maxval=",
        )
    found = asarray_dtype(default if dtype is None else dtype)
    kind = "f" if is_float(found) else found.kind
    if kind not in kinds:
        words = {"f": "floating", "c": "complex", "i": "signed integer", "u": "unsigned integer"}
        wanted = " or ".join(words[k] for k in kinds)
        raise DtypeError(f"dtype must be {wanted}, got {found}", op=op)
    return found


def check_factored(op: str, dtype: DType) -> None:
    """Refuse draws whose matrices are factored in a dtype that linear algebra does not have.

    Raises:
      DtypeError: it is a half type.
    """
    if is_half(dtype):
        raise DtypeError(
            f"matrices of {dtype} are not factored",
            op=op,
            hint='draw with dtype="float32" and convert the result with .astype',
        )


def as_array(value: Any) -> Any:
    """A tracer or an array."""
    return value if isinstance(value, Tracer) else np.asarray(value)


def as_float(value: Any, dtype: DType) -> Any:
    """A parameter of a distribution in the dtype of the draw."""
    if not isinstance(value, Tracer):
        return np.asarray(value).astype(dtype)[()]
    return convert(value, dtype)


def draw_shape(op: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """`shape`, or the parameters' common shape when it is None; it must hold the parameters.

    Raises:
      ShapeError: the parameters do not broadcast to it.
    """
    shapes = [aval_of(as_array(p)).shape for p in parameters]
    wanted = None if shape is None else as_shape(op, shape)
    try:
        common = np.broadcast_shapes(*shapes)
        if wanted is None:
            return common
        if np.broadcast_shapes(wanted, common) == wanted:
            return wanted
    except ValueError:
        pass
    aim = "each other" if wanted is None else str(wanted)
    raise ShapeError(
        f"parameters of shapes {', '.join(map(str, shapes))} do not broadcast to {aim}",
        op=op,
    )


def float_info(dtype: DType) -> Any:
    """`np.finfo`, also of bfloat16."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # a class of C


# --------------------------------------------------------------------------------------- bits


def raw_bits(key: Any, shape: tuple[int, ...], width: int) -> Any:
    """Random words of 8, 16, 32 or 64 bits."""
    words = hashed(*words_of(key), shape, 64 if width == 64 else 32)
    return convert(words, np.dtype(f"u{width // 8}"))


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Uniformly random words, of an unsigned dtype; uint64 by default.

    Raises:
      DtypeError: another kind of dtype, or no key.

    >>> bits(stax.random.key(0), (2,), np.uint8).dtype
    dtype('uint8')
    """
    dtype = draw_dtype("bits", dtype, np.uint64, "u")
    return raw_bits(check_key(key, "bits"), as_shape("bits", shape), 8 * dtype.itemsize)


# ------------------------------------------------------------------------------------ uniform


def unit(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Uniform floats in [0, 1)."""
    width, mantissa = 8 * dtype.itemsize, int(float_info(dtype).nmant)
    drawn = 8 if mantissa < 8 else width
    word = np.dtype(f"u{width // 8}")
    random = convert(raw_bits(key, shape, drawn), word)
    one = np.ones((), dtype)
    exponent = el.bitwise_or(
        el.shift_right(random, word.type(drawn - mantissa)), one.view(word)[()]
    )
    return el.sub(bitcast(exponent, dtype), one[()])


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform floats in [minval, maxval).

    Args:
      shape: an int or several; the bounds, numbers or arrays, broadcast to it.
      dtype: a float one; float64 by default.

    Raises:
      DtypeError: `key` is no key, or the dtype no float.
      ShapeError: the bounds do not broadcast to the shape.

    >>> x = uniform(stax.random.key(0), (100,), minval=2.0, maxval=3.0)
    >>> bool(((x >= 2) & (x < 3)).all())
    True
    """
    dtype = draw_dtype("uniform", dtype, np.float64)
    shape = as_shape("uniform", shape)
    draw_shape("uniform", shape, minval, maxval)
    u = unit(check_key(key, "uniform"), shape, dtype)
    low, high = as_float(minval, dtype), as_float(maxval, dtype)
    plain = not isinstance(low, Tracer) and not isinstance(high, Tracer)
    if plain and np.all(low == 0) and np.all(high == 1):
        return u
    return stretched(u, low, high)


def stretched(u: Any, low: Any, high: Any) -> Any:
    """`u * (high - low) + low`, at least `low`."""
    return el.maximum(low, steps.fused(u, steps.sub(high, low), low))


# ----------------------------------------------------------------------------------- integers


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Uniform integers in [minval, maxval); int64 by default.

    Raises:
      ShapeError: a bound is a tuple or list, as where the shape is passed last, as NumPy has it.

    >>> x = randint(stax.random.key(0), (100,), 1, 7)
    >>> bool(((x >= 1) & (x < 7)).all())
    True
    """
    if isinstance(minval, tuple | list) or isinstance(maxval, tuple | list):
        raise ShapeError(
            f"minval={minval!r} and maxval={maxval!r} must be numbers or arrays",
            op="randint",
            where=user_source() or None,
            hint="the shape comes before the bounds: randint(key, shape, minval, maxval)",
        )
    final = draw_dtype("randint", dtype, np.int64, "iu")
    shape = as_shape("randint", shape)
    draw_shape("randint", shape, minval, maxval)
    info = np.iinfo(final)
    low, high = (_integers(v) for v in (minval, maxval))
    drawn = final
    if info.bits < 32:
        drawn = np.dtype(np.int32)
        low = _clipped(low, drawn, info.min, info.max)
        high = _clipped(high, drawn, info.min, info.max + 1)
    limit = np.iinfo(drawn).max
    beyond = _greater(high, limit)
    low, high = _clipped(low, drawn), _clipped(high, drawn)
    word = np.dtype(f"u{drawn.itemsize}")
    first, second = _two(split(check_key(key, "randint")))
    width = 8 * word.itemsize
    upper, lower = raw_bits(first, shape, width), raw_bits(second, shape, width)
    span = convert(el.sub(high, low), word)
    span = el.select(el.le(high, low), word.type(1), span)
    wider = el.logical_and(beyond, el.gt(high, low))
    span = el.select(wider, el.add(span, word.type(1)), span)
    # 2**width modulo the span, from 2**(width / 2); a span of 0 stands for all 2**width.
    factor = _remainder(word.type(2 ** (width // 2)), span)
    factor = _remainder(el.mul(factor, factor), span)
    offset = el.add(el.mul(_remainder(upper, span), factor), _remainder(lower, span))
    return convert(el.add(low, convert(_remainder(offset, span), drawn)), final)


def _integers(value: Any) -> Any:
    if isinstance(value, int) and value > np.iinfo(np.int64).max:
        return np.uint64(min(value, np.iinfo(np.uint64).max))
    value = as_array(value)
    return value if is_integer(value.dtype) else convert(value, np.dtype(np.int64))


def _clipped(value: Any, dtype: DType, low: int | None = None, high: int | None = None) -> Any:
    """Integers limited to what `dtype` holds (and to the bounds given), as `dtype`."""
    info, have = np.iinfo(dtype), np.iinfo(value.dtype)
    low = max(have.min, info.min if low is None else low)
    high = min(have.max, info.max if high is None else high)
    return convert(el.clamp(have.dtype.type(low), value, have.dtype.type(high)), dtype)


def _greater(value: Any, limit: int) -> Any:
    if limit >= np.iinfo(value.dtype).max:
        return np.False_
    return el.gt(value, value.dtype.type(limit))


def _remainder(x: Any, span: Any) -> Any:
    """`x` modulo `span`; `x` itself for a span of 0."""
    whole = el.eq(span, literal(0, span))
    return el.select(whole, x, el.mod(x, el.select(whole, literal(1, span), span)))


def _two(keys: Any) -> tuple[Any, Any]:
    return tuple(nth_key(keys, k) for k in (0, 1))


def nth_key(keys: Any, k: int) -> Any:
    """Key number `k` of those that `split` made."""
    if isinstance(keys, np.ndarray):
        return keys[k]
    return reshape(slice_axis(keys, 0, k, k + 1), (2,))


# ---------------------------------------------------------------------- normal and truth values


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard normal numbers; complex ones have unit variance in all.

    They are JAX's to the last bit, as its compiler computes them on CPUs that have fused
    multiply-add instructions (this function needs none).

    Args:
      shape: an int or several.
      dtype: a float or complex one; float64 by default.

    Raises:
      DtypeError: `key` is no key, or the dtype of another kind.

    >>> normal(stax.random.key(0), (2, 3), np.float32).shape
    (2, 3)
    """
    dtype = draw_dtype("normal", dtype, np.float64, "fc")
    key, shape = check_key(key, "normal"), as_shape("normal", shape)
    if not is_complex(dtype):
        return real_normal(key, shape, dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    re, im = (real_normal(k, shape, part) for k in _two(split(key)))
    root = 1 / math.sqrt(2)
    return el.complex_(steps.scaled(re, root), steps.scaled(im, root))


def symmetric(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Uniform floats in (-1, 1)."""
    one = np.ones((), dtype)
    low = np.nextafter(-one, np.zeros((), dtype))[()]
    return stretched(unit(key, shape, dtype), low, one[()])


def normal_over_root_two(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Normal numbers of variance 1/2."""
    return steps.erfinv(symmetric(key, shape, dtype))


def real_normal(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Standard normal numbers, by the inverse of the error function."""
    return steps.scaled(normal_over_root_two(key, shape, dtype), math.sqrt(2))


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Standard normal numbers between `lower` and `upper`, both left out.

    `shape` is the common one of the bounds by default, which must broadcast to it; otherwise as
    `normal`.

    >>> bool((abs(truncated_normal(stax.random.key(0), -2.0, 2.0, (100,))) < 2).all())
    True
    """
    dtype = draw_dtype("truncated_normal", dtype, np.float64)
    shape = draw_shape("truncated_normal", shape, lower, upper)
    key = check_key(key, "truncated_normal")
    low, high = as_float(lower, dtype), as_float(upper, dtype)
    root = 1 / math.sqrt(2)
    ends = (steps.erf(steps.scaled(v, root)) for v in (low, high))
    u = stretched(unit(key, shape, dtype), *ends)
    out = steps.scaled(steps.erfinv(u), math.sqrt(2))
    inside = el.nextafter(stop_gradient(low), literal(math.inf, low))
    below = el.nextafter(stop_gradient(high), literal(-math.inf, high))
    return el.clamp(broadcast(inside, shape), out, broadcast(below, shape))


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """True with probability `p`; mode "high" keeps very small probabilities apart.

    `shape` is that of `p` by default, which must broadcast to it.

    Raises:
      DtypeError: `p` is no float.
      ShapeError: another mode than "low" or "high".

    >>> bernoulli(stax.random.key(0), np.array([0.0, 1.0]))
    array([False,  True])
    """
    if mode not in ("low", "high"):
        raise ShapeError(f"mode is 'low' or 'high', not {mode!r}", op="bernoulli")
    p = as_array(p)
    if not is_inexact(p.dtype):
        raise DtypeError("p must be floating", op="bernoulli", operands=[str(aval_of(p))])
    shape = draw_shape("bernoulli", shape, p)
    key = check_key(key, "bernoulli")
    if mode == "low":
        return el.lt(unit(key, shape, p.dtype), p)
    pair = unit(key, (2, *shape), p.dtype)
    first, second = (reshape(slice_axis(pair, 0, k, k + 1), shape) for k in (0, 1))
    return el.lt(steps.scaled(second, 2.0 ** -int(float_info(p.dtype).nmant)), el.sub(p, first))


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """-1 or 1 with equal probability; int64 by default. Otherwise as `normal`.

    >>> bool((abs(rademacher(stax.random.key(0), (100,))) == 1).all())
    True
    """
    dtype = draw_dtype("rademacher", dtype, np.int64, "iufc")
    truth = convert(bernoulli(key, np.float64(0.5), as_shape("rademacher", shape)), dtype)
    return el.sub(el.mul(truth, literal(2, truth)), literal(1, truth))
