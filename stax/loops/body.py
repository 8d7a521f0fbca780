"""The flat loop body: what every later stage reads instead of Python closures.

Input: the instructions that :mod:`stax.loops.trace` recorded. Output: an immutable list in single
assignment form with the index expressions kept aside, a stable text, a content hash, the reads and
writes, and :meth:`Body.replay` under any handler of ``ops``. Changing the loops of a body only
changes its index expressions; the instructions stay as they are.

Instructions (operands are positions of earlier ones; ``ix`` is a position in ``Body.indexes``):

========== ============== =============================================
op         operands       attrs
========== ============== =============================================
load       [mask]         buffer, ix, stored dtype
constant                  value
index_expr                ix
<scalar>   operands       params as (name, value) pairs
cast       value          target dtype
bitcast    value          target dtype
check      value [mask]   size
bind       value          symbol, size
reduction  components     monoid name
scan       components     monoid name, reverse
project    reduction/scan component number
store      value [mask]   buffer, ix, mode
========== ============== =============================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stax.dtypes import short_name
from stax.forked import cached_attribute
from stax.loops.monoids import MONOIDS
from stax.loops.ops import Handler, Value
from stax.loops.scalar_ops import SCALAR_OPS
from stax.loops.symbolic import Expr, Symbol, affine_coefficients

INT32_LIMIT = 2**31


class Instr(NamedTuple):
    """One instruction; ``dtype`` is the type in which its result is computed."""

    op: str
    args: tuple[int, ...]
    dtype: np.dtype
    attrs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of memory: the buffer, the flat position, and how it is written."""

    buffer: str
    index: Expr
    mode: str = "read"

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index}]"


