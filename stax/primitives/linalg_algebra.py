"""Matrix algebra that the rules of linear-algebra rows are written with.

Input: stacks of matrices (the matrix is the last two axes).  Output: their products, transposes,
triangles and diagonals as primitives that differentiate, and `matrix_row`, the family of rows
computed by LAPACK: leading axes are a stack, so batching only moves an axis to the front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    COMPOSED,
    FALLBACK,
    NONLINEAR,
    Primitive,
    Recompute,
    Rule,
    Sentinel,
    Zero,
)
from stax.core.trace import bind
from stax.dtypes import DType, is_complex
from stax.errors import DtypeError, ShapeError
from stax.primitives import elementwise as el
from stax.primitives.contractions import dot_general
from stax.primitives.families_arrays import batch_size, checked
from stax.primitives.shapes import scalar_zero, slice_axis
from stax.primitives.views import batched_front, broadcast, reduce_sum, reshape, transpose

LINALG_DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def mt(x: Any) -> Any:
    """The matrices transposed."""
    n = len(x.shape)
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def conj(x: Any) -> Any:
    """The conjugate; `x` itself when it is real."""
    return el.conj(x) if is_complex(aval_of(x).dtype) else x


def mh(x: Any) -> Any:
    """The matrices transposed and conjugated."""
    return conj(mt(x))


def matmul(*factors: Any) -> Any:
    """The product of stacks of matrices with equal leading axes, from the left."""
    product = factors[0]
    for factor in factors[1:]:
        n = len(product.shape)
        stack = tuple(range(n - 2))
        product = dot_general(product, factor, (((n - 1,), (n - 2,)), (stack, stack)))
    return product


def _masked(x: Any, mask: Any) -> Any:
    return el.select(mask, x, scalar_zero(aval_of(x).dtype))


def _below(x: Any, k: int) -> Any:
    """True up to the k-th diagonal."""
    m, n = x.shape[-2:]
    return np.tri(m, n, k, dtype=bool)


def tril(x: Any, k: int = 0) -> Any:
    """The lower triangles, up to the k-th diagonal."""
    return _masked(x, _below(x, k))


def triu(x: Any, k: int = 0) -> Any:
    """The upper triangles, from the k-th diagonal."""
    return _masked(x, ~_below(x, k - 1))


def diagonal_of(x: Any) -> Any:
    """The diagonals of square matrices, as vectors."""
    eye = np.eye(x.shape[-1], dtype=bool)
    return reduce_sum(_masked(x, eye), (len(x.shape) - 1,))


def diagonal_matrix(v: Any) -> Any:
    """Square matrices with the vectors `v` on their diagonals."""
    return _masked(reshape(v, (*v.shape, 1)), np.eye(v.shape[-1], dtype=bool))


def trace(x: Any) -> Any:
    """The traces of square matrices."""
    return reduce_sum(
        _masked(x, np.eye(x.shape[-1], dtype=bool)), [len(x.shape) - 2, -1 % len(x.shape)]
    )


def eye_like(x: Any, n: int | None = None) -> Any:
    """The identity matrix in the dtype of `x` (one matrix, which broadcasts)."""
    return np.eye(x.shape[-1] if n is None else n, dtype=aval_of(x).dtype)


def scaled(x: Any, factor: float) -> Any:
    """`x` times a constant."""
    return el.mul(x, aval_of(x).dtype.type(factor))


def as_rows(v: Any) -> Any:
    """Vectors as matrices of one row, which scale columns."""
    return reshape(v, (*v.shape[:-1], 1, v.shape[-1]))


def as_columns(v: Any) -> Any:
    """Vectors as matrices of one column, which scale rows."""
    return reshape(v, (*v.shape, 1))


def columns(x: Any, start: int, stop: int) -> Any:
    """Columns start to stop of the matrices."""
    return slice_axis(x, len(x.shape) - 1, start, stop)


def rows(x: Any, start: int, stop: int) -> Any:
    """Rows start to stop of the matrices."""
    return slice_axis(x, len(x.shape) - 2, start, stop)


def stacked(x: Any, shape: Sequence[int]) -> Any:
    """`x` repeated over the leading axes `shape`."""
    return broadcast(x, (*shape, *aval_of(x).shape[-2:]))


def hermitian_part(x: Any) -> Any:
    """(x + x^H) / 2."""
    return scaled(el.add(x, mh(x)), 0.5)


def total(*terms: Any) -> Any:
    """The sum of the terms that are not None."""
    kept = [t for t in terms if t is not None]
    out = kept[0]
    for term in kept[1:]:
        out = el.add(out, term)
    return out


def given(tangent: Any) -> bool:
    """True unless the tangent is zero by structure."""
    return not isinstance(tangent, Zero)


def check_stack(op: str, avals: Sequence[Aval], *, square: int = 0) -> None:
    """Raise unless all operands are stacks of matrices of one LAPACK dtype with equal stacks.

    The first `square` of them must be square.
    """
    for x in avals:
        if x.dtype not in LINALG_DTYPES:
            raise DtypeError(
                f"array type {x.dtype} is unsupported in linear algebra",
                op=op,
                operands=avals,
                hint="use float32, float64, complex64 or complex128",
            )
        if x.dtype != avals[0].dtype:
            raise DtypeError("needs operands of one dtype", op=op, operands=avals)
        if x.ndim < 2:
            raise ShapeError(
                f"{x.ndim}-dimensional array given; it must be at least two-dimensional",
                op=op,
                operands=avals,
            )
        if x.shape[:-2] != avals[0].shape[:-2]:
            raise ShapeError("the leading axes must agree", op=op, operands=avals)
    for x in avals[:square]:
        if x.shape[-1] != x.shape[-2]:
            raise ShapeError(
                "the last two dimensions of the array must be square", op=op, operands=avals
            )


def real_dtype(dtype: DType) -> DType:
    """The dtype of absolute values."""
    return np.dtype(np.zeros((), dtype).real.dtype)


def per_matrix(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of each matrix of equal stacks; its results stacked, a tuple of them alike."""
    arrays = tuple(np.asarray(a) for a in arrays)
    stack = arrays[0].shape[:-2]
    if not stack:
        return function(*arrays)
    if math.prod(stack) == 0:
        # One matrix of zeros of the same type says what the results look like.
        shown = function(*(_identity(a) for a in arrays))
        if isinstance(shown, tuple):
            return tuple(np.empty((*stack, *np.shape(r)), np.asarray(r).dtype) for r in shown)
        return np.empty((*stack, *np.shape(shown)), np.asarray(shown).dtype)
    results = [function(*(a[k] for a in arrays)) for k in np.ndindex(*stack)]
    if isinstance(results[0], tuple):
        joined = [np.stack(r) for r in zip(*results, strict=True)]
        return tuple(r.reshape(*stack, *r.shape[1:]) for r in joined)
    out = np.stack(results)
    return out.reshape(*stack, *out.shape[1:])


