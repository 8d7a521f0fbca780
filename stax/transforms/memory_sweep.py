"""The lifetimes of stored values, equation by equation: the inner loop of the model of memory.

Input: equations by numbers, in their order.  Output: the kernels between which values live, and the
bytes alive at each.  What a single fusible reader takes is computed there, so its operands live on
in its place; work between two opaque calls shares kernels, in which what nobody else reads needs no
memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

HEAVY: Final = 10  # operations of one element that several readers do not share unstored
ROOTS: Final = 6  # values in memory that an inlined one may be computed from
TOGETHER: Final = 12  # kernels within which steps over scores run on the same blocks of rows


class Step(NamedTuple):
    """An equation by numbers: `reads` and `writes` are values."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    opaque: bool
    view: bool
    cheap: bool
    late: bool  # a reduction whose result is known when its kernel ends
    tiny: bool  # what others are not kept waiting by
    weight: int  # operations of one element
    space: int  # points of its loops
    inner: int  # bytes that it needs while it runs
    rows: int  # elements of its result
    given: int  # arguments that it reads, which live anyway


class Sweep:
    """The lifetimes found so far.

    Args:
      size: how many values there are.
      readers: how many equations read each.
      unfused: values that some opaque equation reads.
      final: values that the program returns.
      tiles: matrices that exist as blocks of rows unless something opaque reads them.
    """

    def __init__(
        self,
        size: int,
        readers: list[int],
        unfused: list[bool],
        final: Sequence[bool],
        tiles: Sequence[bool],
    ) -> None:
        self.readers, self.unfused, self.final, self.tiles = readers, unfused, final, tiles
        self.roots: list[tuple[int, ...]] = [()] * size  # what a value is computed from
        self.weight = [0] * size  # operations that an inlined value takes
        self.ready = [0] * size  # the kernel from which on it can be read
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.escapes: set[int] = set()
        self.inner: list[tuple[int, int]] = []  # kernels, and bytes that they alone need
        self.now = 0
        self.spaces: set[int] = set()  # of the present kernel
        self.touched: set[int] = set()  # what it reads and writes

    def follow(self, steps: Sequence[Step], shift: Sequence[int] | None = None) -> list[int]:
        """Go on by these equations; returns the kernels that take their operands.

        `shift` is added to the numbers of what they read.
        """
        # One loop over plain lists, for it runs once for every equation of every plan.
        roots, last, first, ready = self.roots, self.last, self.first, self.ready
        weights, readers, unfused, final = self.weight, self.readers, self.unfused, self.final
        tiles = self.tiles
        spaces, touched, latest = self.spaces, self.touched, self.now
        kernels: list[int] = []
        for (
            reads,
            writes,
            opaque,
            view,
            cheap,
            late,
            tiny,
            weight,
            space,
            inner,
            rows,
            given,
        ) in steps:
            sources: tuple[int, ...] = ()
            now = latest
            if len(reads) == 1:
                k = reads[0] if shift is None else reads[0] + shift[reads[0]]
                sources = roots[k]
                weight += weights[k]
                if ready[k] > now:
                    now = ready[k]
                if view and not final[writes[0]] and len(sources) <= ROOTS:
                    k = writes[0]
                    roots[k], ready[k], weights[k] = sources, now, weight
                    kernels.append(now)
                    continue
            elif reads:
                operands = reads if shift is None else [k + shift[k] for k in reads]
                found: list[int] = []
                for k in operands:
                    found += roots[k]
                    weight += weights[k]
                    if ready[k] > now:
                        now = ready[k]
                sources = tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)
            count = len(sources)
            kernel = -1
            for k in writes:
                if tiles[k] and not unfused[k] and not final[k]:
                    roots[k] = (*sources, k)  # how long it lives decides whether it is stored
                    first[k] = last[k] = ready[k] = now
                    continue
                if view:
                    inlined = count <= ROOTS and not final[k]
                elif not cheap or unfused[k] or final[k]:
                    inlined = False
                elif readers[k] <= 1:
                    inlined = count <= ROOTS
                else:
                    inlined = count + given <= 1 and weight < HEAVY
                if inlined:
                    roots[k] = sources
                    ready[k] = now
                    weights[k] = weight
                    continue
                if kernel < 0:
                    kernel = now
                    if not tiny:
                        if opaque:
                            kernel += 1
                            spaces, touched = set(), set()
                        elif now == latest and space in spaces and not touched.isdisjoint(sources):
                            spaces.add(rows)
                        else:
                            if now == latest:
                                kernel += 1
                            spaces, touched = {space, rows}, set()
                        latest = kernel
                    if inner:
                        self.inner.append((kernel, inner))
                    touched.update(sources)
                    touched.update(writes)
                    now = kernel
                    for r in sources:
                        if last.get(r, -1) < now:
                            last[r] = now
                roots[k] = (k,)
                if not final[k]:
                    first[k] = last[k] = now
                    if opaque or late:
                        self.escapes.add(k)
                ready[k] = now + (opaque or late)
            kernels.append(now)
        self.spaces, self.touched, self.now = spaces, touched, latest
        return kernels

    def alive(self, sizes: Sequence[int], without: Collection[int] = ()) -> list[int]:
        """The bytes alive at each kernel, those of the values `without` left out."""
        last, escapes, unfused, tiles = self.last, self.escapes, self.unfused, self.tiles
        change = [0] * (max(last.values(), default=0) + self.now + 2)
        for k, inner in self.inner:
            change[k] += inner
            change[k + 1] -= inner
        for k, start in self.first.items():
            end = last[k]
            if tiles[k] and not unfused[k] and end - start <= TOGETHER:
                continue
            if (end > start or k in escapes or unfused[k]) and k not in without:
                change[start] += sizes[k]
                change[end + 1] -= sizes[k]
        return list(accumulate(change))
