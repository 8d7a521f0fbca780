"""numpy.linalg on traced values: values against NumPy, derivatives to order 2, batches, jit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import DtypeError, ShapeError
from stax.pytree import tree_flatten, tree_map
from stax.testing import check_grads

la = snp.linalg
RNG = np.random.default_rng(7)


def square(n: int = 4) -> Any:
    """A well-conditioned matrix."""
    return RNG.standard_normal((n, n)) + 3 * np.eye(n)


def positive(n: int = 4) -> Any:
    """A positive definite matrix with separate eigenvalues."""
    q = np.linalg.qr(RNG.standard_normal((n, n)))[0]
    return (q * np.arange(1.0, n + 1)) @ q.T


def tall() -> Any:
    return RNG.standard_normal((5, 3))


def wide() -> Any:
    return RNG.standard_normal((3, 5))


def hermitian(a: Any) -> Any:
    return (a + snp.conj(snp.swapaxes(a, -1, -2))) / 2


@dataclass(frozen=True)
class Sample:
    """A function of matrices and what to call it with; `plain` is NumPy's version of it."""

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    order: int = 2
    complex: bool = True


SAMPLES = [
    Sample("cholesky", lambda a: la.cholesky(hermitian(a)), (positive(),)),
    Sample("cholesky_upper", lambda a: la.cholesky(hermitian(a), upper=True), (positive(),)),
    Sample("qr_tall", la.qr, (tall(),)),
    Sample("qr_square", la.qr, (square(),)),
    Sample("qr_wide", la.qr, (wide(),)),
    Sample("qr_complete", lambda a: la.qr(a, mode="complete")[1], (tall(),)),
    Sample("qr_r", lambda a: la.qr(a, mode="r"), (tall(),)),
    Sample("svd_tall", lambda a: la.svd(a, full_matrices=False), (tall(),), complex=False),
    Sample("svd_wide", lambda a: la.svd(a, full_matrices=False), (wide(),), complex=False),
    Sample("svd_values", lambda a: la.svd(a, compute_uv=False), (wide(),)),
    Sample("svdvals", la.svdvals, (tall(),)),
    Sample("svd_hermitian", lambda a: la.svd(hermitian(a), hermitian=True)[1], (positive(),)),
    Sample("eigh", lambda a: la.eigh(hermitian(a)), (positive(),), complex=False),
    Sample("eigh_upper", lambda a: la.eigh(hermitian(a), "U")[0], (positive(),)),
    Sample("eigvalsh", lambda a: la.eigvalsh(hermitian(a)), (positive(),)),
    Sample("solve", la.solve, (square(), RNG.standard_normal((4, 2)))),
    Sample("solve_vector", la.solve, (square(), RNG.standard_normal(4))),
    Sample("inv", la.inv, (square(),)),
    Sample("det", la.det, (square(),)),
    Sample("slogdet", lambda a: la.slogdet(a)[1], (square(),)),
    Sample("slogdet_sign", la.slogdet, (square(),)),
    Sample("pinv_tall", la.pinv, (tall(),)),
    Sample("pinv_wide", la.pinv, (wide(),)),
    Sample("lstsq", lambda a, b: la.lstsq(a, b)[0], (tall(), RNG.standard_normal(5))),
    Sample("power_3", lambda a: la.matrix_power(a, 3), (square(3),)),
    Sample("power_5", lambda a: la.matrix_power(a, 5), (square(3),)),
    Sample("power_neg", lambda a: la.matrix_power(a, -2), (square(3),)),
    Sample("power_0", lambda a: la.matrix_power(a, 0) + a, (square(3),)),
    Sample("norm", la.norm, (wide(),)),
    Sample("norm_vector_3", lambda x: la.norm(x, 3), (RNG.standard_normal(5),)),
    Sample("norm_vector_neg", lambda x: la.norm(x, -2), (RNG.standard_normal(5),)),
    Sample("norm_vector_half", lambda x: la.norm(x, 0.5), (RNG.standard_normal(5),)),
    Sample("norm_inf", lambda x: la.norm(x, np.inf, axis=1), (wide(),)),
    Sample("norm_least", lambda x: la.norm(x, -np.inf, axis=1), (wide(),)),
    Sample("norm_1", lambda x: la.norm(x, 1, axis=0, keepdims=True), (wide(),)),
    Sample("matrix_1", lambda x: la.norm(x, 1), (wide(),)),
    Sample("matrix_-1", lambda x: la.norm(x, -1), (wide(),)),
    Sample("matrix_2", lambda x: la.norm(x, 2), (wide(),)),
    Sample("matrix_-2", lambda x: la.norm(x, -2, keepdims=True), (wide(),)),
    Sample("matrix_inf", lambda x: la.norm(x, np.inf), (wide(),)),
    Sample("matrix_nuc", lambda x: la.norm(x, "nuc"), (wide(),)),
    Sample("matrix_fro", lambda x: la.matrix_norm(x), (wide(),)),
    Sample("vector_norm", lambda x: la.vector_norm(x, ord=4), (wide(),)),
    Sample("cond", la.cond, (square(3),)),
    Sample("cond_1", lambda x: la.cond(x, 1), (square(3),)),
    Sample("cond_fro", lambda x: la.cond(x, "fro"), (square(3),)),
    Sample("multi_dot", lambda a, b, c: la.multi_dot([a, b, c]), (wide(), tall(), wide())),
    Sample("tensorinv", lambda a: la.tensorinv(a, 2), (square(6).reshape(2, 3, 6),)),
    Sample(
        "tensorsolve", la.tensorsolve, (square(6).reshape(2, 3, 6), RNG.standard_normal((2, 3)))
    ),
    Sample("cross", la.cross, (RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3)))),
    Sample("vecdot", la.vecdot, (wide(), wide())),
    Sample("outer", la.outer, (RNG.standard_normal(3), RNG.standard_normal(2))),
    Sample("trace", lambda a: la.trace(a, offset=1), (wide(),)),
    Sample("diagonal", lambda a: la.diagonal(a, offset=-1), (square(),)),
    Sample("transpose", la.matrix_transpose, (wide(),)),
]
IDS = [s.name for s in SAMPLES]


