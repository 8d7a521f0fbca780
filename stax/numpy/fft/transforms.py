"""`numpy.fft` transforms: fft, rfft, hfft, their inverses, and the forms over several axes.

Input: an array, the lengths to cut or pad to with zeros, the axes, the normalisation ("backward",
"ortho", "forward").  Output: NumPy's transform, in NumPy's dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_complex, is_half
from stax.errors import ShapeError
from stax.numpy.inexact import as_library_takes_them
from stax.numpy.registration import axis_index, converted, deliver, implements
from stax.primitives import elementwise as el
from stax.primitives import fft as rows
from stax.primitives.shapes import pad, scalar_zero

__all__ = [
    "fft",
    "fft2",
    "fftn",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]

Array = Any
_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _input(a: Any, op: str, complex_input: bool) -> Array:
    (x,) = as_library_takes_them(op, a)
    dtype = aval_of(x).dtype
    if is_half(dtype):
        x = converted(x, np.dtype(np.float32))
        dtype = x.dtype
    if complex_input and not is_complex(dtype):
        x = converted(x, rows.complex_of(dtype))
    return x


def _lengths_and_axes(
    shape: Sequence[int], s: Any, axes: Any, op: str
) -> tuple[list[int], tuple[int, ...]]:
    """How many points each transformed axis has, -1 in `s` meaning all of it."""
    ndim = len(shape)
    if s is None:
        chosen = range(ndim) if axes is None else axes
        found = tuple(axis_index(a, ndim, op) for a in chosen)
        return [shape[a] for a in found], found
    lengths = [operator.index(n) for n in s]
    chosen = range(-len(lengths), 0) if axes is None else axes
    found = tuple(axis_index(a, ndim, op) for a in chosen)
    if len(found) != len(lengths):
        raise ValueError("Shape and axes have different lengths.")
    return [shape[a] if n == -1 else n for n, a in zip(lengths, found, strict=True)], found


def _fitted(x: Array, lengths: Sequence[int], axes: Sequence[int], op: str) -> Array:
    """`x` cut or padded with zeros to `lengths` along `axes`."""
    high = [0] * len(x.shape)
    for n, axis in zip(lengths, axes, strict=True):
        if n < 1:
            raise ShapeError(
                f"Invalid number of FFT data points ({n}) specified.",
                op=op,
                operands=[str(aval_of(x))],
                where=user_source() or None,
            )
        high[axis] = n - x.shape[axis]
    return pad(x, scalar_zero(x.dtype), [0] * len(high), high)


def _normalised(x: Array, points: int, norm: str | None, inverse: bool) -> Array:
    if norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        factor = 1 / math.sqrt(points)
    elif (norm == "forward") != inverse:
        factor = 1 / points
    else:
        return x
    return el.mul(x, x.dtype.type(factor))


def _complex(
    a: Any, s: Any, axes: Any, norm: str | None, inverse: bool, op: str, out: Any = None
) -> Array:
    x = _input(a, op, complex_input=True)
    lengths, found = _lengths_and_axes(x.shape, s, axes, op)
    x = _fitted(x, lengths, found, op)
    if len(set(found)) == len(found):
        value = rows.fft(x, found, inverse)
    else:
        # An axis that is named twice is transformed twice, as in NumPy.
        value = x
        for axis in reversed(found):
            value = rows.fft(value, (axis,), inverse)
    return deliver(_normalised(value, math.prod(lengths), norm, inverse), out, op)


def _real(a: Any, s: Any, axes: Any, norm: str | None, op: str, out: Any = None) -> Array:
    x = _input(a, op, complex_input=False)
    if is_complex(x.dtype):
        raise TypeError(f"{op} takes real values; use fft for complex ones")
    lengths, found = _lengths_and_axes(x.shape, s, axes, op)
    value = rows.rfft(_fitted(x, lengths, found, op), found)
    return deliver(_normalised(value, math.prod(lengths), norm, False), out, op)


def _real_inverse(a: Any, s: Any, axes: Any, norm: str | None, op: str, out: Any = None) -> Array:
    x = _input(a, op, complex_input=True)
    lengths, found = _lengths_and_axes(x.shape, s, axes, op)
    if s is None or s[-1] == -1:
        lengths[-1] = 2 * (x.shape[found[-1]] - 1)
    n = lengths[-1]
    value = rows.irfft(_fitted(x, [*lengths[:-1], n // 2 + 1], found, op), found, n)
    value = _normalised(value, math.prod(lengths), norm, True)
    if getattr(a, "dtype", None) == np.float16:
        value = converted(value, a.dtype)  # NumPy's result has the dtype of the real part
    return deliver(value, out, op)


def _one(n: Any) -> Any:
    return None if n is None else (n,)


@implements(np.fft.fft)
def fft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The transform along an axis; as `numpy.fft.fft`."""
    return _complex(a, _one(n), (axis,), norm, False, "fft", out)


@implements(np.fft.ifft)
def ifft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The inverse transform along an axis; as `numpy.fft.ifft`."""
    return _complex(a, _one(n), (axis,), norm, True, "ifft", out)


@implements(np.fft.rfft)
def rfft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The transform of real values, non-negative frequencies; as `numpy.fft.rfft`."""
    return _real(a, _one(n), (axis,), norm, "rfft", out)


@implements(np.fft.irfft)
def irfft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The inverse of `rfft`; as `numpy.fft.irfft`."""
    return _real_inverse(a, _one(n), (axis,), norm, "irfft", out)


@implements(np.fft.hfft)
def hfft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The real transform of a signal given by its Hermitian half; as `numpy.fft.hfft`."""
    x = el.conj(_input(a, "hfft", complex_input=True))
    if norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return _real_inverse(x, _one(n), (axis,), _OPPOSITE[norm], "hfft", out)


@implements(np.fft.ihfft)
def ihfft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Array:
    """The inverse of `hfft`; as `numpy.fft.ihfft`."""
    if norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return deliver(el.conj(_real(a, _one(n), (axis,), _OPPOSITE[norm], "ihfft")), out, "ihfft")


@implements(np.fft.fftn)
def fftn(a: Array, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Array:
    """The transform over several axes; as `numpy.fft.fftn`."""
    return _complex(a, s, axes, norm, False, "fftn", out)


@implements(np.fft.ifftn)
def ifftn(a: Array, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Array:
    """The inverse of `fftn`; as `numpy.fft.ifftn`."""
    return _complex(a, s, axes, norm, True, "ifftn", out)


@implements(np.fft.rfftn)
def rfftn(a: Array, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Array:
    """The transform of real values over several axes; as `numpy.fft.rfftn`."""
    return _real(a, s, axes, norm, "rfftn", out)


@implements(np.fft.irfftn)
def irfftn(a: Array, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Array:
    """The inverse of `rfftn`; as `numpy.fft.irfftn`."""
    return _real_inverse(a, s, axes, norm, "irfftn", out)


def _planar(name: str, over: Callable[..., Array]) -> Callable[..., Array]:
    """The form over the last two axes."""

    def transform(
        a: Array, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None
    ) -> Array:
        return over(a, s, axes, norm, out)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"`{over.__name__}` over two axes; as `numpy.fft.{name}`."
    return implements(getattr(np.fft, name))(transform)


fft2 = _planar("fft2", fftn)
ifft2 = _planar("ifft2", ifftn)
rfft2 = _planar("rfft2", rfftn)
irfft2 = _planar("irfft2", irfftn)
