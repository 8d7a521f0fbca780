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

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from stax.backends.c.along import element_loop, position_of_extreme
from stax.backends.c.frame import KernelSource
from stax.backends.c.handler import (
    INNER_DEPTH,
    ROW_DEPTH,
    CValue,
    literal,
    store_text,
)
from stax.backends.c.lanes import Loop
from stax.backends.c.moments import (
    HELD,
    Samples,
    Stage,
    before_difference,
    narrowed,
    one_more_row,
)
from stax.backends.c.placement import PlacedFrame
from stax.backends.c.reductions import (
    Accumulator,
    OpenReduction,
    combine_lines,
    component_dtypes,
)
from stax.backends.c.serial import SerialEmitter
from stax.backends.c.stacks import emit_stack, over_rows
from stax.backends.c.tiles import TILE_BOUNDS
from stax.dtypes import DType
from stax.loops.body import Instr
from stax.loops.moments import is_sample
from stax.loops.monoids import MONOIDS, Monoid
from stax.loops.scalar_ops import SCALAR_OPS, c_type, compute_dtype, is_half, type_tag
from stax.loops.symbolic import (
    Expr,
    as_expr,
    linearize,
    symbol,
)
from stax.schedule.kernel import Kernel, Member, Role, row_major
from stax.schedule.stack import Stack

BLOCKS = 64
# Blocks are merged as a tree, so that the error of a sum grows with the logarithm of their number.
_PAIRS_OF_BLOCKS = (
    "for (int64_t half = 1; half < @BLOCKS@; half *= 2)",
    "for (int64_t b = 0; b + half < @BLOCKS@; b += 2 * half) {",
)
FLAT_BLOCK = 8192
GROUP = 64  # rows that go through the stages together
SHORT_ROW = 512  # elements of a row up to which its scalar work is worth a loop of its own
GROUP_MARK = "// group"


def emit_kernel(
    kernel: Kernel,
    dtypes: Mapping[str, DType],
    escapes: Callable[[str], bool],
) -> KernelSource:
    """The C function of `kernel`; `escapes(buffer)` says whether others read what it writes."""
    if isinstance(kernel, Stack):
        return emit_stack(kernel, dtypes, lambda stage: _stage_lines(stage, dtypes))
    serial = kernel.members[0].role is Role.SERIAL
    emitter = SerialEmitter if serial else NestEmitter
    return emitter(kernel, dtypes, escapes).run()


def _stage_lines(kernel: Kernel, dtypes: Mapping[str, DType]) -> tuple[list[str], list[str]]:
    """The parameters of a stage of a stack, and its loop nest over the rows [first, last)."""
    emitter = NestEmitter(kernel, dtypes, lambda name: True)
    return emitter.parameters, over_rows(emitter.lines(), emitter.rows[0])


