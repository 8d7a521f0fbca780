"""Scans and scatters in Triton.

Input: a kernel whose only member is a scan or a scatter.  Output: its functions.  A scan runs over
blocks of its axis with a running total carried from block to block, or from program to program.
A scatter that accumulates uses atomic operations where the device has exact ones; one that sets
first finds, for every place, the last update in index order, and then lets that one write, so that
repeated places give what NumPy gives.  What has no atomic operation is done one update after the
other by one program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stax.backends.triton.handler import Axis, TValue
from stax.backends.triton.kernel import KernelFrame, KernelSource, Scratch
from stax.backends.triton.merging import Merge
from stax.backends.triton.tiling import FEWEST_BLOCKS, Tiling, power, warps_for
from stax.dtypes import DType
from stax.loops.monoids import MONOIDS
from stax.loops.scalar_ops import compute_dtype
from stax.loops.symbolic import Expr, as_expr

SCAN_BLOCK = 1024
PIECE_BYTES = 64 * 1024  # of a row that a program holds in registers
LOOK = 512  # totals of earlier pieces that are read at a time
ATOMIC = {
    "add": ("float32", "float64", "int32", "int64", "uint32", "uint64"),
    "min": ("int32", "int64", "uint32", "uint64"),
    "max": ("int32", "int64", "uint32", "uint64"),
}


class ScanEmitter(KernelFrame):
    """Prints a running merge along one axis.

    Few long rows are cut into pieces, one a program, which holds it in registers: it publishes the
    total of its piece, waits for those of the pieces before, and merges them in order, so that
    memory is read once and the same input gives the same bits.  A program takes its number when
    it starts, so that those that it waits for have started and wait for nothing but earlier ones.
    """

    def choose(self) -> Tiling:
        length = self.space[-1]
        results = math.prod(self.space[:-1])
        block = min(power(length), SCAN_BLOCK >> self.shrink)
        wanted = min(FEWEST_BLOCKS // max(results, 1), length // (2 * block))
        self.cut = wanted > 1
        if self.cut:
            most = min(power(-(-length // wanted)), self._piece >> self.shrink)
            while most > block and results * -(-length // most) < FEWEST_BLOCKS // 2:
                most //= 2
            block = most
        axis = Axis("r", length, block, block < length and not self.cut)
        rows = tuple(range(len(self.space) - 1))
        warps = warps_for(block, 16 if self.cut else 4)
        if not rows:
            return Tiling((axis,), ((len(self.space) - 1,),), warps)
        tall = max(1, min(power(results), SCAN_BLOCK // block))
        while tall > 1 and -(-results // tall) < FEWEST_BLOCKS:
            tall //= 2
        axes = (Axis("x", results, tall), axis)
        return Tiling(axes, (rows, (len(self.space) - 1,)), warps_for(tall * warps * 256, 16))

    @property
    def _piece(self) -> int:
        """The longest piece that the registers of a program hold."""
        body = self.kernel.members[0].body
        (instr,) = [i for i in body.instrs if i.op == "scan"]
        held = sum(d.itemsize for d in MONOIDS[instr.attrs[0]].component_dtypes(instr.dtype))
        return max(PIECE_BYTES // power(max(held, 4)), SCAN_BLOCK)

    def grid_lines(self, lines: Sequence[str]) -> list[str]:
        head = super().grid_lines(lines)
        if self.cut:
            wide = "tl.int64" if self.wide else "tl.int32"
            head[0] = f'pid = tl.atomic_add(turn, 1, sem="relaxed").to({wide})'
        return head

    def lines(self) -> list[str]:
        emitter = self.emitter
        member = self.kernel.members[0]
        body = member.body
        place = next(n for n, i in enumerate(body.instrs) if i.op == "scan")
        instr = body.instrs[place]
        merge = self.merge(Merge(MONOIDS[instr.attrs[0]], instr.dtype))
        indexes = self.at(member)
        if instr.attrs[1]:
            running = self.symbols[-1]
            back = {running: as_expr(self.space[-1] - 1) - running}
            indexes = tuple(e.substitute(back) for e in indexes)
        values: dict[int, TValue] = {}
        emitter.emit(body.instrs, indexes, values, 0, place)
        last = len(self.tiling.axes) - 1
        axis = self.tiling.axes[last]
        every = frozenset(range(last + 1))
        lines = emitter.scope(frozenset((last,))).lines
        mask = emitter.masks((last,))
        elements = []
        for n, argument in enumerate(instr.args):
            value = values[argument]
            text = emitter.whole(TValue(merge.enter(value.text, n), value.dtype, value.axes))
            if mask:
                text = f"tl.where({mask}, {text}, {merge.identity(n)})"
            elements.append(emitter.fresh("e"))
            lines.append(f"{elements[-1]} = {text}")
        given = elements[0] if len(elements) == 1 else f"({', '.join(elements)})"
        running_names = [emitter.fresh("s") for _ in elements]
        names = ", ".join(running_names)
        lines.append(f"{names} = tl.associative_scan({given}, {last}, {merge.name})")
        declared: list[str] = []
        if self.cut:
            self._look_back(merge, running_names, axis, lines)
        elif axis.looped:
            self._carry(merge, running_names, last, lines, declared)
        for n in range(place + 1, len(body.instrs)):
            if body.instrs[n].op == "project":
                part = body.instrs[n].attrs[0]
                name = emitter.fresh()
                lines.append(f"{name} = {merge.leave(running_names[part], part)}")
                values[n] = TValue(name, merge.dtypes[part], every)
            else:
                emitter.emit(body.instrs, indexes, values, n, n + 1)
        if not axis.looped:
            return emitter.outer.lines
        inner = emitter.inner.lines
        head = self.axis_lines(last, f"{axis.name}start + ", "\n".join(inner))
        return [
            *emitter.outer.lines,
            *declared,
            f"for {axis.name}start in range(0, {axis.extent}, {axis.block}):",
            *("    " + line for line in (*head, *inner)),
        ]

    def _carry(
        self, merge: Merge, names: list[str], last: int, lines: list[str], declared: list[str]
    ) -> None:
        """The total of the blocks before is merged in front, and passed on."""
        axis = self.tiling.axes[last]
        kept = self.emitter.shape(range(last)) if last else "()"
        totals = [self.emitter.fresh("c") for _ in names]
        for n, total in enumerate(totals):
            kind = f"tl.{merge.held[n].name}"
            declared.append(f"{total} = tl.full({kept}, {merge.identity(n)}, {kind})")
        before = [f"tl.broadcast_to({t}, {self.emitter.shape()})" for t in totals]
        lines.append(f"{', '.join(names)} = {merge.call(before, names)}")
        at_end = f"{axis.name} - {axis.name}start == {axis.block - 1}"
        for n, (total, name) in enumerate(zip(totals, names, strict=True)):
            picked = f"tl.where({at_end}, {name}, 0)"
            kept_axis = ", keep_dims=True" if last else ""
            kind = f"tl.{merge.held[n].name}"
            lines.append(f"{total} = tl.sum({picked}, {last}{kept_axis}).to({kind})")

    def _look_back(self, merge: Merge, names: list[str], axis: Axis, lines: list[str]) -> None:
        """Publish the piece's total, and merge those of the pieces before in front.

        A total is published as words of 32 of its bits and a bit that says that they are there,
        each written and read at once, so that no order of accesses has to be enforced.
        """
        count = -(-axis.extent // axis.block)
        words = [(n, k) for n, held in enumerate(merge.held) for k in range(_words(held))]
        each = len(words)
        rows = math.prod(self.space[:-1])
        self.scratch = [Scratch("turn", "*u64", 8 * (1 + rows * count * each), zeroed=True)]
        totals = []
        for n, name in enumerate(names):
            picked = f"tl.where({axis.name} % {axis.block} == {axis.block - 1}, {name}, 0)"
            totals.append(self.emitter.fresh("c"))
            lines.append(f"{totals[-1]} = tl.sum({picked}).to(tl.{merge.held[n].name})")
        lines += [f"piece = (pid % {count}).to(tl.int32)", f"own = turn + 1 + pid * {each}"]
        for k, (n, part) in enumerate(words):
            word = _word(totals[n], merge.held[n], part)
            lines.append(f'tl.atomic_xchg(own + {k}, {word}, sem="relaxed")')
        parts = [f"w{k}" for k in range(each)]
        read = [
            f"{w} = tl.load(from_ + {k}, mask=before, other=1, volatile=True)"
            for k, w in enumerate(parts)
        ]
        kinds = [f"tl.{held.name}" for held in merge.held]
        fronts = [f"front{n}" for n in range(len(names))]
        lines += [
            f"{f} = tl.full((), {merge.identity(n)}, {kinds[n]})" for n, f in enumerate(fronts)
        ]
        found = [f"f{n}" for n in range(len(names))]
        many = found[0] if len(found) == 1 else f"({', '.join(found)})"
        looked = [
            f"other = start + tl.arange(0, {LOOK})",
            "before = other < piece",
            f"from_ = own + (other - piece) * {each}",
            *read,
            f"while tl.min(({' & '.join(parts)} & 1).to(tl.int32), 0) == 0:",
            *("    " + line for line in read),
        ]
        for n, held in enumerate(merge.held):
            own = [w for w, (m, _) in zip(parts, words, strict=True) if m == n]
            looked.append(f"f{n} = tl.where(before, {_value(own, held)}, {merge.identity(n)})")
        looked.append(f"{', '.join(found)} = tl.associative_scan({many}, 0, {merge.name})")
        looked += [
            f"f{n} = tl.sum(tl.where(other == start + {LOOK - 1}, f{n}, 0)).to({kinds[n]})"
            for n in range(len(names))
        ]
        looked.append(f"{', '.join(fronts)} = {merge.call(fronts, found)}")
        lines.append(f"for start in range(0, piece, {LOOK}):")
        lines += ["    " + line for line in looked]
        fronts = [f"tl.broadcast_to({f}, {self.emitter.shape()})" for f in fronts]
        lines.append(f"{', '.join(names)} = {merge.call(fronts, names)}")

    def store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        masks = [v.text for v in operands[1:]]
        self.emitter.store_line(buffer, index, operands[0], masks)


def _words(held: DType) -> int:
    """Words that publish a value."""
    return 2 if held.itemsize == 8 else 1


def _word(text: str, held: DType, part: int) -> str:
    """The word with a part of a value's bits: the lower half first."""
    bits = f"{text}.to(tl.uint{8 * held.itemsize}, bitcast=True).to(tl.uint64)"
    if part:
        return f"({bits} >> 32 << 32) | 1"
    return f"({bits} << 32) | 1"


