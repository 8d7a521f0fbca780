"""Writing out a short loop over results that share expensive work.

Input: the body of a reduction.  Output: the same work as several bodies, one for each trip of a
loop of a few trips.  Of a force between two bodies the distance is the same for every coordinate:
with the loop over coordinates written out, bodies that join one kernel compute it once, and the
loop that is left is long enough to vectorise.  Every result keeps its operations and their order.
"""

from __future__ import annotations

from stax.loops.body import Body, extent
from stax.loops.scalar_ops import SCALAR_OPS
from stax.loops.symbolic import Symbol, constant

TRIPS = 4  # of a loop that is written out
INDEX_AT = {"load": 1, "index_expr": 0, "store": 1}  # where attributes hold an index
SHARED_FLOPS = 8.0  # of the work that does not depend on its variable, from which that pays


def written_out(body: Body) -> list[Body]:
    """The bodies of the trips of a short loop, or the body alone."""
    if not body.reduction_loops:
        return [body]
    for s in reversed(body.loops):
        if 1 < extent(s) <= TRIPS and shared_flops(body, s) >= SHARED_FLOPS:
            rest = tuple(other for other in body.loops if other is not s)
            return [
                body.substitute({s: constant(k)}, rest, body.reduction_loops)
                for k in range(extent(s))
            ]
    return [body]


def shared_flops(body: Body, loop: Symbol) -> float:
    """The cost, at one point of the reduction loops, of what does not depend on `loop`."""
    varying: set[Symbol] = set(body.reduction_loops)
    own: set[Symbol] = {loop}
    place: list[tuple[bool, bool]] = []  # of each instruction: depends on `loop`, on the others
    cost = 0.0
    for i in body.instrs[: body.split_point]:
        symbols = body.indexes[i.attrs[INDEX_AT[i.op]]].symbols if i.op in INDEX_AT else ()
        here = any(s in own for s in symbols) or any(place[a][0] for a in i.args)
        there = any(s in varying for s in symbols) or any(place[a][1] for a in i.args)
        place.append((here, there))
        if i.op == "bind":
            own |= {i.attrs[0]} if here else set()
            varying |= {i.attrs[0]} if there else set()
        if i.op in SCALAR_OPS and there and not here:
            cost += SCALAR_OPS[i.op].flops
    return cost
