"""Casts: change of dtype, reinterpretation of bits, and the gradient barrier.

Input: a value and a dtype.  Output: rows `convert`, `bitcast`, `stop_gradient` and the functions
that bind them.  A conversion between inexact dtypes is linear; one to or from integers has no
tangent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import ZERO_DERIVATIVE, Zero
from stax.core.trace import bind1
from stax.dtypes import DType, is_complex, is_inexact, is_supported
from stax.errors import DtypeError
from stax.loops.ops import ops
from stax.primitives.elementwise import real
from stax.primitives.families import unary


def _convert_aval(x: Aval, *, dtype: DType) -> Aval:
    if not is_supported(dtype) or not is_supported(x.dtype):
        raise DtypeError(f"cannot convert {x.dtype} to {dtype}", op="convert", operands=[str(x)])
    return Aval(x.shape, dtype)


def _convert_impl(x: Any, *, dtype: DType) -> Any:
    x = np.asarray(x)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    return x.astype(dtype)[()]


def _convert_tangent(t: Any, out: Any, x: Any, *, dtype: DType) -> Any:
    return convert(t, dtype) if is_inexact(dtype) else Zero(aval_of(out).tangent())


def _convert_transposed(ct: Any, x: Any, *, dtype: DType) -> Any:
    if is_complex(dtype) and not is_complex(x.aval.dtype):
        ct = real(ct)
    return convert(ct, x.aval.dtype)


def _convert_scalar(x: Any, *, dtype: DType) -> Any:
    if dtype.kind == "b":
        return ops.ne(x, ops.constant(0, ops.dtype_of(x)))
    return ops.cast(x, dtype)


convert_p, _ = unary(
    "convert",
    _convert_impl,
    _convert_tangent,
    accepts="bifc",
    abstract_eval=_convert_aval,
    transposes=(_convert_transposed,),
    scalar=_convert_scalar,
)


def convert(x: Any, dtype: DType) -> Any:
    """`x` as `dtype` (and no longer weak); `x` itself when that changes nothing."""
    aval = aval_of(x)
    if aval.dtype == dtype and not aval.weak:
        return x
    return bind1(convert_p, x, dtype=np.dtype(dtype))


def _bitcast_aval(x: Aval, *, dtype: DType) -> Aval:
    if x.dtype.itemsize != dtype.itemsize:
        raise DtypeError(
            f"cannot read the bits of {x.dtype} as {dtype}: the widths differ",
            op="bitcast",
            operands=[str(x)],
        )
    return Aval(x.shape, dtype)


def _bitcast_impl(x: Any, *, dtype: DType) -> Any:
    array = np.asarray(x)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native.view(dtype)[()]


bitcast_p, _ = unary(
    "bitcast",
    _bitcast_impl,
    ZERO_DERIVATIVE,
    accepts="bifc",
    abstract_eval=_bitcast_aval,
    scalar=lambda x, *, dtype: ops.bitcast(x, dtype),
    widens=False,
)


def bitcast(x: Any, dtype: DType) -> Any:
    """The bits of `x` read as another dtype of the same width."""
    return bind1(bitcast_p, x, dtype=np.dtype(dtype))


stop_gradient_p, stop_gradient = unary(
    "stop_gradient",
    lambda x: x,
    ZERO_DERIVATIVE,
    accepts="bifc",
    weight=0.0,
    scalar=lambda x: x,
    jumps=False,
)
