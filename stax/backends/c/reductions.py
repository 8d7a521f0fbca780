"""How merge operations are written in C: accumulators, updates and merges.

Input: a monoid and a dtype.  Output: the statements that declare, update and combine an
accumulator.  The simple monoids are one line of this table each; all others (index pairs,
mean and variance) are printed from their own `combine`, in loops that are not vectorised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stax.backends.c.handler import CValue, Emitter, literal
from stax.dtypes import DType
from stax.loops.monoids import Monoid
from stax.loops.ops import Handler, Value, handling
from stax.loops.scalar_ops import ScalarOp, c_type, spelling, type_tag
from stax.schedule.kernel import Member


@dataclass(frozen=True)
class Simple:
    """A monoid of one component whose loop vectorises, with an OpenMP reduction clause if any."""

    clause: str
    update: str  # of accumulator {a} by value {v}
    combine: str  # the merge of {a} and {b}


SIMPLE: dict[str, Simple] = {
    "sum": Simple("+", "{a} += {v};", "({a} + {b})"),
    "prod": Simple("*", "{a} *= {v};", "({a} * {b})"),
    "any": Simple("|", "{a} |= {v};", "({a} | {b})"),
    "all": Simple("&", "{a} &= {v};", "({a} & {b})"),
    "xor": Simple("^", "{a} ^= {v};", "({a} ^ {b})"),
    "max": Simple("max", "{a} = {v} > {a} ? {v} : {a};", "stax_max_{t}({a}, {b})"),
    "min": Simple("min", "{a} = {v} < {a} ? {v} : {a};", "stax_min_{t}({a}, {b})"),
}
_COMPLEX = {
    "sum": Simple("", "{a} += {v};", "({a} + {b})"),
    "prod": Simple("", "{a} = stax_plain_mul_{t}({a}, {v});", "stax_plain_mul_{t}({a}, {b})"),
}
_ORDERED = ("max", "min")
_ROUNDED = ("sum", "prod")


def simple_form(name: str, dtype: DType) -> Simple | None:
    """The row of the table for a monoid on values of a type, when there is one."""
    return (_COMPLEX if dtype.kind == "c" else SIMPLE).get(name)


def component_dtypes(monoid: Monoid, dtype: DType) -> tuple[DType, ...]:
    """The dtypes of the accumulators; `dtype` is that of the first component."""
    return monoid.component_dtypes(dtype)


class Accumulator:
    """The accumulators of one reduction: C names and the statements on them."""

    def __init__(
        self, monoid: Monoid, dtype: DType, emitter: Emitter, *, running: bool = False
    ) -> None:
        self.monoid = monoid
        self.start = monoid.start if running and monoid.start is not None else monoid.identity
        self.dtypes = component_dtypes(monoid, dtype)
        self.names = [emitter.fresh("a") for _ in self.dtypes]
        self.emitter = emitter
        # A maximum ignores NaN in a comparison; whether one was seen is kept beside it.
        self.nan = emitter.fresh("n") if self.watches_nan else None
        self.place = self.chunk = ""  # where an extreme is, and from where it has to be searched
        self.nan_line = self.watched = ""  # the statement that looks, and the value it updates by

    @property
    def watches_nan(self) -> bool:
        """True for floating maxima and minima."""
        return self.monoid.name in _ORDERED and self.dtypes[0].kind == "f"

    @property
    def adds_singles(self) -> bool:
        """True for sums in single precision, whose parts are worth adding in double."""
        return self.monoid.name == "sum" and self.dtypes[0] == np.float32

    @property
    def all_names(self) -> list[str]:
        """Every C name the accumulator uses."""
        return [*self.names, self.nan] if self.nan else self.names

    @property
    def simple(self) -> Simple | None:
        """The row of the table, when there is one."""
        return simple_form(self.monoid.name, self.dtypes[0])

    @property
    def identity(self) -> str:
        """The neutral element of an accumulator of one component, in C."""
        return literal(self.monoid.identity(self.dtypes[0])[0], self.dtypes[0])

    def declare(self) -> list[str]:
        """Declarations with the neutral element."""
        values = self.start(self.dtypes[0])
        lines = [
            f"{c_type(d)} {name} = {literal(v, d)};"
            for name, v, d in zip(self.names, values, self.dtypes, strict=True)
        ]
        if self.nan:
            lines.append(f"int {self.nan} = 0;")
        return lines

    def clauses(self) -> list[str]:
        """Reduction clauses for a vectorised loop of few elements.

        Sums and products of floating numbers have none: their order would be left to the compiler.
        Without it everything else is computed in vectors, and they are added up one after another.
        """
        assert self.simple is not None
        found = []
        if self.monoid.name not in _ROUNDED or self.dtypes[0].kind != "f":
            found.append(f"reduction({self.simple.clause}:{self.names[0]})")
        if self.nan:
            found.append(f"reduction(|:{self.nan})")
        return found

    def update(self, values: list[CValue]) -> list[str]:
        """Statements that merge an element into the accumulator."""
        self.watched = values[0].text
        if self.simple is not None:
            lines = [self.merged(self.names[0], values[0].text)]
            if self.nan:
                self.nan_line = f"{self.nan} |= ({self.watched} != {self.watched});"
                lines.append(self.nan_line)
            return lines
        own = [CValue(n, d, values[0].depth) for n, d in zip(self.names, self.dtypes, strict=True)]
        handler = _Combiner(self.emitter)
        with handling(handler):
            merged = self.monoid.combine(tuple(own), tuple(values))
        return [
            *handler.lines,
            *(f"{n} = {v.text};" for n, v in zip(self.names, merged, strict=True)),
        ]

    def merged(self, into: str, value: str) -> str:
        """The statement that merges a value into a place like the accumulator, of a simple row."""
        assert self.simple is not None
        return self.simple.update.format(a=into, v=value, t=type_tag(self.dtypes[0]))

    def finish(self) -> list[str]:
        """Statements after the loop that make the accumulator exact."""
        if self.nan is None:
            return []
        return [f"if ({self.nan}) {self.names[0]} = {literal(float('nan'), self.dtypes[0])};"]

    def values(self, depth: int) -> list[CValue]:
        """The components as C values."""
        return [CValue(n, d, depth) for n, d in zip(self.names, self.dtypes, strict=True)]


@dataclass
class OpenReduction:
    """A reduction being emitted."""

    member: Member
    position: int
    monoid: Monoid
    values: dict[int, CValue]
    accumulator: Accumulator | None = None
    twin: OpenReduction | None = None  # a sum of the same values, or of their negatives
    sign: int = 1  # ... which of these
    partial: str = ""
    shared: bool = False  # columns that neighbouring blocks merge before others begin
    names: list[str] = field(default_factory=list)
    dtypes: tuple[DType, ...] = ()
    value: str = ""  # of a position found by a second pass: the C value that is compared
    place: str = ""  # ... and the variable that receives the position
    sample: CValue | None = None  # of a variance: the value whose triples are merged
    plain: CValue | None = None  # ... and before the first element was subtracted from it


def combine_lines(
    monoid: Monoid, dtypes: tuple[DType, ...], left: list[str], right: list[str], emitter: Emitter
) -> list[str]:
    """Statements `left = left (+) right`, components given as C lvalues and expressions."""
    simple = simple_form(monoid.name, dtypes[0])
    if simple is not None:
        text = simple.combine.format(a=left[0], b=right[0], t=type_tag(dtypes[0]))
        return [f"{left[0]} = {text};"]
    handler = _Combiner(emitter)
    with handling(handler):
        merged = monoid.combine(
            tuple(CValue(t, d, 0) for t, d in zip(left, dtypes, strict=True)),
            tuple(CValue(t, d, 0) for t, d in zip(right, dtypes, strict=True)),
        )
    return [*handler.lines, *(f"{t} = {v.text};" for t, v in zip(left, merged, strict=True))]


class _Combiner(Handler):
    """Prints a monoid's `combine` as C statements."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__()
        self.emitter = emitter
        self.lines: list[str] = []

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        dtypes = tuple(a.dtype for a in args)
        text = spelling(row, dtypes, "c", tuple(a.text for a in args), **params)
        return self._new(text, row.result(dtypes))

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        return CValue(literal(value, dtype), dtype, 0)

    def dtype_of(self, value: Value) -> np.dtype:
        found: np.dtype = value.dtype
        return found

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return self._new(f"({c_type(dtype)}){value.text}", dtype)

    def _new(self, text: str, dtype: DType) -> CValue:
        name = self.emitter.fresh()
        self.lines.append(f"{c_type(dtype)} {name} = {text};")
        return CValue(name, dtype, 0)

    def _absent(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a merge operation is made of scalar operations only")

    load = index_expr = bitcast = check_bounds = bind = reduction = scan = store = _absent
