"""Proposition 6.2 and reshapes: composed views are NumPy's, as strides or as an index map."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from stax.errors import ShapeError
from stax.loops.buffers import BufferTable
from stax.loops.layout import FixedLayout, contiguous, preferred_order, reshape_index
from stax.loops.symbolic import Symbol, loop_variables
from stax.loops.tensors import BufferTensor, MappedTensor, TensorNode

F64 = np.dtype(np.float64)


def random_view(rng: random.Random, a: np.ndarray, n: TensorNode) -> tuple[np.ndarray, TensorNode]:
    kind = rng.randrange(6)
    if kind == 0:
        axes = rng.sample(range(a.ndim), a.ndim)
        return a.transpose(axes), n.permute(axes)
    if kind == 1 and a.ndim and a.size:
        starts, shape, steps, key = [], [], [], []
        for extent in a.shape:
            step = rng.choice([1, 1, 2, -1, -2])
            start = rng.randrange(extent)
            room = (extent - 1 - start if step > 0 else start) // abs(step) + 1
            count = rng.randint(1, room)
            starts.append(start)
            shape.append(count)
            steps.append(step)
            stop = start + step * count
            key.append(slice(start, stop if stop >= 0 else None, step))
        return a[tuple(key)], n.slice(starts, shape, steps)
    if kind == 2:
        shape = (rng.randint(1, 3), *(rng.randint(2, 3) if e == 1 else e for e in a.shape))
        return np.broadcast_to(a, shape), n.expand(shape)
    if kind == 3:
        ones = [k for k, e in enumerate(a.shape) if e == 1]
        return np.squeeze(a, tuple(ones)), n.squeeze(ones)
    if kind == 4:
        place = rng.randint(0, a.ndim)
        return np.expand_dims(a, place), n.unsqueeze([place])
    if a.ndim:
        axis = rng.randrange(a.ndim)
        return np.flip(a, axis), n.flip([axis])
    return a, n


def gathered(node: BufferTensor, flat: np.ndarray) -> np.ndarray:
    """The elements at the addresses that the layout gives."""
    assert node.layout is not None
    index = loop_variables("i", node.shape)
    address = node.layout.address(index)
    env = {}
    for axis, s in enumerate(index):
        if isinstance(s, Symbol):
            shape = [1] * node.ndim
            shape[axis] = node.shape[axis]
            env[s] = np.arange(node.shape[axis]).reshape(shape)
    at = np.broadcast_to(np.asarray(address.evaluate(env)), node.shape)
    return flat[at]


@pytest.mark.parametrize("seed", range(60))
def test_composed_views_are_strides(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    flat = np.arange(math.prod(shape), dtype=np.float64)
    array = flat.reshape(shape)
    table = BufferTable()
    node: TensorNode = BufferTensor(table.add_input("x", shape, F64))
    for _ in range(rng.randint(1, 6)):
        array, node = random_view(rng, array, node)
    assert isinstance(node, BufferTensor)
    assert node.shape == array.shape
    np.testing.assert_array_equal(gathered(node, flat), array)
    assert node.layout is not None
    for stride, real, extent in zip(node.layout.strides, array.strides, array.shape, strict=True):
        assert extent == 1 or stride * 8 == real
    assert list(table.buffers) == ["x"]


@pytest.mark.parametrize("seed", range(60))
def test_reshape_folds_exactly_when_numpy_needs_no_copy(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(3))
    base = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    array, node = base, BufferTensor(BufferTable().add_input("x", shape, F64))
    array, node = random_view(rng, array, node)  # type: ignore[assignment]
    factors = [f for n in array.shape for f in ((2, n // 2) if n % 2 == 0 else (n,))]
    rng.shuffle(factors)
    target = tuple(factors)
    seen = node.reshape(target)
    folds = isinstance(seen, BufferTensor)
    try:
        view = array.view()
        view.shape = target
        assert folds
    except AttributeError:
        assert not folds
    expected = array.reshape(target)
    if isinstance(seen, BufferTensor):
        np.testing.assert_array_equal(gathered(seen, base.reshape(-1)), expected)
    else:
        assert isinstance(seen, MappedTensor)
        index = reshape_index(loop_variables("i", target), array.shape, target)
        env = dict(zip(loop_variables("i", target), np.indices(target), strict=True))
        places = tuple(np.asarray(e.evaluate(env)) for e in index)
        np.testing.assert_array_equal(array[places].reshape(target), expected)


def test_fold_condition() -> None:
    assert FixedLayout((4, 6), (6, 1)).reshape((24,)) == FixedLayout((24,), (1,))
    assert FixedLayout((4, 6), (1, 4)).reshape((24,)) is None
    assert FixedLayout((4, 6), (1, 4)).reshape((2, 2, 6)) == FixedLayout((2, 2, 6), (2, 1, 4))
    with pytest.raises(ShapeError, match="cannot reshape"):
        contiguous((2, 3)).reshape((7,))


def test_order_follows_the_reads() -> None:
    assert preferred_order([[1, 256]], (256, 512)) == (1, 0)
    assert preferred_order([[1, 256], [512, 1]], (256, 512)) == (0, 1)
    assert preferred_order([], (3, 4)) == (0, 1)
    assert preferred_order([[1, 6, 2]], (2, 3, 3)) == (1, 2, 0)
