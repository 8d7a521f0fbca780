"""Divisions by one changing value share a reciprocal, and keep every bit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
import stax.numpy as snp

KINDS = [np.float32, np.float64]


@stax.jit
def quotients(x, y, d):
    """Quotients in a loop that sums along the row."""
    p, q, r = x / d, y / d, 1 / d
    return p, q, r, (p + q + r).sum(1)


def same_bits(x: np.ndarray, y: np.ndarray, d: np.ndarray) -> None:
    """The compiled quotients are NumPy's to the bit, and their sums those of the loop alone."""
    with np.errstate(all="ignore"):
        wanted = x / d, y / d, 1 / d
        *found, total = quotients(x, y, d)
        for one, other in zip(found, wanted, strict=True):
            same = (one == other) & (np.signbit(one) == np.signbit(other))
            same |= np.isnan(one) & np.isnan(other)
            assert same.all(), (one[~same][:3], other[~same][:3], np.argwhere(~same)[:3])
        alone = stax.jit(lambda p, q, r: (p + q + r).sum(1))(*wanted)
    np.testing.assert_array_equal(total, alone)


def close_to_the_middle(d: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numerators whose quotients lie beside the middle of two numbers."""
    kind = d.dtype.type
    quotient = np.ldexp(1 + rng.random(d.shape), rng.integers(-20, 20, d.shape)).astype(kind)
    middle = (quotient.astype(np.longdouble) + np.nextafter(quotient, kind(np.inf))) / 2
    x = (middle * d).astype(kind)
    return np.where(rng.random(x.shape) < 0.3, np.nextafter(x, kind(np.inf)), x)


def test_one_division_is_left_in_the_loop() -> None:
    x = np.ones((4, 192))
    text = quotients.lower(x, x, x).as_text("source")
    quick, plain = text.split("} else a")
    assert len(re.findall(r" / v\d+\)", quick)) == 1
    assert len(re.findall(r" / v\d+\)", plain)) == 3


@pytest.mark.parametrize("dtype", KINDS)
def test_quotients_close_to_the_middle_of_two_numbers(dtype: type) -> None:
    rng = np.random.default_rng(2)
    d = np.ldexp(1 + rng.random((300, 500)), rng.integers(-25, 25, (300, 500))).astype(dtype)
    ends = np.nextafter(np.exp2(rng.integers(-9, 9, d.shape)).astype(dtype), dtype(0))
    d = np.where(rng.random(d.shape) < 0.3, ends, d)  # all bits of the mantissa set
    d = np.where(rng.random(d.shape) < 0.5, -d, d)
    x, y = close_to_the_middle(d, rng), close_to_the_middle(d, rng)
    y[:, ::7] = 1
    same_bits(x, y, d)


@pytest.mark.parametrize("dtype", KINDS)
def test_every_exponent(dtype: type) -> None:
    info = np.finfo(dtype)
    rng = np.random.default_rng(3)
    ends = info.minexp - info.nmant, info.maxexp
    for spread in (1, 1 / 2, 1 / 3, 1 / 4, 1 / 6):
        low, high = (int(e * spread) for e in ends)
        x, y, d = (
            np.ldexp(1 + rng.random((60, 320)), rng.integers(low, high, (60, 320))).astype(dtype)
            for _ in range(3)
        )
        same_bits(x, y, d)
        for k in range(60):  # rows alone, before another has failed
            part = slice(k, k + 1)
            same_bits(x[part], y[part], d[part])


@pytest.mark.parametrize(("dtype", "divisors", "results"), [
    (np.float32, (-43, 84), (-60, 67)), (np.float64, (-299, 724), (-611, 412))
])  # fmt: skip
def test_the_ends_of_the_ranges(dtype: type, divisors: tuple, results: tuple) -> None:
    rng = np.random.default_rng(6)
    largest = np.finfo(dtype).maxexp
    for e in divisors:
        for f in results:
            if abs(e + f) >= largest:
                continue
            d = np.ldexp(1 + rng.random((40, 130)), e).astype(dtype)
            q = np.ldexp(1 + rng.random((2, 40, 130)) / 2, f).astype(dtype)
            middle = (q.astype(np.longdouble) + np.nextafter(q, dtype(np.inf))) / 2
            same_bits(*(middle * d).astype(dtype), d)


@pytest.mark.parametrize("dtype", KINDS)
def test_every_other_number_is_divided(dtype: type) -> None:
    info = np.finfo(dtype)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.tiny / 8, 1, -3]
    odd = np.array(odd, dtype)
    rng = np.random.default_rng(4)
    plain = [(rng.standard_normal((1, 130)) + 3).astype(dtype) for _ in range(3)]
    same_bits(*plain)
    for number in odd:
        for k in range(3):
            args = [a.copy() for a in plain]
            args[k][0, 77] = number
            same_bits(*args)
    same_bits(*(rng.choice(odd, (40, 130)) for _ in range(3)))


def test_an_extreme_and_its_place_beside_quotients() -> None:
    rng = np.random.default_rng(5)
    x, y, d = (rng.standard_normal((20, 300)) + 2 for _ in range(3))
    x[3, 5] = 0
    f = stax.jit(lambda x, y, d: (snp.max(x / d, 1), snp.argmin(y / d, 1), snp.sum(x / d, 1)))
    most, place, total = f(x, y, d)
    np.testing.assert_array_equal(most, (x / d).max(1))
    np.testing.assert_array_equal(place, (y / d).argmin(1))
    np.testing.assert_allclose(total, (x / d).sum(1))
