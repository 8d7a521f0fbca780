"""Merge operations as Triton functions.

Input: a monoid and the type of its elements.  Output: the text of a function of two elements given
as components, made from the monoid's own `combine`; reductions and scans of any kind are given
that function.  Truth values are merged as 32-bit integers, which every device reduces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.backends.triton.handler import TValue, cast_text, literal, number, triton_type
from stax.dtypes import DType
from stax.loops.monoids import Monoid
from stax.loops.ops import Handler, Value, handling
from stax.loops.scalar_ops import ScalarOp, spelling, type_tag

INT32 = np.dtype(np.int32)


class Merge:
    """One merge operation at one type: its function, and how values enter and leave it."""

    def __init__(self, monoid: Monoid, dtype: DType) -> None:
        self.monoid = monoid
        self.dtypes = monoid.component_dtypes(dtype)
        self.held = tuple(INT32 if d.kind == "b" else d for d in self.dtypes)
        self.name = f"merge_{monoid.name}_{type_tag(dtype)}"

    def identity(self, n: int) -> str:
        """The neutral element's component as text."""
        value = self.monoid.identity(self.dtypes[0])[n]
        if self.dtypes[n].kind in "iub":
            return str(int(value))
        return number(float(value))

    def enter(self, text: str, n: int) -> str:
        """A component as it is held while merging."""
        return f"{text}.to(tl.int32)" if self.dtypes[n].kind == "b" else text

    def leave(self, text: str, n: int) -> str:
        """A held component as a value."""
        return f"({text} != 0)" if self.dtypes[n].kind == "b" else text

    @property
    def definition(self) -> str:
        """The function's text."""
        count = len(self.dtypes)
        left = [TValue(f"a{n}", d) for n, d in enumerate(self.held)]
        right = [TValue(f"b{n}", d) for n, d in enumerate(self.held)]
        names = ", ".join(v.text for v in (*left, *right))
        handler = _Combiner()
        if self.dtypes[0].kind == "b":
            sign = {"any": "|", "all": "&", "max": "|", "min": "&", "sum": "|", "prod": "&"}
            results = [f"a0 {sign.get(self.monoid.name, '^')} b0"]
        else:
            with handling(handler):
                merged = self.monoid.combine(tuple(left), tuple(right))
            results = [v.text for v in merged]
        body = "\n".join(f"    {line}" for line in (*handler.lines, f"return {', '.join(results)}"))
        assert len(results) == count
        return f"@triton.jit\ndef {self.name}({names}):\n{body}\n"

    def call(self, left: list[str], right: list[str]) -> str:
        """The merge of two elements."""
        return f"{self.name}({', '.join((*left, *right))})"


class _Combiner(Handler):
    """Prints a monoid's `combine` as Triton statements."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        dtypes = tuple(a.dtype for a in args)
        text = spelling(row, dtypes, "triton", tuple(a.text for a in args), **params)
        return self._new(text, row.result(dtypes))

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        return self._new(literal(value, dtype), dtype)

    def dtype_of(self, value: Value) -> np.dtype:
        found: np.dtype = value.dtype
        return found

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return self._new(cast_text(value.text, value.dtype, dtype), dtype)

    def _new(self, text: str, dtype: DType) -> TValue:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return TValue(name, dtype)

    def _absent(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a merge operation is made of scalar operations only")

    load = index_expr = bitcast = check_bounds = bind = reduction = scan = store = _absent


__all__ = ["Merge", "triton_type"]
