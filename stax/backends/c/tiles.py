"""Reads that step along a row, served from arrays in which they do not.

Input: a kernel and its loops.  Output, for pointwise kernels: which reads step far along a row and
are better served from a transposed tile, a small array filled once for each tile, and the loops
over tiles.  For kernels that reduce: the columns of small arrays that every row reads, such as the
coordinates of points, each gathered once before all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stax.backends.c.frame import KernelFrame
from stax.backends.c.handler import load_text
from stax.backends.c.segments import breakpoints
from stax.backends.c.streams import streams_of
from stax.backends.c.transposed import TRANSPOSED_BITS
from stax.dtypes import DType
from stax.loops.body import Instr
from stax.loops.scalar_ops import c_type
from stax.loops.symbolic import Expr, Symbol, affine_coefficients
from stax.schedule.kernel import Member, Role

TILE_ROWS = 64
TILE_LENGTH = 64
TILE_BOUNDS = ("first", "end")  # along the row, as C variables
COLUMN_BYTES = 65_536  # of all columns of a kernel together
COLUMN_ROWS = 8  # that read a column, from which gathering it pays
FAR = 16  # elements from which a stride leaves the cache line


@dataclass(frozen=True)
class Tile:
    """A read across the rows: an array filled once for each tile.

    `step` is how far the next element of a row lies; `ahead` whether the next row begins one
    element after this one, and not one before it.
    """

    buffer: str
    index: Expr
    step: int
    ahead: bool


def transposed_reads(
    bodies: Iterable[tuple[Sequence[Instr], Sequence[Expr]]], row: Symbol, loop: Symbol
) -> list[Tile]:
    """Unmasked reads that step far along `loop` and to the next element along `row`."""
    found: dict[tuple[str, Expr], Tile] = {}
    for instrs, indexes in bodies:
        for instr in instrs:
            if instr.op != "load" or instr.args:
                continue
            index = indexes[instr.attrs[1]]
            if any(s.name.startswith("s") for s in index.symbols):
                continue
            coefficients = affine_coefficients(index, (row, loop))
            if coefficients is None:
                continue
            if abs(coefficients[loop]) >= FAR and abs(coefficients[row]) == 1:
                tile = Tile(instr.attrs[0], index, coefficients[loop], coefficients[row] == 1)
                found.setdefault((instr.attrs[0], index), tile)
    return list(found.values())


class TiledFrame(KernelFrame):
    """A frame that can walk over its space in tiles."""

    def tiles(self) -> list[tuple[Tile, str]]:
        """Reads across the rows of a pointwise kernel, each with its tile's C name."""
        if not self.rows or len(self.along) != 1 or self.rows[-1] < TILE_ROWS:
            return []
        if any(m.role is not Role.FULL for m in self.kernel.members) or self.along[0] < TILE_LENGTH:
            return []
        if self.cuts(self.kernel.members):
            return []
        row, along = self.row_symbols[-1], self.along_symbols[0]
        bodies = [(m.body.instrs, self.at(m)) for m in self.kernel.members]
        found = []
        for tile in transposed_reads(bodies, row, along):
            if tile.buffer in self.kernel.writers:
                continue
            name = self.emitter.fresh("tile")
            found.append((tile, name))
            place = f"({row.name} - row) * {TILE_LENGTH} + {along.name} - first"
            key = (tile.buffer, tile.index)
            text = load_text(name, place, self.dtypes[tile.buffer])
            self.emitter.tiles[key] = text
        return found

    def columns(self) -> list[str]:
        """Statements before the rows that gather what each of them reads in steps of some.

        A vector of every third element takes three loads and the shuffles between them.
        """
        reduces = any(m.role in (Role.ROW, Role.ALL, Role.COLUMN) for m in self.kernel.members)
        if not reduces or len(self.along) != 1 or math.prod(self.rows) < COLUMN_ROWS:
            return []
        along, n = self.along_symbols[0], self.along[0]
        found: dict[tuple[str, Expr], DType] = {}
        for member in self.kernel.members:
            for instr in member.body.instrs:
                if instr.op != "load" or instr.args or instr.attrs[0] in self.kernel.writers:
                    continue
                index = self.at(member)[instr.attrs[1]]
                steps = affine_coefficients(index, (along,))
                if steps is not None and index.symbols == {along} and abs(steps[along]) > 1:
                    found[instr.attrs[0], index] = self.dtypes[instr.attrs[0]]
        if n < TILE_LENGTH or n * sum(d.itemsize for d in found.values()) > COLUMN_BYTES:
            return []
        lines = []
        for (buffer, index), dtype in found.items():
            name = self.emitter.fresh("column")
            source = f"{self.emitter.pointers[buffer]}[{self.emitter.index_text(index)}]"
            self.emitter.tiles[buffer, index] = load_text(name, along.name, dtype)
            lines += [
                f"{c_type(dtype)} {name}[{n}] __attribute__((aligned(64)));",
                f"for (int64_t {along.name} = 0; {along.name} < {n}; {along.name}++) "
                f"{name}[{along.name}] = {source};",
            ]
        return lines

    def tiled(self, tiles: list[tuple[Tile, str]], row: list[str]) -> list[str]:
        """Loops over tiles; the far reads of each fill a small array first.

        `row` does the elements of a row in the bounds of a tile, however many loops that takes.
        """
        outer, last = self.rows[:-1], self.rows[-1]
        name, along = self.row_symbols[-1].name, self.along_symbols[0].name
        n = self.along[0]
        lines = self.pragma(collapse=len(outer) + 1)
        for s, extent in zip(self.row_symbols, outer, strict=False):
            lines.append(f"for (int64_t {s.name} = 0; {s.name} < {extent}; {s.name}++)")
        lines += [
            f"for (int64_t row = 0; row < {last}; row += {TILE_ROWS})",
            f"for (int64_t first = 0; first < {n}; first += {TILE_LENGTH}) {{",
            f"    int64_t below = row + {TILE_ROWS} < {last} ? row + {TILE_ROWS} : {last};",
            f"    int64_t end = first + {TILE_LENGTH} < {n} ? first + {TILE_LENGTH} : {n};",
        ]
        for tile, array in tiles:
            lines += self._filled(tile, array, name, along)
        lines += [
            f"    for (int64_t {name} = row; {name} < below; {name}++) {{",
            *("        " + s for s in self._next_tile(along, row)),
            *("        " + s for s in row),
            "    }",
            "}",
        ]
        return lines

    def _next_tile(self, along: str, row: list[str]) -> list[str]:
        """Fetches of what this row of the next tile reads and writes in steps of one.

        A tile has a few lines of each row, too few for the processor to see where they lead.
        """
        if self.emitter.plain:
            return []
        elements = [s.strip() for s in row if not s.strip().startswith(("for ", "#pragma"))]
        streams = streams_of(elements, along, self.emitter.itemsizes, self.emitter.points)
        return [s for stream in streams for s in stream.fetches("first", TILE_LENGTH, TILE_LENGTH)]

    def _filled(self, tile: Tile, array: str, name: str, along: str) -> list[str]:
        """The declaration of a tile's array, and the statements that fill it."""
        dtype = self.dtypes[tile.buffer]
        pointer, index = self.emitter.pointers[tile.buffer], self.emitter.index_text(tile.index)
        space = f"[{TILE_ROWS * TILE_LENGTH}] __attribute__((aligned(64)))"
        bits = 8 * dtype.itemsize
        if tile.ahead and bits in TRANSPOSED_BITS:
            return [
                f"    {c_type(dtype)} {array}{space};",
                "    {",
                f"        int64_t {name} = row, {along} = first;",
                f"        stax_transpose_b{bits}({pointer} + ({index}), {tile.step}, {array}, "
                f"{TILE_LENGTH}, below - row, end - first);",
                "    }",
            ]
        return [
            f"    {c_type(dtype)} {array}{space};",
            f"    for (int64_t {along} = first; {along} < end; {along}++)",
            f"        for (int64_t {name} = row; {name} < below; {name}++)",
            f"            {array}[({name} - row) * {TILE_LENGTH} + {along} - first] =",
            f"                {pointer}[{index}];",
        ]

    def cuts(self, members: list[Member]) -> list[int]:
        """Where the loop of a purely pointwise stage is cut, at the edges of its masked pieces."""
        if len(self.along) != 1 or any(m.role is not Role.FULL for m in members):
            return []
        bodies = [(m.body.instrs, self.at(m)) for m in members]
        return breakpoints(bodies, self.along_symbols[0])
