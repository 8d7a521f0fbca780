"""A Python function over pytrees as a graph with explicit inputs for what it captures.

Input: a function, the structure of its arguments and their types.  Output: its graph, the outer
traced values it reads (the graph's first inputs), and the structure of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stax.core.aval import Aval, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.graph import Graph
from stax.core.staging import eval_graph, lift_constants, stage
from stax.primitives.casts import convert
from stax.pytree import PyTreeDef, tree_flatten, tree_unflatten
from stax.transforms.arguments import check_leaves, name_of

Function = Callable[..., Any]


class Staged(NamedTuple):
    """A function as a graph, whose first inputs are `consts`: outer traced values it reads."""

    graph: Graph
    consts: list[Any]
    tree: PyTreeDef

    def returning(self, dtypes: Sequence[Any]) -> Staged:
        """The same with its results converted to these dtypes."""
        if all(a.dtype == d for a, d in zip(self.graph.out_avals, dtypes, strict=True)):
            return self
        inner = self.graph

        def fun(*values: Any) -> list[Any]:
            outs = eval_graph(inner, values)
            return [
                v if aval_of(v).dtype == d else convert(v, d)
                for v, d in zip(outs, dtypes, strict=True)
            ]

        return self._replace(graph=stage(fun, inner.in_avals, name=inner.name))


def staged(fun: Function, treedef: PyTreeDef, avals: Sequence[Aval]) -> Staged:
    """`fun`, called with the arguments that `treedef` makes of values of these types."""
    trees: list[PyTreeDef] = []

    def flat(*values: Any) -> list[Any]:
        mark_arguments(values, f"an argument of {name_of(fun)}, which a loop or branch calls")
        outs, tree = tree_flatten(fun(*tree_unflatten(treedef, values)))
        check_leaves(outs, f"results of {name_of(fun)}")
        trees.append(tree)
        return outs

    graph, consts = lift_constants(stage(flat, avals, name=name_of(fun)))
    return Staged(graph, consts, trees[-1])
