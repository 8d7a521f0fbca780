"""The sign of zero of sums: NumPy's, in compiled programs and under tracing.

A sum starts from 0.0 or from `initial`, so that it is -0.0 only where that and all its terms are;
running sums start with the first element, whose sign they keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp

NEGATIVE: list[Any] = [
    np.full(shape, -0.0) for shape in ((1,), (2,), (4,), (5,), (9,), (300,), (2, 2), (3, 40, 2))
]
MIXED: list[Any] = [np.zeros(0), np.zeros((2, 0)), np.array([0.0, -0.0]), np.array([-0.0, 0.0])]
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, n: n.sum(x),
    "first axis": lambda x, n: n.sum(x, axis=0),
    "last axis": lambda x, n: n.sum(x, axis=-1, keepdims=True),
    "add.reduce": lambda x, n: np.add.reduce(x),
    "initial -0.0": lambda x, n: n.sum(x, initial=-0.0),
    "initial 0.0": lambda x, n: n.sum(x, initial=0.0),
    "add.reduce initial": lambda x, n: np.add.reduce(x, initial=-0.0),
    "where initial": lambda x, n: n.sum(x, where=x < 0, initial=-0.0),
    "where": lambda x, n: n.sum(x, where=x == 0),
    "complex": lambda x, n: n.sum(x, dtype=complex, initial=complex(-0.0, 0.0)),
    "mean": lambda x, n: n.mean(x, axis=0) if x.size else x,
    "median": lambda x, n: n.median(x) if x.size else x,
    "nansum": lambda x, n: n.nansum(x),
    "trace": lambda x, n: n.trace(x) if x.ndim == 2 else x,
    "einsum": lambda x, n: n.einsum("...i->...", x),
    "inner": lambda x, n: n.matmul(x, n.ones((x.shape[-1], 2))),
    "cumsum": lambda x, n: n.cumsum(x),
    "cumsum of an axis": lambda x, n: n.cumsum(x, axis=0),
    "add.accumulate": lambda x, n: np.add.accumulate(x, axis=-1),
    "hypot.reduce": lambda x, n: np.hypot.reduce(x),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_have_numpys_sign_of_zero(name: str, dtype: str) -> None:
    f = SUMS[name]
    arrays = [x.astype(dtype) for x in (*NEGATIVE, *MIXED)]
    want = [np.asarray(f(x, np)) for x in arrays]
    for found in (
        [f(x, snp) for x in arrays],
        stax.jit(lambda xs: [f(x, snp) for x in xs])(arrays),
        [stax.jvp(lambda x: f(x, snp), (x,), (x,))[0] for x in arrays],
    ):
        for x, a, b in zip(arrays, found, want, strict=True):
            assert np.asarray(a).dtype == b.dtype
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(np.real(a)), np.signbit(b.real), str(x.shape))
            np.testing.assert_array_equal(np.signbit(np.imag(a)), np.signbit(b.imag), str(x.shape))


def test_the_derivative_of_a_sum_that_starts_from_negative_zero() -> None:
    for x in (np.full(3, -0.0), np.arange(3.0)):
        f = lambda v: snp.sum(v * 2, initial=-0.0)
        np.testing.assert_array_equal(stax.grad(f)(x), np.full(3, 2.0))
        np.testing.assert_array_equal(stax.jit(stax.grad(f))(x), np.full(3, 2.0))


def test_a_sum_of_what_cannot_be_negative_zero_is_not_written_longer() -> None:
    """Adding 0.0 shows only where a term may be -0.0."""
    x = np.ones((50, 3))
    (squares,) = (
        str(b.body)
        for b in stax.jit(lambda v: snp.sum(v * v, -1)).lower(x).buffers
        if b.kind == "pointwise"
    )
    assert squares.count("ops.add") == 2
    (plain,) = (
        str(b.body)
        for b in stax.jit(lambda v: snp.sum(v, -1)).lower(x).buffers
        if b.kind == "pointwise"
    )
    assert plain.count("ops.add") == 3


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "logaddexp2", "gcd", "bitwise_xor"])
def test_a_reduction_of_one_element_takes_in_the_identity(name: str) -> None:
    ufunc = getattr(np, name)
    x = np.array([[-3], [4], [0]], np.int64 if ufunc.types[0][0] in "?b" else np.float64)
    for f in (
        lambda v: ufunc.reduce(v, axis=1),
        lambda v: ufunc.reduce(v[:0], axis=0),
        lambda v: ufunc.reduce(v, axis=1, initial=None),
    ):
        np.testing.assert_allclose(stax.jit(f)(x), f(x), rtol=1e-15)
