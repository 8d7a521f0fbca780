"""Special functions and distributions with derivatives; density estimates."""

import stax as jax
import stax.numpy as jnp
import stax.scipy as jsp
from stax.scipy import special as sp, stats
from stax.scipy.special import logsumexp, expit
import stax.scipy.stats as jst
from stax.scipy.stats import norm, multivariate_normal as mvn

results = {}
x = jnp.array([0.1, 0.5, 0.9])
for n in "gammaln digamma erf erfc erfinv expit logit ndtr ndtri log_ndtr i0 i0e i1 i1e entr exp1 expi gamma factorial spence dawsn".split():
    if hasattr(sp, n):
        results[n] = [getattr(sp, n)(x), jax.vmap(jax.grad(getattr(sp, n)))(x)]
results["two"] = [
    sp.betaln(2.0, x),
    sp.beta(2.0, x),
    sp.gammainc(2.0, x),
    sp.gammaincc(2.0, x),
    sp.xlogy(0.0, 0.0),
    sp.xlogy(x, 2.0),
    sp.xlog1py(x, 2.0),
    sp.betainc(2.0, 3.0, x),
    sp.polygamma(1, x),
    sp.zeta(2.0, 1 + x),
    sp.multigammaln(3.0, 2),
    sp.kl_div(x, 0.3),
    sp.rel_entr(x, 0.3),
    sp.expn(2, x),
    sp.hyp1f1(1.0, 2.0, x),
    sp.hyp2f1(1.0, 2.0, 3.0, x * 0.5),
    sp.poch(x, 2.0),
    sp.sph_harm_y(jnp.array([1]), jnp.array([2]), jnp.array([0.3]), jnp.array([0.5]), n_max=2),
    sp.bessel_jn(jnp.array([1.0, 2.0]), v=2),
    sp.sici(x),
    sp.fresnel(x),
    sp.owens_t(x, 1.0) if hasattr(sp, "owens_t") else 0,
    sp.erfcx(x),
    sp.comb(5, 2) if hasattr(sp, "comb") else 0,
    sp.logsumexp(x, b=jnp.array([1.0, -1.0, 2.0]), return_sign=True),
    sp.softmax(x),
    sp.log_softmax(x),
]
results["lg"] = jax.grad(lambda x: logsumexp(x))(jnp.array([1000.0, 1000.0]))
results["norm"] = [
    norm.logpdf(x),
    norm.pdf(x, 1.0, 2.0),
    norm.cdf(x, loc=1.0),
    norm.logcdf(-20.0),
    norm.ppf(x),
    norm.sf(x),
    norm.logsf(x),
    norm.isf(x),
    jax.grad(norm.logpdf)(0.3),
]
d = {
    "beta": (x, 2.0, 3.0),
    "cauchy": (x,),
    "chi2": (x, 3.0),
    "expon": (x,),
    "gamma": (x, 2.0),
    "laplace": (x,),
    "logistic": (x,),
    "pareto": (x + 1, 2.0),
    "t": (x, 4.0),
    "uniform": (x,),
    "truncnorm": (x, -1.0, 2.0),
    "gennorm": (x, 1.5),
    "vonmises": (x, 2.0),
    "wrapcauchy": (x, 0.3),
}
for k, a in d.items():
    m = getattr(stats, k)
    results["st_" + k] = {f: getattr(m, f)(*a) for f in ("logpdf", "pdf")}
    results["gst_" + k] = jax.vmap(lambda v: jax.grad(lambda v: m.logpdf(v, *a[1:]))(v))(a[0])
ki = jnp.array([0, 1, 3])
results["disc"] = [
    stats.bernoulli.logpmf(jnp.array([0, 1]), 0.3),
    stats.bernoulli.pmf(1, 0.3),
    stats.binom.logpmf(ki, 5, 0.3),
    stats.poisson.logpmf(ki, 2.0),
    stats.poisson.cdf(ki, 2.0),
    stats.geom.logpmf(ki + 1, 0.3),
    stats.nbinom.logpmf(ki, 3, 0.4),
    stats.betabinom.logpmf(ki, 5, 2.0, 3.0),
    stats.multinomial.logpmf(jnp.array([1, 2, 1]), 4, jnp.array([0.2, 0.5, 0.3])),
    stats.dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), jnp.array([1.0, 2.0, 3.0])),
]
cov = jnp.array([[2.0, 0.5], [0.5, 1.0]])
results["mvn"] = [
    mvn.logpdf(jnp.ones(2), jnp.zeros(2), cov),
    mvn.pdf(jnp.ones((3, 2)), jnp.zeros(2), cov),
    jax.grad(lambda c: mvn.logpdf(jnp.ones(2), jnp.zeros(2), c))(cov),
    jst.multivariate_normal.logpdf(jnp.ones(2), 0.0, 1.0) if False else 0,
]
results["mode"] = stats.mode(jnp.array([[1, 2, 2], [3, 3, 1]]), axis=1)
results["rank"] = stats.rankdata(jnp.array([0, 2, 3, 2]))
results["sem"] = stats.sem(jnp.array([1.0, 2.0, 4.0]))
results["rankm"] = [
    stats.rankdata(jnp.array([0, 2, 3, 2]), method=m) for m in ("min", "max", "dense", "ordinal")
]
kde = stats.gaussian_kde(jnp.array([-1.0, 0.2, 0.7, 1.5, 3.0]))
results["kde"] = [
    kde(x),
    kde.logpdf(x),
    kde.pdf(x),
    kde.integrate_box_1d(0.0, 1.0),
    kde.integrate_gaussian(0.5, 1.0),
    kde.integrate_kde(kde),
    kde.n,
    kde.d,
    kde.neff,
]
kde2 = stats.gaussian_kde(
    jnp.array([[0.0, 1.0, 2.0, 0.5], [1.0, 0.3, 2.2, 0.1]]),
    bw_method="silverman",
    weights=jnp.array([1.0, 2.0, 1.0, 1.0]),
)
results["kde2"] = [kde2(jnp.array([[0.5, 1.0], [0.5, 0.1]])), kde2.covariance]
results["gkde"] = jax.grad(lambda d: stats.gaussian_kde(d).logpdf(jnp.array([0.3]))[0])(
    jnp.array([-1.0, 0.2, 0.7, 1.5])
)
