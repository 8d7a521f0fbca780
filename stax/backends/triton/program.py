"""A whole program for a device: one text of Triton functions and the steps that launch them.

Input: scheduled kernels and calls over the buffers of a lowered graph.  Output: a `TritonSource`:
the text, and a tree of blocks, one for the program and one for each graph that a loop or branch
runs.  A block says where each of its buffers lies (an input, a result, a constant, a part of the
block's arena) and what happens in order.  Kernels with the same text share a function.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from stax.backends.triton.attention import ScoresEmitter
from stax.backends.triton.convolution import Convolution
from stax.backends.triton.emit import emit_kernel
from stax.backends.triton.epilogue import (
    Joined,
    ProductEmitter,
    Step,
    is_contraction,
    joined,
    reads_of,
    writes_of,
)
from stax.backends.triton.kernel import KernelSource, Operand, Product
from stax.backends.triton.prelude import prelude
from stax.backends.triton.scores import Scores, operand_of, without_scores
from stax.backends.triton.templates import Contraction, MatrixProduct, contraction
from stax.backends.triton.together import Issue, gathered, in_one_launch
from stax.dtypes import DType
from stax.loops.buffers import (
    Buffer,
    BufferTable,
    ConstBuffer,
    ExternBuffer,
    InputBuffer,
)
from stax.loops.lower import CheckedIndex, LoweredGraph
from stax.schedule.fusion import CallStep, Scheduled
from stax.schedule.kernel import Kernel, Role
from stax.schedule.memory import ArenaPlan, Lifetime, plan_arena


class Program(Protocol):
    """A lowered and scheduled graph; `nested` holds the programs that its calls run."""

    @property
    def lowered(self) -> LoweredGraph:
        """Its buffers."""

    @property
    def order(self) -> list[Scheduled]:
        """Its steps."""

    @property
    def options(self) -> Any:
        """How it is compiled: `fuse` says whether steps may be joined, `matmul_precision` how
        float32 matrices are multiplied."""

    @property
    def nested(self) -> Mapping[str, Sequence[Any]]:
        """For each call by name, the programs of its graphs."""


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: `kind` is "in", "out", "constant", "arena" or "nowhere" (no bytes)."""

    kind: str
    position: int


@dataclass(frozen=True)
class Launch:
    """One kernel: its function, the buffers it is given, and work space in the arena."""

    function: str
    source: KernelSource
    flag: int = 0
    work: tuple[int, ...] = ()


@dataclass(frozen=True)
class HostCall:
    """A step that NumPy does on copies of its operands."""

    results: tuple[ExternBuffer, ...]


@dataclass(frozen=True)
class NestedCall:
    """A loop or branch: the blocks of its graphs."""

    results: tuple[ExternBuffer, ...]
    blocks: tuple[Block, ...]


Action = Launch | HostCall | NestedCall


@dataclass
class Block:
    """What runs one graph."""

    table: BufferTable
    inputs: list[str]
    outputs: list[str]
    places: dict[str, Place]
    actions: list[Action]
    plan: ArenaPlan


@dataclass(frozen=True)
class Traffic:
    """What one run of a program does: launches, steps of the host, bytes read and written.

    A `while_loop` counts as one step, and of a branch the last one counts.
    """

    launches: int = 0
    host: int = 0
    nbytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.launches + other.launches, self.host + other.host, self.nbytes + other.nbytes
        )

    def times(self, count: int) -> Traffic:
        """That of `count` runs."""
        return Traffic(count * self.launches, count * self.host, count * self.nbytes)

    @staticmethod
    def of(block: Block) -> Traffic:
        """That of the steps of a block."""
        total = Traffic()
        for action in block.actions:
            if isinstance(action, Launch):
                source = action.source
                total += Traffic(1, 0, _moved(source, block.table))
            elif isinstance(action, HostCall):
                first = action.results[0]
                moved = sum(i.layout.extent * i.dtype.itemsize for i in first.inputs)
                total += Traffic(0, 1, moved + sum(b.nbytes for b in action.results))
            else:
                first = action.results[0]
                if first.extern_kind == "scan":
                    total += Traffic.of(action.blocks[0]).times(first.params["length"])
                elif first.extern_kind == "while":
                    total += Traffic.of(action.blocks[0]) + Traffic.of(action.blocks[1])
                else:
                    total += Traffic.of(action.blocks[-1])
        return total


def _moved(source: KernelSource, table: BufferTable) -> int:
    """Bytes that a kernel reads and writes: each buffer that it names once each way."""
    if source.parts:
        return sum(_moved(part, table) for part in source.parts)
    total = sum(s.nbytes for s in source.scratch if re.search(rf"\b{s.name}\b", source.body))
    for k, name in enumerate(source.parameters):
        named = re.search(rf"\bp{k}\b", source.body) is not None
        again = re.search(rf"tl\.(load|atomic_\w+)\(p{k}\b", source.body) is not None
        total += table[name].nbytes * (named + (again and name in source.written))
    return total


