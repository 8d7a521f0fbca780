"""Running a table of buffers by NumPy, for tests of the loop level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stax.loops.body import Body
from stax.loops.buffers import Buffer, BufferTable, ComputedBuffer, ConstBuffer
from stax.loops.construct import loop_tensor
from stax.loops.evaluate import evaluate
from stax.loops.layout import Index
from stax.loops.nodes import Pointwise
from stax.loops.ops import Value, ops
from stax.loops.symbolic import symbol
from stax.loops.tensors import BufferTensor, LoopTensor, TensorNode
from stax.schedule.collapse import collapsed
from stax.schedule.fusion import FusionOptions, LoopStep, fuse
from stax.schedule.kernel import Kernel, Role, space_symbols

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
I64 = np.dtype(np.int64)


def input_tensor(table: BufferTable, name: str, array: np.ndarray) -> BufferTensor:
    """An argument like ``array``."""
    return BufferTensor(table.add_input(name, array.shape, array.dtype))


def take(x: TensorNode, index: TensorNode, **options: bool) -> LoopTensor:
    """``x[index]`` along the only axis of ``x``."""
    read, place = x.loader(), index.loader()

    def inner(i: Index) -> Value:
        return read((ops.indirect(place(i), x.shape[0], **options),))

    return loop_tensor(Pointwise(index.shape, inner, x.dtype), (x, index))


def merged(body: Body) -> Body:
    """The body as a kernel of its own runs it: adjacent loops are one where indices allow it.

    Loops are called `x0, x1, ...` and `r0, r1, ...`.
    """
    (kernel,) = fuse([LoopStep(body)], lambda name: 8, FusionOptions(write_out=False))
    assert isinstance(kernel, Kernel)
    (member,) = kernel.members
    space, split, (indexes,) = collapsed(kernel)
    symbols = space_symbols(space)
    loops, inner = symbols[:split], symbols[split:] if split is not None else ()
    if member.role is Role.SERIAL:
        loops = symbols[: len(body.loops)]
        inner = tuple(symbols[member.dims.index(s)] for s in body.reduction_loops)
    elif member.role is Role.COLUMN:
        loops, inner = inner, loops
    elif member.role is Role.ALL:
        loops, inner = (), symbols
    own = [s for s in inner if s not in loops]
    names = {s: symbol(f"x{n}", 0, s.hi) for n, s in enumerate(loops)}
    names |= {s: symbol(f"r{n}", 0, s.hi) for n, s in enumerate(own)}
    found = replace(member.body, indexes=indexes)
    return found.substitute(names, *(tuple(names[s] for s in part) for part in (loops, inner)))


def shaped(buffer: Buffer, flat: np.ndarray) -> np.ndarray:
    """The array that a buffer's memory holds."""
    layout = buffer.fixed_layout
    strides = [s * flat.itemsize for s in layout.strides]
    return np.lib.stride_tricks.as_strided(flat[layout.offset :], layout.shape, strides)


def run(table: BufferTable, *, merge: bool = False, **arrays: Any) -> dict[str, np.ndarray]:
    """The value of every buffer."""
    table.freeze()
    memory: dict[str, np.ndarray] = {}
    for buffer in table:
        if isinstance(buffer, ComputedBuffer):
            memory[buffer.name] = np.zeros(buffer.fixed_layout.extent, buffer.dtype)
            for body in buffer.bodies:
                evaluate(merged(body) if merge else body, memory)
        elif isinstance(buffer, ConstBuffer):
            memory[buffer.name] = buffer.value.reshape(-1)
        else:
            memory[buffer.name] = np.ascontiguousarray(arrays[buffer.name]).reshape(-1)
    return {name: shaped(table[name], flat) for name, flat in memory.items()}
