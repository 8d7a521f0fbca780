"""Initial values: variances, shapes, dtypes, and the fans they are scaled by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax import random
from stax.errors import ShapeError
from stax.nn import initializers

KEY = random.key(0)
SHAPE = (300, 200)

VARIANCES: dict[str, tuple[Callable[..., Any], float]] = {
    "glorot_normal": (initializers.glorot_normal(), 2 / 500),
    "glorot_uniform": (initializers.glorot_uniform(), 2 / 500),
    "he_normal": (initializers.he_normal(), 2 / 300),
    "he_uniform": (initializers.he_uniform(), 2 / 300),
    "lecun_normal": (initializers.lecun_normal(), 1 / 300),
    "lecun_uniform": (initializers.lecun_uniform(), 1 / 300),
    "normal": (initializers.normal(0.3), 0.09),
    "fan_out": (initializers.variance_scaling(3.0, "fan_out", "normal"), 3 / 200),
    "geometric": (
        initializers.variance_scaling(1.0, "fan_geo_avg", "normal"),
        1 / math.sqrt(300 * 200),
    ),
}


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_variance(name: str, dtype: str) -> None:
    init, variance = VARIANCES[name]
    w = init(KEY, SHAPE, dtype)
    assert w.shape == SHAPE
    assert w.dtype == dtype
    assert abs(w.mean()) < 5 * math.sqrt(variance / w.size)
    assert abs(np.mean(np.abs(w) ** 2) / variance - 1) < 0.03
    jitted = stax.jit(lambda k: init(k, SHAPE, dtype))(KEY)
    eps = float(np.finfo(w.dtype).eps)
    np.testing.assert_allclose(jitted, w, rtol=20 * eps, atol=20 * eps)


def test_convolution_fans() -> None:
    w = initializers.he_normal()(KEY, (3, 3, 64, 32))
    assert abs(w.var() / (2 / (9 * 64)) - 1) < 0.05
    # The mask of a batch axis leaves the fans of each member.
    w = initializers.lecun_normal(batch_axis=0)(KEY, (8, 100, 50))
    assert abs(w.var() * 100 - 1) < 0.05


def test_plain() -> None:
    assert initializers.zeros(KEY, (2, 3)).dtype == np.float64
    np.testing.assert_array_equal(initializers.ones(KEY, (2,), "float32"), [1, 1])
    np.testing.assert_array_equal(initializers.constant(2.5)(KEY, (2,)), [2.5, 2.5])
    u = initializers.uniform(0.5)(KEY, (1000,))
    assert 0 <= u.min() < 0.01
    assert 0.49 < u.max() < 0.5
    cut = initializers.truncated_normal(0.1)(KEY, (1000,))
    assert np.abs(cut).max() <= 0.2


def test_orthogonal() -> None:
    for shape in ((4, 6), (6, 4), (2, 3, 5)):
        w = initializers.orthogonal(scale=2.0)(KEY, shape).reshape(-1, shape[-1])
        gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
        np.testing.assert_allclose(gram, 4 * np.eye(min(w.shape)), atol=1e-12)
    kernel = initializers.delta_orthogonal()(KEY, (3, 3, 2, 4))
    np.testing.assert_allclose(kernel[1, 1] @ kernel[1, 1].T, np.eye(2), atol=1e-12)
    kernel[1, 1] = 0
    assert (kernel == 0).all()


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="in_axis"):
        initializers.he_normal()(KEY, (3,))
    with pytest.raises(ShapeError, match="mode"):
        initializers.variance_scaling(1.0, "fan", "normal")(KEY, (3, 3))
