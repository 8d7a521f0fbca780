"""The partition of a joint graph into forward and backward by a minimum cut.

Input: a graph whose derivative work is tagged backward.  Output: a `Partition`: which forward
values are saved, which are recomputed in the backward part, and the two graphs.  The save sets
that let the backward part run without redoing expensive work are exactly the finite cuts of a
flow network with one split vertex per forward value, so the cheapest is a minimum cut.  Inputs
and constants cost nothing: they live anyway.  What may be recomputed is data: the `recompute`
field of each operation's row, and the thresholds of `PartitionOptions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stax.core.graph import BACKWARD, Atom, Eqn, Graph, Var
from stax.core.primitive import Recompute
from stax.errors import ConfigurationError
from stax.transforms.effects import is_single, quiet_equation
from stax.transforms.maxflow import INFINITE, FlowNetwork
from stax.transforms.phases import Split
from stax.transforms.scores import FUSIBLE, Scores, scores_of
from stax.transforms.simplify import acts

BYTE: Final = 1 << 20  # the unit of capacities where operations have a price in bytes
LIGHT: Final = frozenset({Recompute.CHEAP, Recompute.VIEW})

# Why a value may not be recomputed, or must be saved.
NOT_CHEAP = "not cheap"
WRITTEN_ANYWAY = "written in backward anyway"
SHRINKS = "large reduction"
NEAR_AND_FAR = "read near and far"
CHAIN_END = "end of a fusible chain"


@dataclass(frozen=True)
class PartitionOptions:
    """The thresholds of the partition.

    Attributes:
      distance_base, distance_limit: a value `d` steps before its first backward reader costs
        `distance_base ** d` times its bytes, `d` between 1 and `distance_limit`.
      spill_factor: what saving a value costs that the forward part would not have written.
      reduction_ratio: a reduction is not recomputed when this many times its output is smaller
        than its input.
      chain_limit: fusible steps after which a value is saved.
      near_and_far: save a value that is read both inside a fusible chain and beyond its end.
      inputs_are_enough: a cheap function of inputs alone is recomputed from them even where a
        backward reader needs it in memory: it is not kept beside an input that lives anyway.
      free_bytes: values up to this size are kept without asking.
      save_everything: what the backward part reads is saved when there is no finite cut; an error
        otherwise.
      may_save: says whether a value may be saved at all; None allows every one.
    """

    distance_base: float = 1.1
    distance_limit: int = 100
    spill_factor: int = 2
    reduction_ratio: int = 4
    chain_limit: int = 30
    near_and_far: bool = True
    inputs_are_enough: bool = True
    free_bytes: int = 0
    save_everything: bool = True
    may_save: Callable[[Var, Eqn], bool] | None = None


@dataclass
class Value:
    """A forward value as the network sees it.

    `bytes` is its size, `distance` the steps to its first backward reader, `spill` the factor
    beta, `capacity` the cost of saving it, `ban` why it must not be recomputed (it is in U),
    `force` why it must be saved, `read` whether the backward part reads it (it is in B).
    """

    var: Var
    eqn: Eqn
    bytes: int
    distance: int
    spill: int
    capacity: int
    ban: str = ""
    force: str = ""
    read: bool = False


class Capacities(dict[Var, int]):
    """Capacities by value; a value's name works as well."""

    def __missing__(self, name: Any) -> int:
        for var, capacity in self.items():
            if var.name == name:
                return capacity
        raise KeyError(name)


