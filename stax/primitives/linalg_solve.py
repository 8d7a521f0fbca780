"""Linear systems: solve, triangular_solve, inv, det, slogdet, and the adjugate behind det.

Input: stacks of matrices of one dtype with equal leading axes.  Output: rows beside the functions
that bind them.  A solution is linear in the right-hand side, and its derivative in the matrix is
one more solution with the same matrix.  The determinant's derivative is the adjugate, which comes
from singular values, so it is right for singular matrices too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.primitive import Linear, Zero
from stax.core.trace import bind, bind1
from stax.errors import ShapeError
from stax.loops import library
from stax.loops.library import matrix_routine
from stax.primitives import elementwise as el
from stax.primitives.linalg_algebra import (
    check_stack,
    conj,
    given,
    matmul,
    matrix_row,
    mt,
    per_matrix,
    real_dtype,
    total,
    trace,
    tril,
    triu,
)
from stax.primitives.linalg_library import triangular_matrix_solve
from stax.primitives.views import broadcast, reduce_sum

# ------------------------------------------------------------------------------------- solve


def _solve_aval(a: Aval, b: Aval) -> Aval:
    check_stack("solve", (a, b), square=1)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"the matrix has {a.shape[-1]} rows, the right-hand side {b.shape[-2]}",
            op="solve",
            operands=[a, b],
        )
    return b.strong()


def _solve_jvp(primals: Any, x: Any, tangents: Any) -> Any:
    (a, _), (ta, tb) = primals, tangents
    change = el.neg(matmul(ta, x)) if given(ta) else None
    return solve(a, total(tb if given(tb) else None, change))


def _solve_transpose(ct: Any, a: Any, b: Any) -> tuple[Any, Any]:
    assert isinstance(b, Linear)
    return None, Zero(b.aval) if isinstance(ct, Zero) else solve(mt(a), ct)


solve_p = matrix_row(
    "solve",
    abstract_eval=_solve_aval,
    impl=lambda a, b: np.linalg.solve(a, b),
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    lower=matrix_routine("solve"),
)


def solve(a: Any, b: Any) -> Any:
    """The matrices X of a X = b; LinAlgError for a singular `a`."""
    return bind1(solve_p, a, b)


# ------------------------------------------------------------------------- triangular systems


def _triangular_aval(a: Aval, b: Aval, *, left: bool, **params: Any) -> Aval:
    check_stack("triangular_solve", (a, b), square=1)
    if a.shape[-1] != b.shape[-2 if left else -1]:
        raise ShapeError(
            "the extents of the matrix and of the right-hand side differ",
            op="triangular_solve",
            operands=[a, b],
        )
    return b.strong()


def _triangular_impl(
    a: Any, b: Any, *, left: bool, lower: bool, transposed: bool, conjugated: bool, unit: bool
) -> Any:
    if conjugated:
        a = np.conj(a)
    if transposed:
        a, lower = np.swapaxes(a, -1, -2), not lower

    def one(matrix: Any, right: Any) -> Any:
        return triangular_matrix_solve(matrix, right, left, lower, unit)

    return per_matrix(one, a, b)


def _triangular_jvp(primals: Any, x: Any, tangents: Any, **params: Any) -> Any:
    (a, _), (ta, tb) = primals, tangents
    change = None
    if given(ta):
        k = 1 if params["unit"] else 0
        ta = tril(ta, -k) if params["lower"] else triu(ta, k)
        if params["transposed"]:
            ta = mt(ta)
        if params["conjugated"]:
            ta = conj(ta)
        change = el.neg(matmul(ta, x) if params["left"] else matmul(x, ta))
    return bind1(triangular_p, a, total(tb if given(tb) else None, change), **params)


def _triangular_transpose(
    ct: Any, a: Any, b: Any, *, transposed: bool, **params: Any
) -> tuple[Any, Any]:
    assert isinstance(b, Linear)
    if isinstance(ct, Zero):
        return None, Zero(b.aval)
    return None, bind1(triangular_p, a, ct, transposed=not transposed, **params)


triangular_p = matrix_row(
    "triangular_solve",
    abstract_eval=_triangular_aval,
    impl=_triangular_impl,
    jvp=_triangular_jvp,
    transpose=_triangular_transpose,
    lower=library.triangular_solve,
)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left: bool = True,
    lower: bool = False,
    transposed: bool = False,
    conjugated: bool = False,
    unit: bool = False,
) -> Any:
    """The matrices X of op(a) X = b, or of X op(a) = b unless `left`; `a` is triangular.

    A zero on the diagonal gives infinities, not an error.
    """
    return bind1(
        triangular_p,
        a,
        b,
        left=left,
        lower=lower,
        transposed=transposed,
        conjugated=conjugated,
        unit=unit,
    )


# ------------------------------------------------------------------------- inverse, determinant


def _square_aval(op: str) -> Any:
    def abstract(a: Aval, **params: Any) -> Aval:
        check_stack(op, (a,), square=1)
        return a.strong()

    return abstract


def _inv_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    return el.neg(matmul(out, tangents[0], out))


inv_p = matrix_row(
    "inv",
    abstract_eval=_square_aval("inv"),
    impl=lambda a: np.linalg.inv(a),
    jvp=_inv_jvp,
    lower=matrix_routine("inv"),
)


def inv(a: Any) -> Any:
    """The inverse matrices; LinAlgError for a singular one."""
    return bind1(inv_p, a)


def _adjugate_impl(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    others = _others_products(s).astype(a.dtype)
    v, uh = np.swapaxes(vh, -1, -2).conj(), np.swapaxes(u, -1, -2).conj()
    return (phase[..., None, None] * (v * others[..., None, :]) @ uh).astype(a.dtype)


def _others_products(s: Any) -> Any:
    """For each element of the last axis the product of the others."""
    n = s.shape[-1]
    table = np.where(np.eye(n, dtype=bool), 1, s[..., None, :])
    return np.prod(table, axis=-1)


def _adjugate_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    return bind1(adjugate_change_p, primals[0], tangents[0])


adjugate_p = matrix_row(
    "adjugate",
    abstract_eval=_square_aval("adjugate"),
    impl=_adjugate_impl,
    jvp=_adjugate_jvp,
    lower=matrix_routine("adjugate"),
)


def _change_impl(a: Any, t: Any) -> Any:
    # In the basis of singular vectors the matrix is diagonal, where adj(S + e M) is explicit:
    # -M[i, j] prod(s but i, j) off the diagonal, sum over j of M[j, j] prod(s but i, j) on it.
    n = a.shape[-1]
    u, s, vh = np.linalg.svd(a)
    v, uh = np.swapaxes(vh, -1, -2).conj(), np.swapaxes(u, -1, -2).conj()
    phase = np.linalg.det(u) * np.linalg.det(vh)
    either = np.eye(n, dtype=bool)[:, None, :] | np.eye(n, dtype=bool)[None, :, :]
    pairs = np.prod(np.where(either, 1, s[..., None, None, :]), axis=-1)
    pairs = np.where(np.eye(n, dtype=bool), 0, pairs)
    m = uh @ t @ v
    diagonal = np.einsum("...ij,...jj->...i", pairs, m)
    change = -pairs * m + diagonal[..., None] * np.eye(n)
    return (phase[..., None, None] * (v @ change @ uh)).astype(a.dtype)


def _change_aval(a: Aval, t: Aval) -> Aval:
    check_stack("adjugate_change", (a, t), square=2)
    return t.strong()


def _change_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    # Away from singular matrices: adj = det inv, differentiated twice.
    (a, t), (ta, tt) = primals, tangents
    first = bind1(adjugate_change_p, a, tt) if given(tt) else None
    if not given(ta):
        return first
    inverse, d = inv(a), _spread(det(a), a)
    x, y = matmul(inverse, t), matmul(inverse, ta)
    tx, ty = _spread(trace(x), a), _spread(trace(y), a)
    mixed = el.sub(el.mul(tx, ty), _spread(trace(matmul(x, y)), a))
    terms = el.sub(
        el.add(matmul(el.add(matmul(x, y), matmul(y, x)), inverse), el.mul(mixed, inverse)),
        el.add(el.mul(ty, matmul(x, inverse)), el.mul(tx, matmul(y, inverse))),
    )
    return total(first, el.mul(d, terms))


def _spread(v: Any, like: Any) -> Any:
    return broadcast(v, like.shape, range(len(like.shape) - 2))


def _change_transpose(ct: Any, a: Any, t: Any) -> tuple[Any, Any]:
    assert isinstance(t, Linear)
    # The second derivative of det is symmetric: <X, d adj[T]^T> is the same with X and T exchanged.
    return None, Zero(t.aval) if isinstance(ct, Zero) else mt(adjugate_change(a, mt(ct)))


adjugate_change_p = matrix_row(
    "adjugate_change",
    abstract_eval=_change_aval,
    impl=_change_impl,
    jvp=_change_jvp,
    transpose=_change_transpose,
)


def adjugate_change(a: Any, t: Any) -> Any:
    """The derivative of the adjugate at `a` along `t`."""
    return bind1(adjugate_change_p, a, t)


def adjugate(a: Any) -> Any:
    """The adjugate matrices: det(a) inv(a), defined for singular ones too."""
    return bind1(adjugate_p, a)


def _det_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    n = len(a.shape)
    return reduce_sum(el.mul(mt(adjugate(a)), t), (n - 2, n - 1))


def _det_aval(a: Aval) -> Aval:
    check_stack("det", (a,), square=1)
    return Aval(a.shape[:-2], a.dtype)


det_p = matrix_row(
    "det",
    abstract_eval=_det_aval,
    impl=lambda a: np.asarray(np.linalg.det(a)),
    jvp=_det_jvp,
    lower=matrix_routine("det"),
)


def det(a: Any) -> Any:
    """The determinants."""
    return bind1(det_p, a)


def _slogdet_aval(a: Aval) -> tuple[Aval, Aval]:
    check_stack("slogdet", (a,), square=1)
    return Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))


def _slogdet_jvp(primals: Any, outs: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (t,), (sign, logarithm) = primals, tangents, outs
    growth = trace(solve(a, t))
    if sign.dtype.kind != "c":
        return Zero(Aval(sign.shape, sign.dtype)), growth
    zero = el.mul(logarithm, logarithm.dtype.type(0))
    turn = el.complex_(zero, el.imag(growth))
    return el.mul(sign, turn), el.real(growth)


slogdet_p = matrix_row(
    "slogdet",
    abstract_eval=_slogdet_aval,
    impl=lambda a: tuple(np.asarray(v) for v in np.linalg.slogdet(a)),
    jvp=_slogdet_jvp,
    lower=matrix_routine("slogdet"),
    multi=True,
)


def slogdet(a: Any) -> tuple[Any, Any]:
    """The signs (or phases) of the determinants and the logarithms of their absolute values."""
    return bind(slogdet_p, a)