@dataclass(frozen=True, eq=False)
class Body:
    """A loop nest: ``loops`` outermost first, then ``reduction_loops``, around ``instrs``.

    The instructions up to the first ``reduction`` (or ``scan``) run inside all loops, the rest once
    for each point of ``loops``; a scan writes at every point of its loop.
    """

    loops: tuple[Symbol, ...]
    reduction_loops: tuple[Symbol, ...]
    instrs: tuple[Instr, ...]
    indexes: tuple[Expr, ...]

    @property
    def ranges(self) -> tuple[int, ...]:
        """The extents of ``loops``."""
        return tuple(extent(s) for s in self.loops)

    @property
    def reduction_ranges(self) -> tuple[int, ...]:
        """The extents of ``reduction_loops``."""
        return tuple(extent(s) for s in self.reduction_loops)

    @cached_attribute
    def operations(self) -> frozenset[str]:
        """The names of the instructions."""
        return frozenset([i.op for i in self.instrs])

    @cached_attribute
    def reads(self) -> tuple[Access, ...]:
        """The distinct reads, in order."""
        found = dict.fromkeys([i.attrs[:2] for i in self.instrs if i.op == "load"])
        # A position stands for one expression alone.
        return tuple([Access(buffer, self.indexes[at]) for buffer, at in found])

    @cached_attribute
    def writes(self) -> tuple[Access, ...]:
        """The distinct writes, in order."""
        found = dict.fromkeys([i.attrs for i in self.instrs if i.op == "store"])
        return tuple([Access(buffer, self.indexes[at], mode) for buffer, at, mode in found])

    @cached_attribute
    def written(self) -> tuple[str, ...]:
        """The buffer of each write."""
        return tuple([a.buffer for a in self.writes])

    @cached_attribute
    def accesses(self) -> tuple[Access, ...]:
        """Reads, then writes."""
        return self.reads + self.writes

    @property
    def scalar_ops(self) -> tuple[str, ...]:
        """The names of the scalar operations, one for each instruction."""
        return tuple(i.op for i in self.instrs if i.op in SCALAR_OPS)

    @property
    def flops(self) -> float:
        """The cost of one point of the loops, from the table of scalar operations."""
        return sum(SCALAR_OPS[name].flops for name in self.scalar_ops)

    @cached_attribute
    def split_point(self) -> int:
        """The number of instructions that run inside the reduction loops."""
        for position, instr in enumerate(self.instrs):
            if instr.op == "reduction":
                return position
        return len(self.instrs)

    def substitute(
        self,
        mapping: Mapping[Symbol, Expr],
        loops: tuple[Symbol, ...],
        reduction_loops: tuple[Symbol, ...],
    ) -> Body:
        """The same instructions under other loops, whose variables replace the present ones."""
        indexes = tuple(e.substitute(mapping) for e in self.indexes)
        return Body(loops, reduction_loops, self.instrs, indexes)

    def rename(self, names: Mapping[str, str]) -> Body:
        """The same body on other buffers."""
        instrs = tuple(
            i._replace(attrs=(names.get(i.attrs[0], i.attrs[0]), *i.attrs[1:]))
            if i.op in ("load", "store")
            else i
            for i in self.instrs
        )
        return replace(self, instrs=instrs)

    def replay(self, handler: Handler) -> None:
        """Runs the instructions under another interpretation."""
        values: list[Value] = []
        bound: dict[Symbol, Expr] = {}
        outer = handler.mask

        def index(position: int) -> Expr:
            return self.indexes[position].substitute(bound)

        for op, args, dtype, attrs in self.instrs:
            result: Value = None
            operands = tuple(values[a] for a in args)
            if op == "load":
                mask = operands[0] if operands else outer
                result = handler.load(attrs[0], index(attrs[1]), attrs[2], mask)
            elif op == "constant":
                result = handler.constant(attrs[0], dtype)
            elif op == "index_expr":
                result = handler.index_expr(index(attrs[0]), dtype)
            elif op == "cast":
                result = handler.cast(operands[0], attrs[0])
            elif op == "bitcast":
                result = handler.bitcast(operands[0], attrs[0])
            elif op == "check":
                handler.check_bounds(operands[0], attrs[0], operands[1] if len(args) > 1 else outer)
            elif op == "bind":
                bound[attrs[0]] = handler.bind(operands[0], attrs[1])
            elif op == "reduction":
                result = handler.reduction(MONOIDS[attrs[0]], operands)
            elif op == "scan":
                result = handler.scan(MONOIDS[attrs[0]], operands, attrs[1])
            elif op == "project":
                result = operands[0][attrs[0]]
            elif op == "store":
                mask = operands[1] if len(args) > 1 else outer
                handler.store(attrs[0], index(attrs[1]), operands[0], attrs[2], mask)
            else:
                result = handler.apply(SCALAR_OPS[op], operands, dict(attrs))
            values.append(result)

    def __str__(self) -> str:
        lines = [self.header, *instruction_lines(self.instrs, self.indexes)]
        return "\n".join(lines)

    @property
    def header(self) -> str:
        """One line that names the loops."""
        loops = ", ".join(f"{s.name} < {extent(s)}" for s in self.loops)
        if not self.reduction_loops:
            return f"for {loops or '()'}:"
        inner = ", ".join(f"{s.name} < {extent(s)}" for s in self.reduction_loops)
        return f"for {loops or '()'}; over {inner}:"

    @property
    def content_hash(self) -> str:
        """A digest that is equal for bodies that differ only in the names of their buffers."""
        names: dict[str, str] = {}
        for i in self.instrs:
            if i.op in ("load", "store"):
                names.setdefault(i.attrs[0], f"p{len(names)}")
        text = str(self.rename(names)) + "".join(
            f"|{short_name(i.dtype)}:{short_name(i.attrs[2]) if i.op == 'load' else ''}"
            for i in self.instrs
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def index_width(self) -> int:
        """32 when every address and every index value fits 32 bits, else 64."""
        fits = all(e.lo >= -INT32_LIMIT and e.hi < INT32_LIMIT for e in self.indexes)
        points = 1
        for s in self.loops + self.reduction_loops:
            points *= extent(s)
        return 32 if fits and points < INT32_LIMIT else 64


def extent(s: Symbol) -> int:
    """The number of values of a loop variable."""
    return int(s.hi) + 1


def runs_down_columns(body: Body) -> bool:
    """Whether memory runs along the results of a reduction, the reduced loops outside of them all.

    Reads that depend on both vote.
    """
    votes = 0
    for access in body.reads:
        found = affine_coefficients(access.index, (*body.loops, *body.reduction_loops))
        if found is None:
            continue
        own = [abs(found[s]) for s in body.loops if found[s]]
        over = [abs(found[s]) for s in body.reduction_loops if found[s]]
        if own and over:
            # Only when every reduced loop is outside the results is a row of results contiguous.
            votes += 1 if min(own) < min(over) and max(own) <= min(over) else -1
    return votes > 0


def instruction_lines(instrs: tuple[Instr, ...], indexes: tuple[Expr, ...]) -> list[str]:
    """The text of the instructions, one a line, results numbered ``tmp0, tmp1, …``."""
    lines: list[str] = []
    names: list[str] = []
    count = 0
    for op, args, dtype, attrs in instrs:
        operands = [names[a] for a in args]
        if op == "project":
            parts = len(instrs[args[0]].args)
            names.append(f"{operands[0]}[{attrs[0]}]" if parts > 1 else operands[0])
            continue
        text = f"ops.{op}({', '.join(_words(op, dtype, attrs, indexes, operands))})"
        if op == "bind":
            lines.append(f"{attrs[0].name} = {text}")
            names.append(attrs[0].name)
        elif op in ("check", "store"):
            lines.append(text)
            names.append("")
        else:
            name = f"tmp{count}"
            count += 1
            lines.append(f"{name} = {text}")
            names.append(name)
    return lines


def _words(
    op: str, dtype: np.dtype, attrs: tuple[Any, ...], indexes: tuple[Expr, ...], operands: list[str]
) -> list[str]:
    if op == "load":
        mask = [f"mask={operands[0]}"] if operands else []
        return [repr(attrs[0]), str(indexes[attrs[1]]), *mask]
    if op == "store":
        mode = [] if attrs[2] == "set" else [f"mode={attrs[2]!r}"]
        mask = [f"mask={m}" for m in operands[1:]]
        return [repr(attrs[0]), str(indexes[attrs[1]]), operands[0], *mode, *mask]
    if op in ("cast", "bitcast"):
        return [*operands, short_name(attrs[0])]
    if op == "constant":
        return [repr(attrs[0]), short_name(dtype)]
    if op == "index_expr":
        return [str(indexes[attrs[0]]), short_name(dtype)]
    if op == "check":
        return [operands[0], str(attrs[0]), *(f"mask={m}" for m in operands[1:])]
    if op == "bind":
        return [operands[0], str(attrs[1])]
    if op == "reduction":
        return [repr(attrs[0]), *operands]
    if op == "scan":
        return [repr(attrs[0]), *operands, *(["reverse=True"] if attrs[1] else [])]
    return operands + [f"{name}={value}" for name, value in attrs]
