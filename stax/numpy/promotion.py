"""Promotion: NumPy 2's rules for mixed operands, with traced values among them.

Input: the arguments of a NumPy function (arrays, scalars, lists, tracers).  Output: values of the
dtypes in which NumPy would compute, so that the elementwise rows see equal dtypes.  NumPy's own
`ufunc.resolve_dtypes` decides; Python scalars, and tracers that stand for one, are weak (NEP 50).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Remote, aval_of, check_meaning
from stax.core.source import user_source
from stax.core.trace import EVAL, STATE, Tracer
from stax.dtypes import (
    BY_SHORT_NAME,
    WEAK_DTYPES,
    DType,
    bfloat16,
    float8_e4m3fn,
    is_supported,
    promote,
    untraceable_hint,
)
from stax.errors import DtypeError, RangeError, ShapeError
from stax.primitives.casts import convert
from stax.primitives.families import kind_of
from stax.primitives.shapes import concatenate
from stax.primitives.views import reshape

_PYTHON_TYPES: dict[str, Any] = {"i": int, "f": float, "c": complex}
_EXTENSIONS = frozenset({bfloat16, float8_e4m3fn})


def has_tracer(values: Sequence[Any]) -> bool:
    """True when one of `values` is a tracer."""
    for value in values:
        if isinstance(value, Tracer):
            return True
    return False


def is_plain(values: Sequence[Any]) -> bool:
    """True when NumPy itself can compute: no transformation runs and no value is traced."""
    return STATE.trace is EVAL and not has_tracer(values)


def array_like(value: Any, op: str) -> Any:
    """A tracer, NumPy array or scalar, or Python scalar; other array-likes become arrays.

    Raises:
      DtypeError: the value cannot be traced (strings, objects, dates).
    """
    if isinstance(value, Tracer) or type(value) in WEAK_DTYPES:
        return value
    if not isinstance(value, np.ndarray | np.generic):
        if isinstance(value, list | tuple) and has_nested_tracer(value):
            return nested_array(value)
        if isinstance(value, Remote):
            return STATE.trace.lift(value)
        value = np.asarray(value)
    check_meaning(value)
    if not is_supported(value.dtype) and not is_supported(value.dtype.newbyteorder("=")):
        raise DtypeError(
            f"values of dtype {value.dtype} cannot be traced",
            op=op,
            where=user_source() or None,
            hint=untraceable_hint(value.dtype),
        )
    return value


def has_nested_tracer(value: Any) -> bool:
    """True when a nest of lists and tuples holds a tracer."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Tracer):
            return True
        if isinstance(item, list | tuple):
            pending.extend(item)
    return False


def nested_array(value: Any) -> Any:
    """The array of a nest of lists that holds traced values."""
    if not isinstance(value, list | tuple):
        return value
    if not has_nested_tracer(value):
        return np.asarray(value)
    parts = [nested_array(v) for v in value]
    first = aval_of(array_like(parts[0], "array")).shape
    parts = coerce(*(array_like(p, "array") for p in parts))
    for part in parts:
        if aval_of(part).shape != first:
            raise ShapeError(
                "the array would have an inhomogeneous shape: "
                f"parts of shapes {first} and {aval_of(part).shape}",
                op="array",
                where=user_source() or None,
            )
    return concatenate([reshape(strong(p), (1, *first)) for p in parts], 0)


def strong(value: Any) -> Any:
    """`value`, no longer weak."""
    aval = aval_of(value)
    if not aval.weak:
        return value
    if isinstance(value, Tracer):
        return convert(value, aval.dtype)
    return aval.dtype.type(value)


def dtype_key(value: Any) -> Any:
    """The dtype of a strong value; `int`, `float` or `complex` for a weak one."""
    aval = aval_of(value)
    return _PYTHON_TYPES.get(aval.dtype.kind, aval.dtype) if aval.weak else aval.dtype


def as_dtype(value: Any, dtype: DType, op: str | None = None) -> Any:
    """`value` converted to `dtype`; a Python scalar becomes a NumPy scalar.

    Raises:
      RangeError: a Python number does not fit, as in NumPy.
    """
    if isinstance(value, Tracer | Remote):
        return value if value.aval.dtype == dtype else convert(value, dtype)
    if isinstance(value, np.ndarray | np.generic):
        return value if value.dtype == dtype else value.astype(dtype)
    try:
        with np.errstate(all="ignore"):
            return dtype.type(value)
    except (OverflowError, TypeError, ValueError) as error:
        raise _does_not_fit(error, value, dtype, op) from None


