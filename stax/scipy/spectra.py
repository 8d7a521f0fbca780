"""Spectra of signals, part of `stax.scipy.signal`: detrend, stft, istft, csd, welch.

Input: signals along an axis.  Output: SciPy's numbers.  A signal is cut into overlapping segments,
each is multiplied by a window and Fourier transformed; the spectral density averages their squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.dtypes import is_complex
from stax.numpy.inexact import inexact

__all__ = ["csd", "detrend", "istft", "stft", "welch"]

Array = Any
_WINDOWS: dict[str, Callable[[int], Any]] = {
    "hann": np.hanning,
    "hamming": np.hamming,
    "blackman": np.blackman,
    "bartlett": np.bartlett,
    "boxcar": np.ones,
    "rectangular": np.ones,
}


def _window(window: Any, length: int) -> Any:
    """The window's values: an array as it is, or one period of a named window."""
    if isinstance(window, tuple) and len(window) == 2 and window[0] == "kaiser":
        return np.kaiser(length + 1, window[1])[:-1]
    if isinstance(window, str):
        if window not in _WINDOWS:
            raise ValueError(
                f"unknown window {window!r}; use one of {sorted(_WINDOWS)}, ('kaiser', beta), or "
                "an array of values"
            )
        return np.ones(1) if length == 1 else _WINDOWS[window](length + 1)[:-1]
    return snp.asarray(window)


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: Any = None
) -> Array:
    """The data without their linear trend, or their mean, along `axis`.

    Args:
      data: an array.
      type: "linear" subtracts the least-squares line, "constant" the mean.
      bp: where the pieces begin that have a line of their own.

    Raises:
      ValueError: another type, or break points outside the data.

    >>> np.round(detrend(np.array([1.0, 3.0, 5.0])), 6) + 0.0
    array([0., 0., 0.])
    """
    (x,) = inexact("detrend", data)
    if type in ("constant", "c"):
        return x - snp.mean(x, axis=axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = snp.moveaxis(x, axis, 0)
    size = x.shape[0]
    breaks = sorted({0, *(int(b) for b in np.atleast_1d(bp)), size})
    if breaks[-1] > size or breaks[0] < 0:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    pieces = []
    for start, stop in itertools.pairwise(breaks):
        piece = x[start:stop]
        line = np.arange(1, stop - start + 1) / (stop - start)
        centred = (line - line.mean()).astype(aval_of(x).dtype)
        square = float((centred**2).sum()) or 1.0
        slope = snp.tensordot(centred, piece, axes=((0,), (0,))) / square
        trend = centred.reshape(-1, *(1,) * (len(x.shape) - 1)) * slope
        pieces.append(piece - snp.mean(piece, axis=0, keepdims=True) - trend)
    return snp.moveaxis(snp.concatenate(pieces, axis=0), 0, axis)


class _Plan:
    """How a signal is cut up: the window, and the lengths of segment, overlap and transform."""

    def __init__(self, window: Any, nperseg: Any, noverlap: Any, nfft: Any, size: int) -> None:
        given = None if isinstance(window, str | tuple) else snp.asarray(window)
        if given is not None:
            if len(given.shape) != 1:
                raise ValueError("window must be 1-D")
            if nperseg is not None and nperseg != given.shape[0]:
                raise ValueError("value specified for nperseg is different from length of window")
            nperseg = given.shape[0]
        segment = min(256 if nperseg is None else int(nperseg), size)
        if segment < 1:
            raise ValueError("nperseg must be a positive integer")
        self.segment = segment
        self.overlap = segment // 2 if noverlap is None else int(noverlap)
        self.length = segment if nfft is None else int(nfft)
        if self.length < segment:
            raise ValueError("nfft must be greater than or equal to nperseg.")
        if self.overlap >= segment:
            raise ValueError("noverlap must be less than nperseg.")
        self.window = _window(window if given is None else given, segment)

    @property
    def hop(self) -> int:
        """How far a segment begins after the last."""
        return self.segment - self.overlap

    def frequencies(self, fs: float, onesided: bool) -> Any:
        """The frequency of each row."""
        of = np.fft.rfftfreq if onesided else np.fft.fftfreq
        return of(self.length, 1 / fs)


def _segments(x: Array, plan: _Plan) -> Array:
    """The segments of the last axis: (..., segments, length)."""
    count = (x.shape[-1] - plan.overlap) // plan.hop
    at = np.arange(count)[:, None] * plan.hop + np.arange(plan.segment)
    return x[..., at]


def _transformed(x: Array, plan: _Plan, trend: Any, onesided: bool) -> Array:
    """The transform of every windowed segment: (..., segments, frequencies)."""
    pieces = _segments(x, plan)
    if callable(trend):
        pieces = trend(pieces)
    elif trend:
        pieces = detrend(pieces, type=trend)
    windowed = pieces * snp.asarray(plan.window).astype(aval_of(x).dtype)
    transform = snp.fft.rfft if onesided else snp.fft.fft
    return transform(windowed, plan.length)


_EDGES = {"even": "reflect", "odd": "reflect", "constant": "edge", "zeros": "constant"}


def _extended(x: Array, half: int, boundary: str | None) -> Array:
    if boundary is None:
        return x
    if boundary not in _EDGES:
        raise ValueError(f"Unknown boundary option {boundary!r}; use one of {sorted(_EDGES)}")
    widths = [(0, 0)] * (len(x.shape) - 1) + [(half, half)]
    options = {"reflect_type": "odd"} if boundary == "odd" else {}
    return snp.pad(x, widths, mode=_EDGES[boundary], **options)


def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Array]:
    """The Fourier transforms of a signal's windowed segments.

    Args:
      x: the signal.
      fs: samples per unit of time.
      window: a name ("hann", "hamming", "blackman", "bartlett", "boxcar", ("kaiser", beta)), or an
        array of as many values as a segment has.
      nperseg, noverlap, nfft: the lengths of a segment, of its overlap with the next (half), and of
        its transform.
      detrend: False, "linear", "constant" or a function of the segments.
      boundary: what half a segment before and after is filled with: "zeros", "even", "odd",
        "constant" or None.
      padded: fill the last segment up with zeros.

    Returns:
      The frequencies, the times of the segments' middles, and the transforms, with frequencies in
      the place of `axis` and times last.
    """
    (x,) = inexact("stft", x)
    x = snp.moveaxis(x, axis, -1)
    plan = _Plan(window, nperseg, noverlap, nfft, x.shape[-1])
    x = _extended(x, plan.segment // 2, boundary)
    if padded:
        missing = (-(x.shape[-1] - plan.segment) % plan.hop) % plan.segment
        x = snp.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)])
    onesided = return_onesided and not is_complex(aval_of(x).dtype)
    found = _transformed(x, plan, detrend, onesided) / snp.sum(plan.window)
    times = np.arange(
        plan.segment / 2, x.shape[-1] - plan.segment / 2 + 1, plan.hop, dtype=np.float64
    ) / float(fs)
    if boundary is not None:
        times = times - (plan.segment / 2) / fs
    found = snp.moveaxis(found, -1, axis - 1 if axis < 0 else axis)
    return plan.frequencies(fs, onesided), times, found


