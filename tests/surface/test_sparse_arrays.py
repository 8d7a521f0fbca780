"""Sparse arrays against dense ones, on random places, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import stax
import stax.numpy as snp
from stax.errors import ConcretizationError, DtypeError, ShapeError
from stax.experimental import sparse
from stax.experimental.sparse import BCOO
from stax.testing import check_grads


def made(seed: int, nse: int = 7, shape: tuple[int, ...] = (4, 5)) -> BCOO:
    """Random places, with duplicates and some outside."""
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.integers(0, n + 1, nse) for n in shape], 1)
    return BCOO((rng.normal(size=nse), indices), shape=shape)


@pytest.mark.parametrize("seed", range(3))
def test_operations_agree_with_dense_ones(seed: int) -> None:
    a, b = made(seed), made(seed + 10)
    x, y = a.todense(), b.todense()
    rng = np.random.default_rng(seed)
    v, w, matrix = rng.normal(size=5), rng.normal(size=4), rng.normal(size=(5, 3))

    def every(a: BCOO, b: BCOO, v: Any, w: Any, matrix: Any) -> list[Any]:
        return [
            a @ v, w @ a, a @ matrix, matrix.T @ a.T, a.sum(), (a @ b.T).todense(),
            *(
                m.todense()
                for m in (
                    a.T, a + b, a - b, 2 * a, -a, abs(a), a * b, a * y, a.sum(0), a.sum(1),
                    a.reshape(2, -1), a[1], a[1:3, 2:], a[-1, 2], a.sort_indices(),
                    a.sum_duplicates(nse=7), a.sum_duplicates(nse=7, remove_zeros=False),
                )
            ),
        ]  # fmt: skip

    wanted = [
        x @ v, w @ x, x @ matrix, matrix.T @ x.T, x.sum(), x @ y.T,
        x.T, x + y, x - y, 2 * x, -x, abs(x), x * y, x * y, x.sum(0), x.sum(1),
        x.reshape(2, -1), x[1], x[1:3, 2:], x[-1, 2], x, x, x,
    ]  # fmt: skip
    args = (a, b, v, w, matrix)
    for found in (every(*args), stax.jit(every)(*args)):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)
    one = stax.tree.map(lambda leaf: np.stack([leaf, leaf]), (a, v))
    batch = stax.vmap(lambda a, v: a @ v)(*one)
    np.testing.assert_allclose(batch, np.stack([x @ v, x @ v]))


def test_places_become_unique() -> None:
    a = made(3)
    b = a.sum_duplicates()
    assert b.unique_indices
    assert b.nse == np.count_nonzero(a.todense())
    flat = b.indices[:, 0] * 5 + b.indices[:, 1]
    assert (np.diff(flat) > 0).all()
    np.testing.assert_allclose(b.todense(), a.todense())
    full = stax.jit(lambda a: a.sum_duplicates(nse=3))(a)  # room for three: the first ones
    np.testing.assert_allclose(full.data, b.data[:3])


def test_derivatives() -> None:
    a = made(5)

    def f(data: Any, v: Any) -> Any:
        m = BCOO((data, a.indices), shape=a.shape)
        return snp.sum(snp.tanh(m @ v)) + (m @ m.T).sum() + (v @ m.T).sum()

    check_grads(f, (a.data, np.arange(5.0) / 3), order=2)
    dense = a.todense()
    full = np.arange(1.0, 7.0).reshape(2, 3)
    check_grads(lambda x: (BCOO.fromdense(x, nse=6) @ np.arange(3.0)) ** 2, (full,), order=2)
    slope = sparse.grad(lambda m: snp.sum((m @ np.arange(5.0)) ** 2))(a)
    whole = stax.grad(lambda x: snp.sum((x @ np.arange(5.0)) ** 2))(dense)
    inside = (a.indices < np.array([4, 5])).all(1)
    at = tuple(a.indices[inside].T)
    np.testing.assert_allclose(slope.data[inside], whole[at])
    np.testing.assert_array_equal(slope.data[~inside], 0)
    value, (first, second) = sparse.value_and_grad(lambda m, v: (m @ v).sum(), (0, 1))(
        a, np.ones(5)
    )
    np.testing.assert_allclose(value, dense.sum())
    np.testing.assert_allclose(second, dense.sum(0))
    assert isinstance(first, BCOO)


def test_matrices_of_scipy() -> None:
    matrix = scipy.sparse.random(6, 4, 0.4, random_state=0)
    np.testing.assert_allclose(BCOO.from_scipy_sparse(matrix).todense(), matrix.toarray())
    some = sparse.random_bcoo(stax.random.key(0), (5, 6), nse=0.3)
    assert some.nse == 9
    assert np.count_nonzero(some.todense()) == 9


def test_products_stay_in_c() -> None:
    a = made(1)
    step = stax.jit(sparse.grad(lambda m, v: snp.sum((m @ v) ** 2)), strict=True)
    assert step(a, np.ones(5)).nse == 7


def test_refusals() -> None:
    a = made(2)
    with pytest.raises(ConcretizationError, match="nse="):
        stax.jit(BCOO.fromdense)(np.eye(2))
    with pytest.raises(ConcretizationError, match="nse="):
        stax.jit(lambda a: a.sum_duplicates())(a)
    with pytest.raises(ShapeError, match=r"\(4, 5\) and \(4,\)"):
        a @ np.ones(4)
    with pytest.raises(ShapeError, match="todense"):
        a + 1
    with pytest.raises(ShapeError, match="do not make a sparse array"):
        BCOO((np.ones(2), np.ones((3, 1), int)), shape=(3,))
    with pytest.raises(ShapeError, match="vmap"):
        BCOO.fromdense(np.eye(2), n_batch=1)
    with pytest.raises(DtypeError, match="todense"):
        np.asarray(a)
    v = np.ones(a.shape)
    for call in (lambda: np.sin(a), lambda: snp.exp(a), lambda: np.add.reduce(a), lambda: v == a):
        with pytest.raises(DtypeError, match=r"todense\(\), or where it keeps zeros"):
            call()
    with pytest.raises(ShapeError, match="step 1"):
        a[::2]


def test_functions_that_operators_stand_for() -> None:
    a, d = made(1), np.arange(20.0).reshape(4, 5)
    whole = a.todense()
    np.testing.assert_array_equal(np.add(d, a), d + whole)
    np.testing.assert_array_equal(np.subtract(a, d), whole - d)
    np.testing.assert_array_equal(np.subtract(d, a), d - whole)
    np.testing.assert_array_equal(np.multiply(np.float64(2), a).todense(), 2 * whole)
    np.testing.assert_array_equal(np.negative(a).todense(), -whole)
    np.testing.assert_array_equal(np.absolute(a).todense(), abs(whole))
    np.testing.assert_array_equal(np.divide(a, 2).todense(), whole / 2)
    np.testing.assert_allclose(np.matmul(np.ones(4), a), np.ones(4) @ whole)
    np.testing.assert_allclose(stax.jit(lambda v: v @ a)(np.ones(4)), np.ones(4) @ whole)
    assert np.sum(a) == pytest.approx(whole.sum())
    into = d.copy()
    into += a
    np.testing.assert_array_equal(into, d + whole)
