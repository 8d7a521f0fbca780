"""`stax.scipy.linalg`: SciPy's linear algebra on arrays and traced values.

Input: SciPy's arguments (`overwrite_*` and `check_finite` are accepted and have no effect).
Output: compositions of the linear-algebra primitives, with derivatives and batching over leading
axes.  Functions of whole numbers alone (`hilbert`, `dft`, ...) are SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.errors import ShapeError, StaxError
from stax.lax.linalg import triangular_solve
from stax.numpy.creation import zeros
from stax.numpy.inexact import inexact
from stax.numpy.linalg import det as det
from stax.numpy.linalg import inv as inv
from stax.numpy.linalg import svd as numpy_svd
from stax.numpy.linalg.operands import common_stack, matrices
from stax.numpy.linalg.systems import solve as numpy_solve
from stax.numpy.manipulation import concatenate
from stax.numpy.promotion import coerce
from stax.numpy.registration import operand as as_operand
from stax.numpy.registration import refuse_unread
from stax.primitives import elementwise as el
from stax.primitives import linalg_factor as factor
from stax.primitives import linalg_functions as functions
from stax.primitives import linalg_solve as systems
from stax.primitives import linalg_spectral as spectral
from stax.primitives.casts import convert
from stax.primitives.families import literal
from stax.primitives.indexing import gather
from stax.primitives.linalg_algebra import (
    as_columns,
    as_rows,
    conj,
    diagonal_matrix,
    diagonal_of,
    eye_like,
    hermitian_part,
    matmul,
    mh,
    mt,
    rows,
    tril,
    triu,
)
from stax.primitives.linalg_library import scipy_linalg
from stax.primitives.reductions import reduce_max
from stax.primitives.shapes import iota, pad, scalar_zero, slice_axis
from stax.primitives.sorting import taken_along
from stax.primitives.views import broadcast, reduce_sum, reshape, rev
from stax.transforms import matrix_exponential as exponentials

Array = Any


def cholesky(a: Array, lower: bool = False, **others: Any) -> Array:
    """The factor U of a = U^H U, or L of a = L L^H when `lower`."""
    refuse_unread("cholesky", others)
    (x,) = matrices("cholesky", a)
    return factor.cholesky(x) if lower else mh(factor.cholesky(mh(x)))


def cho_factor(a: Array, lower: bool = False, **others: Any) -> tuple[Array, bool]:
    """The Cholesky factor and `lower`, for `cho_solve`; the other triangle is zero."""
    refuse_unread("cho_factor", others)
    return cholesky(a, lower), lower


def _solved(op: str, a: Array, b: Array, solver: Callable[[Array, Array], Array]) -> Array:
    """`solver` on matrices; a right-hand side with one axis less is a vector."""
    x, y = inexact(op, a, b)
    vector = len(y.shape) == 1
    if vector:
        y = reshape(y, (*y.shape, 1))
    x, y = common_stack(op, matrices(op, x, y))
    out = solver(x, y)
    return reshape(out, out.shape[:-1]) if vector else out


def cho_solve(c_and_lower: tuple[Array, bool], b: Array, **others: Any) -> Array:
    """The x of a x = b, given the factor of `a` that `cho_factor` returned."""
    refuse_unread("cho_solve", others)
    c, lower = c_and_lower

    def solver(x: Array, y: Array) -> Array:
        first = {"transposed": not lower, "conjugated": not lower}
        second = {"transposed": bool(lower), "conjugated": bool(lower)}
        y = systems.triangular_solve(x, y, lower=bool(lower), **first)
        return systems.triangular_solve(x, y, lower=bool(lower), **second)

    return _solved("cho_solve", c, b, solver)


def solve_triangular(
    a: Array,
    b: Array,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    **others: Any,
) -> Array:
    """The x of op(a) x = b; `trans` is 0 or "N", 1 or "T", 2 or "C".

    It is infinite where `a` is singular.
    """
    refuse_unread("solve_triangular", others)
    kinds = {0: (False, False), 1: (True, False), 2: (True, True)}
    kinds_by_name = {"N": kinds[0], "T": kinds[1], "C": kinds[2]}
    found = kinds_by_name.get(trans) if isinstance(trans, str) else kinds.get(int(trans))
    if found is None:
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return _solved(
        "solve_triangular",
        a,
        b,
        lambda x, y: triangular_solve(
            x,
            y,
            left_side=True,
            lower=lower,
            transpose_a=found[0],
            conjugate_a=found[1],
            unit_diagonal=unit_diagonal,
        ),
    )


def solve(
    a: Array,
    b: Array,
    lower: bool = False,
    *,
    assume_a: str = "gen",
    transposed: bool = False,
    **others: Any,
) -> Array:
    """The x of a x = b, or of a^T x = b; with `assume_a="pos"` by Cholesky.

    Of a symmetric or positive definite matrix only the triangle that `lower` names is read.
    """
    refuse_unread("solve", others)
    if transposed:
        flipped = {"upper triangular": "lower triangular", "lower triangular": "upper triangular"}
        (x,) = matrices("solve", a)
        return solve(mt(x), b, not lower, assume_a=flipped.get(assume_a, assume_a))
    if assume_a in ("pos", "positive definite"):
        return cho_solve(cho_factor(a, lower), b)
    if assume_a in ("sym", "her", "symmetric", "hermitian"):
        (x,) = matrices("solve", a)
        other = mh if assume_a in ("her", "hermitian") else mt
        half = tril(x, -1) if lower else triu(x, 1)
        kept = tril(triu(x))
        return numpy_solve(el.add(el.add(half, other(half)), kept), b)
    if assume_a in ("upper triangular", "lower triangular"):
        return solve_triangular(a, b, lower=assume_a.startswith("lower"))
    return numpy_solve(a, b)


# ------------------------------------------------------------------------------------------ lu


def lu_factor(a: Array, **others: Any) -> tuple[Array, Array]:
    """L and U packed in one matrix, and LAPACK's row exchanges."""
    refuse_unread("lu_factor", others)
    packed, pivots, _ = factor.lu(*matrices("lu_factor", a))
    return packed, pivots


