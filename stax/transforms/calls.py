"""Functions that carry their own derivative rule, as every trace sees them.

Input: a flat Python function with a rule, and values.  Output: its results under whichever trace
is current: evaluated, differentiated by its rule, batched (then the rule is batched with it), or
recorded as one equation whose parameters hold the graph and the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import Linear, Primitive, Zero
from stax.core.staging import StagingTrace, eval_graph, lift_constants, stage
from stax.core.trace import EVAL, STATE, bind
from stax.transforms.effects import quiet
from stax.transforms.transpose import backward_pass
from stax.transforms.vmap import batch_flat, to_axis


class Call:
    """A flat function with a rule; subclasses say how it is differentiated and batched.

    `consts` are leading values the rule does not see (captured while the call was recorded).
    """

    __slots__ = ("fun",)
    prim: Primitive

    def __init__(self, fun: Callable[..., Sequence[Any]]) -> None:
        self.fun = fun

    def rule_params(self) -> dict[str, Any]:
        """The rule, as parameters of an equation."""
        raise TypeError(f"{type(self).__name__} has no rule")

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents, in the current trace."""
        raise TypeError(f"{type(self).__name__} has no forward rule")

    def linearize(
        self, trace: Any, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results in the current trace, and tangents in `trace.tangents`."""
        raise TypeError(f"{type(self).__name__} has no reverse rule")

    def batched(
        self, dims: Sequence[int | None], size: int, axis_name: Any, origin: Any = None
    ) -> Call:
        """The call for a whole batch; every result has its batch axis in front.

        `origin` is the batching trace that met the call.
        """
        raise TypeError(f"{type(self).__name__} cannot be batched")

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results without the rule."""
        return list(self.fun(*values))

    def run_again(self, values: Sequence[Any]) -> list[Any]:
        """As `run`, without the effects, where the function has been run before."""
        staged = stage(self.fun, [aval_of(v) for v in values], name=self.prim.name)
        graph, consts = lift_constants(staged)
        return eval_graph(quiet(graph), [*consts, *values])

    def bind(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The results under the current trace."""
        trace: Any = STATE.trace
        if trace is EVAL:
            return tuple(self.run(values))
        if not isinstance(trace, StagingTrace):
            return tuple(trace.process_call(self, values))
        staged = stage(self.fun, [aval_of(v) for v in values], name=self.prim.name)
        graph, consts = lift_constants(staged)
        params = {"graph": graph, "consts": len(consts), **self.rule_params()}
        return bind(self.prim, *consts, *values, **params)


def graph_call(kind: Callable[..., Call], consts: Sequence[Any], params: dict[str, Any]) -> Call:
    """The call that an equation stands for, with its captured values closed over."""
    rest = {k: v for k, v in params.items() if k not in ("graph", "consts")}
    graph = params["graph"]
    return kind(lambda *values: eval_graph(graph, [*consts, *values]), **rest)


def call_rules(kind: Callable[..., Call]) -> dict[str, Any]:
    """The fields of the row of a call with a rule."""

    def jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
        n = params["consts"]
        call = graph_call(kind, primals[:n], params)
        return call.jvp(primals[n:], tangents[n:])

    def linearize(trace: Any, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
        n = params["consts"]
        return graph_call(kind, primals[:n], params).linearize(trace, primals[n:], tangents[n:])

    def batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
        n, graph = params["consts"], params["graph"]
        call = graph_call(kind, args[:n], params).batched(dims[n:], size, axis_name)

        def fun(*values: Any) -> list[Any]:
            outs, places = batch_flat(
                lambda *a: eval_graph(graph, a), [*args[:n], *values], dims, size, axis_name
            )
            return [to_axis(v, d, 0, size) for v, d in zip(outs, places, strict=True)]

        if any(d is not None for d in dims[:n]):
            call.fun = fun
        outs = call.bind(args[n:])
        return outs, [0] * len(outs)

    return {
        "family": "call",
        "abstract_eval": graph_avals,
        "impl": eval_call,
        "jvp": jvp,
        "transpose": transpose_call,
        "batch": batch,
        "cost": graph_cost,
        "decompose": eval_call,
        "multi": True,
        "linearize": linearize,
    }


def graph_avals(*avals: Aval, graph: Graph, **params: Any) -> tuple[Aval, ...]:
    """Types of the results of an equation that carries a graph."""
    return graph.out_avals


def eval_call(*args: Any, graph: Graph, **params: Any) -> list[Any]:
    """The results of an equation that carries a graph, interpreted."""
    return eval_graph(graph, args)


def graph_cost(
    in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]
) -> float:
    """Operations of the graph an equation carries."""
    return float(
        sum(
            e.prim.cost([a.aval for a in e.inputs], [v.aval for v in e.outputs], e.params)
            for e in params["graph"].eqns
        )
    )


def transpose_call(cts: Sequence[Any], *args: Any, graph: Graph, **params: Any) -> list[Any]:
    """Cotangents of an equation whose graph is linear in some of its inputs."""
    linear = [isinstance(a, Linear) for a in args]
    found = iter(backward_pass(graph, linear, args, cts))
    return [next(found) if mark else None for mark in linear]


def is_zero(tangent: Any) -> bool:
    """True for a tangent that is zero by structure."""
    return tangent is None or isinstance(tangent, Zero)
