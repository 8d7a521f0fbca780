"""Small kernels that do not need one another, in one launch.

Input: what a program launches and calls, in order.  Output: the same with small kernels, such as
those that add up the pieces of split sums, gathered into groups; and the function of such a group.
A kernel of this kind takes less time than its launch, and nothing waits for it soon: it is put off
until something touches what it reads or writes, and what is put off by then goes together.  Each
kernel of a group has its own programs, which do what they did alone, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stax.backends.triton.kernel import KernelSource, Scratch
from stax.schedule.fusion import CallStep

MOST_BYTES = 2**20  # that kernels which are put off touch, and so keep in memory
MOST_PROGRAMS = 1024  # of a kernel that is put off
MOST_KERNELS = 8  # in one launch
MOST_HELD = 32  # kernels that are put off


@dataclass(eq=False)
class Issue:
    """A kernel to be launched or a call, with the memory that it touches.

    Attributes:
      work: the names of a kernel's work spaces, each with its bytes; they are among `writes`.
      nbytes: of all that it touches.
      plain: whether it is a kernel that may share a launch.
    """

    item: KernelSource | CallStep
    reads: set[str]
    writes: set[str]
    work: dict[str, int] = field(default_factory=dict)
    nbytes: int = 0
    plain: bool = False

    def meets(self, other: Issue) -> bool:
        """Whether one of them touches what the other one writes."""
        if not self.writes.isdisjoint(other.reads | other.writes):
            return True
        return not self.reads.isdisjoint(other.writes)

    @property
    def small(self) -> bool:
        """Whether it may be put off."""
        source = self.item
        if not self.plain or isinstance(source, CallStep) or source.checks:
            return False
        if any(s.zeroed for s in source.scratch):
            return False
        return self.nbytes <= MOST_BYTES and source.grid <= MOST_PROGRAMS


def gathered(issues: Sequence[Issue]) -> list[list[Issue]]:
    """The issues in groups, of which each is one launch or one call."""
    found: list[list[Issue]] = []
    held: list[Issue] = []

    def release() -> None:
        """Those that need no other, in the order in which they came."""
        ready: list[Issue] = []
        rest: list[Issue] = []
        for own in held:
            waits = len(ready) == MOST_KERNELS or any(own.meets(o) for o in (*ready, *rest))
            (rest if waits else ready).append(own)
        found.append(ready)
        held[:] = rest

    for own in issues:
        if not own.small:
            while any(own.meets(o) for o in held):
                release()
            found.append([own])
            continue
        while len(held) == MOST_HELD or own.nbytes + sum(o.nbytes for o in held) > MOST_BYTES:
            release()
        held.append(own)
    while held:
        release()
    return found


def in_one_launch(parts: Sequence[KernelSource]) -> KernelSource:
    """One function that gives each of its programs to one of several."""
    if len(parts) == 1:
        return parts[0]
    lines = ["    place = tl.program_id(0)"]
    parameters = [name for part in parts for name in part.parameters]
    pointers: dict[str, str] = {}
    spaces: list[Scratch] = []
    functions: dict[str, None] = {}
    start = 0
    for n, part in enumerate(parts):
        kinds = list(part.types.values())
        given = [f"p{len(pointers) + k}" for k in range(len(part.parameters))]
        pointers.update(zip(given, kinds, strict=False))
        for space in part.scratch:
            given.append(f"work{len(spaces)}")
            spaces.append(Scratch(given[-1], space.type, space.nbytes))
        functions.update(dict.fromkeys(part.merges))
        body = part.body.replace("tl.program_id(0)", "place")
        name = f"part_{part.key}"
        head = f"@triton.jit\ndef {name}({', '.join(['place', *part.types])}):"
        functions[f"{head}\n{body}\n"] = None
        test = f"{'elif' if n else 'if'} place < {start + part.grid}"
        lines.append(f"    {test if n < len(parts) - 1 else 'else'}:")
        lines.append(f"        {name}({', '.join([f'place - {start}', *given])})")
        start += part.grid

    def smaller(shrink: int) -> KernelSource:
        return in_one_launch([p if p.again is None else p.again(shrink) for p in parts])

    return KernelSource(
        "_".join(p.name for p in parts),
        tuple(parameters),
        frozenset(n for p in parts for n in p.written),
        pointers | {s.name: s.type for s in spaces},
        "\n".join(lines),
        start,
        max(p.warps for p in parts),
        scratch=tuple(spaces),
        merges=tuple(functions),
        again=smaller,
        parts=tuple(parts),
    )
