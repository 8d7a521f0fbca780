"""Updates in place: scatters that need not copy what they write into.

Input: a lowered graph, its steps, and which inputs share memory with which outputs (what a loop
carries).  Output: the steps without the copies that turn out not to be needed, and which buffer
lives in the memory of which other.  A scatter starts as a copy of its base; when nobody reads the
base after the scatter has started, both can be the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stax.loops.body import Body
from stax.loops.buffers import Buffer, ComputedBuffer, ExternBuffer
from stax.loops.lower import LoweredGraph
from stax.loops.nodes import Scatter
from stax.schedule.fusion import LoopStep, Scheduled, Step

Fuse = Callable[[Sequence[Step]], list[Scheduled]]


@dataclass(frozen=True)
class InPlace:
    """Which buffer lives in whose memory; `carried` names the inputs updated in place."""

    base: Mapping[str, str]
    carried: frozenset[str]

    def root(self, name: str) -> str:
        """The first buffer in this memory."""
        while name in self.base:
            name = self.base[name]
        return name

    def holders(self, outputs: Sequence[str]) -> dict[str, str]:
        """For each buffer that shares memory, whose memory it is: an output's, or the root's."""
        holder: dict[str, str] = {}
        for name in self.base:
            root = self.root(name)
            holder.setdefault(root, root)
            holder[name] = root
        owned = {self.root(name): name for name in outputs if name in self.base}
        return {name: owned.get(root, root) for name, root in holder.items()}


NOTHING = InPlace({}, frozenset())


def scheduled_in_place(
    lowered: LoweredGraph, steps: Sequence[Step], carried: Mapping[str, str], fuse: Fuse
) -> tuple[list[Scheduled], InPlace]:
    """The schedule of `steps` with as many updates in place as dependences allow.

    Args:
      carried: for inputs that may share memory with an output, the output.
      fuse: makes a schedule.
    """
    base = _candidates(lowered, carried)
    while base:
        order = fuse(_without_copies(lowered, steps, base))
        late = _read_too_late(order, base)
        if not late:
            roots = {b for b in base.values() if b not in base}
            return order, InPlace(base, frozenset(r for r in roots if r in carried))
        base = _kept({t: b for t, b in base.items() if t not in late}, carried)
    return fuse(steps), NOTHING


def _candidates(lowered: LoweredGraph, carried: Mapping[str, str]) -> dict[str, str]:
    outputs = set(lowered.outputs)
    base: dict[str, str] = {}
    taken: set[str] = set()
    for buffer in lowered.computed:
        if not isinstance(buffer, ComputedBuffer) or not isinstance(buffer.data, Scatter):
            continue
        if 0 in buffer.ranges or 0 in buffer.shape:
            continue
        source = _copied_from(buffer)
        if source is None or source in taken or source in outputs:
            continue
        origin = lowered.table[source]
        temporary = isinstance(origin, ComputedBuffer | ExternBuffer)
        if not (temporary or source in carried) or not _same_memory(origin, buffer):
            continue
        if _reads(buffer.bodies[-1], source) and math.prod(buffer.ranges) != 1:
            continue  # later updates would see earlier ones
        base[buffer.name] = source
        taken.add(source)
    return _kept(base, carried)


def _kept(base: dict[str, str], carried: Mapping[str, str]) -> dict[str, str]:
    """The updates whose chain from a carried input ends in that input's output."""
    following = {b: t for t, b in base.items()}
    for source, output in carried.items():
        chain = []
        name = source
        while name in following:
            name = following[name]
            chain.append(name)
        if chain and chain[-1] != output:
            for target in chain[:1]:
                del base[target]
    return base


def _copied_from(buffer: ComputedBuffer) -> str | None:
    """The buffer of which the first loop nest makes a copy, if that is all it does."""
    body = buffer.bodies[0]
    if [i.op for i in body.instrs] != ["load", "store"] or body.instrs[0].args:
        return None
    source, target = body.reads[0], body.writes[0]
    return source.buffer if source.index == target.index else None


def _same_memory(a: Buffer, b: Buffer) -> bool:
    return a.dtype == b.dtype and a.fixed_layout == b.fixed_layout


def _reads(body: Body, name: str) -> bool:
    return any(a.buffer == name for a in body.reads)


def _without_copies(
    lowered: LoweredGraph, steps: Sequence[Step], base: Mapping[str, str]
) -> list[Step]:
    copies = {id(lowered.table[t].bodies[0]) for t in base}  # type: ignore[attr-defined]  # scatters
    updates = {id(lowered.table[t].bodies[-1]): t for t in base}  # type: ignore[attr-defined]
    found: list[Step] = []
    for step in steps:
        if isinstance(step, LoopStep):
            if id(step.body) in copies:
                continue
            target = updates.get(id(step.body))
            if target is not None:
                step = LoopStep(_reading(step.body, base[target], target))
        found.append(step)
    return found


def _reading(body: Body, old: str, new: str) -> Body:
    """The body with its reads of `old` made reads of `new`, the same memory."""
    instrs = tuple(
        i._replace(attrs=(new, *i.attrs[1:])) if i.op == "load" and i.attrs[0] == old else i
        for i in body.instrs
    )
    return replace(body, instrs=instrs)


def _read_too_late(order: Sequence[Scheduled], base: Mapping[str, str]) -> set[str]:
    """The updates whose base is read or written at the same time or later."""
    first_write: dict[str, int] = {}
    last_use: dict[str, int] = {}
    for step, item in enumerate(order):
        reads, writes = item.accesses
        for name in writes:
            first_write.setdefault(name, step)
            last_use[name] = step
        for name in reads:
            last_use[name] = step
    return {
        target
        for target, source in base.items()
        if target not in first_write or last_use.get(source, -1) >= first_write[target]
    }
