"""A whole program as one C translation unit.

Input: scheduled kernels and calls over the buffers of a lowered graph.  Output: its text, its
memory plan, and the `Image` that running it takes.  Kernels with the same text share a function.
Temporaries live in one arena; a fallback step calls back into Python from inside the C call.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stax.backends.c.attention import workspace as attention_workspace
from stax.backends.c.brief import Weight, calls_alone, light, weight_of_call, weight_of_kernel
from stax.backends.c.convolution import KINDS as CONVOLUTION_KINDS
from stax.backends.c.convolution import call_statement as convolution_call
from stax.backends.c.convolution import routine_of as convolution_routine
from stax.backends.c.emit import emit_kernel
from stax.backends.c.frame import KernelSource
from stax.backends.c.image import (
    BITS,
    FALLBACK_FAILED,
    OUT_OF_MEMORY,
    ROUTINE_FAILED,
    Fallback,
    Image,
    Operand,
    RoutineCall,
)
from stax.backends.c.lengths import Lengths
from stax.backends.c.nested import NestedFunction, Program, nested_call, work_space
from stax.backends.c.plain import ATTRIBUTE, MARK, cost_of, plain
from stax.backends.c.products import product_call, product_routine
from stax.backends.c.repeats import PrintedKernels
from stax.backends.c.routines import PRODUCTS
from stax.backends.c.routines import call_statement as routine_call
from stax.backends.c.rows import CALLS, LOCATE, Place, attribute_of, has_rows, named, rows_text
from stax.backends.c.support import PRODUCT_TYPES
from stax.backends.c.uses import Uses
from stax.backends.c.vecmath import (
    LINKED,
    PREAMBLE,
    call_definitions,
    called_names,
    definitions,
    names_in,
    with_calls,
)
from stax.dtypes import DType
from stax.forked import cached_attribute
from stax.loops.buffers import (
    Buffer,
    ConstBuffer,
    ExternBuffer,
    InputBuffer,
)
from stax.loops.lower import CheckedIndex, LoweredGraph
from stax.loops.scalar_ops import C_TYPES
from stax.schedule.attention import Attention
from stax.schedule.fusion import CallStep, Scheduled
from stax.schedule.kernel import Kernel, Role
from stax.schedule.memory import ArenaPlan, Lifetime, aligned, plan_arena

CONTEXT = """\
typedef struct {
    void *arena;
    void **constants;
    void **products;
    int32_t (*fallback)(int32_t step, void **pointers);
    int32_t threads;
    const int64_t *sizes;
    const double *reals;
} stax_context;
extern int posix_memalign(void **, size_t, size_t);
extern void free(void *);
""" + "".join(
    f"""\
typedef void (*stax_product_{tag})(int64_t, int, int, int64_t, int64_t, int64_t, const {ct} *,
    int64_t, int64_t, const {ct} *, int64_t, int64_t, {ct} *, int64_t, int64_t);
"""
    for tag, ct in PRODUCT_TYPES.items()
)

# GCC looks up a vector at once only when it tunes for a processor that it knows to profit, and
# vectors of full width only for the oldest of those.
LOOKUPS = """\
#if !defined(__clang__) && defined(__AVX512F__) && !defined(__znver4__) && !defined(__znver5__)
#define STAX_LOOKUPS __attribute__((target("tune=haswell")))
#else
#define STAX_LOOKUPS
#endif
"""


@dataclass
class ProgramSource:
    """The text of a program and everything decided on the way."""

    functions: str
    body: str
    kernels: list[KernelSource]
    order: list[Scheduled]
    plan: ArenaPlan
    inputs: list[InputBuffer]
    outputs: list[Buffer]
    constants: list[ConstBuffer]
    fallbacks: list[Fallback] = field(default_factory=list)
    checked: list[CheckedIndex] = field(default_factory=list)
    routines: list[str] = field(default_factory=list)
    calls: list[RoutineCall] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The translation unit."""
        return self.image.text

    @cached_attribute
    def image(self) -> Image:
        """What running the program takes."""
        return Image(
            self.functions,
            self.body,
            self.plan.nbytes,
            tuple((b.shape, b.dtype) for b in self.inputs),
            tuple((b.shape, b.dtype) for b in self.outputs),
            tuple(np.ascontiguousarray(b.value) for b in self.constants),
            tuple(self.fallbacks),
            tuple((k.name, tuple(k.checks)) for k in self.kernels),
            tuple(self.checked),
            tuple(self.routines),
            tuple(self.calls),
        )


