"""Keys: making them, splitting them, folding numbers in.

Input: an integer seed, or a key.  Output: keys, of the kind given: `key` makes arrays of their own
dtype (`KeyArray`), `PRNGKey` pairs of uint32 words on a last axis.  The same key always gives the
same numbers, and keys split from one key are independent.  Child `i` of a key is the hash of the
counter `i` under it, so splitting is one elementwise operation.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.keys import KeyArray, words_of_keys
from stax.core.trace import Tracer
from stax.dtypes import is_integer
from stax.errors import DtypeError, ShapeError, StaxError
from stax.primitives.casts import convert
from stax.primitives.elementwise import bitwise_and, bitwise_or, shift_left, shift_right
from stax.primitives.random import U32, U64, threefry
from stax.primitives.shapes import concatenate, iota, slice_axis
from stax.primitives.views import reshape

IMPLEMENTATION = "threefry2x32"


def as_shape(op: str, shape: Any) -> tuple[int, ...]:
    """`shape` as a tuple of ints; one int is a shape of one axis.

    Raises:
      DtypeError: it holds something else than integers.
      ShapeError: a length is negative.
    """
    many = shape.ndim > 0 if isinstance(shape, np.ndarray) else isinstance(shape, Sequence)
    many = many and not isinstance(shape, str)
    try:
        lengths = tuple(operator.index(n) for n in (shape if many else (shape,)))
    except StaxError:  # a traced length, which says so
        raise
    except TypeError as error:
        raise DtypeError(
            f"a shape is an integer or a sequence of integers, not {shape!r}",
            op=op,
            hint="the dtype follows the shape, or give it by name: dtype=",
        ) from error
    if any(n < 0 for n in lengths):
        raise ShapeError(f"shape {shape} has a negative length", op=op)
    return lengths


def check_key(key: Any, op: str) -> Any:
    """`key`, of either kind, as the pair of words it must be.

    Raises:
      DtypeError, ShapeError: it is not one key.
    """
    if isinstance(key, KeyArray):
        if key.shape:
            raise ShapeError(
                f"one key has shape (), got keys of shape {key.shape}",
                op=op,
                hint="map over several keys with stax.vmap",
            )
        return _pair(words_of_keys(key))
    if not isinstance(key, Tracer):
        key = np.asarray(key)
    aval = aval_of(key)
    if aval.dtype != U32:
        raise DtypeError(
            f"a key is what random.key gives, or two uint32 words; got {aval}",
            op=op,
            operands=[str(aval)],
            hint="make one with stax.random.key(seed)",
        )
    if aval.shape != (2,):
        hint = "make one with stax.random.key(seed)"
        if aval.shape[-1:] == (2,):
            hint = "map over several keys with stax.vmap"
        raise ShapeError(
            f"one key has shape (2,), got {aval.shape}", op=op, operands=[str(aval)], hint=hint
        )
    return key


def words_of(key: Any) -> tuple[Any, Any]:
    """The two words of a key, each 0-d."""
    if isinstance(key, np.ndarray):
        return key[0], key[1]
    return tuple(reshape(slice_axis(key, 0, k, k + 1), ()) for k in (0, 1))


def _pair(pair: Any) -> Any:
    """The halves of 64-bit words, on a last axis."""
    shape = (*aval_of(pair).shape, 1)
    high = convert(shift_right(pair, np.uint64(32)), U32)
    low = convert(bitwise_and(pair, np.uint64(0xFFFFFFFF)), U32)
    return concatenate([reshape(high, shape), reshape(low, shape)], len(shape) - 1)


def _seeded(seed: Any, impl: Any) -> Any:
    """The 64-bit word of the key of a seed."""
    if impl not in (None, IMPLEMENTATION):
        raise DtypeError(f"the only generator is {IMPLEMENTATION}, not {impl!r}", op="key")
    if isinstance(seed, bool | np.bool_):
        seed = int(seed)
    if isinstance(seed, int):
        seed = np.int64(seed)
    elif not isinstance(seed, Tracer):
        seed = np.asarray(seed)
    aval = aval_of(seed)
    if not is_integer(aval.dtype):
        raise DtypeError("a seed is an integer", op="key", operands=[str(aval)])
    if aval.shape != ():
        raise ShapeError(
            "a seed is one integer",
            op="key",
            operands=[str(aval)],
            hint="map over several seeds with stax.vmap(stax.random.key)",
        )
    if aval.dtype.itemsize < 8:
        seed = convert(seed, U32)  # a narrow seed is its own low word, whatever its sign
    return convert(seed, U64)


def PRNGKey(seed: Any, *, impl: str | None = None) -> Any:
    """The key of an integer seed, as its high and low 32 bits: an array of two uint32 words.

    Raises:
      DtypeError: the seed is not an integer.
      OverflowError: a Python integer needs more than 64 bits.
    """
    return _pair(_seeded(seed, impl))


def key(seed: Any, *, impl: str | None = None) -> KeyArray:
    """The key of an integer seed, as an array of no axes and the dtype `key<fry>`.

    It gives the numbers of `PRNGKey(seed)`, and is no array of numbers: it can be indexed,
    stacked, chosen and passed through transformations, and nothing can be added to it.

    Raises:
      DtypeError: the seed is not an integer.
      OverflowError: a Python integer needs more than 64 bits.

    >>> key(0).shape, key(0).dtype, split(key(0), 3).shape
    ((), key<fry>, (3,))
    """
    return _keys(_seeded(seed, impl))


def _keys(words: Any) -> KeyArray:
    return KeyArray(words if isinstance(words, Tracer) else np.asarray(words))


def _like(key: Any, words: Any) -> Any:
    """Keys of 64-bit words, of the kind of `key`."""
    return _keys(words) if isinstance(key, KeyArray) else _pair(words)


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """`num` independent keys (an int or a shape) of the kind of `key`.

    Raises:
      DtypeError, ShapeError: `key` is not one key.

    >>> split(key(0), 3).shape, split(PRNGKey(0), (2, 3)).shape
    ((3,), (2, 3, 2))
    """
    k0, k1 = words_of(check_key(key, "split"))
    return _like(key, hashed(k0, k1, as_shape("split", num), 64))


def fold_in(key: Any, data: Any) -> Any:
    """The key made of `key` and the integer `data` (taken modulo 2**32).

    Raises:
      DtypeError: `data` is not one integer, or `key` not a key.

    >>> fold_in(key(0), 7).dtype
    key<fry>
    """
    k0, k1 = words_of(check_key(key, "fold_in"))
    if isinstance(data, int):
        data = np.uint32(data & 0xFFFFFFFF)
    elif not isinstance(data, Tracer):
        data = np.asarray(data)
    aval = aval_of(data)
    if not is_integer(aval.dtype) or aval.shape != ():
        raise DtypeError("data is one integer", op="fold_in", operands=[str(aval)])
    return _like(key, threefry(k0, k1, np.uint32(0), convert(data, U32), 64))


def hashed(k0: Any, k1: Any, shape: tuple[int, ...], width: int) -> Any:
    """The hashes of the counters 0, 1, 2, ... under one key, row-major in `shape`."""
    size = int(np.prod(shape, dtype=np.int64))
    if not shape:
        return threefry(k0, k1, np.uint32(0), np.uint32(0), width)
    if size < 2**32:
        low = reshape(iota((size,), 0, U32), shape)
        return threefry(k0, k1, np.uint32(0), low, width)
    counter = reshape(iota((size,), 0, U64), shape)
    high = convert(shift_right(counter, np.uint64(32)), U32)
    return threefry(k0, k1, high, convert(counter, U32), width)


def key_data(keys: Any) -> Any:
    """The words of keys: uint32, two on the last axis; the keys of `PRNGKey` are theirs.

    >>> key_data(key(5))
    array([0, 5], dtype=uint32)
    """
    return _pair(words_of_keys(keys)) if isinstance(keys, KeyArray) else keys


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> KeyArray:
    """Keys from their words: uint32 of shape (..., 2).

    Raises:
      DtypeError: the array is of another dtype or shape.
    """
    if impl not in (None, IMPLEMENTATION):
        raise DtypeError(f"the only generator is {IMPLEMENTATION}, not {impl!r}", op="key")
    if not isinstance(key_bits_array, Tracer):
        key_bits_array = np.asarray(key_bits_array)
    aval = aval_of(key_bits_array)
    if aval.dtype != U32 or aval.shape[-1:] != (2,):
        raise DtypeError(
            "keys are uint32 words of shape (..., 2)", op="wrap_key_data", operands=[str(aval)]
        )
    shape, last = aval.shape[:-1], len(aval.shape) - 1
    high, low = (
        convert(reshape(slice_axis(key_bits_array, last, k, k + 1), shape), U64) for k in (0, 1)
    )
    return _keys(bitwise_or(shift_left(high, np.uint64(32)), low))


def key_impl(keys: Any) -> str:
    """The name of the generator, of which there is one.

    >>> key_impl(key(0))
    'threefry2x32'
    """
    return IMPLEMENTATION


def clone(key: Any) -> Any:
    """The same key."""
    return key
