"""Better plans by directed changes: what is dropped is alive where memory is over the limit.

Input: a memory model, the values that may be kept or not, and plans found so far.  Output: more
plans.  For limits from high to low a plan is taken below the limit by dropping the values that cost
least for the excess they take away, then improved by keeping what there is room for, and by keeping
one value more and dropping others for it.  Changes are ranked by the lifetimes that the model found
for the plan at hand; only the best few of them are judged by the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, combinations, pairwise
from operator import itemgetter
from typing import Final

from stax.core.graph import Var
from stax.transforms.memory_model import Kept, MemoryModel, Plan, Run
from stax.transforms.plan_front import pareto

LEVELS: Final = 24  # limits a plan is looked for
JUDGED: Final = 5  # changes judged by the model before one is chosen
KEPT: Final = 8  # values of which one is kept where no drop is of use
MOST: Final = 24  # the same, where none of them is of use
GROUPS: Final = 2  # sizes up to which values are small
STARTS: Final = 6  # plans from which less memory than the least is looked for
PAIRED: Final = 6  # values of which two are dropped at once where one is not enough


class Moves:
    """Changes of plans of one graph.

    Args:
      model: judges them.
      fixed: values that every plan keeps.
      free: values that may be kept or not.  All others are computed again (views).
      found: plans found so far, to which all that is judged is added.
      tries: how many plans may be judged.
    """

    def __init__(
        self,
        model: MemoryModel,
        fixed: Iterable[Var],
        free: Iterable[Var],
        found: dict[Kept, Plan],
        tries: int,
    ) -> None:
        self.model, self.found, self.tries = model, found, tries
        self.stop = 0  # how many tries are left for further limits
        number = model.number
        self.var = {number[v]: v for v in free if number[v] in model.producer}
        self.fixed = {number[v] for v in fixed if v in number}.union(model.kept_anyway)
        self.allowed = frozenset(self.var.values()).union(fixed)
        sizes = sorted({model.sizes[k] for k in self.var})[:GROUPS]
        self.small = frozenset(v for k, v in self.var.items() if model.sizes[k] <= sizes[-1])
        self.runs: dict[Kept, Run] = {}
        self.results: dict[int, list[int]] = {k: [] for k in model.producer}
        for step in model.forward:
            for k in step.reads:
                self.results[k] += step.writes

    def search(self) -> None:
        """Look for plans at limits between the peaks found so far, then for less memory."""
        if not self.var:
            return
        peaks = [p.peak for p in self.found.values()]
        high, low = max(peaks), min(peaks)
        plan = max(self.found.values(), key=lambda p: (p.peak, -p.work))
        total = self.tries
        for k in range(1, LEVELS + 1):
            self.stop = total - total * k // (LEVELS + 8)
            plan = self.at(high - (high - low) * k // LEVELS, plan)
        self.stop = total // 12
        self._lower()
        self.stop = total // 16
        self._fill()
        self._smaller()
        self.stop = 0
        self._fill()

    def _lower(self) -> None:
        """Look for less memory than the least so far."""
        nothing = frozenset(self.allowed - frozenset(self.var.values()))
        while self.tries > self.stop:
            lowest = sorted(self.found.values(), key=lambda p: (p.peak, p.work))[:STARTS]
            limit = lowest[0].peak - 1
            starts = (*(p.kept for p in lowest), nothing)
            lower = next(filter(None, (self.descend(kept, limit) for kept in starts)), None)
            if lower is None:
                return
            self.exchange(self.polish(lower, lower.peak), lower.peak)

    def _smaller(self) -> None:
        """Drop each large value of the plans of least memory for all small ones together.

        One result of a softmax or of a normalisation alone does not spare what it comes from; the
        lifetimes of the plan at hand do not show what all of them would.
        """
        stop = self.stop - self.stop // 2
        for plan in reversed(pareto(self.found.values())):
            for var in sorted(
                plan.kept & self.allowed - self.small, key=self.model.number.__getitem__
            ):
                if self.tries <= stop:
                    return
                self.run(plan.kept - {var} | self.small)

    def _fill(self) -> None:
        """Look for plans between two that are far apart, the farthest first."""
        tried: set[tuple[int, int]] = set()
        while self.tries > self.stop:
            gaps = [
                ((low.work - high.work) * (high.peak - low.peak), high, low)
                for low, high in pairwise(reversed(pareto(self.found.values())))
                if (low.peak, high.peak) not in tried
            ]
            if not gaps:
                return
            _, high, low = max(gaps, key=itemgetter(0))
            tried.add((low.peak, high.peak))
            self.at((high.peak + low.peak) // 2, high)

    def at(self, limit: int, start: Plan) -> Plan:
        """The best plan of at most `limit` bytes that can be found from `start` and all others."""
        lower = self.descend(start.kept, limit)
        plan = min(
            (p for p in self.found.values() if p.peak <= limit),
            key=lambda p: (p.work, p.peak, len(p.kept)),
            default=lower,
        )
        if plan is None:
            return start
        plan = self.polish(plan, limit)
        return self.exchange(plan, limit)

    def run(self, kept: Kept) -> Run:
        """The model's account of a plan, which is among those found from now on."""
        run = self.runs.get(kept)
        if run is None:
            self.tries -= 1
            run = self.model.run(kept & self.allowed)
            # What nothing reads any more is not kept: it would be in the way of further changes.
            unread = {v for k, v in self.var.items() if v in kept and k not in run.reads}
            if unread:
                run = replace(run, plan=replace(run.plan, kept=run.plan.kept - unread))
            self.runs[kept] = self.runs[run.plan.kept] = run
            self.found.setdefault(run.plan.kept, run.plan)
        return run

    def descend(self, kept: Kept, limit: int, held: int = -1) -> Plan | None:
        """Drop values but `held` until the peak is at most `limit`, or None where that fails."""
        here = self.run(kept)
        while here.plan.peak > limit:
            best: tuple[float, int, Run] | None = None
            excess = here.excess(limit)
            for count, changed in enumerate(self._drops(here, limit, held)):
                if self.tries <= self.stop:
                    return None
                if best is not None and count >= JUDGED:
                    break
                there = self.run(changed)
                gain = excess - there.excess(limit)
                if gain > 0:
                    price = max(there.plan.work - here.plan.work, 0) / gain
                    if best is None or (price, -gain) < best[:2]:
                        best = price, -gain, there
            if best is None:
                return None
            here = best[2]
        return here.plan

    def _drops(self, run: Run, limit: int, held: int) -> Iterator[Kept]:
        """Sets with one value less, or others in its place; the most promising ones first."""
        clipped: dict[int, list[int]] = {}  # for a size, the excess that it could take away
        excess = [a - limit if a > limit else 0 for a in run.alive]
        kept = run.plan.kept
        model, last, ends, sizes = self.model, run.last, run.ends, self.model.sizes

        def between(size: int, start: int, stop: int) -> int:
            if size not in clipped:
                clipped[size] = [0, *accumulate([min(a, size) for a in excess])]
            sums = clipped[size]
            return sums[stop + 1] - sums[start + 1] if start < stop else 0

        riding = self._riding(run)
        ranked: list[tuple[float, int, frozenset[Var]]] = []
        for k, var in self.var.items():
            if var not in kept or k not in last or k == held or k not in run.reads:
                continue
            until = run.reads[k] - 1
            gain = between(sizes[k], ends.get(k, last[k]), until)
            price, sources = self._price(k, run)
            gone = frozenset([var])
            for j in riding.get(k, ()):
                price += self._price(j, run)[0]
                gone |= {self.var[j]}
            longer = [j for j in sources if j in last and last[j] < until]
            alone = gain - sum([between(sizes[j], last[j], until) for j in longer])
            ranked.append((price / alone if alone > 0 else math.inf, k, gone))
            longer = [j for j in longer if j in self.var and j != held]
            if longer:  # and together with what would have to live longer for it
                for j in longer:
                    gain += between(sizes[j], ends.get(j, last[j]), last[j])
                    price += self._price(j, run)[0]
                ratio = price / gain if gain > 0 else math.inf
                ranked.append((ratio, k, gone.union(self.var[j] for j in longer)))
        ranked.sort(key=lambda r: r[:2])
        # What is computed again where memory is full; kept, it ends what that is computed from.
        n = model.count
        full = max((t for t, a in enumerate(excess) if a), default=0)
        again = [
            k
            for k, var in self.var.items()
            if var not in kept and k + n in last and run.first[k + n] <= full <= last[k + n]
        ]
        again.sort(key=lambda k: sizes[k])
        for place, (_, _, gone) in enumerate(ranked[:MOST]):
            yield kept - gone
            if place == JUDGED - 3:
                for _, j, _ in ranked[:2]:
                    # What it is computed from in its place, or what is computed from it.
                    for others in (model.forward[model.producer[j]].reads, self.results[j]):
                        more = [self.var[i] for i in others if i in self.var]
                        if any(v not in kept for v in more):
                            yield (kept - {self.var[j]}).union(more)
                for k in again[-2:]:
                    replaced = [self.var[j] for j in self._price(k, run)[1] if j in self.var]
                    yield kept.difference(replaced) | {self.var[k]}
        for k in again[:KEPT]:
            yield kept | {self.var[k]}
        for _, _, gone in ranked[:PAIRED]:
            yield kept - gone | self.small
        for one, other in combinations([gone for _, _, gone in ranked[:PAIRED]], 2):
            yield kept - one - other

    def _riding(self, run: Run) -> dict[int, list[int]]:
        """For values in memory, the kept ones that are computed from them where they are read."""
        model = self.model
        found: dict[int, list[int]] = {}
        for k, var in self.var.items():
            if k in run.last or var not in run.plan.kept:
                continue
            pending, seen = [k], {k}
            while pending:
                for j in model.forward[model.producer[pending.pop()]].reads:
                    if j in run.last:
                        found.setdefault(j, []).append(k)
                    elif j not in seen:
                        seen.add(j)
                        pending.append(j)
        return found

    def _price(self, k: int, run: Run) -> tuple[int, list[int]]:
        """What computing a value again takes: operations, beside what runs again already, and
        values in memory."""
        model = self.model
        again, kept = run.again, run.plan.kept
        total = 0
        sources: list[int] = []
        pending, seen = [k], {k}
        while pending:
            made = model.producer[pending.pop()]
            if made in again:
                continue
            total += model.costs[made]
            for j in model.forward[made].reads:
                if j in seen:
                    continue
                seen.add(j)
                var = self.var.get(j)
                if var in kept or j in self.fixed:
                    sources.append(j)
                else:
                    pending.append(j)
        return total, sources

    def polish(self, plan: Plan, limit: int, held: int = -1) -> Plan:
        """Keep what there is room for except `held`, the dearest first."""
        run = self.run(plan.kept)
        tried: set[int] = {held}
        while self.tries > self.stop:
            for k in self._keeps(run, limit):
                if k in tried:
                    continue
                tried.add(k)
                there = self.run(run.plan.kept | {self.var[k]})
                if there.plan.peak <= limit and there.plan.work < run.plan.work:
                    run = there
                    break
                if self.tries <= self.stop:
                    break
            else:
                break
        return run.plan

    def _keeps(self, run: Run, limit: int) -> list[int]:
        """Values that are computed again and could be kept, the dearest first."""
        model = self.model
        room = run.room(limit)
        kept = run.plan.kept
        found = []
        for k, var in self.var.items():
            if var in kept or model.producer[k] not in run.again:
                continue
            if model.sizes[k] <= room(run.ends.get(k), run.first.get(k + model.count)):
                found.append(k)
        found.sort(key=lambda k: -model.costs[model.producer[k]])
        return found

    def exchange(self, plan: Plan, limit: int) -> Plan:
        """Keep one value more and drop others for it, or the reverse, while that helps."""
        tried: set[tuple[int, bool]] = set()
        better = True
        while better and self.tries > self.stop:
            better = False
            for k in self._by_value(plan):
                more = self.var[k] not in plan.kept
                if (k, more) in tried:
                    continue
                tried.add((k, more))
                for there in self._exchanged(plan, k, limit):
                    if there.work < plan.work:
                        plan, better = there, True
                        break
                if better or self.tries <= self.stop:
                    break
        return plan

    def _exchanged(self, plan: Plan, k: int, limit: int) -> Iterator[Plan]:
        """Plans of at most `limit` bytes that keep a value that the plan drops, or the reverse."""
        changed = plan.kept ^ {self.var[k]}
        if changed > plan.kept:
            lower = self.descend(changed, limit, k)
            if lower is not None:
                yield self.polish(lower, limit)
            return
        there = self.run(changed).plan
        if there.peak <= limit and there.work != plan.work:
            yield self.polish(there, limit, k)
        results = changed.union(self.var[i] for i in self.results[k] if i in self.var)
        if results != changed and self.tries > self.stop:
            there = self.run(results).plan
            if there.peak <= limit:
                yield self.polish(there, limit, k)

    def _by_value(self, plan: Plan) -> list[int]:
        """Values to keep and to drop, the best bargain first."""
        model = self.model
        run = self.run(plan.kept)
        ranked = []
        for k, var in self.var.items():
            made = model.producer[k]
            rate = model.costs[made] / max(model.sizes[k], 1)
            if var in plan.kept:
                if k in run.last and run.last[k] > run.ends.get(k, run.last[k]):
                    ranked.append((self._price(k, run)[0] / max(model.sizes[k], 1), k))
            elif made in run.again:
                ranked.append((-rate, k))
        ranked.sort()
        return [k for _, k in ranked]
