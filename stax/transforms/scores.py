"""Scores in a graph: matrices that exist as blocks of rows only, and so are made again for little.

Input: equations.  Output: which products make scores, which values are computed from them point by
point, and which products contract those.  The schedule runs such steps together on blocks of rows;
a derivative that needs the scores again makes them again in its own blocks, where to save them
would mean to store the whole matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stax.core.graph import Eqn, Var
from stax.core.primitive import Recompute
from stax.primitives.contractions import WIDEST, are_scores, matrix_sizes

FUSIBLE: Final = frozenset({Recompute.CHEAP, Recompute.VIEW, Recompute.REDUCTION, Recompute.RANDOM})


@dataclass
class Scores:
    """What takes part: equations by identity, and values."""

    products: set[int] = field(default_factory=set)
    uses: set[int] = field(default_factory=set)
    matrices: dict[Var, tuple[int, int, int]] = field(default_factory=dict)  # batch, rows, columns

    def fuses(self, producer: Eqn, reader: Eqn) -> bool:
        """True when `reader` takes `producer`'s result without it being written to memory."""
        made = producer.prim.recompute in FUSIBLE or id(producer) in self.products
        if reader.prim.recompute in FUSIBLE:
            return made
        return made and id(reader) in self.uses and producer.outputs[0] in self.matrices


def scores_of(eqns: Iterable[Eqn]) -> Scores:
    """The scores among equations."""
    found = Scores()
    for eqn in eqns:
        if eqn.op == "dot_general":
            _product(eqn, found)
        elif len(eqn.outputs) == 1 and eqn.prim.recompute in (Recompute.CHEAP, Recompute.VIEW):
            out = eqn.outputs[0]
            for atom in eqn.inputs:
                sizes = found.matrices.get(atom) if isinstance(atom, Var) else None
                if sizes is not None and _has_rows(eqn, sizes):
                    found.matrices[out] = sizes
    return found


def _has_rows(eqn: Eqn, sizes: tuple[int, int, int]) -> bool:
    """Whether the result of an equation has the rows of its operand."""
    shape = eqn.outputs[0].shape
    if eqn.prim.recompute is Recompute.VIEW and eqn.op != "reshape":
        return False
    return math.prod(shape) == math.prod(sizes) and shape[-1] == sizes[2]


def _product(eqn: Eqn, found: Scores) -> None:
    """A product that makes scores, or contracts them."""
    x, y = eqn.inputs
    out = eqn.outputs[0]
    batch, rows, columns, inner = matrix_sizes(x.aval, y.aval, eqn.params["dimension_numbers"])
    for atom, width in ((x, columns), (y, rows)):
        sizes = found.matrices.get(atom) if isinstance(atom, Var) else None
        if sizes is not None and sizes[0] == batch and inner in sizes[1:] and width <= WIDEST:
            found.uses.add(id(eqn))
            return
    if are_scores(batch, rows, columns, inner, out.aval.dtype):
        found.products.add(id(eqn))
        found.matrices[out] = batch, rows, columns
