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
from stax.backends.triton.together import Together, in_one_launch, together
from stax.dtypes import DType
from stax.loops.buffers import (
    Buffer,
    BufferTable,
    ConstBuffer,
    ExternBuffer,
    InputBuffer,
)
from stax.loops.lower import LoweredGraph
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
    )


class _Printer:
    """What the blocks of a program share: functions, constants, flags."""

    def __init__(self) -> None:
        self.kernels: list[KernelSource] = []
        self.functions: dict[str, KernelSource] = {}
        self.names: dict[str, str] = {}
        self.constants: list[ConstBuffer] = []
        self.flags: list[tuple[str, int]] = []
        self.precision = "ieee"

    def block(self, program: Program) -> Block:
        """The actions of a program."""
        lowered, order = program.lowered, program.order
        table = lowered.table
        dtypes = {b.name: b.dtype for b in table}
        steps: list[Step | Joined | Together] = list(order)
        if program.options.fuse:
            fused = joined(without_scores(order, table, lowered.outputs), table, lowered.outputs)
            steps = together(fused, table)
        uses = _Uses(steps, lowered.outputs)
        lifetimes = uses.lifetimes(table)
        actions: list[Action] = []
        works: list[tuple[int, list[str]]] = []
        for step, item in enumerate(steps):
            if isinstance(item, CallStep):
                actions.append(self._call(program, item, table))
                continue
            escapes = functools.partial(uses.escapes_from, step)
            for part, sources in enumerate(self._sources(item, table, dtypes, escapes)):
                for source in sources:
                    names = [f"{s.name} {step} {part}" for s in source.scratch]
                    for name, scratch in zip(names, source.scratch, strict=True):
                        if all(name != known.name for known in lifetimes[-len(names) :]):
                            lifetimes.append(Lifetime(name, scratch.nbytes, step, step))
                    works.append((len(actions), names))
                    actions.append(self._launch(source))
        plan = plan_arena(lifetimes)
        for k, names in works:
            found = actions[k]
            assert isinstance(found, Launch)
            work = tuple(plan.offsets[name] for name in names)
            actions[k] = Launch(found.function, found.source, found.flag, work)
        places = self._places(lowered, plan)
        return Block(table, lowered.inputs, lowered.outputs, places, actions, plan)

    def _sources(
        self,
        item: Kernel | Scores | Joined | Together,
        table: BufferTable,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
    ) -> list[list[KernelSource]]:
        """The functions of a step, those that share work space in one list."""
        if isinstance(item, Together):
            return in_one_launch([emit_kernel(k, dtypes, escapes) for k in item.kernels])
        if isinstance(item, Kernel):
            return [emit_kernel(item, dtypes, escapes)]
        if isinstance(item, Scores):
            return [ScoresEmitter(item, dtypes, escapes, precision=self.precision).run()]
        buffer = table[item.product]
        assert isinstance(buffer, ExternBuffer)
        what = _contraction(buffer, self.precision)
        if isinstance(what, MatrixProduct):
            what = replace(what, makers=item.makers)
        if item.kernel is not None:
            return [ProductEmitter(item.product, item.kernel, what, dtypes, escapes).run()]
        return [[contraction(f"product_{item.call.name}", what, buffer.name, buffer.dtype)]]

    def _launch(self, source: KernelSource) -> Launch:
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
        return Launch(name, source, flag)

    def _call(self, program: Program, item: CallStep, table: BufferTable) -> Action:
        results = tuple(b for n in item.writes if isinstance(b := table[n], ExternBuffer))
        first = results[0]
        if item.name in program.nested:
            return NestedCall(results, tuple(self.block(p) for p in program.nested[item.name]))
        if is_contraction(first):
            return self._launch(_product(item.name, first, self.precision))
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


class _Uses:
    """Which steps write and read each buffer."""

    def __init__(self, order: Sequence[Step | Joined | Together], outputs: Sequence[str]) -> None:
        self.outputs = set(outputs)
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.writers: dict[str, set[int]] = {}
        self.readers: dict[str, set[int]] = {}
        # Written by calls, scans and scatters, which need every result in memory.
        self.called: set[str] = set()
        for step, item in enumerate(order):
            if isinstance(item, Together):
                reads, writes = item.reads, item.writes
            else:
                reads, writes = reads_of(item), writes_of(item)
            serial = isinstance(item, Kernel) and item.members[0].role is Role.SERIAL
            if serial or isinstance(item, CallStep):
                self.called.update(writes)
            for name in writes:
                self.first.setdefault(name, step)
                self.writers.setdefault(name, set()).add(step)
                self.last[name] = step
            for name in reads:
                self.readers.setdefault(name, set()).add(step)
                self.last[name] = step

    def escapes(self, name: str, step: int) -> bool:
        """True when something outside step `step` needs the buffer in memory."""
        if name in self.outputs or self.writers.get(name) != {step}:
            return True
        return bool(self.readers.get(name, set()) - {step})

    def escapes_from(self, step: int, name: str) -> bool:
        """The same with the step first."""
        return self.escapes(name, step)

    def lifetimes(self, table: BufferTable) -> list[Lifetime]:
        """Lifetimes of the temporaries that exist in memory."""
        found = []
        for name, first in self.first.items():
            if name in self.outputs:
                continue
            if name in self.called or any(self.escapes(name, s) for s in self.writers[name]):
                found.append(Lifetime(name, table[name].nbytes, first, self.last[name]))
        return found
