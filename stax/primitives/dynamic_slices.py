"""dynamic_slice, dynamic_update_slice and searchsorted: reads and writes at computed positions.

Input: an array, scalar start indices that may be traced, and static sizes.  A start that would
reach outside is moved inside (clamped), after negative ones have been counted from the end by the
surface.  Output: rows beside the functions that bind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    NONLINEAR,
    ZERO_DERIVATIVE,
    Linear,
    Primitive,
    Recompute,
    Zero,
)
from stax.core.trace import bind1
from stax.errors import DtypeError, ShapeError
from stax.loops import library, rules
from stax.primitives.casts import convert
from stax.primitives.elementwise import add, clamp, le, lt
from stax.primitives.families_arrays import batch_size, checked, no_cost, output_cost
from stax.primitives.indexing import INT64, aval_of_operand, gather, scatter
from stax.primitives.shapes import instantiate, iota, zeros
from stax.primitives.views import Shape, batched_front, broadcast, move_axis, reduce_sum, reshape


def _check_starts(op: str, x: Aval, starts: Sequence[Aval], sizes: Shape) -> None:
    if len(starts) != x.ndim or len(sizes) != x.ndim:
        raise ShapeError(f"needs one start and size for each of {x.ndim} axes", op=op, operands=[x])
    for s in starts:
        if s.shape != () or s.dtype.kind not in "iu":
            raise DtypeError("starts must be integer scalars", op=op, operands=[x, *starts])
    for n, m in zip(x.shape, sizes, strict=True):
        if not 0 <= m <= n:
            raise ShapeError(f"a slice of {sizes} does not fit into {x.shape}", op=op, operands=[x])


def _clamped(starts: Sequence[Any], shape: Shape, sizes: Shape) -> tuple[slice, ...]:
    out = []
    for s, n, m in zip(starts, shape, sizes, strict=True):
        at = min(max(int(s), 0), n - m)
        out.append(slice(at, at + m))
    return tuple(out)


def window_indices(starts: Sequence[Any], shape: Shape, sizes: Shape, lead: Shape) -> list[Any]:
    """Full index arrays, of shape lead + sizes, of clamped windows whose starts have shape lead."""
    full = (*lead, *sizes)
    out = []
    for k, (s, n, m) in enumerate(zip(starts, shape, sizes, strict=True)):
        at = clamp(np.int64(0), convert(s, INT64), np.int64(n - m))
        at = broadcast(at, full, range(len(lead)))
        out.append(add(at, iota(full, len(lead) + k)))
    return out


# ------------------------------------------------------------------------------ dynamic_slice


def _slice_aval(x: Aval, *starts: Aval, sizes: Shape) -> Aval:
    _check_starts("dynamic_slice", x, starts, sizes)
    return x.update(shape=sizes)


def _slice_jvp(primals: Any, outs: Any, tangents: Any, *, sizes: Shape) -> Any:
    if isinstance(tangents[0], Zero):
        return Zero(aval_of(outs).tangent())
    return dynamic_slice(tangents[0], primals[1:], sizes)


def _slice_transpose(ct: Any, x: Any, *starts: Any, sizes: Shape) -> tuple[Any, ...]:
    none = (None,) * len(starts)
    if isinstance(ct, Zero):
        return (Zero(x.aval), *none)
    blank = zeros(x.aval.shape, x.aval.dtype)
    return (dynamic_update_slice(blank, ct, starts), *none)


def _slice_batch(args: Any, dims: Any, *, sizes: Shape) -> tuple[Any, int]:
    x, *starts = args
    size = batch_size(args, dims)
    if all(d is None for d in dims[1:]):
        x = move_axis(x, dims[0], 0)
        return dynamic_slice(x, [np.int64(0), *starts], (size, *sizes)), 0
    shape = aval_of(x).shape
    if dims[0] is not None:
        x = move_axis(x, dims[0], 0)
        shape = x.shape[1:]
    starts = [batched_front(s, d, size) for s, d in zip(starts, dims[1:], strict=True)]
    idx = window_indices(starts, shape, sizes, (size,))
    if dims[0] is not None:
        idx = [iota((size, *sizes), 0), *idx]
    return gather(x, idx, range(len(idx)), mode="promise"), 0


def _slice_impl(x: Any, *starts: Any, sizes: Shape) -> Any:
    return np.asarray(x)[_clamped(starts, np.shape(x), sizes)].copy()


dynamic_slice_p = Primitive(
    "dynamic_slice",
    family="gather",
    abstract_eval=_slice_aval,
    impl=checked("dynamic_slice", _slice_aval, _slice_impl),
    jvp=_slice_jvp,
    transpose=_slice_transpose,
    batch=_slice_batch,
    lower=rules.dynamic_slice,
    cost=no_cost,
    recompute=Recompute.CHEAP,
)


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """The window of `x` of static `sizes` at scalar `starts`, moved inside where it reaches out."""
    if not sizes:
        return x
    return bind1(dynamic_slice_p, x, *starts, sizes=tuple(sizes))


# ----------------------------------------------------------------------- dynamic_update_slice


def _update_aval(x: Aval, update: Aval, *starts: Aval) -> Aval:
    if update.ndim != x.ndim:
        raise ShapeError(
            "the update needs as many axes as the array",
            op="dynamic_update_slice",
            operands=[x, update],
        )
    _check_starts("dynamic_update_slice", x, starts, update.shape)
    if update.dtype != x.dtype:
        raise DtypeError(
            "the update needs the array's dtype", op="dynamic_update_slice", operands=[x, update]
        )
    return x.strong()


def _update_impl(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[_clamped(starts, out.shape, np.shape(update))] = update
    return out


def _update_jvp(primals: Any, outs: Any, tangents: Any) -> Any:
    tx, tu = tangents[:2]
    if isinstance(tx, Zero) and isinstance(tu, Zero):
        return Zero(aval_of(outs).tangent())
    return dynamic_update_slice(instantiate(tx), instantiate(tu), primals[2:])


def _update_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> tuple[Any, ...]:
    none = (None,) * len(starts)
    shape = aval_of_operand(update).shape
    if isinstance(ct, Zero):
        pair = [Zero(v.aval) if isinstance(v, Linear) else None for v in (x, update)]
        return (*pair, *none)
    to_x = to_update = None
    if isinstance(x, Linear):
        to_x = dynamic_update_slice(ct, zeros(shape, ct.dtype), starts)
    if isinstance(update, Linear):
        to_update = dynamic_slice(ct, starts, shape)
    return to_x, to_update, *none


def _update_batch(args: Any, dims: Any) -> tuple[Any, int]:
    x, update, *starts = args
    size = batch_size(args, dims)
    x = batched_front(x, dims[0], size)
    update = batched_front(update, dims[1], size)
    if all(d is None for d in dims[2:]):
        return dynamic_update_slice(x, update, [np.int64(0), *starts]), 0
    starts = [batched_front(s, d, size) for s, d in zip(starts, dims[2:], strict=True)]
    sizes = update.shape[1:]
    idx = [iota(update.shape, 0), *window_indices(starts, x.shape[1:], sizes, (size,))]
    return scatter(x, update, idx, range(len(idx)), unique=True, mode="promise"), 0


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    family="scatter",
    abstract_eval=_update_aval,
    impl=checked("dynamic_update_slice", _update_aval, _update_impl),
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
    lower=rules.dynamic_update_slice,
    cost=no_cost,
    recompute=Recompute.CHEAP,
)


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """A copy of `x` with the window at scalar `starts`, clamped inside, replaced by `update`."""
    if not aval_of(x).shape:
        return update
    return bind1(dynamic_update_slice_p, x, update, *starts)


# ------------------------------------------------------------------------------- searchsorted


def _search_aval(a: Aval, v: Aval, *, side: str) -> Aval:
    if a.ndim != 1:
        raise ShapeError(
            "the sorted array must be one-dimensional", op="searchsorted", operands=[a]
        )
    if a.dtype != v.dtype:
        raise DtypeError("needs operands of one dtype", op="searchsorted", operands=[a, v])
    return Aval(v.shape, INT64)


def _search_batch(args: Any, dims: Any, *, side: str) -> tuple[Any, int]:
    a, v = args
    size = batch_size(args, dims)
    v = batched_front(v, dims[1], size)
    if dims[0] is None:
        return searchsorted(a, v, side), 0
    a = move_axis(a, dims[0], 0)
    n = a.shape[1]
    flat = reshape(v, (size, -1 if v.size == 0 else v.size // size, 1))
    full = (size, flat.shape[1], n)
    below = (lt if side == "left" else le)(broadcast(a, full, (0, 2)), broadcast(flat, full))
    return reshape(reduce_sum(convert(below, INT64), [2]), v.shape), 0


searchsorted_p = Primitive(
    "searchsorted",
    family="gather",
    abstract_eval=_search_aval,
    impl=lambda a, v, *, side: np.asarray(np.searchsorted(a, v, side)).astype(np.int64),
    jvp=ZERO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=_search_batch,
    lower=library.searchsorted,
    cost=output_cost,
    recompute=Recompute.EXPENSIVE,
)


def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Where each element of `v` would be inserted into the sorted vector `a`."""
    return bind1(searchsorted_p, a, v, side=side)
