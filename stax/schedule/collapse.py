"""Merging adjacent loops of a kernel (Proposition 6.3).

Input: a kernel.  Output: its space with loops merged wherever every index of every member allows
it, the split in the merged space, and each member's indexes in the merged loop variables.  Rows
and the loops along a row are merged separately.
"""

from __future__ import annotations

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


def collapsed(
    kernel: Kernel,
) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
    """The kernel's space with adjacent loops merged where every index allows it (Prop. 6.3)."""
    space, split = list(kernel.space), kernel.split
    indexes = [list(m.indexes) for m in kernel.members]
    symbols: list[Symbol] = list(kernel.symbols)
    if kernel.members[0].role is Role.SERIAL:
        return tuple(space), split, [tuple(e) for e in indexes]
    k = len(space) - 2
    while k >= 0:
        if split is not None and k == split - 1:
            k -= 1
            continue
        a, b, extent = symbols[k], symbols[k + 1], space[k + 1]
        if _mergeable(indexes, a, b, extent):
            merged = symbol(f"m{len(space)}_{k}", 0, space[k] * extent - 1)
            mapping = {
                a: floordiv(as_expr(merged), as_expr(extent)),
                b: mod(as_expr(merged), as_expr(extent)),
            }
            indexes = [[e.substitute(mapping) for e in own] for own in indexes]
            space[k : k + 2] = [space[k] * extent]
            symbols[k : k + 2] = [merged]
            if split is not None and k + 1 < split:
                split -= 1
        k -= 1
    final = {
        s: as_expr(symbol(f"x{n}", 0, extent - 1))
        for n, (s, extent) in enumerate(zip(symbols, space, strict=True))
    }
    return tuple(space), split, [tuple(e.substitute(final) for e in own) for own in indexes]


def _mergeable(indexes: list[list[Expr]], a: Symbol, b: Symbol, extent: int) -> bool:
    for own in indexes:
        for e in own:
            if a not in e.symbols and b not in e.symbols:
                continue
            found = affine_coefficients(e, (a, b))
            if found is None or found[a] != extent * found[b]:
                return False
    return True
