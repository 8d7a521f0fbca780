"""The gamma family: gamma, beta and zeta functions and the incomplete integrals.

Input: nothing; importing registers the rows.  Output: rows and the functions that bind them.
SciPy computes the values.  The derivatives of the incomplete integrals in their parameters, which
SciPy does not have, are summed here: a series below the mode, a continued fraction above it, each
with its derivative carried along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.primitive import ZERO_DERIVATIVE
from stax.errors import NonDifferentiableError
from stax.loops.library import ufunc_routine
from stax.primitives.elementwise import (
    add,
    div,
    eq,
    guarded_mul,
    lt,
    mul,
    neg,
    select,
    sign,
    square,
    sub,
)
from stax.primitives.families import elementwise, literal
from stax.primitives.special import digamma, lgamma, polygamma, special_function
from stax.primitives.transcendental import cos, exp, log, log1p, one, sin, times

_LIMIT = 10_000
Jet = tuple[Any, Any, Any]


def undefined(op: str, operand: str) -> Callable[..., Any]:
    """The derivative of `op` in `operand` where it has none here: an error that says so."""

    def partial(t: Any, out: Any, *operands: Any, **params: Any) -> Any:
        raise NonDifferentiableError(
            f"{op} has no derivative in its operand {operand}",
            op=op,
            operands=[operand],
            hint=f"keep {operand} out of the differentiated arguments, or stop_gradient it",
        )

    return partial


def scipy_row(
    name: str, scipy: str, partials: Sequence[Any] | Any, weight: float = 60.0, accepts: str = "f"
) -> Callable[..., Any]:
    """A row computed by `scipy.special.<scipy>`, and the function that binds it."""
    return elementwise(
        name,
        special_function(scipy, None),
        family="special",
        accepts=accepts,
        partials=partials,
        lower=ufunc_routine(scipy),
        weight=weight,
    )[1]


# ------------------------------------------------------------------------------ gamma and beta

gamma = scipy_row("gamma", "gamma", [lambda t, out, x: guarded_mul(t, mul(out, digamma(x)))])
gammasgn = scipy_row("gammasgn", "gammasgn", ZERO_DERIVATIVE)


def _rgamma_slope(t: Any, out: Any, x: Any) -> Any:
    # Reflected for small x, where digamma has poles at the zeros of 1/gamma.
    low = lt(x, literal(0.5, x))
    safe = select(low, x, literal(0.25, x))
    angle = times(safe, math.pi)
    other = sub(one(x), safe)
    slope = sub(cos(angle), mul(times(sin(angle), 1 / math.pi), digamma(other)))
    above = select(low, one(x), x)
    return mul(t, select(low, mul(gamma(other), slope), neg(mul(out, digamma(above)))))


rgamma = scipy_row("rgamma", "rgamma", [_rgamma_slope])


def _beta_slope(x: Any, y: Any) -> Any:
    """The derivative of log B(x, y) in x."""
    return sub(digamma(x), digamma(add(x, y)))


betaln = scipy_row(
    "betaln",
    "betaln",
    [
        lambda t, out, x, y: guarded_mul(t, _beta_slope(x, y)),
        lambda t, out, x, y: guarded_mul(t, _beta_slope(y, x)),
    ],
)
beta = scipy_row(
    "beta",
    "beta",
    [
        lambda t, out, x, y: guarded_mul(t, mul(out, _beta_slope(x, y))),
        lambda t, out, x, y: guarded_mul(t, mul(out, _beta_slope(y, x))),
    ],
)
poch = scipy_row(
    "poch",
    "poch",
    [
        lambda t, out, z, m: guarded_mul(t, mul(out, sub(digamma(add(z, m)), digamma(z)))),
        lambda t, out, z, m: guarded_mul(t, mul(out, digamma(add(z, m)))),
    ],
)


def _binom_rest(n: Any, k: Any) -> Any:
    return digamma(add(sub(n, k), one(n)))


binom = scipy_row(
    "binom",
    "binom",
    [
        lambda t, out, n, k: guarded_mul(
            t, mul(out, sub(digamma(add(n, one(n))), _binom_rest(n, k)))
        ),
        lambda t, out, n, k: guarded_mul(
            t, mul(out, sub(_binom_rest(n, k), digamma(add(k, one(k)))))
        ),
    ],
)
zeta: Callable[..., Any] = scipy_row(
    "zeta",
    "zeta",
    [
        undefined("zeta", "x"),
        lambda t, out, x, q: neg(guarded_mul(t, mul(x, zeta(add(x, one(x)), q)))),
    ],
)

# --------------------------------------------------------------- the incomplete gamma function


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """Sum over n of x**n / ((a+1)...(a+n)), and its derivative in a."""
    term, total = np.ones_like(x), np.ones_like(x)
    slope, total_slope = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, _LIMIT):
        ratio = x / (a + n)
        slope = ratio * (slope - term / (a + n))
        term = term * ratio
        total, total_slope = total + term, total_slope + slope
        if not np.any(np.abs(slope) > 1e-17 * np.abs(total_slope)):
            break
    return total, total_slope


def _settled(now: Any, before: Any) -> bool:
    """True when a step changed nothing that matters."""
    return not np.any(np.abs(now - before) > 2e-16 * np.abs(now))


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """Q(a, x) gamma(a) / (x**a exp(-x)) as a continued fraction, and its derivative in a."""
    b = x + 1 - a
    d = 1 / b
    h, h_slope = d, d * d
    d_slope = d * d
    c, c_slope = np.full_like(x, 1e300), np.zeros_like(x)
    for n in range(1, _LIMIT):
        an = n * (a - n)
        b = b + 2
        c_slope = -1 + (n - an * (c_slope / c)) / c
        c = b + an / c
        d_slope = -(n * d + an * d_slope - 1)
        d = 1 / (an * d + b)
        d_slope = d_slope * d * d
        step = c * d
        before = h_slope
        h_slope = h_slope * step + h * (c_slope * d + c * d_slope)
        h = h * step
        if _settled(h, h / step) and _settled(h_slope, before):
            break
    return h, h_slope


def _gamma_slope(a: Any, log_x: Any) -> Any:
    dtype = np.result_type(a, log_x)
    a, log_x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(log_x, np.float64))
    x = np.exp(log_x)
    out = np.full(x.shape, np.nan)
    valid = (a > 0) & np.isfinite(a) & (log_x < np.inf)
    below = valid & (x <= a + 1)
    above = valid & ~below
    psi = special_function("psi", None)
    if below.any():
        ab, xb, lb = a[below], x[below], log_x[below]
        total, slope = _series(ab, xb)
        out[below] = -((lb - psi(ab + 1)) * total + slope) / ab
    if above.any():
        ab, xb, lb = a[above], x[above], log_x[above]
        h, slope = _fraction(ab, xb)
        out[above] = (lb - psi(ab)) * h + slope
    return out.astype(dtype)[()]


# Values with their first derivative and half of their second, along a change of `a`.


def _times(f: Jet, g: Jet) -> Jet:
    return f[0] * g[0], f[0] * g[1] + f[1] * g[0], f[0] * g[2] + f[1] * g[1] + f[2] * g[0]


def _over(f: Jet, g: Jet) -> Jet:
    q0 = f[0] / g[0]
    q1 = (f[1] - q0 * g[1]) / g[0]
    return q0, q1, (f[2] - q0 * g[2] - q1 * g[1]) / g[0]


def _plus(f: Jet, g: Jet) -> Jet:
    return f[0] + g[0], f[1] + g[1], f[2] + g[2]


def _series_jet(a: Any, x: Any) -> Jet:
    """The sum of `_series` as a jet."""
    zero, unit = np.zeros_like(x), np.ones_like(x)
    term: Jet = (unit, zero, zero)
    total = term
    for n in range(1, _LIMIT):
        term = _times(term, _over((x, zero, zero), (a + n, unit, zero)))
        total = _plus(total, term)
        if not np.any(np.abs(term[2]) > 1e-17 * np.abs(total[2])):
            break
    return total


def _fraction_jet(a: Any, x: Any) -> Jet:
    """The continued fraction of `_fraction` as a jet."""
    zero, unit = np.zeros_like(x), np.ones_like(x)
    one_: Jet = (unit, zero, zero)
    b: Jet = (x + 1 - a, -unit, zero)
    d = _over(one_, b)
    h, c = d, (np.full_like(x, 1e300), zero, zero)
    for n in range(1, _LIMIT):
        an: Jet = (n * (a - n), n * unit, zero)
        b = (b[0] + 2, b[1], b[2])
        c = _plus(b, _over(an, c))
        d = _over(one_, _plus(b, _times(an, d)))
        before, h = h, _times(h, _times(c, d))
        if all(map(_settled, h, before)):
            break
    return h


def _gamma_bend(a: Any, log_x: Any) -> Any:
    dtype = np.result_type(a, log_x)
    a, log_x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(log_x, np.float64))
    x = np.exp(log_x)
    out = np.full(x.shape, np.nan)
    valid = (a > 0) & np.isfinite(a) & (log_x < np.inf)
    below = valid & (x <= a + 1)
    above = valid & ~below
    psi, trigamma = special_function("psi", None), special_function("polygamma", None)
    if below.any():
        ab, lb = a[below], log_x[below]
        f, slope, bend = _series_jet(ab, x[below])
        gap = lb - psi(ab + 1)
        change = gap * slope - trigamma(1, ab + 1) * f + 2 * bend
        out[below] = (gap * f + slope) / (ab * ab) - change / ab
    if above.any():
        ab, lb = a[above], log_x[above]
        f, slope, bend = _fraction_jet(ab, x[above])
        out[above] = (lb - psi(ab)) * slope - trigamma(1, ab) * f + 2 * bend
    return out.astype(dtype)[()]


def _bend_in_log_x(t: Any, out: Any, a: Any, log_x: Any) -> Any:
    # The derivative in `a` of the slope's derivative in log x, below.
    moved = add(mul(out, sub(a, exp(log_x))), gamma_slope(a, log_x))
    return guarded_mul(t, sub(polygamma(a, n=1), moved))


gamma_bend = elementwise(
    "gamma_bend",
    _gamma_bend,
    family="special",
    accepts="f",
    partials=(undefined("gamma_bend", "a"), _bend_in_log_x),
    scalar=None,
    weight=900.0,
)[1]
gamma_bend.__doc__ = "The derivative of `gamma_slope` in its first argument."


def _slope_of_slope(t: Any, out: Any, a: Any, log_x: Any) -> Any:
    change = add(sub(log_x, digamma(a)), mul(out, sub(a, exp(log_x))))
    return neg(guarded_mul(t, change))


gamma_slope = elementwise(
    "gamma_slope",
    _gamma_slope,
    family="special",
    accepts="f",
    partials=(lambda t, out, a, log_x: guarded_mul(t, gamma_bend(a, log_x)), _slope_of_slope),
    scalar=None,
    weight=500.0,
)[1]
gamma_slope.__doc__ = """The change of log x with `a` that keeps the gamma probability of (0, x).

