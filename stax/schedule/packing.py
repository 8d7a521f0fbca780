"""Buffers placed within so many bytes by a search that leaves no gap where memory is full.

Input: sizes and lifetimes, and how many bytes there are.  Output: offsets, or None where none were
found in so many steps.  Buffers are placed from the bottom up, each on top of those that it lives
with, so the state is one height for each time.  Every time has a known number of bytes left to
place: as soon as the height below which nothing more can be put, and those bytes, exceed what there
is, the choice is taken back.  Where memory is full that leaves hardly any choice, which is why few
steps are enough where orders of placing would have to be guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

RANKS: Final = 3  # orders in which buffers of the same offset are tried


class Packing:
    """The placement of buffers `(size, first, last)`, sizes being multiples of the alignment."""

    def __init__(self, buffers: Sequence[tuple[int, int, int]]) -> None:
        self.sizes = [size for size, _, _ in buffers]
        starts = sorted({first for _, first, _ in buffers})  # only there do more bytes live
        self.times = [
            [t for t, step in enumerate(starts) if first <= step <= last]
            for _, first, last in buffers
        ]
        together = [set(times) for times in self.times]
        self.neighbours = [
            [j for j, b in enumerate(together) if j != i and not a.isdisjoint(b)]
            for i, a in enumerate(together)
        ]
        self.count = len(starts)

    def within(self, capacity: int, rank: int, steps: int) -> list[int] | None:
        """Offsets within `capacity` bytes, found in at most so many steps.

        Of buffers that would get the same offset, `rank` 0 tries the largest first, 1 the
        longest-lived, 2 the one of most bytes times time.
        """
        sizes, times = self.sizes, self.times
        lengths = [len(t) for t in times]
        areas = [s * n for s, n in zip(sizes, lengths, strict=True)]
        ranks = (sizes, lengths, areas)[rank]
        tops = [0] * self.count
        rest = [0] * self.count
        for size, when in zip(sizes, times, strict=True):
            for t in when:
                rest[t] += size
        if max(rest, default=0) > capacity:
            return None
        offsets = [-1] * len(sizes)
        path: list[tuple[int, list[int]]] = []  # what was placed, and the heights before
        choices = [self._choices(capacity, 0, ranks, tops, rest, offsets)]
        while choices:
            choice = next(choices[-1], None)
            if choice is None:
                choices.pop()
                if path:
                    k, before = path.pop()
                    offsets[k] = -1
                    for t, top in zip(times[k], before, strict=True):
                        tops[t] = top
                        rest[t] += sizes[k]
                continue
            if not steps:
                return None
            steps -= 1
            offset, k = choice
            path.append((k, [tops[t] for t in times[k]]))
            offsets[k] = offset
            for t in times[k]:
                tops[t] = offset + sizes[k]
                rest[t] -= sizes[k]
            if len(path) == len(sizes):
                return offsets
            choices.append(self._choices(capacity, offset, ranks, tops, rest, offsets))
        return None

    def _choices(
        self,
        capacity: int,
        low: int,
        ranks: Sequence[int],
        tops: Sequence[int],
        rest: Sequence[int],
        offsets: Sequence[int],
    ) -> Iterator[tuple[int, int]]:
        """What may be placed next, from `low` on; nothing where the rest cannot fit any more."""
        sizes, times = self.sizes, self.times
        lowest: dict[int, int] = {}
        bottoms = [capacity + 1] * self.count
        for k, offset in enumerate(offsets):
            if offset < 0:
                at = lowest[k] = max(low, *[tops[t] for t in times[k]])
                for t in times[k]:
                    if at < bottoms[t]:
                        bottoms[t] = at
        for bottom, left in zip(bottoms, rest, strict=True):
            if left and bottom + left > capacity:
                return
        for at, _, k in sorted((at, -ranks[k], k) for k, at in lowest.items()):
            # Nothing is put where something else that is left would fit below it.
            if not any(j in lowest and lowest[j] + sizes[j] <= at for j in self.neighbours[k]):
                yield at, k


__all__ = ["RANKS", "Packing"]
