"""Truth values as numbers: right for every type, and in loops as wide as the numbers' own."""

import numpy as np
import pytest

import stax


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "f2"])
def test_a_count_of_truths_is_that_of_numpy(dtype):
    x = np.random.default_rng(0).integers(0, 3, (20, 300)).astype(np.float32)
    x[3, 5] = np.nan

    def f(x):
        hit = x == x.max(1, keepdims=True)
        return hit.astype(dtype), hit.astype(dtype).sum(1), (x > 1).astype(dtype) * 2

    for a, b in zip(stax.jit(f)(x), f(x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_truth_values_are_not_converted_from_bytes():
    lowered = stax.jit(lambda x: (x > 0).astype(np.float32).sum(1)).lower(np.ones((8, 512), "f4"))
    assert "(float)v" not in lowered.as_text("source")
