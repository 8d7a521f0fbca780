"""Linearisation: the results of a function and, beside them, the graph of its derivative.

Input: a flat function and its arguments.  Output: its results, computed in the enclosing trace,
and a graph that maps tangents of the arguments to tangents of the results.  A primitive is
computed by the enclosing trace; its `jvp` rule runs with the tangent graph being recorded as the
current trace, so derivative factors such as cos(x) are equations of the tangent graph that read
x: they are evaluated when the graph is, which in reverse mode is the backward pass.

Arrays the user may write into later (arguments, closures, views of them) are copied when the
tangent graph captures them; results computed on the way belong to nobody else and are not.  Very
large ones are borrowed instead of copied, and the derivative refuses to run on a changed one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import Remote, aval_of
from stax.core.graph import Atom, Graph, Var
from stax.core.primitive import Primitive
from stax.core.source import user_place
from stax.core.staging import StagingTrace, StagingTracer, eval_graph
from stax.core.trace import STATE, Trace, Tracer, use_trace
from stax.dtypes import is_inexact
from stax.errors import MutationError
from stax.transforms.dual import DualTrace, DualTracer, bind_values, rule_tangents

# Calls that are linear in some operands only as a whole: a rule's tangents do not open them.
KEPT_WHOLE: set[Primitive] = set()

BORROWED_BYTES = 32 << 20  # foreign arrays from this size on are borrowed, not copied


class LinearizeTracer(DualTracer):
    """A value of the enclosing trace and its tangent in the tangent graph (None when zero)."""

    __slots__ = ()
    owner: LinearizeTrace

    def _require(self, what: str, construct: str) -> Any:
        value = super()._require(what, construct)
        if self.tangent is not None and what in ("float", "complex", "item"):
            self.owner.dropped = f"{construct} at {user_place()}"
        return value


class TangentTrace(StagingTrace):
    """Records the tangent graph; copies only the arrays that somebody else may write into."""

    __slots__ = ("foreign", "captured", "borrowed")

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.foreign: dict[int, Any] = {}
        self.captured: dict[int, Any] = {}
        self.borrowed: list[Borrowed] = []

    def note_foreign(self, value: Any) -> None:
        """Remember an array that came from outside."""
        if isinstance(value, np.ndarray):
            root = root_of(value)
            self.foreign[id(root)] = root

    def atom(self, value: Any, op: str) -> Atom:
        """The graph's name for `value`, which is captured without a copy when it is ours."""
        if isinstance(value, Tracer):
            return super().atom(value, op)
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.isnative:
            root = root_of(value)
            if id(root) not in self.foreign:
                self.captured[id(root)] = root
                return self._capture(value, value, aval_of(value))
            if value.nbytes >= BORROWED_BYTES and value.flags.c_contiguous:
                if (id(value), 0) not in self._constant_of:
                    self.borrowed.append(Borrowed(value, fingerprint(value)))
                else:
                    check_borrowed([b for b in self.borrowed if b.array is value])
                view = value.view()
                view.flags.writeable = False
                return self._capture(value, view, aval_of(value))
        if isinstance(value, Remote):
            return self._capture(value, value, value.aval)
        return super().atom(value, op)


class Borrowed(NamedTuple):
    """An array of the user's that a derivative reads, and what it looked like then."""

    array: Any
    fingerprint: bytes


