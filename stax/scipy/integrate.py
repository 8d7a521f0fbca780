"""Integration: the trapezoidal rule, and ordinary differential equations.

Input to `odeint`: a right-hand side, an initial state and increasing times.  Output: the state at
those times, by Dormand and Prince's pair of orders 5 and 4 with steps chosen by the error, and a
quartic between steps.  The derivative solves the adjoint equation backwards in time, so its memory
does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import stax.numpy as snp
from stax import lax
from stax.flatten_util import ravel_pytree
from stax.numpy.statistics import trapezoid as trapezoid
from stax.pytree import tree_map
from stax.transforms.custom import closure_convert, custom_vjp
from stax.transforms.grad import vjp
from stax.transforms.vmap import vmap

Function = Callable[..., Any]

_NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (
    35 / 384 - 1951 / 21600, 0.0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720,
    -2187 / 6784 + 12231 / 42400, 11 / 84 - 649 / 6300, -1 / 60,
)  # fmt: skip
# The state in the middle of a step.
_MIDDLE = (
    6025192743 / 30085553152 / 2, 0.0, 51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2, 187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2,
)  # fmt: skip


def odeint(
    func: Function,
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args) at the times `t`, with y(t[0]) = y0.

    Args:
      y0: the initial state, a pytree; `func` returns its like.
      t: increasing times.
      args: further operands of `func`, in which the result is differentiable.
      rtol, atol: the error allowed in a step, relative and absolute.
      mxstep: the most steps between two times.
      hmax: the longest step.
    """
    t = snp.asarray(t) * 1.0
    converted, constants = closure_convert(func, y0, t[0], *args)
    flat, unravel = ravel_pytree(tree_map(lambda v: snp.asarray(v) * 1.0, y0))

    def flat_func(y: Any, s: Any, *rest: Any) -> Any:
        return ravel_pytree(converted(unravel(y), s, *rest))[0]

    settings = (float(rtol), float(atol), float(mxstep), float(hmax))
    out = _solve(flat_func, settings, flat, t, (*args, *constants))
    return vmap(unravel)(out)


def _combination(weights: Any, slopes: list[Any]) -> Any:
    total: Any = None
    for w, k in zip(weights, slopes, strict=False):
        if w:
            total = w * k if total is None else total + w * k
    return total


def _step(f: Function, y: Any, slope: Any, s: Any, dt: Any) -> tuple[Any, Any, Any, Any]:
    """One step: the new state, its slope, the error, and the state in the middle."""
    slopes = [slope]
    new = y
    for node, weights in zip(_NODES, _STAGES, strict=True):
        new = y + dt * _combination(weights, slopes)
        slopes.append(f(new, s + dt * node))
    error = dt * _combination(_ERROR, slopes)
    return new, slopes[-1], error, y + dt * _combination(_MIDDLE, slopes)


def _quartic(y0: Any, y1: Any, middle: Any, slope0: Any, slope1: Any, dt: Any) -> list[Any]:
    """Coefficients, the constant first, of a quartic on [0, 1] through the step."""
    rise0, rise1 = dt * slope0, dt * slope1
    return [
        y0,
        rise0,
        -4 * rise0 + rise1 - 11 * y0 - 5 * y1 + 16 * middle,
        5 * rise0 - 3 * rise1 + 18 * y0 + 14 * y1 - 32 * middle,
        -2 * rise0 + 2 * rise1 - 8 * y0 - 8 * y1 + 16 * middle,
    ]


def _size(x: Any, scale: Any) -> Any:
    return snp.sqrt(snp.mean(snp.square(x / scale)))


def _first_step(f: Function, s: Any, y: Any, slope: Any, rtol: float, atol: float) -> Any:
    """A step whose first terms of Taylor's series are small."""
    scale = atol + rtol * snp.abs(y)
    d0, d1 = _size(y, scale), _size(slope, scale)
    small = snp.logical_or(d0 < 1e-5, d1 < 1e-5)
    trial = snp.where(small, 1e-6, 0.01 * d0 / snp.where(small, 1.0, d1))
    d2 = _size(f(y + trial * slope, s + trial) - slope, scale) / trial
    largest = snp.maximum(d1, d2)
    flat = largest <= 1e-15
    other = (0.01 / snp.where(flat, 1.0, largest)) ** 0.2
    other = snp.where(flat, snp.maximum(1e-6, trial * 1e-3), other)
    return snp.minimum(100.0 * trial, other)


