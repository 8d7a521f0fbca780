"""Reductions of a nest of loops: how they begin, and how their parts are merged.

Input: the members of a kernel that reduce.  Output: lines before the loop, inside it, at the end
of a row, of a block and of all rows, which `emit.NestEmitter` puts in
their places.

Reductions over rows accumulate in one partial result for each block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from stax.backends.c.folds import COLUMN_TYPES, MERGED_COLUMNS, SHARE
from stax.backends.c.handler import (
    INNER_DEPTH,
    ROW_DEPTH,
    CValue,
    literal,
)
from stax.backends.c.moments import (
    HELD,
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
from stax.dtypes import DType
from stax.loops.body import Instr
from stax.loops.moments import is_sample
from stax.loops.monoids import MONOIDS, SUM, Monoid
from stax.loops.scalar_ops import c_type, type_tag
from stax.loops.symbolic import (
    as_expr,
    linearize,
)
from stax.schedule.kernel import Kernel, Member, Role, row_major

BLOCKS = 64
SHARED_BYTES = 1 << 17  # of the columns that a share keeps on the stack
# Blocks are merged as a tree, so that the error of a sum grows with the logarithm of their number.
_PAIRS_OF_BLOCKS = (
    "for (int64_t half = 1; half < @BLOCKS@; half *= 2)",
    "for (int64_t b = 0; b + half < @BLOCKS@; b += 2 * half) {",
)


class ReductionFrame(PlacedFrame):
    """A frame that opens and ends reductions."""

    def __init__(
        self, kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
    ) -> None:
        super().__init__(kernel, dtypes, escapes)
        self.block_lines: list[str] = []  # at the start of each block
        self.block_end: list[str] = []
        self.final: list[str] = []
        self.blocks = 1
        self.share_lines: list[str] = []  # at the start of each share; none where there are none
        self.share_end: list[str] = []
        self.sums: dict[tuple[str, tuple[DType, ...]], tuple[OpenReduction, int]] = {}  # of a loop
        self.all_reductions: list[OpenReduction] = []  # those that end with the blocks

    def opened(self, member: Member, position: int, values: dict[int, CValue]) -> OpenReduction:
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
        if self._follow_twin(found, operands[0]):
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

    def _follow_twin(self, found: OpenReduction, operand: CValue) -> bool:
        """Whether the loop sums these values along the row already, or their negatives."""
        if (
            found.monoid is not SUM
            or found.member.role is not Role.ROW
            or operand.dtype.kind != "f"
        ):
            return False
        name, sign = self.emitter.mirrors.of(operand.text)
        twin, own = self.sums.setdefault((name, found.dtypes), (found, sign))
        if twin is found:
            return False
        found.twin, found.sign = twin, sign * own
        return True

    def _extreme(self, member: Member, instr: Instr, operands: list[CValue]) -> Monoid | None:
        """The monoid of the value when this is the position of an extreme along one loop."""
        name = {"argmax": "max", "argmin": "min"}.get(instr.attrs[0])
        if name is None or len(self.along) != 1 or self.along[0] >= 2**31:
            return None
        if instr.dtype.kind == "c":
            return None  # its extremes have no lanes
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
        position = self.along_position()
        lvalues = []
        for dtype, identity in zip(
            found.dtypes, found.monoid.identity(found.dtypes[0]), strict=True
        ):
            pointer = emitter.fresh("c")
            ct = c_type(dtype)
            found.names.append(pointer)
            found.shared = self._shares(found)
            if found.shared:
                offset = self._take(n * dtype.itemsize * BLOCKS // SHARE)
                place = self._shared(pointer, dtype, offset)
            else:
                offset = self._take(n * dtype.itemsize * BLOCKS)
                place = f"({ct} *)(work + {offset}) + block * {n}"
            self.block_lines.append(f"{ct} *restrict {pointer} = {place};")
            if any(dtype.type(identity).tobytes()):
                start = literal(identity, dtype)
                clear = f"for (int64_t k = 0; k < {n}; k++) {pointer}[k] = {start};"
                self.block_lines += ["#pragma omp simd", clear]
            else:
                self.block_lines.append(f"__builtin_memset({pointer}, 0, {n * dtype.itemsize});")
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

    def _shares(self, found: OpenReduction) -> bool:
        """Whether the columns of neighbouring blocks are merged before other blocks begin.

        That spares memory and a serial pass over it, and leaves a quarter of the pieces for
        threads, which is enough for a kernel that only reads.
        """
        members, n = self.kernel.members, math.prod(self.along)
        size = sum(d.itemsize for d in found.dtypes)
        return (
            self.blocks == BLOCKS
            and all(m.role is Role.COLUMN for m in members)
            and found.monoid is SUM
            and type_tag(found.dtypes[0]) in COLUMN_TYPES
            and SHARE * n * size * len(members) <= SHARED_BYTES
        )

    def _shared(self, pointer: str, dtype: DType, offset: int) -> str:
        """Where a block of a share sums up, on the stack."""
        ct, n, shared = c_type(dtype), math.prod(self.along), f"{pointer}_shared"
        place = f"({ct} *)(work + {offset}) + share * {n}"
        self.share_lines.append(f"{ct} {shared}[{SHARE * n}] __attribute__((aligned(64)));")
        self.share_end += [
            f"stax_columns_sum_{type_tag(dtype)}({shared}, parts, {n});",
            f"__builtin_memcpy({place}, {shared}, {n * dtype.itemsize});",
        ]
        return f"{shared} + part * {n}"

    def along_position(self) -> str:
        flat = linearize([as_expr(s) for s in self.along_symbols], row_major(self.along))
        return self.emitter.index_text(flat)

    def _take(self, nbytes: int) -> int:
        offset = self.workspace
        self.workspace += -(-nbytes // 64) * 64
        return offset

    def finish_row(self, found: OpenReduction) -> None:
        """After the loop: the results of a reduction along the row."""
        if found.member.role is not Role.ROW:
            return
        if found.twin is not None:
            values = self._values_of_twin(found.twin, found.sign)
            self._after(found, values)
            return
        assert found.accumulator is not None
        if found.place:
            parts = zip(found.names, found.dtypes, strict=True)
            self._after(found, [CValue(n, d, ROW_DEPTH) for n, d in parts])
            return
        self.emitter.row.lines.extend(found.accumulator.finish())
        self._after(found, found.accumulator.values(ROW_DEPTH))

    def _values_of_twin(self, twin: OpenReduction, sign: int) -> list[CValue]:
        assert twin.accumulator is not None
        (value,) = twin.accumulator.values(ROW_DEPTH)
        if sign > 0:
            return [value]
        text = f"{literal(0, value.dtype)} - {value.text}"
        return [self.emitter.define(("negative", value.text), text, value.dtype, ROW_DEPTH)]

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

    def finish_blocks(self) -> None:
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
        self.final += self._merged_columns(found, arrays, n)
        emitter.inner.lines, emitter.inner.known = [], {}
        position = self.along_position()
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

    def _merged_columns(self, found: OpenReduction, arrays: list[str], n: int) -> list[str]:
        """The statements that leave the result of all blocks of `n` columns in the first."""
        tag = type_tag(found.dtypes[0])
        if found.monoid is SUM and tag in COLUMN_TYPES:
            count = "@SHARES@" if found.shared else "@BLOCKS@"
            return [f"stax_columns_sum_{tag}({arrays[0]}, {count}, {n});"]
        merge = combine_lines(
            found.monoid,
            found.dtypes,
            [f"{a}[b * {n} + k]" for a in arrays],
            [f"{a}[(b + half) * {n} + k]" for a in arrays],
            self.emitter,
        )
        parts = n >= 2 * MERGED_COLUMNS
        first, last = ("part", "upto") if parts else ("0", str(n))
        pairs = [
            *_PAIRS_OF_BLOCKS,
            "    #pragma omp simd",
            f"    for (int64_t k = {first}; k < {last}; k++) {{ {' '.join(merge)} }}",
            "}",
        ]
        if parts:
            size = MERGED_COLUMNS
            pairs = [
                f"for (int64_t part = 0; part < {n}; part += {size}) {{",
                f"    int64_t upto = part + {size} < {n} ? part + {size} : {n};",
                *("    " + s for s in pairs),
                "}",
            ]
        return pairs
