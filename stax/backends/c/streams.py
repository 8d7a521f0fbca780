"""Arrays that a pointwise loop walks through, fetched from memory ahead of their use.

Input: the statements of one element of a loop, and how large the arrays are.  Output: the addresses
that a loop over blocks asks memory for, 512 elements ahead, and the plain loop in such blocks.  The
processor's own prefetching stops at the end of every page and does not fetch what is only written
before the store asks for it; loops that wait for memory take a tenth to a sixth less with both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stax.backends.c.lanes import Loop

AHEAD = 512  # elements
# Loops that look up addresses from data keep the first cache's record of what is on its way full:
# what comes later than the next block takes the place of what this one waits for.
AHEAD_OF_LOOKUPS = 384
BLOCK = 64  # elements of a block of a plain loop
CACHE_LINE = 64
LEAST_BYTES = 1 << 21  # that the loops of a kernel walk through, from which they leave the cache
MOST_STREAMS = 8

_ACCESS = re.compile(r"\b(p\d+)\[([^\[\]]*)\]")
_STORE = re.compile(r"^p\d+\[[^\[\]]*\] = ")
_SHIFT = re.compile(r" [-+] \d+$")
_TERM = re.compile(r"(?:^|(?<=[-+] ))\w+(?= [-+]|$)")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Stream:
    """An array read or written one element after the other; `address` is C text with `{at}`."""

    address: str
    per_line: int
    written: bool

    def fetches(self, first: str, count: int, ahead: int = AHEAD) -> list[str]:
        """The statements that ask for `count` elements, `ahead` after the element `first`."""
        write = ", 1" if self.written else ""
        places = [f"({first} + {ahead + n})" for n in range(0, count, self.per_line)]
        return [f"__builtin_prefetch({self.address.format(at=p)}{write});" for p in places]


def walked_bytes(lines: Sequence[str], itemsizes: Mapping[str, int], numel: int) -> int:
    """At most how many bytes of arrays the statements walk through; arguments as `streams_of`."""
    pointers = {access[1] for line in lines for access in _ACCESS.finditer(line)}
    return numel * sum(itemsizes[p] for p in pointers)


def streams_of(
    lines: Sequence[str], variable: str, itemsizes: Mapping[str, int], numel: int
) -> list[Stream]:
    """What the statements read and write in steps of one along `variable`.

    Args:
      lines: the statements of one element.
      variable: the variable of the loop.
      itemsizes: the size of an element, by C pointer.
      numel: how often the statements run.

    Returns: a stream for each row of an array; none where all arrays fit into the cache.
    """
    if numel * sum(itemsizes.values()) < LEAST_BYTES:
        return []
    own = {s.split(" = ", 1)[0].split()[-1] for s in lines if " = " in s and not _STORE.match(s)}
    found: dict[str, Stream] = {}
    whole: set[str] = set()
    nbytes = 0
    for line in lines:
        for access in _ACCESS.finditer(line):
            pointer, index = access.groups()
            words = _WORD.findall(index)
            along = next((m for m in _TERM.finditer(index) if m.group() == variable), None)
            if along is None or index[: along.start()].endswith("- "):
                continue
            if words.count(variable) != 1 or own.intersection(words):
                continue
            at = f"{index[: along.start()]}{{at}}{index[along.end() :]}"
            place = f"{pointer} {_SHIFT.sub('', at)}"
            if place in found:
                continue
            written = _STORE.match(line) is not None and access.start() == 0
            size = itemsizes[pointer]
            found[place] = Stream(f"{pointer} + ({at})", CACHE_LINE // size, written)
            nbytes += 0 if pointer in whole else numel * size
            whole.add(pointer)
    if nbytes < LEAST_BYTES or len(found) > MOST_STREAMS:
        return []
    return list(found.values())


def fetching_loop(loop: Loop, lines: Sequence[str], streams: Sequence[Stream]) -> list[str] | None:
    """The vectorised loop over `lines` in blocks that fetch ahead; None where it is too short."""
    if loop.fixed is None or loop.fixed < BLOCK + AHEAD or not streams:
        return None
    v, rest = loop.variable, loop.fixed % BLOCK
    first, end = f"{v}_first", int(loop.stop) - rest
    body = ["    " + s for s in lines]
    out = [
        f"for (int64_t {first} = {loop.start}; {first} < {end}; {first} += {BLOCK}) {{",
        *("    " + s for stream in streams for s in stream.fetches(first, BLOCK)),
        "    #pragma omp simd",
        f"    for (int64_t {v} = {first}; {v} < {first} + {BLOCK}; {v}++) {{",
        *("    " + s for s in body),
        "    }",
        "}",
    ]
    if rest:
        out += ["#pragma omp simd", f"for (int64_t {v} = {end}; {v} < {loop.stop}; {v}++) {{"]
        out += [*body, "}"]
    return out
