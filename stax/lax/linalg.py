"""`stax.lax.linalg`: decompositions and solvers under JAX's names and argument orders.

Input: stacks of matrices.  Output: the linear-algebra primitives' results in the order JAX returns
them (`eigh` gives vectors first).  A matrix without the factorisation raises `LinAlgError`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stax.core.source import user_source
from stax.errors import ShapeError, StaxError
from stax.numpy.inexact import inexact
from stax.numpy.linalg.operands import common_stack, matrices
from stax.numpy.registration import operand as as_operand
from stax.numpy.registration import refuse_unread
from stax.primitives import elementwise as el
from stax.primitives import linalg_factor as factor
from stax.primitives import linalg_functions as functions
from stax.primitives import linalg_solve as systems
from stax.primitives import linalg_spectral as spectral
from stax.primitives.families import literal
from stax.primitives.linalg_algebra import (
    as_columns,
    columns,
    hermitian_part,
    matmul,
    mh,
    mt,
    stacked,
)
from stax.primitives.shapes import concatenate, pad, scalar_zero, slice_axis
from stax.primitives.views import broadcast, reshape

__all__ = [
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal_solve",
]

Array = Any


def cholesky(x: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular factor L of x = L L^H."""
    (a,) = matrices("cholesky", x)
    return factor.cholesky(hermitian_part(a) if symmetrize_input else a)


def eigh(
    x: Array,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    **others: Any,
) -> tuple[Array, Array]:
    """Eigenvectors and ascending eigenvalues of Hermitian matrices, in this order."""
    refuse_unread("eigh", others)
    (a,) = matrices("eigh", x)
    w, v = spectral.eigh(hermitian_part(a) if symmetrize_input else a, lower)
    return v, w


def eig(
    x: Array,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    **others: Any,
) -> list[Array]:
    """Eigenvalues, then left and right eigenvectors where asked for; always complex."""
    refuse_unread("eig", others)
    (a,) = matrices("eig", x)
    if not (compute_left_eigenvectors or compute_right_eigenvectors):
        return [spectral.eigvals(a)]
    w, v = spectral.eig(a)
    left = [spectral.left_vectors(v)] if compute_left_eigenvectors else []
    return [w, *left, *([v] if compute_right_eigenvectors else [])]


def lu(x: Array) -> tuple[Array, Array, Array]:
    """L and U packed in one matrix, the row exchanges, and the permutation of rows they make."""
    return factor.lu(*matrices("lu", x))


def lu_pivots_to_permutation(pivots: Array, permutation_size: int) -> Array:
    """The permutation of `permutation_size` rows that successive exchanges make."""
    size = operator.index(permutation_size)
    exchanges = as_operand(pivots, "lu_pivots_to_permutation")
    return factor.permutation_of(exchanges, size)


def qr(x: Array, *, pivoting: bool = False, full_matrices: bool = True, **others: Any) -> Any:
    """Q and R; Q is square when `full_matrices`."""
    refuse_unread("qr", others)
    if pivoting:
        raise StaxError(
            "column pivoting is not traced", op="qr", where=user_source() or None,
            hint="use scipy.linalg.qr on plain arrays",
        )  # fmt: skip
    (a,) = matrices("qr", x)
    return factor.qr(a, complete=bool(full_matrices))


def svd(x: Array, *, full_matrices: bool = True, compute_uv: bool = True, **others: Any) -> Any:
    """U, the singular values and V^H, or the singular values alone."""
    refuse_unread("svd", others)
    (a,) = matrices("svd", x)
    return spectral.svd(a, full=bool(full_matrices)) if compute_uv else spectral.svdvals(a)


def schur(x: Array, *, compute_schur_vectors: bool = True, **others: Any) -> tuple[Array, ...]:
    """The Schur form T and its vectors Z, x = Z T Z^H; without a derivative.

    `(T,)` alone where `compute_schur_vectors` is false.
    """
    refuse_unread("schur", others)
    (a,) = matrices("schur", x)
    found = functions.schur(a)
    return found if compute_schur_vectors else found[:1]


def cholesky_update(r_matrix: Array, w_vector: Array) -> Array:
    """The upper factor R of R^T R + w w^T, given that of R^T R.

    >>> cholesky_update(np.eye(2), np.array([0.0, 2.0])).round(3).tolist()
    [[1.0, 0.0], [0.0, 2.236]]
    """
    r, w = inexact("cholesky_update", r_matrix, w_vector)
    (r,) = matrices("cholesky_update", r)
    if w.shape != r.shape[:-1]:
        raise ShapeError(
            f"needs a vector of {r.shape[-1]} elements for each matrix, got {w.shape}",
            op="cholesky_update",
            where=user_source() or None,
        )
    column = as_columns(w)
    whole = el.add(matmul(mh(r), r), matmul(column, mh(column)))
    return mh(factor.cholesky(whole))


