"""Sparse arrays: BCOO, values beside their coordinates, over gather and scatter.

Input: an array with few values that are not zero, or the values and their places.  Output: a pytree
of two arrays that can be multiplied, summed, transposed, differentiated, batched and compiled.  A
place outside the shape holds nothing, so a sparse array may have room for more values than it has.
A sum over places adds in the order in which the values stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax import numpy as snp
from stax.core.aval import aval_of
from stax.core.trace import Tracer
from stax.errors import ConcretizationError, DtypeError, ShapeError
from stax.experimental.sparse.coordinates import (
    Shape,
    columns_of,
    flat_places,
    is_inside,
    places,
    sparse_shape,
    spread,
    values_inside,
)
from stax.experimental.sparse.ufuncs import applied
from stax.numpy.sized import nonzero
from stax.pytree import GetAttrKey, register_pytree_with_keys

__all__ = [
    "BCOO",
    "bcoo_dot_general",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_sort_indices",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "todense",
]


class BCOO:
    """A sparse array: `data` of shape (nse, *dense axes), `indices` of shape (nse, sparse axes).

    Args:
      args: `(data, indices)`.
      shape: of the whole array: the sparse axes, then the dense ones.
      indices_sorted, unique_indices: promises about the indices; kept, and not relied upon.

    Raises:
      ShapeError: data, indices and shape do not fit each other.

    >>> m = BCOO.fromdense(np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m, m @ np.ones(2)
    (BCOO(float64[2, 2], nse=2), array([2., 3.]))
    """

    __slots__ = ("data", "indices", "shape", "indices_sorted", "unique_indices")
    __array_ufunc__ = applied  # `array @ sparse` and the like are operators of this class
    __array_priority__ = 2000.0
    n_batch = 0

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = (snp.asarray(v) for v in args)
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)
        data, indices = aval_of(self.data), aval_of(self.indices)
        fits = len(indices.shape) == 2 and len(data.shape) >= 1
        fits = fits and data.shape[0] == indices.shape[0] and indices.dtype.kind in "iu"
        if not fits or indices.shape[1] + len(data.shape) - 1 != len(self.shape):
            raise ShapeError(
                f"data {data} and indices {indices} do not make a sparse array of shape "
                f"{self.shape}: they are (nse, *dense axes) and integers (nse, sparse axes)",
                op="BCOO",
                hint="for batches of sparse arrays use stax.vmap",
            )

    # ------------------------------------------------------------------------- what it is

    @property
    def nse(self) -> int:
        """The number of values that it has room for."""
        return int(self.indices.shape[0])

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def n_sparse(self) -> int:
        """How many axes are given by indices: the first ones."""
        return int(self.indices.shape[1])

    @property
    def n_dense(self) -> int:
        """How many axes every value has."""
        return len(self.data.shape) - 1

    @property
    def size(self) -> int:
        """Number of elements, zeros counted."""
        return math.prod(self.shape)

    @property
    def T(self) -> BCOO:
        """The transpose."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                "the truth of a sparse array of more or fewer than one element is ambiguous",
                operands=[repr(self)],
                hint="write sparse.todense() and any() or all()",
            )
        return bool(self.todense().reshape(()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise DtypeError(
            "a sparse array makes no NumPy array by itself",
            operands=[repr(self)],
            hint="write sparse.todense()",
        )

    def __repr__(self) -> str:
        dense = f", n_dense={self.n_dense}" if self.n_dense else ""
        return f"BCOO({self.dtype}{list(self.shape)}, nse={self.nse}{dense})"

    def block_until_ready(self) -> BCOO:
        """The same array."""
        return self

    # ------------------------------------------------------------------------ making, leaving

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The values of an array that are not zero; `nse` places for them where it is traced."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """From a matrix of `scipy.sparse`."""
        _no_batch(n_batch)
        mat = mat.tocoo()
        indices = np.stack([mat.row, mat.col], 1).astype(index_dtype or np.int32)
        return cls((mat.data, indices), shape=mat.shape)

    def todense(self) -> Any:
        """The whole array."""
        return bcoo_todense(self)

    def astype(self, dtype: Any) -> BCOO:
        """With values of another dtype."""
        return self.with_data(self.data.astype(dtype))

    def with_data(self, data: Any) -> BCOO:
        """Other values at the same places."""
        return made(data, self.indices, self.shape, self.indices_sorted, self.unique_indices)

    # --------------------------------------------------------------------------- rearranging

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The axes in another order, sparse ones among themselves and dense ones likewise."""
        order = tuple(range(self.n_sparse))[::-1] + tuple(range(self.n_sparse, self.ndim))[::-1]
        return bcoo_transpose(self, permutation=order if axes is None else axes)

    def reshape(self, *shape: Any, new_sizes: Any = None) -> BCOO:
        """The sparse axes in another shape."""
        given = new_sizes if new_sizes is not None else shape[0] if len(shape) == 1 else shape
        return bcoo_reshape(self, new_sizes=(given,) if isinstance(given, int) else given)

    def sort_indices(self) -> BCOO:
        """The values in the order of their places."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """One value for each place; `nse` places where it is traced."""
        return bcoo_sum_duplicates(self, nse=nse, remove_zeros=remove_zeros)

    def sum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        """The sum of all elements, or over some axes (a sparse array)."""
        if dtype is not None:
            return self.astype(dtype).sum(axis)
        if axis is None:
            return snp.sum(values_inside(self))
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        return bcoo_reduce_sum(self, axes=[a % self.ndim for a in axes])

    def __getitem__(self, index: Any) -> BCOO:
        return _taken(self, index if isinstance(index, tuple) else (index,))

    def __iter__(self) -> Any:
        return iter([self[k] for k in range(self.shape[0])])

    # ----------------------------------------------------------------------------- arithmetic

    def __neg__(self) -> BCOO:
        return self.with_data(-self.data)

    def __abs__(self) -> BCOO:
        return bcoo_sum_duplicates(self, nse=self.nse)._map(snp.abs)

    def _map(self, f: Callable[[Any], Any]) -> BCOO:
        return self.with_data(f(self.data))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            _same_shape(self, other, "+")
            data = snp.concatenate([self.data, other.data])
            indices = snp.concatenate([self.indices, other.indices])
            return made(data, indices, self.shape)
        if aval_of(other).shape != self.shape:
            raise ShapeError(
                f"the sum of a sparse array of shape {self.shape} and {aval_of(other)} is dense",
                op="+",
                hint="write sparse.todense() + array",
            )
        return self.todense() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> BCOO:
        if isinstance(other, BCOO):
            return bcoo_multiply_sparse(self, other)
        if not aval_of(other).shape:
            return self.with_data(self.data * other)
        return self.with_data(bcoo_multiply_dense(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> BCOO:
        if isinstance(other, BCOO) or aval_of(other).shape:
            raise ShapeError("a sparse array is divided by scalars only", op="/")
        return self.with_data(self.data / other)

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _product(other, self)


register_pytree_with_keys(
    BCOO,
    lambda m: (
        ((GetAttrKey("data"), m.data), (GetAttrKey("indices"), m.indices)),
        (m.shape, m.indices_sorted, m.unique_indices),
    ),
    lambda aux, leaves: made(*leaves, *aux),
)


def made(
    data: Any, indices: Any, shape: Shape, in_order: bool = False, unique: bool = False
) -> BCOO:
    """A sparse array of parts that fit, or of what a transformation puts in their place."""
    new = object.__new__(BCOO)
    new.data, new.indices, new.shape = data, indices, shape
    new.indices_sorted, new.unique_indices = in_order, unique
    return new


def _no_batch(n_batch: int) -> None:
    if n_batch:
        raise ShapeError(
            f"n_batch={n_batch}: sparse arrays have no batch axes here",
            op="BCOO",
            hint="map over a batch with stax.vmap(BCOO.fromdense, ...)",
        )


def _same_shape(a: BCOO, b: BCOO, op: str) -> None:
    if (a.shape, a.n_sparse) != (b.shape, b.n_sparse):
        raise ShapeError(f"sparse arrays of shapes {a.shape} and {b.shape}", op=op)


# ------------------------------------------------------------------------------- as functions


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    index_dtype: Any = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCOO:
    """The values of `mat` that are not zero, with their places.

    Args:
      nse: room for so many values, needed where `mat` is traced; the first ones are taken.
      n_dense: so many last axes belong to the values.

    Raises:
      ConcretizationError: `mat` is traced, its number of values unknown, and `nse` not given.
    """
    _no_batch(n_batch)
    mat = snp.asarray(mat)
    ndim = len(mat.shape)
    truth = mat != 0
    if n_dense:
        truth = snp.any(truth, axis=tuple(range(ndim - n_dense, ndim)))
    if nse is None:
        if isinstance(truth, Tracer) and truth.concrete() is None:
            raise ConcretizationError(
                "BCOO.fromdense: the number of values that are not zero is not known while tracing",
                operands=[str(aval_of(mat))],
                hint="say how many there are at most: BCOO.fromdense(x, nse=...)",
            )
        known = truth.concrete() if isinstance(truth, Tracer) else truth
        nse = int(np.count_nonzero(known))
    shape = mat.shape[: ndim - n_dense]
    if not shape:
        raise ShapeError("BCOO.fromdense wants at least one sparse axis", op="BCOO.fromdense")
    columns = nonzero(truth, size=nse, fill_value=shape)
    indices = snp.stack(columns, axis=1).astype(index_dtype)
    data = mat.at[columns].get(mode="fill", fill_value=0)
    return made(data, indices, tuple(mat.shape), True, True)


def bcoo_todense(mat: BCOO) -> Any:
    """The whole array; values at one place are added up."""
    if not mat.n_sparse:
        return snp.sum(mat.data, axis=0, dtype=mat.dtype)
    return snp.zeros(mat.shape, mat.dtype).at[columns_of(mat)].add(values_inside(mat), mode="drop")


def todense(arr: Any) -> Any:
    """The whole array of a sparse one; others as they are."""
    return bcoo_todense(arr) if isinstance(arr, BCOO) else arr


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The axes in the order `permutation`; sparse axes stay in front of dense ones."""
    n, order = mat.n_sparse, [int(a) % mat.ndim for a in permutation]
    if sorted(order[:n]) != list(range(n)) or sorted(order) != list(range(mat.ndim)):
        raise ShapeError(
            f"{tuple(permutation)} is no order of {n} sparse and {mat.n_dense} dense axes",
            op="transpose",
        )
    data = snp.transpose(mat.data, (0, *(a - n + 1 for a in order[n:])))
    indices = mat.indices[:, np.array(order[:n], int)] if n else mat.indices
    shape = tuple(mat.shape[a] for a in order)
    return made(data, indices, shape, False, mat.unique_indices)


def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int]) -> BCOO:
    """The sparse axes in another shape; one extent may be -1."""
    dense = mat.shape[mat.n_sparse :]
    sizes = [int(n) for n in new_sizes]
    sparse = sizes[: len(sizes) - len(dense)]
    total = math.prod(sparse_shape(mat))
    if -1 in sparse:
        rest = -math.prod(sparse)
        sparse[sparse.index(-1)] = total // rest if rest else 0
    if math.prod(sparse) != total or tuple(sizes[len(sparse) :]) != dense:
        raise ShapeError(f"{mat!r} does not have the shape {tuple(new_sizes)}", op="reshape")
    indices = places(flat_places(mat), tuple(sparse), mat.indices.dtype)
    shape = (*sparse, *dense)
    return made(mat.data, indices, shape, mat.indices_sorted, mat.unique_indices)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The values in the order of their places, those at one place as they stood."""
    order = snp.argsort(flat_places(mat), stable=True)
    return made(mat.data[order], mat.indices[order], mat.shape, True, mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None, *, remove_zeros: bool = True) -> BCOO:
    """One value for each place, in order.

    Args:
      nse: room for so many places, needed where the array is traced.
      remove_zeros: values of zero have no place.

    Raises:
      ConcretizationError: the array is traced, and `nse` not given.
    """
    shape = sparse_shape(mat)
    total = math.prod(shape)
    flat = flat_places(mat)
    if remove_zeros:
        axes = tuple(range(1, len(mat.data.shape)))
        flat = snp.where(snp.any(mat.data != 0, axis=axes), flat, total)
    if nse is None:
        known = flat.concrete() if isinstance(flat, Tracer) else flat
        if known is None:
            raise ConcretizationError(
                "BCOO.sum_duplicates: the number of places is not known while tracing",
                operands=[repr(mat)],
                hint="say how many there are at most: sum_duplicates(nse=...)",
            )
        nse = len(np.setdiff1d(np.asarray(known), [total]))
    order = snp.argsort(flat, stable=True)
    ordered = flat[order]
    first = snp.concatenate([snp.ones(min(mat.nse, 1), bool), ordered[1:] != ordered[:-1]])
    # Places beyond `nse`, and what lies outside, are dropped.
    group = snp.where(ordered < total, snp.cumsum(first) - 1, nse)
    dense = mat.shape[mat.n_sparse :]
    data = snp.zeros((nse, *dense), mat.dtype).at[group].add(mat.data[order], mode="drop")
    where = snp.full((nse,), total, np.int64).at[group].set(ordered, mode="drop")
    return made(data, places(where, shape, mat.indices.dtype), mat.shape, True, True)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over some axes."""
    n = mat.n_sparse
    kept = [a for a in range(n) if a not in axes]
    data = snp.sum(
        values_inside(mat), axis=tuple(a - n + 1 for a in axes if a >= n), dtype=mat.dtype
    )
    outside = snp.array([mat.shape[a] for a in kept], mat.indices.dtype)
    indices = mat.indices[:, np.array(kept, int)]
    indices = snp.where(is_inside(mat)[:, None], indices, outside)
    return made(data, indices, tuple(s for a, s in enumerate(mat.shape) if a not in axes))


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The values times those of an array at their places; the array broadcasts."""
    v = snp.broadcast_to(v, sp_mat.shape)
    return sp_mat.data * v.at[columns_of(sp_mat)].get(mode="fill", fill_value=0)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The values of an array at the places of a sparse one."""
    data = snp.asarray(arr).at[columns_of(sparr)].get(mode="fill", fill_value=0)
    return sparr.with_data(data)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product, with the places of `lhs`."""
    _same_shape(lhs, rhs, "*")
    same = flat_places(lhs)[:, None] == flat_places(rhs)[None, :]
    other = snp.tensordot(same.astype(rhs.dtype), values_inside(rhs), 1)
    return lhs.with_data(lhs.data * other)


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, **_: Any
) -> Any:
    """A product over pairs of axes, as `lax.dot_general`, of which one operand or both are sparse.

    Args:
      dimension_numbers: `((axes of lhs, axes of rhs), ((), ()))`; contracted axes are sparse ones.

    Raises:
      ShapeError: axes of different extents, dense ones, or batch axes.
    """
    (left, right), batch = dimension_numbers
    if any(len(b) for b in batch):
        raise ShapeError(
            "sparse products have no batch axes", op="bcoo_dot_general", hint="use stax.vmap"
        )
    left, right = [int(a) for a in left], [int(a) for a in right]
    shapes = [tuple(v.shape) if isinstance(v, BCOO) else aval_of(v).shape for v in (lhs, rhs)]
    if [shapes[0][a] for a in left] != [shapes[1][a] for a in right]:
        raise ShapeError(
            f"a product of shapes {shapes[0]} and {shapes[1]} over axes {left} and {right}",
            op="bcoo_dot_general",
        )
    for value, axes in ((lhs, left), (rhs, right)):
        if isinstance(value, BCOO) and any(a >= value.n_sparse for a in axes):
            raise ShapeError("a contracted axis is a dense one", op="bcoo_dot_general")
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_product(lhs, rhs, left, right)
    if isinstance(lhs, BCOO):
        return _dense_product(lhs, snp.asarray(rhs), left, right)
    out = _dense_product(rhs, snp.asarray(lhs), right, left)
    free = len(shapes[1]) - len(right)
    return snp.transpose(out, (*range(free, len(out.shape)), *range(free)))


def _dense_product(m: BCOO, x: Any, own: list[int], other: list[int]) -> Any:
    """Axes of `m` that are left, then those of `x`."""
    x = snp.moveaxis(x, other, list(range(len(other))))
    free = [a for a in range(m.n_sparse) if a not in own]
    rest = x.shape[len(own) :]
    rows = x.at[columns_of(m, own)].get(mode="fill", fill_value=0) if own else x[None]
    data = values_inside(m)
    values = data.reshape(*data.shape, *(1,) * len(rest))
    rows = rows.reshape(rows.shape[0], *(1,) * m.n_dense, *rest)
    terms = values * rows
    if not free:
        return snp.sum(terms, axis=0, dtype=terms.dtype)
    shape = (*(m.shape[a] for a in free), *terms.shape[1:])
    return snp.zeros(shape, terms.dtype).at[columns_of(m, free)].add(terms, mode="drop")


def _sparse_product(a: BCOO, b: BCOO, left: list[int], right: list[int]) -> BCOO:
    """The values of all pairs that meet."""
    if a.n_dense or b.n_dense:
        raise ShapeError("a product of sparse arrays with dense axes", op="bcoo_dot_general")
    meet = (is_inside(a)[:, None] & is_inside(b)[None, :]).reshape(-1)
    for i, j in zip(left, right, strict=True):
        meet = meet & (a.indices[:, i][:, None] == b.indices[:, j][None, :]).reshape(-1)
    data = (a.data[:, None] * b.data[None, :]).reshape(-1)
    free = [k for k in range(a.n_sparse) if k not in left]
    rest = [k for k in range(b.n_sparse) if k not in right]
    first = snp.repeat(a.indices[:, np.array(free, int)], b.nse, axis=0)
    second = snp.tile(b.indices[:, np.array(rest, int)], (a.nse, 1))
    shape = (*(a.shape[k] for k in free), *(b.shape[k] for k in rest))
    indices = snp.concatenate([first, second.astype(first.dtype)], axis=1)
    outside = np.array(shape, a.indices.dtype)
    indices = snp.where(meet[:, None], indices, outside)
    return made(snp.where(meet, data, snp.zeros((), data.dtype)), indices, shape)


def _product(a: Any, b: Any) -> Any:
    """`a @ b` for vectors and matrices."""
    ranks = [v.ndim if isinstance(v, BCOO) else len(aval_of(v).shape) for v in (a, b)]
    if not all(1 <= r <= 2 for r in ranks):
        raise ShapeError(
            f"a sparse product takes vectors and matrices, not arrays of {ranks} axes",
            op="@",
            hint="use stax.vmap for batches",
        )
    over = ((ranks[0] - 1,), (0,))
    return bcoo_dot_general(a, b, dimension_numbers=(over, ((), ())))


def _taken(m: BCOO, index: tuple[Any, ...]) -> BCOO:
    """Elements by integers and slices of step 1 on sparse axes."""
    if len(index) > m.n_sparse:
        raise ShapeError(f"{len(index)} indices for {m.n_sparse} sparse axes", op="[]")
    keep, columns, shape = is_inside(m), [], []
    for axis in range(m.n_sparse):
        at = index[axis] if axis < len(index) else slice(None)
        column, n = m.indices[:, axis], m.shape[axis]
        if isinstance(at, slice):
            start, stop, step = at.indices(n)
            if step != 1:
                raise ShapeError("slices of a sparse array have step 1", op="[]")
            keep = keep & (column >= start) & (column < stop)
            columns.append(column - start)
            shape.append(max(stop - start, 0))
        else:
            place: Any = at if isinstance(at, Tracer) else int(at)
            keep = keep & (column == snp.where(place < 0, place + n, place))
    outside = np.array(shape, m.indices.dtype)
    empty_rows = snp.zeros((m.nse, 0), m.indices.dtype)
    indices = snp.stack(columns, axis=1).astype(m.indices.dtype) if columns else empty_rows
    data = snp.where(spread(keep, m.data), m.data, snp.zeros((), m.dtype))
    rest = m.shape[m.n_sparse :]
    return made(data, snp.where(keep[:, None], indices, outside), (*shape, *rest))
