"""How a NumPy function gets its traced version: one decorator, and what the versions share.

Input: NumPy's function and one with the same signature that works on tracers.  Output: the
public function of `stax.numpy`, which calls NumPy itself when nothing is traced (bit for bit its
result) and the traced version otherwise; `np.f(tracer)` reaches the same through ARRAY_FUNCTIONS.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import assign
from stax.core.keys import KeyArray, holds_keys, moved_keys
from stax.core.refusals import located
from stax.core.source import user_source
from stax.core.trace import ARRAY_FUNCTIONS, EVAL, STATE, Tracer, fresh
from stax.dtypes import WEAK_DTYPES, DType, bfloat16, float8_e4m3fn
from stax.errors import (
    AxisError,
    ConfigurationError,
    DtypeError,
    MutationError,
    ShapeError,
    StaxError,
)
from stax.numpy.promotion import array_like
from stax.numpy.promotion import nested_array as nested_array
from stax.numpy.promotion import strong as strong
from stax.primitives.casts import convert
from stax.primitives.views import broadcast, reshape

F = TypeVar("F", bound=Callable[..., Any])
_EXTENSIONS = frozenset({bfloat16, float8_e4m3fn})
NoValue: Any = np._NoValue  # what NumPy passes for an argument that was not given


def holds_tracer(values: Sequence[Any]) -> bool:
    """True when `values`, or a list or tuple among them, holds a tracer."""
    for value in values:
        if isinstance(value, Tracer):
            return True
        if isinstance(value, list | tuple) and value and holds_tracer(value):
            return True
    return False


def is_among(value: Any, values: Sequence[Any]) -> bool:
    """True when `value` is a tracer and one of `values`, or of a list or tuple among them."""
    if not isinstance(value, Tracer):
        return False
    return any(v is value or (isinstance(v, list | tuple) and is_among(value, v)) for v in values)


def holds_extension(values: Sequence[Any]) -> bool:
    """True when an array of a dtype that NumPy itself does not sum well is among `values`."""
    return any(getattr(value, "dtype", None) in _EXTENSIONS for value in values)


def implements(*functions: Any, halves: bool = False, shares: bool = False) -> Callable[[F], F]:
    """Make the decorated function the traced version of NumPy's `functions`.

    The first is called when nothing is traced.  With `halves` it is not called for bfloat16 and
    float8 arrays, which NumPy would accumulate in their own precision.  With `shares` NumPy's
    function may return its argument itself, so that a write to one is seen in the other.
    """
    plain = functions[0]

    def decorate(traced: F) -> F:
        names = list(inspect.signature(traced).parameters)
        place = names.index("out") if "out" in names else len(names)

        @functools.wraps(traced)
        def public(*args: Any, **kwargs: Any) -> Any:
            if KeyArray.in_use and holds_keys((*args, *kwargs.values())):
                return moved_keys(public, plain.__name__, args, kwargs)
            if (
                STATE.trace is EVAL
                and not holds_tracer(args)
                and not (kwargs and holds_tracer(tuple(kwargs.values())))
                and not (halves and holds_extension(args))
            ):
                return plain(*args, **kwargs)
            try:
                result = traced(*args, **kwargs)
            except StaxError as error:
                located(error, plain.__name__, user_source())
                raise
            if shares or not is_among(result, args):
                return result
            # A function that had nothing to do still gives a new array, as NumPy's does.
            out = kwargs["out"] if "out" in kwargs else args[place] if len(args) > place else None
            return result if result is out else fresh(result)

        for function in functions:
            ARRAY_FUNCTIONS[function] = public
        return public  # type: ignore[return-value]  # same signature

    return decorate


def passes(name: str) -> Any:
    """NumPy's function of that name as it is: it needs no traced version."""
    return getattr(np, name)


def operand(value: Any, op: str) -> Any:
    """`value` as something with shape and dtype: a tracer, an array or a NumPy scalar."""
    value = array_like(value, op)
    return np.asarray(value)[()] if type(value) in WEAK_DTYPES else value


def check_device(device: Any, op: str) -> None:
    """Refuse the name of a device that arrays do not live on.

    Raises:
      ConfigurationError: `device` is a string other than "cpu".
    """
    if isinstance(device, str) and device != "cpu":
        raise ConfigurationError(
            f'device={device!r} is not a device of arrays, which live on "cpu"',
            op=op,
            where=user_source() or None,
            hint='leave device= out, or pass "cpu"',
        )


