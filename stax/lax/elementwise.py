"""`stax.lax`, elementwise part: functions close to the primitives, under JAX's names.

Input: arrays, scalars or traced values.  Output: the elementwise result.  Operands are promoted as
in `stax.numpy` and broadcast; what differs from NumPy is the meaning of some names: `div` and `rem`
of integers truncate, `max` and `min` take two operands, `round` takes a rounding mode.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.keys import takes_keys
from stax.core.trace import Tracer, fresh
from stax.dtypes import is_complex, is_inexact, is_integer
from stax.errors import DtypeError, ShapeError
from stax.numpy import ufuncs
from stax.numpy.promotion import (
    array_like,
    as_dtype,
    asarray_dtype,
    check_kinds,
    coerce,
    common_dtype,
)
from stax.numpy.ufunc_rules import RULES, static_power
from stax.primitives import casts, formats, special
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.pytree import tree_map

__all__ = [
    "RoundingMethod",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "complex",
    "conj",
    "convert_element_type",
    "cos",
    "cosh",
    "digamma",
    "div",
    "dtype",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "polygamma",
    "pow",
    "real",
    "reciprocal",
    "reduce_precision",
    "rem",
    "round",
    "rsqrt",
    "select",
    "select_n",
    "shift_left",
    "shift_right_arithmetic",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "stop_gradient",
    "sub",
    "tan",
    "tanh",
]

Function = Callable[..., Any]


def floating(rule: Function, name: str, doc: str, names: str = "x", kinds: str = "f") -> Function:
    """`rule` on operands, of these names, promoted to one floating dtype of these kinds."""
    count = len(names.split())

    def call(*operands: Any) -> Any:
        if len(operands) != count:
            raise TypeError(f"{name}({', '.join(names.split())}) got {len(operands)} arguments")
        values = as_floating([array_like(v, name) for v in operands])
        check_kinds(name, kinds, *values)
        return rule(*values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def as_floating(values: list[Any]) -> list[Any]:
    """The values in one inexact dtype; integers become the float that NumPy's exp would give."""
    values = coerce(*values)
    dtype = aval_of(values[0]).dtype
    if dtype.kind not in "biu":
        return values
    target = np.exp.resolve_dtypes((dtype, None))[1]
    return [as_dtype(v, target) for v in values]


abs = ufuncs.absolute
acos = ufuncs.arccos
acosh = ufuncs.arccosh
add = ufuncs.add
asin = ufuncs.arcsin
asinh = ufuncs.arcsinh
atan = ufuncs.arctan
atan2 = ufuncs.arctan2
atanh = ufuncs.arctanh
bitwise_and = ufuncs.bitwise_and
bitwise_not = ufuncs.invert
bitwise_or = ufuncs.bitwise_or
bitwise_xor = ufuncs.bitwise_xor
cbrt = ufuncs.cbrt
ceil = ufuncs.ceil
conj = ufuncs.conjugate
cos = ufuncs.cos
cosh = ufuncs.cosh
eq = ufuncs.equal
exp = ufuncs.exp
exp2 = ufuncs.exp2
expm1 = ufuncs.expm1
floor = ufuncs.floor
ge = ufuncs.greater_equal
gt = ufuncs.greater
is_finite = ufuncs.isfinite
le = ufuncs.less_equal
log = ufuncs.log
log1p = ufuncs.log1p
lt = ufuncs.less
max = ufuncs.maximum
min = ufuncs.minimum
mul = ufuncs.multiply
ne = ufuncs.not_equal
neg = ufuncs.negative
nextafter = ufuncs.nextafter
pow = ufuncs.power
reciprocal = ufuncs.reciprocal
shift_left = ufuncs.left_shift
shift_right_arithmetic = ufuncs.right_shift
sign = ufuncs.sign
sin = ufuncs.sin
sinh = ufuncs.sinh
sqrt = ufuncs.sqrt
square = ufuncs.square
sub = ufuncs.subtract
tan = ufuncs.tan
tanh = ufuncs.tanh

_FLOATS = "Elementwise; integers become floats as in `numpy.exp`."

