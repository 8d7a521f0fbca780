"""Printing loop bodies as C statements.

Input: the instructions of a body and its index expressions in terms of a kernel's loop variables.
Output: lines of C, each value computed once in the outermost scope in which it is known.  Values
read from memory, constants and operations are numbered across all bodies of a loop, so that two
members of a kernel that read or compute the same thing share it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.backends.c.mirrors import Mirrors
from stax.dtypes import DType, real_part_dtype
from stax.loops.body import Instr
from stax.loops.expressions import Binary, Constant, Expr, Printer, Symbol
from stax.loops.ranges import EVERYTHING, Interval, point, wrap
from stax.loops.scalar_ops import (
    SCALAR_OPS,
    ScalarOp,
    c_type,
    compute_dtype,
    is_half,
    spelling,
    type_tag,
)
from stax.loops.symbolic import symbol as make_symbol

ROW_DEPTH = 1
INNER_DEPTH = 2


class CPrinter(Printer):
    """Index expressions as C expressions over 64-bit integers."""

    def __init__(self, names: Mapping[Symbol, str] | None = None) -> None:
        self.names = names or {}

    def constant(self, value: int) -> str:
        return f"{value}" if -(2**31) < value < 2**31 else f"{value}LL"

    def symbol(self, s: Symbol) -> str:
        return self.names.get(s, s.name)

    def wraps(self, atom: Expr) -> bool:
        return isinstance(atom, Binary) and atom.kind in ("floordiv", "mod")

    def binary(self, e: Binary) -> str:
        left, right = e.left.render(self), e.right.render(self)
        if e.kind in ("min", "max"):
            sign = "<" if e.kind == "min" else ">"
            return f"(({left}) {sign} ({right}) ? ({left}) : ({right}))"
        positive = e.left.lo >= 0 and isinstance(e.right, Constant) and e.right.lo > 0
        if positive:
            return f"(({left}) {'/' if e.kind == 'floordiv' else '%'} ({right}))"
        return f"stax_{e.kind}_i64({left}, {right})"


@dataclass(slots=True)
class CValue:
    """A C expression without side effects (a name or a literal), its type and its depth."""

    text: str
    dtype: DType
    depth: int
    interval: Interval = EVERYTHING


class Scope:
    """Lines of C at one depth, and the values that are known there."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[Any, CValue] = {}

    @property
    def mark(self) -> tuple[int, int]:
        """How much has been emitted."""
        return len(self.lines), len(self.known)

    def forget(self, mark: tuple[int, int]) -> None:
        """Drop what has been emitted since, but for checks and what they need."""
        if any(s.startswith("bad |=") for s in self.lines[mark[0] :]):
            return
        del self.lines[mark[0] :]
        while len(self.known) > mark[1]:
            self.known.popitem()


def literal(value: Any, dtype: DType) -> str:
    """A C literal of exactly this value."""
    if dtype.kind == "b":
        return "1" if value else "0"
    if dtype.kind in "iu":
        n = int(value)
        if dtype.itemsize < 8:
            return f"(({c_type(dtype)}){n})" if n >= 0 else f"(({c_type(dtype)})({n}))"
        if dtype.kind == "u":
            return f"{n}ULL"
        return f"{n}LL" if n > -(2**63) else "(-9223372036854775807LL - 1)"
    if dtype.kind == "c":
        part = real_part_dtype(dtype)
        whole = complex(value)
        return f"__builtin_complex({literal(whole.real, part)}, {literal(whole.imag, part)})"
    x = float(value)
    single = dtype.itemsize <= 4
    suffix = "f" if single else ""
    if math.isnan(x):  # its sign is seen by signbit and copysign
        return f'({"-" if math.copysign(1, x) < 0 else ""}__builtin_nan{suffix}(""))'
    if math.isinf(x):
        return f"{'-' if x < 0 else ''}__builtin_inf{suffix}()"
    text = repr(float(np.float32(x))) if single else repr(x)
    if "e" not in text and "." not in text:
        text += ".0"
    return f"({text}{suffix})" if text.startswith("-") else f"{text}{suffix}"


def load_text(pointer: str, index: str, dtype: DType) -> str:
    """The element at `index`, in the type in which it is computed."""
    raw = f"{pointer}[{index}]"
    return f"stax_{type_tag(dtype)}_to_f32({raw})" if is_half(dtype) else raw


