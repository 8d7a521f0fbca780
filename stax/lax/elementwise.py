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
from stax.numpy.promotion import array_like, as_dtype, asarray_dtype, coerce, common_dtype
from stax.numpy.ufunc_rules import RULES, static_power
from stax.primitives import casts, formats, special, views
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
    "bitcast_convert_type",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "clz",
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
    "mulhi",
    "population_count",
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
    "shift_right_logical",
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


def lifted(rule: Function, name: str, doc: str) -> Function:
    """`rule` on promoted operands."""

    def call(*operands: Any, **params: Any) -> Any:
        values = [array_like(v, name) for v in operands]
        return rule(*(coerce(*values) if len(values) > 1 else values), **params)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def floating(rule: Function, name: str, doc: str) -> Function:
    """`rule` on operands promoted to a floating dtype."""

    def call(*operands: Any) -> Any:
        values = [array_like(v, name) for v in operands]
        return rule(*as_floating(values))

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

erf = floating(special.erf, "erf", "The error function.")
erfc = floating(special.erfc, "erfc", "1 - erf(x), accurate where erf is near 1.")
erf_inv = floating(special.erfinv, "erf_inv", "The inverse of `erf`.")
lgamma = floating(special.lgamma, "lgamma", "The logarithm of |Gamma(x)|.")
digamma = floating(special.digamma, "digamma", "The derivative of `lgamma`.")
logistic = floating(tr.sigmoid, "logistic", "1 / (1 + exp(-x)).")
rsqrt = floating(tr.rsqrt, "rsqrt", "1 / sqrt(x).")
population_count = lifted(
    el.population_count, "population_count", "Number of one bits, in the operand's dtype."
)


def clz(x: Any) -> Any:
    """The number of leading zero bits of an integer, in its own dtype."""
    value = array_like(x, "clz")
    dtype = aval_of(value).dtype
    if not is_integer(dtype):
        raise DtypeError("counts the bits of integers", op="clz", operands=[value])
    bits = dtype.itemsize * 8
    spread = casts.bitcast(value, np.dtype(f"u{dtype.itemsize}"))
    step = 1
    while step < bits:  # every bit below the leading one is set
        spread = el.bitwise_or(spread, el.shift_right(spread, literal(step, spread)))
        step *= 2
    ones = el.population_count(spread)
    return casts.convert(el.sub(literal(bits, ones), ones), dtype)


def mulhi(x: Any, y: Any, /) -> Any:
    """The upper half of the product of two integers of one dtype, whose lower half is `x * y`.

    Raises:
      DtypeError: they are no integers, or of two dtypes.

    >>> int(mulhi(np.uint8(200), np.uint8(3)))
    2
    """
    a, b = coerce(array_like(x, "mulhi"), array_like(y, "mulhi"))
    dtype = aval_of(a).dtype
    operands = [str(aval_of(v)) for v in (x, y)]
    if not is_integer(dtype) or len({aval_of(v).dtype for v in (x, y)}) > 1:
        raise DtypeError("takes integers of one dtype", op="mulhi", operands=operands)
    bits = dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}8")
        product = el.mul(casts.convert(a, wide), casts.convert(b, wide))
        return casts.convert(el.shift_right(product, wide.type(bits)), dtype)
    # Four products of halves; the upper ones carry the sign.
    half, low = dtype.type(32), dtype.type(0xFFFFFFFF)
    (a1, a0), (b1, b0) = ((el.shift_right(v, half), el.bitwise_and(v, low)) for v in (a, b))
    unsigned = np.dtype(np.uint64)
    lowest = el.mul(casts.convert(a0, unsigned), casts.convert(b0, unsigned))
    carry = casts.convert(el.shift_right(lowest, np.uint64(32)), dtype)
    middle = el.add(el.mul(a1, b0), carry)
    other = el.add(el.mul(a0, b1), el.bitwise_and(middle, low))
    upper = el.add(el.mul(a1, b1), el.shift_right(middle, half))
    return el.add(upper, el.shift_right(other, half))


