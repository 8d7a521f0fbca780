"""Compiled functions of flat arrays with the compiled functions of their derivatives.

Input: a graph and an order of derivatives, or the parts of a file.  Output: a `Unit`: a program,
and for each order the three programs that its derivative takes: one that also hands out what is
kept for the derivative, the tangents from that, and the cotangents.  Each is a unit of one order
less, so that a unit of order two can be differentiated twice, in any mix of modes.  The primitive
`exported` is a call of a unit, `exported_tangent` the linear part of its derivative.

A unit is never differentiated by way of its graph: rules of the user's (custom_jvp, custom_vjp)
have been compiled away, and a derivative taken of what is left could differ from them. Where a
program is compiled around it, the graph takes its place, like that of any other call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stax.backends.c.cache import warn_degraded_once
from stax.backends.c.image import Image
from stax.backends.c.run import CProgram
from stax.backends.c.toolchain import find_toolchain, toolchain_fault
from stax.backends.reference import ReferenceProgram
from stax.compile import lowered_graph
from stax.core.aval import Aval
from stax.core.graph import Graph
from stax.core.primitive import COMPOSED, NONLINEAR, Linear, Primitive, Recompute, Zero
from stax.core.source import user_source
from stax.core.staging import eval_graph
from stax.core.text import parse_graph, print_graph
from stax.core.trace import bind, use_trace
from stax.dtypes import is_inexact
from stax.errors import CompilerNotFoundError, ExportError, GraphError, NonDifferentiableError
from stax.forked import Lock
from stax.lax.control_flow import scan
from stax.primitives.views import move_axis
from stax.programs.interpreted import reference_program
from stax.programs.options import CompileOptions
from stax.programs.records import Arrays, large_constants, unsaved_steps
from stax.transforms.calls import is_zero
from stax.transforms.jit_call import saving_graphs
from stax.transforms.jvp import instantiate
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.transpose import transpose_graph

Values = Sequence[Any]


@dataclass(frozen=True)
class Derivative:
    """How a unit is differentiated.

    Attributes:
      forward: arguments -> results and kept values.
      backward: residuals, cotangents of results in `out_mask` -> those of arguments in `received`;
        None where no result depends on an argument smoothly.
      tangent: residuals, tangents of the arguments in `in_mask` -> those of results in `out_mask`;
        None where there is none: with `backward`, or for a custom_vjp rule that is not linear.
      sources: the residuals: k below the number of arguments is an argument, otherwise a result
        of `forward`.
    """

    forward: Unit
    tangent: Unit | None
    backward: Unit | None
    sources: tuple[int, ...]
    in_mask: tuple[bool, ...]
    out_mask: tuple[bool, ...]
    received: tuple[bool, ...]

    @property
    def out_tangents(self) -> tuple[Aval, ...]:
        """Types of the tangents of the results in `out_mask`."""
        pairs = zip(self.forward.out_avals, self.out_mask, strict=False)
        return tuple(a.tangent() for a, mark in pairs if mark)


@dataclass(eq=False)
class Unit:
    """A compiled function: `image`, `text` of its graph, and its derivative up to an order."""

    name: str
    image: Image
    text: str
    arrays: Mapping[str, bytes]
    derivative: Derivative | None = None
    origin: str = ""  # the function that was exported, and the order it was exported with
    _graph: Graph | None = None
    _program: CProgram | ReferenceProgram | None = None
    _lock: Any = field(default_factory=Lock)

    @property
    def in_avals(self) -> tuple[Aval, ...]:
        """Types of the arguments."""
        return tuple(Aval(shape, dtype) for shape, dtype in self.image.inputs)

    @property
    def out_avals(self) -> tuple[Aval, ...]:
        """Types of the results."""
        return tuple(Aval(shape, dtype) for shape, dtype in self.image.outputs)

    @property
    def graph(self) -> Graph:
        """What it computes.

        Raises:
          GraphError: the text does not parse.
        """
        if self._graph is None:
            self._graph = parse_graph(self.text, self.arrays)
        return self._graph

    @property
    def program(self) -> CProgram | ReferenceProgram:
        """The program, compiled (or taken from the cache on disk) when it is first needed."""
        with self._lock:
            if self._program is None:
                self._program = self._loaded()
        return self._program

    def _loaded(self) -> CProgram | ReferenceProgram:
        if find_toolchain() is not None:
            return CProgram(self.image, {})
        fault = toolchain_fault()
        try:
            graph = self.graph
        except GraphError as error:
            raise CompilerNotFoundError(
                f"the exported function {self.origin} cannot be compiled: {fault}",
                hint="install gcc or clang, or set STAX_CC",
            ) from error
        warn_degraded_once("compiler", f"{fault}; exported functions run by NumPy instead")
        return reference_program(graph)

    def bind(self, *values: Any) -> tuple[Any, ...]:
        """The results under the current trace."""
        return bind(exported_p, *values, unit=self)


def unit_of(graph: Graph, options: CompileOptions, order: int, origin: str) -> Unit:
    """The unit of a graph, with its derivatives up to `order`.

    Raises:
      ExportError: a step calls Python code that no file can hold.
    """
    lowered = lowered_graph(graph, options)
    image = lowered.source.image  # type: ignore[union-attr]  # of a program for the CPU
    unsaved = unsaved_steps(image)
    if unsaved:
        raise ExportError(
            f"{origin} cannot be exported: it calls Python code, which no file can hold:\n  "
            + "\n  ".join(unsaved),
            hint="leave callbacks and debug.print out of it",
        )
    arrays: Arrays = {}
    large_constants(lowered.prepared, arrays)
    text = print_graph(lowered.prepared)
    unit = Unit(graph.name or "f", image, text, arrays, origin=origin, _graph=lowered.prepared)
    if order:
        unit.derivative = _derivative(graph, options, order - 1, origin)
    return unit


def _derivative(graph: Graph, options: CompileOptions, order: int, origin: str) -> Derivative:
    active = [is_inexact(a.dtype) for a in graph.in_avals]
    budget = options.memory_budget
    options = replace(options, memory_budget=None)
    forward, tangent, sources, in_mask, out_mask = saving_graphs(graph, active, budget)
    first = unit_of(forward, options, order, origin)
    received = [False] * len(graph.inputs)
    if not tangent.outputs:
        return Derivative(first, None, None, sources, in_mask, out_mask, tuple(received))
    linear = [k >= len(sources) for k in range(len(tangent.inputs))]
    backward, marks = transpose_graph(tangent, linear, [True] * len(tangent.outputs))
    given = [k for k, mark in enumerate(in_mask) if mark]
    for k, mark in zip(given, marks, strict=True):
        received[k] = mark
    try:
        forwards = unit_of(tangent, options, order, origin)
    except NonDifferentiableError:  # said again when forward mode is asked for
        forwards = None
    return Derivative(
        first,
        forwards,
        unit_of(backward, options, order, origin),
        sources,
        in_mask,
        out_mask,
        tuple(received),
    )


# ------------------------------------------------------------------------------ the primitives


def _types(*avals: Aval, unit: Unit) -> tuple[Aval, ...]:
    return unit.out_avals


def _run(*args: Any, unit: Unit) -> Values:
    return unit.program.run(args)


def _cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> int:
    return sum(a.size for a in (*in_avals, *out_avals))


def _batched(call: Callable[..., Values], args: Any, dims: Any) -> Any:
    """One call after the other: the shapes of a unit are those it was compiled for."""
    moving = [move_axis(v, d, 0) for v, d in zip(args, dims, strict=True) if d is not None]

    def one(carry: Any, values: list[Any]) -> Any:
        rest = iter(values)
        inner = [v if d is None else next(rest) for v, d in zip(args, dims, strict=True)]
        return carry, list(call(*inner))

    outs = scan(one, (), moving)[1]
    return outs, [0] * len(outs)


def _is_smooth(unit: Unit) -> bool:
    return any(is_inexact(a.dtype) for a in unit.out_avals)


def _derivative_of(unit: Unit) -> Derivative:
    if unit.derivative is None:
        raise NonDifferentiableError(
            f"the exported function {unit.origin} holds no derivative of this order, and compiled "
            "code cannot be differentiated",
            op="exported",
            where=user_source() or None,
            hint="export it with a larger vjp_order, or export its derivative: "
            "stax.export(stax.grad(f))",
        )
    return unit.derivative


def _residuals(rule: Derivative, primals: Values, results: Values) -> list[Any]:
    n = len(primals)
    return [primals[k] if k < n else results[k - n] for k in rule.sources]


def _tangents(rule: Derivative, residuals: Values, tangents: Values) -> list[Any]:
    """Tangents of the results, None for those that have none."""
    if rule.backward is None:
        return [None] * len(rule.out_mask)
    given = [instantiate(t) for t, mark in zip(tangents, rule.in_mask, strict=True) if mark]
    found = iter(bind(tangent_p, *residuals, *given, rule=rule))
    return [next(found) if mark else None for mark in rule.out_mask]


def _jvp(primals: Any, outs: Any, tangents: Any, /, *, unit: Unit) -> Any:
    if not _is_smooth(unit):
        results = unit.bind(*primals)
        return results, [None] * len(results)
    rule = _derivative_of(unit)
    results = rule.forward.bind(*primals)
    found = _tangents(rule, _residuals(rule, primals, results), tangents)
    return results[: len(rule.out_mask)], found


def _linearize(
    trace: LinearizeTrace, primals: Values, tangents: Values, params: dict[str, Any]
) -> tuple[Values, Values]:
    unit = params["unit"]
    if not _is_smooth(unit):
        results = unit.bind(*primals)
        return results, [None] * len(results)
    rule = _derivative_of(unit)
    results = rule.forward.bind(*primals)
    residuals = _residuals(rule, primals, results)
    with use_trace(trace.tangents):
        found = _tangents(rule, residuals, tangents)
    return results[: len(rule.out_mask)], found


exported_p = Primitive(
    "exported",
    family="call",
    abstract_eval=_types,
    impl=_run,
    jvp=_jvp,
    transpose=NONLINEAR,
    batch=lambda args, dims, /, *, unit, **_: _batched(unit.bind, args, dims),
    lower=COMPOSED,
    cost=_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
    decompose=lambda *args, unit: eval_graph(unit.graph, args),
)


def _tangent_unit(rule: Derivative) -> Unit:
    if rule.tangent is None:
        raise NonDifferentiableError(
            f"the exported function {rule.forward.origin} has derivatives in reverse mode only: "
            "the bwd rule of a custom_vjp function in it is not linear in the cotangent",
            op="exported",
            where=user_source() or None,
            hint="use stax.grad, stax.vjp or stax.jacrev, or define it with stax.custom_jvp",
        )
    return rule.tangent


def _applied(rule: Derivative, *values: Any) -> tuple[Any, ...]:
    return bind(tangent_p, *values, rule=rule)


def _tangent_jvp(primals: Any, outs: Any, tangents: Any, /, *, rule: Derivative) -> Any:
    kept = len(rule.sources)
    if not all(map(is_zero, tangents[:kept])):
        return _jvp(primals, outs, tangents, unit=_tangent_unit(rule))
    # Linear in the rest: no derivative of the compiled code is needed.
    moved = [instantiate(t) for t in tangents[kept:]]
    return _applied(rule, *primals), _applied(rule, *primals[:kept], *moved)


def _tangent_linearize(
    trace: LinearizeTrace, primals: Values, tangents: Values, params: dict[str, Any]
) -> tuple[Values, Values]:
    rule = params["rule"]
    kept = len(rule.sources)
    if not all(map(is_zero, tangents[:kept])):
        return _linearize(trace, primals, tangents, {"unit": _tangent_unit(rule)})
    results = _applied(rule, *primals)
    with use_trace(trace.tangents):
        moved = [instantiate(t) for t in tangents[kept:]]
        return results, _applied(rule, *primals[:kept], *moved)


def _tangent_transpose(cts: Values, *args: Any, rule: Derivative) -> list[Any]:
    assert rule.backward is not None
    kept = len(rule.sources)
    found = iter(rule.backward.bind(*args[:kept], *map(instantiate, cts)))
    received = (got for got, mark in zip(rule.received, rule.in_mask, strict=True) if mark)
    result: list[Any] = [None] * kept
    for tangent, got in zip(args[kept:], received, strict=True):
        ct = next(found) if got else None
        # A tangent that is a known zero is no linear argument.
        linear = isinstance(tangent, Linear)
        result.append((Zero(tangent.aval) if ct is None else ct) if linear else None)
    return result


tangent_p = Primitive(
    "exported_tangent",
    family="call",
    abstract_eval=lambda *avals, rule: rule.out_tangents,
    impl=lambda *args, rule: _run(*args, unit=_tangent_unit(rule)),
    jvp=_tangent_jvp,
    transpose=_tangent_transpose,
    batch=lambda args, dims, /, *, rule, **_: _batched(
        functools.partial(_applied, rule), args, dims
    ),
    lower=COMPOSED,
    cost=_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_tangent_linearize,
    decompose=lambda *args, rule: eval_graph(_tangent_unit(rule).graph, args),
)
