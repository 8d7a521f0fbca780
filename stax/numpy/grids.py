"""Index helpers and grids: mgrid, r_, ix_, tril_indices, ravel_multi_index, fromfunction, load, ...

Input: static arguments.  Output: what NumPy gives; index tuples stay plain arrays also while
tracing, so that indexing with them is checked at once.  `r_` and `c_` join traced values too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import ARRAY_FUNCTIONS, EVAL, STATE, as_traced
from stax.errors import DtypeError, ShapeError
from stax.numpy.creation import indices
from stax.numpy.manipulation import atleast_1d, concatenate, reshaped
from stax.numpy.registration import converted, holds_tracer, implements, operand, strong
from stax.numpy.selection import known
from stax.primitives import elementwise as el
from stax.primitives.views import reshape

__all__ = [
    "c_",
    "diag_indices",
    "diag_indices_from",
    "frombuffer",
    "fromfunction",
    "fromiter",
    "fromstring",
    "index_exp",
    "ix_",
    "load",
    "mask_indices",
    "mgrid",
    "ogrid",
    "packbits",
    "r_",
    "ravel_multi_index",
    "s_",
    "save",
    "savez",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unpackbits",
    "unravel_index",
]

Array = Any

mgrid, ogrid, s_, index_exp = np.mgrid, np.ogrid, np.s_, np.index_exp
diag_indices, tril_indices, triu_indices = np.diag_indices, np.tril_indices, np.triu_indices
mask_indices = np.mask_indices
load, save, savez = np.load, np.save, np.savez


def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    def public(*args: Any, **kwargs: Any) -> Array:
        return as_traced(function(*args, **kwargs))

    public.__name__ = public.__qualname__ = function.__name__
    public.__doc__ = f"As `numpy.{function.__name__}`; a traced value while tracing."
    return public


frombuffer = _made(np.frombuffer)
fromstring = _made(np.fromstring)
fromiter = _made(np.fromiter)


def _indices_from(plain: Callable[..., Any], square: bool) -> Callable[..., Any]:
    def public(arr: Array, k: int = 0) -> tuple[Any, ...]:
        shape = aval_of(operand(arr, plain.__name__)).shape
        if square:
            if len(shape) < 2 or len(set(shape)) != 1:
                raise ShapeError(
                    f"all dimensions of input must be of equal length, not {shape}",
                    op=plain.__name__,
                )
            return np.diag_indices(shape[0], len(shape))
        if len(shape) != 2:
            raise ShapeError("input array must be 2-d", op=plain.__name__)
        make = np.tril_indices if plain is np.tril_indices_from else np.triu_indices
        return make(shape[0], k, shape[1])

    public.__name__ = public.__qualname__ = plain.__name__
    public.__doc__ = f"As `numpy.{plain.__name__}`; only the shape matters."
    ARRAY_FUNCTIONS[plain] = public
    return public


tril_indices_from = _indices_from(np.tril_indices_from, False)
triu_indices_from = _indices_from(np.triu_indices_from, False)
diag_indices_from = _indices_from(np.diag_indices_from, True)


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Array, ...]:
    """An open mesh of index vectors; as `numpy.ix_`."""
    out = []
    for k, arg in enumerate(args):
        x = operand(arg, "ix_")
        if aval_of(x).dtype.kind == "b":
            x = np.flatnonzero(known(x, "ix_"))
        if len(aval_of(x).shape) != 1:
            raise ShapeError("Cross index must be 1 dimensional", op="ix_")
        out.append(_spread(x, k, len(args)))
    return tuple(out)


def _spread(x: Array, k: int, n: int) -> Array:
    shape = [1] * n
    shape[k] = aval_of(x).size
    return reshaped(x, shape)


def _positions(value: Any, op: str) -> Any:
    """Integers as NumPy's type for positions, which holds products of sizes."""
    x = operand(value, op)
    if aval_of(x).dtype.kind not in "iu":
        raise DtypeError("positions must be integers", op=op, operands=[str(aval_of(x))])
    return converted(x, np.dtype(np.int64))


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Sequence[Any], dims: Any, mode: Any = "raise", order: str = "C"
) -> Array:
    """Flat positions of index tuples; as `numpy.ravel_multi_index`, without checks when traced."""
    sizes = list(dims)
    parts = [_positions(i, "ravel_multi_index") for i in multi_index]
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    if order == "F":
        sizes, parts, modes = sizes[::-1], parts[::-1], modes[::-1]
    flat: Any = 0
    for part, n, how in zip(parts, sizes, modes, strict=True):
        if how == "wrap":
            part = np.mod(part, n)
        elif how == "clip":
            part = np.clip(part, 0, n - 1)
        flat = flat * n + part
    return flat


