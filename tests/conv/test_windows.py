"""reduce_window against its definition, eager and compiled, with derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import ShapeError
from stax.testing import check_grads

RNG = np.random.default_rng(2)
X = RNG.permutation(5 * 6 * 2).reshape(1, 5, 6, 2) * 0.5 - 15
KINDS = {
    "sum": (lax.add, 0.0, np.add),
    "max": (lax.max, -np.inf, np.maximum),
    "min": (lax.min, np.inf, np.minimum),
    "prod": (lax.mul, 1.0, np.multiply),
}
CASES = {
    "pool": {"window": (1, 2, 2, 1), "strides": (1, 2, 2, 1)},
    "overlap": {"window": (1, 3, 2, 1), "strides": (1, 2, 1, 1)},
    "padded": {"window": (1, 3, 3, 1), "strides": (1, 2, 3, 1), "padding": "SAME"},
    "pairs": {"window": (1, 2, 3, 1), "padding": ((0, 0), (1, 2), (0, 1), (0, 0))},
    "blocks": {
        "window": (1, 3, 3, 1),
        "strides": (1, 3, 3, 1),
        "padding": ((0, 0), (1, 1), (1, 0), (0, 0)),
    },
    "dilated": {
        "window": (1, 2, 3, 1),
        "base": (1, 2, 1, 1),
        "holes": (1, 3, 2, 1),
        "padding": ((0, 0), (2, 0), (1, 1), (0, 0)),
    },
    "channels": {"window": (1, 1, 1, 2)},
    "identity": {"window": (1, 1, 1, 1)},
    "all": {"window": X.shape},
}


def run(name: str, options: dict[str, Any]) -> Any:
    function, start, _ = KINDS[name]
    return lambda x: lax.reduce_window(
        x,
        np.asarray(start, x.dtype)[()],
        function,
        options["window"],
        options.get("strides"),
        options.get("padding", "VALID"),
        options.get("base"),
        options.get("holes"),
    )


def by_definition(x: Any, name: str, options: dict[str, Any]) -> Any:
    _, start, ufunc = KINDS[name]
    window = options["window"]
    strides = options.get("strides", (1,) * 4)
    base, holes = options.get("base", (1,) * 4), options.get("holes", (1,) * 4)
    pads = options.get("padding", ((0, 0),) * 4)
    if isinstance(pads, str):
        pads = lax.padtype_to_pads(x.shape, window, strides, pads)
    wide = np.full(
        [(n - 1) * d + 1 + a + b for n, d, (a, b) in zip(x.shape, base, pads, strict=True)], start
    )
    wide[
        tuple(
            slice(a, a + (n - 1) * d + 1, d)
            for n, d, (a, _) in zip(x.shape, base, pads, strict=True)
        )
    ] = x
    extents = [
        (n - (k - 1) * h - 1) // s + 1
        for n, k, h, s in zip(wide.shape, window, holes, strides, strict=True)
    ]
    out = np.full(extents, start)
    for place in itertools.product(*map(range, extents)):
        taps = tuple(
            slice(p * s, p * s + (k - 1) * h + 1, h)
            for p, s, k, h in zip(place, strides, window, holes, strict=True)
        )
        out[place] = ufunc.reduce(wide[taps], axis=None)
    return out


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("name", CASES)
def test_values(kind: str, name: str) -> None:
    fun, want = run(kind, CASES[name]), by_definition(X, kind, CASES[name])
    np.testing.assert_allclose(fun(X), want, rtol=1e-12)
    np.testing.assert_allclose(stax.jit(fun)(X), want, rtol=1e-12)
    small = stax.jit(fun)(X.astype("f4"))
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives(kind: str, name: str) -> None:
    fun = run(kind, CASES[name])
    finite = lambda x: snp.where(snp.isfinite(fun(x)), fun(x), 0.0)
    loss = lambda x: snp.sum(finite(x) ** 2)
    check_grads(finite, (X,), order=1)
    check_grads(loss, (X / 16,), order=2)
    np.testing.assert_allclose(stax.jit(stax.grad(loss))(X), stax.grad(loss)(X), atol=1e-9)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("name", ["pool", "padded", "dilated"])
def test_batches(kind: str, name: str) -> None:
    fun = run(kind, CASES[name])
    for axis in (0, 2, 4):
        stack = np.stack([X, -X, X * 2], axis=axis)
        want = np.stack([fun(X), fun(-X), fun(X * 2)])
        np.testing.assert_allclose(stax.vmap(fun, axis)(stack), want)
        np.testing.assert_allclose(stax.jit(stax.vmap(fun, axis))(stack), want)


def test_any_function() -> None:
    for name in ("pool", "padded"):
        fun = run("prod", CASES[name])
        x = X / 16
        np.testing.assert_allclose(stax.jit(fun)(x), by_definition(x, "prod", CASES[name]))
        check_grads(fun, (x,), order=1)
    fun = lambda x: lax.reduce_window(x, 1.0, snp.add, (2,), (1,), [(1, 0)])
    np.testing.assert_allclose(stax.jit(fun)(np.arange(3.0)), [2.0, 2.0, 4.0])


def test_pairs_merge_together() -> None:
    def later(a: Any, b: Any) -> Any:
        take = b[0] > a[0]
        return snp.where(take, b[0], a[0]), snp.where(take, b[1], a[1])

    x, at = np.array([3.0, 1.0, 2.0, 5.0]), np.arange(4)
    value, where = stax.jit(
        lambda a, b: lax.reduce_window((a, b), (-np.inf, -1), later, (2,), (2,))
    )(x, at)
    np.testing.assert_array_equal(value, [3.0, 5.0])
    np.testing.assert_array_equal(where, [0, 3])


def test_ties_go_to_the_first_and_nan_is_kept() -> None:
    got = stax.jit(stax.grad(lambda x: snp.sum(run("max", CASES["pool"])(x))))(
        np.zeros((1, 2, 2, 1))
    )
    np.testing.assert_array_equal(got.ravel(), [1, 0, 0, 0])
    x = np.array([1.0, np.nan, 2.0, 3.0])
    fun = lambda v: lax.reduce_window(v, -np.inf, lax.max, (2,), (2,))
    np.testing.assert_array_equal(stax.jit(fun)(x), [np.nan, 3.0])
    empty = lambda v: lax.reduce_window(v, -np.inf, lax.max, (2,), (2,), [(2, 0)])
    np.testing.assert_array_equal(stax.jit(empty)(np.full(2, -np.inf)), [-np.inf, -np.inf])
    for f in (stax.jacrev(empty), stax.jit(stax.jacfwd(empty))):
        np.testing.assert_array_equal(f(np.full(2, -np.inf)), [[0, 0], [1, 0]])


def test_integers_and_halves() -> None:
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    got = stax.jit(lambda v: lax.reduce_window(v, np.int32(0), lax.add, (1, 2), (1, 2)))(x)
    np.testing.assert_array_equal(got, [[1, 5], [9, 13]])
    least = np.iinfo(np.int32).min
    got = stax.jit(lambda v: lax.reduce_window(v, np.int32(least), lax.max, (2, 2)))(x)
    np.testing.assert_array_equal(got, [[5, 6, 7]])
    half = stax.jit(lambda v: lax.reduce_window(v, np.float16(0), lax.add, (2, 4)))(
        x.astype(np.float16)
    )
    assert half.dtype == np.float16
    assert half == 28


def test_errors() -> None:
    with pytest.raises(ShapeError, match="window_dimensions"):
        lax.reduce_window(X, 0.0, lax.add, (2, 2))
    with pytest.raises(ValueError, match="padding must be"):
        lax.reduce_window(X, 0.0, lax.add, (1, 2, 2, 1), None, "ROUND")
