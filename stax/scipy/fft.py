"""Cosine transforms, under SciPy's names: `dct`, `idct`, `dctn`, `idctn`.

Input: arrays and the type of the transform, 1 to 4.  Output: SciPy's numbers.  Each type is one
Fourier transform of about twice the length: the elements times a first row of factors, the head of
the transform times a second, of which the real part counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.dtypes import is_complex
from stax.errors import AxisError
from stax.numpy.inexact import inexact

__all__ = ["dct", "dctn", "idct", "idctn"]

Array = Any
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_NORMS = ("backward", "ortho", "forward")


def _factors(kind: int, n: int) -> tuple[Any, int, Any]:
    """The factors before, the length of the Fourier transform, and the factors after."""
    k = np.arange(n)
    twist = np.exp(-0.5j * np.pi * k / n)
    twice = np.where(k == 0, 1.0, 2.0)
    if kind == 1:
        return np.where((k == 0) | (k == n - 1), 1.0, 2.0), 2 * (n - 1), np.ones(n)
    if kind == 2:
        return np.full(n, 2.0), 2 * n, twist
    if kind == 3:
        return twice * twist, 2 * n, np.ones(n)
    return 2.0 * twist, 2 * n, np.exp(-0.25j * np.pi * (2 * k + 1) / n)


def _orthogonal(kind: int, n: int) -> tuple[Any, Any]:
    """What the elements before and after are multiplied with, to make the transform orthogonal."""
    k = np.arange(n)
    if kind == 1:
        end = (k == 0) | (k == n - 1)
        before, after = np.where(end, np.sqrt(2), 1.0), np.where(end, 0.5**0.5, 1.0)
        return before, after / np.sqrt(2 * (n - 1))
    first = np.where(k == 0, 0.5**0.5, 1.0) / np.sqrt(2 * n)
    even = np.ones(n)
    if kind == 2:
        return even, first
    if kind == 3:
        return np.where(k == 0, np.sqrt(2), 1.0), even / np.sqrt(2 * n)
    return even, even / np.sqrt(2 * n)


def _resized(x: Array, n: int | None, axis: int) -> Array:
    """`x` cut, or filled with zeros, to `n` elements along `axis`."""
    length = x.shape[axis]
    if n is None or n == length:
        return x
    if n < 1:
        raise ValueError(f"Invalid number of data points ({n}) specified")
    if n < length:
        return x[(slice(None),) * axis + (slice(0, n),)]
    widths = [(0, n - length if k == axis else 0) for k in range(len(x.shape))]
    return snp.pad(x, widths)


def _transform(x: Array, kind: int, n: int | None, axis: int, norm: str | None, op: str) -> Array:
    if kind not in _INVERSE:
        raise ValueError(f"{op}: type must be 1, 2, 3 or 4, got {kind!r}")
    norm = norm or "backward"
    if norm not in _NORMS:
        raise ValueError(f"{op}: norm must be one of {_NORMS} or None, got {norm!r}")
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise AxisError(f"{op}: axis {axis} is out of bounds for an array of {rank} dimensions")
    axis %= rank
    x = _resized(x, n, axis)
    if is_complex(aval_of(x).dtype):
        real, imag = (_transform(v, kind, None, axis, norm, op) for v in (snp.real(x), snp.imag(x)))
        return real + 1j * imag
    size = x.shape[axis]
    if size < (2 if kind == 1 else 1):
        raise ValueError(f"{op}: {size} elements are too few for a transform of type {kind}")
    dtype = aval_of(x).dtype
    wide = np.result_type(dtype, np.complex64)
    before, length, after = _factors(kind, size)
    if norm == "ortho":
        first, last = _orthogonal(kind, size)
        before, after = before * first, after * last
    elif norm == "forward":
        after = after / length
    shape = [1] * rank
    shape[axis] = size
    exact = np.result_type(dtype, np.float32)
    row = before.reshape(shape).astype(wide if np.iscomplexobj(before) else exact)
    column = after.reshape(shape).astype(wide if np.iscomplexobj(after) else exact)
    transform = snp.fft.fft if np.iscomplexobj(before) else snp.fft.rfft
    spectrum = transform(x * row, length, axis)
    head = spectrum[(slice(None),) * axis + (slice(0, size),)]
    return snp.real(head * column).astype(dtype)


def _inverse_norm(norm: str | None) -> str | None:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Any = None) -> Array:
    """The discrete cosine transform of `x` along `axis`.

    Args:
      x: an array; integers become float64.
      type: 1 to 4, as in SciPy.
      n: the number of elements; more are cut off, missing ones are zeros.
      norm: "backward" (no factor, also None), "ortho" (the transform is orthogonal), "forward".

    Raises:
      ValueError: an unknown type or norm. AxisError: no such axis.

    >>> np.round(dct(np.array([1.0, 2.0, 4.0]), norm="ortho"), 4)
    array([ 4.0415, -2.1213,  0.4082])

    Source: N. Ahmed, T. Natarajan, K. R. Rao, IEEE Trans. Computers C-23 (1974).
    """
    (x,) = inexact("dct", x)
    return _transform(x, type, n, axis, norm, "dct")


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Any = None) -> Array:
    """The array whose `dct` of this type and norm is `x`; arguments as there.

    >>> np.round(idct(dct(np.array([1.0, 2.0, 3.0]))), 6)
    array([1., 2., 3.])
    """
    (x,) = inexact("idct", x)
    return _transform(x, _INVERSE.get(type, type), n, axis, _inverse_norm(norm), "idct")


def _over(x: Any, s: Any, axes: Any, op: str) -> tuple[Sequence[int], Sequence[int | None]]:
    rank = len(aval_of(x).shape)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axes = [axes] if isinstance(axes, int) else list(axes)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes):
        raise ValueError(f"{op}: s has {len(lengths)} lengths for {len(axes)} axes")
    return axes, lengths


def dctn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None) -> Array:
    """The cosine transform over several axes (all): `dct` along each in turn."""
    for axis, n in zip(*_over(x, s, axes, "dctn"), strict=True):
        x = dct(x, type, n, axis, norm)
    return x


def idctn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None) -> Array:
    """The inverse of `dctn`: `idct` along each axis in turn."""
    for axis, n in zip(*_over(x, s, axes, "idctn"), strict=True):
        x = idct(x, type, n, axis, norm)
    return x
