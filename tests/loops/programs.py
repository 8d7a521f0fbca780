"""Running a table of buffers by NumPy, for tests of the loop level."""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.loops.buffers import Buffer, BufferTable, ComputedBuffer, ConstBuffer
from stax.loops.construct import loop_tensor
from stax.loops.evaluate import evaluate
from stax.loops.layout import Index
from stax.loops.nodes import Pointwise
from stax.loops.normalize import normalized
from stax.loops.ops import Value, ops
from stax.loops.tensors import BufferTensor, LoopTensor, TensorNode

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


def shaped(buffer: Buffer, flat: np.ndarray) -> np.ndarray:
    """The array that a buffer's memory holds."""
    layout = buffer.fixed_layout
    strides = [s * flat.itemsize for s in layout.strides]
    return np.lib.stride_tricks.as_strided(flat[layout.offset :], layout.shape, strides)


def run(table: BufferTable, *, normalize: bool = False, **arrays: Any) -> dict[str, np.ndarray]:
    """The value of every buffer."""
    table.freeze()
    memory: dict[str, np.ndarray] = {}
    for buffer in table:
        if isinstance(buffer, ComputedBuffer):
            memory[buffer.name] = np.zeros(buffer.fixed_layout.extent, buffer.dtype)
            for body in buffer.bodies:
                evaluate(normalized(body) if normalize else body, memory)
        elif isinstance(buffer, ConstBuffer):
            memory[buffer.name] = buffer.value.reshape(-1)
        else:
            memory[buffer.name] = np.ascontiguousarray(arrays[buffer.name]).reshape(-1)
    return {name: shaped(table[name], flat) for name, flat in memory.items()}