gamma_slope(a, log x) = -(dP(a, x) / da) / (x p(x; a)), with p the density of P.
"""


def _density(a: Any, x: Any) -> Any:
    """x**(a-1) exp(-x) / gamma(a)"""
    return exp(sub(sub(_xlog(sub(a, one(a)), x), x), lgamma(a)))


def _xlog(a: Any, x: Any) -> Any:
    """The product a log x, and 0 where a is 0."""
    return guarded_mul(a, log(x))


def _in_parameter(t: Any, a: Any, x: Any) -> Any:
    """dP(a, x) / da times t; 0 at x = 0."""
    positive = lt(literal(0, x), x)
    safe = select(positive, x, one(x))
    change = mul(gamma_slope(a, log(safe)), mul(safe, _density(a, safe)))
    return neg(guarded_mul(t, select(positive, change, literal(0, change))))


gammainc = scipy_row(
    "gammainc",
    "gammainc",
    [
        lambda t, out, a, x: _in_parameter(t, a, x),
        lambda t, out, a, x: guarded_mul(t, _density(a, x)),
    ],
)
gammaincc = scipy_row(
    "gammaincc",
    "gammaincc",
    [
        lambda t, out, a, x: neg(_in_parameter(t, a, x)),
        lambda t, out, a, x: neg(guarded_mul(t, _density(a, x))),
    ],
)

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
    for m in range(1, _LIMIT):
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
        if all(map(_settled, values, (before[0][2], *before[1][2]))):
            break
    return state[0][2], state[1][2][0], state[1][2][1]


def _betainc_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The derivatives of I_x(a, b) in a and b where the fraction converges fast."""
    psi, betaln_ = special_function("psi", None), special_function("betaln", None)
    h, h_a, h_b = _beta_fraction(a, b, x)
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - betaln_(a, b)) / a
    both = psi(a + b)
    to_a = front * ((np.log(x) - psi(a) + both - 1 / a) * h + h_a)
    to_b = front * ((np.log1p(-x) - psi(b) + both) * h + h_b)
    return to_a, to_b


