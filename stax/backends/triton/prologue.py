"""Operands of a product that are computed where they are read, instead of being stored first.

Input: a kernel that makes, point by point, a matrix which one product alone reads.  Output: a
`Made`: the statements that compute a block of the matrix in the loop of the product.  A conversion,
a scale or a bias is free there, and the matrix moves neither to memory nor back; but it is computed
once for each column of blocks (a right operand: for each row of blocks), so only where those are
few, and an exponential or its like only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stax.backends.triton.emit import NestEmitter
from stax.backends.triton.handler import Axis
from stax.backends.triton.kernel import Operand
from stax.backends.triton.scores import loops_making, operand_of
from stax.backends.triton.templates import MULTIPROCESSORS, Blocks, chosen_blocks
from stax.backends.triton.tiling import Tiling
from stax.dtypes import DType
from stax.loops.buffers import BufferTable, ExternBuffer
from stax.loops.layout import contiguous_strides
from stax.loops.scalar_ops import transcendental_names
from stax.loops.symbolic import Expr, as_expr, linearize
from stax.schedule.kernel import (
    Kernel,
    Role,
    access_of,
    common_refinement,
    mapped_indexes,
    space_symbols,
)

MOST_TIMES = 2  # that an element is computed
MOST_INSTRUCTIONS = 40
MOST_BYTES = 128 * 1024  # that a program reads for it, where programs are few


@dataclass(frozen=True, eq=False)
class Made:
    """A matrix of a product and the kernel that makes it.

    `kernel` has the loops of the matrix in the order of memory, which is that of its `turned`
    when the columns come first; `shape` is that of the matrix, `side` 0 for a left operand.
    """

    kernel: Kernel
    buffer: str
    dtypes: Mapping[str, DType]
    shape: tuple[int, int]
    turned: bool
    side: int

    @property
    def types(self) -> dict[str, DType]:
        """The buffers that are read, and what they hold."""
        return {a.buffer: self.dtypes[a.buffer] for a in self.kernel.members[0].body.reads}

    def lines(self, pointers: Mapping[str, str], use: Blocks) -> list[str]:
        """The statements of one step along the contraction, which give `left` or `right`."""
        return OperandEmitter(self, use, pointers).statements()


class OperandEmitter(NestEmitter):
    """Prints the members of a `Made` on a block of its matrix."""

    def __init__(self, made: Made, use: Blocks, pointers: Mapping[str, str]) -> None:
        self.made, self.use = made, use
        super().__init__(made.kernel, made.dtypes, lambda name: False)
        self.emitter.pointers = pointers

    def divided(self, kernel: Kernel) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
        return kernel.space, kernel.split, [m.indexes for m in kernel.members]

    def choose(self) -> Tiling:
        made, use = self.made, self.use
        outer, inner = made.shape
        blocks = (use.k, use.n) if made.side else (use.m, use.k)
        axes = (Axis("u", outer, blocks[0]), Axis("v", inner, blocks[1]))
        cut = self.kernel.split or 0
        groups = (tuple(range(cut)), tuple(range(cut, len(self.kernel.space))))
        return Tiling(axes, groups[::-1] if made.turned else groups, use.warps)

    def statements(self) -> list[str]:
        """The variables of the block, its elements, and the operand."""
        emitter, made, use = self.emitter, self.made, self.use
        for member in self.kernel.members:
            self._emit(member)
        value = emitter.forwarded[made.buffer]
        text = emitter.whole(value)
        outside = emitter.masks((1 - made.side,))  # beyond the end of the contraction
        if outside:
            text = f"tl.where({outside}, {text}, 0)"
        stored = emitter.stored_text(replace(value, text=text), made.dtypes[made.buffer])
        lines = [*emitter.outer.lines, f"{'right' if made.side else 'left'} = {stored}"]
        whole = "\n".join(lines)
        starts = ("start", f"column * {use.n}") if made.side else (f"row * {use.m}", "start")
        head = [line for k in (0, 1) for line in self.axis_lines(k, f"{starts[k]} + ", whole)]
        return [*head, *lines]


def made(
    kernel: Kernel,
    operand: Operand,
    shape: tuple[int, int],
    side: int,
    dtypes: Mapping[str, DType],
) -> Made | None:
    """The operand of this shape that the kernel makes, if its elements can be made one by one."""
    (rows, columns), name = shape, operand.buffer
    member = kernel.writers[name]
    body = member.body
    if member.role is not Role.FULL or member.writes != (name,) or kernel.numel != rows * columns:
        return None
    if name in kernel.partial or any(a.buffer in kernel.writers for a in body.reads):
        return None
    if len(body.instrs) > MOST_INSTRUCTIONS or any(i.op == "check" for i in body.instrs):
        return None
    if operand.batches or operand.offset:
        return None
    steps = [s for s, n in zip(operand.strides[1:], shape, strict=True) if n != 1]
    plain = [s for s, n in zip((columns, 1), shape, strict=True) if n != 1]
    turned = [s for s, n in zip((1, rows), shape, strict=True) if n != 1]
    if steps not in (plain, turned):
        return None
    is_turned = steps != plain
    alone = Kernel(kernel.name, kernel.space, kernel.split, [member])
    over = over_matrix(alone, *((columns, rows) if is_turned else (rows, columns)))
    if over is None or any(e is not over[1] for e in access_of(over[0].members[0], name, "store")):
        return None
    return Made(over[0], name, dtypes, shape, is_turned, side)


def without(kernel: Kernel, buffer: str) -> Kernel | None:
    """The kernel without the member that writes a buffer which it does not read, if one is left."""
    left = Kernel(kernel.name, kernel.space, kernel.split)
    for member in kernel.members:
        if buffer not in member.writes:
            left.add(member)
    left.partial |= kernel.partial
    return left if left.members else None


def over_matrix(kernel: Kernel, rows: int, columns: int) -> tuple[Kernel, Expr] | None:
    """A pointwise kernel in loops of which the first make the rows of a matrix, the others its
    columns, and the position of a point in the matrix; None if its loops cannot be divided so."""
    space = common_refinement(kernel.space, (rows, columns))
    cut = None if space is None else loops_making(space, rows)
    if space is None or cut is None:
        return None
    found = Kernel(kernel.name, space, cut)
    for member in kernel.members:
        own = replace(member)
        own.indexes = mapped_indexes(own, space, None)
        found.add(own)
    symbols = [as_expr(s) for s in space_symbols(space)]
    return found, linearize(symbols, contiguous_strides(space))


def maker_of(kernel: Kernel, table: BufferTable, product: ExternBuffer, side: int) -> Made | None:
    """The operand of a product that the kernel makes, where computing it there moves less."""
    if product.extern_kind != "matmul":
        return None
    p, given = product.params, product.inputs[side]
    shape = (p["b"], p["m"], p["n"], p["k"])
    b, m, n, k = shape
    found = made(
        kernel,
        operand_of(given),
        (k, n) if side else (m, k),
        side,
        {buffer.name: buffer.dtype for buffer in table},
    )
    if b != 1 or found is None:
        return None
    blocks = chosen_blocks(*shape, given.dtype)
    times = -(-m // blocks.m) if side else -(-n // blocks.n)
    ops = {i.op for i in found.kernel.members[0].body.instrs}
    if times > 1 and ops & transcendental_names():
        return None
    read = sum(table[name].nbytes for name in found.types)
    rows = -(-n // blocks.n) if side else -(-m // blocks.m)
    if blocks.tiles(shape) < MULTIPROCESSORS and read // rows > MOST_BYTES:
        return None  # many programs that make it are faster than few
    stored = read + (1 + times) * table[given.buffer].nbytes
    return found if times <= MOST_TIMES and times * read <= stored else None
