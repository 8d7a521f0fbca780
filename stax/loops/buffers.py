"""Buffers: what is written to memory, and the table of all of them in a lowered graph.

Input: loop nodes and external calls in the order in which lowering meets them. Output: named
buffers with a type, a layout and, for computed ones, flat loop bodies. The layout of an
intermediate stays open until :meth:`BufferTable.freeze`, which lets its readers and its own reads
choose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stax.dtypes import short_name
from stax.loops.body import Access, Body, runs_down_columns
from stax.loops.layout import (
    FixedLayout,
    FlexibleLayout,
    Index,
    Layout,
    Shape,
    contiguous,
    contiguous_strides,
    preferred_order,
)
from stax.loops.nodes import LoopNode, Pointwise, Reduction, Scan, Scatter
from stax.loops.ops import Value, handling, ops
from stax.loops.split import device_properties, may_split, segment_count, split_reduction
from stax.loops.symbolic import (
    Expr,
    Symbol,
    affine_coefficients,
    loop_variable,
    loop_variables,
)
from stax.loops.trace import BodyTracer


@dataclass(eq=False, slots=True)
class Buffer:
    """A named region of memory. ``origins`` are the names of the operations it came from."""

    name: str
    dtype: np.dtype
    layout: Layout
    origins: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``input``, ``constant``, the kind of the loop node, or ``extern:<kind>``."""
        raise TypeError(type(self).__name__)

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def ranges(self) -> Shape:
        """The extents of the loops that compute it."""
        return ()

    @property
    def reduction_ranges(self) -> Shape:
        """The extents of the loops that are merged away."""
        return ()

    @property
    def reads(self) -> tuple[Access, ...]:
        """The distinct reads of other buffers."""
        return ()

    @property
    def input_names(self) -> tuple[str, ...]:
        """The buffers it depends on, without repetition."""
        return tuple(dict.fromkeys(access.buffer for access in self.reads))

    @property
    def fixed_layout(self) -> FixedLayout:
        """The layout, row-major as long as it is open."""
        layout = self.layout
        return layout if isinstance(layout, FixedLayout) else layout.fixed()

    @property
    def nbytes(self) -> int:
        """The bytes that the buffer occupies."""
        return self.fixed_layout.extent * self.dtype.itemsize

    def load(self, index: Index) -> Value:
        """The element at ``index``, through ``ops``."""
        return ops.load(self.name, self.fixed_layout.address(index), self.dtype)

    @property
    def text(self) -> str:
        """The stable text of the buffer."""
        return f"{self.name}: {short_name(self.dtype)} {self.layout} = {self.describe()}"

    def describe(self) -> str:
        """The right-hand side of :attr:`text`."""
        return self.kind

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False, slots=True)
class InputBuffer(Buffer):
    """An argument of the program; its layout is the caller's."""

    @property
    def kind(self) -> str:
        return "input"


@dataclass(eq=False, slots=True)
class ConstBuffer(Buffer):
    """An array that was captured when the program was traced."""

    value: Any = None

    @property
    def kind(self) -> str:
        return "constant"


