"""numpy.fft on traced values: values against NumPy, derivatives, batches, jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import ShapeError
from stax.testing import check_grads

RNG = np.random.default_rng(5)
REAL = RNG.standard_normal((3, 4, 6))
COMPLEX = REAL + 1j * RNG.standard_normal(REAL.shape)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")
OF_REAL = ("rfft", "ihfft", "rfft2", "rfftn")


def value(name: str, dtype: Any = np.float64) -> Any:
    x = REAL if name in OF_REAL else COMPLEX
    return x.astype(np.result_type(dtype, np.complex64)) if x.dtype.kind == "c" else x.astype(dtype)


def variants(name: str) -> list[dict[str, Any]]:
    norms: list[dict[str, Any]] = [{"norm": n} for n in (None, "ortho", "forward")]
    if name in ONE:
        return [*norms, {"n": 5}, {"n": 8, "axis": 0}, {"axis": 1}]
    if name in TWO:
        return [*norms, {"s": (5, 3)}, {"axes": (0, 2), "norm": "ortho"}]
    return [
        *norms,
        {"s": (5, 3), "axes": (1, 2)},
        {"axes": (2, 0)},
        {"s": (2, 5, 7), "axes": (0, 1, 2)},
    ]


CASES = [(n, k) for n in (*ONE, *TWO, *MANY) for k in variants(n)]
IDS = [f"{n}-{'-'.join(f'{k}={v}' for k, v in o.items())}" for n, o in CASES]


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_values(name: str, options: dict[str, Any]) -> None:
    fun = getattr(snp.fft, name)
    for dtype, tol in ((np.float32, 2e-5), (np.float64, 1e-12)):
        x = value(name, dtype)
        want = getattr(np.fft, name)(x, **options)
        got = stax.jit(lambda a: fun(a, **options), strict=True)(x)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol * 30)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_derivatives(name: str, options: dict[str, Any]) -> None:
    fun = getattr(snp.fft, name)
    check_grads(lambda a: fun(a, **options), (value(name),), order=1)
    check_grads(lambda a: snp.abs(fun(snp.sin(a), **options)) ** 2, (value(name),), order=2)


@pytest.mark.parametrize("name", [*ONE, *TWO, *MANY])
def test_batches(name: str) -> None:
    fun = getattr(snp.fft, name)
    x = value(name)
    for axis in range(3):
        got = stax.vmap(fun, in_axes=axis)(x)
        want = np.stack([fun(np.take(x, k, axis)) for k in range(x.shape[axis])])
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_real_input_of_the_complex_transform() -> None:
    check_grads(lambda a: snp.fft.fft(a), (REAL,), order=1)
    got = stax.jit(snp.fft.fft)(np.arange(4))
    np.testing.assert_allclose(got, np.fft.fft(np.arange(4)))
    half = stax.jit(snp.fft.rfft)(np.arange(4, dtype=np.float16))
    assert half.dtype == np.complex64


def test_shifts_and_frequencies() -> None:
    for name in ("fftshift", "ifftshift"):
        fun = stax.jit(getattr(snp.fft, name), static_argnames="axes")
        for axes in (None, 1, (0, 2)):
            want = getattr(np.fft, name)(REAL, axes=axes)
            np.testing.assert_array_equal(fun(REAL, axes=axes), want)
    for name in ("fftfreq", "rfftfreq"):
        mine, plain = getattr(snp.fft, name), getattr(np.fft, name)
        np.testing.assert_array_equal(mine(7, 0.1), plain(7, 0.1))
        got = stax.jit(mine, static_argnums=0)(6, 0.25)
        np.testing.assert_allclose(got, plain(6, 0.25))


def test_convolution_theorem_under_grad() -> None:
    a, b = RNG.standard_normal(8), RNG.standard_normal(8)

    def loss(x: Any) -> Any:
        return np.sum(np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(b)) ** 2)

    circulant = np.stack([np.roll(b, k) for k in range(8)], axis=1)
    np.testing.assert_allclose(stax.grad(loss)(a), 2 * circulant.T @ circulant @ a)
    np.testing.assert_allclose(stax.jit(stax.grad(loss))(a), 2 * circulant.T @ circulant @ a)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="Invalid number of FFT data points"):
        stax.jit(lambda a: snp.fft.fft(a, n=0))(REAL)
    with pytest.raises(ValueError, match="Invalid norm"):
        stax.jit(lambda a: snp.fft.fft(a, norm="x"))(REAL)
    with pytest.raises(TypeError, match="real"):
        stax.jit(snp.fft.rfft)(COMPLEX)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5000, 12), (0,)),
        ((3, 70, 5), (1,)),
        ((40, 31, 9), (0, 1)),
        ((2, 64, 60), (2, 1)),
        ((1,), (0,)),
    ],
)
def test_compiled_transforms_of_many_lines(shape: Any, axes: Any, dtype: Any) -> None:
    """Lines of columns are gathered in pieces, and shared out between threads."""
    real = RNG.standard_normal(shape).astype(dtype)
    x = (real + 1j * RNG.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))

    def transforms(x: Any, real: Any) -> Any:
        yield np.fft.fftn(x, axes=axes)
        yield np.fft.ifftn(x, axes=axes, norm="forward")
        yield np.fft.rfftn(real, axes=axes)
        yield np.fft.irfftn(np.fft.rfftn(real, axes=axes), s=[shape[a] for a in axes], axes=axes)

    found = stax.jit(lambda *v: list(transforms(*v)), strict=True)(x, real)
    for k, (got, want) in enumerate(zip(found, transforms(x, real), strict=True)):
        assert got.dtype == want.dtype
        if dtype == np.float64 and k < 3:
            np.testing.assert_array_equal(got, want)
        near = 20 * np.finfo(dtype).eps * np.abs(want).max()
        np.testing.assert_allclose(got, want, atol=near, rtol=0)


def test_a_filter_with_its_gradient_is_one_compiled_program() -> None:
    x, taps = RNG.standard_normal((4, 64)), RNG.standard_normal(64)

    def loss(x: Any, taps: Any) -> Any:
        spectrum = np.fft.rfft(x) * np.fft.rfft(taps)
        grown = np.fft.fft2(np.fft.irfft(spectrum, n=64) * np.exp(1j * x))
        return np.sum(np.abs(grown) ** 2) + np.sum(np.angle(spectrum[:, 1:9]) ** 2)

    gradient = stax.grad(loss, argnums=(0, 1))
    for got, want in zip(stax.jit(gradient, strict=True)(x, taps), gradient(x, taps), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-8)
    rows = stax.jit(stax.vmap(loss, in_axes=(0, None)), strict=True)(x[:, None], taps)
    np.testing.assert_allclose(rows, [loss(r[None], taps) for r in x], rtol=1e-12)