def polygamma(m: int, x: Any) -> Any:
    """The derivative of order `m` of `digamma`; `m` is a Python integer."""
    (value,) = as_floating([array_like(x, "polygamma")])
    return special.digamma(value) if m == 0 else special.polygamma(value, n=int(m))


def integer_pow(x: Any, y: int) -> Any:
    """`x**y` for a Python integer `y`."""
    x = array_like(x, "integer_pow")
    if is_integer(aval_of(x).dtype) and y < 0:
        raise DtypeError(
            "integers to negative integer powers are not allowed", op="integer_pow", operands=[x]
        )
    return fresh(x) if y == 1 else static_power(x, y)


def div(x: Any, y: Any) -> Any:
    """`x / y`; of integers, the quotient truncated towards zero."""
    a, b = coerce(array_like(x, "div"), array_like(y, "div"))
    if is_integer(aval_of(a).dtype):
        return el.floordiv(el.sub(a, el.fmod(a, b)), b)
    return RULES["divide"](a, b)


def rem(x: Any, y: Any) -> Any:
    """The remainder of truncated division; it has the sign of `x`."""
    return ufuncs.fmod(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """`x` shifted right with zeros coming in from the left."""
    a, b = coerce(array_like(x, "shift_right_logical"), array_like(y, "shift_right_logical"))
    dtype = aval_of(a).dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    shifted = el.shift_right(casts.bitcast(a, unsigned), casts.bitcast(b, unsigned))
    return casts.bitcast(shifted, dtype)


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer; halves go away from zero, or to the even neighbour."""
    (value,) = as_floating([array_like(x, "round")])
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return el.rint(value)
    size = el.abs_(value)
    whole = el.floor(size)
    up = el.ge(el.sub(size, whole), literal(0.5, size))
    rounded = el.select(up, el.add(whole, literal(1, size)), whole)
    return el.copysign(rounded, value)


def real(x: Any) -> Any:
    """The real part; a real value is itself."""
    x = array_like(x, "real")
    return el.real(x) if aval_of(x).dtype.kind == "c" else x


def imag(x: Any) -> Any:
    """The imaginary part; zero for a real value."""
    x = array_like(x, "imag")
    return el.imag(x) if aval_of(x).dtype.kind == "c" else el.mul(x, literal(0, x))


def complex(x: Any, y: Any) -> Any:
    """The complex number x + iy."""
    a, b = coerce(array_like(x, "complex"), array_like(y, "complex"))
    return el.complex_(a, b)


@takes_keys
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where the Boolean `pred` holds, else `on_false`.

    `pred` is a scalar or has the shape of the cases, whose dtypes are promoted.

    >>> select(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
    array([1, 4])
    """
    a, b = coerce(array_like(on_true, "select"), array_like(on_false, "select"))
    return el.select(array_like(pred, "select"), a, b)


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


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of `operand` read as another dtype.

    A narrower dtype gives a new last axis, the lowest bits first; a wider one takes the last axis.

    Raises:
      ShapeError: the last axis does not hold the parts of one wider element.
    """
    op = "bitcast_convert_type"
    x, target = array_like(operand, op), asarray_dtype(new_dtype)
    x = np.asarray(x) if not isinstance(x, Tracer) else x
    shape, source = aval_of(x).shape, aval_of(x).dtype
    if source.itemsize == target.itemsize:
        return fresh(casts.bitcast(x, target))
    narrow, wide = sorted((source.itemsize, target.itemsize))
    parts, small, large = wide // narrow, np.dtype(f"u{narrow}"), np.dtype(f"u{wide}")
    shifts = 8 * narrow * np.arange(parts, dtype=large)
    if source.itemsize == wide:
        words = views.reshape(casts.bitcast(x, large), (*shape, 1))
        return casts.bitcast(casts.convert(el.shift_right(words, shifts), small), target)
    if shape[-1:] != (parts,):
        raise ShapeError(
            f"{source} of shape {shape} as {target}: the last axis must hold the {parts} parts of "
            "an element",
            op=op,
            operands=[str(aval_of(x))],
        )
    words = el.shift_left(casts.convert(casts.bitcast(x, small), large), shifts)
    return casts.bitcast(views.reduce_sum(words, [len(shape) - 1]), target)


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
