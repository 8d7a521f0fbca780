"""The driver: from a graph to a program, through every stage.

Input: the Graph of a traced function and options.  Output: an executable, made once and kept on
the graph.  `Traced`, `Lowered` and `Compiled` are the same way in steps, for looking inside:
every stage prints as text and its time is recorded.

This is the only module that knows the whole pipeline.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from stax.backends import on_demand
from stax.backends.c.cache import warn_degraded_once
from stax.backends.c.dispatch import Dispatcher, SlowPath, make_dispatcher, set_trace_depth
from stax.backends.c.forms import STATIC, shared
from stax.backends.c.nested import REGISTER_BYTES
from stax.backends.c.program import ProgramSource, arena_of, emit_program
from stax.backends.c.routines import has_routine
from stax.backends.c.run import CProgram
from stax.backends.c.toolchain import find_toolchain, toolchain_fault
from stax.backends.reference import ReferenceProgram
from stax.collector import collector_paused
from stax.config import options as process_options
from stax.core.graph import Graph, check_graph
from stax.core.trace import DEPTH_HOOK
from stax.errors import CompilerNotFoundError, ConfigurationError, StrictModeError
from stax.forked import Lock
from stax.loops.buffers import Buffer, ExternBuffer
from stax.loops.lower import FallbackNote, LoweredGraph, lower
from stax.programs.interpreted import reference_program
from stax.programs.memory import MemoryAnalysis
from stax.programs.options import CompileOptions, counters
from stax.programs.steps import steps_of
from stax.programs.stored import graph_key, load_image, store_image
from stax.pytree import PyTreeDef, tree_unflatten
from stax.schedule.attention import with_attention
from stax.schedule.fusion import (
    ON_DEVICE,
    CallStep,
    FusionOptions,
    Scheduled,
    Step,
    compact,
    fuse,
    schedule_text,
)
from stax.schedule.in_place import NOTHING, InPlace, scheduled_in_place
from stax.schedule.kernel import Kernel
from stax.schedule.stack import stacked
from stax.transforms.budget import MemoryCurve, ProgramPlan
from stax.transforms.chains import LOOP_SCHEMES
from stax.transforms.effects import effects_with_results
from stax.transforms.partition import Partition, equation_cost, partition
from stax.transforms.phases import split_joint
from stax.transforms.pieces import in_pieces
from stax.transforms.plan_search import PlanSearch
from stax.transforms.rematerialise import partition_keeping, recomputed_late, rematerialise
from stax.transforms.simplify import dce, inline_calls, simplify
from stax.transforms.updates import late_updates

if TYPE_CHECKING:
    from stax.backends.triton.program import TritonSource
    from stax.backends.triton.run import TritonProgram

STAGES = ("graph", "joint", "loops", "schedule", "source")


DEPTH_HOOK.append(set_trace_depth)


def new_dispatcher(slow_path: SlowPath, backend: str = "c") -> Dispatcher:
    """The callable that runs known signatures in C and hands all others to `slow_path`."""
    return make_dispatcher(slow_path, alone=backend != "c")


def has_entry(program: object) -> TypeGuard[CProgram]:
    """Whether a dispatcher can run the program: whether it is native code."""
    return isinstance(program, CProgram)


_lock = Lock()


@contextmanager
def _timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - start


def simplified(graph: Graph, options: CompileOptions, timings: dict[str, float]) -> Graph:
    """`graph` with calls inlined, simplified."""
    with _timed(timings, "transform"):
        found = inline_calls(graph)
        if options.merge:
            found = simplify(found)
        if options.prune:
            found = dce(found)
        if options.recompute:
            found = recomputed_late(found)
    return found


def prepared(
    graph: Graph,
    options: CompileOptions,
    timings: dict[str, float],
    plan: ProgramPlan | None = None,
) -> Graph:
    """The graph that is lowered: calls inlined, simplified, recomputation decided.

    A `plan` says what is kept for the backward part, of which graph; the minimum cut by default.
    """
    flat = simplified(graph, options, timings) if plan is None else plan.graph
    with _timed(timings, "partition"):
        if options.recompute:
            flat = rematerialise(flat, kept=None if plan is None else plan.kept)
    if "check" in process_options().debug:
        check_graph(flat)
    return flat


@dataclass(repr=False)
class Lowered:
    """A lowered and scheduled function; nothing is compiled.

    Attributes:
      partition: what is saved and recomputed between forward and backward (None without one).
      buffers: everything that is written to memory, with loops, layout and text.
      kernels: the scheduled kernels, those inside loops and branches last.
      fallbacks: operations that run outside compiled code, with reasons.
      device: what it was lowered for: "cpu", or "cuda:sm_90" and the like.
    """

    graph: Graph
    prepared: Graph
    lowered: LoweredGraph
    order: list[Scheduled]
    options: CompileOptions
    timings: dict[str, float]
    out_tree: PyTreeDef | None = None
    leaves_of: Callable[..., list[Any]] | None = None
    nested: dict[str, list[Lowered]] = field(default_factory=dict)
    in_place: InPlace = NOTHING
    device: str = "cpu"
    plan: ProgramPlan | None = None
    _source: ProgramSource | TritonSource | None = None

    @property
    def partition(self) -> Partition | None:
        """The decision between forward and backward, None when there is no backward part."""
        flat = simplified(self.graph, self.options, {}) if self.plan is None else self.plan.graph
        kept = None if self.plan is None else self.plan.kept
        split = split_joint(flat)
        if not split.backward:
            return None
        return partition(split) if kept is None else partition_keeping(split, kept)

    @property
    def buffers(self) -> list[Buffer]:
        """All buffers, inputs first."""
        return self.lowered.buffers

    @property
    def kernels(self) -> list[Kernel]:
        """The generated kernels, in order."""
        own = [k for k in self.order if isinstance(k, Kernel)]
        return [*own, *(k for ps in self.nested.values() for p in ps for k in p.kernels)]

    @property
    def peak_bytes(self) -> int:
        """Bytes of the program's temporaries and results."""
        table = self.lowered.table
        known = self._source is not None or self.device != "cpu"
        arena = self.source.plan if known else arena_of(self)
        return arena.nbytes + sum(table[n].nbytes for n in self.lowered.outputs)

    @property
    def fallbacks(self) -> list[FallbackNote]:
        """Operations that run outside compiled code."""
        return self.lowered.fallbacks

    @property
    def source(self) -> ProgramSource | TritonSource:
        """The program's text and memory plan."""
        if self._source is None:
            with _timed(self.timings, "emit"):
                if self.device == "cpu":
                    self._source = emit_program(self)
                else:
                    self._source = on_demand("triton.program").emit_program(self)
            assert self._source is not None
        return self._source

    def as_text(self, stage: str = "loops") -> str:
        """The text of a stage: "graph", "joint", "loops", "schedule" or "source"."""
        if stage == "graph":
            return str(self.graph)
        if stage == "joint":
            return str(self.prepared)
        if stage == "loops":
            return str(self.lowered)
        if stage == "schedule":
            return schedule_text(self.order)
        if stage == "source":
            return self.source.text
        raise ValueError(f"stage={stage!r} is not one of {', '.join(map(repr, STAGES))}")

    def compile(self) -> Compiled:
        """Compile; the result is callable."""
        return Compiled(self, program_of(self))

    def __repr__(self) -> str:
        return f"<Lowered {_summary(self)}>"