@dataclass(frozen=True)
class Partition:
    """The decision for every forward value, and the two graphs that follow from it.

    Attributes:
      saved: values the forward part hands to the backward part, in the order of the forward.
      recomputed: forward values the backward part computes again.
      forward: primals -> forward outputs, then saved values.
      backward: saved values, needed primals, upstream gradients -> gradients.
      needed_primals: positions, among the primals, of the inputs the backward graph reads.
      capacities: cost of saving each forward value; `INFINITE` for a view, whose base is as good.
      cut_value: the value of the maximum flow (`INFINITE`: no finite cut, everything is saved).
      saved_bytes: bytes of the saved values.
      recompute_flops: operations the backward part spends on recomputation.
    """

    split: Split
    options: PartitionOptions
    values: tuple[Value, ...]
    saved: tuple[Var, ...]
    recomputed: tuple[Var, ...]
    forward: Graph
    backward: Graph
    needed_primals: tuple[int, ...]
    capacities: Capacities
    cut_value: int
    saved_bytes: int
    recompute_flops: int

    def network(self) -> Any:
        """The rematerialisation network as a `networkx.DiGraph`, to look at or to draw.

        Vertices are "s", "t" and (name, "in" | "out"); infinite edges have no capacity, which is
        networkx's convention.
        """
        import networkx  # not needed to partition, and slow to import

        graph = networkx.DiGraph()
        graph.add_nodes_from(["s", "t"])
        vertices: list[Any] = []
        for value in self.values:
            vertices += [(value.var.name, "in"), (value.var.name, "out")]
        vertices += ["s", "t"]
        for tail, head, capacity in network_edges(self.values):
            extra = {} if capacity >= INFINITE else {"capacity": capacity}
            graph.add_edge(vertices[tail], vertices[head], **extra)
        return graph

    def decisions(self) -> dict[Var, str]:
        """For each forward value, what happens to it and why."""
        saved, recomputed = frozenset(self.saved), frozenset(self.recomputed)
        finite = self.cut_value < INFINITE
        found: dict[Var, str] = {}
        for v in self.values:
            found[v.var] = "not needed by the backward part"
            if v.var in saved:
                free = v.bytes <= self.options.free_bytes
                why = v.force or ("small" if free else "on the minimum cut")
                found[v.var] = f"saved: {why if finite else 'no finite cut'}"
            elif v.var in recomputed:
                found[v.var] = "recomputed" if v.read else "recomputed on the way to a value read"
        return found

    def __str__(self) -> str:
        return partition_table(self)


def partition_table(partition: Partition) -> str:
    """The network as text: one line per forward value, and a summary."""
    header = ("value", "type", "line", "bytes", "d", "beta", "capacity", "U", "read", "decision")
    decisions = partition.decisions()
    rows = [header]
    for v in partition.values:
        source = v.eqn.source.replace("\\", "/").rsplit("/", 1)[-1]
        capacity = "inf" if v.capacity >= INFINITE else str(v.capacity)
        reads = "yes" if v.read else "-"
        numbers = (str(v.bytes), str(v.distance), str(v.spill), capacity)
        why_kept = v.ban or v.force or "-"
        name, aval = v.var.name or "?", str(v.var.aval)
        rows.append((name, aval, source or "-", *numbers, why_kept, reads, decisions[v.var]))
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
    right = {3, 4, 5, 6}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    flow = "infinite" if partition.cut_value >= INFINITE else str(partition.cut_value)
    lines.append("")
    lines.append(
        f"maximum flow {flow}; saved {len(partition.saved)} values, {partition.saved_bytes} bytes; "
        f"recomputed {len(partition.recomputed)} values, {partition.recompute_flops} operations"
    )
    return "\n".join(lines)


# --- the network --------------------------------------------------------------------------------


@dataclass
class _Readers:
    """Who reads each value, and which backward values are returned."""

    forward: dict[Var, list[int]] = field(default_factory=dict)
    backward: dict[Var, list[Eqn]] = field(default_factory=dict)
    forward_outputs: set[Var] = field(default_factory=set)
    gradient_outputs: set[Var] = field(default_factory=set)
    scores: Scores = field(default_factory=Scores)


def _readers(split: Split) -> _Readers:
    found = _Readers(scores=scores_of((*split.forward, *split.backward)))
    for k, eqn in enumerate(split.forward):
        for atom in set(eqn.inputs):
            if isinstance(atom, Var):
                found.forward.setdefault(atom, []).append(k)
    for eqn in split.backward:
        for atom in eqn.inputs:
            if isinstance(atom, Var):
                found.backward.setdefault(atom, []).append(eqn)
    found.forward_outputs = _vars(split.outputs(split.forward_outputs))
    found.gradient_outputs = _vars(split.outputs(split.gradient_outputs))
    return found


def _vars(atoms: Iterable[Atom]) -> set[Var]:
    return {a for a in atoms if isinstance(a, Var)}