def _value(words: list[str], held: DType) -> str:
    """The value that words publish."""
    kind = f"tl.{held.name}"
    bits = f"({words[0]} >> 32)"
    if len(words) == 2:
        bits = f"({bits} | ({words[1]} >> 32 << 32))"
    return f"{bits}.to(tl.uint{8 * held.itemsize}).to({kind}, bitcast=True)"


class ScatterEmitter(KernelFrame):
    """Prints updates at computed places."""

    def choose(self) -> Tiling:
        numel = math.prod(self.space)
        every = tuple(range(len(self.space)))
        (stored,) = [i for i in self.kernel.members[0].body.instrs if i.op == "store"]
        mode, name = stored.attrs[2], self.dtypes[stored.attrs[0]].name
        self.phase = "atomic" if name in ATOMIC.get(mode, ()) else "ordered"
        if mode == "set":
            self.phase = "claim"
        if self.phase == "ordered":
            return Tiling((Axis("x", numel, 1, True),), (every,), 1)
        block = min(power(numel), 512 >> self.shrink)
        while block > 128 and -(-numel // block) < FEWEST_BLOCKS:
            block //= 2
        return Tiling((Axis("x", numel, block),), (every,), warps_for(block, 4))

    def run(self) -> list[KernelSource]:
        lines = self.lines()
        name = self.kernel.name
        if self.phase == "ordered":
            return [self.source(name, [], lines)]
        first = self.source(name, self.grid_lines(lines), lines)
        if self.phase == "atomic":
            return [first]
        checks = first.checks
        self.phase = "write"
        self.emitter.restart()
        lines = self.lines()
        lines = [line for line in lines if not line.startswith("tl.store(flags")]
        second = self.source(f"{name}_write", self.grid_lines(lines), lines)
        types = {k: v for k, v in second.types.items() if k not in ("flags", "flag")}
        kept = tuple(replace(s, zeroed=False) for s in first.scratch)
        return [
            replace(first, checks=checks),
            replace(second, types=types, checks=(), scratch=kept),
        ]

    def lines(self) -> list[str]:
        emitter = self.emitter
        member = self.kernel.members[0]
        body = member.body
        emitter.emit(body.instrs, self.at(member), {}, 0, len(body.instrs))
        if self.phase != "ordered":
            return emitter.outer.lines
        axis = self.tiling.axes[0]
        inner = emitter.inner.lines
        head = self.axis_lines(0, "xstart + ", "\n".join(inner))
        return [
            *emitter.outer.lines,
            f"for xstart in range(0, {axis.extent}):",
            *("    " + line for line in (*head, *inner)),
        ]

    def store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        emitter = self.emitter
        every = frozenset((0,))
        lines = emitter.scope(every).lines
        place = emitter.index_text(index)
        if not emitter.expr_axes(index):
            place = f"({place}) + x * 0"
        mask = emitter.masks(every, *(v.text for v in operands[1:]))
        tail = f", mask={mask}" if mask else ""
        target = f"{emitter.pointers[buffer]} + ({place})"
        value = operands[0]
        if self.phase == "atomic":
            text = emitter.whole(value)
            lines.append(f'tl.atomic_{mode}({target}, {text}{tail}, sem="relaxed")')
            return
        if self.phase == "ordered":
            self._merged(buffer, place, mode, value, mask)
            return
        self.scratch = [Scratch("work", "*i32", 4 * (int(index.hi) + 1), zeroed=True)]
        if self.phase == "claim":
            number = "x.to(tl.int32) + 1"
            lines.append(f'tl.atomic_max(work + ({place}), {number}{tail}, sem="relaxed")')
            return
        other = ", other=0" if mask else ""
        lines.append(f"last = tl.load(work + ({place}){tail}{other}) == x.to(tl.int32) + 1")
        chosen = f"{mask} & last" if mask else "last"
        stored = emitter.stored_text(value, self.dtypes[buffer])
        lines.append(f"tl.store({target}, {stored}, mask={chosen})")

    def _merged(self, buffer: str, place: str, mode: str, value: TValue, mask: str) -> None:
        """One update: the old element is read, merged and written before the next is read."""
        emitter = self.emitter
        dtype = self.dtypes[buffer]
        compute = compute_dtype(dtype)
        lines = emitter.inner.lines
        monoid = {"add": "sum", "mul": "prod"}.get(mode, mode)
        merge = self.merge(Merge(MONOIDS[monoid], compute))
        old = emitter.load_text(buffer, place, dtype, mask)
        both = merge.call([merge.enter(old, 0)], [merge.enter(emitter.whole(value), 0)])
        name = emitter.fresh()
        lines.append(f"{name} = {merge.leave(both, 0)}")
        stored = emitter.stored_text(TValue(name, compute), dtype)
        tail = f", mask={mask}" if mask else ""
        lines.append(f"tl.store({emitter.pointers[buffer]} + ({place}), {stored}{tail})")
        lines.append("tl.debug_barrier()")
