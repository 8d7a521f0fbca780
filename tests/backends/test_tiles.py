"""Kernels that read across their rows, in tiles, whatever loops the elements of a tile take."""

import re

import numpy as np
import pytest

import stax
import stax.numpy as snp


def _stencils(x, y):
    for _ in range(4):
        p = snp.pad(x, ((1, 1), (0, 0)))
        x = x + 0.1 * (p[2:] + p[:-2] - 2 * x) + y.T * 0.01
    return x


PROGRAMS = {
    "plain": lambda x, y: x * 2 + y.T,
    "long functions": lambda x, y: np.tanh(x) * np.sin(y.T) + np.exp(np.cos(x * y.T)),
    "divisions by one value": lambda x, y: x / snp.sum(x * x, axis=1, keepdims=True) + y.T,
    "division by a scalar": lambda x, y: x / (abs(y[0, 0]) + 3) + y.T,
    "two results": lambda x, y: (np.sin(x) * np.exp(np.cos(x)) + y.T, np.sin(y.T) * np.exp(x)),
    "more axes": lambda x, y: (x[None] * np.arange(2)[:, None, None] + y.T) * np.sin(x) * np.exp(x),
    "addresses from data": lambda x, y: (
        x[:, snp.asarray(np.arange(x.shape[1]))[::-1]] * np.sin(x) * np.exp(x) + y.T
    ),
    "stencils": _stencils,
}


@pytest.mark.parametrize("shape", [(64, 64), (64, 65), (130, 200)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_read_across_the_rows_meets_its_own_element(name, shape):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(shape), rng.standard_normal(shape[::-1])
    got = stax.tree.leaves(stax.jit(PROGRAMS[name])(x, y))
    expected = stax.tree.leaves(PROGRAMS[name](x, y))
    for mine, numpys in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, numpys, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1024, 1000])
def test_large_tiles_fetch_the_next_one(n):
    x, y = np.random.default_rng(n).standard_normal((2, n, n)).astype(np.float32)
    f = stax.jit(lambda x, y: x.T + y)
    fetched = re.findall(
        r"__builtin_prefetch\((p\d) .*?\+ 64\).*?(, 1)?\);", f.lower(x, y).as_text("source")
    )
    assert len(set(fetched)) == 2  # what lies along the rows: one argument and the result
    assert np.array_equal(f(x, y), x.T + y)
    small = f.lower(x[:64, :64].copy(), y[:64, :64].copy())
    assert "prefetch" not in small.as_text("source")


def test_the_gradient_of_an_extreme_beside_a_transpose():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 64, 65)), rng.standard_normal((65, 64))

    def loss(x):
        across = snp.sum(snp.min(x.transpose(0, 2, 1), axis=0) * w)
        return across + snp.sum(np.sin(x)) + snp.sum(snp.max(np.sin(x[1:]), axis=1))

    np.testing.assert_allclose(stax.jit(stax.grad(loss))(x), stax.grad(loss)(x), rtol=1e-12)


def distances(a, b):
    """The sum of the distances to all points of `b`, in each of two norms, and the least."""
    d = a[:, None, :] - b[None, :, :]
    largest = np.maximum(np.abs(d[..., 0]), np.abs(d[..., 1]))
    return (d[..., 0] ** 2 + d[..., 1] ** 2).sum(1), largest.sum(1), largest.min(1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("rows", [5, 40])
@pytest.mark.parametrize("step", [1, -2])
def test_columns_that_every_row_reads_are_gathered_once(dtype, rows, step):
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-3, 4, (n, 2)).astype(dtype) for n in (rows, 600))
    f = stax.jit(lambda a, b: distances(a, b[::step]))
    gathered = re.findall(r" (column\d+)\[\d+\] __", f.lower(a, b).as_text("source"))
    assert len(gathered) == (2 if rows > 8 else 0)
    wanted = distances(a.astype(np.float64), b[::step])
    for found, exact in zip(f(a, b), wanted, strict=True):
        np.testing.assert_array_equal(found, exact.astype(dtype))


def test_columns_too_long_for_the_cache_are_read_where_they_lie():
    a, b = np.ones((20, 2)), np.ones((5000, 2))
    assert "column" not in stax.jit(distances).lower(a, b).as_text("source")


def test_an_element_read_with_and_without_a_condition():
    """What is gathered is the element; the other read is zero where the condition fails."""
    rng = np.random.default_rng(3)
    x, b = rng.standard_normal((40, 200)), rng.standard_normal((200, 2))

    def f(x, b):
        padded = np.concatenate([b[:150, 0], np.zeros(50)])
        return (x * b[:, 0] + padded).sum(1)

    np.testing.assert_allclose(stax.jit(f)(x, b), f(x, b), rtol=1e-12)