def assert_same(got: Any, want: Any, tol: float = 1e-10) -> None:
    gots, wants = tree_flatten((got,))[0], tree_flatten((want,))[0]
    assert len(gots) == len(wants)
    for g, w in zip(gots, wants, strict=True):
        assert np.asarray(g).dtype == np.asarray(w).dtype
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)


def complex_args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    return tuple(a + 0.3j * rng.standard_normal(a.shape) for a in args)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_jitted_equals_numpy(sample: Sample) -> None:
    for dtype in ("f4", "f8"):
        args = tuple(a.astype(dtype) for a in sample.args)
        want = sample.fun(*args)  # NumPy itself: nothing is traced
        assert_same(stax.jit(sample.fun)(*args), want, 2e-4 if dtype == "f4" else 1e-10)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_derivatives(sample: Sample) -> None:
    check_grads(sample.fun, sample.args, order=sample.order, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.complex], ids=lambda s: s.name)
def test_complex(sample: Sample) -> None:
    args = complex_args(sample.args)
    assert_same(stax.jit(sample.fun)(*args), sample.fun(*args))
    check_grads(sample.fun, args, order=1, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_batches(sample: Sample) -> None:
    for axis in (0, 1):
        stacks = tuple(np.stack([a, a * 1.1, a * 0.9], axis=min(axis, a.ndim)) for a in sample.args)
        axes = tuple(min(axis, a.ndim) for a in sample.args)
        got = stax.vmap(sample.fun, in_axes=axes)(*stacks)
        each = [sample.fun(*(a * k for a in sample.args)) for k in (1, 1.1, 0.9)]
        want = tree_map(lambda *v: np.stack(v), *[_plain(e) for e in each])
        assert_same(_plain(got), want)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def test_plain_numpy_names_reach_traced_versions() -> None:
    a = positive()
    got = stax.grad(lambda x: np.linalg.slogdet(x)[1])(a)
    np.testing.assert_allclose(got, np.linalg.inv(a).T)
    got = stax.grad(lambda x: np.linalg.norm(x))(a)
    np.testing.assert_allclose(got, a / np.linalg.norm(a))


def test_matrices_of_a_stack_are_independent() -> None:
    a = np.stack([positive(), positive(), positive()])
    for fun in (la.cholesky, la.inv, la.det, la.eigvalsh, la.svdvals):
        assert_same(stax.jit(fun)(a), np.stack([fun(x) for x in a]))


def test_zero_norm_has_zero_derivative() -> None:
    for order in (None, 1, 2, 3, 0.5, np.inf):
        got = stax.grad(lambda x, p=order: la.norm(x, p))(np.zeros(3))
        np.testing.assert_array_equal(got, np.zeros(3))
    hessian = stax.hessian(lambda x: la.norm(x))(np.zeros(3))
    np.testing.assert_array_equal(hessian, np.zeros((3, 3)))


def test_determinant_of_singular_matrices() -> None:
    a = RNG.standard_normal((4, 4))
    a[3] = a[0] + a[1]
    cofactors = np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(4)]
            for i in range(4)
        ]
    )
    np.testing.assert_allclose(stax.grad(la.det)(a), cofactors, atol=1e-10)
    np.testing.assert_array_equal(stax.grad(la.det)(np.zeros((3, 3))), np.zeros((3, 3)))
    hessian = stax.hessian(la.det)(np.zeros((2, 2)))
    np.testing.assert_allclose(hessian[0, 0], [[0, 0], [0, 1]], atol=1e-12)


def test_equal_eigenvalues_give_finite_gradients() -> None:
    got = stax.grad(lambda a: snp.sum(la.eigh(a)[0] ** 2))(np.eye(3))
    np.testing.assert_allclose(got, 2 * np.eye(3))

    def log_of(a: Any) -> Any:
        w, v = la.eigh(a)
        return snp.sum((v * snp.log(w)) @ v.T)

    assert np.all(np.isfinite(stax.grad(log_of)(2 * np.eye(3))))
    assert np.all(np.isfinite(stax.grad(lambda a: la.norm(a, "nuc"))(np.eye(3))))


