"""Draws among given things: permutations, choices, categories.

Input: a key and what to draw from (an array, a number of things, logits).  Output: the things or
their positions.  A permutation sorts by random words, repeatedly where one round would meet equal
words too often; a category is the position of the largest logit after Gumbel noise is added.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.keys import KeyArray, words_of_keys
from stax.core.trace import Tracer
from stax.dtypes import is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.dynamic_slices import searchsorted
from stax.primitives.families import literal
from stax.primitives.families_arrays import normalized_axis
from stax.primitives.indexing import gather
from stax.primitives.reductions import argmax
from stax.primitives.shapes import iota, slice_axis
from stax.primitives.sorting import sort
from stax.primitives.views import move_axis, reshape, transpose
from stax.random import steps
from stax.random.keys import as_shape, check_key, split
from stax.random.sums import running_sum
from stax.random.uniforms import (
    as_array,
    draw_dtype,
    draw_shape,
    float_info,
    nth_key,
    randint,
    raw_bits,
    unit,
)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Standard Gumbel numbers; mode "high" draws twice, which keeps the upper tail right.

    Otherwise as `normal`.

    Raises:
      ShapeError: another mode than None, "low" or "high".

    >>> gumbel(stax.random.key(0), (3,)).shape
    (3,)
    """
    dtype = draw_dtype("gumbel", dtype, np.float64)
    if mode not in (None, "low", "high"):
        raise ShapeError(f"mode is 'low' or 'high', not {mode!r}", op="gumbel")
    key, shape = check_key(key, "gumbel"), as_shape("gumbel", shape)
    info = float_info(dtype)
    tiny = dtype.type(info.tiny)
    if mode != "high":
        u = el.maximum(tiny, unit(key, shape, dtype))
        return el.neg(steps.log(el.neg(steps.log(u))))
    pair = unit(key, (2, *shape), dtype)
    high, low = (reshape(slice_axis(pair, 0, k, k + 1), shape) for k in (0, 1))
    fine = steps.add(steps.fused(low, literal(2.0 ** -int(info.nmant), low), high), tiny)
    x = el.select(el.ge(high, literal(0.5, high)), high, fine)
    return el.neg(steps.log(el.neg(steps.log1p(el.neg(x)))))


def _rounds(size: int) -> int:
    """Sorts needed so that equal words are improbable."""
    return math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    shape = aval_of(x).shape
    for _ in range(_rounds(aval_of(x).size)):
        keys = split(key)
        key, child = nth_key(keys, 0), nth_key(keys, 1)
        _, x = sort([raw_bits(child, shape, 32), x], axis)
    return x


def _taken(x: Any, index: Any, axis: int) -> Any:
    """`x` at the positions `index` along `axis`, whose place the axes of `index` take."""
    rank, ndim = len(aval_of(index).shape), len(aval_of(x).shape)
    out = gather(x, [index], [axis], mode="promise")
    # The axes of the index come first; the axes before `axis` belong in front of them.
    perm = [*range(rank, rank + axis), *range(rank), *range(rank + axis, rank + ndim - 1)]
    return transpose(out, perm)


