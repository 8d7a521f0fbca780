"""Operands of functions that compute in floating point.

Input: array-likes and tracers.  Output: the same in one floating dtype, the one NumPy's float
functions would use: integers become floating, Python scalars take the dtype of what they meet.
"""

from __future__ import annotations

from typing import Any

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import FLOAT64, is_complex, is_inexact, to_inexact
from stax.errors import DtypeError
from stax.numpy.promotion import array_like, as_dtype, common_dtype


def inexact(op: str, *values: Any) -> list[Any]:
    """`values` in their common floating (or complex) dtype, no longer weak."""
    operands = [array_like(v, op) for v in values]
    dtype = to_inexact(common_dtype(operands))
    return [as_dtype(v, dtype) for v in operands]


def as_library_takes_them(op: str, *values: Any) -> list[Any]:
    """`values` in the common dtype of LAPACK's and FFT's functions: integers are doubles."""
    operands = [array_like(v, op) for v in values]
    floats = [v if is_inexact(aval_of(v).dtype) else as_dtype(v, FLOAT64) for v in operands]
    return inexact(op, *floats)


def floating(op: str, *values: Any) -> list[Any]:
    """`values` in their common real floating dtype.

    Raises:
      DtypeError: one of them is complex.
    """
    operands = inexact(op, *values)
    if is_complex(aval_of(operands[0]).dtype):
        raise DtypeError(
            "is defined here for real numbers",
            op=op,
            operands=[str(aval_of(v)) for v in operands],
            where=user_source() or None,
        )
    return operands
