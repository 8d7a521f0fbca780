"""NumPy's reductions on traced values: sum, prod, max, min, any, all, argmax, argmin, cumulative.

Input: NumPy's arguments (`axis` an integer or tuple, `keepdims`, `dtype`, `initial`, `where`).
Output: the reduction primitives with explicit axes; `where` becomes a select with the identity of
the reduction, `initial` one more operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import Tracer
from stax.dtypes import DType, is_complex, is_float, is_inexact
from stax.errors import ShapeError
from stax.numpy.promotion import as_dtype, asarray_dtype
from stax.numpy.registration import (
    NoValue,
    axis_index,
    broadcast_to_shape,
    converted,
    deliver,
    implements,
    lines,
    operand,
    reduced_axes,
)
from stax.primitives import cumulative as cu
from stax.primitives import elementwise as el
from stax.primitives import reductions as re
from stax.primitives.shapes import concatenate, scalar_zero, slice_axis
from stax.primitives.views import broadcast, reduce_sum, reshape

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "min",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmin",
    "nanprod",
    "nansum",
    "prod",
    "ptp",
    "sum",
]

BOOL = np.dtype(np.bool_)
Array = Any


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy sums values of `dtype`: small integers widen to 64 bits."""
    if dtype.kind == "b":
        return np.dtype(np.int64)
    if dtype.kind in "iu" and dtype.itemsize < 8:
        return np.dtype(np.int64 if dtype.kind == "i" else np.uint64)
    return dtype


def restored(value: Array, shape: Sequence[int], axes: Sequence[int], keepdims: Any) -> Array:
    """A reduction's result with its axes kept as extents of one when `keepdims`."""
    if keepdims is NoValue or not keepdims:
        return value
    return reshape(value, [1 if k in axes else n for k, n in enumerate(shape)])


def masked(x: Array, where: Any, identity: Any, op: str) -> Array:
    """`x` where `where` holds, elsewhere the identity of the reduction."""
    if where is True or where is NoValue or where is None:
        return x
    mask = truth(operand(where, op))
    mask = broadcast_to_shape(mask, aval_of(x).shape)
    return el.select(mask, x, as_dtype(identity, aval_of(x).dtype))


def truth(x: Array) -> Array:
    """`x` as booleans: True where it is not zero."""
    aval = aval_of(x)
    return x if aval.dtype == BOOL else el.ne(x, scalar_zero(aval.dtype))


def _absent_term(dtype: DType) -> Any:
    """What does not change a sum, of any sign, when it is added."""
    return complex(-0.0, -0.0) if is_complex(dtype) else -0.0 if is_float(dtype) else 0


def _has_negative_zero(value: Any) -> bool:
    if isinstance(value, Tracer):
        return False
    plain = np.asarray(value)
    return any(bool(np.any(np.signbit(part) & (part == 0))) for part in (plain.real, plain.imag))


def _from_negative_zero(x: Array, axes: Sequence[int], first: Array) -> Array:
    """The sum that starts from `first` in place of 0.0: -0.0 where all its terms are."""
    if is_complex(aval_of(x).dtype):
        return el.complex_(
            _from_negative_zero(el.real(x), axes, el.real(first)),
            _from_negative_zero(el.imag(x), axes, el.imag(first)),
        )

    def negative(v: Array) -> Array:
        return el.logical_and(el.signbit(v), el.eq(v, scalar_zero(aval_of(v).dtype)))

    whole = el.logical_and(re.reduce_all(negative(x), axes), negative(first))
    # Minus the sum of the negated terms has the sign, and the derivative of the sum.
    turned = el.neg(el.sub(reduce_sum(el.neg(x), axes), first))
    return el.select(whole, turned, el.add(reduce_sum(x, axes), first))