def lu_solve(lu_and_piv: tuple[Array, Array], b: Array, trans: int = 0, **others: Any) -> Array:
    """The x of a x = b (a^T x = b with trans=1, a^H x = b with 2), given `lu_factor(a)`."""
    refuse_unread("lu_solve", others)
    packed, pivots = lu_and_piv
    order = factor.permutation_of(as_operand(pivots, "lu_solve"), packed.shape[-1])
    if trans not in (0, 1, 2):
        raise ValueError(f"trans must be 0, 1 or 2, got {trans!r}")

    def solver(x: Array, y: Array) -> Array:
        places = broadcast(as_columns(order), y.shape)
        if trans == 0:
            y = taken_along(y, places, len(y.shape) - 2, "promise")
            y = systems.triangular_solve(x, y, lower=True, unit=True)
            return systems.triangular_solve(x, y)
        conjugated = trans == 2 and x.dtype.kind == "c"
        options: dict[str, Any] = {"transposed": True, "conjugated": conjugated}
        y = systems.triangular_solve(x, y, **options)
        y = systems.triangular_solve(x, y, lower=True, unit=True, **options)
        back = broadcast(as_columns(_inverse_permutation(order)), y.shape)
        return taken_along(y, back, len(y.shape) - 2, "promise")

    return _solved("lu_solve", packed, b, solver)


def _inverse_permutation(order: Array) -> Array:
    """Where each number stands in a permutation (stacks of them along leading axes)."""
    n = order.shape[-1]
    numbers = iota((*order.shape, n), len(order.shape), aval_of(order).dtype)
    found = el.eq(as_columns(order), numbers)
    places = iota((*order.shape, n), len(order.shape) - 1, np.int64)
    picked = el.select(found, places, np.int64(0))
    return reduce_sum(picked, (len(order.shape) - 1,))


def lu(a: Array, permute_l: bool = False, *, p_indices: bool = False, **others: Any) -> Any:
    """P, L and U of a = P L U, or P L and U when `permute_l`.

    With `p_indices` the first result is the rows p of a = L[p] U instead of the matrix P.
    """
    refuse_unread("lu", others)
    (x,) = matrices("lu", a)
    packed, _, order = factor.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    last = len(x.shape) - 1
    lower = el.add(tril(slice_axis(packed, last, 0, k), -1), np.eye(m, k, dtype=packed.dtype))
    upper = triu(rows(packed, 0, k))
    if p_indices and not permute_l:
        return convert(_inverse_permutation(order), np.dtype(np.int32)), lower, upper
    places = iota((*order.shape[:-1], m, m), last - 1, aval_of(order).dtype)
    exchange = convert(el.eq(places, as_rows(order)), packed.dtype)
    return (matmul(exchange, lower), upper) if permute_l else (exchange, lower, upper)


