"""Minimisation and GMRES: known minima, derivatives, batches, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import ShapeError
from stax.scipy.optimize import minimize
from stax.scipy.sparse.linalg import gmres
from stax.testing import check_grads


def rosenbrock(x: np.ndarray) -> np.ndarray:
    return snp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(p: np.ndarray) -> np.ndarray:
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


@pytest.mark.parametrize(("f", "start"), [
    (rosenbrock, np.array([1.3, 0.7, 0.8, 1.9])),
    (rosenbrock, np.array([-1.2, 1.0])),
    (himmelblau, np.array([1.0, 1.0])),
    (lambda x: snp.sum((x - 3.0) ** 4), np.zeros(3)),
    (lambda x: snp.sum(snp.cosh(x * 3)), np.array([5.0])),
    (lambda x: snp.sum(x**2) * 1e6, np.array([300.0, -4.0])),
])  # fmt: skip
def test_minima_are_found(f: object, start: np.ndarray) -> None:
    found = minimize(f, start, method="BFGS")  # type: ignore[arg-type]
    assert bool(found.success)
    assert int(found.status) == 0
    assert float(np.abs(found.jac).max()) <= 1e-5
    np.testing.assert_allclose(found.fun, f(found.x))  # type: ignore[operator]
    compiled = stax.jit(lambda x: minimize(f, x, method="BFGS"))(start)  # type: ignore[arg-type]
    np.testing.assert_allclose(compiled.fun, found.fun, atol=1e-8)


@pytest.mark.parametrize(
    "method", ["L-BFGS", "L-BFGS-B", "l-bfgs-experimental-do-not-rely-on-this"]
)
def test_limited_memory_finds_the_same_minima(method: str) -> None:
    for f, start in ((rosenbrock, np.array([1.3, 0.7, 0.8, 1.9])), (himmelblau, np.ones(2))):
        want = minimize(f, start, method="BFGS")
        for found in (
            minimize(f, start, method=method),
            stax.jit(lambda x, f=f: minimize(f, x, method=method))(start),
        ):
            assert bool(found.success)
            assert found.hess_inv is None
            np.testing.assert_allclose(found.x, want.x, atol=1e-5)
    batch = np.random.default_rng(0).standard_normal((3, 6)) * 0.3 + 1
    many = stax.vmap(lambda x: minimize(rosenbrock, x, method=method))(batch)
    assert many.success.all()
    np.testing.assert_allclose(many.x, 1.0, atol=1e-5)
    few = minimize(rosenbrock, np.zeros(40), method=method, options={"maxcor": 3, "gtol": 1e-8})
    assert bool(few.success)
    np.testing.assert_allclose(few.x, 1.0, atol=1e-7)
    with pytest.raises(ValueError, match="maxcor"):
        minimize(rosenbrock, np.zeros(2), method=method, options={"maxcor": 0})
    with pytest.raises(ValueError, match="maxcor"):
        minimize(rosenbrock, np.zeros(2), method="BFGS", options={"maxcor": 3})


def test_the_inverse_hessian_is_estimated() -> None:
    curvature = np.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimize(
        lambda x, c: 0.5 * x @ c @ x - snp.sum(x), np.zeros(2), (curvature,), method="BFGS"
    )
    np.testing.assert_allclose(found.x, np.linalg.solve(curvature, np.ones(2)), atol=1e-6)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(curvature), atol=1e-4)


def test_a_batch_is_minimised_at_once() -> None:
    centres = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, 0.0]])
    found = stax.vmap(
        lambda c: minimize(lambda x: snp.sum((x - c) ** 2), snp.zeros(2), method="BFGS").x
    )(centres)
    np.testing.assert_allclose(found, centres, atol=1e-6)


def test_too_few_steps_are_reported() -> None:
    found = minimize(rosenbrock, np.zeros(3), method="BFGS", options={"maxiter": 3})
    assert not bool(found.success)
    assert (int(found.status), int(found.nit)) == (1, 3)
    flat = minimize(lambda x: snp.sum(x) * snp.nan, np.zeros(2), method="BFGS")
    assert not bool(flat.success)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ShapeError, match="x0 must be a vector"):
        minimize(snp.sum, np.zeros((2, 2)), method="BFGS")
    with pytest.raises(ValueError, match="method"):
        minimize(snp.sum, np.zeros(2), method="Powell")
    with pytest.raises(ValueError, match="unknown options"):
        minimize(snp.sum, np.zeros(2), method="BFGS", options={"steps": 3})
    with pytest.raises(TypeError, match="tuple"):
        minimize(snp.sum, np.zeros(2), [1.0], method="BFGS")  # type: ignore[arg-type]


def test_gmres_solves() -> None:
    rng = np.random.default_rng(2)
    a = np.eye(30) * 4 + rng.standard_normal((30, 30)) * 0.5
    b = rng.standard_normal(30)
    for restart in (5, 20, 40):
        x = gmres(a, b, tol=1e-10, restart=restart)[0]
        np.testing.assert_allclose(a @ x, b, atol=1e-8)
    waves = a + 1j * rng.standard_normal((30, 30)) * 0.3
    np.testing.assert_allclose(waves @ gmres(waves, b + 0j, tol=1e-10)[0], b, atol=1e-8)
    x = gmres(a, b, tol=1e-10, M=np.diag(1 / np.diag(a)))[0]
    np.testing.assert_allclose(a @ x, b, atol=1e-8)
    tree = gmres(lambda t: {"u": 2 * t["u"], "v": 3 * t["v"]}, {"u": b[:3], "v": b[:2]})[0]
    np.testing.assert_allclose(tree["v"], b[:2] / 3)
    np.testing.assert_allclose(gmres(np.eye(3), np.ones(3))[0], np.ones(3))
    check_grads(lambda m, v: gmres(m, v, tol=1e-12)[0], (a[:5, :5], b[:5]), 1)
    batch = stax.vmap(lambda v: gmres(a, v, tol=1e-10)[0])(np.stack([b, 2 * b]))
    np.testing.assert_allclose(batch[1], 2 * batch[0], atol=1e-8)