def _summary(lowered: Lowered) -> str:
    """One line: the function, what it was lowered for and how many kernels it has."""
    inputs = ", ".join(f"{v.name}: {v.aval}" for v in lowered.graph.inputs)
    return (
        f"{lowered.graph.name}({inputs}) for {lowered.device}: {len(lowered.kernels)} kernels, "
        f"{len(lowered.fallbacks)} fallbacks"
    )


@dataclass(repr=False)
class Compiled:
    """A compiled function of one signature."""

    lowered: Lowered
    program: CProgram | TritonProgram | ReferenceProgram

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = list(args)
        if self.lowered.leaves_of is not None:
            leaves = self.lowered.leaves_of(*args, **kwargs)
        outs = self.program.run(leaves)
        tree = self.lowered.out_tree
        return tree_unflatten(tree, outs) if tree is not None else outs

    def __repr__(self) -> str:
        return f"<Compiled {_summary(self.lowered)}>"

    @property
    def source(self) -> str:
        """The generated source text."""
        return self.lowered.source.text

    @property
    def timings(self) -> dict[str, float]:
        """Seconds for each stage."""
        return self.lowered.timings

    def kernel_analysis(self) -> Mapping[str, dict[str, int]]:
        """For each kernel on a device: registers, spilled bytes, shared memory, access widths.

        Empty on the CPU, whose kernels are parts of one library.
        """
        if self.lowered.device == "cpu":
            return {}
        found: Mapping[str, dict[str, int]] = on_demand("triton.run").described(self.program)
        return found

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes: of arguments, results, constants, temporaries (the arena), and the peak."""
        source = self.lowered.source
        return MemoryAnalysis(
            argument_bytes=sum(b.nbytes for b in source.inputs),
            output_bytes=sum(b.nbytes for b in source.outputs),
            constant_bytes=sum(b.nbytes for b in source.constants),
            temporary_bytes=source.plan.nbytes,
            live_peak_bytes=source.plan.live_peak,
            peak_bytes=self.lowered.peak_bytes,
        )

    def cost_analysis(self) -> dict[str, float]:
        """Floating-point operations, bytes moved to and from memory, and the number of kernels."""
        flops = sum(map(equation_cost, self.lowered.prepared.eqns))
        if self.lowered.device != "cpu":
            return {"flops": float(flops), **on_demand("triton.program").costs(self.lowered.source)}
        table, moved = self.lowered.lowered.table, 0
        for item in self.lowered.order:
            if isinstance(item, CallStep):
                names = {*item.reads, *item.writes}
            else:
                names = {*item.reads, *item.stored}
            moved += sum(table[n].nbytes for n in names)
        return {
            "flops": float(flops),
            "bytes": float(moved),
            "kernels": float(len(self.lowered.kernels)),
            "calls": float(len(self.lowered.order) - len(self.lowered.kernels)),
        }


@dataclass
class Traced:
    """A traced function."""

    graph: Graph
    out_tree: PyTreeDef | None = None
    options: CompileOptions = field(default_factory=CompileOptions)
    leaves_of: Callable[..., list[Any]] | None = None
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def jaxpr(self) -> Graph:
        """The graph, by JAX's name."""
        return self.graph

    def lower(self, device: str | None = None) -> Lowered:
        """Lower for a device: "cpu", or "cuda:sm_90" and the like.

        By default it is the one that the program's back end runs on.

        Raises:
          DeviceError: that is a device which is not there.
        """
        own = device or _device_of(self.options)
        found = lowered_graph(self.graph, self.options, own, self.timings)
        found.out_tree, found.leaves_of = self.out_tree, self.leaves_of
        return found