def stored(value: Any, dtype: DType, op: str) -> Any:
    """`value` as an assignment stores it in elements of `dtype`; traced values stay as they are.

    NumPy's own assignment decides: arrays are converted like `astype`, Python numbers must fit.

    Raises:
      RangeError: a number does not fit: too large, NaN for an integer, complex for a real.
    """
    plain = array_like(value, op)
    if isinstance(plain, Tracer):
        return plain
    out = np.empty(np.shape(plain), dtype)
    try:
        with np.errstate(all="ignore"):
            out[...] = value
    except (OverflowError, TypeError, ValueError) as error:
        raise _does_not_fit(error, value, dtype, op) from None
    return out[()]


def _does_not_fit(error: Exception, value: Any, dtype: DType, op: str | None) -> RangeError:
    return RangeError(
        f"a number does not fit in {dtype}: {error}",
        op=op,
        operands=[f"{type(value).__name__} {value!r}"[:80]],
        where=user_source() or None,
        hint="use a wider dtype (x.astype), or convert the number to an array of this one first",
    )


_LOOPS: dict[Any, tuple[DType, ...]] = {}


def loop_dtypes(
    ufunc: np.ufunc, keys: Sequence[Any], dtype: Any = None, casting: str = "same_kind"
) -> tuple[DType, ...]:
    """Dtypes of the operands and results with which `ufunc` computes, for operands of `keys`.

    A key is a dtype, or `int`, `float`, `complex` for a weak operand.

    Raises:
      DtypeError: NumPy has no such loop.
    """
    key = (ufunc, *keys, dtype, casting)
    found = _LOOPS.get(key)
    if found is None:
        found = _LOOPS[key] = _resolve(ufunc, keys, dtype, casting)
    return found


def _resolve(ufunc: np.ufunc, keys: Sequence[Any], dtype: Any, casting: str) -> tuple[DType, ...]:
    if any(k in _EXTENSIONS for k in keys if isinstance(k, np.dtype)):
        strong = [k for k in keys if isinstance(k, np.dtype)]
        weak = [WEAK_DTYPES[k] for k in keys if not isinstance(k, np.dtype)]
        keys = [promote(strong, weak)] * len(keys)
    elif all(not isinstance(k, np.dtype) for k in keys):
        keys = [WEAK_DTYPES[k] for k in keys]
    options: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        outputs = (np.dtype(dtype), *(None,) * (ufunc.nout - 1))
        options["signature"] = (*(None,) * ufunc.nin, *outputs)
    try:
        return ufunc.resolve_dtypes((*keys, *(None,) * ufunc.nout), **options)
    except TypeError as error:
        raise DtypeError(
            str(error),
            op=ufunc.__name__,
            operands=[str(getattr(k, "__name__", k)) for k in keys],
            where=user_source() or None,
        ) from None


def coerce(*values: Any) -> list[Any]:
    """The values in their common dtype, as `np.add` would promote them.

    When all are weak they stay weak: Python scalars, or tracers that stand for them.
    """
    common = common_dtype(values)
    if all(aval_of(v).weak for v in values):
        return [
            v if isinstance(v, Tracer) and v.dtype == common else _as_weak(v, common)
            for v in values
        ]
    return [as_dtype(v, common) for v in values]


def _as_weak(value: Any, dtype: DType) -> Any:
    if isinstance(value, Tracer):
        return convert(value, dtype)
    return dtype.type(value).item()


def common_dtype(values: Sequence[Any]) -> DType:
    """The dtype NumPy gives to the combination of `values`."""
    strong: list[DType] = []
    weak: list[DType] = []
    for value in values:
        aval = aval_of(value)
        (weak if aval.weak else strong).append(aval.dtype)
    return promote(strong, weak)


def asarray_dtype(dtype: Any) -> DType:
    """A dtype from anything that names one, short names (`bf16`) included, in native byte order.

    Raises:
      DtypeError: values of that dtype cannot be traced.
    """
    found: DType
    try:
        found = np.dtype(dtype)
    except TypeError:
        if not isinstance(dtype, str) or dtype not in BY_SHORT_NAME:
            raise DtypeError(f"{dtype!r} names no dtype") from None
        found = BY_SHORT_NAME[dtype]
    if not found.isnative:
        found = found.newbyteorder("=")
    if not is_supported(found):
        raise DtypeError(
            f"values of dtype {found} cannot be traced",
            hint="name a dtype of numbers that is at most 64 bits wide (complex: 128)",
        )
    return found


_KINDS = {"b": "truth values", "i": "integers", "f": "real floats", "c": "complex numbers"}


def check_kinds(op: str, kinds: str, *values: Any) -> None:
    """Refuse operands of other kinds, which NumPy's version of an operation may take.

    Raises:
      DtypeError: one is of a kind of dtype that is not among `kinds` ("b", "i", "f", "c").
    """
    if not {kind_of(aval_of(v).dtype) for v in values} <= set(kinds):
        raise DtypeError(
            f"takes {' and '.join(_KINDS[k] for k in kinds)}",
            op=op,
            operands=[str(aval_of(v)) for v in values],
            where=user_source() or None,
        )
