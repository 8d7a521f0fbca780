"""Chains of stencils run on tiles of rows: the bits of NumPy, and no whole array between steps."""

import numpy as np
import pytest

import stax
from stax.schedule import stack
from stax.schedule.stack import Stack


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Sizes that make small arrays worth stacking, in tiles of 16 rows and a few more."""
    monkeypatch.setattr(stack, "LEAST_BYTES", 4096)
    monkeypatch.setattr(stack, "CACHE_BYTES", 18_000)


def smooth(u):
    return u[1:-1, 1:-1] + 0.1 * (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )


def field(rows, columns, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


def stages(lowered):
    return [len(k.stages) if isinstance(k, Stack) else 1 for k in lowered.kernels]


def check(f, *args):
    lowered = stax.jit(f).lower(*args)
    found, expected = lowered.compile()(*args), f(*args)
    for a, b in zip(np.atleast_3d(found), np.atleast_3d(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    return lowered


@pytest.mark.parametrize("rows", [70, 97, 200])
def test_a_shrinking_stencil(rows):
    def f(u):
        for _ in range(3):
            u = smooth(u)
        return u

    u = field(rows, 90)
    lowered = check(f, u)
    assert stages(lowered) == [3]
    assert lowered.compile().memory_analysis()["temporary_bytes"] < 5 * 18_000


def test_stages_of_a_stack_are_as_many_as_their_neighbours_allow():
    def f(u):
        for _ in range(12):
            u = smooth(u)
        return u

    lowered = check(f, field(300, 60, dtype=np.float64))
    assert sum(stages(lowered)) == 12
    assert 1 < len(stages(lowered)) < 12
    for k in lowered.kernels:
        again = [s.after - s.before for s in k.stages]
        assert sum(again) / len(again) <= stack.MOST_AGAIN * k.tile


def test_a_padded_stencil_of_one_shape():
    def f(u):
        for _ in range(3):
            p = np.pad(u, 1)
            u = u * 0.5 + np.sqrt(abs(p[2:, 1:-1] + p[:-2, 1:-1])) * (p[1:-1, 2:] - p[1:-1, :-2])
        return u

    check(f, field(120, 40))


def test_two_fields_and_an_older_one():
    def f(u, v):
        for _ in range(3):
            w = (
                2 * u[1:-1, 1:-1]
                - v[1:-1, 1:-1]
                + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
            )
            u, v = w, u[1:-1, 1:-1]
        return u

    check(f, field(150, 50, 1), field(150, 50, 2))


def test_rows_far_apart_and_reversed_columns():
    def f(u):
        for _ in range(2):
            low = u[6:, 1:-1] * 0.25 + u[:-6, 1:-1] + u[3:-3, 2:] * u[3:-3, :-2] + u[3:-3, 1:-1]
            u = low[:, ::-1] - low
        return u

    check(f, field(140, 64))


def test_a_step_that_is_a_result_stays_in_memory():
    def f(u):
        a = smooth(u)
        b = smooth(smooth(a))
        return b, a

    u = field(100, 80)
    lowered = stax.jit(f).lower(u)
    for a, b in zip(lowered.compile()(u), f(u), strict=True):
        np.testing.assert_array_equal(a, b)
    assert stages(lowered) == [1, 2]


def test_three_axes():
    def f(u):
        for _ in range(2):
            u = u[1:-1, 1:-1, 1:-1] + 0.1 * (
                u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
                + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
            )  # fmt: skip
        return u

    u = np.random.default_rng(3).standard_normal((90, 12, 20)).astype(np.float32)
    found = stax.jit(f)(u)
    np.testing.assert_array_equal(found, f(u))


def test_small_arrays_and_wrapped_rows_are_not_stacked(monkeypatch):
    def rolled(u):
        for _ in range(2):
            u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) - 3 * u)
        return u

    u = field(128, 64)
    lowered = stax.jit(rolled).lower(u)
    np.testing.assert_allclose(lowered.compile()(u), rolled(u), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(stack, "LEAST_BYTES", 1 << 20)
    assert stages(stax.jit(lambda u: smooth(smooth(u))).lower(u)) == [1, 1]


def test_the_gradient_of_a_chain():
    def loss(u):
        return np.sum(smooth(smooth(u)) ** 2)

    u = field(80, 60, dtype=np.float64)
    found, expected = stax.jit(stax.grad(loss))(u), stax.grad(loss)(u)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
