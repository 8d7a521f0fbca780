"""A partition under a limit on the saved bytes.

Input: a graph's two parts and a limit.  Output: the `Partition` that recomputes least among a
parametric family of minimum cuts.  In the rematerialisation network, an edge from the source into
a value charges for its recomputation; with `price * operations` in place of infinity, a minimum
cut minimises saved bytes plus `price` times recomputed operations exactly.  Saved bytes fall with
the price, so a bisection finds the dearest price whose cut fits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from stax.core.graph import Graph, Var
from stax.errors import ConfigurationError, MemoryBudgetError
from stax.transforms.maxflow import INFINITE
from stax.transforms.partition import (
    Partition,
    PartitionOptions,
    Value,
    build_partition,
    network_values,
    partition,
    priced_cut,
    work_again,
)
from stax.transforms.phases import Split
from stax.transforms.pictures import drawn

_UNITS: Final = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*\Z", re.IGNORECASE)
_STEPS: Final = 48


def plain_budget(budget: Any) -> Any:
    """A budget, NumPy's numbers as Python's: an int is bytes, a float a fraction."""
    return budget.item() if isinstance(budget, np.integer | np.floating) else budget


def budget_bytes(budget: int | float | str, everything: int) -> int:
    """A budget in bytes: an int, text such as "512MiB", or a fraction in (0, 1] of `everything`.

    Raises:
      ConfigurationError: none of the three, or negative.
    """
    budget = plain_budget(budget)
    if isinstance(budget, str):
        match = _TEXT.match(budget)
        unit = match.group(2).lower().removesuffix("b") if match else "?"
        scale = {u.removesuffix("b"): n for u, n in _UNITS.items()}.get(unit)
        if match and scale and ("." not in match.group(1) or unit):
            return min(int(Fraction(match.group(1)) * scale), sys.maxsize)
    elif isinstance(budget, float):
        if 0.0 < budget <= 1.0:
            return int(budget * everything)
    elif isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return min(budget, sys.maxsize)  # no machine has more
    raise ConfigurationError(
        f"memory_budget={budget!r} is not a budget",
        hint='write bytes (1 << 20), text ("512MiB") or a fraction of the peak in (0, 1]',
    )


@dataclass(frozen=True)
class ProgramPlan:
    """How to make a program: of which graph, with which values kept (None: as is).

    A compact program stores and schedules so as to hold little at once.
    """

    graph: Graph
    kept: frozenset[Var] | None = None
    compact: bool = False


@dataclass(frozen=True)
class CurvePoint:
    """One program: its peak bytes, its recomputed operations, and how it is made."""

    peak_bytes: int
    recompute_flops: int
    program: ProgramPlan | None = field(repr=False, default=None)


def infeasible(name: str, least: int, limit: int) -> MemoryBudgetError:
    """The error for a limit below the smallest peak in reach."""
    return MemoryBudgetError(
        f"{name} needs at least {least:,} bytes for temporaries and results, the budget is "
        f"{limit:,}",
        least=least,
        hint=f"raise memory_budget to {least} bytes or more",
    )


@dataclass(frozen=True)
class MemoryCurve:
    """The trade of memory for recomputation: programs that no other beats in both.

    Attributes:
      points: from the largest peak, with the least recomputation, to the smallest peak.
      everything: the peak of the program that keeps every value for its backward part, of which
        a fractional budget is a fraction.
    """

    points: tuple[CurvePoint, ...]
    everything: int

    @staticmethod
    def of(points: Sequence[CurvePoint], everything: int) -> MemoryCurve:
        """The curve of measured programs."""
        front: list[CurvePoint] = []
        for point in sorted(points, key=lambda p: (p.peak_bytes, p.recompute_flops)):
            if not front or point.recompute_flops < front[-1].recompute_flops:
                front.append(point)
        front.reverse()
        return MemoryCurve(tuple(front), everything)

    @property
    def least(self) -> int:
        """The smallest peak in reach."""
        return self.points[-1].peak_bytes

    def within(self, budget: int | float | str, name: str = "f") -> CurvePoint:
        """The program of least recomputation whose peak is at most `budget`.

        Raises:
          ConfigurationError: the budget makes no sense.
          MemoryBudgetError: every program is larger; `least` says how large the smallest is.
        """
        limit = budget_bytes(budget, self.everything)
        for point in self.points:
            if point.peak_bytes <= limit:
                return point
        raise infeasible(name, self.least, limit)

    def plot(self, axes: Any = None) -> Any:
        """The curve drawn with matplotlib, on `axes`, new ones, or in the file of that path.

        Returns the axes.

        Raises:
          ConfigurationError: `axes` is neither, or matplotlib is not installed.
        """

        def draw(axes: Any) -> None:
            axes.plot(
                [p.recompute_flops for p in self.points],
                [p.peak_bytes for p in self.points],
                marker="o",
                drawstyle="steps-post",
            )
            axes.set_xlabel("operations computed again")
            axes.set_ylabel("peak bytes")
            axes.set_ylim(bottom=0)

        return drawn(axes, draw, "MemoryCurve.plot")

    def __str__(self) -> str:
        rows = [("peak bytes", "of everything", "recomputed operations")]
        for p in self.points:
            share = f"{100 * p.peak_bytes / max(self.everything, 1):.1f} %"
            rows.append((f"{p.peak_bytes:,}", share, f"{p.recompute_flops:,}"))
        widths = [max(len(r[k]) for r in rows) for k in range(3)]
        return "\n".join(
            "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows
        )


def within_budget(
    split: Split, budget: int | float | str, options: PartitionOptions | None = None
) -> Partition:
    """The partition whose saved values take at most `budget` bytes and that recomputes least.

    Raises:
      ConfigurationError: the budget makes no sense.
      MemoryBudgetError: even the smallest save set is larger; `least` says how large.
    """
    options = options or PartitionOptions()
    values = network_values(split, options)
    limit = budget_bytes(budget, sum(v.bytes for v in values if v.read))
    free = partition(split, options)
    if free.saved_bytes <= limit:
        return free
    work = [work_again(v) for v in values]
    low, high = 0, _STEPS
    best = _at_price(split, options, values, work, 0)
    if best.saved_bytes > limit:
        raise MemoryBudgetError(
            f"the backward part of {split.graph.name} needs at least {best.saved_bytes} saved "
            f"bytes, the budget is {limit}",
            least=best.saved_bytes,
            hint=f"raise memory_budget to {best.saved_bytes} bytes or more",
        )
    while high - low > 1:
        middle = (low + high) // 2
        tried = _at_price(split, options, values, work, 1 << middle)
        if tried.saved_bytes <= limit:
            low, best = middle, tried
        else:
            high = middle
    cheap, dear = (1 << low if low else 0), 1 << high
    for _ in range(8):
        price = (cheap + dear) // 2
        if price == cheap:
            break
        tried = _at_price(split, options, values, work, price)
        if tried.saved_bytes <= limit:
            cheap, best = price, tried
        else:
            dear = price
    return _filled(split, options, values, work, best, limit)


def _filled(
    split: Split,
    options: PartitionOptions,
    values: Sequence[Value],
    work: Sequence[int],
    best: Partition,
    limit: int,
) -> Partition:
    """`best` with the bytes it leaves spent on the values whose recomputation is dearest."""
    again = set(best.recomputed)
    room = limit - best.saved_bytes
    kept = set(best.saved)
    for _, k in sorted((-work[k] / max(v.bytes, 1), k) for k, v in enumerate(values)):
        value = values[k]
        if value.var in again and value.capacity < INFINITE and value.bytes <= room:
            kept.add(value.var)
            room -= value.bytes
    if len(kept) == len(best.saved):
        return best
    filled = build_partition(split, options, values, kept, best.cut_value)
    better = filled.recompute_flops < best.recompute_flops and filled.saved_bytes <= limit
    return filled if better else best


def _at_price(
    split: Split,
    options: PartitionOptions,
    values: Sequence[Value],
    work: Sequence[int],
    price: int,
) -> Partition:
    """The partition of the minimum cut for `price / BYTE` bytes per operation."""
    # Nothing is free that must not be computed again, whatever the price.
    prices = [cost if cost >= INFINITE else cost * price for cost in work]
    flow, kept = priced_cut(values, prices)
    return build_partition(split, options, values, kept, flow)
