"""`numpy.fft` frequencies: fftfreq and rfftfreq, and the shifts of zero frequency to the centre."""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.trace import Tracer, as_traced
from stax.numpy.rearranging import roll
from stax.numpy.registration import axes_tuple, check_device, implements, operand
from stax.numpy.ufuncs import divide, multiply

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

Array = Any


def _frequencies(make: Any, n: int, d: Any, dtype: Any) -> Array:
    if isinstance(d, Tracer):
        out = multiply(make(n, 1.0 / n), divide(1.0, multiply(d, float(n))))
    else:
        out = as_traced(make(n, d))
    return out if dtype is None else out.astype(dtype)


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """The frequencies of the points of `fft`; as `numpy.fft.fftfreq`."""
    check_device(device, "fftfreq")
    return _frequencies(np.fft.fftfreq, n, d, dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """The frequencies of the points of `rfft`; as `numpy.fft.rfftfreq`."""
    check_device(device, "rfftfreq")
    return _frequencies(np.fft.rfftfreq, n, d, dtype)


def _shifted(x: Array, axes: Any, op: str, inverse: bool) -> Array:
    value = operand(x, op)
    chosen = axes_tuple(tuple(axes) if isinstance(axes, list) else axes, len(value.shape), op)
    half = [value.shape[a] // 2 for a in chosen]
    return roll(value, [-h for h in half] if inverse else half, chosen)


@implements(np.fft.fftshift)
def fftshift(x: Array, axes: Any = None) -> Array:
    """Zero frequency moved to the centre; as `numpy.fft.fftshift`."""
    return _shifted(x, axes, "fftshift", inverse=False)


@implements(np.fft.ifftshift)
def ifftshift(x: Array, axes: Any = None) -> Array:
    """The inverse of `fftshift`; as `numpy.fft.ifftshift`."""
    return _shifted(x, axes, "ifftshift", inverse=True)
