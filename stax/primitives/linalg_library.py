"""The library routines behind linear algebra that NumPy lacks, one matrix at a time.

Input: NumPy matrices.  Output: solutions of triangular systems and LU factors.  SciPy's LAPACK
computes them where SciPy is installed; NumPy does otherwise, more slowly.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from stax.errors import StaxError

Matrix = Any


@functools.cache
def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def scipy_linalg(op: str) -> Any:
    """`scipy.linalg`.

    Raises:
      StaxError: SciPy is not installed.
    """
    module = _module("scipy.linalg")
    if module is None:
        raise StaxError("needs SciPy, which is not installed", op=op, hint="pip install scipy")
    return module


def triangular_matrix_solve(a: Matrix, b: Matrix, left: bool, lower: bool, unit: bool) -> Matrix:
    """The X of a X = b (X a = b unless `left`), `a` triangular, the other triangle not read."""
    if b.size == 0 or a.size == 0:
        return np.zeros_like(b)
    blas = _module("scipy.linalg.blas")
    if blas is not None:
        trsm = getattr(blas, {"f": "s", "d": "d", "F": "c", "D": "z"}[a.dtype.char] + "trsm")
        return trsm(1.0, a, b, side=0 if left else 1, lower=int(lower), diag=int(unit))
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(a, 1)
    if left:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a.T, b.T).T


def lu_matrix(a: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """L and U packed in one matrix, the row exchanges, and the permutation they make."""
    m = a.shape[0]
    lapack = _module("scipy.linalg.lapack")
    if lapack is not None and a.size:
        getrf = getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[a.dtype.char] + "getrf")
        packed, pivots, _ = getrf(a)
    else:
        packed, pivots = _eliminated(a)
    order = np.arange(m, dtype=np.int32)
    for k, p in enumerate(pivots):
        order[[k, p]] = order[[p, k]]
    return packed, np.asarray(pivots, np.int32), order


def _eliminated(a: Matrix) -> tuple[Matrix, Matrix]:
    """Gaussian elimination with row exchanges."""
    a = np.array(a)
    m, n = a.shape
    pivots = np.zeros(min(m, n), np.int32)
    for k in range(min(m, n)):
        p = pivots[k] = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, p]] = a[[p, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


# Coefficients of the Pade approximant of order 13 (Higham 2005, table 10.4), without SciPy.
PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
PADE_RADIUS = 5.4


def exponential(a: Matrix) -> Matrix:
    """The exponential of a matrix."""
    module = _module("scipy.linalg")
    if module is not None:
        return np.asarray(module.expm(a)).astype(a.dtype, copy=False)
    norm = float(np.linalg.norm(a, 1)) if a.size else 0.0
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300) / PADE_RADIUS))))
    x = a / 2.0**halvings
    even, odd = np.zeros_like(x), np.zeros_like(x)
    power = np.eye(x.shape[0], dtype=x.dtype)
    for k in range(0, 14, 2):
        even = even + PADE[k] * power
        odd = odd + PADE[k + 1] * power
        power = power @ x @ x
    odd = x @ odd
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        out = out @ out
    return out.astype(a.dtype, copy=False)
