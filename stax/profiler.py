"""JAX's profiler annotations, for scripts that have them: they run what they stand around.

What a program does and how long it takes is shown by `stax.explain(f)(*args)`; nothing is written
to a trace directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any, TypeVar

__all__ = ["StepTraceAnnotation", "TraceAnnotation", "annotate_function", "trace"]

F = TypeVar("F", bound=Callable[..., Any])


class TraceAnnotation(ContextDecorator):
    """A named block."""

    def __init__(self, name: str, **metadata: Any) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


class StepTraceAnnotation(TraceAnnotation):
    """A named block that is one step of a loop (`step_num=`)."""


def annotate_function(func: F, name: str | None = None, **metadata: Any) -> F:
    """The function itself."""
    return func


@contextmanager
def trace(log_dir: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block; use `stax.explain` for what a profile would show."""
    yield
