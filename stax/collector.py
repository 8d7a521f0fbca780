"""Python's collector of cycles, held while programs are traced, lowered and printed."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]

_paused_by: list[int] = []  # the thread that holds the collector, if any


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hold the collector: it would walk everything made so far, and free little."""
    if not gc.isenabled():
        yield
        return
    try:
        _paused_by.append(threading.get_ident())
        gc.disable()
        yield
    finally:
        gc.enable()
        _paused_by.clear()


def _in_child() -> None:
    """Let it collect again in a child process, where the thread that held it is not."""
    if _paused_by and threading.get_ident() not in _paused_by:
        _paused_by.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
