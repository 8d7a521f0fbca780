"""Arrays put together from many pieces, written piece by piece.

Input: a flat graph.  Output: an equal graph in which a concatenation of many pieces, and a sum of
many arrays that are zero but for a piece each, are updates of one array.  Lowered as they stand
they become one loop in which every element asks of every piece whether it lies there: the
gradient of weights stacked in one array, read layer by layer, would take time with the square of
the number of layers.  The bits stay: a sum of `x` and zeros is `x + 0.0`, whatever their number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.core.graph import Atom, Eqn, Graph, Literal, Var, literal_array
from stax.core.primitive import Primitive
from stax.primitives.dynamic_slices import dynamic_update_slice_p
from stax.primitives.elementwise import add_p
from stax.primitives.shapes import concatenate_p, pad_p
from stax.primitives.views import broadcast_p

__all__ = ["in_pieces"]

FEW = 4  # pieces that one loop may choose from
FEW_ALONG = 12  # ... of a concatenation along rows, whose loop is cut
LEAST_ELEMENTS = 1024  # of a piece, below which a loop of its own costs more than the choice


@dataclass
class _Sum:
    """A sum of padded pieces along one axis: where each lies, and the equations it takes."""

    axis: int
    places: list[tuple[int, int]]
    pads: list[Eqn]
    adds: list[Eqn]


def in_pieces(graph: Graph) -> Graph:
    """`graph` with large concatenations and sums of padded pieces made by updates."""
    if not any(eqn.prim in (concatenate_p, pad_p) for eqn in graph.eqns):
        return graph
    sums = _sums(graph)
    owner = {id(pad): s for s in sums for pad in s.pads}
    dropped = {id(add) for s in sums for add in s.adds}
    present: dict[int, Var] = {}  # of each sum, the array as far as it is written
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        s = owner.get(id(eqn))
        if s is not None:
            done = present.get(id(s))
            if done is None:
                done = _zeros(eqn, eqn.inputs[1], eqns)
            plus = Var(eqn.inputs[0].aval)
            eqns.append(_like(eqn, add_p, eqn.inputs, plus, {}))
            last = eqn is s.pads[-1]
            out = s.adds[-1].outputs[0] if last else Var(eqn.outputs[0].aval)
            start = eqn.params["low"][s.axis]
            eqns.append(_update(eqn, done, plus, s.axis, start, out))
            present[id(s)] = out
        elif eqn.prim is concatenate_p and _is_large(eqn):
            eqns.extend(_concatenated(eqn))
        elif id(eqn) not in dropped:
            eqns.append(eqn)
    return graph.replace(eqns=eqns)


def _sums(graph: Graph) -> list[_Sum]:
    """The largest sums of more than a few padded pieces, the pads of each in program order."""
    readers: dict[Var, int] = {}
    for atom in (*graph.outputs, *(a for eqn in graph.eqns for a in eqn.inputs)):
        if isinstance(atom, Var):
            readers[atom] = readers.get(atom, 0) + 1
    order = {id(eqn): n for n, eqn in enumerate(graph.eqns)}
    found: dict[Atom, _Sum] = {}
    for eqn in graph.eqns:
        if eqn.prim is pad_p:
            place = _place(eqn)
            if place is not None:
                axis, start, stop = place
                found[eqn.outputs[0]] = _Sum(axis, [(start, stop)], [eqn], [])
        elif eqn.prim is add_p:
            one, other = (found.get(a) for a in eqn.inputs)
            if one is None or other is None or one is other or one.axis != other.axis:
                continue
            if any(readers[a] > 1 for a in eqn.inputs if isinstance(a, Var)):
                continue
            tags = {(e.phase, e.region) for e in (eqn, one.pads[0], other.pads[0])}
            places = sorted([*one.places, *other.places])
            apart = all(a[1] <= b[0] for a, b in itertools.pairwise(places))
            if len(tags) == 1 and apart and eqn.inputs[0].aval.shape == eqn.inputs[1].aval.shape:
                for a in eqn.inputs:
                    del found[a]
                pads = sorted([*one.pads, *other.pads], key=lambda e: order[id(e)])
                adds = [*one.adds, *other.adds, eqn]
                found[eqn.outputs[0]] = _Sum(one.axis, places, pads, adds)
    return [s for s in found.values() if len(s.pads) > FEW]


def _place(eqn: Eqn) -> tuple[int, int, int] | None:
    """The axis along which an equation pads a large piece with zeros, and where the piece lies."""
    low, high, value = eqn.params["low"], eqn.params["high"], eqn.inputs[1]
    axes = [k for k, (a, b) in enumerate(zip(low, high, strict=True)) if a or b]
    if len(axes) != 1 or any(eqn.params["interior"]) or min(*low, *high) < 0:
        return None
    if not isinstance(value, Literal) or math.prod(eqn.inputs[0].aval.shape) < LEAST_ELEMENTS:
        return None
    if value.aval.dtype.kind == "b":
        return None
    number = complex(literal_array(value).astype(np.complex128))
    if number or -1 in (math.copysign(1, number.real), math.copysign(1, number.imag)):
        return None
    axis = axes[0]
    return axis, low[axis], low[axis] + eqn.inputs[0].aval.shape[axis]


def _is_large(eqn: Eqn) -> bool:
    """Whether a concatenation has many pieces, and large ones."""
    shape, axis, count = eqn.outputs[0].aval.shape, eqn.params["axis"], len(eqn.inputs)
    few = FEW_ALONG if math.prod(shape[axis + 1 :]) == 1 else FEW
    return count > few and math.prod(shape) >= count * LEAST_ELEMENTS


def _concatenated(eqn: Eqn) -> Iterator[Eqn]:
    """The updates that a concatenation stands for."""
    out, axis, start = eqn.outputs[0], eqn.params["axis"], 0
    eqns: list[Eqn] = []
    done = _zeros(eqn, Literal(out.aval.dtype.type(0)), eqns)
    yield from eqns
    for n, piece in enumerate(eqn.inputs):
        after = out if n == len(eqn.inputs) - 1 else Var(out.aval)
        yield _update(eqn, done, piece, axis, start, after)
        done = after
        start += piece.aval.shape[axis]


def _zeros(eqn: Eqn, zero: Atom, eqns: list[Eqn]) -> Var:
    out = Var(eqn.outputs[0].aval)
    eqns.append(_like(eqn, broadcast_p, [zero], out, {"shape": out.aval.shape, "dims": ()}))
    return out


def _update(eqn: Eqn, array: Var, piece: Atom, axis: int, start: int, out: Var) -> Eqn:
    starts = [Literal(np.int64(start if k == axis else 0)) for k in range(out.ndim)]
    return _like(eqn, dynamic_update_slice_p, [array, piece, *starts], out, {})


def _like(
    eqn: Eqn, prim: Primitive, inputs: Sequence[Atom], out: Var, params: dict[str, Any]
) -> Eqn:
    """An equation in the place of another."""
    return Eqn(prim, inputs, [out], params, eqn.phase, eqn.source, eqn.region)
