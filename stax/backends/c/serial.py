"""Scans and scatters in C: one body in its own order.

Input: a kernel whose only member is a scan or a scatter.  Output: its C function.  A scan runs
along its axis in order, rows in parallel; a scatter applies its updates one after the other, so
that repeated places give the same bits every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from stax.backends.c.fission import BLOCK_OF_LOOKUPS, blocked_loops
from stax.backends.c.frame import KernelFrame
from stax.backends.c.handler import INNER_DEPTH, CValue, load_text, store_text
from stax.backends.c.lanes import Loop
from stax.backends.c.owners import Owners, one_row, owners_of, owners_of_rows, parted
from stax.backends.c.reductions import Accumulator, combine_lines
from stax.backends.c.streams import streams_of
from stax.loops.monoids import MONOIDS, PROD
from stax.loops.scalar_ops import SCALAR_OPS, compute_dtype, spelling
from stax.loops.symbolic import Expr, Symbol


class SerialEmitter(KernelFrame):
    """Prints a scan or a scatter."""

    def lines(self) -> list[str]:
        """The loops around the body."""
        member = self.kernel.members[0]
        body = member.body
        self.begin(member)
        emitter = self.emitter
        values: dict[int, CValue] = {}
        place = next((n for n, i in enumerate(body.instrs) if i.op == "scan"), None)
        if place is None:
            emitter.emit(body.instrs, self.at(member), values, 0, len(body.instrs))
            return self._in_order((*self.row_symbols, *self.along_symbols))
        instr = body.instrs[place]
        monoid = MONOIDS[instr.attrs[0]]
        emitter.emit(body.instrs, self.at(member), values, 0, place)
        accumulator = Accumulator(monoid, instr.dtype, emitter, running=True)
        operands = [values[a] for a in instr.args]
        right = [v.text for v in operands]
        merged = combine_lines(monoid, accumulator.dtypes, accumulator.names, right, emitter)
        if monoid is PROD and instr.dtype.kind == "c":
            # As in NumPy, which starts with the first element: 1 times an infinity has a NaN part.
            (total,), (value,), (line,) = accumulator.names, right, merged
            first = self.along[-1] - 1 if instr.attrs[1] else 0
            whole = line.partition(" = ")[2].rstrip(";")
            merged = [f"{total} = {self.along_symbols[-1].name} == {first} ? {value} : {whole};"]
        emitter.inner.lines.extend(merged)
        for n in range(place + 1, len(body.instrs)):
            if body.instrs[n].op == "project":
                name = accumulator.names[body.instrs[n].attrs[0]]
                values[n] = CValue(name, body.instrs[n].dtype, INNER_DEPTH)
            else:
                emitter.emit(body.instrs, self.at(member), values, n, n + 1)
        name, extent = self.along_symbols[-1].name, self.along[-1]
        header = f"for (int64_t {name} = 0; {name} < {extent}; {name}++) {{"
        if instr.attrs[1]:
            header = f"for (int64_t {name} = {extent - 1}; {name} >= 0; {name}--) {{"
        declared = [s for s in accumulator.declare() if not s.startswith("int n")]
        row = [
            *emitter.row.lines,
            *declared,
            header,
            *("    " + s for s in emitter.inner.lines),
            "}",
        ]
        return self.row_loops(row) if self.rows else row

    def _in_order(self, symbols: Sequence[Symbol]) -> list[str]:
        """The loops of a body whose writes are made one after the other."""
        emitter = self.emitter
        inner = [*emitter.row.lines, *emitter.inner.lines]
        if not symbols:
            return ["{", *("    " + s for s in inner), "}"]
        last, outer = symbols[-1], symbols[:-1]
        heads = [f"for (int64_t {s.name} = 0; {s.name} <= {s.hi}; {s.name}++)" for s in outer]
        loop = Loop(last.name, "0", str(last.hi + 1), int(last.hi) + 1)
        fixed, inner = parted(inner, loop.variable) if outer else ([], inner)
        owners = None
        if self.parallel:
            find = owners_of_rows if outer else owners_of
            owners = find(inner, emitter.addresses, emitter.itemsizes, loop.length)
        found = None
        if fixed and one_row(inner, loop.variable):
            found = ["#pragma omp simd", loop.header, *("    " + s for s in inner), "}"]
        else:
            owners = None if outer else owners
            found = self._along(loop, inner, owners)
            if found is None:
                owners = None
                found = [loop.header, *("    " + s for s in inner), "}"]
        if outer:
            skip = [owners.skip] if owners is not None else []
            found = ["{", *("    " + s for s in (*fixed, *skip, *found)), "}"]
        found = [*heads, *found]
        if owners is not None:
            self.owned = True
            found = owners.around(found, self.pragma(collapse=1), 0 if outer else BLOCK_OF_LOOKUPS)
        return found

    def _along(self, loop: Loop, lines: Sequence[str], owners: Owners | None) -> list[str] | None:
        """The innermost loop in blocks, where that pays."""
        emitter, v = self.emitter, loop.variable
        streams = streams_of(lines, v, emitter.itemsizes, emitter.points)
        return blocked_loops(
            v, loop.start, loop.stop, loop.length, lines, emitter.addresses, streams, True, owners
        )

    def store(
        self, buffer: str, index: Expr, mode: str, operands: list[CValue], depth: int
    ) -> None:
        """Write an element, merged with what is there unless `mode` is "set"."""
        dtype = self.dtypes[buffer]
        emitter = self.emitter
        target = f"{emitter.pointers[buffer]}[{emitter.index_text(index)}]"
        value = operands[0]
        if mode != "set":
            compute = compute_dtype(dtype)
            old = load_text(emitter.pointers[buffer], emitter.index_text(index), dtype)
            text = spelling(SCALAR_OPS[mode], (compute, compute), "c", (old, value.text))
            value = CValue(text, compute, INNER_DEPTH)
        line = f"{target} = {store_text(value, dtype)};"
        if len(operands) > 1:
            line = f"if ({operands[1].text}) {line}"
        emitter.inner.lines.append(line)
