"""Random bits: the Threefry-2x32 hash as one elementwise row.

Input: two words of a key and two words of a counter, all uint32, broadcasting together.  Output:
the hashed pair, folded into one 32-bit word by exclusive or (`width=32`) or joined into one 64-bit
word, first word high (`width=64`).  The hash is Random123's: twenty rounds of add, rotate,
exclusive or, with the key schedule injected after every fourth.  A result depends on its own
counter alone, so draws fuse into the loop that reads them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.primitive import ZERO_DERIVATIVE, Recompute
from stax.core.trace import bind1
from stax.dtypes import DType
from stax.errors import DtypeError
from stax.loops.ops import ops
from stax.primitives.families import broadcast_shape, elementwise

U32: DType = np.dtype(np.uint32)
U64: DType = np.dtype(np.uint64)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
# Elements hashed at a time by NumPy: three such buffers stay in the second-level cache.
_BLOCK = 32768


def _hash_in_place(k0: Any, k1: Any, x0: Any, x1: Any) -> None:
    """Replace the counters `x0`, `x1` (arrays of uint32) by their hash under the key."""
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
    x0 += k0
    x1 += k1
    low = np.empty_like(x1)
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 += x1
            np.right_shift(x1, np.uint32(32 - r), out=low)
            np.left_shift(x1, np.uint32(r), out=x1)
            x1 |= low
            x1 ^= x0
        x0 += schedule[(group + 1) % 3]
        x1 += schedule[(group + 2) % 3]
        x1 += np.uint32(group + 1)


def hashed_words(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """Both words of the hash, as uint32 arrays of the common shape."""
    k0, k1, c0, c1 = (np.asarray(v, U32) for v in (k0, k1, c0, c1))
    shape = np.broadcast_shapes(k0.shape, k1.shape, c0.shape, c1.shape)
    x0 = np.array(np.broadcast_to(c0, shape)).reshape(-1)
    x1 = np.array(np.broadcast_to(c1, shape)).reshape(-1)
    single = k0.size == 1 and k1.size == 1
    if single:
        k0, k1 = k0.reshape(-1), k1.reshape(-1)
    else:
        k0, k1 = (np.broadcast_to(k, shape).reshape(-1) for k in (k0, k1))
    for a in range(0, x0.size, _BLOCK):
        part = slice(a, a + _BLOCK)
        keys = (k0, k1) if single else (k0[part], k1[part])
        _hash_in_place(*keys, x0[part], x1[part])
    return x0.reshape(shape), x1.reshape(shape)


def _threefry(k0: Any, k1: Any, c0: Any, c1: Any, *, width: int) -> Any:
    x0, x1 = hashed_words(k0, k1, c0, c1)
    if width == 32:
        return np.bitwise_xor(x0, x1)
    return np.bitwise_or(np.left_shift(x0.astype(U64), np.uint64(32)), x1.astype(U64))


def _threefry_aval(*words: Aval, width: int) -> Aval:
    if any(w.dtype != U32 for w in words):
        raise DtypeError("keys and counters are uint32", op="threefry", operands=map(str, words))
    return Aval(broadcast_shape("threefry", words), U32 if width == 32 else U64)


def _threefry_scalar(k0: Any, k1: Any, c0: Any, c1: Any, *, width: int) -> Any:
    def c(value: int) -> Any:
        return ops.constant(value, U32)

    def rotated(x: Any, r: int) -> Any:
        return ops.bitwise_or(ops.shift_left(x, c(r)), ops.shift_right(x, c(32 - r)))

    schedule = (k0, k1, ops.bitwise_xor(ops.bitwise_xor(k0, k1), c(_PARITY)))
    x0, x1 = ops.add(c0, k0), ops.add(c1, k1)
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = ops.add(x0, x1)
            x1 = ops.bitwise_xor(rotated(x1, r), x0)
        x0 = ops.add(x0, schedule[(group + 1) % 3])
        x1 = ops.add(ops.add(x1, schedule[(group + 2) % 3]), c(group + 1))
    if width == 32:
        return ops.bitwise_xor(x0, x1)
    high = ops.shift_left(ops.cast(x0, U64), ops.constant(32, U64))
    return ops.bitwise_or(high, ops.cast(x1, U64))


threefry_p, _ = elementwise(
    "threefry",
    _threefry,
    family="random",
    accepts="i",
    abstract_eval=_threefry_aval,
    partials=ZERO_DERIVATIVE,
    scalar=_threefry_scalar,
    weight=120.0,
)
threefry_p.recompute = Recompute.RANDOM


def threefry(k0: Any, k1: Any, c0: Any, c1: Any, width: int) -> Any:
    """The hash of the counter (c0, c1) under the key (k0, k1), as words of `width` bits."""
    return bind1(threefry_p, k0, k1, c0, c1, width=width)
