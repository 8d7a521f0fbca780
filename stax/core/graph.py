"""The op-level IR: typed values, equations and graphs, with a verifier.

A `Graph` is a straight line of equations over values that are each bound once.  It is immutable
by convention: a pass builds a new one and may share equations and values with the old.  Constants
the user's function closed over are `constants`: values with their NumPy array (or, while an outer
transformation runs, with its tracer).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Primitive
from stax.dtypes import DType
from stax.errors import GraphError

FORWARD = "forward"
BACKWARD = "backward"


class Var:
    """A value bound once: by an input, a constant or an equation."""

    __slots__ = ("aval", "name")

    def __init__(self, aval: Aval, name: str | None = None) -> None:
        self.aval = aval
        self.name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """NumPy dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"{self.name or '?'}:{self.aval}"


class Literal:
    """A scalar constant written in place: a Python scalar when weak, else a NumPy scalar."""

    __slots__ = ("value", "aval")

    def __init__(self, value: Any, aval: Aval | None = None) -> None:
        self.aval = aval_of(value) if aval is None else aval
        self.value = value

    name = None

    @property
    def val(self) -> Any:
        """JAX's name of the value."""
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        """Always ()."""
        return ()

    @property
    def dtype(self) -> DType:
        """NumPy dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Always 0."""
        return 0

    def __repr__(self) -> str:
        return f"{self.value!r}:{self.aval}"


Atom = Var | Literal


class Eqn:
    """One equation: outputs = primitive(inputs) with explicit parameters.

    `phase` is "forward" or "backward"; `source` is the user's file:line; `region` numbers the
    recomputation of a checkpointed function (0 elsewhere): equations of different regions are
    never merged.
    """

    __slots__ = ("prim", "inputs", "outputs", "params", "phase", "source", "region")

    def __init__(
        self,
        prim: Primitive,
        inputs: Sequence[Atom],
        outputs: Sequence[Var],
        params: dict[str, Any],
        phase: str = FORWARD,
        source: str = "",
        region: int = 0,
    ) -> None:
        self.prim = prim
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.params = params
        self.phase = phase
        self.source = source
        self.region = region

    @property
    def op(self) -> str:
        """The primitive's name."""
        return self.prim.name

    # JAX's names of the same fields, for scripts that read a jaxpr.

    @property
    def primitive(self) -> Primitive:
        """The row of the operation."""
        return self.prim

    @property
    def invars(self) -> tuple[Atom, ...]:
        """The inputs."""
        return self.inputs

    @property
    def outvars(self) -> tuple[Var, ...]:
        """The outputs."""
        return self.outputs

    def replace(
        self,
        inputs: Sequence[Atom] | None = None,
        outputs: Sequence[Var] | None = None,
        params: dict[str, Any] | None = None,
        phase: str | None = None,
        region: int | None = None,
    ) -> Eqn:
        """A copy with the given fields replaced."""
        return Eqn(
            self.prim,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.params if params is None else params,
            self.phase if phase is None else phase,
            self.source,
            self.region if region is None else region,
        )