def fingerprint(array: Any) -> bytes:
    """Weighted sums over the rows of the bits of a contiguous array, in one read of it.

    A word's upper half is folded into its lower half first: the upper bits alone tell many floats
    apart, and multiplied as they are most of their product would overflow.
    """
    flat = array.reshape(-1).view(np.uint8)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    weights = _weights()
    width = len(weights)
    table = words[: words.size // width * width].reshape(-1, width)
    sums = np.empty(len(table), np.uint64)
    folded = np.empty((16, width), np.uint64)  # half a megabyte: stays in the cache
    for k in range(0, len(table), 16):
        block = table[k : k + 16]
        part = folded[: len(block)]
        np.right_shift(block, np.uint64(32), out=part)
        np.bitwise_xor(part, block, out=part)
        np.einsum("ij,j->i", part, weights, out=sums[k : k + 16])
    return b"".join((sums.tobytes(), flat[table.nbytes :].tobytes()))


@functools.cache
def _weights() -> Any:
    """Odd 64-bit numbers, so that a change of a single word always shows."""
    rng = np.random.default_rng(20240)
    return rng.integers(0, 1 << 64, 1 << 12, dtype=np.uint64) | np.uint64(1)


def check_borrowed(borrowed: Sequence[Borrowed]) -> None:
    """Raise MutationError if a borrowed array was written into since the function ran."""
    for array, mark in borrowed:
        if fingerprint(array) != mark:
            raise MutationError(
                "an array that this derivative reads was written into after the function ran",
                operands=[f"array: {aval_of(array)}, {array.nbytes:,} bytes"],
                hint="arrays this large are not copied; write into a copy (x = x.copy())",
            )


def root_of(array: Any) -> Any:
    """The array that owns the memory `array` looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class LinearizeTrace(DualTrace):
    """Computes primitives in the enclosing trace and records their derivatives in `tangents`.

    `again` says that what is linearised has been run before, without its derivative rules.
    """

    __slots__ = ("dropped", "again")
    tangents: StagingTrace
    dropped: str  # where a number was last taken out of a value with a derivative, or ""

    def __init__(
        self, parent: Trace, tangents: StagingTrace | None = None, again: bool = False
    ) -> None:
        super().__init__(parent, TangentTrace(parent) if tangents is None else tangents)
        self.dropped, self.again = "", again

    def dual(self, primal: Any, tangent: Any) -> DualTracer:
        """The tracer of a value and its tangent, which is zero unless it is in the graph."""
        return LinearizeTracer(self, primal, tangent if self.tangents.owns(tangent) else None)

    def of_graphs(
        self, prim: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a primitive that carries graphs, by its rule."""
        rule: Any = prim.linearize
        outs, out_tangents = rule(self, primals, tangents, params)
        return outs, out_tangents

    def of_call(
        self, call: Any, primals: list[Any], tangents: list[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results and tangents of a function that carries its own rule."""
        outs, out_tangents = call.linearize(self, primals, tangents)
        return outs, out_tangents

    def note_plain(self, array: np.ndarray[Any, Any]) -> None:
        """Remember that the user, too, holds this array."""
        note_foreign(self.tangents, (array,))

    def process_known(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any]
    ) -> tuple[Any, ...]:
        """As `process`, with the results already at hand."""
        primals, tangents, active = self.split(args)
        if not active:
            return self.wrap(outs, [None] * len(outs))
        with use_trace(self.tangents):
            return self.wrap(outs, rule_tangents(prim, primals, outs, tangents, params))


def note_foreign(tangents: Trace, values: Sequence[Any]) -> None:
    """Remember that the user, too, holds these arrays: they are copied where they are recorded."""
    if isinstance(tangents, TangentTrace):
        for value in values:
            tangents.note_foreign(value)


class PartialTrace(Trace):
    """Runs a user's derivative rule: what depends on the tangents is recorded in the tangent
    graph, everything else is computed at once in the trace around the linearisation.

    In what is run `again` the rule itself acts for the first time; a function with a rule that it
    calls, most often its own, has acted in the forward pass.
    """

    __slots__ = ("known", "tangents", "again")
    parent: Trace

    def __init__(self, trace: LinearizeTrace) -> None:
        super().__init__(trace.tangents)
        self.known = trace.parent
        self.tangents = trace.tangents
        self.again = trace.again

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Record or compute `prim`; a graph it carries is opened where tangents enter it."""
        before = STATE.trace
        if not any(self.tangents.owns(a) for a in args):
            STATE.trace = self.known
        elif isinstance(params.get("graph"), Graph) and prim not in KEPT_WHOLE:
            return tuple(eval_graph(params["graph"], args))
        else:
            STATE.trace = self.tangents
            note_foreign(self.tangents, args)  # the rule may write into its arrays again
        try:
            return bind_values(STATE.trace, prim, args, params)
        finally:
            STATE.trace = before

    def process_call(self, call: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a function that carries its own rule."""
        if self.again:
            return tuple(call.run_again(args))
        if any(self.tangents.owns(a) for a in args):
            return tuple(call.run(args))
        with use_trace(self.known):
            return tuple(call.bind(args))


class LinearFunction(NamedTuple):
    """Results of a flat function, and the graph from tangents to tangents.

    `graph.inputs` are the tangents of the arguments marked in `in_mask`, its outputs those of the
    results marked in `out_mask`; the unmarked ones are zero by structure.  `dropped` says where
    `float()` or the like took the number of a value and with it its derivative.
    """

    outs: list[Any]
    graph: Graph
    in_mask: tuple[bool, ...]
    out_mask: tuple[bool, ...]
    borrowed: tuple[Borrowed, ...] = ()
    dropped: str = ""


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool] | None = None,
    again: bool = False,
) -> LinearFunction:
    """Linearise a flat function at `primals`, with respect to the arguments marked `active`.

    Arguments that are not of a floating dtype carry no tangent whatever `active` says.
    """
    avals = [aval_of(p) for p in primals]
    marks = [True] * len(avals) if active is None else list(active)
    mask = tuple(m and is_inexact(a.dtype) for m, a in zip(marks, avals, strict=True))
    trace = LinearizeTrace(STATE.trace, again=again)
    tangents = trace.tangents
    assert isinstance(tangents, TangentTrace)
    inputs: list[StagingTracer] = []
    tracers: list[LinearizeTracer] = []
    for primal, aval, marked in zip(primals, avals, mask, strict=True):
        tangents.note_foreign(primal)
        tangent = tangents.new_input(aval.tangent()) if marked else None
        if tangent is not None:
            inputs.append(tangent)
        tracers.append(LinearizeTracer(trace, primal, tangent))
    try:
        with use_trace(trace):
            results = list(fun(*tracers))
        outs = [trace.primal_of(v) for v in results]
        out_tangents = [trace.tangent_of(v) for v in results]
        graph = tangents.graph(inputs, [t for t in out_tangents if t is not None], "tangent")
    finally:
        trace.alive = False
        tangents.alive = False
    outs = [_own(v, tangents) for v in outs]
    out_mask = tuple(t is not None for t in out_tangents)
    return LinearFunction(outs, graph, mask, out_mask, tuple(tangents.borrowed), trace.dropped)


def _own(value: Any, tangents: TangentTrace) -> Any:
    """`value`, copied when the tangent graph keeps its memory: the caller may write into it."""
    if isinstance(value, np.ndarray) and id(root_of(value)) in tangents.captured:
        return value.copy()
    return value


class LinearizedGraph(NamedTuple):
    """A graph split for differentiation.

    forward: inputs -> outputs, followed by the residuals that are not inputs.
    tangent: (residuals, tangents of the inputs in `in_mask`) -> tangents of the outputs in
      `out_mask`.
    sources: where each residual comes from: k < len(inputs) is input k, otherwise it is output
      k - len(inputs) of `forward`.
    """

    forward: Graph
    tangent: Graph
    in_mask: tuple[bool, ...]
    out_mask: tuple[bool, ...]
    sources: tuple[int, ...]

    def residuals(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The residuals among the arguments and results of a call of `forward`."""
        n = len(self.forward.inputs)
        return [args[k] if k < n else results[k - n] for k in self.sources]


def linearize_graph(graph: Graph, active: Sequence[bool], again: bool = False) -> LinearizedGraph:
    """The forward and tangent graphs of `graph` for tangents of the marked inputs (cached).

    `again` says that the graph has been run before, without its derivative rules.
    """
    key = ("linearize", tuple(active), again)
    found = graph.cache.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]  # what this function stored
    staging = StagingTrace(STATE.trace)
    inputs = [staging.new_input(v.aval, v.name) for v in graph.inputs]
    before = STATE.source, STATE.phase, STATE.region
    try:
        STATE.source, STATE.phase, STATE.region = None, "forward", 0
        with use_trace(staging):
            linear = linearize_flat(lambda *a: eval_graph(graph, a), inputs, active, again)
            tangent, residuals = _lift_residuals(linear.graph)
            atoms = [staging.atom(v, "return") for v in linear.outs]
            position: dict[Any, int] = {t.atom: k for k, t in enumerate(inputs)}
            for k, atom in enumerate(atoms):
                if isinstance(atom, Var):
                    position.setdefault(atom, len(inputs) + k)
            sources = []
            extra: list[Any] = []
            for tracer in residuals:
                if tracer.atom not in position:
                    position[tracer.atom] = len(inputs) + len(atoms) + len(extra)
                    extra.append(tracer)
                sources.append(position[tracer.atom])
            forward = staging.graph(inputs, [*linear.outs, *extra], graph.name)
    finally:
        STATE.source, STATE.phase, STATE.region = before
        staging.alive = False
    result = LinearizedGraph(forward, tangent, linear.in_mask, linear.out_mask, tuple(sources))
    graph.cache[key] = result
    return result


def _lift_residuals(graph: Graph) -> tuple[Graph, list[StagingTracer]]:
    """Constants that are values of the forward graph become leading inputs."""
    residuals = [(v, c) for v, c in graph.constants if isinstance(c, StagingTracer)]
    kept = [(v, c) for v, c in graph.constants if not isinstance(c, StagingTracer)]
    lifted = graph.replace(inputs=[*(v for v, _ in residuals), *graph.inputs], constants=kept)
    return lifted, [c for _, c in residuals]


def apply_linear(linear: LinearFunction, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of all results (None when zero) for tangents of all arguments."""
    check_borrowed(linear.borrowed)
    given = [t for t, m in zip(tangents, linear.in_mask, strict=True) if m]
    found = iter(eval_graph(linear.graph, given))
    return [next(found) if m else None for m in linear.out_mask]
