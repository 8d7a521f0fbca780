"""Fusion: which bodies share a loop nest.

Input: the steps of a program in order, each a loop body or an opaque call (matrix product,
fallback) with the buffers it reads and writes.  Output: the same work as kernels and calls in an
order that respects every dependence.  A body joins the kernel with which it shares most bytes of
memory traffic, at or after the last step it depends on, when its loops fit the kernel's space and
every value it takes from the kernel is taken at the point where it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from stax.loops.body import Body, extent, runs_down_columns
from stax.loops.layout import preferred_order
from stax.loops.symbolic import Symbol, affine_coefficients
from stax.schedule.kernel import (
    Kernel,
    Member,
    Role,
    access_of,
    common_refinement,
    cut_at,
    mapped_indexes,
    without_trivial_merges,
)
from stax.schedule.unroll import written_out


@dataclass(frozen=True)
class FusionOptions:
    """Limits of a kernel."""

    max_instrs: int = 600
    max_buffers: int = 48
    window: int = 24  # how many kernels back a body looks for a partner
    tiny_numel: int = 512  # kernels up to this size are merged even when they share nothing
    row_scratch: int = 256 * 1024  # bytes of one row kept between stages
    mixed: bool = True  # whether reductions over different loops share a kernel
    # Without `mixed`, a reduction to one number is the only row of its kernel: what is computed
    # from the number joins it, and work along the row does up to this many points.
    whole_numel: int = 8192
    # A body does not move more than `near` steps ahead when that holds more bytes than this.
    near: int = 3
    hold_bytes: int = 32 * 1024
    # Whether the last reader of a value, which may move ahead for the value's sake, stays behind
    # the reader before it: the value lives until then anyway.  Ahead of it the last reader may
    # find kernels that it and all that reads its result can join, and then nothing is stored.
    waits: bool = False
    write_out: bool = True  # whether short loops over results that share work are written out


ON_DEVICE = FusionOptions(max_instrs=400, row_scratch=1 << 62, mixed=False, write_out=False)


def compact(options: FusionOptions) -> FusionOptions:
    """The limits where memory is short: hardly anything is computed ahead of its readers."""
    return replace(options, near=1, hold_bytes=1024, waits=True)


@dataclass(eq=False)
class LoopStep:
    """A loop body that writes buffers."""

    body: Body


@dataclass(eq=False)
class CallStep:
    """An opaque step, run by the program: a matrix product or a fallback."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def accesses(self) -> tuple[Sequence[str], Sequence[str]]:
        """The buffers that the step reads and those that it writes."""
        return self.reads, self.writes


Step = LoopStep | CallStep
Scheduled = Kernel | CallStep


def fuse(
    steps: Sequence[Step],
    nbytes: Callable[[str], int],
    options: FusionOptions = FusionOptions(),
    enabled: bool = True,
    outputs: Collection[str] = (),
) -> list[Scheduled]:
    """Group the steps; `nbytes(buffer)` is the size of a buffer, `outputs` have memory anyway."""
    order: list[Scheduled] = []
    made_at: dict[str, int] = {}
    read_at: dict[str, int] = {}  # the last place so far
    readers: dict[str, list[int]] = {}
    last_reader = _last_readers(steps)
    count = 0
    for number, step in enumerate(steps):
        if isinstance(step, CallStep):
            for name in step.writes:
                made_at[name] = len(order)
            read_at.update(dict.fromkeys(step.reads, len(order)))
            order.append(step)
            continue
        body = without_trivial_merges(step.body)
        serial = _is_serial(body)
        if not serial:
            body = _in_memory_order(body)
        reads = [a.buffer for a in body.reads]
        writes = [a.buffer for a in body.writes]
        earliest = max((made_at[b] for b in (*reads, *writes) if b in made_at), default=0)
        place = -1
        parts = written_out(body) if enabled and options.write_out else [body]
        if enabled and not serial:
            # Computing something early keeps it in memory until it is read, but may be the last
            # that something else was kept for: recomputations stay late, reductions move ahead.
            held = sum(nbytes(n) for n in writes if n not in outputs)
            ended = [n for n in set(reads) if n in made_at and last_reader[n] == number]
            late = len(order) - options.near
            gained = 0  # the place from which on what ends with it makes up for what it writes
            for name in sorted(ended, key=lambda n: read_at.get(n, 0)):
                if held > options.hold_bytes:
                    held -= nbytes(name)
                    gained = read_at.get(name, 0)
            if held > options.hold_bytes:
                earliest = max(earliest, late)
            elif options.waits:
                earliest = max(earliest, min(gained, late))
            place = _best_place(parts, reads, order, earliest, readers, nbytes, options)
        if place < 0:
            place = len(order)
            alone = serial if parts[0] is body else _is_serial(parts[0])
            order.append(_seed(f"kernel{count}", parts, options, alone))
            count += 1
        for name in writes:
            made_at[name] = place
        for name in reads:
            read_at[name] = max(read_at.get(name, 0), place)
            users = readers.setdefault(name, [])
            if not users or users[-1] != place:
                users.append(place)
    return order


