"""One kernel as one Triton function: what all kinds of kernels share.

Input: a scheduled kernel, the dtypes of buffers and which of them are read outside it.  Output:
`KernelSource`s, once a subclass has printed the statements: the text of a function, its
parameters, the number of programs and warps, and what it needs beside its arrays.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stax.backends.triton.handler import Emitter, TValue, pointer_type
from stax.backends.triton.merging import Merge
from stax.backends.triton.tiling import Tiling
from stax.dtypes import DType
from stax.loops.symbolic import Expr, Symbol, symbol
from stax.schedule.collapse import collapsed
from stax.schedule.kernel import Kernel, Member, Role, row_major

NARROW = 2**31 - 2**14


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs: its parameter, bytes, and whether it is zero at the start.

    Kernels of one step share the memory of equal names.
    """

    name: str
    type: str
    nbytes: int
    zeroed: bool = False


@dataclass(frozen=True)
class Operand:
    """A strided view `[batch, rows, columns]` of a buffer, in elements.

    Where no one stride steps through the batch, `batches` holds the extents and strides of its
    axes, and the first of `strides` means nothing.
    """

    buffer: str
    offset: int
    strides: tuple[int, int, int]
    batches: tuple[tuple[int, int], ...] = ()

    def start(self, batch: str) -> str:
        """The address of a batch, as text."""
        if not self.batches:
            return f"{self.offset} + {batch} * {self.strides[0]}"
        parts = [str(self.offset)]
        below = math.prod(n for n, _ in self.batches)
        for n, stride in self.batches:
            below //= n
            parts.append(f"{batch} // {below} % {n} * {stride}")
        return " + ".join(parts)

    def reach(self, shape: tuple[int, int, int]) -> int:
        """A bound of the addresses of a view of this shape."""
        steps = [*self.batches, *zip(shape[1:], self.strides[1:], strict=True)]
        if not self.batches:
            steps.append((shape[0], self.strides[0]))
        return abs(self.offset) + sum(abs(stride) * n for n, stride in steps)

    @property
    def turned(self) -> Operand:
        """The transposed matrices."""
        batch, rows, columns = self.strides
        return replace(self, strides=(batch, columns, rows))


@dataclass(frozen=True)
class Product:
    """A batched matrix product: `shape` is (b, m, n, k), `dtypes` of operands and result.

    `precision` is "ieee" or "tf32", for float32 operands.
    """

    shape: tuple[int, int, int, int]
    left: Operand
    right: Operand
    result: Operand
    dtypes: tuple[DType, DType]
    precision: str = "ieee"


