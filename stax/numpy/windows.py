"""Window functions of a static length: bartlett, blackman, hamming, hanning, kaiser.

Input: a number of points.  Output: the window, as NumPy gives it; while tracing, a traced value.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stax.core.trace import as_traced

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

Array = Any


def bartlett(M: int) -> Array:
    """The triangular window; as `numpy.bartlett`."""
    return as_traced(np.bartlett(operator.index(M)))


def blackman(M: int) -> Array:
    """The sum of three cosines; as `numpy.blackman`."""
    return as_traced(np.blackman(operator.index(M)))


def hamming(M: int) -> Array:
    """The raised cosine that does not reach zero; as `numpy.hamming`."""
    return as_traced(np.hamming(operator.index(M)))


def hanning(M: int) -> Array:
    """The raised cosine; as `numpy.hanning`."""
    return as_traced(np.hanning(operator.index(M)))


def kaiser(M: int, beta: float) -> Array:
    """The Bessel window of a static shape parameter; as `numpy.kaiser`."""
    return as_traced(np.kaiser(operator.index(M), float(beta)))
