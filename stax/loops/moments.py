"""Variances: which sums of a graph are of squared deviations from a mean, and how those lower.

Input: a Graph, and the lazy tensor whose variance is meant.  Output: the equations that add up
`(x - mean(x))**2` over the axes of the mean, and a reduction of Welford triples in their place.
Such a reduction needs no mean beforehand, so it runs in the same pass over memory as the mean
itself; a back end is free to read a row that stays in cache twice, which is the same merge with one
piece.  Nothing here knows of `np.var`: the sum written by hand is found as well, differentiated or
batched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stax.core.graph import Atom, Eqn, Graph, Literal, Var
from stax.loops import construct
from stax.loops.body import Instr
from stax.loops.layout import Index, Shape
from stax.loops.monoids import monoid
from stax.loops.nodes import Reduction
from stax.loops.ops import Value, ops
from stax.loops.realize import thresholds_for
from stax.loops.symbolic import ZERO
from stax.loops.tensors import BufferTensor, LoopTensor, TensorNode, loop_tensor

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_PARTS = ("square", "mul", "sub", "div", "broadcast", "reshape", "sum")  # of such a sum
FEWEST = 8  # elements below which the two sums, written out, are shorter


@dataclass(frozen=True)
class Deviations:
    """By the id of an equation: what a sum of squared deviations is of, and whose result is idle.

    Idle are the equations of which only such sums were the readers.
    """

    sampled: dict[int, Atom]
    idle: frozenset[int]


def squared_deviations(graph: Graph) -> Deviations:
    """The sums of squared deviations from a mean."""
    makers = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    sampled: dict[int, Atom] = {}
    for eqn in graph.eqns:
        if eqn.op == "sum":
            value = _sampled(eqn, makers)
            if value is not None:
                sampled[id(eqn)] = value
    idle: set[int] = set()
    if sampled:
        read: set[Atom] = {a for a in graph.outputs if isinstance(a, Var)}
        for eqn in reversed(graph.eqns):
            if eqn.op in _PARTS and not read.intersection(eqn.outputs):
                idle.add(id(eqn))
            else:
                inputs = [sampled[id(eqn)]] if id(eqn) in sampled else eqn.inputs
                read.update(a for a in inputs if isinstance(a, Var))
    return Deviations(sampled, frozenset(idle))


def _maker(atom: Atom, makers: Mapping[Var, Eqn]) -> Eqn | None:
    return makers.get(atom) if isinstance(atom, Var) else None


def _sampled(total: Eqn, makers: Mapping[Var, Eqn]) -> Atom | None:
    """The x of `total`, if that is `sum((x - mean(x))**2)`."""
    square = _maker(total.inputs[0], makers)
    if square is None or square.op not in ("square", "mul"):
        return None
    if square.inputs[0] is not square.inputs[-1] or total.params["dtype"] not in FLOATS:
        return None
    away = _maker(square.inputs[0], makers)
    if away is None or away.op != "sub":
        return None
    x, centre = away.inputs
    axes: Shape = total.params["axes"]
    if x.shape != away.outputs[0].shape or x.dtype != total.params["dtype"]:
        return None
    count = math.prod(x.shape[a] for a in axes)
    if count < FEWEST:
        return None
    return x if _is_mean(centre, x, axes, count, makers) else None


def _is_mean(centre: Atom, x: Atom, axes: Shape, count: int, makers: Mapping[Var, Eqn]) -> bool:
    """Whether `centre`, broadcast to the shape of `x`, is the mean of `x` over `axes`."""
    lead = len(x.shape) - len(centre.shape)
    # The axis of x that each axis of the present value runs along; None for one of length 1.
    along = [k + lead if n != 1 else None for k, n in enumerate(centre.shape)]
    divided = False
    while True:
        eqn = _maker(centre, makers)
        if eqn is None:
            return False
        (source, *rest) = eqn.inputs
        if eqn.op == "sum":
            kept = [a for a in range(len(x.shape)) if a not in axes and x.shape[a] != 1]
            same = source is x and eqn.params["axes"] == axes and eqn.params["dtype"] == x.dtype
            return divided and same and [a for a in along if a is not None] == kept
        if eqn.op == "div":
            by = rest[0]
            if divided or not isinstance(by, Literal) or float(by.value) != count:
                return False
            divided = True
        elif eqn.op == "broadcast":
            dims = eqn.params["dims"]
            along = [along[d] if n != 1 else None for d, n in zip(dims, source.shape, strict=True)]
        elif eqn.op == "reshape":
            if [n for n in source.shape if n != 1] != [n for n in centre.shape if n != 1]:
                return False
            places = iter([a for a, n in zip(along, centre.shape, strict=True) if n != 1])
            along = [next(places) if n != 1 else None for n in source.shape]
        else:
            return False
        centre = source


def sum_of_squared_deviations(
    x: TensorNode, axes: Shape, dtype: np.dtype, device: str
) -> LoopTensor:
    """The last component of the Welford triples of `x`, merged over `axes`.

    Long rows and columns take the triples of differences from their first element: where the values
    are far from zero and close to each other, these are exact, and their means keep the digits that
    those of the values would lose.  The spread does not depend on it.  A row of one piece has no
    means to compare.
    """
    gone = tuple(sorted(axes))
    kept = tuple(a for a in range(x.ndim) if a not in gone)
    load = x.loader()
    short = _is_short_row(x, gone, device)

    def triple(index: Index, rindex: Index) -> tuple[Value, ...]:
        value = load(construct.interleave(kept, gone, index, rindex))
        if not short:
            first = load(construct.interleave(kept, gone, index, (ZERO,) * len(gone)))
            value = ops.sub(value, first)
        return ops.constant(1, dtype), value, ops.constant(0, dtype)

    data = Reduction(
        ranges=tuple(x.shape[a] for a in kept),
        reduction_ranges=tuple(x.shape[a] for a in gone),
        inner_fn=triple,
        monoid=monoid("welford"),
        dtype=dtype,
        acc_dtype=dtype,
        project=2,
    )
    return loop_tensor(data, (x,) if short else (x, x))


def _is_short_row(x: TensorNode, gone: Shape, device: str) -> bool:
    """Whether the elements lie side by side and few enough to be read twice while in cache."""
    layout = x.layout if isinstance(x, BufferTensor) else None
    if gone != tuple(range(x.ndim - len(gone), x.ndim)):
        return False
    if layout is not None and layout.strides[-1] > min(layout.strides):
        return False
    return math.prod(x.shape[a] for a in gone) <= thresholds_for(device).piece


def is_sample(instrs: Sequence[Instr], reduction: Instr) -> bool:
    """Whether a reduction merges triples of one element each: (1, value, 0)."""
    if reduction.attrs[0] != "welford":
        return False
    count, _, squares = (instrs[a] for a in reduction.args)
    ones = count.op == "constant" and count.attrs[0] == 1
    return ones and squares.op == "constant" and squares.attrs[0] == 0
