"""What each universal function means on traced operands, composed of primitives.

Input: operands already in the dtypes of NumPy's loop.  Output: the result.  Where NumPy's meaning
depends on the kind of dtype (`add` of Booleans is `or`, `floor` of integers copies), the rule is
chosen by kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import fresh
from stax.dtypes import DType, finfo
from stax.errors import DtypeError
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from stax.primitives.casts import bitcast, convert, stop_gradient
from stax.primitives.families import kind_of, literal, spread

Function = Callable[..., Any]


def by_kind(name: str, **rules: Function) -> Function:
    """The rule for the operands' kind of dtype; a keyword names the kinds it serves, as `fc`."""
    table = {kind: rule for kinds, rule in rules.items() for kind in kinds}

    def rule(*values: Any) -> Any:
        found = table.get(kind_of(aval_of(values[0]).dtype))
        if found is None:
            raise DtypeError(
                f"np.{name} is not defined for {aval_of(values[0]).dtype}",
                op=name,
                operands=[str(aval_of(v)) for v in values],
                where=user_source() or None,
            )
        return found(*values)

    return rule


def copy_of(x: Any) -> Any:
    """Another handle on the value `x` (writing into one does not change the other)."""
    return fresh(x)


def constant_like(x: Any, value: Any, dtype: DType | None = None) -> Any:
    """`value` repeated to the shape of `x`."""
    dtype = aval_of(x).dtype if dtype is None else dtype
    return spread(dtype.type(value), aval_of(x).shape)


def _false_like(x: Any) -> Any:
    return constant_like(x, False, np.dtype(np.bool_))


def _true_like(x: Any) -> Any:
    return constant_like(x, True, np.dtype(np.bool_))


def truth(x: Any) -> Any:
    """`x` as a Boolean: whether it differs from zero."""
    dtype = aval_of(x).dtype
    return x if dtype.kind == "b" else el.ne(x, dtype.type(0))


def logical(rule: Function) -> Function:
    """A rule on the truth of its operands."""
    return lambda *values: rule(*map(truth, values))


def complex_sign(x: Any) -> Any:
    """The unit number x / |x|; +0 at 0; the direction of an infinite or overflowing part."""
    radius = el.abs_(x)
    zero, one = literal(0, radius), literal(1, radius)
    at_zero = el.eq(radius, zero)
    safe = el.select(el.logical_or(at_zero, el.isinf(radius)), one, radius)
    a, b = el.real(x), el.imag(x)
    ordinary = el.complex_(el.div(a, safe), el.div(b, safe))
    # As in NumPy: an infinite part gives its sign, two of them NaN; where only the radius is
    # infinite the imaginary part decides.
    along_real = el.isinf(a)
    both = el.logical_and(along_real, el.isinf(b))
    undefined = el.select(both, literal(math.nan, radius), zero)
    direction = el.complex_(
        el.add(el.select(along_real, el.sign(a), zero), undefined),
        el.add(el.select(along_real, zero, el.sign(b)), undefined),
    )
    value = el.select(el.isinf(radius), direction, ordinary)
    return el.select(at_zero, literal(0, x), value)


def complex_rint(x: Any) -> Any:
    """Both parts rounded."""
    return el.complex_(el.rint(el.real(x)), el.rint(el.imag(x)))


def integer_reciprocal(x: Any) -> Any:
    """1 / x truncated: 1 and -1 keep their value, all else gives 0; 1 / 0 is the machine's."""
    unit = el.logical_or(el.eq(x, literal(1, x)), el.eq(el.abs_(x), literal(1, x)))
    value = el.select(unit, x, literal(0, x))
    dtype = aval_of(x).dtype
    with np.errstate(divide="ignore", invalid="ignore"):
        endless = np.reciprocal(np.zeros((), dtype))
    return el.select(el.eq(x, literal(0, x)), dtype.type(endless), value) if endless else value


def heaviside(x: Any, at_zero: Any) -> Any:
    """0 below zero, 1 above, `at_zero` at zero; NaN stays."""
    zero, one = literal(0, x), literal(1, x)
    sided = el.select(el.gt(x, zero), one, el.select(el.lt(x, zero), zero, x))
    return el.select(el.eq(x, zero), at_zero, sided)


