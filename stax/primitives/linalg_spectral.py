"""Spectral decompositions: eigh, eigvalsh, eig, svd, and the pseudo-inverse.

Input: stacks of matrices.  Output: rows beside the functions that bind them.  First-order
perturbation theory gives the derivatives: values move by the diagonal of the tangent in the basis
of vectors, vectors mix in proportion to 1 / (difference of values).  Where two values are equal
that factor is taken as zero, which is right for every function that does not tell them apart.
Signs and phases of vectors are LAPACK's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Zero
from stax.core.trace import bind, bind1
from stax.dtypes import is_complex
from stax.loops.library import matrix_routine, pseudo_inverse
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.linalg_algebra import (
    as_columns,
    as_rows,
    check_stack,
    columns,
    diagonal_matrix,
    diagonal_of,
    eye_like,
    given,
    hermitian_part,
    matmul,
    matrix_row,
    mh,
    real_dtype,
    rows,
    scaled,
)
from stax.primitives.linalg_solve import inv, solve
from stax.primitives.reductions import argmax
from stax.primitives.shapes import concatenate, iota, scalar_zero
from stax.primitives.transcendental import sqrt
from stax.primitives.views import broadcast, reduce_sum


def real(x: Any) -> Any:
    """The real part; `x` itself when it is real."""
    return el.real(x) if is_complex(x.dtype) else x


def like(x: Any, other: Any) -> Any:
    """`x` in the dtype of `other`."""
    return convert(x, other.dtype) if x.dtype != other.dtype else x


def inverse_or_zero(x: Any) -> Any:
    """1 / x, and 0 where x is 0."""
    zero = el.eq(x, scalar_zero(x.dtype))
    one = x.dtype.type(1)
    return el.select(zero, scalar_zero(x.dtype), el.div(one, el.select(zero, one, x)))


# ------------------------------------------------------------------------------------- eigh


def _eigh_aval(a: Aval, *, lower: bool) -> tuple[Aval, Aval]:
    check_stack("eigh", (a,), square=1)
    return Aval(a.shape[:-1], real_dtype(a.dtype)), a.strong()


def _eigh_jvp(primals: Any, outs: Any, tangents: Any, *, lower: bool) -> tuple[Any, Any]:
    w, v = outs
    turned = matmul(mh(v), hermitian_part(tangents[0]), v)
    mixing = inverse_or_zero(el.sub(as_rows(w), as_columns(w)))
    return real(diagonal_of(turned)), matmul(v, el.mul(like(mixing, turned), turned))


eigh_p = matrix_row(
    "eigh",
    abstract_eval=_eigh_aval,
    impl=lambda a, *, lower: tuple(np.linalg.eigh(a, "L" if lower else "U")),
    jvp=_eigh_jvp,
    lower=matrix_routine("eigh", "lower"),
    multi=True,
)


def eigh(a: Any, lower: bool = True) -> tuple[Any, Any]:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices given by one triangle.

    The derivative takes the Hermitian part of the tangent.
    """
    return bind(eigh_p, a, lower=lower)


def _eigvalsh_aval(a: Aval, *, lower: bool) -> Aval:
    check_stack("eigvalsh", (a,), square=1)
    return Aval(a.shape[:-1], real_dtype(a.dtype))


def _eigvalsh_jvp(primals: Any, out: Any, tangents: Any, *, lower: bool) -> Any:
    _, v = eigh(primals[0], lower)
    return real(diagonal_of(matmul(mh(v), hermitian_part(tangents[0]), v)))


eigvalsh_p = matrix_row(
    "eigvalsh",
    abstract_eval=_eigvalsh_aval,
    impl=lambda a, *, lower: np.linalg.eigvalsh(a, "L" if lower else "U"),
    jvp=_eigvalsh_jvp,
    lower=matrix_routine("eigvalsh", "lower"),
)


def eigvalsh(a: Any, lower: bool = True) -> Any:
    """Eigenvalues, ascending, of Hermitian matrices given by one triangle."""
    return bind1(eigvalsh_p, a, lower=lower)


# -------------------------------------------------------------------------------------- eig


