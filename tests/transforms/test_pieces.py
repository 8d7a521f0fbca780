"""Arrays put together from many pieces: equal bits, and work in proportion to their number."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.transforms.pieces import in_pieces

SHAPE = (32, 40)


def _layers(w, h, count):
    for k in range(count):
        h = snp.tanh(h @ w[k]) + 0.1 * h
    return (h * h).sum()


def _operations(graph) -> list[str]:
    return [eqn.prim.name for eqn in in_pieces(graph).eqns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_stacked_weights_is_that_of_a_list(dtype):
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((9, 40, 40)) / 8).astype(dtype)
    h = rng.standard_normal((8, 40)).astype(dtype)
    gradient = stax.grad(lambda w, h: _layers(w, h, 9))
    stacked = stax.jit(gradient)(w, h)
    separate = stax.jit(gradient)(list(w), h)
    assert np.array_equal(stacked, np.stack(separate))


@pytest.mark.parametrize("order", [range(8), [3, 0, 7, 5, 1, 6]], ids=["all", "with gaps"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.float16])
def test_sums_of_padded_pieces_keep_every_bit(order, dtype):
    rng = np.random.default_rng(1)
    pieces = rng.integers(-2, 3, (8, *SHAPE)).astype(dtype)
    pieces = pieces * dtype(0.5) if dtype != np.int32 else pieces
    if dtype != np.int32:
        pieces[2:5, 0] = dtype(-0.0)

    def f(pieces):
        zero = np.zeros((), dtype)[()]
        total = None
        for k in order:
            padded = stax.lax.pad(pieces[k][None], zero, [(k, 7 - k, 0), (0, 0, 0), (0, 0, 0)])
            total = padded if total is None else total + padded
        return total

    graph = stax.make_ir(f)(pieces)
    assert not {"pad", "concatenate"} & set(_operations(graph))
    assert stax.jit(f)(pieces).tobytes() == np.asarray(f(pieces)).tobytes()


def test_pieces_that_overlap_are_summed():
    x = np.random.default_rng(2).standard_normal((10, *SHAPE))
    f = stax.grad(lambda x: sum((snp.sin(x[k : k + 2]) * k).sum() for k in range(9)))
    assert "pad" in _operations(stax.make_ir(f)(x))
    np.testing.assert_allclose(stax.jit(f)(x), f(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_many_pieces_of_a_concatenation(axis):
    rng = np.random.default_rng(axis)
    shapes = [[20, 30, 40] for _ in range(14)]
    for k, shape in enumerate(shapes):
        shape[axis] = 3 + k
    xs = [rng.standard_normal(shape) for shape in shapes]

    def f(xs):
        return snp.concatenate([x * (k + 1) for k, x in enumerate(xs)], axis) - 1

    assert "concatenate" not in _operations(stax.make_ir(f)(xs))
    assert np.array_equal(stax.jit(f)(xs), f(xs))
    gradient = stax.grad(lambda xs: (f(xs) ** 3).sum())
    for found, expected in zip(stax.jit(gradient)(xs), gradient(xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_few_or_small_pieces_stay_one_loop():
    small = [np.ones(3) * k for k in range(30)]
    few = [np.ones((64, 64)) * k for k in range(3)]
    for xs in (small, few):
        assert "concatenate" in _operations(stax.make_ir(lambda *xs: snp.concatenate(xs))(*xs))


def test_a_sum_that_others_read_too_stays_whole():
    x = np.random.default_rng(3).standard_normal((6, *SHAPE))

    def f(x):
        pads = [snp.pad(x[k : k + 1], ((k, 5 - k), (0, 0), (0, 0))) for k in range(6)]
        partial = pads[0] + pads[1] + pads[2]
        return partial, partial + pads[3] + pads[4] + pads[5]

    for found, expected in zip(stax.jit(f)(x), f(x), strict=True):
        assert np.array_equal(found, expected)


def test_work_grows_with_the_number_of_pieces():
    def loads(count):
        w = np.zeros((count, *SHAPE), np.float32)
        f = stax.grad(lambda w: sum((snp.sin(w[k]) * (k + 1)).sum() for k in range(count)))
        lowered = stax.jit(f).lower(w)
        return sum(
            len(body.reads) * math.prod(buffer.ranges)
            for buffer in lowered.lowered.computed
            for body in getattr(buffer, "bodies", ())
        )

    assert loads(24) < 3 * loads(12)
