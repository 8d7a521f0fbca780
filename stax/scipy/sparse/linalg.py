"""Iterative solvers for linear systems: `cg`, `bicgstab` and `gmres`, under JAX's names.

Input: a matrix, or a function that applies it to a pytree, and a right-hand side.  Output: the
solution to a tolerance, from one loop.  The derivative is that of the exact solution: another
solve with the same matrix, or with its transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import stax.numpy as snp
from stax import lax
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_complex
from stax.errors import ShapeError
from stax.flatten_util import ravel_pytree
from stax.pytree import tree_leaves, tree_map

Function = Callable[..., Any]

__all__ = ["bicgstab", "cg", "gmres"]


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of A x = b by conjugate gradients, for a Hermitian positive definite A.

    Args:
      A: a matrix, or a function of pytrees like `b`.
      b: the right-hand side, a pytree of arrays.
      x0: where to start; zeros by default. It has no derivative.
      tol, atol: stop when the residual is no longer than `max(tol * |b|, atol)`.
      maxiter: the most steps; ten times the number of unknowns by default.
      M: an approximate inverse of A, a matrix or a function.

    Returns:
      The solution, and None where SciPy has a status.

    Raises:
      ShapeError: A is an array that is no square matrix.

    >>> np.round(cg(np.diag([1.0, 2.0]), np.ones(2))[0], 6)
    array([1. , 0.5])
    """
    return _isolve(_cg, A, b, x0, tol, atol, maxiter, M, hermitian=True), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of A x = b by stabilised biconjugate gradients, for any square A.

    Arguments and results as for `cg`; a step applies A twice.

    Source: H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992).

    >>> np.round(bicgstab(np.array([[2.0, 1.0], [0.0, 1.0]]), np.ones(2))[0], 6)
    array([0., 1.])
    """
    return _isolve(_bicgstab, A, b, x0, tol, atol, maxiter, M, hermitian=False), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """The solution of A x = b by generalised minimal residuals, for any square A.

    Arguments and results as for `cg`, and:

    Args:
      restart: the dimension of the space a residual is minimised in; so many vectors are kept.
      maxiter: the most restarts.
      solve_method: "batched" or "incremental", which are one method here.

    Source: Y. Saad and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986).

    >>> np.round(gmres(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[0], 6)
    array([1., 1.])
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method!r}, must be 'batched' or 'incremental'"
        )
    method = partial(_gmres, restart=restart)
    return _isolve(method, A, b, x0, tol, atol, maxiter, M, hermitian=False), None


def _isolve(
    method: Function,
    A: Any,
    b: Any,
    x0: Any,
    tol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
    hermitian: bool,
) -> Any:
    b = tree_map(lambda v: snp.asarray(v) * 1.0, b)
    leaves = tree_leaves(b)
    unknowns = sum(aval_of(v).size for v in leaves)
    start = tree_map(snp.zeros_like, b) if x0 is None else x0
    run = partial(
        method,
        precondition=(lambda v: v) if M is None else _applied(M, "M"),
        tol=tol,
        atol=atol,
        maxiter=10 * unknowns if maxiter is None else maxiter,
    )
    real = not any(is_complex(aval_of(v).dtype) for v in leaves)
    return lax.custom_linear_solve(
        _applied(A, "A"),
        b,
        partial(run, start=lax.stop_gradient(start)),
        # The solution of another system is no place to start from.
        partial(run, start=None),
        symmetric=hermitian and real,
    )


def _applied(matrix: Any, name: str) -> Function:
    if callable(matrix):
        return matrix  # type: ignore[no-any-return]  # a function of the caller's
    aval = aval_of(matrix)
    if len(aval.shape) != 2 or aval.shape[0] != aval.shape[1]:
        raise ShapeError(
            f"{name} must be a square matrix or a function",
            operands=[f"{name}: {aval}"],
            where=user_source() or None,
        )
    return lambda x: snp.matmul(matrix, x)


def _vdot(a: Any, b: Any) -> Any:
    parts = [snp.vdot(p, q) for p, q in zip(tree_leaves(a), tree_leaves(b), strict=True)]
    return sum(parts[1:], parts[0])


def _square(a: Any) -> Any:
    return snp.real(_vdot(a, a))


def _plus(a: Any, scale: Any, b: Any) -> Any:
    return tree_map(lambda p, q: p + scale * q, a, b)


def _limit(b: Any, tol: float, atol: float) -> Any:
    return snp.maximum(tol**2 * _square(b), atol**2)


