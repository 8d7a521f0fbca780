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
from stax.core.primitive import (
    NOT_DIFFERENTIABLE,
    ZERO_DERIVATIVE,
    Primitive,
    Sentinel,
    Zero,
)
from stax.core.source import user_source
from stax.core.staging import eval_graph, stage
from stax.core.trace import EVAL, STATE, Trace, Tracer, use_trace
from stax.dtypes import WEAK_DTYPES, float0, is_inexact
from stax.errors import NonDifferentiableError
from stax.primitives.views import broadcast


class JVPTracer(Tracer):
    """A value and its tangent (None when zero)."""

    __slots__ = ("primal", "tangent")
    owner: JVPTrace

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self.owner = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> Aval:
        """Type of the value."""
        return aval_of(self.primal)

    def concrete(self) -> Any:
        """The NumPy value, when no enclosing transformation hides it."""
        return known_value(self.primal)


class JVPTrace(Trace):
    """Computes each primitive in the enclosing trace and pushes tangents through its rule."""

    __slots__ = ()
    parent: Trace

    def lift(self, value: Any) -> Any:
        """`value` as a constant of this trace."""
        if isinstance(value, Tracer) and value.owner is self:
            return value
        return JVPTracer(self, value, None)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], bool]:
        """Primals, tangents (None when zero), and whether any tangent is not zero."""
        primals: list[Any] = []
        tangents: list[Any] = []
        active = False
        for arg in args:
            if isinstance(arg, JVPTracer) and arg.owner is self:
                primals.append(arg.primal)
                tangents.append(arg.tangent)
                active = active or arg.tangent is not None
            else:
                primals.append(arg)
                tangents.append(None)
        return primals, tangents, active

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Compute `prim` in the enclosing trace, then its tangents."""
        primals, tangents, active = self.split(args)
        before = STATE.trace
        parent = STATE.trace = self.parent
        try:
            if not active:
                outs: Sequence[Any] = bind_values(parent, prim, primals, params)
                out_tangents: Sequence[Any] = [None] * len(outs)
            elif prim.linearize is not None:
                rule: Any = prim.jvp
                given = [
                    zero_of(p) if t is None else t for p, t in zip(primals, tangents, strict=True)
                ]
                outs, out_tangents = rule(primals, None, given, **params)
            else:
                outs = bind_values(parent, prim, primals, params)
                out_tangents = rule_tangents(prim, primals, outs, tangents, params)
        finally:
            STATE.trace = before
        return self.wrap(outs, out_tangents)

    def process_call(self, call: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a function that carries its own rule (see `transforms.calls`)."""
        primals, tangents, active = self.split(args)
        with use_trace(self.parent):
            if active:
                given = [
                    zero_of(p) if t is None else t for p, t in zip(primals, tangents, strict=True)
                ]
                outs, out_tangents = call.jvp(primals, given)
            else:
                outs = call.bind(primals)
                out_tangents = [None] * len(outs)
        return self.wrap(outs, out_tangents)

    def wrap(self, outs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """Tracers for results and their tangents."""
        return tuple(
            JVPTracer(self, out, None if isinstance(t, Zero) else t)
            for out, t in zip(outs, tangents, strict=True)
        )

    def tangent_of(self, value: Any) -> Any:
        """The tangent of a result: a value, or None when zero."""
        if isinstance(value, JVPTracer) and value.owner is self:
            return value.tangent
        return None

    def primal_of(self, value: Any) -> Any:
        """The enclosing trace's value of a result."""
        if isinstance(value, JVPTracer) and value.owner is self:
            return value.primal
        return value


def bind_values(
    trace: Trace, prim: Primitive, values: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...]:
    """Bind in `trace`, which is current; Python scalars stay weak where their result is weak."""
    outs = trace.process(prim, values, params)
    if trace is EVAL and values and all(type(v) in WEAK_DTYPES for v in values):
        avals = prim.out_avals([aval_of(v) for v in values], params)
        return tuple(
            np.asarray(out).item() if aval.weak else out
            for out, aval in zip(outs, avals, strict=True)
        )
    return outs


def rule_tangents(
    prim: Primitive,
    primals: Sequence[Any],
    outs: Sequence[Any],
    tangents: Sequence[Any],
    params: dict[str, Any],
) -> Sequence[Any]:
    """The tangents of `outs` by the row's rule, run under the current trace.

    Raises:
      NonDifferentiableError: the row has no derivative.
    """
    rule = prim.jvp
    if rule is ZERO_DERIVATIVE:
        return [None] * len(outs)
    if not any(is_inexact(aval_of(out).dtype) for out in outs):
        return [None] * len(outs)
    if isinstance(rule, Sentinel):
        raise no_derivative(prim, primals)
    given = [zero_of(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    result = rule(primals, outs if prim.multi else outs[0], given, **params)
    return result if prim.multi else (result,)


def no_derivative(prim: Primitive, primals: Sequence[Any]) -> NonDifferentiableError:
    """The error for a derivative of an operation that has none."""
    assert prim.jvp is NOT_DIFFERENTIABLE
    return NonDifferentiableError(
        "this operation has no derivative",
        op=prim.name,
        operands=[str(aval_of(p)) for p in primals],
        where=STATE.source or user_source() or None,
        hint="wrap its argument in stax.lax.stop_gradient, or give the function a derivative with "
        "stax.custom_jvp / stax.custom_vjp",
    )


def known_value(value: Any) -> Any:
    """The NumPy value behind `value` (read-only, for arrays), or None."""
    if isinstance(value, Tracer):
        return value.concrete()
    if isinstance(value, np.ndarray) and value.ndim:
        view = value.view()
        view.flags.writeable = False
        return view
    return value


def zero_of(value: Any) -> Zero:
    """The zero tangent of `value`."""
    return Zero(aval_of(value).tangent())


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
