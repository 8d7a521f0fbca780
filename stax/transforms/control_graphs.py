"""Graphs that loops and branches carry, as a transformation needs them.

Input: the graph of a body or a branch, and marks: which inputs have a tangent or a batch axis,
which outputs must have one.  Output: the transformed graph with exactly those, zeros or
repetition filling in, so that a carry has one type throughout a loop and all branches agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import Aval
from stax.core.graph import Atom, Eqn, Graph, Var
from stax.core.staging import eval_graph, frees_after, stage
from stax.dtypes import is_inexact
from stax.transforms.calls import is_zero
from stax.transforms.jit_call import jit_p
from stax.transforms.jvp import instantiate, jvp_flat, zeros
from stax.transforms.simplify import inline_calls
from stax.transforms.vmap import batch_flat, to_axis


def parts(values: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """`values` cut into consecutive lists of these sizes, and the rest."""
    found = []
    start = 0
    for size in sizes:
        found.append(list(values[start : start + size]))
        start += size
    found.append(list(values[start:]))
    return found


def chosen(values: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    """The marked ones among `values`."""
    return [v for v, mark in zip(values, marks, strict=True) if mark]


def active_marks(tangents: Sequence[Any], avals: Sequence[Aval]) -> list[bool]:
    """Which arguments have a tangent that is not zero by structure."""
    return [not is_zero(t) and is_inexact(a.dtype) for t, a in zip(tangents, avals, strict=True)]


def carry_fixpoint(
    marks: Sequence[bool], consts: int, carry: int, step: Callable[[list[bool]], Sequence[bool]]
) -> tuple[list[bool], Sequence[bool]]:
    """The least marks of a loop's inputs that its carried outputs do not exceed.

    `step(input marks)` gives the marks of the outputs, the carried ones first.  Returns the marks
    of the inputs and those of the outputs.
    """
    known = list(marks)
    while True:
        outs = step(known)
        grown = [a or b for a, b in zip(known[consts : consts + carry], outs[:carry], strict=True)]
        if grown == known[consts : consts + carry]:
            return known, outs
        known[consts : consts + carry] = grown


def without_jit(graph: Graph) -> Graph:
    """`graph` with the calls of `jit` in it inlined; calls that carry a rule stay."""
    found: Graph | None = graph.cache.get("control flat")
    if found is None:
        found = graph.cache["control flat"] = inline_calls(graph, lambda e: e.prim is not jit_p)
    return found


def jvp_body(graph: Graph, nonzero: Sequence[bool], wanted: Sequence[bool]) -> Graph:
    """(inputs, tangents of the `nonzero` ones) -> (outputs, tangents of the `wanted` ones)."""
    key = ("control jvp", tuple(nonzero), tuple(wanted))
    found: Graph | None = graph.cache.get(key)
    if found is not None:
        return found

    def fun(*values: Any) -> list[Any]:
        primals = values[: len(graph.inputs)]
        given = iter(values[len(graph.inputs) :])
        tangents = [next(given) if n else None for n in nonzero]
        outs, out_tangents = jvp_flat(lambda *a: eval_graph(graph, a), primals, tangents)
        made = [
            instantiate(t, out) for t, out, w in zip(out_tangents, outs, wanted, strict=True) if w
        ]
        return [*outs, *made]

    avals = [*graph.in_avals, *(a.tangent() for a in chosen(graph.in_avals, nonzero))]
    found = graph.cache[key] = stage(fun, avals, name=graph.name)
    return found


def batch_body(
    graph: Graph, batched: Sequence[bool], wanted: Sequence[bool], size: int, axis_name: Any
) -> Graph:
    """`graph` for a whole batch: batch axes in front, on the marked inputs and outputs."""
    key = ("control batch", tuple(batched), tuple(wanted), size, axis_name)
    found: Graph | None = graph.cache.get(key)
    if found is not None:
        return found
    dims = [0 if b else None for b in batched]

    def fun(*values: Any) -> list[Any]:
        outs, places = batch_flat(lambda *a: eval_graph(graph, a), values, dims, size, axis_name)
        return [
            to_axis(v, d, 0, size) if w else v for v, d, w in zip(outs, places, wanted, strict=True)
        ]

    found = graph.cache[key] = stage(fun, batched_avals(graph, batched, size), name=graph.name)
    return found


def batched_avals(graph: Graph, batched: Sequence[bool], size: int) -> list[Aval]:
    """Types of the inputs of `graph` with a batch axis in front of the marked ones."""
    return [
        Aval((size, *a.shape), a.dtype) if b else a
        for a, b in zip(graph.in_avals, batched, strict=True)
    ]


def filled(graph: Graph, have: Sequence[bool], wanted: Sequence[Aval | None]) -> Graph:
    """`graph`, whose outputs are those marked in `have`, with zeros where others are wanted.

    `wanted` holds a type for each position, None where nothing is.
    """
    if all(h == (w is not None) for h, w in zip(have, wanted, strict=True)):
        return graph

    def fun(*values: Any) -> list[Any]:
        outs = iter(eval_graph(graph, values))
        found = [next(outs) if h else None for h in have]
        return [
            zeros(a) if v is None else v
            for v, a in zip(found, wanted, strict=True)
            if a is not None
        ]

    return stage(fun, graph.in_avals, name=graph.name)


def rewritten(graph: Graph, change: Callable[[Eqn], Eqn]) -> Graph:
    """`graph` with every equation changed, those of carried graphs included."""

    def visit(value: Any) -> Any:
        if isinstance(value, Graph):
            return rewritten(value, change)
        if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
            return tuple(visit(v) for v in value)
        return value

    eqns = []
    for eqn in graph.eqns:
        if any(visit(v) is not v for v in eqn.params.values()):
            eqn = eqn.replace(params={k: visit(v) for k, v in eqn.params.items()})
        eqns.append(change(eqn))
    if all(a is b for a, b in zip(eqns, graph.eqns, strict=True)):
        return graph
    return graph.replace(eqns=eqns)


def unchecked(graph: Graph) -> Graph:
    """`graph` without bounds checks, for lanes of a batch whose results are thrown away.

    An index in bounds reads the same element; one out of bounds wraps around.
    """
    found: Graph | None = graph.cache.get("unchecked")
    if found is None:
        found = graph.cache["unchecked"] = rewritten(graph, _wrapping)
    return found


def _wrapping(eqn: Eqn) -> Eqn:
    if eqn.params.get("mode") != "error":
        return eqn
    return eqn.replace(params={**eqn.params, "mode": "wrap"})


def variables(atoms: Sequence[Any]) -> set[Var]:
    """The values among `atoms`."""
    return {a for a in atoms if isinstance(a, Var)}


def with_leading_inputs(graph: Graph, avals: Sequence[Aval], own: Sequence[int]) -> Graph:
    """`graph`, whose first inputs are those at `own` among leading inputs of types `avals`."""
    if len(own) == len(avals):
        return graph

    def fun(*values: Any) -> list[Any]:
        return eval_graph(graph, [*(values[k] for k in own), *values[len(avals) :]])

    return stage(fun, [*avals, *graph.in_avals[len(own) :]], name=graph.name)


def numpy_function(graph: Graph) -> Callable[[Sequence[Any]], list[Any]]:
    """`graph` as a function of NumPy values, for running it many times.

    It does what `eval_graph` does when nothing is traced, with the bookkeeping done once.
    """
    found: Callable[[Sequence[Any]], list[Any]] | None = graph.cache.get("numpy function")
    if found is not None:
        return found
    slot: dict[Var, int] = {}
    start: list[Any] = []

    def place(var: Var, value: Any = None) -> int:
        slot[var] = len(start)
        start.append(value)
        return slot[var]

    def read(atom: Atom) -> int:
        if isinstance(atom, Var):
            return slot[atom]
        start.append(atom.value)
        return len(start) - 1

    for var in graph.inputs:
        place(var)
    for var, value in graph.constants:
        place(var, value)
    frees = frees_after(graph)
    plan = []
    for eqn, gone in zip(graph.eqns, frees, strict=True):
        ins = [read(a) for a in eqn.inputs]
        outs = [place(v) for v in eqn.outputs]
        prim = eqn.prim
        plan.append((prim.impl, ins, outs, eqn.params, prim.multi, [slot[v] for v in gone]))
    results = [read(a) for a in graph.outputs]
    count = len(graph.inputs)

    def run(values: Sequence[Any]) -> list[Any]:
        slots = list(start)
        slots[:count] = values
        for impl, ins, outs, params, multi, gone in plan:
            out = impl(*[slots[k] for k in ins], **params)
            if multi:
                for k, value in zip(outs, out, strict=True):
                    slots[k] = value
            else:
                slots[outs[0]] = out
            for k in gone:
                slots[k] = None
        return [slots[k] for k in results]

    graph.cache["numpy function"] = run
    return run
