"""The primitive `cond`: one of several branches, chosen by an index when the program runs.

Inputs are the index (out of range, it means the nearest branch) and the operands of all branches.
Linearised, each branch hands on its own residuals, in slots of one type that branches share.
Batched with an index that differs between examples, all branches run and each example takes its
own result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import Linear, Primitive, Recompute, Zero
from stax.core.staging import eval_graph, stage
from stax.core.trace import bind, use_trace
from stax.errors import GraphError
from stax.primitives.control import lower_cond
from stax.primitives.elementwise import le, select
from stax.primitives.views import move_axis, reshape
from stax.transforms.calls import graph_cost
from stax.transforms.control_graphs import (
    active_marks,
    batch_body,
    chosen,
    filled,
    jvp_body,
    unchecked,
    without_jit,
)
from stax.transforms.jit_call import saving_graphs
from stax.transforms.jvp import jvp_graph, zeros
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.transpose import transpose_graph
from stax.transforms.vmap import batch_graph


def _avals(index: Aval, *avals: Aval, branches: tuple[Graph, ...]) -> tuple[Aval, ...]:
    if index.strong() is not Aval((), np.dtype(np.int32)):
        raise GraphError(f"the index has type {index}, not i32[]", op="cond")
    for branch in branches:
        if [a.strong() for a in branch.in_avals] != [a.strong() for a in avals]:
            raise GraphError(f"{branch.name} takes {branch.in_avals}, not {avals}", op="cond")
        if [a.strong() for a in branch.out_avals] != [a.strong() for a in branches[0].out_avals]:
            raise GraphError(
                f"branches give {branches[0].out_avals} and {branch.out_avals}", op="cond"
            )
    return tuple(a.strong() for a in branches[0].out_avals)


def _run(index: Any, *args: Any, branches: tuple[Graph, ...]) -> list[Any]:
    return eval_graph(branches[min(max(int(index), 0), len(branches) - 1)], args)


def _any_of(marks: Sequence[Sequence[bool]]) -> list[bool]:
    return [any(column) for column in zip(*marks, strict=True)]


def _jvp(primals: Any, outs: Any, tangents: Any, /, *, branches: tuple[Graph, ...]) -> Any:
    index, *operands = primals
    active = active_marks(tangents[1:], [aval_of(p) for p in operands])
    wanted = _any_of([jvp_graph(b, active)[1] for b in branches])
    found = bind(
        cond_p,
        index,
        *operands,
        *chosen(tangents[1:], active),
        branches=tuple(jvp_body(b, active, wanted) for b in branches),
    )
    count = len(wanted)
    rest = iter(found[count:])
    return found[:count], [next(rest) if w else None for w in wanted]


def _batch(
    args: Any, dims: Any, /, *, size: int, axis_name: Any, branches: tuple[Graph, ...]
) -> Any:
    values = [v if d is None else move_axis(v, d, 0) for v, d in zip(args, dims, strict=True)]
    batched = [d is not None for d in dims[1:]]
    index, *operands = values
    places = [0 if b else None for b in batched]
    if dims[0] is None:
        wanted = _any_of(
            [[d is not None for d in batch_graph(b, places, size, axis_name)[1]] for b in branches]
        )
        graphs = tuple(batch_body(b, batched, wanted, size, axis_name) for b in branches)
        return bind(cond_p, *values, branches=graphs), [0 if w else None for w in wanted]
    count = len(branches[0].outputs)
    graphs = tuple(
        batch_body(unchecked(b), batched, [True] * count, size, axis_name) for b in branches
    )
    results = [eval_graph(g, operands) for g in graphs]
    outs = list(results[-1])
    for k in range(len(branches) - 2, -1, -1):
        here = le(index, np.int32(k))
        outs = [
            select(reshape(here, (size,) + (1,) * (len(aval_of(v).shape) - 1)), v, other)
            for v, other in zip(results[k], outs, strict=True)
        ]
    return outs, [0] * count


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    index, *operands = primals
    branches = [without_jit(b) for b in params["branches"]]
    size, count = len(operands), len(branches[0].outputs)
    active = active_marks(tangents[1:], branches[0].in_avals)
    saving = [saving_graphs(b, active, again=trace.again) for b in branches]
    out_mask = _any_of([s[4] for s in saving])
    extras = [[v.aval.strong() for v in s[0].outputs[count:]] for s in saving]
    slots, used = _slots(extras)
    outs = bind(
        cond_p,
        *primals,
        branches=tuple(
            _saving_branch(s[0], count, slots, where) for s, where in zip(saving, used, strict=True)
        ),
    )
    read = sorted({k for s in saving for k in s[2] if k < size})
    kept = sorted({k - size for s in saving for k in s[2] if size <= k < size + count})
    residuals = [*(operands[k] for k in read), *(outs[k] for k in kept), *outs[count:]]
    place = {k: j for j, k in enumerate(read)}
    place.update({k + size: len(read) + j for j, k in enumerate(kept)})
    given = chosen(tangents[1:], saving[0][3])
    avals = [aval_of(v).strong() for v in residuals]
    wanted = [
        a.tangent() if w else None for a, w in zip(branches[0].out_avals, out_mask, strict=True)
    ]
    graphs = []
    for (_, tangent, sources, _, mask), where in zip(saving, used, strict=True):
        own = {size + count + j: len(read) + len(kept) + slot for j, slot in enumerate(where)}
        positions = [own[k] if k in own else place[k] for k in sources]
        inner = filled(tangent, mask, wanted)
        graphs.append(_reading_slots(inner, positions, [*avals, *(t.aval for t in given)]))
    with use_trace(trace.tangents):
        found = iter(bind(cond_p, index, *residuals, *given, branches=tuple(graphs)))
    return outs[:count], [next(found) if w else None for w in out_mask]


def _slots(extras: Sequence[Sequence[Aval]]) -> tuple[list[Aval], list[list[int]]]:
    """Slots that hold any branch's residuals, and for each branch where its own go."""
    slots: list[Aval] = []
    used: list[list[int]] = []
    for avals in extras:
        free: dict[Aval, list[int]] = {}
        for k in range(len(slots) - 1, -1, -1):
            free.setdefault(slots[k], []).append(k)
        where = []
        for aval in avals:
            if free.get(aval):
                where.append(free[aval].pop())
            else:
                where.append(len(slots))
                slots.append(aval)
        used.append(where)
    return slots, used


