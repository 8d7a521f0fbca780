"""Stacks: kernels that read their neighbours' rows, run together on tiles of rows.

Input: a schedule.  Output: the same with chains of pointwise kernels as one `Stack` each.  Every
step of a stencil reads a few rows around each row of the step before.  Run one after the other,
the steps carry whole arrays to memory and back.  Run on a tile of rows, with the rows around it
that later steps need computed again, the values between them stay in the cache, and only tiles of
them exist at all.  Every value is computed by the same operations, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from stax.loops.buffers import BufferTable
from stax.loops.symbolic import Expr, Symbol, affine_coefficients, as_expr, symbol
from stax.schedule.collapse import collapsed
from stax.schedule.fusion import Scheduled
from stax.schedule.kernel import Kernel, Role

CACHE_BYTES = 1_400_000  # that the tiles between the stages may take together
LEAST_BYTES = 1 << 20  # of an array that is worth keeping out of memory
LEAST_TILE = 16  # rows
PARTS = 4  # of the tiles, that may run at the same time
MOST_AGAIN = 0.3  # of a tile's rows that a stage computes again, on average


@dataclass
class Between:
    """An array that only exists as a tile: its C offset is `stride * row + first + column`."""

    stride: int
    first: int
    row_bytes: int
    slot: int = 0


@dataclass
class Stage:
    """A kernel of a stack, and which rows of it a tile [a, b) needs: [a + before, b + after)."""

    kernel: Kernel
    rows: int
    before: int = 0
    after: int = 0


@dataclass(eq=False)
class Stack(Kernel):
    """Stages in order; `members` are those of all stages, the space is that of the last."""

    stages: list[Stage] = field(default_factory=list)
    between: dict[str, Between] = field(default_factory=dict)
    slots: int = 0
    tile: int = 0

    @property
    def slot_bytes(self) -> int:
        """Bytes of one tile between two stages."""
        most = max(s.after - s.before for s in self.stages) + self.tile
        return most * max(b.row_bytes for b in self.between.values())


@dataclass
class _Rows:
    """A kernel as rows: its first loop, and its indexes under the loops that are emitted."""

    kernel: Kernel
    row: Symbol
    extent: int
    reads: list[tuple[str, Expr]]
    writes: dict[str, Expr]


def stacked(
    order: Sequence[Scheduled], outputs: Collection[str], table: BufferTable
) -> list[Scheduled]:
    """The schedule with chains of row-wise dependent kernels as stacks."""
    readers: dict[str, set[int]] = {}
    for place, item in enumerate(order):
        for name in item.reads:
            readers.setdefault(name, set()).add(place)
    found: list[Scheduled] = []
    place = 0
    while place < len(order):
        best: Stack | None = None
        end = place + 1
        chain = _as_rows(order[place], table)
        stages = [chain] if chain is not None else []
        while stages and end < len(order):
            made = stages[-1].writes
            inside = all(n not in outputs and max(readers.get(n, {-1})) >= end for n in made)
            following = _as_rows(order[end], table)
            if not inside or following is None or not any(n in made for n, _ in following.reads):
                break
            stages.append(following)
            end += 1
            last_reader = max(max(readers[n]) for s in stages[:-1] for n in s.writes)
            if last_reader < end:
                made_stack = _stack(stages, table)
                if made_stack is None:
                    break
                best = made_stack
        found.append(best if best is not None else order[place])
        place += len(best.stages) if best is not None else 1
    return found


def _as_rows(item: Scheduled, table: BufferTable) -> _Rows | None:
    """The kernel by rows, if it is pointwise, large, and reads memory along its rows."""
    if not isinstance(item, Kernel) or not item.members:
        return None
    if any(m.role is not Role.FULL for m in item.members):
        return None
    if any(table[n].nbytes < LEAST_BYTES for n in item.writers):
        return None
    if any(i.op in ("check", "bind") for m in item.members for i in m.body.instrs):
        return None
    space, split, indexes = collapsed(item, cut=True)
    if split is not None or len(space) < 2:
        return None
    row, inner = (symbol(f"x{k}", 0, space[k] - 1) for k in (0, len(space) - 1))
    reads: list[tuple[str, Expr]] = []
    writes: dict[str, Expr] = {}
    for member, own in zip(item.members, indexes, strict=True):
        for i in member.body.instrs:
            if i.op not in ("load", "store"):
                continue
            index = own[i.attrs[1]]
            steps = affine_coefficients(index, (row, inner))
            if steps is None or abs(steps[inner]) > 1:
                return None
            if i.op == "store":
                writes[i.attrs[0]] = index
            elif i.attrs[0] not in item.writers:
                reads.append((i.attrs[0], index))
    return _Rows(item, row, space[0], reads, writes)


def _stack(chain: Sequence[_Rows], table: BufferTable) -> Stack | None:
    """The chain as a stack, if what its stages read of each other lies around their own rows."""
    stages = [Stage(c.kernel, c.extent) for c in chain]
    between: dict[str, Between] = {}
    maker: dict[str, int] = {}
    for k, c in enumerate(chain[:-1]):
        for name, index in c.writes.items():
            steps = affine_coefficients(index, (c.row,))
            rest = index - as_expr(c.row) * steps[c.row] if steps else index
            if steps is None or steps[c.row] <= 0 or rest.hi - rest.lo >= steps[c.row]:
                return None
            stride = steps[c.row]
            between[name] = Between(stride, int(rest.lo), stride * table[name].dtype.itemsize)
            maker[name] = k
    last_use: dict[str, int] = {}
    for k in range(len(chain) - 1, 0, -1):
        c, own = chain[k], stages[k]
        for name, index in c.reads:
            if name not in maker:
                continue
            if maker[name] >= k:
                return None
            b, source = between[name], stages[maker[name]]
            steps = affine_coefficients(index, (c.row,))
            if steps is None or steps[c.row] != b.stride:
                return None
            rest = index - as_expr(c.row) * b.stride
            low, high = (int(v - b.first) // b.stride for v in (rest.lo, rest.hi))
            source.before = min(source.before, own.before + low)
            source.after = max(source.after, own.after + high)
            last_use[name] = max(last_use.get(name, 0), k)
    slots = _assign_slots(between, maker, last_use)
    reach = max(s.after - s.before for s in stages)
    widest = max(b.row_bytes for b in between.values())
    tile = min(CACHE_BYTES // (slots * widest) - reach, -(-stages[-1].rows // PARTS))
    again = sum(s.after - s.before for s in stages) / len(stages)
    if tile < LEAST_TILE or again > MOST_AGAIN * tile:
        return None
    last = chain[-1].kernel
    stack = Stack(last.name, last.space, last.split, stages=stages, between=between)
    stack.slots, stack.tile = slots, tile
    for c in chain:
        for member in c.kernel.members:
            stack.add(member)
    return stack


def _assign_slots(
    between: dict[str, Between], maker: dict[str, int], last_use: dict[str, int]
) -> int:
    """Give each array a slot that no other needs at the same time; returns how many there are."""
    busy: list[int] = []  # the last stage that reads each slot
    for name, b in between.items():
        free = [slot for slot, last in enumerate(busy) if last < maker[name]]
        b.slot = free[0] if free else len(busy)
        busy[b.slot : b.slot + 1] = [last_use.get(name, maker[name])]
    return len(busy)
