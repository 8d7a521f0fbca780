"""scipy.signal convolutions and lax.fft on traced values against SciPy and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import ShapeError
from stax.scipy import signal
from stax.testing import check_grads

RNG = np.random.default_rng(23)
SHAPES = [((7,), (3,)), ((3,), (6,)), ((6, 5), (3, 2)), ((4, 5, 3), (2, 2, 3))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_any_rank(shapes: Any, name: str, mode: str) -> None:
    for complex_part in (0, 1j):
        x, y = (RNG.standard_normal(s) + complex_part * RNG.standard_normal(s) for s in shapes)
        want = getattr(ss, name)(x, y, mode)
        got = stax.jit(lambda a, b: getattr(signal, name)(a, b, mode))(x, y)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=1e-10)
    check_grads(lambda a, b: getattr(signal, name)(a, b, mode), (x.real, y.real), order=1)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("fill", [0, 2])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (4, 4)])
def test_planes(mode: str, fill: int, shape: Any) -> None:
    x, y = RNG.standard_normal((6, 7)), RNG.standard_normal(shape)
    for name in ("convolve2d", "correlate2d"):
        want = getattr(ss, name)(x, y, mode, fillvalue=fill)
        got = stax.jit(lambda a, b, n=name: getattr(signal, n)(a, b, mode, fillvalue=fill))(x, y)
        np.testing.assert_allclose(got, want, atol=1e-10)


def test_long_signals_by_either_method() -> None:
    x, y = RNG.standard_normal(400), RNG.standard_normal(60)
    direct = stax.jit(signal.convolve)(x, y)
    np.testing.assert_allclose(direct, np.convolve(x, y), atol=1e-10)
    by_fft = stax.jit(lambda a, b: signal.convolve(a, b, method="fft"))(x, y)
    np.testing.assert_allclose(by_fft, direct, atol=1e-10)
    np.testing.assert_allclose(stax.jit(np.convolve)(x, y), direct, atol=1e-10)
    with pytest.raises(ShapeError, match="dimensionality"):
        signal.convolve(x, y[None])


def test_lax_fft() -> None:
    x = RNG.standard_normal((3, 4, 6))
    z = x + 1j
    kinds = lax.FftType
    np.testing.assert_allclose(lax.fft(z, kinds.FFT, (4, 6)), np.fft.fft2(z))
    np.testing.assert_allclose(lax.fft(z, "ifft", (6,)), np.fft.ifft(z))
    np.testing.assert_allclose(lax.fft(x, kinds.RFFT, (4, 6)), np.fft.rfft2(x))
    half = np.fft.rfft2(x)
    got = stax.jit(lambda a: lax.fft(a, kinds.IRFFT, (4, 6)))(half)
    np.testing.assert_allclose(got, x, atol=1e-12)
    check_grads(lambda a: snp.abs(lax.fft(a, "RFFT", (6,))) ** 2, (x,), order=1)
    with pytest.raises(ShapeError, match="trailing axes"):
        lax.fft(z, "fft", (5,))
