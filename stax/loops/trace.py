"""Recording a loop body: the handler that turns one run of a closure into a :class:`Body`.

Input: ``ops`` calls on symbolic indices. Output: instructions in single assignment form. Equal
instructions are recorded once (the key contains every operand, so this changes no bit of any
result). Integers that depend on loop variables alone stay index expressions as long as they can:
an index computed by ``arange`` and arithmetic becomes part of the address. Every integer carries an
interval, which decides comparisons, bounds checks and corrections that need no code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.loops import ranges
from stax.loops.body import Body, Instr
from stax.loops.monoids import Monoid
from stax.loops.ops import Handler, Value
from stax.loops.ranges import Interval
from stax.loops.scalar_ops import BOOL, SCALAR_OPS, ScalarOp, compute_dtype, is_half
from stax.loops.symbolic import Expr, Symbol, constant, symbol

LARGEST_INDEX_EXPRESSION = 64
INT64 = np.dtype(np.int64)


class Ref:
    """The result of instruction ``id``, of type ``dtype``, with values in ``interval``."""

    __slots__ = ("dtype", "id", "interval")

    def __init__(self, id: int, dtype: np.dtype, interval: Interval) -> None:
        self.id, self.dtype, self.interval = id, dtype, interval


class IndexValue:
    """An integer that is still an index expression."""

    __slots__ = ("dtype", "expr", "interval")

    def __init__(self, expr: Expr, dtype: np.dtype) -> None:
        self.expr, self.dtype = expr, dtype
        self.interval = Interval(expr.lo, expr.hi)


Recorded = Ref | IndexValue


class BodyTracer(Handler):
    """Records ``ops`` calls; :meth:`body` gives the result."""

    def __init__(self) -> None:
        super().__init__()
        self.instrs: list[Instr] = []
        self.indexes: list[Expr] = []
        self._known: dict[Any, Ref] = {}
        self._index_positions: dict[Expr, int] = {}
        self._bound: dict[Any, Symbol] = {}
        self._values: dict[int, Ref] = {}

    def body(self, loops: tuple[Symbol, ...], reduction_loops: tuple[Symbol, ...] = ()) -> Body:
        """What was recorded, without what nothing uses, under the given loops."""
        return prune(Body(loops, reduction_loops, tuple(self.instrs), tuple(self.indexes)))

    # ------------------------------------------------------------------------------- recording

    def _position(self, index: Expr) -> int:
        found = self._index_positions.get(index)
        if found is None:
            found = self._index_positions[index] = len(self.indexes)
            self.indexes.append(index)
        return found

    def _emit(
        self,
        op: str,
        args: tuple[int, ...],
        dtype: np.dtype,
        attrs: tuple[Any, ...],
        interval: Interval = ranges.EVERYTHING,
        key: Any = None,
    ) -> Ref:
        key = (op, args, dtype, attrs if key is None else key)
        found = self._known.get(key)
        if found is None:
            number = len(self.instrs)
            found = self._known[key] = self._values[number] = Ref(number, dtype, interval)
            self.instrs.append(Instr(op, args, dtype, attrs))
        return found

    def ref(self, value: Recorded) -> Ref:
        """The value as the result of an instruction."""
        if isinstance(value, Ref):
            return value
        if value.expr.is_constant:
            return self._constant(int(value.expr.lo), value.dtype)
        at = self._position(value.expr)
        return self._emit("index_expr", (), value.dtype, (at,), value.interval)

    def _mask_args(self, mask: Value | None) -> tuple[int, ...]:
        return () if mask is None else (self.ref(mask).id,)

    # --------------------------------------------------------------------------- interpretation

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        limits = ranges.of_dtype(dtype)
        if mask is not None and dtype.kind in "iu":
            limits = ranges.hull(limits, ranges.point(0))
        attrs = (buffer, self._position(index), dtype)
        return self._emit("load", self._mask_args(mask), compute_dtype(dtype), attrs, limits)

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        if dtype.kind in "iu":
            exact = int(value)
            return IndexValue(constant(exact), dtype)
        return self._constant(value, dtype)

    def _constant(self, value: Any, dtype: np.dtype) -> Ref:
        stored = value if isinstance(value, np.generic) else np.asarray(value)
        if stored.dtype != dtype:
            stored = stored.astype(dtype)
        if is_half(dtype):
            dtype = compute_dtype(dtype)
            stored = stored.astype(dtype)
        plain = stored.item()
        interval = ranges.point(int(plain)) if dtype.kind in "iub" else ranges.EVERYTHING
        return self._emit("constant", (), dtype, (plain,), interval, key=stored.tobytes())

    def index_expr(self, expr: Expr, dtype: np.dtype) -> Value:
        if dtype.kind in "iu" and ranges.of_dtype(dtype).lo <= expr.lo:
            if expr.hi <= ranges.of_dtype(dtype).hi:
                return IndexValue(expr, dtype)
        return self.cast(IndexValue(expr, INT64), dtype)

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        dtypes = tuple([a.dtype for a in args])
        dtype = row.result(dtypes)
        whole = dtypes[0].kind in "iub" and all(d.kind in "iub" for d in dtypes)
        interval = ranges.EVERYTHING
        if row.pick is not None and (whole or row.operand > 0):
            chosen = row.pick(*[a.interval for a in args])
            if chosen is not None and args[chosen].dtype == dtype:
                return args[chosen]
        if whole:
            if row.symbolic is not None and dtype.kind in "iu":
                kept = self._symbolic(row, args, dtype)
                if kept is not None:
                    return kept
            if row.interval is not None:
                interval = row.interval(*[a.interval for a in args], **params)
                interval = ranges.wrap(interval, dtype)
            elif dtype.kind in "iub":
                interval = ranges.of_dtype(dtype)
            if interval.lo == interval.hi:
                return self.constant(
                    bool(interval.lo) if dtype == BOOL else int(interval.lo), dtype
                )
        elif dtype == BOOL:
            interval = ranges.BOOL
        ids = tuple([self.ref(a).id for a in args])
        if row.plus == "either" and dtype.kind == "f":
            # 0.0 + x is x unless x is -0.0.
            for one, other in (ids, ids[::-1]):
                if self._is_zero(one) and self._is_plus(other):
                    return self._values[other]
        attrs = tuple(sorted(params.items())) if params else ()
        return self._emit(row.name, ids, dtype, attrs, interval)

    def _is_zero(self, number: int) -> bool:
        instr = self.instrs[number]
        return instr.op == "constant" and repr(instr.attrs[0]) == "0.0"

    def _is_plus(self, number: int, depth: int = 8) -> bool:
        """Whether a real value is known not to be -0.0."""
        instr = self.instrs[number]
        if instr.op == "constant":
            return repr(instr.attrs[0]) != "-0.0"
        if instr.op == "cast":
            return self.instrs[instr.args[0]].dtype.kind in "iub"
        row = SCALAR_OPS.get(instr.op)
        if row is None or not row.plus or depth == 0:
            return False
        if row.plus == "both":
            return instr.args[0] == instr.args[1]
        return row.plus == "always" or any(self._is_plus(a, depth - 1) for a in instr.args)

    def _symbolic(
        self, row: ScalarOp, args: tuple[Recorded, ...], dtype: np.dtype
    ) -> IndexValue | None:
        assert row.symbolic is not None
        exprs = []
        for a in args:
            if not isinstance(a, IndexValue):
                return None
            exprs.append(a.expr)
        result = row.symbolic(*exprs)
        if result is None or result.size > LARGEST_INDEX_EXPRESSION:
            return None
        limits = ranges.of_dtype(dtype)
        return (
            IndexValue(result, dtype) if limits.lo <= result.lo and result.hi <= limits.hi else None
        )

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        source = value.dtype
        if source == dtype:
            return value
        if dtype == BOOL and source.kind in "iu":
            return self.apply(SCALAR_OPS["ne"], (value, self.constant(0, source)), {})
        if source.kind in "iub" and dtype.kind in "iu":
            limits = ranges.of_dtype(dtype)
            fits = value.interval.inside(*limits)
            if fits and isinstance(value, IndexValue):
                return IndexValue(value.expr, dtype)
            if fits and value.interval.lo == value.interval.hi:
                return self.constant(int(value.interval.lo), dtype)
            interval = value.interval if fits else limits
        else:
            interval = ranges.of_dtype(dtype)
        operand = self.ref(value)
        if is_half(dtype) and self._is_rounded(operand, dtype):
            return operand
        return self._emit("cast", (operand.id,), compute_dtype(dtype), (dtype,), interval)

    def _is_rounded(self, value: Ref, dtype: np.dtype) -> bool:
        """Whether a float32 value is known to be one of the half type `dtype`."""
        instr = self.instrs[value.id]
        if instr.op == "constant" and value.dtype.kind == "f":
            plain = instr.attrs[0]
            return bool(np.asarray(plain).astype(dtype).astype(value.dtype) == plain)
        return instr.op in ("load", "cast") and instr.attrs[-1] == dtype

    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        operand = self.ref(value)
        interval = ranges.of_dtype(dtype)
        return self._emit("bitcast", (operand.id,), compute_dtype(dtype), (dtype,), interval)

    def check_bounds(self, value: Value, size: int, mask: Value | None) -> None:
        if value.interval.inside(0, size - 1):
            return
        args = (self.ref(value).id, *self._mask_args(mask))
        self._emit("check", args, BOOL, (size,))

    def bind(self, value: Value, size: int) -> Expr:
        if isinstance(value, IndexValue) and value.interval.inside(0, size - 1):
            return value.expr
        operand = self.ref(value)
        key = (operand.id, size)
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = symbol(f"s{len(self._bound)}", 0, max(size - 1, 0))
            self._emit("bind", (operand.id,), INT64, (found, size))
        return found

    def indirect(self, value: Value, size: int, check: bool, wrap: bool) -> Expr:
        if isinstance(value, IndexValue) and wrap and value.interval.hi < 0:
            if value.interval.lo >= -size:
                return value.expr + size
        if value.dtype.kind == "u" or (value.dtype.kind == "i" and value.dtype != INT64):
            value = self.cast(value, INT64)
        if value.interval.inside(-size if wrap else 0, size - 1):
            check = False
        if value.interval.lo >= 0:
            wrap = False
        return super().indirect(value, size, check, wrap)

    def masked(self, mask: Value, thunk: Any, other: Value) -> Value:
        if mask.interval.lo == 1:
            return thunk()
        if mask.interval.hi == 0 and not isinstance(other, int | float | bool):
            return other
        return super().masked(mask, thunk, other)

    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return self._merged("reduction", monoid, values, (monoid.name,))

    def scan(self, monoid: Monoid, values: tuple[Value, ...], reverse: bool) -> tuple[Value, ...]:
        return self._merged("scan", monoid, values, (monoid.name, reverse))

    def _merged(
        self, op: str, monoid: Monoid, values: tuple[Value, ...], attrs: tuple[Any, ...]
    ) -> tuple[Value, ...]:
        refs = [self.ref(v) for v in values]
        if len(refs) != len(monoid.components):
            raise ValueError(
                f"{op} {monoid.name} wants {monoid.components}, got {len(refs)} values"
            )
        merged = self._emit(op, tuple(r.id for r in refs), refs[0].dtype, attrs)
        return tuple(
            self._emit("project", (merged.id,), r.dtype, (n,), ranges.of_dtype(r.dtype))
            for n, r in enumerate(refs)
        )

    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        operand = self.ref(value)
        args = (operand.id, *self._mask_args(mask))
        attrs = (buffer, self._position(index), mode)
        self.instrs.append(Instr("store", args, operand.dtype, attrs))

    def dtype_of(self, value: Value) -> np.dtype:
        found: np.dtype = value.dtype
        return found


def prune(body: Body) -> Body:
    """The body without instructions that lead to no store or check, and without unused indices."""
    recorded = body.instrs
    needed = [i.op in ("store", "check") for i in recorded]
    symbols_at = {i.attrs[0]: n for n, i in enumerate(recorded) if i.op == "bind"}
    for number in range(len(recorded) - 1, -1, -1):
        if not needed[number]:
            continue
        instr = recorded[number]
        for a in instr.args:
            needed[a] = True
        if symbols_at:
            at = index_position(instr)
            for s in () if at is None else body.indexes[at].symbols:
                if s in symbols_at:
                    needed[symbols_at[s]] = True
    if all(needed) and _in_order(body):
        return body
    renumber: dict[int, int] = {}
    positions: dict[int, int] = {}
    instrs: list[Instr] = []
    for number, instr in enumerate(recorded):
        if not needed[number]:
            continue
        renumber[number] = len(instrs)
        op, args, dtype, attrs = instr
        place = INDEX_PLACES.get(op)
        if place is not None:
            at = positions.setdefault(attrs[place], len(positions))
            if at != attrs[place]:
                attrs = (*attrs[:place], at, *attrs[place + 1 :])
        if args:
            args = tuple([renumber[a] for a in args])
        instrs.append(Instr(op, args, dtype, attrs))
    indexes = tuple([body.indexes[p] for p in positions])
    return Body(body.loops, body.reduction_loops, tuple(instrs), indexes)


def _in_order(body: Body) -> bool:
    """Whether all index expressions are used, and numbered in the order of their use."""
    count = 0
    for op, _, _, attrs in body.instrs:
        place = INDEX_PLACES.get(op)
        if place is not None:
            if attrs[place] > count:
                return False
            count += attrs[place] == count
    return count == len(body.indexes)


# Where in the attributes of an instruction the position of its index expression is.
INDEX_PLACES = {"load": 1, "store": 1, "index_expr": 0}


def index_position(instr: Instr) -> int | None:
    """Where in ``Body.indexes`` the instruction's index expression is, if it has one."""
    place = INDEX_PLACES.get(instr.op)
    return None if place is None else instr.attrs[place]
