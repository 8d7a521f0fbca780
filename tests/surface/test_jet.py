"""`jet` is checked against JAX in scripts/taylor.py; here, its dtypes, trees and errors."""

import math

import numpy as np
import pytest

import stax
from stax import numpy as jnp
from stax.experimental.jet import jet


def test_jet_gives_the_derivatives_of_a_composition() -> None:
    y, terms = jet(lambda x: jnp.exp(3 * x), (0.2,), ((1.0, 0.0, 0.0, 0.0),))
    np.testing.assert_allclose(terms, [3**k * math.exp(0.6) for k in range(1, 5)], rtol=1e-13)
    np.testing.assert_allclose(y, math.exp(0.6), rtol=1e-15)


def test_jet_keeps_single_precision_and_takes_trees() -> None:
    x = np.float32([0.5, -1.0])
    y, (first, second) = jet(
        lambda p: {"out": p["a"] * p["b"]}, ({"a": x, "b": x},), [[{"a": x, "b": x}] * 2]
    )
    for got, factor in ((y, 1), (first, 2), (second, 4)):
        assert got["out"].dtype == np.float32
        np.testing.assert_array_equal(got["out"], factor * x * x)


@pytest.mark.parametrize("series", [(), ((1.0,), (1.0, 2.0))])
def test_jet_says_which_lengths_do_not_agree(series: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ValueError, match="here are 2 arguments and series of lengths"):
        stax.jit(lambda x, y: jet(jnp.multiply, (x, y), series))(1.0, 2.0)
