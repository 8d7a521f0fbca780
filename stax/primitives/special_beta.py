"""The incomplete beta function and Student's distribution, with derivatives in all parameters.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.  The
derivatives in the parameters are those of the continued fraction, carried along with it: the
first for both parameters at once, the second as jets along a change of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.primitives.elementwise import (
    add,
    div,
    eq,
    guarded_mul,
    mul,
    neg,
    select,
    sign,
    square,
    sub,
)
from stax.primitives.families import elementwise, literal
from stax.primitives.special import lgamma, polygamma, special_function
from stax.primitives.special_gamma import (
    LIMIT,
    Jet,
    beta_slope,
    betaln,
    jet_over,
    jet_plus,
    jet_times,
    scipy_row,
    settled,
    times_log,
    undefined,
)
from stax.primitives.transcendental import exp, log, log1p, one, times

# ---------------------------------------------------------------- the incomplete beta function


def _beta_fraction(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """The continued fraction of I_x(a, b) without its factor, with derivatives in a and b."""
    tiny = 1e-300

    def advance(state: Any, an: Any, slopes: Any) -> Any:
        (c, d, h), (cs, ds, hs) = state
        new_c = 1 + an / c
        new_d = 1 / (1 + an * d + tiny)
        new_cs = [s / c - an * k / (c * c) for s, k in zip(slopes, cs, strict=True)]
        new_ds = [-new_d * new_d * (s * d + an * k) for s, k in zip(slopes, ds, strict=True)]
        step = new_c * new_d
        new_hs = [
            k * step + h * (p * new_d + new_c * q)
            for k, p, q in zip(hs, new_cs, new_ds, strict=True)
        ]
        return (new_c, new_d, h * step), (new_cs, new_ds, new_hs)

    one_, zero = np.ones_like(x), np.zeros_like(x)
    an = -(a + b) * x / (a + 1)
    d = 1 / (1 + an)
    slopes = [-x * (1 - b) / (a + 1) ** 2, -x / (a + 1)]
    ds = [-d * d * s for s in slopes]
    state: Any = (one_, d, d), ([zero, zero], ds, list(ds))
    for m in range(1, LIMIT):
        low, high = a + 2 * m - 1, a + 2 * m
        even = m * (b - m) * x / (low * high)
        even_slopes = [-even * (1 / low + 1 / high), m * x / (low * high)]
        before = state
        state = advance(state, even, even_slopes)
        next_ = high + 1
        odd = -(a + m) * (a + b + m) * x / (high * next_)
        log_slope = 1 / (a + m) + 1 / (a + b + m) - 1 / high - 1 / next_
        state = advance(state, odd, [odd * log_slope, odd / (a + b + m)])
        # At an integer b the fraction ends and its derivative does not.
        values = (state[0][2], *state[1][2])
        if all(map(settled, values, (before[0][2], *before[1][2]))):
            break
    return state[0][2], state[1][2][0], state[1][2][1]


def _beta_fraction_jet(a: Jet, b: Jet, x: Any) -> Jet:
    """The continued fraction of `_beta_fraction` as a jet, along a change of both parameters."""
    zero, unit = np.zeros_like(x), np.ones_like(x)
    one_: Jet = (unit, zero, zero)

    def scaled(f: Jet, factor: Any) -> Jet:
        return f[0] * factor, f[1] * factor, f[2] * factor

    def moved(f: Jet, by: float) -> Jet:
        return f[0] + by, f[1], f[2]

    whole = jet_plus(a, b)
    d = jet_over(one_, jet_plus(one_, jet_over(scaled(whole, -x), moved(a, 1))))
    c, h = one_, d
    for m in range(1, LIMIT):
        high = moved(a, 2 * m)
        even = jet_over(scaled(moved(b, -m), m * x), jet_times(moved(a, 2 * m - 1), high))
        odd = jet_over(
            scaled(jet_times(moved(a, m), moved(whole, m)), -x),
            jet_times(high, moved(a, 2 * m + 1)),
        )
        before = h
        for an in (even, odd):
            # The sign of b must not matter where the numerator is 0.
            c = jet_plus(one_, jet_over(an, c))
            d = jet_over(one_, moved(jet_plus(one_, jet_times(an, d)), 1e-300))
            h = jet_times(h, jet_times(c, d))
        if all(map(settled, h, before)):
            break
    return h


def _betainc_bend_along(a: Any, b: Any, x: Any, da: float, db: float) -> Any:
    """The second derivative of I_x(a + t da, b + t db) in t where the fraction converges fast."""
    psi, betaln_ = special_function("psi", None), special_function("betaln", None)
    polygamma_ = special_function("polygamma", None)
    both = da + db
    zero = np.zeros_like(x)
    h = _beta_fraction_jet((a, zero + da, zero), (b, zero + db, zero), x)
    lx, lr = np.log(x), np.log1p(-x)
    first = da * psi(a) + db * psi(b) - both * psi(a + b)
    second = da * da * polygamma_(1, a) + db * db * polygamma_(1, b)
    second = second - both * both * polygamma_(1, a + b)
    front = np.exp(a * lx + b * lr - betaln_(a, b)) / a
    l1 = da * lx + db * lr - first - da / a
    l2 = (da * da / (a * a) - second) / 2
    return 2 * jet_times((front, front * l1, front * (l2 + l1 * l1 / 2)), h)[2]


def _betainc_bends(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Second derivatives in a and a, a and b, b and b."""
    in_a, in_b = _betainc_bend_along(a, b, x, 1, 0), _betainc_bend_along(a, b, x, 0, 1)
    return in_a, (_betainc_bend_along(a, b, x, 1, 1) - in_a - in_b) / 2, in_b


