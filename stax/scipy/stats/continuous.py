"""The continuous distributions, each as the functions of its standard form.

Input: a standardised point and shape parameters, of one floating dtype.  Output: see `families`.
Tails are computed from the function that is small there, never as 1 minus one that is not.
"""

from __future__ import annotations

import math
from typing import Any

from stax.nn.normalisation import log1mexp
from stax.primitives import elementwise as el
from stax.primitives import special_bessel as bessel
from stax.primitives import special_beta as betas
from stax.primitives import special_gamma as gammas
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.primitives.special import erf, erfinv, lgamma
from stax.primitives.special_integrals import log_ndtr, ndtri, xlog1py, xlogy
from stax.scipy.special.functions import log_expit, logit, ndtr
from stax.scipy.stats.families import Distribution

_LOG_2PI = math.log(2 * math.pi)


def _positive(*shapes: Any) -> Any:
    ok: Any = None
    for s in shapes:
        here = el.gt(s, literal(0, s))
        ok = here if ok is None else el.logical_and(ok, here)
    return ok


def _zero(x: Any) -> Any:
    return literal(0, x)


def _normal_density(y: Any) -> Any:
    return -0.5 * el.square(y) - 0.5 * _LOG_2PI


norm = Distribution(
    "norm",
    "",
    _normal_density,
    cdf=ndtr,
    sf=lambda y: ndtr(-y),
    logcdf=log_ndtr,
    logsf=lambda y: log_ndtr(-y),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)
lognorm = Distribution(
    "lognorm",
    "s",
    lambda y, s: _normal_density(tr.log(y) / s) - tr.log(s * y),
    support=(0.0, math.inf),
    inside=1.0,
    open_below=True,
    cdf=lambda y, s: ndtr(tr.log(y) / s),
    sf=lambda y, s: ndtr(-tr.log(y) / s),
    logcdf=lambda y, s: log_ndtr(tr.log(y) / s),
    logsf=lambda y, s: log_ndtr(-tr.log(y) / s),
    ppf=lambda q, s: tr.exp(s * ndtri(q)),
    isf=lambda q, s: tr.exp(-s * ndtri(q)),
    valid=_positive,
)
halfnorm = Distribution(
    "halfnorm",
    "",
    lambda y: _normal_density(y) + math.log(2),
    support=(0.0, math.inf),
    cdf=lambda y: erf(math.sqrt(0.5) * y),
    sf=lambda y: 2.0 * ndtr(-y),
    logsf=lambda y: log_ndtr(-y) + math.log(2),
    ppf=lambda q: math.sqrt(2) * erfinv(q),
    isf=lambda q: -ndtri(0.5 * q),
)


