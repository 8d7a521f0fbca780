"""Lazy tensors become flat bodies with the right text, reads, checks and values."""

from __future__ import annotations

import numpy as np
import pytest

from stax.errors import OutOfBoundsError
from stax.loops.body import Body
from stax.loops.buffers import BufferTable, ComputedBuffer
from stax.loops.construct import (
    arg_reduction,
    cast,
    concatenate,
    full,
    iota,
    pad,
    pointwise,
    reduction,
    scan,
    scatter,
)
from stax.loops.handlers import Counter, Formatter, Recorder
from stax.loops.monoids import ARGMAX, MAX, PROD, SUM
from stax.loops.ops import handling, ops
from stax.loops.symbolic import loop_variables
from stax.loops.tensors import BufferTensor, TensorNode
from tests.loops.programs import F32, F64, I64, input_tensor, run, take

RNG = np.random.default_rng(0)


def add(a: TensorNode, b: TensorNode) -> TensorNode:
    return pointwise(lambda x, y: ops.add(x, y), a, b, dtype=a.dtype)


def computed(table: BufferTable, node: TensorNode) -> ComputedBuffer:
    buffer = node.realize(table).buffer
    assert isinstance(buffer, ComputedBuffer)
    return buffer


def test_chain_and_sum_are_one_reduction() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (64, 128), F32))
    y = BufferTensor(table.add_input("y", (64, 128), F32))
    z = pointwise(lambda a: ops.relu(a), add(x, y), dtype=F32)
    z = pointwise(lambda a, b: ops.mul(a, b), z, full((), 2, F32), dtype=F32)
    out = computed(table, reduction(z, (1,), SUM, F32))
    table.mark_output(out)
    table.freeze()
    assert str(out) == (
        "buf2: f32 [64] strides (1) = reduction sum over [64]×[128]\n"
        "  for i0 < 64; over r0 < 128:\n"
        "  tmp0 = ops.load('x', 128*i0 + r0)\n"
        "  tmp1 = ops.load('y', 128*i0 + r0)\n"
        "  tmp2 = ops.add(tmp0, tmp1)\n"
        "  tmp3 = ops.relu(tmp2)\n"
        "  tmp4 = ops.constant(2.0, f32)\n"
        "  tmp5 = ops.mul(tmp3, tmp4)\n"
        "  tmp6 = ops.reduction('sum', tmp5)\n"
        "  ops.store('buf2', i0, tmp6)"
    )
    assert (out.kind, out.ranges, out.reduction_ranges) == ("reduction", (64,), (128,))
    assert [str(r) for r in out.reads] == ["x[128*i0 + r0]", "y[128*i0 + r0]"]


def test_transposed_read_is_an_index() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (512, 256), F32))
    y = BufferTensor(table.add_input("y", (256, 512), F32))
    out = computed(table, add(x.permute((1, 0)), y))
    table.freeze()
    assert [str(r.index) for r in out.reads] == ["i0 + 256*i1", "512*i0 + i1"]


def test_layouts_follow_readers_then_own_reads() -> None:
    table = BufferTable()
    x = input_tensor(table, "x", np.zeros((4, 6)))
    y = input_tensor(table, "y", np.zeros((6, 4)))
    by_reader = pointwise(lambda a: ops.exp(a), x, dtype=F64).realize(table)
    out = computed(table, add(by_reader.permute((1, 0)), y))
    table.mark_output(out)
    by_own_reads = computed(table, pointwise(lambda a: ops.exp(a), y.permute((1, 0)), dtype=F64))
    mixed = pointwise(lambda a: ops.log(a), x, dtype=F64).realize(table)
    for node in (add(mixed.permute((1, 0)), y), add(mixed, x)):
        table.mark_output(node.realize(table).buffer)
    values = {"x": RNG.random((4, 6)), "y": RNG.random((6, 4))}
    got = run(table, **values)
    assert by_reader.buffer.fixed_layout.strides == (1, 4)
    assert by_own_reads.fixed_layout.strides == (1, 4)
    assert mixed.buffer.fixed_layout.strides == (6, 1)
    np.testing.assert_array_equal(got[out.name], np.exp(values["x"]).T + values["y"])
    np.testing.assert_array_equal(got[by_own_reads.name], np.exp(values["y"]).T)


def test_index_from_memory_keeps_correction_and_check() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (128,), F32))
    idx = BufferTensor(table.add_input("idx", (50,), I64))
    out = computed(table, take(x, idx))
    assert [i.op for i in out.body.instrs if i.op in ("check", "where", "bind")] == [
        "where",
        "check",
        "bind",
    ]
    values, places = RNG.random(128).astype("f4"), RNG.integers(-128, 128, 50)
    np.testing.assert_array_equal(run(table, x=values, idx=places)[out.name], values[places])
    for bad in (128, -129):
        with pytest.raises(OutOfBoundsError, match=rf"index {bad} .* < 128"):
            run(table, x=values, idx=np.full(50, bad))


