"""The frame of a kernel's C function: parameters, loops over rows, threads.

Input: a scheduled kernel, the dtypes of buffers and which of them are read outside it.  Output:
a `KernelSource`, once a subclass has printed the statements: `emit` for loop nests of independent
rows, `serial` for scans and scatters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stax.backends.c.division import FAST, declared
from stax.backends.c.handler import INNER_DEPTH, ROW_DEPTH, CValue, Emitter
from stax.backends.c.lanes import LEAST_LENGTH
from stax.backends.c.vecmath import with_calls
from stax.dtypes import DType
from stax.forked import cached_attribute
from stax.loops.scalar_ops import SCALAR_OPS, c_type
from stax.loops.symbolic import Expr, symbol
from stax.schedule.collapse import collapsed
from stax.schedule.kernel import Kernel, Member, Role

PARALLEL = "#pragma omp parallel for"
PARALLEL_NANOSECONDS = 150_000  # below, waking a second thread costs more than it saves


def nanoseconds_of(kernel: Kernel) -> float:
    """About what a kernel takes on one thread, an element at a time."""
    cost = 0.0
    for member in kernel.members:
        outer = member.role is Role.OUTER
        points = math.prod(kernel.space[: kernel.split]) if outer else kernel.numel
        one = 0.0
        for i in member.body.instrs:
            row = SCALAR_OPS.get(i.op)
            one += (row.flops * 0.12) if row is not None else 0.15
        cost += one * points
    return cost


@dataclass
class KernelSource:
    """A kernel's function: `body` without its name, parameters in order, and what it needs."""

    name: str
    parameters: list[str]
    written: set[str]
    signature: str
    body: str
    checks: list[int]
    workspace: int
    parallel: bool
    functions: list[str] = field(default_factory=list)
    routines: tuple[str, ...] = ()  # that it is given the addresses of
    nanoseconds: float = 0.0  # about what it takes, 0 where nothing is known
    scalar: bool = False  # whether vectors bring little, for want of long rows
    looks_up: bool = False  # whether addresses come from data
    owned: bool = False  # whether each thread makes the updates of its part of a target
    plain: bool = False  # whether it is printed and compiled for the compiler's time

    @property
    def key(self) -> str:
        """Equal for kernels whose functions are the same text."""
        return hashlib.sha256((self.signature + self.body).encode()).hexdigest()[:16]


class BodyEmitter(Emitter):
    """An emitter whose stores go to the kernel being emitted."""

    owner: KernelFrame

    def on_store(
        self, buffer: str, index: Expr, mode: str, operands: list[CValue], depth: int
    ) -> None:
        self.owner.store(buffer, index, mode, operands, depth)


class KernelFrame:
    """What all kernels share; a subclass prints the lines of the function's body."""

    def __init__(
        self, kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
    ) -> None:
        self.kernel = kernel
        self.dtypes = dtypes
        self.escapes = escapes
        self.serial = kernel.members[0].role is Role.SERIAL
        space, split, indexes = collapsed(kernel, cut=True)
        self.indexes = dict(zip(map(id, kernel.members), indexes, strict=True))
        if split is None:
            split = 0 if len(space) <= 1 else len(space) - 1
            if self.serial:
                split = len(space) - len(kernel.members[0].body.reduction_loops)
        self.rows, self.along = space[:split], space[split:]
        symbols = tuple(symbol(f"x{k}", 0, n - 1) for k, n in enumerate(space))
        self.row_symbols, self.along_symbols = symbols[:split], symbols[split:]
        depth = dict.fromkeys(self.row_symbols, ROW_DEPTH)
        depth.update(dict.fromkeys(self.along_symbols, INNER_DEPTH))
        self.parameters: list[str] = []
        self.written: set[str] = set()
        self._parameters(kernel)
        pointers = {name: f"p{k}" for k, name in enumerate(self.parameters)}
        self.emitter = BodyEmitter(pointers, dtypes, depth)
        self.emitter.owner = self
        self.emitter.points = math.prod(space)
        self.workspace = 0
        self.owned = False
        self.present: Member | None = None

    def _parameters(self, kernel: Kernel) -> None:
        seen: dict[str, None] = {}
        for member in kernel.members:
            for access in member.body.reads:
                if access.buffer not in kernel.writers or self.serial:
                    seen.setdefault(access.buffer)
            for name in member.writes:
                if self.escapes(name) or self.serial:
                    seen.setdefault(name)
                    self.written.add(name)
        self.parameters = list(seen)

    def lines(self) -> list[str]:
        """The statements of the function."""
        raise TypeError(f"{type(self).__name__} prints nothing")

    def store(
        self, buffer: str, index: Expr, mode: str, operands: list[CValue], depth: int
    ) -> None:
        """What a store of the body being emitted does."""
        raise TypeError(f"{type(self).__name__} stores nothing")

    def run(self) -> KernelSource:
        lines = self.lines()
        tried = declared(lines)
        head = ["    int bad = 0;", *("    " + s for s in tried)]
        if tried:
            own = f"{PARALLEL} firstprivate({FAST})"
            lines = [s if " simd " in s else s.replace(PARALLEL, own) for s in lines]
        body = "\n".join([*head, *("    " + s for s in lines), "    return bad;"])
        body = with_calls(body, loops=bool(self.rows or self.along))
        arguments = [
            f"{'' if n in self.written else 'const '}{c_type(self.dtypes[n])} *restrict p{k}"
            for k, n in enumerate(self.parameters)
        ]
        signature = ", ".join([*arguments, "char *restrict work", "int threads"])
        return KernelSource(
            self.kernel.name,
            self.parameters,
            self.written,
            signature,
            body,
            self.emitter.checks,
            self.workspace,
            self.parallel,
            nanoseconds=self.nanoseconds,
            scalar=self.serial or not self.along or self.along[-1] < LEAST_LENGTH,
            looks_up=bool(self.emitter.addresses),
            owned=self.owned,
            plain=self.emitter.plain,
        )

    @property
    def parallel(self) -> bool:
        """Whether the kernel is worth more than one thread."""
        return self.nanoseconds > PARALLEL_NANOSECONDS

    @cached_attribute
    def nanoseconds(self) -> float:
        """About what the kernel takes on one thread."""
        return nanoseconds_of(self.kernel)

    def pragma(self, collapse: int, simd: str = "") -> list[str]:
        if not self.parallel:
            return []
        words = f"{PARALLEL} num_threads(threads) if(parallel: threads > 1)"
        words += " schedule(static)"
        if collapse > 1:
            words += f" collapse({collapse})"
        if self.emitter.checks:
            words += " reduction(|:bad)"
        return [words + simd]

    def row_loops(self, row: list[str]) -> list[str]:
        lines = self.pragma(collapse=len(self.rows))
        for k, n in enumerate(self.rows):
            name = self.row_symbols[k].name
            lines.append(f"for (int64_t {name} = 0; {name} < {n}; {name}++)")
        return [*lines, "{", *("    " + s for s in row), "}"]

    def at(self, member: Member) -> tuple[Expr, ...]:
        return self.indexes[id(member)]

    def begin(self, member: Member) -> None:
        self.present = member
        self.emitter.bound = {}