def _last_readers(steps: Sequence[Step]) -> dict[str, int]:
    """The last step that reads each buffer."""
    found: dict[str, int] = {}
    for number, step in enumerate(steps):
        names = step.reads if isinstance(step, CallStep) else [a.buffer for a in step.body.reads]
        found.update((name, number) for name in names)
    return found


def _best_place(
    parts: list[Body],
    reads: list[str],
    order: list[Scheduled],
    earliest: int,
    readers: dict[str, list[int]],
    nbytes: Callable[[str], int],
    options: FusionOptions,
) -> int:
    """The position of the kernel that all `parts` join (they are added to it), or -1."""
    low = max(earliest, len(order) - options.window)
    places: dict[int, int] = {}
    distinct = set(reads)
    for name in distinct:
        size = nbytes(name)
        for place in readers.get(name, ())[-options.window :]:
            if place >= low:
                places[place] = places.get(place, 0) + size
    for place in range(low, len(order)):
        kernel = order[place]
        if isinstance(kernel, Kernel):
            made = distinct & kernel.writers.keys()
            shared = sum(map(nbytes, made)) if made else 0
            if shared:
                places[place] = places.get(place, 0) + 2 * shared
            elif place not in places and kernel.numel <= options.tiny_numel:
                places[place] = 1
    for place in sorted(places, key=lambda p: (-places[p], p)):
        kernel = order[place]
        if isinstance(kernel, Kernel) and try_join(kernel, parts, nbytes, options):
            return place
    return -1


def _is_serial(body: Body) -> bool:
    """Whether the order of iterations shows: scans, accumulating, computed and masked writes.

    A write under a mask leaves memory as it was, so its value cannot stand for what is read there.
    """
    if "scan" in body.operations:
        return True
    if any(i.op == "store" and len(i.args) > 1 for i in reversed(body.instrs)):
        return True
    return not _has_independent_points(body)


def _has_independent_points(body: Body) -> bool:
    """Whether different points of ``body.loops`` write different elements and nothing else."""
    for access in body.writes:
        if access.mode != "set":
            return False
        found = affine_coefficients(access.index, body.loops)
        if found is None or not access.index.symbols <= set(body.loops + body.reduction_loops):
            return False
        steps = sorted((abs(found[s]), extent(s)) for s in body.loops if extent(s) > 1)
        reach = 0
        for step, trips in steps:
            if step <= reach:
                return False
            reach += step * (trips - 1)
    return True


def _in_memory_order(body: Body) -> Body:
    """A pointwise body with its loops in the order in which most accesses are contiguous."""
    loops = body.loops
    if len(loops) < 2 or body.reduction_loops:
        return body
    votes = []
    for access in body.accesses:
        found = affine_coefficients(access.index, loops)
        if found is not None:
            # A write is worth as much as two reads: it also fetches the line it writes to.
            votes += [[found[s] for s in loops]] * (1 if access.mode == "read" else 2)
    order = preferred_order(votes, body.ranges)
    if order == tuple(range(len(loops))):
        return body
    return replace(body, loops=tuple(loops[k] for k in order))


