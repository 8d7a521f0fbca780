"""Materialisation: which values are written to memory and which are computed where they are read.

Input: a lazy tensor and the number of its readers. Output: the rule that wants it in memory, or
None. The thresholds stand for one cost model: computing a value ``k`` times costs ``(k - 1)``
extra evaluations and reads of its inputs, storing it costs one write and ``k`` reads. They are
data, one row for each kind of device. Either choice gives the same bits, so this is a matter of
cost alone; the hard limits keep closures and kernels to a size that Python and a C compiler handle
well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stax.loops.buffers import BufferTable
from stax.loops.ops import Value, handling
from stax.loops.ranges import EVERYTHING, Interval
from stax.loops.scalar_ops import SCALAR_OPS
from stax.loops.symbolic import loop_variables
from stax.loops.tensors import TensorNode
from stax.loops.trace import BodyTracer, Ref


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits above which a value with several readers is stored.

    Attributes:
        store_transcendental: whether exp, log, tanh and their like are stored at once.
        operations: scalar operations for one element.
        many_readers: with more readers than this, ``crowded_operations`` is the limit instead.
        buffers: distinct buffers read.
        reads: reads in all, after everything upstream was inlined.
        depth: closures between the value and memory; holds with one reader too.
        body: scalar operations for one element with one reader.
        body_buffers: distinct buffers read with one reader.
        piece: elements of a row that a variance reads twice, for the mean and for the squares
            around it, since they stay in the first cache or in the registers of a block; longer
            rows merge the triples of pieces.
        shifted: operations from which a value that is read ``SHIFTS`` times and more at shifted
            places is stored; None for never.
    """

    store_transcendental: bool
    operations: int
    many_readers: int | None
    crowded_operations: int
    buffers: int
    reads: int
    depth: int = 100
    body: int = 400
    body_buffers: int = 48
    piece: int = 4096
    shifted: int | None = None


SHIFTS = 3.0
LONG = 4096  # instructions after which a counter is begun anew

THRESHOLDS: dict[str, Thresholds] = {
    "cpu": Thresholds(
        store_transcendental=True,
        operations=50,
        many_readers=5,
        crowded_operations=40,
        buffers=3,
        reads=12,
        shifted=6,
    ),
    "cuda": Thresholds(
        store_transcendental=False,
        operations=30,
        many_readers=None,
        crowded_operations=30,
        buffers=4,
        reads=8,
    ),
}

COMPACT = {device: replace(row, buffers=1, body_buffers=6) for device, row in THRESHOLDS.items()}


@dataclass(frozen=True, slots=True)
class Statistics:
    """What computing one element takes, everything upstream inlined."""

    operations: int
    reads: int
    buffers: frozenset[str]
    transcendental: frozenset[str]


