"""The special functions that are one row, or a short formula of several.

Input: arrays or traced values.  Output: values in their common floating dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import Tracer
from stax.dtypes import is_complex
from stax.nn import normalisation
from stax.numpy.inexact import floating, inexact
from stax.numpy.promotion import as_dtype
from stax.primitives import elementwise as el
from stax.primitives import special as base
from stax.primitives import special_bessel as bessel
from stax.primitives import special_beta as betas
from stax.primitives import special_gamma as gammas
from stax.primitives import special_integrals as integrals
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.primitives.transcendental import one, times

Function = Callable[..., Any]


def _lifted(name: str, row: Function, parameters: str, text: str) -> Function:
    """The public function of a row: operands are promoted to one floating dtype."""
    count = len(parameters.split())

    def function(*args: Any) -> Any:
        if len(args) != count:
            raise TypeError(f"{name}({', '.join(parameters.split())}) got {len(args)} arguments")
        return row(*floating(name, *args))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}: {name}({', '.join(parameters.split())})."
    return function


gammaln = _lifted("gammaln", base.lgamma, "x", "The logarithm of the size of gamma(x)")
gamma = _lifted("gamma", gammas.gamma, "x", "The gamma function")
gammasgn = _lifted("gammasgn", gammas.gammasgn, "x", "The sign of the gamma function")
rgamma = _lifted("rgamma", gammas.rgamma, "x", "1 / gamma(x)")
digamma = _lifted("digamma", base.digamma, "x", "The derivative of the logarithm of gamma(x)")
psi = digamma
zeta = _lifted("zeta", gammas.zeta, "x q", "Hurwitz's zeta function, Riemann's for q = 1")
beta = _lifted("beta", gammas.beta, "a b", "The beta function")
betaln = _lifted("betaln", gammas.betaln, "a b", "The logarithm of the beta function")
betainc = _lifted("betainc", betas.betainc, "a b x", "The regularised incomplete beta function")
gammainc = _lifted(
    "gammainc", gammas.gammainc, "a x", "The regularised lower incomplete gamma function"
)
gammaincc = _lifted(
    "gammaincc", gammas.gammaincc, "a x", "The regularised upper incomplete gamma function"
)
poch = _lifted("poch", gammas.poch, "z m", "gamma(z + m) / gamma(z)")
binom = _lifted("binom", gammas.binom, "n k", "The binomial coefficient, of any real numbers")

erf = _lifted("erf", base.erf, "x", "The error function")
erfc = _lifted("erfc", base.erfc, "x", "1 - erf(x)")
erfcx = _lifted("erfcx", integrals.erfcx, "x", "exp(x*x) * erfc(x)")
erfinv = _lifted("erfinv", base.erfinv, "y", "The inverse of erf")
erfcinv = _lifted("erfcinv", integrals.erfcinv, "y", "The inverse of erfc")
dawsn = _lifted("dawsn", integrals.dawsn, "x", "Dawson's integral")
ndtri = _lifted("ndtri", integrals.ndtri, "p", "The inverse of the normal distribution function")
log_ndtr = _lifted(
    "log_ndtr", integrals.log_ndtr, "x", "The logarithm of the normal distribution function"
)
owens_t = _lifted("owens_t", integrals.owens_t, "h a", "Owen's T function")
exp1 = _lifted("exp1", integrals.exp1, "x", "The exponential integral E1")
expi = _lifted("expi", integrals.expi, "x", "The exponential integral Ei")
spence = _lifted("spence", integrals.spence, "x", "The dilogarithm")
xlogy = _lifted("xlogy", integrals.xlogy, "x y", "x log(y), and 0 where x is 0")
xlog1py = _lifted("xlog1py", integrals.xlog1py, "x y", "x log(1 + y), and 0 where x is 0")

i0 = _lifted("i0", bessel.i0, "x", "The modified Bessel function I0")
i0e = _lifted("i0e", bessel.i0e, "x", "exp(-abs(x)) * i0(x)")
i1 = _lifted("i1", bessel.i1, "x", "The modified Bessel function I1")
i1e = _lifted("i1e", bessel.i1e, "x", "exp(-abs(x)) * i1(x)")
k0 = _lifted("k0", bessel.k0, "x", "The modified Bessel function K0")
k0e = _lifted("k0e", bessel.k0e, "x", "exp(x) * k0(x)")
k1 = _lifted("k1", bessel.k1, "x", "The modified Bessel function K1")
k1e = _lifted("k1e", bessel.k1e, "x", "exp(x) * k1(x)")
j0 = _lifted("j0", bessel.j0, "x", "The Bessel function J0")
j1 = _lifted("j1", bessel.j1, "x", "The Bessel function J1")
y0 = _lifted("y0", bessel.y0, "x", "The Bessel function Y0")
y1 = _lifted("y1", bessel.y1, "x", "The Bessel function Y1")
jv = _lifted("jv", bessel.jv, "v z", "The Bessel function J of order v")
jn = jv
yv = _lifted("yv", bessel.yv, "v z", "The Bessel function Y of order v")
yn = _lifted("yn", bessel.yv, "n x", "The Bessel function Y of order n")
iv = _lifted("iv", bessel.iv, "v z", "The modified Bessel function I of order v")
ive = _lifted("ive", bessel.ive, "v z", "exp(-abs(z)) * iv(v, z)")
kv = _lifted("kv", bessel.kv, "v z", "The modified Bessel function K of order v")
kve = _lifted("kve", bessel.kve, "v z", "exp(z) * kv(v, z)")
hyp0f1 = _lifted("hyp0f1", bessel.hyp0f1, "v z", "The confluent hypergeometric limit function")
hyp1f1 = _lifted("hyp1f1", bessel.hyp1f1, "a b x", "The confluent hypergeometric function")
hyp2f1 = _lifted("hyp2f1", bessel.hyp2f1, "a b c x", "Gauss's hypergeometric function")


def wofz(z: Any) -> Any:
    """The Faddeeva function exp(-z*z) erfc(-i z); the result is complex."""
    (z,) = inexact("wofz", z)
    if not is_complex(aval_of(z).dtype):
        z = as_dtype(z, np.result_type(aval_of(z).dtype, np.complex64))
    return bessel.wofz(z)


def loggamma(z: Any) -> Any:
    """The logarithm of gamma(z) for z > 0; NaN for negative numbers."""
    (z,) = floating("loggamma", z)
    return el.select(el.lt(z, literal(0, z)), literal(math.nan, z), base.lgamma(z))


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """The Bessel functions J of orders 0 to v, stacked in front; `n_iter` is not needed."""
    (z,) = floating("bessel_jn", z)
    shape = aval_of(z).shape
    orders = np.arange(v + 1).astype(aval_of(z).dtype).reshape(-1, *(1,) * len(shape))
    return bessel.jv(orders, z)


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order `n` of digamma."""
    if not isinstance(n, Tracer) and np.ndim(n) == 0 and float(n) == int(n) and n >= 0:
        (x,) = floating("polygamma", x)
        return base.polygamma(x, n=int(n))
    n, x = floating("polygamma", n, x)
    after = el.add(n, one(n))
    odd = el.eq(el.mod(n, literal(2, n)), one(n))
    sign = el.select(odd, one(n), literal(-1, n))
    higher = el.mul(el.mul(sign, gammas.gamma(after)), gammas.zeta(after, x))
    return el.select(el.eq(n, literal(0, n)), base.digamma(x), higher)


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension `d`."""
    (a,) = floating("multigammaln", a)
    d = int(d)
    total: Any = literal(d * (d - 1) / 4 * math.log(math.pi), a)
    for k in range(d):
        total = el.add(total, base.lgamma(el.sub(a, literal(k / 2, a))))
    return total


def expn(n: int, x: Any) -> Any:
    """The integral of exp(-x t) / t**n over t > 1, for an integer `n` known while tracing."""
    (x,) = floating("expn", x)
    return integrals.expn(x, n=int(n))


def sici(x: Any) -> tuple[Any, Any]:
    """The sine and the cosine integral."""
    (x,) = floating("sici", x)
    return integrals.sine_integral(x), integrals.cosine_integral(x)


def fresnel(x: Any) -> tuple[Any, Any]:
    """The Fresnel integrals S and C."""
    (x,) = floating("fresnel", x)
    return integrals.fresnel_sine(x), integrals.fresnel_cosine(x)


def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    (x,) = floating("ndtr", x)
    return times(base.erfc(times(x, -math.sqrt(0.5))), 0.5)


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tr.sigmoid(*floating("expit", x))


def log_expit(x: Any) -> Any:
    """log(expit(x))."""
    (x,) = floating("log_expit", x)
    return el.neg(tr.logaddexp(el.neg(x), literal(0, x)))


def logit(p: Any) -> Any:
    """log(p / (1 - p)), accurate near 1/2 too."""
    (p,) = floating("logit", p)
    half = literal(0.5, p)
    near = el.lt(el.abs_(el.sub(p, half)), literal(0.2, p))
    inner = el.select(near, p, half)
    outer = el.select(near, literal(0.25, p), p)
    by_tanh = times(tr.atanh(el.sub(times(inner, 2), one(p))), 2)
    return el.select(near, by_tanh, el.sub(tr.log(outer), tr.log1p(el.neg(outer))))


def entr(x: Any) -> Any:
    """-x log(x); 0 at 0 and -inf below."""
    (x,) = floating("entr", x)
    below = el.lt(x, literal(0, x))
    safe = el.select(below, one(x), x)
    return el.select(below, literal(-math.inf, x), el.neg(integrals.xlogy(safe, safe)))


def rel_entr(p: Any, q: Any) -> Any:
    """P log(p / q); 0 where p is 0 and inf outside the domain."""
    p, q = floating("rel_entr", p, q)
    zero = literal(0, p)
    inside = el.logical_and(el.gt(p, zero), el.gt(q, zero))
    above, below = el.select(inside, p, one(p)), el.select(inside, q, one(q))
    value = el.mul(above, tr.log(el.div(above, below)))
    edge = el.logical_and(el.eq(p, zero), el.ge(q, zero))
    unknown = el.logical_or(el.isnan(p), el.isnan(q))
    outside = el.select(unknown, literal(math.nan, p), literal(math.inf, p))
    return el.select(inside, value, el.select(edge, zero, outside))


def kl_div(p: Any, q: Any) -> Any:
    """P log(p / q) - p + q."""
    p, q = floating("kl_div", p, q)
    return el.add(el.sub(rel_entr(p, q), p), q)


def boxcox(x: Any, lmbda: Any) -> Any:
    """(x**lmbda - 1) / lmbda, and log(x) for a lmbda of 0; accurate near it."""
    x, lmbda = floating("boxcox", x, lmbda)
    return _power_of(tr.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """((1 + x)**lmbda - 1) / lmbda, and log(1 + x) for a lmbda of 0."""
    x, lmbda = floating("boxcox1p", x, lmbda)
    return _power_of(tr.log1p(x), lmbda)


def _power_of(log_x: Any, lmbda: Any) -> Any:
    return el.mul(log_x, integrals.exprel(el.mul(log_x, lmbda)))


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis` (all axes by default)."""
    return normalisation.softmax(x, axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)) along `axis` (all axes by default)."""
    return normalisation.log_softmax(x, axis)


__all__ = [
    "bessel_jn", "beta", "betainc", "betaln", "binom", "boxcox", "boxcox1p", "dawsn", "digamma",
    "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn",
    "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp0f1", "hyp1f1",
    "hyp2f1", "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1",
    "k1e", "kl_div", "kv", "kve", "log_expit", "log_ndtr", "log_softmax", "loggamma", "logit",
    "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma", "psi", "rel_entr", "rgamma",
    "sici", "softmax", "spence", "wofz", "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "zeta",
]  # fmt: skip
