"""Merge operations of reductions and scans, written over ``ops``.

Input: the name of a merge operation. Output: its identity element, its combine rule on tuples of
components, and its NumPy form. Back ends get code for the partial results of vector lanes, blocks
and threads from ``combine``; that it is associative with the stated identity is tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.loops.ops import Value, ops

Components = tuple[Value, ...]
INDEX = np.dtype(np.int64)
NO_INDEX = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Monoid:
    """``combine`` is associative with ``identity(dtype)``.

    Attributes:
        components: names of the parts of an element; the first has the value's type.
        component_dtypes: the types of the parts for values of a type.
        identity: constants of the neutral element for values of a type.
        combine: merges two elements given as tuples, the earlier one first.
        exact: whether any order and grouping gives the same bits.
        reduce: NumPy form over the last axis; None where only ``combine`` is defined.
        accumulate: NumPy running form over the last axis, likewise.
        start: what running results start from, where ``identity`` would change the first element.
    """

    name: str
    components: tuple[str, ...]
    component_dtypes: Callable[[np.dtype], tuple[np.dtype, ...]]
    identity: Callable[[np.dtype], tuple[Any, ...]]
    combine: Callable[[Components, Components], Components]
    exact: bool
    reduce: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None
    accumulate: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None
    start: Callable[[np.dtype], tuple[Any, ...]] | None = None

    def __repr__(self) -> str:
        return self.name


MONOIDS: dict[str, Monoid] = {}


def monoid(name: str) -> Monoid:
    """The merge operation called ``name``."""
    return MONOIDS[name]


def register(m: Monoid) -> Monoid:
    """Adds a merge operation; a second one of the same name is an error."""
    if m.name in MONOIDS:
        raise ValueError(f"monoid {m.name} is already in the table")
    MONOIDS[m.name] = m
    return m


def lowest(dtype: np.dtype) -> Any:
    """The smallest value of a type: minus infinity for floating types."""
    if dtype.kind == "b":
        return False
    if dtype.kind == "c":
        return complex(-math.inf, -math.inf)
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else float("-inf")


def highest(dtype: np.dtype) -> Any:
    """The largest value of a type: infinity for floating types."""
    if dtype.kind == "b":
        return True
    if dtype.kind == "c":
        return complex(math.inf, math.inf)
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else float("inf")


def _simple(
    name: str,
    identity: Callable[[np.dtype], Any],
    combine: Callable[[Value, Value], Value],
    ufunc: np.ufunc,
    exact: bool,
    start: Callable[[np.dtype], Any] | None = None,
) -> Monoid:
    return register(
        Monoid(
            name=name,
            components=("value",),
            component_dtypes=lambda dtype: (dtype,),
            identity=lambda dtype: (identity(dtype),),
            combine=lambda a, b: (combine(a[0], b[0]),),
            exact=exact,
            reduce=lambda v: (ufunc.reduce(v[0], axis=-1, dtype=v[0].dtype),),
            accumulate=lambda v: (ufunc.accumulate(v[0], axis=-1, dtype=v[0].dtype),),
            start=None if start is None else lambda dtype: (start(dtype),),
        )
    )


def _negative_zero(dtype: np.dtype) -> Any:
    """What leaves -0.0 as it is when it is added to it, which 0.0 does not."""
    if dtype.kind == "c":
        return complex(-0.0, -0.0)
    return dtype.type(-0.0 if dtype.kind == "f" else 0).item()


SUM = _simple("sum", lambda d: d.type(0).item(), lambda a, b: ops.add(a, b), np.add, False,
              _negative_zero)  # fmt: skip
PROD = _simple("prod", lambda d: d.type(1).item(), lambda a, b: ops.mul(a, b), np.multiply, False)
MAX = _simple("max", lowest, lambda a, b: ops.max(a, b), np.maximum, True)
MIN = _simple("min", highest, lambda a, b: ops.min(a, b), np.minimum, True)
ANY = _simple("any", lambda d: False, lambda a, b: ops.logical_or(a, b), np.logical_or, True)
ALL = _simple("all", lambda d: True, lambda a, b: ops.logical_and(a, b), np.logical_and, True)
XOR = _simple("xor", lambda d: 0, lambda a, b: ops.bitwise_xor(a, b), np.bitwise_xor, True)


def _arg_extreme(name: str, better: str, identity: Callable[[np.dtype], Any],
                 find: Callable[..., Any]) -> Monoid:  # fmt: skip
    """Pairs (value, index): a NaN beats every number, and of equals the smaller index wins."""

    def combine(a: Components, b: Components) -> Components:
        a_nan, b_nan = ops.isnan(a[0]), ops.isnan(b[0])
        strictly = ops.logical_or(
            ops.call(better, b[0], a[0]), ops.logical_and(b_nan, ops.logical_not(a_nan))
        )
        tie = ops.logical_or(ops.eq(a[0], b[0]), ops.logical_and(a_nan, b_nan))
        take_b = ops.logical_or(strictly, ops.logical_and(tie, ops.lt(b[1], a[1])))
        return ops.where(take_b, b[0], a[0]), ops.where(take_b, b[1], a[1])

    def reduce(v: tuple[Any, ...]) -> tuple[Any, ...]:
        at = np.expand_dims(find(v[0], axis=-1), -1)
        return tuple(np.take_along_axis(part, at, -1)[..., 0] for part in v)

    return register(
        Monoid(
            name=name,
            components=("value", "index"),
            component_dtypes=lambda dtype: (dtype, INDEX),
            identity=lambda dtype: (identity(dtype), NO_INDEX),
            combine=combine,
            exact=True,
            reduce=reduce,
        )
    )


ARGMAX = _arg_extreme("argmax", "gt", lowest, np.argmax)
ARGMIN = _arg_extreme("argmin", "lt", highest, np.argmin)


def _welford_combine(a: Components, b: Components) -> Components:
    """Merges (count, mean, sum of squared deviations) of two samples (Chan, Golub and LeVeque)."""
    dtype = ops.dtype_of(a[0])
    zero, one = ops.constant(0, dtype), ops.constant(1, dtype)
    count = ops.add(a[0], b[0])
    weight = ops.div(b[0], ops.where(ops.eq(count, zero), one, count))
    delta = ops.sub(b[1], a[1])
    mean = ops.add(a[1], ops.mul(delta, weight))
    between = ops.mul(delta, ops.mul(delta, ops.mul(a[0], weight)))  # 0 where a is empty
    return count, mean, ops.add(ops.add(a[2], b[2]), between)


def _welford_reduce(v: tuple[Any, ...]) -> tuple[Any, ...]:
    count, mean, squares = v
    n = count.sum(axis=-1, dtype=count.dtype)
    safe = np.where(n == 0, n.dtype.type(1), n)
    centre = (count * mean).sum(axis=-1, dtype=mean.dtype) / safe
    spread = count * (mean - np.expand_dims(centre, -1)) ** 2
    return n, centre, (squares + spread).sum(axis=-1, dtype=squares.dtype)


WELFORD = register(
    Monoid(
        name="welford",
        components=("count", "mean", "m2"),
        component_dtypes=lambda dtype: (dtype, dtype, dtype),
        identity=lambda dtype: (0, 0, 0),
        combine=_welford_combine,
        exact=False,
        reduce=_welford_reduce,
    )
)


def _recurrence_combine(a: Components, b: Components) -> Components:
    """Composes two steps h -> value + factor * h, the earlier one first."""
    return ops.add(b[0], ops.mul(b[1], a[0])), ops.mul(a[1], b[1])


RECURRENCE = register(
    Monoid(
        name="recurrence",
        components=("value", "factor"),
        component_dtypes=lambda dtype: (dtype, dtype),
        identity=lambda dtype: (0, 1),
        combine=_recurrence_combine,
        exact=False,
    )
)


def _logaddexp_combine(a: Components, b: Components) -> Components:
    """The logarithm of a sum of exponentials; infinite results are the larger operand."""
    high, low = ops.max(a[0], b[0]), ops.min(a[0], b[0])
    total = ops.add(high, ops.log1p(ops.exp(ops.sub(low, high))))
    return (ops.where(ops.isinf(high), high, total),)


LOGADDEXP = register(
    Monoid(
        name="logaddexp",
        components=("value",),
        component_dtypes=lambda dtype: (dtype,),
        identity=lambda dtype: (float("-inf"),),
        combine=_logaddexp_combine,
        exact=False,
    )
)