def _reduced(
    name: str,
    reduce: Callable[..., Any],
    combine: Callable[..., Any],
    identity: Callable[[DType], Any] | None,
    widen: Callable[[DType], DType] | None,
) -> Callable[..., Any]:
    def traced(
        a: Array,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NoValue,
        where: Any = True,
    ) -> Array:
        x = operand(a, name)
        axes = reduced_axes(axis, len(x.shape), name)
        if dtype is not None:
            x = converted(x, asarray_dtype(dtype))
        elif widen is not None:
            x = converted(x, widen(aval_of(x).dtype))
        kind = aval_of(x).dtype
        if where is not True and where is not NoValue and where is not None:
            if identity is None:
                if initial is NoValue:
                    raise ShapeError(
                        "reduction has no identity, so to use a where mask one has to specify "
                        "'initial'",
                        op=name,
                        where=user_source() or None,
                    )
                x = masked(x, where, initial, name)
            else:
                x = masked(x, where, identity(kind), name)
        if initial is not NoValue and initial is not None:
            first = as_dtype(initial, kind)
            if identity is None and any(x.shape[k] == 0 for k in axes):
                shape = [n for k, n in enumerate(x.shape) if k not in axes]
                value = broadcast_to_shape(first, shape)
            else:
                value = combine(reduce(x, axes), first)
                if name == "sum" and is_inexact(kind) and _has_negative_zero(initial):
                    value = _from_negative_zero(x, axes, first)
        else:
            value = reduce(x, axes)
        return deliver(restored(value, x.shape, axes, keepdims), out, name)

    return traced


_sum = _reduced("sum", reduce_sum, el.add, _absent_term, sum_dtype)
_prod = _reduced("prod", re.reduce_prod, el.mul, lambda d: 1, sum_dtype)
_max = _reduced("max", re.reduce_max, el.maximum, None, None)
_min = _reduced("min", re.reduce_min, el.minimum, None, None)


