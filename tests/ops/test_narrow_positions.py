"""Positions and classes in narrow types, which hold them but not what is computed of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import DtypeError

INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("count", [3, 300, 5000])
def test_a_class_is_one_position(dtype: Any, count: int) -> None:
    x = np.array([0, 1, 2, 44, 127], dtype)
    expected = x.astype(np.float64)[:, None] == np.arange(count)
    for encode in (stax.nn.one_hot, stax.jit(stax.nn.one_hot, static_argnums=1)):
        np.testing.assert_array_equal(encode(x, count), expected)


def test_classes_that_a_type_does_not_have() -> None:
    signed = stax.jit(lambda x: stax.nn.one_hot(x, 257))(np.array([-1, -128, 0], np.int8))
    assert np.asarray(signed).sum(-1).tolist() == [0, 0, 1]
    truth = stax.jit(lambda x: stax.nn.one_hot(x, 4))(np.array([True, False]))
    np.testing.assert_array_equal(truth, [[0, 1, 0, 0], [1, 0, 0, 0]])
    half = stax.jit(lambda x: stax.nn.one_hot(x, 5000))(np.array([2048, 4096], np.float16))
    assert np.asarray(half).sum(-1).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_flat_positions_and_back(dtype: Any, order: Any) -> None:
    sizes = (130, 70_000, 300)
    parts = tuple(np.array(p, dtype) for p in ([1, 100, 127], [0, 3, 126], [2, 9, 120]))
    flat = stax.jit(lambda *p: snp.ravel_multi_index(p, sizes, order=order))(*parts)
    expected = np.ravel_multi_index([p.astype(int) for p in parts], sizes, order=order)
    np.testing.assert_array_equal(flat, expected)
    assert flat.dtype == expected.dtype
    found = stax.jit(lambda i: snp.unravel_index(i, sizes, order=order))(parts[2])
    known_parts = np.unravel_index(parts[2].astype(int), sizes, order=order)
    for one, known in zip(found, known_parts, strict=True):
        np.testing.assert_array_equal(one, known)
        assert one.dtype == known.dtype


def test_positions_are_integers() -> None:
    with pytest.raises(DtypeError, match="unravel_index: positions must be integers"):
        stax.jit(lambda i: snp.unravel_index(i, (3, 4)))(np.ones(2))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_rolls_by_any_type_of_integer(dtype: Any) -> None:
    x = np.arange(1000.0)
    for by in (0, 3, 127):
        found = stax.jit(snp.roll)(x, np.array(by, dtype))
        np.testing.assert_array_equal(found, np.roll(x, by))