def _identity(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.eye(*a.shape[-2:], dtype=a.dtype)


def cubic_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any) -> int:
    """Operations of a factorisation."""
    x = in_avals[0]
    small, large = sorted(x.shape[-2:])
    return 2 * math.prod(x.shape[:-2]) * small * small * large


def matrix_row(
    name: str,
    *,
    abstract_eval: Rule,
    impl: Rule,
    jvp: Rule | Sentinel,
    transpose: Rule | Sentinel = NONLINEAR,
    lower: Rule | Sentinel = FALLBACK,
    multi: bool = False,
    cost: Rule = cubic_cost,
    decompose: Rule | None = None,
) -> Primitive:
    """A row over stacks of matrices, computed by LAPACK; without `lower` from Python only.

    With `decompose` compiled programs run that in its place.
    """

    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        size = batch_size(args, dims)
        wide = [batched_front(x, d, size) for x, d in zip(args, dims, strict=True)]

        outs = bind(row, *wide, **params)
        return (outs, (0,) * len(outs)) if multi else (outs[0], 0)

    row = Primitive(
        name,
        family="linalg",
        abstract_eval=abstract_eval,
        impl=checked(name, abstract_eval, impl),
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=lower if decompose is None else COMPOSED,
        cost=cost,
        recompute=Recompute.EXPENSIVE,
        multi=multi,
        decompose=decompose,
    )
    return row
