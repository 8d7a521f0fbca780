"""A compiled program takes arguments of the types it was compiled for, and no others."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import stax
from stax.errors import DtypeError, PytreeError, ShapeError, StaticArgumentError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@functools.partial(stax.jit, static_argnames="n")
def f(x, scale=None, *, n=2):
    return x["a"] * n if scale is None else x["a"] * scale * n


@pytest.mark.parametrize(
    ("error", "match", "args", "kwargs"),
    [
        (ShapeError, r"x_a of .* is f32\[4,3\]; .* for f32\[3,4\]", ({"a": X.T},), {}),
        (ShapeError, r"x_a of .* is f32\[\]", ({"a": np.float32(1)},), {}),
        (DtypeError, r"x_a of .* is f64\[3,4\]; .* for f32\[3,4\]", ({"a": X.astype("f8")},), {}),
        (PytreeError, "structure", ({"b": X},), {}),
        (PytreeError, "structure", ({"a": X}, 2.0), {}),
        (PytreeError, "structure", ([X],), {}),
        (StaticArgumentError, "static arguments", ({"a": X},), {"n": 3}),
    ],
)
def test_others_are_refused(error, match, args, kwargs):
    run = f.lower({"a": X}).compile()
    np.testing.assert_array_equal(run({"a": X}), X * 2)
    with pytest.raises(error, match=match) as info:
        run(*args, **kwargs)
    assert isinstance(info.value, TypeError)
    assert "test_signatures.py" in str(info.value)
    assert "call the function that jit returned" in str(info.value)


def test_descriptions_and_numbers_stand_for_arrays():
    described = stax.ShapeDtypeStruct((3, 4), np.float32)
    run = f.lower({"a": described}, stax.ShapeDtypeStruct((), np.float32)).compile()
    for scale in (np.float32(3), 3.0, 3, np.array(3, np.float32)):
        np.testing.assert_array_equal(run({"a": X}, scale), X * 6)
    with pytest.raises(DtypeError, match="scale"):
        run({"a": X}, 3j)
    with pytest.raises(DtypeError, match="scale"):
        run({"a": X}, np.float64(3))
    weak = f.lower({"a": X}, 3.0).compile()
    np.testing.assert_array_equal(weak({"a": X}, 2.0), X * 4)
    np.testing.assert_array_equal(weak({"a": X}, np.float64(2)), X * 4)