@functools.cache
def c_type_of(dtype: DType) -> str:
    """The C type of a buffer; opaque bytes for dtypes that only fallbacks touch."""
    return C_TYPES.get(dtype.name, "char")


def emit_program(program: Program) -> ProgramSource:
    """Print a program with everything nested in it."""
    printer = _Printer()
    main = printer.block(program, "")
    text_kernels = "\n".join(printer.texts())
    functions = "".join(
        (
            PREAMBLE,
            ATTRIBUTE if printer.plain else "",
            CONTEXT,
            definitions(
                [*names_in(text_kernels), *called_names(text_kernels)],
                preamble=False,
                linked=LINKED,
            ),
            call_definitions(text_kernels),
            LOCATE if printer.has_rows else "",
            LOOKUPS if printer.looks_up else "",
            text_kernels,
        )
    )
    table = program.lowered.table
    inputs = [b for b in table if isinstance(b, InputBuffer)]
    outputs = [table[n] for n in program.lowered.outputs]
    return ProgramSource(
        functions,
        main.text,
        printer.kernels,
        list(program.order),
        main.plan,
        inputs,
        outputs,
        printer.constants,
        printer.fallbacks,
        printer.checked,
        printer.routines,
        printer.calls,
    )


class _Block(NamedTuple):
    """The statements that run a program, where its temporaries lie, and about what it takes."""

    text: str
    plan: ArenaPlan
    nanoseconds: float
    least: float  # ... where loops take vectors


