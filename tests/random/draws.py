"""Draws whose numbers are compared with those of JAX: name, and the call on a `random` module.

`record.py` writes what JAX gives to `numbers.npz`; `test_numbers.py` compares.  The calls are in
the subset of names and arguments that both have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random.functions import functions

Draw = Callable[[Any, Callable[[int], Any]], Any]
P = np.array([0.1, 0.2, 0.3, 0.4])
LOGITS = np.arange(12.0).reshape(3, 4) / 4
TABLE = np.arange(24).reshape(4, 6)
F4, N = "float32", (10_000,)
EACH = np.linspace(0.2, 5, 10_000, dtype=F4)
WIDTHS = np.geomspace(0.05, 90, 10_000, dtype=F4)
COVARIANCE = np.float32([[2, 0.5], [0.5, 1]])


def digest(draw: Callable[[Any], Any], keys: int = 20) -> Draw:
    """The hash of 10,000 draws for each of some keys."""

    def hashed(r: Any, k: Callable[[int], Any]) -> Any:
        function = draw(r)
        bits = b"".join(np.asarray(function(k(seed))).tobytes() for seed in range(keys))
        return np.frombuffer(hashlib.sha256(bits).digest(), np.uint8)

    return hashed


# Of float32 (or a half type), 10,000 numbers for a key; equal bit for bit, by their hashes.
SINGLE: dict[str, Callable[[Any], Any]] = {
    "normal": lambda r: lambda k: r.normal(k, N, F4),
    "normal complex": lambda r: lambda k: r.normal(k, (5000,), "complex64"),
    "truncated_normal": lambda r: lambda k: r.truncated_normal(k, *np.float32([-1, 2]), N, F4),
    "truncated_normal each": lambda r: lambda k: r.truncated_normal(k, -WIDTHS, WIDTHS, N, F4),
    "truncated_normal far": lambda r: (
        lambda k: r.truncated_normal(k, *np.float32([-5.35, 5.31]), N, F4)
    ),
    "exponential": lambda r: lambda k: r.exponential(k, N, F4),
    "gumbel": lambda r: lambda k: r.gumbel(k, N, F4),
    "gumbel high": lambda r: lambda k: r.gumbel(k, N, F4, "high"),
    "laplace": lambda r: lambda k: r.laplace(k, N, F4),
    "logistic": lambda r: lambda k: r.logistic(k, N, F4),
    "rayleigh": lambda r: lambda k: r.rayleigh(k, np.float32(1.5), N, F4),
    "triangular": lambda r: lambda k: r.triangular(k, *np.float32([0, 0.3, 1]), N, F4),
    "lognormal": lambda r: lambda k: r.lognormal(k, np.float32(0.7), N, F4),
    "lognormal each": lambda r: lambda k: r.lognormal(k, EACH, N, F4),
    "pareto": lambda r: lambda k: r.pareto(k, np.float32(2.7), N, F4),
    "pareto each": lambda r: lambda k: r.pareto(k, EACH, N, F4),
    "cauchy": lambda r: lambda k: r.cauchy(k, N, F4),
    "weibull_min": lambda r: lambda k: r.weibull_min(k, *np.float32([1.5, 2.7]), N, F4),
    "weibull_min each": lambda r: lambda k: r.weibull_min(k, EACH, EACH, N, F4),
    "wald": lambda r: lambda k: r.wald(k, np.float32(1.7), N, F4),
    "wald each": lambda r: lambda k: r.wald(k, EACH, N, F4),
    "maxwell": lambda r: lambda k: r.maxwell(k, N, F4),
    "double_sided_maxwell": lambda r: (
        lambda k: r.double_sided_maxwell(k, *np.float32([0.3, 1.7]), N, F4)
    ),
    "geometric": lambda r: lambda k: r.geometric(k, np.float32(0.2), N),
    "geometric rare": lambda r: lambda k: r.geometric(k, np.float32(1e-6), N),
    "gamma": lambda r: lambda k: r.gamma(k, np.float32(3), N, F4),
    "gamma below one": lambda r: lambda k: r.gamma(k, np.float32(0.3), N, F4),
    "gamma each": lambda r: lambda k: r.gamma(k, EACH, N, F4),
    "loggamma each": lambda r: lambda k: r.loggamma(k, EACH, N, F4),
    "beta": lambda r: lambda k: r.beta(k, *np.float32([0.5, 2]), N, F4),
    "chisquare": lambda r: lambda k: r.chisquare(k, np.float32(3), N, F4),
    "t": lambda r: lambda k: r.t(k, np.float32(3), N, F4),
    "f": lambda r: lambda k: r.f(k, *np.float32([3, 5]), N, F4),
    "f each": lambda r: lambda k: r.f(k, EACH, EACH, N, F4),
    "generalized_normal": lambda r: lambda k: r.generalized_normal(k, 1.7, N, F4),
    "multivariate_normal": lambda r: (
        lambda k: r.multivariate_normal(k, np.float32([1, 2]), COVARIANCE, (5000,), F4)
    ),
}

# The same of float64.
DOUBLE: dict[str, Callable[[Any], Any]] = {
    "normal f64": lambda r: lambda k: r.normal(k, (10_000,)),
    "normal complex128": lambda r: lambda k: r.normal(k, (5000,), "complex128"),
    "truncated_normal f64": lambda r: lambda k: r.truncated_normal(k, -1.0, 2.0, (10_000,)),
    "truncated_normal f64 tail": lambda r: (
        lambda k: r.truncated_normal(k, np.arange(4.0), np.inf, (2500, 4))
    ),
    "exponential f64": lambda r: lambda k: r.exponential(k, (10_000,)),
    "gumbel f64": lambda r: lambda k: r.gumbel(k, (10_000,)),
    "gumbel f64 high": lambda r: lambda k: r.gumbel(k, (10_000,), mode="high"),
    "laplace f64": lambda r: lambda k: r.laplace(k, (10_000,)),
    "logistic f64": lambda r: lambda k: r.logistic(k, (10_000,)),
    "rayleigh f64": lambda r: lambda k: r.rayleigh(k, 1.5, (10_000,), "float64"),
    "triangular f64": lambda r: lambda k: r.triangular(k, 0.0, 0.3, 1.0, (10_000,)),
    "cauchy f64": lambda r: lambda k: r.cauchy(k, (10_000,)),
    "pareto f64": lambda r: lambda k: r.pareto(k, 2.5, (10_000,)),
    "lognormal f64": lambda r: lambda k: r.lognormal(k, 0.5, (10_000,)),
    "weibull_min f64": lambda r: lambda k: r.weibull_min(k, 1.5, 2.0, (10_000,)),
    "maxwell f64": lambda r: lambda k: r.maxwell(k, (3000,)),
    "wald f64": lambda r: lambda k: r.wald(k, 1.5, (10_000,), "float64"),
    "gamma f64": lambda r: lambda k: r.gamma(k, 2.7, (10_000,)),
    "gamma f64 each": lambda r: lambda k: r.gamma(k, np.linspace(0.2, 6, 30), (300, 30)),
    "loggamma f64": lambda r: lambda k: r.loggamma(k, np.linspace(0.2, 6, 30), (300, 30)),
    "beta f64": lambda r: lambda k: r.beta(k, 0.7, 2.7, (10_000,)),
    "f f64": lambda r: lambda k: r.f(k, 3.5, 7.2, (3000,), "float64"),
    "dirichlet f64": lambda r: lambda k: r.dirichlet(k, np.array([0.5, 1.3, 4.0]), (300,)),
    "uniform f64": lambda r: lambda k: r.uniform(k, (10_000,), "float64", -1.5, 2.7),
}

# Of half types, by name and dtype; equal bit for bit, by their hashes.
_OTHER = ("multinomial", "multivariate_normal", "orthogonal")  # see docs/random.md
HALVES: dict[str, Callable[[Any], Any]] = {
    f"{name} {dtype}": lambda r, f=draw: lambda k: f(r, k)  # type: ignore[misc]
    for dtype in ("float16", "bfloat16")
    for name, draw in functions(dtype).items()
    if not name.startswith(_OTHER) and f"{name} {dtype}" != "binomial, large float16"
    if dtype == "float16" or not name.startswith(("ball", "dirichlet"))
}

# Equal bit for bit.
EXACT: dict[str, Draw] = {
    "key zero": lambda r, k: k(0),
    "key negative": lambda r, k: k(-1),
    "key wide": lambda r, k: k(2**40 + 7),
    "key int32": lambda r, k: r.PRNGKey(np.int32(-5)),
    "key uint32": lambda r, k: r.PRNGKey(np.uint32(4_000_000_000)),
    "split": lambda r, k: r.split(k(3)),
    "split five": lambda r, k: r.split(k(3), 5),
    "split shape": lambda r, k: r.split(k(3), (2, 3)),
    "fold_in": lambda r, k: r.fold_in(k(3), 17),
    "fold_in negative": lambda r, k: r.fold_in(k(3), np.int64(-1)),
    "bits": lambda r, k: r.bits(k(1), (3, 4)),
    "bits u32": lambda r, k: r.bits(k(1), (7,), "uint32"),
    "bits u16": lambda r, k: r.bits(k(1), (7,), "uint16"),
    "bits u8": lambda r, k: r.bits(k(1), (7,), "uint8"),
    "bits one": lambda r, k: r.bits(k(1)),
    "uniform one": lambda r, k: r.uniform(k(2)),
    "uniform": lambda r, k: r.uniform(k(2), (50,)),
    "uniform f32": lambda r, k: r.uniform(k(2), (50,), "float32"),
    "uniform f16": lambda r, k: r.uniform(k(2), (50,), "float16"),
    "uniform bounds": lambda r, k: r.uniform(k(2), (500,), "float64", -1.5, 2.7),
    "uniform bounds f32": lambda r, k: r.uniform(k(2), (500,), "float32", -1.5, 2.7),
    "uniform wide": lambda r, k: r.uniform(k(2), (50,), "float64", 0, 10),
    "randint": lambda r, k: r.randint(k(4), (50,), 0, 10),
    "randint i32": lambda r, k: r.randint(k(4), (50,), -5, 1000, "int32"),
    "randint u8": lambda r, k: r.randint(k(4), (20,), 0, 256, "uint8"),
    "randint i8": lambda r, k: r.randint(k(4), (20,), -128, 128, "int8"),
    "randint wide": lambda r, k: r.randint(k(4), (20,), 0, 2**40),
    "randint empty": lambda r, k: r.randint(k(4), (20,), 5, 5),
    "randint whole": lambda r, k: r.randint(k(4), (20,), 0, 2**31, "int32"),
    "randint arrays": lambda r, k: r.randint(k(4), (3, 2), np.array([0, 1]), np.array([10, 100])),
    "bernoulli": lambda r, k: r.bernoulli(k(5), 0.3, (50,)),
    "bernoulli arrays": lambda r, k: r.bernoulli(k(5), np.array([0.1, 0.9]), (20, 2)),
    "bernoulli f32": lambda r, k: r.bernoulli(k(5), np.float32(0.3), (20,)),
    "bernoulli high": lambda r, k: r.bernoulli(k(5), 0.3, (50,), "high"),
    "rademacher": lambda r, k: r.rademacher(k(5), (20,)),
    "permutation": lambda r, k: r.permutation(k(8), 100),
    "permutation rows": lambda r, k: r.permutation(k(8), TABLE),
    "permutation columns": lambda r, k: r.permutation(k(8), TABLE, axis=1),
    "permutation apart": lambda r, k: r.permutation(k(8), TABLE, axis=1, independent=True),
    "choice": lambda r, k: r.choice(k(9), 20, (7,)),
    "choice once": lambda r, k: r.choice(k(9), 20, (7,), replace=False),
    "choice of": lambda r, k: r.choice(k(9), np.linspace(0, 1, 9), (4, 3)),
    "choice weighted": lambda r, k: r.choice(k(9), 4, (12,), p=P),
    "choice weighted once": lambda r, k: r.choice(k(9), 4, (3,), replace=False, p=P),
    "choice columns": lambda r, k: r.choice(k(9), LOGITS, (5,), axis=1),
    "categorical": lambda r, k: r.categorical(k(11), np.log(P), shape=(30,)),
    "categorical rows": lambda r, k: r.categorical(k(11), LOGITS),
    "categorical axis": lambda r, k: r.categorical(k(11), LOGITS, axis=0, shape=(5, 4)),
    "categorical once": lambda r, k: r.categorical(k(11), LOGITS[0], shape=(3,), replace=False),
    "poisson": lambda r, k: r.poisson(k(16), 3.0, (50,)),
    "poisson arrays": lambda r, k: r.poisson(
        k(16), np.array([0.0, 0.5, 9.0, 20.0, 300.0]), (20, 5)
    ),
    "poisson large": lambda r, k: r.poisson(k(16), np.array([50.0, 1e3, 1e4, 1e6, 1e8]), (400, 5)),
    "poisson i16": lambda r, k: r.poisson(k(16), np.array([3.0, 2e4, 1e6]), (40, 3), "int16"),
    "binomial": lambda r, k: r.binomial(k(17), 10, 0.3, (50,)),
    "binomial f32": lambda r, k: r.binomial(
        k(17),
        np.float32([50, 1e4, 1e6, 1e9]),
        np.float32([0.4, 0.01, 0.4, 0.6]),
        (400, 4),
        "float32",
    ),
    "binomial arrays": lambda r, k: r.binomial(
        k(17), np.array([5.0, 100.0, 1000.0]), np.array([0.9, 0.5, 0.02]), (20, 3)
    ),
    "multinomial": lambda r, k: r.multinomial(k(17), 20.0, P),
    # Sums of P in another order take one ratio across a bound of the sampler.
    "multinomial sums": lambda r, k: r.multinomial(k(17), 100.0, P, shape=(50, 4)),
    "multinomial many": lambda r, k: r.multinomial(k(17), 1e4, np.tile(P, 5) / 5),
    "choice weighted many": lambda r, k: r.choice(
        k(9), 300, (400,), p=np.float32(np.arange(300) / 44850)
    ),
    "geometric": lambda r, k: r.geometric(k(12), 0.2, (20,)),
    "normal f32": lambda r, k: r.normal(k(6), (50,), "float32"),
    "multivariate_normal f32": lambda r, k: r.multivariate_normal(
        k(13), np.zeros(2, "f4"), np.eye(2, dtype="f4"), (50,)
    ),
    "gamma f64": lambda r, k: r.gamma(k(14), np.array([1.0, 3.0, 50.0]), (500, 3)),
    "gamma f32": lambda r, k: r.gamma(k(14), 2.0, (50,), "float32"),
    "gamma f32 many": lambda r, k: r.gamma(k(14), np.float32([1, 2, 4]), (500, 3), "float32"),
    "loggamma f32": lambda r, k: r.loggamma(k(14), np.float32(0.3), (500,), "float32"),
    "loggamma": lambda r, k: r.loggamma(k(14), 0.05, (50,)),
    "t": lambda r, k: r.t(k(15), 3.0, (20,)),
    "beta": lambda r, k: r.beta(k(15), 0.5, 2.0, (500,)),
    "chisquare": lambda r, k: r.chisquare(k(15), 3.0, (500,)),
    "f": lambda r, k: r.f(k(15), 3.0, 5.0, (500,)),
    "generalized_normal": lambda r, k: r.generalized_normal(k(12), 1.5, (500,)),
    "double_sided_maxwell": lambda r, k: r.double_sided_maxwell(k(12), 1.0, 2.0, (2000,)),
    "gamma small": lambda r, k: r.gamma(k(14), np.array([0.1, 0.3]), (500, 2)),
    "multivariate_normal": lambda r, k: r.multivariate_normal(
        k(13), np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]), (5,)
    ),
    "multivariate_normal many": lambda r, k: r.multivariate_normal(
        k(13), np.array([1.0, 2.0, 3.0]), np.eye(3) + 1, (500,)
    ),
    "multivariate_normal one": lambda r, k: r.multivariate_normal(
        k(13), np.arange(5.0), np.eye(5) + 1
    ),
    "multivariate_normal each": lambda r, k: r.multivariate_normal(
        k(13), np.zeros((4, 2)), np.eye(2) + np.arange(4.0)[:, None, None], (3, 4)
    ),
    "categorical f32": lambda r, k: r.categorical(k(11), np.float32(LOGITS), shape=(99, 3)),
}

# Equal but for the rounding of the functions they are made of.
CLOSE: dict[str, Draw] = {
    "ball": lambda r, k: r.ball(k(12), 3, 2, (5,)),
    "orthogonal": lambda r, k: r.orthogonal(k(13), 3),
    "orthogonal wide": lambda r, k: r.orthogonal(k(13), 2, (2,), m=3),
    "gamma": lambda r, k: r.gamma(k(14), np.array([0.1, 0.5, 1.0, 3.0, 50.0]), (40, 5)),
    "dirichlet": lambda r, k: r.dirichlet(k(15), np.array([0.5, 1.0, 2.0]), (6,)),
}
