"""Loops and branches of a program: what calls a nested program again and again.

Input: an external call whose parameters hold graphs, the C functions printed for them, and the
pointers of its operands and results.  Output: C statements.  A scan moves pointers along its
stacked operands and results by one slice a step; large carries go back and forth between the
result's memory and one more buffer, small ones stay in local variables.  A chain follows a table
of actions on stored states, which are pointers too: restoring one copies nothing.  Nested
programs use a part of their caller's arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stax.loops.buffers import Buffer, ExternBuffer, ExternInput
from stax.loops.lower import LoweredGraph
from stax.loops.scalar_ops import C_TYPES
from stax.schedule.fusion import Scheduled
from stax.schedule.in_place import InPlace
from stax.schedule.memory import aligned

# Carries up to this size are copied from step to step and may live in registers.
REGISTER_BYTES = 64


class Program(Protocol):
    """A lowered and scheduled graph; `nested` holds the programs that its calls run."""

    @property
    def lowered(self) -> LoweredGraph:
        """Its buffers."""

    @property
    def order(self) -> list[Scheduled]:
        """Its steps."""

    @property
    def in_place(self) -> InPlace:
        """Which buffers share memory."""

    @property
    def nested(self) -> Mapping[str, Sequence[Any]]:
        """For each call by name, the programs of its graphs."""


@dataclass(frozen=True)
class NestedFunction:
    """A nested program's C function `name(in, out, arena, ctx)` and the arena bytes it uses.

    `in_place` are the positions of inputs that must be the same memory as the output they become.
    """

    name: str
    arena: int
    in_place: frozenset[int] = frozenset()


@dataclass(frozen=True)
class WorkSpace:
    """What a call has for itself in the arena: its nested programs' part comes first.

    `carries` are the offsets of second buffers for results that alternate between two; `states`,
    for each state of a chain, those of its stored copies and of the two that steps alternate
    between.
    """

    nbytes: int
    carries: Mapping[int, int]
    states: Sequence[tuple[Sequence[int], int, int]]


def work_space(results: Sequence[ExternBuffer], functions: Sequence[NestedFunction]) -> WorkSpace:
    """The memory that the call which computes `results` works in."""
    call, taken = results[0], max(aligned(f.arena) for f in functions)

    def take(nbytes: int) -> int:
        nonlocal taken
        place, taken = taken, taken + aligned(nbytes)
        return place

    states = []
    if call.extern_kind == "chain":
        first = 1 + call.params["consts"]
        for k in range(first, first + call.params["states"]):
            size = _operand_bytes(call, k)
            held = [take(size) for _ in range(1, call.params["slots"])]
            states.append((held, take(size), take(size)))
    first, count = _carry_slots(call, len(results))
    carries = {
        k: take(result.nbytes)
        for k, result in enumerate(results[:count])
        if result.nbytes > REGISTER_BYTES and first + k not in functions[-1].in_place
    }
    return WorkSpace(taken, carries, states)


def _carry_slots(call: ExternBuffer, results: int) -> tuple[int, int]:
    """The input of the nested program that holds the first carry, and how many there are."""
    if call.extern_kind == "while":
        return call.params["body_consts"], results
    if call.extern_kind in ("scan", "chain"):
        return call.params["consts"], call.params["carry"]
    return 0, 0


def nested_call(
    results: Sequence[ExternBuffer],
    functions: Sequence[NestedFunction],
    pointers: Mapping[str, str],
    table: Mapping[str, Buffer],
    space: WorkSpace,
) -> str:
    """The statements that compute `results`, in which `@work@` stands for the place of `space`.

    `pointers` gives the C name of each buffer's address.
    """
    first = results[0]
    operands = [_address(i, pointers, table) for i in first.inputs]
    targets = [f"(char *){pointers[b.name]}" if b.nbytes else "0" for b in results]
    printer = _Printer(first, results, operands, targets, functions, space)
    if first.extern_kind == "scan":
        lines = printer.scan()
    elif first.extern_kind == "while":
        lines = printer.loop()
    elif first.extern_kind == "chain":
        lines = printer.chain()
    else:
        lines = printer.branches()
    body = "\n".join("        " + line for line in lines)
    return f"{{\n{body}\n    }}"


def _address(operand: ExternInput, pointers: Mapping[str, str], table: Mapping[str, Buffer]) -> str:
    if not table[operand.buffer].nbytes or 0 in operand.layout.shape:
        return "0"
    return f"(char *)({pointers[operand.buffer]} + {operand.layout.offset})"


@dataclass(frozen=True)
class _Carries:
    """Statements before the loop, at the start and at the end of a step, and after the loop."""

    before: list[str]
    start: list[str]
    advance: list[str]
    after: list[str]


class _Printer:
    def __init__(
        self,
        call: ExternBuffer,
        results: Sequence[ExternBuffer],
        operands: Sequence[str],
        targets: Sequence[str],
        functions: Sequence[NestedFunction],
        space: WorkSpace,
    ) -> None:
        self.call = call
        self.results = results
        self.operands = operands
        self.targets = targets
        self.functions = functions
        self.space = space

    def arrays(self, inputs: int) -> list[str]:
        """Declarations of the pointers that a nested function is given."""
        outputs = max(len(self.targets), 1)
        return [
            "char *work = arena + @work@; (void)work;",
            f"void *ni[{max(inputs, 1)}], *no[{outputs}]; (void)ni; (void)no;",
        ]

    def run(self, function: NestedFunction, inputs: str = "ni", outputs: str = "no") -> str:
        """A call of a nested function that passes its errors on."""
        return f"if ((code = {function.name}({inputs}, {outputs}, work, ctx))) goto done;"

    def carried(self, inputs: Sequence[str], steps: str) -> _Carries:
        """How the carries, which start as `inputs`, go from step to step.

        Small ones are copied between two local variables, which the C compiler keeps in
        registers where it can. Large ones are updated in place where the body allows it; the
        others alternate between the result and another buffer, so that they are never copied.
        `steps` counts down to 0 at the last step, or up from 0.
        """
        found = _Carries([], [], [], [])
        first, count = _carry_slots(self.call, len(self.results))
        for k, result in enumerate(self.results[:count]):
            own, slot = self.targets[k], first + k
            if not result.nbytes:
                found.before.append(f"ni[{slot}] = 0; no[{k}] = 0;")
                continue
            if result.nbytes <= REGISTER_BYTES:
                kind = C_TYPES.get(result.dtype.name, "_Alignas(16) char")
                count = result.nbytes // (1 if "char" in kind else result.dtype.itemsize)
                size = result.nbytes
                found.before.append(f"{kind} old{k}[{count}], new{k}[{count}];")
                found.before.append(f"__builtin_memcpy(old{k}, {inputs[k]}, {size});")
                found.before.append(f"ni[{slot}] = old{k}; no[{k}] = new{k};")
                if count == 1:
                    found.advance.append(f"old{k}[0] = new{k}[0];")
                else:
                    found.advance.append(
                        f"{{ void *turn = ni[{slot}]; ni[{slot}] = no[{k}]; no[{k}] = turn; }}"
                    )
                found.after.append(f"__builtin_memcpy({own}, ni[{slot}], {size});")
                continue
            if k not in self.space.carries:
                found.before.append(f"__builtin_memcpy({own}, {inputs[k]}, {result.nbytes});")
                found.before.append(f"ni[{slot}] = {own}; no[{k}] = {own};")
                continue
            other = _within(self.space.carries[k])
            found.before.append(f"ni[{slot}] = {inputs[k]};")
            found.start.append(f"no[{k}] = (({steps}) & 1) ? {other} : {own};")
            found.advance.append(f"ni[{slot}] = no[{k}];")
            found.after.append(
                f"if (ni[{slot}] != {own}) __builtin_memcpy({own}, ni[{slot}], {result.nbytes});"
            )
        return found

    def scan(self) -> list[str]:
        params = self.call.params
        n, m, length = params["consts"], params["carry"], params["length"]
        lines = self.arrays(len(self.operands))
        lines += [f"ni[{k}] = {p};" for k, p in enumerate(self.operands[:n])]
        carries = self.carried(self.operands[n : n + m], f"{length - 1} - t")
        lines += carries.before
        lines.append(f"for (int64_t t = 0; t < {length}; t++) {{")
        step = f"{length - 1} - t" if params["reverse"] else "t"
        lines.append(f"    int64_t i = {step}; (void)i;")
        lines += ["    " + line for line in carries.start]
        for k in range(n + m, len(self.operands)):
            size = _slice_bytes(self.call.inputs[k].layout.shape, self.call.inputs[k].dtype)
            lines.append(f"    ni[{k}] = {_moved(self.operands[k], size)};")
        for k in range(m, len(self.results)):
            size = _slice_bytes(self.results[k].shape, self.results[k].dtype)
            lines.append(f"    no[{k}] = {_moved(self.targets[k], size)};")
        lines.append("    " + self.run(self.functions[0]))
        lines += ["    " + line for line in carries.advance]
        return [*lines, "}", *carries.after]

    def loop(self) -> list[str]:
        nc, nb = self.call.params["cond_consts"], self.call.params["body_consts"]
        count = len(self.results)
        lines = self.arrays(nb + count)
        lines.append(f"void *ci[{nc + count}];")
        lines += [f"ci[{k}] = {p};" for k, p in enumerate(self.operands[:nc])]
        lines += [f"ni[{k}] = {p};" for k, p in enumerate(self.operands[nc : nc + nb])]
        carries = self.carried(self.operands[nc + nb :], "t")
        lines += carries.before
        lines.append("uint8_t going[1] = { 0 }; void *going_out[1] = { going };")
        lines.append("for (int64_t t = 0;; t++) {")
        lines += [f"    ci[{nc + k}] = ni[{nb + k}];" for k in range(count)]
        lines.append("    " + self.run(self.functions[0], "ci", "going_out"))
        lines.append("    if (!going[0]) break;")
        lines += ["    " + line for line in carries.start]
        lines.append("    " + self.run(self.functions[1]))
        lines += ["    " + line for line in carries.advance]
        return [*lines, "}", *carries.after]

    def chain(self) -> list[str]:
        params = self.call.params
        n, m, c, xs = (params[k] for k in ("consts", "states", "carry", "xs"))
        advance, backward = self.functions
        fixed, states = self.operands[1 : 1 + n], self.operands[1 + n : 1 + n + m]
        stacked = range(1 + n + m + c, len(self.operands))
        lines = self.arrays(n + c + m + len(stacked))
        lines.append(f"void *ai[{n + m + xs + 1}], *ao[{m}], *held[{params['slots']}][{m}];")
        for k, pointer in enumerate(fixed):
            lines.append(f"ni[{k}] = ai[{k}] = {pointer};")
        lines.append(f"void *now[{m}]; int64_t turn = 0, last = {params['length']};")
        for k, pointer in enumerate(states):
            lines.append(f"held[0][{k}] = now[{k}] = {pointer};")
            for slot, place in enumerate(self.space.states[k][0], 1):
                lines.append(f"held[{slot}][{k}] = {_within(place)};")
        carries = self.carried(self.operands[1 + n + m : 1 + n + m + c], "last")
        lines += carries.before
        rows = self.call.inputs[0].layout.shape[0]
        lines.append(f"const int32_t *row = (const int32_t *){self.operands[0]};")
        lines.append(f"for (int64_t a = 0; a < {rows}; a++, row += 3) {{")
        index = f"{params['length'] - 1} - k" if params["reverse"] else "k"
        sizes = [_operand_bytes(self.call, 1 + n + k) for k in range(m)]
        copies = [
            f"__builtin_memcpy(held[row[1]][{k}], now[{k}], {size});"
            for k, size in enumerate(sizes)
        ]
        step = [
            f"for (int64_t k = row[1]; k < row[1] + row[2]; k++) {{ int64_t i = {index}; (void)i;"
        ]
        step.append("    turn ^= 1;")
        for k, (_, one, other) in enumerate(self.space.states):
            step.append(f"    ai[{n + k}] = now[{k}];")
            step.append(f"    ao[{k}] = turn ? {_within(one)} : {_within(other)};")
        for k in range(xs):
            step.append(f"    ai[{n + m + k}] = {self.slice_of(stacked[k])};")
        step.append("    " + self.run(advance, "ai", "ao"))
        step += [f"    now[{k}] = ao[{k}];" for k in range(m)]
        back = [f"int64_t k = row[1], i = {index}; (void)i; (void)k;", "last--;", *carries.start]
        back += [f"ni[{n + c + k}] = now[{k}];" for k in range(m)]
        back += [f"ni[{n + c + m + j}] = {self.slice_of(k)};" for j, k in enumerate(stacked)]
        for k in range(c, len(self.results)):
            size = _slice_bytes(self.results[k].shape, self.results[k].dtype)
            back.append(f"no[{k}] = {_moved(self.targets[k], size)};")
        back += [self.run(backward), *carries.advance]
        lines.append("    switch (row[0]) {")
        restore = [f"now[{k}] = held[row[1]][{k}];" for k in range(m)]
        for case, statements in enumerate((restore, [*step, "}"], copies, back)):
            lines.append(f"    case {case}: {{")
            lines += ["        " + line for line in statements]
            lines.append("        break; }")
        return [*lines, "    }", "}", *carries.after]

    def slice_of(self, operand: int) -> str:
        """The address of slice `i` of a stacked operand."""
        shape, dtype = self.call.inputs[operand].layout.shape, self.call.inputs[operand].dtype
        return _moved(self.operands[operand], _slice_bytes(shape, dtype))

    def branches(self) -> list[str]:
        lines = self.arrays(len(self.operands) - 1)
        lines += [f"ni[{k}] = {p};" for k, p in enumerate(self.operands[1:])]
        lines += [f"no[{k}] = {p};" for k, p in enumerate(self.targets)]
        lines.append(f"int32_t which = *(const int32_t *){self.operands[0]};")
        last = len(self.functions) - 1
        lines.append(f"which = which < 0 ? 0 : which > {last} ? {last} : which;")
        lines.append("switch (which) {")
        for k, function in enumerate(self.functions):
            lines.append(f"    case {k}: {self.run(function)} break;")
        lines.append("}")
        return lines


def _within(place: int) -> str:
    return f"(work + {place})"


def _operand_bytes(call: ExternBuffer, operand: int) -> int:
    layout = call.inputs[operand].layout
    return _slice_bytes((1, *layout.shape), call.inputs[operand].dtype)


def _slice_bytes(shape: Sequence[int], dtype: Any) -> int:
    size = dtype.itemsize
    for n in shape[1:]:
        size *= n
    return int(size)


def _moved(pointer: str, size: int) -> str:
    return f"{pointer} + i * {size}" if pointer != "0" and size else pointer
