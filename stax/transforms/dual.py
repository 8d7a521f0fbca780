"""Values with tangents: what forward mode and linearisation have in common.

A `DualTracer` is a value of the enclosing trace and its tangent; None, where that is zero by
structure.  A `DualTrace` computes each primitive in the enclosing trace, then runs its `jvp` rule
on the known results, under the trace in which tangents live: the enclosing one in forward mode,
the tangent graph in linearisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    NOT_DIFFERENTIABLE,
    ZERO_DERIVATIVE,
    Primitive,
    Sentinel,
    Zero,
)
from stax.core.source import user_source
from stax.core.trace import EVAL, STATE, Trace, Tracer, use_trace
from stax.dtypes import WEAK_DTYPES, is_inexact
from stax.errors import NonDifferentiableError


class DualTracer(Tracer):
    """A value and its tangent (None when zero)."""

    __slots__ = ("primal", "tangent")
    owner: DualTrace

    def __init__(self, trace: DualTrace, primal: Any, tangent: Any) -> None:
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


class DualTrace(Trace, ABC):
    """Computes each primitive in the enclosing trace and its tangents in `tangents`."""

    __slots__ = ("tangents",)
    parent: Trace

    def __init__(self, parent: Trace, tangents: Trace) -> None:
        super().__init__(parent)
        self.tangents = tangents

    @abstractmethod
    def dual(self, primal: Any, tangent: Any) -> DualTracer:
        """The tracer of a value and its tangent, which is None or a `Zero` when zero."""

    @abstractmethod
    def of_graphs(
        self, prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a primitive that carries graphs or a user's rule."""

    @abstractmethod
    def of_call(
        self, call: Any, primals: list[Any], tangents: list[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a function that carries its own rule."""

    def note_plain(self, array: np.ndarray[Any, Any]) -> None:
        """Take note of an operand that is a plain array."""

    def lift(self, value: Any) -> Any:
        """`value` as a constant of this trace."""
        if isinstance(value, Tracer) and value.owner is self:
            return value
        return self.dual(value, None)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], bool]:
        """Primals, tangents (None when zero), and whether any tangent is not zero."""
        primals: list[Any] = []
        tangents: list[Any] = []
        active = False
        for arg in args:
            if isinstance(arg, DualTracer) and arg.owner is self:
                primals.append(arg.primal)
                tangents.append(arg.tangent)
                active = active or arg.tangent is not None
            else:
                if isinstance(arg, np.ndarray):
                    self.note_plain(arg)
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
                given = typed_zeros(primals, tangents)
                outs, out_tangents = self.of_graphs(prim, primals, given, params)
            else:
                outs = bind_values(parent, prim, primals, params)
                STATE.trace = self.tangents
                out_tangents = rule_tangents(prim, primals, outs, tangents, params)
        finally:
            STATE.trace = before
        return self.wrap(outs, out_tangents)

    def process_call(self, call: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a function that carries its own rule (see `transforms.calls`)."""
        primals, tangents, active = self.split(args)
        with use_trace(self.parent):
            if active:
                outs, out_tangents = self.of_call(call, primals, typed_zeros(primals, tangents))
            else:
                outs = call.bind(primals)
                out_tangents = [None] * len(outs)
        return self.wrap(outs, out_tangents)

    def wrap(self, outs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """Tracers for results and their tangents."""
        return tuple([self.dual(out, t) for out, t in zip(outs, tangents, strict=True)])

    def tangent_of(self, value: Any) -> Any:
        """The tangent of a result: a value of `tangents`, or None when zero."""
        if isinstance(value, DualTracer) and value.owner is self:
            return value.tangent
        return None

    def primal_of(self, value: Any) -> Any:
        """The enclosing trace's value of a result."""
        if isinstance(value, DualTracer) and value.owner is self:
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
    given = typed_zeros(primals, tangents)
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


def typed_zeros(primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents, with a `Zero` of the right type where there is None."""
    return [zero_of(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
