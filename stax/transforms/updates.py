"""Updates of arrays arranged so that they can be made in place.

Input: a graph with scatters and windows written into arrays.  Output: an equal graph in which a
sum with an array that is zero but for a few elements is an update of those elements (the
cotangent of an indexed read in a loop: without this each step would touch the whole array), and
in which updates come as late as possible, after the last reader of what they overwrite.
"""

from __future__ import annotations

from typing import Any

from stax.core.graph import Atom, Eqn, Graph, Literal, Var
from stax.core.staging import stage
from stax.core.trace import bind
from stax.primitives.dynamic_slices import (
    dynamic_slice,
    dynamic_update_slice,
    dynamic_update_slice_p,
)
from stax.primitives.elementwise import add, add_p
from stax.primitives.indexing import scatter_p
from stax.primitives.views import broadcast_p

UPDATES = (scatter_p, dynamic_update_slice_p)


def sparse_sums(graph: Graph) -> Graph:
    """`graph` with sums `x + (zeros updated at some elements)` made updates of `x`."""
    producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    readers: dict[Var, int] = {}
    for atom in (*graph.outputs, *(a for eqn in graph.eqns for a in eqn.inputs)):
        if isinstance(atom, Var):
            readers[atom] = readers.get(atom, 0) + 1
    sums: dict[Var, tuple[Atom, list[Eqn]]] = {}
    dropped: set[Var] = set()
    for eqn in reversed(graph.eqns):
        if eqn.prim is not add_p or eqn.outputs[0] in dropped:
            continue
        if eqn.inputs[0].aval.shape != eqn.inputs[1].aval.shape:
            continue
        for here, other in (eqn.inputs, eqn.inputs[::-1]):
            parts = _sparse_parts(here, producer, readers)
            if parts:
                sums[eqn.outputs[0]] = other, [e for e in parts if e.prim is not add_p]
                dropped.update(e.outputs[0] for e in parts)
                break
    if not sums:
        return graph

    def fun(*values: Any) -> list[Any]:
        env: dict[Var, Any] = dict(zip(graph.inputs, values, strict=True))
        env.update(graph.constants)

        def of(atom: Atom) -> Any:
            return env[atom] if isinstance(atom, Var) else atom.value

        for eqn in graph.eqns:
            out = eqn.outputs[0] if eqn.outputs else None
            if out in dropped:
                continue
            found = sums.get(out) if out is not None else None
            if found is None:
                results = bind(eqn.prim, *map(of, eqn.inputs), **eqn.params)
                env.update(zip(eqn.outputs, results, strict=True))
                continue
            total, chain = of(found[0]), found[1]
            for update in chain:
                new, *places = map(of, update.inputs[1:])
                total = _added(total, update, new, places)
            env[eqn.outputs[0]] = total
        return [of(a) for a in graph.outputs]

    return stage(fun, graph.in_avals, name=graph.name)


def _added(total: Any, update: Eqn, new: Any, places: list[Any]) -> Any:
    """`total` with what `update` writes into zeros added to it."""
    if update.prim is scatter_p:
        return bind(scatter_p, total, new, *places, **update.params)[0]
    window = dynamic_slice(total, places, update.inputs[1].aval.shape)
    return dynamic_update_slice(total, add(window, new), places)


def _sparse_parts(atom: Atom, producer: dict[Var, Eqn], readers: dict[Var, int]) -> list[Eqn]:
    """The equations that make `atom` of zeros by adding to a few elements; [] if it is dense."""
    found: list[Eqn] = []
    pending = [atom]
    while pending:
        here = pending.pop()
        if found and _is_zero(here, producer):
            continue
        if not isinstance(here, Var) or readers[here] != 1 or here not in producer:
            return []
        eqn = producer[here]
        if eqn.prim is add_p and eqn.inputs[0].aval.shape == eqn.inputs[1].aval.shape:
            pending.extend(eqn.inputs)
        elif (eqn.prim is scatter_p and eqn.params["kind"] == "add") or (
            eqn.prim is dynamic_update_slice_p and _is_zero(eqn.inputs[0], producer)
        ):
            pending.append(eqn.inputs[0])
        else:
            return []
        found.append(eqn)
    return found


def _is_zero(atom: Atom, producer: dict[Var, Eqn]) -> bool:
    if isinstance(atom, Literal):
        return bool(atom.value == 0)
    eqn = producer.get(atom)
    return eqn is not None and eqn.prim is broadcast_p and _is_zero(eqn.inputs[0], producer)


def late_updates(graph: Graph) -> Graph:
    """`graph` with every update just before the first equation that reads its result."""
    waiting: dict[Var, Eqn] = {}
    order: list[Eqn] = []

    def supply(atoms: Any) -> None:
        pending = [a for a in atoms if isinstance(a, Var) and a in waiting]
        while pending:
            eqn = waiting.get(pending[-1])
            if eqn is None:
                pending.pop()
                continue
            missing = [a for a in eqn.inputs if isinstance(a, Var) and a in waiting]
            if missing:
                pending.extend(missing)
                continue
            del waiting[pending.pop()]
            order.append(eqn)

    for eqn in graph.eqns:
        if eqn.prim in UPDATES:
            waiting[eqn.outputs[0]] = eqn
            continue
        supply(eqn.inputs)
        order.append(eqn)
    supply(list(waiting))
    if all(a is b for a, b in zip(order, graph.eqns, strict=True)):
        return graph
    return graph.replace(eqns=order)
