"""`numpy.linalg` systems: solve, inv, det, slogdet, lstsq, pinv, matrix_power, tensorsolve.

Input: stacks of matrices and right-hand sides.  Output: NumPy's results.  A singular matrix raises
`LinAlgError` when the computation runs.  Traced `lstsq` always returns the sums of squared
residuals, since whether NumPy would depends on the rank.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy import reductions as rd
from stax.numpy.inexact import as_library_takes_them
from stax.numpy.linalg.operands import Array, common_stack, matrices
from stax.numpy.registration import (
    NoValue,
    broadcast_to_shape,
    converted,
    implements,
    operand,
)
from stax.numpy.ufuncs import greater, less, multiply
from stax.primitives import elementwise as el
from stax.primitives import linalg_solve as systems
from stax.primitives import linalg_spectral as spectral
from stax.primitives.linalg_algebra import eye_like, matmul, real_dtype, stacked
from stax.primitives.views import move_axis, reduce_sum, reshape

__all__ = [
    "det",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "slogdet",
    "solve",
    "tensorinv",
    "tensorsolve",
]

SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))


@implements(np.linalg.solve)
def solve(a: Array, b: Array) -> Array:
    """The x of a x = b; a one-dimensional `b` is one vector; as `numpy.linalg.solve`."""
    x, y = as_library_takes_them("solve", a, b)
    vector = len(y.shape) == 1
    if vector:
        y = reshape(y, (*y.shape, 1))
    x, y = common_stack("solve", matrices("solve", x, y))
    out = systems.solve(x, y)
    return reshape(out, out.shape[:-1]) if vector else out


@implements(np.linalg.inv)
def inv(a: Array) -> Array:
    """The inverse; as `numpy.linalg.inv`."""
    return systems.inv(*matrices("inv", a))


@implements(np.linalg.det)
def det(a: Array) -> Array:
    """The determinant; as `numpy.linalg.det`."""
    return systems.det(*matrices("det", a))


@implements(np.linalg.slogdet)
def slogdet(a: Array) -> Any:
    """Sign and logarithm of the absolute value of the determinant; as `numpy.linalg.slogdet`."""
    return SlogdetResult(*systems.slogdet(*matrices("slogdet", a)))


def _per_matrix(value: Any, op: str) -> Any:
    """A number for each matrix of a stack, or one for all, as an array that its values broadcast.

    >>> _per_matrix(np.array([0.5, 2.0]), "pinv").shape
    (2, 1)
    """
    v = operand(value, op)
    return reshape(v, (*v.shape, 1)) if v.shape else v


def _share(value: Any, x: Array, op: str) -> Array:
    """`value`, one number or one for each matrix of `x`, as `spectral.pinv` takes it."""
    v = _per_matrix(_per_matrix(converted(operand(value, op), np.dtype(np.float64)), op), op)
    return broadcast_to_shape(v, (*x.shape[:-2], 1, 1))


@implements(np.linalg.pinv)
def pinv(a: Array, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NoValue) -> Array:
    """The pseudo-inverse; its derivative takes the rank as constant; as `numpy.linalg.pinv`."""
    (x,) = matrices("pinv", a)
    if rcond is None or rcond is NoValue:
        if rtol is NoValue:
            rcond = 1e-15
        elif rtol is None:
            rcond = max(x.shape[-2:]) * float(np.finfo(real_dtype(x.dtype)).eps)
        else:
            rcond = rtol
    return spectral.pinv(x, _share(rcond, x, "pinv"), bool(hermitian))


@implements(np.linalg.lstsq)
def lstsq(a: Array, b: Array, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """Least squares: solution, squared residuals, rank, singular values; `numpy.linalg.lstsq`."""
    x, y = as_library_takes_them("lstsq", a, b)
    vector = len(y.shape) == 1
    if vector:
        y = reshape(y, (*y.shape, 1))
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[0] != y.shape[0]:
        raise ShapeError(
            "needs a matrix and right-hand sides with as many rows",
            op="lstsq",
            operands=[str(aval_of(x)), str(aval_of(y))],
            where=user_source() or None,
        )
    eps = float(np.finfo(real_dtype(x.dtype)).eps)
    cutoff = converted(
        operand(max(x.shape) * eps if rcond is None else rcond, "lstsq"), np.dtype(np.float64)
    )
    cutoff = el.select(less(cutoff, 0.0), np.float64(eps), cutoff)
    values = spectral.svdvals(x)
    largest = rd.max(values, initial=0.0)
    rank = rd.sum(
        greater(values, multiply(largest, converted(cutoff, values.dtype))), dtype=np.int32
    )
    solution = matmul(spectral.pinv(x, _share(cutoff, x, "lstsq")), y)
    misfit = el.sub(y, matmul(x, solution))
    squares = _absolute_square(misfit)
    residuals = reduce_sum(squares, (0,))
    if x.shape[0] <= x.shape[1]:
        residuals = np.zeros((0,), real_dtype(x.dtype))
    if vector:
        solution = reshape(solution, solution.shape[:1])
    return solution, residuals, rank, values


def _absolute_square(x: Array) -> Array:
    if x.dtype.kind != "c":
        return el.square(x)
    return el.add(el.square(el.real(x)), el.square(el.imag(x)))


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Array, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The number of singular values above a tolerance; as `numpy.linalg.matrix_rank`."""
    x = operand(A, "matrix_rank")
    if len(x.shape) < 2:
        return converted(rd.any_(x), np.dtype(np.int64))
    (x,) = matrices("matrix_rank", x)
    values = el.abs_(spectral.eigvalsh(x)) if hermitian else spectral.svdvals(x)
    if tol is None:
        if rtol is None:
            rtol = max(x.shape[-2:]) * np.finfo(values.dtype).eps
        largest = rd.max(values, axis=-1, keepdims=True, initial=0.0)
        tol = multiply(largest, _per_matrix(rtol, "matrix_rank"))
    else:
        tol = _per_matrix(tol, "matrix_rank")
    return rd.count_nonzero(greater(values, tol), axis=-1)


