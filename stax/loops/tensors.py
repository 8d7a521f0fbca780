"""Tensors during lowering: lazy values that are computed where they are read, or lie in memory.

Input: buffers and loop nodes. Output: :class:`TensorNode` objects that lowering rules combine. A
node answers one question, "what is the element at this index", through :meth:`TensorNode.loader`;
a pointwise rule composes the loaders of its inputs, a view rewrites the index, and nothing is
computed or stored until :meth:`TensorNode.realize`. Each node is immutable; realising gives
another node.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stax.errors import ShapeError
from stax.loops.buffers import Buffer, BufferTable, ExternInput
from stax.loops.layout import FixedLayout, Index, Shape, contiguous, reshape_index
from stax.loops.nodes import Loader, LoopNode, Pointwise
from stax.loops.ops import Value, current_handler, ops
from stax.loops.symbolic import ZERO


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A change of index: the shape seen, the index behind it, and the same on strides if it can."""

    shape: Shape
    index: Callable[[Index], Index]
    layout: Callable[[FixedLayout], FixedLayout | None]


class TensorNode(ABC):
    """A value of known shape and type.

    ``depth`` counts the closures between this node and memory; ``weight`` and ``reads`` bound from
    above the operations and the reads that an element costs. :mod:`stax.loops.realize` looks at
    these first, and tightens the two bounds when it has counted.
    """

    __slots__ = ("depth", "dtype", "reads", "shape", "weight")

    shape: Shape
    dtype: np.dtype
    depth: int
    weight: int
    reads: int

    @abstractmethod
    def loader(self) -> Loader:
        """The function from an index, one expression for each axis, to the element."""

    @abstractmethod
    def view(self, view: View) -> TensorNode:
        """The node seen through a change of index."""

    @abstractmethod
    def realize(
        self, table: BufferTable, origins: Iterable[str] = (), reason: str = ""
    ) -> BufferTensor:
        """The same value in memory."""

    @property
    def is_realized(self) -> bool:
        """Whether reading an element is reading memory."""
        return False

    @property
    def must_realize(self) -> bool:
        """Whether the value cannot be computed inside its readers' loops."""
        return False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dtype}{list(self.shape)}>"

    # ------------------------------------------------------------------------------------ views

    def permute(self, axes: Sequence[int]) -> TensorNode:
        """Axis ``k`` of the result is axis ``axes[k]``."""
        order = tuple(axes)
        if order == tuple(range(self.ndim)):
            return self
        inverse = [0] * len(order)
        for k, axis in enumerate(order):
            inverse[axis] = k
        return self.view(
            View(
                tuple(self.shape[a] for a in order),
                lambda index: tuple([index[k] for k in inverse]),
                lambda layout: layout.permute(order),
            )
        )

    def slice(
        self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int] | None = None
    ) -> TensorNode:
        """Element ``i`` of the result is element ``starts + steps * i``; steps may be negative."""
        first, extents = tuple(starts), tuple(shape)
        step = tuple(steps) if steps is not None else (1,) * self.ndim
        if extents == self.shape and not any(first) and all(k == 1 for k in step):
            return self
        return self.view(
            View(
                extents,
                lambda index: tuple(e * k + a for e, k, a in zip(index, step, first, strict=True)),
                lambda layout: layout.slice(first, extents, step),
            )
        )

    def flip(self, axes: Iterable[int]) -> TensorNode:
        """The order of elements reversed along ``axes``."""
        turned = frozenset(axes)
        starts = tuple(n - 1 if a in turned else 0 for a, n in enumerate(self.shape))
        steps = tuple(-1 if a in turned else 1 for a in range(self.ndim))
        return self.slice(starts, self.shape, steps) if turned else self

    def broadcast_in_dim(self, shape: Sequence[int], axes: Sequence[int]) -> TensorNode:
        """Axis ``k`` becomes axis ``axes[k]`` of ``shape``; all others repeat."""
        target, places = tuple(shape), tuple(axes)
        if target == self.shape and places == tuple(range(self.ndim)):
            return self
        for k, place in enumerate(places):
            if self.shape[k] not in (1, target[place]):
                raise ShapeError(f"cannot broadcast {self.shape} to {target} along axes {places}")
        own = self.shape
        return self.view(
            View(
                target,
                lambda index: tuple(
                    [ZERO if own[k] == 1 else index[place] for k, place in enumerate(places)]
                ),
                lambda layout: layout.broadcast(target, places),
            )
        )

    def expand(self, shape: Sequence[int]) -> TensorNode:
        """NumPy broadcasting to ``shape``, axes matched from the right."""
        lead = len(shape) - self.ndim
        if lead < 0:
            raise ShapeError(f"cannot broadcast {self.shape} to {tuple(shape)}")
        return self.broadcast_in_dim(shape, range(lead, len(shape)))

    def squeeze(self, axes: Iterable[int]) -> TensorNode:
        """Without the axes of length 1 in ``axes``."""
        gone = frozenset(axes)
        return self.reshape([n for a, n in enumerate(self.shape) if a not in gone])

    def unsqueeze(self, axes: Iterable[int]) -> TensorNode:
        """With axes of length 1 at positions ``axes`` of the result."""
        new = frozenset(axes)
        places = [a for a in range(self.ndim + len(new)) if a not in new]
        shape = [1] * (self.ndim + len(new))
        for a, n in zip(places, self.shape, strict=True):
            shape[a] = n
        return self.broadcast_in_dim(shape, places)

    def reshape(self, shape: Sequence[int]) -> TensorNode:
        """The elements in row-major order under another shape."""
        old, new = self.shape, tuple(shape)
        if new == old:
            return self
        if math.prod(new) != math.prod(old):
            raise ShapeError(f"cannot reshape {old} into {new}")
        return self.view(
            View(
                new,
                lambda index: reshape_index(index, old, new),
                lambda layout: layout.reshape(new),
            )
        )


