"""Arena planning: offsets for temporary buffers from their lifetimes.

Input: for each buffer its size and the first and last step at which it is live.  Output: an offset
for each and the size of the arena.  The steps are walked in order; a buffer takes the smallest
free block that holds it, and blocks are merged when their buffers die, so the plan is linear in
the number of buffers but for the free list.  When that leaves gaps, placing the largest or the
longest-lived buffers first is tried as well, and then a search (`packing`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from stax.schedule.packing import RANKS, Packing

ALIGNMENT = 64
BY_SIZE = 1_000  # buffers up to which several orders of placing them are tried
PACKED = 150  # buffers up to which a search places them
SPARE = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08)  # shares of the live bytes that it may leave
LOOKED = 15_000  # buffers that it looks at for one of them


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A temporary: its bytes, and the steps of its first write and last read."""

    name: str
    nbytes: int
    first: int
    last: int


# Orders of placing: by size, by length of life, from the fullest step outwards.
ORDERS: tuple[Callable[[Lifetime, int], tuple[int, ...]], ...] = (
    lambda b, crowd: (-b.nbytes, b.first, b.last),
    lambda b, crowd: (b.first - b.last, -b.nbytes, b.first),
    lambda b, crowd: (-crowd, -b.nbytes, b.first, b.last),
    lambda b, crowd: (-crowd, b.first - b.last, -b.nbytes, b.first),
)


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Offsets by name, the arena's size, and the largest sum of bytes live at one step."""

    offsets: dict[str, int]
    nbytes: int
    live_peak: int


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the arena's alignment."""
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def plan_arena(lifetimes: Sequence[Lifetime]) -> ArenaPlan:
    """Place every buffer so that no two that are live at once overlap."""
    plan = _in_order_of_time(lifetimes)
    if plan.nbytes > plan.live_peak and len(lifetimes) <= BY_SIZE:
        crowds = _crowds(lifetimes)
        for order in ORDERS:
            keyed = [(order(b, crowd), b) for b, crowd in zip(lifetimes, crowds, strict=True)]
            other = _placed([b for _, b in sorted(keyed, key=itemgetter(0))])
            end = max(other[b.name] + aligned(b.nbytes) for b in lifetimes)
            if end < plan.nbytes:
                plan = ArenaPlan(other, end, plan.live_peak)
            if end <= plan.live_peak:
                return plan
        if len(lifetimes) <= PACKED:
            return _packed(lifetimes, plan)
    return plan


def _packed(lifetimes: Sequence[Lifetime], plan: ArenaPlan) -> ArenaPlan:
    """A plan at least as good, within as few bytes more than are live at once as can be found."""
    sized = [b for b in lifetimes if b.nbytes]
    packing = Packing([(aligned(b.nbytes), b.first, b.last) for b in sized])
    steps = max(LOOKED // len(sized), 2 * len(sized))
    for share in SPARE:
        capacity = int(plan.live_peak * (1 + share)) // ALIGNMENT * ALIGNMENT
        if capacity >= plan.nbytes:
            break
        for rank in range(RANKS):
            found = packing.within(capacity, rank, steps)
            if found is not None:
                offsets = dict.fromkeys((b.name for b in lifetimes), 0)
                offsets.update(zip((b.name for b in sized), found, strict=True))
                end = max(offsets[b.name] + aligned(b.nbytes) for b in sized)
                return ArenaPlan(offsets, end, plan.live_peak)
    return plan


def _crowds(lifetimes: Sequence[Lifetime]) -> list[int]:
    """For each buffer, the most bytes that are live together with it at one step."""
    steps = 1 + max(b.last for b in lifetimes)
    change = [0] * (steps + 1)
    for b in lifetimes:
        change[b.first] += aligned(b.nbytes)
        change[b.last + 1] -= aligned(b.nbytes)
    alive = list(accumulate(change))
    return [max(alive[b.first : b.last + 1]) for b in lifetimes]


def _placed(order: Sequence[Lifetime]) -> dict[str, int]:
    """Offsets given in this order: each buffer takes the lowest gap that holds it."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), by offset
    offsets: dict[str, int] = {}
    for buffer in order:
        size = aligned(buffer.nbytes)
        start = 0
        for offset, end, first, last in placed:
            if first > buffer.last or last < buffer.first:
                continue
            if offset - start >= size:
                break
            start = max(start, end)
        offsets[buffer.name] = start
        insort(placed, (start, start + size, buffer.first, buffer.last))
    return offsets


def _in_order_of_time(lifetimes: Sequence[Lifetime]) -> ArenaPlan:
    starts = sorted(lifetimes, key=lambda b: (b.first, -b.nbytes))
    ends = sorted(lifetimes, key=lambda b: b.last)
    offsets: dict[str, int] = {}
    free = _FreeList()
    live = live_peak = 0
    k = 0
    for buffer in starts:
        while k < len(ends) and ends[k].last < buffer.first:
            dead = ends[k]
            free.release(offsets[dead.name], aligned(dead.nbytes))
            live -= aligned(dead.nbytes)
            k += 1
        offsets[buffer.name] = free.take(aligned(buffer.nbytes))
        live += aligned(buffer.nbytes)
        live_peak = max(live_peak, live)
    return ArenaPlan(offsets, free.end, live_peak)


class _FreeList:
    """Free blocks below `end`, found by size (best fit) and merged by address."""

    def __init__(self) -> None:
        self.end = 0
        self._by_start: dict[int, int] = {}  # start -> size
        self._by_stop: dict[int, int] = {}  # stop -> start
        self._sizes: list[tuple[int, int]] = []  # (size, start), sorted

    def take(self, size: int) -> int:
        if size == 0:
            return 0
        k = bisect_left(self._sizes, (size, -1))
        if k < len(self._sizes):
            found, start = self._sizes[k]
            self._remove(start, found)
            if found > size:
                self._add(start + size, found - size)
            return start
        # No block is large enough: grow, starting inside a free block that touches the end.
        start = self._by_stop.get(self.end, self.end)
        if start != self.end:
            self._remove(start, self.end - start)
        self.end = start + size
        return start

    def release(self, start: int, size: int) -> None:
        if size == 0:
            return
        stop = start + size
        before = self._by_stop.get(start)
        if before is not None:
            self._remove(before, start - before)
            start = before
        after = self._by_start.get(stop)
        if after is not None:
            self._remove(stop, after)
            stop += after
        self._add(start, stop - start)

    def _add(self, start: int, size: int) -> None:
        self._by_start[start] = size
        self._by_stop[start + size] = start
        insort(self._sizes, (size, start))

    def _remove(self, start: int, size: int) -> None:
        del self._by_start[start]
        del self._by_stop[start + size]
        del self._sizes[bisect_left(self._sizes, (size, start))]
