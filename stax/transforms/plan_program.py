"""The choice of kept values as an integer program, solved by HiGHS where scipy is installed.

Input: a memory model and a limit in bytes.  Output: the kept values of a plan of little
recomputation that stays within the limit by a linear account of memory.  For each forward equation
one variable says whether it runs again, for each value one whether it is kept; that an equation
has run again by a time, and that a value is alive at it, follow from those and are continuous.
The account is an approximation of the model's (it does not know what shares a kernel), so plans
that come from here are judged by the model like all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from stax.core.graph import Var
from stax.transforms.memory_model import Kept, MemoryModel, Plan

SIZE: Final = 2_000  # alive-at-a-time variables for each second from which on nothing is tried
LIMITS: Final = 6  # limits that are tried
ROUNDS: Final = 4  # times that one limit is corrected by what the model says of the result


def is_available() -> bool:
    """Whether the solver can be had: scipy is no requirement."""
    return find_spec("scipy") is not None


class IntegerProgram:
    """The program of one graph, for any limit.

    Args:
      model: the graph's memory model.
      kept: values that are kept in every plan.
      never: values that are computed again when they are read (views).
    """

    def __init__(self, model: MemoryModel, kept: Iterable[Var], never: Iterable[Var]) -> None:
        self.model = model
        self.fixed = {k for k in map(model.number.get, kept) if k is not None}
        self.fixed.update(model.kept_anyway)
        self.never = {k for k in map(model.number.get, never) if k is not None} - self.fixed
        times = model.times()
        self.base, self.forward_peak, self.forward_end = times.backward, times.forward, times.ends
        self.steps = len(self.base)
        self._variables(times.sites)

    @property
    def size(self) -> int:
        """How many alive-at-a-time variables there are."""
        return self.steps * len(self.used)

    def _variables(self, sites: dict[int, list[int]]) -> None:
        """Which values and equations take part, and when values are read directly."""
        model = self.model
        self.sites = sites
        pending = list(sites)
        used: dict[int, None] = {}
        while pending:
            k = pending.pop()
            if k in used:
                continue
            used[k] = None
            if k not in self.fixed:
                pending += model.forward[model.producer[k]].reads
        self.used = sorted(used)
        self.again = sorted({model.producer[k] for k in self.used if k not in self.fixed})
        readers: dict[int, list[int]] = {k: [] for k in self.used}
        for j in self.again:
            for k in model.forward[j].reads:
                readers[k].append(j)
        self.readers = readers

    def improved(self, high: int, low: int, seconds: float) -> list[Plan]:
        """Plans for limits between two peaks, found in so many seconds."""
        found: list[Plan] = []
        end = time.monotonic() + seconds
        if self.size > SIZE * seconds:
            return found
        for k in range(LIMITS):
            limit = low + (high - low) * k // LIMITS
            wanted, share = limit, (end - time.monotonic()) / (LIMITS - k)
            for _ in range(ROUNDS):
                if share <= 0 or wanted <= 0:
                    break
                start = time.monotonic()
                kept = self.solve(wanted, share)
                share -= time.monotonic() - start
                if kept is None:
                    break
                plan = self.model.plan(kept)
                found.append(plan)
                if plan.peak <= limit:
                    break
                wanted -= plan.peak - limit
        return found

    def solve(self, limit: int, seconds: float) -> Kept | None:
        """Kept values within `limit` bytes, or None when none were found in time."""
        optimize, sparse = import_module("scipy.optimize"), import_module("scipy.sparse")
        numpy = import_module("numpy")
        rows, cost, integral, upper = self._program(limit)
        entries = [(i, c, v) for i, (terms, _) in enumerate(rows) for c, v in terms.items()]
        at, columns, values = zip(*entries, strict=True)
        matrix = sparse.csr_array((values, (at, columns)), shape=(len(rows), len(cost)))
        found = optimize.milp(
            numpy.array(cost),
            integrality=numpy.array(integral),
            bounds=optimize.Bounds(0.0, numpy.array(upper)),
            constraints=optimize.LinearConstraint(matrix, numpy.array([b for _, b in rows])),
            options={"time_limit": seconds, "mip_rel_gap": 0.005},
        )
        if found.x is None:
            return None
        names = self._names
        return frozenset(
            v
            for v, k in self.model.number.items()
            if k in self.fixed or (("keep", k) in names and found.x[names["keep", k]] > 0.5)
        )

    def _program(self, limit: int) -> tuple[list[Any], list[float], list[int], list[float]]:
        model = self.model
        names: dict[tuple[Any, ...], int] = {}
        cost: list[float] = []
        integral: list[int] = []
        upper: list[float] = []
        rows: list[tuple[dict[int, float], float]] = []

        def variable(*name: Any, price: float = 0.0, whole: bool = False, most: float = 1.0) -> int:
            k = names.get(name)
            if k is None:
                k = names[name] = len(cost)
                cost.append(price)
                integral.append(int(whole))
                upper.append(most)
            return k

        total = max(sum(model.costs[j] for j in self.again), 1)
        run = {
            j: variable("again", j, price=max(model.costs[j], 1) / total, whole=True)
            for j in self.again
        }
        size = {k: model.sizes[k] / max(limit, 1) for k in self.used}
        keep = {}
        for k in self.used:
            if k not in self.fixed:
                keep[k] = variable("keep", k, whole=True, most=0.0 if k in self.never else 1.0)

        def supplied(k: int, terms: dict[int, float], bound: float) -> None:
            """`terms + keep + again >= bound` for a value that is needed."""
            if k not in self.fixed:
                rows.append(({**terms, keep[k]: 1.0, run[model.producer[k]]: 1.0}, bound))

        last = self.steps - 1
        for k in self.sites:
            supplied(k, {}, 1.0)
        for j in self.again:
            for k in model.forward[j].reads:
                supplied(k, {run[j]: -1.0}, 0.0)
        # started[j, t]: equation j has run again by time t; it grows with t.
        started: dict[tuple[int, int], int] = {}
        for j in self.again:
            first = min(
                (self.sites[k][0] for k in model.forward[j].writes if k in self.sites),
                default=self.steps,
            )
            for t in range(self.steps):
                if t < first:
                    started[j, t] = variable("started", j, t)
                    rows.append(({run[j]: 1.0, started[j, t]: -1.0}, 0.0))
                    if t:
                        rows.append(({started[j, t]: 1.0, started[j, t - 1]: -1.0}, 0.0))
                else:
                    started[j, t] = run[j]
        for j in self.again:
            for k in model.forward[j].reads:
                if k in self.fixed:
                    continue
                other = model.producer[k]
                for t in range(last + 1):
                    if started[other, t] != run[other]:
                        # Not kept, and needed by an equation that has run: it has run too.
                        terms = {started[other, t]: 1.0, started[j, t]: -1.0, keep[k]: 1.0}
                        rows.append((terms, 0.0))
        memory: list[dict[int, float]] = [{} for _ in range(self.steps)]
        always = [0.0] * self.steps
        for k in self.used:
            if not size[k]:
                continue
            direct = self.sites.get(k, [])
            end = direct[-1] if direct else -1
            stored_again = model.is_stored_again(k, len(direct) + len(self.readers[k]))
            for t in range(self.steps):
                pieces: list[dict[int, float]] = []  # each a lower bound, less `bounds`
                bounds: list[float] = []
                if k in self.fixed:
                    if t <= end:
                        always[t] += size[k]
                        continue
                    have: dict[int, float] = {}
                    given = 1.0
                else:
                    have, given = {keep[k]: 1.0}, 0.0
                    made = started[model.producer[k], t]
                    if t <= end:
                        pieces.append(have)
                        bounds.append(0.0)
                        if stored_again:
                            pieces.append({made: 1.0})
                            bounds.append(0.0)
                for j in self.readers[k]:
                    waiting = {run[j]: 1.0}
                    if t:
                        waiting[started[j, t - 1]] = waiting.get(started[j, t - 1], 0.0) - 1.0
                    waiting = {c: v for c, v in waiting.items() if v}
                    if not waiting:
                        continue
                    if t > end:
                        pieces.append({**have, **waiting})
                        bounds.append(1.0 - given)
                    if stored_again and k not in self.fixed and t > end:
                        pieces.append({**waiting, made: waiting.get(made, 0.0) + 1.0})
                        bounds.append(1.0)
                if not pieces:
                    continue
                alive = variable("alive", k, t)
                memory[t][alive] = size[k]
                for terms, bound in zip(pieces, bounds, strict=True):
                    rows.append(({alive: 1.0, **{c: -v for c, v in terms.items()}}, -bound))
        for t in range(self.steps):
            room = 1.0 - self.base[t] / max(limit, 1) - always[t]
            rows.append(({c: -v for c, v in memory[t].items()}, -room))
        # In the forward part a kept value lives on after its last reader there.
        for t, held in enumerate(self.forward_peak):
            terms = {keep[k]: -size[k] for k in keep if self.forward_end.get(k, t) < t}
            more = sum(
                size[k] for k in self.used if k in self.fixed and self.forward_end.get(k, t) < t
            )
            if terms:
                rows.append((terms, held / max(limit, 1) + more - 1.0))
        rows = [(terms, bound) for terms, bound in rows if terms]
        self._names = names
        return rows, cost, integral, upper
