"""Score matrices that are never stored: attention, recognised in the steps of any program.

Input: the steps of a program.  Output: the same with a *family* of steps replaced by `Scores`.  A
family starts with a batched product [b, m, n] over a short contraction.  Everything of that shape
that is computed from it, point by point or by another such product, exists only as tiles in
registers, if all who read it are row reductions, point by point again, or products that contract
it.  What a family leaves behind is small: values of its rows, and products [b, m, h] or [b, n, h].
Each of those is computed by a kernel that makes the tiles anew; kernels that walk over the same
tiles are merged where no other step lies between them.  Forward and backward of attention, with
whatever scales, masks and biases the scores, are such families; nothing here knows their formulas.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stax.backends.triton.kernel import Operand
from stax.loops.buffers import BufferTable, ExternBuffer, ExternInput
from stax.loops.layout import contiguous_strides
from stax.loops.symbolic import as_expr, linearize
from stax.schedule.attention import product_of
from stax.schedule.fusion import CallStep, Scheduled
from stax.schedule.kernel import (
    Kernel,
    Member,
    Role,
    access_of,
    common_refinement,
    mapped_indexes,
    space_symbols,
)

WIDEST = 256  # elements of a contraction that is held in one block
LEAST = 16  # rows and columns below which a matrix is no matter
FEWEST_PROGRAMS = 32  # blocks of 64 rows, below which storing the scores uses more of the device


@dataclass(frozen=True, eq=False)
class Produced:
    """A product whose result exists as tiles: `left` [b, m, inner] times `right` [b, inner, n]."""

    buffer: str
    left: Operand
    right: Operand
    inner: int


@dataclass(frozen=True, eq=False)
class Consumed:
    """A product that contracts tiles: over columns (`rows` kept) or over rows.

    `other` is read as [b, contracted, width]; `result` is written as [b, kept, width].
    """

    buffer: str
    tiles: str
    over_columns: bool
    other: Operand
    result: Operand
    width: int


@dataclass(frozen=True, eq=False)
class Pointwise:
    """A member that computes tiles from tiles."""

    member: Member


@dataclass(frozen=True, eq=False)
class RowValue:
    """A member that leaves one value for each row: a reduction, or computed from such values."""

    member: Member


TileOp = Produced | Consumed | Pointwise | RowValue


@dataclass(eq=False)
class Family:
    """Everything over one matrix of scores."""

    shape: tuple[int, int, int]  # b, m, n
    space: tuple[int, ...]
    cuts: tuple[int, int]  # loops of the batch, and of batch and rows
    ops: list[TileOp] = field(default_factory=list)  # in program order
    tiles: dict[str, TileOp] = field(default_factory=dict)  # who makes each matrix of tiles
    values: dict[str, RowValue] = field(default_factory=dict)  # who makes each value of a row

    def needed(self, op: TileOp) -> list[TileOp]:
        """The makers of the tiles that `op` takes, in program order, and `op` itself."""
        found: set[int] = {id(op)}
        for candidate in reversed(self.ops):
            if id(candidate) in found:
                found.update(id(self.tiles[n]) for n in reads_of_op(candidate) if n in self.tiles)
        return [o for o in self.ops if id(o) in found]


def reads_of_op(op: TileOp) -> list[str]:
    """The buffers an operation on tiles reads, tiles and memory."""
    if isinstance(op, Produced):
        return [op.left.buffer, op.right.buffer]
    if isinstance(op, Consumed):
        return [op.tiles, op.other.buffer]
    return [a.buffer for a in op.member.body.reads]


def writes_of_op(op: TileOp) -> tuple[str, ...]:
    """The buffers an operation on tiles makes."""
    return (op.buffer,) if isinstance(op, Produced | Consumed) else op.member.writes


@dataclass(eq=False)
class Scores:
    """A kernel over the tiles of a family; `outputs` are all of one direction."""

    name: str
    family: Family
    outputs: list[TileOp]

    @property
    def by_rows(self) -> bool:
        """Whether a program keeps rows and walks over columns."""
        first = self.outputs[0]
        return not isinstance(first, Consumed) or first.over_columns

    @property
    def ops(self) -> list[TileOp]:
        """All operations it takes, in program order."""
        found = {id(o) for out in self.outputs for o in self.family.needed(out)}
        return [o for o in self.family.ops if id(o) in found]

    @property
    def writes(self) -> list[str]:
        """The buffers it leaves in memory."""
        return [n for out in self.outputs for n in writes_of_op(out)]

    @property
    def reads(self) -> list[str]:
        """The buffers it reads from memory."""
        own = {*self.family.tiles, *self.writes}
        return list(dict.fromkeys(n for o in self.ops for n in reads_of_op(o) if n not in own))


# ------------------------------------------------------------------------------- families


class _Readers:
    """Which steps read each buffer."""

    def __init__(self, order: Sequence[Scheduled], outputs: Collection[str]) -> None:
        self.order = order
        self.outputs = set(outputs)
        self.steps: dict[str, list[int]] = {}
        self.writers: dict[str, list[int]] = {}
        for step, item in enumerate(order):
            if isinstance(item, Kernel):
                reads = {a.buffer for m in item.members for a in m.body.reads}
                writes = [n for m in item.members for n in m.writes]
            else:
                reads, writes = set(item.reads), list(item.writes)
            for name in reads:
                self.steps.setdefault(name, []).append(step)
            for name in writes:
                self.writers.setdefault(name, []).append(step)


class _NotAFamily(Exception):
    """The matrix must be stored after all."""


def operand_of(operand: ExternInput) -> Operand:
    """An operand of a product as a strided view."""
    layout = operand.layout
    strides = tuple(s if n != 1 else 0 for s, n in zip(layout.strides, layout.shape, strict=True))
    *steps, rows, columns = strides
    merged: list[tuple[int, int]] = []
    for n, stride in zip(layout.shape, steps, strict=False):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * stride:
            merged[-1] = (merged[-1][0] * n, stride)
        else:
            merged.append((n, stride))
    if len(merged) > 1:
        return Operand(operand.buffer, layout.offset, (0, rows, columns), tuple(merged))
    batch = merged[0][1] if merged else 0
    return Operand(operand.buffer, layout.offset, (batch, rows, columns))


def _extents(buffer: ExternBuffer) -> tuple[int, int, int]:
    return buffer.params["b"], buffer.params["m"], buffer.params["n"]


def _may_be_tiles(buffer: ExternBuffer | None) -> bool:
    if buffer is None or not 0 < buffer.params["k"] <= WIDEST:
        return False
    b, m, n = _extents(buffer)
    return min(m, n) >= LEAST and b * -(-m // 64) >= FEWEST_PROGRAMS


class _Search:
    """One attempt at a family that starts with a product."""

    def __init__(self, readers: _Readers, table: BufferTable, seed: int, more: bool) -> None:
        self.readers, self.table, self.more = readers, table, more
        product = product_of(readers.order[seed], table)
        assert product is not None
        self.shape = _extents(product)
        self.steps: set[int] = {seed}
        self.tiles: set[str] = {product.name}

    def family(self) -> tuple[Family, set[int], dict[int, int]]:
        """The family, its steps, and the step of each operation by identity."""
        open_names = list(self.tiles)
        while open_names:
            name = open_names.pop()
            if name in self.readers.outputs or len(self.readers.writers[name]) != 1:
                raise _NotAFamily
            for step in self.readers.steps.get(name, []):
                if step not in self.steps:
                    self.steps.add(step)
                    open_names += self._joined(self.readers.order[step])
        kernels = [k for s in sorted(self.steps) if isinstance(k := self.readers.order[s], Kernel)]
        space: tuple[int, ...] | None = tuple(n for n in self.shape if n != 1)
        for kernel in kernels:
            space = None if space is None else common_refinement(space, kernel.space)
        b, m, _ = self.shape
        cuts = None if space is None else (loops_making(space, b), loops_making(space, b * m))
        if space is None or cuts is None or None in cuts:
            raise _NotAFamily
        found = Family(self.shape, space, (cuts[0] or 0, cuts[1] or 0))
        places: dict[int, int] = {}
        for step in sorted(self.steps):
            item = self.readers.order[step]
            made = self._members(item, found) if isinstance(item, Kernel) else [self._call(item)]
            for op in made:
                places[id(op)] = step
                found.ops.append(op)
                if isinstance(op, RowValue):
                    found.values.update(dict.fromkeys(writes_of_op(op), op))
                elif not isinstance(op, Consumed):
                    found.tiles.update(dict.fromkeys(writes_of_op(op), op))
        if not any(isinstance(o, Consumed) for o in found.ops):
            raise _NotAFamily
        return found, self.steps, places

    def _joined(self, item: Scheduled) -> list[str]:
        """The further tiles that a reader of tiles makes or takes."""
        if isinstance(item, CallStep):
            if product_of(item, self.table) is None:
                raise _NotAFamily
            return []
        made: list[str] = []
        b, m, n = self.shape
        if item.numel != b * m * n:
            raise _NotAFamily
        if item.split is not None and math.prod(item.rows) != b * m:
            raise _NotAFamily
        for member in item.members:
            if member.role is Role.FULL:
                made += member.writes
            elif member.role not in (Role.ROW, Role.OUTER):
                raise _NotAFamily
            made += self._products(member) if self.more else []
        fresh = [name for name in made if name not in self.tiles]
        self.tiles.update(fresh)
        return fresh

    def _products(self, member: Member) -> list[str]:
        """Products of the family's shape that a member reads: tiles too, if they may be."""
        found = []
        for name in dict.fromkeys(a.buffer for a in member.body.reads):
            for step in self.readers.writers.get(name, []):
                product = product_of(self.readers.order[step], self.table)
                if _may_be_tiles(product) and product is not None:
                    if _extents(product) == self.shape and name not in self.tiles:
                        self.steps.add(step)
                        found.append(name)
        return found

    def _members(self, kernel: Kernel, family: Family) -> list[TileOp]:
        """The members in the loops of the family; tiles are written and read at one's own place."""
        split = family.cuts[1]
        strides = contiguous_strides(family.space)
        own = linearize([as_expr(s) for s in space_symbols(family.space)], strides)
        made: list[TileOp] = []
        for member in kernel.members:
            placed = replace(member)
            placed.indexes = mapped_indexes(placed, family.space, split)
            if any(i.op in ("check", "bind", "scan") for i in placed.body.instrs):
                raise _NotAFamily
            for name in self.tiles:
                touched = [*access_of(placed, name, "load"), *access_of(placed, name, "store")]
                if any(e is not own for e in touched):
                    raise _NotAFamily
            made.append(Pointwise(placed) if placed.role is Role.FULL else RowValue(placed))
        return made

    def _call(self, item: CallStep) -> TileOp:
        """A product that makes tiles, or contracts them."""
        product = product_of(item, self.table)
        assert product is not None
        left, right = (operand_of(i) for i in product.inputs)
        p = product.params
        if product.name in self.tiles:
            if left.buffer in self.tiles or right.buffer in self.tiles:
                raise _NotAFamily
            return Produced(product.name, left, right, p["k"])
        b, m, n = self.shape
        if p["b"] != b or (left.buffer in self.tiles) == (right.buffer in self.tiles):
            raise _NotAFamily
        batch = m * n if b > 1 else 0
        strides = contiguous_strides((b, p["m"], p["n"]))
        whole = (strides[0], strides[1], strides[2])
        on_left = left.buffer in self.tiles
        tiles = left if on_left else right
        if not on_left:
            # The transpose of the product has the tiles on its left.
            tiles, left, right = right.turned, right.turned, left.turned
            whole = (whole[0], whole[2], whole[1])
        width = p["n"] if on_left else p["m"]
        kept = p["m"] if on_left else p["n"]
        result = Operand(product.name, 0, whole)
        if width > WIDEST or tiles.offset or tiles.batches:
            raise _NotAFamily
        if tiles.strides == (batch, n, 1) and (kept, p["k"]) == (m, n):
            return Consumed(product.name, tiles.buffer, True, right, result, width)
        if tiles.strides == (batch, 1, n) and (kept, p["k"]) == (n, m):
            return Consumed(product.name, tiles.buffer, False, right, result, width)
        raise _NotAFamily


