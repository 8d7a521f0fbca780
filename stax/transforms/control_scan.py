"""The primitive `scan`: a loop of known length that carries values and stacks results.

Inputs are constants, initial carries and stacked inputs `xs`; the body maps (constants, carries,
one slice of each of the xs) to (carries, one slice of each of the ys).  Differentiated or batched
it is a scan of the differentiated or batched body.  Linearised, the forward scan also stacks what
a minimum cut of the body saves, and the tangent scan reads it; transposed, the tangent scan runs
the other way round.  A matrix product that would be accumulated step by step into the cotangent
of a constant is made once for all steps instead, from its stacked operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Eqn, Graph, Var
from stax.core.primitive import Linear, Primitive, Recompute, Zero
from stax.core.staging import eval_graph, stage
from stax.core.trace import bind, bind1, use_trace
from stax.errors import GraphError
from stax.primitives.control import lower_scan
from stax.primitives.elementwise import add
from stax.primitives.families_arrays import linear_shape_op
from stax.primitives.views import broadcast, move_axis
from stax.transforms.calls import graph_cost, is_zero
from stax.transforms.control_eager import LONG, can_hand_over, compiled_run
from stax.transforms.control_graphs import (
    active_marks,
    batch_body,
    carry_fixpoint,
    chosen,
    filled,
    jvp_body,
    numpy_function,
    parts,
    variables,
    without_jit,
)
from stax.transforms.control_products import ProductPlan, product_plans
from stax.transforms.effects import quiet
from stax.transforms.jit_call import saving_graphs
from stax.transforms.jvp import instantiate, jvp_graph, zeros
from stax.transforms.linearize import LinearizeTrace, linearize_graph
from stax.transforms.simplify import PRUNE_RULES, dce
from stax.transforms.transpose import transpose_graph, transpose_plan
from stax.transforms.updates import sparse_sums
from stax.transforms.vmap import batch_graph


def avals_of_scan(
    *avals: Aval, body: Graph, consts: int, carry: int, length: int, **params: Any
) -> tuple[Aval, ...]:
    given = [*avals[: consts + carry], *(a.update(a.shape[1:]) for a in avals[consts + carry :])]
    have = [a.strong() for a in given]
    if have != [a.strong() for a in body.in_avals]:
        raise GraphError(f"the body takes {body.in_avals}, not {tuple(given)}", op="scan")
    carried = body.in_avals[consts : consts + carry]
    if [a.strong() for a in carried] != [a.strong() for a in body.out_avals[:carry]]:
        raise GraphError(f"the body carries {carried} to {body.out_avals[:carry]}", op="scan")
    return (*carried, *(a.update((length, *a.shape)) for a in body.out_avals[carry:]))


def run_scan(
    *args: Any, body: Graph, consts: int, carry: int, length: int, reverse: bool, **params: Any
) -> list[Any]:
    if length >= LONG and can_hand_over():
        shape = {"body": body, "consts": consts, "carry": carry, "length": length}
        return compiled_run(scan_p, args, {**shape, "reverse": reverse, **params})
    known, state, xs = parts(args, consts, carry)
    ys = [np.empty((length, *a.shape), a.dtype) for a in body.out_avals[carry:]]
    step = numpy_function(body)
    for t in range(length - 1, -1, -1) if reverse else range(length):
        outs = step([*known, *state, *(x[t] for x in xs)])
        state = outs[:carry]
        for y, out in zip(ys, outs[carry:], strict=True):
            y[t] = out
    return [*state, *ys]


def jvp_scan(
    primals: Any,
    outs: Any,
    tangents: Any,
    /,
    prim: Primitive | None = None,
    body_of: Callable[[Graph, Sequence[bool], Sequence[bool]], Graph] = jvp_body,
    **params: Any,
) -> Any:
    """The rule of `scan`; `prim` is the loop to bind, a scan by default.

    `body_of` makes the body with tangents, for the marked inputs and outputs.
    """
    body, n, m = params["body"], params["consts"], params["carry"]
    active, out_marks = carry_fixpoint(
        active_marks(tangents, [aval_of(p) for p in primals]),
        n,
        m,
        lambda marks: jvp_graph(body, marks)[1],
    )
    wanted = [*active[n : n + m], *out_marks[m:]]
    graph = body_of(body, active, wanted)
    given = [None if is_zero(t) else t for t in tangents]
    marks = parts(active, n, m)
    dots = [
        [instantiate(t, p) for t, p in chosen(list(zip(ts, ps, strict=True)), group)]
        for ts, ps, group in zip(parts(given, n, m), parts(primals, n, m), marks, strict=True)
    ]
    sizes = n, m, len(body.inputs) - n - m, len(dots[0]), len(dots[1])
    k, c, x, kd, cd, xd = parts(graph.inputs, *sizes)
    o, y, od, yd = parts(graph.outputs, m, len(body.outputs) - m, len(dots[1]))
    graph = graph.replace(inputs=[*k, *kd, *c, *cd, *x, *xd], outputs=[*o, *od, *y, *yd])
    ks, cs, xs = parts(primals, n, m)
    found = bind(
        prim or scan_p,
        *(*ks, *dots[0], *cs, *dots[1], *xs, *dots[2]),
        **{**params, "body": graph, "consts": n + len(kd), "carry": m + len(cd)},
    )
    o, od, y, yd = parts(found, m, len(cd), len(y))
    rest = iter([*od, *yd])
    return [*o, *y], [next(rest) if w else None for w in wanted]


def batch_scan(
    args: Any,
    dims: Any,
    /,
    *,
    size: int,
    axis_name: Any,
    prim: Primitive | None = None,
    **params: Any,
) -> Any:
    """The rule of `scan`; `prim` is the loop to bind, a scan by default."""
    body, n, m = params["body"], params["consts"], params["carry"]
    batched, outs = carry_fixpoint(
        [d is not None for d in dims],
        n,
        m,
        lambda marks: [
            d is not None
            for d in batch_graph(body, [0 if b else None for b in marks], size, axis_name)[1]
        ],
    )
    wanted = [*batched[n : n + m], *outs[m:]]
    graph = batch_body(body, batched, wanted, size, axis_name)
    values = []
    for k, (value, dim) in enumerate(zip(args, dims, strict=True)):
        if dim is not None:
            value = move_axis(value, dim, 1 if k >= n + m else 0)
        elif n <= k < n + m and batched[k]:
            value = repeated(value, size)
        values.append(value)
    found = bind(prim or scan_p, *values, **{**params, "body": graph})
    places = [(0 if k < m else 1) if w else None for k, w in enumerate(wanted)]
    return found, places


def repeated(value: Any, size: int) -> Any:
    """`value` once for each example of a batch, the batch axis in front."""
    return broadcast(value, (size, *aval_of(value).shape))


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    n, m = params["consts"], params["carry"]
    body = _with_costly_carries(params["body"], n, m)
    size, results = len(body.inputs), len(body.outputs)
    active, _ = carry_fixpoint(
        active_marks(tangents, body.in_avals),
        n,
        m,
        lambda marks: linearize_graph(body, marks, trace.again).out_mask,
    )
    forward, tangent, sources, in_mask, out_mask = saving_graphs(body, active, again=trace.again)
    # A residual that changes from step to step is stacked; inputs that are stacked already serve.
    steps = {k: position for position, k in enumerate(sources) if k >= n}
    extra = [k for k in steps if k < n + m or size <= k < size + m or k >= size + results]
    stacked = [forward.inputs[k] if k < size else forward.outputs[k - size] for k in extra]
    outs = bind(
        scan_p,
        *primals,
        **{**params, "body": forward.replace(outputs=[*forward.outputs[:results], *stacked])},
    )
    place = {k: outs[results + j] for j, k in enumerate(extra)}
    fixed: list[Any] = []
    varying: list[Any] = []
    for k in sources:
        if k < n:
            fixed.append(primals[k])
        elif k in place:
            varying.append(place[k])
        else:
            varying.append(primals[k] if k < size else outs[k - size])
    marks = parts(in_mask, n, m)
    residuals, kd, cd, xd = parts(tangent.inputs, len(sources), sum(marks[0]), sum(marks[1]))
    inputs = [
        *chosen(residuals, [k < n for k in sources]),
        *kd,
        *cd,
        *chosen(residuals, [k >= n for k in sources]),
        *xd,
    ]
    have = [h for h, w in zip(out_mask, [*marks[1], *out_mask[m:]], strict=True) if h or w]
    wanted = [
        a.tangent() for a, w in zip(body.out_avals, [*marks[1], *out_mask[m:]], strict=True) if w
    ]
    graph = filled(tangent.replace(inputs=inputs), have, wanted)
    given = parts(tangents, n, m)
    with use_trace(trace.tangents):
        found = bind(
            scan_p,
            *fixed,
            *chosen(given[0], marks[0]),
            *(instantiate(t) for t in chosen(given[1], marks[1])),
            *varying,
            *chosen(given[2], marks[2]),
            **{**params, "body": graph, "consts": len(fixed) + len(kd), "carry": len(cd)},
        )
    rest = iter(found)
    marks_out = [*marks[1], *out_mask[m:]]
    return outs[:results], [next(rest) if w else None for w in marks_out]


carried_p: Primitive = linear_shape_op(
    "carried",
    abstract_eval=lambda x: x,
    impl=lambda x: x,
    transpose=lambda ct, aval: ct,
    batch=lambda args, dims, /: (bind1(carried_p, args[0]), dims[0]),
    recompute=Recompute.EXPENSIVE,
    family="identity",
)


def _with_costly_carries(graph: Graph, consts: int, carry: int) -> Graph:
    """`graph` in which what is carried is a value like others, which takes memory to keep.

    The inputs of a graph cost the backward pass nothing, but a carry has to be stacked.
    """
    key = ("scan carried", consts, carry)
    found: Graph | None = graph.cache.get(key)
    if found is None:
        inner = without_jit(graph)

        def fun(*values: Any) -> list[Any]:
            known, state, slices = parts(values, consts, carry)
            return eval_graph(inner, [*known, *(bind1(carried_p, v) for v in state), *slices])

        found = graph.cache[key] = stage(fun, graph.in_avals, name=graph.name)
    return found


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    body, n, m = params["body"], params["consts"], params["carry"]

    def linear_outputs(marks: list[bool]) -> list[bool]:
        linear = transpose_plan(body, marks).linear
        return [isinstance(a, Var) and a in linear for a in body.outputs]

    linear, _ = carry_fixpoint([isinstance(a, Linear) for a in args], n, m, linear_outputs)
    order, operands = list(range(len(args))), list(args)
    if not all(linear[n : n + m]):
        order, operands, cts, params = _known_carries(args, linear, cts, params)
        linear = [linear[k] for k in order]
        body, m = params["body"], params["carry"]
    ct_carry = [instantiate(ct) for ct in cts[:m]]
    ct_ys = [ct for ct in cts[m:] if not isinstance(ct, Zero)]
    given = [True] * m + [not isinstance(ct, Zero) for ct in cts[m:]]
    graph, received = transpose_graph(body, linear, given)
    backward = BackwardBody(graph, body, linear, received, n, m, len(ct_ys))
    known = parts([None if mark else a for a, mark in zip(operands, linear, strict=True)], n, m)
    fixed = chosen(known[0], [not v for v in linear[:n]])
    varying = chosen(known[2], [not v for v in linear[n + m :]])
    found = bind(
        scan_p,
        *fixed,
        *ct_carry,
        *(zeros(a) for a in backward.accumulated),
        *varying,
        *ct_ys,
        body=backward.graph,
        consts=len(fixed),
        carry=m + len(backward.accumulated),
        length=params["length"],
        reverse=not params["reverse"],
        unroll=params["unroll"],
    )
    outgoing = backward.cotangents(found, operands, [*varying, *ct_ys])
    result: list[Any] = [None] * len(order)
    for k, ct in zip(order, outgoing, strict=True):
        result[k] = ct
    return result


def _known_carries(
    args: Sequence[Any], linear: Sequence[bool], cts: Sequence[Any], params: dict[str, Any]
) -> tuple[list[int], list[Any], list[Any], dict[str, Any]]:
    """The loop with the carries that do not depend on linear inputs turned into stacked inputs.

    They are computed first, by a scan of their own that stacks them.  Returns the order of the
    new arguments in terms of the old, the arguments, the cotangents and the parameters.
    """
    body, n, m = params["body"], params["consts"], params["carry"]
    known = [k for k in range(n, n + m) if not linear[k]]
    rest = [k for k in range(n, n + m) if linear[k]]
    inputs = [k for k in range(len(args)) if not linear[k]]
    steps = dce(
        quiet(body).replace(
            inputs=[body.inputs[k] for k in inputs],
            outputs=[
                *(body.outputs[k - n] for k in known),
                *(body.inputs[k] for k in known),
            ],
        )
    )
    found = bind(
        scan_p,
        *(args[k] for k in inputs),
        **{**params, "body": steps, "consts": sum(k < n for k in inputs), "carry": len(known)},
    )
    order = [*range(n), *rest, *known, *range(n + m, len(args))]
    stacked = dict(zip(known, found[len(known) :], strict=True))
    new_body = body.replace(
        inputs=[body.inputs[k] for k in order],
        outputs=[*(body.outputs[k - n] for k in rest), *body.outputs[m:]],
    )
    return (
        order,
        [stacked.get(k, args[k]) for k in order],
        [*(cts[k - n] for k in rest), *cts[m:]],
        {**params, "body": new_body, "carry": len(rest)},
    )


class BackwardBody:
    """The body of a transposed scan, and how its results become cotangents.

    Its inputs: known constants; cotangents of the carries, accumulators of the cotangents of
    linear constants; known slices, cotangents of the ys.
    """

    def __init__(
        self,
        graph: Graph,
        body: Graph,
        linear: Sequence[bool],
        received: Sequence[bool],
        consts: int,
        carry: int,
        ys: int,
        stack: bool = True,
    ) -> None:
        self.linear, self.consts, self.carry = linear, consts, carry
        known = [not mark for mark in linear]
        fixed, varying = sum(known[:consts]), sum(known[consts + carry :])
        marks = iter(received)
        self.flows = [next(marks) if mark else False for mark in linear]
        k, x, ct_carry, ct_ys = parts(graph.inputs, fixed, varying, carry)
        outs = iter(graph.outputs)
        results = [next(outs) if flow else None for flow in self.flows]
        place = {v: j for j, v in enumerate([*x, *ct_ys])}
        plans: list[ProductPlan | None] = [None] * consts
        if stack:
            plans = product_plans(graph, results[:consts], place)
        self.plans = plans
        self.summed = [j for j in range(consts) if results[j] is not None and plans[j] is None]
        self.accumulated = [body.inputs[j].aval.tangent() for j in self.summed]
        extra = list(dict.fromkeys(v for plan in plans if plan is not None for v in plan.stacked))
        self.extra = extra
        self.slices = [r for r in results[consts + carry :] if r is not None]
        plain = graph.replace(
            outputs=[
                *(r for r in results[consts : consts + carry] if r is not None),
                *(results[j] for j in self.summed),  # type: ignore[list-item]  # never None
                *self.slices,
                *extra,
            ]
        )
        flowing = self.flows[consts : consts + carry]
        avals = [v.aval.tangent() for v in body.inputs[consts : consts + carry]]
        count = len(self.summed)

        def fun(*values: Any) -> list[Any]:
            known_fixed, cts, sums, slices = parts(values, fixed, carry, count)
            known_slices, cts_y = parts(slices, varying)
            found = eval_graph(plain, [*known_fixed, *known_slices, *cts, *cts_y])
            carried, more, stacked = parts(found, sum(flowing), count)
            rest = iter(carried)
            return [
                *(next(rest) if f else zeros(a) for f, a in zip(flowing, avals, strict=True)),
                *(add(total, one) for total, one in zip(sums, more, strict=True)),
                *stacked,
            ]

        in_avals = [v.aval for v in (*k, *ct_carry)]
        in_avals += [*self.accumulated, *(v.aval for v in (*x, *ct_ys))]
        self.graph = sparse_sums(stage(fun, in_avals, name=f"{body.name}_backward"))

    def cotangents(
        self, found: Sequence[Any], args: Sequence[Any], slices: Sequence[Any]
    ) -> list[Any]:
        """One cotangent for each argument of the scan: None for those that are not linear."""
        count = len(self.slices)
        carried, sums, of_xs, extra = parts(found, self.carry, len(self.summed), count)
        stacked = dict(zip(self.extra, extra, strict=True))
        totals = dict(zip(self.summed, sums, strict=True))
        n, m = self.consts, self.carry
        rest = iter(of_xs)
        result: list[Any] = []
        for k, arg in enumerate(args):
            plan = self.plans[k] if k < n else None
            if n + m <= k and self.flows[k]:
                value = next(rest)
            elif n <= k < n + m:
                value = carried[k - n]
            elif plan is not None:
                value = plan.total(stacked, slices)
            elif k in totals:
                value = totals[k]
            else:
                value = Zero(aval_of(arg)) if isinstance(arg, Linear) else None
            result.append(value if isinstance(arg, Linear) else None)
        return result


def cost_of_scan(
    in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]
) -> float:
    return float(params["length"]) * graph_cost(in_avals, out_avals, {"graph": params["body"]})


scan_p = Primitive(
    "scan",
    family="call",
    abstract_eval=avals_of_scan,
    impl=run_scan,
    jvp=jvp_scan,
    transpose=_transpose,
    batch=batch_scan,
    lower=lower_scan,
    cost=cost_of_scan,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
)


def pruned_scan(eqn: Eqn, wanted: list[bool]) -> Eqn:
    """A scan without the ys and the carries that nothing wanted depends on."""
    body, n, m = eqn.params["body"], eqn.params["consts"], eqn.params["carry"]
    keep = list(wanted)
    while True:
        outputs = chosen(body.outputs, keep)
        inner = dce(body.replace(outputs=outputs))
        used = variables([a for e in inner.eqns for a in e.inputs]) | variables(outputs)
        grown = [k or body.inputs[n + j] in used for j, k in enumerate(keep[:m])]
        if grown == keep[:m]:
            break
        keep[:m] = grown
    if all(keep):
        return eqn
    marks = [v in used for v in body.inputs]
    marks[n : n + m] = keep[:m]
    return eqn.replace(
        inputs=chosen(eqn.inputs, marks),
        outputs=chosen(eqn.outputs, keep),
        params={
            **eqn.params,
            "body": inner.replace(inputs=chosen(body.inputs, marks)),
            "consts": sum(marks[:n]),
            "carry": sum(keep[:m]),
        },
    )


PRUNE_RULES[scan_p] = pruned_scan