@collector_paused()
def lowered_graph(
    graph: Graph,
    options: CompileOptions,
    device: str = "cpu",
    timings: dict[str, float] | None = None,
) -> Lowered:
    """The scheduled program of a graph."""
    times = {} if timings is None else timings
    if device != "cpu":
        if not isinstance(device, str) or device.split(":")[0] not in ("cuda", "hip"):
            raise ConfigurationError(
                f"device={device!r} is not 'cpu', 'cuda:sm_NN' or 'hip:gfxNNN'",
                hint="for example device='cuda:sm_90'",
            )
        on_demand("triton.build").target_of(device)  # refuses an architecture it does not know
    counters.lowered += 1
    if options.memory_budget is not None and options.recompute:
        search = plan_search(graph, replace(options, memory_budget=None), device, times)
        with _timed(times, "plans"):
            found: Lowered = search.within(options.memory_budget, graph.name)[1]
        found.timings = {**times, **found.timings}
        return found
    return _scheduled(graph, prepared(graph, options, times), options, device, times)


def plan_search(
    graph: Graph, options: CompileOptions, device: str, times: dict[str, float]
) -> PlanSearch:
    """The search for programs of `graph` that need little memory; cached on `graph`.

    Plans are measured by scheduling them, so the peak of a plan is the one its program has.
    """
    key = ("plans", options, device)
    found: PlanSearch | None = graph.cache.get(key)
    if found is not None:
        return found
    whole = options.materialise == "default"
    compact = replace(options, materialise="compact") if whole else options

    def measure(plan: ProgramPlan) -> tuple[int, Lowered]:
        chosen = compact if plan.compact else options
        own: dict[str, float] = {}
        flat = prepared(graph, chosen, own, plan)
        lowered = _scheduled(graph, flat, chosen, device, own)
        lowered.plan = plan
        return lowered.peak_bytes, lowered

    def variants() -> list[Graph]:
        retrace = graph.cache.get("retrace")
        if retrace is None or any(effects_with_results(graph)):  # what acts, acts once
            return []
        again = [retrace(loops) for loops in LOOP_SCHEMES]
        return [simplified(g, options, {}) for g in again if g is not None]

    found = graph.cache[key] = PlanSearch(simplified(graph, options, times), variants, measure)
    return found


@collector_paused()
def memory_curve_of(graph: Graph, options: CompileOptions, device: str = "cpu") -> MemoryCurve:
    """What programs of `graph` take that keep more or less for their backward part."""
    return plan_search(graph, options, device, {}).curve()


