"""Random bits from a state that the caller carries, and numbers from one that the process keeps.

Input: a state of four uint32 words (a key of 64 bits, then a counter of 64), a shape, a dtype.
Output: the bits, and the state with its counter moved past them.  Philox-4x32 gives four words a
count and Threefry-2x32 two; the numbers are those of XLA for the same state.  Programs draw from
keys with `stax.random`; these are the two functions of `jax.lax` beside that.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import is_float
from stax.errors import DtypeError, ShapeError
from stax.numpy.promotion import asarray_dtype
from stax.numpy.registration import operand, shape_tuple
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.random import U32, U64, threefry
from stax.primitives.shapes import concatenate, iota, slice_axis
from stax.primitives.views import broadcast, reshape
from stax.transforms.callbacks import io_callback
from stax.transforms.inspect import ShapeDtypeStruct

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]


class RandomAlgorithm(enum.IntEnum):
    """The generators of `rng_bit_generator`; the default is Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _low(x: Any) -> Any:
    return el.bitwise_and(x, _LOW)


def _high(x: Any) -> Any:
    return el.shift_right(x, _HALF)


def _philox(key: Any, counter: Any, count: int) -> Any:
    """`count` rows of four words, as uint64 below 2**32.  The key is the counter's upper half."""
    low = el.add(broadcast(counter, (count,)), iota((count,), 0, U64))
    upper = el.add(broadcast(key, (count,)), convert(el.lt(low, counter), U64))
    c = [_low(low), _high(low), _low(upper), _high(upper)]
    k = [_low(key), _high(key)]
    for _ in range(_ROUNDS):
        p, q = (el.mul(c[at], np.uint64(m)) for at, m in zip((0, 2), _MULTIPLIERS, strict=True))
        left = el.bitwise_xor(el.bitwise_xor(_high(q), c[1]), k[0])
        right = el.bitwise_xor(el.bitwise_xor(_high(p), c[3]), k[1])
        c = [left, _low(q), right, _low(p)]
        k = [_low(el.add(word, np.uint64(s))) for word, s in zip(k, _STEPS, strict=True)]
    return concatenate([reshape(word, (count, 1)) for word in c], 1)


def _threefry(key: Any, counter: Any, count: int) -> tuple[Any, Any]:
    """The first and second words of `count` pairs, as uint64 below 2**32."""
    at = el.add(broadcast(counter, (count,)), iota((count,), 0, U64))
    k0, k1, c0, c1 = (convert(v, U32) for v in (_low(key), _high(key), _low(at), _high(at)))
    pair = threefry(k0, k1, c0, c1, 64)
    return _high(pair), _low(pair)


