"""Functions with a given size: eager and compiled, against the numbers of JAX."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import stax
import stax.numpy as snp

M = np.array([[0, 3, 0], [4, 0, 5]])
V = np.array([3, 1, 3, 2])
W = np.array([1, 9, 2])

CASES = {
    "nonzero": (lambda m: snp.nonzero(m, size=5), [[0, 1, 1, 0, 0], [1, 0, 2, 0, 0]]),
    "nonzero_cut": (lambda m: snp.nonzero(m, size=2, fill_value=-1), [[0, 1], [1, 0]]),
    "flatnonzero": (lambda m: snp.flatnonzero(m, size=4, fill_value=7), [1, 3, 5, 7]),
    "argwhere": (
        lambda m: snp.argwhere(m, size=4, fill_value=(8, 9)),
        [[0, 1], [1, 0], [1, 2], [8, 9]],
    ),
    "where": (lambda m: snp.where(m, size=4), [[0, 1, 1, 0], [1, 0, 2, 0]]),
    "compress": (
        lambda m: snp.compress(np.array([True, False, True]), m, 1, size=3, fill_value=-7),
        [[0, 0, -7], [4, 5, -7]],
    ),
    "extract": (lambda m: snp.extract(m > 3, m, size=3), [4, 5, 0]),
    "union1d": (lambda m: snp.union1d(m, V, size=9), [0, 1, 2, 3, 4, 5, 0, 0, 0]),
    "intersect1d": (lambda m: snp.intersect1d(m, V, size=3), [3, 3, 3]),
    "setdiff1d": (lambda m: snp.setdiff1d(m, V, size=5), [0, 4, 5, 0, 0]),
    "setxor1d": (lambda m: snp.setxor1d(m, V, size=7, fill_value=-1), [0, 1, 2, 4, 5, -1, -1]),
    "unique_counts": (lambda m: snp.unique_counts(m, size=5), [[0, 3, 4, 5, 0], [3, 1, 1, 1, 0]]),
    "bincount": (lambda m: snp.bincount(m.ravel(), length=4), [3, 0, 0, 1]),
    "repeat": (
        lambda m: snp.repeat(W, m[1], total_repeat_length=11),
        [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2],
    ),
    "take_fill": (
        lambda m: snp.take(W, m, mode="fill", fill_value=-1),
        [[1, -1, 1], [-1, 1, -1]],
    ),
    "take_along_fill": (
        lambda m: snp.take_along_axis(m, m, 1, mode="fill", fill_value=-2),
        [[0, -2, 0], [-2, 4, -2]],
    ),
    "put": (lambda m: snp.put(m, np.array([0, 1]), 9, inplace=False), [[9, 9, 0], [4, 0, 5]]),
    "fill_diagonal": (lambda m: snp.fill_diagonal(m, 5, inplace=False), [[5, 3, 0], [4, 5, 5]]),
    "put_along_axis": (
        lambda m: snp.put_along_axis(m, np.array([[0], [1]]), 77, 1, inplace=False),
        [[77, 3, 0], [4, 77, 5]],
    ),
    "drop": (lambda m: m.at[5, 0].set(1, mode="drop").at[1, 3].set(1, mode="drop"), M.tolist()),
    "drop_row": (
        lambda m: snp.zeros(4, int).at[snp.arange(6) + 2].set(7, mode="drop"),
        [0, 0, 7, 7],
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CASES)
def test_a_given_size(name, wrap):
    f, expected = CASES[name]
    found = wrap(f)(M.copy())
    rows = [np.asarray(v).tolist() for v in found] if isinstance(found, tuple) else found.tolist()
    assert rows == expected


def test_numpy_is_untouched_without_a_size():
    np.testing.assert_array_equal(snp.nonzero(M), np.nonzero(M))
    np.testing.assert_array_equal(snp.where(M > 1), np.where(M > 1))
    x = M.copy()
    assert snp.put(x, [0], 5) is None
    assert x[0, 0] == 5
    with pytest.raises(ValueError, match="either both or neither"):
        snp.where(M > 1, M)


@pytest.mark.parametrize("empty", [V[:0], V])
def test_sets_without_members_are_filled_with_zeros(empty):
    for form in (snp.setdiff1d, snp.setxor1d):
        both = partial(form, size=3)
        np.testing.assert_array_equal(both(empty, empty), [0, 0, 0])
        np.testing.assert_array_equal(stax.jit(both)(empty, empty), [0, 0, 0])
    apart = stax.jit(partial(snp.intersect1d, size=2))
    np.testing.assert_array_equal(apart(empty, V + 100), [0, 0])
    np.testing.assert_array_equal(snp.setdiff1d(V + 100, V, size=9)[len(np.unique(V)) :], 0)
