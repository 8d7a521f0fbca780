"""Splitting long reductions with few results into two levels, for devices with many cores.

Input: the length of a reduction, the number of its results, and the device. Output: the number of
segments, and the two reductions: one partial result for each segment, then a merge of those. By
associativity the value is the same over the reals; the order of rounding changes, which is why this
is a step of its own and never part of lowering.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from stax.loops.layout import Index
from stax.loops.monoids import INDEX as INT64
from stax.loops.nodes import Reduction
from stax.loops.ops import Value, ops
from stax.loops.symbolic import delinearize, linearize

ELEMENTS_AT_MOST = 512
NO_SPLIT_LENGTH = 8192
NEAR_ENOUGH = 50


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """Streaming multiprocessors, lanes of a warp, and threads that one multiprocessor holds."""

    multiprocessors: int
    warp: int = 32
    threads: int = 2048


SPECIFICATIONS: dict[str, DeviceProperties] = {
    "sm_80": DeviceProperties(108),
    "sm_86": DeviceProperties(84, threads=1536),
    "sm_89": DeviceProperties(128, threads=1536),
    "sm_90": DeviceProperties(132),
    "sm_100": DeviceProperties(148),
    "sm_120": DeviceProperties(170, threads=1536),
    "gfx942": DeviceProperties(304, warp=64),
}


def device_properties(device: str) -> DeviceProperties | None:
    """What is known of a device such as "cuda:sm_90"; None for the CPU, which needs no split."""
    if device == "cpu":
        return None
    return SPECIFICATIONS.get(device.partition(":")[2], SPECIFICATIONS["sm_90"])


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def segment_count(length: int, results: int, device: DeviceProperties) -> int:
    """The number of segments for ``results`` reductions of ``length`` elements (1: no split)."""
    least = device.warp
    block = 8 * device.warp
    resident = device.multiprocessors * device.threads
    if results >= 2 * device.multiprocessors or length <= NO_SPLIT_LENGTH:
        return 1
    work = results * length
    if work <= least * resident:
        per_thread = least
    elif work < ELEMENTS_AT_MOST * resident:
        blocks = -(-(resident // (2 * block)) // results)
        target = -(-length // (block * blocks))
        per_thread = _nearest_divisor(length, target, target)
    else:
        per_thread = _nearest_divisor(length, ELEMENTS_AT_MOST, ELEMENTS_AT_MOST)
    return -(-length // (per_thread * block))


def _nearest_divisor(n: int, wanted: int, otherwise: int) -> int:
    nearest = min(_divisors(n), key=lambda d: (abs(d - wanted), d))
    return nearest if abs(nearest - wanted) < NEAR_ENOUGH else otherwise


def may_split(data: Reduction) -> bool:
    """Whether a reduction may be split: not those that carry indices."""
    return "index" not in data.monoid.components


def split_reduction(data: Reduction, segments: int) -> tuple[Reduction, Callable[..., Reduction]]:
    """The first level, one partial result for each segment, and a maker of the second.

    The maker takes ``load(component, index)``, which reads component number ``component`` of the
    stored partial results at an index of shape ``(*ranges, segments)``. The first level projects
    component 0; make others with :func:`dataclasses.replace`.
    """
    total = math.prod(data.reduction_ranges)
    length = -(-total // segments)
    exact = length * segments == total
    dtypes = data.monoid.component_dtypes(data.acc_dtype)

    def first(index: Index, rindex: Index) -> tuple[Value, ...]:
        *outer, segment = index
        flat = linearize((segment, *rindex), (length, 1))
        where = delinearize(flat, data.reduction_ranges)
        if exact:
            return data.inner_fn(tuple(outer), where)
        inside = ops.lt(ops.index_expr(flat, INT64), ops.constant(total, INT64))
        identity = data.monoid.identity(data.acc_dtype)

        def component(n: int) -> Value:
            return ops.cast(data.inner_fn(tuple(outer), where)[n], dtypes[n])

        parts: list[Value] = []
        for n, dtype in enumerate(dtypes):
            neutral = ops.constant(identity[n], dtype)
            parts.append(ops.masked(inside, functools.partial(component, n), neutral))
        return tuple(parts)

    partial = Reduction(
        ranges=(*data.ranges, segments),
        reduction_ranges=(length,),
        inner_fn=first,
        monoid=data.monoid,
        dtype=dtypes[0],
        acc_dtype=data.acc_dtype,
    )

    def merge(load: Callable[[int, Index], Value]) -> Reduction:
        def second(index: Index, rindex: Index) -> tuple[Value, ...]:
            return tuple(load(n, (*index, *rindex)) for n in range(len(dtypes)))

        return Reduction(
            ranges=data.ranges,
            reduction_ranges=(segments,),
            inner_fn=second,
            monoid=data.monoid,
            dtype=data.dtype,
            acc_dtype=data.acc_dtype,
            project=data.project,
        )

    return partial, merge
