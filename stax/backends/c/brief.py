"""Which kernels of a program are worth the compiler's time.

Input: about what each step of a block takes.  Output: the functions in which the block spends next
to nothing, however they are compiled.  These leave out everything that compilers do to loops: the
loss over ten classes, the update of a bias or the mean of a few numbers take as long to compile as
the kernels that do the work, and half of that so.  No bit depends on it, because every order of
additions is written in the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stax.backends.c.convolution import KINDS
from stax.backends.c.frame import KernelSource
from stax.loops.buffers import ExternBuffer

__all__ = ["Weight", "calls_alone", "light", "weight_of_call", "weight_of_kernel"]

SHARE = 0.005  # of a block's time that all its light kernels may lose together
# What a kernel loses, in parts of its time: short rows take vectors without being faster for them.
_LOST_VECTORS = 8.0
_LOST_SCALAR = 0.25
SEVERAL = 4  # calls from which leaving them as they are saves anything
CALL_LOST = 20.0  # nanoseconds of a call that is compiled as it is
_PRODUCT_NANOSECONDS = 0.01  # of an operation of a matrix product


@dataclass(frozen=True)
class Weight:
    """A step of a block: its function if that is a kernel, its time, and what it may lose."""

    function: str
    nanoseconds: float
    lost: float = math.inf


def weight_of_kernel(function: str, source: KernelSource) -> Weight:
    """The weight of a kernel, printed as `function`."""
    if source.parallel or not source.nanoseconds:
        return Weight(function, source.nanoseconds)
    lost = _LOST_SCALAR if source.scalar else _LOST_VECTORS
    return Weight(function, source.nanoseconds, lost * source.nanoseconds)


def weight_of_call(buffer: ExternBuffer) -> Weight:
    """The weight of the call that computes `buffer`: a product or a convolution, or unknown."""
    p = buffer.params
    if buffer.extern_kind == "matmul":
        operations = 2 * math.prod(buffer.shape) * p["k"]
    elif buffer.extern_kind in KINDS:
        results = p["images"] * p["filters"] * math.prod(p["extents"])
        operations = 2 * results * p["taken"] * math.prod(p["window"])
    else:
        return Weight("", 0.0)
    return Weight("", operations * _PRODUCT_NANOSECONDS)


def calls_alone(calls: int, repeated: int, nanoseconds: float) -> bool:
    """Whether the function of a block takes next to nothing beside what it calls.

    `repeated` is how often loops and branches in it run a nested block.
    """
    return calls >= SEVERAL and CALL_LOST * (calls + repeated) <= SHARE * nanoseconds


def light(weights: Sequence[Weight]) -> dict[str, bool]:
    """For each function of a block, whether it is light."""
    lost: dict[str, float] = {}
    for weight in weights:
        if weight.function:
            lost[weight.function] = lost.get(weight.function, 0.0) + weight.lost
    left = SHARE * sum(w.nanoseconds for w in weights)
    found: dict[str, bool] = {}
    for function in sorted(lost, key=lost.__getitem__):
        left -= lost[function]
        found[function] = left >= 0.0
    return found