def _numel(symbols: Sequence[Symbol]) -> int:
    return math.prod(int(s.hi) + 1 for s in symbols)


def _extents(symbols: Sequence[Symbol]) -> tuple[int, ...]:
    return tuple(int(s.hi) + 1 for s in symbols)


def _seed(name: str, parts: Sequence[Body], options: FusionOptions, serial: bool) -> Kernel:
    """A kernel of this one body, given in parts that have the same loops."""
    body = parts[0]
    loops, inner = body.loops, body.reduction_loops
    if serial:
        dims = (*loops, *(s for s in inner if s not in loops))
        kernel = Kernel(name, _extents(dims), None)
        role = Role.SERIAL
    elif not inner:
        kernel = Kernel(name, _extents(loops), None)
        role, dims = Role.FULL, loops
    elif not loops:
        role, dims = (Role.ALL, inner) if options.mixed else (Role.ROW, inner)
        kernel = Kernel(name, _extents(inner), None if options.mixed else 0)
    elif runs_down_columns(body):
        kernel = Kernel(name, _extents((*inner, *loops)), len(inner))
        role, dims = Role.COLUMN, (*inner, *loops)
    else:
        kernel = Kernel(name, _extents((*loops, *inner)), len(loops))
        role, dims = Role.ROW, (*loops, *inner)
    for part in parts:
        member = Member(part, role, dims)
        member.indexes = mapped_indexes(member, kernel.space, kernel.split)
        kernel.add(member, partial=len(parts) > 1)
    return kernel


def try_join(
    kernel: Kernel, parts: Sequence[Body], nbytes: Callable[[str], int], options: FusionOptions
) -> bool:
    """Add a body, given in parts, to `kernel` if its loops and what it reads there allow it."""
    if kernel.members[0].role is Role.SERIAL:
        return False
    if kernel.size + sum(len(part.instrs) for part in parts) > options.max_instrs:
        return False
    body = parts[0]
    if any(a.buffer in kernel.writers for a in body.writes):
        return False  # a later write to the same memory stays later
    names = {a.buffer for part in parts for a in part.accesses}
    if len(kernel.reads | kernel.writers.keys() | names) > options.max_buffers:
        return False
    for role, dims, split_at in _fits(kernel, body, options):
        if _join_as(kernel, parts, role, dims, split_at, nbytes, options):
            return True
    return False


def _fits(
    kernel: Kernel, body: Body, options: FusionOptions
) -> list[tuple[Role, tuple[Symbol, ...], int | None]]:
    """Roles the body could play: its loops in space order, and where it wants the split."""
    loops, inner = body.loops, body.reduction_loops
    total = kernel.numel
    if not inner:
        if _numel(loops) == total:
            # With a split and nothing along the row the two roles coincide; FULL comes first.
            return [(Role.FULL, loops, None)]
        return [(Role.OUTER, loops, _numel(loops))]
    if _numel(loops) * _numel(inner) != total:
        return []
    if not loops or _numel(loops) == 1:
        return [(Role.ALL, inner, None) if options.mixed else (Role.ROW, (*loops, *inner), 1)]
    if runs_down_columns(body):
        return [
            (Role.COLUMN, (*inner, *loops), _numel(inner)),
            (Role.ROW, (*loops, *inner), _numel(loops)),
        ]
    return [
        (Role.ROW, (*loops, *inner), _numel(loops)),
        (Role.COLUMN, (*inner, *loops), _numel(inner)),
    ]


def _join_as(
    kernel: Kernel,
    parts: Sequence[Body],
    role: Role,
    dims: tuple[Symbol, ...],
    split_numel: int | None,
    nbytes: Callable[[str], int],
    options: FusionOptions,
) -> bool:
    if not options.mixed and not _alike(kernel, role, split_numel, options):
        return False
    before = kernel.space, kernel.split
    placed = _placed(kernel, role, dims, split_numel)
    if placed is None:
        return False
    kernel.refine(*placed)
    members = [Member(part, role, dims) for part in parts]
    for member in members:
        member.indexes = mapped_indexes(member, kernel.space, kernel.split)
        stage = _stage(kernel, member)
        if stage is None or not _rows_fit(kernel, member, stage, nbytes, options):
            kernel.refine(*before)
            return False
        member.stage = stage
    for member in members:
        kernel.add(member, partial=len(parts) > 1)
    return True


