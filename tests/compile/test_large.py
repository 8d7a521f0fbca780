"""Arrays long enough for blocks, streams and threads: normalisations over random axes.

The random programs of `tests.programs` are tiny, so every loop of theirs runs the short way.
These chain elementwise work, reductions over random axes that are broadcast back, arg-extremes,
running sums and transposes over hundreds of thousands of elements.
"""

from __future__ import annotations

import numpy as np
import pytest

import stax
from tests.compile.levels import same_bits

SHAPES = [
    (70_001,),
    (300, 257),
    (3, 40_000),
    (40_000, 3),
    (17, 33, 129),
    (2, 9, 11, 301),
    (1, 65_537),
]


def large_program(seed, reduce_only=False):
    """A function of one array, and the array."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    axes_of = lambda: tuple(
        sorted(rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), replace=False).tolist())
    )
    steps = []
    for _ in range(int(rng.integers(2, 6))):
        axes = axes_of()
        steps.append(
            [
                lambda v, a=axes: v - v.mean(a, keepdims=True),
                lambda v, a=axes: v - v.max(a, keepdims=True),
                lambda v, a=axes: np.tanh(v) + v.min(a, keepdims=True),
                lambda v, a=axes: v / (1 + np.sqrt((v * v).mean(a, keepdims=True))),
                lambda v, a=axes: np.sin(v) * v.std(a, keepdims=True),
                lambda v, a=axes: np.exp(v - v.max(a, keepdims=True)),
                lambda v, a=axes: v + np.cumsum(v, a[0]) / v.shape[a[0]],
                lambda v, a=axes: v[tuple(slice(None, None, -1) for _ in a)] * 0.5 + v,
            ][int(rng.integers(8))]
        )
    last = axes_of()
    axis = last[0]

    def f(x):
        v = x
        for step in steps:
            v = step(v)
        found = [v.sum(last), v.max(last), v.argmax(axis), v.argmin(axis), v.mean()]
        if not reduce_only:
            found += [v.T * 2, np.cumsum(v, axis)[..., -1], (v > 0).any(last), v.argmax()]
        return found

    return f, rng.standard_normal(shape)


@pytest.mark.parametrize("seed", range(14))
def test_large_arrays(seed):
    f, x = large_program(seed)
    for found, wanted in zip(stax.jit(f)(x), f(x), strict=True):
        assert (found.shape, found.dtype) == (np.shape(wanted), wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.size(x) ** 0.5)


@pytest.mark.parametrize("seed", range(14, 22))
def test_gradients_of_large_arrays(seed):
    f, x = large_program(seed, reduce_only=True)

    def loss(x):
        total, top, _, _, mean = f(x)
        return (total * total).mean() / x.size + top.mean() + mean

    found, wanted = stax.jit(stax.grad(loss))(x), stax.grad(loss)(x)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize("seed", range(22, 26))
def test_the_number_of_threads_changes_no_bit(seed):
    f, x = large_program(seed)
    program = stax.jit(f).lower(x).compile().program
    results = []
    for threads in (1, 2, 4):
        program.context.threads = threads
        results.append(program.run([x]))
    for found in results[1:]:
        assert all(map(same_bits, found, results[0]))


@pytest.mark.parametrize("shape", [(10_000_000,), (1_000_000, 10)])
def test_sums_of_many_numbers_lose_no_more_than_numpys(shape):
    x = np.random.default_rng(0).random(shape, np.float32)
    exact = x.sum(axis=0, dtype=np.float64)
    got = stax.jit(lambda v: v.sum(axis=0))(x)
    assert np.max(np.abs(got / exact - 1)) < 8 * np.finfo(np.float32).eps