def _saving_branch(graph: Graph, count: int, slots: Sequence[Aval], where: Sequence[int]) -> Graph:
    """The branch with its residuals in their slots and zeros in the others."""

    def fun(*values: Any) -> list[Any]:
        outs = eval_graph(graph, values)
        own = dict(zip(where, outs[count:], strict=True))
        return [*outs[:count], *(own[k] if k in own else zeros(a) for k, a in enumerate(slots))]

    return stage(fun, graph.in_avals, name=graph.name)


def _reading_slots(graph: Graph, positions: Sequence[int], avals: Sequence[Aval]) -> Graph:
    """`graph` as a function of all residuals, of which it reads those at `positions`."""
    tangents = len(graph.inputs) - len(positions)

    def fun(*values: Any) -> list[Any]:
        own = [values[k] for k in positions]
        return eval_graph(graph, [*own, *values[len(values) - tangents :]])

    return stage(fun, avals, name=graph.name)


def _transpose(
    cts: Sequence[Any], index: Any, *args: Any, branches: tuple[Graph, ...]
) -> list[Any]:
    linear = [isinstance(a, Linear) for a in args]
    given = [not isinstance(ct, Zero) for ct in cts]
    found = [transpose_graph(b, linear, given) for b in branches]
    received = _any_of([marks for _, marks in found])
    avals = [a.aval if w else None for a, w in zip(chosen(args, linear), received, strict=True)]
    outs = iter(
        bind(
            cond_p,
            index,
            *(a for a in args if not isinstance(a, Linear)),
            *(ct for ct in cts if not isinstance(ct, Zero)),
            branches=tuple(filled(g, marks, avals) for g, marks in found),
        )
    )
    flows = iter(received)
    result: list[Any] = [None]
    for arg in args:
        if isinstance(arg, Linear):
            result.append(next(outs) if next(flows) else Zero(arg.aval))
        else:
            result.append(None)
    return result


def _cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> float:
    return max(graph_cost(in_avals, out_avals, {"graph": b}) for b in params["branches"])


cond_p = Primitive(
    "cond",
    family="call",
    abstract_eval=_avals,
    impl=_run,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=lower_cond,
    cost=_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
)
