"""Draws under jit, vmap and grad; keys; bad arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax import random
from stax.errors import DtypeError, ShapeError
from stax.primitives.special_gamma import gamma_slope

KEY = random.key(7)
P = np.array([0.2, 0.3, 0.5])

DRAWS: dict[str, Callable[[Any], Any]] = {
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 3),
    "bits": lambda k: random.bits(k, (5,)),
    "uniform": lambda k: random.uniform(k, (2, 3), minval=-1.3, maxval=2.2),
    "uniform f32": lambda k: random.uniform(k, (7,), "float32", minval=-1.3, maxval=2.2),
    "randint": lambda k: random.randint(k, (6,), 0, 9),
    "normal": lambda k: random.normal(k, (4, 2)),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (9,)),
    "permutation": lambda k: random.permutation(k, 11),
    "choice": lambda k: random.choice(k, 5, (3,), p=np.ones(5) / 5),
    "categorical": lambda k: random.categorical(k, np.zeros(5), shape=(6,)),
    "gamma": lambda k: random.gamma(k, np.array([0.5, 2.0, 30.0])),
    "beta": lambda k: random.beta(k, 1.0, 2.0, (3,)),
    "poisson": lambda k: random.poisson(k, np.array([0.5, 3.0, 40.0])),
    "binomial": lambda k: random.binomial(k, 10.0, 0.3, (4,)),
    # One key waits for all of its own draws, not for those of other keys.
    "poisson many": lambda k: random.poisson(k, 2000.0, (40,)),
    "binomial many": lambda k: random.binomial(k, 1000.0, 0.3, (40,)),
    "multinomial": lambda k: random.multinomial(k, 10.0, P),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0, (4,)),
    "dirichlet": lambda k: random.dirichlet(k, P),
}


def agree(got: Any, want: Any) -> None:
    got, want = (np.asarray(random.key_data(v)) for v in (got, want))
    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        tolerance = 8 * np.finfo(want.dtype).eps
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", DRAWS)
def test_jit_and_vmap_draw_the_same(name: str) -> None:
    draw = DRAWS[name]
    agree(stax.jit(draw)(KEY), draw(KEY))
    keys = random.split(KEY, 3)
    each = np.stack([random.key_data(draw(k)) for k in keys])
    agree(stax.vmap(draw)(keys), each)
    agree(stax.jit(stax.vmap(draw))(keys), each)


def test_a_jitted_draw_is_one_loop() -> None:
    lowered = stax.jit(lambda k, x: x + 0.1 * random.normal(k, (100,))).lower(KEY, np.ones(100))
    assert not lowered.fallbacks
    assert len(lowered.kernels) == 1


def test_keys_are_data_and_draws_are_not_frozen() -> None:
    f = stax.jit(lambda seed: random.uniform(random.key(seed), (3,)))
    agree(f(1), random.uniform(random.key(1), (3,)))
    assert not np.array_equal(f(1), f(2))


def test_bits_of_a_long_array_do_not_depend_on_its_length() -> None:
    long = random.bits(KEY, (100_000,))
    agree(random.bits(KEY, (10,)), long[:10])


def test_derivative_in_bounds() -> None:
    u = random.uniform(KEY, (5,))

    def total(low: Any, high: Any) -> Any:
        return random.uniform(KEY, (5,), minval=low, maxval=high).sum()

    low, high = stax.grad(total, argnums=(0, 1))(0.7, 2.9)
    np.testing.assert_allclose([low, high], [5 - u.sum(), u.sum()], rtol=1e-14)


def test_no_derivative_in_keys() -> None:
    def loss(x: Any, key: Any) -> Any:
        return (x * random.normal(key, (3,))).sum()

    np.testing.assert_allclose(
        stax.grad(loss)(1.0, KEY), random.normal(KEY, (3,)).sum(), rtol=1e-14
    )


@pytest.mark.parametrize("a", [0.05, 1.0, 3.7, 200.0])
def test_gamma_moves_at_fixed_probability(a: float) -> None:
    """D x / d a keeps P(a, x): the difference of quantiles says so."""
    special = stax.scipy.special
    x = float(random.gamma(KEY, a))
    slope = stax.grad(lambda v: random.gamma(KEY, v))(a)
    step = 1e-5 * a
    # P(a + step, x + slope * step) = P(a - step, x - slope * step) up to third order.
    above = special.gammainc(a + step, x + slope * step)
    below = special.gammainc(a - step, x - slope * step)
    scale = abs(special.gammainc(a + step, x) - special.gammainc(a - step, x))
    assert abs(above - below) < 1e-6 * scale + 1e-15
    log_slope = stax.grad(lambda v: random.loggamma(KEY, v))(a)
    log_x = float(random.loggamma(KEY, a))
    np.testing.assert_allclose(log_slope, gamma_slope(np.float64(a), np.float64(log_x)))


def test_moments() -> None:
    n = 200_000
    cases = {
        "normal": (random.normal(KEY, (n,)), 0, 1),
        "gamma": (random.gamma(KEY, 2.5, (n,)), 2.5, 2.5),
        "beta": (random.beta(KEY, 2.0, 3.0, (n,)), 0.4, 0.04),
        "poisson": (random.poisson(KEY, 12.0, (n,)), 12, 12),
        "binomial": (random.binomial(KEY, 100, 0.3, (n,)), 30, 21),
        "laplace": (random.laplace(KEY, (n,)), 0, 2),
        "gumbel": (random.gumbel(KEY, (n,)), np.euler_gamma, math.pi**2 / 6),
        "geometric": (random.geometric(KEY, 0.25, (n,)), 4, 12),
    }
    for name, (draws, mean, variance) in cases.items():
        assert abs(draws.mean() - mean) < 6 * math.sqrt(variance / n), name
        assert abs(draws.var() / variance - 1) < 0.05, name


def test_bad_arguments() -> None:
    with pytest.raises(DtypeError, match=r"stax\.random\.key"):
        random.normal(np.array([1.0, 2.0]))
    with pytest.raises(ShapeError, match=r"stax\.vmap"):
        random.normal(random.split(KEY, 3))
    with pytest.raises(DtypeError, match="seed"):
        random.key(1.5)
    with pytest.raises(DtypeError, match="floating"):
        random.uniform(KEY, (3,), "int32")
    with pytest.raises(ShapeError, match="broadcast"):
        random.bernoulli(KEY, np.ones(3), (2,))
    with pytest.raises(ShapeError, match="without replacement"):
        random.choice(KEY, 3, (4,), replace=False)


SHAPED: dict[str, Callable[..., Any]] = {
    "ball": lambda s: random.ball(KEY, 2, shape=s),
    "beta": lambda s: random.beta(KEY, 1.0, 2.0, s),
    "bits": lambda s: random.bits(KEY, s),
    "categorical": lambda s: random.categorical(KEY, np.ones(3), shape=s),
    "choice": lambda s: random.choice(KEY, 3, s),
    "double_sided_maxwell": lambda s: random.double_sided_maxwell(KEY, 0.0, 1.0, s),
    "gamma": lambda s: random.gamma(KEY, 1.0, s),
    "gumbel": lambda s: random.gumbel(KEY, s),
    "normal": lambda s: random.normal(KEY, s),
    "orthogonal": lambda s: random.orthogonal(KEY, 2, s),
    "poisson": lambda s: random.poisson(KEY, 1.0, s),
    "rademacher": lambda s: random.rademacher(KEY, s),
    "randint": lambda s: random.randint(KEY, s, 0, 3),
    "split": lambda s: random.split(KEY, s),
    "uniform": lambda s: random.uniform(KEY, s),
    "truncated_normal": lambda s: stax.nn.initializers.truncated_normal()(KEY, s),
    "delta_orthogonal": lambda s: stax.nn.initializers.delta_orthogonal()(KEY, s),
}


@pytest.mark.parametrize("name", SHAPED)
def test_shapes_that_are_none_are_refused_by_name(name: str) -> None:
    here = r"(.|\n)*at .*test_transforms"
    for shape in ("float32", 2.5, (2, 1.5)):
        with pytest.raises(DtypeError, match=rf"^{name}: a shape is an integer or{here}"):
            SHAPED[name](shape)
    for shape in (-1, (2, -3)):
        with pytest.raises(ShapeError, match=rf"^{name}: shape .* has a negative length{here}"):
            SHAPED[name](shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("way", [lambda f: f, stax.jit], ids=["eager", "compiled"])
def test_half_matrices_are_not_factored(dtype: str, way: Callable[..., Any]) -> None:
    draws: dict[str, Callable[[Any], Any]] = {
        "multivariate_normal": lambda k: random.multivariate_normal(
            k, np.zeros(2), np.eye(2), (), dtype
        ),
        "orthogonal": lambda k: random.orthogonal(k, 3, (), dtype),
    }
    for name, draw in draws.items():
        message = rf"{name}: matrices of {dtype} are not factored\n  at .*test_transforms"
        with pytest.raises(DtypeError, match=message):
            way(draw)(KEY)