@dataclass
class TritonSource:
    """The text of a program and everything decided on the way.

    Attributes:
      functions: the name of each distinct function with one of its kernels.
      flags: the number of bounds that are checked, one flag for each.
    """

    text: str
    kernels: list[KernelSource]
    order: list[Scheduled]
    block: Block
    inputs: list[InputBuffer]
    outputs: list[Buffer]
    constants: list[ConstBuffer]
    functions: dict[str, KernelSource]
    flags: list[tuple[str, int]] = field(default_factory=list)
    checked: list[CheckedIndex] = field(default_factory=list)

    @property
    def plan(self) -> ArenaPlan:
        """Where the temporaries of the outermost block lie."""
        return self.block.plan

    @property
    def traffic(self) -> Traffic:
        """What one run does."""
        return Traffic.of(self.block)

    @property
    def calls_host(self) -> bool:
        """Whether some step needs the host in the middle of a run."""
        open_blocks = [self.block]
        while open_blocks:
            for action in open_blocks.pop().actions:
                if isinstance(action, HostCall):
                    return True
                if isinstance(action, NestedCall):
                    if action.results[0].extern_kind != "scan":
                        return True
                    open_blocks.extend(action.blocks)
        return False


def costs(source: TritonSource) -> dict[str, float]:
    """What one run moves and launches, in the words of `Compiled.cost_analysis`."""
    found = source.traffic
    return {
        "bytes": float(found.nbytes),
        "kernels": float(found.launches),
        "calls": float(found.host),
    }


def emit_program(program: Program) -> TritonSource:
    """Print a program with everything nested in it."""
    printer = _Printer()
    printer.precision = {"highest": "ieee", "tf32": "tf32"}[program.options.matmul_precision]
    block = printer.block(program)
    bodies = [s.function(name) for name, s in printer.functions.items()]
    merges: dict[str, None] = {}
    for source in printer.functions.values():
        merges.update(dict.fromkeys(source.merges))
    own = "\n\n".join([*merges, *bodies])
    table = program.lowered.table
    return TritonSource(
        f"{prelude(own)}\n\n{own}",
        printer.kernels,
        list(program.order),
        block,
        [b for b in table if isinstance(b, InputBuffer)],
        [table[n] for n in program.lowered.outputs],
        printer.constants,
        printer.functions,
        printer.flags,
        printer.checked,
    )


class _Printer:
    """What the blocks of a program share: functions, constants, flags."""

    def __init__(self) -> None:
        self.kernels: list[KernelSource] = []
        self.functions: dict[str, KernelSource] = {}
        self.names: dict[str, str] = {}
        self.constants: list[ConstBuffer] = []
        self.flags: list[tuple[str, int]] = []
        self.checked: list[CheckedIndex] = []
        self.precision = "ieee"

    def block(self, program: Program) -> Block:
        """The actions of a program."""
        lowered, order = program.lowered, program.order
        table = lowered.table
        self.checked += lowered.checked
        dtypes = {b.name: b.dtype for b in table}
        steps: list[Step | Joined] = list(order)
        if program.options.fuse:
            steps = joined(without_scores(order, table, lowered.outputs), table, lowered.outputs)
        uses = _Uses(steps, lowered.outputs)
        issues: list[Issue] = []
        for step, item in enumerate(steps):
            if isinstance(item, CallStep):
                issues.append(self._issued_call(program, item, table))
                continue
            escapes = functools.partial(uses.escapes_from, step)
            for source in self._sources(item, table, dtypes, escapes):
                issues.append(_issued(source, step, table, _is_plain(item)))
        groups = gathered(issues) if program.options.fuse else [[own] for own in issues]
        plan = plan_arena(_lifetimes(groups, table, lowered))
        actions: list[Action] = []
        for group in groups:
            first = group[0].item
            if isinstance(first, CallStep):
                actions.append(self._call(program, first, table))
                continue
            sources = [own.item for own in group if isinstance(own.item, KernelSource)]
            work = tuple(plan.offsets[name] for own in group for name in own.work)
            actions.append(self._launch(in_one_launch(sources), work))
        places = self._places(lowered, plan)
        return Block(table, lowered.inputs, lowered.outputs, places, actions, plan)

    def _sources(
        self,
        item: Kernel | Scores | Joined,
        table: BufferTable,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
    ) -> list[KernelSource]:
        """The functions of a step, to be launched in order."""
        if isinstance(item, Kernel):
            return emit_kernel(item, dtypes, escapes)
        if isinstance(item, Scores):
            return ScoresEmitter(item, dtypes, escapes, precision=self.precision).run()
        buffer = table[item.product]
        assert isinstance(buffer, ExternBuffer)
        what = _contraction(buffer, self.precision)
        if isinstance(what, MatrixProduct):
            what = replace(what, makers=item.makers)
        if item.kernel is not None:
            return ProductEmitter(item.product, item.kernel, what, dtypes, escapes).run()
        return [contraction(f"product_{item.call.name}", what, buffer.name, buffer.dtype)]

    def _launch(self, source: KernelSource, work: tuple[int, ...]) -> Launch:
        self.kernels.append(source)
        name = self.names.get(source.key)
        if name is None:
            name = source.name
            while name in self.functions:
                name += "_"
            self.names[source.key] = name
            self.functions[name] = source
        flag = len(self.flags)
        self.flags.extend((source.name, size) for size in source.checks)
        return Launch(name, source, flag, work)

    def _issued_call(self, program: Program, item: CallStep, table: BufferTable) -> Issue:
        """A call; one that multiplies is a kernel."""
        first = table[item.writes[0]]
        made: KernelSource | CallStep = item
        if item.name not in program.nested and isinstance(first, ExternBuffer):
            if is_contraction(first):
                made = _product(item.name, first, self.precision)
        return Issue(made, set(item.reads), set(item.writes))

    def _call(self, program: Program, item: CallStep, table: BufferTable) -> Action:
        results = tuple(b for n in item.writes if isinstance(b := table[n], ExternBuffer))
        if item.name in program.nested:
            return NestedCall(results, tuple(self.block(p) for p in program.nested[item.name]))
        return HostCall(results)

    def _places(self, lowered: LoweredGraph, plan: ArenaPlan) -> dict[str, Place]:
        inputs = {name: k for k, name in enumerate(lowered.inputs)}
        outputs = {name: k for k, name in enumerate(lowered.outputs)}
        places: dict[str, Place] = {}
        for buffer in lowered.table:
            name = buffer.name
            if isinstance(buffer, ConstBuffer):
                places[name] = Place("constant", len(self.constants))
                self.constants.append(buffer)
            elif name in inputs:
                places[name] = Place("in", inputs[name])
            elif name in outputs:
                places[name] = Place("out", outputs[name])
            elif name in plan.offsets and buffer.nbytes:
                places[name] = Place("arena", plan.offsets[name])
            else:
                places[name] = Place("nowhere", 0)
        return places


