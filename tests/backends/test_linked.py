"""Functions that the support library holds: a program has a pointer to them."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.backends.c import vecmath
from stax.backends.c.routines import linked_address
from stax.backends.c.toolchain import find_toolchain

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")


def columns(x: np.ndarray) -> np.ndarray:
    return (x * 2).sum(axis=0)


def test_every_linked_function_is_in_the_library() -> None:
    for name in vecmath.LINKED:
        assert linked_address(name)
        pointer = vecmath.definitions([name], linked=vecmath.LINKED)
        assert vecmath.linked_names(pointer) == [name]
        assert vecmath.with_linked(pointer) == vecmath.definitions([name])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_program_points_to_what_it_merges_columns_with(dtype: type) -> None:
    x = (np.arange(4096 * 24) % 7).astype(dtype).reshape(4096, 24)
    name = f"columns_sum_f{np.dtype(dtype).itemsize * 8}"
    text = stax.jit(columns).lower(x).source.text
    assert vecmath.linked_names(text) == [name]
    assert f"void stax_{name}(" not in text
    np.testing.assert_array_equal(stax.jit(columns)(x), columns(x))
