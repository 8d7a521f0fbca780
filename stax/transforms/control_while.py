"""The primitive `while`: a loop that runs as long as a condition on its carries holds.

Inputs are the constants of the condition, those of the body, and the initial carries.  It has a
forward derivative (a loop that carries tangents too) and no reverse one: how many steps there are
is not known beforehand, so there is nothing to stack.  Batched with a condition that differs
between examples it runs until all are done; the carries of finished examples stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import Linear, Primitive, Recompute
from stax.core.staging import eval_graph, stage
from stax.core.trace import STATE, bind, use_trace
from stax.errors import GraphError, NonDifferentiableError
from stax.primitives.control import lower_while
from stax.primitives.elementwise import logical_and, select
from stax.primitives.reductions import reduce_any
from stax.primitives.views import move_axis, reshape
from stax.transforms.calls import graph_cost, is_zero
from stax.transforms.control_eager import LONG, can_hand_over, compiled_run
from stax.transforms.control_graphs import (
    active_marks,
    batch_body,
    carry_fixpoint,
    chosen,
    jvp_body,
    numpy_function,
    parts,
    unchecked,
)
from stax.transforms.control_scan import repeated
from stax.transforms.jvp import instantiate, jvp_graph
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.vmap import batch_graph


def _avals(
    *avals: Aval, cond: Graph, body: Graph, cond_consts: int, body_consts: int
) -> tuple[Aval, ...]:
    of_cond, of_body, carry = parts(avals, cond_consts, body_consts)
    for graph, consts in ((cond, of_cond), (body, of_body)):
        given = [a.strong() for a in (*consts, *carry)]
        if given != [a.strong() for a in graph.in_avals]:
            raise GraphError(f"{graph.name} takes {graph.in_avals}, not {given}", op="while")
    if [a.strong() for a in body.out_avals] != [a.strong() for a in carry]:
        raise GraphError(f"the body carries {carry} to {body.out_avals}", op="while")
    if len(cond.outputs) != 1 or cond.outputs[0].aval.strong() is not Aval((), np.dtype(bool)):
        raise GraphError(f"the condition gives {cond.out_avals}, not bool[]", op="while")
    return tuple(body.in_avals[body_consts:])


def _run(*args: Any, cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> list[Any]:
    of_cond, of_body, carry = parts(args, cond_consts, body_consts)
    going, step = numpy_function(cond), numpy_function(body)
    left = LONG
    while going([*of_cond, *carry])[0]:
        carry = step([*of_body, *carry])
        left -= 1
        if left == 0 and can_hand_over():
            params: dict[str, Any] = {"cond": cond, "body": body}
            params.update(cond_consts=cond_consts, body_consts=body_consts)
            return compiled_run(while_p, [*of_cond, *of_body, *carry], params)
    return carry


def _jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    body, nc, nb = params["body"], params["cond_consts"], params["body_consts"]
    count = len(body.outputs)
    given = [None if is_zero(t) else t for t in tangents[nc:]]
    active, _ = carry_fixpoint(
        active_marks(tangents[nc:], [aval_of(p) for p in primals[nc:]]),
        nb,
        count,
        lambda marks: jvp_graph(body, marks)[1],
    )
    moving = active[nb:]
    if not any(moving):
        return bind(while_p, *primals, **params), [None] * count
    graph = jvp_body(body, active, moving)
    pairs = list(zip(given, primals[nc:], strict=True))
    const_dots = [t for t, _ in chosen(pairs[:nb], active[:nb])]
    carry_dots = [instantiate(t, p) for t, p in chosen(pairs[nb:], moving)]
    k, c, kd, cd = parts(graph.inputs, nb, count, len(const_dots))
    graph = graph.replace(inputs=[*k, *kd, *c, *cd])
    cond = with_more_inputs(params["cond"], [v.aval for v in cd])
    found = bind(
        while_p,
        *primals[:nc],
        *primals[nc : nc + nb],
        *const_dots,
        *primals[nc + nb :],
        *carry_dots,
        cond=cond,
        body=graph,
        cond_consts=nc,
        body_consts=nb + len(kd),
    )
    rest = iter(found[count:])
    return found[:count], [next(rest) if m else None for m in moving]


def with_more_inputs(graph: Graph, avals: Sequence[Aval]) -> Graph:
    """`graph` with further inputs that it does not read."""
    n = len(graph.inputs)
    return stage(
        lambda *values: eval_graph(graph, values[:n]), [*graph.in_avals, *avals], name=graph.name
    )


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The results, and the loop with tangents recorded to be run again: it only runs forward."""
    outs = bind(while_p, *primals, **params)
    with use_trace(trace.tangents):
        _, out_tangents = _jvp(primals, None, tangents, **params)
    return outs, out_tangents


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    raise NonDifferentiableError(
        "a while_loop has no reverse-mode derivative: the number of its steps is not known "
        "beforehand",
        op="while_loop",
        operands=[str(a.aval if isinstance(a, Linear) else aval_of(a)) for a in args],
        where=STATE.source,
        hint="give while_loop a bound, max_steps=; use fori_loop with static bounds or scan; or "
        "forward mode (jvp, jacfwd)",
    )


