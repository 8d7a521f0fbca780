"""The joint graph: a function's forward and its reverse-mode derivative as one tagged graph.

Input: a function and the arguments to differentiate.  Output: a `JointGraph` from (arguments,
upstream gradients) to (results, gradients), in which every equation is tagged forward or
backward.  The backward part is the transposition of the linearised function, recorded while the
forward is; equations that no result needs, such as the gradient of an argument nobody asked for,
are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.graph import FORWARD, Atom, Eqn, Graph, Var
from stax.core.staging import StagingTrace, eval_graph
from stax.core.trace import STATE, use_trace
from stax.dtypes import is_inexact
from stax.pytree import PyTreeDef, tree_flatten
from stax.transforms.arguments import (
    FlatFunction,
    check_argnums,
    check_callable,
    leaf_names,
    name_of,
    normalized_argnums,
)
from stax.transforms.budget import within_budget
from stax.transforms.inspect import abstract_leaf
from stax.transforms.linearize import linearize_flat
from stax.transforms.partition import Partition, PartitionOptions, partition
from stax.transforms.phases import Split, split_joint
from stax.transforms.pullback import pull_back
from stax.transforms.simplify import inline_calls, simplify

__all__ = ["JointGraph", "joint_graph", "joint_of", "split_joint"]


class JointGraph(Graph):
    """A graph (primals, upstream gradients) -> (results, gradients), tagged by phase.

    Attributes:
      tangents: how many of the last inputs are upstream gradients, one per differentiable result.
      results: how many of the first outputs are the function's results; the rest are gradients.
      out_tree: the structure of the results.
    """

    __slots__ = ("out_tree", "results", "tangents")

    def __init__(
        self,
        inputs: Sequence[Var],
        eqns: Iterable[Eqn],
        outputs: Sequence[Atom],
        constants: Sequence[tuple[Var, Any]] = (),
        name: str = "f",
        tangents: int = 0,
        results: int = 0,
        out_tree: PyTreeDef | None = None,
    ) -> None:
        super().__init__(inputs, eqns, outputs, constants, name)
        self.tangents = tangents
        self.results = results
        self.out_tree = out_tree

    def replace(
        self,
        inputs: Sequence[Var] | None = None,
        eqns: Iterable[Eqn] | None = None,
        outputs: Sequence[Atom] | None = None,
        constants: Sequence[tuple[Var, Any]] | None = None,
    ) -> JointGraph:
        """A copy with the given fields replaced; the roles of inputs and outputs stay."""
        return JointGraph(
            self.inputs if inputs is None else inputs,
            self.eqns if eqns is None else eqns,
            self.outputs if outputs is None else outputs,
            self.constants if constants is None else constants,
            self.name,
            self.tangents,
            self.results,
            self.out_tree,
        )

    def split(self) -> Split:
        """The forward and the backward equations."""
        return split_joint(self, self.tangents, self.results)

    def partition(
        self,
        memory_budget: int | float | str | None = None,
        options: PartitionOptions | None = None,
    ) -> Partition:
        """What the forward part saves for the backward part, by a minimum cut.

        Args:
          memory_budget: upper limit for the saved values: bytes, text such as "512MiB", or a
            fraction in (0, 1] of what saving every value read would take.
          options: the thresholds; the specification's by default.

        Raises:
          MemoryBudgetError: no choice of saved values fits; it names the least that does.
        """
        split = self.split()
        if memory_budget is None:
            return partition(split, options)
        return within_budget(split, memory_budget, options)


def joint_graph(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0
) -> Callable[..., JointGraph]:
    """A function that returns the joint graph of `f` at its arguments.

    The graph's inputs are the flat arguments and one upstream gradient per floating-point result
    of `f`; its outputs the flat results and the gradients of the arguments in `argnums`.

    >>> import numpy as np
    >>> graph = joint_graph(lambda x: np.sin(x).sum())(np.zeros(3))
    >>> [eqn.phase for eqn in graph.eqns][0]
    'forward'
    """
    check_callable(f, "joint_graph")
    check_argnums(argnums, "joint_graph")

    def build(*args: Any, **kwargs: Any) -> JointGraph:
        numbers = normalized_argnums(argnums, len(args), "joint_graph")
        leaves, _ = tree_flatten(args)
        avals = [abstract_leaf(leaf) for leaf in leaves]
        names = leaf_names(f, args, {})
        fun = FlatFunction(f, args, kwargs, range(len(args)))
        marks: list[bool] = []
        for k, treedef in enumerate(fun.treedefs):
            marks += [k in numbers] * treedef.num_leaves

        graph = _record(fun, avals, names, marks, name_of(f))
        graph.out_tree = fun.out_tree
        return graph

    return build


def joint_of(graph: Graph, active: Sequence[bool]) -> JointGraph:
    """The joint graph of `graph` for the inputs marked `active`; cached on `graph`."""
    key = ("joint", tuple(active))
    found = graph.cache.get(key)
    if found is None:
        names = [v.name for v in graph.inputs]
        found = _record(
            lambda *args: eval_graph(graph, args), graph.in_avals, names, active, graph.name
        )
        graph.cache[key] = found
    return found


def _record(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[Aval],
    names: Sequence[str | None],
    active: Sequence[bool],
    name: str,
) -> JointGraph:
    """Stage a flat function, its linearisation and the transposition as one graph."""
    staging = StagingTrace(STATE.trace)
    inputs = [staging.new_input(a, n) for a, n in zip(avals, names, strict=True)]
    before = STATE.source, STATE.phase, STATE.region
    try:
        STATE.source, STATE.phase, STATE.region = None, "forward", 0
        with use_trace(staging):
            linear = linearize_flat(fun, inputs, active)
            # A gradient inside `fun` is part of what is being differentiated: forward work here.
            staging.eqns[:] = [e.replace(phase=FORWARD) for e in staging.eqns]
            wanted = [is_inexact(aval_of(out).dtype) for out in linear.outs]
            label = "ct" if sum(wanted) == 1 else "ct_{}"
            upstream = [
                staging.new_input(aval_of(out).strong(), label.format(k)) if mark else None
                for k, (out, mark) in enumerate(zip(linear.outs, wanted, strict=True))
            ]
            gradients = pull_back(linear, upstream, avals)
            asked = [g for g, mark in zip(gradients, active, strict=True) if mark]
            tangents = [t for t in upstream if t is not None]
            graph = staging.graph([*inputs, *tangents], [*linear.outs, *asked], name)
    finally:
        STATE.source, STATE.phase, STATE.region = before
        staging.alive = False
    graph = simplify(inline_calls(graph))
    return JointGraph(
        graph.inputs,
        graph.eqns,
        graph.outputs,
        graph.constants,
        name,
        len(tangents),
        len(linear.outs),
    )
