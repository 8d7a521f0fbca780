"""Interactions of all pairs: one loop, each distance computed once, nothing n x n in memory."""

import re

import numpy as np
import pytest

import stax
from stax.loops.body import Body
from stax.schedule.unroll import TRIPS, written_out


def energy(r, m):
    d = r[:, None, :] - r[None, :, :]
    return -0.5 * np.sum(m[:, None] * m[None, :] / np.sqrt(np.sum(d * d, axis=-1) + 1e-2))


def forces(r, m):
    """The gradient by hand: sum over j of m_i m_j (r_i - r_j) / distance^3."""
    d = r[:, None, :] - r[None, :, :]
    pair = m[:, None] * m[None, :] / (np.sum(d * d, axis=-1) + 1e-2) ** 1.5
    return np.sum(d * pair[..., None], axis=1)


def bodies(n, width, dtype=np.float64):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, width)).astype(dtype), rng.uniform(1, 2, n).astype(dtype)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_energy_and_forces_of_all_pairs_share_one_loop(width):
    args = bodies(96, width)
    lowered = stax.jit(stax.value_and_grad(energy)).lower(*args)
    value, gradient = lowered.compile()(*args)
    np.testing.assert_allclose(value, energy(*args), rtol=1e-13)
    np.testing.assert_allclose(gradient, forces(*args), rtol=1e-11, atol=1e-11)
    # The loop may be printed once more for what is left over: the same value each time.
    assert len(set(re.findall(r"= stax_sqrt_f64\((v\d+)", lowered.as_text("source")))) == 1
    largest = max(b.nbytes for b in lowered.buffers)
    assert largest == args[0].nbytes
    assert max(k.numel for k in lowered.kernels[1:]) <= args[0].size  # the first holds all pairs


def test_a_long_trailing_loop_stays_a_loop():
    args = bodies(40, TRIPS + 1)
    lowered = stax.jit(stax.value_and_grad(energy)).lower(*args)
    np.testing.assert_allclose(lowered.compile()(*args)[1], forces(*args), rtol=1e-11, atol=1e-11)
    assert not any(k.partial for k in lowered.kernels)


def test_written_out_results_are_those_of_the_loop():
    def f(r, m):
        d = r[:, None, :] - r[None, :, :]
        pair = np.exp(-np.sqrt(np.sum(d * d, axis=-1) + 1.0)) * m[None, :]
        return np.sum(d * pair[..., None], axis=1), np.max(d * pair[..., None], axis=0)

    args = bodies(70, 3, np.float32)
    found = stax.jit(f)(*args)
    for a, b in zip(found, f(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_a_reader_of_a_result_written_in_parts_gets_the_whole():
    def f(r, m):
        force = stax.grad(energy)(r, m)
        return force, np.sum(force * force), force[::-1] * 2.0

    args = bodies(33, 3)
    found = stax.jit(f)(*args)
    force = forces(*args)
    expected = force, np.sum(force * force), force[::-1] * 2.0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_special_values_reach_the_results_they_belong_to(value):
    r, m = bodies(40, 3)
    r[7] = value
    gradient = stax.jit(stax.grad(energy))(r, m)
    with np.errstate(invalid="ignore"):
        expected = forces(r, m)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-10)


def test_a_difference_squared_has_no_sign():
    def f(x, y):
        return np.sqrt((x - y) * (x - y) + 1.0), np.sqrt((y - x) * (y - x) + 1.0) * 3.0

    x, y = bodies(300, 1)[0], bodies(300, 1)[0][::-1].copy()
    lowered = stax.jit(f).lower(x, y)
    assert lowered.as_text("source").count("= stax_sqrt_f64(") == 1
    for a, b in zip(lowered.compile()(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_shared_work_is_worth_writing_out():
    def cheap(x, y):
        return np.sum(x[:, None, :] * y[None, :, :], axis=1)

    x, y = bodies(64, 3)[0], bodies(64, 3)[0] + 1.0
    lowered = stax.jit(cheap).lower(x, y)
    assert not any(k.partial for k in lowered.kernels)
    found: list[Body] = [b.body for b in lowered.buffers if b.kind == "reduction"]
    assert all(written_out(body) == [body] for body in found)
    np.testing.assert_allclose(lowered.compile()(x, y), cheap(x, y), rtol=1e-12, atol=1e-12)