def loops_making(space: Sequence[int], points: int) -> int | None:
    """How many of the first loops make `points`."""
    done = 1
    for k, n in enumerate(space):
        if done == points:
            return k
        done *= n
    return len(space) if done == points else None


# ---------------------------------------------------------------------------------- units


@dataclass(eq=False)
class _Unit:
    """A step, or an output of a family, while the order is decided."""

    place: int
    item: Scheduled | Scores
    reads: set[str]
    writes: set[str]
    after: set[_Unit] = field(default_factory=set)  # units that must come later
    before: set[_Unit] = field(default_factory=set)


def without_scores(
    order: Sequence[Scheduled], table: BufferTable, outputs: Collection[str]
) -> list[Scheduled | Scores]:
    """The steps with every family of scores replaced by kernels over its tiles."""
    readers = _Readers(order, outputs)
    taken: set[int] = set()
    found: list[tuple[Family, dict[int, int]]] = []
    for seed, item in enumerate(order):
        if seed in taken or not _may_be_tiles(product_of(item, table)):
            continue
        for more in (True, False):
            try:
                family, steps, places = _Search(readers, table, seed, more).family()
            except _NotAFamily:
                continue
            if not steps & taken:
                taken |= steps
                found.append((family, places))
                break
    if not found:
        return list(order)
    units = _units(order, taken, found)
    for family, _ in found:
        own = [u for u in units if isinstance(u.item, Scores) and u.item.family is family]
        for by_rows in (False, True):
            _merge([u for u in own if isinstance(u.item, Scores) and u.item.by_rows is by_rows],
                   units)  # fmt: skip
    return _in_order(units)


