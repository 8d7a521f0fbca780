"""Forward mode: a trace that carries a tangent beside every value.

Input: a function and, for some of its arguments, tangents.  Output: its results and theirs.
Each primitive is first computed by the enclosing trace, then its `jvp` rule runs there on the
known results, so nothing is kept for later.  A tangent that is zero by structure carries no data.

A primitive with a `linearize` rule carries a graph or a user's rule.  Its `jvp` is called with
`outs=None` and returns `(outs, tangents)`: one call computes both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import Primitive, Zero
from stax.core.staging import eval_graph, stage
from stax.core.trace import EVAL, STATE, Trace, use_trace
from stax.dtypes import float0
from stax.primitives.views import broadcast
from stax.transforms.dual import DualTrace, DualTracer


class JVPTracer(DualTracer):
    """A value and its tangent (None when zero)."""

    __slots__ = ()


class JVPTrace(DualTrace):
    """Computes each primitive in the enclosing trace and pushes tangents through its rule."""

    __slots__ = ()

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent, parent)

    def dual(self, primal: Any, tangent: Any) -> DualTracer:
        """The tracer of a value and its tangent."""
        return JVPTracer(self, primal, None if isinstance(tangent, Zero) else tangent)

    def of_graphs(
        self, prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a primitive that carries graphs, by its rule."""
        rule: Any = prim.jvp
        outs, out_tangents = rule(primals, None, tangents, **params)
        return outs, out_tangents

    def of_call(
        self, call: Any, primals: list[Any], tangents: list[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a function that carries its own rule."""
        outs, out_tangents = call.jvp(primals, tangents)
        return outs, out_tangents


def zeros(aval: Aval) -> Any:
    """An array of zeros of this type in the current trace."""
    if STATE.trace is EVAL or aval.dtype == float0:
        return np.zeros(aval.shape, aval.dtype)
    scalar = np.zeros((), aval.dtype)[()]
    return broadcast(scalar, aval.shape) if aval.shape else scalar


def instantiate(tangent: Any, primal: Any = None) -> Any:
    """`tangent` as a value: zeros where it is a `Zero`, or None (then typed by `primal`)."""
    if tangent is None:
        return zeros(aval_of(primal).tangent())
    return zeros(tangent.aval) if isinstance(tangent, Zero) else tangent


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results and tangents (None when zero) of a flat function; a tangent may be None or Zero."""
    trace = JVPTrace(STATE.trace)
    tracers = trace.wrap(primals, tangents)
    try:
        with use_trace(trace):
            outs = list(fun(*tracers))
    finally:
        trace.alive = False
    return [trace.primal_of(v) for v in outs], [trace.tangent_of(v) for v in outs]


def jvp_graph(graph: Graph, nonzero: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph of (inputs, tangents of the marked ones) -> (outputs, their tangents).

    Returns it with a mark for each output that has a tangent; those tangents follow the outputs,
    in order.  Cached on `graph`.
    """
    key = ("jvp", tuple(nonzero))
    found = graph.cache.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]  # what this function stored
    marks: list[bool] = []

    def fun(*values: Any) -> list[Any]:
        primals = values[: len(graph.inputs)]
        given = iter(values[len(graph.inputs) :])
        tangents = [next(given) if n else None for n in nonzero]
        outs, out_tangents = jvp_flat(lambda *a: eval_graph(graph, a), primals, tangents)
        marks.extend(t is not None for t in out_tangents)
        return [*outs, *(t for t in out_tangents if t is not None)]

    tangent_avals = [a.tangent() for a, n in zip(graph.in_avals, nonzero, strict=True) if n]
    result = stage(fun, [*graph.in_avals, *tangent_avals], name=graph.name), tuple(marks)
    graph.cache[key] = result
    return result
