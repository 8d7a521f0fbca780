"""Threads after `fork`: a child process runs everything on one.

Input: the programs that are loaded. Output: how many threads a program may use now. The OpenMP
runtime of gcc does not survive a fork: once it has started threads in the parent, a parallel
region in the child waits for threads that are not there. So a child process (multiprocessing's
"fork" workers, for example) is told to use one thread, whatever was compiled before or after.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from stax.config import options

__all__ = ["UsesThreads", "available_threads", "follow"]


class UsesThreads(Protocol):
    """Something loaded that starts threads."""

    def use_one_thread(self) -> None:
        """Never start a thread again."""


_followed: weakref.WeakSet[UsesThreads] = weakref.WeakSet()
_forked = False


def available_threads() -> int:
    """Return the number of threads a program may use in this process."""
    return 1 if _forked else options().num_threads


def follow(user: UsesThreads) -> None:
    """Call `user.use_one_thread()` in a child process of this one, if it still lives."""
    _followed.add(user)


def _in_child() -> None:
    global _forked
    _forked = True
    for user in list(_followed):
        user.use_one_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
