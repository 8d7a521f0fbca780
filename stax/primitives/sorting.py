"""sort: several operands permuted together by the order of the leading ones.

Input: operands of one shape, the axis, and how many of the leading operands are keys.  Output:
the operands in ascending order of the keys; the order is stable and NaN comes last.  Its
derivative permutes the tangents by the same permutation, which is found by sorting positions
along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import NONLINEAR, Primitive, Recompute, Zero
from stax.core.trace import bind
from stax.errors import ShapeError
from stax.loops import library
from stax.primitives.families_arrays import batch_size, check_axes, checked
from stax.primitives.indexing import gather
from stax.primitives.shapes import iota
from stax.primitives.views import batched_front


def _sort_aval(*xs: Aval, axis: int, num_keys: int) -> tuple[Aval, ...]:
    check_axes((axis,), xs[0], "sort")
    if any(x.shape != xs[0].shape for x in xs):
        raise ShapeError("operands must share one shape", op="sort", operands=xs)
    if not 1 <= num_keys <= len(xs):
        raise ShapeError(f"num_keys={num_keys} for {len(xs)} operands", op="sort", operands=xs)
    return tuple(x.strong() for x in xs)


def _sort_impl(*xs: Any, axis: int, num_keys: int) -> tuple[Any, ...]:
    if len(xs) == 1:
        return (np.sort(xs[0], axis=axis, kind="stable"),)
    if num_keys == 1:
        order = np.argsort(xs[0], axis=axis, kind="stable")
    else:
        order = np.lexsort(xs[:num_keys][::-1], axis=axis)
    return tuple(np.take_along_axis(np.asarray(x), order, axis) for x in xs)


def taken_along(x: Any, index: Any, axis: int, mode: str = "error") -> Any:
    """`x` read along `axis` at `index`, an array of as many axes and else the same extents."""
    shape = aval_of(index).shape
    idx = [index if k == axis else iota(shape, k, aval_of(index).dtype) for k in range(len(shape))]
    return gather(x, idx, range(len(shape)), mode=mode)


def _sort_jvp(
    primals: Any, outs: Any, tangents: Any, *, axis: int, num_keys: int
) -> tuple[Any, ...]:
    _, order = sort((*primals[:num_keys], iota(primals[0].shape, axis)), axis, num_keys)[-2:]
    return tuple(
        t if isinstance(t, Zero) else taken_along(t, order, axis, "promise") for t in tangents
    )


def _sort_batch(args: Any, dims: Any, *, axis: int, num_keys: int) -> tuple[Any, tuple[int, ...]]:
    size = batch_size(args, dims)
    wide = [batched_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    return sort(wide, axis + 1, num_keys), (0,) * len(args)


def _sort_cost(in_avals: Any, out_avals: Any, params: Any) -> int:
    n = max(2, in_avals[0].shape[params["axis"]])
    return int(in_avals[0].size * math.log2(n))


sort_p = Primitive(
    "sort",
    family="sort",
    abstract_eval=_sort_aval,
    impl=checked("sort", _sort_aval, _sort_impl),
    jvp=_sort_jvp,
    transpose=NONLINEAR,
    batch=_sort_batch,
    lower=library.sort,
    cost=_sort_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
)


def sort(xs: Sequence[Any], axis: int, num_keys: int = 1) -> tuple[Any, ...]:
    """The operands permuted along `axis` into ascending order of the first `num_keys`."""
    return bind(sort_p, *xs, axis=axis, num_keys=num_keys)
