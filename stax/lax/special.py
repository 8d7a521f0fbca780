"""Special functions of `stax.lax`: Bessel, incomplete gamma and beta, zeta.

Input: arrays or traced values.  Output: values in their common floating dtype.
"""

from __future__ import annotations

from typing import Any

from stax.lax.elementwise import floating
from stax.primitives import special_bessel as bessel
from stax.primitives import special_beta as betas
from stax.primitives import special_gamma as gammas
from stax.primitives.elementwise import mul, neg, sub
from stax.primitives.special import lgamma
from stax.primitives.transcendental import exp, log

bessel_i0e = floating(
    bessel.i0e,
    "bessel_i0e",
    """exp(-abs(x)) I0(x), with the modified Bessel function of order 0.

    >>> bessel_i0e(0.0)
    1.0
    """,
)
bessel_i1e = floating(
    bessel.i1e,
    "bessel_i1e",
    """exp(-abs(x)) I1(x), with the modified Bessel function of order 1.

    >>> bessel_i1e(0.0)
    0.0
    """,
)
betainc = floating(
    betas.betainc,
    "betainc",
    """The regularised incomplete beta function of a, b > 0 and x in [0, 1]; NaN elsewhere.

    >>> np.round(betainc(2.0, 1.0, 0.5), 6)  # x**a, where b is 1
    0.25
    """,
    "a b x",
)
igamma = floating(
    gammas.gammainc,
    "igamma",
    """The regularised lower incomplete gamma function of a > 0 and x >= 0; NaN elsewhere.

    >>> np.round(igamma(1.0, np.log(2.0)), 6)  # 1 - exp(-x), where a is 1
    0.5
    """,
    "a x",
)
igammac = floating(
    gammas.gammaincc,
    "igammac",
    """The regularised upper incomplete gamma function: 1 - igamma(a, x), accurate where that is 1.

    >>> np.round(igammac(1.0, np.log(4.0)), 6)  # exp(-x), where a is 1
    0.25
    """,
    "a x",
)
zeta = floating(
    gammas.zeta,
    "zeta",
    """Hurwitz's zeta function, the sum of 1 / (n + q)**x over n = 0, 1, ..., for x > 1.

    >>> np.round(zeta(2.0, 1.0), 6)  # pi**2 / 6
    1.644934
    """,
    "x q",
)
regularized_incomplete_beta = betainc


def _gamma_sample_slope(a: Any, x: Any) -> Any:
    return mul(x, gammas.gamma_slope(a, log(x)))


def _slope_in_shape(a: Any, x: Any) -> Any:
    # The density times the change of the number whose probability is kept.
    density = exp(sub(sub(mul(a, log(x)), x), lgamma(a)))
    return neg(mul(density, gammas.gamma_slope(a, log(x))))


igamma_grad_a = floating(
    _slope_in_shape, "igamma_grad_a", "The derivative of `igamma` in its first argument.", "a x"
)
random_gamma_grad = floating(
    _gamma_sample_slope,
    "random_gamma_grad",
    "The change with `a` of a gamma number `x` whose probability is kept.",
    "a x",
)

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "random_gamma_grad",
    "regularized_incomplete_beta",
    "zeta",
]
