"""Values and derivatives at infinities: the limits, where there are any."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.signal

import stax
import stax.scipy.signal
from stax import lax, nn
from stax.scipy import special

INF = math.inf


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# Value, first and second derivative at -inf, then at inf.
LIMITS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...], tuple[float, ...]]] = {
    "gelu": (nn.gelu, (0, 0, 0), (INF, 1, 0)),
    "exact gelu": (lambda x: nn.gelu(x, approximate=False), (0, 0, 0), (INF, 1, 0)),
    "silu": (nn.silu, (0, 0, 0), (INF, 1, 0)),
    "mish": (nn.mish, (0, 0, 0), (INF, 1, 0)),
    "hard_silu": (nn.hard_silu, (0, 0, 0), (INF, 1, 0)),
    "squareplus": (nn.squareplus, (0, 0, 0), (INF, 1, 0)),
    "softplus": (nn.softplus, (0, 0, 0), (INF, 1, 0)),
    "sparse_plus": (nn.sparse_plus, (0, 0, 0), (INF, 1, 0)),
    "relu": (nn.relu, (0, 0, 0), (INF, 1, 0)),
    "log_sigmoid": (nn.log_sigmoid, (-INF, 1, 0), (0, 0, 0)),
    "sigmoid": (nn.sigmoid, (0, 0, 0), (1, 0, 0)),
    "hard_sigmoid": (nn.hard_sigmoid, (0, 0, 0), (1, 0, 0)),
    "soft_sign": (nn.soft_sign, (-1, 0, 0), (1, 0, 0)),
    "tanh": (nn.tanh, (-1, 0, 0), (1, 0, 0)),
    "elu": (nn.elu, (-1, 0, 0), (INF, 1, 0)),
    "celu": (nn.celu, (-1, 0, 0), (INF, 1, 0)),
    "leaky_relu": (nn.leaky_relu, (-INF, 0.01, 0), (INF, 1, 0)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_have_their_limits(dtype: Any) -> None:
    def every(x: Any) -> Any:
        slope = lambda f: stax.grad(f)
        forward = lambda f: lambda v: stax.jvp(f, (v,), (np.ones((), dtype),))[1]
        return {
            name: [(f(v), slope(f)(v), slope(slope(f))(v), forward(f)(v)) for v in x]
            for name, (f, _, _) in LIMITS.items()
        }

    points = [np.array(v, dtype) for v in (-INF, INF, math.nan)]
    for found in (every(points), stax.jit(every)(points)):
        for name, (_, low, high) in LIMITS.items():
            for got, want in zip(found[name], (low, high), strict=False):
                np.testing.assert_allclose(got, [*want, want[1]], rtol=1e-6, err_msg=name)
            assert np.isnan(found[name][2][0]), name


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_far_out_are_near_the_limits(name: str) -> None:
    f, low, high = LIMITS[name]
    far = np.array([-1e30, -800.0, 800.0, 1e30])
    slopes = stax.jit(stax.vmap(stax.grad(f)))(far)
    np.testing.assert_allclose(slopes, [low[1], low[1], high[1], high[1]], atol=2e-6)


SUMS: list[tuple[list[float], list[float]]] = [
    ([INF, 1.0], [1, 0]),
    ([INF, INF, 1.0], [0.5, 0.5, 0]),
    ([INF, -INF], [1, 0]),
    ([-INF, 1.0], [0, 1]),
    ([-INF, -INF], [0, 0]),  # as a sum of exponentials, which is flat there
    ([INF, math.nan], [math.nan, math.nan]),
]


@pytest.mark.parametrize(("x", "slopes"), SUMS)
def test_infinities_share_a_logsumexp(x: list[float], slopes: list[float]) -> None:
    f = lambda v: special.logsumexp(v)
    for run in (stax.grad(f), stax.jit(stax.grad(f))):
        np.testing.assert_array_equal(run(np.array(x)), slopes)
    value = stax.jit(f)(np.array(x))
    np.testing.assert_array_equal(value, np.logaddexp.reduce(x))
    if not math.isnan(slopes[0]):
        doubled = stax.grad(lambda v: special.logsumexp(v, b=np.full(len(x), 2.0)))
        np.testing.assert_array_equal(doubled(np.array(x)), slopes)


def test_infinities_meet_in_a_running_sum_as_in_a_chain() -> None:
    def chain(x: Any) -> Any:
        out = [x[0]]
        for v in x[1:]:
            out.append(np.logaddexp(out[-1], v))
        return np.stack(out)

    for x in ([1.0, INF, INF, 2.0, INF], [INF, INF, 1.0], [0.0, INF, -INF], [INF, 1.0]):
        found = stax.jacrev(lax.cumlogsumexp)(np.array(x))
        np.testing.assert_allclose(found, stax.jacrev(chain)(np.array(x)), err_msg=str(x))
        np.testing.assert_array_equal(stax.jit(lax.cumlogsumexp)(np.array(x)), chain(np.array(x)))


CONVOLVED = [(7, 3), (40, 17), (40, 40), (300, 50), (17, 60)]


@pytest.mark.parametrize(("n", "m"), CONVOLVED)
def test_nothing_outside_is_multiplied_in_a_convolution(n: int, m: int) -> None:
    rng = np.random.default_rng(n)

    @stax.jit
    def every(a: Any, b: Any) -> Any:
        modes = ("full", "same", "valid")
        return [f(a, b, mode) for f in (np.convolve, np.correlate) for mode in modes]

    for special_value in (INF, -INF, math.nan):
        for place in (0, -1, 1):
            for which in (0, 1):
                pair = [rng.normal(size=n), rng.normal(size=m)]
                pair[which][place] = special_value
                for got, want in zip(every(*pair), every.__wrapped__(*pair), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_derivatives_of_a_convolution() -> None:
    for n, m in ((9, 4), (30, 20)):
        a, b = np.linspace(-1, 1, n), np.linspace(0.3, 2, m)
        stax.testing.check_grads(lambda a, b: np.convolve(a, b) ** 2, (a, b), order=2)
        rows = stax.vmap(np.convolve, (0, None))(np.stack([a, -a]), b)
        np.testing.assert_allclose(rows[1], -np.convolve(a, b))
    z = np.exp(1j * np.arange(20.0))
    np.testing.assert_allclose(stax.jit(np.correlate)(z, z[:18]), np.correlate(z, z[:18]))


def test_signals_too_have_nothing_outside_multiplied() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((9, 4), (40, 30)):
        a, b = rng.normal(size=n), rng.normal(size=m)
        b[1] = INF
        for mode in ("full", "same", "valid"):
            for name in ("convolve", "correlate"):
                want = getattr(scipy.signal, name)(a, b, mode, method="direct")
                mine = getattr(stax.scipy.signal, name)
                found = stax.jit(lambda a, b, f=mine, mode=mode: f(a, b, mode))(a, b)
                np.testing.assert_allclose(found, want, rtol=1e-9)
