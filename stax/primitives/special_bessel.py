"""Bessel and hypergeometric functions, and the Faddeeva function.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.
SciPy computes the values; the derivatives are the usual recurrences between orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.loops.library import ufunc_routine
from stax.primitives.elementwise import (
    abs_,
    add,
    div,
    guarded_mul,
    lt,
    mul,
    neg,
    select,
    sign,
    sub,
)
from stax.primitives.families import elementwise, literal
from stax.primitives.special import special_function
from stax.primitives.special_gamma import scipy_row, undefined
from stax.primitives.transcendental import exp, one, series_at, times

Function = Callable[..., Any]


def _over_x(order1: Callable[..., Any], sign_: int) -> Callable[[Any], Any]:
    """The quotient of a Bessel function of order 1 and x: its power series around 0.

    The series is that of I1 (`sign_` 1) or J1 (-1).
    """
    series = [0.0] * 23
    for k in range(0, 23, 2):
        half = k // 2
        series[k] = 0.5 * (sign_ / 4) ** half / (math.factorial(half) * math.factorial(half + 1))
    return lambda x: series_at(x, 1.0, series, lambda v: div(order1(v), v))


def _row(name: str, slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return scipy_row(name, name, [lambda t, out, x: guarded_mul(t, slope(out, x))])


_i1_over_x: Function
_j1_over_x: Function

# ------------------------------------------------------------ orders 0 and 1, plain and scaled

i0: Function = _row("i0", lambda out, x: i1(x))
i1: Function = _row("i1", lambda out, x: sub(i0(x), _i1_over_x(x)))
i0e: Function = _row("i0e", lambda out, x: sub(i1e(x), mul(sign(x), out)))
i1e: Function = _row(
    "i1e",
    lambda out, x: sub(sub(i0e(x), mul(sign(x), out)), _i1e_over_x(x)),
)
j0: Function = _row("j0", lambda out, x: neg(j1(x)))
j1: Function = _row("j1", lambda out, x: sub(j0(x), _j1_over_x(x)))
y0: Function = _row("y0", lambda out, x: neg(y1(x)))
y1: Function = _row("y1", lambda out, x: sub(y0(x), div(out, x)))
k0: Function = _row("k0", lambda out, x: neg(k1(x)))
k1: Function = _row("k1", lambda out, x: neg(add(k0(x), div(out, x))))
k0e: Function = _row("k0e", lambda out, x: sub(out, k1e(x)))
k1e: Function = _row("k1e", lambda out, x: sub(sub(out, k0e(x)), div(out, x)))

_i1_over_x = _over_x(i1, 1)
_j1_over_x = _over_x(j1, -1)


def _i1e_over_x(x: Any) -> Any:
    # I1 itself overflows far from 0.
    small = lt(abs_(x), literal(1, x))
    near, far = select(small, x, literal(0, x)), select(small, one(x), x)
    return select(small, mul(_i1_over_x(near), exp(neg(abs_(near)))), div(i1e(far), far))


# ---------------------------------------------------------------------------- any real order


def _of_order(name: str, slope: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    return scipy_row(
        name,
        name,
        [
            undefined(name, "v"),
            lambda t, out, v, z: guarded_mul(t, slope(out, v, z)),
        ],
    )


def _mean(function: Callable[..., Any], v: Any, z: Any, sign_: int) -> Any:
    below, above = function(sub(v, one(v)), z), function(add(v, one(v)), z)
    return times(add(below, above) if sign_ > 0 else sub(below, above), 0.5)


jv: Function = _of_order("jv", lambda out, v, z: _mean(jv, v, z, -1))
yv: Function = _of_order("yv", lambda out, v, z: _mean(yv, v, z, -1))
iv: Function = _of_order("iv", lambda out, v, z: _mean(iv, v, z, 1))
kv: Function = _of_order("kv", lambda out, v, z: neg(_mean(kv, v, z, 1)))
ive: Function = _of_order("ive", lambda out, v, z: sub(_mean(ive, v, z, 1), mul(sign(z), out)))
kve: Function = _of_order("kve", lambda out, v, z: sub(out, _mean(kve, v, z, 1)))

# --------------------------------------------------------------------------- hypergeometric


def _raised(x: Any) -> Any:
    return add(x, one(x))


hyp0f1: Function = scipy_row(
    "hyp0f1",
    "hyp0f1",
    [
        undefined("hyp0f1", "v"),
        lambda t, out, v, z: guarded_mul(t, div(hyp0f1(_raised(v), z), v)),
    ],
)
hyp1f1: Function = scipy_row(
    "hyp1f1",
    "hyp1f1",
    [
        undefined("hyp1f1", "a"),
        undefined("hyp1f1", "b"),
        lambda t, out, a, b, x: guarded_mul(t, mul(div(a, b), hyp1f1(_raised(a), _raised(b), x))),
    ],
)
hyp2f1: Function = scipy_row(
    "hyp2f1",
    "hyp2f1",
    [
        undefined("hyp2f1", "a"),
        undefined("hyp2f1", "b"),
        undefined("hyp2f1", "c"),
        lambda t, out, a, b, c, x: guarded_mul(
            t, mul(div(mul(a, b), c), hyp2f1(_raised(a), _raised(b), _raised(c), x))
        ),
    ],
)

# --------------------------------------------------------------------------------- Faddeeva

_scipy_wofz = special_function("wofz", None)


def _wofz_slope(t: Any, out: Any, z: Any) -> Any:
    return mul(t, sub(literal(2j / math.sqrt(math.pi), z), times(mul(z, out), 2)))


wofz = elementwise(
    "wofz",
    lambda z: np.asarray(_scipy_wofz(z)),
    family="special",
    accepts="c",
    partials=[_wofz_slope],
    lower=ufunc_routine("wofz"),
    weight=80.0,
)[1]
wofz.__doc__ = "The Faddeeva function exp(-z*z) erfc(-i z) of a complex number."
