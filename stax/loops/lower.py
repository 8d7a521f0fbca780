"""Lowering: an op-level graph becomes buffers computed by loops and by external calls.

Input: a Graph without call equations.  Output: a `LoweredGraph`: its table of buffers in program
order.  The graph is interpreted once; each equation's row says how its result is computed from
lazy tensors, and a table of rules decides which results are written to memory.  An operation
without compiled code (`lower=FALLBACK`, or a dtype without scalar code) becomes an external call
of its NumPy implementation and is reported.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.graph import Atom, Eqn, Graph, Literal, Var, literal_array
from stax.core.primitive import FALLBACK, Recompute, Sentinel, primitive_named
from stax.loops.buffers import Buffer, BufferTable, ComputedBuffer, ExternBuffer
from stax.loops.contract import turned_products, vectors
from stax.loops.layout import Index
from stax.loops.moments import Deviations, squared_deviations, sum_of_squared_deviations
from stax.loops.monoids import SUM
from stax.loops.nodes import Pointwise, Reduction
from stax.loops.ops import Value, ops
from stax.loops.realize import Counts, realize_reason
from stax.loops.scalar_ops import is_compilable
from stax.loops.symbolic import constant
from stax.loops.tensors import BufferTensor, LoopTensor, TensorNode, loop_tensor

UNROLLED = 4  # elements up to which a reduction is written out instead of looped over
UNROLLED_WEIGHT = 24  # operations of one element up to which that is done


@dataclass(frozen=True, slots=True)
class FallbackNote:
    """An operation that runs outside compiled code, and why."""

    op: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} at {self.source or '?'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """An operation whose indices are checked at run time, and the extents of the indexed axes."""

    op: str
    source: str
    extents: frozenset[int]


def out_of_bounds(
    size: int, checked: Sequence[CheckedIndex], kernel: str
) -> tuple[str, str, str | None]:
    """What a kernel that found an index outside of an axis says: message, operation, source.

    A kernel knows the size of the axis: the operations that index one of that size are named.
    """
    suspects = [c for c in checked if size in c.extents]
    return (
        f"an index is out of bounds for an axis of size {size} (valid: -{size} to {size - 1})",
        " or ".join(dict.fromkeys(c.op for c in suspects)) or kernel,
        " or ".join(dict.fromkeys(c.source for c in suspects)) or None,
    )


@dataclass
class LoweredGraph:
    """Buffers in program order; `outputs` names the buffer of each result, row-major."""

    table: BufferTable
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    fallbacks: list[FallbackNote] = field(default_factory=list)
    checked: list[CheckedIndex] = field(default_factory=list)

    @property
    def buffers(self) -> list[Buffer]:
        """All buffers, inputs first."""
        return list(self.table)

    @property
    def computed(self) -> list[Buffer]:
        """The buffers that take work."""
        return [b for b in self.table if isinstance(b, ComputedBuffer | ExternBuffer)]

    def __str__(self) -> str:
        return "\n".join(b.text for b in self.table)


class Lowering:
    """What a row's `lower` rule may ask for while its equation is lowered."""

    def __init__(
        self, table: BufferTable, has_routine: Callable[[str], bool] = lambda name: False
    ) -> None:
        self.table = table
        self.has_routine = has_routine
        self.eqn: Eqn | None = None
        self.turned: set[int] = set()  # products that are computed the other way round
        self.notes: list[FallbackNote] = []
        self.counts = Counts()

    @property
    def device(self) -> str:
        """The target, as the materialisation rules name it."""
        return self.table.device

    def compiles(self, dtype: np.dtype) -> bool:
        """Whether the target has code for elements of this type; devices have none for complex."""
        return compiles(dtype, self.device)

    @property
    def origins(self) -> tuple[str, ...]:
        """Names of the values the present equation defines."""
        if self.eqn is None:
            return ()
        return tuple(v.name or "?" for v in self.eqn.outputs)

    def realize(self, node: TensorNode, reason: str = "read by an external call") -> BufferTensor:
        """`node` in memory, with a decided layout."""
        return node.realize(self.table, self.origins, reason).strided(self.table)

    def call(
        self,
        kind: str,
        nodes: Sequence[TensorNode],
        results: Sequence[tuple[Sequence[int], np.dtype]],
        params: dict[str, Any],
    ) -> tuple[BufferTensor, ...]:
        """An external call on values in memory; each result is a row-major buffer."""
        inputs = [self.realize(n).extern_input(self.table) for n in nodes]
        made = self.table.add_extern(kind, inputs, results, params, self.origins)
        return tuple(BufferTensor(b) for b in made)

    def library(
        self,
        routine: str,
        nodes: Sequence[TensorNode],
        sizes: Sequence[int],
        results: Sequence[tuple[Sequence[int], np.dtype]] | None = None,
        pick: int = 0,
    ) -> Any:
        """The present equation by a routine of the target; NotImplemented where it has none.

        `results` are the shapes and types of the results where they are not the equation's, `pick`
        the one that an equation of one result means.
        """
        eqn = self.eqn
        assert eqn is not None
        if self.device != "cpu" or not self.has_routine(routine):
            return NotImplemented
        params = {"eqn": eqn, "op": eqn.op, "routine": routine, "sizes": tuple(sizes)}
        results = results or [(v.shape, v.dtype) for v in eqn.outputs]
        made = self.call("library", [self.row_major(n) for n in nodes], results, params)
        return made if eqn.prim.multi else made[pick]

    def nested(
        self,
        kind: str,
        nodes: Sequence[TensorNode],
        graphs: tuple[Graph, ...],
        carried: Sequence[Sequence[int]],
    ) -> tuple[BufferTensor, ...]:
        """The present equation as a call that runs `graphs`, on row-major operands.

        `carried` holds, for each graph, the inputs that take its first outputs at the next step.
        """
        eqn = self.eqn
        assert eqn is not None
        params = {**eqn.params, "eqn": eqn, "graphs": graphs, "carried": tuple(carried)}
        results: list[tuple[Sequence[int], np.dtype]] = [(v.shape, v.dtype) for v in eqn.outputs]
        operands = [self.row_major(n) for n in nodes]
        # A loop or branch without results, run for its effects, has a token that nobody reads.
        made = self.call(kind, operands, results or [((), np.dtype(np.int8))], params)
        return made[: len(results)]

    def row_major(self, node: TensorNode) -> BufferTensor:
        """`node` in memory, dense and row-major; copied when it lies there otherwise."""
        memory = self.realize(node)
        if memory.layout is None or not memory.layout.is_contiguous:
            copy = Pointwise(memory.shape, memory.loader(), memory.dtype)
            buffer = self.table.add_computed(copy, self.origins, "row-major for a call")
            memory = BufferTensor(buffer, self.table.pin(buffer))
        return memory

    def fallback(self, nodes: Sequence[TensorNode], reason: str) -> tuple[BufferTensor, ...]:
        """The present equation by its NumPy implementation."""
        eqn = self.eqn
        assert eqn is not None
        return self.external(nodes, eqn, [(v.shape, v.dtype) for v in eqn.outputs], reason)

    def external(
        self,
        nodes: Sequence[TensorNode],
        eqn: Eqn,
        results: Sequence[tuple[Sequence[int], np.dtype]],
        reason: str,
    ) -> tuple[BufferTensor, ...]:
        """The NumPy implementation of `eqn`, called by the program, with these results."""
        self.notes.append(FallbackNote(eqn.op, eqn.source, reason))
        return self.call("fallback", nodes, results, {"eqn": eqn, "op": eqn.op})


