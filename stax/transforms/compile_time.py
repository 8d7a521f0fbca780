"""Small controls over tracing: naming a function, computing on known values while tracing.

Input: a function, or a block of code.  Output: the function under another name; the block run
with NumPy on values that are known, in the middle of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from stax.core.trace import EVAL, use_trace

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Inside the block operations on known values are computed at once instead of being traced.

    Raises TracerLeakError for an operation on a traced value.

    >>> def f(x):
    ...     with ensure_compile_time_eval():
    ...         n = int(stax.numpy.sum(stax.numpy.ones(3)))
    ...     return x * n
    """
    with use_trace(EVAL):
        yield


def named_call(fun: F, *, name: str | None = None) -> F:
    """`fun` under `name`, by which graphs and messages call it."""

    @wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    called.__name__ = called.__qualname__ = str(name or getattr(fun, "__name__", "f"))
    return called  # type: ignore[return-value]  # the same signature
