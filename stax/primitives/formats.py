"""Rounding to floating-point formats of fewer bits, in the dtype of the operand.

Input: a float and the numbers of exponent and mantissa bits.  Output: the nearest value of the
format, ties to even; beyond its range infinity, below its normal numbers zero, as XLA has it.  The
words of the float are rounded, by NumPy and in loop bodies by the same statements.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import FLOAT32, FLOAT64, DType, is_half
from stax.loops.ops import ops
from stax.primitives.families import linear_unary

# Of each type that is computed in: its words, and the bits of exponent and mantissa.
_LAYOUT: dict[DType, tuple[DType, int, int]] = {
    FLOAT32: (np.dtype(np.uint32), 8, 23),
    FLOAT64: (np.dtype(np.uint64), 11, 52),
}
_FLOAT16_EXPONENT = 5
_NUMPY = SimpleNamespace(
    add=np.add,
    bitwise_and=np.bitwise_and,
    bitwise_or=np.bitwise_or,
    shift_right=np.right_shift,
    where=np.where,
    gt=np.greater,
    le=np.less_equal,
    ne=np.not_equal,
)


def _rounded(
    o: Any, constant: Any, x: Any, words: Any, of: DType, exponent: int, mantissa: int
) -> Any:
    """The words of the rounded `x`, by the operations `o`; `x` tells which are NaN."""
    _, width, fraction = _LAYOUT[of]
    kept = words
    if mantissa < fraction:
        cut = fraction - mantissa
        odd = o.bitwise_and(o.shift_right(words, constant(cut)), constant(1))
        up = o.add(words, o.add(odd, constant((1 << (cut - 1)) - 1)))
        everything = (1 << (1 + width + fraction)) - 1
        kept = o.bitwise_and(up, constant(everything ^ ((1 << cut) - 1)))
    if exponent < width:
        sign = o.bitwise_and(words, constant(1 << (width + fraction)))
        bias, own = (1 << (exponent - 1)) - 1, (1 << (width - 1)) - 1
        infinity = ((1 << width) - 1) << fraction
        scale = o.bitwise_and(kept, constant(infinity))
        above = o.gt(scale, constant((own + bias) << fraction))
        below = o.le(scale, constant((own - bias) << fraction))
        kept = o.where(above, o.bitwise_or(sign, constant(infinity)), o.where(below, sign, kept))
    return o.where(o.ne(x, x), words, kept)


def _impl(x: Any, *, exponent: int, mantissa: int) -> Any:
    x = np.asarray(x)
    wide = x.astype(FLOAT32) if is_half(x.dtype) else x.astype(x.dtype.newbyteorder("="))
    kind = _LAYOUT[wide.dtype][0]
    out = _rounded(_NUMPY, kind.type, wide, wide.view(kind), wide.dtype, exponent, mantissa)
    return np.asarray(out, kind).view(wide.dtype).astype(x.dtype)[()]


def _scalar(x: Any, *, exponent: int, mantissa: int) -> Any:
    of = ops.dtype_of(x)
    kind = _LAYOUT[of][0]

    def constant(value: int) -> Any:
        return ops.constant(value, kind)

    words = ops.bitcast(x, kind)
    return ops.bitcast(_rounded(ops, constant, x, words, of, exponent, mantissa), of)


def _same(ct: Any, x: Any, **bits: int) -> Any:
    return reduce_precision(ct, **bits)


reduce_precision_p, _reduce_precision = linear_unary(
    "reduce_precision", _impl, _same, accepts="f", scalar=_scalar, weight=12.0, jumps=True
)


def reduce_precision(x: Any, *, exponent: int, mantissa: int) -> Any:
    """`x` rounded to a format; float16 is computed in float32, whose exponents it may keep."""
    if aval_of(x).dtype == np.float16 and exponent >= _FLOAT16_EXPONENT:
        exponent = _LAYOUT[FLOAT32][1]
    return _reduce_precision(x, exponent=exponent, mantissa=mantissa)
