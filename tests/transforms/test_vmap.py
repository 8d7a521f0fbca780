"""vmap against Python loops: axes, trees, closures, nesting and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import errors


def f(x: Any, y: Any) -> Any:
    return np.sin(x) * y + x


def test_in_axes_and_out_axes() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    np.testing.assert_array_equal(stax.vmap(f, (0, None))(x, y), f(x, y))
    np.testing.assert_array_equal(stax.vmap(f, (1, 0))(x, y), f(x, y).T)
    np.testing.assert_array_equal(stax.vmap(f, (-1, 0), -1)(x, y), f(x, y))
    np.testing.assert_array_equal(stax.vmap(f, [1, 0], 1)(x, y), f(x, y))
    np.testing.assert_array_equal(stax.vmap(f)(y, y=y), f(y, y))


def test_trees_prefixes_and_unmapped_results() -> None:
    tree = {"a": np.arange(6.0).reshape(2, 3), "b": (np.arange(3.0), 2.0)}
    g = lambda t, s: {"p": t["a"] * t["b"][0], "q": s, "r": t["b"][1] * s, "c": 7}
    axes = ({"a": 1, "b": (0, None)}, None)
    out = stax.vmap(g, axes, {"p": 1, "q": None, "r": 0, "c": 0})(tree, 3.0)
    np.testing.assert_array_equal(out["p"], tree["a"] * tree["b"][0])
    assert out["q"] == 3.0
    np.testing.assert_array_equal(out["r"], [6.0] * 3)
    np.testing.assert_array_equal(out["c"], [7] * 3)
    assert out["c"].dtype == np.int64
    np.testing.assert_array_equal(
        stax.vmap(lambda t: t["a"] + t["b"], in_axes=({"a": 0, "b": None},))(
            {"a": np.arange(2.0), "b": 1.0}
        ),
        [1.0, 2.0],
    )


def test_axis_size_without_mapped_arguments() -> None:
    np.testing.assert_array_equal(stax.vmap(lambda: 3.0, axis_size=2)(), [3.0, 3.0])
    np.testing.assert_array_equal(
        stax.vmap(lambda x: x * 2, in_axes=None, axis_size=2)(1.5), [3.0, 3.0]
    )
    assert stax.vmap(lambda x: x * 2)(np.zeros((0, 3))).shape == (0, 3)


def test_nesting_and_closures() -> None:
    x, y = np.arange(3.0), np.arange(4.0)
    outer = stax.vmap(lambda a: stax.vmap(lambda b: f(a, b))(y))(x)
    np.testing.assert_array_equal(outer, f(x[:, None], y))
    swapped = stax.vmap(stax.vmap(f, (None, 0)), (0, None))(x, y)
    np.testing.assert_array_equal(swapped, outer)
    np.testing.assert_array_equal(stax.vmap(lambda a, b: a * b, (0, None))(x, 2), x * 2)


def test_values_not_mapped_stay_concrete() -> None:
    def g(x: Any, n: Any) -> Any:
        return x * 2 if n > 1 else x

    np.testing.assert_array_equal(stax.vmap(g, (0, None))(np.arange(2.0), 3), [0.0, 2.0])


def test_composition_with_derivatives() -> None:
    x = np.arange(1.0, 4.0)
    g = lambda v: v**3
    np.testing.assert_allclose(stax.vmap(stax.grad(g))(x), 3 * x**2)
    np.testing.assert_allclose(stax.vmap(stax.grad(stax.grad(g)))(x), 6 * x)
    np.testing.assert_allclose(stax.jvp(stax.vmap(stax.grad(g)), (x,), (np.ones(3),))[1], 6 * x)
    (pulled,) = stax.vjp(stax.vmap(g), x)[1](np.ones(3))
    np.testing.assert_allclose(pulled, 3 * x**2)
    _, tangents = stax.vmap(lambda v, t: stax.jvp(g, (v,), (t,)))(x, x)
    np.testing.assert_allclose(tangents, 3 * x**3)
    mixed = stax.vmap(stax.hessian(lambda v: (v * v).sum() * v[0]))(np.ones((2, 3)))
    assert mixed.shape == (2, 3, 3)


def test_errors() -> None:
    x = np.ones((3, 2))
    with pytest.raises(errors.ShapeError, match=r"(?s)x of shape \(3, 2\).*y of shape \(4,\)"):
        stax.vmap(f)(x, np.ones(4))
    with pytest.raises(errors.AxisError, match="y has 0 dimensions"):
        stax.vmap(f)(x, 1.0)
    with pytest.raises(errors.AxisError, match="x has 2 dimensions"):
        stax.vmap(f, (2, None))(x, 1.0)
    with pytest.raises(errors.PytreeError, match="2 positional"):
        stax.vmap(f, (0,))(x, x)
    with pytest.raises(errors.PytreeError, match="integers"):
        stax.vmap(f, ("0", None))(x, x)
    with pytest.raises(errors.ShapeError, match="no argument"):
        stax.vmap(f, None)(x, x)
    with pytest.raises(errors.ShapeError, match="differs between examples"):
        stax.vmap(f, out_axes=None)(x, x)
    with pytest.raises(errors.PytreeError, match="out_axes"):
        stax.vmap(f, out_axes=(0, 1))(x, x)
    with pytest.raises(errors.AxisError, match="out_axes=5"):
        stax.vmap(f, out_axes=5)(x, x)
    with pytest.raises(errors.ShapeError, match="axis_size"):
        stax.vmap(f, axis_size=7)(x, x)