@functools.cache
def compiles(dtype: np.dtype, device: str) -> bool:
    """Whether elements of this type can be computed in code for `device`."""
    return is_compilable(dtype) and (device == "cpu" or dtype.kind != "c")


def constant_node(value: Any, dtype: np.dtype) -> LoopTensor:
    """A 0-d constant."""
    item = np.asarray(value, dtype)[()]
    return LoopTensor(Pointwise((), lambda index: ops.constant(item, dtype), dtype))


def lower(
    graph: Graph,
    device: str = "cpu",
    mode: str = "default",
    has_routine: Callable[[str], bool] = lambda name: False,
) -> LoweredGraph:
    """The buffers of `graph`.

    Args:
      device: "cpu" or "cuda", which chooses the materialisation thresholds.
      mode: "default", "all" (write every value), "none" (inline wherever possible) or "compact"
        (store what would keep several other values in memory).
      has_routine: whether the processor has the library routine of a name.
    """
    table = BufferTable(device, mode)
    context = Lowering(table, has_routine)
    result = LoweredGraph(table, fallbacks=context.notes)
    env: dict[Var, TensorNode] = {}
    for var in graph.inputs:
        name = table_name(table, var.name or "x")
        env[var] = BufferTensor(table.add_input(name, var.shape, var.dtype))
        result.inputs.append(name)
    for var, value in graph.constants:
        name = table_name(table, var.name or "const")
        env[var] = BufferTensor(table.add_constant(np.asarray(value), name))
    deviations = squared_deviations(graph)
    users = count_users(graph, deviations)
    early = needed_in_memory(graph, device)
    shifts = shifted_reads(graph)
    context.turned = turned_products(graph)
    for eqn in graph.eqns:
        context.eqn = eqn
        if id(eqn) in deviations.idle:
            continue
        outs: Sequence[TensorNode]
        sampled = deviations.sampled.get(id(eqn))
        if sampled is not None:
            node = _node(sampled, env, table)
            outs = [sum_of_squared_deviations(node, **eqn.params, device=device)]
        else:
            outs = _lower_eqn(context, eqn, [_node(a, env, table) for a in eqn.inputs])
        if eqn.params.get("mode") == "error":
            extents = frozenset(eqn.inputs[0].shape[a] for a in eqn.params["axes"])
            result.checked.append(CheckedIndex(eqn.op, eqn.source, extents))
        for var, node in zip(eqn.outputs, outs, strict=True):
            node = _typed(node, var)
            count = users.get(var, 0)
            if count and not node.is_realized:
                reason = _reason(node, var, count, early, shifts, table, context.counts)
                if reason:
                    node = node.realize(table, (var.name or "?",), reason)
            env[var] = node
    context.eqn = None
    taken: set[str] = set()
    for atom in graph.outputs:
        buffer = _output_buffer(context, _node(atom, env, table), taken, atom.name or "out")
        taken.add(buffer.name)
        table.mark_output(buffer)
        result.outputs.append(buffer.name)
    table.freeze()
    return result


