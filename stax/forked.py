"""What a child process made by `fork` goes on with while threads of its parent were at work.

Such a child has one thread, the one that called `fork`.  A lock that another thread held is held
for ever there, so whoever compiles in the child would wait for nobody.  `Lock` is free in the
child unless its thread itself holds it: what such locks protect is published by single stores, so
that a child finds it whole or not at all.  `cached_attribute` needs no lock; the standard
library's has one for all objects before Python 3.12.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["Lock", "cached_attribute"]

T = TypeVar("T")


class Lock:
    """A reentrant lock, used by `with`, that no child process inherits from another thread."""

    __slots__ = ("_lock", "__weakref__")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    for lock in list(_locks):
        lock._in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class cached_attribute(Generic[T]):  # read as a decorator
    """An attribute computed when it is first read, and kept on the object.

    Threads that read it at the same time may each compute it: the value has to follow from the
    object alone.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_attribute[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> cached_attribute[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._make(instance)
        return value
