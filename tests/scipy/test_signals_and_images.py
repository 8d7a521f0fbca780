"""Cosine transforms, spectra, interpolation, images and samples against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.stats

import stax
import stax.numpy as snp
from stax import image
from stax.errors import ShapeError
from stax.scipy import fft, interpolate, ndimage, signal, stats
from stax.testing import check_grads

RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((5, 6))
WAVE = np.sin(np.arange(80.0) * 0.4) + 0.05 * np.arange(80.0)
OTHER = RNG.standard_normal(80)


@pytest.mark.parametrize("norm", [None, "ortho", "forward", "backward"])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_cosine_transforms(kind: int, norm: str | None) -> None:
    for axis, n in ((0, None), (-1, 4), (1, 9)):
        want = scipy.fft.dct(MATRIX, kind, n, axis, norm)
        np.testing.assert_allclose(fft.dct(MATRIX, kind, n, axis, norm), want, atol=1e-12)
        want = scipy.fft.idct(MATRIX, kind, n, axis, norm)
        np.testing.assert_allclose(fft.idct(MATRIX, kind, n, axis, norm), want, atol=1e-12)
    want = scipy.fft.dctn(MATRIX, kind, (4, 4), None, norm)
    np.testing.assert_allclose(fft.dctn(MATRIX, kind, (4, 4), None, norm), want, atol=1e-12)
    back = fft.idctn(fft.dctn(MATRIX, kind, norm=norm), kind, norm=norm)
    np.testing.assert_allclose(back, MATRIX, atol=1e-12)
    waves = MATRIX + 1j * MATRIX[::-1]
    np.testing.assert_allclose(
        fft.dct(waves, kind, norm=norm), scipy.fft.dct(waves, kind, norm=norm), atol=1e-12
    )


def test_cosine_transforms_keep_float32_and_differentiate() -> None:
    assert fft.dct(MATRIX.astype(np.float32)).dtype == np.float32
    check_grads(lambda x: fft.dct(x, norm="ortho"), (MATRIX,), 2)
    np.testing.assert_allclose(stax.jit(fft.idct)(MATRIX), fft.idct(MATRIX), atol=1e-12)
    with pytest.raises(ValueError, match="type must be"):
        fft.dct(MATRIX, 5)


@pytest.mark.parametrize("options", [
    {}, {"type": "constant"}, {"bp": (20, 50)}, {"axis": 0},
])  # fmt: skip
def test_detrend(options: dict[str, Any]) -> None:
    data = np.stack([WAVE, OTHER])
    want = scipy.signal.detrend(data, **options)
    np.testing.assert_allclose(signal.detrend(data, **options), want, atol=1e-12)


SPECTRA: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 16, "noverlap": 12, "nfft": 32, "fs": 2.0},
    {"nperseg": 15, "window": "hamming", "detrend": "linear"},
    {"window": np.linspace(0.5, 1.0, 20), "nperseg": 20},
    {"nperseg": 16, "return_onesided": False},
]


@pytest.mark.parametrize("options", SPECTRA)
def test_spectra(options: dict[str, Any]) -> None:
    for got, want in zip(
        signal.stft(WAVE, **options), scipy.signal.stft(WAVE, **options), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-12)
    for scaling in ("density", "spectrum"):
        for average in ("mean", "median"):
            more = {**options, "scaling": scaling, "average": average}
            got = signal.csd(WAVE, OTHER, **more)[1]
            np.testing.assert_allclose(got, scipy.signal.csd(WAVE, OTHER, **more)[1], atol=1e-12)
            got = signal.welch(np.stack([WAVE, OTHER]), **more)[1]
            want = scipy.signal.welch(np.stack([WAVE, OTHER]), **more)[1]
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_signal_comes_back_from_its_segments() -> None:
    for options in ({"nperseg": 16}, {"nperseg": 16, "noverlap": 12}):
        z = signal.stft(WAVE, **options)[2]
        times, back = signal.istft(z, **options)
        want_times, want = scipy.signal.istft(z, **options)
        np.testing.assert_allclose(times, want_times)
        np.testing.assert_allclose(back, want, atol=1e-12)
    check_grads(lambda x: signal.welch(x, nperseg=16)[1], (WAVE,), 1)
    np.testing.assert_allclose(
        stax.jit(lambda x: signal.stft(x, nperseg=16)[2])(WAVE),
        signal.stft(WAVE, nperseg=16)[2],
        atol=1e-12,
    )


@pytest.mark.parametrize(("mode", "theirs"), [
    ("constant", "grid-constant"), ("nearest", "nearest"), ("wrap", "grid-wrap"),
    ("mirror", "mirror"), ("reflect", "reflect"),
])  # fmt: skip
@pytest.mark.parametrize("order", [0, 1])
def test_interpolation_in_an_image(order: int, mode: str, theirs: str) -> None:
    at = RNG.uniform(-7, 12, (2, 3, 40))
    want = scipy.ndimage.map_coordinates(MATRIX, at, order=order, mode=theirs, cval=0.7)
    got = ndimage.map_coordinates(MATRIX, list(at), order, mode, 0.7)
    np.testing.assert_allclose(got, want, atol=1e-12)
    jitted = stax.jit(lambda m, c: ndimage.map_coordinates(m, c, order, mode, 0.7))(MATRIX, at)
    np.testing.assert_allclose(jitted, want, atol=1e-12)


def test_interpolation_differentiates_and_refuses() -> None:
    at = [np.array([0.3, 1.6]), np.array([2.2, 4.7])]
    check_grads(lambda m, c: ndimage.map_coordinates(m, c, 1), (MATRIX, at), 1)
    whole = ndimage.map_coordinates(np.arange(4), [np.array([0.6, 1.5])], 1)
    assert whole.tolist() == [1, 2]
    assert whole.dtype == np.int64
    with pytest.raises(ShapeError, match="1 coordinates for an array of 2 axes"):
        ndimage.map_coordinates(MATRIX, at[:1], 1)
    with pytest.raises(ValueError, match="order"):
        ndimage.map_coordinates(MATRIX, at, 3)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_interpolation_on_a_grid(method: str) -> None:
    points = (np.array([0.0, 1.0, 2.5, 3.0, 7.0]), np.linspace(0, 1, 6))
    at = np.stack([RNG.uniform(-1, 8, 30), RNG.uniform(-0.1, 1.1, 30)], -1)
    for values in (MATRIX, RNG.standard_normal((5, 6, 2))):
        for fill in (np.nan, 2.0, None):
            options: dict[str, Any] = {"method": method, "bounds_error": False, "fill_value": fill}
            want = scipy.interpolate.RegularGridInterpolator(points, values, **options)(at)
            mine = interpolate.RegularGridInterpolator(points, values, **options)
            np.testing.assert_allclose(mine(at), want, atol=1e-12)
            np.testing.assert_allclose(stax.jit(lambda a, f=mine: f(a))(at), want, atol=1e-12)
    with pytest.raises(ValueError, match="out of bounds"):
        interpolate.RegularGridInterpolator(points, MATRIX, bounds_error=True)(at)


def test_images_are_resized() -> None:
    up = image.resize(MATRIX, (10, 6), "linear")
    np.testing.assert_allclose(up[1], 0.75 * MATRIX[0] + 0.25 * MATRIX[1])
    assert image.resize(np.arange(4), (8,), "nearest").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for method in ("linear", "cubic", "lanczos3", "lanczos5"):
        ones = image.resize(np.ones((4, 9, 3)), (7, 2, 3), method)
        np.testing.assert_allclose(ones, 1.0)
        check_grads(lambda x, m=method: image.resize(x, (3, 11), m), (MATRIX,), 1)
        moved = image.scale_and_translate(
            MATRIX, (5, 6), (0, 1), np.array([1.0, 1.0]), np.array([0.0, 2.0]), method
        )
        np.testing.assert_allclose(moved[:, 2:], MATRIX[:, :-2], atol=1e-12)
        np.testing.assert_allclose(moved[:, :2], 0.0)
    assert image.resize(MATRIX.astype(np.float32), (3, 3), "cubic").dtype == np.float32
    with pytest.raises(ShapeError):
        image.resize(MATRIX, (3, 3, 3), "linear")
    with pytest.raises(ValueError, match="Unknown resize method"):
        image.resize(MATRIX, (3, 3), "sharp")


def test_ranks_modes_and_standard_errors() -> None:
    counts = RNG.integers(0, 4, (7, 9))
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, 1):
            want = scipy.stats.rankdata(counts, method, axis=axis).ravel()
            got = stats.rankdata(counts, method, axis=axis)
            np.testing.assert_array_equal(np.ravel(got), want)
            jitted = stax.jit(lambda c, m=method, a=axis: stats.rankdata(c, m, axis=a))(counts)
            np.testing.assert_array_equal(jitted, got)
    for axis in (None, 0, 1):
        for keep in (False, True):
            want = scipy.stats.mode(counts, axis=axis, keepdims=keep)
            got = stats.mode(counts, axis=axis, keepdims=keep)
            np.testing.assert_array_equal(got.mode, want.mode)
            np.testing.assert_array_equal(got.count, want.count)
        np.testing.assert_allclose(
            stats.sem(MATRIX, axis=axis, ddof=0), scipy.stats.sem(MATRIX, axis=axis, ddof=0)
        )
    check_grads(stats.sem, (MATRIX,), 2)


@pytest.mark.parametrize("options", [
    {}, {"bw_method": "silverman"}, {"bw_method": 0.4},
    {"weights": np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])},
])  # fmt: skip
def test_densities_estimated_from_samples(options: dict[str, Any]) -> None:
    for data, at in ((MATRIX[0], np.array([-0.5, 0.3, 2.0])), (MATRIX[:2], MATRIX[2:4])):
        mine = stats.gaussian_kde(data, **options)
        want = scipy.stats.gaussian_kde(data, **options)
        np.testing.assert_allclose(mine(at), want(at))
        np.testing.assert_allclose(mine.logpdf(at), want.logpdf(at))
        np.testing.assert_allclose(mine.integrate_kde(mine), want.integrate_kde(want))
        np.testing.assert_allclose(mine.neff, want.neff)
    mine = stats.gaussian_kde(MATRIX[0], **options)
    want = scipy.stats.gaussian_kde(MATRIX[0], **options)
    np.testing.assert_allclose(mine.integrate_box_1d(-1, 0.5), want.integrate_box_1d(-1, 0.5))
    np.testing.assert_allclose(mine.integrate_gaussian(0.3, 0.5), want.integrate_gaussian(0.3, 0.5))
    check_grads(lambda d: stats.gaussian_kde(d).logpdf(np.array([0.2])), (MATRIX[0],), 1)
    drawn = mine.resample(stax.random.key(0), (4000,))
    assert drawn.shape == (1, 4000)
    np.testing.assert_allclose(np.std(drawn), np.std(MATRIX[0]) * 1.15, rtol=0.25)
    passed = stax.jit(lambda density, x: density(x))(mine, np.array([0.1]))
    np.testing.assert_allclose(passed, mine(0.1))


def test_densities_refuse_points_of_another_dimension() -> None:
    with pytest.raises(ShapeError, match="dimension"):
        stats.gaussian_kde(MATRIX[:2])(snp.ones((3, 4)))