def _scheduled(
    graph: Graph,
    flat: Graph,
    options: CompileOptions,
    device: str,
    times: dict[str, float],
    carried: Sequence[int] = (),
) -> Lowered:
    """The scheduled program of a prepared graph, and those of the graphs its calls run.

    `carried` are the positions of inputs that a loop around it carries: its first outputs.
    """
    with _timed(times, "lower"):
        arranged = late_updates(in_pieces(flat) if device == "cpu" else flat)
        lowered = lower(arranged, device, options.materialise, has_routine)
    nested: dict[str, list[Lowered]] = {}
    for buffer in lowered.computed:
        if isinstance(buffer, ExternBuffer) and buffer.call not in nested:
            graphs = buffer.params.get("graphs", ())
            if graphs:
                nested[buffer.call] = [
                    _scheduled(g, prepared(g, options, times), options, device, times, positions)
                    for g, positions in zip(graphs, buffer.params["carried"], strict=True)
                ]
    lowered.fallbacks += [n for ps in nested.values() for p in ps for n in p.fallbacks]
    if options.strict and lowered.fallbacks:
        notes = "\n  ".join(str(n) for n in lowered.fallbacks)
        raise StrictModeError(
            f"strict mode: operations would run outside compiled code:\n  {notes}",
            hint="replace them, or drop strict=True",
        )
    with _timed(times, "schedule"):
        steps = steps_of(lowered, options.prune)
        table = lowered.table
        pairs = {
            lowered.inputs[k]: out
            for k, out in zip(carried, lowered.outputs, strict=False)
            if table[out].nbytes > REGISTER_BYTES
        }
        outputs = frozenset(lowered.outputs)
        nbytes = functools.cache(lambda name: table[name].nbytes)

        def grouped(steps: Sequence[Step]) -> list[Scheduled]:
            limits = FusionOptions() if device == "cpu" else ON_DEVICE
            if options.materialise == "compact":
                limits = compact(limits)
            found = fuse(steps, nbytes, limits, enabled=options.fuse, outputs=outputs)
            if not options.fuse or device != "cpu":
                return found
            return stacked(with_attention(found, outputs, table), outputs, table)

        if device == "cpu":
            order, in_place = scheduled_in_place(lowered, steps, pairs, grouped)
        else:
            order, in_place = grouped(steps), NOTHING
    return Lowered(
        graph,
        flat,
        lowered,
        order,
        options,
        times,
        nested=nested,
        in_place=in_place,
        device=device,
    )


def program_of(lowered: Lowered) -> CProgram | TritonProgram | ReferenceProgram:
    """Compile a lowered program for its backend."""
    if lowered.options.backend == "numpy":
        return reference_program(lowered.prepared)
    for stage in STAGES:
        if stage in process_options().debug:
            print(
                f"-- {stage} of {lowered.graph.name}",
                lowered.as_text(stage),
                sep="\n",
                file=sys.stderr,
            )
    source: Any = lowered.source
    with _lock:
        counters.compiled += 1
        made: CProgram | TritonProgram
        if lowered.device == "cpu":
            static = 1 if lowered.options.dynamic_batch else STATIC
            general = shared(source.image.text, static)
            made = CProgram(source.image, lowered.timings, general)
        else:
            make = on_demand("triton.run").TritonProgram
            made = make(source, lowered.device, lowered.timings)
        counters.compiler_runs += not made.from_cache
    return made


def executable(
    graph: Graph, options: CompileOptions
) -> CProgram | TritonProgram | ReferenceProgram:
    """The program of a graph, compiled at the first call and kept on the graph."""
    key = ("executable", options)
    found: CProgram | TritonProgram | ReferenceProgram | None = graph.cache.get(key)
    if found is not None:
        return found
    with _lock:
        found = graph.cache.get(key)
        if found is None:
            found = _compiled(graph, options)
            graph.cache[key] = found
    return found


def _native(graph: Graph, options: CompileOptions) -> CProgram:
    """The C program of a graph, from the disk cache where an earlier process left it."""
    process = process_options()
    decides = repr((options, process.plan_seconds))
    with collector_paused():
        key = None if process.debug else graph_key(graph, decides)
        stored = load_image(key) if key else None
    with _lock:
        if stored is None:
            with collector_paused():
                lowered = lowered_graph(graph, options)
                lowered.as_text("source")  # printed here, before the compiler runs
            made = program_of(lowered)
            assert isinstance(made, CProgram)
            if key:
                store_image(key, made.image, made.general)
        else:
            made = CProgram(stored[0], {}, stored[1])
            counters.compiled += 1
            counters.compiler_runs += not made.from_cache
    return made


def _device_of(options: CompileOptions) -> str:
    """What programs of these options run on."""
    if options.backend != "triton":
        return "cpu"
    found: str = on_demand("triton.run").default_architecture()
    return found


def _compiled(graph: Graph, options: CompileOptions) -> CProgram | TritonProgram | ReferenceProgram:
    if options.backend == "numpy":
        return reference_program(inline_calls(graph))
    if options.backend == "triton":
        return program_of(lowered_graph(graph, options, _device_of(options)))
    if find_toolchain() is not None:
        try:
            return _native(graph, options)
        except CompilerNotFoundError as error:
            fault = str(error)
    else:
        fault = toolchain_fault()
    if options.strict:
        raise CompilerNotFoundError(
            f"strict mode: nothing can be compiled: {fault}",
            hint="install a C compiler or set STAX_CC, or drop strict=True",
        )
    way_out = "jit runs NumPy instead (backend='numpy'); install gcc or clang, or set STAX_CC"
    warn_degraded_once("compiler", f"{fault}; {way_out}")
    return reference_program(inline_calls(graph))
