"""`stax.scipy.signal`: convolutions and correlations of arrays of any rank, and spectra.

Input: two arrays of one rank and a mode ("full", "valid", "same").  Output: SciPy's result, by
direct convolution or by Fourier transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_complex, is_inexact
from stax.errors import ShapeError
from stax.lax.convolution import conv_general_dilated
from stax.numpy import fft
from stax.numpy.promotion import coerce
from stax.numpy.registration import axes_tuple, converted
from stax.numpy.registration import operand as as_operand
from stax.numpy.taps import full_convolution, padded_convolution
from stax.primitives import elementwise as el
from stax.primitives.linalg_algebra import conj
from stax.primitives.shapes import pad, strided_slice
from stax.primitives.views import reshape, rev
from stax.scipy.spectra import csd, detrend, istft, stft, welch

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]

Array = Any


def _pair(in1: Any, in2: Any, op: str) -> tuple[Array, Array]:
    x, y = coerce(as_operand(in1, op), as_operand(in2, op))
    if len(x.shape) != len(y.shape):
        raise ShapeError(
            "in1 and in2 should have the same dimensionality",
            op=op,
            operands=[str(aval_of(x)), str(aval_of(y))],
            where=user_source() or None,
        )
    return x, y


def _centred(full: Array, shape: Sequence[int]) -> Array:
    """The middle part of `full`, of this shape."""
    start = [(n - m) // 2 for n, m in zip(full.shape, shape, strict=True)]
    return strided_slice(full, start, [a + m for a, m in zip(start, shape, strict=True)])


def _ordered(x: Array, y: Array, mode: str, op: str) -> tuple[Array, Array]:
    """The larger first when mode is "valid"."""
    if mode not in ("full", "same", "valid"):
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    if mode != "valid":
        return x, y
    if all(n >= m for n, m in zip(x.shape, y.shape, strict=True)):
        return x, y
    if all(n <= m for n, m in zip(x.shape, y.shape, strict=True)):
        return y, x
    raise ShapeError(
        "For 'valid' mode, one must be at least as large as the other in every dimension",
        op=op,
        where=user_source() or None,
    )


def _direct(x: Array, y: Array, mode: str) -> Array:
    """The convolution in one image of one feature."""
    rank = len(x.shape)
    if rank == 0:
        return el.mul(x, y)
    if rank == 1 and is_inexact(aval_of(x).dtype):
        longer, shorter = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
        if mode == "valid":
            return padded_convolution(longer, shorter, 0)
        full = full_convolution(longer, shorter)
        return _centred(full, x.shape) if mode == "same" else full
    kernel = rev(y, range(rank))
    padding = [(0, 0) if mode == "valid" else (m - 1, m - 1) for m in y.shape]
    full = conv_general_dilated(
        reshape(x, (1, 1, *x.shape)), reshape(kernel, (1, 1, *y.shape)), (1,) * rank, padding
    )
    full = reshape(full, full.shape[2:])
    return _centred(full, x.shape) if mode == "same" else full


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The convolution of two arrays; `method` is "direct" (also "auto") or "fft"."""
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError("acceptable method flags are 'auto', 'direct', or 'fft'")
    x, y = _ordered(*_pair(in1, in2, "convolve"), mode, "convolve")
    return _direct(x, y, mode)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The cross-correlation of two arrays: the convolution with `in2` turned and conjugated."""
    x, y = _pair(in1, in2, "correlate")
    turned = conj(rev(y, range(len(y.shape))))
    first, _ = _ordered(x, y, mode, "correlate")
    if mode == "valid" and first is y and first is not x:
        # The shorter slides over the longer; the result is turned and conjugated.
        found = _direct(y, conj(rev(x, range(len(x.shape)))), mode)
        return conj(rev(found, range(len(found.shape))))
    return convolve(x, turned, mode, method)


def _planar(in1: Any, in2: Any, op: str) -> tuple[Array, Array]:
    x, y = _pair(in1, in2, op)
    if len(x.shape) != 2:
        raise ShapeError(f"{op} inputs must both be 2-D arrays", op=op)
    return x, y


def _framed(x: Array, y: Array, mode: str, boundary: str, fillvalue: Any, op: str) -> Any:
    if boundary not in ("fill", "pad") or (np.isscalar(fillvalue) and fillvalue == 0):
        if boundary in ("fill", "pad"):
            return x, mode
        raise ValueError(f"boundary={boundary!r} is not supported by {op}; use 'fill'")
    high = [m - 1 for m in y.shape]
    value = np.asarray(fillvalue, aval_of(x).dtype)[()]
    return pad(x, value, high, high), "valid"


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices, the first surrounded by `fillvalue`."""
    x, y = _ordered(*_planar(in1, in2, "convolve2d"), mode, "convolve2d")
    framed, how = (
        (x, mode) if mode == "valid" else _framed(x, y, mode, boundary, fillvalue, "convolve2d")
    )
    found = _direct(framed, y, how)
    return _centred(found, x.shape) if mode == "same" and how == "valid" else found


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Array:
    """The cross-correlation of two matrices, the first surrounded by `fillvalue`."""
    x, y = _planar(in1, in2, "correlate2d")
    if mode == "valid" or (np.isscalar(fillvalue) and fillvalue == 0 and mode == "full"):
        return correlate(x, y, mode)
    turned = conj(rev(y, (0, 1)))
    if mode == "full":
        return convolve2d(x, turned, mode, boundary, fillvalue)
    # Same: SciPy centres correlations one element later where the kernel's extent is even.
    full = convolve2d(x, turned, "full", boundary, fillvalue)
    start = [m // 2 for m in y.shape]
    return strided_slice(full, start, [a + n for a, n in zip(start, x.shape, strict=True)])


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """The convolution of two arrays over `axes` (all), by Fourier transforms."""
    x, y = _ordered(*_pair(in1, in2, "fftconvolve"), mode, "fftconvolve")
    if not is_inexact(x.dtype):
        x, y = (converted(v, np.dtype(np.float64)) for v in (x, y))
    rank = len(x.shape)
    over = axes_tuple(axes, rank, "fftconvolve")
    if not over:
        return el.mul(x, y)
    lengths = [x.shape[a] + y.shape[a] - 1 for a in over]
    if is_complex(x.dtype):
        spectrum = el.mul(fft.fftn(x, lengths, over), fft.fftn(y, lengths, over))
        full = fft.ifftn(spectrum, lengths, over)
    else:
        spectrum = el.mul(fft.rfftn(x, lengths, over), fft.rfftn(y, lengths, over))
        full = fft.irfftn(spectrum, lengths, over)
    if mode == "full":
        return full
    shape = list(full.shape)
    for a in over:
        shape[a] = x.shape[a] if mode == "same" else x.shape[a] - y.shape[a] + 1
    return _centred(full, shape)