def _reason(
    node: TensorNode,
    var: Var,
    count: int,
    early: set[Var],
    shifts: Mapping[Var, float],
    table: BufferTable,
    counts: Counts,
) -> str | None:
    if node.must_realize:
        return "reductions, scans and scatters are computed once"
    if node.size == 0:
        return None
    if var in early and node.reads:  # what is made of constants is made where it is read
        return "a reader needs it in memory"
    return realize_reason(node, count, table, counts, shifts.get(var, 0))


def table_name(table: BufferTable, name: str) -> str:
    """`name`, or a variation of it that is not in use."""
    return name if name not in table.buffers else table.fresh_name(name)


def _node(atom: Atom, env: dict[Var, TensorNode], table: BufferTable) -> TensorNode:
    if isinstance(atom, Literal):
        if not compiles(atom.dtype, table.device):
            # No scalar code can make it, so it lies in memory for the external call.
            return BufferTensor(table.add_constant(literal_array(atom)))
        return constant_node(literal_array(atom), atom.dtype)
    return env[atom]


def _lower_eqn(context: Lowering, eqn: Eqn, nodes: list[TensorNode]) -> Sequence[TensorNode]:
    rule, device, odd = eqn.prim.lower, context.device, None
    for atom in (*eqn.inputs, *eqn.outputs):
        if not compiles(atom.aval.dtype, device):
            odd = atom.aval.dtype
            break
    if odd is not None and eqn.prim.recompute is not Recompute.VIEW:
        return context.fallback(nodes, f"no compiled code for {odd}")
    if isinstance(rule, Sentinel):
        if rule is not FALLBACK:
            raise TypeError(f"{eqn.op} is composed and must be decomposed before lowering")
        return context.fallback(nodes, "no lowering rule")
    result = rule(context, *nodes, **eqn.params)
    if odd is not None and not isinstance(result, BufferTensor):
        return context.fallback(nodes, f"no compiled code for {odd}")  # a view that is a copy
    if result is NotImplemented:
        return context.fallback(nodes, "no compiled code for these parameters")
    return tuple(result) if eqn.prim.multi else (result,)