@implements(np.unravel_index)
def unravel_index(indices: Array, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Index tuples of flat positions; as `numpy.unravel_index`, without checks when traced."""
    rest = _positions(indices, "unravel_index")
    out = []
    sizes = list(shape)
    for n in sizes[::-1] if order == "C" else sizes:
        out.append(np.mod(rest, n))
        rest = np.floor_divide(rest, n)
    return tuple(out[::-1] if order == "C" else out)


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the index grids of `shape`; as `numpy.fromfunction`."""
    grid = indices(shape, dtype)
    return function(*(grid[k] for k in range(len(shape))), **kwargs)


class _Joiner:
    """`r_[...]` and `c_[...]`: slices become ranges, everything is joined along an axis."""

    def __init__(self, plain: Any, axis: int, columns: bool) -> None:
        self.plain = plain
        self.axis = axis
        self.columns = columns

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        if not holds_tracer(items):
            made = self.plain[key]
            return made if STATE.trace is EVAL else as_traced(made)
        parts: list[Any] = []
        for item in items:
            if isinstance(item, str):
                raise ShapeError("string directives need plain arrays", op="r_")
            if isinstance(item, slice):
                item = np.r_[item]
            part = atleast_1d(strong(operand(item, "r_")))
            if self.columns and len(part.shape) == 1:
                part = reshape(part, (part.shape[0], 1))
            parts.append(part)
        return concatenate(parts, self.axis)


r_ = _Joiner(np.r_, 0, False)
c_ = _Joiner(np.c_, -1, True)


@implements(np.packbits)
def packbits(a: Array, /, axis: Any = None, bitorder: str = "big") -> Array:
    """Booleans packed eight to a uint8; as `numpy.packbits`."""
    x = operand(a, "packbits")
    bits = el.ne(x, aval_of(x).dtype.type(0))
    if axis is None:
        bits, axis = reshape(bits, (aval_of(bits).size,)), 0
    bits = np.moveaxis(bits, axis, -1)
    n = bits.shape[-1]
    bits = np.pad(bits, [(0, 0)] * (len(bits.shape) - 1) + [(0, -n % 8)])
    bits = reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    weights = (1 << np.arange(8)).astype(np.uint8)
    weights = weights[::-1] if bitorder == "big" else weights
    packed: Any = np.sum(bits.astype(np.uint8) * weights, axis=-1, dtype=np.uint8)
    return np.moveaxis(packed, -1, axis)


@implements(np.unpackbits)
def unpackbits(
    a: Array, /, axis: Any = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of uint8 values as zeros and ones; as `numpy.unpackbits`."""
    x = operand(a, "unpackbits")
    if axis is None:
        x, axis = reshape(x, (aval_of(x).size,)), 0
    x = np.moveaxis(x, axis, -1)
    shifts = np.arange(8, dtype=np.uint8)
    shifts = shifts[::-1] if bitorder == "big" else shifts
    bits = np.bitwise_and(np.right_shift(x[..., None], shifts), np.uint8(1))
    bits = reshape(bits, (*x.shape[:-1], 8 * x.shape[-1]))
    if count is not None:
        n = bits.shape[-1]
        bits = (
            bits[..., :count]
            if count <= n
            else np.pad(bits, [(0, 0)] * (len(bits.shape) - 1) + [(0, count - n)])
        )
    return np.moveaxis(bits, -1, axis)