class BufferTensor(TensorNode):
    """A strided view of memory; ``layout`` is None for a whole buffer with an open layout."""

    __slots__ = ("buffer", "layout")

    def __init__(self, buffer: Buffer, layout: FixedLayout | None = None) -> None:
        self.buffer = buffer
        if layout is None and isinstance(buffer.layout, FixedLayout):
            layout = buffer.layout
        self.layout = layout
        self.shape = layout.shape if layout is not None else buffer.shape
        self.dtype = buffer.dtype
        self.depth = 0
        self.weight = 0
        self.reads = 1

    @property
    def is_realized(self) -> bool:
        return True

    def loader(self) -> Loader:
        layout, buffer = self.layout, self.buffer
        if layout is None:
            return buffer.load
        name, dtype, strided = buffer.name, buffer.dtype, layout
        return lambda index: ops.load(name, strided.address(index), dtype)

    def view(self, view: View) -> TensorNode:
        if self.layout is not None:
            layout = view.layout(self.layout)
            if layout is not None:
                return BufferTensor(self.buffer, layout)
        return MappedTensor(self, (view,))

    def realize(
        self, table: BufferTable, origins: Iterable[str] = (), reason: str = ""
    ) -> BufferTensor:
        return self

    def strided(self, table: BufferTable) -> BufferTensor:
        """The same with a layout that is decided."""
        return (
            self if self.layout is not None else BufferTensor(self.buffer, table.pin(self.buffer))
        )

    def extern_input(self, table: BufferTable) -> ExternInput:
        """The operand of an external call."""
        layout = self.strided(table).layout
        assert layout is not None
        return ExternInput(self.buffer.name, layout, self.dtype)


class LoopTensor(TensorNode):
    """A loop node that its readers compute. Only pointwise nodes can be read unrealised."""

    __slots__ = ("data",)

    def __init__(self, data: LoopNode, depth: int = 1, weight: int = 1, reads: int = 0) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = data.dtype
        self.depth = depth
        self.weight = weight
        self.reads = reads

    @property
    def must_realize(self) -> bool:
        return not isinstance(self.data, Pointwise)

    def loader(self) -> Loader:
        data = self.data
        if not isinstance(data, Pointwise):
            raise TypeError(f"a {data.kind} has to be realized before it is read")
        inner = data.inner_fn
        return lambda index: current_handler().recall(data, index, inner)

    def view(self, view: View) -> TensorNode:
        return MappedTensor(self, (view,))

    def realize(
        self, table: BufferTable, origins: Iterable[str] = (), reason: str = ""
    ) -> BufferTensor:
        return BufferTensor(table.add_computed(self.data, origins, reason))


class MappedTensor(TensorNode):
    """Another node seen through changes of index, the first applied first to that node."""

    __slots__ = ("base", "data", "views")

    def __init__(self, base: BufferTensor | LoopTensor, views: tuple[View, ...]) -> None:
        self.base = base
        self.views = views
        self.shape = views[-1].shape
        self.dtype = base.dtype
        self.depth = base.depth + 1
        self.weight = base.weight
        self.reads = base.reads
        self.data: Pointwise | None = None

    @property
    def must_realize(self) -> bool:
        return self.base.must_realize

    def loader(self) -> Loader:
        load, views = self.base.loader(), self.views[::-1]

        def mapped(index: Index) -> Value:
            for view in views:
                index = view.index(index)
            return load(index)

        return mapped

    def view(self, view: View) -> TensorNode:
        return MappedTensor(self.base, (*self.views, view))

    def _strides_over(self, layout: FixedLayout | None) -> FixedLayout | None:
        """The views as strides over a layout of the base, if they all have strides."""
        for view in self.views:
            layout = view.layout(layout) if layout is not None else None
        return layout

    def realize(
        self, table: BufferTable, origins: Iterable[str] = (), reason: str = ""
    ) -> BufferTensor:
        base = self.base
        known = base.is_realized or (isinstance(base, LoopTensor) and base.data in table.realized)
        foldable = self._strides_over(contiguous(base.shape)) is not None
        copied: MappedTensor = self
        if known or base.must_realize or (foldable and self.size >= base.size):
            memory = base.realize(table, origins, reason)
            layout = self._strides_over(memory.layout or memory.buffer.fixed_layout)
            if layout is not None:
                memory.strided(table)
                return BufferTensor(memory.buffer, layout)
            copied = MappedTensor(memory, self.views)
        if self.data is None:
            self.data = Pointwise(self.shape, copied.loader(), self.dtype)
        return BufferTensor(table.add_computed(self.data, origins, reason))


# ------------------------------------------------------------------------------- construction


def loop_tensor(data: LoopNode, inputs: Iterable[TensorNode]) -> LoopTensor:
    """The lazy tensor of ``data``, whose closure reads ``inputs``."""
    depth, weight, reads = 1, 1, 0
    for node in inputs:
        depth = max(depth, node.depth + 1)
        weight += node.weight
        reads += node.reads
    return LoopTensor(data, depth, weight, reads)


def broadcast_shapes(shapes: Iterable[Shape]) -> Shape:
    """NumPy's rule for shapes that are combined element by element."""
    found = tuple(shapes)
    try:
        return np.broadcast_shapes(*found)
    except ValueError:
        raise ShapeError(
            f"shapes {', '.join(map(str, found))} do not broadcast to a common shape"
        ) from None


def broadcast_loader(node: TensorNode, shape: Shape) -> Loader:
    """The loader of ``node`` for indices into ``shape``."""
    return node.expand(shape).loader() if node.shape != shape else node.loader()