def store_text(value: CValue, dtype: DType) -> str:
    """`value` as stored in memory of this dtype."""
    if is_half(dtype):
        wide = "f64" if value.dtype == np.float64 else "f32"
        return f"stax_{wide}_to_{type_tag(dtype)}({value.text})"
    return value.text


def cast_text(value: str, source: DType, target: DType) -> str:
    """C conversion with NumPy's meaning."""
    if target.kind == "b":
        return f"(uint8_t)({value} != 0)"
    if source.kind == "c" and target.kind != "c":
        return cast_text(f"(__real__ {value})", real_part_dtype(source), target)
    if is_half(target):
        tag = type_tag(target)
        wide = "f64" if source == np.float64 else "f32"
        inner = value if source.kind == "f" else f"(float){value}"
        return f"stax_{tag}_to_f32(stax_{wide}_to_{tag}({inner}))"
    ct = c_type(target)
    if source.kind == "b":
        # Compilers make a conversion of bytes of it, and narrow the whole loop to their number.
        return f"({value} ? {literal(1, target)} : {literal(0, target)})"
    if source.kind == "f" and target.kind in "iu":
        if target.itemsize < 4:
            return f"({ct})(int32_t){value}"
        if target.kind == "u" and target.itemsize == 4:
            return f"({ct})(int64_t){value}"
        if target.kind == "u":
            # Negative numbers wrap, as they do in NumPy on this kind of machine.
            return f"({value} < 0 ? ({ct})(int64_t){value} : ({ct}){value})"
    return f"({ct}){value}"


def _negated(row: ScalarOp, texts: tuple[str, ...], dtype: DType) -> str:
    """The operand that the operation only changes the sign of, or nothing."""
    if row.name == "neg":
        return texts[0]
    minus = row.name in ("mul", "div") and dtype.kind == "f" and literal(-1, dtype)
    if minus and texts[1] == minus:
        return texts[0]
    return texts[1] if row.multiplies and texts[0] == minus else ""


