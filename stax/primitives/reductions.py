"""Reduction primitives: prod, max, min, any, all, argmax, argmin (sum stands beside broadcast).

Input: a value, the axes to drop (sorted, non-negative) and, where it can differ, the result
dtype.  Output: rows beside the functions that bind them.  Ties of max and min share the
derivative equally; the derivative of prod is right where factors are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    FALLBACK,
    NONLINEAR,
    ZERO_DERIVATIVE,
    Primitive,
    Recompute,
    Rule,
    Sentinel,
)
from stax.core.trace import bind1
from stax.dtypes import DType, accumulator, is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.loops import rules
from stax.primitives.casts import convert
from stax.primitives.cumulative import cumprod
from stax.primitives.elementwise import div, eq, mul, select
from stax.primitives.families_arrays import check_axes, input_cost, shifted, size_of, without_axes
from stax.primitives.shapes import concatenate, scalar_zero, slice_axis
from stax.primitives.views import Shape, broadcast, reduce_sum, reshape, transpose


def expanded(x: Any, axes: Sequence[int], like: Any) -> Any:
    """A reduction's result repeated over the axes it dropped."""
    shape = aval_of(like).shape
    return broadcast(x, shape, [k for k in range(len(shape)) if k not in axes])


def _reduce_batch(row: Callable[[], Primitive]) -> Rule:
    def batch(args: Any, dims: Any, *, axes: Shape, **params: Any) -> tuple[Any, int]:
        wide = shifted(axes, dims[0])
        out = bind1(row(), args[0], axes=wide, **params)
        return out, dims[0] - sum(a < dims[0] for a in wide)

    return batch


def reduction(
    name: str,
    *,
    abstract_eval: Rule,
    impl: Rule,
    jvp: Rule | Sentinel,
    lower: Rule | Sentinel = FALLBACK,
) -> Primitive:
    """A row for a nonlinear reduction over `axes`."""
    row: Primitive = Primitive(
        name,
        family="reduction",
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=NONLINEAR,
        batch=_reduce_batch(lambda: row),
        lower=lower,
        cost=input_cost,
        recompute=Recompute.REDUCTION,
    )
    return row


# --------------------------------------------------------------------------------------- prod


def _prod_aval(x: Aval, *, axes: Shape, dtype: DType) -> Aval:
    check_axes(axes, x, "prod")
    if x.dtype != dtype and (is_inexact(x.dtype) or not is_integer(dtype)):
        raise DtypeError(f"a product of {x.dtype} is not of dtype {dtype}", op="prod", operands=[x])
    return Aval(without_axes(x.shape, axes), dtype)


def _prod_impl(x: Any, *, axes: Shape, dtype: DType) -> Any:
    wide = accumulator(dtype)
    return np.asarray(np.prod(x, axis=axes, dtype=wide)).astype(dtype, copy=False)


def _prod_jvp(primals: Any, outs: Any, tangents: Any, *, axes: Shape, dtype: DType) -> Any:
    (x,), (t,) = primals, tangents
    kept = [k for k in range(len(x.shape)) if k not in axes]
    shape = [x.shape[k] for k in kept] + [size_of([x.shape[k] for k in axes])]
    flat = reshape(transpose(x, [*kept, *axes]), shape)
    flat_t = reshape(transpose(t, [*kept, *axes]), shape)
    return reduce_sum(mul(flat_t, products_of_others(flat, len(kept))), [len(kept)])


def products_of_others(x: Any, axis: int) -> Any:
    """For each element the product of the others along `axis`, with no division."""
    n = x.shape[axis]
    if n == 0:
        return x
    ones = broadcast(
        np.ones((), x.dtype)[()], [1 if k == axis else m for k, m in enumerate(x.shape)]
    )
    before = concatenate([ones, slice_axis(cumprod(x, axis), axis, 0, n - 1)], axis)
    after = concatenate([slice_axis(cumprod(x, axis, reverse=True), axis, 1, n), ones], axis)
    return mul(before, after)


prod_p = reduction(
    "prod",
    abstract_eval=_prod_aval,
    impl=_prod_impl,
    jvp=_prod_jvp,
    lower=rules.reduce_prod,
)


def reduce_prod(x: Any, axes: Sequence[int], dtype: DType | None = None) -> Any:
    """The product over `axes`, which are dropped."""
    dtype = aval_of(x).dtype if dtype is None else np.dtype(dtype)
    return bind1(prod_p, x, axes=tuple(sorted(axes)), dtype=dtype)


# ----------------------------------------------------------------------------------- max, min


