"""Small kernels that do not need one another, in one launch.

Input: the steps of a program.  Output: the same with small kernels, such as those that add up the
pieces of split sums, gathered into groups; and the function of such a group.  A kernel of this kind
takes less time than its launch, and nothing waits for it soon: it is put off until something
touches what it reads or writes, and what is put off by then goes together.  Each kernel of a group
has its own programs, which do what they did alone, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stax.backends.triton.epilogue import Joined, Step, reads_of, writes_of
from stax.backends.triton.kernel import KernelSource
from stax.loops.buffers import BufferTable
from stax.schedule.kernel import Kernel, Role

MOST_BYTES = 2**20  # that kernels which are put off touch, and so keep in memory
MOST_POINTS = 2**18  # of a kernel that takes no more time than a launch
MOST_KERNELS = 8  # in one launch
MOST_HELD = 32  # kernels that are put off


@dataclass(eq=False)
class Together:
    """Kernels of which none touches what another one writes."""

    kernels: list[Kernel]

    @property
    def reads(self) -> list[str]:
        """The buffers that they read."""
        return [n for k in self.kernels for n in reads_of(k)]

    @property
    def writes(self) -> list[str]:
        """The buffers that they write."""
        return [n for k in self.kernels for n in writes_of(k)]


class _Held:
    """A step with what it touches."""

    def __init__(self, step: Step | Joined, table: BufferTable) -> None:
        self.step = step
        self.reads, self.writes = set(reads_of(step)), set(writes_of(step))
        self.nbytes = sum(table[n].nbytes for n in self.reads | self.writes)

    def meets(self, other: _Held) -> bool:
        """Whether one of them touches what the other one writes."""
        if not self.writes.isdisjoint(other.reads | other.writes):
            return True
        return not self.reads.isdisjoint(other.writes)

    @property
    def small(self) -> Kernel | None:
        """The step, if it is a kernel that may be put off."""
        kernel = self.step
        if not isinstance(kernel, Kernel) or kernel.numel > MOST_POINTS or self.nbytes > MOST_BYTES:
            return None
        if any(m.role is Role.SERIAL for m in kernel.members):
            return None
        bodies = [i.op for m in kernel.members for i in m.body.instrs]
        return None if "check" in bodies else kernel


def together(steps: Sequence[Step | Joined], table: BufferTable) -> list[Step | Joined | Together]:
    """The steps with small kernels gathered."""
    found: list[Step | Joined | Together] = []
    held: list[tuple[_Held, Kernel]] = []

    def release() -> None:
        """Those that need no other, in the order in which they came."""
        ready: list[tuple[_Held, Kernel]] = []
        rest: list[tuple[_Held, Kernel]] = []
        for own in held:
            waits = len(ready) == MOST_KERNELS or any(own[0].meets(o) for o, _ in (*ready, *rest))
            (rest if waits else ready).append(own)
        kernels = [kernel for _, kernel in ready]
        found.append(Together(kernels) if len(kernels) > 1 else kernels[0])
        held[:] = rest

    for step in steps:
        own = _Held(step, table)
        kernel = own.small
        if kernel is None:
            while any(own.meets(o) for o, _ in held):
                release()
            found.append(step)
            continue
        while len(held) == MOST_HELD or own.nbytes + sum(o.nbytes for o, _ in held) > MOST_BYTES:
            release()
        held.append((own, kernel))
    while held:
        release()
    return found


def in_one_launch(made: Sequence[list[KernelSource]]) -> list[list[KernelSource]]:
    """The functions of kernels, given for each, with one in the place of those that can share a
    launch: it gives each of its programs to one of them."""
    alone = [own for own in made if len(own) > 1 or own[0].scratch or own[0].checks]
    parts = [own[0] for own in made if own not in alone]
    return [*alone, [_shared(parts)]] if len(parts) > 1 else list(made)


def _shared(parts: Sequence[KernelSource]) -> KernelSource:
    lines = ["    place = tl.program_id(0)"]
    parameters: list[str] = []
    types: dict[str, str] = {}
    functions: dict[str, None] = {}
    start = 0
    for n, part in enumerate(parts):
        name = f"part_{part.key}"
        given = [f"p{len(parameters) + k}" for k in range(len(part.parameters))]
        parameters += part.parameters
        types.update(zip(given, part.types.values(), strict=True))
        functions.update(dict.fromkeys(part.merges))
        body = part.body.replace("tl.program_id(0)", "place")
        head = f"@triton.jit\ndef {name}({', '.join(['place', *part.types])}):"
        functions[f"{head}\n{body}\n"] = None
        test = f"{'elif' if n else 'if'} place < {start + part.grid}"
        arguments = ", ".join([f"place - {start}", *given])
        lines.append(f"    {test if n < len(parts) - 1 else 'else'}:")
        lines.append(f"        {name}({arguments})")
        start += part.grid

    def smaller(shrink: int) -> KernelSource:
        less = [p if p.again is None else p.again(shrink) for p in parts]
        return whole if any(p.scratch for p in less) else _shared(less)

    whole = KernelSource(
        "_".join(p.name for p in parts),
        tuple(parameters),
        frozenset(n for p in parts for n in p.written),
        types,
        "\n".join(lines),
        start,
        max(p.warps for p in parts),
        merges=tuple(functions),
        again=smaller,
        parts=tuple(parts),
    )
    return whole
