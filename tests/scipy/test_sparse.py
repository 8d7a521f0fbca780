"""Iterative solvers against dense ones: values, derivatives, batches, pytrees, complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax.errors import ShapeError
from stax.scipy.sparse.linalg import bicgstab, cg

RNG = np.random.default_rng(5)
N = 6
A = RNG.normal(size=(N, N)) + 4 * np.eye(N)
SPD = A @ A.T
B = RNG.normal(size=N)


def by(solver: Any, symmetrise: bool) -> Any:
    def f(a: Any, b: Any) -> Any:
        a = (a + a.T) / 2 if symmetrise else a
        return solver(lambda x: a @ x, b, tol=1e-12)[0]

    return f


def dense(symmetrise: bool) -> Any:
    return lambda a, b: np.linalg.solve((a + a.T) / 2 if symmetrise else a, b)


CASES = {"cg": (cg, SPD, True), "bicgstab": (bicgstab, A, False)}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    solver, a, symmetrise = CASES[name]
    f, want = by(solver, symmetrise), dense(symmetrise)
    for g in (f, stax.jit(f, strict=True)):
        np.testing.assert_allclose(g(a, B), want(a, B), rtol=1e-9)
    np.testing.assert_allclose(solver(a, B, tol=1e-12)[0], np.linalg.solve(a, B), rtol=1e-9)
    loss = lambda h: lambda a, b: np.sum(np.sin(h(a, b)))
    expected = stax.grad(loss(want), (0, 1))(a, B)
    for g in (stax.grad(loss(f), (0, 1)), stax.jit(stax.grad(loss(f), (0, 1)))):
        for got, right in zip(g(a, B), expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-7, atol=1e-9)
    hessian = stax.jit(stax.hessian(lambda b: loss(f)(a, b)))(B)
    np.testing.assert_allclose(hessian, stax.hessian(lambda b: loss(want)(a, b))(B), atol=1e-8)
    bs = RNG.normal(size=(3, N))
    got = stax.vmap(f, (None, 0))(a, bs)
    np.testing.assert_allclose(got, stax.vmap(want, (None, 0))(a, bs), rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_preconditioner_guess_and_limits(name: str) -> None:
    solver, a, _ = CASES[name]
    want = np.linalg.solve(a, B)
    got = solver(a, B, x0=np.ones(N), tol=1e-12, M=np.diag(1 / np.diag(a)))[0]
    np.testing.assert_allclose(got, want, rtol=1e-9)
    np.testing.assert_allclose(solver(a, B, M=np.linalg.inv(a), maxiter=1)[0], want, rtol=1e-9)
    assert np.abs(solver(a, B, maxiter=1)[0] - want).max() > 1e-3
    np.testing.assert_array_equal(solver(a, 0 * B)[0], 0 * B)
    np.testing.assert_array_equal(solver(a, B, x0=want, atol=1.0)[0], want)


@pytest.mark.parametrize("name", CASES)
def test_pytrees_and_complex_numbers(name: str) -> None:
    solver, a, _ = CASES[name]
    b = {"u": B[:2], "v": B[2:]}

    def product(x: Any) -> Any:
        y = a @ np.concatenate([x["u"], x["v"]])
        return {"u": y[:2], "v": y[2:]}

    x = stax.jit(lambda b: solver(product, b, tol=1e-12)[0])(b)
    np.testing.assert_allclose(np.concatenate([x["u"], x["v"]]), np.linalg.solve(a, B), rtol=1e-9)
    twist = 1j * np.triu(RNG.normal(size=(N, N)), 1)
    c = a + twist + twist.conj().T
    f = lambda c, b: np.sum(np.abs(solver(lambda x: c @ x, b + 1j, tol=1e-13)[0]))
    g = lambda c, b: np.sum(np.abs(np.linalg.solve(c, b + 1j)))
    np.testing.assert_allclose(f(c, B), g(c, B), rtol=1e-9)
    for got, want in zip(stax.grad(f, (0, 1))(c, B), stax.grad(g, (0, 1))(c, B), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ShapeError, match="A must be a square matrix"):
        cg(np.ones((2, 3)), np.ones(3))
