"""NumPy's universal functions, traced or not.

Input: the arguments of `np.add` and its kin.  Output: the same function in `stax.numpy`, which
calls NumPy itself when nothing is traced, and otherwise converts the operands to the dtypes of
NumPy's own loop and binds primitives (`ufunc_rules`).  Importing this module makes `np.sin(tracer)`
work: it fills the table UFUNCS of `core.trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import EVAL, METHODS, STATE, UFUNCS, Tracer
from stax.dtypes import DType
from stax.errors import DtypeError, MutationError
from stax.numpy.promotion import (
    array_like,
    as_dtype,
    asarray_dtype,
    dtype_key,
    is_plain,
    loop_dtypes,
)
from stax.numpy.ufunc_rules import RULES, constant_like, truth
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families import BOOL, literal

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gcd",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "modf",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "spacing",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]

Function = Callable[..., Any]

_ANY_DTYPE = {np.logical_and, np.logical_or, np.logical_xor, np.logical_not}
_COMPARISONS = {
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
}


def traced_ufunc(ufunc: np.ufunc, rule: Function, name: str) -> Function:
    """The function that stands for `ufunc` in `stax.numpy` and on tracers."""
    nin = ufunc.nin

    def call(*args: Any, **kwargs: Any) -> Any:
        if STATE.trace is EVAL and not kwargs:
            for arg in args:
                if isinstance(arg, Tracer):
                    break
            else:
                return ufunc(*args)
        if len(args) == nin and not kwargs:
            return _apply(ufunc, rule, args)
        return _apply_with_options(ufunc, rule, args, kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{ufunc.__name__}`, also on traced values."
    return call


def _apply(
    ufunc: np.ufunc, rule: Function, args: Sequence[Any], dtype: Any = None, casting: str = ""
) -> Any:
    values = [array_like(a, ufunc.__name__) for a in args]
    if ufunc in _ANY_DTYPE:
        return rule(*values)
    keys = [dtype_key(v) for v in values]
    loop = loop_dtypes(ufunc, keys, dtype, casting or "same_kind")
    if ufunc in _COMPARISONS:
        special = _compare_specially(ufunc, rule, values, keys, loop)
        if special is not None:
            return special
    operands = [as_dtype(v, d, ufunc.__name__) for v, d in zip(values, loop, strict=False)]
    if not any(isinstance(k, np.dtype) for k in keys):
        # A ufunc of Python scalars gives a NumPy scalar, which is not weak.
        operands = [convert(v, d) for v, d in zip(operands, loop, strict=False)]
    return rule(*operands)


def _compare_specially(
    ufunc: np.ufunc,
    rule: Function,
    values: Sequence[Any],
    keys: Sequence[Any],
    loop: Sequence[DType],
) -> Any:
    """Comparisons NumPy makes exact: int64 with uint64, and Python integers out of range."""
    x, y = values
    if loop[0] != loop[1]:
        signed_first = loop[0].kind == "i"
        signed = x if signed_first else y
        below = el.lt(signed, literal(0, signed))
        unsigned = [as_dtype(v, np.dtype(np.uint64)) for v in values]
        small = bool(ufunc(-1, 0) if signed_first else ufunc(0, -1))
        return el.select(below, np.bool_(small), rule(*unsigned))
    if loop[0].kind not in "iu":
        return None
    info = np.iinfo(loop[0])
    for k, key in enumerate(keys):
        value = values[k]
        if key is int and isinstance(value, int) and not info.min <= value <= info.max:
            beyond = 1 if value > 0 else -1
            answer = bool(ufunc(beyond, 0) if k == 0 else ufunc(0, beyond))
            return constant_like(values[1 - k], answer, BOOL)
    return None


def _apply_with_options(
    ufunc: np.ufunc, rule: Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    options = dict(kwargs)
    outs = options.pop("out", None)
    args, positional = args[: ufunc.nin], args[ufunc.nin :]
    if positional:
        outs = positional
    if outs is not None and not isinstance(outs, tuple):
        outs = (outs,)
    where = options.pop("where", True)
    if is_plain((*args, *(outs or ()), where)):
        return ufunc(*args, out=outs, where=where, **options)
    dtype, casting = options.pop("dtype", None), options.pop("casting", "same_kind")
    for name in ("order", "subok"):
        options.pop(name, None)
    if options:
        raise TypeError(
            f"np.{ufunc.__name__} on a traced value does not take {', '.join(sorted(options))} "
            f"(at {user_source()})"
        )
    if dtype is not None:
        dtype = asarray_dtype(dtype)
    result = _apply(ufunc, rule, args, dtype, casting)
    results = result if isinstance(result, tuple) else (result,)
    outs = outs or (None,) * len(results)
    stored = tuple(
        _store(ufunc, r, out, where, casting) for r, out in zip(results, outs, strict=True)
    )
    return stored if isinstance(result, tuple) else stored[0]


def _store(ufunc: np.ufunc, result: Any, out: Any, where: Any, casting: Any) -> Any:
    """`result` limited to `where` and written into `out` when there is one."""
    if out is None:
        if where is True:
            return result
        # NumPy leaves the other elements undefined; zero is as good as any value and harmless.
        return el.select(truth(where), result, literal(0, result))
    dtype = aval_of(out).dtype
    if not np.can_cast(aval_of(result).dtype, dtype, casting):
        raise DtypeError(
            f"cannot cast the result from {aval_of(result).dtype} to {dtype} ({casting})",
            op=ufunc.__name__,
            where=user_source() or None,
        )
    if not isinstance(out, Tracer):
        raise MutationError(
            "out= is an array that tracing cannot write into",
            op=ufunc.__name__,
            operands=[out],
            where=user_source() or None,
            hint="make it inside the function with stax.numpy.zeros, or np.zeros(..., like=x)",
        )
    value = convert(result, dtype)
    if where is not True:
        value = el.select(truth(where), value, out)
    METHODS["__setitem__"](out, Ellipsis, value)
    return out


_MADE: dict[np.ufunc, Function] = {}


def _make(name: str) -> Function:
    """The traced version of `np.<name>`; aliases of one ufunc share one function."""
    ufunc = getattr(np, name)
    found = _MADE.get(ufunc)
    if found is None:
        found = _MADE[ufunc] = traced_ufunc(ufunc, RULES[ufunc.__name__], ufunc.__name__)
        UFUNCS[ufunc] = found
    return found


abs = absolute = _make("absolute")
acos = arccos = _make("arccos")
acosh = arccosh = _make("arccosh")
add = _make("add")
asin = arcsin = _make("arcsin")
asinh = arcsinh = _make("arcsinh")
atan = arctan = _make("arctan")
atan2 = arctan2 = _make("arctan2")
atanh = arctanh = _make("arctanh")
bitwise_and = _make("bitwise_and")
bitwise_count = _make("bitwise_count")
bitwise_invert = bitwise_not = invert = _make("invert")
bitwise_left_shift = left_shift = _make("left_shift")
bitwise_or = _make("bitwise_or")
bitwise_right_shift = right_shift = _make("right_shift")
bitwise_xor = _make("bitwise_xor")
cbrt = _make("cbrt")
ceil = _make("ceil")
conj = conjugate = _make("conjugate")
copysign = _make("copysign")
cos = _make("cos")
cosh = _make("cosh")
deg2rad = _make("deg2rad")
degrees = _make("degrees")
divide = true_divide = _make("divide")
divmod = _make("divmod")
equal = _make("equal")
exp = _make("exp")
exp2 = _make("exp2")
expm1 = _make("expm1")
fabs = _make("fabs")
float_power = _make("float_power")
floor = _make("floor")
floor_divide = _make("floor_divide")
fmax = _make("fmax")
fmin = _make("fmin")
fmod = _make("fmod")
frexp = _make("frexp")
gcd = _make("gcd")
greater = _make("greater")
greater_equal = _make("greater_equal")
heaviside = _make("heaviside")
hypot = _make("hypot")
isfinite = _make("isfinite")
isinf = _make("isinf")
isnan = _make("isnan")
lcm = _make("lcm")
ldexp = _make("ldexp")
less = _make("less")
less_equal = _make("less_equal")
log = _make("log")
log10 = _make("log10")
log1p = _make("log1p")
log2 = _make("log2")
logaddexp = _make("logaddexp")
logaddexp2 = _make("logaddexp2")
logical_and = _make("logical_and")
logical_not = _make("logical_not")
logical_or = _make("logical_or")
logical_xor = _make("logical_xor")
maximum = _make("maximum")
minimum = _make("minimum")
mod = remainder = _make("remainder")
modf = _make("modf")
multiply = _make("multiply")
negative = _make("negative")
nextafter = _make("nextafter")
not_equal = _make("not_equal")
positive = _make("positive")
pow = power = _make("power")
rad2deg = _make("rad2deg")
radians = _make("radians")
reciprocal = _make("reciprocal")
rint = _make("rint")
sign = _make("sign")
signbit = _make("signbit")
sin = _make("sin")
sinh = _make("sinh")
spacing = _make("spacing")
sqrt = _make("sqrt")
square = _make("square")
subtract = _make("subtract")
tan = _make("tan")
tanh = _make("tanh")
trunc = _make("trunc")


def functions() -> dict[np.ufunc, Function]:
    """NumPy's universal functions and the functions that stand for them here."""
    return dict(_MADE)


def function_of(ufunc: np.ufunc) -> Function:
    """The function that stands for a ufunc here."""
    return _MADE[ufunc]