def _typed(node: TensorNode, var: Var) -> TensorNode:
    """`node` in the dtype recorded when the program was traced; empty reductions filled in."""
    if isinstance(node, LoopTensor) and isinstance(node.data, Reduction):
        data = node.data
        if math.prod(data.reduction_ranges) == 0:
            value = data.monoid.identity(data.acc_dtype)[data.project]
            identity = constant_node(value, data.dtype)
            return identity.expand(data.ranges)
        if math.prod(data.reduction_ranges) <= UNROLLED and node.weight <= UNROLLED_WEIGHT:
            node = _unrolled(node, data)
    if tuple(node.shape) != var.shape:
        raise TypeError(f"lowering {var} gave shape {node.shape}")
    if node.dtype == var.dtype:
        return node
    dtype = var.dtype
    memory = node.realize if node.must_realize else None
    if memory is not None:
        raise TypeError(f"lowering {var} gave dtype {node.dtype}")
    load = node.loader()

    def convert(index: Index) -> Value:
        return ops.cast(load(index), dtype)

    return loop_tensor(Pointwise(node.shape, convert, dtype), [node])


def _unrolled(node: LoopTensor, data: Reduction) -> LoopTensor:
    """A reduction over a few elements as one expression, in the order of the elements."""
    places = [
        tuple(constant(k) for k in place)
        for place in itertools.product(*(range(n) for n in data.reduction_ranges))
    ]
    wanted = data.monoid.component_dtypes(data.acc_dtype)

    def inner(index: Index) -> Value:
        total: tuple[Value, ...] | None = None
        for place in places:
            values = data.inner_fn(index, place)
            parts = tuple(ops.cast(v, d) for v, d in zip(values, wanted, strict=True))
            total = parts if total is None else data.monoid.combine(total, parts)
        assert total is not None
        value = total[data.project]
        if data.monoid is SUM and data.acc_dtype.kind in "fc":
            # A sum starts from 0.0, so that it is not -0.0 where all elements are.
            value = ops.add(value, ops.constant(0.0, wanted[0]))
        return ops.cast(value, data.dtype)

    unrolled = LoopTensor(Pointwise(data.ranges, inner, data.dtype), node.depth)
    unrolled.weight = node.weight * len(places)
    unrolled.reads = node.reads * len(places)
    return unrolled


def _output_buffer(
    context: Lowering, node: TensorNode, taken: set[str], name: str
) -> ComputedBuffer | ExternBuffer:
    """A buffer of its own for a result: computed, row-major, and given to no other output."""
    table = context.table
    if not isinstance(node, BufferTensor):
        made = node.realize(table, (name,), "an output of the program")
        node = made
    buffer = node.buffer
    owned = isinstance(buffer, ComputedBuffer | ExternBuffer) and buffer.name not in taken
    if owned and node.shape == buffer.shape:
        layout = node.layout
        if layout is None or layout == table.pin(buffer):
            if _is_row_major(table.pin(buffer)):
                return buffer  # type: ignore[return-value]  # `owned` says so
    if not context.compiles(node.dtype):
        return _external_copy(context, node)
    load = node.loader()
    copy = Pointwise(node.shape, lambda index: load(index), node.dtype)
    return table.add_computed(copy, (name,), "a copy: an output of the program")


