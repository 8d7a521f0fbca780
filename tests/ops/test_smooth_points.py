"""Derivatives of orders 0 to 4 where a rule treats a point apart, against mpmath.

A quotient whose value is put in place at its removable point has every further derivative 0
there: the rules use power series around such points instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import nn
from stax.scipy import special as sp

CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[float, ...]]] = {
    "softplus": (nn.softplus, lambda x: mpmath.log(1 + mpmath.exp(x)), (0.0, 1.0)),
    "logaddexp": (
        lambda x: snp.logaddexp(x, 2 * x - 1),
        lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(2 * x - 1)),
        (1.0,),
    ),
    "x**x": (lambda x: x**x, lambda x: x**x, (1.0, 2.0)),
    "x**(x-1)": (lambda x: x ** (x - 1), lambda x: x ** (x - 1), (1.0, 2.0)),
    "i0": (sp.i0, lambda x: mpmath.besseli(0, x), (0.0, 1.0)),
    "i1": (sp.i1, lambda x: mpmath.besseli(1, x), (0.0, 0.3, 2.0)),
    "i1e": (sp.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), (0.3, 1.5, 800.0)),
    "j1": (sp.j1, lambda x: mpmath.besselj(1, x), (0.0, 0.3, 2.0)),
    "sinc": (snp.sinc, lambda x: mpmath.sincpi(x), (0.0, 0.3)),
    "sine integral": (lambda x: sp.sici(x)[0], mpmath.si, (0.0, 0.1, 2.0)),
    "spence": (sp.spence, lambda x: mpmath.polylog(2, 1 - x), (1.0, 1.01, 0.95, 2.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_at_points_treated_apart(name: str) -> None:
    function, exact, points = CASES[name]
    with mpmath.workdps(40):
        for point in points:
            derivative = function
            for order in range(5):
                want = float(mpmath.diff(exact, mpmath.mpf(point), order))
                got = float(derivative(point))
                np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-10)
                derivative = stax.grad(derivative)


def test_powers_are_flat_at_exponent_zero() -> None:
    slope = stax.grad(lambda x, y: x**y)
    for x in (0.0, 5e-324, 1e-310, np.inf, 2.0, -2.0):
        assert slope(x, 0.0) == 0.0
    mixed = stax.grad(stax.grad(lambda x, y: x**y), 1)
    assert mixed(4.0, 0.0) == 0.25


def test_equal_infinities_share_a_logarithm_of_a_sum() -> None:
    for value in (np.inf, -np.inf):
        found = stax.grad(snp.logaddexp, (0, 1))(value, value)
        np.testing.assert_array_equal(found, (0.5, 0.5))