def _count(value: Any, op: str) -> int | None:
    """The number of things when `value` is a plain integer, None when it is an array."""
    if isinstance(value, Tracer) and aval_of(value).shape:
        return None
    if isinstance(value, Tracer) or np.ndim(value) == 0:
        if not is_integer(aval_of(as_array(value)).dtype):
            raise DtypeError(
                "expected an integer or an array of at least one axis",
                op=op,
                operands=[str(aval_of(as_array(value)))],
            )
        return operator.index(value) if isinstance(value, Tracer) else int(value)
    return None


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """`x` shuffled along `axis`, or 0..x-1 shuffled; `independent` shuffles each line apart.

    Raises:
      DtypeError: `x` has no axes and is no integer.
      AxisError: there is no such axis.

    >>> sorted(permutation(stax.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, KeyArray):
        return KeyArray(permutation(key, words_of_keys(x), axis, independent))
    key = check_key(key, "permutation")
    count = _count(x, "permutation")
    if count is not None:
        return _shuffled(key, iota((count,)), 0)
    x = as_array(x)
    axis = normalized_axis(axis, len(x.shape), "permutation")
    if independent or len(x.shape) == 1:
        return _shuffled(key, x, axis)
    return _taken(x, _shuffled(key, iota((x.shape[axis],)), 0), axis)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Draws from `a` (or from 0..a-1) along `axis`, with probabilities `p`.

    Args:
      a: an array, or how many positions there are.
      shape: the axes that take the place of `axis` in the result.
      replace: whether one thing can be drawn again.
      p: weights, one for each thing; all are equal by default.
      mode: as in `gumbel`, for weighted draws without replacement.

    Raises:
      ShapeError: nothing to choose from, more draws than things, or not as many weights as things.

    >>> choice(stax.random.key(0), np.array([3, 5, 7]), (4,), p=np.array([0.0, 1.0, 0.0]))
    array([5, 5, 5, 5])
    """
    if isinstance(a, KeyArray):
        chosen = choice(key, words_of_keys(a), shape, replace, p, axis, mode)
        return KeyArray(chosen if isinstance(chosen, Tracer) else np.asarray(chosen))
    key, shape = check_key(key, "choice"), as_shape("choice", shape)
    count = _count(a, "choice")
    array = None if count is not None else as_array(a)
    if array is not None:
        axis = normalized_axis(axis, len(array.shape), "choice")
        count = array.shape[axis]
    assert count is not None
    draws = math.prod(shape)
    if draws and count <= 0:
        raise ShapeError("nothing to choose from", op="choice")
    if not replace and draws > count:
        raise ShapeError(f"{draws} draws of {count} things without replacement", op="choice")
    if p is None:
        if replace:
            index = randint(key, shape, 0, max(count, 1))
        elif array is not None:
            # Whole lines are shuffled, so the order is that of `permutation`.
            out = slice_axis(permutation(key, array, axis), axis, 0, draws)
            inner = array.shape
            return reshape(out, (*inner[:axis], *shape, *inner[axis + 1 :]))
        else:
            index = slice_axis(permutation(key, count), 0, 0, draws)
    else:
        index = _weighted(key, p, count, shape, draws, replace, mode)
    index = reshape(index, shape)
    return index if array is None else _taken(array, index, axis)


def _weighted(
    key: Any, p: Any, count: int, shape: Any, draws: int, replace: bool, mode: str | None
) -> Any:
    p = as_array(p)
    if p.shape != (count,):
        raise ShapeError(
            f"p has shape {p.shape} for {count} things", op="choice", operands=[str(aval_of(p))]
        )
    if not is_inexact(p.dtype):
        p = convert(p, np.dtype(np.float64))
    if replace:
        total = running_sum(p, 0)
        last = reshape(slice_axis(total, 0, count - 1, count), ())
        u = unit(key, shape, p.dtype)
        return searchsorted(total, steps.mul(last, steps.sub(literal(1, u), u)))
    score = steps.add(gumbel(key, (count,), p.dtype, mode), steps.log(p))
    return slice_axis(_descending(score, 0), 0, 0, draws)


def _descending(score: Any, axis: int) -> Any:
    """Positions along `axis` from the largest score to the smallest, equal ones in order."""
    shape = aval_of(score).shape
    return sort([el.neg(score), iota(shape, axis)], axis)[1]


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Positions along `axis` drawn with probabilities proportional to exp(logits).

    Args:
      logits: an array; -inf is never drawn.
      shape: of the result: leading axes, then those of `logits` but `axis`, which are the default.
      replace: false draws, along the leading axes, each position once at most.
      mode: as in `gumbel`.

    Raises:
      ShapeError: a shape that does not end with the other axes, or more draws than positions.

    >>> categorical(stax.random.key(0), np.array([-np.inf, 0.0]), shape=(3,))
    array([1, 1, 1])
    """
    key, logits = check_key(key, "categorical"), as_array(logits)
    if not is_inexact(logits.dtype):
        logits = convert(logits, np.dtype(np.float64))
    full = logits.shape
    axis = normalized_axis(axis, len(full), "categorical")
    batch = (*full[:axis], *full[axis + 1 :])
    shape = batch if shape is None else as_shape("categorical", shape)
    draw_shape("categorical", shape, np.empty(batch, bool))
    prefix = shape[: len(shape) - len(batch)]
    if replace:
        inner = list(shape[len(prefix) :])
        inner.insert(axis, full[axis])
        noise = gumbel(key, (*prefix, *inner), logits.dtype, mode)
        return argmax(steps.add(noise, logits), len(prefix) + axis)
    draws = math.prod(prefix)
    if draws > full[axis]:
        raise ShapeError(
            f"{draws} draws of {full[axis]} categories without replacement", op="categorical"
        )
    order = _descending(steps.add(logits, gumbel(key, full, logits.dtype, mode)), axis)
    chosen = move_axis(slice_axis(order, axis, 0, draws), axis, 0)
    # JAX counts these by its top_k, whose positions are int32.
    return convert(reshape(chosen, shape), np.dtype(np.int32))
