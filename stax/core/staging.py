"""Staging: running a Python function once on tracers to record a Graph.

Input: a flat function (arrays in, list of arrays out) and the types of its arguments.  Output: a
Graph in which every operation the function bound is an equation with explicit parameters, typed
results, the user's file:line, and the ambient phase and region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of, check_meaning
from stax.core.graph import Atom, Eqn, Graph, Literal, Var
from stax.core.primitive import Primitive
from stax.core.refusals import leak_error, located
from stax.core.source import user_source
from stax.core.trace import (
    EVAL,
    STATE,
    Trace,
    Tracer,
    bind,
    handle_of,
    use_trace,
)
from stax.dtypes import is_supported, untraceable_hint
from stax.errors import DtypeError, StaxError


class StagingTracer(Tracer):
    """A value of the graph being recorded."""

    __slots__ = ("atom",)
    owner: StagingTrace

    def __init__(self, trace: StagingTrace, atom: Atom) -> None:
        self.owner = trace
        self.atom = atom

    @property
    def aval(self) -> Aval:
        """Type of the value."""
        return self.atom.aval


class StagingTrace(Trace):
    """Records equations.  Arrays and outer tracers it meets become constants of the graph."""

    __slots__ = ("eqns", "constants", "_constant_of", "_copies", "_keep")

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.eqns: list[Eqn] = []
        self.constants: list[tuple[Var, Any]] = []
        self._constant_of: dict[Any, Var] = {}
        self._copies: dict[Var, Any] = {}
        self._keep: list[Any] = []

    def new_input(self, aval: Aval, name: str | None = None) -> StagingTracer:
        """A tracer for a fresh input."""
        return StagingTracer(self, Var(aval, name))

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Record one equation."""
        inputs = [
            a.atom if type(a) is StagingTracer and a.owner is self else self.atom(a, prim.name)
            for a in args
        ]
        source = STATE.source
        if source is None:
            source = user_source()
        try:
            avals = prim.out_avals([a.aval for a in inputs], params)
        except StaxError as error:
            raise located(error, prim.name, source) from None
        outputs = [Var(aval) for aval in avals]
        self.eqns.append(Eqn(prim, inputs, outputs, params, STATE.phase, source, STATE.region))
        return tuple([StagingTracer(self, v) for v in outputs])

    def lift(self, value: Any) -> Any:
        """`value` as a tracer of this graph."""
        if isinstance(value, Tracer) and value.owner is self:
            return value
        return StagingTracer(self, self.atom(value, "lift"))

    def atom(self, value: Any, op: str) -> Atom:
        """The graph's name for `value`: its variable, a literal, or a captured constant."""
        if isinstance(value, StagingTracer) and value.owner is self:
            return value.atom
        if isinstance(value, Tracer):
            if not is_reachable(value.owner, self):
                raise leak_error(value.aval, op)
            return self._capture(value, handle_of(value), value.aval)
        if isinstance(value, bool | int | float | complex | np.generic):
            return Literal(value)
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        check_meaning(array)
        if not is_supported(array.dtype.newbyteorder("=")):
            raise DtypeError(
                f"{type(value).__name__} {value!r:.60} is neither an array of numbers nor a number",
                op=op,
                hint=untraceable_hint(array.dtype)
                if array is value
                else "a traced function takes and returns arrays and numbers, in any containers",
            )
        if array.ndim == 0:
            return Literal(array.astype(array.dtype.newbyteorder("="))[()])
        found = self._constant_of.get((id(value), 0))
        if found is not None:
            copy = self._copies.get(found)
            if copy is None or same_content(copy, array):
                return found
        # The array is copied: what the user writes into it later must not reach the graph.
        own = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)
        own.flags.writeable = False
        self._constant_of.pop((id(value), 0), None)  # what it held when it was met before
        var = self._capture(value, own, aval_of(own))
        self._copies[var] = own
        return var

    def _capture(self, original: Any, value: Any, aval: Aval) -> Var:
        # A tracer that is written to in place stands for another value from then on.
        key = (id(original), getattr(original, "version", 0))
        found = self._constant_of.get(key)
        if found is None:
            found = Var(aval)
            self._constant_of[key] = found
            self._keep.append(original)  # keeps the id from being reused
            self.constants.append((found, value))
        return found

    def graph(
        self, inputs: Sequence[StagingTracer], outputs: Sequence[Any], name: str = "f"
    ) -> Graph:
        """The recorded graph with these inputs and outputs."""
        atoms = [self.atom(v, "return") for v in outputs]
        input_vars = [t.atom for t in inputs]
        return Graph(input_vars, self.eqns, atoms, self.constants, name)  # type: ignore[arg-type]


