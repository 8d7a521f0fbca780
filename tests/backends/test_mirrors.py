"""Sums of values and of their negatives: one is computed, and no bit tells."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
import stax.numpy as snp

# Pairs of which the second is the negative of the first, zeros apart ...
OPPOSITE = {
    "difference": lambda a, b, c: ((a - b), (b - a)),
    "product": lambda a, b, c: ((a - b) * c, c * (b - a)),
    "of both": lambda a, b, c: ((a - b) * (b - c), (b - a) * (b - c)),
    "quotient": lambda a, b, c: ((a - b) / c, (b - a) / c),
    "minus": lambda a, b, c: (a * c, (-a) * c),
    "sum": lambda a, b, c: ((a - b) + c * a, (b - a) - c * a),
    "twice": lambda a, b, c: ((a - b) * c + (a - b) * c, (b - a) * c + (b - a) * c),
}
EQUAL = {
    "of both": lambda a, b, c: ((a - b) * (b - c), (b - a) * (c - b)),
    "minus": lambda a, b, c: ((a - b) / c, -((b - a) / c)),
    "sum": lambda a, b, c: (a - b * c, -(b * c - a)),
}
# ... and those where it is not.
OTHER = {
    "divisor": lambda a, b, c: (c / (a - b), c / (b - a)),
    "square": lambda a, b, c: ((a - b) * (a - b) * c, (b - a) * (b - a)),
    "one term": lambda a, b, c: (a * c - b, a * c + b),
    "rounded up": lambda a, b, c: (snp.ceil(a - b), snp.ceil(b - a)),
    "exponential": lambda a, b, c: (snp.exp(a - b), snp.exp(b - a)),
}


def arrays(dtype: type, n: int) -> list[np.ndarray]:
    """Rows of small whole numbers, so that differences are often zero, and one of odd numbers."""
    rng = np.random.default_rng(n)
    found = [rng.integers(-2, 3, (12, n)).astype(dtype) * dtype(0.3) for _ in range(3)]
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 3.0], dtype)
    for x in found:
        x[0] = rng.choice(odd, n)
        x[1] = 0.0
        x[2] = -0.0
    found[0][3] = found[1][3]
    return found


def in_lanes(x: np.ndarray) -> np.ndarray:
    """Sums of rows in the order of the compiled loop."""
    lanes = np.zeros((len(x), 64), x.dtype)
    for first in range(0, x.shape[1], 64):
        part = x[:, first : first + 64]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0] + 0


def lanes_of(f: stax.jit, *args: np.ndarray) -> int:
    """How many sums the loops of a compiled function accumulate."""
    text = f.lower(*args).as_text("source")
    return len(set(re.findall(r"(a\d+)_lane\[64\]", text)))


@pytest.mark.parametrize("pairs", [OPPOSITE, EQUAL], ids=["opposite", "equal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sum_that_is_not_computed_has_its_bits(pairs, dtype):
    args = arrays(dtype, 200)
    for pair in pairs.values():
        f = stax.jit(lambda *args, pair=pair: tuple(x.sum(1) for x in pair(*args)))
        assert lanes_of(f, *args) == 1
        with np.errstate(all="ignore"):
            wanted = [in_lanes(x) for x in pair(*args)]
            found = f(*args)
        for one, other in zip(found, wanted, strict=True):
            same = (one == other) & (np.signbit(one) == np.signbit(other))
            assert (same | (np.isnan(one) & np.isnan(other))).all(), (one, other)


@pytest.mark.parametrize("name", OTHER)
def test_sums_of_other_values_are_computed(name):
    args = arrays(np.float64, 200)
    f = stax.jit(lambda *args: tuple(x.sum(1) for x in OTHER[name](*args)))
    assert lanes_of(f, *args) == 2
    with np.errstate(all="ignore"):
        for one, other in zip(f(*args), OTHER[name](*args), strict=True):
            np.testing.assert_allclose(one, other.sum(1), rtol=1e-12)


def test_forces_on_either_body_are_summed_once():
    def energy(r):
        d = r[:, None, :] - r[None, :, :]
        return snp.sum(snp.sqrt(snp.sum(d * d, -1) + 0.1))

    r = np.random.default_rng(0).standard_normal((70, 3))
    f = stax.jit(stax.grad(energy))
    assert lanes_of(f, r) == 3
    d = r[:, None, :] - r[None, :, :]
    wanted = 2 * (d / np.sqrt((d * d).sum(-1) + 0.1)[..., None]).sum(1)
    np.testing.assert_allclose(f(r), wanted, rtol=1e-12, atol=1e-12)


def test_an_index_out_of_bounds_is_found_in_the_sum_that_is_not_computed():
    table, i = np.arange(5.0), np.full((4, 100), 7)
    f = stax.jit(lambda t, i, x: ((x - t[0]).sum(1), (t[i] * 0 + t[0] - x).sum(1)))
    with pytest.raises(stax.errors.OutOfBoundsError):
        f(table, i, np.ones((4, 100)))