def network_values(split: Split, options: PartitionOptions) -> tuple[Value, ...]:
    """Every forward value with its capacity and its place in the network."""
    readers = _readers(split)
    scores = readers.scores
    distance = _distances(split, readers)
    values: list[Value] = []
    for eqn in split.forward:
        kind = eqn.prim.recompute
        in_bytes = sum(a.aval.nbytes for a in eqn.inputs if isinstance(a, Var))
        for var in eqn.outputs:
            size = var.aval.nbytes
            near = min(max(distance.get(var, options.distance_limit), 1), options.distance_limit)
            written = (
                (kind not in FUSIBLE and id(eqn) not in scores.products)
                or var in readers.forward_outputs
                or any(
                    not scores.fuses(eqn, split.forward[k]) for k in readers.forward.get(var, ())
                )
            )
            spill = 1 if written else options.spill_factor
            capacity = math.floor(spill * size * options.distance_base**near)
            as_good_as_base = kind is Recompute.VIEW and size >= in_bytes > 0
            forbidden = options.may_save is not None and not options.may_save(var, eqn)
            if as_good_as_base or forbidden:
                capacity = INFINITE
            value = Value(var, eqn, size, near, spill, capacity)
            value.read = var in readers.backward or var in readers.gradient_outputs
            value.ban = _ban(value, in_bytes, readers, options)
            values.append(value)
    light = functions_of_inputs(split) if options.inputs_are_enough else set()
    for value in values:
        if value.ban == WRITTEN_ANYWAY and value.var in light:
            value.ban = ""
    _force_saves(split, values, readers, options, light)
    return tuple(values)


def _distances(split: Split, readers: _Readers) -> dict[Var, int]:
    """Steps from each forward value to its nearest backward reader; absent: none."""
    distance: dict[Var, int] = {}
    for eqn in reversed(split.forward):
        for var in eqn.outputs:
            if var in readers.backward or var in readers.gradient_outputs:
                distance[var] = 1
                continue
            steps = [
                distance[out] + 1
                for k in readers.forward.get(var, ())
                for out in split.forward[k].outputs
                if out in distance
            ]
            if steps:
                distance[var] = min(steps)
    return distance


def _ban(value: Value, in_bytes: int, readers: _Readers, options: PartitionOptions) -> str:
    """The rule that puts a value into U, or ""."""
    kind = value.eqn.prim.recompute
    scores = readers.scores
    if kind is Recompute.RANDOM:
        return NOT_CHEAP
    if kind is Recompute.EXPENSIVE and id(value.eqn) not in scores.products:
        return NOT_CHEAP
    if kind is Recompute.REDUCTION and options.reduction_ratio * value.bytes < in_bytes:
        return SHRINKS
    if kind is Recompute.VIEW:
        return ""  # the reader addresses its base
    if any(not scores.fuses(value.eqn, r) for r in readers.backward.get(value.var, ())):
        return WRITTEN_ANYWAY
    return ""


def functions_of_inputs(split: Split) -> set[Var]:
    """Values that cheap operations alone compute from inputs and constants."""
    free = set(split.primals).union(v for v, _ in split.graph.constants)
    found: set[Var] = set()
    for eqn in split.forward:
        if eqn.prim.recompute in LIGHT and all(a in free for a in _vars(eqn.inputs)):
            free.update(eqn.outputs)
            found.update(eqn.outputs)
    return found


def _force_saves(
    split: Split,
    values: list[Value],
    readers: _Readers,
    options: PartitionOptions,
    light: set[Var],
) -> None:
    """Mark the values that recomputation would otherwise drag a whole chain in for."""
    useful = _reaches_backward(split, values, readers)
    boundary = _chain_ends(split, readers)
    depth: dict[Atom, int] = {}
    for value in values:
        var, eqn = value.var, value.eqn
        if eqn.prim.recompute not in FUSIBLE or value.ban:
            depth[var] = 0
            continue
        depth[var] = 1 + max([depth.get(a, 0) for a in eqn.inputs], default=0)
        if value.capacity >= INFINITE and eqn.prim.recompute is Recompute.VIEW:
            continue  # its base is saved instead
        if var not in useful:
            continue
        if depth[var] > options.chain_limit:
            value.force = CHAIN_END
        elif options.near_and_far and var not in light and _near_and_far(var, readers, boundary):
            value.force = NEAR_AND_FAR
        if value.force:
            depth[var] = 0


def _near_and_far(var: Var, readers: _Readers, boundary: dict[Var, int]) -> bool:
    end = boundary.get(var)
    orders = readers.forward.get(var, ())
    return end is not None and len(orders) > 1 and orders[0] < end < orders[-1]


