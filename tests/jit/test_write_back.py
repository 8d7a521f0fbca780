"""`jit(f, write_back=True)`: final values of written arguments come back to the caller's arrays."""

from __future__ import annotations

import numpy as np
import pytest

import stax


def test_final_values_are_stored() -> None:
    def f(x, y):
        x[0] = 7.0
        x += y
        return np.sum(x)

    x, y = np.arange(4.0), np.ones(4)
    want = x.copy()
    expected = f(want, y)
    for _ in range(2):
        got_x = np.arange(4.0)
        assert stax.jit(f, write_back=True)(got_x, y) == expected
        np.testing.assert_array_equal(got_x, want)
    np.testing.assert_array_equal(y, np.ones(4))


def test_views_write_through() -> None:
    def f(x):
        tail = x[2:]
        tail *= 2.0

    x = np.arange(5.0)
    assert stax.jit(f, write_back=True)(x) is None
    np.testing.assert_array_equal(x, [0.0, 1.0, 4.0, 6.0, 8.0])


def test_strided_targets_are_written_in_place() -> None:
    def f(x):
        x[...] = x * 10.0

    base = np.arange(6.0)
    stax.jit(f, write_back=True)(base[::2])
    np.testing.assert_array_equal(base, [0.0, 1.0, 20.0, 3.0, 40.0, 5.0])


def test_read_only_targets_are_refused_before_anything_runs() -> None:
    def f(x):
        x[0] = 1.0

    x = np.zeros(3)
    x.flags.writeable = False
    with pytest.raises(stax.errors.MutationError, match="read-only"):
        stax.jit(f, write_back=True)(x)
    with pytest.raises(stax.errors.MutationError, match="float"):
        stax.jit(lambda a: a.__setitem__((), 1.0), write_back=True)(2.0)


def test_without_write_back_a_write_is_an_error() -> None:
    def f(x):
        x[0] = 1.0
        return x

    with pytest.raises(stax.errors.MutationError, match="write_back"):
        stax.jit(f)(np.zeros(3))


def test_inside_another_transformation() -> None:
    def f(x):
        x[0] = x[1] * 3.0

    def g(z):
        x = z * 1.0
        stax.jit(f, write_back=True)(x)
        return np.sum(x**2)

    z = np.array([1.0, 2.0])
    np.testing.assert_allclose(stax.grad(g)(z), [0.0, 2 * 9 * 2.0 + 2 * 2.0])
    np.testing.assert_allclose(stax.jit(stax.grad(g))(z), [0.0, 40.0])


@pytest.mark.parametrize("views", [lambda a: (a, a), lambda a: (a[1:], a)])
def test_arguments_that_share_the_written_memory_are_refused(views):
    def write(p, q):
        p[0] = 5.0
        return q.sum()

    memory = np.zeros(4)
    with pytest.raises(stax.errors.MutationError, match="shares memory"):
        stax.jit(write, write_back=True)(*views(memory))
    np.testing.assert_array_equal(memory, np.zeros(4))


def test_interleaved_arguments_are_apart():
    memory = np.zeros((3, 2))
    stax.jit(lambda p, q: p.fill(q.sum() + 1), write_back=True)(memory[:, 0], memory[:, 1])
    np.testing.assert_array_equal(memory, [[1, 0]] * 3)