def _external_copy(context: Lowering, node: TensorNode) -> ExternBuffer:
    """A copy of values that scalar code cannot move, made by the conversion to their own type."""
    aval = Aval(node.shape, node.dtype)
    row = primitive_named("convert")
    context.eqn = Eqn(row, [Var(aval)], [Var(aval)], {"dtype": node.dtype})
    (copy,) = context.fallback([node], f"no compiled code for {node.dtype}")
    context.eqn = None
    assert isinstance(copy.buffer, ExternBuffer)
    return copy.buffer


def _is_row_major(layout: Any) -> bool:
    expected = 1
    for n, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return bool(layout.offset == 0)


def count_users(graph: Graph, deviations: Deviations) -> dict[Var, int]:
    """How many computations read each value; a view stands for the readers of its result."""
    counts: dict[Var, int] = {}
    for atom in graph.outputs:
        if isinstance(atom, Var):
            counts[atom] = counts.get(atom, 0) + 1
    for eqn in reversed(graph.eqns):
        if id(eqn) in deviations.idle:
            continue
        if eqn.prim.recompute is Recompute.VIEW:
            weight = sum(counts.get(v, 0) for v in eqn.outputs)
        else:
            weight = 1
        sampled = deviations.sampled.get(id(eqn))
        for atom in set(eqn.inputs) if sampled is None else {sampled}:
            if isinstance(atom, Var):
                counts[atom] = counts.get(atom, 0) + weight
    return counts


def shifted_reads(graph: Graph) -> dict[Var, float]:
    """For values read through slices at different starts, how often they read each element."""
    slices: dict[Var, dict[Any, int]] = {}
    for eqn in graph.eqns:
        if "start" in eqn.params and all(k == 1 for k in eqn.params.get("strides", (2,))):
            atom = eqn.inputs[0]
            if isinstance(atom, Var):
                slices.setdefault(atom, {})[eqn.params["start"]] = eqn.outputs[0].aval.size
    return {v: sum(own.values()) / max(v.aval.size, 1) for v, own in slices.items() if len(own) > 2}


def needed_in_memory(graph: Graph, device: str) -> set[Var]:
    """Values that some reader needs in memory whatever the thresholds say.

    On a device, of a vector that only a product with a matrix reads, the product decides.
    """
    needed = {a for a in graph.outputs if isinstance(a, Var)}
    overwritten: dict[Var, int] = {}
    readers = Counter(graph.outputs)
    for k, eqn in enumerate(graph.eqns):
        readers.update(set(eqn.inputs))
        if eqn.prim.family == "scatter" and isinstance(eqn.inputs[0], Var):
            overwritten[eqn.inputs[0]] = k
    for k, eqn in reversed(list(enumerate(graph.eqns))):
        # What is read from an array before it is overwritten is kept: the array can then be
        # overwritten in place.
        if overwritten and eqn.prim.family == "gather":
            atom = eqn.inputs[0]
            if isinstance(atom, Var) and overwritten.get(atom, -1) > k:
                needed.update(v for v in eqn.outputs if v.aval.size * 8 <= atom.aval.size)
        opaque = eqn.prim.lower is FALLBACK or eqn.prim.recompute is Recompute.EXPENSIVE
        # What is only read through one view need not lie in memory but as that view.
        view = eqn.prim.recompute is Recompute.VIEW and eqn.outputs[0] in needed
        if opaque or view:
            left = vectors(eqn) if device != "cpu" and eqn.op == "dot_general" else ()
            needed.update(
                a
                for a in eqn.inputs
                if isinstance(a, Var)
                and (opaque or readers[a] > 1)
                and not (a in left and readers[a] == 1)
            )
    return needed
