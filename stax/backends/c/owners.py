"""Updates at places from data, on several threads.

Input: the statements of one update.  Output: whether threads can divide the target among them, and
the C text around the loops.  Every thread reads all places, picks those in its part of the target
and makes these updates in order, so repeated places give the same bits with any number of threads.
Picking takes a fifth of the time of the updates when the target does not fit into the second cache,
and each part is half as large.  Where an update is a row of the target, what belongs to the row is
computed once, and its elements are updated side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST_BYTES = 1 << 18  # of a target, below which updates take hardly longer than picking them
_LINE = 64  # bytes that two threads should not both write to
_ROOM = 16  # positions that are written at once

MOST_PICKING = 8  # threads, which all read all places: more would wait for memory
LEAST_ROW = 16  # elements of a row, below which passing it by takes as long as updating it

_STORE = re.compile(r"^(?:if \(\w+\) )?(p\d+)\[(\w+)\] = ")
_STORED = re.compile(r"^(?:if \(\w+\) )?(p\d+)\[[^\]]*\] = ")
_ROW_STORE = re.compile(
    r"^(?:if \(\w+\) )?(?P<pointer>p\d+)\[(?P<step>\d+)\*(?P<address>v\d+) \+ x\d+\] = "
)
_DEFINED = re.compile(r"^\w+ (\w+) = ")
_WORD = re.compile(r"[A-Za-z_]\w*")

ROWS = """\
//: shares 0
/* Parts of a target: one where a loop over them runs on one thread. */
STAX_INLINE int64_t stax_shares(int threads, int most) {
#if defined(_OPENMP)
    return threads < most ? threads : most;
#else
    return 1;
#endif
}
//: picked_i32 0
/* The positions of the values in [low, high), in order. */
static int64_t stax_picked_i32(const int32_t *from, int64_t n, int32_t low, int32_t high,
                               int32_t *to) {
    int64_t found = 0, at = 0;
#if !defined(__clang__) && defined(__AVX512F__)
    typedef int32_t line __attribute__((vector_size(64), aligned(4), may_alias));
    line here = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, zero = {0};
    line first = zero + low, count = zero + (high - low);
    for (; at + 16 <= n; at += 16, here += 16) {
        line value = *(const line *)(from + at) - first;
        uint16_t inside = __builtin_ia32_ucmpd512_mask(value, count, 1, (uint16_t)-1);
        *(line *)(to + found) = __builtin_ia32_compresssi512_mask(here, zero, inside);
        found += __builtin_popcount(inside);
    }
#endif
    for (; at < n; at++) {
        to[found] = (int32_t)at;
        found += (uint32_t)(from[at] - low) < (uint32_t)(high - low);
    }
    return found;
}
"""


@dataclass(frozen=True)
class Owners:
    """Threads that have a part of a target each: the address of an update, its bound, a line."""

    address: str
    size: int
    per_line: int

    def around(self, lines: Sequence[str], pragma: Sequence[str], block: int) -> list[str]:
        """The loop over parts around `lines`, which pick from blocks of `block` updates if any."""
        edge = f"{self.size}LL * (share + %d) / shares / {self.per_line} * {self.per_line}"
        picked = [
            f"    int32_t picked[{block + _ROOM}] __attribute__((aligned(64)));",
            f"    for (int32_t at = 0; at < {block}; at++) picked[at] = at;",
        ]
        return [
            f"int64_t shares = stax_shares(threads, {MOST_PICKING if block else 'threads'});",
            *pragma,
            "for (int64_t share = 0; share < shares; share++) {",
            f"    int32_t low = {edge % 0};",
            f"    int32_t high = share + 1 == shares ? {self.size} : {edge % 1};",
            *(picked if block else []),
            *("    " + s for s in lines),
            "}",
        ]

    @property
    def skip(self) -> str:
        """The statement that leaves a row of updates to another thread."""
        return f"if (({self.address} < low) | ({self.address} >= high)) continue;"

    def loop(self, count: str) -> list[str]:
        """The header of a loop over those of `count` updates that a thread makes."""
        picked = f"stax_picked_i32(block_{self.address}, {count}, low, high, picked)"
        return [
            f"int64_t mine = shares > 1 ? {picked} : {count};",
            "for (int64_t k = 0; k < mine; k++) {",
            "    int64_t at = picked[k];",
        ]


def owners_of(
    lines: Sequence[str],
    addresses: Mapping[str, int],
    itemsizes: Mapping[str, int],
    length: int = 0,
) -> Owners | None:
    """How threads divide what the statements update; None where they had better not.

    Args:
      lines: the statements of one update.
      addresses: the values that come from data and index memory, each with its bound.
      itemsizes: the size of an element, by C pointer.
      length: of the innermost loop, which is the updates.
    """
    stores = [m for m in map(_STORE.match, lines) if m is not None]
    if len(stores) != 1:
        return None
    pointer, address = stores[0].groups()
    size = addresses.get(address, 0)
    accessed = {i for line in lines for i in re.findall(rf"\b{pointer}\[([^\]]*)\]", line)}
    if accessed != {address} or not size * itemsizes[pointer] >= LEAST_BYTES or size >= 2**31:
        return None
    return Owners(address, size, max(1, _LINE // itemsizes[pointer]))


def owners_of_rows(
    lines: Sequence[str],
    addresses: Mapping[str, int],
    itemsizes: Mapping[str, int],
    length: int,
) -> Owners | None:
    """As `owners_of`, where an update is a row of `length` elements."""
    stores = [m for m in map(_ROW_STORE.match, lines) if m is not None]
    if len(stores) != 1 or length < LEAST_ROW:
        return None
    step, address = int(stores[0]["step"]), stores[0]["address"]
    size = addresses.get(address, 0)
    if step < length or size * step * itemsizes[stores[0]["pointer"]] < LEAST_BYTES:
        return None
    return Owners(address, size, 1) if size < 2**31 else None


def parted(lines: Sequence[str], variable: str) -> tuple[list[str], list[str]]:
    """The statements that are the same for all of a loop over `variable`, and the others."""
    stored = {m.group(1) for m in map(_STORED.match, lines) if m is not None}
    moving = {variable}
    fixed: list[str] = []
    rest: list[str] = []
    for line in lines:
        words = set(_WORD.findall(line))
        stays = not words & moving and not words & stored and _STORED.match(line) is None
        (fixed if stays else rest).append(line)
        if not stays and (defined := _DEFINED.match(line)) is not None:
            moving.add(defined.group(1))
    return fixed, rest


def one_row(lines: Sequence[str], variable: str) -> bool:
    """Whether the statements of a loop over `variable` update a row, each element once."""
    own = {variable, *(m.group(1) for m in map(_DEFINED.match, lines) if m is not None)}
    for store in filter(None, map(_STORED.match, lines)):
        pointer = store.group(1)
        places = {i for line in lines for i in re.findall(rf"\b{pointer}\[([^\]]*)\]", line)}
        row, sign, last = places.pop().partition(" + ") if len(places) == 1 else ("", "", "")
        if last != variable or not sign or own.intersection(_WORD.findall(row)):
            return False
    return all(_STORED.match(line) or _DEFINED.match(line) for line in lines)
