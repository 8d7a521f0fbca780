"""How the loops of a kernel become axes of a block, and how large the blocks are.

Input: a kernel's collapsed space, the addresses its members touch, and the role of each member.
Output: the axes with their extents and block sizes, and the number of warps.  A pointwise kernel
gets one axis over all its points when all memory runs along the last loop, else one axis for each
loop along which some array is contiguous (two or three), so that every access is coalesced.  A
reduction keeps its whole row in one block up to `PERSISTENT` bytes and loops over pieces beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stax.backends.triton.handler import Axis
from stax.loops.symbolic import Expr, Symbol, affine_coefficients

PERSISTENT = 32 * 1024  # bytes of a row that is held in registers
FEWEST_BLOCKS = 264  # two for each multiprocessor of a large device
WARP_ELEMENTS = 256


@dataclass(frozen=True)
class Tiling:
    """The axes of the block, the loops of each, and the warps.

    `groups` holds for each axis the positions of its loops in the kernel's space, outermost first.
    """

    axes: tuple[Axis, ...]
    groups: tuple[tuple[int, ...], ...]
    warps: int
    segments: int = 1  # programs that share the looped axis, each a piece of it
    chunk: int = 0  # the length of a piece


def power(n: int) -> int:
    """The smallest power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def warps_for(elements: int, most: int = 16) -> int:
    """The number of warps for a block."""
    return max(1, min(most, power(elements) // WARP_ELEMENTS))


def pointwise_tiling(
    space: Sequence[int],
    symbols: Sequence[Symbol],
    accesses: Sequence[Expr],
    split: int | None,
    shrink: int,
) -> Tiling:
    """Axes of a kernel without reductions; with `split` the row loops keep an axis of their own."""
    numel = math.prod(space)
    if split is not None and 0 < split < len(space):
        rows, along = math.prod(space[:split]), math.prod(space[split:])
        wide = min(power(along), 1024 >> shrink)
        tall = max(1, min(power(rows), (1024 >> shrink) // wide))
        axes = (Axis("y", rows, tall), Axis("x", along, wide))
        groups = (tuple(range(split)), tuple(range(split, len(space))))
        return Tiling(axes, groups, warps_for(wide * tall, 4))
    fast = _contiguous_loops(space, symbols, accesses)
    if len(fast) < 2:
        block = min(power(numel), 1024 >> shrink)
        while block > 128 and -(-numel // block) < FEWEST_BLOCKS:
            block //= 2
        return Tiling((Axis("x", numel, block),), (tuple(range(len(space))),), warps_for(block, 4))
    fast = fast[-3:]
    sizes = {2: (32, 32), 3: (8, 8, 16)}[len(fast)]
    axes_list: list[Axis] = []
    groups_list: list[tuple[int, ...]] = []
    rest = tuple(k for k in range(len(space)) if k not in fast)
    if rest:
        axes_list.append(Axis("w", math.prod(space[k] for k in rest), 1))
        groups_list.append(rest)
    for k, size, name in zip(fast, sizes, "zyx"[-len(fast) :], strict=True):
        axes_list.append(Axis(name, space[k], min(power(space[k]), max(size >> shrink, 4))))
        groups_list.append((k,))
    elements = math.prod(a.block for a in axes_list)
    return Tiling(tuple(axes_list), tuple(groups_list), warps_for(elements, 4))


def _contiguous_loops(
    space: Sequence[int], symbols: Sequence[Symbol], accesses: Sequence[Expr]
) -> list[int]:
    """The loops along which some access runs through neighbouring elements, in order."""
    found: set[int] = set()
    for index in accesses:
        coefficients = affine_coefficients(index, symbols)
        if coefficients is None:
            continue
        for k, s in enumerate(symbols):
            if abs(coefficients[s]) == 1 and space[k] >= 8:
                found.add(k)
    if found and max(found) != len(space) - 1:
        found.add(len(space) - 1)
    return sorted(found)


def column_segments(programs: int, length: int, block: int) -> tuple[int, int]:
    """How many programs share a column of `length` rows, and the rows of each.

    Only where there are few columns; a piece is at least four blocks long.
    """
    wanted = min(FEWEST_BLOCKS // programs, length // (4 * block))
    if wanted < 2:
        return 1, length
    chunk = -(-length // (wanted * block)) * block
    return -(-length // chunk), chunk


def reduction_tiling(
    kept: tuple[int, ...],
    reduced: tuple[int, ...],
    space: Sequence[int],
    itemsize: int,
    size: int,
    kept_is_contiguous: bool,
    shrink: int,
) -> Tiling:
    """Axes of a reduction: the results, then the reduced points.

    `size` is the number of instructions; large bodies get smaller blocks.
    """
    results = math.prod(space[k] for k in kept)
    length = math.prod(space[k] for k in reduced)
    budget = (2048 if size <= 200 else 1024 if size <= 400 else 512) >> shrink
    if not kept:
        persistent = power(length) * itemsize <= PERSISTENT >> shrink
        block = power(length) if persistent else 2 * budget
        return Tiling((Axis("r", length, block, not persistent),), (reduced,), warps_for(block))
    if kept_is_contiguous:
        wide = min(power(results), 64 >> min(shrink, 2))
        while wide > 16 and -(-results // wide) < FEWEST_BLOCKS // 2:
            wide //= 2
        tall = max(1, min(power(length), budget // wide))
        axes = (Axis("x", results, wide), Axis("r", length, tall, tall < length))
        segments, chunk = 1, length
        if not shrink:  # a smaller kernel takes the place of one, not of two
            segments, chunk = column_segments(-(-results // wide), length, tall)
        return Tiling(axes, (kept, reduced), warps_for(wide * tall, 8), segments, chunk)
    most = PERSISTENT >> (shrink + (size > 200) + (size > 400))
    persistent = power(length) * itemsize <= most
    block = power(length) if persistent else min(power(length), budget)
    rows = max(1, min(budget // block, power(results)))
    while rows > 1 and -(-results // rows) < FEWEST_BLOCKS:
        rows //= 2
    axes = (Axis("x", results, rows), Axis("r", length, block, not persistent))
    return Tiling(axes, (kept, reduced), warps_for(rows * block))
