"""S6.5a: the merge operations are associative with their identity, and agree with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from stax.loops.evaluate import combine, reduce_last_axis
from stax.loops.monoids import MONOIDS, Monoid, monoid

FLOATS = np.array([3.0, -1.5, np.nan, np.inf, -np.inf, 0.0, -0.0, 3.0, 2.25, np.nan])


def elements(m: Monoid, dtype: str, n: int = 10) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        values = np.arange(n) % 3 == 0
    elif kind.kind == "f":
        values = FLOATS[:n].astype(kind)
    else:
        values = rng.integers(-3, 4, n).astype(kind)
    if m.name == "welford":
        return np.arange(1.0, n + 1), rng.standard_normal(n), rng.random(n)
    if m.name == "recurrence":
        return tuple(rng.integers(-3, 4, n).astype(kind) for _ in m.components)
    extra = [np.arange(n) for _ in m.components[1:]]
    return (values, *extra)


def dtypes_of(m: Monoid) -> list[str]:
    if m.name in ("any", "all"):
        return ["bool"]
    return {"xor": ["int64"], "welford": ["float64"], "logaddexp": ["float64"]}.get(
        m.name, ["float64", "int64", "float32"]
    )


CASES = [(m, d) for m in MONOIDS.values() for d in dtypes_of(m)]


@pytest.mark.parametrize(("m", "dtype"), CASES, ids=str)
def test_associative_with_identity(m: Monoid, dtype: str) -> None:
    parts = elements(m, dtype)
    one = tuple(np.full_like(p, c) for p, c in zip(parts, m.identity(parts[0].dtype), strict=True))
    for merged in (combine(m, one, parts), combine(m, parts, one)):
        for got, want in zip(merged, parts, strict=True):
            np.testing.assert_array_equal(got, want)
    n = len(parts[0])
    a, b, c = (tuple(p[idx] for p in parts) for idx in np.mgrid[:n, :n, :n].reshape(3, -1))
    left = combine(m, combine(m, a, b), c)
    right = combine(m, a, combine(m, b, c))
    for x, y in zip(left, right, strict=True):
        if m.exact:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("m", [m for m in MONOIDS.values() if m.reduce], ids=str)
def test_numpy_form_is_the_fold(m: Monoid) -> None:
    parts = elements(m, dtypes_of(m)[0], 9)
    running = tuple(p[:1] for p in parts)
    for k in range(1, 9):
        running = combine(m, running, tuple(p[k : k + 1] for p in parts))
    with np.errstate(all="ignore"):
        reduced = reduce_last_axis(m, parts)
    for x, y in zip(running, reduced, strict=True):
        np.testing.assert_allclose(x[0], y, rtol=1e-12)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("values", [[1, 5, 5, 0], [2, 2], [np.nan, 7, np.nan], [1, np.nan, 9]])
def test_first_extreme_wins(name: str, values: list[float]) -> None:
    m = monoid(name)
    array = np.array(values, dtype=np.float64)
    want = getattr(np, name)(array)
    for order in (range(len(values)), reversed(range(len(values)))):
        running = tuple(np.full(1, c) for c in m.identity(array.dtype))
        for k in order:
            running = combine(m, running, (array[k : k + 1], np.array([k])))
        assert running[1][0] == want


def test_welford_gives_mean_and_variance() -> None:
    x = np.random.default_rng(1).standard_normal(1000) + 1e6
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    count, mean, m2 = reduce_last_axis(monoid("welford"), (ones, x, zeros))
    assert count == 1000
    np.testing.assert_allclose(mean, x.mean(), rtol=1e-12)
    np.testing.assert_allclose(m2 / count, x.var(), rtol=1e-9)


def test_empty_reduction_is_the_identity() -> None:
    for name, want in [("sum", 0.0), ("prod", 1.0), ("max", -np.inf), ("min", np.inf)]:
        assert reduce_last_axis(monoid(name), (np.zeros((2, 0)),))[0].tolist() == [want, want]
