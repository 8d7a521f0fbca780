"""`stax.numpy.fft`: NumPy's discrete Fourier transforms on arrays and traced values."""

from __future__ import annotations

from stax.numpy.fft.frequencies import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.fft.transforms import *  # noqa: F403 - its __all__ is the list of names
