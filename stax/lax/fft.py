"""`stax.lax`, Fourier transforms: fft, under JAX's names.

Input: an array, the kind of transform, and the lengths of its trailing axes.  Output: the
transform over those axes; the inverse kinds are divided by the number of points.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any

from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy import fft as transforms
from stax.numpy.registration import operand as as_operand

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """The kinds of transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_KINDS = {
    FftType.FFT: transforms.fftn,
    FftType.IFFT: transforms.ifftn,
    FftType.RFFT: transforms.rfftn,
    FftType.IRFFT: transforms.irfftn,
}


def fft(x: Any, fft_type: FftType | str | int, fft_lengths: Sequence[int]) -> Any:
    """The transform of the last `len(fft_lengths)` axes.

    Args:
      fft_type: a `FftType` or its name.
      fft_lengths: the number of points of each axis, those of the result for IRFFT.

    Raises:
      ShapeError: the operand's trailing axes do not have these lengths.
    """
    kind = FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(fft_type)
    lengths = tuple(operator.index(n) for n in fft_lengths)
    value = as_operand(x, "fft")
    trailing = tuple(value.shape[len(value.shape) - len(lengths) :])
    want = lengths
    if kind is FftType.IRFFT and lengths:
        want = (*lengths[:-1], lengths[-1] // 2 + 1)
    if trailing != want:
        raise ShapeError(
            f"{kind.name} over lengths {lengths} needs trailing axes {want}, got {trailing}",
            op="fft",
            where=user_source() or None,
        )
    if not lengths:
        return value
    return _KINDS[kind](value, s=lengths, axes=tuple(range(-len(lengths), 0)))
