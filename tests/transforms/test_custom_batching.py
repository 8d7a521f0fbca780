"""Batching rules of the user's are used by vmap, under and over the other transformations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.custom_batching import custom_vmap, sequential_vmap

X = np.arange(1.0, 4.0)


def watched() -> tuple[Any, list[Any]]:
    """A sum of sines whose rule notes how it was called."""
    calls: list[Any] = []

    @custom_vmap
    def f(x: Any, p: Any) -> Any:
        return {"s": np.sin(x) * p["a"], "c": p["a"] * 2.0}

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, p: Any) -> Any:
        calls.append((size, batched))
        mark = batched[1]["a"]
        return {"s": np.sin(x) * p["a"], "c": p["a"] * 2.0}, {"s": True, "c": mark}

    return f, calls


def test_the_rule_is_used() -> None:
    f, calls = watched()
    assert f(1.0, {"a": 2.0})["c"] == 4.0
    assert not calls
    out = stax.vmap(f, (0, None))(X, {"a": 2.0})
    np.testing.assert_array_equal(out["s"], np.sin(X) * 2)
    np.testing.assert_array_equal(out["c"], [4.0] * 3)
    assert calls == [(3, [True, {"a": False}])]
    stax.vmap(f, (-1, 0))(X, {"a": X})
    assert calls[-1] == (3, [True, {"a": True}])


def test_under_other_transformations() -> None:
    f, calls = watched()
    loss = lambda x: stax.vmap(f, (0, None))(x, {"a": 2.0})["s"].sum()
    np.testing.assert_allclose(stax.grad(loss)(X), 2 * np.cos(X))
    assert len(calls) == 1
    np.testing.assert_allclose(stax.jit(stax.grad(loss))(X), 2 * np.cos(X))
    np.testing.assert_allclose(stax.hessian(loss)(X), np.diag(-2 * np.sin(X)))
    assert len(calls) >= 3
    inner = lambda x: f(x, {"a": 2.0})["s"]
    np.testing.assert_allclose(stax.vmap(stax.grad(inner))(X), 2 * np.cos(X))
    calls.clear()
    np.testing.assert_allclose(stax.vmap(stax.jit(inner))(X), 2 * np.sin(X))
    np.testing.assert_allclose(stax.vmap(stax.checkpoint(inner))(X), 2 * np.sin(X))
    assert len(calls) == 2


def test_sequential() -> None:
    @sequential_vmap
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    np.testing.assert_allclose(stax.vmap(f, (0, None))(X, 2.0), np.sin(X) * 2)
    np.testing.assert_allclose(
        stax.vmap(stax.vmap(f, (0, None)), (0, 0))(X[:, None], X), (np.sin(X) * X)[:, None]
    )
    g = stax.grad(lambda x: stax.vmap(f, (0, None))(x, 2.0).sum())
    np.testing.assert_allclose(g(X), 2 * np.cos(X))


def test_errors() -> None:
    f = custom_vmap(lambda x: x)
    with pytest.raises(errors.CustomDerivativeError, match="def_vmap"):
        f(1.0)
    f.def_vmap(lambda size, batched, x: x)
    with pytest.raises(errors.PytreeError, match="pair"):
        stax.vmap(f)(X)
