"""S6.5: merge operations and their laws, and the rounding error of sums.

The split of a long reduction for devices with many cores (Algorithm 6.1) is shown at the level of
loops, where it is decided.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import stax
from stax.loops.buffers import BufferTable
from stax.loops.construct import pointwise, reduction
from stax.loops.evaluate import combine
from stax.loops.monoids import MONOIDS
from stax.loops.ops import ops
from stax.loops.split import DeviceProperties, segment_count, split_reduction
from stax.loops.tensors import BufferTensor
from tests.loops.programs import merged

REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "any": np.any,
    "all": np.all,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_s6_5a_each_reduction_is_a_buffer_of_its_monoid(name):
    x = np.random.default_rng(0).integers(0, 3, (6, 40)).astype(np.float64)
    f = stax.jit(lambda x: REDUCTIONS[name](x, axis=1))
    (buffer,) = [b for b in f.lower(x).buffers if b.kind == "reduction"]
    assert f"reduction {name} over [6]×[40]" in buffer.text
    found, wanted = f(x), REDUCTIONS[name](x, axis=1)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("name", "extreme"), [("argmax", np.inf), ("argmin", -np.inf)])
def test_s6_5a_the_smaller_index_wins_ties(name, extreme):
    rng = np.random.default_rng(1)
    for length in (1, 7, 64, 1000, 60_000):
        x = rng.integers(0, 3, (5, length)).astype(np.float32)
        f = stax.jit(lambda x: getattr(np, name)(x, axis=-1))
        np.testing.assert_array_equal(f(x), getattr(np, name)(x, axis=-1))
        # One row alone is reduced in blocks.
        assert f(x[0]) == getattr(np, name)(x[0])
        x[:, length // 2] = np.nan
        x[:, -1] = extreme
        np.testing.assert_array_equal(f(x), getattr(np, name)(x, axis=-1))


def elements(monoid, dtype):
    """Elements on which the merge is exact, so that its laws hold to the bit."""
    values = [0, 1, 1, 2, -2, 4] if dtype.kind != "b" else [False, True, True, False]
    wanted = monoid.component_dtypes(dtype)
    for k, value in enumerate(values):
        known = {"index": k, "count": 1, "mean": value, "m2": 0, "factor": 2 - k}
        parts = [known.get(c, value) for c in monoid.components]
        yield tuple(np.asarray(p, d) for p, d in zip(parts, wanted, strict=True))


@pytest.mark.parametrize("name", sorted(MONOIDS))
def test_s6_5a_associative_with_identity(name):
    monoid = MONOIDS[name]
    dtype = np.dtype({"any": "?", "all": "?", "xor": "i8"}.get(name, "f8"))
    identity = tuple(
        np.asarray(e, d)
        for e, d in zip(monoid.identity(dtype), monoid.component_dtypes(dtype), strict=True)
    )
    pool = list(elements(monoid, dtype))
    for a in pool:
        np.testing.assert_array_equal(combine(monoid, identity, a), a)
        np.testing.assert_array_equal(combine(monoid, a, identity), a)
    for a, b, c in itertools.product(pool, repeat=3):
        left = combine(monoid, combine(monoid, a, b), c)
        right = combine(monoid, a, combine(monoid, b, c))
        np.testing.assert_allclose(left, right, rtol=1e-14, atol=1e-15)


def test_s6_5a_welford_triples_give_mean_and_variance():
    monoid = MONOIDS["welford"]
    x = np.random.default_rng(2).standard_normal(33) + 1e6
    merged = tuple(np.asarray(v, np.float64) for v in (0, 0, 0))
    for value in x:
        merged = combine(monoid, merged, tuple(np.asarray(v, np.float64) for v in (1, value, 0)))
    count, mean, squares = merged
    assert count == 33
    np.testing.assert_allclose(mean, x.mean(), rtol=1e-14)
    np.testing.assert_allclose(squares / count, x.var(), rtol=1e-9)
    np.testing.assert_allclose(stax.jit(np.var)(x), x.var(), rtol=1e-9)


def test_s6_5b_a_long_row_is_split_in_two_levels():
    device = DeviceProperties(multiprocessors=132, warp=32, threads=2048)
    assert segment_count(16384, 64, device) == 2
    f32 = np.dtype(np.float32)
    table = BufferTable("cuda")
    x = BufferTensor(table.add_input("x", (64, 16384), f32))
    data = reduction(
        pointwise(lambda a: ops.mul(a, a), x, dtype=f32), (1,), MONOIDS["sum"], f32
    ).data
    partial, merge = split_reduction(data, 2)
    first = table.add_computed(partial)
    second = table.add_computed(merge(lambda n, index: first.load(index)))
    table.freeze()
    assert (first.ranges, first.reduction_ranges) == ((64, 2), (8192,))
    assert (second.ranges, second.reduction_ranges) == ((64,), (2,))
    assert [str(r) for r in first.reads] == ["x[16384*i0 + 8192*i1 + r0]"]
    body = merged(first.body)
    assert [str(r) for r in body.reads] == ["x[r0 + 8192*x0]"]


# ------------------------------------------------------------------------ S6.5c: summation error


def sequential(x):
    total = x.dtype.type(0)
    for value in x:
        total = x.dtype.type(total + value)
    return total


def adversarial(n):
    """Arrays on which adding in order loses much."""
    rng = np.random.default_rng(3)
    yield "a constant", np.full(n, 0.1, np.float32)
    yield "one, then crumbs", np.concatenate([[1], np.full(n - 1, 2.0**-25)]).astype(np.float32)
    yield "growing", np.geomspace(1e-6, 1e6, n).astype(np.float32)
    yield "shrinking", np.geomspace(1e6, 1e-6, n).astype(np.float32)
    yield "a large offset", (rng.standard_normal(n) + 1e4).astype(np.float32)
    yield "uniform", rng.uniform(0, 1, n).astype(np.float32)


@pytest.mark.parametrize("n", [1000, 65_536, 100_003])
def test_s6_5c_error_of_sums_is_within_the_bound_and_below_that_of_adding_in_order(n):
    """The scheme: at least four running sums (k segments), so the coefficient of the bound is at
    most n/4 + 4 roundings."""
    f = stax.jit(np.sum)
    unit = 2.0**-24
    for name, x in adversarial(n):
        exact = math.fsum(x.tolist())
        error = abs(float(f(x)) - exact)
        assert error <= (n / 4 + 4) * unit * math.fsum(np.abs(x).tolist()), name
        in_order = abs(float(sequential(x)) - exact)
        # Half a unit in the last place is the rounding of the result itself.
        assert error <= max(in_order, unit * abs(exact)), name


def test_s6_5c_sums_over_columns_too():
    x = np.full((20_000, 8), 0.1, np.float32)
    f = stax.jit(lambda x: x.sum(0))
    exact = math.fsum(x[:, 0].tolist())
    in_order = abs(float(sequential(x[:, 0])) - exact)
    error = np.abs(f(x).astype(np.float64) - exact).max()
    assert error <= in_order
    assert error <= (20_000 / 4 + 4) * 2.0**-24 * exact
