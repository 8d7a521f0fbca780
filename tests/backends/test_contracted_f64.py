"""The functions of float64 random numbers: sums rounded once, and C to the last bit as NumPy."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.special

from stax import jit
from stax.loops import contracted_f64, contracted_powers_f64
from stax.primitives.contracted import contracted_exp, contracted_power, contracted_tan
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
    "exp": (contracted_exp, np.exp, 2),
    "tan": (contracted_tan, np.tan, 2),
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
    if way == "complex" and contracted_f64._way() is not contracted_f64._Complex:
        pytest.skip("NumPy's complex products round twice here")
    monkeypatch.setattr(contracted_f64, "_way", lambda: BUFFERS[way])
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


@pytest.mark.parametrize(
    "function",
    [
        contracted_f64.log,
        contracted_f64.log1p,
        contracted_f64.erfinv,
        contracted_powers_f64.exp,
        lambda x: contracted_powers_f64.power(np.abs(x), 1.7),
    ],
    ids=["log", "log1p", "erfinv", "exp", "power"],
)
def test_the_same_bits_without_complex_products(function: Any, monkeypatch: Any) -> None:
    x = NUMBERS[::7]
    want = function(x)
    monkeypatch.setattr(contracted_f64, "_way", lambda: contracted_f64._Parts)
    np.testing.assert_array_equal(function(x), want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_the_functions_of_their_names(name: str) -> None:
    function, exact, ulps = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = exact(NUMBERS)
    if name == "exp":  # no denormals
        want[want < np.finfo(np.float64).tiny] = 0
    np.testing.assert_allclose(function(NUMBERS), want, rtol=ulps * 2.0**-52, atol=5e-324)
    lines = NUMBERS[: len(NUMBERS) // 6 * 6].reshape(-1, 6)
    np.testing.assert_array_equal(function(lines[::2, ::-3]), function(lines)[::2, ::-3])
    one = function(np.float64(0.3))
    assert isinstance(one, np.float64)
    assert one == function(np.full(3, 0.3))[1]
    assert function(np.zeros((0, 3))).shape == (0, 3)


def powers() -> tuple[Any, Any]:
    """Bases and exponents: special ones, any, those of draws, and powers of numbers near 1."""
    some = [*SPECIAL, 0.5, -0.5, 3.0, -3.0, 2.5, 1e300, -1e300]
    x, y = (v.ravel() for v in np.meshgrid(some, some))
    unit = RNG.random(20_000)
    return (
        np.concatenate([x, PATTERNS, unit, unit, np.abs(NEAR_ONE), -np.rint(9 * unit)]),
        np.concatenate(
            [y, RNG.standard_normal(50_000), 1 / RNG.random(20_000), 10 * unit - 5,
             EVEN[:10_000] * 2.0 ** RNG.integers(0, 60, 10_000), np.rint(20 * unit[::-1] - 10)]
        ),
    )  # fmt: skip


def test_powers() -> None:
    x, y = powers()
    eager, compiled = contracted_power(x, y), np.asarray(jit(contracted_power)(x, y))
    np.testing.assert_array_equal(eager, compiled)
    ordinary = ~np.isnan(eager)
    np.testing.assert_array_equal(np.signbit(eager)[ordinary], np.signbit(compiled)[ordinary])
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    want[np.abs(want) < np.finfo(np.float64).tiny] = 0
    np.testing.assert_allclose(eager, want, rtol=1.5 * 2.0**-52)
    np.testing.assert_array_equal(contracted_power(x.reshape(-1, 1)[:9], y[:7]).shape, (9, 7))
    assert contracted_power(np.float64(2), np.float64(0.5)) == np.sqrt(2)


def test_tables_of_powers() -> None:
    reciprocal, high, low = contracted_powers_f64.log_table()
    np.testing.assert_array_equal(reciprocal * 256 % 1, 0)
    np.testing.assert_array_equal(high * 2**43 % 1, 0)
    np.testing.assert_allclose(-np.log(reciprocal), high + low, rtol=2.0**-52, atol=2.0**-60)
    words, above = contracted_powers_f64.exp_table()
    floats = (words + (np.arange(128) << 45)).view(np.float64)
    with localcontext(Context(prec=50)):
        exact = [Decimal(2) ** (Decimal(k) / 128) for k in range(128)]
        np.testing.assert_array_equal(floats, [float(v) for v in exact])
        lost = [float(v / Decimal(t) - 1) for v, t in zip(exact, floats.tolist(), strict=True)]
    np.testing.assert_array_equal(above, lost)


def test_reciprocal_roots_step_from_the_estimate_of_the_processor() -> None:
    numbers = np.exp(RNG.uniform(-700, 700, 100_000))
    estimate = contracted_powers_f64.estimated_root(numbers)
    assert np.abs(estimate * np.sqrt(numbers) - 1).max() < 2.0**-14
    np.testing.assert_array_equal(
        estimate[::7] / 2, contracted_powers_f64.estimated_root(4 * numbers[::7])
    )
    fours = 4.0 ** np.arange(-500, 500)
    np.testing.assert_array_equal(contracted_powers_f64.estimated_root(fours) ** 2 * fours, 1.0)
    # Bits that `_mm512_rsqrt14_pd` gave.
    known = {
        1.1: "0x1.e82fp-1",
        1.9: "0x1.7373p-1",
        2.0: "0x1.6a05p-1",
        2.7: "0x1.3799p-1",
        3.9: "0x1.0344p-1",
        0.3: "0x1.d368p+0",
        1e-300: "0x1.38d4p+498",
        1e300: "0x1.a2ffp-499",
    }
    for x, want in known.items():
        assert contracted_powers_f64.estimated_root(np.array([x]))[0] == float.fromhex(want)
    got = contracted_powers_f64.reciprocal_root(np.concatenate([SPECIAL, numbers]))
    with np.errstate(all="ignore"):
        want = 1 / np.sqrt(np.concatenate([SPECIAL, numbers]))
    np.testing.assert_allclose(got, want, rtol=4e-16)
    assert np.mean(got != want) > 0.1
