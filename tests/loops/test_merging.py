"""Proposition 6.3, reduction splitting, and the materialisation table."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from stax.loops.body import Body
from stax.loops.buffers import BufferTable, ComputedBuffer
from stax.loops.construct import full, iota, pointwise, reduction
from stax.loops.layout import FixedLayout, Index
from stax.loops.monoids import MAX, SUM
from stax.loops.nodes import Pointwise, Reduction
from stax.loops.ops import Value, ops
from stax.loops.realize import Counts, decide
from stax.loops.split import DeviceProperties, may_split, segment_count, split_reduction
from stax.loops.tensors import BufferTensor, TensorNode, loop_tensor
from tests.loops.programs import F32, F64, I64, input_tensor, merged, run

H100 = DeviceProperties(multiprocessors=132, warp=32, threads=2048)


def body_of(table: BufferTable, node: TensorNode) -> Body:
    buffer = node.realize(table).buffer
    assert isinstance(buffer, ComputedBuffer)
    table.mark_output(buffer)
    return buffer.body


def negated(x: TensorNode) -> TensorNode:
    return pointwise(lambda a: ops.neg(a), x, dtype=x.dtype)


def test_split_row_sum() -> None:
    assert segment_count(16384, 64, H100) == 2
    table = BufferTable("cuda")
    x = BufferTensor(table.add_input("x", (64, 16384), F32))
    data = reduction(pointwise(lambda a: ops.mul(a, a), x, dtype=F32), (1,), SUM, F32).data
    assert isinstance(data, Reduction)
    assert may_split(data)
    partial, merge = split_reduction(data, 2)
    first = table.add_computed(partial)
    second = table.add_computed(merge(lambda n, index: first.load(index)))
    table.freeze()
    assert (first.ranges, first.reduction_ranges) == ((64, 2), (8192,))
    assert (second.ranges, second.reduction_ranges) == ((64,), (2,))
    assert [str(r) for r in first.reads] == ["x[16384*i0 + 8192*i1 + r0]"]
    assert [str(r) for r in second.reads] == [f"{first.name}[2*i0 + r0]"]
    body = merged(first.body)
    assert [str(r) for r in body.reads] == ["x[r0 + 8192*x0]"]
    assert body.ranges == (128,)


@pytest.mark.parametrize(("length", "segments"), [(12, 3), (10, 3), (7, 7), (5, 2)])
def test_split_gives_the_same_value(length: int, segments: int) -> None:
    values = np.random.default_rng(0).integers(-9, 9, (3, length)).astype(float)
    for monoid, want in ((SUM, values.sum(1)), (MAX, values.max(1))):
        table = BufferTable()
        data = reduction(input_tensor(table, "x", values), (1,), monoid, F64).data
        assert isinstance(data, Reduction)
        partial, merge = split_reduction(data, segments)
        first = table.add_computed(partial)
        second = table.add_computed(merge(lambda n, index, b=first: b.load(index)))
        np.testing.assert_array_equal(run(table, x=values)[second.name], want)


def test_segments() -> None:
    assert segment_count(16384, 264, H100) == 1
    assert segment_count(8192, 1, H100) == 1
    assert segment_count(1 << 26, 1, H100) > 100
    assert segment_count(1 << 30, 1, H100) == (1 << 30) // (512 * 256)


def test_loops_merge_exactly_when_every_access_allows() -> None:
    table = BufferTable()
    dense = BufferTensor(table.add_input("x", (4, 5, 6), F64))
    assert merged(body_of(table, negated(dense))).ranges == (120,)
    gap = BufferTensor(table.add_input("y", (4, 5, 6), F64, FixedLayout((4, 5, 6), (60, 6, 1))))
    assert merged(body_of(table, negated(gap))).ranges == (4, 30)
    assert merged(body_of(table, negated(dense.slice((0, 0, 0), (4, 5, 3))))).ranges == (20, 3)
    row = BufferTensor(table.add_input("z", (6,), F64)).expand((4, 5, 6))
    assert merged(body_of(table, negated(row))).ranges == (20, 6)


def test_flat_index_values_merge_and_others_do_not() -> None:
    table = BufferTable()
    assert merged(body_of(table, negated(iota((20,), 0).reshape((4, 5))))).ranges == (20,)
    assert merged(body_of(table, negated(iota((4, 5), 0)))).ranges == (4, 5)


def test_loops_go_in_the_order_of_strides() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (4, 5), F64))
    body = negated(x.permute((1, 0))).realize(table).buffer
    table.freeze()
    assert isinstance(body, ComputedBuffer)
    assert merged(body.body).ranges == (20,)


@pytest.mark.parametrize("seed", range(20))
def test_merging_changes_no_value(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(4))
    values = np.random.default_rng(seed).standard_normal(shape)
    table = BufferTable()
    x = input_tensor(table, "x", values)
    axes = rng.sample(range(4), 4)
    node = pointwise(lambda a, b: ops.add(a, b), x.permute(axes), full((), 1, F64), dtype=F64)
    flat = node.reshape((2, values.size // 2)) if values.size % 2 == 0 else node
    out = reduction(flat, (rng.randrange(flat.ndim),), SUM, F64).realize(table).buffer.name
    plain = run(table, x=values)[out]
    np.testing.assert_array_equal(plain, run(table, merge=True, x=values)[out])


def chain(x: TensorNode, length: int) -> TensorNode:
    for _ in range(length):
        x = negated(x)
    return x


def wide(table: BufferTable, count: int, same: bool = False) -> TensorNode:
    """A sum of ``count`` reads: of as many buffers, or of as many places of one."""
    if same:
        whole = BufferTensor(table.add_input("w", (64,), F64))
        parts = [whole.slice((k,), (8,)) for k in range(count)]
    else:
        parts = [BufferTensor(table.add_input(f"w{k}", (8,), F64)) for k in range(count)]
    node: TensorNode = parts[0]
    for part in parts[1:]:
        node = pointwise(lambda a, b: ops.add(a, b), node, part, dtype=F64)
    return node


def test_each_threshold_decides() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (8,), F64))
    tanh = pointwise(lambda a: ops.tanh(a), x, dtype=F64)
    assert decide(tanh, 1, "cpu", "default") is None
    assert "tanh" in (decide(tanh, 2, "cpu", "default") or "")
    assert decide(tanh, 2, "cuda", "default") is None
    assert decide(chain(x, 45), 5, "cpu", "default") is None
    assert "6 readers" in (decide(chain(x, 45), 6, "cpu", "default") or "")
    assert decide(chain(x, 50), 2, "cpu", "default") is None
    assert "51 operations" in (decide(chain(x, 51), 2, "cpu", "default") or "")
    assert "31 operations" in (decide(chain(x, 31), 2, "cuda", "default") or "")
    assert decide(wide(BufferTable(), 3), 2, "cpu", "default") is None
    assert "4 buffers" in (decide(wide(BufferTable(), 4), 2, "cpu", "default") or "")
    assert decide(wide(BufferTable(), 12, same=True), 2, "cpu", "default") is None
    assert "13 reads" in (decide(wide(BufferTable(), 13, same=True), 2, "cpu", "default") or "")
    assert "9 reads" in (decide(wide(BufferTable(), 9, same=True), 2, "cuda", "default") or "")


def test_modes_and_hard_limits() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (8,), F64))
    assert decide(negated(x), 1, "cpu", "all")
    assert decide(chain(x, 60), 9, "cpu", "none") is None
    assert "levels deep" in (decide(chain(x, 101), 1, "cpu", "none") or "")
    assert decide(wide(BufferTable(), 49), 1, "cpu", "default")
    assert decide(reduction(x, (0,), SUM, F64), 1, "cpu", "default")
    assert decide(x, 9, "cpu", "default") is None


def test_long_chains_are_cut_in_linear_time() -> None:
    table = BufferTable()
    node: TensorNode = BufferTensor(table.add_input("x", (8,), I64))
    for _ in range(3000):
        node = negated(node)
        if decide(node, 1, "cpu", "default"):
            node = node.realize(table)
    values = np.arange(8)
    name = node.realize(table).buffer.name
    np.testing.assert_array_equal(run(table, x=values)[name], values)
    assert len(table.buffers) < 40


def masked_chain(x: TensorNode, y: TensorNode) -> TensorNode:
    """`exp(y)` where `x` is positive; what it reads there is read under a mask."""
    load, other = x.loader(), pointwise(lambda a: ops.exp(a), y, dtype=F64).loader()

    def inner(index: Index) -> Value:
        positive = ops.gt(load(index), ops.constant(0.0, F64))
        return ops.masked(positive, lambda: ops.add(other(index), load(index)), 0.0)

    return loop_tensor(Pointwise(x.shape, inner, F64), [x, y])


MADE_OF_TWO: list[Callable[[TensorNode, TensorNode], TensorNode]] = [
    lambda a, b: pointwise(lambda x, y: ops.add(x, y), a, b, dtype=F64),
    lambda a, b: pointwise(lambda x: ops.tanh(x), a.permute((1, 0)), dtype=F64),
    lambda a, b: pointwise(lambda x, y: ops.where(ops.lt(x, y), x, y), a, b, dtype=F64),
    lambda a, b: pointwise(lambda x, y: ops.add(x, y), a, full((4, 4), 0, F64), dtype=F64),
    lambda a, b: a.reshape((2, 8)).reshape((4, 4)),
    masked_chain,
]


@pytest.mark.parametrize("seed", range(20))
def test_a_shared_counter_counts_each_value_as_one_of_its_own(seed: int) -> None:
    rng = random.Random(seed)
    table = BufferTable()
    nodes: list[TensorNode] = [
        BufferTensor(table.add_input(f"w{k}", (4, 4), F64)) for k in range(3)
    ]
    shared = Counts()
    for _ in range(30):
        a, b = rng.choice(nodes), rng.choice(nodes)
        node = rng.choice(MADE_OF_TWO)(a, b)
        assert shared.of(node) == Counts().of(node)
        assert shared.of(node) == Counts().of(node)  # when nothing of it is new
        nodes.append(node)