def test_index_from_loop_variables_is_the_address() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (128,), F32))
    three, modulus = full((), 3, I64), full((), 128, I64)
    idx = pointwise(lambda a, b: ops.mul(a, b), iota((128,), 0), three, dtype=I64)
    idx = pointwise(lambda a, b: ops.mod(a, b), idx, modulus, dtype=I64)
    out = computed(table, take(x, idx))
    assert [str(r) for r in out.reads] == ["x[(3*i0) mod 128]"]
    assert [i.op for i in out.body.instrs] == ["load", "store"]
    values = RNG.random(128).astype("f4")
    want = values[(np.arange(128) * 3) % 128]
    np.testing.assert_array_equal(run(table, x=values)[out.name], want)


@pytest.mark.parametrize(
    ("fn", "checks", "corrections"),
    [
        (lambda v: ops.mod(v, ops.constant(128, I64)), 0, 0),
        (lambda v: ops.max(ops.min(v, ops.constant(127, I64)), ops.constant(0, I64)), 0, 0),
        (lambda v: ops.bitwise_and(v, ops.constant(63, I64)), 0, 0),
        (lambda v: ops.sub(ops.mod(v, ops.constant(256, I64)), ops.constant(128, I64)), 0, 1),
        (lambda v: ops.mod(v, ops.constant(129, I64)), 1, 0),
    ],
)
def test_ranges_remove_what_they_prove(fn: object, checks: int, corrections: int) -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (128,), F32))
    idx = BufferTensor(table.add_input("idx", (128,), I64))
    out = computed(table, take(x, pointwise(fn, idx, dtype=I64)))  # type: ignore[arg-type]
    found = [i.op for i in out.body.instrs]
    assert (found.count("check"), found.count("where")) == (checks, corrections)


def test_integer_overflow_is_not_symbolic() -> None:
    i8 = np.dtype(np.int8)
    table = BufferTable()
    doubled = pointwise(lambda a: ops.mul(a, ops.constant(2, i8)), iota((100,), 0, i8), dtype=i8)
    out = computed(table, doubled)
    assert "ops.mul" in str(out)
    want = np.arange(100, dtype=np.int8) * np.int8(2)
    np.testing.assert_array_equal(run(table)[out.name], want)


def test_everything_against_numpy() -> None:
    values, places = RNG.standard_normal(128), RNG.integers(-128, 128, 128)
    table = BufferTable()
    x, idx = input_tensor(table, "x", values), input_tensor(table, "idx", places)
    taken = take(x, idx)
    square = x.reshape((2, 64))
    joined = concatenate(
        [square, taken.reshape((2, 64)), x.reshape((64, 2)).permute((1, 0))], 1, F64
    )
    summed = scatter(
        full((128,), 0, F64), x, lambda u: (ops.indirect(idx.loader()(u), 128),), "add", (idx,)
    )
    half = cast(x, np.dtype(np.float16))
    framed, added = np.zeros(260), np.zeros(128)
    framed[3:258:2] = values
    np.add.at(added, places, values)
    pieces = [values.reshape(2, 64), values[places].reshape(2, 64), values.reshape(64, 2).T]
    rows = pieces[0]
    wants = [
        (joined, np.hstack(pieces)),
        (pad(x, (3,), (2,), (1,), full((), 0, F64)), framed),
        (pad(x, (-2,), (-3,), (0,), full((), 0, F64)), values[2:-3]),
        (arg_reduction(x, (0,), ARGMAX), values.argmax()),
        (arg_reduction(square, (0, 1), ARGMAX), values.argmax()),
        (reduction(square, (0,), MAX, F64), rows.max(0)),
        (scan(x, 0, SUM, F64), np.cumsum(values)),
        (scan(square, 0, PROD, F64, reverse=True), np.cumprod(rows[::-1], 0)[::-1]),
        (summed, added),
        (reduction(half, (0,), SUM, F32, F32), values.astype("f2").astype("f4").sum()),
        (square.flip([1]).permute((1, 0)).reshape((128,)), rows[:, ::-1].T.reshape(-1)),
        (
            add(square.slice((0, 60), (2, 20), (1, -3)), square.slice((0, 0), (2, 20))),
            rows[:, 60:0:-3] + rows[:, :20],
        ),
    ]
    buffers = [node.realize(table) for node, _ in wants]
    for merge in (False, True):
        got = run(table, merge=merge, x=values, idx=places)
        for tensor, (_, want) in zip(buffers, wants, strict=True):
            np.testing.assert_allclose(read(tensor, got[tensor.buffer.name]), want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1, 5), (5, 1), (1,), (1, 1)])