def _first(matvec: Function, b: Any, start: Any) -> tuple[Any, Any]:
    """A first guess and its residual."""
    if start is None:
        return tree_map(snp.zeros_like, b), b
    return start, _plus(b, -1, matvec(start))


def _cg(
    matvec: Function,
    b: Any,
    start: Any,
    precondition: Function,
    tol: float,
    atol: float,
    maxiter: int,
) -> Any:
    limit = _limit(b, tol, atol)

    def unfinished(state: Any) -> Any:
        _, r, _, _, count = state
        return (_square(r) > limit) & (count < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, count = state
        image = matvec(p)
        alpha = gamma / _vdot(p, image)
        x, r = _plus(x, alpha, p), _plus(r, -alpha, image)
        z = precondition(r)
        new = _vdot(r, z)
        return x, r, _plus(z, new / gamma, p), new, count + 1

    x, r = _first(matvec, b, start)
    z = precondition(r)
    return lax.while_loop(unfinished, step, (x, r, z, _vdot(r, z), 0))[0]


def _bicgstab(
    matvec: Function,
    b: Any,
    start: Any,
    precondition: Function,
    tol: float,
    atol: float,
    maxiter: int,
) -> Any:
    limit = _limit(b, tol, atol)
    x, r = _first(matvec, b, start)
    shadow = r

    def unfinished(state: Any) -> Any:
        _, r, _, rho, count = state
        return (_square(r) > limit) & (count < maxiter) & (rho != 0)

    def step(state: Any) -> Any:
        x, r, p, rho, count = state
        direction = precondition(p)
        image = matvec(direction)
        alpha = rho / _vdot(shadow, image)
        half = _plus(r, -alpha, image)
        correction = precondition(half)
        t = matvec(correction)
        length = _square(t)
        omega = _vdot(t, half) / snp.where(length == 0, 1, length)
        x = _plus(_plus(x, alpha, direction), omega, correction)
        r = _plus(half, -omega, t)
        new = _vdot(shadow, r)
        turn = (new / rho) * (alpha / snp.where(omega == 0, 1, omega))
        return x, r, _plus(r, turn, _plus(p, -omega, image)), new, count + 1

    return lax.while_loop(unfinished, step, (x, r, r, _vdot(shadow, r), 0))[0]


def _gmres(
    matvec: Function,
    b: Any,
    start: Any,
    precondition: Function,
    tol: float,
    atol: float,
    maxiter: int,
    restart: int,
) -> Any:
    right, unravel = ravel_pytree(b)
    n, dtype = right.shape[0], aval_of(right).dtype
    width = min(restart, n)

    def apply(v: Any) -> Any:
        return ravel_pytree(matvec(unravel(v)))[0]

    def conditioned(v: Any) -> Any:
        return ravel_pytree(precondition(unravel(v)))[0]

    limit = snp.maximum(tol * snp.linalg.norm(right), atol)
    x = snp.zeros_like(right) if start is None else ravel_pytree(start)[0]

    def extended(k: Any, state: Any) -> Any:
        """One more vector of the space, orthogonal to the others, and its coefficients."""
        basis, coefficients = state
        w = apply(conditioned(basis[k]))
        # Twice, because once leaves what rounding put into the space.
        first = snp.conj(basis) @ w
        w = w - basis.T @ first
        second = snp.conj(basis) @ w
        w = w - basis.T @ second
        length = snp.linalg.norm(w)
        small = length <= 1e-14 * snp.linalg.norm(first)
        w = snp.where(small, 0.0, w / snp.where(small, 1.0, length))
        column = snp.where(
            snp.arange(width + 1) == k + 1, snp.where(small, 0, length), first + second
        )
        basis = snp.at(basis)[k + 1].set(w)
        return basis, snp.at(coefficients)[:, k].set(column.astype(dtype))

    def cycle(state: Any) -> Any:
        x, r, size, count = state
        basis = snp.at(snp.zeros((width + 1, n), dtype))[0].set(r / size)
        empty = snp.zeros((width + 1, width), dtype)
        basis, coefficients = lax.fori_loop(0, width, extended, (basis, empty))
        target = snp.at(snp.zeros(width + 1, dtype))[0].set(size)
        weights = snp.linalg.lstsq(coefficients, target)[0]
        x = x + conditioned(basis[:width].T @ weights)
        r = right - apply(x)
        return x, r, snp.linalg.norm(r), count + 1

    def unfinished(state: Any) -> Any:
        _, _, size, count = state
        return (size > limit) & (count < maxiter)

    r = right - apply(x)
    begin = (x, r, snp.linalg.norm(r), 0)
    return unravel(lax.while_loop(unfinished, cycle, begin)[0])
