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
    guarded_mul,
    lt,
    mul,
    neg,
    select,
    sub,
)
from stax.primitives.families import elementwise, literal
from stax.primitives.special import digamma, lgamma, polygamma, special_function
from stax.primitives.transcendental import cos, exp, log, one, sin, times

LIMIT = 10_000
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


def beta_slope(x: Any, y: Any) -> Any:
    """The derivative of log B(x, y) in x."""
    return sub(digamma(x), digamma(add(x, y)))


betaln = scipy_row(
    "betaln",
    "betaln",
    [
        lambda t, out, x, y: guarded_mul(t, beta_slope(x, y)),
        lambda t, out, x, y: guarded_mul(t, beta_slope(y, x)),
    ],
)
beta = scipy_row(
    "beta",
    "beta",
    [
        lambda t, out, x, y: guarded_mul(t, mul(out, beta_slope(x, y))),
        lambda t, out, x, y: guarded_mul(t, mul(out, beta_slope(y, x))),
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
    for n in range(1, LIMIT):
        ratio = x / (a + n)
        slope = ratio * (slope - term / (a + n))
        term = term * ratio
        total, total_slope = total + term, total_slope + slope
        if not np.any(np.abs(slope) > 1e-17 * np.abs(total_slope)):
            break
    return total, total_slope


def settled(now: Any, before: Any) -> bool:
    """True when a step changed nothing that matters."""
    return not np.any(np.abs(now - before) > 2e-16 * np.abs(now))


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """Q(a, x) gamma(a) / (x**a exp(-x)) as a continued fraction, and its derivative in a."""
    b = x + 1 - a
    d = 1 / b
    h, h_slope = d, d * d
    d_slope = d * d
    c, c_slope = np.full_like(x, 1e300), np.zeros_like(x)
    for n in range(1, LIMIT):
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
        if settled(h, h / step) and settled(h_slope, before):
            break
    return h, h_slope


def _by_region(series: Callable[..., Any], fraction: Callable[..., Any]) -> Callable[..., Any]:
    """A function of (a, log x): `series(a, x, log x)` for x up to a + 1, `fraction` beyond."""

    def computed(a: Any, log_x: Any) -> Any:
        dtype = np.result_type(a, log_x)
        a, log_x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(log_x, np.float64))
        x = np.exp(log_x)
        out = np.full(x.shape, np.nan)
        valid = (a > 0) & np.isfinite(a) & (log_x < np.inf)
        below = valid & (x <= a + 1)
        for where, function in ((below, series), (valid & ~below, fraction)):
            if where.any():
                out[where] = function(a[where], x[where], log_x[where])
        return out.astype(dtype)[()]

    return computed


def _slope_by_series(a: Any, x: Any, log_x: Any) -> Any:
    total, slope = _series(a, x)
    return -((log_x - special_function("psi", None)(a + 1)) * total + slope) / a


def _slope_by_fraction(a: Any, x: Any, log_x: Any) -> Any:
    h, slope = _fraction(a, x)
    return (log_x - special_function("psi", None)(a)) * h + slope


_gamma_slope = _by_region(_slope_by_series, _slope_by_fraction)


# Values with their first derivative and half of their second, along a change of `a`.


def jet_times(f: Jet, g: Jet) -> Jet:
    """The product of two jets."""
    return f[0] * g[0], f[0] * g[1] + f[1] * g[0], f[0] * g[2] + f[1] * g[1] + f[2] * g[0]


def jet_over(f: Jet, g: Jet) -> Jet:
    """The quotient of two jets."""
    q0 = f[0] / g[0]
    q1 = (f[1] - q0 * g[1]) / g[0]
    return q0, q1, (f[2] - q0 * g[2] - q1 * g[1]) / g[0]


def jet_plus(f: Jet, g: Jet) -> Jet:
    """The sum of two jets."""
    return f[0] + g[0], f[1] + g[1], f[2] + g[2]


def _series_jet(a: Any, x: Any) -> Jet:
    """The sum of `_series` as a jet."""
    zero, unit = np.zeros_like(x), np.ones_like(x)
    term: Jet = (unit, zero, zero)
    total = term
    for n in range(1, LIMIT):
        term = jet_times(term, jet_over((x, zero, zero), (a + n, unit, zero)))
        total = jet_plus(total, term)
        if not np.any(np.abs(term[2]) > 1e-17 * np.abs(total[2])):
            break
    return total


def _fraction_jet(a: Any, x: Any) -> Jet:
    """The continued fraction of `_fraction` as a jet."""
    zero, unit = np.zeros_like(x), np.ones_like(x)
    one_: Jet = (unit, zero, zero)
    b: Jet = (x + 1 - a, -unit, zero)
    d = jet_over(one_, b)
    h, c = d, (np.full_like(x, 1e300), zero, zero)
    for n in range(1, LIMIT):
        an: Jet = (n * (a - n), n * unit, zero)
        b = (b[0] + 2, b[1], b[2])
        c = jet_plus(b, jet_over(an, c))
        d = jet_over(one_, jet_plus(b, jet_times(an, d)))
        before, h = h, jet_times(h, jet_times(c, d))
        if all(map(settled, h, before)):
            break
    return h


def _bend_by_series(a: Any, x: Any, log_x: Any) -> Any:
    f, slope, bend = _series_jet(a, x)
    gap = log_x - special_function("psi", None)(a + 1)
    change = gap * slope - special_function("polygamma", None)(1, a + 1) * f + 2 * bend
    return (gap * f + slope) / (a * a) - change / a


def _bend_by_fraction(a: Any, x: Any, log_x: Any) -> Any:
    f, slope, bend = _fraction_jet(a, x)
    psi, trigamma = special_function("psi", None), special_function("polygamma", None)
    return (log_x - psi(a)) * slope - trigamma(1, a) * f + 2 * bend


_gamma_bend = _by_region(_bend_by_series, _bend_by_fraction)


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
    return exp(sub(sub(times_log(sub(a, one(a)), x), x), lgamma(a)))


def times_log(a: Any, x: Any) -> Any:
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

__all__ = [
    "beta",
    "betaln",
    "binom",
    "gamma",
    "gamma_slope",
    "gammainc",
    "gammaincc",
    "gammasgn",
    "poch",
    "rgamma",
    "zeta",
]
