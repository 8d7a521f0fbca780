"""Minimisation: `minimize(fun, x0, method="BFGS")` or `"L-BFGS"`, a loop that compiles and batches.

Input: a function of a vector and a place to start.  Output: a minimum, the value, the gradient and
an approximate inverse Hessian there.  Steps are those of Broyden, Fletcher, Goldfarb and Shanno;
their length satisfies the strong Wolfe conditions, found by extending a bracket and bisecting it
with cubic interpolation (Nocedal and Wright, Numerical Optimization, sections 3.5 and 6.1).  The
method of limited memory keeps the last few steps in place of a matrix (there, section 7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import stax.numpy as snp
from stax import lax
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_inexact
from stax.errors import ShapeError
from stax.pytree import tree_map
from stax.transforms.grad import value_and_grad

__all__ = ["OptimizeResults", "minimize"]

Array = Any
Function = Callable[[Any], tuple[Any, Any]]
_DECREASE, _CURVATURE = 1e-4, 0.9
_SEARCH = 20  # the most evaluations in one line search
# JAX's name of the method of limited memory, and SciPy's of the one with bounds, without bounds.
_LIMITED = ("l-bfgs", "l-bfgs-b", "l-bfgs-experimental-do-not-rely-on-this")
_KEPT = 10  # steps that it keeps


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    `x` the minimum, `success`, `status` (0 found, 1 too many steps, 2 no step decreases the
    function), `fun` and `jac` the value and gradient there, `hess_inv` the approximate inverse
    Hessian, and the numbers of values, gradients and steps.
    """

    x: Array
    success: Any
    status: Any
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Array
    value: Array
    slope: Array
    memory: Any
    steps: Any
    evaluations: Any
    failed: Any