def _betainc_parameter(a: Any, b: Any, x: Any, *, which: int) -> Any:
    dtype = np.result_type(a, b, x)
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    out = np.full(x.shape, np.nan)
    valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    out[valid & ((x == 0) | (x == 1))] = 0
    inside = valid & (x > 0) & (x < 1)
    low = inside & (x <= (a + 1) / (a + b + 2))
    high = inside & ~low
    if low.any():
        out[low] = _betainc_slopes(a[low], b[low], x[low])[which]
    if high.any():
        out[high] = -_betainc_slopes(b[high], a[high], 1 - x[high])[1 - which]
    return out.astype(dtype)[()]


betainc_parameter = elementwise(
    "betainc_parameter",
    _betainc_parameter,
    family="special",
    accepts="f",
    partials=(
        undefined("betainc_parameter", "a"),
        undefined("betainc_parameter", "b"),
        lambda t, out, a, b, x, *, which: guarded_mul(t, _density_slope(a, b, x, which)),
    ),
    scalar=None,
    weight=500.0,
)[1]
betainc_parameter.__doc__ = "The derivative of betainc(a, b, x) in `a` (which=0) or `b` (which=1)."


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    left = _xlog(sub(a, one(a)), x)
    right = guarded_mul(sub(b, one(b)), log1p(neg(x)))
    return exp(sub(add(left, right), betaln(a, b)))


def _density_slope(a: Any, b: Any, x: Any, which: int) -> Any:
    """The derivative of the density in a parameter."""
    own = log1p(neg(x)) if which else log(x)
    slope = _beta_slope(b, a) if which else _beta_slope(a, b)
    return mul(_beta_density(a, b, x), sub(own, slope))


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

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "binom",
    "gamma",
    "gamma_slope",
    "gammainc",
    "gammaincc",
    "gammasgn",
    "poch",
    "rgamma",
    "stdtr",
    "zeta",
]
