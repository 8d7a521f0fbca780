"""Attention: products, and the rows of scores between them, run together on blocks of rows.

Input: a schedule.  Output: the same with families of steps over one matrix of scores as one
`Attention` each.  A family starts with a batched product [b, m, n] over a short contraction.  The
kernels that work on its rows, the products of that shape which they read too, and the products
that contract the rows belong to it.  All of them run on one block of rows after another, so a
matrix that nobody else reads exists as a block in the cache and nowhere in memory: the scores of
attention, its weights, and their derivatives, with whatever scale, mask and bias lies between.  A
block holds whole rows, so a row's maximum and sum are known where they are needed, and every value
is computed by the operations of the separate steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stax.loops.buffers import BufferTable, ExternBuffer, ExternInput
from stax.loops.contract import WIDEST, are_scores
from stax.loops.layout import contiguous_strides
from stax.loops.symbolic import Expr, as_expr, linearize
from stax.schedule.fusion import CallStep, Scheduled
from stax.schedule.kernel import (
    Kernel,
    Member,
    Role,
    access_of,
    common_refinement,
    cut_at,
    mapped_indexes,
    space_symbols,
)
from stax.schedule.stack import Stack

BLOCK = 48  # rows
BLOCK_BYTES = 1 << 19  # of a block of scores
GRANULE = 12  # rows of a block are a multiple of it, if there are as many
UNITS = 8  # pieces of work that there should be, for threads
PARTS = 8  # of the working memory, each used by one thread
LINE = 128  # bytes that the columns of a packed operand are rounded to
MOST_STEPS = 12  # of the program between the first and the last of a family


@dataclass(frozen=True)
class View:
    """A matrix for each batch: where it starts in its buffer and how it is laid out."""

    buffer: str
    offset: int
    batches: tuple[tuple[int, int], ...]  # (extent, stride), outermost first
    rows: int
    columns: int

    @property
    def turned(self) -> View:
        """The transposed matrices."""
        return replace(self, rows=self.columns, columns=self.rows)


@dataclass(frozen=True)
class Made:
    """A product that makes scores: `left` [m, inner] times `right` [inner, n]."""

    buffer: str
    left: View
    right: View
    inner: int


@dataclass(frozen=True)
class Used:
    """A product that contracts scores, with `other` [contracted, width].

    Over their columns it leaves [m, width], over their rows (`by_rows`) [n, width]; `turned`
    results lie in memory as [width, m] and [width, n].
    """

    buffer: str
    scores: str
    other: View
    width: int
    by_rows: bool
    turned: bool


Stage = Made | Used | Kernel


@dataclass(eq=False)
class Attention(Kernel):
    """Stages in order, run on blocks of `block` rows; `tiles` exist as blocks only.

    Attributes:
      shape: batch, rows and columns of the scores.
      tiles: the slot of each matrix that is not in memory.
      kept: buffers in memory that one stage writes and a later one reads.
      pieces: into how many pieces the rows of a batch are divided, each a unit of work.
    """

    shape: tuple[int, int, int] = (0, 0, 0)
    stages: list[Stage] = field(default_factory=list)
    tiles: dict[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    block: int = 0
    pieces: int = 1
    makes: list[str] = field(default_factory=list)
    takes: list[str] = field(default_factory=list)

    @property
    def accesses(self) -> tuple[list[str], list[str]]:
        return self.takes, self.makes

    @property
    def stored(self) -> list[str]:
        return self.makes

    @property
    def units(self) -> int:
        """Pieces of work that are independent of each other."""
        return self.shape[0] * self.pieces

    @property
    def piece(self) -> int:
        """Rows of a piece."""
        blocks = -(-self.shape[1] // self.block)
        return -(-blocks // self.pieces) * self.block

    @property
    def flops(self) -> int:
        """Operations of the products."""
        widths = [s.inner if isinstance(s, Made) else s.width for s in self.products]
        return 2 * math.prod(self.shape) * sum(widths)

    @property
    def products(self) -> list[Made | Used]:
        """The stages that are products."""
        return [s for s in self.stages if not isinstance(s, Kernel)]


def with_attention(
    order: Sequence[Scheduled], outputs: Collection[str], table: BufferTable
) -> list[Scheduled]:
    """The schedule with every family of steps over scores as one kernel."""
    found = list(order)
    place = count = 0
    while place < len(found):
        if _makes_scores(found[place], table) is not None:
            family = _Family(found, place, outputs, table)
            made = family.kernel(f"attention{count}")
            count += 1
            found = family.replaced(made)
            place = found.index(made)
        place += 1
    return found


def product_of(item: Scheduled, table: BufferTable) -> ExternBuffer | None:
    """The result of a step that is a matrix product."""
    if not isinstance(item, CallStep):
        return None
    buffer = table[item.writes[0]]
    if isinstance(buffer, ExternBuffer) and buffer.extern_kind == "matmul":
        return buffer
    return None


def _sizes(product: ExternBuffer) -> tuple[int, int, int, int]:
    p = product.params
    return p["b"], p["m"], p["n"], p["k"]


def _makes_scores(item: Scheduled, table: BufferTable) -> ExternBuffer | None:
    """The result of a step, if it may be a matrix of scores."""
    product = product_of(item, table)
    if product is None:
        return None
    return product if are_scores(*_sizes(product), product.dtype) else None


def view_of(operand: ExternInput) -> View:
    """An operand of a product as matrices."""
    layout = operand.layout
    strides = [s if n > 1 else 0 for s, n in zip(layout.strides, layout.shape, strict=True)]
    batches = [(n, s) for n, s in zip(layout.shape, strides[:-2], strict=False) if n > 1]
    return View(operand.buffer, int(layout.offset), tuple(batches), strides[-2], strides[-1])


class _Family:
    """The steps over the scores that one product makes."""

    def __init__(
        self,
        order: Sequence[Scheduled],
        seed: int,
        outputs: Collection[str],
        table: BufferTable,
    ) -> None:
        self.order, self.outputs, self.table = order, outputs, table
        product = product_of(order[seed], table)
        assert product is not None
        b, m, n, _ = _sizes(product)
        self.shape, self.dtype, self.seed = (b, m, n), product.dtype, seed
        self.space: tuple[int, ...] = tuple(e for e in self.shape if e != 1)
        self.writers: dict[str, list[int]] = {}
        for place, item in enumerate(order):
            for name in dict.fromkeys(item.accesses[1]):
                self.writers.setdefault(name, []).append(place)
        self.wanted = {seed}  # products that make scores
        self.given: set[str] = set()  # matrices that its kernels read from memory
        self.first = seed
        known: object = None
        while known != (len(self.wanted), self.space, self.first):
            known = len(self.wanted), self.space, self.first
            self._walk()
            self.given |= self.matrices - self.made
            self.first = min(self.first, *self.wanted, *self._earlier())

    def _walk(self) -> None:
        """Go through the program once and take in what fits, in the loops known so far."""
        self.steps: dict[int, Stage] = {}
        self.late: list[int] = []  # steps of others that depend on the family
        self.made: set[str] = set()  # what the family writes
        self.matrices = {*self.given}  # matrices of scores that the family touches
        self.results: set[str] = set()  # of products that contract those
        self.rows: dict[str, Expr] = {}  # where its values of rows are written
        tainted: set[str] = set()  # what others make of its results
        acting = False  # whether a call whose order may show is among those
        self.last = self.first
        for place in range(self.first, min(self.seed + MOST_STEPS, len(self.order))):
            item = self.order[place]
            reads, writes = item.accesses
            after = not tainted.isdisjoint([*reads, *writes])
            stage = None if after else self._stage(place, item)
            if stage is not None:
                self.steps[place] = stage
                self.last = place
                self.made.update(writes)
                self.results.update(writes if isinstance(stage, Used) else ())
                continue
            called = isinstance(item, CallStep) and product_of(item, self.table) is None
            if after or not self.made.isdisjoint(reads) or (called and acting):
                tainted.update(writes)
                self.late.append(place)
                acting |= called

    def _earlier(self) -> Iterator[int]:
        """The steps from which on products contract matrices that the family reads."""
        yield self.seed
        for place in range(max(0, self.seed - MOST_STEPS), self.first):
            product = product_of(self.order[place], self.table)
            if product is not None and not self.given.isdisjoint(product.input_names):
                if self._used(product, *(view_of(i) for i in product.inputs)) is not None:
                    yield place

    def _stage(self, place: int, item: Scheduled) -> Stage | None:
        """The step as a stage of the family, if it is one."""
        if any(len(self.writers[n]) > 1 for n in item.accesses[1]):
            return None
        if isinstance(item, Kernel):
            return self._rowwise(item)
        product = product_of(item, self.table)
        if product is None or product.dtype != self.dtype:
            return None
        left, right = (view_of(i) for i in product.inputs)
        if place not in self.wanted:
            return self._used(product, left, right)
        if left.buffer in self.made or right.buffer in self.made:
            return None
        self.matrices.add(product.name)
        return Made(product.name, left, right, product.params["k"])

    def _used(self, product: ExternBuffer, left: View, right: View) -> Used | None:
        """A product that contracts scores: one of its operands is a whole matrix of them."""
        b, m, n = self.shape
        pb, pm, pn, _ = _sizes(product)
        for scores, other, kept, width, turned in (
            (left, right, pm, pn, False),
            (right.turned, left.turned, pn, pm, True),
        ):
            if scores.buffer not in self.matrices or other.buffer in self.made:
                continue
            if pb != b or width > WIDEST or scores.offset:
                continue
            extents = [e for e, _ in scores.batches]
            dense = [s * m * n for s in contiguous_strides(extents)]
            if [s for _, s in scores.batches] != dense or math.prod(extents) != b:
                continue
            if (scores.rows, scores.columns, kept) == (n, 1, m):
                return Used(product.name, scores.buffer, other, width, False, turned)
            if (scores.rows, scores.columns, kept) == (1, n, n):
                return Used(product.name, scores.buffer, other, width, True, turned)
        return None

    def _rowwise(self, kernel: Kernel) -> Kernel | None:
        """The kernel in the loops of the family, if each of its rows needs that row alone."""
        b, m, n = self.shape
        if isinstance(kernel, Stack | Attention) or kernel.numel != b * m * n:
            return None
        if kernel.split is not None and math.prod(kernel.rows) != b * m:
            return None
        if not any(self._is_matrix(a) and a in self.matrices for a in kernel.reads):
            return None
        space = common_refinement(self.space, kernel.space)
        cut = None if space is None else cut_at(space, b * m)
        if cut is None or cut[0] != space:
            return None
        rowwise = Kernel(kernel.name, *cut)
        own = linearize([as_expr(s) for s in space_symbols(space)], contiguous_strides(space))
        rows: dict[str, Expr] = {}
        for old in kernel.members:
            member = Member(old.body, old.role, old.dims, old.stage)
            if member.role not in (Role.FULL, Role.ROW, Role.OUTER):
                return None
            if any(i.op in ("check", "bind", "scan") for i in member.body.instrs):
                return None
            member.indexes = mapped_indexes(member, *cut)
            for name in member.writes:
                places = access_of(member, name, "store")
                if member.role is not Role.FULL:
                    rows[name] = places[0]
                elif places[0] is not own:
                    return None
            for name in {a.buffer for a in member.body.reads} & self.made:
                if name in self.results:
                    return None
                # What the family makes is known of the present row alone.
                place = self.rows.get(name, own)
                if any(e is not place for e in access_of(member, name, "load")):
                    self.space = space  # in these loops it may turn out to be
                    return None
            rowwise.add(member, partial=old.writes[0] in kernel.partial)
        self.space = space
        self.rows.update(rows)
        self.matrices.update(n for n in (*rowwise.reads, *rowwise.writers) if self._is_matrix(n))
        self._want(rowwise)
        return rowwise

    def _is_matrix(self, name: str) -> bool:
        buffer = self.table[name]
        return math.prod(buffer.shape) == math.prod(self.shape) and buffer.dtype == self.dtype

    def _want(self, kernel: Kernel) -> None:
        """The products of the family's shape that a kernel reads make scores too."""
        for name in filter(self._is_matrix, kernel.reads):
            for place in self.writers.get(name, ()):
                product = _makes_scores(self.order[place], self.table)
                near = abs(place - self.seed) < MOST_STEPS
                if product is not None and near and _sizes(product)[:3] == self.shape:
                    self.wanted.add(place)

    def kernel(self, name: str) -> Attention:
        """The family as a kernel."""
        stages = [self.steps[p] for p in sorted(self.steps)]
        rowwise = [s for s in stages if isinstance(s, Kernel)]
        outside = {
            n for p, item in enumerate(self.order) if p not in self.steps for n in item.accesses[0]
        }
        outside.update(self.outputs)
        makers: dict[str, int] = {}
        readers: dict[str, int] = {}  # the last stage, other than its maker, that reads it
        for k, stage in enumerate(stages):
            reads, writes = accesses_of(stage)
            makers.update((n, k) for n in writes)
            readers.update((n, k) for n in reads if makers.get(n, k) != k)
        between = {n: makers[n] for n in readers if n in makers}
        tiles = {n: k for n, k in between.items() if n not in outside and n in self.matrices}
        tiles.update(
            (s.buffer, makers[s.buffer])
            for s in stages
            if isinstance(s, Made) and s.buffer not in outside
        )
        b, m, n = self.shape
        space, split = cut_at(self.space, b * m) or (self.space, None)
        found = Attention(name, space, split, shape=self.shape, stages=stages)
        for kernel in rowwise:
            for member in kernel.members:
                found.add(member, partial=member.writes[0] in kernel.partial)
        found.tiles = slots(tiles, readers)
        found.kept = frozenset(n for n in between if n not in tiles)
        found.makes = [n for n in makers if n in found.kept or n in outside]
        taken = (n for stage in stages for n in accesses_of(stage)[0] if n not in makers)
        found.takes = list(dict.fromkeys(taken))
        found.reads = {*found.takes}
        rows = BLOCK_BYTES // (n * self.dtype.itemsize) // GRANULE * GRANULE
        found.block = min(m, max(GRANULE, min(rows, BLOCK)))
        blocks = -(-m // found.block)
        found.pieces = -(-blocks // -(-blocks // min(-(-UNITS // b), blocks)))
        return found

    def replaced(self, made: Attention) -> list[Scheduled]:
        """The schedule with the kernel in the place of the family's last step."""
        early = [
            item
            for p, item in enumerate(self.order[: self.last + 1])
            if p not in self.steps and p not in self.late
        ]
        late = [self.order[p] for p in self.late if p < self.last]
        return [*early, made, *late, *self.order[self.last + 1 :]]


def accesses_of(stage: Stage) -> tuple[list[str], list[str]]:
    """The buffers a stage reads and writes."""
    if isinstance(stage, Made):
        return [stage.left.buffer, stage.right.buffer], [stage.buffer]
    if isinstance(stage, Used):
        return [stage.scores, stage.other.buffer], [stage.buffer]
    return stage.accesses


def slots(tiles: Mapping[str, int], readers: Mapping[str, int]) -> dict[str, int]:
    """A slot for each matrix, made at a stage, that no other needs at the same time."""
    busy: list[int] = []  # the last stage that reads each slot
    found: dict[str, int] = {}
    for name, maker in sorted(tiles.items(), key=lambda t: t[1]):
        free = [slot for slot, last in enumerate(busy) if last < maker]
        found[name] = free[0] if free else len(busy)
        busy[found[name] : found[name] + 1] = [readers.get(name, maker)]
    return found
