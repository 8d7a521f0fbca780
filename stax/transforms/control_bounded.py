"""The primitive `bounded_while`: a while loop whose number of steps has a known bound.

Its parameters are two graphs that compute the same: the plain loop, which runs wherever nothing is
transposed, and nested scans of fixed lengths whose inactive parts do nothing, which can be run
backwards.  Linearised, it becomes the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.core.graph import Graph
from stax.core.primitive import COMPOSED, Primitive, Recompute, Zero
from stax.core.staging import eval_graph
from stax.core.trace import bind, use_trace
from stax.primitives.views import move_axis
from stax.transforms.calls import eval_call, graph_avals, graph_cost, transpose_call
from stax.transforms.control_graphs import batch_body
from stax.transforms.jvp import jvp_flat
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.vmap import batch_graph


def _jvp(primals: Any, outs: Any, tangents: Any, /, *, graph: Graph, tree: Graph) -> Any:
    given = [None if isinstance(t, Zero) else t for t in tangents]
    return jvp_flat(lambda *args: eval_graph(graph, args), primals, given)


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    given = [None if isinstance(t, Zero) else t for t in tangents]
    with use_trace(trace):
        outs = eval_graph(params["tree"], trace.wrap(primals, given))
    return [trace.primal_of(v) for v in outs], [trace.tangent_of(v) for v in outs]


def _batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, graph: Graph, tree: Graph) -> Any:
    places = [0 if d is not None else None for d in dims]
    values = [v if d is None else move_axis(v, d, 0) for v, d in zip(args, dims, strict=True)]
    marks = [d is not None for d in places]
    wanted = [d is not None for d in batch_graph(graph, places, size, axis_name)[1]]
    wanted = [
        a or b is not None
        for a, b in zip(wanted, batch_graph(tree, places, size, axis_name)[1], strict=True)
    ]
    changed = {
        "graph": batch_body(graph, marks, wanted, size, axis_name),
        "tree": batch_body(tree, marks, wanted, size, axis_name),
    }
    return bind(bounded_while_p, *values, **changed), [0 if w else None for w in wanted]


def _cost(in_avals: Any, out_avals: Any, params: dict[str, Any]) -> float:
    return graph_cost(in_avals, out_avals, {"graph": params["graph"]})


bounded_while_p = Primitive(
    "bounded_while",
    family="call",
    abstract_eval=graph_avals,
    impl=eval_call,
    jvp=_jvp,
    transpose=transpose_call,
    batch=_batch,
    lower=COMPOSED,
    cost=_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_linearize,
    decompose=eval_call,
)

__all__ = ["bounded_while_p"]
