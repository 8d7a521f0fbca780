"""Products whose result is used at once: the reader is computed on the block before it is stored.

Input: the steps of a program.  Output: the same with a product, a pointwise kernel that reads it
element by element, and what makes its operands (see `prologue`), joined into one; and the function
of such a group.  The kernel's members are printed after the loop of the product with the
accumulated block as the value they read.  The product itself is stored only if another step reads
it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from stax.backends.triton.emit import NestEmitter
from stax.backends.triton.handler import Axis
from stax.backends.triton.kernel import KernelSource
from stax.backends.triton.prologue import Made, maker_of, over_matrix, without
from stax.backends.triton.scores import Scores
from stax.backends.triton.templates import (
    Blocks,
    Contraction,
    chosen_blocks,
    cut_choices,
    product_lines,
    worth_tuning,
)
from stax.backends.triton.tiling import Tiling
from stax.dtypes import DType
from stax.loops.buffers import BufferTable, ExternBuffer
from stax.loops.layout import contiguous_strides
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.symbolic import Expr, as_expr, linearize
from stax.schedule.fusion import CallStep, Scheduled
from stax.schedule.kernel import Kernel, Role, access_of

MOST_INSTRUCTIONS = 150


@dataclass(eq=False)
class Joined:
    """A product, the kernel that reads it, and what makes its operands."""

    call: CallStep
    product: str
    kernel: Kernel | None  # its first loops make the rows of the product, the others its columns
    makers: tuple[Made | None, Made | None] = (None, None)


Step = Scheduled | Scores


def is_contraction(buffer: ExternBuffer) -> bool:
    """Whether the result of a call is a product, of matrices or as a convolution."""
    return buffer.extern_kind in ("matmul", "conv_gemm")


def joined(
    order: Sequence[Step], table: BufferTable, outputs: Collection[str]
) -> list[Step | Joined]:
    """The steps with products joined to the first step that reads them, and to the steps that
    make their operands, where that is possible."""
    readers: dict[str, list[int]] = {}
    writers: dict[str, list[int]] = {}
    products: dict[int, tuple[CallStep, ExternBuffer]] = {}
    for step, item in enumerate(order):
        for name in reads_of(item):
            readers.setdefault(name, []).append(step)
        for name in writes_of(item):
            writers.setdefault(name, []).append(step)
        if isinstance(item, CallStep):
            buffer = table[item.writes[0]]
            if isinstance(buffer, ExternBuffer) and is_contraction(buffer):
                products[step] = item, buffer
    over: dict[int, tuple[int, Kernel]] = {}  # by product: where it is read, and by what
    for step, (item, buffer) in products.items():
        for place in readers.get(buffer.name, [])[:1]:
            reader = order[place]
            # What the product reads must still be the same where the kernel runs.
            kept = all(w <= step for name in item.reads for w in writers.get(name, []))
            if kept and isinstance(reader, Kernel) and all(place != p for p, _ in over.values()):
                kernel = _over_product(reader, buffer)
                if kernel is not None:
                    over[step] = place, kernel
    gone = {place for place, _ in over.values()}
    found: dict[int, Step | Joined] = dict(enumerate(order))
    for step, (item, buffer) in products.items():
        makers: list[Made | None] = [None, None]
        operands = [operand.buffer for operand in buffer.inputs[:2]]
        for name in dict.fromkeys(operands):
            made_at = writers.get(name, [])
            if len(made_at) != 1 or name in outputs or made_at[0] in gone:
                continue
            maker = found.get(made_at[0])
            if not isinstance(maker, Kernel) or set(readers[name]) != {step}:
                continue
            sides = [side for side in (0, 1) if operands[side] == name]
            made = {side: maker_of(maker, table, buffer, side) for side in sides}
            taken = [n for m in made.values() if m is not None for n in m.types]
            if None in made.values() or any(
                w > made_at[0] for n in taken for w in writers.get(n, [])
            ):
                continue
            for side in sides:
                makers[side] = made[side]
            rest = without(maker, name)
            if rest is None:
                del found[made_at[0]]
            else:
                found[made_at[0]] = rest
        place, kernel = over.get(step, (step, None))
        if kernel is not None or makers != [None, None]:
            del found[step]
            found[place] = Joined(item, buffer.name, kernel, (makers[0], makers[1]))
    return [found[step] for step in sorted(found)]


def _over_product(kernel: Kernel, product: ExternBuffer) -> Kernel | None:
    """The kernel in the rows and columns of the product, if it reads nothing but its own point."""
    p = product.params
    if product.extern_kind == "matmul":
        batch, rows, columns = p["b"], p["m"], p["n"]
    else:
        batch, columns = p["pieces"] * p["groups"], product.shape[-1]
        rows = math.prod(product.shape) // columns
    if batch != 1 or kernel.size > MOST_INSTRUCTIONS or kernel.numel != rows * columns:
        return None
    if any(m.role is not Role.FULL for m in kernel.members):
        return None
    found = over_matrix(kernel, rows, columns)
    if found is None:
        return None
    made, own_point = found
    for member in made.members:
        if any(e is not own_point for e in access_of(member, product.name, "load")):
            return None
        if any(i.op == "check" for i in member.body.instrs):
            return None
    return made


def reads_of(item: Step | Joined) -> list[str]:
    """The buffers a step reads from memory that it does not make itself."""
    if isinstance(item, Kernel):
        return [a.buffer for m in item.members for a in m.body.reads]
    if isinstance(item, CallStep | Scores):
        return list(item.reads)
    made = [m for m in item.makers if m is not None]
    own = {item.product, *(m.buffer for m in made)}
    reads = [*item.call.reads, *(n for m in made for n in m.types)]
    if item.kernel is not None:
        reads += [a.buffer for m in item.kernel.members for a in m.body.reads]
    return [n for n in reads if n not in own]


def writes_of(item: Step | Joined) -> list[str]:
    """The buffers a step writes."""
    if isinstance(item, Kernel):
        return [n for m in item.members for n in m.writes]
    if isinstance(item, CallStep | Scores):
        return list(item.writes)
    members = [] if item.kernel is None else item.kernel.members
    return [item.product, *(n for m in members for n in m.writes)]


class ProductEmitter(NestEmitter):
    """Prints a product and the members that read it."""

    def __init__(
        self,
        product: str,
        kernel: Kernel,
        what: Contraction,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
        shrink: int = 0,
        use: Blocks | None = None,
    ) -> None:
        self.product = product
        self.what = what
        blocks = use or chosen_blocks(*what.shape, what.dtype)
        self.blocks = blocks.smaller(shrink)
        super().__init__(kernel, dtypes, escapes, shrink)

    def divided(self, kernel: Kernel) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
        return kernel.space, kernel.split, [m.indexes for m in kernel.members]

    def _parameters(self) -> tuple[tuple[str, ...], frozenset[str]]:
        own, written = super()._parameters()
        seen = dict.fromkeys(self.what.types)
        product = self.product
        seen.update(dict.fromkeys(n for n in own if n != product))
        if self.escapes(product):
            seen[product] = None
            written |= {product}
        return tuple(seen), written

    def choose(self) -> Tiling:
        _, rows, columns, _ = self.what.shape
        kernel = self.kernel
        axes = (Axis("y", rows, self.blocks.m), Axis("x", columns, self.blocks.n))
        cut = kernel.split or 0
        groups = (tuple(range(cut)), tuple(range(cut, len(kernel.space))))
        return Tiling(axes, groups, self.blocks.warps)

    def run(self) -> list[KernelSource]:
        emitter = self.emitter
        product, dtype = self.product, self.dtypes[self.product]
        text = "acc"
        if is_half(dtype):
            text = f"acc.to(tl.{dtype.name}).to(tl.float32)"
        every = frozenset((0, 1))
        value = emitter.define(("product",), text, compute_dtype(dtype), every)
        emitter.forwarded[product] = value
        if self.escapes(product):
            symbols = [as_expr(s) for s in self.symbols]
            place = linearize(symbols, contiguous_strides(self.space))
            emitter.store_line(product, place, value)
        for member in self.kernel.members:
            self._emit(member)
        lines = emitter.outer.lines
        text = "\n".join(lines)
        pointers = {n: f"p{self.parameters.index(n)}" for n in self.what.types}
        body = [
            *self.what.loop(pointers, self.blocks),
            *self.axis_lines(0, f"row * {self.blocks.m} + ", text),
            *self.axis_lines(1, f"column * {self.blocks.n} + ", text),
            *lines,
        ]
        name = f"{self.kernel.name}_product"
        variants = self._variants if worth_tuning(self.what.shape) else None
        whole = product_lines(self.what.shape, self.blocks, self.wide, body)
        made = self.source(name, [], whole, again=self._again_smaller, variants=variants)
        grid = self.blocks.grid(self.what.shape)
        return [replace(made, stages=self.blocks.stages, grid=grid)]

    def _variants(self) -> list[KernelSource]:
        own = (self.product, self.kernel, self.what, self.dtypes, self.escapes)
        return [
            ProductEmitter(*own, use=cut).run()[0]
            for cut in cut_choices(self.what.shape, self.what.dtype)
            if cut != self.blocks
        ]

    def _again_smaller(self, shrink: int) -> KernelSource:
        own = (self.product, self.kernel, self.what, self.dtypes, self.escapes)
        return ProductEmitter(*own, shrink).run()[0]
