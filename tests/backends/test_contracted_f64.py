"""The functions of float64 random numbers: sums rounded once, and C to the last bit as NumPy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.special

from stax import jit
from stax.loops import contracted_f64
from stax.primitives.special import contracted_erf, contracted_erfinv
from stax.primitives.transcendental import contracted_log, contracted_log1p

RNG = np.random.default_rng(3)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308]
PATTERNS = RNG.integers(0, 2**64, 50_000, dtype=np.uint64).view(np.float64)
EVEN = RNG.uniform(-1, 1, 50_000)
NEAR_ONE = 1 - EVEN[:10_000] * 2.0 ** -RNG.integers(0, 52, 10_000)
SMALL = EVEN[:10_000] * 2.0 ** -RNG.integers(0, 1070, 10_000)
NUMBERS = np.concatenate([SPECIAL, PATTERNS, EVEN, NEAR_ONE, -NEAR_ONE, SMALL])
FUNCTIONS = {
    "log": (contracted_log, np.log, 1.5),
    "log1p": (contracted_log1p, np.log1p, 200),  # the formula's own, at the ends of its range
    "erf": (contracted_erf, scipy.special.erf, 3),
    "erfinv": (contracted_erfinv, scipy.special.erfinv, 1e6),  # the formula's own, near 1
}
BUFFERS = {"parts": contracted_f64._Parts, "complex": contracted_f64._Complex}


def rounded_once(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator


def triples() -> tuple[Any, Any, Any]:
    """Numbers of like size, sums that cancel, and sums next to the middle of two numbers."""
    a, b, c = RNG.standard_normal((3, 3000))
    c[:1000] = -a[:1000] * b[:1000] * (1 + RNG.integers(-3, 4, 1000) * 2.0**-52)
    a[1000:2000] = 1 + RNG.integers(0, 2**20, 1000) * 2.0**-52
    b[1000:2000] = 1 + RNG.integers(0, 4, 1000) * 2.0 ** -RNG.integers(20, 53, 1000)
    c[1000:2000] = 2.0 ** RNG.integers(-110, 55, 1000)
    return a, b, c


def test_exact_parts_round_once() -> None:
    a, b, c = triples()
    want = np.array([rounded_once(*t) for t in zip(a, b, c, strict=True)])
    assert np.mean(a * b + c != want) > 0.2
    np.testing.assert_array_equal(contracted_f64.exact_fma(a, b, c), want)
    np.testing.assert_array_equal(contracted_f64.fma(a, b, c), want)
    np.testing.assert_array_equal(contracted_f64.fma(a[:, None], b[:5], 0.1).shape, (3000, 5))


@pytest.mark.parametrize("way", BUFFERS)
def test_what_is_not_finite_stays_so(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "complex" and contracted_f64._fused() is not contracted_f64._Complex:
        pytest.skip("NumPy's complex products round twice here")
    monkeypatch.setattr(contracted_f64, "_fused", lambda: BUFFERS[way])
    x = np.array([np.inf, -np.inf, np.nan, 1.0])
    np.testing.assert_array_equal(
        contracted_f64.fma(x, 2.0, 1.0), np.array([np.inf, -np.inf, np.nan, 3.0])
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_in_c(name: str) -> None:
    function = FUNCTIONS[name][0]
    eager, compiled = np.asarray(function(NUMBERS)), np.asarray(jit(function)(NUMBERS))
    np.testing.assert_array_equal(eager, compiled)
    ordinary = ~np.isnan(eager)
    np.testing.assert_array_equal(np.signbit(eager)[ordinary], np.signbit(compiled)[ordinary])


@pytest.mark.parametrize("name", ["log", "log1p", "erfinv"])
def test_the_same_bits_without_complex_products(name: str, monkeypatch: Any) -> None:
    function = getattr(contracted_f64, name)
    x = NUMBERS[::7]
    want = function(x)
    monkeypatch.setattr(contracted_f64, "_fused", lambda: contracted_f64._Parts)
    np.testing.assert_array_equal(function(x), want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_the_functions_of_their_names(name: str) -> None:
    function, exact, ulps = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = exact(NUMBERS)
    np.testing.assert_allclose(function(NUMBERS), want, rtol=ulps * 2.0**-52, atol=5e-324)
    lines = NUMBERS[: len(NUMBERS) // 6 * 6].reshape(-1, 6)
    np.testing.assert_array_equal(function(lines[::2, ::-3]), function(lines)[::2, ::-3])
    one = function(np.float64(0.3))
    assert isinstance(one, np.float64)
    assert one == function(np.full(3, 0.3))[1]
    assert function(np.zeros((0, 3))).shape == (0, 3)
