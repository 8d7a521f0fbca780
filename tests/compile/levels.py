"""One program at every level: how tests run a graph through the compiler's stages.

Input: a graph and values of its arguments.  Output: its results from the op-level interpreter, from
the loop IR run by NumPy (`run_loops`), and from generated C with single passes switched on and off
(`run_c`).  All of them are compared with each other and with the plain NumPy function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.compile import Lowered, lowered_graph, program_of
from stax.core.graph import Graph
from stax.loops.buffers import Buffer, ComputedBuffer, ConstBuffer, ExternBuffer, ExternInput
from stax.loops.evaluate import evaluate
from stax.loops.lower import LoweredGraph
from stax.programs.options import CompileOptions

# Each entry switches one pass; none of them may change a bit of a program without sums of floats.
SWITCHES: dict[str, dict[str, Any]] = {
    "materialise all": {"materialise": "all"},
    "materialise none": {"materialise": "none"},
    "merge off": {"merge": False},
    "prune off": {"prune": False},
    "fuse off": {"fuse": False},
    "recompute off": {"recompute": False},
    "all off": {
        "materialise": "all",
        "merge": False,
        "prune": False,
        "fuse": False,
        "recompute": False,
    },
}


def lowered_with(graph: Graph, **switches: Any) -> Lowered:
    """The scheduled program of `graph` under the given switches."""
    return lowered_graph(graph, CompileOptions.of("c", **switches))


def run_c(graph: Graph, values: Sequence[Any], **switches: Any) -> list[np.ndarray]:
    """The results of the compiled program."""
    return program_of(lowered_with(graph, **switches)).run(values)


def run_loops(lowered: LoweredGraph, values: Sequence[Any]) -> list[np.ndarray]:
    """The results of the loop IR, each buffer in program order computed by NumPy."""
    memory: dict[str, np.ndarray] = {}
    for name, value in zip(lowered.inputs, values, strict=True):
        buffer = lowered.table[name]
        memory[name] = np.ascontiguousarray(value, buffer.dtype).reshape(-1)
    done: set[str] = set()
    for buffer in lowered.buffers:
        if isinstance(buffer, ConstBuffer):
            memory[buffer.name] = np.ascontiguousarray(buffer.value).reshape(-1)
        elif isinstance(buffer, ComputedBuffer):
            memory[buffer.name] = _fresh(buffer)
            for body in buffer.bodies:
                evaluate(body, memory)
        elif isinstance(buffer, ExternBuffer) and buffer.call not in done:
            done.add(buffer.call)
            together = [
                b for b in lowered.buffers if isinstance(b, ExternBuffer) and b.call == buffer.call
            ]
            for made, result in zip(together, _call(buffer, memory), strict=True):
                memory[made.name] = np.array(result, made.dtype).reshape(-1)
    return [memory[name].reshape(lowered.table[name].shape) for name in lowered.outputs]


def _fresh(buffer: Buffer) -> np.ndarray:
    return np.zeros(buffer.fixed_layout.extent, buffer.dtype)


def _call(buffer: ExternBuffer, memory: dict[str, np.ndarray]) -> list[Any]:
    operands = [_strided(i, memory[i.buffer]) for i in buffer.inputs]
    if buffer.extern_kind == "matmul":
        return [np.matmul(*operands)]
    eqn = buffer.params["eqn"]
    with np.errstate(all="ignore"):
        result = eqn.prim.impl(*operands, **eqn.params)
    return list(result) if eqn.prim.multi else [result]


def _strided(operand: ExternInput, flat: np.ndarray) -> np.ndarray:
    layout = operand.layout
    if 0 in layout.shape:
        return np.empty(layout.shape, operand.dtype)
    strides = tuple(s * flat.itemsize for s in layout.strides)
    return np.lib.stride_tricks.as_strided(flat[layout.offset :], layout.shape, strides).copy()


def same_bits(a: Any, b: Any) -> bool:
    """Equal shape, dtype and bits; any NaN equals any other."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "fc":
        hidden = np.isnan(a) & np.isnan(b)
        a, b = np.where(hidden, 0, a), np.where(hidden, 0, b)
    return a.tobytes() == b.tobytes()
