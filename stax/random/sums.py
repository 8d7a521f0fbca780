"""Running sums in the order of additions that JAX's have, so that draws that depend on them agree.

Input: probabilities and an axis.  Output: their sums up to, or from, each place.  Sums run through
blocks of sixteen, each from its first element on; what the other blocks give is added last.
"""

from __future__ import annotations

import functools
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.dtypes import FLOAT32, is_half
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.cumulative import cumsum
from stax.primitives.families import literal
from stax.primitives.shapes import iota, pad, slice_axis
from stax.primitives.views import broadcast, move_axis, reduce_sum, reshape

BLOCK = 16


OFFLOADED = 4096  # numbers from which sums are taken in parts
LANES = 16


def offloaded(aval: Aval) -> bool:
    """Whether JAX hands sums of these numbers to another library."""
    return aval.size >= OFFLOADED


def summed(x: Any) -> Any:
    """The sum along the last axis; of many numbers in parts whose number is a power of two.

    Half types are added in float32.
    """
    dtype = aval_of(x).dtype
    if is_half(dtype):
        return convert(summed(convert(x, FLOAT32)), dtype)
    *lead, count = aval_of(x).shape
    axis, parts = len(lead), 1
    if not count:
        return reduce_sum(x, [axis])
    while offloaded(aval_of(x)) and 2 * parts <= min(count, LANES):
        parts *= 2
    rows = -(-count // parts)
    short = rows * parts - count
    padded = pad(x, literal(0, x), [0] * (axis + 1), [0] * axis + [short], [0] * (axis + 1))
    tiles = reshape(padded, (*lead, rows, parts))
    sums = _from_first(tiles, axis)
    while parts > 1:
        parts //= 2
        low, high = (slice_axis(sums, axis, k, k + parts) for k in (0, parts))
        sums = el.add(low, high)
    return reshape(sums, lead)


def _from_first(x: Any, axis: int) -> Any:
    """The sum along `axis`, from the first element on."""
    shape = aval_of(x).shape
    rest = (*shape[:axis], *shape[axis + 1 :])
    count = shape[axis]
    if count > BLOCK:
        return reshape(slice_axis(cumsum(x, axis), axis, count - 1, count), rest)
    rows = (reshape(slice_axis(x, axis, k, k + 1), rest) for k in range(count))
    return functools.reduce(el.add, rows)


def running_sum(p: Any, axis: int, reverse: bool = False) -> Any:
    """Sums of `p` along `axis` up to each place, or from each place on."""
    if not aval_of(p).shape[axis]:
        return p
    last = len(aval_of(p).shape) - 1
    return move_axis(_along_last(move_axis(p, axis, last), reverse), last, axis)


def _along_last(p: Any, reverse: bool) -> Any:
    *lead, count = aval_of(p).shape
    axis = len(lead)
    if count <= BLOCK:
        return _from_each_place(p, axis) if reverse else cumsum(p, axis)
    blocks = -(-count // BLOCK)
    short = blocks * BLOCK - count
    padded = pad(p, literal(0, p), [0] * (axis + 1), [0] * axis + [short], [0] * (axis + 1))
    tiles = reshape(padded, (*lead, blocks, BLOCK))
    inner = _from_each_place(tiles, axis + 1) if reverse else cumsum(tiles, axis + 1)
    edge = 0 if reverse else BLOCK - 1
    totals = reshape(slice_axis(inner, axis + 1, edge, edge + 1), (*lead, blocks))
    sums = _along_last(totals, reverse)
    others = slice_axis(sums, axis, 1, blocks) if reverse else slice_axis(sums, axis, 0, blocks - 1)
    low, high = ([0] * axis + [side] for side in ((0, 1) if reverse else (1, 0)))
    others = pad(others, literal(0, p), low, high, [0] * (axis + 1))
    out = el.add(inner, broadcast(reshape(others, (*lead, blocks, 1)), aval_of(inner).shape))
    return slice_axis(reshape(out, (*lead, blocks * BLOCK)), axis, 0, count)


def _from_each_place(p: Any, axis: int) -> Any:
    """Sums from each place to the end of `axis` (the last), the first of them added first."""
    shape = aval_of(p).shape
    place = iota(shape, axis)
    total = broadcast(literal(0, p), shape)
    for k in range(shape[axis]):
        term = broadcast(slice_axis(p, axis, k, k + 1), shape)
        total = el.add(
            total, el.select(el.le(place, literal(k, place)), term, broadcast(literal(0, p), shape))
        )
    return total