def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2**x + 2**y)"""
    log2 = math.log(2)
    return tr.times(tr.logaddexp(tr.times(x, log2), tr.times(y, log2)), 1 / log2)


multiply = by_kind("multiply", b=el.logical_and, ifc=el.mul)
add = by_kind("add", b=el.logical_or, ifc=el.add)


def spacing(x: Any) -> Any:
    """Distance to the next number away from zero, with the sign of `x`; positive at zero.

    NumPy's float16 goes by the next larger number instead, so that its distance is positive.
    """
    x = stop_gradient(x)
    infinite = literal(math.inf, x)
    if x.dtype == np.float16:
        gap = el.sub(el.nextafter(x, infinite), x)
        return el.add(gap, el.sub(x, x))  # NaN at -inf
    size = el.abs_(x)
    gap = el.sub(el.nextafter(size, infinite), size)
    if x.dtype.kind == "f":
        x = el.add(x, literal(0, x))  # 0 for -0; ml_dtypes' own types keep its sign
    return el.copysign(gap, x)


def modf(x: Any) -> tuple[Any, Any]:
    """Fraction and integer part, both with the sign of `x`."""
    whole = el.trunc(x)
    finite = el.select(el.isinf(x), literal(0, x), el.sub(x, whole))
    return el.copysign(finite, x), whole


def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    """Floor quotient and remainder."""
    return el.floordiv(x, y), el.mod(x, y)


def ldexp(x: Any, n: Any) -> Any:
    """The product x * 2**n, in three steps so that no power overflows before its time."""
    third = el.floordiv(n, literal(3, n))
    last = el.sub(n, el.mul(third, literal(2, n)))
    step, rest = (exact_power_of_two(k, x) for k in (third, last))
    return el.mul(el.mul(el.mul(x, step), step), rest)


def exact_power_of_two(n: Any, like: Any) -> Any:
    """2**n in the dtype of `like`; n is limited to the exponents of normal numbers."""
    dtype = aval_of(like).dtype
    info = finfo(dtype)
    bits = np.dtype(f"i{dtype.itemsize}")
    n = convert(el.clamp(literal(info.minexp, n), n, literal(info.maxexp - 1, n)), bits)
    shifted = el.shift_left(el.add(n, bits.type(1 - info.minexp)), bits.type(info.nmant))
    return bitcast(shifted, dtype)


def frexp(x: Any) -> tuple[Any, Any]:
    """Mantissa in [1/2, 1) and exponent, int32."""
    dtype = aval_of(x).dtype
    info = finfo(dtype)
    bits = np.dtype(f"i{dtype.itemsize}")
    lift = info.nmant + 1
    tiny = el.lt(el.abs_(x), literal(info.smallest_normal, x))
    normal = el.mul(x, el.select(tiny, literal(2.0**lift, x), literal(1, x)))
    field = el.shift_right(bitcast(normal, bits), bits.type(info.nmant))
    field = el.bitwise_and(field, bits.type(2**info.nexp - 1))
    exponent = convert(el.add(field, bits.type(info.minexp)), np.dtype(np.int32))
    exponent = el.sub(exponent, el.select(tiny, np.int32(lift), np.int32(0)))
    odd = el.logical_or(el.logical_not(el.isfinite(x)), el.eq(x, literal(0, x)))
    exponent = el.select(odd, np.int32(0), exponent)
    return ldexp(x, el.neg(exponent)), exponent


MAX_UNROLLED_POWER = 64
# Newer versions of NumPy take a root where the exponent is one number, 0.5: -inf shows it.
with np.errstate(all="ignore"):
    _ROOTS = {
        dtype: bool(np.isnan(np.power(np.array([-np.inf], dtype), dtype.type(0.5))[0]))
        for dtype in map(np.dtype, (np.float16, np.float32, np.float64))
    }


def power(x: Any, y: Any) -> Any:
    """x**y; a small integer constant `y` becomes `integer_pow`, which has no singular point."""
    if isinstance(y, np.ndarray) and not y.ndim:
        y = y[()]
    if isinstance(y, np.generic) and y.imag == 0:
        value = y.real.item()
        kind = kind_of(aval_of(x).dtype)
        if kind == "i" and value < 0:
            raise DtypeError(
                "integers to negative integer powers are not allowed",
                op="power",
                operands=[str(aval_of(x))],
                where=user_source() or None,
                hint="convert the base to a floating dtype first",
            )
        if abs(value) <= MAX_UNROLLED_POWER and value == int(value):
            return static_power(x, int(value))
    return tr.power(x, y)


def power_or_root(x: Any, y: Any) -> Any:
    """The rule of `np.power`: as `power`, but a root where NumPy takes one."""
    aval = aval_of(x)
    if isinstance(y, np.ndarray | np.generic) and y.size == 1 and y.ndim <= len(aval.shape):
        if y.item() == 0.5 and _ROOTS.get(aval.dtype, False):
            return tr.sqrt(x)
    return power(x, y)


def static_power(x: Any, n: int) -> Any:
    """x**n for a known n."""
    if n == 2:
        return el.square(x)
    if n == 1:
        return copy_of(x)
    return el.integer_pow(x, y=n)


def bitwise_count(x: Any) -> Any:
    """Number of ones in the absolute value, uint8."""
    unsigned = aval_of(x).dtype.kind == "u"
    return convert(el.population_count(x if unsigned else el.abs_(x)), np.dtype(np.uint8))


def scaled(factor: float) -> Function:
    """Multiplication by a constant."""
    return lambda x: el.mul(x, literal(factor, x))


# The rule of each ufunc, by NumPy's primary name; `logical` rules take operands of any dtype.
RULES: dict[str, Function] = {
    "add": add,
    "subtract": by_kind("subtract", ifc=el.sub),
    "multiply": multiply,
    "divide": by_kind("divide", fc=el.div),
    "floor_divide": by_kind("floor_divide", **{"if": el.floordiv}),
    "remainder": by_kind("remainder", **{"if": el.mod}),
    "fmod": by_kind("fmod", **{"if": el.fmod}),
    "divmod": by_kind("divmod", **{"if": divmod_}),
    "power": by_kind("power", ifc=power_or_root),
    "float_power": by_kind("float_power", fc=power),
    "negative": by_kind("negative", ifc=el.neg),
    "positive": by_kind("positive", ifc=copy_of),
    "absolute": by_kind("absolute", b=copy_of, ifc=el.abs_),
    "fabs": by_kind("fabs", f=el.abs_),
    "sign": by_kind("sign", **{"if": el.sign, "c": complex_sign}),
    "square": by_kind("square", ifc=el.square),
    "reciprocal": by_kind("reciprocal", i=integer_reciprocal, fc=el.reciprocal),
    "sqrt": tr.sqrt,
    "cbrt": tr.cbrt,
    "hypot": tr.hypot,
    "exp": tr.exp,
    "exp2": tr.exp2,
    "expm1": tr.expm1,
    "log": tr.log,
    "log2": tr.log2,
    "log10": tr.log10,
    "log1p": tr.log1p,
    "logaddexp": tr.logaddexp,
    "logaddexp2": logaddexp2,
    "sin": tr.sin,
    "cos": tr.cos,
    "tan": tr.tan,
    "arcsin": tr.asin,
    "arccos": tr.acos,
    "arctan": tr.atan,
    "arctan2": tr.atan2,
    "sinh": tr.sinh,
    "cosh": tr.cosh,
    "tanh": tr.tanh,
    "arcsinh": tr.asinh,
    "arccosh": tr.acosh,
    "arctanh": tr.atanh,
    "degrees": scaled(180 / math.pi),
    "rad2deg": scaled(180 / math.pi),
    "radians": scaled(math.pi / 180),
    "deg2rad": scaled(math.pi / 180),
    "rint": by_kind("rint", f=el.rint, c=complex_rint),
    "floor": by_kind("floor", bi=copy_of, f=el.floor),
    "ceil": by_kind("ceil", bi=copy_of, f=el.ceil),
    "trunc": by_kind("trunc", bi=copy_of, f=el.trunc),
    "maximum": by_kind("maximum", bifc=el.maximum),
    "minimum": by_kind("minimum", bifc=el.minimum),
    "fmax": by_kind("fmax", bi=el.maximum, fc=el.fmax),
    "fmin": by_kind("fmin", bi=el.minimum, fc=el.fmin),
    "heaviside": heaviside,
    "copysign": el.copysign,
    "nextafter": el.nextafter,
    "spacing": spacing,
    "signbit": el.signbit,
    "modf": modf,
    "frexp": frexp,
    "ldexp": ldexp,
    "isnan": by_kind("isnan", bi=_false_like, fc=el.isnan),
    "isinf": by_kind("isinf", bi=_false_like, fc=el.isinf),
    "isfinite": by_kind("isfinite", bi=_true_like, fc=el.isfinite),
    "equal": el.eq,
    "not_equal": el.ne,
    "less": el.lt,
    "less_equal": el.le,
    "greater": el.gt,
    "greater_equal": el.ge,
    "logical_and": logical(el.logical_and),
    "logical_or": logical(el.logical_or),
    "logical_xor": logical(el.logical_xor),
    "logical_not": logical(el.logical_not),
    "bitwise_and": by_kind("bitwise_and", b=el.logical_and, i=el.bitwise_and),
    "bitwise_or": by_kind("bitwise_or", b=el.logical_or, i=el.bitwise_or),
    "bitwise_xor": by_kind("bitwise_xor", b=el.logical_xor, i=el.bitwise_xor),
    "invert": by_kind("invert", b=el.logical_not, i=el.bitwise_not),
    "left_shift": el.shift_left,
    "right_shift": el.shift_right,
    "bitwise_count": bitwise_count,
    "gcd": el.gcd,
    "lcm": el.lcm,
    "conjugate": by_kind("conjugate", **{"if": copy_of, "c": el.conj}),
}