def _chain_ends(split: Split, readers: _Readers) -> dict[Var, int]:
    """For each value, the first equation after it that ends its fusible chains."""
    ends: dict[Var, int] = {}
    for eqn in reversed(split.forward):
        for var in eqn.outputs:
            found = []
            for k in readers.forward.get(var, ()):
                reader = split.forward[k]
                if not readers.scores.fuses(eqn, reader):
                    found.append(k)
                else:
                    found.extend(ends[out] for out in reader.outputs if out in ends)
            if found:
                ends[var] = min(found)
    return ends


def _reaches_backward(split: Split, values: list[Value], readers: _Readers) -> set[Var]:
    """Values the backward part reads, or could recompute such a value from."""
    banned = {v.var for v in values if v.ban}
    useful = {v.var for v in values if v.read}
    for eqn in reversed(split.forward):
        if any(v in useful and v not in banned for v in eqn.outputs):
            useful.update(_vars(eqn.inputs))
    return useful


def network_edges(values: Sequence[Value]) -> Iterable[tuple[int, int, int]]:
    """The edges (tail, head, capacity): value k is split into 2k and 2k+1, then s and t."""
    index = {v.var: k for k, v in enumerate(values)}
    source, sink = 2 * len(values), 2 * len(values) + 1
    for k, value in enumerate(values):
        yield 2 * k, 2 * k + 1, value.capacity
        for atom in dict.fromkeys(value.eqn.inputs):
            j = index.get(atom) if isinstance(atom, Var) else None
            if j is not None:
                yield 2 * j + 1, 2 * k, INFINITE
        if value.ban or value.force:
            yield source, 2 * k, INFINITE
        if value.read or value.force:
            yield 2 * k + 1, sink, INFINITE


def minimum_cut(values: Sequence[Value]) -> tuple[int, list[Value]]:
    """The value of the cut and the values on it; on no finite cut, every value read."""
    network = FlowNetwork(2 * len(values) + 2)
    for tail, head, capacity in network_edges(values):
        network.add_edge(tail, head, capacity)
    source = 2 * len(values)
    flow = network.max_flow(source, source + 1)
    if flow >= INFINITE:
        return INFINITE, [v for v in values if v.read]
    near = network.reachable(source)
    return flow, [v for k, v in enumerate(values) if near[2 * k] and not near[2 * k + 1]]


