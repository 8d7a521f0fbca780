"""The work of a lowered graph, in order.

Input: buffers, each computed by loops or by a call.  Output: the steps that the schedule groups.
What no output and no effect depends on is left out; results of one call are one step.
"""

from __future__ import annotations

from stax.loops.buffers import ExternBuffer
from stax.loops.lower import LoweredGraph
from stax.schedule.fusion import CallStep, LoopStep, Step
from stax.transforms.simplify import acts


def _needed_buffers(lowered: LoweredGraph) -> set[str]:
    """The buffers that the outputs depend on; results of one call are needed together."""
    needed = set(lowered.outputs)
    calls: set[str] = set()
    for buffer in reversed(lowered.computed):
        if isinstance(buffer, ExternBuffer):
            eqn = buffer.params.get("eqn")
            if (eqn is not None and acts(eqn)) or buffer.name in needed:
                calls.add(buffer.call)
            if buffer.call in calls:
                needed.add(buffer.name)
        if buffer.name in needed:
            needed.update(buffer.input_names)
    return needed


def steps_of(lowered: LoweredGraph, prune: bool = True) -> list[Step]:
    """The work of a lowered graph in order; results of one call are one step.

    A value may be stored for a reader that turned out not to read it (a product with zero); with
    `prune` such work is left out.
    """
    steps: list[Step] = []
    calls: dict[str, list[ExternBuffer]] = {}
    for buffer in lowered.computed:
        if isinstance(buffer, ExternBuffer):
            calls.setdefault(buffer.call, []).append(buffer)
    needed = _needed_buffers(lowered) if prune else None
    for buffer in lowered.computed:
        if needed is not None and buffer.name not in needed:
            continue
        if isinstance(buffer, ExternBuffer):
            together = calls[buffer.call]
            if buffer is not together[0]:
                continue
            reads = tuple(dict.fromkeys(i.buffer for i in buffer.inputs))
            if all(0 in b.shape for b in together):
                continue
            steps.append(CallStep(buffer.call, reads, tuple(b.name for b in together)))
        elif 0 not in buffer.shape:
            for k, body in enumerate(buffer.bodies):  # type: ignore[attr-defined]  # computed
                if k and 0 in buffer.ranges:
                    continue
                steps.append(LoopStep(body))
    return steps