@dataclass(eq=False, slots=True)
class ComputedBuffer(Buffer):
    """A loop node that is written to memory."""

    data: LoopNode = field(kw_only=True)
    reason: str = ""
    _bodies: tuple[Body, ...] | None = None

    @property
    def kind(self) -> str:
        return self.data.kind

    @property
    def ranges(self) -> Shape:
        return self.data.ranges

    @property
    def reduction_ranges(self) -> Shape:
        return self.data.reduction_ranges

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The loop nests that fill the buffer, to be run in order: one, or two for a scatter."""
        if self._bodies is None:
            self._bodies = trace_bodies(self.data, self.name, self.fixed_layout)
        return self._bodies

    def forget_bodies(self) -> None:
        """Drops the traced bodies, for when a layout that they mention has changed."""
        self._bodies = None

    @property
    def body(self) -> Body:
        """The last loop nest: the only one unless the buffer is a scatter."""
        return self.bodies[-1]

    @property
    def reads(self) -> tuple[Access, ...]:
        first, *rest = self.bodies
        found = [a for a in first.reads if a.buffer != self.name]
        if rest:
            found = list(dict.fromkeys([*found, *(a for b in rest for a in b.reads)]))
            found = [a for a in found if a.buffer != self.name]
        return tuple(found)

    def describe(self) -> str:
        ranges = "x".join(f"[{n}]" for n in (list(self.ranges),))
        if self.reduction_ranges:
            ranges += f"×{list(self.reduction_ranges)}"
        word = self.kind
        if isinstance(self.data, Reduction | Scan):
            word += f" {self.data.monoid.name}"
        if isinstance(self.data, Scatter):
            word += f" {self.data.mode}"
        lines = [f"{word} over {ranges.replace('[[', '[').replace(']]', ']')}"]
        for body in self.bodies:
            lines.extend("  " + line for line in str(body).splitlines())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ExternInput:
    """An operand of an external call: a strided view of a buffer."""

    buffer: str
    layout: FixedLayout
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.buffer}{self.layout}"


@dataclass(eq=False, slots=True)
class ExternBuffer(Buffer):
    """Result number ``output`` of a call that is not a loop nest: a matrix product, a fallback.

    Results of one call share the object ``params`` and have the same ``call`` name.
    """

    extern_kind: str = field(kw_only=True)
    inputs: tuple[ExternInput, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    output: int = 0

    @property
    def kind(self) -> str:
        return f"extern:{self.extern_kind}"

    @property
    def ranges(self) -> Shape:
        return self.layout.shape

    @property
    def reads(self) -> tuple[Access, ...]:
        return tuple(
            Access(i.buffer, i.layout.address(loop_variables("i", i.layout.shape)))
            for i in self.inputs
        )

    def describe(self) -> str:
        shown = (f"{k}={v}" for k, v in self.params.items() if isinstance(v, int | str | tuple))
        words = [*map(str, self.inputs), *shown]
        tail = f" [{self.output}]" if self.output else ""
        return f"extern {self.extern_kind}({', '.join(words)}){tail}"


def _symbols(index: Sequence[Expr]) -> tuple[Symbol, ...]:
    return tuple(e for e in index if isinstance(e, Symbol))


def trace_bodies(data: LoopNode, name: str, layout: FixedLayout) -> tuple[Body, ...]:
    """The loop nests that compute ``data`` into the buffer ``name``."""
    if isinstance(data, Scatter):
        initial = Pointwise(data.shape, data.init, data.dtype)
        return (*trace_bodies(initial, name, layout), _trace_updates(data, name, layout))
    tracer = BodyTracer()
    index = loop_variables("i", data.ranges)
    rindex: Index = ()
    with handling(tracer):
        if isinstance(data, Pointwise):
            ops.store(name, layout.address(index), data.inner_fn(index))
        elif isinstance(data, Reduction):
            rindex = loop_variables("r", data.reduction_ranges)
            values = data.inner_fn(index, rindex)
            merged = ops.reduction(data.monoid, _as_components(data, values))
            ops.store(name, layout.address(index), merged[data.project])
        else:
            running = loop_variable("r0", data.ranges[data.axis])
            rindex = (running,)
            index = (*index[: data.axis], running, *index[data.axis + 1 :])
            merged = _as_components(data, data.inner_fn(index))
            if isinstance(running, Symbol):
                merged = ops.scan(data.monoid, merged, data.reverse)
            ops.store(name, layout.address(index), merged[data.project])
            index = (*index[: data.axis], *index[data.axis + 1 :])
    return (tracer.body(_symbols(index), _symbols(rindex)),)


def is_down_columns(data: Reduction) -> bool:
    """Whether memory runs along the results of a reduction, as far as layouts are decided."""
    (body,) = trace_bodies(data, "", contiguous(data.shape))
    return runs_down_columns(body)


def _as_components(data: Reduction | Scan, values: tuple[Value, ...]) -> tuple[Value, ...]:
    wanted = data.monoid.component_dtypes(data.acc_dtype)
    return tuple(ops.cast(v, d) for v, d in zip(values, wanted, strict=True))


def _trace_updates(data: Scatter, name: str, layout: FixedLayout) -> Body:
    tracer = BodyTracer()
    index = loop_variables("i", data.ranges)
    with handling(tracer):
        if data.mask_fn is not None:
            tracer.mask = data.mask_fn(index)
            tracer.memo = {}
        place = data.index_fn(index)
        ops.store(name, layout.address(place), data.value_fn(index), data.mode)
    return tracer.body(_symbols(index))


class BufferTable:
    """All buffers of a lowered graph in the order of their making.

    Args:
        device: the target, as the materialisation rules name it ("cpu" or "cuda").
        mode: "default", "all" (materialise every value), "none" (inline wherever possible) or
            "compact" (store what would keep several other values in memory).
    """

    def __init__(self, device: str = "cpu", mode: str = "default") -> None:
        self.device = device
        self.mode = mode
        self.properties = device_properties(device)
        self.buffers: dict[str, Buffer] = {}
        self.outputs: list[str] = []
        self.realized: dict[LoopNode, ComputedBuffer] = {}
        self._pinned: set[str] = set()
        self._calls = 0
        self._frozen = False

    def __iter__(self) -> Any:
        return iter(self.buffers.values())

    def __getitem__(self, name: str) -> Buffer:
        return self.buffers[name]

    def _add(self, buffer: Buffer) -> None:
        if buffer.name in self.buffers:
            raise ValueError(f"buffer {buffer.name} exists already")
        self.buffers[buffer.name] = buffer

    def fresh_name(self, prefix: str = "buf") -> str:
        """A name that is not in use."""
        number = len(self.buffers)
        while f"{prefix}{number}" in self.buffers:
            number += 1
        return f"{prefix}{number}"

    def add_input(
        self, name: str, shape: Sequence[int], dtype: np.dtype, layout: FixedLayout | None = None
    ) -> InputBuffer:
        """An argument; row-major unless its layout is given."""
        buffer = InputBuffer(name, dtype, layout or contiguous(shape), (name,))
        self._add(buffer)
        return buffer

    def add_constant(self, value: np.ndarray, name: str | None = None) -> ConstBuffer:
        """A captured array, stored row-major."""
        array = np.ascontiguousarray(value)
        layout = contiguous(np.shape(value))
        buffer = ConstBuffer(name or self.fresh_name("const"), array.dtype, layout, value=array)
        self._add(buffer)
        return buffer

    def add_computed(
        self, data: LoopNode, origins: Iterable[str] = (), reason: str = ""
    ) -> ComputedBuffer:
        """The buffer of ``data``, the same one whenever asked again; its layout is left open."""
        found = self.realized.get(data)
        if found is None:
            layout = FlexibleLayout(data.shape)
            node = self._in_two_levels(data, tuple(origins))
            found = ComputedBuffer(
                self.fresh_name(), data.dtype, layout, tuple(origins), data=node, reason=reason
            )
            self._add(found)
            self.realized[data] = found
        return found

    def _in_two_levels(self, data: LoopNode, origins: tuple[str, ...]) -> LoopNode:
        """The reduction over partial results where the device wants a long one split.

        Columns are cut by their kernel, which reads neighbouring ones together.
        """
        if self.properties is None or not isinstance(data, Reduction) or not may_split(data):
            return data
        length = math.prod(data.reduction_ranges)
        segments = segment_count(length, math.prod(data.ranges), self.properties)
        if segments <= 1 or is_down_columns(data):
            return data
        partial, merge = split_reduction(data, segments)
        reason = f"partial results of a reduction of {length} elements"
        firsts = [
            self.add_computed(replace(partial, dtype=dtype, project=n), origins, reason)
            for n, dtype in enumerate(data.monoid.component_dtypes(data.acc_dtype))
        ]
        return merge(lambda n, index: firsts[n].load(index))

    def add_extern(
        self,
        kind: str,
        inputs: Sequence[ExternInput],
        results: Sequence[tuple[Sequence[int], np.dtype]],
        params: Mapping[str, Any],
        origins: Iterable[str] = (),
    ) -> tuple[ExternBuffer, ...]:
        """One call with results of the given shapes and types, each row-major."""
        call = f"call{self._calls}"
        self._calls += 1
        made = []
        for number, (shape, dtype) in enumerate(results):
            buffer = ExternBuffer(
                self.fresh_name(),
                dtype,
                contiguous(shape),
                tuple(origins),
                extern_kind=kind,
                inputs=tuple(inputs),
                params=params,
                call=call,
                output=number,
            )
            self._add(buffer)
            made.append(buffer)
        return tuple(made)

    def pin(self, buffer: Buffer) -> FixedLayout:
        """The layout, fixed to row-major if it was open, for users that need strides now."""
        if isinstance(buffer.layout, FlexibleLayout):
            buffer.layout = buffer.layout.fixed()
            self._pinned.add(buffer.name)
        assert isinstance(buffer.layout, FixedLayout)
        return buffer.layout

    def mark_output(self, buffer: Buffer) -> None:
        """Makes the buffer a result of the program, row-major."""
        self.pin(buffer)
        self.outputs.append(buffer.name)

    def freeze(self) -> None:
        """Decides every open layout. Readers that agree decide; else the buffer's own reads do."""
        if self._frozen:
            return
        self._frozen = True
        open_names = {
            b.name for b in self if isinstance(b.layout, FlexibleLayout) and len(b.shape) > 1
        }
        wishes = self._reader_wishes(open_names) if open_names else {}
        changed: set[str] = set()
        for buffer in self:
            if not isinstance(buffer.layout, FlexibleLayout):
                continue
            order = None
            if buffer.name in open_names and isinstance(buffer, ComputedBuffer):
                asked = wishes.get(buffer.name, set())
                order = next(iter(asked)) if len(asked) == 1 else None
                if order is None:
                    if changed.intersection(buffer.input_names):
                        buffer.forget_bodies()
                    order = _own_order(buffer)
            buffer.layout = buffer.layout.fixed(order)
            if buffer.layout.strides != contiguous_strides(buffer.shape):
                changed.add(buffer.name)
        for buffer in self:
            if isinstance(buffer, ComputedBuffer):
                if buffer.name in changed or changed.intersection(buffer.input_names):
                    buffer.forget_bodies()

    def _reader_wishes(self, open_names: set[str]) -> dict[str, set[Shape]]:
        """For each open buffer the orders of its axes that its readers would like."""
        wishes: dict[str, set[Shape]] = {}
        for reader in self:
            if not isinstance(reader, ComputedBuffer):
                continue
            for body in reader.bodies:
                loops = body.loops + body.reduction_loops
                for access in body.reads:
                    if access.buffer in open_names:
                        order = _axes_in_loop_order(
                            self.buffers[access.buffer], access.index, loops
                        )
                        if order is not None:
                            wishes.setdefault(access.buffer, set()).add(order)
        return wishes


def _axes_in_loop_order(buffer: Buffer, index: Expr, loops: tuple[Symbol, ...]) -> Shape | None:
    """The axes in the order in which the reader's loops run over them, if that is plain."""
    found = affine_coefficients(index, loops)
    if found is None:
        return None
    strides = buffer.fixed_layout.strides
    axis_of = {t: a for a, t in enumerate(strides) if buffer.shape[a] > 1}
    order: list[int] = []
    for s in loops:
        coefficient = found[s]
        if not coefficient:
            continue
        axis = axis_of.get(abs(coefficient))
        if axis is None or axis in order:
            return None
        order.append(axis)
    if len(order) != len(axis_of):
        return None
    rest = [a for a in range(len(strides)) if a not in order]
    return tuple(rest + order)


def _own_order(buffer: ComputedBuffer) -> Shape | None:
    if not isinstance(buffer.data, Pointwise | Reduction):
        return None
    index = loop_variables("i", buffer.shape)
    votes = []
    for access in buffer.reads:
        found = affine_coefficients(access.index, _symbols(index))
        if found is not None:
            votes.append([found[e] if isinstance(e, Symbol) else 0 for e in index])
    return preferred_order(votes, buffer.shape)
