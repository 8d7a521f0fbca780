"""Triangular and orthogonal factorisations: cholesky, lu, qr.

Input: stacks of matrices.  Output: rows beside the functions that bind them.  Derivatives are the
standard ones in triangular form: solve with the factors, keep one triangle, multiply back.
Cholesky reads the lower triangle, as NumPy does; its derivative takes the Hermitian part of the
tangent, so that gradients are Hermitian.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.primitive import (
    NONLINEAR,
    ZERO_DERIVATIVE,
    Primitive,
    Recompute,
    Zero,
)
from stax.core.trace import bind, bind1
from stax.dtypes import is_complex
from stax.errors import ShapeError
from stax.loops import library
from stax.loops.library import matrix_routine
from stax.primitives import elementwise as el
from stax.primitives.families_arrays import output_cost
from stax.primitives.linalg_algebra import (
    as_columns,
    check_stack,
    columns,
    diagonal_matrix,
    diagonal_of,
    eye_like,
    hermitian_part,
    matmul,
    matrix_row,
    mh,
    per_matrix,
    rows,
    scaled,
    tril,
    triu,
)
from stax.primitives.linalg_library import lu_matrix
from stax.primitives.linalg_solve import triangular_solve
from stax.primitives.shapes import concatenate, pad, scalar_zero, zeros
from stax.primitives.sorting import taken_along
from stax.primitives.views import broadcast, move_axis

INT32 = np.dtype(np.int32)


def _cholesky_aval(a: Aval) -> Aval:
    check_stack("cholesky", (a,), square=1)
    return a.strong()


def _cholesky_jvp(primals: Any, factor: Any, tangents: Any) -> Any:
    change = triangular_solve(factor, hermitian_part(tangents[0]), lower=True)
    change = triangular_solve(
        factor, change, left=False, lower=True, transposed=True, conjugated=True
    )
    half = el.sub(tril(change), scaled(diagonal_matrix(diagonal_of(change)), 0.5))
    return matmul(factor, half)


cholesky_p = matrix_row(
    "cholesky",
    abstract_eval=_cholesky_aval,
    impl=lambda a: np.linalg.cholesky(a),
    jvp=_cholesky_jvp,
    lower=matrix_routine("cholesky"),
)


def cholesky(a: Any) -> Any:
    """The lower triangular factors L of a = L L^H; LinAlgError unless positive definite."""
    return bind1(cholesky_p, a)


# ----------------------------------------------------------------------------------------- lu


def _lu_aval(a: Aval) -> tuple[Aval, Aval, Aval]:
    check_stack("lu", (a,))
    m, n = a.shape[-2:]
    stack = a.shape[:-2]
    return a.strong(), Aval((*stack, min(m, n)), INT32), Aval((*stack, m), INT32)


def _lu_jvp(primals: Any, outs: Any, tangents: Any) -> tuple[Any, Any, Any]:
    packed, pivots, order = outs
    stack, (m, n) = packed.shape[:-2], packed.shape[-2:]
    k = min(m, n)
    wide = (*stack, m, n)
    change = taken_along(
        tangents[0], broadcast(as_columns(order), wide), len(wide) - 2, mode="promise"
    )
    nothing, flat = scalar_zero(packed.dtype), (0,) * len(stack)
    left = tril(columns(packed, 0, k), -1)
    left = pad(left, nothing, (*flat, 0, 0), (*flat, 0, m - k))
    left = el.add(left, eye_like(packed, m))
    right = pad(triu(rows(packed, 0, k)), nothing, (*flat, 0, 0), (*flat, n - k, 0))
    tail = np.diag(np.arange(n) >= k).astype(packed.dtype)
    right = el.add(right, tail)
    middle = triangular_solve(left, change, lower=True, unit=True)
    middle = triangular_solve(right, middle, left=False)
    below = matmul(left, tril(middle, -1))
    above = matmul(triu(middle), right)
    none = Zero(Aval(pivots.shape, INT32).tangent()), Zero(Aval(order.shape, INT32).tangent())
    return el.add(below, above), *none


lu_p = matrix_row(
    "lu",
    abstract_eval=_lu_aval,
    impl=lambda a: per_matrix(lu_matrix, a),
    jvp=_lu_jvp,
    lower=matrix_routine("lu", wide=False),
    multi=True,
)


def lu(a: Any) -> tuple[Any, Any, Any]:
    """L and U packed in one matrix, the row exchanges (LAPACK's, from 0), and the permutation."""
    return bind(lu_p, a)


def _permutation_aval(pivots: Aval, *, size: int) -> Aval:
    if pivots.dtype.kind not in "iu" or not pivots.shape or pivots.shape[-1] > size:
        raise ShapeError(
            f"needs integer exchanges of at most {size} rows", op="permutation", operands=[pivots]
        )
    return Aval((*pivots.shape[:-1], size), INT32)


def _permutation_impl(pivots: Any, *, size: int) -> Any:
    stack, count = pivots.shape[:-1], pivots.shape[-1]
    order = np.tile(np.arange(size, dtype=np.int32), (*stack, 1))
    for k in range(count):
        p = pivots[..., k, None].astype(np.int64)
        here, there = order[..., k, None].copy(), np.take_along_axis(order, p, -1)
        order[..., k, None] = there
        np.put_along_axis(order, p, here, -1)
    return order


def _permutation_batch(args: Any, dims: Any, *, size: int) -> tuple[Any, int]:
    return permutation_of(move_axis(args[0], dims[0], 0), size), 0


permutation_p = Primitive(
    "permutation_of_exchanges",
    family="linalg",
    abstract_eval=_permutation_aval,
    impl=_permutation_impl,
    jvp=ZERO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=_permutation_batch,
    lower=library.permutation,
    cost=output_cost,
    recompute=Recompute.EXPENSIVE,
)


def permutation_of(pivots: Any, size: int) -> Any:
    """The permutation of `size` rows that the exchanges of row k with pivots[k] make."""
    return bind1(permutation_p, pivots, size=size)


# ----------------------------------------------------------------------------------------- qr


def _qr_aval(a: Aval, *, complete: bool) -> tuple[Aval, Aval]:
    check_stack("qr", (a,))
    *stack, m, n = a.shape
    k = m if complete else min(m, n)
    return Aval((*stack, m, k), a.dtype), Aval((*stack, k, n), a.dtype)


def _qr_impl(a: Any, *, complete: bool) -> tuple[Any, Any]:
    q, r = np.linalg.qr(a, mode="complete" if complete else "reduced")
    return q, r


def _qr_jvp(primals: Any, outs: Any, tangents: Any, *, complete: bool) -> tuple[Any, Any]:
    (q, r), (t,) = outs, tangents
    m, n = primals[0].shape[-2:]
    k = min(m, n)
    turned = matmul(mh(q), t)
    head = columns(t, 0, k)
    over = triangular_solve(rows(columns(r, 0, k), 0, k), head, left=False)
    square = matmul(mh(columns(q, 0, k)), over)
    below = tril(square, -1)
    # The rotation of the columns: its lower triangle is given, the rest makes it anti-Hermitian.
    rotation = el.sub(below, mh(below))
    if is_complex(square.dtype):
        d = diagonal_of(square)
        rotation = el.add(rotation, diagonal_matrix(_imaginary(d)))
    if complete and m > k:
        lower = matmul(mh(columns(q, k, m)), over)
        left = concatenate([rotation, lower], len(q.shape) - 2)
        corner = zeros((*q.shape[:-2], m - k, m - k), q.dtype)
        right = concatenate([el.neg(mh(lower)), corner], len(q.shape) - 2)
        rotation = concatenate([left, right], len(q.shape) - 1)
        dq = matmul(q, rotation)
        return dq, triu(el.sub(turned, matmul(rotation, r)))
    dq = matmul(q, rotation)
    if m > k:
        dq = el.add(dq, el.sub(over, matmul(q, square)))
    return dq, triu(el.sub(turned, matmul(rotation, r)))


def _imaginary(x: Any) -> Any:
    return scaled(el.sub(x, el.conj(x)), 0.5)


qr_p = matrix_row(
    "qr",
    abstract_eval=_qr_aval,
    impl=_qr_impl,
    jvp=_qr_jvp,
    lower=matrix_routine("qr", "complete"),
    multi=True,
)


def qr(a: Any, complete: bool = False) -> tuple[Any, Any]:
    """Q with orthonormal columns (all of them when `complete`) and the upper triangular R.

    Raises:
      ShapeError: `a` is not a stack of matrices.
    """
    return bind(qr_p, a, complete=complete)
