"""Sliding windows: sums, largest and smallest elements over a window at every place.

Input: an array and, one number for each axis, the window's extents, strides, padding, and the
dilation of array and window.  Output: rows beside the functions that bind them.  A window's sum is
linear, and its transpose is the sum of a window that slides over the spread-out cotangent.  The
derivative of a largest element goes to the first largest element of the window; where it lies is
an operation of its own, so that the derivative is a read and its transpose a scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    NONLINEAR,
    ZERO_DERIVATIVE,
    Primitive,
    Recompute,
    Rule,
)
from stax.core.trace import bind1
from stax.dtypes import accumulator
from stax.errors import DtypeError, ShapeError
from stax.loops.monoids import highest, lowest
from stax.loops.windows import window_reduction
from stax.primitives import elementwise as el
from stax.primitives.convolution import conv_extents, dilated
from stax.primitives.families import kind_of
from stax.primitives.families_arrays import linear_shape_op
from stax.primitives.indexing import gather
from stax.primitives.shapes import iota, pad, pad_p, scalar_zero, strided_slice, zeros
from stax.primitives.views import broadcast, move_axis, reduce_sum, reshape

Axes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
INT64 = np.dtype(np.int64)


def window_extents(shape: Sequence[int], **params: Any) -> Axes:
    """The extents of the result."""
    return tuple(
        conv_extents(
            shape,
            params["window"],
            params["strides"],
            params["padding"],
            params["base_dilation"],
            params["window_dilation"],
        )
    )


def _check(op: str, x: Aval, params: dict[str, Any], accepts: str = "ifc") -> None:
    for name, numbers in params.items():
        if name not in ("window", "strides", "padding", "base_dilation", "window_dilation"):
            continue
        if len(numbers) != x.ndim:
            raise ShapeError(
                f"{name} must have one entry for each of the {x.ndim} axes, got {numbers}",
                op=op,
                operands=[x],
            )
        if name != "padding" and any(n < 1 for n in numbers):
            raise ShapeError(f"{name} must be positive, got {numbers}", op=op, operands=[x])
    if kind_of(x.dtype) not in accepts:
        raise DtypeError("needs an operand of numeric dtype", op=op, operands=[x])


def _windows(x: Any, value: Any, params: dict[str, Any]) -> Any:
    """A view [result..., window...] of the array framed with `value`."""
    low = tuple(a for a, _ in params["padding"])
    high = tuple(b for _, b in params["padding"])
    interior = tuple(d - 1 for d in params["base_dilation"])
    framed = np.ascontiguousarray(
        pad_p.impl(x, value, low=low, high=high, interior=interior)
    ).reshape([dilated(n, d) + a + b for n, d, a, b in zip(
        np.shape(x), params["base_dilation"], low, high, strict=True)])  # fmt: skip
    steps = framed.strides
    return np.lib.stride_tricks.as_strided(
        framed,
        (*window_extents(np.shape(x), **params), *params["window"]),
        (
            *(s * t for s, t in zip(params["strides"], steps, strict=True)),
            *(s * t for s, t in zip(params["window_dilation"], steps, strict=True)),
        ),
        writeable=False,
    )


def _batch(row: Any) -> Rule:
    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        x = move_axis(args[0], dims[0], 0)
        wide = {
            name: (((0, 0) if name == "padding" else 1), *numbers)
            if isinstance(numbers, tuple)
            else numbers
            for name, numbers in params.items()
        }
        return bind1(row(), x, **wide), 0

    return batch


def _lowered(kind: str | None) -> Rule:
    """The `lower` rule of a row; without a kind, that of positions, whose kind is a parameter."""

    def lower(ctx: Any, x: Any, **params: Any) -> Any:
        if not x.shape:
            return NotImplemented
        merged = {"positions": True} if kind is None else {"kind": kind}
        return window_reduction(
            ctx,
            x,
            extents=window_extents(x.shape, **{k: v for k, v in params.items() if k != "kind"}),
            **merged,
            **params,
        )

    return lower


def identity_of(op: str, dtype: Any) -> Any:
    """What leaves every element as it is under `add`, `maximum` or `minimum`."""
    if op == "add":
        return dtype.type(0)
    return _outside("max" if op == "maximum" else "min", dtype)


def _cost(in_avals: Any, out_avals: Any, params: Any) -> int:
    return int(out_avals[0].size) * int(math.prod(params["window"]))


# ---------------------------------------------------------------------------------------- sum


def _sum_aval(x: Aval, **params: Any) -> Aval:
    _check("window_sum", x, params)
    return x.update(shape=window_extents(x.shape, **params))


def _sum_impl(x: Any, **params: Any) -> Any:
    x = np.asarray(x)
    seen = _windows(x, scalar_zero(x.dtype), params)
    axes = tuple(range(x.ndim, 2 * x.ndim))
    return np.asarray(seen.sum(axis=axes, dtype=accumulator(x.dtype))).astype(x.dtype, copy=False)


def _sum_transpose(ct: Any, aval: Aval, **params: Any) -> Any:
    if aval_of(ct).size == 0:
        return zeros(aval.shape, aval.dtype)
    window, strides, padding = params["window"], params["strides"], params["padding"]
    holes, base = params["window_dilation"], params["base_dilation"]
    if window == strides and all(d == 1 for d in (*holes, *base)):
        return _spread_blocks(ct, aval, window, padding)
    pairs = []
    for n, m, k, s, (low, _), d, b in zip(
        aval.shape, ct.shape, window, strides, padding, holes, base, strict=True
    ):
        reach = (k - 1) * d
        before = reach - low
        pairs.append((before, dilated(n, b) + reach - dilated(m, s) - before))
    found = window_sum(
        ct,
        window=window,
        strides=(1,) * aval.ndim,
        padding=tuple(pairs),
        base_dilation=strides,
        window_dilation=holes,
    )
    return strided_slice(found, (0,) * aval.ndim, found.shape, base)


def _spread_blocks(ct: Any, aval: Aval, window: Axes, padding: Pairs) -> Any:
    """The cotangent of sums over windows that do not overlap: each repeated over its window."""
    tall = [n for m in ct.shape for n in (m, 1)]
    wide = [n for m, k in zip(ct.shape, window, strict=True) for n in (m, k)]
    whole = reshape(
        broadcast(reshape(ct, tall), wide),
        [m * k for m, k in zip(ct.shape, window, strict=True)],
    )
    low = [-a for a, _ in padding]
    high = [n - m + a for n, m, (a, _) in zip(aval.shape, whole.shape, padding, strict=True)]
    return pad(whole, scalar_zero(aval.dtype), low, high)


window_sum_p: Primitive = linear_shape_op(
    "window_sum",
    family="window",
    abstract_eval=_sum_aval,
    impl=_sum_impl,
    transpose=_sum_transpose,
    batch=_batch(lambda: window_sum_p),
    lower=_lowered("sum"),
    recompute=Recompute.REDUCTION,
    cost=_cost,
)


def window_sum(x: Any, **params: Any) -> Any:
    """The sum over the window at every place; outside the array there are zeros."""
    return bind1(window_sum_p, x, **params)


# ------------------------------------------------------------------------- largest, smallest


def _outside(kind: str, dtype: Any) -> Any:
    return np.asarray((lowest if kind == "max" else highest)(dtype)).astype(dtype)[()]


def _position_aval(x: Aval, *, kind: str, **params: Any) -> Aval:
    _check("window_position", x, params, "if")
    return Aval(window_extents(x.shape, **params), INT64)


def _position_impl(x: Any, *, kind: str, **params: Any) -> Any:
    x = np.asarray(x)
    extents = window_extents(x.shape, **params)
    seen = _windows(x, _outside(kind, x.dtype), params).reshape(*extents, -1)
    within = _windows(np.ones(x.shape, bool), np.False_, params).reshape(*extents, -1)
    extreme = (np.max if kind == "max" else np.min)(seen, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        found = within & ((seen == extreme) | (seen != seen))
    # A window without any element of the array has no position; the largest integer says so.
    return np.where(found.any(-1), found.argmax(-1), np.iinfo(np.int64).max)


window_position_p: Primitive = Primitive(
    "window_position",
    family="window",
    abstract_eval=_position_aval,
    impl=_position_impl,
    jvp=ZERO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=_batch(lambda: window_position_p),
    lower=_lowered(None),
    cost=_cost,
    recompute=Recompute.REDUCTION,
)


def _read_at(t: Any, position: Any, params: dict[str, Any]) -> Any:
    """The element of `t` at the given place in each window, zero where there is none."""
    shape = aval_of(position).shape
    holes = (*params["window_dilation"], *params["base_dilation"])
    if params["window"] == params["strides"] and all(d == 1 for d in holes):
        return _read_blocks(t, position, params)
    exists = el.ne(position, np.int64(np.iinfo(np.int64).max))
    position = el.select(exists, position, np.int64(0))
    idx = []
    later = math.prod(params["window"])
    for k, extent in enumerate(params["window"]):
        later //= extent
        at = iota(shape, k)
        if params["strides"][k] != 1:
            at = el.mul(at, np.int64(params["strides"][k]))
        if extent != 1:
            tap = el.floordiv(position, np.int64(later)) if later != 1 else position
            tap = el.mod(tap, np.int64(extent))
            at = el.add(at, el.mul(tap, np.int64(params["window_dilation"][k])))
        if params["padding"][k][0]:
            at = el.sub(at, np.int64(params["padding"][k][0]))
        if params["base_dilation"][k] != 1:
            at = el.floordiv(at, np.int64(params["base_dilation"][k]))
        idx.append(at)
    if any(map(any, params["padding"])):
        # Where a window lies outside the array the index is of no consequence, but must exist.
        limit = [np.int64(max(n - 1, 0)) for n in t.shape]
        idx = [el.clamp(np.int64(0), i, m) for i, m in zip(idx, limit, strict=True)]
        read = gather(t, idx, range(len(idx)), mode="promise")
        return el.select(exists, read, scalar_zero(t.dtype))
    return gather(t, idx, range(len(idx)), mode="promise")


def _read_blocks(t: Any, position: Any, params: dict[str, Any]) -> Any:
    """`_read_at` where windows do not overlap: a sum over each block, without indices."""
    window, places = params["window"], aval_of(position).shape
    low = [a for a, _ in params["padding"]]
    high = [m * k - a - n for m, k, a, n in zip(places, window, low, t.shape, strict=True)]
    framed = pad(t, scalar_zero(t.dtype), low, high)
    blocks = reshape(framed, [n for pair in zip(places, window, strict=True) for n in pair])
    within = np.arange(math.prod(window)).reshape([n for k in window for n in (1, k)])
    chosen = el.eq(reshape(position, [n for m in places for n in (m, 1)]), within)
    kept = el.select(chosen, blocks, scalar_zero(t.dtype))
    return reduce_sum(kept, range(1, 2 * len(window), 2))


def _extreme_row(kind: str) -> Primitive:
    name = f"window_{kind}"

    def abstract(x: Aval, **params: Any) -> Aval:
        _check(name, x, params, "if")
        return x.update(shape=window_extents(x.shape, **params))

    def impl(x: Any, **params: Any) -> Any:
        x = np.asarray(x)
        seen = _windows(x, _outside(kind, x.dtype), params)
        return np.asarray(
            (np.max if kind == "max" else np.min)(seen, axis=tuple(range(x.ndim, 2 * x.ndim)))
        )

    def jvp(primals: Any, out: Any, tangents: Any, **params: Any) -> Any:
        position = bind1(window_position_p, primals[0], kind=kind, **params)
        return _read_at(tangents[0], position, params)

    row: Primitive = Primitive(
        name,
        family="window",
        abstract_eval=abstract,
        impl=impl,
        jvp=jvp,
        transpose=NONLINEAR,
        batch=_batch(lambda: row),
        lower=_lowered(kind),
        cost=_cost,
        recompute=Recompute.REDUCTION,
    )
    return row


window_max_p = _extreme_row("max")
window_min_p = _extreme_row("min")


def window_max(x: Any, **params: Any) -> Any:
    """The largest element of the window at every place; the first of equals has the derivative."""
    return bind1(window_max_p, x, **params)


def window_min(x: Any, **params: Any) -> Any:
    """The smallest element of the window at every place."""
    return bind1(window_min_p, x, **params)