def _solution(func: Function, settings: Any, y0: Any, t: Any, args: Any) -> Any:
    rtol, atol, mxstep, hmax = settings

    def f(y: Any, s: Any) -> Any:
        return func(y, s, *args)

    def to_target(carry: Any, target: Any) -> Any:
        def unfinished(state: Any) -> Any:
            count, _, _, s, dt, _, _ = state
            return (s < target) & (count < mxstep) & (dt > 0)

        def advance(state: Any) -> Any:
            count, y, slope, s, dt, last, coefficients = state
            new, new_slope, error, middle = _step(f, y, slope, s, dt)
            allowed = atol + rtol * snp.maximum(snp.abs(y), snp.abs(new))
            ratio = _size(error, allowed)
            accepted = ratio <= 1.0
            safe = snp.where(ratio == 0, 1.0, ratio)
            factor = snp.where(ratio == 0, 10.0, snp.clip(0.9 * safe**-0.2, 0.2, 10.0))
            factor = snp.where(accepted, snp.maximum(factor, 1.0), factor)
            fit = snp.stack(_quartic(y, new, middle, slope, new_slope, dt))
            return (
                count + 1.0,
                snp.where(accepted, new, y),
                snp.where(accepted, new_slope, slope),
                snp.where(accepted, s + dt, s),
                snp.clip(dt * factor, 0.0, hmax),
                snp.where(accepted, s, last),
                snp.where(accepted, fit, coefficients),
            )

        start = (snp.zeros((), t.dtype), *carry)
        _, y, slope, s, dt, last, coefficients = lax.while_loop(unfinished, advance, start)
        where = (target - last) / snp.where(s == last, 1.0, s - last)
        value = coefficients[4]
        for k in (3, 2, 1, 0):
            value = value * where + coefficients[k]
        return (y, slope, s, dt, last, coefficients), value

    slope = f(y0, t[0])
    dt = snp.clip(_first_step(f, t[0], y0, slope, rtol, atol), 0.0, hmax)
    start = (y0, slope, t[0], dt, t[0], snp.stack([y0] * 5))
    _, states = lax.scan(to_target, start, t[1:])
    return snp.concatenate([y0[None], states])


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _solve(func: Function, settings: Any, y0: Any, t: Any, args: Any) -> Any:
    return _solution(func, settings, y0, t, args)


def _solve_forward(func: Function, settings: Any, y0: Any, t: Any, args: Any) -> Any:
    out = _solution(func, settings, y0, t, args)
    return out, (out, t, args)


def _solve_backward(func: Function, settings: Any, saved: Any, ct: Any) -> Any:
    """The adjoint equation, from each time to the one before, on state, adjoint and parameters."""
    states, t, args = saved
    flat_args, unravel = ravel_pytree(args)

    def pulled(y: Any, s: Any, adjoint: Any) -> Any:
        value, pull = vjp(lambda y, s, p: func(y, s, *unravel(p)), y, s, flat_args)
        return value, pull(adjoint)

    n = states.shape[1]

    def augmented(z: Any, minus_s: Any) -> Any:
        value, (to_y, to_s, to_args) = pulled(z[:n], -minus_s, z[n : 2 * n])
        return snp.concatenate([-value, to_y, snp.reshape(to_s, (1,)), to_args])

    def back(carry: Any, index: Any) -> Any:
        adjoint, to_start, to_args = carry
        state, now, before = states[index], t[index], t[index - 1]
        to_time = snp.sum(func(state, now, *args) * ct[index])
        z = snp.concatenate([state, adjoint, snp.reshape(to_start - to_time, (1,)), to_args])
        span = snp.stack([-now, -before])
        end = _solution(augmented, settings, z, span, ())[1]
        carry = (end[n : 2 * n] + ct[index - 1], end[2 * n], end[2 * n + 1 :])
        return carry, to_time

    start = (ct[-1], snp.zeros((), t.dtype), snp.zeros_like(flat_args))
    carry, to_times = lax.scan(back, start, snp.arange(t.shape[0] - 1, 0, -1))
    adjoint, to_start, to_args = carry
    to_t = snp.concatenate([snp.reshape(to_start, (1,)), to_times[::-1]])
    return adjoint, to_t, unravel(to_args)


_solve.defvjp(_solve_forward, _solve_backward)

__all__ = ["odeint", "trapezoid"]
