"""Graph passes that preserve every bit: inlining, folding, common subexpressions, dead code.

Input: a Graph.  Output: a Graph that computes the same bits with fewer equations.  Every pass is
one walk.  Equations of different regions are never merged (a recomputation stays one), and a
forward equation never reads a backward one.  What an unused equation would have raised is not
raised: the result refines the original.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.graph import BACKWARD, FORWARD, Atom, Eqn, Graph, Literal, Var, literal_array
from stax.core.primitive import COMPOSED, Primitive
from stax.core.staging import stage

# Rows whose equation can do without some of its results: (equation, wanted) -> equation.
PRUNE_RULES: dict[Primitive, Callable[[Eqn, list[bool]], Eqn]] = {}


def simplify(graph: Graph) -> Graph:
    """`graph` folded, with common subexpressions merged and dead code removed."""
    return dce(cse(fold(graph)))


# --- inlining -----------------------------------------------------------------------------------


def carried_graph(eqn: Eqn) -> Graph | None:
    """The graph a call-like equation stands for, else None."""
    graph = eqn.params.get("graph")
    return graph if eqn.prim.family == "call" and isinstance(graph, Graph) else None


def _opened(eqn: Eqn) -> Graph | None:
    """The graph that takes the place of an equation, None where the equation stays."""
    graph = carried_graph(eqn)
    if graph is None and eqn.prim.lower is COMPOSED:
        rule: Any = eqn.prim.decompose
        avals = [a.aval for a in eqn.inputs]
        graph = stage(lambda *a: rule(*a, **eqn.params), avals, name=eqn.prim.name)
    return graph


class _Frame:
    """A graph being copied into another: where we are, and what its values are called there."""

    __slots__ = ("graph", "position", "env", "call", "regions")

    def __init__(self, graph: Graph, env: dict[Var, Atom], call: Eqn | None) -> None:
        self.graph = graph
        self.position = 0
        self.env = env
        self.call = call
        self.regions: dict[int, int] = {}


def inline_calls(graph: Graph, keep: Callable[[Eqn], bool] | None = None) -> Graph:
    """`graph` with the graphs of its calls (jit, checkpoint, custom rules) in their place.

    Phases, regions and source lines stay what they were; a region inside a call is numbered anew
    for each call.  Calls for which `keep` is true stay.
    """
    graph = numbered_regions(graph)
    if not any(carried_graph(e) is not None or e.prim.lower is COMPOSED for e in graph.eqns):
        return graph
    constants = list(graph.constants)
    eqns: list[Eqn] = []
    regions = max((e.region for e in graph.eqns), default=0)
    top = _Frame(graph, {}, None)
    stack = [top]
    while stack:
        frame = stack[-1]
        if frame.position == len(frame.graph.eqns):
            stack.pop()
            if frame.call is not None:
                below = stack[-1]
                for var, out in zip(frame.call.outputs, frame.graph.outputs, strict=True):
                    below.env[var] = frame.env.get(out, out) if isinstance(out, Var) else out
            continue
        eqn = frame.graph.eqns[frame.position]
        frame.position += 1
        env, call = frame.env, frame.call
        inputs = [env.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs]
        region = eqn.region
        phase, source = eqn.phase, eqn.source
        if call is not None:
            if region:
                if region not in frame.regions:
                    regions += 1
                    frame.regions[region] = regions
                region = frame.regions[region]
            else:
                region = call.region
            phase = BACKWARD if call.phase == BACKWARD else phase
            source = source or call.source
        inner = None if keep is not None and keep(eqn) else _opened(eqn)
        if inner is None:
            outputs: list[Var] = list(eqn.outputs)
            if call is not None:
                outputs = [Var(v.aval, v.name) for v in eqn.outputs]
                env.update(zip(eqn.outputs, outputs, strict=True))
            eqns.append(Eqn(eqn.prim, inputs, outputs, eqn.params, phase, source, region))
            continue
        bound: dict[Var, Atom] = dict(zip(inner.inputs, inputs, strict=True))
        for var, value in inner.constants:
            own = Var(var.aval)
            constants.append((own, value))
            bound[var] = own
        placed = Eqn(eqn.prim, inputs, eqn.outputs, eqn.params, phase, source, region)
        stack.append(_Frame(inner, bound, placed))
    outs = [top.env.get(a, a) if isinstance(a, Var) else a for a in graph.outputs]
    return graph.replace(
        eqns=eqns, outputs=outs, constants=_merged_constants(constants, eqns, outs)
    )


def numbered_regions(graph: Graph) -> Graph:
    """`graph` with its recomputation regions numbered 1, 2, ... in the order of the equations."""
    numbers: dict[int, int] = {0: 0}
    for eqn in graph.eqns:
        numbers.setdefault(eqn.region, len(numbers))
    if all(old == new for old, new in numbers.items()):
        return graph
    return graph.replace(
        eqns=[
            e if numbers[e.region] == e.region else e.replace(region=numbers[e.region])
            for e in graph.eqns
        ]
    )


def _merged_constants(
    constants: list[tuple[Var, Any]], eqns: list[Eqn], outs: list[Atom]
) -> list[tuple[Var, Any]]:
    """Constants, each array once; readers in `eqns` and `outs` are redirected in place."""
    first: dict[int, Var] = {}
    renamed: dict[Var, Atom] = {}
    kept = []
    for var, value in constants:
        have = first.setdefault(id(value), var)
        if have is var:
            kept.append((var, value))
        else:
            renamed[var] = have
    if renamed:
        for k, eqn in enumerate(eqns):
            if any(a in renamed for a in eqn.inputs if isinstance(a, Var)):
                eqns[k] = eqn.replace(inputs=_renamed(eqn.inputs, renamed))
        outs[:] = _renamed(outs, renamed)
    return kept


def _renamed(atoms: Sequence[Atom], renamed: dict[Var, Atom]) -> Sequence[Atom]:
    """The atoms under their new names; what is given where none has one."""
    if not renamed or renamed.keys().isdisjoint(atoms):
        return atoms
    return [renamed.get(a, a) if isinstance(a, Var) else a for a in atoms]


# --- folding ------------------------------------------------------------------------------------


def fold(graph: Graph) -> Graph:
    """Identities dropped, and exactly rounded operations on literals computed."""
    renamed: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        inputs = _renamed(eqn.inputs, renamed)
        if eqn.prim.family == "identity":
            renamed[eqn.outputs[0]] = inputs[0]
            continue
        if is_foldable(eqn) and all(isinstance(a, Literal) for a in inputs):
            renamed[eqn.outputs[0]] = _folded(eqn, inputs)
            continue
        eqns.append(eqn if inputs is eqn.inputs else eqn.replace(inputs=inputs))
    if len(eqns) == len(graph.eqns):
        return graph
    return graph.replace(eqns=eqns, outputs=_renamed(graph.outputs, renamed))


def is_foldable(eqn: Eqn) -> bool:
    """True when NumPy and every back end give the same bits for scalars: cheap operations."""
    prim = eqn.prim
    if prim.multi or not eqn.inputs or prim.family not in ("unary", "binary", "cast"):
        return False
    out = eqn.outputs[0].aval
    if out.shape:
        return False
    return bool(prim.cost([a.aval for a in eqn.inputs], [out], eqn.params) <= 1)


def _folded(eqn: Eqn, inputs: Sequence[Any]) -> Literal:
    aval = eqn.outputs[0].aval
    value = eqn.prim.impl(*(literal_array(a)[()] for a in inputs), **eqn.params)
    scalar = np.asarray(value, aval.dtype)[()]
    return Literal(scalar.item() if aval.weak else scalar, aval)


# --- common subexpressions ----------------------------------------------------------------------


def cse(graph: Graph) -> Graph:
    """Equations that compute the same value merged into the first of them."""
    renamed: dict[Var, Atom] = {}
    seen: dict[Any, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        inputs = _renamed(eqn.inputs, renamed)
        if inputs is not eqn.inputs:
            eqn = eqn.replace(inputs=inputs)
        key = _key(eqn)
        if key is None:
            eqns.append(eqn)
            continue
        first = seen.get(key)
        if first is None or (first.phase == BACKWARD and eqn.phase == FORWARD):
            seen[key] = eqn
            eqns.append(eqn)
            continue
        renamed.update(zip(eqn.outputs, first.outputs, strict=True))
    if len(eqns) == len(graph.eqns):
        return graph
    return graph.replace(eqns=eqns, outputs=_renamed(graph.outputs, renamed))


def _key(eqn: Eqn) -> Any:
    """What two equations share when they compute the same value; None for those never merged."""
    if acts(eqn):
        return None
    try:
        params: Any = ()
        if eqn.params:
            params = tuple([(k, _frozen(v)) for k, v in sorted(eqn.params.items())])
        inputs = tuple(
            [a if isinstance(a, Var) else (a.aval, literal_array(a).tobytes()) for a in eqn.inputs]
        )
        key = (eqn.prim.name, inputs, params, eqn.region, eqn.region and eqn.phase)
        hash(key)
    except TypeError:
        return None
    return key


def _frozen(value: Any) -> Any:
    """A hashable stand-in that keeps 1, 1.0 and True apart; graphs count by identity."""
    if type(value) is int:
        return (int, value)
    if isinstance(value, Graph):
        return id(value)
    if isinstance(value, tuple | list):
        return tuple([_frozen(v) for v in value])
    if isinstance(value, float):
        return (float, value.hex() if math.isfinite(value) else repr(value))
    return (type(value), value)


def has_effect(prim: Primitive) -> bool:
    """True for operations that are neither merged nor removed: callbacks, prints."""
    return prim.family == "effect"


def acts(eqn: Eqn) -> bool:
    """True for an equation with an effect, its own or that of a graph it carries."""
    if eqn.prim.linearize is None:  # most of them: no graphs to look into
        return has_effect(eqn.prim)
    return has_effect(eqn.prim) or any(graph_acts(g) for g in graphs_of(eqn))


def graphs_of(eqn: Eqn) -> list[Graph]:
    found: list[Graph] = []
    if eqn.prim.linearize is None:
        return found  # rows that carry graphs say how these are linearised
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Graph):
                found.append(item)
    return found


def graph_acts(graph: Graph) -> bool:
    known: bool | None = graph.cache.get("acts")
    if known is not None:
        return known
    pending, seen, found = [graph], {id(graph)}, False
    while pending and not found:
        for eqn in pending.pop().eqns:
            if has_effect(eqn.prim):
                found = True
                break
            for inner in graphs_of(eqn):
                if inner.cache.get("acts") is not False and id(inner) not in seen:
                    seen.add(id(inner))
                    pending.append(inner)
    graph.cache["acts"] = found
    return found


# --- dead code ----------------------------------------------------------------------------------


def dce(graph: Graph) -> Graph:
    """Equations (and results of plain calls) that no output depends on removed."""
    needed: set[Atom] = set(graph.outputs)
    kept: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if not acts(eqn):
            if needed.isdisjoint(eqn.outputs):
                continue
            if not needed.issuperset(eqn.outputs):
                wanted = [v in needed for v in eqn.outputs]
                eqn = PRUNE_RULES.get(eqn.prim, _pruned_call)(eqn, wanted)
        needed.update(eqn.inputs)
        kept.append(eqn)
    constants = [(v, c) for v, c in graph.constants if v in needed]
    if len(kept) == len(graph.eqns) and len(constants) == len(graph.constants):
        if all(a is b for a, b in zip(kept, reversed(graph.eqns), strict=True)):
            return graph
    return graph.replace(eqns=reversed(kept), constants=constants)


def _pruned_call(eqn: Eqn, wanted: list[bool]) -> Eqn:
    """A call without the results nobody reads, and without the inputs only they needed."""
    graph = carried_graph(eqn)
    if graph is None or any(callable(v) for v in eqn.params.values()):
        return eqn  # a rule of the user's expects all results
    cached = graph.cache.setdefault(("pruned", tuple(wanted)), None)
    if cached is None:
        outs = [a for a, want in zip(graph.outputs, wanted, strict=True) if want]
        inner = dce(graph.replace(outputs=outs))
        used = {a for e in inner.eqns for a in e.inputs if isinstance(a, Var)}
        used.update(a for a in inner.outputs if isinstance(a, Var))
        marks = [v in used for v in inner.inputs]
        inner = inner.replace(inputs=[v for v, m in zip(inner.inputs, marks, strict=True) if m])
        cached = graph.cache["pruned", tuple(wanted)] = inner, marks
    inner, marks = cached
    return eqn.replace(
        inputs=[a for a, m in zip(eqn.inputs, marks, strict=True) if m],
        outputs=[v for v, want in zip(eqn.outputs, wanted, strict=True) if want],
        params={**eqn.params, "graph": inner},
    )