class Graph:
    """Inputs, constants, equations and outputs; prints as stable, parseable text."""

    __slots__ = ("inputs", "constants", "eqns", "outputs", "name", "cache", "_text")

    def __init__(
        self,
        inputs: Sequence[Var],
        eqns: Iterable[Eqn],
        outputs: Sequence[Atom],
        constants: Sequence[tuple[Var, Any]] = (),
        name: str = "f",
    ) -> None:
        self.inputs = tuple(inputs)
        self.constants = tuple(constants)
        self.eqns = tuple(eqns)
        self.outputs = tuple(outputs)
        self.name = name
        # What has been derived from this graph (its jvp, its executable, ...), by a key that
        # starts with the name of the deriving module: it lives exactly as long as the graph.
        self.cache: dict[Any, Any] = {}
        self._text: str | None = None
        self._name_values()

    def _name_values(self) -> None:
        """Give every unnamed value a name that is unique in this graph and says its origin."""
        names = [v.name for v in self.inputs]
        names += [v.name for v, _ in self.constants]
        names += [v.name for eqn in self.eqns for v in eqn.outputs]
        distinct = set(names)
        if len(distinct) == len(names) and None not in distinct:
            return
        used: dict[str, Var] = {}
        counts: dict[str, int] = {}

        def claim(var: Var, stem: str) -> None:
            stem = var.name or stem
            n = counts.get(stem, 0)
            name = stem if n == 0 else f"{stem}_{n}"
            while used.setdefault(name, var) is not var:
                n += 1
                name = f"{stem}_{n}"
            counts[stem] = n + 1
            var.name = name

        def is_free(var: Var) -> bool:
            return var.name is not None and used.setdefault(var.name, var) is var

        for var in self.inputs:
            if not is_free(var):
                claim(var, "x")
        for var, _ in self.constants:
            if not is_free(var):
                claim(var, "const")
        for eqn in self.eqns:
            for var in eqn.outputs:
                name = var.name
                if name is None or used.setdefault(name, var) is not var:
                    claim(var, eqn.prim.name)

    @property
    def in_avals(self) -> tuple[Aval, ...]:
        """Types of the inputs."""
        return tuple(v.aval for v in self.inputs)

    @property
    def out_avals(self) -> tuple[Aval, ...]:
        """Types of the outputs."""
        return tuple(v.aval for v in self.outputs)

    # JAX's names of the same fields, for scripts that read a jaxpr.

    @property
    def jaxpr(self) -> Graph:
        """The graph itself."""
        return self

    @property
    def invars(self) -> tuple[Var, ...]:
        """The inputs."""
        return self.inputs

    @property
    def outvars(self) -> tuple[Atom, ...]:
        """The outputs."""
        return self.outputs

    @property
    def constvars(self) -> tuple[Var, ...]:
        """The variables of constant arrays."""
        return tuple(v for v, _ in self.constants)

    @property
    def consts(self) -> list[Any]:
        """The constant arrays."""
        return [value for _, value in self.constants]

    literals = consts

    def replace(
        self,
        inputs: Sequence[Var] | None = None,
        eqns: Iterable[Eqn] | None = None,
        outputs: Sequence[Atom] | None = None,
        constants: Sequence[tuple[Var, Any]] | None = None,
    ) -> Graph:
        """A copy with the given fields replaced."""
        return type(self)(
            self.inputs if inputs is None else inputs,
            self.eqns if eqns is None else eqns,
            self.outputs if outputs is None else outputs,
            self.constants if constants is None else constants,
            self.name,
        )

    def __str__(self) -> str:
        if self._text is None:
            self._text = GRAPH_TEXT[0](self)
        return self._text

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.eqns)} equations>"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and str(self) == str(other))

    def __hash__(self) -> int:
        return hash(str(self))


# The printer lives in core.text, which imports this module; it registers itself here.
GRAPH_TEXT: list[Any] = [repr]


def check_graph(graph: Graph) -> None:
    """Raise GraphError unless types, scoping and phases of `graph` and its subgraphs are right."""
    pending = [graph]
    while pending:
        g = pending.pop()
        bound: set[Var] = set()
        for var in (*g.inputs, *(v for v, _ in g.constants)):
            if var in bound:
                raise GraphError(f"{var} is bound twice in {g.name}")
            bound.add(var)
        for var, value in g.constants:
            if aval_of(value).strong() is not var.aval.strong():
                raise GraphError(f"constant {var} holds {aval_of(value)}")
        for eqn in g.eqns:
            _check_eqn(g, eqn, bound)
            pending.extend(p for p in subgraphs(eqn))
        for out in g.outputs:
            if isinstance(out, Var) and out not in bound:
                raise GraphError(f"output {out} of {g.name} is not bound")


def _check_eqn(g: Graph, eqn: Eqn, bound: set[Var]) -> None:
    where = f"{eqn.op} at {eqn.source or '?'} in {g.name}"
    for atom in eqn.inputs:
        if isinstance(atom, Var) and atom not in bound:
            raise GraphError(f"{where} reads {atom}, which is not bound before it")
    if eqn.phase not in (FORWARD, BACKWARD):
        raise GraphError(f"{where} has phase {eqn.phase!r}")
    expected = eqn.prim.out_avals([a.aval for a in eqn.inputs], eqn.params)
    got = tuple(v.aval for v in eqn.outputs)
    if tuple(a.strong() for a in expected) != tuple(a.strong() for a in got):
        raise GraphError(f"{where} gives {expected}, its outputs are typed {got}")
    for var in eqn.outputs:
        if var in bound:
            raise GraphError(f"{where} binds {var} a second time")
        bound.add(var)


def subgraphs(eqn: Eqn) -> list[Graph]:
    """The graphs an equation carries in its parameters."""
    found = []
    for value in eqn.params.values():
        if isinstance(value, Graph):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(v for v in value if isinstance(v, Graph))
    return found


def literal_array(literal: Literal) -> np.ndarray[Any, Any]:
    """The 0-d array of a literal, in its type's dtype."""
    return np.asarray(literal.value, literal.aval.dtype)
