"""Random numbers from explicit keys.

Input: a key, made by `key(seed)` and multiplied by `split`.  Output: draws; the same key gives the
same numbers, jitted or not, batched or not.  Every function takes the keys of `key`, arrays of a
dtype of their own, and those of `PRNGKey`, two uint32 words on a last axis.
"""

from stax.random.continuous import (
    ball,
    cauchy,
    double_sided_maxwell,
    exponential,
    generalized_normal,
    laplace,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from stax.random.counts import binomial, geometric, multinomial, poisson
from stax.random.gammas import beta, chisquare, dirichlet, f, gamma, loggamma, t
from stax.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_impl,
    split,
    wrap_key_data,
)
from stax.random.selections import categorical, choice, gumbel, permutation
from stax.random.uniforms import (
    bernoulli,
    bits,
    normal,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