def _complex_of(dtype: Any) -> Any:
    return np.dtype(np.result_type(dtype, np.complex64))


def _eig_aval(a: Aval) -> tuple[Aval, Aval]:
    check_stack("eig", (a,), square=1)
    dtype = _complex_of(a.dtype)
    return Aval(a.shape[:-1], dtype), Aval(a.shape, dtype)


def _eig_impl(a: Any) -> tuple[Any, Any]:
    w, v = np.linalg.eig(a)
    dtype = _complex_of(a.dtype)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _eig_jvp(primals: Any, outs: Any, tangents: Any) -> tuple[Any, Any]:
    w, v = outs
    turned = solve(v, matmul(like(tangents[0], v), v))
    mixing = inverse_or_zero(el.sub(as_rows(w), as_columns(w)))
    change = matmul(v, el.mul(mixing, turned))
    # LAPACK's vectors have length one, and their largest component is real.
    along = reduce_sum(el.mul(el.conj(v), change), (len(v.shape) - 2,))
    largest = argmax(el.abs_(v), len(v.shape) - 2)
    chosen = el.eq(iota(v.shape, len(v.shape) - 2), broadcast(as_rows(largest), v.shape))
    zero = scalar_zero(v.dtype)

    def at(x: Any) -> Any:
        return reduce_sum(el.select(chosen, x, zero), (len(v.shape) - 2,))

    turn = el.imag(el.div(at(change), at(v)))
    length = el.real(along)
    return diagonal_of(turned), el.sub(change, el.mul(v, as_rows(el.complex_(length, turn))))


eig_p = matrix_row(
    "eig",
    abstract_eval=_eig_aval,
    impl=_eig_impl,
    jvp=_eig_jvp,
    lower=matrix_routine("eig"),
    multi=True,
)


def eig(a: Any) -> tuple[Any, Any]:
    """Eigenvalues and right eigenvectors of square matrices; always complex."""
    return bind(eig_p, a)


def _eigvals_aval(a: Aval) -> Aval:
    return _eig_aval(a)[0]


def _eigvals_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    _, v = eig(primals[0])
    return diagonal_of(solve(v, matmul(like(tangents[0], v), v)))


eigvals_p = matrix_row(
    "eigvals",
    abstract_eval=_eigvals_aval,
    impl=lambda a: np.linalg.eigvals(a).astype(_complex_of(a.dtype), copy=False),
    jvp=_eigvals_jvp,
    lower=matrix_routine("eigvals"),
)


def eigvals(a: Any) -> Any:
    """Eigenvalues of square matrices; always complex."""
    return bind1(eigvals_p, a)


# -------------------------------------------------------------------------------------- svd


def _svd_aval(a: Aval, *, full: bool) -> tuple[Aval, Aval, Aval]:
    check_stack("svd", (a,))
    *stack, m, n = a.shape
    k = min(m, n)
    left, right = (m, n) if full else (k, k)
    return (
        Aval((*stack, m, left), a.dtype),
        Aval((*stack, k), real_dtype(a.dtype)),
        Aval((*stack, right, n), a.dtype),
    )


def _svd_jvp(primals: Any, outs: Any, tangents: Any, *, full: bool) -> tuple[Any, Any, Any]:
    (u, s, vh), (t,) = outs, tangents
    m, n = t.shape[-2:]
    k = min(m, n)
    u1, v1 = columns(u, 0, k), mh(rows(vh, 0, k))
    turned = matmul(mh(u1), t, v1)
    wide_row, wide_column = like(as_rows(s), t), like(as_columns(s), t)
    gaps = el.mul(el.sub(as_rows(s), as_columns(s)), el.add(as_rows(s), as_columns(s)))
    mixing = like(inverse_or_zero(gaps), t)
    right = el.mul(wide_row, turned)
    left = el.mul(wide_column, turned)
    inverse = like(inverse_or_zero(s), t)
    du = matmul(u1, el.mul(mixing, el.add(right, mh(right))))
    dv = matmul(v1, el.mul(mixing, el.add(left, mh(left))))
    if is_complex(t.dtype):
        spin = el.mul(scaled(el.sub(turned, mh(turned)), 0.5), diagonal_matrix(inverse))
        du = el.add(du, matmul(u1, spin))
    if m > k:
        over = matmul(t, v1)
        rest = el.sub(over, matmul(u1, matmul(mh(u1), over)))
        du = el.add(du, el.mul(rest, as_rows(inverse)))
        if full:
            du = concatenate(
                [du, _completed(u1, columns(u, k, m), over, inverse)], len(u.shape) - 1
            )
    if n > k:
        over = matmul(mh(t), u1)
        rest = el.sub(over, matmul(v1, matmul(mh(v1), over)))
        dv = el.add(dv, el.mul(rest, as_rows(inverse)))
        if full:
            extra = mh(rows(vh, k, n))
            dv = concatenate([dv, _completed(v1, extra, over, inverse)], len(vh.shape) - 1)
    return du, real(diagonal_of(turned)), mh(dv)