class _Printer:
    """What the blocks of a program share: kernels, constants, fallbacks, nested functions."""

    def __init__(self) -> None:
        self.printed = PrintedKernels()
        self.kernels: list[KernelSource] = []
        self.functions: dict[tuple[str, bool], str] = {}  # by text, and whether they are plain
        self.plain: set[str] = set()
        self.definitions: list[tuple[str, str]] = []  # functions with their names
        self.light: list[dict[str, bool]] = []  # of each block
        self.constants: list[ConstBuffer] = []
        self.fallbacks: list[Fallback] = []
        self.routines = list(PRODUCTS)
        self.calls: list[RoutineCall] = []
        self.checked: list[CheckedIndex] = []
        self.blocks = 0
        self.has_rows = False
        self.looks_up = False

    def block(self, program: Program, prefix: str) -> _Block:
        """The statements that run a program on `in`, `out`, `arena` and `ctx`."""
        lowered, order = program.lowered, program.order
        self.checked += lowered.checked
        table = lowered.table
        dtypes = {b.name: b.dtype for b in table}
        pointers = {b.name: f"b{k}" for k, b in enumerate(table)}
        holder = program.in_place.holders(lowered.outputs)
        names = {name: pointers[holder.get(name, name)] for name in pointers}
        uses = Uses(order, lowered.outputs, program.in_place.base, holder)
        inner = {
            step: [self.nested(p) for p in program.nested[item.name]]
            for step, item in enumerate(order)
            if isinstance(item, CallStep) and item.name in program.nested
        }
        least = 0.0  # nanoseconds of calls and blocks, then of everything
        for step, item in enumerate(order):
            if not isinstance(item, CallStep):
                continue
            first = _results(lowered, item)[0]
            if step in inner:
                steps = first.params.get("length", 1)
                least += steps * max(block.least for _, block in inner[step])
            else:
                least += weight_of_call(first).nanoseconds
        kernels = {k: item for k, item in enumerate(order) if not isinstance(item, CallStep)}
        costs = [cost_of(kernel, dtypes) for kernel in kernels.values()]
        sources = {
            step: self.printed.source(
                kernel, dtypes, functools.partial(uses.escapes, step=step), is_plain
            )
            for (step, kernel), is_plain in zip(kernels.items(), plain(costs, least), strict=True)
        }
        least += sum(cost.nanoseconds for cost in costs)
        lengths = Lengths(sources.values())
        calls: list[str] = []
        work: dict[int, int] = {}
        weights: list[Weight] = []
        repeated = 0

        for step, item in enumerate(order):
            if isinstance(item, CallStep):
                if item.name in program.nested:
                    functions = [function for function, _ in inner[step]]
                    results = _results(lowered, item)
                    steps = results[0].params.get("length", 1)
                    repeated += steps
                    time = max(block.nanoseconds for _, block in inner[step])
                    weights.append(Weight("", steps * time))
                    space = work_space(results, functions)
                    work[step] = space.nbytes
                    text = nested_call(results, functions, names, table.buffers, space)
                    calls.append(text.replace("@work@", _place(step, space.nbytes)))
                else:
                    calls.append(self.call(lowered, item, names))
                    weights.append(weight_of_call(_results(lowered, item)[0]))
                continue
            source, length = lengths.shared(sources[step])
            function, number = self.kernel(source, prefix)
            weights.append(weight_of_kernel(function, source))
            work[step] = source.workspace
            place = f"arena + {_place(step, source.workspace)}" if source.workspace else "0"
            own = [f"ctx->products[{self.slot(r)}]" for r in source.routines]
            alone = uses.fills_for_updates(item, step, lambda k: k in sources and sources[k].owned)
            threads = "1" if alone else "ctx->threads"
            given = [*(names[n] for n in source.parameters), place, threads, *own, *length]
            arguments = ", ".join(given)
            if source.checks:
                calls.append(
                    f"bad = {function}({arguments});\n    if (bad) "
                    f"{{ code = {number * BITS + 1} + __builtin_ctz(bad); goto done; }}"
                )
            else:
                calls.append(f"{function}({arguments});")
        self.light.append(light(weights))
        time = sum(weight.nanoseconds for weight in weights)
        plan = _arena(lowered, uses, work)
        places = _places(lowered, plan, pointers, len(self.constants))
        self.constants += [b for b in table if isinstance(b, ConstBuffer)]
        calls = [re.sub(r"@(work_\d+)@", lambda m: str(plan.offsets[m[1]]), c) for c in calls]
        shown = set(places)
        if has_rows(calls):
            self.has_rows = True
            shown = named(calls)
            calls = [rows_text(calls, places)]
        declared = [place.declared(name) for name, place in places.items() if name in shown]
        text = "\n".join("    " + line for line in (*declared, *calls))
        if calls_alone(len(calls), repeated, time):
            text = CALLS + text
        return _Block(text, plan, time, least)

    def texts(self) -> list[str]:
        """The functions; those of little weight in every block that calls them are compiled so.

        A function that two blocks print in two forms has two names.
        """
        heavy = {name for block in self.light for name, light in block.items() if not light}
        found = {name for block in self.light for name in block} - heavy
        marks = dict.fromkeys(self.plain, MARK) | dict.fromkeys(found, "STAX_BRIEF\n")
        texts = [(n, with_calls(s) if n in found else s) for n, s in self.definitions]
        return [marks.get(name, "") + s for name, s in texts]

    def slot(self, routine: str) -> int:
        """The place of a routine in the program's table."""
        if routine not in self.routines:
            self.routines.append(routine)
        return self.routines.index(routine)

    def call(self, lowered: LoweredGraph, item: CallStep, names: dict[str, str]) -> str:
        """The statement of a call that is not a loop or a branch."""
        results = _results(lowered, item)
        first = results[0]
        if first.extern_kind == "matmul":
            return product_call(first, names, self.slot(product_routine(first)))
        if first.extern_kind in CONVOLUTION_KINDS:
            slot = self.slot(convolution_routine(first))
            return convolution_call(first, names, slot, OUT_OF_MEMORY)
        if first.extern_kind == "library":
            failed, routine = ROUTINE_FAILED - len(self.calls), first.params["routine"]
            eqn = first.params["eqn"]
            self.calls.append(RoutineCall(routine, eqn.op, eqn.source))
            return routine_call(results, names, self.slot(routine), failed, OUT_OF_MEMORY)
        number = len(self.fallbacks)
        operands = tuple(Operand.of(i, lowered.table[i.buffer]) for i in first.inputs)
        types = tuple((b.shape, b.dtype) for b in results)
        self.fallbacks.append(Fallback(first.params["eqn"], operands, types))
        pointers = [f"(void *){names[i.buffer]}" for i in first.inputs]
        pointers += [f"(void *){names[b.name]}" for b in results]
        return (
            f"{{ STAX_CLEAN; void *list[] = {{ {', '.join(pointers)} }};\n"
            f"      if (ctx->fallback({number}, list)) "
            f"{{ code = {FALLBACK_FAILED}; goto done; }} }}"
        )

    def kernel(self, source: KernelSource, prefix: str) -> tuple[str, int]:
        """The function of a kernel, shared by those of equal text, and the kernel's number."""
        self.kernels.append(source)
        key = source.key, source.plain
        function = self.functions.get(key)
        if function is None:
            function = self.functions[key] = f"{prefix}{source.name}"
            if source.plain:
                self.plain.add(function)
            text = f"static int32_t {function}({source.signature}) {{\n{source.body}\n}}\n"
            if source.looks_up:
                self.looks_up = True
                text = f"STAX_LOOKUPS\n{text}"
            self.definitions.append((function, text))
        return function, len(self.kernels) - 1

    def nested(self, program: Program) -> tuple[NestedFunction, _Block]:
        """The function of a nested program, and its statements."""
        name = f"block{self.blocks}"
        self.blocks += 1
        block = self.block(program, f"{name}_")
        body = block.text
        text = (
            attribute_of(body)
            + f"static int32_t {name}(void **in, void **out, char *arena, stax_context *ctx) {{\n"
            f"    int32_t code = 0, bad = 0;\n    (void)bad; (void)in; (void)out; (void)arena;\n"
            f"{body}\n    goto done;\ndone:;\n    return code;\n}}\n"
        )
        self.definitions.append((name, text))
        return NestedFunction(name, aligned(block.plan.nbytes), _carried_in_place(program)), block


