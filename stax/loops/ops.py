"""The virtual ``ops``: one description of a computation, many interpretations.

Input: calls such as ``ops.add(ops.load("x", i, f32), …)`` made while a loop body runs. Output:
whatever the handler in force makes of them: a recorded body, a set of reads, a count, text,
numbers, code. The idea: the body of a loop is an ordinary function over :data:`ops`; the handler
is a context variable set for the length of one run, and every scalar operation is a method made
from the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.loops.scalar_ops import SCALAR_OPS, ScalarOp
from stax.loops.symbolic import Expr, IntLike, as_expr

if TYPE_CHECKING:
    from stax.loops.monoids import Monoid

Value = Any
"""What a handler passes around for one scalar; only the handler knows what it is."""

_MISSING: Any = object()
_WHERE = SCALAR_OPS["where"]
_AND = SCALAR_OPS["logical_and"]
_LESS = SCALAR_OPS["lt"]
_ADD = SCALAR_OPS["add"]


class Handler(ABC):
    """An interpretation of loop bodies.

    ``mask`` is the condition of the innermost :meth:`masked` region (None outside); loads and
    bounds checks made there take effect only where it holds. ``memo`` remembers what a loader
    returned for an index, so that a value reached along many paths is computed once.
    """

    def __init__(self) -> None:
        self.mask: Value | None = None
        self.memo: dict[Any, Value] = {}

    @abstractmethod
    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        """The element of ``buffer`` at the flat position ``index``; 0 where ``mask`` is false."""

    @abstractmethod
    def constant(self, value: Any, dtype: np.dtype) -> Value:
        """A constant of the given type."""

    @abstractmethod
    def index_expr(self, expr: Expr, dtype: np.dtype) -> Value:
        """The value of an index expression as a number of the given type."""

    @abstractmethod
    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        """One scalar operation of the table."""

    @abstractmethod
    def cast(self, value: Value, dtype: np.dtype) -> Value:
        """Conversion to another type, as ``astype``."""

    @abstractmethod
    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        """The same bits read as another type of the same width."""

    @abstractmethod
    def check_bounds(self, value: Value, size: int, mask: Value | None) -> None:
        """Demands ``0 <= value < size`` wherever ``mask`` holds."""

    @abstractmethod
    def bind(self, value: Value, size: int) -> Expr:
        """An index symbol that stands for an integer value known to lie in ``[0, size)``."""

    @abstractmethod
    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The combination of ``values`` over the reduction loops."""

    @abstractmethod
    def scan(self, monoid: Monoid, values: tuple[Value, ...], reverse: bool) -> tuple[Value, ...]:
        """The running combination along the innermost loop, the current element included."""

    @abstractmethod
    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        """Writes or (``mode`` add, mul, min, max) accumulates where ``mask`` holds."""

    @abstractmethod
    def dtype_of(self, value: Value) -> np.dtype:
        """The type in which a value is computed."""

    def masked(self, mask: Value, thunk: Callable[[], Value], other: Value) -> Value:
        """``thunk()`` where ``mask`` holds, else ``other``; loads in ``thunk`` obey the mask."""
        outer, memo = self.mask, self.memo
        self.mask = mask if outer is None else self.apply(_AND, (outer, mask), {})
        self.memo = {}
        try:
            value = thunk()
        finally:
            self.mask, self.memo = outer, memo
        if isinstance(other, int | float | bool):
            other = self.constant(other, self.dtype_of(value))
        return self.apply(_WHERE, (mask, value, other), {})

    def recall(self, made: Any, index: Any, make: Callable[[Any], Value]) -> Value:
        """``make(index)``, the element at ``index`` of what ``made`` stands for, made once."""
        memo, key = self.memo, (made, index)
        value = memo.get(key, _MISSING)
        if value is _MISSING:
            value = memo[key] = make(index)
        return value

    def indirect(self, value: Value, size: int, check: bool, wrap: bool) -> Expr:
        """An index symbol for a computed index; Python's negative indices count from the end."""
        if wrap:
            dtype = self.dtype_of(value)
            negative = self.apply(_LESS, (value, self.constant(0, dtype)), {})
            shifted = self.apply(_ADD, (value, self.constant(size, dtype)), {})
            value = self.apply(_WHERE, (negative, shifted, value), {})
        if check:
            self.check_bounds(value, size, self.mask)
        return self.bind(value, size)


class _Outside:
    """What stands for a handler where none is in force."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of objects, which inspection asks for
            raise AttributeError(name)
        raise RuntimeError("ops.* was called outside of a loop body: no handler is in force")


_OUTSIDE: Any = _Outside()
_HANDLER: ContextVar[Handler] = ContextVar("stax_ops_handler", default=_OUTSIDE)
# The handler in force; what is asked of it outside of any `handling` block is a RuntimeError.
current_handler = _HANDLER.get


@contextmanager
def handling(handler: Handler) -> Iterator[Handler]:
    """Makes ``handler`` the interpretation of :data:`ops` inside the block."""
    token = _HANDLER.set(handler)
    try:
        yield handler
    finally:
        _HANDLER.reset(token)


class Ops:
    """What a loop body may say. Scalar operations of the table are methods: ``ops.add(a, b)``."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Value]: ...

    def call(self, name: str, *args: Value, **params: Any) -> Value:
        """The scalar operation called ``name``, for code that has the name as data."""
        return current_handler().apply(SCALAR_OPS[name], args, params)

    def load(self, buffer: str, index: Expr, dtype: np.dtype) -> Value:
        handler = current_handler()
        return handler.load(buffer, index, dtype, handler.mask)

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        return current_handler().constant(value, dtype)

    def index_expr(self, expr: IntLike, dtype: np.dtype) -> Value:
        return current_handler().index_expr(as_expr(expr), dtype)

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return current_handler().cast(value, dtype)

    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        return current_handler().bitcast(value, dtype)

    def indirect(self, value: Value, size: int, check: bool = True, wrap: bool = True) -> Expr:
        """An index from a computed integer; ``wrap`` lets -1 mean the last element."""
        return current_handler().indirect(value, size, check, wrap)

    def masked(self, mask: Value, thunk: Callable[[], Value], other: Value) -> Value:
        return current_handler().masked(mask, thunk, other)

    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return current_handler().reduction(monoid, values)

    def scan(
        self, monoid: Monoid, values: tuple[Value, ...], reverse: bool = False
    ) -> tuple[Value, ...]:
        return current_handler().scan(monoid, values, reverse)

    def store(self, buffer: str, index: Expr, value: Value, mode: str = "set") -> None:
        handler = current_handler()
        handler.store(buffer, index, value, mode, handler.mask)

    def dtype_of(self, value: Value) -> np.dtype:
        return current_handler().dtype_of(value)


def _method(row: ScalarOp) -> Callable[..., Value]:
    def method(self: Ops, *args: Value, **params: Any) -> Value:
        return current_handler().apply(row, args, params)

    method.__name__ = row.name
    method.__doc__ = f"The scalar operation ``{row.name}`` of {row.arity} operand(s)."
    return method


for _row in SCALAR_OPS.values():
    setattr(Ops, _row.name, _method(_row))

ops = Ops()
"""The one object through which loop bodies are written."""