erf = floating(
    special.erf,
    "erf",
    f"""The error function, the integral of 2 / sqrt(pi) * exp(-t**2) from 0 to x.

    {_FLOATS}

    >>> erf(np.array([0.0, np.inf]))
    array([0., 1.])
    """,
)
erfc = floating(
    special.erfc,
    "erfc",
    f"""1 - erf(x), accurate where erf is near 1.

    {_FLOATS}

    >>> erfc(np.array([-np.inf, 0.0]))
    array([2., 1.])
    """,
)
erf_inv = floating(
    special.erfinv,
    "erf_inv",
    f"""The inverse of `erf`: NaN outside [-1, 1], infinite at its ends.

    {_FLOATS}

    >>> erf_inv(np.array([-1.0, 0.0, 2.0]))
    array([-inf,   0.,  nan])
    """,
)
lgamma = floating(
    special.lgamma,
    "lgamma",
    f"""The logarithm of |Gamma(x)|; infinite at 0, -1, -2, ...

    {_FLOATS}

    >>> lgamma(np.array([0.0, 1.0, 2.0]))
    array([inf,  0.,  0.])
    """,
)
digamma = floating(
    special.digamma,
    "digamma",
    f"""The derivative of `lgamma`.

    {_FLOATS}

    >>> np.round(digamma(np.array([1, 2])), 6)
    array([-0.577216,  0.422784])
    """,
)
logistic = floating(
    tr.sigmoid,
    "logistic",
    f"""1 / (1 + exp(-x)), which does not overflow.

    {_FLOATS}

    >>> logistic(np.array([-1000.0, 0.0]))
    array([0. , 0.5])
    """,
    kinds="fc",
)
rsqrt = floating(
    tr.rsqrt,
    "rsqrt",
    f"""1 / sqrt(x); infinite at 0, NaN below.

    {_FLOATS}

    >>> rsqrt(4)
    0.5
    """,
    kinds="fc",
)


def polygamma(m: int, x: Any) -> Any:
    """The derivative of order `m` of `digamma`; `m` is a Python integer, 0 for `digamma` itself.

    `x` is an array or number, whose integers become floats.

    >>> np.round(polygamma(1, np.array([1.0])), 6)  # pi**2 / 6
    array([1.644934])
    """
    (value,) = as_floating([array_like(x, "polygamma")])
    return special.digamma(value) if m == 0 else special.polygamma(value, n=int(m))


def integer_pow(x: Any, y: int) -> Any:
    """`x**y` for a Python integer `y`, by repeated multiplication, in the dtype of `x`.

    Raises:
      DtypeError: integers to a negative power, or truth values.

    >>> integer_pow(np.array([2, -3]), 3)
    array([  8, -27])
    """
    x = array_like(x, "integer_pow")
    check_kinds("integer_pow", "ifc", x)
    if is_integer(aval_of(x).dtype) and y < 0:
        raise DtypeError(
            "integers to negative integer powers are not allowed", op="integer_pow", operands=[x]
        )
    return fresh(x) if y == 1 else static_power(x, y)


def div(x: Any, y: Any) -> Any:
    """`x / y`, elementwise on promoted operands; of integers, the quotient truncated towards zero.

    >>> div(np.array([7, -7]), 2), div(1.0, 4)
    (array([ 3, -3]), 0.25)
    """
    a, b = coerce(array_like(x, "div"), array_like(y, "div"))
    if is_integer(aval_of(a).dtype):
        return el.floordiv(el.sub(a, el.fmod(a, b)), b)
    return RULES["divide"](a, b)