def _betainc_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The derivatives of I_x(a, b) in a and b where the fraction converges fast."""
    psi, betaln_ = special_function("psi", None), special_function("betaln", None)
    h, h_a, h_b = _beta_fraction(a, b, x)
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - betaln_(a, b)) / a
    both = psi(a + b)
    to_a = front * ((np.log(x) - psi(a) + both - 1 / a) * h + h_a)
    to_b = front * ((np.log1p(-x) - psi(b) + both) * h + h_b)
    return to_a, to_b


def _on_both_sides(
    slopes: Callable[[Any, Any, Any], Sequence[Any]], a: Any, b: Any, x: Any, which: int
) -> Any:
    """One of the derivatives that `slopes` gives near 0, by symmetry near 1 too."""
    dtype = np.result_type(a, b, x)
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    out = np.full(x.shape, np.nan)
    valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    out[valid & ((x == 0) | (x == 1))] = 0
    inside = valid & (x > 0) & (x < 1)
    low = inside & (x <= (a + 1) / (a + b + 2))
    high = inside & ~low
    if low.any():
        out[low] = slopes(a[low], b[low], x[low])[which]
    if high.any():
        out[high] = -slopes(b[high], a[high], 1 - x[high])[-1 - which]
    return out.astype(dtype)[()]


def _betainc_parameter(a: Any, b: Any, x: Any, *, which: int) -> Any:
    return _on_both_sides(_betainc_slopes, a, b, x, which)


def _betainc_bend(a: Any, b: Any, x: Any, *, which: int) -> Any:
    return _on_both_sides(_betainc_bends, a, b, x, which)


betainc_bend = elementwise(
    "betainc_bend",
    _betainc_bend,
    family="special",
    accepts="f",
    partials=(
        undefined("betainc_bend", "a"),
        undefined("betainc_bend", "b"),
        lambda t, out, a, b, x, *, which: guarded_mul(t, _density_bend(a, b, x, which)),
    ),
    scalar=None,
    weight=900.0,
)[1]
betainc_bend.__doc__ = """The second derivative of betainc(a, b, x) in the parameters.

`which` is 0 for twice `a`, 1 for `a` and `b`, 2 for twice `b`.
"""


betainc_parameter = elementwise(
    "betainc_parameter",
    _betainc_parameter,
    family="special",
    accepts="f",
    partials=(
        lambda t, out, a, b, x, *, which: guarded_mul(t, betainc_bend(a, b, x, which=which)),
        lambda t, out, a, b, x, *, which: guarded_mul(t, betainc_bend(a, b, x, which=which + 1)),
        lambda t, out, a, b, x, *, which: guarded_mul(t, _density_slope(a, b, x, which)),
    ),
    scalar=None,
    weight=500.0,
)[1]
betainc_parameter.__doc__ = "The derivative of betainc(a, b, x) in `a` (which=0) or `b` (which=1)."


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    left = times_log(sub(a, one(a)), x)
    right = guarded_mul(sub(b, one(b)), log1p(neg(x)))
    return exp(sub(add(left, right), betaln(a, b)))


def _density_slope(a: Any, b: Any, x: Any, which: int) -> Any:
    """The derivative of the density in a parameter."""
    own = log1p(neg(x)) if which else log(x)
    slope = beta_slope(b, a) if which else beta_slope(a, b)
    return mul(_beta_density(a, b, x), sub(own, slope))


def _density_bend(a: Any, b: Any, x: Any, which: int) -> Any:
    """The second derivative of the density in two parameters, numbered as those of `betainc`."""
    in_a = sub(log(x), beta_slope(a, b))
    in_b = sub(log1p(neg(x)), beta_slope(b, a))
    left, right = (in_b if which == 2 else in_a), (in_a if which == 0 else in_b)
    shared = polygamma(add(a, b), n=1)
    own = shared if which == 1 else sub(shared, polygamma(b if which else a, n=1))
    return mul(_beta_density(a, b, x), add(mul(left, right), own))


betainc = scipy_row(
    "betainc",
    "betainc",
    [
        lambda t, out, a, b, x: guarded_mul(t, betainc_parameter(a, b, x, which=0)),
        lambda t, out, a, b, x: guarded_mul(t, betainc_parameter(a, b, x, which=1)),
        lambda t, out, a, b, x: guarded_mul(t, _beta_density(a, b, x)),
    ],
)

# ------------------------------------------------------------------- Student's distribution


def _student_density(df: Any, x: Any) -> Any:
    half = times(add(df, one(df)), 0.5)
    scale = sub(sub(lgamma(half), lgamma(times(df, 0.5))), times(log(times(df, math.pi)), 0.5))
    return exp(sub(scale, mul(half, log1p(div(square(x), df)))))


def _student_in_df(t: Any, out: Any, df: Any, x: Any) -> Any:
    # P(X > abs(x)) is half of I_w(df/2, 1/2) with w = df / (df + x**2).
    flat = eq(x, literal(0, x))
    safe = select(flat, one(x), x)
    total = add(df, square(safe))
    w, half = div(df, total), times(df, 0.5)
    other = literal(0.5, df)
    moved = mul(_beta_density(half, other, w), div(square(safe), square(total)))
    slope = add(times(betainc_parameter(half, other, w, which=0), 0.5), moved)
    change = mul(times(slope, -0.5), sign(safe))
    return guarded_mul(t, select(flat, literal(0, change), change))


stdtr = scipy_row(
    "stdtr",
    "stdtr",
    [_student_in_df, lambda t, out, df, x: guarded_mul(t, _student_density(df, x))],
)

__all__ = ["betainc", "betainc_bend", "betainc_parameter", "stdtr"]
