"""Three interpretations of a loop body besides recording it: reads and writes, a count, text.

Input: an inner function run under the handler, or a recorded body replayed on it. Output: the sets
that dependence analysis needs, the figures that the materialisation rules need, or lines of text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.dtypes import short_name
from stax.loops.body import Access
from stax.loops.monoids import Monoid
from stax.loops.ops import Handler, Value
from stax.loops.scalar_ops import ScalarOp, compute_dtype
from stax.loops.symbolic import Expr, symbol


class TypedHandler(Handler):
    """Values are their types: enough for interpretations that only look at the calls made."""

    def __init__(self) -> None:
        super().__init__()
        self._symbols = 0

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        return compute_dtype(dtype)

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        return compute_dtype(dtype)

    def index_expr(self, expr: Expr, dtype: np.dtype) -> Value:
        return compute_dtype(dtype)

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        return row.result(args)

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return compute_dtype(dtype)

    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        return compute_dtype(dtype)

    def check_bounds(self, value: Value, size: int, mask: Value | None) -> None:
        return None

    def bind(self, value: Value, size: int) -> Expr:
        self._symbols += 1
        return symbol(f"s{self._symbols - 1}", 0, max(size - 1, 0))

    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return values

    def scan(self, monoid: Monoid, values: tuple[Value, ...], reverse: bool) -> tuple[Value, ...]:
        return values

    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        return None

    def dtype_of(self, value: Value) -> np.dtype:
        found: np.dtype = value
        return found


class Recorder(TypedHandler):
    """Collects the distinct reads and writes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._reads: dict[Access, None] = {}
        self._writes: dict[Access, None] = {}

    @property
    def reads(self) -> tuple[Access, ...]:
        return tuple(self._reads)

    @property
    def writes(self) -> tuple[Access, ...]:
        return tuple(self._writes)

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        self._reads[Access(buffer, index)] = None
        return super().load(buffer, index, dtype, mask)

    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        self._writes[Access(buffer, index, mode)] = None


class Counter(TypedHandler):
    """Counts scalar operations, reads and flops, and notes the transcendental operations."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.reads = 0
        self.flops = 0.0
        self.buffers: set[str] = set()
        self.transcendental: set[str] = set()

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        self.reads += 1
        self.buffers.add(buffer)
        return super().load(buffer, index, dtype, mask)

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        self.operations += 1
        self.flops += row.flops
        if row.transcendental:
            self.transcendental.add(row.name)
        return super().apply(row, args, params)

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        self.operations += value != dtype
        return super().cast(value, dtype)


class Text(str):
    """The name of a value, with its type."""

    __slots__ = ("dtype",)
    dtype: np.dtype

    def __new__(cls, text: str, dtype: np.dtype) -> Text:
        made = super().__new__(cls, text)
        made.dtype = dtype
        return made


class Formatter(Handler):
    """Writes one line for each call, with the results named ``tmp0, tmp1, …``."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._count = 0
        self._symbols = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def _line(self, op: str, words: list[str], dtype: np.dtype) -> Text:
        name = Text(f"tmp{self._count}", dtype)
        self._count += 1
        self.lines.append(f"{name} = ops.{op}({', '.join(words)})")
        return name

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        words = [repr(buffer), str(index)] + ([] if mask is None else [f"mask={mask}"])
        return self._line("load", words, compute_dtype(dtype))

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        plain = np.asarray(value).astype(dtype).item()
        return self._line("constant", [repr(plain), short_name(dtype)], compute_dtype(dtype))

    def index_expr(self, expr: Expr, dtype: np.dtype) -> Value:
        return self._line("index_expr", [str(expr), short_name(dtype)], compute_dtype(dtype))

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        words = [*args, *(f"{k}={v}" for k, v in sorted(params.items()))]
        return self._line(row.name, words, row.result(tuple(a.dtype for a in args)))

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return self._line("cast", [value, short_name(dtype)], compute_dtype(dtype))

    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        return self._line("bitcast", [value, short_name(dtype)], compute_dtype(dtype))

    def check_bounds(self, value: Value, size: int, mask: Value | None) -> None:
        words = [value, str(size)] + ([] if mask is None else [f"mask={mask}"])
        self.lines.append(f"ops.check({', '.join(words)})")

    def bind(self, value: Value, size: int) -> Expr:
        found = symbol(f"s{self._symbols}", 0, max(size - 1, 0))
        self._symbols += 1
        self.lines.append(f"{found} = ops.bind({value}, {size})")
        return found

    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return self._merged("reduction", [repr(monoid.name), *values], values)

    def scan(self, monoid: Monoid, values: tuple[Value, ...], reverse: bool) -> tuple[Value, ...]:
        tail = ["reverse=True"] if reverse else []
        return self._merged("scan", [repr(monoid.name), *values, *tail], values)

    def _merged(self, op: str, words: list[str], values: tuple[Value, ...]) -> tuple[Value, ...]:
        name = self._line(op, words, values[0].dtype)
        if len(values) == 1:
            return (name,)
        return tuple(Text(f"{name}[{n}]", v.dtype) for n, v in enumerate(values))

    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        words = [repr(buffer), str(index), value] + ([] if mode == "set" else [f"mode={mode!r}"])
        words += [] if mask is None else [f"mask={mask}"]
        self.lines.append(f"ops.store({', '.join(words)})")

    def dtype_of(self, value: Value) -> np.dtype:
        found: np.dtype = value.dtype
        return found
