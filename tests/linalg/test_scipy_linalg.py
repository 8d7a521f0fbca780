"""scipy.linalg and lax.linalg on traced values against SciPy, with derivatives and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import NonDifferentiableError, ShapeError
from stax.scipy import linalg as la
from stax.testing import check_grads

RNG = np.random.default_rng(17)
A = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
B = RNG.standard_normal((4, 3))
V = RNG.standard_normal(4)
P = A @ A.T
BANDS = RNG.standard_normal((4, 6)) + np.array([[0], [0], [5], [0]])
Y = RNG.standard_normal((6, 2))


def hermitian(a: Any) -> Any:
    return (a + snp.swapaxes(a, -1, -2)) / 2


Case = tuple[str, Callable[..., Any], Callable[..., Any] | None, tuple[Any, ...]]
CASES: list[Case] = [
    ("cholesky", lambda a: la.cholesky(hermitian(a)), lambda a: sl.cholesky(a), (P,)),
    ("cholesky_lower", lambda a: la.cholesky(hermitian(a), lower=True),
     lambda a: sl.cholesky(a, lower=True), (P,)),
    ("cho_solve", lambda a, b: la.cho_solve(la.cho_factor(hermitian(a)), b), np.linalg.solve,
     (P, B)),
    ("cho_solve_lower", lambda a, b: la.cho_solve(la.cho_factor(hermitian(a), True), b),
     np.linalg.solve, (P, V)),
    ("solve_pos", lambda a, b: la.solve(hermitian(a), b, assume_a="pos"), sl.solve, (P, B)),
    ("solve_sym", lambda a, b: la.solve(a, b, lower=True, assume_a="sym"),
     lambda a, b: sl.solve(np.tril(a) + np.tril(a, -1).T, b), (A, B)),
    ("solve", la.solve, sl.solve, (A, V)),
    ("lu", la.lu, sl.lu, (A,)),
    ("lu_tall", la.lu, sl.lu, (B,)),
    ("lu_wide", la.lu, sl.lu, (B.T,)),
    ("lu_permuted", lambda a: la.lu(a, permute_l=True), lambda a: sl.lu(a, True), (B,)),
    ("lu_factor", lambda a: la.lu_factor(a)[0], lambda a: sl.lu_factor(a)[0], (A,)),
    ("lu_wide_packed", lambda a: lax.linalg.lu(a)[0], lambda a: sl.lapack.dgetrf(a)[0], (B.T,)),
    *[
        (f"lu_solve_{t}", lambda a, b, t=t: la.lu_solve(la.lu_factor(a), b, t),
         lambda a, b, t=t: sl.lu_solve(sl.lu_factor(a), b, t), (A, b))
        for t, b in ((0, B), (1, V), (2, B))
    ],
    *[
        (f"triangular_{t}_{low}_{unit}",
         lambda a, b, t=t, low=low, unit=unit: la.solve_triangular(a, b, t, low, unit),
         lambda a, b, t=t, low=low, unit=unit: sl.solve_triangular(a, b, t, low, unit), (A, b))
        for t, low, unit, b in (
            (0, False, False, B), (0, True, True, V), ("T", False, True, V), (2, True, False, B),
        )
    ],
    ("right_side", lambda a, b: lax.linalg.triangular_solve(a, b, lower=True),
     lambda a, b: b @ np.linalg.inv(np.tril(a)), (A, B.T)),
    ("right_side_t", lambda a, b: lax.linalg.triangular_solve(a, b, transpose_a=True),
     lambda a, b: b @ np.linalg.inv(np.triu(a).T), (A, B.T)),
    ("qr", lambda a: la.qr(a, mode="economic"), lambda a: sl.qr(a, mode="economic"), (B,)),
    ("svd_values", lambda a: la.svd(a, compute_uv=False), sl.svdvals, (B,)),
    ("eigh", lambda a: la.eigh(hermitian(a))[0], sl.eigvalsh, (P,)),
    ("eigh_general", lambda a, b: la.eigh(hermitian(a), hermitian(b), eigvals_only=True),
     lambda a, b: sl.eigh(a, b, eigvals_only=True), (hermitian(A), P)),
    ("eigh_tridiagonal", lambda d, e: la.eigh_tridiagonal(d, e, eigvals_only=True),
     lambda d, e: sl.eigh_tridiagonal(d, e, eigvals_only=True), (V, V[:3])),
    ("polar", la.polar, sl.polar, (A,)),
    ("polar_left", lambda a: la.polar(a, "left"), lambda a: sl.polar(a, "left"), (A,)),
    ("expm", la.expm, sl.expm, (A,)),
    ("expm_frechet", la.expm_frechet, sl.expm_frechet, (A / 3, P / 9)),
    ("sqrtm", la.sqrtm, sl.sqrtm, (P,)),
    ("sylvester", la.solve_sylvester, sl.solve_sylvester, (A, P[:3, :3], B)),
    ("banded", lambda m, b: la.solve_banded((1, 2), m, b),
     lambda m, b: sl.solve_banded((1, 2), m, b), (BANDS, Y)),
    ("banded_vector", lambda m, b: la.solve_banded((2, 1), m, b),
     lambda m, b: sl.solve_banded((2, 1), m, b), (BANDS[[2, 1, 0, 3]] + [[0], [4], [0], [0]],
                                                  Y[:, 0])),
    ("tridiagonal", lambda x, d, y, b: lax.linalg.tridiagonal_solve(x, d + 5, y, b),
     lambda x, d, y, b: np.linalg.solve(
         np.diag(d + 5) + np.diag(x[1:], -1) + np.diag(y[:-1], 1), b),
     (V, V * 0.5, V[::-1].copy(), B)),
    ("block_diag", la.block_diag, sl.block_diag, (A, V, B)),
    ("toeplitz", la.toeplitz, sl.toeplitz, (V, V[:3])),
    ("toeplitz_one", lambda c: la.toeplitz(c), sl.toeplitz, (V,)),
    ("hankel", la.hankel, sl.hankel, (V, V[::-1].copy())),
    ("circulant", la.circulant, sl.circulant, (V,)),
    ("companion", la.companion, sl.companion, (V,)),
]  # fmt: skip
IDS = [c[0] for c in CASES]


def assert_close(got: Any, want: Any, tol: float = 1e-9) -> None:
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_values(case: Case) -> None:
    name, fun, plain, args = case
    want = plain(*args)
    assert_close(fun(*args), want)
    assert_close(stax.jit(fun)(*args), want)
    single = stax.jit(fun)(*(a.astype("f4") for a in args))
    for value in single if isinstance(single, tuple) else (single,):
        assert value.dtype == np.float32, name


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_derivatives(case: Case) -> None:
    _, fun, _, args = case
    check_grads(fun, args, order=2, atol=3e-5, rtol=3e-5)


@pytest.mark.parametrize("case", [c for c in CASES if "toep" not in c[0]], ids=lambda c: c[0])
def test_batches(case: Case) -> None:
    _, fun, _, args = case
    scales = (1.0, 1.2, 0.9)
    for axis in (0, 1):
        axes = tuple(min(axis, a.ndim) for a in args)
        stacks = [
            np.stack([a * k for k in scales], axis=d) for a, d in zip(args, axes, strict=True)
        ]
        got = stax.vmap(fun, axes)(*stacks)
        each = [fun(*(a * k for a in args)) for k in scales]
        if isinstance(got, tuple):
            for k, g in enumerate(got):
                np.testing.assert_allclose(g, np.stack([e[k] for e in each]), atol=1e-9)
        else:
            np.testing.assert_allclose(got, np.stack(each), atol=1e-9)


@pytest.mark.parametrize("name", ["cho_solve_lower", "lu", "lu_solve_2", "sylvester", "expm"])
def test_complex(name: str) -> None:
    _, fun, plain, args = next(c for c in CASES if c[0] == name)
    rng = np.random.default_rng(1)
    args = tuple(a + 0.2j * rng.standard_normal(a.shape) for a in args)
    if name.startswith("cho"):
        fun = lambda a, b: la.cho_solve(la.cho_factor(a @ snp.conj(a.T) + snp.eye(4)), b)
        plain = lambda a, b: np.linalg.solve(a @ a.conj().T + np.eye(4), b)
    assert_close(stax.jit(fun)(*args), plain(*args))
    check_grads(fun, args, order=1)


def test_lax_linalg_results() -> None:
    v, w = stax.jit(lax.linalg.eigh)(P)
    np.testing.assert_allclose(P @ v, v * w, atol=1e-9)
    w, left, right = stax.jit(lax.linalg.eig)(A)
    np.testing.assert_allclose(A @ right, right * w, atol=1e-9)
    np.testing.assert_allclose(left.conj().T @ A, w[:, None] * left.conj().T, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1)
    packed, pivots, order = stax.jit(lax.linalg.lu)(B)
    np.testing.assert_array_equal(lax.linalg.lu_pivots_to_permutation(pivots, 4), order)
    unit = np.tril(packed, -1)[:, :3] + np.eye(4, 3)
    np.testing.assert_allclose(unit @ np.triu(packed)[:3], B[order], atol=1e-12)
    np.testing.assert_allclose(lax.linalg.cholesky(P), np.linalg.cholesky(P))
    q, r = lax.linalg.qr(B)
    assert q.shape == (4, 4)
    np.testing.assert_allclose(q @ r, B, atol=1e-12)
    many = np.array([[1, 2, 2], [0, 3, 2]])
    got = lax.linalg.lu_pivots_to_permutation(many, 4)
    np.testing.assert_array_equal(got, [[1, 2, 0, 3], [0, 3, 2, 1]])


def test_schur_has_no_derivative() -> None:
    t, z = stax.jit(la.schur)(A)
    np.testing.assert_allclose(z @ t @ z.T, A, atol=1e-10)
    t, z = stax.jit(lambda a: la.schur(a, output="complex"))(A)
    np.testing.assert_allclose(z @ t @ z.conj().T, A, atol=1e-10)
    with pytest.raises(NonDifferentiableError):
        stax.grad(lambda a: snp.sum(la.schur(a)[0]))(A)


def test_refusals() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="complex"):
        la.sqrtm(np.diag([-1.0, 1.0]))
    np.testing.assert_allclose(la.sqrtm(np.diag([-1.0, 1.0]) + 0j), np.diag([1j, 1]), atol=1e-12)
    with pytest.raises(ShapeError, match="diagonals"):
        la.solve_banded((1, 1), np.ones((2, 4)), V)
    with pytest.raises(ShapeError, match="right-hand side"):
        la.solve_sylvester(A, A, B)
    assert np.isinf(la.solve_triangular(np.zeros((1, 1)), np.ones(1))).all()


def test_fixed_matrices_are_scipys() -> None:
    for name, args in (("hilbert", (3,)), ("dft", (4,)), ("pascal", (3,)), ("hadamard", (4,))):
        np.testing.assert_array_equal(getattr(la, name)(*args), getattr(sl, name)(*args))


def test_gaussian_process_likelihood() -> None:
    x = np.linspace(0, 1, 12)
    y = np.sin(6 * x)

    def loss(scale: Any) -> Any:
        k = snp.exp(-(((x[:, None] - x[None, :]) / scale) ** 2)) + 0.1 * snp.eye(12)
        factor = la.cho_factor(k, lower=True)
        logdet = 2 * snp.sum(snp.log(snp.diag(factor[0])))
        return y @ la.cho_solve(factor, y) + logdet

    check_grads(loss, (0.3,), order=2)
    np.testing.assert_allclose(stax.jit(stax.grad(loss))(0.3), stax.grad(loss)(0.3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_exponentials_are_compiled(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([0.0, 1e-9, 0.1, 1.0, 6.0, 12.0]).reshape(3, 2, 1, 1)
    a = (rng.standard_normal((3, 2, 4, 4)) * sizes).astype(dtype)
    if np.iscomplexobj(a):
        a = a * np.exp(1j)
    tol = 2e-4 if dtype == np.float32 else 1e-12
    exponentials = stax.jit(la.expm, strict=True)
    slopes = stax.jit(lambda x, e: stax.jvp(la.expm, (x,), (e,))[1], strict=True)
    for x in (a, a[2, 1], a[:, 0], a[0, 0, :1, :1]):
        want = sl.expm(x)
        assert exponentials(x).dtype == want.dtype
        scale = np.abs(want).max((-1, -2), keepdims=True)
        np.testing.assert_allclose(exponentials(x) / scale, want / scale, rtol=0, atol=tol)
    e = rng.standard_normal((4, 4)).astype(dtype)
    for x in (a[0, 1], a[1, 1], a[2, 0]):
        want = sl.expm_frechet(x, e, compute_expm=False)
        np.testing.assert_allclose(slopes(x, e), want, rtol=tol, atol=tol * np.abs(want).max())
    assert np.isnan(exponentials(np.full((2, 2), np.nan, dtype))).all()
    assert exponentials(np.zeros((2, 0, 0), dtype)).shape == (2, 0, 0)


def test_functions_of_matrices_when_traced() -> None:
    for function, want in ((np.exp, sl.expm(A)), (np.cos, sl.cosm(A))):
        found, error = stax.jit(lambda a, f=function: la.funm(a, f, disp=False))(A)
        np.testing.assert_allclose(found, want, atol=1e-9 * np.abs(want).max())
        np.testing.assert_allclose(error, sl.funm(A, function, disp=False)[1], rtol=1e-6)
    np.testing.assert_allclose(la.funm(A, np.exp), sl.expm(A))
    h, q = stax.jit(lambda a: la.hessenberg(a, calc_q=True))(A)
    np.testing.assert_allclose(q @ h @ q.T, A, atol=1e-12)
    for mode in ("full", "same", "valid"):
        for n in (2, 3, 6):
            matrix = stax.jit(lambda v, n=n, mode=mode: la.convolution_matrix(v, n, mode))(V)
            np.testing.assert_array_equal(matrix, sl.convolution_matrix(V, n, mode))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_second_derivative_of_det_at_every_rank(n: int) -> None:
    def exact(a: Any) -> Any:
        out = np.zeros((n,) * 4)
        for i, j, k, m in np.ndindex(*out.shape):
            if i != k and j != m:
                rest = np.delete(np.delete(a, [i, k], 0), [j, m], 1)
                sign = (-1) ** (i + j + k + m) * (1 if (i < k) == (j < m) else -1)
                out[i, j, k, m] = sign * np.linalg.det(rest)
        return out

    rng = np.random.default_rng(n)
    second = stax.jit(stax.hessian(np.linalg.det))
    for rank in range(n + 1):
        product = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
        for a in (product, np.diag([1.0 + k if k < rank else 0.0 for k in range(n)])):
            want = exact(a)
            np.testing.assert_allclose(second(a), want, atol=1e-13 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("kind", ["gen", "sym", "pos", "upper triangular"])
def test_solve_of_the_transpose(kind):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 4)) + 4 * np.eye(4)
    x = {"sym": x + x.T, "pos": x @ x.T, "upper triangular": np.triu(x)}.get(kind, x)
    b = rng.standard_normal((4, 2))
    got = stax.jit(lambda x: stax.scipy.linalg.solve(x, b, assume_a=kind, transposed=True))(x)
    np.testing.assert_allclose(x.T @ got, b, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_lu_gives_the_permutation_as_rows(shape):
    x = np.random.default_rng(4).standard_normal(shape)
    rows, lower, upper = stax.jit(lambda x: stax.scipy.linalg.lu(x, p_indices=True))(x)
    assert rows.dtype == np.int32
    np.testing.assert_allclose(lower[rows] @ upper, x)


def test_schur_without_vectors():
    both, alone = (lax.linalg.schur(A, compute_schur_vectors=vectors) for vectors in (True, False))
    assert len(both) == 2
    assert len(alone) == 1
    np.testing.assert_allclose(alone[0], both[0])
