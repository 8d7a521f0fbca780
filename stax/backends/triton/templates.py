"""Kernels written once and filled in: the matrix product.

Input: shapes, strides and types of a batched product.  Output: its kernel.  Programs are numbered
so that a group of neighbouring rows of blocks shares its columns in the cache; the products of a
block are accumulated in float32 (float64 for doubles), and float32 is multiplied exactly unless
the option asks for the rounded format of the device's matrix units.  A program makes one block, or,
as a choice for large products, a program for each multiprocessor makes one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stax.backends.triton.handler import pointer_type
from stax.backends.triton.kernel import NARROW, KernelSource, Operand, Product
from stax.backends.triton.tiling import power
from stax.dtypes import DType

GROUP = 8
LEAST = 16
MULTIPROCESSORS = 132


@dataclass(frozen=True)
class Blocks:
    """Extents of a block of the result and of the piece of the contraction, warps and stages.

    `persistent` programs stay until all blocks are made.
    """

    m: int
    n: int
    k: int
    warps: int
    stages: int
    persistent: bool = False

    def tiles(self, shape: tuple[int, int, int, int]) -> int:
        """The number of blocks of a product's result."""
        b, m, n, _ = shape
        return b * -(-m // self.m) * -(-n // self.n)

    def smaller(self, shrink: int) -> Blocks:
        """The blocks halved that many times, of the contraction once less."""
        return replace(
            self,
            m=max(self.m >> shrink, LEAST),
            n=max(self.n >> shrink, LEAST),
            k=max(self.k >> max(shrink - 1, 0), LEAST),
        )

    def grid(self, shape: tuple[int, int, int, int]) -> int:
        """The number of programs."""
        return min(self.tiles(shape), MULTIPROCESSORS) if self.persistent else self.tiles(shape)


# The first row that fits the type; larger blocks pay only where there are enough of them.
TABLE: dict[str, tuple[Blocks, ...]] = {
    "half": (Blocks(128, 256, 64, 8, 3), Blocks(128, 128, 64, 8, 3), Blocks(64, 64, 64, 4, 3)),
    "float32": (Blocks(128, 64, 32, 8, 2), Blocks(64, 64, 32, 4, 3), Blocks(32, 32, 32, 4, 3)),
    "float64": (Blocks(64, 64, 16, 8, 2), Blocks(32, 32, 16, 4, 2)),
}
TUNED_FLOPS = 2**30


def choices(dtype: DType) -> tuple[Blocks, ...]:
    """The rows of the table for a type, largest blocks first."""
    return TABLE["half" if dtype.itemsize == 2 else dtype.name]


def chosen_blocks(b: int, m: int, n: int, k: int, dtype: DType) -> Blocks:
    """The largest blocks that still give every multiprocessor one, cut to the problem."""
    rows = choices(dtype)
    found = rows[-1]
    for row in rows:
        if b * -(-m // row.m) * -(-n // row.n) >= MULTIPROCESSORS:
            found = row
            break
    return _cut(found, m, n, k)


def _cut(row: Blocks, m: int, n: int, k: int) -> Blocks:
    def least(block: int, extent: int) -> int:
        return max(LEAST, min(block, power(extent)))

    return Blocks(least(row.m, m), least(row.n, n), least(row.k, k), row.warps, row.stages)


def cut_choices(shape: tuple[int, int, int, int], dtype: DType) -> list[Blocks]:
    """All rows of the table, cut to the problem, without repetition; the first also persistent,
    where a multiprocessor would have several of its blocks."""
    found = list(dict.fromkeys(_cut(row, *shape[1:]) for row in choices(dtype)))
    if found[0].tiles(shape) > 2 * MULTIPROCESSORS:
        found.append(replace(found[0], persistent=True))
    return found


def worth_tuning(shape: tuple[int, int, int, int]) -> bool:
    """Whether a product is large enough for its blocks to be measured."""
    return 2 * math.prod(shape) >= TUNED_FLOPS


def product_lines(
    shape: tuple[int, int, int, int], use: Blocks, wide: bool, lines: Sequence[str]
) -> list[str]:
    """The statements of a program: for its block or blocks, the batch, row and column of a block,
    and then `lines`."""
    _, m, n, _ = shape
    tiles_m, tiles_n = -(-m // use.m), -(-n // use.n)
    per_group = GROUP * tiles_n
    whole = [
        f"batch = (pid // {tiles_m * tiles_n}){'.to(tl.int64)' if wide else ''}",
        f"tile = pid % {tiles_m * tiles_n}",
        f"first = tile // {per_group} * {GROUP}",
        f"height = tl.minimum({tiles_m} - first, {GROUP})",
        f"row = first + tile % {per_group} % height",
        f"column = tile % {per_group} // height",
        *lines,
    ]
    if not use.persistent:
        return ["pid = tl.program_id(0)", *whole]
    span = f"tl.program_id(0), {use.tiles(shape)}, {use.grid(shape)}"
    return [f"for pid in range({span}):", *("    " + line for line in whole)]


class Maker(Protocol):
    """What computes an operand where it is read."""

    @property
    def types(self) -> dict[str, DType]:
        """The buffers that it reads, and what they hold."""

    def lines(self, pointers: Mapping[str, str], use: Blocks) -> list[str]:
        """The statements of one step along the contraction, which give `left` or `right`."""


@dataclass(frozen=True)
class Contraction:
    """What a program multiplies: a batch of matrices that are read by addresses of some form.

    `shape` is (b, m, n, k), `dtype` that of the operands; the result is written row-major at
    `strides` of its batch, rows and columns.
    """

    shape: tuple[int, int, int, int]
    left: str
    right: str
    dtype: DType
    precision: str
    strides: tuple[int, int, int]

    @property
    def total(self) -> str:
        """The type in which products are added up."""
        return "tl.float64" if self.dtype.itemsize == 8 else "tl.float32"

    @property
    def types(self) -> dict[str, DType]:
        """The buffers that are read, and what they hold."""
        return {self.left: self.dtype, self.right: self.dtype}

    def dot(self, left: str, right: str) -> str:
        """The statement that adds the product of two blocks."""
        return (
            f'acc = tl.dot({left}, {right}, acc, input_precision="{self.precision}", '
            f"out_dtype={self.total})"
        )

    def place(self) -> str:
        """Where a batch index starts in the result."""
        return f"batch * {self.strides[0]}"

    def loop(self, pointers: Mapping[str, str], use: Blocks) -> list[str]:
        """The loop over the contraction; `acc` is the block of the product.

        `pointers` holds the parameter of each buffer that is read.
        """
        raise TypeError(f"{type(self).__name__} has no loop")


@dataclass(frozen=True)
class MatrixProduct(Contraction):
    """The product of strided matrices, or of such that are computed where they are read."""

    operands: tuple[Operand, Operand]
    makers: tuple[Maker | None, Maker | None] = (None, None)

    @property
    def types(self) -> dict[str, DType]:
        found: dict[str, DType] = {}
        for maker, name in zip(self.makers, (self.left, self.right), strict=True):
            found.update({name: self.dtype} if maker is None else maker.types)
        return found

    @staticmethod
    def of(
        shape: tuple[int, int, int, int],
        operands: tuple[Operand, Operand],
        dtype: DType,
        precision: str,
    ) -> MatrixProduct:
        """That of two operands, written densely."""
        _, m, n, _ = shape
        names = (operands[0].buffer, operands[1].buffer)
        return MatrixProduct(shape, *names, dtype, precision, (m * n, n, 1), operands)

    def loop(self, pointers: Mapping[str, str], use: Blocks) -> list[str]:
        _, m, n, k = self.shape
        left, right = self.operands
        batch = self.shape[0]
        reach = max(left.reach((batch, m, k)), right.reach((batch, k, n)))
        wide = ".to(tl.int64)" if reach >= NARROW else ""
        in_k = f"inner{{}} < {k} - start"
        ragged = k % use.k != 0
        masks = (
            conjunction(
                (m % use.m != 0, f"(rows < {m})"), (ragged, f"({in_k.format('[None, :]')})")
            ),
            conjunction(
                (ragged, f"({in_k.format('[:, None]')})"), (n % use.n != 0, f"(columns < {n})")
            ),
        )
        places = (
            f"{left.start('batch')} + rows * {left.strides[1]}"
            f" + inner[None, :] * {left.strides[2]}",
            f"{right.start('batch')} + inner[:, None] * {right.strides[1]}"
            f" + columns * {right.strides[2]}",
        )
        steps = (use.k * left.strides[2], use.k * right.strides[1])
        before: list[str] = []
        reads: list[str] = []
        after: list[str] = []
        for side, name in enumerate(("left", "right")):
            maker, mask = self.makers[side], masks[side]
            if maker is not None:
                reads += maker.lines(pointers, use)
                continue
            at = "ab"[side]
            before.append(f"{at} = {pointers[(self.left, self.right)[side]]} + ({places[side]})")
            reads.append(f"{name} = tl.load({at}{mask}{', other=0' if mask else ''})")
            after.append(f"{at} += {steps[side]}")
        return [
            f"rows = (row * {use.m} + tl.arange(0, {use.m}))[:, None]{wide}",
            f"columns = (column * {use.n} + tl.arange(0, {use.n}))[None, :]{wide}",
            f"inner = tl.arange(0, {use.k}){wide}",
            *before,
            f"acc = tl.full(({use.m}, {use.n}), 0, {self.total})",
            f"for start in range(0, {k}, {use.k}):",
            *("    " + line for line in (*reads, self.dot("left", "right"), *after)),
        ]


def conjunction(*parts: tuple[bool, str]) -> str:
    """The mask of an access that is inside where each part that counts is."""
    found = [text for counts, text in parts if counts]
    return ", mask=" + " & ".join(found) if found else ""


def contraction(
    name: str,
    what: Contraction,
    result: str,
    out: DType,
    product: Product | None = None,
    blocks: Blocks | None = None,
) -> KernelSource:
    """The kernel of a contraction whose result is stored as it is."""
    b, m, n, k = what.shape
    own = what.dtype
    use = blocks or chosen_blocks(b, m, n, k, own)
    mask = conjunction((m % use.m != 0, f"(rows < {m})"), (n % use.n != 0, f"(columns < {n})"))
    wide = sum(s * e for s, e in zip(what.strides, (b, m, n), strict=True)) >= NARROW
    far = ".to(tl.int64)" if wide else ""

    def variants() -> list[KernelSource]:
        """The same with the other blocks of the table."""
        return [
            contraction(name, what, result, out, product, cut)
            for cut in cut_choices(what.shape, own)
            if cut != use
        ]

    def again(shrink: int) -> KernelSource:
        """The same with smaller blocks."""
        return contraction(name, what, result, out, product, use.smaller(shrink))

    types = what.types
    # A library is given both operands, even where they are the same matrix.
    names = tuple(types) if product is None else (what.left, what.right)
    written = f"p{len(names)}"
    body = [
        *what.loop({n: f"p{position}" for position, n in enumerate(names)}, use),
        f"c = {written} + ({what.place()}"
        f" + rows{far} * {what.strides[1]} + columns * {what.strides[2]})",
        f"tl.store(c, acc.to(tl.{out.name}){mask})",
    ]
    return KernelSource(
        name,
        (*names, result),
        frozenset((result,)),
        {f"p{position}": pointer_type(types[n]) for position, n in enumerate(names)}
        | {written: pointer_type(out)},
        "\n".join("    " + line for line in product_lines(what.shape, use, wide, body)),
        use.grid(what.shape),
        use.warps,
        stages=use.stages,
        again=again,
        product=product,
        variants=variants if worth_tuning(what.shape) and blocks is None else None,
    )


def matmul(
    name: str,
    shape: tuple[int, int, int, int],
    left: Operand,
    right: Operand,
    result: Operand,
    dtypes: tuple[DType, DType],
    blocks: Blocks | None = None,
    precision: str = "ieee",
) -> KernelSource:
    """`result[b] = left[b] @ right[b]` for `shape = (b, m, n, k)`; the result is dense.

    Args:
      dtypes: of the operands and of the result.
      precision: "ieee" or "tf32", for float32 operands.
    """
    own, out = dtypes
    what = MatrixProduct.of(shape, (left, right), own, precision)
    product = Product(shape, left, right, result, dtypes, precision)
    return contraction(name, what, result.buffer, out, product, blocks)
