"""unique with a size, which makes it traceable: cut and filled results, every companion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import ShapeError

X = np.array([[3.0, 1.0, np.nan], [2.0, 3.0, np.nan]])


@pytest.mark.parametrize("x", [X, X.ravel(), np.array([5, 5, 2, 9, 2]), np.array([True, False])])
@pytest.mark.parametrize("equal_nan", [True, False])
def test_all_of_them(x: Any, equal_nan: bool) -> None:
    want = np.unique(x, True, True, True, equal_nan=equal_nan)
    size = len(want[0])
    fun = lambda a, n: snp.unique(a, True, True, True, equal_nan=equal_nan, size=n)
    for call in (fun, stax.jit(fun, static_argnums=1)):
        for got, plain in zip(call(x, size), want, strict=True):
            np.testing.assert_array_equal(got, plain)
        values, index, inverse, counts = call(x, size + 2)
        np.testing.assert_array_equal(values[:size], want[0])
        np.testing.assert_array_equal(values[size:], want[0][:1].repeat(2))
        np.testing.assert_array_equal(index[size:], want[1][:1].repeat(2))
        np.testing.assert_array_equal(counts[size:], [0, 0])
        np.testing.assert_array_equal(inverse, want[2])
        np.testing.assert_array_equal(call(x, 1)[0], want[0][:1])


def test_filling_and_batches() -> None:
    x = np.array([[1, 1, 2], [5, 4, 3]])
    fun = lambda a: snp.unique(a, size=4, fill_value=-1)
    got = stax.jit(stax.vmap(fun))(x)
    np.testing.assert_array_equal(got, [[1, 2, -1, -1], [3, 4, 5, -1]])
    np.testing.assert_array_equal(snp.unique(np.zeros(0), size=2), [0, 0])
    grad = stax.grad(lambda a: snp.sum(snp.unique(a, size=2) * np.array([1.0, 10.0])))
    np.testing.assert_array_equal(grad(np.array([2.0, 1.0, 1.0])), [10, 1, 0])
    with pytest.raises(ShapeError, match="axis=None"):
        snp.unique(x, axis=0, size=2)
