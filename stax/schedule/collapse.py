"""Merging adjacent loops of a kernel (Proposition 6.3), and cutting the innermost one.

Input: a kernel.  Output: its space with loops merged wherever every index of every member allows
it, the split in the merged space, and each member's indexes in the merged loop variables.  Rows
and the loops along a row are merged separately.

Where memory is read in another shape than the loops have, indices hold quotients and remainders of
the innermost loop variable, and nothing vectorises.  That loop is cut in two at the divisor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stax.loops.expressions import Binary, Constant
from stax.loops.symbolic import (
    Expr,
    Symbol,
    affine_coefficients,
    as_expr,
    floordiv,
    mod,
    symbol,
)
from stax.schedule.kernel import Kernel, Role

LEAST_LENGTH = 16  # of the inner part of a loop that is cut


def collapsed(
    kernel: Kernel, cut: bool = False
) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
    """The kernel's space with adjacent loops merged where every index allows it (Prop. 6.3).

    With `cut`, the innermost loop of a pointwise kernel is cut where indices divide by a constant.
    """
    space, split = list(kernel.space), kernel.split
    # Members often read and write at the same places: each is looked at once.
    now = {e: e for m in kernel.members for e in m.indexes}
    symbols: list[Symbol] = list(kernel.symbols)
    if kernel.members[0].role is Role.SERIAL:
        return tuple(space), split, [m.indexes for m in kernel.members]
    k = len(space) - 2
    while k >= 0:
        if split is not None and k == split - 1:
            k -= 1
            continue
        a, b, extent = symbols[k], symbols[k + 1], space[k + 1]
        if _mergeable(now.values(), a, b, extent):
            merged = symbol(f"m{len(space)}_{k}", 0, space[k] * extent - 1)
            mapping = {
                a: floordiv(as_expr(merged), as_expr(extent)),
                b: mod(as_expr(merged), as_expr(extent)),
            }
            now = {old: e.substitute(mapping) for old, e in now.items()}
            space[k : k + 2] = [space[k] * extent]
            symbols[k : k + 2] = [merged]
            if split is not None and k + 1 < split:
                split -= 1
        k -= 1
    if cut and split is None and symbols and all(m.role is Role.FULL for m in kernel.members):
        length = _cut_length(now.values(), symbols[-1], space[-1])
        if length:
            outer = symbol("c0", 0, space[-1] // length - 1)
            inner = symbol("c1", 0, length - 1)
            mapping = {symbols[-1]: as_expr(outer) * length + inner}
            now = {old: e.substitute(mapping) for old, e in now.items()}
            space[-1:] = [space[-1] // length, length]
            symbols[-1:] = [outer, inner]
    final = {
        s: as_expr(symbol(f"x{n}", 0, extent - 1))
        for n, (s, extent) in enumerate(zip(symbols, space, strict=True))
    }
    now = {old: e.substitute(final) for old, e in now.items()}
    return tuple(space), split, [tuple([now[e] for e in m.indexes]) for m in kernel.members]


def _mergeable(indexes: Collection[Expr], a: Symbol, b: Symbol, extent: int) -> bool:
    for e in indexes:
        symbols = e.symbols
        if a not in symbols and b not in symbols:
            continue
        found = affine_coefficients(e, (a, b))
        if found is None or found[a] != extent * found[b]:
            return False
    return True


def _cut_length(indexes: Collection[Expr], loop: Symbol, extent: int) -> int:
    """The trips of the inner part of `loop` in which no index divides, or 0 for no cut."""
    found: set[int] = set()
    for e in indexes:
        for division in _divisions(e, loop):
            left, right = division.left, division.right
            if not isinstance(right, Constant):
                return 0
            at = right.value
            if isinstance(left, Binary) and left.kind == "floordiv":
                # The inner of two divisions is met by itself, and gives its own divisor.
                if left.left is not loop or not isinstance(left.right, Constant):
                    return 0
                at *= left.right.value
            elif left is not loop:
                return 0
            found.add(at)
    length = min(found, default=0)
    if length < LEAST_LENGTH or extent % length or any(d % length for d in found):
        return 0
    return length


def _divisions(e: Expr, loop: Symbol) -> Iterator[Binary]:
    """The quotients and remainders in `e` that involve `loop`."""
    if loop in e.symbols:
        if isinstance(e, Binary) and e.kind in ("floordiv", "mod"):
            yield e
        for part in e.args:
            yield from _divisions(part, loop)
