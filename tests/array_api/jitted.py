"""`stax.numpy` with every function of the array-API standard called inside `stax.jit`.

A module to hand to the standard's own suite (docs/array-api.md).  A call compiles the function
for its arrays; whatever is not an array (axes, shapes, dtypes, Python scalars) is a constant of
the program.  Called without `jit`:

* `nonzero` and `unique_*`: the shape of the result depends on values, which the standard lets a
  library refuse, and `jit` does;
* `repeat` by an array of counts: the same;
* `from_dlpack`, and `asarray` and `astype` that have to share memory or to copy it: what is
  asked there is the identity of a buffer, which a compiled program does not keep.
"""

from __future__ import annotations

import functools
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


def jitted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, of that name in the standard, compiled at each call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if eager(name, args, kwargs):
            return function(*args, **kwargs)
        kept: list[Any] = []

        def program(*arrays: Any) -> Any:
            rest = iter(arrays)
            result = function(*with_arrays(args, rest), **with_arrays(kwargs, rest))
            if name in ABOUT_DTYPES:
                kept.append(result)
                return ()
            return result

        result = stax.jit(program)(*arrays_of((args, kwargs)))
        return kept[0] if kept else result

    return call


def namespace(module: Any, prefix: str) -> types.SimpleNamespace:
    """The functions of `module` that the standard lists under `prefix`, jitted."""
    names = [n.removeprefix(prefix) for n in SIGNATURES if n.startswith(prefix)]
    return types.SimpleNamespace(
        **{n: jitted(n, getattr(module, n)) for n in names if "." not in n and hasattr(module, n)}
    )


linalg = namespace(plain.linalg, "linalg.")
fft = namespace(plain.fft, "fft.")
globals().update(vars(namespace(plain, "")))
