"""Lowering of contractions: to a call of the matrix product, or to loops where those are better.

Input: two tensors with their contracted and batch axes.  Output: a tensor of shape batch + rows +
columns.  A call gets strided views `[B, M, K]` and `[B, K, N]`, so that a transpose costs nothing;
what does not fold into strides is copied.  Where several batch axes have no common stride (the
heads of an attention, cut out of one array) a view on the CPU keeps them all.  Products with a
vector, tiny products, and dtypes without a library routine become a reduction, which fuses with
its surroundings.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stax.loops.buffers import is_down_columns
from stax.loops.layout import Index
from stax.loops.monoids import monoid
from stax.loops.nodes import Pointwise, Reduction
from stax.loops.ops import Value, ops
from stax.loops.realize import realize_reason
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.split import device_properties
from stax.loops.tensors import BufferTensor, TensorNode, loop_tensor

if TYPE_CHECKING:
    from stax.core.graph import Atom, Eqn, Graph
    from stax.loops.lower import Lowering

LONG = 2048  # elements from which a contraction may be cut into pieces on a device
TINY = 4096  # multiplications up to which a product is a loop on a device, or where sums are short
SHORT = 4  # terms of a sum that a loop writes out
LITTLE = 128  # multiplications up to which any product is a loop
LIBRARY_DTYPES = tuple(map(np.dtype, ("float32", "float64", "complex64", "complex128")))

# Of products that are scores.
SCORES_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
THINNEST, DEEPEST = 16, 256  # of a contraction that makes scores
LEAST_GROWTH = 3  # times that scores are larger than what they are made of
WIDEST = 256  # of a result that scores are contracted to
LEAST = 32  # rows and columns of scores
LEAST_BYTES = 1 << 18  # of scores that are worth keeping out of memory
ROW_BYTES = 1 << 18  # of one row of scores, at most


def are_scores(b: int, m: int, n: int, k: int, dtype: np.dtype) -> bool:
    """Whether a product [b, m, k] with [b, k, n] is made by rows, and made again at little cost.

    It is for every product of such sizes, in a family or alone, so that one that is computed again
    has the same bits.
    """
    if dtype not in SCORES_DTYPES or not THINNEST <= k <= DEEPEST or min(m, n) < LEAST:
        return False
    if n * dtype.itemsize > ROW_BYTES:
        return False
    return b * m * n * dtype.itemsize >= LEAST_BYTES and m * n >= LEAST_GROWTH * k * (m + n)


def _has_routine(device: str, x: np.dtype, y: np.dtype, dtype: np.dtype) -> bool:
    """Whether matrices of these types are multiplied by a routine as they lie in memory."""
    if x != y:
        return False
    if device != "cpu" and is_half(x):
        return dtype == x or dtype == np.float32
    return x == dtype and dtype in LIBRARY_DTYPES


def _converted(node: TensorNode, dtype: np.dtype) -> TensorNode:
    """The elements in another type."""
    load = node.loader()
    return loop_tensor(Pointwise(node.shape, lambda i: ops.cast(load(i), dtype), dtype), [node])


Axes = tuple[int, ...]


def turned_products(graph: Graph) -> set[int]:
    """The products, by identity, that are read in one place and there with rows as columns.

    They are computed the other way round: it costs the same, and readers meet rows as they lie.
    """
    readers = Counter(a for eqn in graph.eqns for a in eqn.inputs)
    readers.update(graph.outputs)
    made = {eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.op == "dot_general"}
    found: set[int] = set()
    for eqn in graph.eqns:
        product = made.get(eqn.inputs[0]) if eqn.op == "transpose" else None  # type: ignore[arg-type]  # a literal is no key
        if product is None or readers[eqn.inputs[0]] != 1:
            continue
        (contracted, _), (batch, _) = product.params["dimension_numbers"]
        first = len(batch)
        second = product.inputs[0].aval.ndim - len(contracted)
        axes = range(eqn.inputs[0].aval.ndim)
        if tuple(eqn.params["perm"]) == (*axes[:first], *axes[second:], *axes[first:second]):
            found.add(id(product))
    return found


def vectors(eqn: Eqn) -> tuple[Atom, ...]:
    """The operands of a product that have no rows or columns of their own."""
    contracted, batch = eqn.params["dimension_numbers"]
    return tuple(
        atom
        for atom, over, along in zip(eqn.inputs, contracted, batch, strict=True)
        if len(over) + len(along) == atom.aval.ndim
    )


def pieces(device: str, b: int, m: int, n: int, k: int) -> int:
    """Into how many pieces a long contraction with a small result is cut, so that a device is full.

    The pieces are added up in order afterwards; 1 means that it is not cut.
    """
    properties = device_properties(device)
    if properties is None or k < LONG:
        return 1
    programs = b * -(-m // 64) * -(-n // 64)
    return max(1, min(properties.multiprocessors // programs, k // (LONG // 4)))


def summed(partial: TensorNode, dtype: np.dtype) -> TensorNode:
    """The sum over the first axis, in order."""
    load = partial.loader()
    data = Reduction(
        ranges=partial.shape[1:],
        reduction_ranges=partial.shape[:1],
        inner_fn=lambda index, rindex: (load((*rindex, *index)),),
        monoid=monoid("sum"),
        dtype=dtype,
        acc_dtype=partial.dtype,
    )
    return loop_tensor(data, [partial])


def lower_dot(
    ctx: Lowering,
    x: TensorNode,
    y: TensorNode,
    *,
    dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]],
    dtype: np.dtype,
) -> TensorNode:
    """The contraction of `x` and `y`, as a matrix product or a reduction."""
    (xc, yc), (xb, yb) = dimension_numbers
    xf = tuple(a for a in range(x.ndim) if a not in xc and a not in xb)
    yf = tuple(a for a in range(y.ndim) if a not in yc and a not in yb)
    batch = tuple(x.shape[a] for a in xb)
    rows, columns = tuple(x.shape[a] for a in xf), tuple(y.shape[a] for a in yf)
    inner = tuple(x.shape[a] for a in xc)
    b, m, n, k = (math.prod(s) for s in (batch, rows, columns, inner))
    left = x.permute((*xb, *xf, *xc))
    right = y.permute((*yb, *yc, *yf))
    known = _has_routine(ctx.device, x.dtype, y.dtype, dtype)
    if not known and dtype in LIBRARY_DTYPES:
        left, right = (t if t.dtype == dtype else _converted(t, dtype) for t in (left, right))
        known = True
    least = LITTLE if ctx.device == "cpu" and k > SHORT else TINY
    if not known or m == 1 or n == 1 or b * m * n * k <= least or k <= 2:
        loops = _loops(left, right, batch, rows, columns, inner, dtype)
        if (m == 1 or n == 1) and _is_made_by_tiles(ctx, left, right, loops):
            return loop_tensor(loops, [left, right])
        # An operand that is read many times is read from memory.
        if n > 1 and not left.is_realized:
            left = ctx.realize(x).permute((*xb, *xf, *xc))
        if m > 1 and not right.is_realized:
            right = ctx.realize(y).permute((*yb, *yc, *yf))
        loops = _loops(left, right, batch, rows, columns, inner, dtype)
        return loop_tensor(loops, [left, right])
    count = pieces(ctx.device, b, m, n, k)
    while k % count:
        count -= 1
    if b == 1 and count > 1:
        inner_each = k // count
        cut = left.reshape((m, count, inner_each)).permute((1, 0, 2))
        parts = (
            _matrix(ctx, cut, (count,), m, inner_each),
            _matrix(ctx, right.reshape((count, inner_each, n)), (count,), inner_each, n),
        )
        wide = np.dtype(np.float32) if is_half(dtype) else dtype
        sizes = {"b": count, "m": m, "n": n, "k": inner_each}
        (partial,) = ctx.call("matmul", parts, [((count, *batch, *rows, *columns), wide)], sizes)
        return summed(partial, dtype)
    turned = ctx.eqn is not None and id(ctx.eqn) in ctx.turned
    if turned:
        left, right = y.permute((*yb, *yf, *yc)), x.permute((*xb, *xc, *xf))
        if right.dtype != dtype:
            left, right = _converted(left, dtype), _converted(right, dtype)
        m, n, rows, columns = n, m, columns, rows
    operands = (
        _matrix(ctx, left, batch, m, k),
        _matrix(ctx, right, batch, k, n),
    )
    params = {"b": b, "m": m, "n": n, "k": k}
    # The result is row-major, so its buffer has the shape of the contraction from the start.
    (product,) = ctx.call("matmul", operands, [((*batch, *rows, *columns), dtype)], params)
    if not turned:
        return product
    first, second, axes = len(batch), len(batch) + len(rows), range(product.ndim)
    return product.permute((*axes[:first], *axes[second:], *axes[first:second]))


def _is_made_by_tiles(
    ctx: Lowering, left: TensorNode, right: TensorNode, loops: Pointwise | Reduction
) -> bool:
    """Whether a product with a vector computes its operands where it reads them.

    A tile of a device holds many columns of a row: what belongs to the row is computed once for
    all of them, and one of few operations is not worth a store and a load.
    """
    if ctx.device == "cpu" or (left.is_realized and right.is_realized):
        return False
    if any(realize_reason(t, 2, ctx.table, ctx.counts) for t in (left, right)):
        return False
    return isinstance(loops, Reduction) and is_down_columns(loops)


def _matrix(ctx: Lowering, node: TensorNode, batch: Axes, rows: int, columns: int) -> BufferTensor:
    """A strided view of this shape with unit stride along its rows or its columns."""
    shape = (math.prod(batch), rows, columns)
    flat = node.reshape(shape)
    if not isinstance(flat, BufferTensor) and len(batch) > 1:
        deep = node.reshape((*batch, rows, columns))
        if isinstance(deep, BufferTensor) and _is_matrix(deep.strided(ctx.table)):
            return deep.strided(ctx.table)
    memory = flat.realize(ctx.table, ctx.origins, "read by a matrix product").strided(ctx.table)
    if _is_matrix(memory):
        return memory
    load = memory.loader()
    copy = loop_tensor(Pointwise(shape, load, memory.dtype), [memory])
    return copy.realize(ctx.table, ctx.origins, "a copy for a matrix product").strided(ctx.table)


def _is_matrix(memory: BufferTensor) -> bool:
    """Whether the last two axes lie as a library takes a matrix, straight or transposed."""
    assert memory.layout is not None
    m, n = memory.shape[-2:]
    row, column = memory.layout.strides[-2:]
    straight = _unit(n, column) and _leading(m, row, n)
    return straight or (_unit(m, row) and _leading(n, column, m))


def _unit(extent: int, stride: int) -> bool:
    return extent == 1 or stride == 1


def _leading(extent: int, stride: int, least: int) -> bool:
    return extent == 1 or stride >= max(least, 1)


def _loops(
    left: TensorNode,
    right: TensorNode,
    batch: Axes,
    rows: Axes,
    columns: Axes,
    inner: Axes,
    dtype: np.dtype,
) -> Pointwise | Reduction:
    """A product as loops of our own."""
    nb, nr = len(batch), len(rows)
    load_left, load_right = left.loader(), right.loader()
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    boolean = dtype.kind == "b"

    def element(index: Index, rindex: Index) -> tuple[Value, ...]:
        a = ops.cast(load_left((*index[: nb + nr], *rindex)), wide)
        b = ops.cast(load_right((*index[:nb], *rindex, *index[nb + nr :])), wide)
        return (ops.logical_and(a, b) if boolean else ops.mul(a, b),)

    if not inner:
        return Pointwise(
            (*batch, *rows, *columns), lambda i: ops.cast(element(i, ())[0], dtype), dtype
        )
    return Reduction(
        ranges=(*batch, *rows, *columns),
        reduction_ranges=inner,
        inner_fn=element,
        monoid=monoid("any" if boolean else "sum"),
        dtype=dtype,
        acc_dtype=compute_dtype(wide),
    )
