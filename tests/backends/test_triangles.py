"""Rows masked from a place on that depends on the row: two loops, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp

MASKS = {
    "i >= j": lambda i, j: i >= j,
    "i > j": lambda i, j: i > j,
    "j <= i": lambda i, j: j <= i,
    "j < i": lambda i, j: j < i,
    "j - 7 <= i": lambda i, j: j - 7 <= i,
    "i + 90 > j": lambda i, j: i + 90 > j,
    "i - 40 >= j": lambda i, j: i - 40 >= j,
    "not j > i": lambda i, j: ~(j > i),
}


def masked(mask, fill):
    def f(x):
        i, j = (snp.arange(n) for n in x.shape)
        s = snp.where(mask(i[:, None], j[None, :]), x * 3, fill)
        e = snp.exp(s - s.max(1, keepdims=True))
        return s.max(1), e.sum(1), e / e.sum(1, keepdims=True)

    return f


def by_table(mask, fill):
    """The same with the mask as data, which nothing is known of."""

    def f(x, table):
        s = snp.where(table, x * 3, fill)
        e = snp.exp(s - s.max(1, keepdims=True))
        return s.max(1), e.sum(1), e / e.sum(1, keepdims=True)

    def with_table(x):
        i, j = (np.arange(n) for n in x.shape)
        return stax.jit(f)(x, mask(i[:, None], j[None, :]))

    return with_table


@pytest.mark.parametrize("name", MASKS)
def test_two_loops_have_the_bits_of_one(name):
    even = list(MASKS).index(name) % 2
    shape, fill = ((150, 200), np.float32(-np.inf)) if even else ((100, 256), np.float32(-1.5))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[3, 1], x[5, 150], x[60, 2] = np.nan, np.nan, np.inf
    f = stax.jit(masked(MASKS[name], fill))
    assert "cut" in f.lower(x).as_text("source")
    for found, wanted in zip(f(x), by_table(MASKS[name], fill)(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["i >= j", "i - 40 >= j"])
def test_scores_behind_a_causal_mask_are_not_computed(name):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, 300, 16)).astype(np.float32) for _ in range(3))
    i = np.arange(300)
    table = MASKS[name](i[:, None], i[None, :])

    def attention(q, k, v, mask):
        s = snp.where(mask, q @ snp.swapaxes(k, 1, 2), -1e9)
        e = snp.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ v

    def causal(q, k, v):
        i = snp.arange(300)
        return attention(q, k, v, MASKS[name](i[:, None], i[None, :]))

    def loss(f):
        return stax.jit(stax.value_and_grad(lambda *args: snp.sum(snp.sin(f(*args))), (0, 1, 2)))

    f = stax.jit(causal)
    assert "multiply(rows, upto" in f.lower(q, k, v).as_text("source")
    assert f(q, k, v).tobytes() == stax.jit(attention)(q, k, v, table).tobytes()
    if name != "i >= j":
        return
    found = loss(causal)(q, k, v)
    wanted = loss(lambda q, k, v: attention(q, k, v, table))(q, k, v)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_mask_by_one_of_two_loops_over_the_rows_of_a_block():
    """The last row of a block is not the one that reads furthest."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, n, 16)).astype(np.float32) for n in (240, 256, 256))

    def attention(q, k, v, mask):
        s = (q @ snp.swapaxes(k, 1, 2)).reshape(2, 6, 40, 256)
        s = snp.where(mask, s, -np.inf)
        e = snp.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).reshape(2, 240, 256) @ v

    def causal(q, k, v):
        return attention(q, k, v, 6 * snp.arange(40)[:, None] >= snp.arange(256)[None, :])

    table = 6 * np.arange(40)[:, None] >= np.arange(256)[None, :]
    f = stax.jit(causal)
    assert "multiply(" in f.lower(q, k, v).as_text("source")
    assert f(q, k, v).tobytes() == stax.jit(attention)(q, k, v, table).tobytes()


def test_sums_of_a_triangle():
    x = np.random.default_rng(1).standard_normal((130, 300))
    f = stax.jit(lambda x: (snp.exp(snp.tril(x)).sum(1), (snp.tril(x, -3) * x).sum()))
    assert "cut" in f.lower(x).as_text("source")
    rows, total = f(x)
    np.testing.assert_allclose(rows, np.exp(np.tril(x)).sum(1), rtol=1e-14)
    np.testing.assert_allclose(total, (np.tril(x, -3) * x).sum(), rtol=1e-12)


def test_a_mask_of_the_beginning_and_one_that_ends_are_left_alone():
    x = np.ones((80, 200))

    def f(x):
        i, j = snp.arange(80)[:, None], snp.arange(200)[None, :]
        return snp.where(i == j, snp.exp(x), 0.0).sum(1), snp.exp(x - i).max(1)

    assert "cut" not in stax.jit(f).lower(x).as_text("source")
    np.testing.assert_allclose(stax.jit(f)(x)[0], np.e)
