"""`stax.lax`, windows: reduce_window, under JAX's name.

Input: arrays, starting values, an associative function of two scalars, and the window.  Output:
the merged elements of the window at every place.  Sums, largest and smallest elements have
primitives of their own; any other function is applied element by element over the window.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.staging import stage
from stax.core.trace import Tracer
from stax.dtypes import is_float
from stax.errors import ShapeError
from stax.lax.convolution import padtype_to_pads
from stax.numpy.promotion import as_dtype
from stax.numpy.registration import operand as as_operand
from stax.primitives import windows as rows
from stax.primitives.convolution import dilated
from stax.primitives.shapes import pad, strided_slice
from stax.pytree import tree_flatten, tree_unflatten

__all__ = ["reduce_window"]

Array = Any
_ROWS = {"add": rows.window_sum, "maximum": rows.window_max, "minimum": rows.window_min}


def _numbers(values: Any, rank: int, what: str) -> tuple[int, ...]:
    if values is None:
        return (1,) * rank
    found = tuple(operator.index(v) for v in values)
    if len(found) != rank or any(n < 1 for n in found):
        raise ShapeError(
            f"{what} must be {rank} positive integers, got {found}", op="reduce_window"
        )
    return found


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of a window merged by `computation`, at every place of the window.

    Args:
      operand: an array, or a pytree of arrays of one shape that are merged together.
      init_value: what merging starts with and what lies outside the array; same structure.
      computation: an associative function of two scalars (or pytrees of them).
      window_dimensions: the window, one extent for each axis.
      window_strides, base_dilation, window_dilation: one number for each axis, 1 by default.
      padding: "SAME", "SAME_LOWER", "VALID", or a pair for each axis.

    >>> reduce_window(np.arange(6.0), 0.0, np.add, (2,), (2,))
    array([1., 5., 9.])
    """
    leaves, treedef = tree_flatten(operand)
    starts, _ = tree_flatten(init_value)
    xs = [as_operand(x, "reduce_window") for x in leaves]
    shape = xs[0].shape
    rank = len(shape)
    window = _numbers(window_dimensions, rank, "window_dimensions")
    strides = _numbers(window_strides, rank, "window_strides")
    base = _numbers(base_dilation, rank, "base_dilation")
    holes = _numbers(window_dilation, rank, "window_dilation")
    if isinstance(padding, str):
        extents = [dilated(n, d) for n, d in zip(shape, base, strict=True)]
        reach = [dilated(k, d) for k, d in zip(window, holes, strict=True)]
        padding = padtype_to_pads(extents, reach, strides, padding)
    params = {
        "window": window,
        "strides": strides,
        "padding": tuple((operator.index(a), operator.index(b)) for a, b in padding),
        "base_dilation": base,
        "window_dilation": holes,
    }
    inits = [as_dtype(v, aval_of(x).dtype) for v, x in zip(starts, xs, strict=True)]
    if len(xs) == 1:
        found = _known(computation, xs[0], inits[0], params)
        if found is not None:
            return tree_unflatten(treedef, [found])
    outs = _merged(xs, inits, computation, treedef, params)
    return tree_unflatten(treedef, outs)


def _known(computation: Any, x: Array, init: Any, params: dict[str, Any]) -> Array | None:
    """The result by a primitive, where the function is one and starts with its identity."""
    if isinstance(init, Tracer):
        return None
    dtype = aval_of(x).dtype
    scalar = Aval((), dtype)
    graph = stage(lambda a, b: [computation(a, b)], [scalar, scalar])
    if len(graph.eqns) != 1 or set(graph.eqns[0].inputs) != set(graph.inputs):
        return None
    op = graph.eqns[0].op
    if (
        op not in _ROWS
        or dtype.kind not in "iufV"
        or tuple(graph.outputs) != tuple(graph.eqns[0].outputs)
    ):
        return None
    same = np.asarray(init) == rows.identity_of(op, dtype)
    if op != "add" and is_float(dtype):
        # Starting with the least finite number is meant as minus infinity.
        limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        same = same or init == (limits.min if op == "maximum" else limits.max)
    return _ROWS[op](x, **params) if same else None


def _merged(
    xs: Sequence[Array],
    inits: Sequence[Any],
    computation: Any,
    treedef: Any,
    params: dict[str, Any],
) -> list[Array]:
    """The function applied over the window's elements one after the other, at all places."""
    low = [a for a, _ in params["padding"]]
    high = [b for _, b in params["padding"]]
    interior = [d - 1 for d in params["base_dilation"]]
    framed = [pad(x, v, low, high, interior) for x, v in zip(xs, inits, strict=True)]
    extents = rows.window_extents(xs[0].shape, **params)
    holes, strides = params["window_dilation"], params["strides"]
    merged: list[Array] = [np.full(extents, v) if not isinstance(v, Tracer) else v for v in inits]
    for tap in itertools.product(*map(range, params["window"])):
        start = [k * d for k, d in zip(tap, holes, strict=True)]
        limit = [a + (m - 1) * s + 1 if m else a for a, m, s in zip(
            start, extents, strides, strict=True)]  # fmt: skip
        seen = [strided_slice(f, start, limit, strides) for f in framed]
        both = computation(tree_unflatten(treedef, merged), tree_unflatten(treedef, seen))
        merged = tree_flatten(both)[0]
    return merged