# Options that change no result: how much is checked, copied or kept, and by which routine.
_HARMLESS = frozenset(
    "overwrite_a overwrite_ab overwrite_b check_finite lapack_driver driver lwork method eps tol "
    "max_iterations max_squarings upper_triangular blocksize algorithm implementation use_magma "
    "enable_eigvec_derivs casting order subok signature".split()
)


def refuse_unread(op: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a function would not read, but for those that change no result.

    Raises:
      ConfigurationError: another one is given, and not None or False.
    """
    for name, value in options.items():
        if name not in _HARMLESS and value is not None and value is not False:
            raise ConfigurationError(
                f"there is no option {name}= here, and it may change the result",
                op=op,
                where=user_source() or None,
            )


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """A shape from an integer or a sequence of them."""
    if isinstance(shape, list | tuple):
        return tuple(operator.index(n) for n in shape)
    if isinstance(shape, np.ndarray) and shape.ndim:
        return tuple(operator.index(n) for n in shape)
    return (operator.index(shape),)


def axis_index(axis: Any, ndim: int, op: str) -> int:
    """`axis` counted from the front.

    Raises:
      AxisError: there is no such axis.
    """
    try:
        if isinstance(axis, bool):  # `x.sum(True)`, meant as keepdims
            raise TypeError
        k = operator.index(axis)
    except StaxError:
        raise
    except TypeError:
        raise DtypeError(
            f"an axis is an integer, not {type(axis).__name__} {axis!r}",
            op=op,
            where=user_source() or None,
        ) from None
    if not -ndim <= k < ndim:
        raise AxisError(
            f"axis {k} is out of bounds for array of dimension {ndim}",
            axis=k,
            ndim=ndim,
            op=op,
            where=user_source() or None,
        )
    return k + ndim if k < 0 else k


def axes_tuple(axis: Any, ndim: int, op: str) -> tuple[int, ...]:
    """The axes named by None (all), an integer or a tuple, from the front and in given order."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, tuple | list | range):
        return (axis_index(axis, ndim, op),)
    axes = tuple(axis_index(a, ndim, op) for a in axis)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"duplicate value in axis {tuple(axis)}", op=op)
    return axes


def reduced_axes(axis: Any, ndim: int, op: str) -> tuple[int, ...]:
    """`axes_tuple` for reductions, whose axis NumPy lets be 0 or -1 where there are no axes."""
    return () if _of_a_scalar(axis, ndim) else axes_tuple(axis, ndim, op)


def lines(x: Any, axis: Any, op: str) -> tuple[Any, int]:
    """`x` and the axis to work along: all elements for None; a scalar is a line of one element."""
    shape = aval_of(x).shape
    if axis is None or _of_a_scalar(axis, len(shape)):
        return reshape(x, (math.prod(shape),)), 0
    return x, axis_index(axis, len(shape), op)


def _of_a_scalar(axis: Any, ndim: int) -> bool:
    return ndim == 0 and isinstance(axis, int | np.integer) and int(axis) in (0, -1)


def broadcast_to_shape(value: Any, shape: Sequence[int]) -> Any:
    """`value` broadcast to `shape` by NumPy's rules."""
    have = aval_of(value).shape
    if have == tuple(shape):
        return value
    return broadcast(value, shape)


def converted(value: Any, dtype: DType) -> Any:
    """`value` with dtype `dtype`."""
    return convert(value, np.dtype(dtype))


def deliver(value: Any, out: Any, op: str) -> Any:
    """`value`, written into the traced array `out` when one is given.

    Raises:
      MutationError: `out` is a plain array, which cannot hold a traced value.
    """
    if out is None or out is NoValue:
        return value
    if not isinstance(out, Tracer):
        raise MutationError(
            "out= is a plain NumPy array, which cannot hold a traced value",
            op=op,
            where=user_source() or None,
            hint="make it with stax.numpy.zeros or np.zeros(..., like=x), or drop out=",
        )
    if aval_of(value).shape != out.shape:
        raise ShapeError(
            f"out= has shape {out.shape}, the result {aval_of(value).shape}",
            op=op,
            where=user_source() or None,
        )
    assign(out, converted(value, out.dtype))
    return out