def same_content(copy: Any, array: Any) -> bool:
    """True when `array` still has the type and the bits of its C-ordered `copy`."""
    if array.shape != copy.shape or array.dtype.newbyteorder("=") != copy.dtype:
        return False
    now = np.ascontiguousarray(array, copy.dtype)
    return np.array_equal(copy.reshape(-1).view(np.uint8), now.reshape(-1).view(np.uint8))


def is_reachable(trace: Trace, start: Trace) -> bool:
    """True when `trace` is live and encloses `start`."""
    seen: Trace | None = start
    while seen is not None:
        if seen.stands_for(trace):
            return trace.alive
        seen = seen.parent
    return False


def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[Aval],
    names: Sequence[str | None] = (),
    name: str = "f",
) -> Graph:
    """Record `fun`, called with one tracer per type, as a Graph.

    The graph's constants may hold tracers of an enclosing transformation: see `lift_constants`.
    """
    trace = StagingTrace(STATE.trace)
    labels = list(names) + [None] * (len(in_avals) - len(names))
    inputs = [trace.new_input(a, n) for a, n in zip(in_avals, labels, strict=True)]
    originals = [StagingTracer(trace, t.atom) for t in inputs]
    before = STATE.source, STATE.phase, STATE.region
    try:
        STATE.source, STATE.phase, STATE.region = None, "forward", 0
        with use_trace(trace):
            outputs = fun(*inputs)
            # A write may have made an input's handle stand for another value.
            return trace.graph(originals, outputs, name)
    finally:
        STATE.source, STATE.phase, STATE.region = before
        trace.alive = False


def lift_constants(graph: Graph) -> tuple[Graph, list[Any]]:
    """Turn constants that are outer tracers into leading inputs; also returns their values."""
    tracers = [(v, c) for v, c in graph.constants if isinstance(c, Tracer)]
    if not tracers:
        return graph, []
    kept = [(v, c) for v, c in graph.constants if not isinstance(c, Tracer)]
    lifted = graph.replace(inputs=[*(v for v, _ in tracers), *graph.inputs], constants=kept)
    return lifted, [c for _, c in tracers]


def eval_jaxpr(jaxpr: Graph, consts: Sequence[Any], *args: Any) -> list[Any]:
    """The results of a graph on `args`, as a list, with `consts` for its constants.

    >>> graph = stax.make_jaxpr(lambda x: x * np.arange(2.0))(np.ones(2))
    >>> stax.core.eval_jaxpr(graph.jaxpr, graph.consts, np.full(2, 3.0))
    [array([0., 3.])]
    """
    constants = list(zip((v for v, _ in jaxpr.constants), consts, strict=True))
    return eval_graph(jaxpr.replace(constants=constants), args)


def eval_graph(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Interpret `graph` under the current trace, freeing each value after its last use.

    Equations staged by an enclosing trace keep the user's source, phase and region.
    """
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    for var, value in graph.constants:
        env[var] = value
    frees = frees_after(graph)
    before = STATE.source, STATE.phase, STATE.region
    outer_phase, outer_region = STATE.phase, STATE.region
    staged = STATE.trace is not EVAL
    try:
        for k, eqn in enumerate(graph.eqns):
            if staged:
                STATE.source = eqn.source or before[0]
                STATE.phase = outer_phase if eqn.phase == "forward" else eqn.phase
                STATE.region = eqn.region or outer_region
            values = [env[a] if isinstance(a, Var) else a.value for a in eqn.inputs]
            results = bind(eqn.prim, *values, **eqn.params)
            for var, value in zip(eqn.outputs, results, strict=True):
                env[var] = value
            for var in frees[k]:
                env.pop(var, None)
    finally:
        STATE.source, STATE.phase, STATE.region = before
    return [env[a] if isinstance(a, Var) else a.value for a in graph.outputs]


def frees_after(graph: Graph) -> list[list[Var]]:
    """For each equation, the values nobody reads after it."""
    frees: list[list[Var]] = [[] for _ in graph.eqns]
    seen = {a for a in graph.outputs if isinstance(a, Var)}
    for k in range(len(graph.eqns) - 1, -1, -1):
        eqn = graph.eqns[k]
        for atom in (*eqn.inputs, *eqn.outputs):
            if atom not in seen and isinstance(atom, Var):
                seen.add(atom)
                frees[k].append(atom)
    return frees
