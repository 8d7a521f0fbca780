"""Printing loop bodies as Triton statements.

Input: the instructions of a body and its index expressions in terms of a kernel's loop variables.
Output: lines of Triton.  A kernel works on a block with one axis for each tiled group of loops; a
value knows the axes it depends on, which give its shape (1 along the others), the masks it needs
and the scope in which it is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stax.dtypes import DType
from stax.loops.body import Instr
from stax.loops.expressions import Binary, Constant, Expr, Printer, Symbol
from stax.loops.ranges import EVERYTHING, Interval, point, wrap
from stax.loops.scalar_ops import SCALAR_OPS, ScalarOp, is_half, spelling
from stax.loops.symbolic import symbol as make_symbol

NO_AXES: frozenset[int] = frozenset()


def triton_type(dtype: DType) -> str:
    """The element type in which a value is computed or, for the half types, rounded."""
    if dtype.kind == "b":
        return "tl.int1"
    return f"tl.{dtype.name}"


def pointer_type(dtype: DType) -> str:
    """The type of a pointer in a kernel's signature; truths are bytes in memory."""
    names = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
    if dtype.kind == "b":
        return "*i8"
    if dtype.name in names:
        return f"*{names[dtype.name]}"
    return f"*{dtype.kind}{8 * dtype.itemsize}"


def literal(value: Any, dtype: DType) -> str:
    """A typed scalar of exactly this value."""
    if dtype.kind == "b":
        text = "1" if value else "0"
    elif dtype.kind in "iu":
        text = str(int(value))
    else:
        text = number(float(value))
    return f"tl.full((), {text}, {triton_type(dtype)})"


def number(x: float) -> str:
    """A floating number as text that both Python and Triton read."""
    if not math.isfinite(x):
        return f'float("{"-" if math.copysign(1, x) < 0 else ""}{"nan" if x != x else "inf"}")'
    return repr(x)


class TritonPrinter(Printer):
    """Index expressions over the variables of a kernel."""

    def __init__(self, names: Mapping[Symbol, str]) -> None:
        self.names = names

    def symbol(self, s: Symbol) -> str:
        return self.names.get(s, s.name)

    def wraps(self, atom: Expr) -> bool:
        return isinstance(atom, Binary) and atom.kind in ("floordiv", "mod")

    def binary(self, e: Binary) -> str:
        left, right = e.left.render(self), e.right.render(self)
        if e.kind in ("min", "max"):
            return f"tl.{e.kind}imum({left}, {right})"
        constant = isinstance(e.right, Constant) and e.right.lo > 0
        if constant and e.left.lo >= 0:
            return f"(({left}) {'//' if e.kind == 'floordiv' else '%'} {right})"
        if constant and e.kind == "mod":
            return f"((({left}) % {right} + {right}) % {right})"
        if constant:
            below = f"({left}) % {right} < 0"
            return f"tl.where({below}, ({left}) // {right} - 1, ({left}) // {right})"
        return f"stax_integer_{e.kind}({left}, {right})"


@dataclass(frozen=True)
class TValue:
    """A value while it is printed: its name, type, axes and what is known of its range."""

    text: str
    dtype: DType
    axes: frozenset[int] = NO_AXES
    interval: Interval = EVERYTHING


@dataclass
class Axis:
    """An axis of the block: a variable that runs over the row-major points of some loops."""

    name: str
    extent: int
    block: int
    looped: bool = False

    @property
    def ragged(self) -> bool:
        """Whether the last block reaches over the end."""
        return self.extent % self.block != 0

    @property
    def mask(self) -> str:
        """The name of the mask."""
        return f"{self.name}mask"


@dataclass
class Scope:
    """Lines emitted at one depth, and the values known there."""

    lines: list[str] = field(default_factory=list)
    known: dict[Any, TValue] = field(default_factory=dict)


