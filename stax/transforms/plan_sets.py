"""Sets of kept values, tried systematically where values are few.

Input: a memory model, the values that may be kept or not, and plans found so far.  Output: more
plans.  A value that nothing reads in the backward part is in no set: whether it is kept makes no
difference, and without such values there are far fewer sets than subsets.  Where all of them can
be judged, they are.  Where they are too many, those of few values are, and those that differ in
one or two values from the best plans: the least memory is often had by keeping a handful of values
of which none is kept by the plans around, and no path of directed changes leads there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from stax.core.graph import Var
from stax.transforms.memory_model import Kept, MemoryModel, Plan
from stax.transforms.plan_front import pareto

FEW: Final = 3  # values of which all sets are tried
CHANGED: Final = 2  # values in which sets that are tried differ from the best


class KeptSets:
    """The sets of kept values of one graph, as bits over the values that may be kept.

    Args:
      model: judges them.
      fixed: values that every plan keeps.
      free: values that may be kept or not.  All others are computed again (views).
      found: plans found so far, to which all that is judged is added.
    """

    def __init__(
        self,
        model: MemoryModel,
        fixed: Iterable[Var],
        free: Sequence[Var],
        found: dict[Kept, Plan],
    ) -> None:
        self.model, self.found, self.fixed = model, found, frozenset(fixed)
        always = {model.number[v] for v in self.fixed if v in model.number}
        always.update(model.kept_anyway)
        of = {model.number[v]: v for v in free if model.number[v] in model.producer}
        # The values that computing others again may need, the last ones first.
        order = sorted(
            (k for k in model.producer if k not in always),
            key=lambda k: (model.producer[k], k),
            reverse=True,
        )
        place = {k: i for i, k in enumerate(order)}
        self.free = [1 << i if k in of else 0 for i, k in enumerate(order)]
        self.values = [of.get(k) for k in order]
        self.bit = {v: 1 << place[k] for k, v in of.items()}
        self.reads = [
            sum(1 << place[r] for r in model.forward[model.producer[k]].reads if r in place)
            for k in order
        ]
        late = {k for _, reads in model.sites for k in reads if k in place}
        self.late = sum(1 << place[k] for k in late)
        self.judged: set[int] = set()

    def all(self, most: int) -> list[int] | None:
        """Every set that makes a difference, or None where they are more than `most`."""
        found: list[int] = []
        pending = [(0, self.late, 0)]
        free, reads, count = self.free, self.reads, len(self.reads)
        while pending:
            i, needed, kept = pending.pop()
            while i < count:
                if needed >> i & 1:
                    if free[i]:
                        pending.append((i + 1, needed, kept | free[i]))
                    needed |= reads[i]
                i += 1
            found.append(kept)
            if len(found) > most:
                return None
        return found

    def read(self, kept: int) -> int:
        """Those of a set that are read in the backward part when the others are not kept."""
        needed, found = self.late, 0
        for i, reads in enumerate(self.reads):
            if needed >> i & 1:
                if kept >> i & 1:
                    found |= 1 << i
                else:
                    needed |= reads
        return found

    def judge(self, kept: int) -> None:
        """Add the plan of a set to those found."""
        kept = self.read(kept)
        if kept in self.judged:
            return
        self.judged.add(kept)
        values = self.fixed.union(v for v in self._values(kept))
        if values not in self.found:
            self.found[values] = self.model.plan(values)

    def _values(self, kept: int) -> Iterator[Var]:
        while kept:
            low = kept & -kept
            var = self.values[low.bit_length() - 1]
            assert var is not None
            yield var
            kept ^= low

    def few(self, most: int) -> None:
        """Judge the sets of few values, at most about so many of them."""
        bits = list(self.bit.values())
        for count in range(FEW + 1):
            most -= math.comb(len(bits), count)
            if most < 0:
                return
            for chosen in combinations(bits, count):
                self.judge(sum(chosen))

    def near(self, most: int) -> None:
        """Judge the sets near those of the best plans, at most about so many of them."""
        bits = list(self.bit.values())
        stop = len(self.judged) + most
        for count in range(1, CHANGED + 1):
            changes = [sum(chosen) for chosen in combinations(bits, count)]
            done: set[Kept] = set()
            while True:
                best = [p for p in reversed(pareto(self.found.values())) if p.kept not in done]
                if not best:
                    break
                for plan in best:
                    done.add(plan.kept)
                    kept = sum(self.bit[v] for v in plan.kept if v in self.bit)
                    for change in changes:
                        self.judge(kept ^ change)
                    if len(self.judged) > stop:
                        return


__all__ = ["KeptSets"]