@implements(np.linalg.matrix_power, shares=True)
def matrix_power(a: Array, n: int) -> Array:
    """The n-th power of square matrices, negative n included; as `numpy.linalg.matrix_power`."""
    power = operator.index(n)
    x = operand(a, "matrix_power")
    if power < 0 or len(x.shape) < 2:
        (x,) = matrices("matrix_power", x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            "the last two dimensions of the array must be square",
            op="matrix_power",
            operands=[str(aval_of(x))],
            where=user_source() or None,
        )
    if power == 0:
        return stacked(eye_like(x), x.shape[:-2])
    if power < 0:
        x, power = systems.inv(x), -power
    if power == 3:
        return matmul(x, x, x)
    result = None
    while True:
        if power & 1:
            result = x if result is None else matmul(result, x)
        power >>= 1
        if not power:
            return result
        x = matmul(x, x)


@implements(np.linalg.tensorinv)
def tensorinv(a: Array, ind: int = 2) -> Array:
    """The inverse of `a` as a map of tensors; as `numpy.linalg.tensorinv`."""
    (x,) = as_library_takes_them("tensorinv", a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    matrix = reshape(x, (math.prod(x.shape[:ind]), math.prod(x.shape[ind:])))
    return reshape(inv(matrix), (*x.shape[ind:], *x.shape[:ind]))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Array, b: Array, axes: Any = None) -> Array:
    """The x of tensordot(a, x) = b; as `numpy.linalg.tensorsolve`."""
    x, y = as_library_takes_them("tensorsolve", a, b)
    if axes is not None:
        n = len(x.shape)
        for k in axes:
            x = move_axis(x, k % n, n - 1)
    unknown = x.shape[len(y.shape) :]
    size = math.prod(unknown)
    if aval_of(x).size != size * aval_of(y).size or aval_of(y).size != size:
        raise ShapeError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            "prod(a.shape[:b.ndim])",
            op="tensorsolve",
            operands=[str(aval_of(x)), str(aval_of(y))],
            where=user_source() or None,
        )
    return reshape(solve(reshape(x, (size, size)), reshape(y, (size,))), unknown)
