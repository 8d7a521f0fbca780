"""The primitive `linear_solve`: the solution of a linear system by a function of the user's.

Inputs are the constants that the functions share, then the right-hand side.  It carries three
graphs: `graph` solves the system, `matvec` applies its matrix, `transposed` solves the transposed
system.  However the solution is found, its derivative is another solution with the same matrix,
and its transpose one with the transposed matrix, so a solver may iterate as long as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import COMPOSED, Linear, Primitive, Recompute, Zero
from stax.core.staging import eval_graph, stage
from stax.core.trace import STATE, bind, use_trace
from stax.errors import NonDifferentiableError
from stax.primitives.elementwise import neg, sub
from stax.primitives.views import move_axis
from stax.transforms.calls import eval_call, graph_avals, graph_cost, is_zero
from stax.transforms.control_graphs import batch_body
from stax.transforms.control_scan import repeated
from stax.transforms.jvp import instantiate, jvp_flat
from stax.transforms.linearize import KEPT_WHOLE, LinearizeTrace
from stax.transforms.simplify import PRUNE_RULES
from stax.transforms.transpose import backward_pass

Params = dict[str, Any]


def transposed_matvec(matvec: Graph, consts: int) -> Graph:
    """(constants, y) -> y times the matrix, from (constants, x) -> the matrix times x."""
    key = ("transposed matvec", consts)
    found: Graph | None = matvec.cache.get(key)
    if found is not None:
        return found
    marks = [k >= consts for k in range(len(matvec.inputs))]
    solution = [a.strong() for a in matvec.in_avals[consts:]]

    def fun(*values: Any) -> list[Any]:
        args = [*values[:consts], *([None] * len(solution))]
        return [instantiate(ct) for ct in backward_pass(matvec, marks, args, values[consts:])]

    avals = [*matvec.in_avals[:consts], *(a.strong() for a in matvec.out_avals)]
    found = matvec.cache[key] = stage(fun, avals, name=f"{matvec.name}_transposed")
    found.cache[key] = matvec
    return found


def _tangents(
    primals: Sequence[Any], outs: Sequence[Any], tangents: Sequence[Any], params: Params
) -> list[Any]:
    """From A x = b: A dx = db - dA x."""
    matvec, n = params["matvec"], params["consts"]
    size = len(primals) - n
    solution = outs[:size]
    given = [None if is_zero(t) else t for t in tangents]
    moved = [None] * size
    if any(t is not None for t in given[:n]):
        _, moved = jvp_flat(
            lambda *consts: eval_graph(matvec, [*consts, *solution]), primals[:n], given[:n]
        )
    if all(t is None for t in (*given[n:], *moved)):
        return [None] * len(outs)
    right = []
    for t, m, b in zip(given[n:], moved, primals[n:], strict=True):
        if m is None:
            right.append(instantiate(t, b))
        else:
            right.append(neg(m) if t is None else sub(t, m))
    found = bind(linear_solve_p, *primals[:n], *right, **params)
    return [*found[:size], *([None] * (len(outs) - size))]


def _jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    results = bind(linear_solve_p, *primals, **params)
    return results, _tangents(primals, results, tangents, params)


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: Params
) -> tuple[Sequence[Any], Sequence[Any]]:
    results = bind(linear_solve_p, *primals, **params)
    with use_trace(trace.tangents):
        return results, _tangents(primals, results, tangents, params)


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    matvec, n = params["matvec"], params["consts"]
    consts, linear = args[:n], args[n:]
    if params["transposed"] is None or any(isinstance(a, Linear) for a in consts):
        raise NonDifferentiableError(
            "the reverse derivative of custom_linear_solve solves the transposed system"
            if params["transposed"] is None
            else "custom_linear_solve is not linear in what its matvec reads",
            op="custom_linear_solve",
            operands=[str(a.aval if isinstance(a, Linear) else aval_of(a)) for a in args],
            where=STATE.source,
            hint="pass transpose_solve, or symmetric=True"
            if params["transposed"] is None
            else "differentiate with jvp or grad, not linear_transpose",
        )
    given = cts[: len(linear)]
    if all(isinstance(ct, Zero) for ct in given):
        return [*([None] * n), *(Zero(a.aval) for a in linear)]
    found = bind(
        linear_solve_p,
        *consts,
        *map(instantiate, given),
        graph=params["transposed"],
        matvec=transposed_matvec(matvec, n),
        transposed=params["graph"],
        consts=n,
    )
    return [*([None] * n), *found[: len(linear)]]


def _batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    n = params["consts"]
    values = [v if d is None else move_axis(v, d, 0) for v, d in zip(args, dims, strict=True)]
    right = [
        repeated(v, size) if d is None else v for v, d in zip(values[n:], dims[n:], strict=True)
    ]
    marks = [*(d is not None for d in dims[:n]), *([True] * len(right))]

    def batched(graph: Graph | None) -> Graph | None:
        if graph is None:
            return None
        return batch_body(graph, marks, [True] * len(graph.outputs), size, axis_name)

    graphs = {k: batched(params[k]) for k in ("graph", "matvec", "transposed")}
    found = bind(linear_solve_p, *values[:n], *right, **{**params, **graphs})
    return found, [0] * len(found)


linear_solve_p = Primitive(
    "linear_solve",
    family="call",
    abstract_eval=graph_avals,
    impl=eval_call,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=COMPOSED,
    cost=graph_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
    decompose=eval_call,
)
# Its three graphs share their inputs: none is cut down alone.
PRUNE_RULES[linear_solve_p] = lambda eqn, wanted: eqn
KEPT_WHOLE.add(linear_solve_p)


def with_constants(graph: Graph, before: Sequence[Aval], own: int, after: Sequence[Aval]) -> Graph:
    """`graph` with constants that it does not read, before and after its `own` first inputs."""
    return stage(
        lambda *values: eval_graph(
            graph,
            [*values[len(before) : len(before) + own], *values[len(before) + own + len(after) :]],
        ),
        [*before, *graph.in_avals[:own], *after, *graph.in_avals[own:]],
        name=graph.name,
    )


__all__ = ["linear_solve_p", "transposed_matvec", "with_constants"]
