"""What operators and methods of arrays on a device compute, as small programs.

Input: a function of arrays and its arguments.  Output: what it gives, on the device.  The function
is compiled for the types of its arrays, and for all else that it is given (axes, dtypes, slices);
numbers that may change from call to call (operands, positions) are arguments of the program.  Where
nothing can be compiled (inside of other transformations, without triton, by `disable_jit`) NumPy
computes it from copies.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.backends.triton.methods import Methods, on_host
from stax.core.trace import EVAL, STATE, UFUNC_FINDERS, UFUNCS, Tracer
from stax.dtypes import is_supported
from stax.errors import CompilerNotFoundError
from stax.pytree import tree_leaves, tree_map
from stax.transforms.jit import jit

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


def _template(value: Any, given: list[Any], numbers: bool) -> Any:
    """The argument with its arrays replaced by their places in `given`."""
    numbers = numbers and not (type(value) is int and not -(1 << 63) <= value < 1 << 63)
    if isinstance(value, Methods | np.ndarray) or (numbers and _is_number(value)):
        given.append(value)
        return _Given(len(given) - 1)
    if type(value) in (tuple, list):
        return _Several(type(value), tuple(_template(v, given, numbers) for v in value))
    if isinstance(value, slice):
        bounds = (value.start, value.stop, value.step)
        return _Several(slice, tuple(_template(v, given, False) for v in bounds))
    return _Fixed(type(value), value, repr(value))


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
    if isinstance(function, np.ufunc):
        return function(*args, **kwargs)
    if function is operator.getitem:
        return args[0][tuple(args[1:])]
    if function is operator.attrgetter:
        return function(name)(args[0])
    if function is operator.methodcaller:
        return getattr(args[0], name)(*args[1:], **kwargs)
    return function(name)(*args, **kwargs)


@functools.lru_cache(maxsize=4096)
def _program(function: Any, name: str, templates: tuple[Any, ...], keys: tuple[str, ...]) -> Any:
    def run(*given: Any) -> Any:
        values = [_filled(t, given) for t in templates]
        count = len(values) - len(keys)
        kwargs = dict(zip(keys, values[count:], strict=True))
        return _called(function, name, values[:count], kwargs)

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "indexed"
    return jit(run, backend="triton")


def _has_version(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a ufunc can be traced, with operands such as these."""
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
    if STATE.trace is not EVAL or STATE.jit_disabled or any(isinstance(v, Tracer) for v in known):
        return _on_host(function, name, args, kwargs)
    if not _has_version(function, args) or kwargs.get("out") is not None:
        return _on_host(function, name, args, kwargs)
    given: list[Any] = []
    if isinstance(function, np.ufunc):
        small = function is np.power and type(args[1]) in (int, float) and args[1] in _EXPONENTS
        templates = [_template(v, given, not (small and k)) for k, v in enumerate(args)]
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
