"""Segments are numbered by integers of any type, whether or not it holds the number of segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax

TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [3, 128, 300, 70_000])
def test_numbers_of_any_type_may_be_outside(dtype: Any, count: int) -> None:
    info = np.iinfo(dtype)
    ids = np.array([0, 2, info.max, info.min, 2, 1, info.max - 1], dtype)
    data = np.arange(1.0, 8.0)
    expected = np.zeros(count)
    for place, value in zip(ids.tolist(), data, strict=True):
        if 0 <= place < count:
            expected[place] += value
    for total in (stax.ops.segment_sum, stax.jit(stax.ops.segment_sum, static_argnums=2)):
        np.testing.assert_array_equal(total(data, ids, count), expected)


def test_truth_numbers_segments_as_well() -> None:
    found = stax.ops.segment_max(np.array([3.0, 5.0, 4.0]), np.array([True, False, True]), 2)
    np.testing.assert_array_equal(found, [5.0, 4.0])
