"""Kernels that differ in the length of their outermost loop alone, as one function.

Input: the kernels of a block.  Output: their functions; those of which there are several that
differ in one number, the end of the loop around everything else, take it as an argument.  So an
optimiser's update is compiled once for all large weights.  A loop that is itself vectorised keeps
its number: the compiler knows from it that nothing is left over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from stax.backends.c.frame import KernelSource

__all__ = ["Lengths"]

_TOKEN = re.compile(r"[\w.]+")
_LOOP = re.compile(r"for \(int64_t (\w+) = 0; \1 < (\d+); ")


class Lengths:
    """The lengths seen, by all else in a function."""

    def __init__(self, sources: Iterable[KernelSource]) -> None:
        self._seen: dict[tuple[str, str, str], set[str]] = {}
        self._parts: dict[tuple[str, str], tuple[str, str, str] | None] = {}  # of each function
        for source in sources:
            parts = self._parted(source)
            if parts is not None:
                before, length, after = parts
                self._seen.setdefault((source.signature, before, after), set()).add(length)

    def shared(self, source: KernelSource) -> tuple[KernelSource, list[str]]:
        """The function to call for a kernel, and what else it is called with."""
        parts = self._parted(source)
        if parts is None:
            return source, []
        before, length, after = parts
        if len(self._seen[source.signature, before, after]) < 2:
            return source, []
        body = f"{before}length{after}"
        return replace(source, body=body, signature=f"{source.signature}, int64_t length"), [length]

    def _parted(self, source: KernelSource) -> tuple[str, str, str] | None:
        key = source.signature, source.body
        if key not in self._parts:
            self._parts[key] = _parted(source)
        return self._parts[key]


def _parted(source: KernelSource) -> tuple[str, str, str] | None:
    """The body up to the number that ends its first loop, the number, and the rest; None where the
    number stands elsewhere too, or the loop is vectorised.
    """
    body = source.body
    found = _LOOP.search(body)
    if found is None or source.routines or found.start() != body.index("for (int64_t"):
        return None
    before, length, after = body[: found.start(2)], found[2], body[found.end(2) :]
    pragma = before.rstrip().rpartition("\n")[0].rpartition("\n")[2]
    if " simd" in pragma or "collapse" in pragma:
        return None
    if any(length in text and length in _TOKEN.findall(text) for text in (before, after)):
        return None
    return before, length, after
