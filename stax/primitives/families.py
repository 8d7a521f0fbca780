"""Row families for elementwise operations: what unary, binary and comparison rows share.

Input: the rules in which two elementwise operations differ (the NumPy function, the accepted kinds
of dtype, the derivative).  Output: a complete row and the Python function that binds it.  All
operands broadcast as in NumPy and share one dtype; the surface converts beforehand.

Derivatives are given per operand as `partial(t, out, *operands)`: the tangent that `t` contributes.
A factor that can be infinite or NaN multiplies through `guarded_mul` (see `elementwise`), so a
tangent or cotangent of exactly zero stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    FALLBACK,
    NONLINEAR,
    ZERO_DERIVATIVE,
    Linear,
    Primitive,
    Recompute,
    Rule,
    Sentinel,
    Zero,
)
from stax.core.source import user_source
from stax.core.trace import bind1
from stax.dtypes import DType, is_float, is_half
from stax.errors import DtypeError, ShapeError
from stax.loops.construct import pointwise
from stax.loops.ops import ops
from stax.primitives.views import broadcast, move_axis, reduce_sum, reshape

Function = Callable[..., Any]
BOOL: DType = np.dtype(np.bool_)

# Kinds of dtype an operation accepts, one letter each.
KIND_WORDS = {"b": "bool", "i": "integer", "f": "floating", "c": "complex"}


def kind_of(dtype: DType) -> str:
    """`b`, `i` (signed and unsigned), `f` (bfloat16 included), `c`, or "" for anything else."""
    if is_float(dtype):
        return "f"
    kind = "i" if dtype.kind == "u" else dtype.kind
    return kind if kind in "bic" else ""


def literal(value: complex, like: Any) -> Any:
    """`value` as a NumPy scalar of the dtype of `like`."""
    return aval_of(like).dtype.type(value)


def is_zero_free(value: Any) -> bool:
    """True when `value` is a scalar known to be finite and not zero."""
    if not isinstance(value, float | int | np.generic):
        return False
    return bool(value != 0) and bool(np.isfinite(value))


def broadcast_shape(op: str, avals: Sequence[Aval]) -> tuple[int, ...]:
    """The common shape of the operands.

    Raises:
      ShapeError: they do not broadcast.
    """
    first = avals[0].shape
    if all(a.shape == first for a in avals):
        return first
    rank = max(len(a.shape) for a in avals)
    out = [1] * rank
    for a in avals:
        for k, n in enumerate(a.shape, rank - len(a.shape)):
            if n != 1:
                if out[k] not in (1, n):
                    shapes = " and ".join(str(b.shape) for b in avals)
                    raise ShapeError(
                        f"operands could not be broadcast together with shapes {shapes}",
                        op=op,
                        operands=map(str, avals),
                        hint="shapes are aligned at their last axis; extents must be equal or 1",
                    )
                out[k] = n
    return tuple(out)


def check_operands(op: str, avals: Sequence[Aval], accepts: str) -> None:
    """Raise DtypeError unless all operands have one dtype of an accepted kind."""
    dtype = avals[0].dtype
    for a in avals:
        if a.dtype != dtype:
            raise DtypeError(
                "operands must have equal dtypes here",
                op=op,
                operands=map(str, avals),
                hint="convert them with .astype, or use the stax.numpy function, which promotes",
            )
    if kind_of(dtype) not in accepts:
        wanted = ", ".join(KIND_WORDS[k] for k in accepts)
        raise DtypeError(f"needs operands of {wanted} dtype", op=op, operands=map(str, avals))


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """`value` broadcast to `shape` (itself when it has that shape)."""
    return value if aval_of(value).shape == shape else broadcast(value, shape)


def unbroadcast(ct: Any, aval: Aval) -> Any:
    """The cotangent of an operand of type `aval` that was broadcast to the shape of `ct`."""
    shape = aval_of(ct).shape
    if shape == aval.shape:
        return ct
    lead = len(shape) - len(aval.shape)
    axes = [*range(lead)]
    axes += [k + lead for k, n in enumerate(aval.shape) if n == 1 and shape[k + lead] != 1]
    return reshape(reduce_sum(ct, axes), aval.shape)


def elementwise_cost(weight: float) -> Rule:
    """`weight` operations for each element of the result."""

    def cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: dict[str, Any]) -> float:
        return weight * out_avals[0].size

    return cost


def quiet(name: str, function: Function) -> Function:
    """`function` without NumPy's floating-point warnings; a shape mismatch is a ShapeError."""

    def impl(*args: Any, **params: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return function(*args, **params)
        except ValueError as error:
            if "broadcast" not in str(error):
                raise
            raise ShapeError(
                str(error),
                op=name,
                operands=[str(aval_of(a)) for a in args],
                where=user_source() or None,
            ) from None

    return impl


def batch_elementwise(
    row: Primitive, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, int]:
    """Apply an elementwise row with the batch axis in front, ranks aligned."""
    shapes = [aval_of(a).shape for a in args]
    first = next(d for d in dims if d is not None)
    common = next(s for s, d in zip(shapes, dims, strict=True) if d is not None)
    if all(
        (d == first and s == common) if d is not None else not s
        for s, d in zip(shapes, dims, strict=True)
    ):
        return bind1(row, *args, **params), first
    rank = max(len(s) - (d is not None) for s, d in zip(shapes, dims, strict=True))
    aligned = []
    for arg, shape, dim in zip(args, shapes, dims, strict=True):
        if dim is not None:
            arg = move_axis(arg, dim, 0)
            inner = shape[:dim] + shape[dim + 1 :]
            arg = reshape(arg, (shape[dim], *(1,) * (rank - len(inner)), *inner))
        aligned.append(arg)
    return bind1(row, *aligned, **params), 0


def pointwise_rule(
    scalar: str | Function | None, abstract: Rule, widens: bool, jumps: bool
) -> Rule | Sentinel:
    """The `lower` rule that computes one element by `scalar`; FALLBACK when it is None.

    Loop bodies compute half types in float32; unless the row `widens` they go to the fallback.
    What decides about such a value (`jumps`, or a result of another type: comparisons, `isfinite`,
    conversions) takes the value that memory would hold: `y == max(y)` is true somewhere.
    """
    if scalar is None:
        return FALLBACK
    compute: Function = getattr(ops, scalar) if isinstance(scalar, str) else scalar

    known: dict[Any, tuple[Aval, Function | None]] = {}

    def lower(ctx: Any, *nodes: Any, **params: Any) -> Any:
        if params:
            out, element = planned(nodes, params)
        else:
            key = tuple([(n.shape, n.dtype) for n in nodes])
            found = known.get(key)
            if found is None:
                found = known[key] = planned(nodes, params)
            out, element = found
        if element is None:
            return NotImplemented
        return pointwise(element, *nodes, dtype=out.dtype, shape=out.shape)

    def planned(nodes: Sequence[Any], params: dict[str, Any]) -> tuple[Aval, Function | None]:
        """The type of the result, and how an element is computed, if it is."""
        out = abstract(*[Aval(n.shape, n.dtype) for n in nodes], **params)
        halves = is_half(out.dtype) or any(is_half(n.dtype) for n in nodes)
        if halves and not widens:
            return out, None
        element = partial(compute, **params) if params else compute
        if halves and (jumps or not is_half(out.dtype)):
            element = _of_stored(element, tuple(n.dtype for n in nodes))
        return out, element

    return lower


def _of_stored(element: Function, dtypes: tuple[DType, ...]) -> Function:
    """`element` of operands rounded to their types, where these are half types."""
    if not any(is_half(d) for d in dtypes):
        return element
    return lambda *args: element(
        *[ops.cast(a, d) if is_half(d) else a for a, d in zip(args, dtypes, strict=True)]
    )


def elementwise(
    name: str,
    impl: Function,
    *,
    family: str,
    accepts: str,
    partials: Sequence[Function | None] | Sentinel,
    transposes: Sequence[Function | None] | Sentinel = NONLINEAR,
    result: Callable[..., DType] | None = None,
    abstract_eval: Rule | None = None,
    jvp: Rule | None = None,
    scalar: str | Function | None = "",
    widens: bool = True,
    jumps: bool | None = None,
    symmetric: bool = False,
    lower: Rule | None = None,
    weight: float = 1.0,
) -> tuple[Primitive, Function]:
    """A row for an elementwise operation, and the function that binds it.

    Args:
      impl: the NumPy meaning.
      accepts: kinds of dtype, letters of `bifc`.
      partials: for each operand the tangent its tangent contributes, `partial(t, out, *operands,
        **params)`, or None where there is none.
      transposes: for each operand that the operation may be linear in, `rule(ct, *operands,
        **params)`, whose result is summed over broadcast axes.
      result: dtype of the result from (dtype, **params); the operands' by default, in which
        case the result is weak when all operands are.
      abstract_eval: replaces the rule made from `accepts` and `result`.
      jvp: replaces the rule made from `partials`.
      scalar: how one element is computed in loop bodies: the name of a scalar operation (that of
        the row by default), a function over `ops`, or None for the NumPy fallback.
      widens: whether an element of a half type may be computed in float32 and rounded.
      jumps: whether a small change of an operand can change the result much; by default, whether
        the derivative is zero everywhere.
      symmetric: whether equal operands with equal tangents contribute the same. One of two is
        then computed and doubled, so that reverse mode doubles a cotangent, once for all operands
        that it goes to (the coordinates of a distance).
      lower: replaces the rule made from `scalar`.
      weight: operations per element.
    """

    known: dict[tuple[Aval, ...], Aval] = {}

    def abstract(*avals: Aval, **params: Any) -> Aval:
        if params:
            return derived(avals, params)
        found = known.get(avals)
        if found is None:
            found = known[avals] = derived(avals, params)
        return found

    def derived(avals: tuple[Aval, ...], params: dict[str, Any]) -> Aval:
        check_operands(name, avals, accepts)
        shape = broadcast_shape(name, avals)
        if result is not None:
            dtype = result(avals[0].dtype, **params)
            return Aval(shape, dtype, dtype != BOOL and all(a.weak for a in avals))
        return Aval(shape, avals[0].dtype, all(a.weak for a in avals))

    def partial_sum(
        primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any
    ) -> Any:
        assert not isinstance(partials, Sentinel)
        total: Any = None
        first = tangents[0]
        same = symmetric and primals[0] is primals[1] and first is tangents[1]
        if same and not isinstance(first, Zero) and partials[0] is not None:
            term = partials[0](first, out, *primals, **params)
            return bind1(_ROWS["add"], term, term)
        for t, rule in zip(tangents, partials, strict=True):
            if isinstance(t, Zero) or rule is None:
                continue
            term = rule(t, out, *primals, **params)
            if not isinstance(term, Zero):
                total = term if total is None else bind1(_ROWS["add"], total, term)
        aval = aval_of(out)
        return Zero(aval.tangent()) if total is None else spread(total, aval.shape)

    def transpose(ct: Any, *args: Any, **params: Any) -> tuple[Any, ...]:
        assert not isinstance(transposes, Sentinel)
        cotangents: list[Any] = []
        for arg, rule in zip(args, transposes, strict=True):
            if not isinstance(arg, Linear):
                cotangents.append(None)
            elif isinstance(ct, Zero) or rule is None:
                cotangents.append(Zero(arg.aval))
            else:
                cotangents.append(unbroadcast(rule(ct, *args, **params), arg.aval))
        return tuple(cotangents)

    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return batch_elementwise(row, args, dims, params)

    typed = abstract if abstract_eval is None else abstract_eval
    row = Primitive(
        name,
        family=family,
        abstract_eval=typed,
        impl=quiet(name, impl),
        jvp=partials if isinstance(partials, Sentinel) else (jvp or partial_sum),
        transpose=transposes if isinstance(transposes, Sentinel) else transpose,
        batch=batch,
        lower=lower
        or pointwise_rule(
            name if scalar == "" else scalar,
            typed,
            widens,
            partials is ZERO_DERIVATIVE if jumps is None else jumps,
        ),
        cost=elementwise_cost(weight),
        recompute=Recompute.CHEAP,
    )
    _ROWS[name] = row

    def call(*args: Any, **params: Any) -> Any:
        return bind1(row, *args, **params)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Bind the primitive `{name}`."
    return row, call


_ROWS: dict[str, Primitive] = {}


def unary(
    name: str,
    impl: Function,
    derivative: Function | Sentinel,
    *,
    accepts: str = "fc",
    **fields: Any,
) -> tuple[Primitive, Function]:
    """A row of one operand; `derivative(t, out, x)` is the tangent of the result."""
    partials = derivative if isinstance(derivative, Sentinel) else (derivative,)
    return elementwise(name, impl, family="unary", accepts=accepts, partials=partials, **fields)


def binary(
    name: str,
    impl: Function,
    dx: Function | Sentinel | None,
    dy: Function | Sentinel | None = None,
    *,
    accepts: str = "ifc",
    **fields: Any,
) -> tuple[Primitive, Function]:
    """A row of two operands; `dx(t, out, x, y)` and `dy(t, out, x, y)` are the tangents."""
    partials: Any = dx if isinstance(dx, Sentinel) else (dx, dy)
    return elementwise(name, impl, family="binary", accepts=accepts, partials=partials, **fields)


def compare(
    name: str, impl: Function, *, accepts: str = "bif", **fields: Any
) -> tuple[Primitive, Function]:
    """A row of operands, mostly two, with a Boolean result."""
    return elementwise(
        name,
        impl,
        family="compare",
        accepts=accepts,
        partials=ZERO_DERIVATIVE,
        result=lambda dtype: BOOL,
        **fields,
    )


def predicate(
    name: str, impl: Function, *, accepts: str = "f", **fields: Any
) -> tuple[Primitive, Function]:
    """A row of one operand with a Boolean result."""
    return compare(name, impl, accepts=accepts, **fields)


def linear_unary(
    name: str, impl: Function, transposed: Function, *, accepts: str = "ifc", **fields: Any
) -> tuple[Primitive, Function]:
    """A row linear in its operand: its derivative is itself; `transposed(ct, x)` its adjoint."""

    def derivative(t: Any, out: Any, x: Any, **params: Any) -> Any:
        return bind1(_ROWS[name], t, **params)

    return unary(name, impl, derivative, transposes=(transposed,), accepts=accepts, **fields)