def cast_text(v: str, source: DType, target: DType) -> str:
    """Triton conversion with NumPy's meaning."""
    if source == target:
        return v
    if target.kind == "b":
        return f"({v} != 0)"
    if is_half(target):
        # bfloat16 is made of float32 alone, in NumPy and in Triton's interpreter.
        direct = source.kind == "f" and (source.itemsize < 8 or target.kind == "f")
        wide = v if direct else f"{v}.to(tl.float32)"
        return f"{wide}.to({triton_type(target)}).to(tl.float32)"
    if source.kind == "f" and target.kind in "iu":
        if target.itemsize < 4:
            return f"{v}.to(tl.int32).to({triton_type(target)})"
        if target.kind == "u" and target.itemsize == 4:
            return f"{v}.to(tl.int64).to(tl.uint32)"
        if target.kind == "u":
            return f"tl.where({v} < 0, {v}.to(tl.int64).to(tl.uint64), {v}.to(tl.uint64))"
    return f"{v}.to({triton_type(target)})"


class Emitter:
    """Emits instructions into the scope outside the loop or the scope inside it.

    Args:
      pointers: the parameter of each buffer.
      axes: the axes of the block, in order.
      axis_of: the axis of each loop variable.
      wide: whether addresses take 64 bits.
    """

    def __init__(
        self,
        pointers: Mapping[str, str],
        dtypes: Mapping[str, DType],
        axes: Sequence[Axis],
        axis_of: Mapping[Symbol, int],
        wide: bool,
    ) -> None:
        self.pointers = pointers
        self.dtypes = dtypes
        self.axes = list(axes)
        self.axes_of: dict[Symbol, frozenset[int]] = {
            s: frozenset((k,)) for s, k in axis_of.items()
        }
        self.wide = wide
        self.outer = Scope()
        self.inner = Scope()
        self.names: dict[Symbol, str] = {}
        self.bound: dict[Symbol, Expr] = {}
        self.forwarded: dict[str, TValue] = {}
        self.checks: list[int] = []
        self.storing = True
        self.count = 0

    # ------------------------------------------------------------------ values and scopes

    def restart(self) -> None:
        """Forget what was printed, for another function of the same kernel."""
        self.outer, self.inner = Scope(), Scope()
        self.bound, self.checks = {}, []

    def fresh(self, prefix: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def is_inner(self, axes: frozenset[int]) -> bool:
        """Whether a value of these axes belongs into the loop."""
        return any(self.axes[k].looped for k in axes)

    def scope(self, axes: frozenset[int]) -> Scope:
        """The scope of values of these axes."""
        return self.inner if self.is_inner(axes) else self.outer

    def define(
        self,
        key: Any,
        text: str,
        dtype: DType,
        axes: frozenset[int],
        interval: Interval = EVERYTHING,
    ) -> TValue:
        """Emit `name = text` once."""
        found = self.outer.known.get(key) or self.inner.known.get(key)
        if found is not None:
            return found
        scope = self.scope(axes)
        name = self.fresh()
        scope.lines.append(f"{name} = {text}")
        value = TValue(name, dtype, axes, interval)
        scope.known[key] = value
        return value

    def expr_axes(self, expr: Expr) -> frozenset[int]:
        """The axes an index expression depends on."""
        return NO_AXES.union(*(self.axes_of[s] for s in expr.symbols))

    def index_text(self, expr: Expr) -> str:
        """An index expression in Triton."""
        return expr.render(TritonPrinter(self.names))

    def masks(self, axes: Iterable[int], *more: str) -> str:
        """The conjunction of the masks of ragged axes and of others, empty if there is none."""
        found = [self.axes[k].mask for k in sorted(axes) if self.axes[k].ragged]
        return " & ".join(dict.fromkeys([*found, *more]))

    def shape(self, axes: Iterable[int] | None = None) -> str:
        """The block's shape; 1 along axes that are not in `axes` (None: all)."""
        wanted = range(len(self.axes)) if axes is None else set(axes)
        parts = [str(a.block) if k in wanted else "1" for k, a in enumerate(self.axes)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def whole(self, value: TValue) -> str:
        """The value with the shape of the block."""
        if len(value.axes) == len(self.axes):
            return value.text
        return f"tl.broadcast_to({value.text}, {self.shape()})"

    # ------------------------------------------------------------------ instructions

    def emit(
        self,
        instrs: Sequence[Instr],
        indexes: Sequence[Expr],
        values: dict[int, TValue],
        start: int,
        stop: int,
    ) -> None:
        """Emit instructions [start, stop); `values` maps their positions to values."""
        for n in range(start, stop):
            op, args, dtype, attrs = instrs[n]
            operands = [values[a] for a in args if a in values]
            axes = NO_AXES.union(*(v.axes for v in operands))
            if op == "load":
                index = indexes[attrs[1]].substitute(self.bound)
                values[n] = self._load(attrs, index, dtype, operands, axes)
            elif op == "constant":
                whole = dtype.kind in "iub"
                interval = point(int(attrs[0])) if whole else EVERYTHING
                key = ("constant", repr(attrs[0]), dtype)
                values[n] = self.define(key, literal(attrs[0], dtype), dtype, NO_AXES, interval)
            elif op == "index_expr":
                values[n] = self._index(indexes[attrs[0]].substitute(self.bound), dtype, axes)
            elif op == "cast":
                text = cast_text(operands[0].text, operands[0].dtype, attrs[0])
                key = ("cast", operands[0].text, attrs[0])
                values[n] = self.define(key, text, dtype, axes)
            elif op == "bitcast":
                text = f"{operands[0].text}.to({triton_type(attrs[0])}, bitcast=True)"
                if is_half(attrs[0]):
                    text += ".to(tl.float32)"
                values[n] = self.define((op, operands[0].text, attrs[0]), text, dtype, axes)
            elif op == "check":
                self._check(operands, attrs[0], axes)
            elif op == "bind":
                self._bind(attrs[0], operands[0], attrs[1])
                values[n] = operands[0]
            elif op in SCALAR_OPS:
                values[n] = self._apply(SCALAR_OPS[op], operands, dtype, attrs, axes)
            elif op == "store":
                index = indexes[attrs[1]].substitute(self.bound)
                self.on_store(attrs[0], index, attrs[2], operands)
            else:
                raise ValueError(f"{op} cannot be emitted here")

    def _index(self, expr: Expr, dtype: DType, axes: frozenset[int]) -> TValue:
        interval = Interval(expr.lo, expr.hi)
        key = ("index", expr, dtype)
        if isinstance(expr, Constant):
            return self.define(key, literal(expr.value, dtype), dtype, NO_AXES, interval)
        text = f"({self.index_text(expr)}).to({triton_type(dtype)})"
        if is_half(dtype):
            text += ".to(tl.float32)"
        return self.define(key, text, dtype, axes | self.expr_axes(expr), interval)

    def _apply(
        self,
        row: ScalarOp,
        operands: list[TValue],
        dtype: DType,
        attrs: Any,
        axes: frozenset[int],
    ) -> TValue:
        """A scalar operation, decided now where the ranges of its operands decide it."""
        params = dict(attrs)
        intervals = [v.interval for v in operands]
        whole = all(v.dtype.kind in "iub" for v in operands)
        interval = EVERYTHING
        if row.pick is not None and (whole or row.operand > 0):
            chosen = row.pick(*intervals)
            if chosen is not None and operands[chosen].dtype == dtype:
                return operands[chosen]
        if whole and row.interval is not None and dtype.kind in "iub":
            interval = wrap(row.interval(*intervals, **params), dtype)
            if interval.lo == interval.hi:
                key = ("constant", repr(int(interval.lo)), dtype)
                return self.define(key, literal(interval.lo, dtype), dtype, NO_AXES, interval)
        texts = tuple(v.text for v in operands)
        types = tuple(v.dtype for v in operands)
        text = spelling(row, types, "triton", texts, **params)
        made = (row.name, texts, attrs, types[row.operand])
        return self.define(made, text, dtype, axes, interval)

    def _load(
        self,
        attrs: tuple[Any, ...],
        index: Expr,
        dtype: DType,
        operands: list[TValue],
        axes: frozenset[int],
    ) -> TValue:
        buffer, stored = attrs[0], attrs[2]
        forwarded = self.forwarded.get(buffer)
        if forwarded is not None:
            return forwarded
        axes = axes | self.expr_axes(index)
        extra: list[str] = []
        if operands:
            known = operands[0].interval
            if known.lo == known.hi and not known.lo:
                return self.define(("constant", "0", dtype), literal(0, dtype), dtype, NO_AXES)
            if known.lo != known.hi:
                extra.append(operands[0].text)
        mask = self.masks(axes, *extra)
        place = self.spread(self.index_text(index), axes - self.expr_axes(index))
        text = self.load_text(buffer, place, stored, mask)
        return self.define(("load", buffer, index, mask), text, dtype, axes)

    def spread(self, place: str, axes: Iterable[int]) -> str:
        """An address with an extent along further axes, as a mask or value along them wants it."""
        return " + ".join([place, *(f"{self.axes[k].name} * 0" for k in sorted(axes))])

    def load_text(self, buffer: str, place: str, stored: DType, mask: str) -> str:
        """The element at a place as a value of the type it is computed in."""
        tail = f", mask={mask}, other=0" if mask else ""
        text = f"tl.load({self.pointers[buffer]} + {_plain(place)}{tail})"
        if stored.kind == "b":
            return f"({text} != 0)"
        return f"{text}.to(tl.float32)" if is_half(stored) else text

    def store_line(self, buffer: str, index: Expr, value: TValue, mask: Sequence[str] = ()) -> None:
        """Emit the store of a value at a place."""
        axes = self.expr_axes(index)
        place = self.spread(self.index_text(index), value.axes - axes)
        axes = axes | value.axes
        found = self.masks(axes, *mask)
        tail = f", mask={found}" if found else ""
        stored = self.stored_text(value, self.dtypes[buffer])
        line = f"tl.store({self.pointers[buffer]} + {_plain(place)}, {stored}{tail})"
        self.scope(axes).lines.append(line)

    def stored_text(self, value: TValue, dtype: DType) -> str:
        """The value in the type in which it lies in memory."""
        if dtype.kind == "b":
            return f"{value.text}.to(tl.int8)"
        return f"{value.text}.to({triton_type(dtype)})" if is_half(dtype) else value.text

    def on_store(self, buffer: str, index: Expr, mode: str, operands: list[TValue]) -> None:
        """What a store does; kernels replace it."""
        raise TypeError(f"{type(self).__name__} stores nothing")

    def _check(self, operands: list[TValue], size: int, axes: frozenset[int]) -> None:
        value = operands[0].text
        key = ("check", value, size, operands[1].text if len(operands) > 1 else None)
        if self.outer.known.get(key) or self.inner.known.get(key):
            return
        test = f"(({value} < 0) | ({value} >= {size}))"
        more = [operands[1].text] if len(operands) > 1 else []
        mask = self.masks(axes, *more)
        if mask:
            test = f"{test} & {mask}"
        name = self.fresh("bad")
        scope = self.scope(axes)
        scope.lines.append(f"{name} = {test}")
        place = f"flags + (flag + {len(self.checks)} + {name}.to(tl.int32) * 0)"
        scope.lines.append(f"tl.store({place}, 1, mask={name})")
        self.checks.append(size)
        scope.known[key] = TValue("0", np.dtype(np.bool_), axes)

    def _bind(self, symbol: Symbol, value: TValue, size: int) -> None:
        # The address stays inside the array even where a check has failed.
        last = max(size - 1, 0)
        text = f"tl.minimum(tl.maximum({value.text}, 0), {last})"
        text += ".to(tl.int64)" if self.wide else ".to(tl.int32)"
        bound = self.define(("bind", value.text, size), text, np.dtype(np.int64), value.axes)
        # Bodies number their computed indices from s0 alike; here each has a name of its own.
        own = make_symbol(f"s{bound.text}", 0, last)
        self.names[own] = bound.text
        self.axes_of[own] = value.axes
        self.bound[symbol] = own


def _plain(place: str) -> str:
    return place if place.isidentifier() or place.isdigit() else f"({place})"
