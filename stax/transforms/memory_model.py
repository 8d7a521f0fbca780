"""A model of the memory that a program takes for a set of kept forward values.

Input: a graph's two parts, once; then sets of kept values.  Output: for each set the peak bytes and
the recomputed operations, without lowering anything.  The model follows what lowering and the
schedule do: what a single fusible reader takes is computed there, so its operands live on in its
place; work between two opaque calls shares kernels, in which what nobody else reads needs no
memory.  Scores exist as blocks of rows unless they are kept.  Equations are numbered once, so that
one set costs about two microseconds an equation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from stax.core.graph import Eqn, Graph, Var
from stax.core.primitive import Recompute
from stax.forked import cached_attribute
from stax.transforms.memory_sweep import Step, Sweep
from stax.transforms.partition import equation_cost
from stax.transforms.phases import Split, split_joint
from stax.transforms.scores import FUSIBLE, scores_of

ALIGNMENT: Final = 64  # of places in an arena
UNROLLED: Final = 4  # elements up to which a reduction is elementwise work
TINY: Final = 1024  # bytes

Kept = frozenset[Var]


@dataclass(frozen=True)
class Plan:
    """Kept forward values, and what the model says: peak bytes and recomputed operations."""

    kept: Kept
    peak: int
    work: int


class MemoryModel:
    """Peak bytes of a graph's program for a set of kept values, without lowering it."""

    def __init__(self, graph: Graph, split: Split) -> None:
        self.split = split
        free = {*graph.inputs, *(v for v, _ in graph.constants)}
        self.outputs = {a for a in graph.outputs if isinstance(a, Var)}
        self.number: dict[Var, int] = {}
        self.sizes: list[int] = []
        for eqn in (*split.forward, *split.backward):
            for var in eqn.outputs:
                if var not in self.number:
                    self.number[var] = len(self.sizes)
                    self.sizes.append(var.aval.nbytes)
        self.count = len(self.sizes)
        self.sizes += self.sizes  # the values computed again
        self.places = [-(-n // ALIGNMENT) * ALIGNMENT for n in self.sizes]  # in an arena
        self.output_bytes = sum(v.aval.nbytes for v in self.outputs if v not in free)
        self.final = {self.number[v] for v in self.outputs if v in self.number}
        self.returned = [k in self.final for k in range(2 * self.count)]
        self.forward = [self._step(e) for e in split.forward]
        self.backward = [self._step(e) for e in split.backward]
        # The forward equations again; a result that is kept although they do is not made twice.
        self.repeated = [
            s._replace(writes=tuple(k + self.count for k in s.writes)) for s in self.forward
        ]
        self.costs = [equation_cost(e) for e in split.forward]
        self.size = len(self.forward) + len(self.backward)
        made = {k: j for j, s in enumerate(self.forward) for k in s.writes}
        self.producer = made
        self.kept_anyway = [k for k in self.final if k in made]
        # The backward equations that read forward values, and readers within the same part.
        self.sites = [
            (j, tuple(k for k in s.reads if k in made)) for j, s in enumerate(self.backward)
        ]
        self.sites = [(j, reads) for j, reads in self.sites if reads]
        self._blocks()
        late = Counter(k for _, reads in self.sites for k in reads)
        self.opaque = {
            k
            for j, reads in self.sites
            for k in self.opaque_reads[j + len(self.forward)]
            if k in reads
        }
        self.read_late = [(k, count, k in self.opaque) for k, count in late.items()]
        self.forward_views = self._views(self.forward)
        self.backward_views = self._views(self.backward)
        self.readers = [0] * (2 * self.count)
        self.unfused = [False] * (2 * self.count)
        for j, step in enumerate((*self.forward, *self.backward)):
            early = j < len(self.forward)
            for k in step.reads:
                self.readers[k] += early or k not in made
            for k in self.opaque_reads[j]:
                if early or k not in made:
                    self.unfused[k] = True

    def _blocks(self) -> None:
        """Find the matrices of scores, which exist as blocks of rows where nothing else reads them,
        and for each equation what it reads from memory."""
        eqns = (*self.split.forward, *self.split.backward)
        scores = scores_of(eqns)
        steps = (*self.forward, *self.backward)
        whole = set(self.final)
        made = {v: eqn for eqn in eqns for v in eqn.outputs}
        for eqn in eqns:
            for atom in eqn.inputs:
                if isinstance(atom, Var) and atom in scores.matrices:
                    if not scores.fuses(made[atom], eqn):
                        whole.add(self.number[atom])
        n = self.count
        tiles = {self.number[v] for v in scores.matrices} - whole
        self.tiles = [k % n in tiles for k in range(2 * n)]
        self.opaque_reads = [
            tuple(k for k in step.reads if not self.tiles[k]) if step.opaque else ()
            for step in steps
        ]

    def _step(self, eqn: Eqn) -> Step:
        kind = eqn.prim.recompute
        reads = dict.fromkeys(
            self.number[a] for a in eqn.inputs if isinstance(a, Var) and a in self.number
        )
        rows = max((v.aval.size for v in eqn.outputs), default=0)
        space = rows
        late = unrolled = False
        if kind is Recompute.REDUCTION:
            space = max((a.aval.size for a in eqn.inputs), default=0)
            axes, rank = eqn.params.get("axes"), len(eqn.inputs[0].shape)
            if axes is not None:
                unrolled = space <= UNROLLED * rows
                late = not unrolled and (
                    len(axes) == rank or min(axes, default=rank) < rank - len(axes)
                )
        return Step(
            tuple(reads),
            tuple(self.number[v] for v in eqn.outputs),
            kind not in FUSIBLE,
            kind is Recompute.VIEW,
            kind is Recompute.CHEAP or unrolled,
            late,
            kind in FUSIBLE and all(v.aval.nbytes <= TINY for v in eqn.outputs),
            equation_cost(eqn) // max(rows, 1),
            rows if unrolled else space,
            inner_bytes(eqn),
            rows,
            len({a for a in eqn.inputs if isinstance(a, Var) and a not in self.number}),
        )

    @staticmethod
    def _views(steps: Sequence[Step]) -> list[tuple[int, int]]:
        """Views and what they look at, the last first."""
        return [(s.writes[0], s.reads[0]) for s in reversed(steps) if s.view and s.reads]

    def plan(self, kept: Iterable[Var]) -> Plan:
        """The figures of a set of kept values."""
        return self.run(kept).plan

    def run(self, kept: Iterable[Var]) -> Run:
        """The figures of a set of kept values, and the lifetimes they come from."""
        kept = frozenset(kept)
        shift = self._shift(kept)
        groups = self._again(shift)
        again = {j for _, group in groups for j in group}
        work = sum(self.costs[j] for j in again)
        sweep, ends, turn, order, kernels = self._sweep(shift, groups)
        alive = [a + self.output_bytes for a in sweep.alive(self.places)]
        plan = Plan(kept, max(alive), work)
        return Run(plan, alive, again, sweep.first, sweep.last, ends, turn, order, kernels)

    def _shift(self, kept: Iterable[Var]) -> list[int]:
        """What is added to the number of a value that the backward part reads."""
        shift = [0] * self.count
        n = self.count
        for k in self.producer:
            shift[k] = n
        number = self.number
        for var in kept:
            if var in number:
                shift[number[var]] = 0
        for k in self.kept_anyway:
            shift[k] = 0
        return shift

    def _again(self, shift: Sequence[int]) -> list[tuple[int, list[int]]]:
        """For backward equations, the forward equations computed again just before each."""
        bound = [not s for s in shift]
        forward, producer = self.forward, self.producer
        found: list[tuple[int, list[int]]] = []
        for j, reads in self.sites:
            group: list[int] = []
            pending = [k for k in reads if not bound[k]]
            pending.reverse()
            while pending:
                k = pending[-1]
                if bound[k]:
                    pending.pop()
                    continue
                made = producer[k]
                step = forward[made]
                missing = [i for i in step.reads if not bound[i]]
                if missing:
                    pending.extend(reversed(missing))
                    continue
                pending.pop()
                group.append(made)
                for i in step.writes:
                    bound[i] = True
            if group:
                found.append((j, group))
        return found

    def is_stored_again(self, k: int, readers: int) -> bool:
        """Whether a value that is computed again for so many readers takes memory."""
        step = self.forward[self.producer[k]]
        if self.tiles[k] or step.view:
            return False
        return not (step.cheap and readers <= 1 and k not in self.opaque)

    def times(self) -> Times:
        """When values are read, and what is alive whatever is kept."""
        forward = Sweep(
            self.count, self.readers.copy(), self.unfused.copy(), self.returned, self.tiles
        )
        forward.follow(self.forward)
        sweep = Sweep(self.count, [2] * self.count, self.unfused.copy(), self.returned, self.tiles)
        sweep.follow(self.forward)
        start = sweep.now + 1
        sweep.now = start
        sweep.readers = self.readers
        sites: dict[int, list[int]] = {}
        for step, at in zip(self.backward, sweep.follow(self.backward), strict=True):
            for k in step.reads:
                if k in self.producer:
                    sites.setdefault(k, []).append(max(at - start, 0))
        ends = {k: t for k, t in forward.last.items() if k in self.producer}
        early = forward.alive(self.places)
        late = sweep.alive(self.places, set(self.producer))[start:]
        return Times(
            [n + self.output_bytes for n in early],
            [n + self.output_bytes for n in late],
            ends,
            {k: sorted(set(ts)) for k, ts in sites.items()},
        )

    def _sweep(
        self, shift: Sequence[int], groups: Sequence[tuple[int, list[int]]]
    ) -> tuple[Sweep, dict[int, int], int, list[Step], list[int]]:
        """The lifetimes, those of the forward part, the kernel where it ends, and what follows."""
        n = self.count
        readers, unfused = self.readers.copy(), self.unfused.copy()
        tiles = self.tiles
        for k, count, opaque in self.read_late:
            if opaque or (tiles[k] and not shift[k]):
                unfused[k + shift[k]] = True
            readers[k + shift[k]] += count
        for _, group in groups:
            for j in group:
                for k in self.forward[j].reads:
                    if tiles[k] and not shift[k]:
                        unfused[k] = True
                    readers[k + shift[k]] += 1
                for k in self.opaque_reads[j]:
                    unfused[k + shift[k]] = True
        # Who reads a view reads what it looks at.
        for pairs, moved in ((self.backward_views, True), (self.forward_views, False)):
            for view, base in pairs:
                if moved:
                    base += shift[base]
                elif readers[view + n]:
                    other = base + shift[base]
                    readers[other] += readers[view + n] - 1
                    unfused[other] = unfused[other] or unfused[view + n]
                if readers[view]:
                    readers[base] += readers[view] - 1
                    unfused[base] = unfused[base] or unfused[view]
        sweep = Sweep(2 * n, readers, unfused, self.returned, tiles)
        sweep.follow(self.forward)
        ends, turn = sweep.last.copy(), sweep.now
        order: list[Step] = []
        at = 0
        for j, group in groups:
            order += self.backward[at:j]
            order += [self.repeated[i] for i in group]
            at = j
        order += self.backward[at:]
        kernels = sweep.follow(order, shift)
        return sweep, ends, turn, order, kernels


@dataclass(frozen=True)
class Run:
    """A plan and what the model followed: bytes alive at each kernel, and lives of values.

    `again` are the forward equations that run twice; `first` and `last` the kernels between which a
    stored value lives, `ends` the same as `last` when the forward part ends, with kernel `turn`;
    `order` and `kernels` what runs in the backward part and where its operands are read.
    """

    plan: Plan
    alive: list[int]
    again: set[int]
    first: dict[int, int]
    last: dict[int, int]
    ends: dict[int, int]
    turn: int
    order: list[Step]
    kernels: list[int]

    @cached_attribute
    def reads(self) -> dict[int, int]:
        """The kernel that first reads a value in the backward part."""
        found: dict[int, int] = {}
        for step, kernel in zip(reversed(self.order), reversed(self.kernels), strict=True):
            for k in step.reads:
                found[k] = kernel
        return found

    def excess(self, limit: int) -> int:
        """Bytes above a limit, summed over the kernels."""
        return sum([a - limit for a in self.alive if a > limit])

    def room(self, limit: int) -> Callable[[int | None, int | None], int]:
        """The bytes free between two kernels before and after the turn."""
        turn = min(self.turn, len(self.alive) - 1)
        before = list(accumulate(self.alive[turn::-1], max))
        after = list(accumulate(self.alive[turn:], max))

        def free(start: int | None, stop: int | None) -> int:
            early = 0 if start is None else before[min(max(turn - start - 1, 0), len(before) - 1)]
            late = 0 if stop is None else after[min(max(stop - turn - 1, 0), len(after) - 1)]
            return limit - max(early, late)

        return free


@dataclass(frozen=True, slots=True)
class Times:
    """When things happen, in kernels: of the forward part, then counted anew of the backward part.

    `forward` and `backward` are the bytes alive whatever is kept, results included; `ends` has the
    last reader of each forward value in the forward part, `sites` its readers in the backward part.
    """

    forward: list[int]
    backward: list[int]
    ends: dict[int, int]
    sites: dict[int, list[int]]


def inner_bytes(eqn: Eqn) -> int:
    """What a loop or branch needs while it runs: its bodies' values, and the states of a chain."""
    params = eqn.params
    graphs = [p for p in params.values() if isinstance(p, Graph)]
    for p in params.values():
        if isinstance(p, tuple):
            graphs += [g for g in p if isinstance(g, Graph)]
    if not graphs:
        return 0
    total = max(map(program_bytes, graphs))
    if "slots" in params and "states" in params:
        first = 1 + params["consts"]
        states = eqn.inputs[first : first + params["states"]]
        total += (params["slots"] + 1) * sum(a.aval.nbytes for a in states)
    return total


def program_bytes(graph: Graph) -> int:
    """Bytes of the temporaries and results of a graph that is run as it is."""
    found: int | None = graph.cache.get("bytes")
    if found is None:
        split = split_joint(graph)
        everything = (v for eqn in split.forward for v in eqn.outputs)
        found = graph.cache["bytes"] = MemoryModel(graph, split).plan(everything).peak
    return found