def _results(lowered: LoweredGraph, item: CallStep) -> list[ExternBuffer]:
    """The buffers that a call writes."""
    written = [lowered.table[n] for n in item.writes]
    return [b for b in written if isinstance(b, ExternBuffer)]


def _carried_in_place(program: Program) -> frozenset[int]:
    inputs = program.lowered.inputs
    return frozenset(k for k, n in enumerate(inputs) if n in program.in_place.carried)


def _place(step: int, work: int) -> str:
    """The offset of a step's working memory, known when the arena is."""
    return f"@work_{step}@" if work else "0"


def arena_of(program: Program) -> ArenaPlan:
    """The arena that the program will have, without its text."""
    lowered, order = program.lowered, program.order
    table = lowered.table
    dtypes = {b.name: b.dtype for b in table}
    holder = program.in_place.holders(lowered.outputs)
    uses = Uses(order, lowered.outputs, program.in_place.base, holder)
    work: dict[int, int] = {}
    for step, item in enumerate(order):
        if isinstance(item, Kernel):
            escapes = functools.partial(uses.escapes, step=step)
            work[step] = _kernel_workspace(item, dtypes, escapes)
        elif item.name in program.nested:
            functions = [
                NestedFunction("", aligned(arena_of(p).nbytes), _carried_in_place(p))
                for p in program.nested[item.name]
            ]
            work[step] = work_space(_results(lowered, item), functions).nbytes
    return _arena(lowered, uses, work)


def _kernel_workspace(
    kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
) -> int:
    """The bytes of working memory of a kernel's function; only merging blocks takes any."""
    if isinstance(kernel, Attention):
        return attention_workspace(kernel, dtypes)
    if any(m.role in (Role.COLUMN, Role.ALL) for m in kernel.members):
        return emit_kernel(kernel, dtypes, escapes).workspace
    return 0


def _arena(lowered: LoweredGraph, uses: Uses, work: Mapping[int, int]) -> ArenaPlan:
    """Offsets for the temporaries, and for what steps need while they run."""
    table = lowered.table
    lifetimes = uses.lifetimes(lambda name: table[name].nbytes, _arena_names(lowered, uses))
    lifetimes += [Lifetime(f"work_{k}", n, k, k) for k, n in work.items() if n]
    return plan_arena(lifetimes)


def _arena_names(lowered: LoweredGraph, uses: Uses) -> list[str]:
    found = []
    for name in uses.first:
        if name in uses.outputs or uses.holder.get(name, name) != name:
            continue
        if name in uses.called or name in uses.holder or uses.in_memory(name):
            found.append(name)
    return found


def _places(
    lowered: LoweredGraph, plan: ArenaPlan, names: dict[str, str], constants: int
) -> dict[str, Place]:
    """Where the pointers of all buffers come from; `constants` are taken by other blocks."""
    found: dict[str, Place] = {}
    inputs = 0
    outputs = {name: k for k, name in enumerate(lowered.outputs)}
    for buffer in lowered.table:
        name, ct = buffer.name, c_type_of(buffer.dtype)
        pointer = names[name]
        if isinstance(buffer, InputBuffer):
            found[pointer] = Place(ct, "in", inputs)
            inputs += 1
        elif isinstance(buffer, ConstBuffer):
            found[pointer] = Place(ct, "constants", constants)
            constants += 1
        elif name in outputs:
            found[pointer] = Place(ct, "out", outputs[name])
        elif name in plan.offsets:
            found[pointer] = Place(ct, "arena", plan.offsets[name])
        elif not buffer.nbytes:
            found[pointer] = Place(ct, "nothing", 0)
    return found
