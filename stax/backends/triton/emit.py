"""Kernels over independent points: pointwise work and reductions, fused, in Triton.

Input: a scheduled kernel.  Output: its function.  Without reductions every member is printed once
for a tile of points.  With reductions along the rows the stages follow each other: while a row
fits the block its values stay where they are; otherwise each stage is a loop over pieces of the
row, and values of an earlier stage that a later one reads are computed again.  Reductions over
the rows, or over everything, are one loop whose accumulators have the shape of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stax.backends.triton.handler import NO_AXES, Axis, Scope, TValue, pointer_type
from stax.backends.triton.kernel import KernelFrame, KernelSource, Scratch
from stax.backends.triton.merging import Merge
from stax.backends.triton.serial import ScanEmitter, ScatterEmitter
from stax.backends.triton.tiling import (
    Tiling,
    pointwise_tiling,
    power,
    reduction_tiling,
    warps_for,
)
from stax.dtypes import DType
from stax.loops.moments import is_sample
from stax.loops.monoids import MONOIDS
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.symbolic import Expr
from stax.schedule.kernel import Kernel, Member, Role


def emit_kernel(
    kernel: Kernel,
    dtypes: Mapping[str, DType],
    escapes: Callable[[str], bool],
    shrink: int = 0,
) -> list[KernelSource]:
    """The Triton functions of `kernel`, to be launched in order.

    `escapes(buffer)` says whether others read what it writes; `shrink` halves the blocks that
    many times.
    """
    emitter: type[KernelFrame] = NestEmitter
    if kernel.members[0].role is Role.SERIAL:
        scan = any(i.op == "scan" for i in kernel.members[0].body.instrs)
        emitter = ScanEmitter if scan else ScatterEmitter
    return emitter(kernel, dtypes, escapes, shrink).run()


@dataclass
class _Reduction:
    """A reduction being emitted: the names of its accumulators."""

    member: Member
    position: int
    merge: Merge
    names: list[str] = field(default_factory=list)
    sampled: bool = False  # a variance whose only name is that of its values


class NestEmitter(KernelFrame):
    """Prints fused pointwise work and reductions."""

    opened: list[_Reduction]

    def choose(self) -> Tiling:
        roles = {m.role for m in self.kernel.members}
        space = self.space
        split = len(space) if self.split is None else self.split
        rows, along = tuple(range(split)), tuple(range(split, len(space)))
        every = tuple(range(len(space)))
        sizes = [self.dtypes[n].itemsize for n in (*self.parameters,)] or [4]
        itemsize, size = max(max(sizes), 4), self.kernel.size
        if Role.ALL in roles:
            return reduction_tiling((), every, space, itemsize, size, False, self.shrink)
        if Role.ROW in roles:
            return reduction_tiling(rows, along, space, itemsize, size, False, self.shrink)
        if Role.COLUMN in roles:
            return reduction_tiling(along, rows, space, itemsize, size, True, self.shrink)
        accesses = [
            self.at(m)[i.attrs[1]]
            for m in self.kernel.members
            for i in m.body.instrs
            if i.op in ("load", "store") and i.attrs[0] in self.parameters
        ]
        accesses = [e for e in accesses if e.symbols <= set(self.symbols)]
        own = self.split if Role.OUTER in roles else None
        return pointwise_tiling(space, self.symbols, accesses, own, self.shrink)

    @property
    def loop_axis(self) -> int | None:
        """The axis over which the kernel loops."""
        return next((k for k, a in enumerate(self.tiling.axes) if a.looped), None)

    def lines(self) -> list[str]:
        roles = {m.role for m in self.kernel.members}
        if Role.ROW not in roles:
            self._finish(self._loop(self.kernel.members, []))
            return self.emitter.outer.lines
        pending: list[_Reduction] = []
        stages = sorted({m.stage for m in self.kernel.members})
        for stage in range(-1, max(stages) + 2):
            members = [m for m in self.kernel.members if m.stage == stage]
            if stage % 2 == 0:
                if members:
                    pending = self._loop(members, self._again(members, stage))
                continue
            self._finish(pending)
            pending = []
            for member in members:
                self._emit(member)
        return self.emitter.outer.lines

    def _again(self, members: list[Member], stage: int) -> list[Member]:
        """Members of earlier stages whose values along the row are needed again."""
        if self.loop_axis is None:
            return []
        wanted = {a.buffer for m in members for a in m.body.reads}
        found = []
        for member in reversed(self.kernel.members):
            if (
                member.role is Role.FULL
                and member.stage < stage
                and wanted.intersection(member.writes)
            ):
                found.append(member)
                wanted.update(a.buffer for a in member.body.reads)
        return found[::-1]

    def _emit(self, member: Member) -> None:
        self.emitter.bound = {}
        body = member.body
        self.emitter.emit(body.instrs, self.at(member), {}, 0, len(body.instrs))

    def _loop(self, members: list[Member], again: list[Member]) -> list[_Reduction]:
        """One pass along the reduced axis, or the only pass when nothing is looped."""
        emitter = self.emitter
        looped = self.loop_axis
        if looped is not None:
            emitter.inner = Scope()
        emitter.storing = False
        for member in again:
            self._emit(member)
        emitter.storing = True
        opened: list[_Reduction] = []
        declared: list[str] = []
        for member in members:
            stop = member.body.split_point
            if stop == len(member.body.instrs):
                self._emit(member)
                continue
            emitter.bound = {}
            values: dict[int, TValue] = {}
            emitter.emit(member.body.instrs, self.at(member), values, 0, stop)
            opened.append(self._open(member, stop, values, declared))
        if looped is not None:
            emitter.outer.lines += [*declared, *self._loop_text(looped)]
            for name in [n for n, m in self.kernel.writers.items() if m in (*members, *again)]:
                value = emitter.forwarded.get(name)
                if value is not None and emitter.is_inner(value.axes):
                    del emitter.forwarded[name]
        return opened

    def _loop_text(self, looped: int) -> list[str]:
        axis, chunk = self.tiling.axes[looped], self.tiling.chunk
        inner = self.emitter.inner.lines
        start = f"{axis.name}start"
        head = self.axis_lines(looped, f"{start} + ", "\n".join(inner))
        span = f"0, {axis.extent}"
        if self.tiling.segments > 1:
            span = f"segment * {chunk}, tl.minimum(segment * {chunk} + {chunk}, {axis.extent})"
        return [
            f"for {start} in range({span}, {axis.block}):",
            *("    " + line for line in (*head, *inner)),
        ]

    # ------------------------------------------------------------------ reductions

    @property
    def reduced(self) -> int:
        """The axis that reductions run over: the last."""
        return len(self.tiling.axes) - 1

    def _open(
        self, member: Member, position: int, values: dict[int, TValue], declared: list[str]
    ) -> _Reduction:
        """Masked elements, and in a loop the accumulators they are merged into."""
        emitter = self.emitter
        instr = member.body.instrs[position]
        merge = self.merge(Merge(MONOIDS[instr.attrs[0]], instr.dtype))
        found = _Reduction(member, position, merge)
        looped = self.tiling.axes[self.reduced].looped
        mask = emitter.masks((self.reduced,))
        lines = emitter.inner.lines if looped else emitter.outer.lines
        # The values of a whole row are there: no triple for each, but two sums over the row.
        found.sampled = not looped and is_sample(member.body.instrs, instr)
        elements = []
        for n, argument in enumerate(instr.args):
            if found.sampled and n != 1:
                continue
            value = values[argument]
            text = emitter.whole(TValue(merge.enter(value.text, n), value.dtype, value.axes))
            if mask:
                text = f"tl.where({mask}, {text}, {merge.identity(n)})"
            name = emitter.fresh("e")
            lines.append(f"{name} = {text}")
            elements.append(name)
        if not looped:
            found.names = elements
            return found
        found.names = [emitter.fresh("a") for _ in elements]
        for n, name in enumerate(found.names):
            kind = f"tl.{merge.held[n].name}"
            declared.append(f"{name} = tl.full({emitter.shape()}, {merge.identity(n)}, {kind})")
        lines.append(f"{', '.join(found.names)} = {merge.call(found.names, elements)}")
        return found

    def _finish(self, opened: list[_Reduction]) -> None:
        """After the pass: merge along the axis, then the instructions behind the reduction."""
        emitter = self.emitter
        count = len(self.tiling.axes)
        kept = frozenset(range(count - 1)) if count > 1 else NO_AXES
        if self.tiling.segments > 1:
            self._partial(opened)
            return
        for found in opened:
            merge = found.merge
            totals = self._moments(found) if found.sampled else self._totals(found)
            components = []
            for n, total in enumerate(totals):
                text = f"tl.expand_dims({total}, {self.reduced})" if count > 1 else total
                name = emitter.fresh()
                emitter.outer.lines.append(f"{name} = {merge.leave(text, n)}")
                components.append(TValue(name, merge.dtypes[n], kept))
            emitter.bound = {}
            instrs = found.member.body.instrs
            values: dict[int, TValue] = {}
            for n in range(found.position, len(instrs)):
                if instrs[n].op == "project":
                    values[n] = components[instrs[n].attrs[0]]
                elif instrs[n].op != "reduction":
                    emitter.emit(instrs, self.at(found.member), values, n, n + 1)

    def _totals(self, found: _Reduction) -> list[str]:
        """The merge of all elements along the axis, component by component."""
        totals = [self.emitter.fresh("t") for _ in found.names]
        given = found.names[0] if len(totals) == 1 else f"({', '.join(found.names)})"
        self.emitter.outer.lines.append(
            f"{', '.join(totals)} = tl.reduce({given}, {self.reduced}, {found.merge.name})"
        )
        return totals

    def _moments(self, found: _Reduction) -> list[str]:
        """Count, mean and sum of squared deviations of a row that the block holds whole."""
        emitter, (value,) = self.emitter, found.names
        sums = self.merge(Merge(MONOIDS["sum"], found.merge.dtypes[0]))
        n = float(self.tiling.axes[self.reduced].extent)
        count, mean, away, total = (emitter.fresh("t") for _ in range(4))
        wide = f"tl.expand_dims({mean}, {self.reduced})" if len(self.tiling.axes) > 1 else mean
        mask = emitter.masks((self.reduced,))
        away_text = f"{value} - {wide}"
        emitter.outer.lines += [
            f"{mean} = tl.reduce({value}, {self.reduced}, {sums.name}) / {n}",
            f"{count} = tl.where({mean} == {mean}, {n}, {n})",
            f"{away} = {f'tl.where({mask}, {away_text}, 0.0)' if mask else away_text}",
            f"{total} = tl.reduce({away} * {away}, {self.reduced}, {sums.name})",
        ]
        return [count, mean, total]

    # ------------------------------------------------------------------ shared columns

    def run(self) -> list[KernelSource]:
        made = super().run()
        if self.tiling.segments > 1:
            # The pieces are those of this tiling, so it cannot be printed anew with another.
            made = [replace(s, again=None) for s in made] + ColumnMerger(self).run()
        return made

    def _partial(self, opened: list[_Reduction]) -> None:
        """Store what one piece of the columns gives, for another kernel to merge."""
        emitter = self.emitter
        axis = self.tiling.axes[0]
        tail = f", mask={axis.mask}" if axis.ragged else ""
        place = f"(segment * {axis.extent} + {axis.name})"
        for found in opened:
            lines = emitter.outer.lines
            totals = self._totals(found)
            for n, total in enumerate(totals):
                held = found.merge.held[n]
                name = f"part{len(self.scratch)}"
                nbytes = self.tiling.segments * axis.extent * held.itemsize
                self.scratch.append(Scratch(name, pointer_type(held), nbytes))
                value = f"tl.expand_dims({total}, {self.reduced})"
                lines.append(f"tl.store({name} + {place}, {value}{tail})")
        self.opened = opened

    # ------------------------------------------------------------------ stores

    def store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        """Write a block, and let readers in the kernel take it from its variable."""
        emitter = self.emitter
        value = operands[0]
        dtype = self.dtypes[buffer]
        if is_half(dtype):
            text = f"{value.text}.to(tl.{dtype.name}).to(tl.float32)"
            value = emitter.define(
                ("rounded", value.text, dtype), text, compute_dtype(dtype), value.axes
            )
        if self.escapes(buffer) and emitter.storing:
            emitter.store_line(buffer, index, value, [v.text for v in operands[1:]])
        emitter.forwarded[buffer] = value


class ColumnMerger(NestEmitter):
    """Prints the kernel that merges the pieces of shared columns."""

    def __init__(self, first: NestEmitter) -> None:
        self.first = first
        super().__init__(first.kernel, first.dtypes, first.escapes)
        self.scratch = list(first.scratch)

    def _parameters(self) -> tuple[tuple[str, ...], frozenset[str]]:
        names = [n for found in self.first.opened for n in found.member.writes]
        return tuple(names), frozenset(names)

    def choose(self) -> Tiling:
        tiling = self.first.tiling
        columns = tiling.axes[0]
        block = power(tiling.segments)
        wide = max(1, min(columns.block, 2048 // block))
        axes = (Axis("x", columns.extent, wide), Axis("r", tiling.segments, block))
        return Tiling(axes, (tiling.groups[0], ()), warps_for(wide * block, 4))

    def run(self) -> list[KernelSource]:
        emitter = self.emitter
        lines = emitter.outer.lines
        mask = emitter.masks((0, 1))
        tail = f", mask={mask}, other=0" if mask else ""
        columns = self.tiling.axes[0].extent
        count = 0
        for found in self.first.opened:
            merge = self.merge(found.merge)
            names = [emitter.fresh("e") for _ in merge.held]
            for n, name in enumerate(names):
                text = f"tl.load(part{count} + (r * {columns} + x){tail})"
                lines.append(f"{name} = {text}")
                if emitter.masks((1,)):
                    inside = emitter.masks((1,))
                    lines.append(f"{name} = tl.where({inside}, {name}, {merge.identity(n)})")
                count += 1
            self._finish([_Reduction(found.member, found.position, merge, names)])
        name = f"{self.kernel.name}_merge"
        return [self.source(name, self.grid_lines(lines), lines)]
