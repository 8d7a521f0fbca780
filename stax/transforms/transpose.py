"""Transposition: the backward pass over a graph that is linear in some of its inputs.

Input: a graph, values for its nonlinear inputs, cotangents of its outputs.  Output: cotangents of
its linear inputs.  The walk goes through the linear equations in reverse and calls their
`transpose` rules.  Equations that do not depend on a linear input (derivative factors, the
recomputation of a checkpointed function) are evaluated when the walk first needs them and dropped
after their last use: recompute late, free early.  Effects among them (a print in the rule of a
checkpointed call) happen as soon as what they show is known.  What is staged meanwhile by an
enclosing trace is tagged backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.core.aval import aval_of
from stax.core.graph import BACKWARD, Atom, Eqn, Graph, Literal, Var
from stax.core.primitive import Linear, Sentinel, Zero
from stax.core.staging import stage
from stax.core.trace import STATE, bind
from stax.dtypes import float0
from stax.errors import NonDifferentiableError
from stax.primitives.elementwise import add
from stax.transforms.simplify import acts


class TransposePlan:
    """What the walk needs to know about a graph: which equations are linear, and who reads what.

    `readers` counts, for each nonlinear value, the live equations that read it.  `acting` are the
    nonlinear equations with effects, each with the computed values that it waits for.
    """

    __slots__ = ("linear", "producer", "readers", "live", "acting")

    def __init__(self, graph: Graph, linear_inputs: Sequence[bool]) -> None:
        linear: set[Atom] = {v for v, mark in zip(graph.inputs, linear_inputs, strict=True) if mark}
        producer: dict[Var, int] = {}
        acting: dict[int, set[Var]] = {}
        for k, eqn in enumerate(graph.eqns):
            if not linear.isdisjoint(eqn.inputs):
                linear.update(eqn.outputs)
            else:
                for var in eqn.outputs:
                    producer[var] = k
                if acts(eqn):
                    acting[k] = {a for a in eqn.inputs if isinstance(a, Var) and a in producer}
        needed: set[Atom] = linear.intersection(graph.outputs)
        readers: dict[Var, int] = {}
        live = [False] * len(graph.eqns)
        for k in range(len(graph.eqns) - 1, -1, -1):
            eqn = graph.eqns[k]
            if needed.isdisjoint(eqn.outputs) and k not in acting:
                continue
            live[k] = True
            needed.update(eqn.inputs)
            for atom in eqn.inputs:
                if atom not in linear and isinstance(atom, Var):
                    readers[atom] = readers.get(atom, 0) + 1
        self.linear = linear
        self.producer = producer
        self.readers = readers
        self.live = live
        self.acting = acting


def transpose_plan(graph: Graph, linear_inputs: Sequence[bool]) -> TransposePlan:
    """The plan for `graph`, made once."""
    key = ("transpose_plan", tuple(linear_inputs))
    plan: TransposePlan | None = graph.cache.get(key)
    if plan is None:
        plan = graph.cache[key] = TransposePlan(graph, linear_inputs)
    return plan


class _Values:
    """The nonlinear values of a backward pass, computed on demand and freed after the last use."""

    __slots__ = ("graph", "plan", "env", "left", "done", "waiting", "missing")

    def __init__(self, graph: Graph, plan: TransposePlan, env: dict[Var, Any]) -> None:
        self.graph = graph
        self.plan = plan
        self.env = env
        self.left = dict(plan.readers)
        self.done = bytearray(len(graph.eqns))
        self.waiting: dict[Var, list[int]] = {}  # the effects that wait for a value
        self.missing = {k: len(values) for k, values in plan.acting.items()}
        for k, values in plan.acting.items():
            for var in values:
                self.waiting.setdefault(var, []).append(k)

    def get(self, atom: Any) -> Any:
        if isinstance(atom, Literal):
            return atom.value
        if atom not in self.env:
            self._compute([self.plan.producer[atom]])
        return self.env[atom]

    def act(self, late: bool) -> None:
        """Run the effects that wait for nothing or, at the end, all that have not happened."""
        for k in self.plan.acting:
            if late or not self.missing[k]:
                self._compute([k])

    def _compute(self, pending: list[int]) -> None:
        """Run these equations, what they need before them and the effects that become possible."""
        eqns, producer, env = self.graph.eqns, self.plan.producer, self.env
        while pending:
            k = pending[-1]
            eqn = eqns[k]
            if self.done[k]:
                pending.pop()
                continue
            missing = [producer[a] for a in eqn.inputs if isinstance(a, Var) and a not in env]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            self.done[k] = 1
            values = [env[a] if isinstance(a, Var) else a.value for a in eqn.inputs]
            STATE.source, STATE.region = eqn.source or None, eqn.region
            for var, value in zip(eqn.outputs, bind(eqn.prim, *values, **eqn.params), strict=True):
                if self.left.get(var):
                    env[var] = value
                for effect in self.waiting.get(var, ()):
                    self.missing[effect] -= 1
                    if not self.missing[effect]:
                        pending.append(effect)
            self.release(eqn)

    def release(self, eqn: Eqn) -> None:
        """Note that `eqn` has read its nonlinear inputs; drop those nobody else reads."""
        left = self.left
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom in left:
                left[atom] -= 1
                if not left[atom]:
                    self.env.pop(atom, None)


def backward_pass(
    graph: Graph,
    linear_inputs: Sequence[bool],
    args: Sequence[Any],
    cotangents: Sequence[Any],
    constants: Sequence[Any] | None = None,
) -> list[Any]:
    """Cotangents of the linear inputs, a `Zero` where none flows.

    Args:
      graph: linear in the marked inputs jointly.
      linear_inputs: one mark per input.
      args: one value per input; those of linear inputs are ignored.
      cotangents: one value or `Zero` per output.
      constants: values to use for `graph.constants`; their own by default.

    Raises:
      NonDifferentiableError: an equation is not linear in the inputs it depends on.
    """
    plan = transpose_plan(graph, linear_inputs)
    env = {
        v: value
        for v, value, mark in zip(graph.inputs, args, linear_inputs, strict=True)
        if not mark
    }
    for k, (var, value) in enumerate(graph.constants):
        env[var] = value if constants is None else constants[k]
    values = _Values(graph, plan, env)
    cts: dict[Var, Any] = {}
    before = STATE.source, STATE.phase, STATE.region
    try:
        STATE.phase = BACKWARD
        values.act(late=False)
        for out, ct in zip(graph.outputs, cotangents, strict=True):
            if isinstance(out, Var) and out in plan.linear and not isinstance(ct, Zero):
                _accumulate(cts, out, ct)
        for k in range(len(graph.eqns) - 1, -1, -1):
            eqn = graph.eqns[k]
            if not plan.live[k] or not (eqn.inputs and _is_linear(eqn, plan)):
                continue
            found = [cts.pop(v, None) for v in eqn.outputs]
            if any(ct is not None for ct in found):
                incoming = [
                    Zero(v.aval.tangent()) if ct is None else ct
                    for v, ct in zip(eqn.outputs, found, strict=True)
                ]
                operands = [
                    Linear(a.aval) if isinstance(a, Var) and a in plan.linear else values.get(a)
                    for a in eqn.inputs
                ]
                STATE.source, STATE.region = eqn.source or None, before[2]
                outgoing = _transposed(eqn, incoming, operands)
                for atom, ct in zip(eqn.inputs, outgoing, strict=True):
                    if ct is None or isinstance(ct, Zero) or not isinstance(atom, Var):
                        continue
                    if atom in plan.linear and atom.aval.dtype != float0:
                        _accumulate(cts, atom, ct)
            values.release(eqn)
        values.act(late=True)
    finally:
        STATE.source, STATE.phase, STATE.region = before
    return [
        cts.get(v, Zero(v.aval))
        for v, mark in zip(graph.inputs, linear_inputs, strict=True)
        if mark
    ]


def _is_linear(eqn: Eqn, plan: TransposePlan) -> bool:
    return not plan.linear.isdisjoint(eqn.outputs)


def _accumulate(cts: dict[Var, Any], var: Var, ct: Any) -> None:
    have = cts.get(var)
    cts[var] = ct if have is None else add(have, ct)


def _transposed(eqn: Eqn, incoming: list[Any], operands: list[Any]) -> Sequence[Any]:
    rule = eqn.prim.transpose
    if isinstance(rule, Sentinel):
        raise _not_linear(eqn, operands)
    cts = tuple(incoming) if eqn.prim.multi else incoming[0]
    try:
        return rule(cts, *operands, **eqn.params)  # type: ignore[no-any-return]  # the row contract
    except TypeError as error:
        if "Linear" in str(error):  # the rule needed the value of a linear operand
            raise _not_linear(eqn, operands) from None
        raise


def _not_linear(eqn: Eqn, operands: list[Any]) -> NonDifferentiableError:
    return NonDifferentiableError(
        "this operation is not linear in its operands, so it cannot be transposed",
        op=eqn.prim.name,
        operands=[str(aval_of(a)) for a in operands],
        where=eqn.source or None,
    )


def transpose_graph(
    graph: Graph, linear_inputs: Sequence[bool], given: Sequence[bool]
) -> tuple[Graph, tuple[bool, ...]]:
    """The graph of (nonlinear inputs, cotangents of the outputs marked `given`) -> cotangents.

    Returns it with a mark for each linear input that receives a cotangent; the graph's outputs
    are those, in order.  Cached on `graph`.
    """
    key = ("transpose", tuple(linear_inputs), tuple(given))
    found = graph.cache.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]  # what this function stored
    nonlinear = [a for a, mark in zip(graph.in_avals, linear_inputs, strict=True) if not mark]
    ct_avals = [a.strong() for a, mark in zip(graph.out_avals, given, strict=True) if mark]
    marks: list[bool] = []

    def fun(*values: Any) -> list[Any]:
        known = iter(values[: len(nonlinear)])
        cts = iter(values[len(nonlinear) :])
        args = [None if mark else next(known) for mark in linear_inputs]
        outs = [
            next(cts) if mark else Zero(a) for a, mark in zip(graph.out_avals, given, strict=True)
        ]
        results = backward_pass(graph, linear_inputs, args, outs)
        marks.extend(not isinstance(r, Zero) for r in results)
        return [r for r in results if not isinstance(r, Zero)]

    result = stage(fun, [*nonlinear, *ct_avals], name=graph.name), tuple(marks)
    graph.cache[key] = result
    return result
