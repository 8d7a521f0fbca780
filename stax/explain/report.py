"""What the compiler decided about a function, in one text.

Input: a function and arguments (or their types).  Output: a `Report`: what is saved for the
backward part or recomputed there and why, which kernels run and what is fused in them, what is
written to memory and by which rule, the bytes moved and the peak.  The text depends on the program
alone; running times and resident memory are measured only when asked for.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stax.compile import Compiled, Lowered, memory_curve_of
from stax.explain.pages import page
from stax.forked import cached_attribute
from stax.loops.buffers import ComputedBuffer, ExternBuffer
from stax.programs.options import CompileOptions
from stax.schedule.fusion import CallStep
from stax.transforms.arguments import check_callable
from stax.transforms.budget import MemoryCurve
from stax.transforms.jit import jit
from stax.transforms.pictures import drawn

Row = tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """What the expected time assumes: memory traffic and arithmetic do not overlap."""

    bytes_per_second: float = 10e9
    operations_per_second: float = 20e9
    seconds_per_call: float = 2e-6


@dataclass(frozen=True)
class Measured:
    """One run: the shortest time in seconds, and how much resident memory grew in the first."""

    seconds: float
    peak_bytes: int | None


@dataclass
class Report:
    """Every decision about one program; `str()` is the text, `save_html` a page.

    Attributes:
      lowered: the lowered and scheduled program, for looking further.
      arguments: the arguments, when they are arrays that it can be run on.
    """

    lowered: Lowered
    arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    machine: Machine = field(default_factory=Machine)

    @cached_attribute
    def compiled(self) -> Compiled:
        """The compiled program."""
        return self.lowered.compile()

    @cached_attribute
    def costs(self) -> dict[str, float]:
        """Operations, bytes moved, kernels and calls."""
        return Compiled(self.lowered, None).cost_analysis()  # type: ignore[arg-type]  # not run

    @property
    def predicted_peak_bytes(self) -> int:
        """Bytes of temporaries and results, from the plan of the arena."""
        return self.lowered.peak_bytes

    @property
    def expected_seconds(self) -> float:
        """A rough time of one run on `machine`."""
        m, costs = self.machine, self.costs
        return (
            costs["bytes"] / m.bytes_per_second
            + costs["flops"] / m.operations_per_second
            + m.seconds_per_call
        )

    @cached_attribute
    def measured(self) -> Measured | None:
        """Time and memory of real runs; None when only types were given."""
        if self.arguments is None:
            return None
        args, kwargs = self.arguments
        compiled = self.compiled
        before = resident_bytes()
        outs = compiled(*args, **kwargs)
        after = resident_bytes()
        del outs
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            compiled(*args, **kwargs)
            best = min(best, time.perf_counter() - start)
        grown = None if before is None or after is None else max(after - before, 0)
        return Measured(best, grown)

    @cached_attribute
    def sections(self) -> list[tuple[str, list[str], list[Row]]]:
        """The tables of the report: title, lines above, rows with a header row first."""
        return [
            self._summary(),
            self._values(),
            self._kernels(),
            self._buffers(),
            self._fallbacks(),
        ]

    def __str__(self) -> str:
        parts = []
        for title, lines, rows in self.sections:
            if not lines and len(rows) < 2:
                continue
            parts.append("\n".join([title, *("  " + line for line in (*lines, *aligned(rows)))]))
        return "\n\n".join(parts)

    def save_html(self, path: str | Path) -> None:
        """Write the report as one page, with the memory alive at every step drawn in it."""
        extra = []
        if self.measured is not None:
            extra.append(f"expected {1e6 * self.expected_seconds:,.1f} µs")
            extra.append(f"measured {1e6 * self.measured.seconds:,.1f} µs")
        text = page(self.lowered.graph.name, self.sections, extra, self.live_bytes())
        Path(path).write_text(text, encoding="utf-8")

    def live_bytes(self) -> list[int]:
        """Bytes of temporaries alive at each step of the schedule."""
        table = self.lowered.lowered.table
        outputs = set(self.lowered.lowered.outputs)
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for step, item in enumerate(self.lowered.order):
            reads, writes = item.accesses
            for name in (*reads, *writes):
                if isinstance(table[name], ComputedBuffer | ExternBuffer) and name not in outputs:
                    first.setdefault(name, step)
                    last[name] = step
        offsets = self.lowered.source.plan.offsets
        change = [0] * (len(self.lowered.order) + 1)
        for name in first:
            if name in offsets:
                change[first[name]] += table[name].nbytes
                change[last[name] + 1] -= table[name].nbytes
        total, found = 0, []
        for delta in change[:-1]:
            total += delta
            found.append(total)
        return found

    def plot(self, axes: Any = None) -> Any:
        """The live bytes drawn with matplotlib, on `axes`, new ones, or in the file of that path.

        Returns the axes.

        Raises:
          ConfigurationError: `axes` is neither, or matplotlib is not installed.
        """

        def draw(axes: Any) -> None:
            live = self.live_bytes()
            axes.fill_between(range(len(live)), live, step="mid")
            axes.set_xlabel("step")
            axes.set_ylabel("bytes alive")

        return drawn(axes, draw, "Report.plot")

    # --- the tables -----------------------------------------------------------------------------

    def _summary(self) -> tuple[str, list[str], list[Row]]:
        graph, costs = self.lowered.prepared, self.costs
        phases = [e.phase for e in graph.eqns]
        source = self.lowered.source
        lines = [
            f"{len(phases)} operations: {phases.count('forward')} forward, "
            f"{phases.count('backward')} backward",
            f"{int(costs['kernels'])} kernels and {int(costs['calls'])} calls",
            f"{int(costs['flops']):,} operations on numbers, {int(costs['bytes']):,} bytes moved",
            f"peak {self.predicted_peak_bytes:,} bytes: {source.plan.nbytes:,} for temporaries "
            f"(at most {source.plan.live_peak:,} alive at once), "
            f"{sum(b.nbytes for b in source.outputs):,} for results",
        ]
        return f"program {graph.name}", lines, []

    def _values(self) -> tuple[str, list[str], list[Row]]:
        partition = self.lowered.partition
        if partition is None:
            return "saved and recomputed", [], []
        rows: list[Row] = [("value", "type", "line", "bytes", "decision")]
        decisions = partition.decisions()
        for v in partition.values:
            decision = decisions[v.var]
            if decision.startswith("not needed"):
                continue
            line = v.eqn.source.replace("\\", "/").rsplit("/", 1)[-1]
            rows.append((v.var.name or "?", str(v.var.aval), line or "-", f"{v.bytes:,}", decision))
        lines = [
            f"{len(partition.saved)} values of {partition.saved_bytes:,} bytes saved, "
            f"{partition.recompute_flops:,} operations computed again"
        ]
        return "saved and recomputed", lines, rows

    def _kernels(self) -> tuple[str, list[str], list[Row]]:
        rows: list[Row] = [("step", "loops", "fused", "reads", "writes")]
        for item in self.lowered.order:
            if isinstance(item, CallStep):
                rows.append(
                    (item.name, self._called(item), "-", ", ".join(item.reads), self._made(item))
                )
                continue
            loops = "x".join(map(str, item.rows)) or "1"
            if item.along:
                loops += " along " + "x".join(map(str, item.along))
            members = ", ".join(m.role.value for m in item.members)
            reads = sorted(item.reads - set(item.stored))
            rows.append((item.name, loops, members, ", ".join(reads), ", ".join(item.stored)))
        return "schedule", [], rows

    def _called(self, item: CallStep) -> str:
        buffer = self.lowered.lowered.table[item.writes[0]]
        return buffer.extern_kind if isinstance(buffer, ExternBuffer) else "call"

    @staticmethod
    def _made(item: CallStep) -> str:
        return ", ".join(item.writes)

    def _buffers(self) -> tuple[str, list[str], list[Row]]:
        rows: list[Row] = [("buffer", "of", "bytes", "why it is in memory")]
        outputs = set(self.lowered.lowered.outputs)
        for buffer in self.lowered.lowered.computed:
            if isinstance(buffer, ComputedBuffer):
                why = buffer.reason
            else:
                assert isinstance(buffer, ExternBuffer)
                why = f"result of a call: {buffer.extern_kind}"
            if buffer.name in outputs:
                why = "an output of the program"
            rows.append((buffer.name, ", ".join(buffer.origins), f"{buffer.nbytes:,}", why))
        return "materialised", [], rows

    def _fallbacks(self) -> tuple[str, list[str], list[Row]]:
        return "outside compiled code", [str(note) for note in self.lowered.fallbacks], []


def aligned(rows: Sequence[Row]) -> list[str]:
    """Rows as lines with columns under each other; nothing for a header alone."""
    if len(rows) < 2:
        return []
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def resident_bytes() -> int | None:
    """Resident memory of this process; None where the system does not say."""
    if sys.platform != "linux":
        return None
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return None


def explain(fun: Callable[..., Any]) -> Callable[..., Report]:
    """A function that returns the report of every decision about `fun` at its arguments.

    `fun` may be compiled already; its own options hold then. Arguments may be
    `ShapeDtypeStruct`s: nothing is run until `.measured` is asked for.

    Returns:
      A function with the arguments of `fun` that gives a `Report`: its text says what is saved
      and why, the schedule, every buffer and its reason, the predicted peak; `.save_html(path)`
      writes a page, `.plot(path)` draws the bytes alive, `.measured` runs the program.

    >>> import numpy as np
    >>> report = explain(lambda x: np.sin(x) * 2)(np.zeros(3))
    >>> print(str(report).splitlines()[0])
    program f
    """
    check_callable(fun, "explain")

    def build(*args: Any, **kwargs: Any) -> Report:
        lowered = _compiled(fun).lower(*args, **kwargs)
        runnable = not any(_is_type_only(v) for v in (*args, *kwargs.values()))
        return Report(lowered, (args, kwargs) if runnable else None)

    return build


def memory_curve(fun: Callable[..., Any]) -> Callable[..., MemoryCurve]:
    """A function that returns the trade of memory for recomputation of `fun` at its arguments.

    Its points are programs as they would be compiled: peak bytes of temporaries and results, and
    operations computed again in the backward part. `jit(fun, memory_budget=b)` takes the first
    whose peak is at most `b`.

    >>> import numpy as np
    >>> from stax.transforms.grad import grad
    >>> curve = memory_curve(grad(lambda x: np.sin(x).sum()))(np.zeros(8))
    >>> curve.points[0].recompute_flops
    0
    """
    check_callable(fun, "memory_curve")

    def build(*args: Any, **kwargs: Any) -> MemoryCurve:
        traced = _compiled(fun).trace(*args, **kwargs)
        options = CompileOptions.of(backend=traced.options.backend)
        return memory_curve_of(traced.graph, options)

    return build


def _compiled(fun: Callable[..., Any]) -> Any:
    # Other transformations copy the attributes of what they wrap, so ask for the owner.
    owner = getattr(getattr(fun, "trace", None), "__self__", None)
    return fun if getattr(owner, "dispatcher", None) is fun else jit(fun)


def _is_type_only(value: Any) -> bool:
    return hasattr(value, "shape") and not hasattr(value, "__array__") and hasattr(value, "dtype")
