"""Normalising loop nests: order by the strides of the accesses, then merge adjacent loops.

Input: a body as traced, with loops ``i0, i1, …``. Output: the same instructions under loops ``x0,
x1, …`` (and ``r0, r1, …`` for what is merged away). Two adjacent loops become one exactly when
every access and every index value allows it, which for affine indices means that the coefficient
of the outer variable is the inner extent times that of the inner one. Merging keeps the order of
iteration, so no bit changes; only loops whose points are independent of each other are reordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from stax.loops.body import Body, extent
from stax.loops.expressions import Binary
from stax.loops.layout import preferred_order
from stax.loops.symbolic import (
    ZERO,
    Expr,
    Symbol,
    affine_coefficients,
    symbol,
)


def normalized(body: Body, reorder: bool = True) -> Body:
    """The body with its loops ordered, merged and renumbered."""
    if reorder:
        body = reordered(body, loop_order(body))
    body = without_single_trips(body)
    return renumbered(merged(body))


def without_single_trips(body: Body) -> Body:
    """Loops of one trip removed."""
    single = {s: ZERO for s in body.loops + body.reduction_loops if extent(s) == 1}
    if not single:
        return body
    return body.substitute(
        single,
        tuple(s for s in body.loops if s not in single),
        tuple(s for s in body.reduction_loops if s not in single),
    )


def loop_order(body: Body) -> tuple[int, ...]:
    """The order of ``body.loops``, outermost first, that makes most accesses contiguous.

    Loops whose order shows in the result (repeated or accumulating writes) stay as they are.
    """
    present = tuple(range(len(body.loops)))
    if len(present) < 2 or not has_independent_points(body):
        return present
    votes = []
    for access in body.accesses:
        found = affine_coefficients(access.index, body.loops)
        if found is not None:
            vote = [found[s] for s in body.loops]
            # A write is worth as much as two reads: it also fetches the line it writes to.
            votes.extend([vote] * (1 if access.mode == "read" else 2))
    return preferred_order(votes, body.ranges)


def has_independent_points(body: Body) -> bool:
    """Whether different points of ``body.loops`` write different elements and nothing else."""
    for access in body.writes:
        if access.mode != "set":
            return False
        found = affine_coefficients(access.index, body.loops)
        if found is None or not access.index.symbols <= set(body.loops + body.reduction_loops):
            return False
        steps = sorted((abs(found[s]), extent(s)) for s in body.loops if extent(s) > 1)
        reach = 0
        for step, trips in steps:
            if step <= reach:
                return False
            reach += step * (trips - 1)
    return True


def reordered(body: Body, order: Sequence[int]) -> Body:
    """The body with its outer loops in the given order."""
    loops = tuple(body.loops[n] for n in order)
    return Body(loops, body.reduction_loops, body.instrs, body.indexes)


def merged(body: Body) -> Body:
    """Adjacent loops merged as far as every index allows, outer and reduction loops apart."""
    indexes = list(body.indexes)
    loops, indexes = _merge_group(body.loops, indexes, "m")
    reduction_loops, indexes = _merge_group(body.reduction_loops, indexes, "q")
    return Body(loops, reduction_loops, body.instrs, tuple(indexes))


def _merge_group(
    loops: tuple[Symbol, ...], indexes: list[Expr], prefix: str
) -> tuple[tuple[Symbol, ...], list[Expr]]:
    done: list[Symbol] = []
    for number, inner in enumerate(loops):
        if not done:
            done.append(inner)
            continue
        outer = done[-1]
        if not extent(outer) or not extent(inner):
            done.append(inner)
            continue
        joint = symbol(f"{prefix}{number}", 0, extent(outer) * extent(inner) - 1)
        rewritten = _merged_indexes(indexes, outer, inner, joint)
        if rewritten is None:
            done.append(inner)
        else:
            indexes = rewritten
            done[-1] = joint
    return tuple(done), indexes


def _merged_indexes(
    indexes: list[Expr], outer: Symbol, inner: Symbol, joint: Symbol
) -> list[Expr] | None:
    trips = extent(inner)
    pair = (outer, inner)
    for e in indexes:
        found = affine_coefficients(e, pair)
        if found is not None and found[outer] != trips * found[inner]:
            return None
    mapping = {outer: joint // trips, inner: joint % trips}
    out: list[Expr] = []
    for e in indexes:
        if e.symbols.isdisjoint(pair):
            out.append(e)
            continue
        new = e.substitute(mapping)
        if _divisions(new, (joint,)) > _divisions(e, pair):
            return None
        out.append(new)
    return out


def _divisions(e: Expr, variables: tuple[Symbol, ...]) -> int:
    """How many divisions and remainders involve one of the variables."""
    if e.symbols.isdisjoint(variables):
        return 0
    own = isinstance(e, Binary) and e.kind in ("floordiv", "mod")
    return int(own) + sum(_divisions(a, variables) for a in e.args)


def renumbered(body: Body) -> Body:
    """Loops called ``x0, x1, …`` and ``r0, r1, …`` in their order."""
    loops = tuple(symbol(f"x{n}", 0, s.hi) for n, s in enumerate(body.loops))
    inner = tuple(symbol(f"r{n}", 0, s.hi) for n, s in enumerate(body.reduction_loops))
    old = body.loops + body.reduction_loops
    mapping = {a: b for a, b in zip(old, loops + inner, strict=True) if a is not b}
    return body.substitute(mapping, loops, inner)