@dataclass(frozen=True)
class KernelSource:
    """A Triton function and how it is launched.

    Attributes:
      parameters: buffers in the order of the function's pointers.
      types: the Triton types of all parameters in order, by name.
      scratch: work spaces, parameters after those of the buffers.
      checks: the sizes of the bounds it checks; `flags` and `flag` are parameters if there are any.
      merges: definitions of merge functions it calls.
      again: makes the kernel with its blocks halved that many times.
      product: what the kernel computes, if it is a matrix product and nothing else.
      variants: makes the kernel with other blocks, of which a device may find one faster.
      parts: the kernels that it runs side by side, if there are several.
    """

    name: str
    parameters: tuple[str, ...]
    written: frozenset[str]
    types: dict[str, str]
    body: str
    grid: int
    warps: int
    checks: tuple[int, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    merges: tuple[str, ...] = ()
    stages: int = 1
    again: Callable[[int], KernelSource] | None = field(default=None, compare=False, repr=False)
    product: Product | None = None
    variants: Callable[[], list[KernelSource]] | None = field(
        default=None, compare=False, repr=False
    )
    parts: tuple[KernelSource, ...] = ()

    @property
    def key(self) -> str:
        """Equal for kernels whose functions are the same text, compiled in the same way."""
        whole = f"{self.types}{self.body}{self.warps} {self.stages}{self.merges}"
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def function(self, name: str) -> str:
        """The function under a name."""
        return f"@triton.jit\ndef {name}({', '.join(self.types)}):\n{self.body}\n"


class KernelFrame:
    """What all kernels share; a subclass chooses the axes and prints the lines."""

    def __init__(
        self,
        kernel: Kernel,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
        shrink: int = 0,
    ) -> None:
        self.kernel = kernel
        self.dtypes = dtypes
        self.escapes = escapes
        self.shrink = shrink
        self.serial = kernel.members[0].role is Role.SERIAL
        self.space, self.split, indexes = self.divided(kernel)
        self.indexes = dict(zip(map(id, kernel.members), indexes, strict=True))
        self.symbols = tuple(symbol(f"x{k}", 0, n - 1) for k, n in enumerate(self.space))
        self.merges: dict[str, str] = {}
        self.scratch: list[Scratch] = []
        self.parameters, self.written = self._parameters()
        self.tiling = self.choose()
        self.wide = self._is_wide()
        pointers = {name: f"p{k}" for k, name in enumerate(self.parameters)}
        axis_of = {self.symbols[k]: n for n, g in enumerate(self.tiling.groups) for k in g}
        self.emitter = BodyEmitter(pointers, dtypes, self.tiling.axes, axis_of, self.wide)
        self.emitter.owner = self

    def divided(self, kernel: Kernel) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
        """The space, the split and the members' indexes: with loops merged where possible."""
        return collapsed(kernel)

    def choose(self) -> Tiling:
        """The axes of the block."""
        raise TypeError(f"{type(self).__name__} has no axes")

    def lines(self) -> list[str]:
        """The statements of the function after the variables of the grid are known."""
        raise TypeError(f"{type(self).__name__} prints nothing")

    def store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        """What a store of the body being emitted does."""
        raise TypeError(f"{type(self).__name__} stores nothing")

    def _parameters(self) -> tuple[tuple[str, ...], frozenset[str]]:
        seen: dict[str, None] = {}
        written = set()
        for member in self.kernel.members:
            for access in member.body.reads:
                if access.buffer not in self.kernel.writers or self.serial:
                    seen.setdefault(access.buffer)
            for name in member.writes:
                if self.escapes(name) or self.serial:
                    seen.setdefault(name)
                    written.add(name)
        return tuple(seen), frozenset(written)

    def _is_wide(self) -> bool:
        """Whether some address, index or number of a point needs more than 32 bits."""
        found = any(e.lo < -NARROW or e.hi >= NARROW for own in self.indexes.values() for e in own)
        return found or math.prod(self.space) >= NARROW

    def at(self, member: Member) -> tuple[Expr, ...]:
        """The member's index expressions."""
        return self.indexes[id(member)]

    def merge(self, made: Merge) -> Merge:
        """The merge operation, its function among those of the kernel."""
        self.merges.setdefault(made.name, made.definition)
        return made

    # ------------------------------------------------------------------ grid and variables

    def run(self) -> list[KernelSource]:
        """The functions of the kernel, to be launched in order."""
        lines = self.lines()
        return [self.source(self.kernel.name, self.grid_lines(lines), lines, again=self._smaller)]

    def _smaller(self, shrink: int) -> KernelSource:
        made = type(self)(self.kernel, self.dtypes, self.escapes, shrink)
        return made.run()[0]

    def source(
        self, name: str, head: Sequence[str], lines: Sequence[str], **changes: object
    ) -> KernelSource:
        """The function of these statements."""
        types = {f"p{k}": pointer_type(self.dtypes[n]) for k, n in enumerate(self.parameters)}
        types |= {s.name: s.type for s in self.scratch}
        if self.emitter.checks:
            types |= {"flags": "*i32", "flag": "i32"}
        body = "\n".join("    " + line for line in (*head, *lines)) or "    pass"
        made = KernelSource(
            name,
            self.parameters,
            self.written,
            types,
            body,
            self.grid,
            self.tiling.warps,
            tuple(self.emitter.checks),
            tuple(self.scratch),
            tuple(self.merges.values()),
        )
        return replace(made, **changes) if changes else made  # type: ignore[arg-type]  # fields

    @property
    def grid(self) -> int:
        """The number of programs."""
        blocks = (-(-a.extent // a.block) for a in self.tiling.axes if not a.looped)
        return math.prod(blocks) * self.tiling.segments

    def grid_lines(self, lines: Sequence[str]) -> list[str]:
        """The program's place in the grid and the variables of the axes outside the loop."""
        text = "\n".join(lines)
        head = ["pid = tl.program_id(0).to(tl.int64)" if self.wide else "pid = tl.program_id(0)"]
        rest = "pid"
        axes = list(enumerate(self.tiling.axes))
        segments = self.tiling.segments
        if segments > 1:
            head += [f"segment = pid % {segments}", f"column = pid // {segments}"]
            rest = "column"
        stepped = [k for k, a in axes if not a.looped and a.extent > a.block]
        for k, axis in reversed(axes):
            if axis.looped:
                continue
            start = ""
            if k in stepped:
                count = -(-axis.extent // axis.block)
                first = k == stepped[0]
                start = rest if first else f"({rest} % {count})"
                start = f"{start} * {axis.block} + "
                if not first:
                    head.append(f"pid{k} = {rest} // {count}")
                    rest = f"pid{k}"
            head += self.axis_lines(k, start, text)
        if not stepped and segments == 1:
            head = head[1:]
        return head

    def axis_lines(self, k: int, start: str, text: str) -> list[str]:
        """The variable of an axis, its mask and its loop variables as far as `text` names them."""
        axis = self.tiling.axes[k]
        count = len(self.tiling.axes)
        at = ", ".join(":" if n == k else "None" for n in range(count))
        value = f"tl.arange(0, {axis.block})"
        wide = ".to(tl.int64)" if self.wide else ""
        value = f"({start}{value}{wide})" if start or wide else value
        lines = [f"{axis.name} = {value}{f'[{at}]' if count > 1 else ''}"]
        if axis.ragged and re.search(rf"\b{axis.mask}\b", text):
            lines.append(f"{axis.mask} = {axis.name} < {axis.extent}")
        group = self.tiling.groups[k]
        strides = row_major([self.space[g] for g in group])
        for position, (g, stride) in enumerate(zip(group, strides, strict=True)):
            name = self.symbols[g].name
            own = self.name_of(self.symbols[g])
            if own == axis.name or not re.search(rf"\b{name}\b", text):
                continue
            value = axis.name if stride == 1 else f"{axis.name} // {stride}"
            if position:
                value = (
                    f"({value}) % {self.space[g]}" if stride != 1 else f"{value} % {self.space[g]}"
                )
            lines.append(f"{name} = {value}")
        return lines

    def name_of(self, s: Symbol) -> str:
        """The variable's name in the text."""
        return self.emitter.names.get(s, s.name)


class BodyEmitter(Emitter):
    """An emitter whose stores go to the kernel being emitted."""

    owner: KernelFrame

    def on_store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        self.owner.store(buffer, index, mode, operands)