def _batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    cond, body = params["cond"], params["body"]
    nc, nb = params["cond_consts"], params["body_consts"]
    count = len(body.outputs)
    batched = [d is not None for d in dims]

    def is_batched(graph: Graph, marks: Sequence[bool]) -> list[bool]:
        places = [0 if b else None for b in marks]
        return [d is not None for d in batch_graph(graph, places, size, axis_name)[1]]

    def step(marks: list[bool]) -> list[bool]:
        if is_batched(cond, [*batched[:nc], *marks[nb:]])[0]:
            return [True] * count
        return is_batched(body, marks)

    of_body, _ = carry_fixpoint(batched[nc:], nb, count, step)
    of_cond = [*batched[:nc], *of_body[nb:]]
    lanes = is_batched(cond, of_cond)[0]
    values = []
    for value, dim, have in zip(args, dims, [*of_cond[:nc], *of_body], strict=True):
        if dim is not None:
            value = move_axis(value, dim, 0)
        elif have:
            value = repeated(value, size)
        values.append(value)
    carried = of_body[nb:]
    places = [0 if b else None for b in carried]
    inner = unchecked(body) if lanes else body
    new_cond = batch_body(cond, of_cond, [lanes], size, axis_name)
    new_body = batch_body(inner, of_body, carried, size, axis_name)
    if not lanes:
        return bind(while_p, *values, **{**params, "cond": new_cond, "body": new_body}), places
    consts, carry = values[: nc + nb], values[nc + nb :]
    going = eval_graph(new_cond, [*values[:nc], *carry])[0]
    found = bind(
        while_p,
        *consts,
        going,
        *carry,
        cond=_any_going(size, new_body.in_avals[nb:]),
        body=_masked(new_cond, new_body, nc, nb),
        cond_consts=0,
        body_consts=nc + nb,
    )
    return found[1:], places


def _any_going(size: int, avals: Sequence[Aval]) -> Graph:
    flag = Aval((size,), np.dtype(bool))
    return stage(lambda going, *_: [reduce_any(going, (0,))], [flag, *avals], name="any_going")


def _masked(cond: Graph, body: Graph, nc: int, nb: int) -> Graph:
    """(constants, lanes still going, carries) -> (lanes still going, carries)."""

    def fun(*values: Any) -> list[Any]:
        of_cond, of_body, rest = parts(values, nc, nb)
        going, carry = rest[0], rest[1:]
        new = [
            select(reshape(going, (going.shape[0],) + (1,) * (len(v.shape) - 1)), v, old)
            for v, old in zip(eval_graph(body, [*of_body, *carry]), carry, strict=True)
        ]
        return [logical_and(going, eval_graph(cond, [*of_cond, *new])[0]), *new]

    flag = cond.outputs[0].aval
    avals = [*cond.in_avals[:nc], *body.in_avals[:nb], flag, *body.in_avals[nb:]]
    return stage(fun, avals, name=body.name)


def _cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> float:
    once = graph_cost(in_avals, out_avals, {"graph": params["body"]})
    return once + graph_cost(in_avals, out_avals, {"graph": params["cond"]})


while_p = Primitive(
    "while",
    family="call",
    abstract_eval=_avals,
    impl=_run,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=lower_while,
    cost=_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
)

__all__ = ["while_p", "with_more_inputs"]
