"""Divisions by a value fixed along a row: multiplications that give every bit of the quotient."""

from __future__ import annotations

import numpy as np
import pytest

import stax

KINDS = [np.float32, np.float64]


def quotients(x: np.ndarray, d: np.ndarray) -> None:
    """The compiled quotients of rows by their divisors are NumPy's to the bit."""
    with np.errstate(all="ignore"):
        wanted = x / d[:, None]
        found = stax.jit(lambda x, d: x / d[:, None])(x, d)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), (x[~same][:3], found[~same][:3], wanted[~same][:3])
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


def test_the_loop_multiplies_and_keeps_the_division_beside_it() -> None:
    x, d = np.ones((8, 1500), np.float32), np.ones(8, np.float32)
    text = stax.jit(lambda x, d: x / d[:, None]).lower(x, d).as_text("source")
    assert "__builtin_fmaf(" in text
    assert " / v" in text


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("n", [200, 1100, 5000])
def test_quotients_close_to_the_middle_of_two_numbers(dtype: type, n: int) -> None:
    rng = np.random.default_rng(n)
    rows = 400
    d = np.ldexp(1 + rng.random(rows), rng.integers(-25, 25, rows)).astype(dtype)
    d[::3] = np.nextafter(np.exp2(np.arange(d[::3].size) % 9 + 1).astype(dtype), dtype(0))
    d[1::3] *= -1
    quotient = np.ldexp(1 + rng.random((rows, n)), rng.integers(-20, 20, (rows, n))).astype(dtype)
    wide = np.longdouble
    middle = (quotient.astype(wide) + np.nextafter(quotient, dtype(np.inf))) / 2
    x = (middle * d[:, None]).astype(dtype)
    x = np.where(rng.random(x.shape) < 0.3, np.nextafter(x, dtype(np.inf)), x)
    quotients(x, d)


@pytest.mark.parametrize("dtype", KINDS)
def test_every_other_number_is_divided(dtype: type) -> None:
    info = np.finfo(dtype)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.tiny / 8, 1, -3]
    odd = np.array(odd, dtype)
    rng = np.random.default_rng(1)
    d = np.concatenate([odd, rng.standard_normal(20).astype(dtype)])
    quotients(np.tile(odd, (d.size, 120)), d)
    plain = rng.standard_normal((d.size, 1300)).astype(dtype)
    quotients(plain, d)
    quotients(np.where(plain > 0, plain, 0), d)
    quotients(np.where(plain > 0, plain, dtype(-0.0)), d)
    plain[:, 700] = odd[rng.integers(0, odd.size, d.size)]  # one of them in a chunk
    quotients(plain, d)


def test_what_is_read_is_not_overwritten_before_it_is_divided_again() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((5, 2000)).astype(np.float32)
    x[:, 3] = 0

    def f(x):
        y = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        return (y - y.max(1, keepdims=True)) / y.std(1, keepdims=True)

    np.testing.assert_allclose(stax.jit(f)(x), f(x), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", KINDS)
def test_zeros_of_masks_are_multiplied_by_positive_divisors_only(dtype: type) -> None:
    rng = np.random.default_rng(7)
    d = np.ldexp(1 + rng.random(300), rng.integers(-20, 20, 300)).astype(dtype)
    x = np.where(rng.random((300, 1200)) < 0.5, 0, rng.random((300, 1200))).astype(dtype)
    for signs in (1, np.where(rng.random(300) < 0.01, -1, 1), -1):
        quotients(x, (d * signs).astype(dtype))
        for k in range(0, 300, 40):
            quotients(x[k : k + 1], (d * signs)[k : k + 1].astype(dtype))
            quotients(-x[k : k + 1], (d * signs)[k : k + 1].astype(dtype))


def test_steps_of_a_stencil_divide_by_a_value_of_each_row() -> None:
    def steps(u: np.ndarray, c: np.ndarray) -> np.ndarray:
        for _ in range(4):
            v = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            u = u[1:-1, 1:-1] + v / c[: len(v), None]
        return u

    rng = np.random.default_rng(2)
    u, c = rng.standard_normal((300, 1100)).astype(np.float32), rng.random(300, np.float32) + 1
    f = stax.jit(steps)
    lowered = f.lower(u, c)
    assert lowered.as_text("schedule").count("kernel") == 1
    assert "multiplies" in lowered.as_text("source")
    assert f(u, c).tobytes() == steps(u, c).tobytes()