def _log_difference(large: Any, small: Any) -> Any:
    """log(exp(large) - exp(small))"""
    return large + log1mexp(large - small)


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability of (a, b), from the tail that is small."""
    left, right = el.le(b, _zero(b)), el.gt(a, _zero(a))
    side = el.logical_or(left, right)
    far = el.select(right, -a, b)
    near = el.select(right, -b, a)
    top, low = el.select(side, far, _zero(far)), el.select(side, near, literal(-1, near))
    in_tail = _log_difference(log_ndtr(top), log_ndtr(low))
    across = tr.log1p(-ndtr(el.select(side, -tr.one(a), a)) - ndtr(-el.select(side, tr.one(b), b)))
    return el.select(side, in_tail, across)


truncnorm = Distribution(
    "truncnorm",
    "a b",
    lambda y, a, b: _normal_density(y) - _log_mass(a, b),
    support=(lambda a, b: a, lambda a, b: b),
    inside=lambda a, b: a,
    logcdf=lambda y, a, b: _log_mass(a, y) - _log_mass(a, b),
    logsf=lambda y, a, b: _log_mass(y, b) - _log_mass(a, b),
    cdf=lambda y, a, b: tr.exp(_log_mass(a, y) - _log_mass(a, b)),
    sf=lambda y, a, b: tr.exp(_log_mass(y, b) - _log_mass(a, b)),
    valid=lambda a, b: el.lt(a, b),
)
beta = Distribution(
    "beta",
    "a b",
    lambda y, a, b: xlogy(a - 1.0, y) + xlog1py(b - 1.0, -y) - gammas.betaln(a, b),
    support=(0.0, 1.0),
    cdf=lambda y, a, b: betas.betainc(a, b, y),
    sf=lambda y, a, b: betas.betainc(b, a, 1.0 - y),
    valid=_positive,
)
gamma = Distribution(
    "gamma",
    "a",
    lambda y, a: xlogy(a - 1.0, y) - y - lgamma(a),
    support=(0.0, math.inf),
    cdf=lambda y, a: gammas.gammainc(a, y),
    sf=lambda y, a: gammas.gammaincc(a, y),
    valid=_positive,
)
invgamma = Distribution(
    "invgamma",
    "a",
    lambda y, a: -xlogy(a + 1.0, y) - el.reciprocal(y) - lgamma(a),
    support=(0.0, math.inf),
    open_below=True,
    cdf=lambda y, a: gammas.gammaincc(a, el.reciprocal(y)),
    sf=lambda y, a: gammas.gammainc(a, el.reciprocal(y)),
    valid=_positive,
)
chi2 = Distribution(
    "chi2",
    "df",
    lambda y, k: xlogy(0.5 * k - 1.0, 0.5 * y) - 0.5 * y - lgamma(0.5 * k) - math.log(2),
    support=(0.0, math.inf),
    cdf=lambda y, k: gammas.gammainc(0.5 * k, 0.5 * y),
    sf=lambda y, k: gammas.gammaincc(0.5 * k, 0.5 * y),
    valid=_positive,
)


def _t_density(y: Any, df: Any) -> Any:
    half = 0.5 * (df + 1.0)
    scale = lgamma(half) - lgamma(0.5 * df) - 0.5 * tr.log(df * math.pi)
    return scale - half * tr.log1p(el.square(y) / df)


t = Distribution(
    "t",
    "df",
    _t_density,
    cdf=lambda y, df: betas.stdtr(df, y),
    sf=lambda y, df: betas.stdtr(df, -y),
    valid=_positive,
)
f = Distribution(
    "f",
    "dfn dfd",
    lambda y, m, n: (
        0.5 * m * tr.log(m / n)
        + xlogy(0.5 * m - 1.0, y)
        - 0.5 * (m + n) * tr.log1p(m * y / n)
        - gammas.betaln(0.5 * m, 0.5 * n)
    ),
    support=(0.0, math.inf),
    cdf=lambda y, m, n: betas.betainc(0.5 * m, 0.5 * n, m * y / (m * y + n)),
    sf=lambda y, m, n: betas.betainc(0.5 * n, 0.5 * m, n / (m * y + n)),
    valid=_positive,
)
expon = Distribution(
    "expon",
    "",
    lambda y: -y,
    support=(0.0, math.inf),
    cdf=lambda y: -tr.expm1(-y),
    sf=lambda y: tr.exp(-y),
    logcdf=log1mexp,
    logsf=lambda y: -y,
    ppf=lambda q: -tr.log1p(-q),
    isf=lambda q: -tr.log(q),
)
weibull_min = Distribution(
    "weibull_min",
    "c",
    lambda y, c: tr.log(c) + xlogy(c - 1.0, y) - tr.power(y, c),
    support=(0.0, math.inf),
    cdf=lambda y, c: -tr.expm1(-tr.power(y, c)),
    sf=lambda y, c: tr.exp(-tr.power(y, c)),
    logsf=lambda y, c: -tr.power(y, c),
    ppf=lambda q, c: tr.power(-tr.log1p(-q), 1.0 / c),
    isf=lambda q, c: tr.power(-tr.log(q), 1.0 / c),
    valid=_positive,
)
rayleigh = Distribution(
    "rayleigh",
    "",
    lambda y: tr.log(y) - 0.5 * el.square(y),
    support=(0.0, math.inf),
    cdf=lambda y: -tr.expm1(-0.5 * el.square(y)),
    sf=lambda y: tr.exp(-0.5 * el.square(y)),
    logsf=lambda y: -0.5 * el.square(y),
    ppf=lambda q: tr.sqrt(-2.0 * tr.log1p(-q)),
    isf=lambda q: tr.sqrt(-2.0 * tr.log(q)),
)


def _laplace_cdf(y: Any) -> Any:
    tail = 0.5 * tr.exp(-el.abs_(y))
    return el.select(el.lt(y, _zero(y)), tail, 1.0 - tail)


def _laplace_logcdf(y: Any) -> Any:
    size = el.abs_(y)
    below = -size - math.log(2)
    return el.select(el.lt(y, _zero(y)), below, tr.log1p(-0.5 * tr.exp(-size)))


def _laplace_ppf(q: Any) -> Any:
    low = el.lt(q, literal(0.5, q))
    left = tr.log(2.0 * el.select(low, q, literal(0.25, q)))
    right = -tr.log(2.0 * (1.0 - el.select(low, literal(0.75, q), q)))
    return el.select(low, left, right)


laplace = Distribution(
    "laplace",
    "",
    lambda y: -el.abs_(y) - math.log(2),
    cdf=_laplace_cdf,
    sf=lambda y: _laplace_cdf(-y),
    logcdf=_laplace_logcdf,
    logsf=lambda y: _laplace_logcdf(-y),
    ppf=_laplace_ppf,
    isf=lambda q: -_laplace_ppf(q),
)


def _logistic_density(y: Any) -> Any:
    size = el.abs_(y)
    return -size - 2.0 * tr.log1p(tr.exp(-size))


logistic = Distribution(
    "logistic",
    "",
    _logistic_density,
    cdf=tr.sigmoid,
    sf=lambda y: tr.sigmoid(-y),
    logcdf=log_expit,
    logsf=lambda y: log_expit(-y),
    ppf=logit,
    isf=lambda q: -logit(q),
)
uniform = Distribution(
    "uniform",
    "",
    lambda y: 0.0 * y,
    support=(0.0, 1.0),
    cdf=lambda y: y,
    sf=lambda y: 1.0 - y,
    ppf=lambda q: q,
)


def _cauchy_ppf(q: Any) -> Any:
    """tan(pi (q - 1/2)), from the nearer end."""
    low = el.lt(q, literal(0.5, q))
    size = -el.reciprocal(tr.tan(math.pi * el.select(low, q, 1.0 - q)))
    return el.select(low, size, -size)


cauchy = Distribution(
    "cauchy",
    "",
    lambda y: -math.log(math.pi) - tr.log1p(el.square(y)),
    cdf=lambda y: tr.atan2(tr.one(y), -y) * (1 / math.pi),
    sf=lambda y: tr.atan2(tr.one(y), y) * (1 / math.pi),
    ppf=_cauchy_ppf,
    isf=lambda q: -_cauchy_ppf(q),
)
gumbel_r = Distribution(
    "gumbel_r",
    "",
    lambda y: -y - tr.exp(-y),
    cdf=lambda y: tr.exp(-tr.exp(-y)),
    sf=lambda y: -tr.expm1(-tr.exp(-y)),
    logcdf=lambda y: -tr.exp(-y),
    logsf=lambda y: log1mexp(tr.exp(-y)),
    ppf=lambda q: -tr.log(-tr.log(q)),
    isf=lambda q: -tr.log(-tr.log1p(-q)),
)
gumbel_l = Distribution(
    "gumbel_l",
    "",
    lambda y: y - tr.exp(y),
    cdf=lambda y: -tr.expm1(-tr.exp(y)),
    sf=lambda y: tr.exp(-tr.exp(y)),
    logcdf=lambda y: log1mexp(tr.exp(y)),
    logsf=lambda y: -tr.exp(y),
    ppf=lambda q: tr.log(-tr.log1p(-q)),
    isf=lambda q: tr.log(-tr.log(q)),
)
pareto = Distribution(
    "pareto",
    "b",
    lambda y, b: tr.log(b) - (b + 1.0) * tr.log(y),
    support=(1.0, math.inf),
    inside=2.0,
    cdf=lambda y, b: -tr.expm1(-b * tr.log(y)),
    sf=lambda y, b: tr.exp(-b * tr.log(y)),
    logcdf=lambda y, b: log1mexp(b * tr.log(y)),
    logsf=lambda y, b: -b * tr.log(y),
    ppf=lambda q, b: tr.exp(-tr.log1p(-q) / b),
    isf=lambda q, b: tr.exp(-tr.log(q) / b),
    valid=_positive,
)


def _gennorm_cdf(y: Any, beta_: Any) -> Any:
    size = el.abs_(y)
    tail = 0.5 * gammas.gammaincc(1.0 / beta_, tr.power(size, beta_))
    return el.select(el.lt(y, _zero(y)), tail, 1.0 - tail)


gennorm = Distribution(
    "gennorm",
    "beta",
    lambda y, b: tr.log(0.5 * b) - lgamma(1.0 / b) - tr.power(el.abs_(y), b),
    cdf=_gennorm_cdf,
    sf=lambda y, b: _gennorm_cdf(-y, b),
    valid=_positive,
)
vonmises = Distribution(
    "vonmises",
    "kappa",
    lambda y, k: -2.0 * k * el.square(tr.sin(0.5 * y)) - _LOG_2PI - tr.log(bessel.i0e(k)),
    valid=lambda k: el.ge(k, _zero(k)),
)


def _wrapcauchy_density(y: Any, c: Any) -> Any:
    distance = el.square(1.0 - c) + 4.0 * c * el.square(tr.sin(0.5 * y))
    return tr.log((1.0 - c) * (1.0 + c)) - _LOG_2PI - tr.log(distance)


wrapcauchy = Distribution(
    "wrapcauchy",
    "c",
    _wrapcauchy_density,
    support=(0.0, 2 * math.pi),
    valid=lambda c: el.logical_and(el.gt(c, _zero(c)), el.lt(c, tr.one(c))),
)

__all__ = [
    "beta", "cauchy", "chi2", "expon", "f", "gamma", "gennorm", "gumbel_l", "gumbel_r",
    "halfnorm", "invgamma", "laplace", "logistic", "lognorm", "norm", "pareto", "rayleigh", "t",
    "truncnorm", "uniform", "vonmises", "weibull_min", "wrapcauchy",
]  # fmt: skip
