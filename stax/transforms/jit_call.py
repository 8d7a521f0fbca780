"""The primitive `jit`: a call of a compiled graph, and how transformations see it.

Evaluated, it runs the compiled program.  Differentiated or batched it is a `jit` of the
differentiated or batched graph.  Linearised, its forward graph returns, beside its results, the
values that a minimum cut of the joint graph saves; the tangent graph starts from those and
recomputes the rest, so the pullback is again a `jit`, compiled when it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stax.compile import executable
from stax.core.graph import BACKWARD, Atom, Eqn, Graph, Var
from stax.core.primitive import COMPOSED, Linear, Primitive, Recompute, Zero
from stax.core.trace import bind, use_trace
from stax.programs.options import CompileOptions
from stax.transforms.budget import within_budget
from stax.transforms.calls import eval_call, graph_avals, graph_cost, is_zero
from stax.transforms.effects import quiet_equation
from stax.transforms.jvp import jvp_graph
from stax.transforms.linearize import LinearizedGraph, LinearizeTrace, linearize_graph
from stax.transforms.narrowing import narrow
from stax.transforms.partition import partition
from stax.transforms.phases import split_joint
from stax.transforms.simplify import inline_calls
from stax.transforms.transpose import transpose_graph
from stax.transforms.vmap import batch_graph


def compiles() -> bool:
    """True when the process's options ask for native programs."""
    return CompileOptions.of().backend == "c"


def compiled_results(graph: Graph, values: Sequence[Any]) -> Sequence[Any]:
    """The results of `graph` by its compiled program, made at the first call."""
    return executable(graph, CompileOptions.of(strict=False)).run(values)


def _run(*args: Any, graph: Graph, name: str, options: Any) -> Sequence[Any]:
    return executable(graph, options).run(args)


def _jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    nonzero = [not is_zero(t) for t in tangents]
    graph, marks = jvp_graph(params["graph"], nonzero)
    given = [t for t in tangents if not is_zero(t)]
    found = bind(jit_p, *primals, *given, **{**params, "graph": graph})
    rest = iter(found[len(marks) :])
    return found[: len(marks)], [next(rest) if m else None for m in marks]


def _batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    graph, out_dims = batch_graph(params["graph"], dims, size, axis_name)
    return bind(jit_p, *args, **{**params, "graph": graph}), out_dims


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    active = [not is_zero(t) for t in tangents]
    # The two parts are programs of their own: the budget limits what they hand on.
    budget = params["options"].memory_budget
    params = {**params, "options": replace(params["options"], memory_budget=None)}
    forward, tangent, sources, in_mask, out_mask = saving_graphs(
        params["graph"], active, budget, trace.again
    )
    results = bind(jit_p, *primals, **{**params, "graph": forward})
    n = len(forward.inputs)
    residuals = [primals[k] if k < n else results[k - n] for k in sources]
    given = [t for t, m in zip(tangents, in_mask, strict=True) if m]
    with use_trace(trace.tangents):
        found = iter(bind(jit_p, *residuals, *given, **{**params, "graph": tangent}))
    return results[: len(out_mask)], [next(found) if m else None for m in out_mask]


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    linear = [isinstance(a, Linear) for a in args]
    given = [not isinstance(ct, Zero) for ct in cts]
    graph, marks = transpose_graph(params["graph"], linear, given)
    known = [a for a, m in zip(args, linear, strict=True) if not m]
    values = [ct for ct, g in zip(cts, given, strict=True) if g]
    found = iter(bind(jit_p, *known, *values, **{**params, "graph": graph}))
    received = iter(marks)
    result: list[Any] = []
    for arg in args:
        if isinstance(arg, Linear):
            result.append(next(found) if next(received) else Zero(arg.aval))
        else:
            result.append(None)
    return result


jit_p = Primitive(
    "jit",
    family="call",
    abstract_eval=graph_avals,
    impl=_run,
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


SavingGraphs = tuple[Graph, Graph, tuple[int, ...], tuple[bool, ...], tuple[bool, ...]]


def saving_graphs(
    graph: Graph,
    active: Sequence[bool],
    budget: int | float | str | None = None,
    again: bool = False,
) -> SavingGraphs:
    """Forward and tangent graphs of `graph` that exchange what a minimum cut saves.

    With a `budget`, the saved values take at most so many bytes; `again` as for `linearize_graph`.

    Returns (forward, tangent, sources, in_mask, out_mask): `forward` gives the outputs and the
    saved values; `tangent` takes the values named by `sources` (k < inputs: an input, otherwise a
    result of `forward`), then the tangents of the inputs in `in_mask`.  Cached on `graph`.
    """
    key = ("jit saving", tuple(active), budget, again)
    found = graph.cache.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]  # what this function stored
    flat = graph.cache.get("jit flat")
    if flat is None:
        # Calls with a rule of their own keep it: only what jit itself wraps is opened.
        flat = narrow(inline_calls(graph, keep=lambda eqn: eqn.prim is not jit_p))
        graph.cache["jit flat"] = flat
    linear = linearize_graph(flat, active, again)
    result = _cut(linear, len(graph.outputs), budget)
    graph.cache[key] = result
    return result