def _extremum_aval(name: str) -> Rule:
    def abstract_eval(x: Aval, *, axes: Shape) -> Aval:
        check_axes(axes, x, name)
        if any(x.shape[a] == 0 for a in axes):
            raise ShapeError(
                "zero-size array to a reduction which has no identity", op=name, operands=[x]
            )
        return x.update(shape=without_axes(x.shape, axes))

    return abstract_eval


def _extremum_jvp(primals: Any, outs: Any, tangents: Any, *, axes: Shape) -> Any:
    (x,), out, (t,) = primals, outs, tangents
    chosen = eq(x, expanded(out, axes, x))
    count = reduce_sum(convert(chosen, t.dtype), axes)
    total = reduce_sum(select(chosen, t, scalar_zero(t.dtype)), axes)
    return div(total, count)


def _reduced_by(function: Callable[..., Any]) -> Rule:
    return lambda x, *, axes: np.asarray(function(x, axis=axes))


max_p = reduction(
    "max",
    abstract_eval=_extremum_aval("max"),
    impl=_reduced_by(np.max),
    jvp=_extremum_jvp,
    lower=rules.reduce_extreme("max"),
)
min_p = reduction(
    "min",
    abstract_eval=_extremum_aval("min"),
    impl=_reduced_by(np.min),
    jvp=_extremum_jvp,
    lower=rules.reduce_extreme("min"),
)


def reduce_max(x: Any, axes: Sequence[int]) -> Any:
    """The largest element over `axes`, which are dropped; NaN wins."""
    return bind1(max_p, x, axes=tuple(sorted(axes)))


def reduce_min(x: Any, axes: Sequence[int]) -> Any:
    """The smallest element over `axes`, which are dropped; NaN wins."""
    return bind1(min_p, x, axes=tuple(sorted(axes)))


# ----------------------------------------------------------------------------------- any, all


def _truth_aval(name: str) -> Rule:
    def abstract_eval(x: Aval, *, axes: Shape) -> Aval:
        check_axes(axes, x, name)
        if x.dtype != np.bool_:
            raise DtypeError("needs booleans", op=name, operands=[x])
        return x.update(shape=without_axes(x.shape, axes))

    return abstract_eval


any_p = reduction(
    "any",
    abstract_eval=_truth_aval("any"),
    impl=_reduced_by(np.any),
    jvp=ZERO_DERIVATIVE,
    lower=rules.reduce_truth("any"),
)
all_p = reduction(
    "all",
    abstract_eval=_truth_aval("all"),
    impl=_reduced_by(np.all),
    jvp=ZERO_DERIVATIVE,
    lower=rules.reduce_truth("all"),
)


def reduce_any(x: Any, axes: Sequence[int]) -> Any:
    """True where some boolean over `axes` is."""
    return bind1(any_p, x, axes=tuple(sorted(axes)))


def reduce_all(x: Any, axes: Sequence[int]) -> Any:
    """True where every boolean over `axes` is."""
    return bind1(all_p, x, axes=tuple(sorted(axes)))


# ----------------------------------------------------------------------------- argmax, argmin


def _arg_row(name: str, function: Callable[..., Any]) -> Primitive:
    def abstract_eval(x: Aval, *, axis: int, dtype: DType) -> Aval:
        check_axes((axis,), x, name)
        if x.shape[axis] == 0:
            raise ShapeError("attempt to get the position of an empty axis", op=name, operands=[x])
        return Aval(without_axes(x.shape, (axis,)), dtype)

    def batch(args: Any, dims: Any, *, axis: int, dtype: DType) -> tuple[Any, int]:
        (wide,) = shifted((axis,), dims[0])
        return bind1(row, args[0], axis=wide, dtype=dtype), dims[0] - (wide < dims[0])

    row = Primitive(
        name,
        family="reduction",
        abstract_eval=abstract_eval,
        impl=lambda x, *, axis, dtype: np.asarray(function(x, axis=axis)).astype(dtype),
        jvp=ZERO_DERIVATIVE,
        transpose=NONLINEAR,
        batch=batch,
        lower=rules.arg_extreme(name),
        cost=input_cost,
        recompute=Recompute.REDUCTION,
    )
    return row


argmax_p = _arg_row("argmax", np.argmax)
argmin_p = _arg_row("argmin", np.argmin)


def argmax(x: Any, axis: int, dtype: Any = np.int64) -> Any:
    """The position of the first largest element along `axis`; the first NaN wins.

    Complex numbers are ordered by their real, then by their imaginary parts.
    """
    return bind1(argmax_p, x, axis=axis, dtype=np.dtype(dtype))


def argmin(x: Any, axis: int, dtype: Any = np.int64) -> Any:
    """The position of the first smallest element along `axis`; the first NaN wins."""
    return bind1(argmin_p, x, axis=axis, dtype=np.dtype(dtype))
