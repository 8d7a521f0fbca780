"""One kernel as one C function.

Input: a scheduled kernel, the dtypes of buffers and which of them are read outside it.  Output:
the text of a static C function with its parameters, the workspace it needs and the bounds it
checks.

The rows of the kernel run in parallel; along a row each even stage is a vectorised loop and each
odd stage scalar code.  Reductions over rows accumulate in one partial result for each block of
rows; blocks are fixed by the shape alone and merged in order, so the bits do not depend on the
number of threads.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from stax.backends.c.abreast import ROWS, how_many, rows_abreast
from stax.backends.c.along import element_loop, position_of_extreme
from stax.backends.c.attention import AttentionEmitter
from stax.backends.c.folds import LANES, SHARE
from stax.backends.c.frame import KernelSource
from stax.backends.c.handler import (
    INNER_DEPTH,
    ROW_DEPTH,
    CValue,
    store_text,
)
from stax.backends.c.lanes import Loop, has_checks
from stax.backends.c.merging import BLOCKS, ReductionFrame
from stax.backends.c.moments import (
    Samples,
    Stage,
)
from stax.backends.c.reductions import Accumulator, OpenReduction
from stax.backends.c.serial import SerialEmitter
from stax.backends.c.stacks import emit_stack, over_rows
from stax.backends.c.tiles import TILE_BOUNDS
from stax.backends.c.triangles import LEAST_LENGTH, beyond, needed, pays
from stax.dtypes import DType
from stax.loops.ranges import point
from stax.loops.scalar_ops import SCALAR_OPS, c_type, compute_dtype, is_half, type_tag
from stax.loops.symbolic import (
    Expr,
    affine_coefficients,
    as_expr,
    symbol,
)
from stax.schedule.attention import Attention
from stax.schedule.kernel import Kernel, Member, Role, row_major
from stax.schedule.stack import Stack

FLAT_BLOCK = 8192
GROUP = 64  # rows that go through the stages together
SHORT_ROW = 512  # elements of a row up to which its scalar work is worth a loop of its own
GROUP_MARK = "// group"


def emit_kernel(
    kernel: Kernel,
    dtypes: Mapping[str, DType],
    escapes: Callable[[str], bool],
    plain: bool = False,
    block_lines: Callable[..., BlockLines] | None = None,
) -> KernelSource:
    """The C function of `kernel`; `escapes(buffer)` says whether others read what it writes.

    A `plain` one has the same bits, less text and slower loops: one vector at a time, real
    divisions, nothing fetched ahead.  `block_lines` are the loops of a stage over scores: as here,
    or what was printed before.
    """
    if isinstance(kernel, Attention):
        stage_lines = functools.partial(block_lines or print_block, dtypes, kernel.shape[1], plain)
        return replace(AttentionEmitter(kernel, dtypes, stage_lines).run(), plain=plain)
    if isinstance(kernel, Stack):
        return emit_stack(kernel, dtypes, lambda stage: _stage_lines(stage, dtypes))
    serial = kernel.members[0].role is Role.SERIAL
    frame = (SerialEmitter if serial else NestEmitter)(kernel, dtypes, escapes)
    frame.emitter.plain = plain
    return frame.run()


def _stage_lines(kernel: Kernel, dtypes: Mapping[str, DType]) -> tuple[list[str], list[str]]:
    """The parameters of a stage of a stack, and its loop nest over the rows [first, last)."""
    emitter = NestEmitter(kernel, dtypes, lambda name: True)
    emitter.emitter.points = 0  # tiles are in the cache
    return emitter.parameters, over_rows(emitter.lines(), emitter.rows[0])


BlockLines = tuple[list[str], list[str], dict[str, list[str]]]


def print_block(
    dtypes: Mapping[str, DType],
    rows: int,
    plain: bool,
    kernel: Kernel,
    visible: Callable[[str], bool],
) -> BlockLines:
    """The parameters of a stage over scores, its loops over the rows from `first` to `last`, and
    of buffers that rows do not read to their end, the statements that say how far `row` does, where
    the last of a block's `rows` reads furthest.
    """
    emitter = NestEmitter(kernel, dtypes, visible)
    emitter.emitter.plain = plain
    lines = emitter.between()
    single = emitter.rows[-1] == rows
    return emitter.parameters, lines, emitter.limits(lines) if single else {}


class NestEmitter(ReductionFrame):
    """Prints a nest of loops over independent rows."""

    def __init__(
        self, kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
    ) -> None:
        super().__init__(kernel, dtypes, escapes)
        self.later: set[str] = self._read_later()
        self.grouped = False
        self.group_arrays: list[str] = []
        self.near: list[tuple[Expr, str]] = []  # loops that end where a mask begins, and where
        self.abreast = 1  # rows whose elements one loop merges into columns

    def _read_later(self) -> set[str]:
        """Values along the row that a later stage of the kernel reads."""
        found = set()
        for member in self.kernel.members:
            for access in member.body.reads:
                maker = self.kernel.writers.get(access.buffer)
                if maker is not None and maker.role is Role.FULL and maker.stage < member.stage:
                    found.add(access.buffer)
        return found

    # ---------------------------------------------------------------- the function

    def lines(self) -> list[str]:
        """The loops over rows around the stages."""
        self.grouped = self._groups_rows()
        merged = any(m.role in (Role.COLUMN, Role.ALL) for m in self.kernel.members)
        blocked = merged or self.grouped
        n_rows = math.prod(self.rows)
        if not self.rows and blocked and self.along and self.along[0] > FLAT_BLOCK:
            return self._flat_blocks()
        self.blocks = 1
        if blocked and self.rows:
            self.blocks = min(BLOCKS, n_rows)
        tiles, columns = self.tiles(), self.columns()
        self._stages(*(TILE_BOUNDS if tiles else ("",)))
        row = self.emitter.row.lines
        if tiles:
            return self.tiled(tiles, row)
        if not self.rows:
            head = self.block_lines
            return [*head, *row, *self.block_end, *self.final]
        if not blocked:
            return [*columns, *self.row_loops(row)]
        per_block = -(-n_rows // self.blocks)
        self.blocks = -(-n_rows // per_block)
        body = [
            f"int64_t last = (block + 1) * {per_block};",
            f"if (last > {n_rows}) last = {n_rows};",
            *self.block_lines,
            *self._block_rows(f"block * {per_block}", row),
            *self.block_end,
        ]
        # In terms of the blocks, so that sizes differ in numbers that differ anyway (see `forms`).
        shares = f"({self.blocks} + {SHARE - 1}) / {SHARE}"
        if self.share_lines:
            over = f"for (int64_t share = 0; share < {shares}; share++) {{"
            body = self._share(body)
        else:
            over = f"for (int64_t block = 0; block < {self.blocks}; block++) {{"
        loop = [*self.pragma(collapse=0), over, *("    " + s for s in body), "}"]
        parts = {"@BLOCKS@": str(self.blocks), "@SHARES@": shares}
        final = [re.sub("@[A-Z]+@", lambda m: parts[m.group()], s) for s in self.final]
        return [*columns, *loop, *final]

    def _share(self, block: list[str]) -> list[str]:
        """The blocks of a share, one after the other."""
        lines = [
            f"int64_t parts = {self.blocks} - {SHARE} * share;",
            f"if (parts > {SHARE}) parts = {SHARE};",
            *self.share_lines,
        ]
        head = "for (int64_t part = 0; part < parts; part++) {"
        body = [f"int64_t block = {SHARE} * share + part;", *block]
        return [*lines, head, *("    " + s for s in body), "}", *self.share_end]

    def between(self) -> list[str]:
        """The stages on the rows from `first` to `last`, which the text around them declares."""
        self._stages("")
        return self._block_rows("first", self.emitter.row.lines)

    def _block_rows(self, first: str, row: list[str]) -> list[str]:
        """The loop over the rows of a block, or one for each group of stages (see `_cut_group`)."""
        decode = self._decode("row")
        if not self.grouped:
            body = [*decode, *row]
            head = f"for (int64_t row = {first}; row < last; row += {self.abreast}) {{"
            return [head, *("    " + s for s in body), "}"]
        lines = [
            f"for (int64_t base = {first}; base < last; base += {GROUP}) {{",
            f"    int64_t stop = base + {GROUP} < last ? base + {GROUP} : last;",
            *("    " + s for s in self.group_arrays),
        ]
        groups: list[list[str]] = [[]]
        for s in row:
            if s == GROUP_MARK:
                groups.append([])
            else:
                groups[-1].append(s)
        for k, group in enumerate(groups):
            pragma = ["    #pragma omp simd"] if k % 2 else []
            body = ["        " + s for s in (*decode, *group)]
            lines += [*pragma, "    for (int64_t row = base; row < stop; row++) {", *body, "    }"]
        return [*lines, "}"]

    def _groups_rows(self) -> bool:
        """Whether the scalar work between stages is long, beside short rows, and so vectorised.

        Then a block goes through the stages in groups of rows: what the next stage needs of a row
        is kept in small arrays, and the scalar stage is a loop over the rows of the group.
        """
        if len(self.rows) != 1 or self.rows[0] < GROUP or math.prod(self.along) > SHORT_ROW:
            return False
        members = self.kernel.members
        if self.later or any(i.op == "check" for m in members for i in m.body.instrs):
            return False
        rows = {name: row for name, row in SCALAR_OPS.items() if row.transcendental}
        return any(
            m.role is Role.OUTER and m.stage > 0 and any(i.op in rows for i in m.body.instrs)
            for m in members
        )

    def _cut_group(self, stage: int) -> None:
        """End a group of stages: keep the row's values that later stages read in arrays."""
        emitter = self.emitter
        later = [m for m in self.kernel.members if m.stage > stage]
        wanted = {a.buffer for m in later for a in m.body.reads}
        for name, value in emitter.forwarded.items():
            if value.depth != ROW_DEPTH or name not in wanted or "[" in value.text:
                continue
            array = emitter.fresh("r")
            self.group_arrays.append(f"{c_type(value.dtype)} {array}[{GROUP}];")
            kept = f"{array}[row - base]"
            emitter.row.lines.append(f"{kept} = {value.text};")
            emitter.forwarded[name] = CValue(kept, value.dtype, ROW_DEPTH)
        emitter.row.lines.append(GROUP_MARK)
        emitter.row.known = {}

    def _flat_blocks(self) -> list[str]:
        """A reduction of one long loop: blocks of fixed length, merged in order."""
        n = self.along[0]
        block = FLAT_BLOCK
        while -(-n // block) > 4096:
            block *= 2
        self.blocks = -(-n // block)
        self._stages("first", "last")
        lines = [
            *self.pragma(collapse=0),
            f"for (int64_t block = 0; block < {self.blocks}; block++) {{",
            f"    int64_t first = block * {block}, last = first + {block};",
            f"    if (last > {n}) last = {n};",
            *("    " + s for s in (*self.block_lines, *self.emitter.row.lines, *self.block_end)),
            "}",
            *self.final,
        ]
        return [s.replace("@BLOCKS@", str(self.blocks)) for s in lines]

    def _decode(self, flat: str) -> list[str]:
        """The row's coordinates from its number."""
        lines = []
        strides = row_major(self.rows)
        for k, (n, stride) in enumerate(zip(self.rows, strides, strict=True)):
            text = flat if stride == 1 else f"{flat} / {stride}"
            if k:
                text = f"({text}) % {n}"
            lines.append(f"int64_t {self.row_symbols[k].name} = {text};")
        return lines

    # ---------------------------------------------------------------- stages

    def _stages(self, first: str, last: str = "") -> None:
        stages = sorted({m.stage for m in self.kernel.members})
        top = max(stages) + 1
        pending: list[OpenReduction] = []
        for stage in range(-1, top + 1):
            members = [m for m in self.kernel.members if m.stage == stage]
            if stage % 2 == 0:
                if members:
                    pending = self._loop(members, first, last)
                continue
            for found in pending:
                self.finish_row(found)
            pending = []
            cut = self.grouped and stage > 0 and bool(members)
            if cut:
                self._cut_group(stage - 1)
            for member in members:
                self.begin(member)
                values: dict[int, CValue] = {}
                body = member.body
                self.emitter.emit(body.instrs, self.at(member), values, 0, len(body.instrs))
            if cut:
                self._cut_group(stage)
        self.finish_blocks()

    def _loop(self, members: list[Member], first: str, last: str) -> list[OpenReduction]:
        emitter = self.emitter
        emitter.inner.lines, emitter.inner.known = [], {}
        cuts = self.cuts(members) if not first else []
        if cuts:
            self._segments(members, cuts)
            return []
        opened: list[OpenReduction] = []
        self.sums = {}
        for member in members:
            self.begin(member)
            mark = emitter.inner.mark
            instrs = member.body.instrs
            values: dict[int, CValue] = {}
            stop = member.body.split_point
            emitter.emit(instrs, self.at(member), values, 0, stop)
            if stop < len(instrs):
                opened.append(self.opened(member, stop, values))
                if opened[-1].twin is not None:
                    emitter.inner.forget(mark)
        if not first and not emitter.plain and self._few_columns(opened, members):
            self._put_abreast(opened)
        if not self.along:
            emitter.row.lines.append("{")
            emitter.row.lines.extend("    " + s for s in emitter.inner.lines)
            emitter.row.lines.append("}")
        else:
            parts = None if first else self._in_two(members, opened)
            emitter.row.lines.extend(parts or self._along_loops(opened, first, last))
        for name in [n for n, m in self.kernel.writers.items() if m in members]:
            if self.kernel.writers[name].role is Role.FULL:
                emitter.forwarded.pop(name, None)
        return opened

    def _in_two(self, members: list[Member], opened: list[OpenReduction]) -> list[str] | None:
        """A loop up to where a mask begins, and one that knows of the mask; None without one."""
        emitter, roles = self.emitter, (Role.FULL, Role.ROW, Role.ALL)
        plain = all(m.role in roles for m in members) and self.rows and len(self.along) == 1
        simple = all(
            r.accumulator is not None and r.accumulator.simple and not r.sample and not r.place
            for r in opened
        )
        n = self.along[-1]
        if not plain or not simple or n < LEAST_LENGTH or has_checks(emitter.inner.lines):
            return None
        found = beyond([(m.body.instrs, self.at(m)) for m in members], self.along_symbols[0])
        if found is None or emitter.expr_depth(found.start) > ROW_DEPTH:
            return None
        lines, emitter.inner.lines, emitter.inner.known = emitter.inner.lines, [], {}
        merges = {id(r.member): r for r in opened}
        rest: list[Accumulator] = []
        for k, member in enumerate(members):
            self.begin(member)
            values: dict[int, CValue] = {}
            start, stop = 0, member.body.split_point
            for (body, place), outcome in found.outcomes.items():
                if body == k and place < stop:
                    emitter.emit(member.body.instrs, self.at(member), values, start, place)
                    text, dtype = str(int(outcome)), member.body.instrs[place].dtype
                    values[place] = CValue(text, dtype, 0, point(int(outcome)))
                    start = place + 1
            emitter.emit(member.body.instrs, self.at(member), values, start, stop)
            merge = merges.get(id(member))
            if merge is not None:
                assert merge.accumulator is not None
                rest.append(copy.copy(merge.accumulator))
                args = [values[a] for a in member.body.instrs[stop].args]
                emitter.inner.lines += rest[-1].update(args)
        masked, emitter.inner.lines = needed(emitter.inner.lines), lines
        if not pays(lines, masked):
            return None
        cut, name = emitter.fresh("cut"), self.along_symbols[0].name
        all_of = [r.accumulator for r in opened if r.accumulator is not None]
        whole = n % LANES == 0
        near = element_loop(
            Loop(name, "0", cut, n, whole), lines, all_of, emitter, self.ahead(opened)
        )
        far = element_loop(Loop(name, cut, str(n), n, whole), masked, rest, emitter)
        self.near.append((found.start, "\n".join(near.inside)))
        return [
            *self._cut(cut, found.start),
            *near.before,
            *near.inside,
            *far.inside,
            *near.after,
        ]

    def limits(self, lines: list[str]) -> dict[str, list[str]]:
        """For buffers read up to a mask, the same for all readers: how far, as `upto` of `row`."""
        text, row = "\n".join(lines), self.row_symbols[-1]
        found: dict[str, list[str]] = {}
        for name, pointer in self.emitter.pointers.items():
            read = f"{pointer}["
            starts = {start for start, near in self.near if read in near}
            if len(starts) != 1 or text.count(read) != sum(n.count(read) for _, n in self.near):
                continue
            (start,) = starts
            steps = affine_coefficients(start, (row,))
            if steps is not None and start.symbols == {row} and steps[row] > 0:
                found[name] = [*self._decode("row"), *self._cut("upto", start)]
        return found

    def _cut(self, name: str, start: Expr) -> list[str]:
        """Where the second of two loops begins in a row: lanes stay with their elements."""
        n = self.along[-1]
        place = self.emitter.index_text(start)
        return [
            f"int64_t {name} = ({place} + {LANES - 1}) / {LANES} * {LANES};",
            f"{name} = {name} < 0 ? 0 : {name} < {n} ? {name} : {n};",
        ]

    def _few_columns(self, opened: list[OpenReduction], members: list[Member]) -> bool:
        """Whether the kernel merges rows into columns, a multiple of four a block, and no more."""
        alone = len(members) == len(self.kernel.members) == len(opened)
        if not alone or len(self.rows) != 1 or len(self.along) != 1:
            return False
        per_block = -(-self.rows[0] // self.blocks)
        columns = all(r.member.role is Role.COLUMN and not r.sample for r in opened)
        return columns and self.rows[0] % ROWS == 0 and per_block % ROWS == 0

    def _put_abreast(self, opened: list[OpenReduction]) -> None:
        """Replace the statements of a row by those of several, where they are few."""
        position = self.along_position()
        columns = [
            (c_type(dtype), f"{name}[{position}]")
            for r in opened
            for name, dtype in zip(r.names, r.dtypes, strict=True)
        ]
        emitter, row = self.emitter, self.row_symbols[0].name
        reads = {a.buffer for r in opened for a in r.member.body.reads}
        count = how_many(self.kernel.numel * sum(self.dtypes[b].itemsize for b in reads))
        found = rows_abreast(count, row, emitter.row.lines, emitter.inner.lines, columns)
        if found is not None:
            emitter.row.lines[:], emitter.inner.lines[:] = found
            self.abreast = count

    def _segments(self, members: list[Member], cuts: list[int]) -> None:
        """One loop for each piece, in which the conditions on the loop variable are decided."""
        emitter = self.emitter
        whole, n = self.along_symbols[0], self.along[0]
        kept = dict(self.indexes)
        for start, stop in itertools.pairwise([0, *cuts, n]):
            part = symbol(whole.name, start, stop - 1)
            emitter.depth_of[part] = INNER_DEPTH
            emitter.inner.lines, emitter.inner.known = [], {}
            for member in members:
                self.begin(member)
                mapping = {whole: as_expr(part)}
                self.indexes[id(member)] = tuple(e.substitute(mapping) for e in kept[id(member)])
                body = member.body
                emitter.emit(body.instrs, self.at(member), {}, 0, len(body.instrs))
            loop = Loop(whole.name, str(start), str(stop), stop - start)
            lines = element_loop(loop, emitter.inner.lines, [], emitter).inside
            if not self.rows and self.parallel:
                lines = self._on_threads(lines)
            emitter.row.lines.extend(lines)
            for name, maker in self.kernel.writers.items():
                if maker in members:
                    emitter.forwarded.pop(name, None)
        self.indexes = kept

    def _on_threads(self, lines: list[str]) -> list[str]:
        """A loop whose iterations are independent, with its pragma for threads."""
        pragma = self.pragma(0)[0]
        if lines[0].startswith("#pragma omp simd"):
            return [pragma.replace("parallel for", "parallel for simd"), *lines[1:]]
        return [pragma, *lines]

    def _along_loops(self, opened: list[OpenReduction], first: str, last: str) -> list[str]:
        outer = [
            f"for (int64_t {s.name} = 0; {s.name} < {n}; {s.name}++) {{"
            for s, n in zip(self.along_symbols[:-1], self.along[:-1], strict=True)
        ]
        name, n = self.along_symbols[-1].name, self.along[-1]
        loop = Loop(name, first or "0", last or str(n), n)
        inner = self.emitter.inner.lines
        updated = [r.accumulator for r in opened if r.accumulator is not None and not r.sample]
        samples = [
            Samples(r.sample, r.plain, r.accumulator.names, r.member.role is Role.ALL)
            for r in opened
            if r.sample is not None and r.plain is not None and r.accumulator is not None
        ]
        for r in opened:
            if r.place and not samples and r.accumulator is not None:
                r.accumulator.place = r.place
        total = math.prod(self.along) if not first else min(n, FLAT_BLOCK)
        stage = Stage(outer, loop, total, inner, updated, samples, self.ahead(opened))
        lines = stage.printed(self.emitter)
        alone = not self.rows and not first and len(self.along) == 1 and not opened
        if alone and self.parallel:
            lines = self._on_threads(lines)
        for r in opened:
            if r.place:
                assert r.accumulator is not None
                lines += position_of_extreme(loop, inner, r.value, r.accumulator, r.place)
        return lines

    # ---------------------------------------------------------------- stores

    def store(
        self, buffer: str, index: Expr, mode: str, operands: list[CValue], depth: int
    ) -> None:
        """Write an element, and let readers in the same loop take it from its C variable."""
        member = self.present
        assert member is not None
        emitter = self.emitter
        dtype = self.dtypes[buffer]
        value = operands[0]
        full = member.role in (Role.FULL, Role.COLUMN)
        scope = emitter.inner if full else emitter.row
        if is_half(dtype):
            stored = store_text(value, dtype)
            name = emitter.fresh("h")
            scope.lines.append(f"{c_type(dtype)} {name} = {stored};")
            stored = name
            back = CValue(
                f"stax_{type_tag(dtype)}_to_f32({name})",
                compute_dtype(dtype),
                INNER_DEPTH if full else ROW_DEPTH,
            )
            value = emitter.define(("stored", name), back.text, compute_dtype(dtype), back.depth)
        else:
            stored = value.text
        if self.escapes(buffer):
            position = emitter.index_text(index)
            scope.lines.append(f"{emitter.pointers[buffer]}[{position}] = {stored};")
        if member.role in (Role.COLUMN, Role.ALL):
            return
        emitter.forwarded[buffer] = value
        if member.role is Role.FULL and buffer in self.later and not self.escapes(buffer):
            kept = emitter.scratch.get(buffer, "")
            if not kept:
                array = emitter.fresh("s")
                n = math.prod(self.along)
                ct = c_type(compute_dtype(dtype))
                emitter.row.lines += self.room(array, ct, n, member.stage)
                kept = f"{array}[{self.along_position()}]"
            scope.lines.append(f"{kept} = {value.text};")
            emitter.scratch[buffer] = kept
