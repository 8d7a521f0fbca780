"""np.lib.stride_tricks.sliding_window_view on traced values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax.errors import MutationError, ShapeError

windows = np.lib.stride_tricks.sliding_window_view
X = np.random.default_rng(0).normal(size=(5, 30, 4))

CASES: list[tuple[Any, Any]] = [
    ((2, 3, 2), None),
    (3, 1),
    (20, 1),
    ((2, 20), (0, -2)),
    ((3, 2), (1, 1)),
    ((1,), (2,)),
    (0, 0),
    ((), ()),
]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_as_numpy_under_jit_and_vmap(shape: Any, axis: Any) -> None:
    want = windows(X, shape, axis)
    got = stax.jit(lambda x: windows(x, shape, axis), strict=True)(X)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    both = stax.vmap(lambda x: windows(x, shape, axis))(np.stack([X, -X]))
    np.testing.assert_array_equal(both, np.stack([want, -want]))


@pytest.mark.parametrize("size", [3, 20])
def test_the_gradient_counts_windows(size: int) -> None:
    x = np.arange(30.0)
    weight = np.random.default_rng(1).normal(size=(31 - size, size))
    want = np.zeros(30)
    for k in range(31 - size):
        want[k : k + size] += weight[k]
    gradient = stax.grad(lambda x: (windows(x, size) * weight).sum())
    np.testing.assert_allclose(gradient(x), want, rtol=1e-12)
    np.testing.assert_allclose(stax.jit(gradient)(x), want, rtol=1e-12)


def test_refusals() -> None:
    for shape, axis in ((6, 0), ((2, 2), (1,)), (-1, 0), ((2, 2), None)):
        with pytest.raises(ShapeError, match="do not fit"):
            stax.jit(lambda x, s=shape, a=axis: windows(x, s, a))(X)
    with pytest.raises(MutationError, match="written into"):
        stax.jit(lambda x: windows(x, 2, 0, writeable=True))(X)
