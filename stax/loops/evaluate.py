"""Loop bodies run by NumPy: whole index grids at once, the oracle of the generated code.

Input: a recorded body and a flat array for each buffer. Output: the elements that the body stores.
Each loop variable becomes an integer array along its own axis; a read is fancy indexing; a
reduction is the monoid's NumPy form over the trailing axes. Floating-point warnings are silenced,
as compiled code gives none.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from typing import Any

import numpy as np

from stax.errors import OutOfBoundsError
from stax.loops.body import Body, extent
from stax.loops.monoids import Components, Monoid
from stax.loops.ops import Handler, Value, handling
from stax.loops.scalar_ops import ScalarOp, compute_dtype, is_half, saturating_cast
from stax.loops.symbolic import Expr, Symbol, symbol

INT64 = np.dtype(np.int64)


class Evaluator(Handler):
    """Values are arrays that broadcast over the grid of all loops."""

    def __init__(self, body: Body, buffers: MutableMapping[str, np.ndarray]) -> None:
        super().__init__()
        self.buffers = buffers
        loops = body.loops + body.reduction_loops
        self.grid = tuple(extent(s) for s in loops)
        self.outer = len(body.loops)
        self.env: dict[Symbol, Any] = {}
        self._positions: dict[Expr, Any] = {}
        for axis, s in enumerate(loops):
            shape = [1] * len(loops)
            shape[axis] = self.grid[axis]
            self.env[s] = np.arange(self.grid[axis], dtype=np.int64).reshape(shape)
        self._bound = 0

    def _evaluate(self, index: Expr) -> Any:
        found = self._positions.get(index)
        if found is None:
            found = self._positions[index] = np.asarray(index.evaluate(self.env), dtype=np.int64)
        return found

    def load(self, buffer: str, index: Expr, dtype: np.dtype, mask: Value | None) -> Value:
        at = self._evaluate(index)
        flat = self.buffers[buffer]
        if mask is None:
            value = flat[at]
        else:
            value = np.where(mask, flat[np.where(mask, at, 0)] if flat.size else 0, 0)
        return value.astype(compute_dtype(dtype), copy=False)

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        return np.asarray(value).astype(dtype).astype(compute_dtype(dtype))

    def index_expr(self, expr: Expr, dtype: np.dtype) -> Value:
        return self.cast(self._evaluate(expr), dtype)

    def apply(self, row: ScalarOp, args: tuple[Value, ...], params: dict[str, Any]) -> Value:
        wanted = row.result(tuple(a.dtype for a in args))
        return np.asarray(row.numpy(*args, **params)).astype(wanted, copy=False)

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        return saturating_cast(value, dtype).astype(compute_dtype(dtype), copy=False)

    def bitcast(self, value: Value, dtype: np.dtype) -> Value:
        return np.asarray(value).view(dtype)

    def check_bounds(self, value: Value, size: int, mask: Value | None) -> None:
        bad = (value < 0) | (value >= size)
        if mask is not None:
            bad = bad & mask
        if np.any(bad):
            worst = np.broadcast_to(value, np.shape(bad))[bad][0]
            shown = int(worst)
            raise OutOfBoundsError(
                f"index {shown} is out of bounds for axis of size {size}: "
                f"an index must satisfy {-size} <= index < {size}"
                if shown >= 0
                else f"index {shown - size} is out of bounds for axis of size {size}: "
                f"an index must satisfy {-size} <= index < {size}"
            )

    def bind(self, value: Value, size: int) -> Expr:
        found = symbol(f"s{self._bound}", 0, max(size - 1, 0))
        self._bound += 1
        self.env[found] = np.asarray(value).astype(np.int64)
        return found

    def reduction(self, monoid: Monoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
        outer = self.grid[: self.outer]
        length = math.prod(self.grid[self.outer :])
        parts = tuple(np.broadcast_to(v, self.grid).reshape((*outer, length)) for v in values)
        padding = (1,) * (len(self.grid) - self.outer)
        merged = reduce_last_axis(monoid, parts)
        return tuple(np.reshape(m, (*outer, *padding)) for m in merged)

    def scan(self, monoid: Monoid, values: tuple[Value, ...], reverse: bool) -> tuple[Value, ...]:
        parts = tuple(np.broadcast_to(v, self.grid) for v in values)
        if reverse:
            parts = tuple(p[..., ::-1] for p in parts)
        merged = scan_last_axis(monoid, parts)
        return tuple(m[..., ::-1] for m in merged) if reverse else merged

    def store(self, buffer: str, index: Expr, value: Value, mode: str, mask: Value | None) -> None:
        target = self.buffers[buffer]
        at = self._evaluate(index)
        # Updates happen in index order, once for each point of the loops.
        once = () if mode == "set" and mask is None else self.grid
        shape = np.broadcast_shapes(at.shape, np.shape(value), once)
        at, value = np.broadcast_to(at, shape), np.broadcast_to(value, shape)
        if mask is not None:
            chosen = np.broadcast_to(mask, shape)
            at, value = at[chosen], value[chosen]
        if mode == "set":
            target[at.reshape(-1)] = saturating_cast(value.reshape(-1), target.dtype)
            return
        wide = target.astype(np.float32) if is_half(target.dtype) else target
        _UPDATES[mode].at(wide, at.reshape(-1), value.reshape(-1).astype(wide.dtype))
        if wide is not target:
            target[...] = wide.astype(target.dtype)

    def dtype_of(self, value: Value) -> np.dtype:
        return np.asarray(value).dtype


_UPDATES: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


class ScalarEvaluator(Evaluator):
    """Runs combine rules on arrays, with no loops around."""

    def __init__(self) -> None:
        super().__init__(Body((), (), (), ()), {})


def combine(monoid: Monoid, a: Components, b: Components) -> Components:
    """The monoid's merge of arrays of elements."""
    with handling(ScalarEvaluator()), np.errstate(all="ignore"):
        return monoid.combine(a, b)