def _alike(kernel: Kernel, role: Role, rows: int | None, options: FusionOptions) -> bool:
    """Whether all reductions of the kernel run over the same loops, and enough of it in parallel.

    The blocks of a device share nothing: a kernel has one division into blocks, which no
    reduction may cross.
    """
    roles = {role, *(m.role for m in kernel.members)}
    if len(roles & {Role.ROW, Role.COLUMN}) > 1:
        return False
    one_row = kernel.split is not None and math.prod(kernel.rows) == 1
    if role is Role.ROW and kernel.split is None:
        one_row = rows == 1
    return role is Role.OUTER or not one_row or kernel.numel <= options.whole_numel


def _placed(
    kernel: Kernel, role: Role, dims: tuple[Symbol, ...], split_numel: int | None
) -> tuple[tuple[int, ...], int | None] | None:
    """The space and split under which the dims fit, or None."""
    space, split = kernel.space, kernel.split
    rows = math.prod(space[:split]) if split is not None else None
    if split_numel is not None and rows is not None and rows != split_numel:
        return None
    extents = _extents(dims)
    if role is Role.OUTER:
        if rows is None:
            if split_numel is None or (split_numel <= 1 and kernel.numel > 1):
                return None
            cut = cut_at(space, split_numel)
            if cut is None:
                return None
            space, split = cut
        refined = common_refinement(space[:split], extents)
        if refined is None:
            return None
        return (*refined, *space[split:]), len(refined)
    refined_all = common_refinement(space, extents)
    if refined_all is None:
        return None
    wanted = rows if rows is not None else split_numel
    if wanted is None:
        return refined_all, None
    return cut_at(refined_all, wanted)


def _stage(kernel: Kernel, member: Member) -> int | None:
    """The first stage at which everything `member` takes from the kernel is known, or None."""
    inner = member.role is not Role.OUTER
    stage = 0 if inner else -1
    for access in member.body.reads:
        maker = kernel.writers.get(access.buffer)
        if maker is None:
            continue
        if maker.role in (Role.COLUMN, Role.ALL) or access.buffer in kernel.partial:
            return None
        if maker.role is Role.FULL and not inner:
            return None
        written = access_of(maker, access.buffer, "store")
        if any(e is not written[0] for e in access_of(member, access.buffer, "load")):
            return None
        if maker.role is Role.ROW:
            known = maker.stage + 1
        else:
            known = maker.stage
        if inner and known % 2:
            known += 1
        if not inner and known % 2 == 0:
            known += 1
        stage = max(stage, known)
    return stage


def _rows_fit(
    kernel: Kernel,
    member: Member,
    stage: int,
    nbytes: Callable[[str], int],
    options: FusionOptions,
) -> bool:
    """A value kept along the row from one stage to a later one must fit the row scratch."""
    if kernel.split is None:
        return True
    rows = math.prod(kernel.rows)
    for access in member.body.reads:
        maker = kernel.writers.get(access.buffer)
        if maker is not None and maker.role is Role.FULL and maker.stage < stage:
            if nbytes(access.buffer) // max(rows, 1) > options.row_scratch:
                return False
    return True


def schedule_text(order: Sequence[Scheduled]) -> str:
    """The schedule, one kernel or call a paragraph."""
    lines = []
    for item in order:
        if isinstance(item, CallStep):
            lines.append(f"{item.name}: {', '.join(item.reads)} -> {', '.join(item.writes)}")
            continue
        rows, along = list(item.rows), list(item.along)
        lines.append(f"{item.name}: rows {rows} along {along}")
        for member in item.members:
            writes = ", ".join(member.writes)
            lines.append(f"  stage {member.stage} {member.role.value}: {writes}")
    return "\n".join(lines)
