"""Loops whose backward pass stores a few states and computes the others again.

`chained_scan` is a scan that, when it is linearised, keeps nothing but its arguments: the tangent
graph holds the loop that pushes values and tangents together.  Transposed, that loop becomes one
`chain` equation, which follows a schedule (see `stax.transforms.chains`): restore a stored state,
advance it, store it, take the backward step of a step.  The schedule is a table among its inputs.
Inside another derivative, `chain` is the two ordinary scans it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph, Var
from stax.core.primitive import NONLINEAR, Linear, Primitive, Recompute, Zero
from stax.core.staging import eval_graph, stage
from stax.core.trace import bind, use_trace
from stax.primitives.control import lower_chain, lower_scan
from stax.primitives.views import move_axis
from stax.transforms.calls import graph_cost
from stax.transforms.chains import Binomial, Op
from stax.transforms.control_graphs import batch_body, carry_fixpoint, chosen, parts
from stax.transforms.control_scan import (
    BackwardBody,
    avals_of_scan,
    batch_scan,
    cost_of_scan,
    jvp_scan,
    pruned_scan,
    repeated,
    run_scan,
    scan_p,
)
from stax.transforms.effects import check_repeatable, quiet
from stax.transforms.jvp import instantiate, jvp_flat, zeros
from stax.transforms.linearize import LinearizeTrace, linearize_graph
from stax.transforms.simplify import PRUNE_RULES, dce
from stax.transforms.transpose import transpose_graph, transpose_plan


def _jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    return jvp_scan(primals, outs, tangents, prim=chained_scan_p, **params)


def _batch(args: Any, dims: Any, /, **params: Any) -> Any:
    return batch_scan(args, dims, prim=chained_scan_p, **params)


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    check_repeatable(params["body"], "Binomial")
    outs = bind(chained_scan_p, *primals, **params)
    again = {**params, "body": quiet(params["body"])}
    with use_trace(trace.tangents):
        _, found = _jvp(primals, outs, tangents, body_of=_split_body, **again)
    return outs, found


def _split_body(body: Graph, active: Sequence[bool], wanted: Sequence[bool]) -> Graph:
    """The body with tangents, in which no equation computes values and tangents together.

    A loop inside the body has a derivative rule that does; transposition tells linear equations
    from others only as wholes.
    """
    linear = linearize_graph(body, active, again=True)
    n, results = len(body.inputs), len(body.outputs)

    def fun(*values: Any) -> list[Any]:
        outs = eval_graph(linear.forward, values[:n])
        given = iter(values[n:])
        moving = [next(given) if a else None for a in active]
        dots = [t for t, m in zip(moving, linear.in_mask, strict=True) if m]
        found = iter(eval_graph(linear.tangent, [*linear.residuals(values, outs), *dots]))
        have = [next(found) if m else None for m in linear.out_mask]
        made = [instantiate(t, v) for t, v, w in zip(have, outs, wanted, strict=False) if w]
        return [*outs[:results], *made]

    avals = [*body.in_avals, *(a.tangent() for a in chosen(body.in_avals, active))]
    return stage(fun, avals, name=body.name)


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    body, n, m, length = (params[k] for k in ("body", "consts", "carry", "length"))

    def linear_outputs(marks: list[bool]) -> list[bool]:
        linear = transpose_plan(body, marks).linear
        return [isinstance(a, Var) and a in linear for a in body.outputs]

    linear, _ = carry_fixpoint([isinstance(a, Linear) for a in args], n, m, linear_outputs)
    known = [k for k in range(n, n + m) if not linear[k]]
    rest = [k for k in range(n, n + m) if linear[k]]
    if not known or not length:
        return list(scan_p.transpose(cts, *args, **_plain(params)))  # type: ignore[operator]  # a rule
    given = [k for k in range(len(args)) if not linear[k]]
    advance = dce(
        quiet(body).replace(
            inputs=[body.inputs[k] for k in given],
            outputs=[body.outputs[k - n] for k in known],
        )
    )
    # The states are slices that the backward step is given, as if they were stacked.
    order = [*range(n), *rest, *known, *range(n + m, len(args))]
    step = body.replace(
        inputs=[body.inputs[k] for k in order],
        outputs=[*(body.outputs[k - n] for k in rest), *body.outputs[m:]],
    )
    ct_carry = [instantiate(cts[k - n]) for k in rest]
    ct_ys = [ct for ct in cts[m:] if not isinstance(ct, Zero)]
    marks = [linear[k] for k in order]
    wanted = [True] * len(rest) + [not isinstance(ct, Zero) for ct in cts[m:]]
    graph, received = transpose_graph(step, marks, wanted)
    count = len(rest)
    backward = BackwardBody(graph, step, marks, received, n, count, len(ct_ys), stack=False)
    fixed = [args[k] for k in given if k < n]
    slices = [args[k] for k in given if k >= n + m]
    found = bind(
        chain_p,
        _table(params["slots"], length),
        *fixed,
        *(args[k] for k in known),
        *ct_carry,
        *(zeros(a) for a in backward.accumulated),
        *slices,
        *ct_ys,
        advance=advance,
        backward=backward.graph,
        consts=len(fixed),
        states=len(known),
        carry=count + len(backward.accumulated),
        xs=len(slices),
        length=length,
        reverse=params["reverse"],
        slots=params["slots"],
        unroll=params["unroll"],
    )
    outgoing = backward.cotangents(found, [args[k] for k in order], [])
    result: list[Any] = [None] * len(args)
    for k, ct in zip(order, outgoing, strict=True):
        result[k] = ct
    return result


def _table(slots: int, length: int) -> np.ndarray[Any, Any]:
    """The schedule as the rows of an array."""
    return np.array(Binomial(slots).schedule(length), np.int32).reshape(-1, 3)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k != "slots"}


chained_scan_p = Primitive(
    "chained_scan",
    family="call",
    abstract_eval=avals_of_scan,
    impl=run_scan,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=lower_scan,
    cost=cost_of_scan,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
)
PRUNE_RULES[chained_scan_p] = pruned_scan


# --- the reversed chain -------------------------------------------------------------------------


def _chain_avals(*avals: Aval, backward: Graph, carry: int, length: int, **params: Any) -> Any:
    outs = backward.out_avals
    return (*outs[:carry], *(a.update((length, *a.shape)) for a in outs[carry:]))


def _chain_run(
    table: Any,
    *args: Any,
    advance: Graph,
    backward: Graph,
    consts: int,
    states: int,
    carry: int,
    xs: int,
    length: int,
    reverse: bool,
    **params: Any,
) -> list[Any]:
    known, state, cts, slices, ct_ys = parts(args, consts, states, carry, xs)
    outs = [np.empty((length, *a.shape), a.dtype) for a in backward.out_avals[carry:]]
    slots = {0: state}
    for op, place, count in np.asarray(table).tolist():
        if op == Op.RESTORE:
            state = slots[place]
        elif op == Op.STORE:
            slots[place] = state
        elif op == Op.ADVANCE:
            for k in range(place, place + count):
                i = length - 1 - k if reverse else k
                state = eval_graph(advance, [*known, *state, *(x[i] for x in slices)])
        else:
            i = length - 1 - place if reverse else place
            given = [*state, *(x[i] for x in slices), *(c[i] for c in ct_ys)]
            found = eval_graph(backward, [*known, *cts, *given])
            cts = found[:carry]
            for out, value in zip(outs, found[carry:], strict=True):
                out[i] = value
    return [*cts, *outs]


def as_scans(table: Any, *args: Any, **params: Any) -> list[Any]:
    """The results of a `chain` by two scans: one that stacks the states, one that goes back."""
    advance, backward, length = params["advance"], params["backward"], params["length"]
    known, state, cts, slices, ct_ys = parts(
        args, params["consts"], params["states"], params["carry"], params["xs"]
    )
    n, m = len(known), len(state)
    common = {"length": length, "unroll": params["unroll"]}
    stacking = advance.replace(outputs=[*advance.outputs, *advance.inputs[n : n + m]])
    stacked = bind(
        scan_p,
        *(*known, *state, *slices),
        **common,
        body=stacking,
        consts=n,
        carry=m,
        reverse=params["reverse"],
    )[m:]
    return list(
        bind(
            scan_p,
            *(*known, *cts, *stacked, *slices, *ct_ys),
            **common,
            body=backward,
            consts=n,
            carry=len(cts),
            reverse=not params["reverse"],
        )
    )


def _chain_jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    given = [None if isinstance(t, Zero) else t for t in tangents]
    return jvp_flat(lambda *args: as_scans(*args, **params), primals, given)


def _chain_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    given = [None if isinstance(t, Zero) else t for t in tangents]
    with use_trace(trace):
        outs = as_scans(*trace.wrap(primals, given), **params)
    return [trace.primal_of(v) for v in outs], [trace.tangent_of(v) for v in outs]


def _chain_batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    n, m, c, x = (params[k] for k in ("consts", "states", "carry", "xs"))
    first = 1 + n + m + c  # where the stacked operands begin
    values = []
    for k, (value, dim) in enumerate(zip(args, dims, strict=True)):
        if dim is not None:
            value = move_axis(value, dim, 1 if k >= first else 0)
        elif 1 + n <= k < first:
            value = repeated(value, size)
        values.append(value)
    marks = [d is not None for d in dims]
    fixed, stacked = marks[1 : 1 + n], marks[first:]
    advance = [*fixed, *[True] * m, *stacked[:x]]
    backward = [*fixed, *[True] * (c + m), *stacked]
    changed = {
        "advance": batch_body(params["advance"], advance, [True] * m, size, axis_name),
        "backward": batch_body(
            params["backward"],
            backward,
            [True] * len(params["backward"].outputs),
            size,
            axis_name,
        ),
    }
    outs = bind(chain_p, *values, **{**params, **changed})
    return outs, [0 if k < c else 1 for k in range(len(outs))]


def _chain_cost(
    in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]
) -> float:
    ahead = Binomial(params["slots"]).forward_steps(params["length"])
    one = graph_cost(in_avals, out_avals, {"graph": params["advance"]})
    back = graph_cost(in_avals, out_avals, {"graph": params["backward"]})
    return float(ahead * one + params["length"] * back)


chain_p = Primitive(
    "chain",
    family="call",
    abstract_eval=_chain_avals,
    impl=_chain_run,
    jvp=_chain_jvp,
    transpose=NONLINEAR,
    batch=_chain_batch,
    lower=lower_chain,
    cost=_chain_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_chain_linearize,
)

__all__ = ["as_scans", "aval_of", "chain_p", "chained_scan_p", "chosen"]