def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Array]:
    """The times and the signal whose `stft` is `Zxx`: segments added, divided by their windows.

    Raises:
      ValueError: the lengths do not fit the number of frequencies.
    """
    (Z,) = inexact("istft", Zxx)
    rank = len(Z.shape)
    # Where the times are when the frequencies are gone.
    place = time_axis % rank - (freq_axis % rank < time_axis % rank)
    Z = snp.moveaxis(Z, (time_axis, freq_axis), (-2, -1))
    length = 2 * (Z.shape[-1] - 1) if input_onesided else Z.shape[-1]
    segment = length if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = segment if input_onesided and segment == length + 1 else length
    plan = _Plan(window, segment, noverlap, nfft, segment)
    inverse = snp.fft.irfft if input_onesided else snp.fft.ifft
    pieces = inverse(Z, plan.length)[..., : plan.segment]
    values = snp.asarray(plan.window).astype(np.float64)
    pieces = pieces * values * snp.sum(values)
    count = Z.shape[-2]
    total = plan.segment + (count - 1) * plan.hop
    at = np.arange(count)[:, None] * plan.hop + np.arange(plan.segment)
    out = snp.zeros((*pieces.shape[:-2], total), aval_of(pieces).dtype)
    signal = snp.at(out)[..., at].add(pieces)
    norm = snp.at(snp.zeros(total))[at].add(snp.broadcast_to(values**2, at.shape))
    half = plan.segment // 2 if boundary else 0
    signal, norm = signal[..., half : total - half], norm[half : total - half]
    signal = signal / snp.where(norm > 1e-10, norm, 1.0)
    times = np.arange(signal.shape[-1]) / float(fs)
    return times, snp.moveaxis(signal, -1, place)


def csd(
    x: Any,
    y: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Array]:
    """The frequencies, and the cross power spectral density of two signals by Welch's method.

    Args:
      scaling: "density" (power per frequency) or "spectrum" (power).
      average: "mean" or "median" over the segments.
      others: as for `stft`.

    Source: P. D. Welch, IEEE Trans. Audio Electroacoust. 15 (1967).
    """
    same = y is x or y is None
    (x,) = inexact("csd", x)
    (y,) = (x,) if same else inexact("csd", y)
    x, y = snp.moveaxis(x, axis, -1), snp.moveaxis(y, axis, -1)
    size = max(x.shape[-1], y.shape[-1])
    x, y = (snp.pad(v, [(0, 0)] * (len(v.shape) - 1) + [(0, size - v.shape[-1])]) for v in (x, y))
    plan = _Plan(window, nperseg, noverlap, nfft, size)
    onesided = return_onesided and not any(is_complex(aval_of(v).dtype) for v in (x, y))
    first = _transformed(x, plan, detrend, onesided)
    second = first if same else _transformed(y, plan, detrend, onesided)
    power = snp.conj(first) * second
    if scaling == "density":
        power = power / (fs * snp.sum(plan.window**2))
    elif scaling == "spectrum":
        power = power / snp.sum(plan.window) ** 2
    else:
        raise ValueError(f"Unknown scaling: {scaling!r}; use 'density' or 'spectrum'")
    if onesided:
        # The other half of the spectrum is the mirror image: its power counts here.
        twice = np.full(power.shape[-1], 2.0)
        twice[0] = 1.0
        if plan.length % 2 == 0:
            twice[-1] = 1.0
        power = power * twice
    if same:
        power = snp.real(power)
    if average == "mean":
        power = snp.mean(power, axis=-2)
    elif average == "median":
        power = _median(power) / _median_bias(power.shape[-2])
    else:
        raise ValueError(f"average must be 'median' or 'mean', got {average!r}")
    return plan.frequencies(fs, onesided), snp.moveaxis(power, -1, axis)


def _median(power: Array) -> Array:
    if not is_complex(aval_of(power).dtype):
        return snp.median(power, axis=-2)
    return snp.median(snp.real(power), axis=-2) + 1j * snp.median(snp.imag(power), axis=-2)


def _median_bias(n: int) -> float:
    """The mean of the median of n exponential variables."""
    pairs = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    return float(1 + np.sum(1.0 / (pairs + 1) - 1.0 / pairs))


def welch(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Array]:
    """The frequencies, and the power spectral density of a signal: `csd` of it with itself."""
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip
