"""Kernels: groups of loop bodies that share one loop nest.

A kernel has a *space*, the extents of its loops outermost first, and a *split*: the loops before
it are the rows, those from it on run along a row.  Each member body plays one role in it:

  FULL    one value at each point of the space
  OUTER   one value at each row
  ROW     a reduction along each row; the result is a scalar of the row
  COLUMN  a reduction over the rows, one result at each point along the row
  ALL     a reduction over the whole space

and belongs to a *stage*.  Even stages are loops along the row, odd ones are scalar code of the row
between them (-1 comes before the first loop): a reduction of stage s is known from stage s + 1.
What the emitter of each back end prints is this structure; nothing here knows a language.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stax.loops.body import Access, Body, Instr
from stax.loops.symbolic import (
    Expr,
    Symbol,
    as_expr,
    delinearize,
    linearize,
    symbol,
)


class Role(enum.Enum):
    """How a body's loops lie in the kernel's space."""

    FULL = "full"
    OUTER = "outer"
    ROW = "row"
    COLUMN = "column"
    ALL = "all"
    SERIAL = "serial"  # a scan or a scatter: the kernel is this one body, in its own order


@dataclass(eq=False)
class Member:
    """A body in a kernel: `dims` are its loops in the order of the kernel's space."""

    body: Body
    role: Role
    dims: tuple[Symbol, ...]
    stage: int = 0
    indexes: tuple[Expr, ...] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the buffers written."""
        return self.body.written


@dataclass(eq=False)
class Kernel:
    """Members that run in one loop nest, in program order."""

    name: str
    space: tuple[int, ...]
    split: int | None
    members: list[Member] = field(default_factory=list)
    writers: dict[str, Member] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    partial: set[str] = field(default_factory=set)  # written by several members, a part each
    size: int = 0  # instructions of all members

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The loop variables of the space."""
        return space_symbols(self.space)

    @property
    def numel(self) -> int:
        """Points of the space."""
        return math.prod(self.space)

    @property
    def rows(self) -> tuple[int, ...]:
        """Extents of the row loops."""
        return self.space if self.split is None else self.space[: self.split]

    @property
    def along(self) -> tuple[int, ...]:
        """Extents of the loops along a row."""
        return () if self.split is None else self.space[self.split :]

    @property
    def accesses(self) -> tuple[list[str], list[str]]:
        """The buffers that the kernel reads and those that it writes, by member."""
        return (
            [a.buffer for m in self.members for a in m.body.reads],
            [n for m in self.members for n in m.writes],
        )

    @property
    def stored(self) -> list[str]:
        """The buffers that the kernel makes."""
        return list(self.writers)

    def add(self, member: Member, partial: bool = False) -> None:
        """Append a member whose `indexes` are set; `partial` if it writes a part of its result."""
        self.members.append(member)
        self.size += len(member.body.instrs)
        for name in member.writes:
            self.writers[name] = member
        self.partial.update(member.writes if partial else ())
        self.reads.update(a.buffer for a in member.body.reads)

    def refine(self, space: tuple[int, ...], split: int | None) -> None:
        """Give the kernel finer loops and/or a split; re-derive the members' indexes."""
        if space == self.space and split == self.split:
            return
        changed = space != self.space
        self.space, self.split = space, split
        if changed:
            for member in self.members:
                member.indexes = mapped_indexes(member, space, split)


def without_trivial_merges(body: Body) -> Body:
    """The body with a reduction or scan over a single element replaced by that element."""
    if body.reduction_loops or body.operations.isdisjoint(("reduction", "scan")):
        return body
    instrs: list[Instr] = []
    place: dict[int, int] = {}
    components: dict[int, tuple[int, ...]] = {}
    for n, i in enumerate(body.instrs):
        if i.op in ("reduction", "scan"):
            components[n] = i.args
        elif i.op == "project":
            place[n] = place[components[i.args[0]][i.attrs[0]]]
        else:
            place[n] = len(instrs)
            instrs.append(i._replace(args=tuple(place[a] for a in i.args)))
    return replace(body, instrs=tuple(instrs))


def space_symbols(space: Sequence[int]) -> tuple[Symbol, ...]:
    """One symbol for each extent: `x0, x1, ...`."""
    return _space_symbols(tuple(space))


@functools.lru_cache(maxsize=4096)
def _space_symbols(space: tuple[int, ...]) -> tuple[Symbol, ...]:
    return tuple([symbol(f"x{k}", 0, n - 1) for k, n in enumerate(space)])


def segment(role: Role, space: tuple[int, ...], split: int | None) -> slice:
    """Which loops of the space a body of this role runs over, in `Member.dims` order."""
    if role is Role.OUTER:
        return slice(0, split)
    return slice(0, len(space))


def mapped_indexes(member: Member, space: tuple[int, ...], split: int | None) -> tuple[Expr, ...]:
    """The member's index expressions in terms of the kernel's loop variables."""
    part = segment(member.role, space, split)
    symbols = space_symbols(space)[part]
    extents = space[part]
    return substitute_loops(member.body, member.dims, symbols, extents)


def substitute_loops(
    body: Body, dims: Sequence[Symbol], symbols: Sequence[Symbol], extents: Sequence[int]
) -> tuple[Expr, ...]:
    """The body's indexes with `dims` read as the row-major coordinates of `symbols`."""
    return _substituted(body.indexes, tuple(dims), tuple(symbols), tuple(extents))


@functools.lru_cache(maxsize=4096)  # a body is tried in several kernels
def _substituted(
    indexes: tuple[Expr, ...],
    dims: tuple[Symbol, ...],
    symbols: tuple[Symbol, ...],
    extents: tuple[int, ...],
) -> tuple[Expr, ...]:
    shape = tuple(int(s.hi) + 1 for s in dims)
    mapping: dict[Symbol, Expr]
    if shape == extents:
        mapping = dict(zip(dims, symbols, strict=True))
    else:
        strides = row_major(extents)
        flat = linearize([as_expr(s) for s in symbols], strides)
        mapping = dict(zip(dims, delinearize(flat, shape), strict=True))
    return tuple([e.substitute(mapping) for e in indexes])


def row_major(extents: Sequence[int]) -> list[int]:
    """Row-major strides, in elements."""
    strides = [1] * len(extents)
    for k in range(len(extents) - 2, -1, -1):
        strides[k] = strides[k + 1] * extents[k + 1]
    return strides


def common_refinement(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The coarsest extents that subdivide both factorisations of one size, or None."""
    out: list[int] = []
    left, right = [n for n in a if n != 1], [n for n in b if n != 1]
    left.reverse()
    right.reverse()
    while left and right:
        m, n = left.pop(), right.pop()
        if m == n:
            out.append(m)
        elif m % n == 0:
            # The outer part of m is n when it comes first: m = n * (m // n).
            out.append(n)
            left.append(m // n)
        elif n % m == 0:
            out.append(m)
            right.append(n // m)
        else:
            return None
    return None if left or right else tuple(out)


def cut_at(space: tuple[int, ...], rows: int) -> tuple[tuple[int, ...], int] | None:
    """The space, one loop split if need be, with `rows` points before the returned position."""
    done = 1
    for k, n in enumerate(space):
        if done == rows:
            return space, k
        if rows % done:
            return None
        rest = rows // done
        if n > rest:
            if n % rest:
                return None
            return (*space[:k], rest, n // rest, *space[k + 1 :]), k + 1
        done *= n
    return (space, len(space)) if done == rows else None


def access_of(member: Member, buffer: str, kind: str) -> list[Expr]:
    """The mapped positions at which a member reads ("load") or writes ("store") a buffer."""
    return [
        member.indexes[i.attrs[1]]
        for i in member.body.instrs
        if i.op == kind and i.attrs[0] == buffer
    ]


__all__ = [
    "Access",
    "Kernel",
    "Member",
    "Role",
    "access_of",
    "common_refinement",
    "cut_at",
    "mapped_indexes",
    "row_major",
    "segment",
    "space_symbols",
    "substitute_loops",
    "without_trivial_merges",
]