def _philox_bits(key: Any, counter: Any, shape: tuple[int, ...], wide: bool) -> tuple[Any, int]:
    """Words (pairs of words, `wide`) in `shape`, row by row, and how far the counter moves."""
    size = math.prod(shape)
    wanted = 2 * size if wide else size
    count = -(-wanted // 4)
    flat = slice_axis(reshape(_philox(key, counter, count), (4 * count,)), 0, 0, wanted)
    if wide:
        pairs = reshape(flat, (size, 2))
        flat = _joined(*(slice_axis(pairs, 1, k, k + 1) for k in (0, 1)))
    return reshape(flat, shape), count


def _threefry_bits(key: Any, counter: Any, shape: tuple[int, ...], wide: bool) -> tuple[Any, int]:
    """The same of pairs, whose words are neighbours along one axis: the first even, or longest."""
    shape = shape or (1,)
    if wide:
        count = math.prod(shape)
        return reshape(_joined(*_threefry(key, counter, count)), shape), count
    longest = shape.index(max(shape))
    axis = next((k for k, extent in enumerate(shape) if extent % 2 == 0), longest)
    half = (*shape[:axis], -(-shape[axis] // 2), 1, *shape[axis + 1 :])
    parts = [reshape(v, half) for v in _threefry(key, counter, math.prod(half))]
    both = (*shape[:axis], 2 * half[axis], *shape[axis + 1 :])
    whole = reshape(concatenate(parts, axis + 1), both)
    return slice_axis(whole, axis, 0, shape[axis]), math.prod(half)


def _joined(low: Any, high: Any) -> Any:
    return el.bitwise_or(low, el.shift_left(high, _HALF))


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Any, Any]:
    """The next state and random bits of `shape`.

    Args:
      key: a state: uint32 of shape (4,), two words of key and two of counter, low words first.
      dtype: an unsigned integer; numbers of 8 and 16 bits are the low ones of 32.

    Raises:
      DtypeError, ShapeError: the state or the dtype is another.

    >>> state, bits = rng_bit_generator(np.arange(4, dtype=np.uint32), (2,))
    >>> state, bits
    (array([0, 1, 3, 3], dtype=uint32), array([ 895509795, 3230209149], dtype=uint32))
    """
    state, shape, dtype = operand(key, "rng_bit_generator"), shape_tuple(shape), np.dtype(dtype)
    aval = aval_of(state)
    if aval.dtype != U32 or aval.shape != (4,):
        kind = ShapeError if aval.dtype == U32 else DtypeError
        raise kind(
            "the state is four uint32 words: two of a key, two of a counter",
            op="rng_bit_generator",
            operands=[str(aval)],
            hint="to draw from a key of stax.random, use stax.random.bits(key, shape)",
        )
    if dtype.kind != "u":
        raise DtypeError(f"bits are unsigned integers, not {dtype}", op="rng_bit_generator")
    words = [convert(reshape(slice_axis(state, 0, k, k + 1), ()), U64) for k in range(4)]
    seed, counter = _joined(*words[:2]), _joined(*words[2:])
    draw = _threefry_bits if algorithm == RandomAlgorithm.RNG_THREE_FRY else _philox_bits
    bits, count = draw(seed, counter, shape, dtype.itemsize == 8)
    end = el.add(counter, np.uint64(count))
    moved = [reshape(convert(v, U32), (1,)) for v in (_low(end), _high(end))]
    state = concatenate([slice_axis(state, 0, 0, 2), *moved], 0)
    return state, reshape(convert(bits, dtype), shape)


_PROCESS = np.random.default_rng()


def rng_uniform(a: Any, b: Any, shape: Any) -> Any:
    """Uniform numbers in [a, b) from a generator of the process: others at every run.

    `a` and `b` are scalars of one floating or integer dtype.  A compiled program calls Python for
    it; `stax.random.uniform` with a key is faster, and gives the same numbers again.

    Raises:
      DtypeError, ShapeError: `a` and `b` are no scalars of one such dtype.

    >>> bool(np.all(rng_uniform(2.0, 3.0, (5,)) >= 2.0))
    True
    """
    low, high = operand(a, "rng_uniform"), operand(b, "rng_uniform")
    low_type, high_type = aval_of(low), aval_of(high)
    operands = [str(low_type), str(high_type)]
    if low_type.shape or high_type.shape:
        raise ShapeError("the bounds are scalars", op="rng_uniform", operands=operands)
    dtype = asarray_dtype(low_type.dtype)
    if dtype != high_type.dtype or not (is_float(dtype) or dtype.kind in "iu"):
        raise DtypeError(
            "the bounds are of one floating or integer dtype",
            op="rng_uniform",
            operands=operands,
        )
    shape = shape_tuple(shape)
    if not is_float(dtype):
        draw = lambda low, high: _PROCESS.integers(low, high, shape, dtype)
        return io_callback(draw, ShapeDtypeStruct(shape, dtype), low, high)
    unit = lambda _: _PROCESS.random(shape, np.float32 if dtype.itemsize < 8 else np.float64)
    wide = np.dtype(np.float32 if dtype.itemsize < 8 else np.float64)
    # The bound goes along so that every example of a batch has numbers of its own.
    u = convert(io_callback(unit, ShapeDtypeStruct(shape, wide), low), dtype)
    return el.add(el.mul(u, el.sub(high, low)), low)