class _Bracket(NamedTuple):
    """A line search: the best end of the bracket, its other end, and what has been found."""

    low: Array
    low_value: Array
    low_slope: Array
    high: Array
    high_value: Array
    high_slope: Array
    bounded: Any
    step: Array
    done: Any
    tries: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)` near `x0`.

    Args:
      fun: a differentiable function of a vector and `args`, with a scalar result.
      x0: the vector to start from.
      method: "BFGS"; or "L-BFGS", also by SciPy's name "L-BFGS-B" (there are no bounds) and by
        JAX's: it keeps the last steps in place of a matrix, and `hess_inv` is None.
      tol: stop when no element of the gradient is larger; 1e-5 by default.
      options: `maxiter` (200 steps for each unknown by default), `gtol` (instead of `tol`), and of
        L-BFGS `maxcor`, how many steps are kept (10).

    Raises:
      ShapeError: `x0` is no vector. ValueError: another method, or an unknown option.
      TypeError: `args` is no tuple.

    >>> found = minimize(lambda x: ((x - 3.0) ** 2).sum(), np.zeros(2), method="BFGS")
    >>> np.round(found.x, 6), bool(found.success)
    (array([3., 3.]), True)
    """
    limited = method.lower() in _LIMITED
    if not limited and method.lower() != "bfgs":
        raise ValueError(
            f"minimize: method={method!r} is not supported; use method='BFGS' or 'L-BFGS'"
        )
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to minimize must be a tuple, got {args!r}")
    given = dict(options or {})
    gtol = given.pop("gtol", 1e-5 if tol is None else tol)
    maxiter = given.pop("maxiter", None)
    given.pop("norm", None)
    kept = int(given.pop("maxcor", _KEPT)) if limited else 0
    if given:
        raise ValueError(f"minimize: unknown options {sorted(given)}; use maxiter and gtol")
    if limited and kept < 1:
        raise ValueError(f"minimize: maxcor={kept} is no number of steps to keep")
    start = snp.asarray(x0)
    if len(start.shape) != 1:
        raise ShapeError(
            f"minimize: x0 must be a vector, got shape {start.shape}",
            op="minimize",
            where=user_source() or None,
            hint="flatten it with stax.flatten_util.ravel_pytree and unflatten it in fun",
        )
    if not is_inexact(aval_of(start).dtype):
        start = start.astype(np.float64)
    both: Function = value_and_grad(lambda x: fun(x, *args))
    most = 200 * start.shape[0] if maxiter is None else maxiter
    memory: Any = _Recent(start, kept) if limited else _Matrix(start)
    found = _descent(both, start, memory, gtol, most)
    converged = _largest(found.slope) <= gtol
    status = snp.where(converged, 0, snp.where(found.failed, 2, 1))
    return OptimizeResults(
        found.x, converged, status, found.value, found.slope, None if limited else found.memory,
        found.evaluations, found.evaluations, found.steps,
    )  # fmt: skip


def _largest(slope: Array) -> Array:
    return snp.max(snp.abs(slope))


class _Matrix:
    """The estimate of the inverse Hessian as a matrix."""

    def __init__(self, x: Array) -> None:
        self.begin = snp.eye(x.shape[0], dtype=aval_of(x).dtype)

    def times(self, inverse: Array, slope: Array) -> Array:
        """The estimate times a vector."""
        return inverse @ slope

    def updated(self, inverse: Array, moved: Array, bent: Array, first: Any) -> Array:
        """The estimate after a step and the change of the gradient along it."""
        eye, curvature = self.begin, snp.vdot(moved, bent)
        scale = 1.0 / snp.where(curvature > 0, curvature, 1.0)
        # The estimate before the first update has the curvature's scale (Nocedal and Wright 6.20).
        inverse = snp.where(first, eye * (curvature / snp.vdot(bent, bent)), inverse)
        left = eye - scale * snp.outer(moved, bent)
        return left @ inverse @ left.T + scale * snp.outer(moved, moved)


class _Recent:
    """The last few steps and changes of the gradient, the newest first; unused ones are zero."""

    def __init__(self, x: Array, kept: int) -> None:
        rows = snp.zeros((kept, x.shape[0]), aval_of(x).dtype)
        self.begin = (rows, rows, snp.zeros(kept, aval_of(x).dtype))  # and 1 / (step . change)

    def times(self, memory: tuple[Array, Array, Array], slope: Array) -> Array:
        """The estimate times a vector, by the recursion in two loops."""
        _, changes, scales = memory

        def backward(v: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            share = row[2] * snp.vdot(row[0], v)
            return v - share * row[1], share

        v, shares = lax.scan(backward, slope, memory)
        size = snp.vdot(changes[0], changes[0])
        v = v * snp.where(size > 0, 1.0 / (scales[0] * size), 1.0)

        def forward(v: Array, row: tuple[Any, ...]) -> tuple[Array, None]:
            (step, change, scale), share = row
            return v + (share - scale * snp.vdot(change, v)) * step, None

        return lax.scan(forward, v, (memory, shares), reverse=True)[0]

    def updated(self, memory: Any, moved: Array, bent: Array, first: Any) -> Any:
        """The memory with one more step, without the oldest."""
        curvature = snp.vdot(moved, bent)
        newest = (moved, bent, 1.0 / snp.where(curvature > 0, curvature, 1.0))
        return tuple(
            snp.concatenate([snp.asarray(new)[None], old[:-1]])
            for new, old in zip(newest, memory, strict=True)
        )


def _descent(both: Function, x: Array, memory: Any, gtol: Any, maxiter: Any) -> _State:
    value, slope = both(x)
    dtype = aval_of(x).dtype

    def chosen(condition: Any, one: Any, other: Any) -> Any:
        return tree_map(lambda a, b: snp.where(condition, a, b), one, other)

    def unfinished(s: _State) -> Any:
        large = ~(_largest(s.slope) <= gtol)  # a NaN is not a minimum
        return large & (s.steps < maxiter) & ~s.failed

    def step(s: _State) -> _State:
        direction = -memory.times(s.memory, s.slope)
        bad = ~(snp.vdot(direction, s.slope) < 0)  # the estimate is no longer positive definite
        direction = snp.where(bad, -s.slope, direction)
        kept = chosen(bad, memory.begin, s.memory)
        first = snp.where(
            (s.steps == 0) | bad, snp.minimum(1.0, 1.0 / snp.linalg.norm(s.slope)), 1.0
        ).astype(dtype)
        t, tries, ok = _line_search(both, s.x, direction, s.value, s.slope, first)
        new = s.x + t * direction
        value, slope = both(new)
        moved, bent = new - s.x, slope - s.slope
        sound = snp.vdot(moved, bent) > 0
        updated = memory.updated(kept, moved, bent, (s.steps == 0) & sound)
        return _State(
            snp.where(ok, new, s.x),
            snp.where(ok, value, s.value),
            snp.where(ok, slope, s.slope),
            chosen(ok & sound, updated, kept),
            s.steps + 1,
            s.evaluations + tries + 1,
            ~ok,
        )

    begin = _State(x, value, slope, memory.begin, 0, 1, snp.asarray(False))
    return lax.while_loop(unfinished, step, begin)  # type: ignore[no-any-return]


def _between(b: _Bracket) -> Array:
    """Where the cubic through both ends has its minimum; the middle where that is no good."""
    width = b.high - b.low
    safe = snp.where(width == 0, 1.0, width)
    d1 = b.low_slope + b.high_slope - 3 * (b.high_value - b.low_value) / safe
    root = snp.sqrt(snp.maximum(d1 * d1 - b.low_slope * b.high_slope, 0.0)) * snp.sign(width)
    denominator = b.high_slope - b.low_slope + 2 * root
    t = b.high - width * (b.high_slope + root - d1) / snp.where(denominator == 0, 1.0, denominator)
    part = (t - b.low) / safe
    good = (denominator != 0) & (part > 0.1) & (part < 0.9)
    return snp.where(good, t, b.low + 0.5 * width)


def _line_search(
    both: Function, x: Array, direction: Array, value: Array, slope: Array, first: Array
) -> tuple[Array, Any, Any]:
    """A step along `direction` that meets both conditions, the tries, and whether it helps."""
    descent = snp.vdot(direction, slope)
    zero = snp.zeros_like(first)

    def unfinished(b: _Bracket) -> Any:
        return ~b.done & (b.tries < _SEARCH)

    def search(b: _Bracket) -> _Bracket:
        t = snp.where(b.bounded, _between(b), b.step)
        here, gradient = both(x + t * direction)
        rise = snp.vdot(gradient, direction)
        high_up = ~(here <= value + _DECREASE * t * descent) | (here >= b.low_value)
        done = ~high_up & (snp.abs(rise) <= -_CURVATURE * descent)
        # A point too high becomes the far end; a lower one the near end, and where the function
        # rises from it towards the far end, the old near end becomes the far one.
        turns = snp.where(b.bounded, rise * (b.high - b.low) >= 0, rise >= 0)
        bounded = b.bounded | high_up | turns

        def chosen(far: Array, near: Array, here: Array) -> Array:
            return snp.where(high_up, here, snp.where(turns, near, far))

        return _Bracket(
            snp.where(high_up, b.low, t),
            snp.where(high_up, b.low_value, here),
            snp.where(high_up, b.low_slope, rise),
            chosen(b.high, b.low, t),
            chosen(b.high_value, b.low_value, here),
            chosen(b.high_slope, b.low_slope, rise),
            bounded,
            snp.where(bounded, b.step, 2.0 * t),
            done,
            b.tries + 1,
        )

    false = snp.asarray(False)
    begin = _Bracket(
        zero, value, descent, zero, value, descent, false, first, false, snp.asarray(0)
    )
    end = lax.while_loop(unfinished, search, begin)
    # Without the second condition the best point so far still decreases the function.
    return end.low, end.tries, end.done | (end.low_value < value)
