"""Fourier transforms: one row for the complex transform, one each for the real ones.

Input: a value and the axes to transform, whose extents are the lengths (the surface cuts and
pads).  Output: unnormalised sums over exp(-2 pi i jk / n), or exp(+...) for the inverse, divided
by nothing: the surface scales.  All are linear.  The complex transform is its own transpose.
`rfft` keeps the non-negative frequencies of the last axis; its transpose is the real part of a
complex transform of the padded cotangent; `irfft` is its counterpart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Linear, Primitive, Recompute, Rule, Zero
from stax.core.trace import bind1
from stax.dtypes import is_complex
from stax.errors import DtypeError, ShapeError
from stax.loops import library
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families_arrays import check_axes, shifted
from stax.primitives.linalg_algebra import real_dtype
from stax.primitives.shapes import pad, scalar_zero, slice_axis

Axes = tuple[int, ...]
_SUPPORTED = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def complex_of(dtype: Any) -> Any:
    """The complex dtype of the same precision."""
    return np.dtype(np.result_type(dtype, np.complex64))


def _check(op: str, x: Aval, axes: Axes, complex_input: bool) -> None:
    check_axes(axes, x, op)
    if x.dtype not in _SUPPORTED or is_complex(x.dtype) != complex_input:
        raise DtypeError(
            f"needs an operand of {'complex' if complex_input else 'float'} dtype, "
            "in single or double precision",
            op=op,
            operands=[x],
        )
    if any(x.shape[a] == 0 for a in axes):
        raise ShapeError("Invalid number of FFT data points (0) specified.", op=op, operands=[x])


def _cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any) -> int:
    sizes = [max(2, in_avals[0].shape[a]) for a in params["axes"]]
    return int(5 * in_avals[0].size * math.log2(math.prod(sizes) if sizes else 2))


def _row(name: str, abstract_eval: Rule, impl: Rule, transposed: Rule) -> Primitive:
    """A linear row over axes."""

    def jvp(primals: Any, out: Any, tangents: Any, **params: Any) -> Any:
        return bind1(row, tangents[0], **params)

    def transpose(ct: Any, x: Any, **params: Any) -> tuple[Any]:
        assert isinstance(x, Linear)
        return (Zero(x.aval) if isinstance(ct, Zero) else transposed(ct, x.aval, **params),)

    def batch(args: Any, dims: Any, *, axes: Axes, **params: Any) -> tuple[Any, int]:
        return bind1(row, args[0], axes=shifted(axes, dims[0]), **params), dims[0]

    row = Primitive(
        name,
        family="fft",
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=library.fourier(name),
        cost=_cost,
        recompute=Recompute.EXPENSIVE,
    )
    return row


# ------------------------------------------------------------------------- complex transform


def _fft_aval(x: Aval, *, axes: Axes, inverse: bool) -> Aval:
    _check("fft", x, axes, complex_input=True)
    return x.strong()


def _fft_impl(x: Any, *, axes: Axes, inverse: bool) -> Any:
    if not axes:
        return x
    if inverse:
        return np.fft.ifftn(x, axes=axes, norm="forward")
    return np.fft.fftn(x, axes=axes)


fft_p: Primitive = _row(
    "fft",
    _fft_aval,
    _fft_impl,
    lambda ct, aval, **params: bind1(fft_p, ct, **params),
)


def fft(x: Any, axes: Sequence[int], inverse: bool = False) -> Any:
    """The unnormalised transform of a complex `x` over distinct `axes`."""
    axes = tuple(axes)
    return bind1(fft_p, x, axes=axes, inverse=inverse) if axes else x


# ---------------------------------------------------------------------------- real transforms


def _rfft_aval(x: Aval, *, axes: Axes) -> Aval:
    _check("rfft", x, axes, complex_input=False)
    shape = list(x.shape)
    shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    return Aval(tuple(shape), complex_of(x.dtype))


def _rfft_transpose(ct: Any, aval: Aval, *, axes: Axes) -> Any:
    last = axes[-1]
    high = [0] * aval.ndim
    high[last] = aval.shape[last] - ct.shape[last]
    full = pad(ct, scalar_zero(ct.dtype), [0] * aval.ndim, high)
    return el.real(fft(full, axes))


rfft_p = _row(
    "rfft",
    _rfft_aval,
    lambda x, *, axes: np.fft.rfftn(x, axes=axes),
    _rfft_transpose,
)


def rfft(x: Any, axes: Sequence[int]) -> Any:
    """The unnormalised transform of a real `x`, halved along the last of `axes`."""
    return bind1(rfft_p, x, axes=tuple(axes))


def _irfft_aval(x: Aval, *, axes: Axes, n: int) -> Aval:
    _check("irfft", x, axes, complex_input=True)
    if n < 1 or x.shape[axes[-1]] != n // 2 + 1:
        raise ShapeError(
            f"a result of {n} points needs {n // 2 + 1} frequencies", op="irfft", operands=[x]
        )
    shape = list(x.shape)
    shape[axes[-1]] = n
    return Aval(tuple(shape), real_dtype(x.dtype))


def _irfft_impl(x: Any, *, axes: Axes, n: int) -> Any:
    lengths = [*(x.shape[a] for a in axes[:-1]), n]
    return np.fft.irfftn(x, s=lengths, axes=axes, norm="forward")


def _irfft_transpose(ct: Any, aval: Aval, *, axes: Axes, n: int) -> Any:
    # x -> Re sum_k m_k x_k exp(+2 pi i jk / n), with m = 2 but for frequency 0 and n / 2.
    last, kept = axes[-1], n // 2 + 1
    twice = np.full(kept, 2, ct.dtype)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    spectrum = fft(convert(ct, complex_of(ct.dtype)), axes, inverse=True)
    half = slice_axis(spectrum, last, 0, kept)
    shape = [1] * aval.ndim
    shape[last] = kept
    return el.mul(half, twice.astype(half.dtype).reshape(shape))


irfft_p = _row("irfft", _irfft_aval, _irfft_impl, _irfft_transpose)


def irfft(x: Any, axes: Sequence[int], n: int) -> Any:
    """The unnormalised real inverse transform, of `n` points along the last of `axes`."""
    axes = tuple(axes)
    if aval_of(x).shape[axes[-1]] != n // 2 + 1:
        raise ShapeError(f"a result of {n} points needs {n // 2 + 1} frequencies", op="irfft")
    return bind1(irfft_p, x, axes=axes, n=n)
