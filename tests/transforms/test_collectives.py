"""Collectives over named axes: values, derivatives, nesting, and under jit and checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.testing import check_grads
from stax.transforms import collectives as co

X = np.arange(12.0).reshape(4, 3)


def over(f: Any, **kwargs: Any) -> Any:
    return stax.vmap(f, axis_name="i", **kwargs)


def test_reductions() -> None:
    np.testing.assert_array_equal(over(lambda x: co.psum(x, "i"))(X), [X.sum(0)] * 4)
    np.testing.assert_allclose(over(lambda x: co.pmean(x, "i"))(X), [X.mean(0)] * 4)
    np.testing.assert_array_equal(over(lambda x: co.pmax(x, "i"))(X), [X.max(0)] * 4)
    np.testing.assert_array_equal(over(lambda x: co.pmin(-x, "i"))(X), [-X.max(0)] * 4)
    np.testing.assert_array_equal(over(lambda x: co.psum(1, "i"))(X), [4] * 4)
    out = over(lambda x: co.psum({"a": x, "b": 2.0}, "i"))(X)
    np.testing.assert_array_equal(out["b"], [8.0] * 4)


def test_the_result_is_not_batched() -> None:
    out = over(lambda x: co.psum(x, "i"), out_axes=None)(X)
    np.testing.assert_array_equal(out, X.sum(0))


def test_index_and_permutation() -> None:
    np.testing.assert_array_equal(over(lambda x: co.axis_index("i"))(X), [0, 1, 2, 3])
    shifted = over(lambda x: co.ppermute(x, "i", [(0, 1), (1, 2)]))(X)
    np.testing.assert_array_equal(shifted, [0 * X[0], X[0], X[1], 0 * X[0]])


def test_gathers_and_exchanges() -> None:
    np.testing.assert_array_equal(over(lambda x: co.all_gather(x, "i"))(X), [X] * 4)
    np.testing.assert_array_equal(over(lambda x: co.all_gather(x, "i", axis=1))(X), [X.T] * 4)
    tiled = over(lambda x: co.all_gather(x, "i", tiled=True))(X)
    np.testing.assert_array_equal(tiled, [X.ravel()] * 4)
    square = np.arange(32.0).reshape(4, 4, 2)
    np.testing.assert_array_equal(over(lambda x: co.psum_scatter(x, "i"))(square), square.sum(0))
    np.testing.assert_array_equal(
        over(lambda x: co.psum_scatter(x, "i", tiled=True))(square), square.sum(0)[:, None]
    )
    np.testing.assert_array_equal(
        over(lambda x: co.all_to_all(x, "i", 0, 0))(square), square.swapaxes(0, 1)
    )
    turned = over(lambda x: co.all_to_all(x, "i", 0, 1))(square)
    np.testing.assert_array_equal(turned, square.transpose(1, 2, 0))
    tiled = over(lambda x: co.all_to_all(x, "i", 0, 0, tiled=True))(
        X.reshape(4, 3)[:, :, None].repeat(4, 1)
    )
    assert tiled.shape == (4, 12, 1)


def standardised(x: Any) -> Any:
    centred = x - co.pmean(x, "i")
    spread = np.sqrt(co.pmean(centred * centred, "i") + 1.0)
    rolled = co.ppermute(centred, "i", [(k, (k + 1) % 4) for k in range(4)])
    return centred / spread + 0.1 * rolled * co.all_gather(x, "i").sum(0)


def plain(x: Any) -> Any:
    centred = x - x.mean(0)
    spread = np.sqrt((centred * centred).mean(0) + 1.0)
    return centred / spread + 0.1 * np.roll(centred, 1, 0) * x.sum(0)


@pytest.mark.parametrize(
    "wrap", [lambda f: f, stax.checkpoint, stax.jit, lambda f: stax.jit(stax.checkpoint(f))]
)
def test_derivatives_through_calls(wrap: Any) -> None:
    f = over(wrap(standardised))
    x = np.cos(X)
    np.testing.assert_allclose(f(x), plain(x))
    got = stax.grad(lambda v: (f(v) ** 2).sum())(x)
    np.testing.assert_allclose(got, stax.grad(lambda v: (plain(v) ** 2).sum())(x), rtol=1e-10)


def test_second_order_and_outer_jit() -> None:
    check_grads(over(standardised), (np.cos(X),), 2)
    x = np.cos(X)
    np.testing.assert_allclose(stax.jit(over(standardised))(x), plain(x))


def test_derivatives_taken_inside_the_map() -> None:
    # Each example differentiates its own loss, which all of them share.
    inner = over(stax.grad(lambda x: co.psum(np.sin(x), "i")))
    x = np.arange(4.0)
    np.testing.assert_allclose(inner(x), 4 * np.cos(x))
    gathered = over(stax.grad(lambda x: (co.all_gather(x, "i") ** 2).sum()))
    np.testing.assert_allclose(gathered(x), 4 * 2 * x)


def test_two_axes() -> None:
    f = lambda x: co.psum(x, ("i", "j")) + co.axis_index(("i", "j"))
    got = stax.vmap(stax.vmap(f, axis_name="j"), axis_name="i")(X)
    np.testing.assert_array_equal(got, X.sum() + np.arange(12).reshape(4, 3))
    rows = stax.vmap(stax.vmap(lambda x: co.psum(x, "i"), axis_name="j"), axis_name="i")(X)
    np.testing.assert_array_equal(rows, [X.sum(0)] * 4)
    g = lambda x: co.all_gather(x, "i") + co.ppermute(x, "i", [(0, 3)])
    got = stax.vmap(stax.vmap(g, axis_name="j"), axis_name="i")(X)
    want = X.T[None] + np.concatenate([0 * X[:3], X[:1]])[:, :, None]
    np.testing.assert_array_equal(got, want)


def test_errors() -> None:
    with pytest.raises(errors.StaticArgumentError, match=r"(?s)'i' is not bound.*axis_name"):
        co.psum(X, "i")
    with pytest.raises(errors.StaticArgumentError, match="'k' is not bound"):
        over(lambda x: co.axis_index("k"))(X)
    with pytest.raises(errors.StaticArgumentError, match="twice"):
        over(lambda x: co.ppermute(x, "i", [(0, 1), (2, 1)]))(X)
    with pytest.raises(errors.ShapeError, match="extent 4"):
        over(lambda x: co.psum_scatter(x, "i"))(X)
    with pytest.raises(errors.NonDifferentiableError, match="pmax"):
        stax.grad(lambda x: over(lambda v: stax.grad(lambda u: co.pmax(u, "i"))(v))(x).sum())(
            np.arange(4.0)
        )