@pytest.mark.parametrize("merge", [False, True])
def test_empty_and_single_axes(shape: tuple[int, ...], merge: bool) -> None:
    values = RNG.standard_normal(shape)
    table = BufferTable()
    x = input_tensor(table, "x", values)
    nodes = [add(x, x), reduction(x, (0,), SUM, F64), scan(x, 0, SUM, F64)]
    nodes += [
        concatenate([x, x], 0, F64),
        pad(x, (1,) * x.ndim, (2,) * x.ndim, (0,) * x.ndim, full((), 7, F64)),
    ]
    wants = [values * 2, values.sum(0), np.cumsum(values, 0), np.concatenate([values, values])]
    wants.append(np.pad(values, (1, 2), constant_values=7.0))
    names = [computed(table, node).name for node in nodes]
    got = run(table, merge=merge, x=values)
    for name, want in zip(names, wants, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-15)


def read(tensor: BufferTensor, memory: np.ndarray) -> np.ndarray:
    """The view ``tensor`` of the array that its buffer holds."""
    if tensor.layout is None:
        return memory
    flat = np.ascontiguousarray(memory).reshape(-1)
    strides = [s * flat.itemsize for s in tensor.layout.strides]
    return np.lib.stride_tricks.as_strided(flat[tensor.layout.offset :], tensor.shape, strides)


def all_bodies() -> list[Body]:
    table = BufferTable()
    x, idx = input_tensor(table, "x", np.zeros(128)), input_tensor(table, "i", np.zeros(128, int))
    nodes = [
        take(x, idx),
        pad(take(x, idx), (3,), (2,), (1,), full((), 0, F64)),
        arg_reduction(x, (0,), ARGMAX),
        scan(x, 0, SUM, F64, reverse=True),
        scatter(
            full((128,), 0, F64), x, lambda u: (ops.indirect(idx.loader()(u), 128),), "add", (idx,)
        ),
    ]
    return [body for n in nodes for body in computed(table, n).bodies]


@pytest.mark.parametrize("body", all_bodies(), ids=lambda b: b.content_hash[:6])
def test_one_description_many_interpretations(body: Body) -> None:
    formatter, recorder, counter = Formatter(), Recorder(), Counter()
    for handler in (formatter, recorder, counter):
        body.replay(handler)
    assert formatter.text == "\n".join(str(body).splitlines()[1:])
    assert (recorder.reads, recorder.writes) == (body.reads, body.writes)
    assert counter.operations == len(body.scalar_ops)
    assert counter.flops == body.flops


def test_closure_under_each_handler() -> None:
    table = BufferTable()
    x = BufferTensor(table.add_input("x", (8, 4), F32))
    node = pointwise(lambda a: ops.mul(ops.exp(a), a), x.permute((1, 0)), dtype=F32)
    index = loop_variables("i", (4, 8))
    formatter, recorder, counter = Formatter(), Recorder(), Counter()
    for handler in (formatter, recorder, counter):
        with handling(handler):
            node.loader()(index)
    assert formatter.lines == [
        "tmp0 = ops.load('x', i0 + 4*i1)",
        "tmp1 = ops.exp(tmp0)",
        "tmp2 = ops.mul(tmp1, tmp0)",
    ]
    assert [str(r) for r in recorder.reads] == ["x[i0 + 4*i1]"]
    assert (counter.operations, counter.transcendental) == (2, {"exp"})


def test_diamond_is_linear() -> None:
    table = BufferTable()
    node: TensorNode = BufferTensor(table.add_input("x", (16, 16), F64))
    for _ in range(60):
        node = add(node, node.permute((1, 0)).permute((1, 0)))
    assert len(computed(table, node).body.instrs) == 62


def test_index_width() -> None:
    for rows, width in ((1000, 32), (1 << 20, 64)):
        table = BufferTable()
        x = BufferTensor(table.add_input("x", (rows, 4096), F32))
        assert computed(table, add(x, x)).body.index_width == width


def test_hash_ignores_names_of_buffers() -> None:
    def body(name: str, dtype: np.dtype) -> Body:
        table = BufferTable()
        x = BufferTensor(table.add_input(name, (8,), dtype))
        return computed(table, add(x, x)).body

    assert body("x", F32).content_hash == body("y", F32).content_hash
    assert body("x", F32).content_hash != body("x", F64).content_hash


def test_ops_outside_a_body_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no handler"):
        ops.constant(1, F32)
