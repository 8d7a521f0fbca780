"""Functions of matrices and structured systems: sqrtm, Sylvester equations, banded systems.

Input: stacks of matrices.  Output: rows beside the functions that bind them.  The derivative of
sqrtm solves a Sylvester equation.  A banded matrix is given by its diagonals, as in
`scipy.linalg.solve_banded`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.primitive import NOT_DIFFERENTIABLE, Linear, Zero
from stax.core.trace import bind, bind1
from stax.errors import ShapeError
from stax.loops import library
from stax.loops.library import matrix_routine
from stax.primitives import elementwise as el
from stax.primitives.linalg_algebra import (
    check_stack,
    given,
    matmul,
    matrix_row,
    mt,
    per_matrix,
    rows,
    total,
)
from stax.primitives.linalg_library import scipy_linalg
from stax.primitives.shapes import concatenate, pad, scalar_zero


def square_aval(op: str) -> Any:
    """The rule of types of an operation on square matrices of one shape."""

    def abstract(*avals: Aval, **params: Any) -> Aval:
        check_stack(op, avals, square=len(avals))
        return avals[0].strong()

    return abstract


# --------------------------------------------------------------------------------- Sylvester


def _sylvester_aval(a: Aval, b: Aval, q: Aval) -> Aval:
    check_stack("solve_sylvester", (a, b, q), square=2)
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"the right-hand side must be {a.shape[-1]} by {b.shape[-1]}",
            op="solve_sylvester",
            operands=[a, b, q],
        )
    return q.strong()


def _sylvester_impl(a: Any, b: Any, q: Any) -> Any:
    solver = scipy_linalg("solve_sylvester").solve_sylvester
    return per_matrix(lambda x, y, z: np.asarray(solver(x, y, z), z.dtype), a, b, q)


def _sylvester_jvp(primals: Any, x: Any, tangents: Any) -> Any:
    (a, b, _), (ta, tb, tq) = primals, tangents
    right = total(
        tq if given(tq) else None,
        el.neg(matmul(ta, x)) if given(ta) else None,
        el.neg(matmul(x, tb)) if given(tb) else None,
    )
    return solve_sylvester(a, b, right)


def _sylvester_transpose(ct: Any, a: Any, b: Any, q: Any) -> tuple[Any, Any, Any]:
    assert isinstance(q, Linear)
    if isinstance(ct, Zero):
        return None, None, Zero(q.aval)
    return None, None, solve_sylvester(mt(a), mt(b), ct)


sylvester_p = matrix_row(
    "solve_sylvester",
    abstract_eval=_sylvester_aval,
    impl=_sylvester_impl,
    jvp=_sylvester_jvp,
    transpose=_sylvester_transpose,
    lower=matrix_routine("solve_sylvester", wide=False),
)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The matrices X of a X + X b = q."""
    return bind1(sylvester_p, a, b, q)


def _sqrtm_impl(a: Any) -> Any:
    root = scipy_linalg("sqrtm").sqrtm

    def one(matrix: Any) -> Any:
        if not np.isfinite(matrix).all():
            return np.full_like(matrix, np.nan * (1 + 1j) if matrix.dtype.kind == "c" else np.nan)
        found = np.asarray(root(matrix))
        if found.dtype.kind == "c" and matrix.dtype.kind != "c":
            if np.any(np.abs(found.imag) > 1e-7 * max(1.0, float(np.max(np.abs(found))))):
                raise np.linalg.LinAlgError(
                    "the matrix has no real square root; give it as complex: sqrtm(a + 0j)"
                )
            found = found.real
        return found.astype(matrix.dtype, copy=False)

    return per_matrix(one, a)


sqrtm_p = matrix_row(
    "sqrtm",
    abstract_eval=square_aval("sqrtm"),
    impl=_sqrtm_impl,
    jvp=lambda primals, out, tangents: solve_sylvester(out, out, tangents[0]),
    lower=matrix_routine("sqrtm"),
)


def sqrtm(a: Any) -> Any:
    """The principal square roots of square matrices, in their dtype."""
    return bind1(sqrtm_p, a)


# ------------------------------------------------------------------------------------- Schur


def _schur_aval(a: Aval, *, complex_form: bool) -> tuple[Aval, Aval]:
    check_stack("schur", (a,), square=1)
    dtype = np.dtype(np.result_type(a.dtype, np.complex64)) if complex_form else a.dtype
    return Aval(a.shape, dtype), Aval(a.shape, dtype)


def _schur_impl(a: Any, *, complex_form: bool) -> tuple[Any, Any]:
    form = scipy_linalg("schur").schur
    kind = "complex" if complex_form else "real"
    pair: tuple[Any, Any] = per_matrix(lambda x: tuple(form(x, kind)), a)
    return pair


schur_p = matrix_row(
    "schur",
    abstract_eval=_schur_aval,
    impl=_schur_impl,
    jvp=NOT_DIFFERENTIABLE,
    lower=library.schur,
    multi=True,
)


