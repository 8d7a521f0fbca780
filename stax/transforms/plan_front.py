"""Choosing among plans by what the model says of them: memory, and operations computed again.

Input: plans of one graph.  Output: those that no other beats, or some of them evenly spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from stax.transforms.memory_model import Kept


class Ranked(Protocol):
    """What the model says of a plan."""

    @property
    def kept(self) -> Kept:
        """Kept values; of equal plans, the one that keeps fewer is preferred."""

    @property
    def peak(self) -> int:
        """Bytes."""

    @property
    def work(self) -> int:
        """Operations computed again."""


P = TypeVar("P", bound=Ranked)


def pareto(plans: Iterable[P]) -> list[P]:
    """The plans that no other beats in both peak and work, the largest peak first."""
    front: list[P] = []
    for plan in sorted(plans, key=lambda p: (p.peak, p.work, len(p.kept))):
        if not front or plan.work < front[-1].work:
            front.append(plan)
    front.reverse()
    return front


def spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` of the numbers below `count`, evenly spread, the last among them."""
    if count <= wanted:
        return list(range(count))
    return [count - 1 - (count - 1) * k // (wanted - 1) for k in range(wanted - 1, -1, -1)]


def thinned(plans: Sequence[P], count: int) -> list[P]:
    """At most `count` plans, evenly spread over the peaks, the ends among them."""
    if len(plans) <= count:
        return list(plans)
    high, low = plans[0].peak, plans[-1].peak
    chosen: dict[int, P] = {}
    for k in range(count):
        limit = high - (high - low) * k // max(count - 1, 1)
        plan = next(p for p in plans if p.peak <= limit)
        chosen[id(plan)] = plan
    return list(chosen.values())


__all__ = ["Ranked", "pareto", "spread", "thinned"]
