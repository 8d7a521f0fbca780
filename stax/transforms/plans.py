"""Candidate plans for a memory budget: which forward values stay for the backward part.

Input: a graph with backward equations.  Output: sets of kept forward values, from everything down
to little, among which `plan_search` chooses.
The sets come from three sources: minimum cuts at several prices of recomputation; a dynamic
program that cuts the forward part into segments, each kept by one of those cuts or recomputed
from its boundary; and directed changes of those sets (`plan_moves`), or all sets where they are
few.  An integer program adds to them where the user gives it time.  `MemoryModel` judges them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from stax.config import options
from stax.core.graph import Graph, Var
from stax.core.primitive import Recompute
from stax.forked import cached_attribute
from stax.transforms.maxflow import INFINITE
from stax.transforms.memory_model import Kept, MemoryModel, Plan
from stax.transforms.partition import (
    BYTE,
    Value,
    backward_equations,
    equation_cost,
    functions_of_inputs,
    minimum_cut,
    network_values,
    priced_cut,
    work_again,
)
from stax.transforms.phases import Split, split_joint
from stax.transforms.plan_front import pareto, spread
from stax.transforms.plan_moves import Moves
from stax.transforms.plan_program import IntegerProgram, is_available
from stax.transforms.plan_sets import KeptSets
from stax.transforms.rematerialise import ONE_PROGRAM

PRICES: Final = tuple(2.0**k for k in range(-8, 7))  # bytes worth one operation, relative
LEVELS: Final = 6  # cuts that the dynamic program chooses among
POSITIONS: Final = 20  # boundaries the dynamic program considers
LIMITS: Final = 24  # memory limits it is run for
GRAINS: Final = 48  # amounts of held bytes that it tells apart
TRIES: Final = 300_000  # equations simulated while small changes are tried, and sets of few
LARGE: Final = 3_000  # equations from which on fewer plans are looked at
MOST: Final = 6_000  # up to so many sets of kept values, all of them are tried
SMALL: Final = 32  # values up to which sets of them are tried systematically


class Planner:
    """The candidate plans of a graph; without a backward part there is one."""

    def __init__(self, graph: Graph) -> None:
        self.split = split = split_joint(graph)
        self.has_backward = bool(split.backward and split.forward)
        self.model = MemoryModel(graph, split)
        if self.has_backward:
            self.values = network_values(split, ONE_PROGRAM)
            # What is drawn or done once is not done again.
            self.fixed = {
                v.var
                for v in self.values
                if v.bytes <= ONE_PROGRAM.free_bytes or work_again(v) >= INFINITE
            }
            self.network = [v for v in self.values if v.bytes > ONE_PROGRAM.free_bytes]

    @cached_attribute
    def everything(self) -> Plan:
        """The plan that keeps every value."""
        return self.model.plan(v.var for v in self.values)

    @cached_attribute
    def usual(self) -> Plan:
        """The plan that is taken without a budget: that of the minimum cut."""
        return self.model.plan({v.var for v in minimum_cut(self.network)[1]} | self.fixed)

    def plans(self, tries: int = TRIES) -> list[Plan]:
        """Plans that no other beats by the model, from the most memory to the least.

        `tries` are the equations simulated for each of the ways to look for them.
        """
        if not self.has_backward:
            return [self.model.plan(v for e in self.split.forward for v in e.outputs)]
        model, usual = self.model, set(self.usual.kept)
        found = {p.kept: p for p in (self.usual, self.everything)}
        large = model.size > LARGE
        prices = PRICES[::3] if large else PRICES
        levels = [usual, *(c | self.fixed for c in _cuts(self.network, prices)), self.fixed]
        few = [levels[0], *(levels[1:][k] for k in spread(len(levels) - 1, LEVELS))]
        limits = LIMITS // 4 if large else LIMITS
        for kept in (*levels, *_segmented(self.split, self.values, few, self.fixed, limits)):
            if frozenset(kept) not in found:
                plan = model.plan(kept)
                found[plan.kept] = plan
        free = [
            v.var
            for v in self.network
            if v.var not in model.outputs | self.fixed
            and v.eqn.prim.recompute is not Recompute.VIEW
        ]
        tries //= max(model.size, 1)
        moves = Moves(model, self.fixed, free, found, tries)
        if len(free) <= SMALL:
            sets = KeptSets(model, self.fixed, free, found)
            every = sets.all(min(tries, MOST))
            if every is not None:
                for bits in every:
                    sets.judge(bits)
                return pareto(found.values())
            moves.tries //= 2
            sets.few(tries // 2)
            moves.search()
            sets.near(tries // 2)
        else:
            moves.search()
        self._by_integer_program(found, free)  # last: it adds, and is never worse
        return pareto(found.values())

    def _by_integer_program(self, found: dict[Kept, Plan], free: Sequence[Var]) -> None:
        """Add what an integer program finds in the time that is allowed, if any is."""
        seconds = options().plan_seconds
        if not seconds or not is_available():
            return
        never = [v.var for v in self.values if v.var not in {*free, *self.fixed}]
        peaks = [p.peak for p in found.values()]
        program = IntegerProgram(self.model, self.fixed, never)
        for plan in program.improved(max(peaks), min(peaks), seconds):
            found[plan.kept] = plan


def candidate_plans(graph: Graph) -> list[Plan]:
    """Plans of a graph that no other beats by the model, from the most memory to the least."""
    return Planner(graph).plans()


# --- minimum cuts at a price --------------------------------------------------------------------


def _cuts(values: Sequence[Value], prices: Sequence[float]) -> list[set[Var]]:
    """Kept sets of minimum cuts that weigh bytes against operations, dearest operation first."""
    size = sum(v.bytes for v in values)
    work = [work_again(v) for v in values]
    total = sum(w for w in work if w < INFINITE)
    found: list[set[Var]] = []
    for price in reversed(prices):
        scale = price * size / max(total, 1) * BYTE
        _, kept = priced_cut(values, [w if w >= INFINITE else int(w * scale) for w in work])
        if not found or kept != found[-1]:
            found.append(kept)
    return found


# --- segments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segment:
    """One way to treat the values between two boundaries."""

    stop: int
    level: int
    stored: int  # bytes held until its backward part is done
    needed: int  # bytes its backward part needs beside what earlier segments hold
    work: int


def _segmented(
    split: Split,
    values: Sequence[Value],
    levels: Sequence[set[Var]],
    small: set[Var],
    limits: int,
) -> list[set[Var]]:
    """Kept sets of the best segmentations, for memory limits from low to high."""
    bounds, crossing = _boundaries(split)
    if len(bounds) < 3:
        return []
    segments = _segments(split, values, levels, bounds, crossing)
    high = sum(v.bytes for v in values if v.var in levels[0])
    found: list[set[Var]] = []
    for k in range(1, limits + 1):
        path = _best_path(segments, high * k // limits)
        if path is None:
            continue
        kept = set(small)
        at = 0
        for segment in path:
            start, stop = bounds[at], bounds[segment.stop]
            made = {v for e in split.forward[start:stop] for v in e.outputs}
            kept |= levels[segment.level] & made
            if segment.level:
                kept |= crossing[at]
            at = segment.stop
        found.append(kept)
    return found


def _boundaries(split: Split) -> tuple[list[int], list[set[Var]]]:
    """Narrow positions between forward equations, and what crosses each that takes memory."""
    forward = split.forward
    light = functions_of_inputs(split)
    made = {v: k for k, e in enumerate(forward) for v in e.outputs if v not in light}
    last: dict[Var, int] = {}
    for k, eqn in enumerate(forward):
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom in made:
                last[atom] = k
    change = [0] * (len(forward) + 2)
    for var, k in last.items():
        change[made[var] + 1] += var.aval.nbytes
        change[k + 1] -= var.aval.nbytes
    width = []
    alive = 0
    for delta in change[: len(forward) + 1]:
        alive += delta
        width.append(alive)
    narrow = [
        k
        for k in range(1, len(forward))
        if width[k] <= width[k - 1] and width[k] <= width[k + 1] and width[k] > 0
    ]
    if len(narrow) > POSITIONS:
        limit = sorted(width[k] for k in narrow)[len(narrow) // 2]
        slim = [k for k in narrow if width[k] <= limit]
        narrow = [slim[len(slim) * k // POSITIONS] for k in range(POSITIONS)]
    bounds = [0, *dict.fromkeys(narrow), len(forward)]
    crossing: list[set[Var]] = [set() for _ in bounds]
    place = {b: k for k, b in enumerate(bounds)}
    for var, k in last.items():
        for b in bounds:
            if made[var] < b <= k:
                crossing[place[b]].add(var)
    return bounds, crossing


def _segments(
    split: Split,
    values: Sequence[Value],
    levels: Sequence[set[Var]],
    bounds: Sequence[int],
    crossing: Sequence[set[Var]],
) -> list[list[_Segment]]:
    """The segments that start at each boundary."""
    place = {v: k for k, e in enumerate(split.forward) for v in e.outputs}
    full = _sums(place, {v.var: v.bytes for v in values if v.var in levels[0]}, bounds)
    producer = {v: e for e in split.forward for v in e.outputs}
    free = {*split.primals, *(v for v, _ in split.graph.constants)}
    stored, work = [], []
    for kept in levels:
        stored.append(_sums(place, {v: v.aval.nbytes for v in kept if v in place}, bounds))
        _, again = backward_equations(split.backward, (), producer, {*kept, *free})
        costs = {e.outputs[0]: equation_cost(e) for e in again}
        work.append(_sums(place, costs, bounds))
    border = [sum(v.aval.nbytes for v in c) for c in crossing]
    found: list[list[_Segment]] = [[] for _ in bounds]
    for i in range(len(bounds) - 1):
        for j in range(i + 1, len(bounds)):
            ways: list[_Segment] = []
            for level in range(len(levels)):
                if level == 0 and j > i + 1:
                    continue
                held = stored[level][j] - stored[level][i]
                everything = full[j] - full[i]
                if level:
                    held += border[i]
                    everything = max(everything, held) + border[i]
                cost = work[level][j] - work[level][i]
                ways.append(_Segment(j, level, held, everything, cost))
            # Only what no other way to get there beats.
            ways.sort(key=lambda s: (s.work, s.stored, s.needed))
            best: list[_Segment] = []
            for s in ways:
                if all(s.stored < b.stored or s.needed < b.needed for b in best):
                    best.append(s)
            found[i] += best
    return found


def _sums(place: dict[Var, int], amounts: dict[Var, int], bounds: Sequence[int]) -> list[int]:
    """Sums of amounts over the equations before each boundary."""
    total = [0] * (bounds[-1] + 1)
    for var, amount in amounts.items():
        total[place[var] + 1] += amount
    for k in range(1, len(total)):
        total[k] += total[k - 1]
    return [total[b] for b in bounds]


def _best_path(segments: Sequence[Sequence[_Segment]], limit: int) -> list[_Segment] | None:
    """The segmentation of least work whose bytes stay within `limit` at every segment."""
    # A state: bytes held, work, the segment that led here and the state before it.
    State = tuple[int, int, Any, Any]
    states: list[dict[int, State]] = [{} for _ in segments]
    states[0][0] = (0, 0, None, None)
    grain = max(limit // GRAINS, 1)
    for i, here in enumerate(segments[:-1]):
        cheapest = math.inf
        for key in sorted(states[i]):  # one state for each amount of held bytes
            state = states[i][key]
            held, work = state[0], state[1]
            if work >= cheapest:
                continue
            cheapest = work
            room = limit - held
            for s in here:
                if s.needed <= room:
                    bytes_then, work_then = held + s.stored, work + s.work
                    there = states[s.stop]
                    other = there.get(bytes_then // grain)
                    if other is None or work_then < other[1]:
                        there[bytes_then // grain] = (bytes_then, work_then, s, state)
    if not states[-1]:
        return None
    state = min(states[-1].values(), key=lambda s: s[1])
    path = []
    while state[2] is not None:
        path.append(state[2])
        state = state[3]
    path.reverse()
    return path


__all__ = ["TRIES", "Planner", "candidate_plans"]
