"""The jitted namespace that the standard's own suite is run against: functions and operators.

Run by the reference backend, which is quick; the suite compiles.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest

import stax
from tests.array_api import jitted
from tests.array_api.calls import SIGNATURES

X = np.array([[5, 3, 2], [7, 1, 4], [6, 2, 3]], np.int16)
ROUNDED = "add floordiv mod mul sub truediv pow matmul eq ge gt le lt ne".split()
INTEGRAL = "and lshift or rshift xor".split()


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitted.stax, "jit", functools.partial(stax.jit, backend="numpy"))


def same(got: Any, want: Any) -> None:
    assert isinstance(got, jitted.JittedArray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_every_function_of_the_standard_is_there() -> None:
    for name in SIGNATURES:
        space: Any = jitted
        for part in name.split("."):
            space = getattr(space, part)
        assert callable(space)


@pytest.mark.parametrize("name", [*ROUNDED, *INTEGRAL])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_operators_are_those_of_numpy(name: str, dtype: Any) -> None:
    if name in INTEGRAL and dtype is np.float32:
        return
    apply = getattr(operator, {"and": "and_", "or": "or_"}.get(name, name))
    x = X.astype(dtype)
    made = x.view(jitted.JittedArray)
    others = [x] if name == "matmul" else [x, x[0], dtype(2), 2]
    for other in others:
        same(apply(made, other), apply(x, other))
        if name in jitted.BINARY:
            same(apply(other, made), apply(other, x))
    store = getattr(operator, f"i{name}", None)
    if store is not None and not (name == "truediv" and dtype is np.int16):
        kept = np.array(x).view(jitted.JittedArray)
        assert store(kept, others[0]) is kept
        same(kept, store(np.array(x), others[0]))


@pytest.mark.parametrize("name", "abs invert neg pos".split())
def test_unary_operators_are_those_of_numpy(name: str) -> None:
    apply = getattr(operator, name)
    same(apply(X.view(jitted.JittedArray)), apply(X))


def test_a_result_of_several_parts_keeps_its_type() -> None:
    found = jitted.linalg.slogdet(jitted.asarray(X, dtype=np.float64))
    assert type(found) is type(np.linalg.slogdet(X))
    same(found.logabsdet, np.asarray(np.linalg.slogdet(X).logabsdet))