class Emitter:
    """Emits instructions into a row scope and an inner scope.

    Args:
      pointers: the C pointer of each buffer.
      dtypes: the stored dtype of each buffer.
      depth_of: the depth of each loop variable.
    """

    def __init__(
        self,
        pointers: Mapping[str, str],
        dtypes: Mapping[str, DType],
        depth_of: Mapping[Symbol, int],
    ) -> None:
        self.pointers = pointers
        self.dtypes = dtypes
        self.itemsizes = {p: dtypes[name].itemsize for name, p in pointers.items()}
        self.points = 0  # how often the innermost statements run, where memory is worth a thought
        self.plain = False  # whether the compiler's time counts for more than that of the loops
        self.depth_of = dict(depth_of)
        self.row = Scope()
        self.inner = Scope()
        self.printer = CPrinter({})
        self.symbol_names: dict[Symbol, str] = {}
        self._texts: dict[Expr, str] = {}  # of index expressions
        self.bound: dict[Symbol, Expr] = {}  # computed indices of the present body
        self.count = 0
        self.addresses: dict[str, int] = {}  # C names of computed indices, and their bounds
        self.checks: list[int] = []  # sizes, one for each bit of `bad`
        self.forwarded: dict[str, CValue] = {}  # buffers whose element is a C value here
        self.tiles: dict[tuple[str, Expr], str] = {}  # reads served from a transposed tile
        self.differences: dict[str, tuple[str, ...]] = {}  # the operands of values that are a - b
        self.parts: set[str] = set()  # real values computed from complex ones
        self.mirrors = Mirrors()
        self.scratch: dict[str, str] = {}  # buffers kept in row scratch: "name[index]"

    def fresh(self, prefix: str = "v") -> str:
        """A new C identifier."""
        self.count += 1
        return f"{prefix}{self.count}"

    def scope(self, depth: int) -> Scope:
        """The scope of a depth."""
        return self.inner if depth == INNER_DEPTH else self.row

    def known(self, key: Any) -> CValue | None:
        """The value already emitted under `key`, if any."""
        return self.row.known.get(key) or self.inner.known.get(key)

    def define(
        self, key: Any, text: str, dtype: DType, depth: int, interval: Interval = EVERYTHING
    ) -> CValue:
        """Emit `ct name = text;` once."""
        found = self.known(key)
        if found is not None:
            return found
        scope = self.scope(depth)
        name = self.fresh()
        scope.lines.append(f"{c_type(dtype)} {name} = {text};")
        value = CValue(name, dtype, depth, interval)
        scope.known[key] = value
        return value

    def expr_depth(self, expr: Expr) -> int:
        """The depth at which an index expression is known."""
        return max([self.depth_of[s] for s in expr.symbols], default=0)

    def index_text(self, expr: Expr) -> str:
        """An index expression in C."""
        found = self._texts.get(expr)
        if found is None:
            found = self._texts[expr] = expr.render(CPrinter(self.symbol_names))
        return found

    def emit(
        self,
        instrs: Sequence[Instr],
        indexes: Sequence[Expr],
        values: dict[int, CValue],
        start: int,
        stop: int,
    ) -> None:
        """Emit instructions [start, stop); `values` maps their positions to C values."""
        for n in range(start, stop):
            op, args, dtype, attrs = instrs[n]
            operands = [values[a] for a in args if a in values]
            depth = max([v.depth for v in operands]) if operands else 0
            row = SCALAR_OPS.get(op)
            if row is not None:
                values[n] = self._apply(row, operands, dtype, attrs, depth)
            elif op == "load":
                index = indexes[attrs[1]].substitute(self.bound)
                values[n] = self._load(attrs, index, dtype, operands, depth)
            elif op == "constant":
                whole = dtype.kind in "iub"
                interval = point(int(attrs[0])) if whole else EVERYTHING
                values[n] = CValue(literal(attrs[0], dtype), dtype, 0, interval)
            elif op == "index_expr":
                expr = indexes[attrs[0]].substitute(self.bound)
                depth = max(depth, self.expr_depth(expr))
                text = f"({c_type(dtype)})({self.index_text(expr)})"
                interval = Interval(expr.lo, expr.hi)
                values[n] = self.define(("index", expr, dtype), text, dtype, depth, interval)
            elif op == "cast":
                text = cast_text(operands[0].text, operands[0].dtype, attrs[0])
                key = ("cast", operands[0].text, attrs[0])
                values[n] = self.define(key, text, dtype, depth)
            elif op == "bitcast":
                values[n] = self._bitcast(operands[0], attrs[0], dtype, depth)
            elif op == "check":
                self._check(operands, attrs[0], depth)
            elif op == "bind":
                self._bind(attrs[0], operands[0], attrs[1], depth)
                values[n] = operands[0]
            elif op == "store":
                index = indexes[attrs[1]].substitute(self.bound)
                self.on_store(attrs[0], index, attrs[2], operands, depth)
            else:
                raise ValueError(f"{op} cannot be emitted inside a loop")

    def _apply(
        self, row: ScalarOp, operands: list[CValue], dtype: DType, attrs: Any, depth: int
    ) -> CValue:
        """A scalar operation, decided now where the ranges of its operands decide it."""
        params = dict(attrs)
        types = tuple([v.dtype for v in operands])
        whole = types[0].kind in "iub" and all(t.kind in "iub" for t in types)
        interval = EVERYTHING
        if row.pick is not None and (whole or row.operand > 0):
            chosen = row.pick(*[v.interval for v in operands])
            if chosen is not None and operands[chosen].dtype == dtype:
                return operands[chosen]
        if whole and row.interval is not None and dtype.kind in "iub":
            interval = wrap(row.interval(*[v.interval for v in operands], **params), dtype)
            if interval.lo == interval.hi:
                return CValue(literal(interval.lo, dtype), dtype, 0, interval)
        texts = tuple([v.text for v in operands])
        text = spelling(row, types, "c", texts, **params)
        if self.parts and (part := _negated(row, texts, dtype)) in self.parts:
            # GCC makes -a * b - c of -(a * b + c) computed as one, whose zero is another.
            text = f"stax_negative_{type_tag(dtype)}({part})"
        # A complex product by multiply-add instructions tells its operands apart.
        named = texts if dtype.kind == "c" and row.multiplies else self._operands(row, texts)
        key = (row.name, named, attrs, types[row.operand])
        value = self.define(key, text, dtype, depth, interval)
        if row.alternates:
            self.differences[value.text] = texts
        if dtype.kind == "f":
            self.mirrors.note(row, texts, value.text)
        if types[row.operand].kind == "c" and dtype.kind == "f":
            self.parts.add(value.text)
        return value

    def _operands(self, row: ScalarOp, texts: tuple[str, ...]) -> tuple[str, ...]:
        """The operands as they tell equal results apart: a * b is b * a, (a - b)^2 is (b - a)^2."""
        if row.multiplies and texts[0] == texts[1] and texts[0] in self.differences:
            return ("square", *sorted(self.differences[texts[0]]))
        return tuple(sorted(texts)) if row.commutes else texts

    def on_store(
        self, buffer: str, index: Expr, mode: str, operands: list[CValue], depth: int
    ) -> None:
        """What a store does; kernels replace it."""
        raise TypeError(f"{type(self).__name__} does not store ({buffer})")

    def _load(
        self,
        attrs: tuple[Any, ...],
        index: Expr,
        dtype: DType,
        operands: list[CValue],
        depth: int,
    ) -> CValue:
        buffer, stored = attrs[0], attrs[2]
        forwarded = self.forwarded.get(buffer)
        if forwarded is not None:
            return forwarded
        kept = self.scratch.get(buffer)
        if kept is not None:
            return self.define(("scratch", buffer), kept, dtype, INNER_DEPTH)
        depth = max(depth, self.expr_depth(index))
        mask = operands[0].text if operands else None
        if operands and operands[0].interval.lo == operands[0].interval.hi:
            if not operands[0].interval.lo:
                return CValue(literal(0, dtype), dtype, 0)
            mask = None
        tile = self.tiles.get((buffer, index))
        if tile is not None and mask is None:
            return self.define(("load", buffer, index, mask), tile, dtype, INNER_DEPTH)
        text = load_text(self.pointers[buffer], self.index_text(index), stored)
        if mask is not None:
            text = f"({mask} ? {text} : 0)"
        return self.define(("load", buffer, index, mask), text, dtype, depth)

    def _bitcast(self, value: CValue, target: DType, dtype: DType, depth: int) -> CValue:
        source, stored = value.dtype, target
        if is_half(target):
            return self.define(
                ("bitcast", value.text, target),
                f"stax_{type_tag(target)}_to_f32((uint16_t){value.text})",
                dtype,
                depth,
            )
        text = f"((union {{ {c_type(source)} a; {c_type(stored)} b; }}){{ .a = {value.text} }}).b"
        return self.define(("bitcast", value.text, target), text, dtype, depth)

    def _check(self, operands: list[CValue], size: int, depth: int) -> None:
        value = operands[0].text
        bit = len(self.checks)
        key = ("check", value, size, operands[1].text if len(operands) > 1 else None)
        if self.known(key) is not None:
            return
        # Many checks share the last bits; the message then names the first of them.
        self.checks.append(size)
        test = f"((uint64_t){value} >= {size}ULL)"
        if len(operands) > 1:
            test = f"({test} & ({operands[1].text} != 0))"
        scope = self.scope(depth)
        scope.lines.append(f"bad |= {test} << {min(bit, 30)};")
        scope.known[key] = CValue("0", np.dtype(np.bool_), depth)

    def _bind(self, symbol: Symbol, value: CValue, size: int, depth: int) -> None:
        # The address stays inside the array even where a check has failed.
        last = max(size - 1, 0)
        t = value.text
        text = f"((uint64_t){t} < {size}ULL ? (int64_t){t} : 0)"
        bound = self.define(("bind", t, size), text, np.dtype(np.int64), depth)
        self.addresses[bound.text] = size
        # Bodies number their computed indices from s0 alike; here each has a name of its own.
        own = make_symbol(f"s{bound.text}", 0, last)
        self.symbol_names[own] = bound.text
        self.depth_of[own] = bound.depth
        self.bound[symbol] = own


__all__ = [
    "INNER_DEPTH",
    "ROW_DEPTH",
    "CPrinter",
    "CValue",
    "Emitter",
    "Scope",
    "cast_text",
    "compute_dtype",
    "literal",
    "load_text",
    "store_text",
]
