"""Products accumulated over the steps of a loop, made once for all steps.

Input: the graph of one backward step and the values that are summed over the steps, the
cotangents of a loop's constants.  Output: for each of them that is a matrix product of values of
the step (the weights of a recurrent network), a plan: stack the two operands over the steps, and
contract the steps together with what was contracted before.  One large product takes the place of
many small ones, and the accumulator is not read and written at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stax.core.graph import Atom, Eqn, Graph, Var
from stax.core.primitive import Recompute
from stax.core.trace import bind1
from stax.primitives.contractions import dot_general, dot_general_p
from stax.primitives.elementwise import add, add_p
from stax.primitives.views import reduce_sum, sum_p

# Stacking an operand is worth its memory when it is at most this much larger than the sum.
STACKING_RATIO = 2


@dataclass(frozen=True)
class Term:
    """A product or a sum of one step, and the views (innermost first) of its result."""

    eqn: Eqn
    views: tuple[Eqn, ...]


@dataclass(frozen=True)
class ProductPlan:
    """A sum over steps of products.

    `place` says which stacked input of the loop a value of the step is a slice of; `stacked`
    names the values that the loop has to stack as well.
    """

    terms: tuple[Term, ...]
    place: Mapping[Var, int]
    stacked: tuple[Var, ...]

    def total(self, stacked: Mapping[Var, Any], slices: Sequence[Any]) -> Any:
        """The sum over all steps, from the stacked operands."""
        result = None
        for term in self.terms:
            operands = [
                slices[self.place[a]] if a in self.place else stacked[a]
                for a in term.eqn.inputs
                if isinstance(a, Var)
            ]
            value = _over_all_steps(term.eqn, operands)
            for view in term.views:
                value = bind1(view.prim, value, **view.params)
            result = value if result is None else add(result, value)
        return result


def _over_all_steps(eqn: Eqn, operands: Sequence[Any]) -> Any:
    """What `eqn` gives, summed over the steps that its operands are stacked along."""
    if eqn.prim is sum_p:
        axes = (0, *(k + 1 for k in eqn.params["axes"]))
        return reduce_sum(operands[0], axes, eqn.params["dtype"])
    (left, right), _ = eqn.params["dimension_numbers"]
    numbers = ((0, *(k + 1 for k in left)), (0, *(k + 1 for k in right))), ((), ())
    return dot_general(operands[0], operands[1], numbers, eqn.params["dtype"])


def product_plans(
    graph: Graph, sums: Sequence[Atom | None], place: Mapping[Var, int]
) -> list[ProductPlan | None]:
    """A plan for each of `sums` that is made of products worth stacking, else None.

    A plain sum (the gradient of a bias) is left for the end when its operand is stacked anyway.
    """
    producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    nothing: frozenset[Var] = frozenset()
    plans = [_plan(v, producer, place, nothing) if isinstance(v, Var) else None for v in sums]
    there = frozenset(v for plan in plans if plan is not None for v in plan.stacked)
    return [
        _plan(v, producer, place, there) if plan is None and isinstance(v, Var) else plan
        for v, plan in zip(sums, plans, strict=True)
    ]


def _is_summed(eqn: Eqn, there: frozenset[Var]) -> bool:
    """True for what can be computed for all steps at once from stacked operands."""
    if eqn.prim is sum_p:
        return eqn.inputs[0] in there
    return eqn.prim is dot_general_p and eqn.params["dimension_numbers"][1] == ((), ())


def _plan(
    var: Var, producer: dict[Var, Eqn], place: Mapping[Var, int], there: frozenset[Var]
) -> ProductPlan | None:
    terms: list[Term] = []
    pending: list[tuple[Atom, tuple[Eqn, ...]]] = [(var, ())]
    while pending:
        atom, views = pending.pop()
        eqn = producer.get(atom) if isinstance(atom, Var) else None
        if eqn is None:
            return None
        if eqn.prim is add_p and all(a.shape == var.shape for a in eqn.inputs) and not views:
            pending.extend((a, ()) for a in eqn.inputs)
        elif _is_summed(eqn, there):
            terms.append(Term(eqn, views))
        elif eqn.prim.recompute is Recompute.VIEW and len(eqn.inputs) == 1:
            pending.append((eqn.inputs[0], (eqn, *views)))
        else:
            return None
    stacked: dict[Var, None] = {}
    for term in terms:
        for a in term.eqn.inputs:
            if isinstance(a, Var) and a in place:
                continue
            if isinstance(a, Var) and a in there:
                stacked[a] = None
                continue
            if not isinstance(a, Var) or a not in producer:
                return None
            if a.aval.size > STACKING_RATIO * var.aval.size:
                return None
            stacked[a] = None
    return ProductPlan(tuple(terms), place, tuple(stacked))
