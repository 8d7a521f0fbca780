"""dtypes: NumPy's, plus bfloat16, with NumPy 2 promotion in which Python scalars are weak.

Input: dtypes, values and "weak" exemplars; output: the dtype NumPy itself would give.  A weak
operand (a Python scalar, or a traced value that stands for one) never widens a strong one of
its own kind or higher; this is NEP 50, and NumPy's own `result_type` decides every case that it
knows.  Short names (`f32`, `i64`, ...) are the ones printed in the IR.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

DType: TypeAlias = "np.dtype[Any]"

bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
float8_e4m3fn: DType = np.dtype(ml_dtypes.float8_e4m3fn)
float0: DType = np.dtype([("float0", np.void, 0)])
FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)

SHORT_NAMES: dict[DType, str] = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "f16",
    bfloat16: "bf16",
    float8_e4m3fn: "f8e4m3fn",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "c64",
    np.dtype(np.complex128): "c128",
    float0: "float0",
}
BY_SHORT_NAME: dict[str, DType] = {name: dtype for dtype, name in SHORT_NAMES.items()}

WEAK_EXEMPLARS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
WEAK_DTYPES: dict[type, DType] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
_EXTENSION_FLOATS = frozenset({bfloat16, float8_e4m3fn})


def short_name(dtype: DType) -> str:
    """The name printed in the IR: `f32` for float32."""
    return SHORT_NAMES.get(dtype) or str(dtype)


def is_float(dtype: DType) -> bool:
    """True for real floating dtypes, bfloat16 included."""
    return dtype.kind == "f" or dtype in _EXTENSION_FLOATS


def is_complex(dtype: DType) -> bool:
    """True for complex64 and complex128."""
    return dtype.kind == "c"


def is_inexact(dtype: DType) -> bool:
    """True for the dtypes that carry derivatives: real and complex floating ones."""
    return is_float(dtype) or dtype.kind == "c"


def is_integer(dtype: DType) -> bool:
    """True for signed and unsigned integers; bool is not one."""
    return dtype.kind in "iu"


def is_supported(dtype: DType) -> bool:
    """True when values of this dtype can be traced."""
    return dtype in SHORT_NAMES


def untraceable_hint(dtype: DType) -> str:
    """What to do with an array of a dtype that cannot be traced."""
    if dtype.names:
        return f"pass its fields, x[{dtype.names[0]!r}] and so on, as arrays of their own"
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return {
        "O": "convert it to an array of numbers: x.astype(float)",
        "U": "keep text outside of traced functions, or give each word a number",
        "S": "keep text outside of traced functions, or read its bytes: x.view(np.uint8)",
        "M": "count in a unit of time from a day of your choice: (x - day).astype(np.int64)",
        "m": "count in its unit of time: x.astype(np.int64)",
        "V": "read its bytes: x.view(np.uint8)",
    }.get(dtype.kind, f"convert it: x.astype(np.{wide.__name__})")


def is_half(dtype: DType) -> bool:
    """True for the 16-bit and smaller floats, whose arithmetic is done in float32."""
    return is_float(dtype) and dtype.itemsize <= 2


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums of `dtype` are carried: float32 for the half types, else itself."""
    return np.dtype(np.float32) if is_half(dtype) else dtype


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of a tangent: the primal's for inexact values, float0 otherwise."""
    return dtype if is_inexact(dtype) else float0


def to_inexact(dtype: DType) -> DType:
    """The floating dtype NumPy's float functions give for `dtype` (int8 -> float16, ...)."""
    if is_inexact(dtype):
        return dtype
    if dtype.itemsize == 1:
        return np.dtype(np.float16)
    return np.dtype(np.float32) if dtype.itemsize == 2 else np.dtype(np.float64)


def real_part_dtype(dtype: DType) -> DType:
    """float32 for complex64, float64 for complex128, any other dtype unchanged."""
    if dtype.kind != "c":
        return dtype
    return np.dtype(np.float32) if dtype.itemsize == 8 else np.dtype(np.float64)


def promote(dtypes: Iterable[DType], weak: Iterable[DType] = ()) -> DType:
    """NumPy 2's common dtype of strong `dtypes` and weak ones (those of Python scalars)."""
    strong = list(dtypes)
    scalars = list(weak)
    if not strong:
        return np.result_type(*scalars)
    common = strong[0]
    for dtype in strong[1:]:
        if dtype != common:
            common = _promote_two(common, dtype)
    if not scalars:
        return common
    if common in _EXTENSION_FLOATS:
        if any(dtype.kind == "c" for dtype in scalars):
            return np.dtype(np.complex64)
        return common
    return np.result_type(common, *(WEAK_EXEMPLARS[dtype.kind] for dtype in scalars))


def _promote_two(a: DType, b: DType) -> DType:
    if a in _EXTENSION_FLOATS or b in _EXTENSION_FLOATS:
        half, other = (a, b) if a in _EXTENSION_FLOATS else (b, a)
        if other.kind in "biu":
            return half
        if other == np.float16 or other in _EXTENSION_FLOATS:
            return np.dtype(np.float32)
    return np.promote_types(a, b)


# Names of JAX's module of the same name; 64-bit dtypes are always there.
def iinfo(int_type: Any) -> Any:
    """Limits of an integer dtype, those of four bits included, or of an array's dtype.

    >>> iinfo(np.ones(3, np.int8)).max
    127
    """
    found: Any = ml_dtypes.iinfo
    return found(_own_dtype(int_type))


def finfo(dtype: Any) -> Any:
    """Limits of a floating dtype, bfloat16 and float8 included, or of an array's dtype.

    >>> float(finfo(bfloat16).eps)
    0.0078125
    """
    found: Any = ml_dtypes.finfo
    return found(_own_dtype(dtype))


def _own_dtype(value: Any) -> Any:
    """The dtype of an array; anything else, a class among them, as it is."""
    of_array = not isinstance(value, type) and hasattr(value, "dtype")
    return value.dtype if of_array else value


class extended(np.generic):
    """The kind of dtypes that are no numbers: that of keys."""


class prng_key(extended):
    """The kind of the dtype of keys that `random.key` makes."""


class KeyDtype:
    """The dtype of arrays of keys; there is one, `key<fry>`."""

    __slots__ = ()
    name = "key<fry>"
    type = prng_key
    itemsize = 8
    kind = "V"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "KEY_DTYPE"


KEY_DTYPE = KeyDtype()


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype in which values of `dtype` are kept: itself."""
    found: DType = np.dtype(dtype)
    return found


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether dtype `arg1` is of the kind `arg2`; bfloat16 and float8 are floating.

    >>> issubdtype(bfloat16, np.floating)
    True
    """
    a, b = arg1, arg2
    if isinstance(a, KeyDtype):
        return isinstance(b, type) and issubclass(prng_key, b)
    if isinstance(b, KeyDtype):
        return False
    if isinstance(a, type) and issubclass(a, np.generic) and a.__module__ == "numpy":
        return np.issubdtype(a, b)
    found = np.dtype(a)
    kind = np.float16 if is_float(found) and found.kind == "V" else a
    return np.issubdtype(kind, b) or (isinstance(b, type) and found.type is b)
