"""The functions of random numbers in C: to the last bit those of `stax.loops.contracted`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from stax import jit
from stax.primitives.contracted import (
    contracted_exp,
    contracted_fma,
    contracted_power,
    contracted_tan,
)
from stax.primitives.special import contracted_erf, contracted_erfinv
from stax.primitives.transcendental import contracted_log, contracted_log1p

RNG = np.random.default_rng(3)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38]
PATTERNS = RNG.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
EVEN = RNG.uniform(-1, 1, 100_000).astype(np.float32)
NEXT_TO_ONE = np.float32(1) - np.arange(1000, dtype=np.float32) * np.float32(2**-24)
SINGLES = np.concatenate(
    [np.float32(SPECIAL), PATTERNS, EVEN, 4 * EVEN[:20_001], NEXT_TO_ONE, -NEXT_TO_ONE]
)
FUNCTIONS = {
    "log": (contracted_log, np.log),
    "log1p": (contracted_log1p, np.log1p),
    "erf": (contracted_erf, scipy.special.erf),
    "erfinv": (contracted_erfinv, scipy.special.erfinv),
    "exp": (contracted_exp, np.exp),
    "tan": (contracted_tan, lambda x: np.where(abs(x) < 120, np.tan(x), np.nan)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_same_bits(name: str, dtype: str) -> None:
    function, _ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        x = SINGLES.astype(dtype)
    eager, compiled = np.asarray(function(x)), np.asarray(jit(function)(x))
    assert eager.dtype == compiled.dtype == x.dtype
    np.testing.assert_array_equal(eager, compiled)
    ordinary = ~np.isnan(eager)
    np.testing.assert_array_equal(np.signbit(eager)[ordinary], np.signbit(compiled)[ordinary])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_the_functions_of_their_names(name: str) -> None:
    function, exact = FUNCTIONS[name]
    x = np.concatenate([SINGLES, EVEN[:100] / 2**20])
    with np.errstate(all="ignore"):
        x = np.where(np.abs(x) < np.finfo(np.float32).tiny, x * 0, x)  # `log` has no denormals
        want = exact(x.astype(np.float64))
        if name == "exp":  # nor has `exp`
            want = np.where(want < np.finfo(np.float32).tiny, 0, want).astype(np.float32)
    np.testing.assert_allclose(function(x), want, rtol=1e-5 if name == "erfinv" else 1e-6)
    np.testing.assert_array_equal(function(x.reshape(-1, 3)).ravel(), function(x))
    np.testing.assert_allclose(function(np.float64(0.3)), exact(0.3), rtol=1e-15)


CORNERS = np.float32([*SPECIAL, 0.5, -0.5, 3, -3, 1e30, -1e30])
BASES, EXPONENTS = (v.ravel() for v in np.meshgrid(CORNERS, CORNERS))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_powers_and_contracted_sums_have_the_same_bits(dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.concatenate([BASES, SINGLES]).astype(dtype)
        y = np.concatenate([EXPONENTS, SINGLES[::-1]]).astype(dtype)
    for function, operands in ((contracted_power, (x, y)), (contracted_fma, (x, y, x[::-1]))):
        eager, compiled = np.asarray(function(*operands)), np.asarray(jit(function)(*operands))
        assert eager.dtype == compiled.dtype == x.dtype
        np.testing.assert_array_equal(eager, compiled)
        ordinary = ~np.isnan(eager)
        np.testing.assert_array_equal(np.signbit(eager)[ordinary], np.signbit(compiled)[ordinary])


def test_powers_are_powers() -> None:
    x, y = np.exp(3 * EVEN), 9 * EVEN[::-1]
    np.testing.assert_allclose(contracted_power(x, y), np.power(x.astype(float), y), rtol=1e-7)
    least = np.finfo(np.float32).tiny
    ordinary = (BASES == 0) | ~(np.abs(BASES) < least)  # there are no smaller numbers
    x, y = BASES[ordinary], EXPONENTS[ordinary]
    with np.errstate(all="ignore"):
        want = np.power(x, y)
        want = np.where(np.abs(want) < least, 0, want)
    np.testing.assert_allclose(contracted_power(x, y), want, rtol=1e-6)
    np.testing.assert_array_equal(contracted_power(np.float64(3), np.float64(0.3)), 3**0.3)


def test_contracted_sums_are_rounded_once() -> None:
    a = np.float32(1) + np.float32(2**-23)
    assert contracted_fma(a, a, -np.float32(1)) == np.float32(2**-22 + 2**-46)
    assert contracted_fma(a, a, np.float32(0)) == a * a