class NestEmitter(PlacedFrame):
    """Prints a nest of loops over independent rows."""

    def __init__(
        self, kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
    ) -> None:
        super().__init__(kernel, dtypes, escapes)
        self.block_lines: list[str] = []  # at the start of each block
        self.block_end: list[str] = []
        self.final: list[str] = []
        self.blocks = 1
        self.all_reductions: list[OpenReduction] = []  # those that end with the blocks
        self.later: set[str] = self._read_later()
        self.grouped = False
        self.group_arrays: list[str] = []

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
        tiles = self.tiles()
        self._stages(*(TILE_BOUNDS if tiles else ("",)))
        row = self.emitter.row.lines
        if tiles:
            return self.tiled(tiles, row)
        if not self.rows:
            head = self.block_lines
            return [*head, *row, *self.block_end, *self.final]
        if not blocked:
            return self.row_loops(row)
        per_block = -(-n_rows // self.blocks)
        self.blocks = -(-n_rows // per_block)
        lines = [
            *self.pragma(collapse=0),
            f"for (int64_t block = 0; block < {self.blocks}; block++) {{",
            f"    int64_t last = (block + 1) * {per_block};",
            f"    if (last > {n_rows}) last = {n_rows};",
            *("    " + s for s in self.block_lines),
            *("    " + s for s in self._block_rows(f"block * {per_block}", row)),
            *("    " + s for s in self.block_end),
            "}",
            *self.final,
        ]
        return [s.replace("@BLOCKS@", str(self.blocks)) for s in lines]

    def _block_rows(self, first: str, row: list[str]) -> list[str]:
        """The loop over the rows of a block, or one for each group of stages (see `_cut_group`)."""
        decode = self._decode("row")
        if not self.grouped:
            body = [*decode, *row]
            head = f"for (int64_t row = {first}; row < last; row++) {{"
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
                self._finish_row(found)
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
        self._finish_blocks()

    def _loop(self, members: list[Member], first: str, last: str) -> list[OpenReduction]:
        emitter = self.emitter
        emitter.inner.lines, emitter.inner.known = [], {}
        cuts = self.cuts(members) if not first else []
        if cuts:
            self._segments(members, cuts)
            return []
        opened: list[OpenReduction] = []
        for member in members:
            self.begin(member)
            instrs = member.body.instrs
            values: dict[int, CValue] = {}
            stop = member.body.split_point
            emitter.emit(instrs, self.at(member), values, 0, stop)
            if stop < len(instrs):
                opened.append(self._open(member, stop, values))
        if not self.along:
            emitter.row.lines.append("{")
            emitter.row.lines.extend("    " + s for s in emitter.inner.lines)
            emitter.row.lines.append("}")
        else:
            emitter.row.lines.extend(self._along_loops(opened, first, last))
        for name in [n for n, m in self.kernel.writers.items() if m in members]:
            if self.kernel.writers[name].role is Role.FULL:
                emitter.forwarded.pop(name, None)
        return opened

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

    # ---------------------------------------------------------------- reductions

    def _open(self, member: Member, position: int, values: dict[int, CValue]) -> OpenReduction:
        """Begin a reduction: its accumulator before the loop, its update inside."""
        instr = member.body.instrs[position]
        monoid = MONOIDS[instr.attrs[0]]
        operands = [values[a] for a in instr.args]
        found = OpenReduction(member, position, monoid, values)
        found.dtypes = component_dtypes(monoid, instr.dtype)
        inner = self.emitter.inner.lines
        if member.role is Role.COLUMN:
            self._open_column(found, operands)
            return found
        held = instr.dtype
        if is_sample(member.body.instrs, instr):
            found.sample, held = operands[1], HELD
            found.plain = before_difference(member.body.instrs, instr, values)
            found.dtypes = component_dtypes(monoid, held)
        extreme = self._extreme(member, instr, operands)
        accumulator = Accumulator(extreme or monoid, held, self.emitter)
        found.accumulator = accumulator
        if extreme is not None and member.role is Role.ALL:
            self.all_reductions.append(found)
        if extreme is not None:
            found.value, found.place = operands[0].text, self.emitter.fresh("i")
            declared = [*accumulator.declare(), f"int64_t {found.place} = 0;"]
            found.names = [accumulator.names[0], found.place]
            self.emitter.row.lines.extend(declared)
            operands = operands[:1]
        elif member.role is Role.ALL:
            self.block_lines.extend(accumulator.declare())
            found.names = accumulator.names
            self.all_reductions.append(found)
        else:
            self.emitter.row.lines.extend(accumulator.declare())
        if found.sample is None:
            inner.extend(accumulator.update(operands))
        return found

    def _extreme(self, member: Member, instr: Instr, operands: list[CValue]) -> Monoid | None:
        """The monoid of the value when this is the position of an extreme along one loop."""
        name = {"argmax": "max", "argmin": "min"}.get(instr.attrs[0])
        if name is None or len(self.along) != 1 or self.along[0] >= 2**31:
            return None
        if member.role is not Role.ROW and self.rows:
            return None
        place = member.body.instrs[instr.args[1]]
        if place.op != "index_expr":
            return None
        if self.at(member)[place.attrs[0]] is not self.along_symbols[0]:
            return None
        return MONOIDS[name]

    def _open_column(self, found: OpenReduction, operands: list[CValue]) -> None:
        instr = found.member.body.instrs[found.position]
        emitter, n = self.emitter, math.prod(self.along)
        position = self._along_position()
        lvalues = []
        for dtype, identity in zip(
            found.dtypes, found.monoid.identity(found.dtypes[0]), strict=True
        ):
            pointer = emitter.fresh("c")
            offset = self._take(n * dtype.itemsize * BLOCKS)
            ct = c_type(dtype)
            found.names.append(pointer)
            self.block_lines.append(
                f"{ct} *restrict {pointer} = ({ct} *)(work + {offset}) + block * {n};"
            )
            start = literal(identity, dtype)
            self.block_lines.append("#pragma omp simd")
            self.block_lines.append(f"for (int64_t k = 0; k < {n}; k++) {pointer}[k] = {start};")
            lvalues.append(f"{pointer}[{position}]")
            found.partial += f"{offset} "
        self.all_reductions.append(found)
        if is_sample(found.member.body.instrs, instr):
            kind, done, weight = c_type(found.dtypes[0]), emitter.fresh("k"), emitter.fresh("w")
            self.block_lines.append(f"{kind} {done} = 0;")
            emitter.row.lines += [f"{done} += 1;", f"{kind} {weight} = 1 / {done};"]
            _, mean, squares = lvalues
            emitter.inner.lines += one_more_row(operands[1], mean, squares, weight, emitter)
            counts = found.names[0]
            self.block_end.append("#pragma omp simd")
            self.block_end.append(f"for (int64_t k = 0; k < {n}; k++) {counts}[k] = {done};")
            return
        texts = [v.text for v in operands]
        emitter.inner.lines.extend(
            combine_lines(found.monoid, found.dtypes, lvalues, texts, emitter)
        )

    def _along_position(self) -> str:
        flat = linearize([as_expr(s) for s in self.along_symbols], row_major(self.along))
        return self.emitter.index_text(flat)

    def _take(self, nbytes: int) -> int:
        offset = self.workspace
        self.workspace += -(-nbytes // 64) * 64
        return offset

    def _finish_row(self, found: OpenReduction) -> None:
        """After the loop: the results of a reduction along the row."""
        if found.member.role is not Role.ROW:
            return
        assert found.accumulator is not None
        if found.place:
            values = zip(found.names, found.dtypes, strict=True)
            self._after(found, [CValue(n, d, ROW_DEPTH) for n, d in values])
            return
        self.emitter.row.lines.extend(found.accumulator.finish())
        self._after(found, found.accumulator.values(ROW_DEPTH))

    def _after(self, found: OpenReduction, components: list[CValue]) -> None:
        """The instructions behind a reduction: projection, conversion, store."""
        self.begin(found.member)
        if found.sample is not None:
            components = [narrowed(c, found.sample.dtype) for c in components]
        instrs = found.member.body.instrs
        values: dict[int, CValue] = {}
        for n in range(found.position, len(instrs)):
            instr: Instr = instrs[n]
            if instr.op == "project":
                values[n] = components[instr.attrs[0]]
            elif instr.op != "reduction":
                self.emitter.emit(instrs, self.at(found.member), values, n, n + 1)

    def _finish_blocks(self) -> None:
        """After all rows: merge the blocks of column and whole reductions."""
        emitter = self.emitter
        for found in self.all_reductions:
            if found.accumulator is None:
                self._finish_column(found)
                continue
            accumulator = found.accumulator
            if not found.place:
                self.block_end.extend(accumulator.finish())
            if self.blocks > 1:
                arrays = []
                for name, dtype in zip(found.names, found.dtypes, strict=True):
                    offset = self._take(dtype.itemsize * self.blocks)
                    array = f"(({c_type(dtype)} *)(work + {offset}))"
                    self.block_end.append(f"{array}[block] = {name};")
                    arrays.append(array)
                totals = [emitter.fresh("t") for _ in arrays]
                if accumulator.adds_singles:
                    self.final += [
                        f"double w{totals[0]} = 0.0;",
                        f"for (int64_t b = 0; b < @BLOCKS@; b++) w{totals[0]} += {arrays[0]}[b];",
                        f"float {totals[0]} = (float)w{totals[0]};",
                    ]
                    self._whole(found, totals)
                    continue
                merge = combine_lines(
                    found.monoid,
                    found.dtypes,
                    [f"{a}[b]" for a in arrays],
                    [f"{a}[b + half]" for a in arrays],
                    emitter,
                )
                self.final += [*_PAIRS_OF_BLOCKS, f"    {' '.join(merge)}", "}"]
                for total, array, dtype in zip(totals, arrays, found.dtypes, strict=True):
                    self.final.append(f"{c_type(dtype)} {total} = {array}[0];")
            else:
                totals = found.names
            self._whole(found, totals)

    def _whole(self, found: OpenReduction, totals: Sequence[str]) -> None:
        """What is done with a reduction of everything, whose components are in `totals`."""
        emitter = self.emitter
        emitter.row.lines, kept = [], emitter.row.lines
        values = [CValue(t, d, 0) for t, d in zip(totals, found.dtypes, strict=True)]
        self._after(found, values)
        self.final.extend(emitter.row.lines)
        emitter.row.lines = kept

    def _finish_column(self, found: OpenReduction) -> None:
        emitter = self.emitter
        n = math.prod(self.along)
        arrays = []
        for name, dtype, offset in zip(
            found.names, found.dtypes, found.partial.split(), strict=True
        ):
            ct = c_type(dtype)
            self.final.append(f"{ct} *restrict f{name} = ({ct} *)(work + {offset});")
            arrays.append(f"f{name}")
        merge = combine_lines(
            found.monoid,
            found.dtypes,
            [f"{a}[b * {n} + k]" for a in arrays],
            [f"{a}[(b + half) * {n} + k]" for a in arrays],
            emitter,
        )
        self.final += [
            *_PAIRS_OF_BLOCKS,
            "    #pragma omp simd",
            f"    for (int64_t k = 0; k < {n}; k++) {{ {' '.join(merge)} }}",
            "}",
        ]
        emitter.inner.lines, emitter.inner.known = [], {}
        position = self._along_position()
        values = [
            CValue(f"{a}[{position}]", d, INNER_DEPTH)
            for a, d in zip(arrays, found.dtypes, strict=True)
        ]
        self._after(found, values)
        loops = [
            f"for (int64_t {s.name} = 0; {s.name} < {m}; {s.name}++)"
            for s, m in zip(self.along_symbols, self.along, strict=True)
        ]
        simd = ["#pragma omp simd"] if len(loops) == 1 else []
        self.final += [*simd, *loops, "{", *("    " + s for s in emitter.inner.lines), "}"]

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
                kept = f"{array}[{self._along_position()}]"
            scope.lines.append(f"{kept} = {value.text};")
            emitter.scratch[buffer] = kept