def _completed(first: Any, extra: Any, over: Any, inverse: Any) -> Any:
    """The change of the columns that complete a basis: they stay orthogonal to the others."""
    toward = el.mul(matmul(mh(extra), over), as_rows(inverse))
    return el.neg(matmul(first, mh(toward)))


svd_p = matrix_row(
    "svd",
    abstract_eval=_svd_aval,
    impl=lambda a, *, full: tuple(np.linalg.svd(a, full)),
    jvp=_svd_jvp,
    lower=matrix_routine("svd", "full"),
    multi=True,
)


def svd(a: Any, full: bool = False) -> tuple[Any, Any, Any]:
    """U, the singular values (descending) and V^H; complete bases when `full`."""
    return bind(svd_p, a, full=full)


def _svdvals_aval(a: Aval) -> Aval:
    check_stack("svdvals", (a,))
    return Aval((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype))


def _svdvals_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    u, _, vh = svd(primals[0])
    return real(diagonal_of(matmul(mh(u), tangents[0], mh(vh))))


svdvals_p = matrix_row(
    "svdvals",
    abstract_eval=_svdvals_aval,
    impl=lambda a: np.linalg.svd(a, compute_uv=False),
    jvp=_svdvals_jvp,
    lower=matrix_routine("svdvals"),
)


def svdvals(a: Any) -> Any:
    """The singular values, descending."""
    return bind1(svdvals_p, a)


# ------------------------------------------------------------------------------------- pinv


def _pinv_aval(a: Aval, share: Aval, *, hermitian: bool) -> Aval:
    check_stack("pinv", (a,), square=int(hermitian))
    return Aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _pinv_impl(a: Any, share: Any, *, hermitian: bool) -> Any:
    return np.linalg.pinv(a, rcond=share[..., 0, 0], hermitian=hermitian)


def _pinv_jvp(primals: Any, p: Any, tangents: Any, **params: Any) -> Any:
    # Golub and Pereyra (1973), for a constant rank, on which alone the share has an effect.
    a, t = primals[0], tangents[0]
    if not given(t):
        return Zero(aval_of(p).tangent())
    m, n = a.shape[-2:]
    out = el.neg(matmul(p, t, p))
    outside = el.sub(eye_like(a, m), matmul(a, p))
    out = el.add(out, matmul(p, mh(p), mh(t), outside))
    outside = el.sub(eye_like(a, n), matmul(p, a))
    return el.add(out, matmul(outside, mh(t), mh(p), p))


pinv_p = matrix_row(
    "pinv", abstract_eval=_pinv_aval, impl=_pinv_impl, jvp=_pinv_jvp, lower=pseudo_inverse
)


def pinv(a: Any, share: Any, hermitian: bool = False) -> Any:
    """The Moore-Penrose pseudo-inverses.

    Singular values below `share`, float64 of shape (*stack, 1, 1), times the largest count as 0.
    """
    return bind1(pinv_p, a, share, hermitian=hermitian)


def left_vectors(v: Any) -> Any:
    """The left eigenvectors, of length one, that belong to right ones."""
    w = mh(inv(v))
    squares = reduce_sum(el.add(el.square(el.real(w)), el.square(el.imag(w))), (len(w.shape) - 2,))
    length = like(sqrt(squares), w)
    return el.div(w, broadcast(as_rows(length), w.shape))
