"""Scans and scatters in Triton.

Input: a kernel whose only member is a scan or a scatter.  Output: its functions.  A scan runs over
blocks of its axis with a running total carried from block to block.  A scatter that accumulates
uses atomic operations where the device has exact ones; one that sets first finds, for every place,
the last update in index order, and then lets that one write, so that repeated places give what
NumPy gives.  What has no atomic operation is done one update after the other by one program.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stax.backends.triton.handler import Axis, TValue, pointer_type
from stax.backends.triton.kernel import KernelFrame, KernelSource, Scratch
from stax.backends.triton.merging import Merge
from stax.backends.triton.tiling import FEWEST_BLOCKS, Tiling, power, warps_for
from stax.loops.monoids import MONOIDS
from stax.loops.scalar_ops import compute_dtype
from stax.loops.symbolic import Expr, as_expr

SCAN_BLOCK = 1024
ATOMIC = {
    "add": ("float32", "float64", "int32", "int64", "uint32", "uint64"),
    "min": ("int32", "int64", "uint32", "uint64"),
    "max": ("int32", "int64", "uint32", "uint64"),
}


class ScanEmitter(KernelFrame):
    """Prints a running merge along one axis.

    Few long rows are cut into pieces: one kernel finds the total of each piece, one the running
    totals, and the last runs through every piece from the total before it.
    """

    part = "all"  # "totals" and "final" when rows are cut

    def choose(self) -> Tiling:
        length = self.space[-1]
        results = math.prod(self.space[:-1])
        block = min(power(length), SCAN_BLOCK >> self.shrink)
        axis = Axis("r", length, block, block < length)
        rows = tuple(range(len(self.space) - 1))
        pieces = min(FEWEST_BLOCKS // max(results, 1), length // (2 * block))
        segments, chunk = 1, length
        if pieces > 1 and not self.shrink:
            chunk = -(-length // (pieces * block)) * block
            segments = -(-length // chunk)
        if not rows:
            groups: tuple[tuple[int, ...], ...] = ((len(self.space) - 1,),)
            return Tiling((axis,), groups, warps_for(block, 4), segments, chunk)
        tall = max(1, min(power(results), SCAN_BLOCK // block))
        while tall > 1 and -(-results // tall) < FEWEST_BLOCKS:
            tall //= 2
        axes = (Axis("x", results, tall), axis)
        groups = (rows, (len(self.space) - 1,))
        return Tiling(axes, groups, warps_for(tall * block, 4), segments, chunk)

    def run(self) -> list[KernelSource]:
        if self.tiling.segments == 1:
            return super().run()
        self.part = "totals"
        lines = self.lines()
        name = self.kernel.name
        totals = self.source(f"{name}_totals", self.grid_lines(lines), lines)
        self.emitter.restart()
        self.part = "final"
        lines = self.lines()
        final = self.source(name, self.grid_lines(lines), lines)
        return [totals, self._running_totals(final), final]

    def _running_totals(self, final: KernelSource) -> KernelSource:
        """The kernel that merges the totals of each row's pieces one after the other."""
        merge, segments = self._merge, self.tiling.segments
        block = power(segments)
        rows = math.prod(self.space[:-1])
        inside = f"r < {segments}"
        body = [f"r = tl.arange(0, {block})", f"place = tl.program_id(0) * {segments} + r"]
        names = [f"e{n}" for n in range(len(merge.held))]
        for n, name in enumerate(names):
            body.append(f"{name} = tl.load(total{n} + place, mask={inside}, other=0)")
            body.append(f"{name} = tl.where({inside}, {name}, {merge.identity(n)})")
        given = names[0] if len(names) == 1 else f"({', '.join(names)})"
        body.append(f"{', '.join(names)} = tl.associative_scan({given}, 0, {merge.name})")
        for n, name in enumerate(names):
            body.append(f"tl.store(before{n} + place, {name}, mask={inside})")
        return KernelSource(
            f"{self.kernel.name}_running",
            (),
            frozenset(),
            {s.name: s.type for s in self.scratch},
            "\n".join("    " + line for line in body),
            rows,
            warps_for(block, 4),
            scratch=final.scratch,
            merges=final.merges,
        )

    def lines(self) -> list[str]:
        emitter = self.emitter
        member = self.kernel.members[0]
        body = member.body
        place = next(n for n, i in enumerate(body.instrs) if i.op == "scan")
        instr = body.instrs[place]
        merge = self._merge = self.merge(Merge(MONOIDS[instr.attrs[0]], instr.dtype))
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
        if axis.looped:
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
        span, chunk = f"0, {axis.extent}", self.tiling.chunk
        if self.tiling.segments > 1:
            span = f"segment * {chunk}, tl.minimum(segment * {chunk} + {chunk}, {axis.extent})"
        return [
            *emitter.outer.lines,
            *declared,
            f"for {axis.name}start in range({span}, {axis.block}):",
            *("    " + line for line in (*head, *inner)),
            *self._stored_totals(),
        ]

    def _place(self, piece: str) -> str:
        """Where the total of a piece of the program's row lies."""
        row = f"x * {self.tiling.segments} + " if len(self.tiling.axes) > 1 else ""
        return f"({row}{piece})"

    def _stored_totals(self) -> list[str]:
        if self.part != "totals":
            return []
        place = self._place("segment")
        return [f"tl.store(total{n} + {place}, {c})" for n, c in enumerate(self._carried)]

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
            if self.part == "final":
                mask = "segment > 0" + (" + x * 0" if last else "")
                place = self._place("segment - 1")
                found = f"tl.load(before{n} + {place}, mask={mask}, other=0)"
                declared.append(f"{total} = tl.where({mask}, {found}, {total})")
        self._carried = totals
        if self.part != "all":
            self._take(merge)
        before = [f"tl.broadcast_to({t}, {self.emitter.shape()})" for t in totals]
        lines.append(f"{', '.join(names)} = {merge.call(before, names)}")
        at_end = f"{axis.name} - {axis.name}start == {axis.block - 1}"
        for n, (total, name) in enumerate(zip(totals, names, strict=True)):
            picked = f"tl.where({at_end}, {name}, 0)"
            kept_axis = ", keep_dims=True" if last else ""
            kind = f"tl.{merge.held[n].name}"
            lines.append(f"{total} = tl.sum({picked}, {last}{kept_axis}).to({kind})")

    def _take(self, merge: Merge) -> None:
        """Memory for the totals of all pieces, and the running totals."""
        count = math.prod(self.space[:-1]) * self.tiling.segments
        self.scratch = [
            Scratch(f"{word}{n}", pointer_type(held), count * held.itemsize)
            for word in ("total", "before")
            for n, held in enumerate(merge.held)
        ]

    def store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        if self.part != "totals":
            masks = [v.text for v in operands[1:]]
            self.emitter.store_line(buffer, index, operands[0], masks)


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
