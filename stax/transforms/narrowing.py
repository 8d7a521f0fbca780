"""Slices of elementwise results become elementwise results of slices.

Input: a Graph.  Output: a Graph that computes the same bits, in which nothing is computed
element by element only to have most of it sliced away.  Done before a graph is differentiated,
it also makes the derivative read slices: of `sin(x @ w)[0]` one row has to be kept for the
backward pass, not the whole product.
"""

from __future__ import annotations

from typing import Any, Final

from stax.core.graph import Atom, Eqn, Graph, Var
from stax.primitives.shapes import slice_p

ELEMENTWISE: Final = frozenset({"unary", "binary", "compare", "select", "cast"})


def narrow(graph: Graph) -> Graph:
    """`graph` with each slice that alone reads an elementwise result moved to its operands."""
    if not any(eqn.prim is slice_p for eqn in graph.eqns):
        return graph
    uses: dict[Atom, int] = {}
    for atom in (*(a for e in graph.eqns for a in e.inputs), *graph.outputs):
        if isinstance(atom, Var):
            uses[atom] = uses.get(atom, 0) + 1
    elementwise = {v for e in graph.eqns if e.prim.family in ELEMENTWISE for v in e.outputs}
    waiting: dict[Var, Eqn] = {}  # value -> the slice that is all that is read of it
    backwards: list[Eqn] = []
    changed = False
    for eqn in reversed(graph.eqns):
        source = eqn.inputs[0] if eqn.inputs else None
        if eqn.prim is slice_p and uses.get(source, 0) == 1 and source in elementwise:  # type: ignore[arg-type]  # None is no key
            assert isinstance(source, Var)
            later = waiting.pop(eqn.outputs[0], None)
            if later is None:
                waiting[source] = eqn
                continue
            backwards.append(later)
        found = waiting.pop(eqn.outputs[0], None) if len(eqn.outputs) == 1 else None
        if found is None:
            backwards.append(eqn)
            continue
        changed = True
        inputs: list[Atom] = []
        slices: list[Eqn] = []
        own: dict[Atom, Var] = {}
        for atom in eqn.inputs:
            if not isinstance(atom, Var) or not atom.shape:
                inputs.append(atom)
                continue
            if atom not in own:
                moved = _moved(found, atom, eqn.outputs[0].shape)
                own[atom] = moved.outputs[0]
                if uses[atom] == 1 and atom in elementwise:
                    waiting[atom] = moved
                else:
                    slices.append(moved)
            inputs.append(own[atom])
        backwards.append(
            Eqn(eqn.prim, inputs, found.outputs, eqn.params, eqn.phase, eqn.source, eqn.region)
        )
        backwards += slices
    return graph.replace(eqns=reversed(backwards)) if changed else graph


def _moved(eqn: Eqn, operand: Var, shape: tuple[int, ...]) -> Eqn:
    """The slice `eqn` of an elementwise result as a slice of one operand, broadcast or not."""
    params: dict[str, Any] = {}
    first = len(shape) - operand.ndim
    whole = [n == 1 != m for n, m in zip(operand.shape, shape[first:], strict=True)]
    for key, alone in (("start", 0), ("limit", 1), ("strides", 1)):
        given = eqn.params[key][first:]
        params[key] = tuple(alone if w else g for g, w in zip(given, whole, strict=True))
    (aval,) = slice_p.out_avals([operand.aval], params)
    return Eqn(
        slice_p, [operand], [Var(aval, operand.name)], params, eqn.phase, eqn.source, eqn.region
    )


__all__ = ["narrow"]