def householder_product(a: Array, taus: Array) -> Array:
    """The first columns of the product of the reflections 1 - tau v v^H.

    The vectors v are below the diagonal of `a`, m by n with m >= n, and 1 on it; there are up to n
    numbers tau.

    >>> householder_product(np.array([[0.0], [1.0]]), np.array([1.0])).tolist()
    [[0.0], [-1.0]]
    """
    x, t = inexact("householder_product", a, taus)
    (x,) = matrices("householder_product", x)
    m, n = x.shape[-2:]
    k = t.shape[-1] if len(t.shape) else 0
    if m < n or not k <= n or t.shape[:-1] != x.shape[:-2]:
        raise ShapeError(
            f"needs matrices of at most as many columns as rows, and at most as many taus, got "
            f"{x.shape} and {t.shape}",
            op="householder_product",
            where=user_source() or None,
        )
    rows = np.arange(m)[:, None]
    out = stacked(np.eye(m, n, dtype=x.dtype), x.shape[:-2])
    for i in reversed(range(k)):
        v = el.select(broadcast(rows > i, (*x.shape[:-1], 1)), columns(x, i, i + 1),
                      stacked((rows == i).astype(x.dtype), x.shape[:-2]))  # fmt: skip
        tau = reshape(slice_axis(t, len(t.shape) - 1, i, i + 1), (*t.shape[:-1], 1, 1))
        out = el.sub(out, matmul(el.mul(v, tau), matmul(mh(v), out)))
    return out


def symmetric_product(
    a_matrix: Array,
    c_matrix: Array,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Alpha A A^T + beta C for a symmetric C; the whole matrix, symmetrised or not.

    >>> symmetric_product(np.array([[1.0, 2.0]]), np.eye(1), beta=3.0).tolist()
    [[8.0]]
    """
    a, c = common_stack("symmetric_product", matrices("symmetric_product", a_matrix, c_matrix))
    product = el.mul(matmul(a, mt(a)), literal(alpha, a))
    return el.add(product, el.mul(c, literal(beta, c)))


def triangular_solve(
    a: Array,
    b: Array,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The X of op(a) X = b, or of X op(a) = b unless `left_side`; `a` is triangular."""
    x, y = inexact("triangular_solve", a, b)
    vector = len(y.shape) == len(x.shape) - 1
    if vector:
        y = reshape(y, (*y.shape, 1) if left_side else (*y.shape[:-1], 1, y.shape[-1]))
    x, y = common_stack("triangular_solve", matrices("triangular_solve", x, y))
    out = systems.triangular_solve(
        x,
        y,
        left=bool(left_side),
        lower=bool(lower),
        transposed=bool(transpose_a),
        conjugated=bool(conjugate_a) and x.dtype.kind == "c",
        unit=bool(unit_diagonal),
    )
    if not vector:
        return out
    return reshape(out, out.shape[:-1] if left_side else (*out.shape[:-2], out.shape[-1]))


def tridiagonal_solve(
    dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool = False
) -> Array:
    """The X of A X = b, A tridiagonal with diagonals `dl` (first unused), `d`, `du` (last unused).

    Raises:
      ShapeError: the diagonals differ in shape, or `b` has other rows.
    """
    refuse_unread("tridiagonal_solve", {"perturb_singular": perturb_singular})
    low, middle, high, y = inexact("tridiagonal_solve", dl, d, du, b)
    if not low.shape == middle.shape == high.shape or len(y.shape) != len(middle.shape) + 1:
        raise ShapeError(
            f"needs diagonals of one shape and right-hand sides with one axis more, got "
            f"{low.shape}, {middle.shape}, {high.shape} and {y.shape}",
            op="tridiagonal_solve",
            where=user_source() or None,
        )
    last = len(middle.shape) - 1
    n = middle.shape[last]
    zero, flat = scalar_zero(middle.dtype), (0,) * last
    above = pad(slice_axis(high, last, 0, n - 1), zero, (*flat, 1), (*flat, 0))
    below = pad(slice_axis(low, last, 1, n), zero, (*flat, 0), (*flat, 1))
    bands = [reshape(v, (*v.shape[:-1], 1, n)) for v in (above, middle, below)]
    return functions.solve_banded(concatenate(bands, last), y, 1, 1)
