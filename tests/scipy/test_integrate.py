"""`stax.scipy.integrate` and `stax.scipy.cluster`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.cluster.vq import vq as reference_vq
from scipy.integrate import solve_ivp

import stax
from stax.errors import ShapeError
from stax.scipy import cluster, integrate

T = np.linspace(0, 3, 7)
Y = np.array([1.0, 0.5])


def prey(y: Any, t: Any, a: Any, b: Any) -> Any:
    return np.stack([y[0] * (a - b * y[1]), y[1] * (b * y[0] - 1.0)])


def solved(y: Any, t: Any, a: float, b: float) -> Any:
    right = lambda s, v: prey(v, s, a, b)
    return solve_ivp(right, (t[0], t[-1]), y, t_eval=t, rtol=1e-12, atol=1e-13).y.T


def test_odeint() -> None:
    want = solved(Y, T, 1.2, 0.7)
    np.testing.assert_allclose(integrate.odeint(prey, Y, T, 1.2, 0.7), want, rtol=1e-6)
    jitted = stax.jit(lambda y, t, a, b: integrate.odeint(prey, y, t, a, b))
    np.testing.assert_allclose(jitted(Y, T, 1.2, 0.7), want, rtol=1e-6)
    fine = integrate.odeint(prey, Y, T, 1.2, 0.7, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(fine, want, rtol=1e-9)


def test_odeint_gradient_is_that_of_the_solution() -> None:
    def loss(y: Any, t: Any, a: Any, b: Any) -> Any:
        return (integrate.odeint(prey, y, t, a, b) ** 2).sum()

    args = (Y, T, 1.2, 0.7)
    slopes = stax.jit(stax.grad(loss, argnums=(0, 1, 2, 3)))(*args)
    step = 1e-5
    for k in range(4):
        directions = np.eye(args[k].size) if k < 2 else [1.0]
        for n, e in enumerate(directions):

            def moved(h: float, k: int = k, e: Any = e) -> float:
                new = [x + h * e if j == k else x for j, x in enumerate(args)]
                return float((solved(*new) ** 2).sum())

            want = (moved(step) - moved(-step)) / (2 * step)
            np.testing.assert_allclose(np.ravel(slopes[k])[n], want, rtol=1e-5)


def test_odeint_on_trees_and_closures() -> None:
    def run(rate: Any) -> Any:
        start = {"x": np.ones(2), "v": 0.5}
        return integrate.odeint(lambda y, t: {"x": -rate * y["x"], "v": rate * y["v"]}, start, T)

    out = run(0.8)
    np.testing.assert_allclose(out["x"][:, 0], np.exp(-0.8 * T), rtol=1e-6)
    np.testing.assert_allclose(out["v"], 0.5 * np.exp(0.8 * T), rtol=1e-6)
    slope = stax.grad(lambda r: run(r)["v"][-1])(0.8)
    np.testing.assert_allclose(slope, 1.5 * np.exp(2.4), rtol=1e-6)
    rates = np.array([0.3, 0.8])
    mapped = stax.vmap(lambda r: run(r)["v"])(rates)
    np.testing.assert_allclose(mapped, 0.5 * np.exp(np.outer(rates, T)), rtol=1e-6)


def test_trapezoid() -> None:
    x = np.array([0.0, 0.5, 2.0])
    np.testing.assert_allclose(integrate.trapezoid(x**2, x), 0.0625 + 1.5 * 2.125)


def test_vq() -> None:
    rng = np.random.default_rng(0)
    points, codes = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    want, far = reference_vq(points, codes)
    for function in (cluster.vq.vq, stax.jit(cluster.vq.vq)):
        got, distance = function(points, codes)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_allclose(distance, far, rtol=1e-12)
    np.testing.assert_array_equal(cluster.vq.vq(points[:, 0], codes[:, 0])[0].shape, (20,))
    with pytest.raises(ShapeError, match="rows"):
        cluster.vq.vq(points, codes[:, :2])
