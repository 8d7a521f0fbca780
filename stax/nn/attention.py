"""Scaled dot-product attention, and one-hot encoding.

Input: queries (B, T, N, H), keys and values (B, S, K, H), with or without the batch axis; N is a
multiple of K, and each group of N / K query heads shares a key head.  Output: the values averaged
under the softmax of the scores, shaped like the queries.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import FLOAT32, DType, is_float, promote
from stax.errors import DtypeError, ShapeError
from stax.nn.normalisation import logsumexp, softmax
from stax.numpy.promotion import array_like, as_dtype, asarray_dtype
from stax.primitives import elementwise as el
from stax.primitives.casts import convert, stop_gradient
from stax.primitives.contractions import dot_general
from stax.primitives.families import literal
from stax.primitives.shapes import iota
from stax.primitives.transcendental import times
from stax.primitives.views import broadcast, reshape, transpose

BOOL: DType = np.dtype(np.bool_)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the position that `x` gives along a new axis, 0 elsewhere; float64 by default."""
    x = array_like(x, "one_hot")
    count = operator.index(num_classes)
    shape = aval_of(x).shape
    rank = len(shape) + 1
    place = operator.index(axis)
    if not -rank <= place < rank:
        raise ShapeError(f"axis {axis} is outside a result of {rank} axes", op="one_hot")
    place %= rank
    if not isinstance(x, np.ndarray) and aval_of(x).weak:
        x = as_dtype(x, aval_of(x).dtype)
    x = convert(x, _type_of_classes(aval_of(x).dtype, count))
    wide = reshape(x, (*shape[:place], 1, *shape[place:]))
    classes = iota([count if k == place else 1 for k in range(rank)], place, aval_of(x).dtype)
    return convert(el.eq(wide, classes), asarray_dtype(np.float64 if dtype is None else dtype))


def _type_of_classes(dtype: DType, count: int) -> DType:
    """`dtype`, or a wider type where it does not tell `count` classes apart."""
    if dtype.kind in "iu":
        return dtype if count - 1 <= np.iinfo(dtype).max else np.dtype(np.int64)
    if dtype.kind == "b":
        return np.dtype(np.int64)
    return dtype if dtype.itemsize > 2 else FLOAT32


def _four_axes(op: str, name: str, x: Any) -> Any:
    x = array_like(x, op)
    shape = aval_of(x).shape
    if len(shape) > 4:
        raise ShapeError(f"{name} has {len(shape)} axes, at most 4 are meant", op=op)
    return reshape(x, (*(1,) * (4 - len(shape)), *shape))