def rem(x: Any, y: Any) -> Any:
    """The remainder of truncated division; it has the sign of `x`. As `numpy.fmod`.

    >>> rem(np.array([7, -7]), 4)
    array([ 3, -3])
    """
    return ufuncs.fmod(x, y)


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest whole number, as a float; halves go away from zero, or to the even neighbour.

    Args:
      rounding_method: a `RoundingMethod`, which says where halves go.

    >>> round(np.array([0.5, -1.5, 2.5]))
    array([ 1., -2.,  3.])
    >>> round(np.array([0.5, -1.5, 2.5]), RoundingMethod.TO_NEAREST_EVEN)
    array([ 0., -2.,  2.])
    """
    (value,) = as_floating([array_like(x, "round")])
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return el.rint(value)
    size = el.abs_(value)
    whole = el.floor(size)
    up = el.ge(el.sub(size, whole), literal(0.5, size))
    rounded = el.select(up, el.add(whole, literal(1, size)), whole)
    return el.copysign(rounded, value)


def real(x: Any) -> Any:
    """The real part; a real value is itself.

    >>> real(np.array([1 + 2j]))
    array([1.])
    """
    x = array_like(x, "real")
    return el.real(x) if aval_of(x).dtype.kind == "c" else x


def imag(x: Any) -> Any:
    """The imaginary part; zero for a real value.

    >>> imag(np.array([1 + 2j]))
    array([2.])
    """
    x = array_like(x, "imag")
    check_kinds("imag", "ifc", x)
    return el.imag(x) if aval_of(x).dtype.kind == "c" else el.mul(x, literal(0, x))


def complex(x: Any, y: Any) -> Any:
    """The complex number x + iy, elementwise, of two real floats, float32 or float64.

    Raises:
      DtypeError: they are of another dtype.

    >>> complex(np.array([1.0]), np.array([2.0]))
    array([1.+2.j])
    """
    a, b = coerce(array_like(x, "complex"), array_like(y, "complex"))
    if aval_of(a).dtype not in (np.float32, np.float64):
        operands = [str(aval_of(v)) for v in (a, b)]
        raise DtypeError("takes float32 or float64 numbers", op="complex", operands=operands)
    return el.complex_(a, b)


@takes_keys
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where the Boolean `pred` holds, else `on_false`.

    `pred` is a scalar or has the shape of the cases, whose dtypes are promoted.  An integer holds
    from 1 on.

    >>> select(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
    array([1, 4])
    """
    a, b = coerce(array_like(on_true, "select"), array_like(on_false, "select"))
    condition = array_like(pred, "select")
    if aval_of(condition).dtype.kind in "iu":
        return select_n(condition, b, a)
    check_kinds("select", "b", condition)
    return el.select(condition, a, b)


@takes_keys
def select_n(which: Any, *cases: Any) -> Any:
    """`cases[which]` elementwise; `which` is Boolean (two cases) or an integer.

    >>> select_n(np.array([0, 2]), np.array([1, 2]), np.array([3, 4]), np.array([5, 6]))
    array([1, 6])
    """
    which = array_like(which, "select_n")
    values = coerce(*[array_like(c, "select_n") for c in cases])
    if aval_of(which).dtype.kind == "b":
        return el.select(which, values[1], values[0]) if len(values) > 1 else values[0]
    out = values[-1]
    for k in range(len(values) - 2, -1, -1):
        out = el.select(el.le(which, literal(k, which)), values[k], out)
    return out


def clamp(min: Any, x: Any, max: Any) -> Any:
    """`x` limited to [min, max]; its gradient passes on the boundary.

    >>> clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    low, value, high = (array_like(v, "clamp") for v in (min, x, max))
    dtype = common_dtype([low, value, high])
    return el.clamp(*(as_dtype(v, dtype) for v in (low, value, high)))


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """`operand` converted to `new_dtype`.

    As `ndarray.astype`: floats become integers by dropping the fraction.

    >>> convert_element_type(np.array([1.7, -1.7]), np.int32)
    array([ 1, -1], dtype=int32)
    """
    return casts.convert(array_like(operand, "convert_element_type"), asarray_dtype(new_dtype))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """`operand` rounded to a format of fewer bits, in its own dtype.

    Halves round to even. What is beyond the format becomes infinite, what is below its normal
    numbers zero, unless it has as many exponents as the dtype. The derivative is rounded in the
    same way.

    Raises:
      DtypeError: `operand` is no array of real floats.
      ShapeError: there is less than one bit of exponent, or less than none of mantissa.

    >>> reduce_precision(np.float32(1.2345), 5, 3)
    1.25
    """
    x = array_like(operand, "reduce_precision")
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ShapeError(
            f"no format has {exponent_bits} exponent and {mantissa_bits} mantissa bits",
            op="reduce_precision",
            hint="a format has at least one bit of exponent and none of mantissa",
        )
    if not is_inexact(aval_of(x).dtype) or is_complex(aval_of(x).dtype):
        raise DtypeError("rounds real floats", op="reduce_precision", operands=[str(aval_of(x))])
    return formats.reduce_precision(x, exponent=exponent_bits, mantissa=mantissa_bits)


def stop_gradient(x: Any) -> Any:
    """`x` (a pytree of arrays), constant to every derivative.

    >>> stax.grad(lambda x: x * stax.lax.stop_gradient(x))(3.0)
    3.0
    """

    def stop(leaf: Any) -> Any:
        return casts.stop_gradient(leaf) if isinstance(leaf, Tracer) else fresh(leaf)

    return tree_map(stop, x)


def dtype(x: Any) -> Any:
    """The NumPy dtype of `x`."""
    return aval_of(x).dtype
