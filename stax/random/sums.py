"""Running sums in the order of additions that JAX's have, so that draws that depend on them agree.

Input: probabilities and an axis.  Output: their sums up to, or from, each place.  Sums run through
blocks of sixteen, each from its first element on; what the other blocks give is added last.
"""

from __future__ import annotations

from typing import Any

from stax.core.aval import aval_of
from stax.primitives import elementwise as el
from stax.primitives.cumulative import cumsum
from stax.primitives.families import literal
from stax.primitives.shapes import iota, pad, slice_axis
from stax.primitives.views import broadcast, move_axis, reshape

BLOCK = 16


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
