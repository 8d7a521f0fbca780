"""Kernels written once and filled in: the matrix product.

Input: shapes, strides and types of a batched product.  Output: its kernel.  Programs are numbered
so that a group of neighbouring rows of blocks shares its columns in the cache; the products of a
block are accumulated in float32 (float64 for doubles), and float32 is multiplied exactly unless
the option asks for the rounded format of the device's matrix units.
"""

from __future__ import annotations

from dataclasses import dataclass

from stax.backends.triton.handler import pointer_type
from stax.backends.triton.kernel import NARROW, KernelSource
from stax.backends.triton.tiling import power
from stax.dtypes import DType

GROUP = 8


@dataclass(frozen=True)
class Operand:
    """A strided view `[batch, rows, columns]` of a buffer, in elements."""

    buffer: str
    offset: int
    strides: tuple[int, int, int]


@dataclass(frozen=True)
class Blocks:
    """Extents of a block of the result and of the piece of the contraction, warps and stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


# The first row that fits the type; larger blocks pay only where there are enough of them.
TABLE: dict[str, tuple[Blocks, ...]] = {
    "half": (Blocks(128, 256, 64, 8, 3), Blocks(128, 128, 64, 8, 3), Blocks(64, 64, 64, 4, 3)),
    "float32": (Blocks(128, 64, 32, 8, 2), Blocks(64, 64, 32, 4, 3), Blocks(32, 32, 32, 4, 3)),
    "float64": (Blocks(64, 64, 16, 8, 2), Blocks(32, 32, 16, 4, 2)),
}
LEAST = 16
MULTIPROCESSORS = 132


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

    def cut(block: int, extent: int) -> int:
        return max(LEAST, min(block, power(extent)))

    return Blocks(cut(found.m, m), cut(found.n, n), cut(found.k, k), found.warps, found.stages)


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
    """`result[b] = left[b] @ right[b]` for `shape = (b, m, n, k)`.

    Args:
      dtypes: of the operands and of the result.
      precision: "ieee" or "tf32", for float32 operands.
    """
    b, m, n, k = shape
    own, out = dtypes
    use = blocks or chosen_blocks(b, m, n, k, own)
    acc = "tl.float64" if own.itemsize == 8 else "tl.float32"
    tiles_m, tiles_n = -(-m // use.m), -(-n // use.n)
    per_group = GROUP * tiles_n
    reach = max(
        abs(o.offset) + sum(abs(s) * e for s, e in zip(o.strides, (b, rows, columns), strict=True))
        for o, rows, columns in ((left, m, k), (right, k, n), (result, m, n))
    )
    wide = ".to(tl.int64)" if reach >= NARROW else ""
    ragged_m, ragged_n, ragged_k = m % use.m, n % use.n, k % use.k

    def mask(*parts: tuple[int, str]) -> str:
        found = [text for ragged, text in parts if ragged]
        return ", mask=" + " & ".join(found) if found else ""

    def filled(text: str) -> str:
        return f"{text}, other=0" if text else ""

    mask_a = filled(
        mask((ragged_m, f"(rows < {m})"), (ragged_k, f"(inner[None, :] < {k} - start)"))
    )
    mask_b = filled(
        mask((ragged_k, f"(inner[:, None] < {k} - start)"), (ragged_n, f"(columns < {n})"))
    )
    mask_c = mask((ragged_m, f"(rows < {m})"), (ragged_n, f"(columns < {n})"))

    def again(shrink: int) -> KernelSource:
        """The product with smaller blocks."""
        smaller = Blocks(
            max(use.m >> shrink, LEAST),
            max(use.n >> shrink, LEAST),
            max(use.k >> (shrink - 1), LEAST),
            use.warps,
            use.stages,
        )
        return matmul(name, shape, left, right, result, dtypes, smaller, precision)

    lines = [
        "pid = tl.program_id(0)",
        f"batch = (pid // {tiles_m * tiles_n}){wide}",
        f"tile = pid % {tiles_m * tiles_n}",
        f"first = tile // {per_group} * {GROUP}",
        f"height = tl.minimum({tiles_m} - first, {GROUP})",
        f"row = first + tile % {per_group} % height",
        f"column = tile % {per_group} // height",
        f"rows = (row * {use.m} + tl.arange(0, {use.m}))[:, None]{wide}",
        f"columns = (column * {use.n} + tl.arange(0, {use.n}))[None, :]{wide}",
        f"inner = tl.arange(0, {use.k}){wide}",
        f"a = p0 + ({left.offset} + batch * {left.strides[0]} + rows * {left.strides[1]}"
        f" + inner[None, :] * {left.strides[2]})",
        f"b = p1 + ({right.offset} + batch * {right.strides[0]}"
        f" + inner[:, None] * {right.strides[1]} + columns * {right.strides[2]})",
        f"acc = tl.full(({use.m}, {use.n}), 0, {acc})",
        f"for start in range(0, {k}, {use.k}):",
        f"    left = tl.load(a{mask_a})",
        f"    right = tl.load(b{mask_b})",
        f'    acc = tl.dot(left, right, acc, input_precision="{precision}", out_dtype={acc})',
        f"    a += {use.k * left.strides[2]}",
        f"    b += {use.k * right.strides[1]}",
        f"c = p2 + ({result.offset} + batch * {result.strides[0]} + rows * {result.strides[1]}"
        f" + columns * {result.strides[2]})",
        f"tl.store(c, acc.to(tl.{out.name}){mask_c})",
    ]
    return KernelSource(
        name,
        (left.buffer, right.buffer, result.buffer),
        frozenset((result.buffer,)),
        {"p0": pointer_type(own), "p1": pointer_type(own), "p2": pointer_type(out)},
        "\n".join("    " + line for line in lines),
        b * tiles_m * tiles_n,
        use.warps,
        stages=use.stages,
        again=again,
    )