def _check(condition: bool, message: str, *operands: Any) -> None:
    if not condition:
        raise ShapeError(
            message,
            op="dot_product_attention",
            operands=[str(aval_of(x)) for x in operands],
            where=user_source() or None,
        )


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query @ key / sqrt(H) + bias) @ value, head by head.

    Args:
      bias: added to the scores; broadcasts to (B, N, T, S).
      mask: Booleans, broadcasting to (B, N, T, S); false takes a score out.
      scale: factor of the scores, 1 / sqrt(H) by default.
      is_causal: a query sees the keys up to its own position.
      query_seq_lengths, key_value_seq_lengths: for each example of the batch.
      local_window_size: how many positions before and after its own a query sees.
      implementation: accepted for compatibility; there is one.
      return_residual: also return the logarithm of the softmax's denominator, (B, T, N).
    """
    op = "dot_product_attention"
    if implementation not in (None, "xla"):
        raise ShapeError(f"there is no implementation {implementation!r}", op=op)
    shape = aval_of(array_like(query, op)).shape
    q, k, v = (_four_axes(op, n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    b, t, n, h = aval_of(q).shape
    _, s, heads, _ = aval_of(k).shape
    _check(aval_of(k).shape == aval_of(v).shape, "key and value need one shape", k, v)
    _check(aval_of(k).shape[::3] == (b, h), "query and key differ in batch or depth", q, k)
    _check(heads > 0 and n % heads == 0, "query heads must be a multiple of key heads", q, k)
    dtype = aval_of(q).dtype
    if aval_of(k).dtype != dtype or aval_of(v).dtype != dtype or not is_float(dtype):
        raise DtypeError(
            "query, key and value need one floating dtype",
            op=op,
            operands=[str(aval_of(x)) for x in (q, k, v)],
        )
    # Batch axes of the product: the example and the key head.
    groups = n // heads
    q = transpose(reshape(q, (b, t, heads, groups, h)), (0, 2, 3, 1, 4))
    q = reshape(q, (b, heads, groups * t, h))
    k, v = transpose(k, (0, 2, 3, 1)), transpose(v, (0, 2, 1, 3))
    wide = promote([dtype, FLOAT32])
    scores = dot_general(q, k, (((3,), (2,)), ((0, 1), (0, 1))), wide)
    scores = times(scores, 1 / math.sqrt(h) if scale is None else float(scale))
    scores = reshape(scores, (b, heads, groups, t, s))
    if bias is not None:
        added = as_dtype(_grouped(op, "bias", bias, heads, n), wide)
        scores = el.add(scores, added)
    allowed = _allowed(op, mask, b, t, s, heads, n, is_causal, local_window_size)
    for lengths, axis in ((query_seq_lengths, 3), (key_value_seq_lengths, 4)):
        if lengths is not None:
            allowed = _both(allowed, _inside(op, lengths, b, axis, (t, s)[axis - 3]))
    if allowed is not None:
        # A row without any key gives the mean of the values, not NaN.
        lowest = -0.7 * float(np.finfo(np.float32).max)
        scores = el.select(allowed, scores, literal(lowest, scores))
    weights = convert(softmax(scores, axis=-1), dtype)
    weights = reshape(weights, (b, heads, groups * t, s))
    out = dot_general(weights, v, (((3,), (2,)), ((0, 1), (0, 1))), dtype)
    out = transpose(reshape(out, (b, heads, groups, t, h)), (0, 3, 1, 2, 4))
    if query_seq_lengths is not None:
        inside = reshape(_inside(op, query_seq_lengths, b, 3, t), (b, t, 1, 1, 1))
        out = el.select(inside, out, literal(0, out))
    out = reshape(out, shape)
    if not return_residual:
        return out
    residual = transpose(logsumexp(scores, axis=-1), (0, 3, 1, 2))
    return out, stop_gradient(convert(reshape(residual, shape[:-1]), dtype))


def _grouped(op: str, name: str, x: Any, heads: int, n: int) -> Any:
    """An array that broadcasts to (B, N, T, S), with the heads as (K, N / K)."""
    x = _four_axes(op, name, x)
    b, own, t, s = aval_of(x).shape
    _check(own in (1, n), f"{name} has {own} heads, the query {n}", x)
    return reshape(x, (b, 1, 1, t, s) if own == 1 else (b, heads, n // heads, t, s))


def _both(a: Any, b: Any) -> Any:
    return b if a is None else el.logical_and(a, b)


def _inside(op: str, lengths: Any, b: int, axis: int, extent: int) -> Any:
    """True where the position along `axis` of the scores is below the example's length."""
    lengths = array_like(lengths, op)
    _check(aval_of(lengths).shape == (b,), f"sequence lengths need shape ({b},)", lengths)
    shape = [1, 1, 1, 1, 1]
    shape[axis] = extent
    position = iota(shape, axis, aval_of(lengths).dtype)
    return el.lt(position, reshape(lengths, (b, 1, 1, 1, 1)))


def _allowed(
    op: str,
    mask: Any,
    b: int,
    t: int,
    s: int,
    heads: int,
    n: int,
    is_causal: bool,
    window: int | tuple[int, int] | None,
) -> Any:
    """Which scores count by mask, order and window; None when all do."""
    allowed: Any = None
    if mask is not None:
        allowed = _grouped(op, "mask", mask, heads, n)
        if aval_of(allowed).dtype != BOOL:
            raise DtypeError(
                "a mask holds Booleans; add numbers as bias",
                op=op,
                operands=[str(aval_of(allowed))],
            )
    if is_causal or window is not None:
        shape = (1, 1, 1, t, s)
        own, other = iota(shape, 3), iota(shape, 4)
        if is_causal:
            allowed = _both(allowed, el.ge(own, other))
        if window is not None:
            before, after = (window, window) if isinstance(window, int) else window
            near = el.logical_and(
                el.le(own, el.add(other, np.int64(before))),
                el.ge(own, el.sub(other, np.int64(after))),
            )
            allowed = _both(allowed, near)
    if allowed is None:
        return None
    return broadcast(allowed, np.broadcast_shapes(aval_of(allowed).shape, (1, 1, 1, t, s)))


__all__ = ["dot_product_attention", "one_hot"]
