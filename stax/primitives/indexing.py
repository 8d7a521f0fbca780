"""Indexed reads and writes: gather, scatter, dynamic_slice, dynamic_update_slice, searchsorted.

Input: an array, integer index arrays of one common shape I, and the axes they index.  `gather`
gives I + (the axes of x that are not indexed, in order); `scatter` writes updates of that same
shape, and is its transpose.  `mode` says what an index outside the array means: "error" (NumPy:
negative counts from the end, beyond raises IndexError), "clip", "fill" (reads give NaN or 0,
writes are dropped), "wrap" (modulo) or "promise" (the caller knows it is inside).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    Linear,
    Primitive,
    Recompute,
    Zero,
)
from stax.core.trace import bind1
from stax.dtypes import DType, is_inexact
from stax.errors import DtypeError, OutOfBoundsError, ShapeError
from stax.loops import rules
from stax.primitives.casts import convert
from stax.primitives.elementwise import div, eq, logical_and, lt, mul, select, sub
from stax.primitives.families_arrays import (
    batch_size,
    check_axes,
    checked,
    no_cost,
    without_axes,
)
from stax.primitives.shapes import instantiate, iota, scalar_zero, zeros
from stax.primitives.views import (
    Shape,
    batched_front,
    broadcast,
    move_axis,
    reshape,
)

MODES = ("error", "clip", "fill", "wrap", "promise")
KINDS = ("set", "add", "mul", "min", "max")
INT64 = np.dtype(np.int64)


# --------------------------------------------------------------------------- what indices mean


def _check_indices(op: str, x: Aval, idx: Sequence[Aval], axes: Shape, mode: str) -> Shape:
    check_axes(axes, x, op)
    if mode not in MODES:
        raise ShapeError(f"mode {mode!r} is none of {MODES}", op=op)
    if len(idx) != len(axes) or not idx:
        raise ShapeError(f"{len(idx)} index arrays for {len(axes)} axes", op=op, operands=[x, *idx])
    for i in idx:
        if i.dtype.kind not in "iu":
            raise DtypeError("indices must be integers", op=op, operands=[x, *idx])
        if i.shape != idx[0].shape:
            raise ShapeError("index arrays must share one shape", op=op, operands=[x, *idx])
    return idx[0].shape


def resolved_indices(
    shape: Shape, idx: Sequence[Any], axes: Shape, mode: str, op: str
) -> tuple[list[Any], Any]:
    """Indices inside the array, and a mask of those that were (None when all are used).

    Raises OutOfBoundsError in mode "error".
    """
    inside: Any = None
    out = []
    for raw, axis in zip(idx, axes, strict=True):
        n = shape[axis]
        i = np.asarray(raw)
        if mode == "promise":
            out.append(i)
            continue
        if mode == "clip":
            out.append(np.clip(i, 0, max(n - 1, 0)).astype(np.int64))
            inside = np.zeros(i.shape, bool) if n == 0 else inside
            continue
        if mode == "wrap":
            out.append(np.mod(i.astype(np.int64), max(n, 1)))
            inside = np.zeros(i.shape, bool) if n == 0 else inside
            continue
        if i.dtype.kind == "u":
            good = i < n
        else:
            good = (i >= -n) & (i < n)
            i = np.where(i < 0, i.astype(np.int64) + n, i)
        if not good.all():
            if mode == "error":
                bad = np.asarray(raw)[~good].flat[0]
                raise OutOfBoundsError(
                    f"index {bad} is out of bounds for axis {axis} with size {n}", op=op
                )
            i = np.where(good, i, 0)
            inside = good if inside is None else inside & good
        out.append(i)
    return out, inside


def _placed(idx: Sequence[Any], axes: Shape, ndim: int) -> tuple[Any, ...]:
    where: list[Any] = [slice(None)] * ndim
    for i, a in zip(idx, axes, strict=True):
        where[a] = i
    return tuple(where)


def _front(x: Any, axes: Shape) -> Any:
    """A view of `x` with the indexed axes in front, in the order of `axes`."""
    return np.moveaxis(x, axes, range(len(axes)))


def fill_value(dtype: DType) -> Any:
    """What mode "fill" reads outside the array: NaN, or the least integer, or False."""
    if is_inexact(dtype):
        return np.asarray(np.nan).astype(dtype)[()]
    if dtype.kind == "i":
        return np.iinfo(dtype).min
    return np.iinfo(dtype).max if dtype.kind == "u" else True


# ------------------------------------------------------------------------------------- gather


def _gather_aval(x: Aval, *idx: Aval, axes: Shape, mode: str) -> Aval:
    common = _check_indices("gather", x, idx, axes, mode)
    return x.update(shape=common + without_axes(x.shape, axes))


def _gather_impl(x: Any, *idx: Any, axes: Shape, mode: str) -> Any:
    x = np.asarray(x)
    inner, inside = resolved_indices(x.shape, idx, axes, mode, "gather")
    common = np.shape(idx[0])
    if inside is not None and not inside.any():
        shape = common + without_axes(x.shape, axes)
        return np.full(shape, fill_value(x.dtype), x.dtype)
    out = _front(x, axes)[tuple(inner)]
    if inside is not None:
        mask = inside.reshape(inside.shape + (1,) * (out.ndim - inside.ndim))
        out = np.where(mask, out, np.asarray(fill_value(x.dtype)).astype(x.dtype))
    return np.asarray(out)


def _gather_jvp(primals: Any, outs: Any, tangents: Any, *, axes: Shape, mode: str) -> Any:
    if isinstance(tangents[0], Zero):
        return Zero(aval_of(outs).tangent())
    return gather(tangents[0], primals[1:], axes, mode)


def _gather_transpose(ct: Any, x: Any, *idx: Any, axes: Shape, mode: str) -> tuple[Any, ...]:
    none = (None,) * len(idx)
    if isinstance(ct, Zero):
        return (Zero(x.aval), *none)
    return (scatter(zeros(x.aval.shape, x.aval.dtype), ct, idx, axes, "add", mode=mode), *none)


def _gather_batch(args: Any, dims: Any, *, axes: Shape, mode: str) -> tuple[Any, int]:
    x, *idx = args
    xdim, *idims = dims
    size = batch_size(args, dims)
    if all(d is None for d in idims):
        x = move_axis(x, xdim, 0)
        return gather(x, idx, [a + 1 for a in axes], mode), len(aval_of(idx[0]).shape)
    idx = [batched_front(i, d, size) for i, d in zip(idx, idims, strict=True)]
    if xdim is None:
        return gather(x, idx, axes, mode), 0
    x = move_axis(x, xdim, 0)
    idx = [iota(idx[0].shape, 0), *idx]
    return gather(x, idx, [0, *(a + 1 for a in axes)], mode), 0


gather_p = Primitive(
    "gather",
    family="gather",
    abstract_eval=_gather_aval,
    impl=_gather_impl,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    lower=rules.gather,
    cost=no_cost,
    recompute=Recompute.CHEAP,
)


def gather(x: Any, idx: Sequence[Any], axes: Sequence[int], mode: str = "error") -> Any:
    """The elements of `x` at the index arrays `idx` (one shape I) along `axes`.

    The result has shape I + the other axes of `x` in order.
    """
    return bind1(gather_p, x, *idx, axes=tuple(axes), mode=mode)


# ------------------------------------------------------------------------------------ scatter


def _scatter_aval(
    x: Aval, updates: Aval, *idx: Aval, axes: Shape, kind: str, unique: bool, mode: str
) -> Aval:
    common = _check_indices("scatter", x, idx, axes, mode)
    if kind not in KINDS:
        raise ShapeError(f"kind {kind!r} is none of {KINDS}", op="scatter")
    if updates.dtype != x.dtype:
        raise DtypeError("updates need the array's dtype", op="scatter", operands=[x, updates])
    shape = common + without_axes(x.shape, axes)
    if updates.shape != shape:
        raise ShapeError(
            f"updates need shape {shape}, not {updates.shape}", op="scatter", operands=[x, updates]
        )
    return x.strong()


_UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _scatter_impl(
    x: Any, updates: Any, *idx: Any, axes: Shape, kind: str, unique: bool, mode: str
) -> Any:
    x = np.asarray(x)
    inner, inside = resolved_indices(x.shape, idx, axes, mode, "scatter")
    out = np.array(x)
    front = _front(out, axes)
    updates = np.asarray(updates)
    where = tuple(np.asarray(i) for i in inner)
    if inside is not None:
        # Dropped writes go away with their indices.
        keep = np.nonzero(inside) if inside.ndim else (() if inside else None)
        if keep is None:
            return out
        where = tuple(i[keep] for i in where)
        updates = updates[keep]
    with np.errstate(all="ignore"):
        if kind == "set":
            front[where] = updates
        elif unique:
            front[where] = _UFUNCS[kind](front[where], updates)
        elif kind == "add" and x.ndim == 1 and where[0].ndim == 1 and x.dtype.kind == "f":
            out += np.bincount(where[0], updates, len(x)).astype(x.dtype, copy=False)
        else:
            _UFUNCS[kind].at(front, where, updates)
    return out


def _scatter_jvp(
    primals: Any,
    outs: Any,
    tangents: Any,
    *,
    axes: Shape,
    kind: str,
    unique: bool,
    mode: str,
) -> Any:
    x, updates, *idx = primals
    tx, tu = tangents[:2]
    if isinstance(tx, Zero) and isinstance(tu, Zero):
        return Zero(aval_of(outs).tangent())
    params: dict[str, Any] = {"mode": mode, "unique": unique}
    if kind in ("set", "add"):
        return scatter(instantiate(tx), instantiate(tu), idx, axes, kind, **params)
    if kind == "mul":
        return _scatter_mul_tangent(x, updates, idx, axes, tx, tu, params)
    out = outs
    tx, tu = instantiate(tx), instantiate(tu)
    nothing = scalar_zero(tx.dtype)
    kept = eq(x, out)
    chosen = eq(updates, gather(out, idx, axes, mode))
    total = scatter(
        select(kept, tx, nothing),
        select(chosen, tu, nothing),
        idx,
        axes,
        "add",
        **params,
    )
    count = scatter(convert(kept, tx.dtype), convert(chosen, tx.dtype), idx, axes, "add", **params)
    return div(total, count)


def _scatter_mul_tangent(
    x: Any, u: Any, idx: Any, axes: Shape, tx: Any, tu: Any, params: dict[str, Any]
) -> Any:
    tangent = None
    if not isinstance(tx, Zero):
        tangent = scatter(tx, u, idx, axes, "mul", **params)
    if isinstance(tu, Zero):
        return tangent
    mode = params["mode"]
    here = gather(x, idx, axes, "clip" if mode == "fill" else mode)
    if not params["unique"]:
        # The product of the other factors of the same element, right where factors are zero.
        one = np.ones((), u.dtype)[()]
        none = zeros(x.shape, u.dtype)
        is_zero = eq(u, scalar_zero(u.dtype))
        solid = select(is_zero, one, u)
        ones = broadcast(one, x.shape)
        product = gather(scatter(ones, solid, idx, axes, "mul", mode=mode), idx, axes, mode)
        zero_count = scatter(none, convert(is_zero, u.dtype), idx, axes, "add", mode=mode)
        other_zeros = sub(gather(zero_count, idx, axes, mode), convert(is_zero, u.dtype))
        no_other = eq(other_zeros, scalar_zero(u.dtype))
        here = mul(here, select(no_other, div(product, solid), scalar_zero(u.dtype)))
    base = zeros(x.shape, u.dtype) if tangent is None else tangent
    return scatter(base, mul(tu, here), idx, axes, "add", **params)


def _scatter_transpose(
    ct: Any,
    x: Any,
    updates: Any,
    *idx: Any,
    axes: Shape,
    kind: str,
    unique: bool,
    mode: str,
) -> tuple[Any, ...]:
    none = (None,) * len(idx)
    linear = isinstance(x, Linear), isinstance(updates, Linear)
    if isinstance(ct, Zero):
        return (
            Zero(x.aval) if linear[0] else None,
            Zero(updates.aval) if linear[1] else None,
            *none,
        )
    if kind == "mul":
        return scatter(ct, updates, idx, axes, "mul", unique=unique, mode=mode), None, *none
    to_x = to_updates = None
    if linear[0]:
        to_x = ct
        if kind == "set":
            blank = zeros(aval_of_operand(updates).shape, ct.dtype)
            to_x = scatter(ct, blank, idx, axes, "set", unique=unique, mode=mode)
    if linear[1]:
        to_updates = _read_cotangent(ct, idx, axes, mode)
        if kind == "set" and not unique:
            to_updates = _winners_only(to_updates, ct.shape, idx, axes, mode)
    return to_x, to_updates, *none


def aval_of_operand(value: Any) -> Aval:
    """The type of an argument of a transpose rule."""
    return value.aval if isinstance(value, Linear) else aval_of(value)


def _read_cotangent(ct: Any, idx: Any, axes: Shape, mode: str) -> Any:
    read = gather(ct, idx, axes, mode)
    if mode != "fill":
        return read
    # A dropped write has no influence, so its cotangent is zero, not the fill value.
    inside = None
    for i, a in zip(idx, axes, strict=True):
        n = ct.shape[a]
        i = convert(i, INT64)
        here = logical_and(lt(np.int64(-n - 1), i), lt(i, np.int64(n)))
        inside = here if inside is None else logical_and(inside, here)
    mask = broadcast(inside, read.shape, range(len(aval_of(inside).shape)))
    return select(mask, read, scalar_zero(read.dtype))


def _winners_only(read: Any, shape: Shape, idx: Any, axes: Shape, mode: str) -> Any:
    # Of several writes to one element the last stays; only it receives the cotangent.
    common = aval_of(idx[0]).shape
    count = int(np.prod(common, dtype=np.int64))
    ids = reshape(iota((count,)), common)
    slots = zeros([shape[a] for a in axes], INT64)
    plain = tuple(range(len(axes)))
    final = gather(scatter(slots, ids, idx, plain, "set", mode=mode), idx, plain, mode)
    won = broadcast(eq(final, ids), read.shape, range(len(common)))
    return select(won, read, scalar_zero(read.dtype))


def _scatter_batch(
    args: Any, dims: Any, *, axes: Shape, kind: str, unique: bool, mode: str
) -> tuple[Any, int]:
    x, updates, *idx = args
    xdim, udim, *idims = dims
    size = batch_size(args, dims)
    x = batched_front(x, xdim, size)
    later = [a + 1 for a in axes]
    params: dict[str, Any] = {"kind": kind, "unique": unique, "mode": mode}
    if all(d is None for d in idims):
        lead = len(aval_of(idx[0]).shape)
        updates = move_axis(batched_front(updates, udim, size), 0, lead)
        return scatter(x, updates, idx, later, **params), 0
    updates = batched_front(updates, udim, size)
    idx = [batched_front(i, d, size) for i, d in zip(idx, idims, strict=True)]
    return scatter(x, updates, [iota(idx[0].shape, 0), *idx], [0, *later], **params), 0


scatter_p = Primitive(
    "scatter",
    family="scatter",
    abstract_eval=_scatter_aval,
    impl=checked("scatter", _scatter_aval, _scatter_impl),
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    lower=rules.scatter,
    cost=lambda in_avals, out_avals, params: in_avals[1].size,
    recompute=Recompute.EXPENSIVE,
)


def scatter(
    x: Any,
    updates: Any,
    idx: Sequence[Any],
    axes: Sequence[int],
    kind: str = "set",
    unique: bool = False,
    mode: str = "error",
) -> Any:
    """A copy of `x` with `updates` written at the index arrays `idx` along `axes`.

    `kind` is set, add, mul, min or max; `unique` promises that no element is written twice.
    """
    return bind1(scatter_p, x, updates, *idx, axes=tuple(axes), kind=kind, unique=unique, mode=mode)