def reduce_last_axis(monoid: Monoid, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The components merged along their last axis; the identity when it is empty."""
    if parts[0].shape[-1] == 0:
        constants = monoid.identity(parts[0].dtype)
        return tuple(
            np.full(p.shape[:-1], c, p.dtype) for p, c in zip(parts, constants, strict=True)
        )
    if monoid.reduce is not None:
        return monoid.reduce(parts)
    while parts[0].shape[-1] > 1:
        n = parts[0].shape[-1]
        merged = combine(
            monoid,
            tuple(p[..., 0 : n - 1 : 2] for p in parts),
            tuple(p[..., 1:n:2] for p in parts),
        )
        tail = tuple(p[..., n - 1 :] for p in parts) if n % 2 else None
        parts = tuple(merged)
        if tail is not None:
            parts = tuple(np.concatenate(pair, -1) for pair in zip(parts, tail, strict=True))
    return tuple(p[..., 0] for p in parts)


def scan_last_axis(monoid: Monoid, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The running merge of the components along their last axis."""
    if monoid.accumulate is not None or parts[0].shape[-1] == 0:
        return parts if monoid.accumulate is None else monoid.accumulate(parts)
    running = tuple(p[..., 0] for p in parts)
    out = [running]
    for n in range(1, parts[0].shape[-1]):
        running = combine(monoid, running, tuple(p[..., n] for p in parts))
        out.append(running)
    return tuple(np.stack([step[k] for step in out], -1) for k in range(len(parts)))


def evaluate(body: Body, buffers: MutableMapping[str, np.ndarray]) -> None:
    """Runs ``body`` on flat arrays, one for each buffer, writing into those that it stores to.

    Raises:
        OutOfBoundsError: an index computed from data is outside of its axis.
    """
    if 0 in body.ranges:
        return
    handler = Evaluator(body, buffers)
    with np.errstate(all="ignore"):
        body.replay(handler)
