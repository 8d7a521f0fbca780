"""The distributions of integers, each by its logarithmic probabilities.

Input: an integer (as a float) and shape parameters.  Output: see `families`.
"""

from __future__ import annotations

from typing import Any

from stax.primitives import elementwise as el
from stax.primitives import special_beta as betas
from stax.primitives import special_gamma as gammas
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.primitives.special import lgamma
from stax.primitives.special_integrals import xlog1py, xlogy
from stax.scipy.stats.families import Discrete


def _probability(p: Any) -> Any:
    return el.logical_and(el.ge(p, literal(0, p)), el.le(p, literal(1, p)))


def _log_choose(n: Any, k: Any) -> Any:
    """The logarithm of the binomial coefficient, without large differences."""
    return -tr.log1p(n) - gammas.betaln(n - k + 1.0, k + 1.0)


bernoulli = Discrete(
    "bernoulli",
    "p",
    lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p),
    last=1.0,
    valid=_probability,
    cdf=lambda k, p: el.select(el.lt(k, literal(1, k)), 1.0 - p, 0.0 * p + 1.0),
    ppf=lambda q, p: el.select(el.le(q, 1.0 - p), 0.0 * q, 0.0 * q + 1.0),
)
binom = Discrete(
    "binom",
    "n p",
    lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p),
    last=lambda n, p: n,
    valid=lambda n, p: el.logical_and(_probability(p), el.ge(n, literal(0, n))),
    cdf=lambda k, n, p: _binom_tail(k, n, p, False),
    sf=lambda k, n, p: _binom_tail(k, n, p, True),
)


def _binom_tail(k: Any, n: Any, p: Any, upper: bool) -> Any:
    """P(X > k) or its complement; at k = n the whole is below."""
    end = el.ge(k, n)
    k = el.select(end, n - 1.0, k)
    if upper:
        return el.select(end, 0.0 * p, betas.betainc(k + 1.0, n - k, p))
    return el.select(end, 0.0 * p + 1.0, betas.betainc(n - k, k + 1.0, 1.0 - p))


poisson = Discrete(
    "poisson",
    "mu",
    lambda k, mu: xlogy(k, mu) - mu - lgamma(k + 1.0),
    valid=lambda mu: el.ge(mu, literal(0, mu)),
    cdf=lambda k, mu: gammas.gammaincc(k + 1.0, mu),
    sf=lambda k, mu: gammas.gammainc(k + 1.0, mu),
)
geom = Discrete(
    "geom",
    "p",
    lambda k, p: xlog1py(k - 1.0, -p) + tr.log(p),
    first=1.0,
    valid=_probability,
    cdf=lambda k, p: -tr.expm1(k * tr.log1p(-p)),
    sf=lambda k, p: tr.exp(k * tr.log1p(-p)),
)
nbinom = Discrete(
    "nbinom",
    "n p",
    lambda k, n, p: lgamma(k + n) - lgamma(k + 1.0) - lgamma(n) + xlogy(n, p) + xlog1py(k, -p),
    valid=lambda n, p: el.logical_and(_probability(p), el.gt(n, literal(0, n))),
    cdf=lambda k, n, p: betas.betainc(n, k + 1.0, p),
    sf=lambda k, n, p: betas.betainc(k + 1.0, n, 1.0 - p),
)
betabinom = Discrete(
    "betabinom",
    "n a b",
    lambda k, n, a, b: _log_choose(n, k) + gammas.betaln(k + a, n - k + b) - gammas.betaln(a, b),
    last=lambda n, a, b: n,
    valid=lambda n, a, b: el.logical_and(
        el.ge(n, literal(0, n)),
        el.logical_and(el.gt(a, literal(0, a)), el.gt(b, literal(0, b))),
    ),
)

__all__ = ["bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"]
