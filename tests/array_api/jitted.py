"""`stax.numpy` with every function of the array-API standard called inside `stax.jit`.

A module to hand to the standard's own suite (docs/array-api.md).  A call compiles the function
for its arrays; whatever is not an array (axes, shapes, dtypes, Python scalars) is a constant of
the program.  Its arrays are NumPy's with the arithmetic operators compiled in the same way, and,
with JITTED_ITEMS=1 in the environment, `x[index]` and `x[index] = value`.  Left to NumPy:

* `nonzero`, `unique_*` and `x[mask]`: the shape of the result depends on values, which the
  standard lets a library refuse, and `jit` does;
* `repeat` by an array of counts: the same;
* `from_dlpack`, and `asarray` and `astype` that have to share memory or to copy it: what is
  asked there is the identity of a buffer, which a compiled program does not keep;
* `bool(x)`, `int(x)` and the like: Python needs the number.
"""

from __future__ import annotations

import functools
import operator
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import stax
import stax.numpy as plain
from stax.numpy import *  # noqa: F403 - dtypes and constants; the functions are replaced below
from tests.array_api.calls import SIGNATURES

__array_api_version__ = plain.__array_api_version__
__array_namespace_info__ = plain.__array_namespace_info__
bool = plain.bool

VALUES_DECIDE_THE_SHAPE = {
    "nonzero",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
}
ABOUT_MEMORY = {"from_dlpack"}
# Functions whose result is a dtype, a description or a truth value: traced, not compiled.
ABOUT_DTYPES = {"can_cast", "finfo", "iinfo", "isdtype", "result_type"}

Leaf = np.ndarray | np.generic


def arrays_of(value: Any) -> Iterator[Any]:
    """The arrays in an argument: itself, or in the lists, tuples and dicts it is made of."""
    if isinstance(value, Leaf):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from arrays_of(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from arrays_of(v)


def with_arrays(value: Any, arrays: Iterator[Any]) -> Any:
    """`value` with its arrays replaced by the next ones of `arrays`."""
    if isinstance(value, Leaf):
        return next(arrays)
    if isinstance(value, list | tuple):
        return type(value)(with_arrays(v, arrays) for v in value)
    if isinstance(value, dict):
        return {k: with_arrays(v, arrays) for k, v in value.items()}
    return value


def eager(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Whether the call is one of those the module's docstring lists."""
    if name in VALUES_DECIDE_THE_SHAPE | ABOUT_MEMORY:
        return True
    if name == "repeat":
        return next(arrays_of((args[1:], kwargs)), None) is not None
    return name in ("asarray", "astype") and kwargs.get("copy") is not None


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result of `function(*args)` run as one compiled program of the arrays in `args`."""

    def program(*arrays: Any) -> Any:
        return function(*with_arrays(args, iter(arrays)))

    arrays = [np.asarray(a) for a in arrays_of(args)]
    return dressed(stax.jit(program, **options)(*arrays))


def jitted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, of that name in the standard, compiled at each call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if eager(name, args, kwargs):
            return dressed(function(*args, **kwargs))
        kept: list[Any] = []

        def program(args: Any, kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if name in ABOUT_DTYPES:
                kept.append(result)
                return ()
            return result

        result = compiled(program, args, kwargs)
        return kept[0] if kept else result

    return call


def dressed(value: Any) -> Any:
    """A result whose arrays have the compiled operators."""
    if isinstance(value, Leaf):
        return np.asarray(value).view(JittedArray)
    if isinstance(value, list | tuple):
        items = [dressed(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class JittedArray(np.ndarray):
    """An array of NumPy's whose operators are compiled by `stax.jit` at each use."""

    if os.environ.get("JITTED_ITEMS"):

        def __getitem__(self, index: Any) -> Any:
            if any_mask(index):
                return dressed(np.asarray(self)[index])
            return compiled(operator.getitem, self, index)

        def __setitem__(self, index: Any, value: Any) -> None:
            if any_mask(index):
                np.asarray(self)[index] = value
            else:
                compiled(operator.setitem, self, index, value, write_back=True)


def any_mask(index: Any) -> Any:
    """Whether an index selects by truth values."""
    return np.bool_ in [a.dtype.type for a in arrays_of(index)] or index is True or index is False


def operator_of(name: str) -> Callable[..., Any]:
    """The method of the traced value, for an operator of the array."""

    def method(self: Any, *other: Any) -> Any:
        return compiled(lambda x, *y: getattr(x, name)(*y), self, *other)

    return method


def update(name: str) -> Callable[..., Any]:
    """The operator that stores its result in the array."""
    store = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        # Of its own memory: `x += x` is one array for NumPy, two arguments for a program.
        other = np.array(other) if isinstance(other, Leaf) else other
        result = compiled(store, self, other, write_back=True)
        return self if self.shape else result  # a scalar's name is bound to the result

    return method


BINARY = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
for _name in (
    *(f"__{n}__" for n in [*BINARY, *"abs eq ge gt invert le lt ne neg pos".split()]),
    *(f"__r{n}__" for n in BINARY),
):
    setattr(JittedArray, _name, operator_of(_name))
for _name in (f"__i{n}__" for n in BINARY):
    setattr(JittedArray, _name, update(_name))


def namespace(module: Any, prefix: str) -> types.SimpleNamespace:
    """The functions of `module` that the standard lists under `prefix`, jitted."""
    names = [n.removeprefix(prefix) for n in SIGNATURES if n.startswith(prefix)]
    return types.SimpleNamespace(
        **{n: jitted(n, getattr(module, n)) for n in names if "." not in n and hasattr(module, n)}
    )


linalg = namespace(plain.linalg, "linalg.")
fft = namespace(plain.fft, "fft.")
globals().update(vars(namespace(plain, "")))