def _cut(linear: LinearizedGraph, outputs: int, budget: int | float | str | None) -> SavingGraphs:
    forward, tangent = linear.forward, linear.tangent
    n = len(forward.inputs)
    atoms: list[Atom] = [
        forward.inputs[k] if k < n else forward.outputs[k - n] for k in linear.sources
    ]
    saved = _saved_values(linear, atoms, outputs, budget)
    again = _recomputation(forward, atoms, saved)
    read = {a for e in again for a in e.inputs if isinstance(a, Var)}
    read.update(a for a in atoms if isinstance(a, Var))
    kept = [v for v in saved if v in read]
    needed = [k for k, v in enumerate(forward.inputs) if v in read]
    position: dict[Var, int] = {}
    for k, out in enumerate(forward.outputs[:outputs]):
        if isinstance(out, Var):
            position.setdefault(out, n + k)
    extra = [v for v in kept if v not in position]
    for k, v in enumerate(extra):
        position[v] = n + outputs + k
    sources = (*needed, *(position[v] for v in kept))
    new_forward = forward.replace(outputs=[*forward.outputs[:outputs], *extra])
    residuals = tangent.inputs[: len(atoms)]
    renamed = dict(zip(residuals, atoms, strict=True))
    eqns = [*again, *(_reading(e, renamed) for e in tangent.eqns)]
    constants = [*tangent.constants, *((v, c) for v, c in forward.constants if v in read)]
    new_tangent = Graph(
        [
            *(forward.inputs[k] for k in needed),
            *kept,
            *tangent.inputs[len(atoms) :],
        ],
        eqns,
        [renamed.get(a, a) if isinstance(a, Var) else a for a in tangent.outputs],
        constants,
        f"{forward.name}_tangent",
    )
    return new_forward, new_tangent, sources, linear.in_mask, linear.out_mask


def _reading(eqn: Eqn, renamed: dict[Var, Atom]) -> Eqn:
    if not any(a in renamed for a in eqn.inputs if isinstance(a, Var)):
        return eqn
    return eqn.replace(inputs=[renamed.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs])


def _saved_values(
    linear: LinearizedGraph,
    atoms: Sequence[Atom],
    outputs: int,
    budget: int | float | str | None,
) -> list[Var]:
    """What the minimum cut of the joint graph saves, in the order of the forward graph."""
    forward, tangent = linear.forward, linear.tangent
    marks = [k >= len(atoms) for k in range(len(tangent.inputs))]
    given = [True] * len(tangent.outputs)
    transposed, _ = transpose_graph(tangent, marks, given)
    residuals = transposed.inputs[: len(atoms)]
    renamed = dict(zip(residuals, atoms, strict=True))
    backward = [_reading(e, renamed).replace(phase=BACKWARD) for e in transposed.eqns]
    cts = transposed.inputs[len(atoms) :]
    joint = Graph(
        [*forward.inputs, *cts],
        [*(e.replace(phase="forward") for e in forward.eqns), *backward],
        [
            *forward.outputs[:outputs],
            *(renamed.get(a, a) if isinstance(a, Var) else a for a in transposed.outputs),
        ],
        [*forward.constants, *transposed.constants],
        forward.name,
    )
    split = split_joint(joint, len(cts), outputs)
    if budget is not None:
        return list(within_budget(split, budget).saved)
    return list(partition(split).saved)


def _recomputation(forward: Graph, atoms: Sequence[Atom], saved: Sequence[Var]) -> list[Eqn]:
    """The forward equations that make the residuals from the inputs and the saved values."""
    given = {*saved, *forward.inputs, *(v for v, _ in forward.constants)}
    wanted = {a for a in atoms if isinstance(a, Var) and a not in given}
    again: list[Eqn] = []
    for eqn in reversed(forward.eqns):
        if any(v in wanted for v in eqn.outputs):
            again.append(quiet_equation(eqn))
            wanted.update(a for a in eqn.inputs if isinstance(a, Var) and a not in given)
    again.reverse()
    return again


__all__ = ["jit_p", "saving_graphs"]