def test_eig_forward_and_backward() -> None:
    a = np.array([[1.0, 2.0, 0.5], [-3.0, 1.0, 0.2], [0.1, 0.4, 4.0]])
    w, v = stax.jit(la.eig)(a)
    np.testing.assert_allclose(a @ v, v * w, atol=1e-12)
    assert w.dtype == v.dtype == np.complex128
    np.testing.assert_allclose(stax.jit(la.eigvals)(a), np.linalg.eigvals(a))
    check_grads(lambda x: la.eigvals(x), (a,), order=1)
    check_grads(lambda x: la.eig(x), (a,), order=1, modes=["fwd"], atol=1e-5, rtol=1e-5)


def test_full_matrices() -> None:
    a = wide()
    u, s, vh = stax.jit(lambda x: la.svd(x))(a)
    assert_same((u, s, vh), tuple(np.linalg.svd(a)))

    def projector(x: Any) -> Any:
        v = la.svd(x)[2]
        return v[3:].T @ v[3:]

    check_grads(projector, (a,), order=1)
    check_grads(lambda x: la.svd(x.T)[0][:, 3:] @ la.svd(x.T)[0][:, 3:].T, (a,), order=1)
    q_tail = lambda x: la.qr(x.T, mode="complete")[0][:, 3:]
    check_grads(lambda x: q_tail(x) @ q_tail(x).T, (a,), order=1)


def test_least_squares_results() -> None:
    a, b = tall(), RNG.standard_normal((5, 2))
    for right in (b, b[:, 0]):
        got, want = stax.jit(la.lstsq)(a, right), np.linalg.lstsq(a, right)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, atol=1e-12)
    assert stax.jit(la.matrix_rank)(np.outer(np.arange(3.0), np.ones(4))) == 1
    assert stax.jit(la.matrix_rank)(np.stack([np.eye(3), np.diag([1.0, 1, 0])])).tolist() == [3, 2]


def test_errors() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        la.inv(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        stax.jit(la.inv)(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        stax.jit(la.cholesky)(-np.eye(2))
    for fun in (la.inv, la.det, la.cholesky, la.eigh, la.eig, la.slogdet):
        with pytest.raises(ShapeError, match="square"):
            stax.jit(fun)(np.ones((2, 3)))
        with pytest.raises(ShapeError, match="at least two-dimensional"):
            stax.jit(fun)(np.ones(3))
        with pytest.raises(DtypeError, match="unsupported in linear algebra"):
            stax.jit(fun)(np.eye(2, dtype=np.float16))
    with pytest.raises(ShapeError, match="right-hand side"):
        stax.jit(la.solve)(np.eye(2), np.ones((3, 1)))


def test_integers_and_empty_stacks() -> None:
    a = np.array([[2, 1], [1, 3]])
    for fun in (la.inv, la.det, la.cholesky, la.svdvals):
        assert_same(stax.jit(fun)(a), fun(a))
        assert_same(stax.jit(fun)(np.zeros((0, 2, 2))), fun(np.zeros((0, 2, 2))))
    assert_same(stax.jit(la.det)(np.zeros((0, 0))), np.linalg.det(np.zeros((0, 0))))


CUTOFFS = {
    "a number": 0.3,
    "one for each matrix": np.array([[0.1, 0.3, 0.6], [0.9, 0.2, 0.4]]),
    "one for each column of the stack": np.array([0.1, 0.3, 0.6], np.float32),
}


@pytest.mark.parametrize("cutoff", CUTOFFS.values(), ids=CUTOFFS)
@pytest.mark.parametrize("name", ["pinv", "matrix_rank"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_a_cutoff_may_be_traced_and_differ_between_matrices(
    name: str, cutoff: Any, dtype: str
) -> None:
    x = np.random.default_rng(5).standard_normal((2, 3, 4, 3)).astype(dtype)
    f = getattr(la, name)
    for call in (lambda a, c: f(a, c), lambda a, c: f(a, rtol=c)):
        want = call(x, cutoff)
        tol = 2e-4 if dtype == "f4" else 1e-10
        assert_same(stax.jit(call)(x, cutoff), want, tol)
        assert_same(stax.jit(lambda a, call=call: call(a, cutoff))(x), want, tol)
        if np.ndim(cutoff) == 2:
            assert_same(stax.vmap(call)(x, cutoff), want, tol)


def test_pinv_has_no_derivative_in_its_cutoff() -> None:
    x, c = tall(), np.float64(0.01)
    g = stax.grad(lambda a, c: la.pinv(a, rtol=c).sum(), argnums=(0, 1))(x, c)
    assert_same(g[0], stax.grad(lambda a: la.pinv(a).sum())(x))
    assert g[1] == 0


def test_lstsq_takes_a_traced_cutoff() -> None:
    x, y = tall(), RNG.standard_normal((5, 2))
    for c in (0.01, 0.6, -1.0):
        want = la.lstsq(x, y, c)
        got = stax.jit(lambda a, b, c: la.lstsq(a, b, c))(x, y, c)
        assert int(got[2]) == int(want[2])
        assert_same(got[0], want[0])