def schur(a: Any, complex_form: bool = False) -> tuple[Any, Any]:
    """The Schur form T and its vectors Z, a = Z T Z^H; it has no derivative here."""
    return bind(schur_p, a, complex_form=complex_form)


def _hessenberg_aval(a: Aval) -> tuple[Aval, Aval]:
    check_stack("hessenberg", (a,), square=1)
    return a.strong(), a.strong()


def _hessenberg_impl(a: Any) -> tuple[Any, Any]:
    form = scipy_linalg("hessenberg").hessenberg

    def one(x: Any) -> tuple[Any, Any]:
        h, q = form(x, calc_q=True)
        return h, q.astype(x.dtype, copy=False)  # of two rows SciPy gives q in float64

    pair: tuple[Any, Any] = per_matrix(one, a)
    return pair


hessenberg_p = matrix_row(
    "hessenberg",
    abstract_eval=_hessenberg_aval,
    impl=_hessenberg_impl,
    jvp=NOT_DIFFERENTIABLE,
    lower=matrix_routine("hessenberg", wide=False),
    multi=True,
)


def hessenberg(a: Any) -> tuple[Any, Any]:
    """The Hessenberg form H and its vectors Q, a = Q H Q^H; it has no derivative here."""
    return bind(hessenberg_p, a)


# ------------------------------------------------------------------------------------ banded


def _banded_aval(bands: Aval, b: Aval, *, lower: int, upper: int) -> Aval:
    check_stack("solve_banded", (bands, b))
    if bands.shape[-2] != lower + upper + 1 or bands.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"a matrix of {lower} lower and {upper} upper diagonals is given as "
            f"{lower + upper + 1} rows of {b.shape[-2]} here",
            op="solve_banded",
            operands=[bands, b],
        )
    return b.strong()


def _banded_impl(bands: Any, b: Any, *, lower: int, upper: int) -> Any:
    solver = scipy_linalg("solve_banded").solve_banded

    def one(m: Any, x: Any) -> Any:
        if m.shape[-1] == 1:  # SciPy takes row 1 for the diagonal
            return x / m[upper]
        return np.asarray(solver((lower, upper), m, x, check_finite=False), x.dtype)

    return per_matrix(one, bands, b)


def banded_product(bands: Any, x: Any, lower: int, upper: int) -> Any:
    """The banded matrix times `x`: row k of `bands` is diagonal upper - k, aligned by column."""
    n = x.shape[-2]
    flat = (0,) * (len(x.shape) - 2)
    out = None
    for k in range(lower + upper + 1):
        offset = upper - k
        if abs(offset) >= n:
            continue
        band = mt(rows(bands, k, k + 1))
        moved = el.mul(band, x)
        # Column j of diagonal d stands in row j - d.
        zero = scalar_zero(x.dtype)
        moved = pad(moved, zero, (*flat, -offset, 0), (*flat, offset, 0))
        out = moved if out is None else el.add(out, moved)
    return out


def transposed_bands(bands: Any, lower: int, upper: int) -> Any:
    """The diagonals of the transposed matrix."""
    n = bands.shape[-1]
    flat = (0,) * (len(bands.shape) - 2)
    parts = []
    for k in range(lower + upper, -1, -1):
        offset = max(-n, min(n, upper - k))
        band = rows(bands, k, k + 1)
        zero = scalar_zero(bands.dtype)
        parts.append(pad(band, zero, (*flat, 0, -offset), (*flat, 0, offset)))
    return concatenate(parts, len(bands.shape) - 2)


def _banded_jvp(primals: Any, x: Any, tangents: Any, *, lower: int, upper: int) -> Any:
    (bands, _), (tm, tb) = primals, tangents
    change = el.neg(banded_product(tm, x, lower, upper)) if given(tm) else None
    return solve_banded(bands, total(tb if given(tb) else None, change), lower, upper)


def _banded_transpose(ct: Any, bands: Any, b: Any, *, lower: int, upper: int) -> tuple[Any, Any]:
    assert isinstance(b, Linear)
    if isinstance(ct, Zero):
        return None, Zero(b.aval)
    return None, solve_banded(transposed_bands(bands, lower, upper), ct, upper, lower)


banded_p = matrix_row(
    "solve_banded",
    abstract_eval=_banded_aval,
    impl=_banded_impl,
    jvp=_banded_jvp,
    transpose=_banded_transpose,
    lower=matrix_routine("solve_banded", "lower", "upper", wide=False),
    cost=lambda in_avals, out_avals, params: 8 * in_avals[0].size,
)


def solve_banded(bands: Any, b: Any, lower: int, upper: int) -> Any:
    """The X of A X = b for a banded A, given by its diagonals from the uppermost down."""
    return bind1(banded_p, bands, b, lower=lower, upper=upper)