# ------------------------------------------------------------------------------ decompositions


def qr(a: Array, *, mode: str = "full", pivoting: bool = False, **others: Any) -> Any:
    """Q and R; mode "full", "economic" or "r"."""
    refuse_unread("qr", others)
    if pivoting or mode not in ("full", "economic", "r"):
        raise StaxError(
            "only mode 'full', 'economic' or 'r' without pivoting is traced",
            op="qr",
            where=user_source() or None,
        )
    (x,) = matrices("qr", a)
    q, r = factor.qr(x, complete=mode != "economic")
    return (r,) if mode == "r" else (q, r)


def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, **others: Any) -> Any:
    """U, singular values and V^H; as `numpy.linalg.svd`."""
    refuse_unread("svd", others)
    return numpy_svd(a, full_matrices, compute_uv)


def eigh(
    a: Array,
    b: Array | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    *,
    type: int = 1,
    **others: Any,
) -> Any:
    """Eigenvalues and eigenvectors of a v = w v, or of a v = w b v for positive definite `b`."""
    refuse_unread("eigh", others)
    if type != 1:
        raise StaxError(f"type={type} is not supported; only a v = w b v is", op="eigh")
    (x,) = matrices("eigh", a)
    if b is None:
        return spectral.eigvalsh(x, lower) if eigvals_only else spectral.eigh(x, lower)
    x, y = common_stack("eigh", matrices("eigh", x, b))
    half = tril(x) if lower else triu(x)
    diagonal = tril(triu(x))
    x = el.sub(el.add(half, mh(half)), diagonal)
    root = factor.cholesky(y if lower else mh(y))
    x = systems.triangular_solve(root, x, lower=True)
    x = systems.triangular_solve(root, x, left=False, lower=True, transposed=True, conjugated=True)
    if eigvals_only:
        return spectral.eigvalsh(hermitian_part(x))
    w, v = spectral.eigh(hermitian_part(x))
    return w, systems.triangular_solve(root, v, lower=True, transposed=True, conjugated=True)


def eigh_tridiagonal(d: Array, e: Array, *, eigvals_only: bool = False, **others: Any) -> Any:
    """Eigenvalues (and vectors) of a symmetric tridiagonal matrix, by way of the full matrix."""
    if others.get("select") in ("a", "all"):
        del others["select"]
    refuse_unread("eigh_tridiagonal", others)
    x, y = inexact("eigh_tridiagonal", d, e)
    n = x.shape[-1]
    flat = (0,) * (len(x.shape) - 1)
    below = diagonal_matrix(pad(y, scalar_zero(y.dtype), (*flat, 0), (*flat, 1)))
    moved = pad(below, scalar_zero(y.dtype), (*flat, 1, 0), (*flat, -1, 0))
    whole = el.add(diagonal_matrix(x), el.add(moved, mt(moved)))
    if whole.shape[-1] != n or y.shape[-1] != n - 1:
        raise ShapeError("e must have one element less than d", op="eigh_tridiagonal")
    return spectral.eigvalsh(whole) if eigvals_only else spectral.eigh(whole)


def schur(a: Array, output: str = "real") -> tuple[Array, Array]:
    """The Schur form T and vectors Z of a = Z T Z^H; without a derivative."""
    (x,) = matrices("schur", a)
    return functions.schur(x, complex_form=output == "complex")


def polar(a: Array, side: str = "right", **others: Any) -> tuple[Array, Array]:
    """The unitary factor, and the positive one on the right (or left) of it."""
    refuse_unread("polar", others)
    (x,) = matrices("polar", a)
    u, s, vh = spectral.svd(x)
    stretch = as_rows(spectral.like(s, x))
    if side == "right":
        return matmul(u, vh), matmul(el.mul(mh(vh), stretch), vh)
    if side == "left":
        return matmul(u, vh), matmul(el.mul(u, stretch), mh(u))
    raise ValueError(f"side must be 'right' or 'left', got {side!r}")


# ------------------------------------------------------------------------ functions of matrices


def expm(A: Array, **others: Any) -> Array:
    """The exponential of square matrices."""
    refuse_unread("expm", others)
    return exponentials.expm(*matrices("expm", A))


def expm_frechet(A: Array, E: Array, *, compute_expm: bool = True, **others: Any) -> Any:
    """expm(A) and its derivative along E, or the derivative alone."""
    refuse_unread("expm_frechet", others)
    x, y = common_stack("expm_frechet", matrices("expm_frechet", A, E))
    change = exponentials.expm_frechet(x, y)
    return (exponentials.expm(x), change) if compute_expm else change


