"""Recomputation inside one program: the minimum cut applied without splitting the graph.

Input: a graph with backward equations, such as the staging of `grad(f)`.  Output: an equal graph
in which the backward part reads only the forward values the partition saves; what it recomputes
is cloned just before its first backward reader.  A clone carries a fresh region, so that common
subexpressions are not merged back across the two parts.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import accumulate, pairwise
from typing import Final

from stax.core.graph import BACKWARD, Eqn, Graph, Var
from stax.core.primitive import Recompute
from stax.transforms.partition import (
    Partition,
    PartitionOptions,
    backward_equations,
    build_partition,
    live_equations,
    minimum_cut,
    network_values,
)
from stax.transforms.phases import Split, split_joint
from stax.transforms.scores import FUSIBLE

# In one program a value already in memory stays there for nothing, and tiny values are registers.
ONE_PROGRAM: Final = PartitionOptions(inputs_are_enough=False, free_bytes=64)


def rematerialise(
    graph: Graph, options: PartitionOptions = ONE_PROGRAM, kept: Set[Var] | None = None
) -> Graph:
    """`graph` with cheap forward values recomputed where its backward part reads them.

    With `kept`, the values of that set are kept for the backward part instead of those on the
    minimum cut, and everything else it reads is recomputed.  Values are unchanged bit for bit;
    the equations of a checkpointed region (a hard constraint of the user) stay as they are.
    """
    split = split_joint(graph)
    if not split.backward or not split.forward:
        return graph
    values = network_values(split, options)
    if kept is None:
        network = [v for v in values if v.bytes > options.free_bytes]
        given = {v.var for v in minimum_cut(network)[1]}
    else:
        given = set(kept)
    given.update(v.var for v in values if v.bytes <= options.free_bytes)
    # A returned forward value is in memory when the program ends, whatever the backward reads.
    outputs = {a for a in graph.outputs if isinstance(a, Var)}
    given.update(v.var for v in values if v.var in outputs)
    given.update(graph.inputs)
    given.update(v for v, _ in graph.constants)

    producer = {v: eqn for eqn in split.forward for v in eqn.outputs}
    eqns, again = backward_equations(split.backward, (), producer, given)
    if not again:
        return graph
    cloned = set(map(id, again))
    region = 1 + max(eqn.region for eqn in graph.eqns)
    renamed: dict[Var, Var] = {}
    merged: list[Eqn] = []
    following = iter(eqns)
    early = set(map(id, split.forward))
    for original in graph.eqns:
        if id(original) in early:
            merged.append(original)
            continue
        for eqn in following:
            if id(eqn) not in cloned:
                inputs = [renamed.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs]
                merged.append(eqn.replace(inputs=inputs))
                break
            inputs = [renamed.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs]
            fresh = [Var(v.aval, f"{v.name}.again") for v in eqn.outputs]
            renamed.update(zip(eqn.outputs, fresh, strict=True))
            merged.append(eqn.replace(inputs=inputs, outputs=fresh, phase=BACKWARD, region=region))
    return graph.replace(eqns=live_equations(merged, outputs))


def partition_keeping(split: Split, kept: Set[Var]) -> Partition:
    """The partition of a graph whose backward part is given the values `kept`."""
    values = network_values(split, ONE_PROGRAM)
    small = {v.var for v in values if v.bytes <= ONE_PROGRAM.free_bytes}
    return build_partition(split, ONE_PROGRAM, values, small.union(kept), 0)


def recomputed_late(graph: Graph) -> Graph:
    """`graph` in which checkpointed regions hold no cheap value from one reader to a far one.

    Where what such a value is computed from lives until then anyway, it is computed once more for
    the far reader: an activation, for the product that gives a weight's gradient, beside what the
    activation's own derivative reads.
    """
    eqns = graph.eqns
    if not any(e.region and e.phase == BACKWARD for e in eqns):
        return graph
    reads: dict[Var, list[int]] = {}
    for k, eqn in enumerate(eqns):
        for var in {a for a in eqn.inputs if isinstance(a, Var)}:
            reads.setdefault(var, []).append(k)
    always = {*graph.inputs, *(v for v, _ in graph.constants)}
    results = {a for a in graph.outputs if isinstance(a, Var)}
    opaque = list(accumulate((e.prim.recompute not in FUSIBLE for e in eqns), initial=0))
    region = 1 + max(e.region for e in eqns)
    before: dict[int, list[Eqn]] = {}
    renamed: dict[tuple[int, Var], Var] = {}
    for eqn in eqns:
        if not eqn.region or eqn.phase != BACKWARD or eqn.prim.recompute is not Recompute.CHEAP:
            continue
        var = eqn.outputs[0]
        if var in results or var.aval.nbytes <= ONE_PROGRAM.free_bytes or len(eqn.outputs) > 1:
            continue
        readers = reads.get(var, [])
        far = next((k for j, k in pairwise(readers) if opaque[k] - opaque[j] > 1), None)
        if far is None:
            continue
        sources = {a for a in eqn.inputs if isinstance(a, Var) and a not in always}
        if any(reads[v][-1] < far for v in sources):
            continue
        again = Var(var.aval, f"{var.name}.late")
        before.setdefault(far, []).append(eqn.replace(outputs=[again], region=region))
        renamed.update(((k, var), again) for k in readers if k >= far)
    if not before:
        return graph
    changed = {k for k, _ in renamed}
    found: list[Eqn] = []
    for k, eqn in enumerate(eqns):
        found += before.get(k, ())
        if k in changed:
            inputs = [renamed.get((k, a), a) if isinstance(a, Var) else a for a in eqn.inputs]
            eqn = eqn.replace(inputs=inputs)
        found.append(eqn)
    return graph.replace(eqns=found)