def work_again(value: Value) -> int:
    """What recomputing a value costs; infinite for one that must not be drawn again, or acts."""
    if value.eqn.prim.recompute is Recompute.RANDOM or is_single(value.eqn):
        return INFINITE
    return max(1, equation_cost(value.eqn) // len(value.eqn.outputs))


def priced_cut(values: Sequence[Value], prices: Sequence[int]) -> tuple[int, set[Var]]:
    """The minimum cut that may keep or recompute every value, and the values on it.

    `prices` say what recomputing each costs, in `1 / BYTE` bytes.
    """
    source = 2 * len(values)
    network = FlowNetwork(source + 2)
    for tail, head, capacity in network_edges(values):
        if tail == source or (head == source + 1 and not values[tail // 2].read):
            continue
        if tail // 2 == head // 2 and capacity < INFINITE:
            capacity = values[tail // 2].bytes * BYTE
        network.add_edge(tail, head, capacity)
    for k, price in enumerate(prices):
        network.add_edge(source, 2 * k, min(price, INFINITE))
    flow = network.max_flow(source, source + 1)
    near = network.reachable(source)
    return flow, {v.var for k, v in enumerate(values) if near[2 * k] and not near[2 * k + 1]}


# --- the two graphs -----------------------------------------------------------------------------


def partition(split: Split, options: PartitionOptions | None = None) -> Partition:
    """Decide what to save, and build the forward and the backward graph.

    Args:
      split: the graph's two parts (`split_joint`).
      options: thresholds; the defaults are the specification's.

    Raises:
      ConfigurationError: values may be neither saved nor recomputed, and `save_everything` is off.
    """
    options = options or PartitionOptions()
    values = network_values(split, options)
    network = [v for v in values if v.bytes > options.free_bytes]
    cut_value, cut = minimum_cut(network)
    if cut_value >= INFINITE and not options.save_everything:
        raise _undecidable(network, options)
    free = [v.var for v in values if v.bytes <= options.free_bytes]
    kept = {v.var for v in cut}.union(free)
    return build_partition(split, options, values, kept, cut_value)


def _undecidable(values: Sequence[Value], options: PartitionOptions) -> ConfigurationError:
    """The error for values that may neither be saved nor be recomputed."""
    allowed = options.may_save or (lambda var, eqn: True)
    stuck = [v for v in values if v.ban and v.read and not allowed(v.var, v.eqn)]
    names = [f"{v.var.name or '?'}: {v.var.aval} ({v.ban})" for v in stuck]
    return ConfigurationError(
        "the backward part reads values that may be neither saved nor recomputed",
        operands=names,
        hint="let `may_save` allow them, or something between them and the backward part",
    )


def build_partition(
    split: Split,
    options: PartitionOptions,
    values: Sequence[Value],
    kept: set[Var],
    cut_value: int,
) -> Partition:
    """The partition that saves those of `kept` the backward part then reads."""
    graph = split.graph
    producer = {v: eqn for eqn in split.forward for v in eqn.outputs}
    given = {*split.primals, *split.tangents, *(v for v, _ in graph.constants)}
    gradients = split.outputs(split.gradient_outputs)
    eqns, again = backward_equations(split.backward, gradients, producer, kept | given)
    # An equation that is computed again for one of its results gives all of them.
    if both := kept.intersection(v for eqn in again for v in eqn.outputs):
        kept = kept - both
        eqns, again = backward_equations(split.backward, gradients, producer, kept | given)

    read = {a for eqn in eqns for a in eqn.inputs if isinstance(a, Var)} | _vars(gradients)
    saved = [v.var for v in values if v.var in kept and v.var in read]
    needed = [k for k, v in enumerate(split.primals) if v in read]
    backward = Graph(
        [*saved, *(split.primals[k] for k in needed), *split.tangents],
        eqns,
        gradients,
        [(v, c) for v, c in graph.constants if v in read],
        f"{graph.name}_backward",
    )
    outputs = [*split.outputs(split.forward_outputs), *saved]
    kept_eqns = live_equations(split.forward, _vars(outputs))
    used = {a for eqn in kept_eqns for a in eqn.inputs}.union(outputs)
    forward = Graph(
        split.primals,
        kept_eqns,
        outputs,
        [(v, c) for v, c in graph.constants if v in used],
        f"{graph.name}_forward",
    )
    return Partition(
        split=split,
        options=options,
        values=tuple(values),
        saved=tuple(saved),
        recomputed=tuple(v for eqn in again for v in eqn.outputs),
        forward=forward,
        backward=backward,
        needed_primals=tuple(needed),
        capacities=Capacities((v.var, v.capacity) for v in values),
        cut_value=cut_value,
        saved_bytes=sum(v.aval.nbytes for v in saved),
        recompute_flops=sum(equation_cost(eqn) for eqn in again),
    )


def backward_equations(
    backward: Iterable[Eqn],
    results: Iterable[Atom],
    producer: dict[Var, Eqn],
    given: set[Var],
) -> tuple[list[Eqn], list[Eqn]]:
    """The backward equations with every recomputation placed just before its first reader.

    Returns all the equations in order, and those among them that recompute.
    """
    eqns: list[Eqn] = []
    again: list[Eqn] = []
    bound = set(given)

    def supply(atoms: Iterable[Atom]) -> None:
        pending = [a for a in atoms if isinstance(a, Var) and a not in bound]
        pending.reverse()
        while pending:
            var = pending[-1]
            if var in bound:
                pending.pop()
                continue
            eqn = producer[var]
            missing = [a for a in eqn.inputs if isinstance(a, Var) and a not in bound]
            if missing:
                pending.extend(reversed(missing))
                continue
            pending.pop()
            again.append(quiet_equation(eqn).replace(phase=BACKWARD))
            eqns.append(again[-1])
            bound.update(eqn.outputs)

    for eqn in backward:
        supply(eqn.inputs)
        eqns.append(eqn)
        bound.update(eqn.outputs)
    supply(results)
    return eqns, again


def live_equations(eqns: Sequence[Eqn], wanted: set[Var]) -> list[Eqn]:
    """The equations that `wanted` depends on, and those that act."""
    live: set[Atom] = set(wanted)
    kept = []
    for eqn in reversed(eqns):
        if not live.isdisjoint(eqn.outputs) or acts(eqn):
            kept.append(eqn)
            live.update(eqn.inputs)
    kept.reverse()
    return kept


def equation_cost(eqn: Eqn) -> int:
    """Floating-point operations of one equation, by its row's own count; a view takes none."""
    if eqn.prim.recompute is Recompute.VIEW:
        return 0
    avals = [a.aval for a in eqn.inputs]
    return int(eqn.prim.cost(avals, [v.aval for v in eqn.outputs], eqn.params))