def sqrtm(A: Array, **others: Any) -> Array:
    """The principal square root, in the dtype of `A`.

    Raises:
      LinAlgError: a real matrix has no real square root (give it as complex).
    """
    refuse_unread("sqrtm", {**others, "disp": not others.get("disp", True)})
    return functions.sqrtm(*matrices("sqrtm", A))


def funm(A: Array, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """The function of a matrix that `func` is at eigenvalues, by Parlett's recurrence.

    It is complex where it is traced; without `disp` an estimate of the error comes with it.  Equal
    eigenvalues leave digits: prefer `expm`, `sqrtm` and their kin.

    >>> funm(np.diag([1.0, 4.0]), np.sqrt)
    array([[1., 0.],
           [0., 2.]])
    """
    (x,) = matrices("funm", A)
    if not isinstance(x, Tracer):
        return scipy_linalg("funm").funm(x, func, disp)
    if len(x.shape) != 2:
        raise ShapeError("one matrix at a time", op="funm", hint="map over a stack with stax.vmap")
    t, z = functions.schur(x, complex_form=True)
    n = x.shape[0]
    values = as_operand(func(diagonal_of(t)), "funm")
    f = [[values[i] if i == j else literal(0, t) for j in range(n)] for i in range(n)]
    gap = el.abs_(t[0, 0])
    for p in range(1, n):
        for i in range(n - p):
            j = i + p
            s = el.mul(t[i, j], el.sub(f[j][j], f[i][i]))
            for k in range(i + 1, j):
                s = el.add(s, el.sub(el.mul(t[i, k], f[k][j]), el.mul(f[i][k], t[k, j])))
            step = el.sub(t[j, j], t[i, i])
            same = el.eq(step, literal(0, step))
            f[i][j] = el.div(s, el.select(same, literal(1, step), step))
            gap = el.minimum(gap, el.abs_(step))
    whole = concatenate([reshape(v, (1,)) for row in f for v in row], 0)
    whole = reshape(whole, (n, n))
    found = matmul(z, whole, mh(z))
    if disp:
        return found
    columns_above = reduce_sum(el.abs_(triu(t, 1)), (0,))
    tolerance = literal(float(np.finfo(x.dtype).eps), gap)
    near = el.div(el.mul(tolerance, reduce_max(columns_above, (0,))), gap)
    return found, el.minimum(literal(1, gap), el.maximum(tolerance, near))


def hessenberg(a: Array, calc_q: bool = False, **others: Any) -> Any:
    """The Hessenberg form H of a = Q H Q^H, and Q when `calc_q`; without a derivative."""
    refuse_unread("hessenberg", others)
    h, q = functions.hessenberg(*matrices("hessenberg", a))
    return (h, q) if calc_q else h


def solve_sylvester(a: Array, b: Array, q: Array, **others: Any) -> Array:
    """The X of a X + X b = q."""
    refuse_unread("solve_sylvester", others)
    x, y, z = common_stack("solve_sylvester", matrices("solve_sylvester", a, b, q))
    return functions.solve_sylvester(x, y, z)


def solve_banded(l_and_u: tuple[int, int], ab: Array, b: Array, **others: Any) -> Array:
    """The x of A x = b for a banded A, given by its diagonals as rows, the uppermost first."""
    refuse_unread("solve_banded", others)
    lower, upper = map(int, l_and_u)
    return _solved("solve_banded", ab, b, lambda x, y: functions.solve_banded(x, y, lower, upper))


# ------------------------------------------------------------------------------ special matrices


def block_diag(*arrs: Array) -> Array:
    """The matrices along the diagonal of one matrix of zeros."""
    if not arrs:
        return np.zeros((1, 0))
    blocks = coerce(*(as_operand(a, "block_diag") for a in arrs))
    for block in blocks:
        if len(block.shape) > 2:
            raise ShapeError("blocks must be matrices", op="block_diag")
    blocks = [reshape(b, (*(1,) * (2 - len(b.shape)), *b.shape)) for b in blocks]
    width = sum(b.shape[1] for b in blocks)
    at, parts = 0, []
    for block in blocks:
        after = width - at - block.shape[1]
        parts.append(pad(block, scalar_zero(aval_of(block).dtype), (0, at), (0, after)))
        at += block.shape[1]
    return concatenate(parts, 0)


def _laid_out(line: Array, places: Any) -> Array:
    return gather(line, [places], [0], "promise")


def toeplitz(c: Array, r: Array | None = None) -> Array:
    """The matrix with constant diagonals, first column `c` and first row `r` (conj(c))."""
    first = reshape(as_operand(c, "toeplitz"), (aval_of(c).size,))
    row = conj(first) if r is None else reshape(as_operand(r, "toeplitz"), (aval_of(r).size,))
    first, row = coerce(first, row)
    m, n = first.shape[0], row.shape[0]
    line = concatenate([rev(first, (0,)), slice_axis(row, 0, 1, n)]) if n > 1 else rev(first, (0,))
    return _laid_out(line, np.arange(n)[None, :] - np.arange(m)[:, None] + m - 1)


def hankel(c: Array, r: Array | None = None) -> Array:
    """The matrix with constant antidiagonals, first column `c` and last row `r` (zeros)."""
    first = reshape(as_operand(c, "hankel"), (aval_of(c).size,))
    row = zeros(first.shape[0], aval_of(first).dtype) if r is None else as_operand(r, "hankel")
    first, row = coerce(first, reshape(row, (aval_of(row).size,)))
    m, n = first.shape[0], row.shape[0]
    line = concatenate([first, slice_axis(row, 0, 1, n)]) if n > 1 else first
    return _laid_out(line, np.arange(m)[:, None] + np.arange(n)[None, :])


def circulant(c: Array) -> Array:
    """The matrix whose columns are `c` turned by one step more each."""
    line = reshape(as_operand(c, "circulant"), (aval_of(c).size,))
    n = line.shape[0]
    return _laid_out(line, (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1))


def convolution_matrix(a: Array, n: int, mode: str = "full") -> Array:
    """The matrix that convolves `a` with a vector of `n` elements; modes as in `numpy.convolve`."""
    line = as_operand(a, "convolution_matrix")
    if len(aval_of(line).shape) != 1 or not aval_of(line).size or n < 1:
        raise ShapeError("a is a vector that is not empty, n at least 1", op="convolution_matrix")
    m = line.shape[0]
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    zero = scalar_zero(aval_of(line).dtype)
    padded = pad(line, zero, (n - 1,), (n - 1,))
    whole = _laid_out(padded, np.arange(m + n - 1)[:, None] - np.arange(n)[None, :] + n - 1)
    low, high = min(n, m), max(n, m)
    first = {"full": 0, "same": (low - 1) // 2, "valid": low - 1}[mode]
    count = {"full": m + n - 1, "same": high, "valid": high - low + 1}[mode]
    return slice_axis(whole, 0, first, first + count)


def fiedler(a: Array) -> Array:
    """The matrix of distances abs(a[i] - a[j])."""
    x = as_operand(a, "fiedler")
    if len(aval_of(x).shape) == 0:
        x = reshape(x, (1,))
    if not aval_of(x).size:
        return zeros((0,), aval_of(x).dtype)  # as SciPy's
    return el.abs_(el.sub(as_columns(x), as_rows(x)))


def leslie(f: Array, s: Array) -> Array:
    """Leslie's matrix: `f` in the first row, `s` below the diagonal."""
    top, below = coerce(as_operand(f, "leslie"), as_operand(s, "leslie"))
    n = top.shape[0]
    if below.shape[0] != n - 1:
        raise ShapeError("s must have one element less than f", op="leslie")
    zero = scalar_zero(aval_of(below).dtype)
    return concatenate([as_rows(top), pad(diagonal_matrix(below), zero, (0, 0), (0, 1))], 0)


def companion(a: Array) -> Array:
    """The companion matrix of a polynomial given by its coefficients, highest first."""
    (x,) = inexact("companion", a)
    n = x.shape[0]
    top = el.neg(el.div(slice_axis(x, 0, 1, n), slice_axis(x, 0, 0, 1)))
    below = eye_like(x, n - 1)[: n - 2]
    return concatenate([reshape(top, (1, n - 1)), below], 0)


def _plain(name: str) -> Callable[..., Any]:
    """SciPy's function of whole numbers."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(scipy_linalg(name), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The matrix that `scipy.linalg.{name}` gives."
    return call


dft, hadamard, helmert, hilbert = map(_plain, ("dft", "hadamard", "helmert", "hilbert"))
invhilbert, pascal, invpascal = map(_plain, ("invhilbert", "pascal", "invpascal"))
