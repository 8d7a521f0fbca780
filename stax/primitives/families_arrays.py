"""Row families for array operations: linear shape operations and batching helpers.

Input: the few rules in which two shape operations differ.  Output: complete rows.  A linear shape
operation moves elements and computes nothing, so its tangent is the operation itself applied to
the tangent, and only its transpose has to be given.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.primitive import FALLBACK, Primitive, Recompute, Rule, Sentinel, Zero
from stax.core.refusals import located
from stax.core.source import user_source
from stax.core.trace import bind1
from stax.errors import AxisError, ShapeError, StaxError


def no_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> int:
    """Operations that move elements and compute nothing."""
    return 0


def input_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> int:
    """One operation for each element of the first operand."""
    return in_avals[0].size


def output_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> int:
    """One operation for each element of the result."""
    return out_avals[0].size


def checked(name: str, abstract_eval: Rule, impl: Rule) -> Rule:
    """`impl` for operands that fit, as when traced: for what NumPy would take and answer otherwise.

    Slices that reach outside, operands of different lengths: without tracing nothing else checks.
    """

    def run(*args: Any, **params: Any) -> Any:
        try:
            abstract_eval(*map(aval_of, args), **params)
        except StaxError as error:
            raise located(error, name, user_source()) from None
        return impl(*args, **params)

    return run


def linear_shape_op(
    name: str,
    *,
    abstract_eval: Rule,
    impl: Rule,
    transpose: Callable[..., Any],
    batch: Rule,
    lower: Rule | Sentinel = FALLBACK,
    recompute: Recompute = Recompute.VIEW,
    cost: Rule = no_cost,
    family: str = "view",
) -> Primitive:
    """A row for an operation of one operand that is linear in it.

    `transpose(ct, aval, **params)` returns the cotangent of an operand of type `aval`.
    """

    def jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
        return bind1(row, tangents[0], **params)

    def transposed(ct: Any, x: Any, **params: Any) -> tuple[Any]:
        return (Zero(x.aval) if isinstance(ct, Zero) else transpose(ct, x.aval, **params),)

    row = Primitive(
        name,
        family=family,
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=transposed,
        batch=batch,
        lower=lower,
        cost=cost,
        recompute=recompute,
    )
    return row


def normalized_axis(axis: int, ndim: int, op: str) -> int:
    """`axis` counted from the front; AxisError when the array has no such axis."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"axis {axis} is out of bounds for array of dimension {ndim}",
            axis=axis,
            ndim=ndim,
            op=op,
        )
    return axis + ndim if axis < 0 else axis


def check_axes(axes: Sequence[int], aval: Aval, op: str) -> None:
    """Raise unless `axes` are distinct, non-negative axes of `aval`."""
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis appears twice in {tuple(axes)}", op=op, operands=[aval])
    for axis in axes:
        if not 0 <= axis < aval.ndim:
            raise AxisError(
                f"axis {axis} is out of bounds for {aval}", axis=axis, ndim=aval.ndim, op=op
            )


def without_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """`shape` with `axes` removed."""
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def batch_size(args: Sequence[Any], dims: Sequence[int | None]) -> int:
    """The extent of the batch axis of the arguments that have one."""
    for arg, dim in zip(args, dims, strict=True):
        if dim is not None:
            return int(arg.shape[dim])
    raise ShapeError("no argument is batched", op="vmap")


def shifted(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """Axes of an unbatched array as axes of the array with a batch axis at `dim`."""
    return tuple(a + (a >= dim) for a in axes)


def size_of(shape: Sequence[int]) -> int:
    """Number of elements of `shape`."""
    return math.prod(shape)
