"""What operators, functions and methods of arrays on a device compute, as small programs.

Input: a function of arrays and its arguments, or an operation that a transformation wants the
values of.  Output: what it gives, on the device.  The function is compiled for the types of its
arrays, and for all else that it is given (axes, dtypes, slices); numbers that may change from call
to call (operands, positions) are arguments of the program.  Inside of a transformation an array is
a constant.  Where nothing can be compiled (without triton, by `disable_jit`, a function whose
result has a shape that depends on values) NumPy computes it from copies.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.backends.triton.methods import Methods, on_host
from stax.core.primitive import Primitive
from stax.core.trace import (
    ARRAY_FUNCTIONS,
    EVAL,
    STATE,
    UFUNC_FINDERS,
    UFUNCS,
    Tracer,
    bind,
    in_python,
    use_trace,
)
from stax.dtypes import is_supported
from stax.errors import CompilerNotFoundError, ConcretizationError
from stax.pytree import tree_leaves, tree_map
from stax.transforms.jit import jit

_LONGEST = np.iinfo(np.int64)
_EXPONENTS = frozenset({-2, -1, 0.5, 2, 3, 4})  # a program of their own is worth its compilation


@dataclass(frozen=True)
class _Given:
    """The place of an argument of the program in the arguments of the function."""

    position: int


@dataclass(frozen=True)
class _Fixed:
    """An argument that is compiled in; type and text tell 1 from True, and 0.0 from -0.0."""

    kind: type
    value: Any
    text: str


@dataclass(frozen=True)
class _Several:
    """A container of arguments, or a slice."""

    kind: type
    parts: tuple[Any, ...]


def _template(value: Any, given: list[Any], numbers: bool, beside: Any = ()) -> Any:
    """The argument with its arrays replaced by their places in `given`.

    A Python number that is no element of an integer array `beside` it is compiled in, so that it is
    compared by its value and refused elsewhere, as in NumPy; a program would cut off its high bits.
    """
    if type(value) is int and numbers:
        numbers = all(limits.min <= value <= limits.max for limits in (_LONGEST, *beside))
    if isinstance(value, Methods | np.ndarray) or (numbers and _is_number(value)):
        given.append(value)
        return _Given(len(given) - 1)
    if type(value) in (tuple, list):
        return _Several(type(value), tuple(_template(v, given, numbers) for v in value))
    if isinstance(value, slice):
        bounds = (value.start, value.stop, value.step)
        return _Several(slice, tuple(_template(v, given, False) for v in bounds))
    return _Fixed(type(value), value, repr(value))


def _limits(args: tuple[Any, ...]) -> list[np.iinfo[Any]]:
    dtypes = [v.dtype for v in args if hasattr(v, "dtype")]
    return [np.iinfo(d) for d in dtypes if d.kind in "iu"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.number | np.bool_)


def _filled(template: Any, given: tuple[Any, ...]) -> Any:
    """The argument with the arrays of the program in their places."""
    if isinstance(template, _Given):
        return given[template.position]
    if isinstance(template, _Fixed):
        return template.value
    parts = [_filled(t, given) for t in template.parts]
    return slice(*parts) if template.kind is slice else template.kind(parts)


def _called(function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the function gives, of arrays or of traced values."""
    if function is operator.getitem:
        return args[0][tuple(args[1:])]
    if function is operator.attrgetter:
        return function(name)(args[0])
    if function is operator.methodcaller:
        return getattr(args[0], name)(*args[1:], **kwargs)
    return function(*args, **kwargs)


@functools.lru_cache(maxsize=4096)
def _program(function: Any, name: str, templates: tuple[Any, ...], keys: tuple[str, ...]) -> Any:
    def run(*given: Any) -> Any:
        values = [_filled(t, given) for t in templates]
        count = len(values) - len(keys)
        kwargs = dict(zip(keys, values[count:], strict=True))
        return _called(function, name, values[:count], kwargs)

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "indexed"
    return jit(run, backend="triton")


def _has_version(function: Any, args: tuple[Any, ...], known: list[Any]) -> bool:
    """Whether a function can be traced, with arguments such as these."""
    if any(callable(v) and not isinstance(v, type | Methods) for v in known):
        return False  # what it does may change from call to call
    if not isinstance(function, np.ufunc):
        return True
    if not all(_is_number(v) or _is_traceable(v) for v in args):
        return False
    return function in UFUNCS or any(finder(function) is not None for finder in UFUNC_FINDERS)


def _is_traceable(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return is_supported(value.dtype.newbyteorder("="))
    return isinstance(value, Methods | list | tuple)


def _on_host(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    hosted = {key: on_host(value) for key, value in kwargs.items()}
    return _called(function, name, [on_host(v) for v in args], hosted)


def compute(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`function` of arrays of which one at least is on a device."""
    known = tree_leaves((args, kwargs))
    if any(isinstance(v, Tracer) for v in known):
        lifted = tree_map(_lifted, (list(args), kwargs))
        return _called(function, name, *lifted)
    if STATE.trace is not EVAL:
        with use_trace(EVAL):
            return compute(function, name, args, kwargs)
    if STATE.jit_disabled or not _has_version(function, args, known):
        return _on_host(function, name, args, kwargs)
    if kwargs.get("out") is not None:
        return _on_host(function, name, args, kwargs)
    given: list[Any] = []
    if isinstance(function, np.ufunc):
        small = function is np.power and type(args[1]) in (int, float) and args[1] in _EXPONENTS
        beside = _limits(args)
        templates = [_template(v, given, not (small and k), beside) for k, v in enumerate(args)]
    elif function is operator.getitem:
        templates = [_template(v, given, True) for v in args]
    else:
        templates = [_template(v, given, False) for v in args]
    templates += [_template(v, given, False) for v in kwargs.values()]
    try:
        return _program(function, name, tuple(templates), tuple(kwargs))(*given)
    except CompilerNotFoundError:
        first: Any = next(v for v in given if isinstance(v, Methods))
        return tree_map(first.put_beside, _on_host(function, name, args, kwargs))
    except ConcretizationError:
        if function not in ARRAY_FUNCTIONS:
            raise
        return _on_host(function, name, args, kwargs)  # the shape of the result depends on values


def _lifted(value: Any) -> Any:
    return STATE.trace.lift(value) if isinstance(value, Methods) else value


def bound(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """The results of an operation on values of which one at least is on a device."""
    if in_python():
        return EVAL.process(prim, [on_host(v) for v in args], params)
    names = tuple(params)
    values = tuple(_Fixed(type(v), v, repr(v)) for v in params.values())
    try:
        hash(values)
        # Graphs and functions differ from call to call.
        run = _operation if prim.linearize is None else _operation.__wrapped__
    except TypeError:
        run = _operation.__wrapped__
    try:
        with use_trace(EVAL):
            return tuple(run(prim, names, values)(*args))
    except CompilerNotFoundError:
        first: Any = next(v for v in args if isinstance(v, Methods))
        found = EVAL.process(prim, [on_host(v) for v in args], params)
        return tuple(first.put_beside(v) for v in found)


@functools.lru_cache(maxsize=4096)
def _operation(prim: Primitive, names: tuple[str, ...], values: tuple[_Fixed, ...]) -> Any:
    params = {name: fixed.value for name, fixed in zip(names, values, strict=True)}

    def run(*args: Any) -> tuple[Any, ...]:
        return bind(prim, *args, **params)

    run.__name__ = run.__qualname__ = prim.name
    return jit(run, backend="triton")