def _contraction(buffer: ExternBuffer, precision: str) -> Contraction:
    """What a call multiplies."""
    if buffer.extern_kind == "conv_gemm":
        return Convolution.of(buffer, precision)
    p = buffer.params
    operands = (operand_of(buffer.inputs[0]), operand_of(buffer.inputs[1]))
    shape = (p["b"], p["m"], p["n"], p["k"])
    return MatrixProduct.of(shape, operands, buffer.inputs[0].dtype, precision)


def _product(name: str, buffer: ExternBuffer, precision: str) -> KernelSource:
    """The kernel of a call that multiplies; plain matrices may be left to a library."""
    what = _contraction(buffer, precision)
    plain = None
    if isinstance(what, MatrixProduct):
        result = Operand(buffer.name, 0, what.strides)
        plain = Product(what.shape, *what.operands, result, (what.dtype, buffer.dtype), precision)
    return contraction(f"product_{name}", what, buffer.name, buffer.dtype, plain)


def _is_plain(item: Step | Joined) -> bool:
    """Whether kernels of a step may run with any number of warps: not what works element by element
    in its own order."""
    return isinstance(item, Kernel) and all(m.role is not Role.SERIAL for m in item.members)


def _issued(source: KernelSource, step: int, table: BufferTable, plain: bool) -> Issue:
    """A kernel with what it touches; work spaces of equal names are the step's."""
    work = {f"{s.name} {step}": s.nbytes for s in source.scratch}
    nbytes = sum(table[n].nbytes for n in source.parameters) + sum(work.values())
    return Issue(source, set(source.parameters), {*source.written, *work}, work, nbytes, plain)


def _lifetimes(
    groups: Sequence[Sequence[Issue]], table: BufferTable, lowered: LoweredGraph
) -> list[Lifetime]:
    """When each temporary is first written and last touched, by the number of the group."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for position, group in enumerate(groups):
        for own in group:
            sizes.update(own.work)
            for name in own.writes:
                first.setdefault(name, position)
            for name in own.reads | own.writes:
                last[name] = position
    outputs = set(lowered.outputs)
    return [
        Lifetime(name, sizes[name] if name in sizes else table[name].nbytes, start, last[name])
        for name, start in first.items()
        if name not in outputs
    ]


class _Uses:
    """Which steps write and read each buffer."""

    def __init__(self, order: Sequence[Step | Joined], outputs: Sequence[str]) -> None:
        self.outputs = set(outputs)
        self.writers: dict[str, set[int]] = {}
        self.readers: dict[str, set[int]] = {}
        for step, item in enumerate(order):
            for name in writes_of(item):
                self.writers.setdefault(name, set()).add(step)
            for name in reads_of(item):
                self.readers.setdefault(name, set()).add(step)

    def escapes_from(self, step: int, name: str) -> bool:
        """True when something outside step `step` needs the buffer in memory."""
        if name in self.outputs or self.writers.get(name) != {step}:
            return True
        return bool(self.readers.get(name, set()) - {step})