def _units(
    order: Sequence[Scheduled],
    taken: set[int],
    families: Sequence[tuple[Family, Mapping[int, int]]],
) -> list[_Unit]:
    """The steps that stay and the outputs of the families, with what must come before what."""
    units: list[_Unit] = []
    for step, item in enumerate(order):
        if step in taken:
            continue
        if isinstance(item, Kernel):
            reads = {a.buffer for m in item.members for a in m.body.reads}
            writes = {n for m in item.members for n in m.writes}
        else:
            reads, writes = set(item.reads), set(item.writes)
        units.append(_Unit(step, item, reads, writes))
    number = 0
    for family, places in families:
        for op in family.ops:
            if isinstance(op, Consumed | RowValue):
                made = Scores(f"scores{number}", family, [op])
                number += 1
                units.append(_Unit(places[id(op)], made, set(made.reads), set(made.writes)))
    units.sort(key=lambda u: u.place)
    writers: dict[str, list[_Unit]] = {}
    users: dict[str, list[_Unit]] = {}
    for unit in units:
        for name in unit.reads:
            unit.before.update(writers.get(name, ()))
            users.setdefault(name, []).append(unit)
        for name in unit.writes:
            unit.before.update(writers.get(name, ()))
            unit.before.update(users.get(name, ()))
            writers.setdefault(name, []).append(unit)
        unit.before.discard(unit)
        for other in unit.before:
            other.after.add(unit)
    return units


