"""Small controls over tracing: naming, computing on known values, running without `jit`.

Input: a function, or a block of code.  Output: the function under another name; the block run
with NumPy on values that are known, in the middle of a trace, or without compiling anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from stax.config import SWITCH_HOOKS
from stax.core.trace import EVAL, STATE, run_in_python, use_trace

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


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Inside the block functions made by `jit` run as the Python functions they were made from.

    Values can then be printed and branched on; with `disable=False` an outer block is undone.

    >>> with disable_jit():
    ...     stax.jit(lambda x: print("x is", x))(3.0)
    x is 3.0
    """
    before = STATE.jit_disabled
    run_in_python(jit_disabled=disable)
    try:
        yield
    finally:
        run_in_python(jit_disabled=before)


@contextmanager
def debug_nans(enable: bool = True) -> Iterator[None]:
    """Inside the block an operation that makes a NaN raises FloatingPointError and names itself.

    Compiled functions run operation by operation there. `stax.experimental.checkify` finds NaNs
    in compiled code.

    >>> with debug_nans():
    ...     stax.jit(np.log)(-1.0)
    Traceback (most recent call last):
    FloatingPointError: ...
    """
    before = STATE.debug_nans
    run_in_python(debug_nans=enable)
    try:
        yield
    finally:
        run_in_python(debug_nans=before)


@contextmanager
def debug_infs(enable: bool = True) -> Iterator[None]:
    """Inside the block an operation that makes an infinity raises FloatingPointError.

    Compiled functions run operation by operation there.
    """
    before = STATE.debug_infs
    run_in_python(debug_infs=enable)
    try:
        yield
    finally:
        run_in_python(debug_infs=before)


SWITCH_HOOKS["jax_disable_jit"] = lambda value: run_in_python(jit_disabled=value)
SWITCH_HOOKS["jax_debug_nans"] = lambda value: run_in_python(debug_nans=value)
SWITCH_HOOKS["jax_debug_infs"] = lambda value: run_in_python(debug_infs=value)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A block with a name, as profilers of other systems show it; it changes nothing here."""
    yield


def named_call(fun: F, *, name: str | None = None) -> F:
    """`fun` under `name`, by which graphs and messages call it.

    >>> named_call(lambda x: x + 1, name="next").__name__
    'next'
    """

    @wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    called.__name__ = called.__qualname__ = str(name or getattr(fun, "__name__", "f"))
    return called  # type: ignore[return-value]  # the same signature