class Counter(BodyTracer):
    """Records many values and knows, for each, which instructions it takes.

    Values share what they are computed from: what a value reads unstored was counted when it was
    decided upon, for the same index, and is not interpreted again.  An instruction that several
    values take is recorded once, as it would be in a loop of each of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.touched = 0  # a bit for each instruction
        self.operations = self.loads = 0  # the bits of these instructions

    def _emit(
        self,
        op: str,
        args: tuple[int, ...],
        dtype: np.dtype,
        attrs: tuple[Any, ...],
        interval: Interval = EVERYTHING,
        key: Any = None,
    ) -> Ref:
        known = len(self.instrs)
        found = super()._emit(op, args, dtype, attrs, interval, key)
        bit = 1 << found.id
        self.touched |= bit
        if found.id == known:
            if op == "load":
                self.loads |= bit
            elif op in SCALAR_OPS or op in ("cast", "bitcast"):
                self.operations |= bit
        return found

    def recall(self, made: Any, index: Any, make: Callable[[Any], Value]) -> Value:
        known = self.memo.get((made, index))
        if known is None:
            before, self.touched = self.touched, 0
            known = self.memo[made, index] = make(index), self.touched
            self.touched = before
        value, touched = known
        self.touched |= touched
        return value

    def statistics(self, node: TensorNode) -> Statistics:
        """The figures of one element of ``node``."""
        self.touched = 0
        with handling(self):
            self.ref(node.loader()(loop_variables("i", node.shape)))
        reads = self.touched & self.loads
        operations = self.touched & self.operations
        names = (self.instrs[n].op for n in _bits(operations))
        return Statistics(
            operations=operations.bit_count(),
            reads=reads.bit_count(),
            buffers=frozenset(self.instrs[n].attrs[0] for n in _bits(reads)),
            transcendental=frozenset(n for n in names if n in _TRANSCENDENTAL),
        )


class Counts:
    """The figures of the values of one graph, which share a counter until it is long."""

    def __init__(self) -> None:
        self._counter = Counter()

    def of(self, node: TensorNode) -> Statistics:
        """The figures of one element of ``node``."""
        if len(self._counter.instrs) > LONG:
            self._counter = Counter()
        return self._counter.statistics(node)


_TRANSCENDENTAL = frozenset(row.name for row in SCALAR_OPS.values() if row.transcendental)


def _bits(number: int) -> Iterator[int]:
    """The positions of the bits that are set."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def thresholds_for(device: str, mode: str = "default") -> Thresholds:
    """The row of a device; every GPU has the same.

    Where memory is short ("compact"), a value is stored rather than computed by its readers from
    several buffers, which would all have to live on.
    """
    rows = COMPACT if mode == "compact" else THRESHOLDS
    return rows.get(device, rows["cuda"])


def realize_reason(
    node: TensorNode, readers: int, table: BufferTable, counts: Counts, shifts: float = 0
) -> str | None:
    """The rule by which ``node`` is written to memory, in words; None when it stays inlined.

    Of a stencil's input every element is read at ``shifts`` places, where it would be computed.
    """
    found = decide(node, readers, table.device, table.mode, counts)
    limit = thresholds_for(table.device).shifted
    if found or shifts < SHIFTS or limit is None or table.mode == "none":
        return found
    operations = counts.of(node).operations
    return f"{operations} operations at {shifts:.1f} places each" if operations >= limit else None


def decide(
    node: TensorNode, readers: int, device: str, mode: str, counts: Counts | None = None
) -> str | None:
    """The rule by which ``node`` is stored, in words, on a device and in a mode of the table."""
    if node.is_realized:
        return None
    if node.must_realize:
        return "reductions, scans and scatters are computed once"
    if mode == "all":
        return "every value is materialised in this mode"
    limits = thresholds_for(device, mode)
    if node.depth > limits.depth:
        return f"inlined {node.depth} levels deep (limit {limits.depth})"
    several = readers > 1 and mode != "none"
    if not several and node.weight <= limits.body and node.reads <= limits.body_buffers:
        return None
    found = (counts or Counts()).of(node)
    node.weight, node.reads = found.operations, found.reads
    if found.operations > limits.body:
        return f"{found.operations} operations (limit {limits.body} in one loop)"
    if len(found.buffers) > limits.body_buffers:
        return f"reads {len(found.buffers)} buffers (limit {limits.body_buffers} in one loop)"
    return _several_readers(found, readers, limits) if several else None


def _several_readers(found: Statistics, readers: int, limits: Thresholds) -> str | None:
    if limits.store_transcendental and found.transcendental:
        names = ", ".join(sorted(found.transcendental))
        return f"{readers} readers and costs {names}"
    many = limits.many_readers
    if many is not None and readers > many and found.operations >= limits.crowded_operations:
        return f"{readers} readers (more than {many}) and {found.operations} operations"
    if found.operations > limits.operations:
        return f"{readers} readers and {found.operations} operations (limit {limits.operations})"
    if len(found.buffers) > limits.buffers:
        return f"{readers} readers and reads {len(found.buffers)} buffers (limit {limits.buffers})"
    if found.reads > limits.reads:
        return f"{readers} readers and {found.reads} reads (limit {limits.reads})"
    return None
