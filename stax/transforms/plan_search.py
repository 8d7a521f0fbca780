"""The program for a memory budget: few candidates are measured, the others only modelled.

Input: a graph, variants of it whose loops keep less, and a function that schedules a plan.  Output:
the plan of least recomputation whose program stays within a limit, or the whole curve.  Of a
small graph all candidates are measured.  Of others the model of memory orders them, and a search in
the order of recomputation measures those near the limit; its decisions form one tree for all
limits, whatever was asked before, so that a smaller limit never gets a program of larger peak.
What runs without a budget is taken whenever it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from stax.core.graph import Graph
from stax.transforms.budget import CurvePoint, MemoryCurve, ProgramPlan, budget_bytes, infeasible
from stax.transforms.memory_model import Plan
from stax.transforms.partition import equation_cost
from stax.transforms.plan_front import pareto, thinned
from stax.transforms.plans import TRIES, Planner

TRUST: Final = 1.12  # a factor within which the model of memory may be wrong
TRUST_LARGE: Final = 1.03  # the same for graphs of more than LARGE equations, slow to measure
LARGE: Final = 2_000
EVERY: Final = 2_000  # equations up to which the candidates of a search are all lowered
MEASURED: Final = 12_000  # equations lowered for a curve
MOST, FEWEST = 24, 4  # programs measured for a curve
SEARCHED: Final = 30_000  # equations of the candidates of a search
MOST_SEARCHED, FEWEST_SEARCHED = 64, 8

Measure = Callable[[ProgramPlan], tuple[int, Any]]


@dataclass(frozen=True)
class _Candidate:
    """A plan with what the model says of it; `kept` serves to tell plans apart."""

    program: ProgramPlan
    peak: int
    work: int

    @property
    def kept(self) -> Any:
        """What the program keeps."""
        return self.program.kept or frozenset()


class PlanSearch:
    """The plans of one graph.

    Args:
      graph: simplified.
      variants: gives equal graphs whose loops keep less for their backward part.
      measure: schedules a plan; returns its peak bytes and its program.
    """

    def __init__(
        self, graph: Graph, variants: Callable[[], Sequence[Graph]], measure: Measure
    ) -> None:
        self._planner = planner = Planner(graph)
        self.has_backward = planner.has_backward
        self.graph = graph
        self._variants = variants
        self._measure = measure
        self._points: dict[ProgramPlan, CurvePoint] = {}
        self._programs: dict[ProgramPlan, Any] = {}
        self._found: list[_Candidate] | None = None
        self._all = self._usual = _Candidate(ProgramPlan(graph), 0, 0)
        if planner.has_backward:
            self._all = self._candidate(planner.everything)
            self._usual = self._candidate(planner.usual)

    def _candidate(
        self, plan: Plan, graph: Graph | None = None, compact: bool = False, more: int = 0
    ) -> _Candidate:
        program = ProgramPlan(graph or self.graph, plan.kept, compact)
        return _Candidate(program, plan.peak, plan.work + more)

    @property
    def everything(self) -> int:
        """The peak of the program that keeps every value for its backward part."""
        return self._point(self._all).peak_bytes

    @property
    def usual(self) -> CurvePoint:
        """The program without a budget."""
        return self._point(self._usual)

    def _point(self, candidate: _Candidate) -> CurvePoint:
        """The measured figures of a candidate."""
        program = candidate.program
        found = self._points.get(program)
        if found is None:
            peak, self._programs[program] = self._measure(program)
            found = self._points[program] = CurvePoint(peak, candidate.work, program)
        return found

    @property
    def candidates(self) -> list[_Candidate]:
        """What is looked at, from the least recomputation to the least memory, by the model."""
        if self._found is None:
            base = _total_cost(self.graph)
            plans = self._planner.plans()
            found = [self._candidate(p, self.graph, True) for p in plans]
            variants = self._variants()
            # Short loops are the same program whichever of their states are kept.
            distinct = {str(graph): graph for graph in variants}
            distinct.pop(str(self.graph), None)
            for graph in distinct.values():
                more = max(_total_cost(graph) - base, 0)
                plans = Planner(graph).plans(TRIES // len(variants))
                found += [self._candidate(p, graph, True, more) for p in plans]
            count = SEARCHED // max(len(self.graph.eqns), 1)
            front = pareto(found)
            self._found = thinned(front, min(max(count, FEWEST_SEARCHED), MOST_SEARCHED))
        return self._found

    def within(self, budget: int | float | str, name: str) -> tuple[CurvePoint, Any]:
        """The point of least recomputation whose peak is at most `budget`, and its program.

        Raises:
          ConfigurationError: the budget makes no sense.
          MemoryBudgetError: every program is larger; `least` says how large the smallest is.
        """
        whole = self.everything if isinstance(budget, float) else 0
        limit = budget_bytes(budget, whole)
        large = len(self.graph.eqns) > LARGE
        trust = TRUST_LARGE if large else TRUST
        # The usual program is measured unless that is slow and the model says it is far too large.
        known = not large or self._usual.program in self._points
        # A fraction is one of what is kept for a backward part, where there is one.
        anyway = isinstance(budget, float) and not self.has_backward
        near = known or self._usual.peak <= limit * trust
        if anyway or (near and self.usual.peak_bytes <= limit):
            chosen = self.usual
        else:
            every = len(self.candidates) * len(self.graph.eqns) <= EVERY
            found = (
                self._in_tail(limit, float("inf"))
                if every
                else self._first_within(limit, trust) or self._in_tail(limit, trust)
            )
            chosen = found or self._plain_within(limit, name)
        assert chosen.program is not None
        program = self._programs.get(chosen.program) or self._measure(chosen.program)[1]
        self._programs.clear()
        return chosen, program

    def _first_within(self, limit: int, trust: float) -> CurvePoint | None:
        """By bisection, taking the model's word for candidates far from the limit.

        Of two candidates that fit, the one of larger peak is preferred where the order of the
        candidates is not that of their peaks: this is what keeps the peak monotone in the limit.
        """
        candidates = self.candidates
        low, high = 0, len(candidates)
        best: _Candidate | None = None
        measured = False
        while low < high:
            middle = (low + high) // 2
            tried = candidates[middle]
            if tried.peak > limit * trust:
                low = middle + 1
                continue
            if tried.peak * trust < limit:
                best, measured, high = tried, False, middle
                continue
            peak = self._point(tried).peak_bytes
            if peak <= limit and (not measured or best is None or peak >= self._peak(best)):
                best, measured, high = tried, True, middle
            else:
                low = middle + 1
        if best is None:
            return None
        point = self._point(best)
        if point.peak_bytes > limit:  # the model was wrong
            return self._first_within(limit, float("inf"))
        return point

    def _peak(self, candidate: _Candidate) -> int:
        return self._point(candidate).peak_bytes

    def _in_tail(self, limit: int, trust: float) -> CurvePoint | None:
        """Among the candidates that may have the smallest peak, all of them measured."""
        least = min(c.peak for c in self.candidates)
        points = [self._point(c) for c in self.candidates if c.peak <= trust * trust * least]
        fitting = [p for p in points if p.peak_bytes <= limit]
        return min(fitting, key=lambda p: (p.recompute_flops, p.peak_bytes), default=None)

    def _plain_within(self, limit: int, name: str) -> CurvePoint:
        """One of the programs without a budget, which are within reach whatever the model says."""
        plain = [self.usual, self._point(self._all)]
        fitting = [p for p in plain if p.peak_bytes <= limit]
        if not fitting:
            raise infeasible(name, min(p.peak_bytes for p in self._points.values()), limit)
        return min(fitting, key=lambda p: (p.recompute_flops, p.peak_bytes))

    def curve(self) -> MemoryCurve:
        """The trade of memory for recomputation, every point measured."""
        points = [self.usual]
        self._programs.clear()
        if self.has_backward:
            count = MEASURED // max(len(self.graph.eqns), 1)
            count = min(max(count, FEWEST), MOST)
            candidates = self.candidates
            points += [self._point(c) for c in thinned(candidates, count - count // 3)]
            for _ in range(count // 3):
                more = _between(points, candidates)
                if more is None:
                    break
                points.append(self._point(more))
        everything = self.everything
        self._programs.clear()
        return MemoryCurve.of(points, everything)


def _total_cost(graph: Graph) -> int:
    return sum(map(equation_cost, graph.eqns))


def _between(points: Sequence[CurvePoint], candidates: Sequence[_Candidate]) -> _Candidate | None:
    """The plan to measure next: one in the widest gap of the measured curve, if there is any."""
    curve = MemoryCurve.of(points, 0).points
    done = {p.program for p in points}
    gaps = sorted(pairwise(curve), key=lambda g: g[1].peak_bytes - g[0].peak_bytes)
    for high, low in gaps:
        inside = [
            c
            for c in candidates
            if high.recompute_flops < c.work < low.recompute_flops and c.program not in done
        ]
        if inside:
            inside.sort(key=lambda c: c.work)
            return inside[len(inside) // 2]
    return None


__all__ = ["PlanSearch"]
