"""conv: the one primitive behind convolutions of any rank and their derivatives.

Input: an image, a kernel, and JAX's parameters with every number explicit: strides, pairs of
padding, dilation of image and kernel, groups of features or of the batch, and where the batch,
feature and spatial axes stand in image, kernel and result.  Output: the cross-correlation.  It is
linear in both operands; the transpose in either is again a convolution, with strides and
dilations exchanged and the padding that makes the shapes meet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Linear, Primitive, Recompute, Zero
from stax.core.trace import bind1
from stax.dtypes import DType, accumulator
from stax.errors import DtypeError, ShapeError
from stax.loops.convolve import lower_conv
from stax.primitives.elementwise import add
from stax.primitives.shapes import zeros
from stax.primitives.views import move_axis, reshape, rev

Axes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """Where the axes stand: (batch, feature, spatial...) of the image and of the result, and
    (result feature, image feature, spatial...) of the kernel."""

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


def dilated(extent: int, dilation: int) -> int:
    """Extent with dilation - 1 holes between elements."""
    return 0 if extent == 0 else 1 + dilation * (extent - 1)


def conv_extents(
    image: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
) -> list[int]:
    """Spatial extents of the result."""
    out = []
    for n, k, s, (low, high), ld, rd in zip(
        image, window, strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        room = dilated(n, ld) + low + high - dilated(k, rd)
        out.append(max(0, room // s + 1) if room >= 0 else 0)
    return out


def _conv_aval(
    x: Aval,
    w: Aval,
    *,
    strides: Axes,
    padding: Pairs,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    dtype: DType,
) -> Aval:
    lhs, rhs, out = dimension_numbers
    rank = x.ndim - 2
    both = [x, w]
    if rank < 0 or w.ndim != x.ndim or len(lhs) != x.ndim:
        raise ShapeError(
            "image and kernel need equal ranks of at least two", op="conv", operands=both
        )
    for what, spec in (("image", lhs), ("kernel", rhs), ("result", out)):
        if sorted(spec) != list(range(x.ndim)):
            raise ShapeError(
                f"dimension numbers {spec} of the {what} are not a permutation of its axes",
                op="conv",
                operands=both,
            )
    for what, numbers in (
        ("window_strides", strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
    ):
        if len(numbers) != rank or any(n < 1 for n in numbers):
            raise ShapeError(
                f"{what} must be {rank} positive integers, got {numbers}", op="conv", operands=both
            )
    if len(padding) != rank:
        raise ShapeError(f"padding must be {rank} pairs, got {padding}", op="conv", operands=both)
    if x.dtype != w.dtype:
        raise DtypeError("needs operands of one dtype", op="conv", operands=both)
    groups, batches = feature_group_count, batch_group_count
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        raise ShapeError(
            f"feature_group_count={groups} and batch_group_count={batches}: both must be positive "
            "and at most one greater than 1",
            op="conv",
            operands=both,
        )
    features, filters = x.shape[lhs[1]], w.shape[rhs[0]]
    if features % groups or features // groups != w.shape[rhs[1]]:
        raise ShapeError(
            f"the image has {features} features in {groups} group(s), the kernel takes "
            f"{w.shape[rhs[1]]} input features",
            op="conv",
            operands=both,
            hint="the kernel's input features must be the image's divided by feature_group_count; "
            "dimension_numbers say which axes these are",
        )
    if filters % groups or filters % batches or x.shape[lhs[0]] % batches:
        raise ShapeError(
            "the kernel's output features (and the batch) must be a multiple of the groups",
            op="conv",
            operands=both,
        )
    extents = conv_extents(
        [x.shape[k] for k in lhs[2:]],
        [w.shape[k] for k in rhs[2:]],
        strides,
        padding,
        lhs_dilation,
        rhs_dilation,
    )
    shape = [0] * x.ndim
    for axis, n in zip(out, (x.shape[lhs[0]] // batches, filters, *extents), strict=True):
        shape[axis] = n
    return Aval(tuple(shape), dtype)


def _framed(x: Any, padding: Pairs, dilation: Axes) -> Any:
    """Spatial axes (from 2 on) with zeros around and between, negative padding cutting off."""
    wide = [dilated(n, d) for n, d in zip(x.shape[2:], dilation, strict=True)]
    full = [max(0, a) + n + max(0, b) for n, (a, b) in zip(wide, padding, strict=True)]
    out = np.zeros((*x.shape[:2], *full), x.dtype)
    inside = [
        slice(max(0, a), max(0, a) + n, d)
        for n, (a, _), d in zip(wide, padding, dilation, strict=True)
    ]
    out[(slice(None), slice(None), *inside)] = x
    cut = [slice(max(0, -a), m - max(0, -b)) for m, (a, b) in zip(full, padding, strict=True)]
    return out[(slice(None), slice(None), *cut)]


def _conv_impl(x: Any, w: Any, **params: Any) -> Any:
    aval = _conv_aval(aval_of(x), aval_of(w), **params)
    lhs, rhs, out = params["dimension_numbers"]
    if aval.size == 0 or np.size(x) == 0 or np.size(w) == 0:
        return np.zeros(aval.shape, aval.dtype)
    wide = accumulator(aval.dtype)
    x = np.transpose(x, lhs).astype(wide, copy=False)
    w = np.transpose(w, rhs).astype(wide, copy=False)
    extents = [aval.shape[k] for k in out[2:]]
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    if batches > 1:
        # Each block of the batch meets its own block of filters: groups of features.
        blocks = x.reshape(batches, x.shape[0] // batches, *x.shape[1:])
        x = np.moveaxis(blocks, 0, 1).reshape(blocks.shape[1], -1, *x.shape[2:])
        groups = batches
    x = _framed(x, params["padding"], params["lhs_dilation"])
    n, features = x.shape[:2]
    window = w.shape[2:]
    x = np.ascontiguousarray(x)
    steps = [s * t for s, t in zip(params["strides"], x.strides[2:], strict=True)]
    holes = [s * t for s, t in zip(params["rhs_dilation"], x.strides[2:], strict=True)]
    patches = np.lib.stride_tricks.as_strided(
        x.reshape(n, groups, features // groups, *x.shape[2:]),
        (groups, n, *extents, features // groups, *window),
        (features // groups * x.strides[1], x.strides[0], *steps, x.strides[1], *holes),
        writeable=False,
    )
    rows = patches.reshape(groups, n * math.prod(extents), -1)
    filters = w.reshape(groups, w.shape[0] // groups, -1)
    with np.errstate(all="ignore"):
        product = np.matmul(rows, np.swapaxes(filters, 1, 2))
    product = product.reshape(groups, n, *extents, -1)
    product = np.moveaxis(product, (0, -1), (1, 2)).reshape(n, -1, *extents)
    order = np.argsort(out).tolist()
    return np.ascontiguousarray(np.transpose(product, order)).astype(aval.dtype, copy=False)


def _conv_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    (x, w), (tx, tw) = primals, tangents
    left = None if isinstance(tx, Zero) else bind1(conv_p, tx, w, **params)
    right = None if isinstance(tw, Zero) else bind1(conv_p, x, tw, **params)
    if left is None or right is None:
        return right if left is None else left
    return add(left, right)


def _swapped(spec: Axes) -> Axes:
    return (spec[1], spec[0], *spec[2:])


def _merged(x: Any, source: int, target: int) -> Any:
    """`x` with axis `source` merged into axis `target`, as the slower of the two."""
    n = x.shape[source]
    x = move_axis(x, source, target if source > target else target - 1)
    # The moved axis stands at `at`, the target behind it.
    at = target if source > target else target - 1
    return reshape(x, (*x.shape[:at], n * x.shape[at + 1], *x.shape[at + 2 :]))


def _split(x: Any, axis: int, size: int) -> Any:
    """`x` with `axis` split in two, the slower part of extent `size` in front of it."""
    return reshape(x, (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :]))


def _regrouped(x: Any, source: int, target: int, size: int) -> Any:
    """The slower part, of extent `size`, of axis `source` merged into axis `target`."""
    x = _split(x, source, size)
    return _merged(x, source, target + (target > source))


def _transpose_image(ct: Any, w: Any, aval: Aval, **params: Any) -> Any:
    lhs, rhs, out = params["dimension_numbers"]
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    strides = params["strides"]
    padding = []
    for axis, k, s, (low, _), ld, rd, o in zip(
        lhs[2:],
        rhs[2:],
        strides,
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        out[2:],
        strict=True,
    ):
        window = dilated(w.shape[k], rd)
        before = window - low - 1
        after = dilated(aval.shape[axis], ld) + window - 1 - dilated(ct.shape[o], s) - before
        padding.append((before, after))
    count = max(groups, batches)
    if count > 1:
        w = _regrouped(w, rhs[0], rhs[1], count)
    found = conv(
        ct,
        rev(w, rhs[2:]),
        strides=params["lhs_dilation"],
        padding=tuple(padding),
        lhs_dilation=strides,
        rhs_dilation=params["rhs_dilation"],
        dimension_numbers=ConvDimensionNumbers(out, _swapped(rhs), lhs),
        feature_group_count=count,
        batch_group_count=1,
        dtype=aval.dtype,
    )
    return _regrouped(found, lhs[1], lhs[0], batches) if batches > 1 else found


def _transpose_kernel(ct: Any, x: Any, aval: Aval, **params: Any) -> Any:
    lhs, rhs, out = params["dimension_numbers"]
    padding = []
    for axis, k, s, (low, _), ld, rd, o in zip(
        lhs[2:],
        rhs[2:],
        params["strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        out[2:],
        strict=True,
    ):
        both = dilated(ct.shape[o], s) + dilated(aval.shape[k], rd)
        padding.append((low, both - dilated(x.shape[axis], ld) - 1 - low))
    return conv(
        x,
        ct,
        strides=params["rhs_dilation"],
        padding=tuple(padding),
        lhs_dilation=params["lhs_dilation"],
        rhs_dilation=params["strides"],
        dimension_numbers=ConvDimensionNumbers(_swapped(lhs), _swapped(out), _swapped(rhs)),
        feature_group_count=params["batch_group_count"],
        batch_group_count=params["feature_group_count"],
        dtype=aval.dtype,
    )


def _conv_transpose(ct: Any, x: Any, w: Any, **params: Any) -> tuple[Any, Any]:
    if isinstance(ct, Zero):
        return tuple(Zero(v.aval) if isinstance(v, Linear) else None for v in (x, w))  # type: ignore[return-value]  # a pair
    if isinstance(x, Linear):
        if aval_of(ct).size == 0:
            return zeros(x.aval.shape, x.aval.dtype), None
        return _transpose_image(ct, w, x.aval, **params), None
    if aval_of(ct).size == 0:
        return None, zeros(w.aval.shape, w.aval.dtype)
    return None, _transpose_kernel(ct, x, w.aval, **params)


def _conv_batch(args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    (x, w), (xd, wd) = args, dims
    lhs, rhs, out = params["dimension_numbers"]
    groups, batches = params["feature_group_count"], params["batch_group_count"]

    def front(v: Any, d: int) -> Any:
        return move_axis(v, d, 0)

    def beside(v: Any, axis: int, count: int) -> Any:
        """The batch axis, in front, merged into `axis` behind its `count` groups."""
        v = _split(v, axis + 1, count)
        v = move_axis(v, 0, axis + 1)
        shape = v.shape
        merged = shape[axis] * shape[axis + 1] * shape[axis + 2]
        return reshape(v, (*shape[:axis], merged, *shape[axis + 3 :]))

    def apart(v: Any, axis: int, count: int, size: int) -> Any:
        """`axis` of the result as groups, batch, rest: the batch to the front."""
        shape = v.shape
        v = reshape(v, (*shape[:axis], count, size, -(-shape[axis] // max(count * size, 1)),
                        *shape[axis + 1 :]))  # fmt: skip
        v = move_axis(v, axis + 1, 0)
        shape = v.shape
        merged = shape[axis + 1] * shape[axis + 2]
        return reshape(v, (*shape[: axis + 1], merged, *shape[axis + 3 :]))

    if xd is not None and wd is not None:
        x, w = front(x, xd), front(w, wd)
        size = x.shape[0]
        w = _merged(w, 0, rhs[0] + 1)
        if batches > 1:
            x = _merged(x, 0, lhs[0] + 1)
            params = {**params, "batch_group_count": batches * size}
        else:
            x = _merged(x, 0, lhs[1] + 1)
            params = {**params, "feature_group_count": groups * size}
        found = bind1(conv_p, x, w, **params)
        return _split(found, out[1], size), out[1]
    if xd is not None:
        x = front(x, xd)
        size = x.shape[0]
        x = beside(x, lhs[0], batches)
        # The result's batch is one block of the image's, in the order (batch axis, rest).
        return _split(bind1(conv_p, x, w, **params), out[0], size), out[0]
    w = front(w, wd)
    size, count = w.shape[0], max(groups, batches)
    w = beside(w, rhs[0], count)
    return apart(bind1(conv_p, x, w, **params), out[1], count, size), 0


def _conv_cost(in_avals: Any, out_avals: Any, params: Any) -> int:
    _, rhs, _ = params["dimension_numbers"]
    w = in_avals[1]
    taps = w.shape[rhs[1]] * math.prod(w.shape[k] for k in rhs[2:])
    return 2 * int(out_avals[0].size) * int(taps)


conv_p = Primitive(
    "conv",
    family="contraction",
    abstract_eval=_conv_aval,
    impl=_conv_impl,
    jvp=_conv_jvp,
    transpose=_conv_transpose,
    batch=_conv_batch,
    lower=lower_conv,
    cost=_conv_cost,
    recompute=Recompute.EXPENSIVE,
)


def conv(
    x: Any,
    w: Any,
    *,
    strides: Sequence[int],
    padding: Pairs,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    dtype: DType,
) -> Any:
    """The cross-correlation of an image with a kernel."""
    return bind1(
        conv_p,
        x,
        w,
        strides=tuple(strides),
        padding=tuple(padding),
        lhs_dilation=tuple(lhs_dilation),
        rhs_dilation=tuple(rhs_dilation),
        dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        dtype=dtype,
    )
