"""Where the data of a row lies: fetched ahead of its use, and scratch beside the output.

Input: a kernel and its stages.  Output: the addresses that a loop fetches for the next row, and the
declarations of arrays that keep a row from one stage to a later one.
"""

from __future__ import annotations

from stax.backends.c.lanes import Ahead
from stax.backends.c.moments import PIECE
from stax.backends.c.reductions import OpenReduction
from stax.backends.c.tiles import TiledFrame
from stax.loops.symbolic import affine_coefficients, as_expr, symbol
from stax.schedule.kernel import Role

FAR_BYTES = 1 << 20  # of an array from which its next row is fetched ahead
NEAR_ELEMENTS = 8192  # of rows that are fetched ahead
CACHE_LINE = 64
PAGE = 4096


class PlacedFrame(TiledFrame):
    """A frame that knows where rows lie."""

    def ahead(self, opened: list[OpenReduction]) -> list[Ahead]:
        """What the last reduction of a row asks memory for: the next row, or piece, it reads."""
        if self.emitter.plain:
            return []
        n = self.along[-1]
        stages = [m.stage for m in self.kernel.members if m.role in (Role.ROW, Role.ALL)]
        pieces = n > PIECE and any(r.sample is not None for r in opened)
        if len(self.along) != 1 or not opened or opened[0].member.stage != max(stages, default=-1):
            return []
        if not (self.rows or pieces):
            return []
        along = self.along_symbols[0]
        place = {along: as_expr(symbol("{t}", 0, n - 1))}
        found: dict[str, Ahead] = {}
        for member in self.kernel.members:
            for instr in member.body.instrs:
                if instr.op != "load" or instr.args or instr.attrs[0] in self.kernel.writers:
                    continue
                index, itemsize = self.at(member)[instr.attrs[1]], instr.attrs[2].itemsize
                steps = affine_coefficients(index, (*self.row_symbols, along))
                if steps is None or steps[along] != 1 or len(index.symbols) > 2:
                    continue
                step = PIECE if pieces else steps[self.row_symbols[-1]]
                if step < min(n, PIECE) or self.kernel.numel * itemsize < FAR_BYTES:
                    continue
                text = self.emitter.index_text(index.substitute(place) + step)
                pointer = self.emitter.pointers[instr.attrs[0]]
                found[text] = Ahead(f"{pointer} + ({text})", CACHE_LINE // itemsize)
        return list(found.values()) if min(n, PIECE) * len(found) <= NEAR_ELEMENTS else []

    def room(self, array: str, kind: str, n: int, stage: int) -> list[str]:
        """Declarations of row scratch, which lies in its page where the row of an output does.

        Otherwise reading it waits for writes to that output which are the same in the last bits of
        their addresses.
        """
        along = dict.fromkeys(self.along_symbols, as_expr(0))
        for member in self.kernel.members:
            wanted = member.role is Role.FULL and not self.emitter.plain
            for access in member.body.writes if wanted else ():
                if member.stage > stage and self.escapes(access.buffer):
                    (store,) = [i for i in member.body.instrs if i.op == "store"][:1]
                    at = self.emitter.index_text(self.at(member)[store.attrs[1]].substitute(along))
                    row = f"({self.emitter.pointers[access.buffer]} + ({at}))"
                    return [
                        f"{kind} {array}_page[{n} + {PAGE} / sizeof({kind})] "
                        f"__attribute__((aligned({PAGE})));",
                        f"{kind} *{array} = {array}_page "
                        f"+ ((uintptr_t){row} & {PAGE - 1}) / sizeof({kind});",
                    ]
        return [f"{kind} {array}[{n}] __attribute__((aligned(64)));"]
