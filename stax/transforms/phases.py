"""Where a staged graph's forward part ends and its backward part begins.

Input: any Graph, such as the staging of `grad(f)` or a joint graph.  Output: a `Split`: which
equations, inputs and outputs belong to which part.  An equation is backward when it is tagged so,
or when it depends on one that is (the parameter update of a training step is staged as forward
work but can only run after the gradient), or when nothing but such work needs it (the decay of
the optimiser's state).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stax.core.graph import BACKWARD, Atom, Eqn, Graph, Var
from stax.transforms.simplify import acts


@dataclass(frozen=True)
class Split:
    """The two parts of a graph.

    `primals` and `tangents` divide the graph's inputs; `forward_outputs` and `gradient_outputs`
    are positions among its outputs.
    """

    graph: Graph
    primals: tuple[Var, ...]
    tangents: tuple[Var, ...]
    forward: tuple[Eqn, ...]
    backward: tuple[Eqn, ...]
    forward_outputs: tuple[int, ...]
    gradient_outputs: tuple[int, ...]

    def outputs(self, positions: Sequence[int]) -> tuple[Atom, ...]:
        """The graph's outputs at these positions."""
        return tuple(self.graph.outputs[k] for k in positions)


def split_joint(graph: Graph, tangents: int = 0, forward_outputs: int | None = None) -> Split:
    """Divide `graph` into its forward and its backward part.

    Args:
      graph: a graph whose derivative work is tagged backward.
      tangents: how many of its last inputs are upstream gradients, available only to the
        backward part.
      forward_outputs: how many of its first outputs the forward part returns; without it, every
        output that does not depend on backward work.
    """
    n = len(graph.inputs) - tangents
    late: set[Atom] = set(graph.inputs[n:])
    ahead: list[bool] = []  # does not depend on backward work
    for eqn in graph.eqns:
        after = eqn.phase == BACKWARD or not late.isdisjoint(eqn.inputs)
        ahead.append(not after)
        if after:
            late.update(eqn.outputs)
    if forward_outputs is None:
        early = [k for k, a in enumerate(graph.outputs) if not (isinstance(a, Var) and a in late)]
    else:
        early = list(range(forward_outputs))
    chosen = set(early)
    needed = {graph.outputs[k] for k in early}
    forward: list[Eqn] = []
    backward: list[Eqn] = []
    for eqn, early_enough in zip(reversed(graph.eqns), reversed(ahead), strict=True):
        if early_enough and (not needed.isdisjoint(eqn.outputs) or acts(eqn)):
            forward.append(eqn)
            needed.update(eqn.inputs)
        else:
            backward.append(eqn)
            if eqn.phase == BACKWARD:
                needed.update(eqn.inputs)
    forward.reverse()
    backward.reverse()
    return Split(
        graph,
        graph.inputs[:n],
        graph.inputs[n:],
        tuple(forward),
        tuple(backward),
        tuple(early),
        tuple(k for k in range(len(graph.outputs)) if k not in chosen),
    )