def _merge(own: list[_Unit], units: list[_Unit]) -> None:
    """Outputs of one direction in one kernel, where no other unit lies between them."""
    kept: list[_Unit] = []
    for unit in own:
        host = next((h for h in reversed(kept) if not _between(h, unit)), None)
        if host is None:
            kept.append(unit)
            continue
        assert isinstance(host.item, Scores)
        assert isinstance(unit.item, Scores)
        host.item.outputs += unit.item.outputs
        host.place = max(host.place, unit.place)
        for other in unit.before - {host}:
            other.after.discard(unit)
            other.after.add(host)
            host.before.add(other)
        for other in unit.after - {host}:
            other.before.discard(unit)
            other.before.add(host)
            host.after.add(other)
        host.before.discard(unit)
        host.after.discard(unit)
        units.remove(unit)


def _between(first: _Unit, last: _Unit) -> bool:
    """Whether some unit must run after the one and before the other."""
    for start, end in ((first, last), (last, first)):
        pending = [u for u in start.after if u is not end]
        seen = set(pending)
        while pending:
            for unit in pending.pop().after:
                if unit is end:
                    return True
                if unit not in seen:
                    seen.add(unit)
                    pending.append(unit)
    return False


def _in_order(units: Sequence[_Unit]) -> list[Scheduled | Scores]:
    """The units in an order that respects what must come before what, near the old one."""
    waiting = {u: len(u.before) for u in units}
    numbers = {u: k for k, u in enumerate(units)}
    ready = [(u.place, numbers[u]) for u in units if not waiting[u]]
    heapq.heapify(ready)
    found: list[Scheduled | Scores] = []
    while ready:
        _, number = heapq.heappop(ready)
        unit = units[number]
        found.append(unit.item)
        for later in unit.after:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (later.place, numbers[later]))
    assert len(found) == len(units)
    return found