@implements(np.sum, halves=True)
def sum(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Sum over `axis`; as `numpy.sum`."""
    return _sum(a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod, halves=True)
def prod(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Product over `axis`; as `numpy.prod`."""
    return _prod(a, axis, dtype, out, keepdims, initial, where)


@implements(np.max, np.amax)
def max(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Largest element over `axis`; as `numpy.max`."""
    return _max(_ordered(a, "max"), axis, None, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Smallest element over `axis`; as `numpy.min`."""
    return _min(_ordered(a, "min"), axis, None, out, keepdims, initial, where)


amax, amin = max, min


def _ordered(a: Array, op: str) -> Array:
    return operand(a, op)


def _truth_reduction(name: str, reduce: Callable[..., Any], identity: bool) -> Callable[..., Any]:
    def traced(a: Array, axis: Any, out: Any, keepdims: Any, where: Any) -> Array:
        x = truth(operand(a, name))
        axes = reduced_axes(axis, len(x.shape), name)
        value = reduce(masked(x, where, identity, name), axes)
        return deliver(restored(value, x.shape, axes, keepdims), out, name)

    return traced


_any = _truth_reduction("any", re.reduce_any, False)
_all = _truth_reduction("all", re.reduce_all, True)


@implements(np.any)
def any_(
    a: Array, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Array:
    """True where some element over `axis` is not zero; as `numpy.any`."""
    return _any(a, axis, out, keepdims, where)


@implements(np.all)
def all_(
    a: Array, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Array:
    """True where every element over `axis` is not zero; as `numpy.all`."""
    return _all(a, axis, out, keepdims, where)


def _position(
    reduce: Callable[..., Any], name: str, a: Array, axis: Any, out: Any, keepdims: Any
) -> Array:
    x = operand(a, name)
    shape = x.shape
    line, k = lines(x, axis, name)
    axes: Sequence[int] = range(len(shape)) if axis is None or not shape else (k,)
    return deliver(restored(reduce(line, k), shape, axes, keepdims), out, name)


@implements(np.argmax)
def argmax(a: Array, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Position of the first largest element; as `numpy.argmax`."""
    return _position(re.argmax, "argmax", a, axis, out, keepdims)


@implements(np.argmin)
def argmin(a: Array, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Position of the first smallest element; as `numpy.argmin`."""
    return _position(re.argmin, "argmin", a, axis, out, keepdims)


@implements(np.ptp)
def ptp(a: Array, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    """Largest less smallest element; as `numpy.ptp`."""
    high = _max(a, axis, None, None, keepdims)
    return deliver(el.sub(high, _min(a, axis, None, None, keepdims)), out, "ptp")


@implements(np.count_nonzero)
def count_nonzero(a: Array, axis: Any = None, *, keepdims: Any = False) -> Array:
    """How many elements over `axis` are not zero; as `numpy.count_nonzero`."""
    return _sum(truth(operand(a, "count_nonzero")), axis, None, None, keepdims)


# --------------------------------------------------------------------------------- cumulative


def _flat_or_axis(a: Array, axis: Any, op: str) -> tuple[Array, int]:
    x = operand(a, op)
    if axis is None:
        return reshape(x, (aval_of(x).size,)), 0
    if not x.shape:
        x = reshape(x, (1,))
    return x, axis_index(axis, len(x.shape), op)


def _cumulative(
    op: str, row: Callable[..., Any], a: Array, axis: Any, dtype: Any, out: Any
) -> Array:
    x, k = _flat_or_axis(a, axis, op)
    kind = sum_dtype(x.dtype) if dtype is None else asarray_dtype(dtype)
    return deliver(row(converted(x, kind), k), out, op)


@implements(np.cumsum, halves=True)
def cumsum(a: Array, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    """Running sums; as `numpy.cumsum`."""
    return _cumulative("cumsum", cu.cumsum, a, axis, dtype, out)


@implements(np.cumprod, halves=True)
def cumprod(a: Array, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    """Running products; as `numpy.cumprod`."""
    return _cumulative("cumprod", cu.cumprod, a, axis, dtype, out)


def _array_api_cumulative(
    op: str,
    row: Callable[..., Any],
    first: int,
    x: Array,
    axis: Any,
    dtype: Any,
    out: Any,
    include_initial: bool,
) -> Array:
    x = operand(x, op)
    if axis is None:
        if len(x.shape) > 1:
            raise ShapeError(
                f"for an array of {len(x.shape)} dimensions the axis is required", op=op
            )
        axis = 0
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    value = _cumulative(op, row, x, axis, dtype, None)
    if include_initial:
        k = axis_index(axis, len(value.shape), op)
        one = [1 if d == k else n for d, n in enumerate(value.shape)]
        start = broadcast(np.asarray(first).astype(value.dtype)[()], one)
        value = concatenate([start, value], k)
    return deliver(value, out, op)


@implements(np.cumulative_sum, halves=True)
def cumulative_sum(
    x: Array,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Array:
    """Running sums; as `numpy.cumulative_sum`."""
    return _array_api_cumulative(
        "cumulative_sum", cu.cumsum, 0, x, axis, dtype, out, include_initial
    )


@implements(np.cumulative_prod, halves=True)
def cumulative_prod(
    x: Array,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Array:
    """Running products; as `numpy.cumulative_prod`."""
    return _array_api_cumulative(
        "cumulative_prod", cu.cumprod, 1, x, axis, dtype, out, include_initial
    )


# -------------------------------------------------------------------------------- NaN-ignoring


def without_nan(a: Array, replacement: Any, op: str) -> tuple[Array, Array | None]:
    """The array with NaN replaced, and the mask of what was NaN (None for integers)."""
    x = operand(a, op)
    if not is_inexact(aval_of(x).dtype):
        return x, None
    mask = el.ne(x, x)
    return el.select(mask, np.asarray(replacement).astype(x.dtype)[()], x), mask


@implements(np.nansum)
def nansum(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Sum in which NaN counts as zero; as `numpy.nansum`."""
    x, _ = without_nan(a, 0, "nansum")
    return _sum(x, axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Product in which NaN counts as one; as `numpy.nanprod`."""
    x, _ = without_nan(a, 1, "nanprod")
    return _prod(x, axis, dtype, out, keepdims, initial, where)


def _nan_extremum(
    op: str,
    reduce: Callable[..., Any],
    worst: float,
    a: Array,
    axis: Any,
    out: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
) -> Array:
    x, mask = without_nan(a, worst, op)
    if initial is NoValue and where is not True and is_float(aval_of(x).dtype):
        x = masked(x, where, worst, op)
        where = True
    empty: Any = True  # whether the initial value is no number
    if initial is not NoValue and mask is not None:
        # It counts as one more element, and is passed over if it is NaN.
        start = as_dtype(operand(initial, op), x.dtype)
        empty = el.ne(start, start)
        initial = el.select(empty, np.asarray(worst).astype(x.dtype)[()], start)
    value = reduce(x, axis, None, None, keepdims, initial, where)
    if mask is not None:
        nothing = _all(mask, axis, None, keepdims, where)
        if empty is not True:
            nothing = el.logical_and(nothing, empty)
        value = el.select(nothing, np.asarray(np.nan).astype(x.dtype)[()], value)
    return deliver(value, out, op)


@implements(np.nanmax)
def nanmax(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Largest element that is not NaN; as `numpy.nanmax`."""
    return _nan_extremum("nanmax", _max, -np.inf, a, axis, out, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """Smallest element that is not NaN; as `numpy.nanmin`."""
    return _nan_extremum("nanmin", _min, np.inf, a, axis, out, keepdims, initial, where)


@implements(np.nanargmax)
def nanargmax(a: Array, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Position of the first largest element that is not NaN."""
    return argmax(without_nan(a, -np.inf, "nanargmax")[0], axis, out, keepdims=keepdims)


@implements(np.nanargmin)
def nanargmin(a: Array, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Position of the first smallest element that is not NaN."""
    return argmin(without_nan(a, np.inf, "nanargmin")[0], axis, out, keepdims=keepdims)


@implements(np.nancumsum)
def nancumsum(a: Array, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    """Running sums in which NaN counts as zero."""
    return cumsum(without_nan(a, 0, "nancumsum")[0], axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Array, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    """Running products in which NaN counts as one."""
    return cumprod(without_nan(a, 1, "nancumprod")[0], axis, dtype, out)


@implements(np.diff, shares=True)
def diff(
    a: Array, n: int = 1, axis: int = -1, prepend: Any = NoValue, append: Any = NoValue
) -> Array:
    """Differences of neighbours along `axis`, `n` times; as `numpy.diff`."""
    x = operand(a, "diff")
    k = axis_index(axis, len(x.shape), "diff")
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}", op="diff")
    parts = [x]
    for place, extra in ((0, prepend), (len(parts), append)):
        if extra is not NoValue and extra is not None:
            piece = as_dtype(operand(extra, "diff"), x.dtype)
            if not aval_of(piece).shape:
                piece = broadcast(piece, [1 if d == k else m for d, m in enumerate(x.shape)])
            parts.insert(place if place == 0 else len(parts), piece)
    x = concatenate(parts, k) if len(parts) > 1 else x
    for _ in range(n):
        m = x.shape[k]
        if m == 0:
            break
        later, sooner = slice_axis(x, k, 1, m), slice_axis(x, k, 0, m - 1)
        x = el.ne(later, sooner) if x.dtype == BOOL else el.sub(later, sooner)
    return x


def cummax(a: Array, axis: Any = None) -> Array:
    """Running maxima along `axis`, as `numpy.maximum.accumulate`."""
    x, k = _flat_or_axis(a, axis, "cummax")
    return cu.cummax(x, k)


def cummin(a: Array, axis: Any = None) -> Array:
    """Running minima along `axis`, as `numpy.minimum.accumulate`."""
    x, k = _flat_or_axis(a, axis, "cummin")
    return cu.cummin(x, k)
