"""Which steps of a program write and read each buffer.

Input: the steps in order, the outputs, and which buffers share memory.  Output: what has to be in
memory, for how long, and which steps are better left to the thread that runs the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stax.schedule.attention import Attention
from stax.schedule.fusion import Scheduled
from stax.schedule.kernel import Kernel, Role
from stax.schedule.memory import Lifetime


class Uses:
    """Which steps write and read each buffer."""

    def __init__(
        self,
        order: Sequence[Scheduled],
        outputs: Sequence[str],
        base: Mapping[str, str],
        holder: Mapping[str, str],
    ) -> None:
        self.order = order
        self.outputs = set(outputs)
        self.holder = holder
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.writers: dict[str, set[int]] = {}
        self.readers: dict[str, set[int]] = {}
        # Written by calls, scans and scatters, which need every result in memory.
        self.called: set[str] = set()
        for step, item in enumerate(order):
            reads, writes = item.accesses
            if isinstance(item, Attention):
                self.called.update(item.kept)
            elif not isinstance(item, Kernel) or item.members[0].role is Role.SERIAL:
                self.called.update(writes)
            for name in writes:
                self.first.setdefault(name, step)
                self.writers.setdefault(name, set()).add(step)
                self.last[name] = step
            for name in reads:
                self.readers.setdefault(name, set()).add(step)
                self.last[name] = step
        for target, source in base.items():
            step = self.first[target]
            self.readers.setdefault(source, set()).add(step)
            self.last[source] = max(self.last.get(source, step), step)
        for name, owner in holder.items():
            if name in self.first:
                self.first[owner] = min(self.first.get(owner, len(order)), self.first[name])
                self.last[owner] = max(self.last.get(owner, 0), self.last[name])

    def escapes(self, name: str, step: int) -> bool:
        """True when something outside step `step` needs the buffer in memory."""
        if name in self.outputs or self.writers.get(name) != {step}:
            return True
        return bool(self.readers.get(name, set()) - {step})

    def in_memory(self, name: str) -> bool:
        """True when the buffer exists in memory at all."""
        steps = self.writers.get(name, set())
        return any(self.escapes(name, s) for s in steps)

    def lifetimes(self, nbytes: Callable[[str], int], names: Sequence[str]) -> list[Lifetime]:
        """Lifetimes of the temporaries."""
        return [Lifetime(n, nbytes(n), self.first[n], self.last[n]) for n in names]

    def fills_for_updates(self, item: Scheduled, step: int, owned: Callable[[int], bool]) -> bool:
        """True for a kernel that only fills an array which as many updates in order then change.

        Those run on one thread, unless their step is `owned`: what another one has filled lies in
        the cache of its core, and bringing it from there takes longer than filling it here.
        """
        if not isinstance(item, Kernel) or item.reads:
            return False
        later = [
            self.order[k] for n in item.stored for k in self.writers[n] if k > step and not owned(k)
        ]
        return any(
            isinstance(other, Kernel)
            and other.members[0].role is Role.SERIAL
            and other.numel >= item.numel
            for other in later
        )
