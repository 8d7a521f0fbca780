"""One draw of every function of `jax.random` that has a floating dtype, for any of the dtypes.

Of half types, hashes of what JAX draws are recorded; `compare.py` asks an installed JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

N = 10_000
DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
Draw = Callable[[Any, Any], Any]  # of a `random` module and a key


def functions(name: str, count: int = N) -> dict[str, Draw]:
    """Draws of `count` numbers of the dtype of that name, by what is drawn."""
    shape, dtype = (count,), DTYPES[name]

    def c(*values: float) -> Any:
        return np.asarray(values if len(values) > 1 else values[0], dtype)

    each = np.linspace(0.5, 5, count).astype(dtype)
    p = c(0.1, 0.2, 0.3, 0.4)
    mean, covariance = c(1, 2), np.asarray([[2, 0.5], [0.5, 1]], dtype)
    few = (count // 6,)
    return {
        "uniform": lambda r, k: r.uniform(k, shape, name),
        "uniform, bounds": lambda r, k: r.uniform(k, shape, name, -1.5, 2.7),
        "normal": lambda r, k: r.normal(k, shape, name),
        "truncated_normal": lambda r, k: r.truncated_normal(k, c(-1), c(2), shape, name),
        "bernoulli": lambda r, k: r.bernoulli(k, c(0.3), shape),
        "rademacher": lambda r, k: r.rademacher(k, shape, name),
        "categorical": lambda r, k: r.categorical(k, p, shape=shape),
        "choice": lambda r, k: r.choice(k, 4, shape, p=p),
        "gumbel": lambda r, k: r.gumbel(k, shape, name),
        "gumbel, high": lambda r, k: r.gumbel(k, shape, name, "high"),
        "exponential": lambda r, k: r.exponential(k, shape, name),
        "laplace": lambda r, k: r.laplace(k, shape, name),
        "logistic": lambda r, k: r.logistic(k, shape, name),
        "cauchy": lambda r, k: r.cauchy(k, shape, name),
        "lognormal": lambda r, k: r.lognormal(k, c(0.7), shape, name),
        "lognormal, arrays": lambda r, k: r.lognormal(k, each, shape, name),
        "pareto": lambda r, k: r.pareto(k, c(2.7), shape, name),
        "pareto, arrays": lambda r, k: r.pareto(k, each, shape, name),
        "rayleigh": lambda r, k: r.rayleigh(k, c(1.7), shape, name),
        "triangular": lambda r, k: r.triangular(k, c(0), c(0.3), c(1), shape, name),
        "weibull_min": lambda r, k: r.weibull_min(k, c(1.7), c(2.7), shape, name),
        "weibull_min, arrays": lambda r, k: r.weibull_min(k, each, each, shape, name),
        "wald": lambda r, k: r.wald(k, c(1.7), shape, name),
        "wald, arrays": lambda r, k: r.wald(k, each, shape, name),
        "maxwell": lambda r, k: r.maxwell(k, shape, name),
        "maxwell, few": lambda r, k: r.maxwell(k, (1000,), name),
        "double_sided_maxwell": lambda r, k: r.double_sided_maxwell(k, c(0.3), c(1.7), shape, name),
        "double_sided_maxwell, few": lambda r, k: r.double_sided_maxwell(
            k, c(0.3), c(1.7), (1000,), name
        ),
        "gamma": lambda r, k: r.gamma(k, c(2.7), shape, name),
        "gamma, below 1": lambda r, k: r.gamma(k, c(0.3), shape, name),
        "gamma, arrays": lambda r, k: r.gamma(k, each, shape, name),
        "loggamma": lambda r, k: r.loggamma(k, each, shape, name),
        "beta": lambda r, k: r.beta(k, c(0.7), c(2.7), shape, name),
        "chisquare": lambda r, k: r.chisquare(k, c(3), shape, name),
        "t": lambda r, k: r.t(k, c(3), shape, name),
        "f": lambda r, k: r.f(k, c(3), c(5), shape, name),
        "f, arrays": lambda r, k: r.f(k, each, each, shape, name),
        "dirichlet, few": lambda r, k: r.dirichlet(k, c(0.5, 1, 2), (1000,), name),
        "dirichlet": lambda r, k: r.dirichlet(k, c(0.5, 1, 2), shape, name),
        "generalized_normal": lambda r, k: r.generalized_normal(k, 1.7, shape, name),
        "ball, few": lambda r, k: r.ball(k, 3, 2, (1000,), name),
        "ball": lambda r, k: r.ball(k, 3, 1.7, shape, name),
        "geometric": lambda r, k: r.geometric(k, c(0.2), shape),
        "geometric, rare": lambda r, k: r.geometric(k, c(1e-3), shape),
        "poisson": lambda r, k: r.poisson(k, c(3), shape),
        "poisson, large": lambda r, k: r.poisson(k, c(30), shape),
        "binomial": lambda r, k: r.binomial(k, c(10), c(0.3), shape),
        "binomial, large": lambda r, k: r.binomial(k, c(100), c(0.3), shape),
        "multinomial": lambda r, k: r.multinomial(k, c(20), p, shape=(100, 4)),
        "multivariate_normal": lambda r, k: r.multivariate_normal(k, mean, covariance, few, name),
        "multivariate_normal, svd": lambda r, k: r.multivariate_normal(
            k, mean, covariance, few, name, method="svd"
        ),
        "multivariate_normal, eigh": lambda r, k: r.multivariate_normal(
            k, mean, covariance, few, name, method="eigh"
        ),
        "orthogonal": lambda r, k: r.orthogonal(k, 3, (count // 9,), name),
    }
