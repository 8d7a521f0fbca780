"""Libraries that do not depend on a program: built together, at the first compilation on a machine.

Input: a library's text, and how to compile it.  Output: the library, loaded.  Whoever has routines
that many programs call declares them at the top level of a module, in one line,

    MAPS = built_ahead(lambda: Unit(PREAMBLE + maps_source(["f32"]), extra=VECTOR_FLAGS))

and takes addresses from `load(MAPS())` where a program calls one.  Nothing is built or read when
modules are imported.  The first library of these that a process loads and that the cache does not
hold takes along all others that are not there, as many at a time as there are processors: that is
the first compilation on a machine, or under another compiler.  Later processes find each in the
cache, and load those alone that they call.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stax.backends.c import cache
from stax.backends.c.toolchain import Library, Toolchain, require_toolchain
from stax.config import available_cpus
from stax.errors import CompilationError

__all__ = ["Unit", "build_together", "built_ahead", "load"]


@dataclass(frozen=True)
class Unit:
    """C text of a library, with the level and further flags that it is compiled with."""

    text: str
    opt: str = "-O1"
    extra: tuple[str, ...] = ()


_declared: list[Callable[[], Unit]] = []


def built_ahead(unit: Callable[[], Unit]) -> Callable[[], Unit]:
    """Declare a library that is built at the first compilation on a machine; returns its unit.

    Args:
      unit: gives the library's text and flags, the same at every call of a process.
    """
    made = functools.cache(unit)
    _declared.append(made)
    return made


def load(unit: Unit, toolchain: Toolchain | None = None, *, alone: bool = False) -> Library:
    """The library, loaded; where it has to be built, all declared ones are built with it.

    Args:
      unit: what to load, declared or not.
      toolchain: the compiler, where it is not the process's.
      alone: build no other.

    Raises:
      CompilationError, CompilerNotFoundError: as `Toolchain.compile`, for this library alone; what
        keeps another from being built is said when that is loaded.
    """
    compiler = toolchain or require_toolchain()

    def missing() -> None:
        build_together(compiler, [unit, *(other() for other in _declared)])

    ahead = None if alone else missing
    return compiler.load(unit.text, opt=unit.opt, extra=unit.extra, missing=ahead)


def build_together(toolchain: Toolchain, units: Sequence[Unit]) -> None:
    """Build what the cache lacks of `units`, several at a time.

    Threads of ours start the compilers, this one among them; none is left when it returns or
    raises.  A library that cannot be built is left out: whoever loads it meets the reason.  Where
    no later process would find what is built, nothing is.
    """
    place = cache.lasting_cache()
    if place is None:
        return
    waiting = deque(
        unit
        for unit in dict.fromkeys(units)
        if toolchain.cached(unit.text, opt=unit.opt, extra=unit.extra) is None
    )

    def work() -> None:
        while True:
            try:
                unit = waiting.popleft()
            except IndexError:
                return
            try:
                toolchain.build_in(place, unit.text, opt=unit.opt, extra=unit.extra)
            except CompilationError:
                continue
            except OSError:  # no room, or none of ours to write to
                waiting.clear()

    helpers = [
        threading.Thread(target=work, name="stax-compiler")
        for _ in range(min(available_cpus(), len(waiting)) - 1)
    ]
    try:
        # Where threads are rationed, and when Python ends, the thread that is here builds all.
        with contextlib.suppress(RuntimeError):
            for helper in helpers:
                helper.start()
        work()
    finally:
        waiting.clear()  # after an interrupt: what runs is waited for, and nothing else begins
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
