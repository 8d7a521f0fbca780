"""`numpy.linalg` decompositions: cholesky, qr, svd, eigh, eig and their values.

Input: stacks of matrices.  Output: NumPy's results (named tuples where NumPy has them).  Traced
`eig` and `eigvals` are always complex, since the dtype of a traced result cannot depend on values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.source import user_source
from stax.errors import StaxError
from stax.numpy.linalg.operands import Array, matrices
from stax.numpy.registration import implements
from stax.primitives import elementwise as el
from stax.primitives import linalg_factor as factor
from stax.primitives import linalg_spectral as spectral
from stax.primitives.linalg_algebra import as_rows, mh
from stax.primitives.shapes import iota
from stax.primitives.sorting import sort, taken_along
from stax.primitives.views import broadcast, rev

__all__ = [
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "qr",
    "svd",
    "svdvals",
]

_ONE = np.eye(1)
EighResult: Any = type(np.linalg.eigh(_ONE))
EigResult: Any = type(np.linalg.eig(_ONE))
QRResult: Any = type(np.linalg.qr(_ONE))
SVDResult: Any = type(np.linalg.svd(_ONE))


@implements(np.linalg.cholesky)
def cholesky(a: Array, /, *, upper: bool = False) -> Array:
    """The factor L of a = L L^H (U of a = U^H U when `upper`); as `numpy.linalg.cholesky`."""
    (x,) = matrices("cholesky", a)
    return mh(factor.cholesky(mh(x))) if upper else factor.cholesky(x)


@implements(np.linalg.qr)
def qr(a: Array, mode: str = "reduced") -> Any:
    """Q and R of a = Q R, or R alone with mode "r"; as `numpy.linalg.qr`."""
    if mode not in ("reduced", "complete", "r"):
        raise StaxError(
            f"mode {mode!r} is not traced",
            op="qr",
            where=user_source() or None,
            hint="use mode='reduced', 'complete' or 'r'",
        )
    (x,) = matrices("qr", a)
    q, r = factor.qr(x, complete=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@implements(np.linalg.svd)
def svd(
    a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """The singular value decomposition; as `numpy.linalg.svd`."""
    (x,) = matrices("svd", a)
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    if not compute_uv:
        return spectral.svdvals(x)
    return SVDResult(*spectral.svd(x, full=bool(full_matrices)))


def _hermitian_svd(x: Array, compute_uv: bool) -> Any:
    if not compute_uv:
        (values,) = sort((el.abs_(spectral.eigvalsh(x)),), len(x.shape) - 2)
        return rev(values, (len(values.shape) - 1,))
    w, v = spectral.eigh(x)
    last = len(w.shape) - 1
    _, order = sort((el.neg(el.abs_(w)), iota(w.shape, last)), last)
    s = taken_along(w, order, last, "promise")
    u = taken_along(v, broadcast(as_rows(order), v.shape), last + 1, "promise")
    signs = spectral.like(el.sign_or_one(s), u)
    return SVDResult(u, el.abs_(s), mh(el.mul(u, as_rows(signs))))


@implements(np.linalg.svdvals)
def svdvals(x: Array, /) -> Array:
    """The singular values, descending; as `numpy.linalg.svdvals`."""
    return spectral.svdvals(*matrices("svdvals", x))


def _is_lower(uplo: str) -> bool:
    uplo = uplo.upper()
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo == "L"


@implements(np.linalg.eigh)
def eigh(a: Array, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices; as `numpy.linalg.eigh`."""
    (x,) = matrices("eigh", a)
    return EighResult(*spectral.eigh(x, _is_lower(UPLO)))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Array, UPLO: str = "L") -> Array:
    """Eigenvalues of Hermitian matrices; as `numpy.linalg.eigvalsh`."""
    (x,) = matrices("eigvalsh", a)
    return spectral.eigvalsh(x, _is_lower(UPLO))


@implements(np.linalg.eig)
def eig(a: Array) -> Any:
    """Eigenvalues and eigenvectors of square matrices, complex when traced; `numpy.linalg.eig`."""
    return EigResult(*spectral.eig(*matrices("eig", a)))


@implements(np.linalg.eigvals)
def eigvals(a: Array) -> Array:
    """Eigenvalues of square matrices, complex when traced; as `numpy.linalg.eigvals`."""
    return spectral.eigvals(*matrices("eigvals", a))
