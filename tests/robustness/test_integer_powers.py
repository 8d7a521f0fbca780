"""Powers of integers by traced exponents of any size and sign.

Input: bases and exponents at the ends of their dtypes.  Unsigned exponents beyond 2**63 count in
full, as in NumPy; negative ones give the quotient without its fraction (docs/conventions.md).
"""

from __future__ import annotations

import numpy as np
import pytest

import stax


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_exponents_count_in_full(dtype):
    top = np.iinfo(dtype).max
    x = np.array([0, 0, 1, 2, 3, 3, 5, top], dtype)
    y = np.array([top, top // 2 + 1, top, top, top // 2 + 2, 0, top - 1, top], dtype)
    np.testing.assert_array_equal(stax.jit(np.power)(x, y), np.power(x, y))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_negative_exponents_give_the_whole_part(dtype):
    x = np.array([2, -3, 1, -1, -1, 0], dtype)
    y = np.array([-1, -2, -5, -3, -4, -1], dtype)
    expected = np.array([0, 0, 1, -1, 1, 0], dtype)
    found = stax.jit(np.power)(x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
