"""Loops on concrete values, for bodies that cannot be traced: a loop is a Python loop.

Input: a body as a Python function, and values.  Output: what the traced loop would give.  The
body is called at every step, with NumPy arrays (read-only, as what they stand for is the caller's)
or, where only derivatives are being taken, with values whose numbers are known; so plain NumPy
arrays can be indexed by the counter and Python's own control flow works in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.trace import EVAL, STATE, Tracer
from stax.primitives.casts import convert
from stax.primitives.shapes import concatenate
from stax.primitives.views import reshape
from stax.pytree import PyTreeDef, tree_flatten, tree_unflatten
from stax.transforms.jvp import JVPTrace
from stax.transforms.linearize import LinearizeTrace

# (types before a step, results of the step) -> types the carry has to keep
Settle = Callable[[list[Aval], Sequence[Aval]], list[Aval]]
Step = Callable[[Any, Any], tuple[Any, Any]]


def runs_concretely() -> bool:
    """True when every value's number is known: no graph is being recorded, nothing batched."""
    trace = STATE.trace
    while isinstance(trace, JVPTrace | LinearizeTrace):
        trace = trace.parent
    return trace is EVAL


def read_only(value: Any) -> Any:
    """A view of an array that cannot be written through."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def in_dtype(value: Any, dtype: Any) -> Any:
    """A value of the carry in the dtype it keeps; Python scalars become NumPy's."""
    if isinstance(value, bool | int | float | complex):
        return dtype.type(value)
    return value if aval_of(value).dtype == dtype else convert(value, dtype)


class ConcreteCarry:
    """What a loop carries, kept in the types of its first step.

    Weak initial values take the type that the first step gives them; then it is run again.
    """

    def __init__(self, leaves: Sequence[Any], tree: PyTreeDef, settle: Settle) -> None:
        self.leaves = [np.bool_(v) if isinstance(v, bool) else v for v in leaves]
        self.tree = tree
        self.avals = [aval_of(v) for v in self.leaves]
        self.settle = settle

    def value(self) -> Any:
        """The carry as the body takes it."""
        return tree_unflatten(self.tree, [read_only(v) for v in self.leaves])

    def advance(self, new: Any) -> bool:
        """Take the carry a step returned; False when the step has to be run again."""
        leaves = tree_flatten(new)[0]
        found = [aval_of(v) for v in leaves]
        if found != self.avals:
            settled = self.settle(self.avals, found)
            if settled != self.avals:
                self.avals = settled
                self.leaves = [
                    v
                    if aval_of(v).dtype == a.dtype and (a.weak or not aval_of(v).weak)
                    else in_dtype(v, a.dtype)
                    for v, a in zip(self.leaves, settled, strict=True)
                ]
                return False
            leaves = [
                v if aval_of(v).dtype == a.dtype else in_dtype(v, a.dtype)
                for v, a in zip(leaves, self.avals, strict=True)
            ]
        self.leaves = leaves
        return True


def concrete_scan(
    step: Step,
    carry: ConcreteCarry,
    xs: Sequence[Any],
    xs_tree: PyTreeDef,
    steps: int,
    reverse: bool,
) -> tuple[list[Any], Any]:
    """The final carry's leaves and the stacked results of a scan of at least one step."""
    rows: list[list[Any]] = [[] for _ in range(steps)]
    y_tree: PyTreeDef | None = None
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        while True:
            x = tree_unflatten(xs_tree, [read_only(v[t]) for v in xs])
            new, y = step(carry.value(), x)
            if carry.advance(new):
                break
        rows[t], y_tree = tree_flatten(y)
    assert y_tree is not None
    columns = [stacked(column) for column in zip(*rows, strict=True)]
    return carry.leaves, tree_unflatten(y_tree, columns)


def stacked(values: Sequence[Any]) -> Any:
    """The values along a new leading axis, in the dtype of the first."""
    if not any(isinstance(v, Tracer) for v in values):
        return np.stack([np.asarray(v) for v in values])
    dtype = aval_of(values[0]).dtype
    rows = [in_dtype(v, dtype) for v in values]
    return concatenate([reshape(v, (1, *aval_of(v).shape)) for v in rows], 0)
