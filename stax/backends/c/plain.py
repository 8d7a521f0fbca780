"""Which kernels of a program are printed plainly: for the compiler's time, not for that of loops.

Input: the kernels of a block, and about what everything else in it takes.  Output: those that are
printed without the devices that only pay where a loop matters (several vectors side by side,
divisions made of multiplications, fetches from memory), and are compiled without the passes that
do.  They take half of the compiler's time, and their loops run up to half as long again, so they
are those that give most of it for what the block loses.  No bit depends on it: elements have the
same lanes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from stax.backends.c.attention import FLOPS_A_NANOSECOND
from stax.backends.c.folds import LANES
from stax.backends.c.frame import nanoseconds_of
from stax.backends.c.lanes import FEW_LINES
from stax.backends.c.placement import FAR_BYTES
from stax.backends.c.streams import AHEAD, LEAST_BYTES
from stax.dtypes import DType
from stax.loops.scalar_ops import SCALAR_OPS
from stax.schedule.attention import Attention
from stax.schedule.kernel import Kernel, Role
from stax.schedule.stack import Stack

__all__ = ["ATTRIBUTE", "MARK", "Cost", "cost_of", "plain"]

MARK = "STAX_PLAIN\n"  # in front of a function
ATTRIBUTE = """\
#if !defined(__clang__) && __GNUC__ >= 12  /* before, other options are lost */
#define STAX_PLAIN __attribute__((noinline, \\
    optimize("no-ivopts", "no-gcse", "no-dce", "no-tree-dominator-opts", "no-tree-pta")))
#else
#define STAX_PLAIN __attribute__((noinline))
#endif
"""
SHARE = 0.01  # of a block's time that all its plain kernels may lose together
LINE = 64  # bytes of a vector, and of a line of memory
# Nanoseconds that are lost for each vector: by a reduction that waits for its own sum, and by an
# array that is not fetched ahead (in a program, where it has left the cache since; less in a loop).
_WAITING = 0.5
_FETCHING = 1.0
_VECTORS = 0.1  # of what elements take one by one, what they take in vectors
_PASSES = 0.03  # of that, what is lost without the compiler's passes
_LONG = frozenset(name for name, row in SCALAR_OPS.items() if row.transcendental)
_UNFETCHED = _LONG | {"index_expr"}
_ROW = 2.0  # nanoseconds of a row that is addressed without those passes
_ALONG = (Role.ROW, Role.ALL)
_FREE = ("constant", "index_expr", "project")  # that take no statement of their own
_OF_DATA = ("bind", "check", "scan")  # addresses from data, which loops of their own look up


@dataclass(frozen=True)
class Cost:
    """A kernel: the statements to compile, nanoseconds in full form, and what plain form loses.

    `alike` is equal for kernels that may become one function, whose form is the same.
    """

    alike: Hashable
    statements: int
    nanoseconds: float
    lost: float


def cost_of(kernel: Kernel, dtypes: Mapping[str, DType], fetched: bool = True) -> Cost:
    """What is known of a kernel before it is printed; `fetched` unless it works in the cache."""
    if isinstance(kernel, Attention):
        stages = [cost_of(s, dtypes, False) for s in kernel.stages if isinstance(s, Kernel)]
        products = kernel.flops / FLOPS_A_NANOSECOND
        return Cost(
            (kernel.shape, *(s.alike for s in stages)),
            sum(s.statements for s in stages),
            sum((s.nanoseconds for s in stages), products),
            sum(s.lost for s in stages),
        )
    members = kernel.members
    alike = (len(kernel.space), *(tuple(i.op for i in m.body.instrs) for m in members))
    time, lost = _VECTORS * nanoseconds_of(kernel), math.inf
    instrs = [i for m in members for i in m.body.instrs]
    data = any(i.op in _OF_DATA for i in instrs)
    if not isinstance(kernel, Stack) and members[0].role is not Role.SERIAL and not data:
        buffers = {n for names in kernel.accesses for n in names}
        widest = max((dtypes[n].itemsize for n in buffers), default=1)
        vectors = kernel.numel * widest / LINE
        waits = _waiting(kernel, widest)
        reduces = any(m.role in _ALONG for m in members)
        # Beside long functions, and where loops are cut at masks, nothing is fetched.
        fetches = 0
        if fetched and not any(i.op in _UNFETCHED for i in instrs):
            fetches = _fetches(kernel, [dtypes[n].itemsize for n in buffers], reduces)
        lost = _PASSES * time + vectors * (_WAITING * waits + _FETCHING * fetches)
        lost += _ROW * kernel.numel / (kernel.space or (1,))[-1]
    return Cost(alike, kernel.size, time, lost)


def _waiting(kernel: Kernel, widest: int) -> int:
    """About how many reductions a kernel in full form would accumulate in several vectors."""
    found = 0
    for stage in {m.stage for m in kernel.members}:
        members = [m for m in kernel.members if m.stage == stage]
        ops = [i.op for m in members for i in m.body.instrs if i.op not in _FREE]
        if len(ops) * LANES * widest <= FEW_LINES * LINE and _LONG.isdisjoint(ops):
            rows = [m.body for m in members if m.role in _ALONG]
            merges = [i.attrs[0] for b in rows for i in b.instrs if i.op == "reduction"]
            found += len(merges) + merges.count("welford")  # which reads a row twice
    return found


def _fetches(kernel: Kernel, itemsizes: Sequence[int], reduces: bool) -> int:
    """About how many of the arrays a kernel in full form would fetch ahead."""
    if reduces:
        return int(kernel.numel * max(itemsizes, default=0) >= FAR_BYTES)
    long = math.prod(kernel.along) if kernel.split is not None else kernel.numel
    large = kernel.numel * sum(itemsizes) >= LEAST_BYTES
    return len(itemsizes) if large and long >= AHEAD else 0


def plain(costs: Sequence[Cost], rest: float) -> list[bool]:
    """For each kernel of a block whether it is plain; all else takes `rest` nanoseconds."""
    statements: dict[Hashable, int] = {}
    lost: dict[Hashable, float] = {}
    for cost in costs:
        statements[cost.alike] = cost.statements
        lost[cost.alike] = lost.get(cost.alike, 0.0) + cost.lost
    left = SHARE * sum((cost.nanoseconds for cost in costs), rest)
    chosen: set[Hashable] = set()
    for alike in sorted(lost, key=lambda k: lost[k] / max(statements[k], 1)):
        if lost[alike] <= left:
            left -= lost[alike]
            chosen.add(alike)
    return [cost.alike in chosen for cost in costs]
