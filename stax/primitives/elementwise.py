"""Elementwise rows: arithmetic, complex parts, comparison, logic, bits, rounding, selection.

Input: nothing; importing registers the rows.  Output: for each operation its row (`add_p`) and the
function that binds it (`add`), on operands of one dtype.  Conventions at points without a
derivative are listed in docs/conventions.md: ties share equally, abs'(0) = 0, clamp passes its
boundary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import ZERO_DERIVATIVE, Zero
from stax.dtypes import DType, is_complex, real_part_dtype
from stax.errors import DtypeError
from stax.loops.ops import ops
from stax.primitives.families import (
    Function,
    binary,
    broadcast_shape,
    check_operands,
    compare,
    elementwise,
    is_zero_free,
    linear_unary,
    literal,
    predicate,
    unary,
)

# Rules name functions that are bound further down.
neg: Function
mul: Function
div: Function
guarded_mul: Function
guarded_div: Function
trunc: Function
complex_: Function
conj: Function
select: Function

# ----------------------------------------------------------------------------------- arithmetic

add_p, add = binary(
    "add",
    np.add,
    lambda t, out, x, y: t,
    lambda t, out, x, y: t,
    transposes=(lambda ct, x, y: ct, lambda ct, x, y: ct),
)
sub_p, sub = binary(
    "sub",
    np.subtract,
    lambda t, out, x, y: t,
    lambda t, out, x, y: neg(t),
    transposes=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
)
neg_p, neg = linear_unary("neg", np.negative, lambda ct, x: neg(ct))
mul_p, mul = binary(
    "mul",
    np.multiply,
    lambda t, out, x, y: mul(t, y),
    lambda t, out, x, y: mul(x, t),
    transposes=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    symmetric=True,
)


def _guarded_mul(t: Any, factor: Any) -> Any:
    return _where_zero(t, np.multiply(t, factor))


def _guarded_div(t: Any, divisor: Any) -> Any:
    return _where_zero(t, np.true_divide(t, divisor))


def _where_zero(t: Any, result: Any) -> Any:
    zero = np.equal(t, 0)
    return np.where(zero, t, result) if np.any(zero) else result


guarded_mul_p, guarded_mul = binary(
    "guarded_mul",
    _guarded_mul,
    lambda s, out, t, f: guarded_mul(s, f),
    lambda s, out, t, f: guarded_mul(t, s),
    transposes=(lambda ct, t, f: guarded_mul(ct, f), lambda ct, t, f: guarded_mul(t, ct)),
    accepts="fc",
    scalar=lambda t, f: ops.where(_is_zero(t), t, ops.mul(t, f)),
)
guarded_mul.__doc__ = """`t * factor`, and exactly `t` where `t` is zero, whatever the factor.

Multiplies a tangent or cotangent by a derivative that may be infinite or NaN: where the branch
of a `where` was not taken the cotangent is zero, and stays so.
"""
guarded_div_p, guarded_div = binary(
    "guarded_div",
    _guarded_div,
    lambda s, out, t, d: guarded_div(s, d),
    lambda s, out, t, d: neg(guarded_mul(guarded_div(out, d), s)),
    transposes=(lambda ct, t, d: guarded_div(ct, d), None),
    accepts="fc",
    weight=4.0,
    scalar=lambda t, d: ops.where(_is_zero(t), t, ops.div(t, d)),
)
guarded_div.__doc__ = "`t / divisor`, and exactly `t` where `t` is zero (see `guarded_mul`)."


def _is_zero(t: Any) -> Any:
    return ops.eq(t, ops.constant(0, ops.dtype_of(t)))


def divide_tangent(t: Any, divisor: Any) -> Any:
    """`t / divisor` for a tangent: guarded unless the divisor is a nonzero constant.

    The reciprocal is a factor of its own: one division serves all derivatives by one divisor, and
    a divisor of a whole row is divided by once a row.
    """
    if is_zero_free(divisor):
        return div(t, divisor)
    return guarded_mul(t, reciprocal(divisor))


def _div_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    # One division serves both operands: (tx - out * ty) / y.
    tx, ty = tangents
    y = primals[1]
    if isinstance(ty, Zero):
        return divide_tangent(tx, y)
    slope = guarded_mul(ty, out)
    return divide_tangent(neg(slope) if isinstance(tx, Zero) else sub(tx, slope), y)


div_p, div = binary(
    "div",
    np.true_divide,
    None,
    jvp=_div_jvp,
    transposes=(lambda ct, x, y: div(ct, y), None),
    accepts="fc",
    weight=4.0,
)

square_p, square = unary(
    "square",
    np.square,
    lambda t, out, x: mul(t, mul(x, literal(2, x))),
    accepts="ifc",
    scalar=lambda x: ops.mul(x, x),
)
reciprocal_p, reciprocal = unary(
    "reciprocal",
    np.reciprocal,
    lambda t, out, x: neg(guarded_mul(t, square(out))),
    weight=4.0,
    scalar=lambda x: _scalar_reciprocal(x),
)


def _scalar_reciprocal(x: Any) -> Any:
    dtype = ops.dtype_of(x)
    return ops.reciprocal(x) if is_complex(dtype) else ops.div(ops.constant(1, dtype), x)


floordiv_p, floordiv = binary(
    "floordiv", np.floor_divide, ZERO_DERIVATIVE, accepts="if", weight=8.0
)
mod_p, mod = binary(
    "mod",
    np.remainder,
    lambda t, out, x, y: t,
    lambda t, out, x, y: neg(guarded_mul(t, floordiv(x, y))),
    accepts="if",
    weight=8.0,
    jumps=True,
)
fmod_p, fmod = binary(
    "fmod",
    np.fmod,
    lambda t, out, x, y: t,
    lambda t, out, x, y: neg(guarded_mul(t, trunc(div(x, y)))),
    accepts="if",
    weight=8.0,
    jumps=True,
)


def _integer_pow_tangent(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return Zero(aval_of(out).tangent())
    if y == 1:
        return t
    factor = mul(integer_pow(x, y=y - 1), literal(y, x))
    return mul(t, factor) if y > 0 else guarded_mul(t, factor)


def _integer_pow(x: Any, *, y: int) -> Any:
    return np.power(x, np.asarray(x).dtype.type(y))


integer_pow_p, integer_pow = unary(
    "integer_pow",
    _integer_pow,
    _integer_pow_tangent,
    accepts="ifc",
    weight=2.0,
    scalar=lambda x, *, y: ops.integer_pow(x, n=y),
)


# -------------------------------------------------------------------------------- sign and size


def _abs_tangent(t: Any, out: Any, x: Any) -> Any:
    if not is_complex(aval_of(x).dtype):
        return mul(t, sign(x))
    radius = select(eq(out, literal(0, out)), literal(1, out), out)
    zero = literal(0, radius)
    return real(mul(t, conj(mul(x, complex_(div(literal(1, radius), radius), zero)))))


abs_p, abs_ = unary(
    "abs",
    np.absolute,
    _abs_tangent,
    accepts="ifc",
    result=real_part_dtype,
)
sign_p, sign = unary("sign", np.sign, ZERO_DERIVATIVE, accepts="if")
signbit_p, signbit = predicate("signbit", np.signbit)
copysign_p, copysign = binary(
    "copysign",
    np.copysign,
    lambda t, out, x, y: mul(t, mul(sign(x), sign_or_one(y))),
    None,
    accepts="f",
)
nextafter_p, nextafter = binary(
    "nextafter", np.nextafter, ZERO_DERIVATIVE, accepts="f", weight=4.0, widens=False
)


def sign_or_one(x: Any) -> Any:
    """The sign of `x` as +1 or -1, that of its sign bit at zero."""
    return copysign(literal(1, x), x)


# ------------------------------------------------------------------------------- complex parts


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype with parts of `dtype`."""
    return np.dtype(np.complex64) if dtype.itemsize <= 4 else np.dtype(np.complex128)


def _complex_parts(re: Any, im: Any) -> Any:
    re, im = np.broadcast_arrays(re, im)
    out = np.empty(re.shape, complex_dtype(re.dtype))
    out.real, out.imag = re, im
    return out[()]


real_p, real = linear_unary(
    "real",
    np.real,
    lambda ct, x: complex_(ct, literal(0, ct)),
    accepts="c",
    result=real_part_dtype,
)
imag_p, imag = linear_unary(
    "imag",
    np.imag,
    lambda ct, x: complex_(literal(0, ct), neg(ct)),
    accepts="c",
    result=real_part_dtype,
)
conj_p, conj = linear_unary("conj", np.conjugate, lambda ct, x: conj(ct), accepts="c")


def _complex_aval(re: Aval, im: Aval) -> Aval:
    check_operands("complex", (re, im), "f")
    if re.dtype.itemsize < 4:
        raise DtypeError(f"no complex dtype has parts of {re.dtype}", op="complex")
    return Aval(broadcast_shape("complex", (re, im)), complex_dtype(re.dtype))


complex_p, complex_ = binary(
    "complex",
    _complex_parts,
    lambda t, out, x, y: complex_(t, literal(0, t)),
    lambda t, out, x, y: complex_(literal(0, t), t),
    abstract_eval=_complex_aval,
    transposes=(lambda ct, x, y: real(ct), lambda ct, x, y: neg(imag(ct))),
    accepts="f",
)

# --------------------------------------------------------------------------- comparison, logic

eq_p, eq = compare("eq", np.equal, accepts="bifc")
ne_p, ne = compare("ne", np.not_equal, accepts="bifc")
lt_p, lt = compare("lt", np.less, accepts="bifc")
le_p, le = compare("le", np.less_equal, accepts="bifc")
gt_p, gt = compare("gt", np.greater, accepts="bifc")
ge_p, ge = compare("ge", np.greater_equal, accepts="bifc")

logical_and_p, logical_and = compare("logical_and", np.logical_and, accepts="b")
logical_or_p, logical_or = compare("logical_or", np.logical_or, accepts="b")
logical_xor_p, logical_xor = compare("logical_xor", np.logical_xor, accepts="b")
logical_not_p, logical_not = predicate("logical_not", np.logical_not, accepts="b")

isnan_p, isnan = predicate("isnan", np.isnan, accepts="fc")
isinf_p, isinf = predicate("isinf", np.isinf, accepts="fc")
isfinite_p, isfinite = predicate("isfinite", np.isfinite, accepts="fc")

# ----------------------------------------------------------------------------------------- bits

bitwise_and_p, bitwise_and = binary("bitwise_and", np.bitwise_and, ZERO_DERIVATIVE, accepts="i")
bitwise_or_p, bitwise_or = binary("bitwise_or", np.bitwise_or, ZERO_DERIVATIVE, accepts="i")
bitwise_xor_p, bitwise_xor = binary("bitwise_xor", np.bitwise_xor, ZERO_DERIVATIVE, accepts="i")
bitwise_not_p, bitwise_not = unary("bitwise_not", np.invert, ZERO_DERIVATIVE, accepts="i")
shift_left_p, shift_left = binary("shift_left", np.left_shift, ZERO_DERIVATIVE, accepts="i")
shift_right_p, shift_right = binary("shift_right", np.right_shift, ZERO_DERIVATIVE, accepts="i")


def _population_count(x: Any) -> Any:
    x = np.asarray(x)
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)[()]


def _scalar_population_count(x: Any) -> Any:
    # Sums of ever wider neighbouring fields; the last multiplication adds up the bytes.
    dtype, u64 = ops.dtype_of(x), np.dtype(np.uint64)

    def c(value: int) -> Any:
        return ops.constant(value, u64)

    def pairs(v: Any, shift: int, mask: int) -> Any:
        right = ops.bitwise_and(ops.shift_right(v, c(shift)), c(mask))
        return ops.add(ops.bitwise_and(v, c(mask)), right)

    unsigned = np.dtype(f"u{dtype.itemsize}")
    v = ops.cast(ops.bitcast(x, unsigned), u64)
    v = pairs(v, 1, 0x5555555555555555)
    v = pairs(v, 2, 0x3333333333333333)
    v = pairs(v, 4, 0x0F0F0F0F0F0F0F0F)
    total = ops.shift_right(ops.mul(v, c(0x0101010101010101)), c(56))
    return ops.cast(total, dtype)


population_count_p, population_count = unary(
    "population_count",
    _population_count,
    ZERO_DERIVATIVE,
    accepts="i",
    weight=12.0,
    scalar=_scalar_population_count,
)
gcd_p, gcd = binary("gcd", np.gcd, ZERO_DERIVATIVE, accepts="i", weight=60.0)
lcm_p, lcm = binary("lcm", np.lcm, ZERO_DERIVATIVE, accepts="i", weight=60.0)

# ------------------------------------------------------------------------------------- rounding

floor_p, floor = unary("floor", np.floor, ZERO_DERIVATIVE, accepts="f")
ceil_p, ceil = unary("ceil", np.ceil, ZERO_DERIVATIVE, accepts="f")
trunc_p, trunc = unary("trunc", np.trunc, ZERO_DERIVATIVE, accepts="f")
rint_p, rint = unary("rint", np.rint, ZERO_DERIVATIVE, accepts="f")

# ------------------------------------------------------------------- selection, maximum, clamp


def _share(t: Any, mine: Any, other: Any, wins: Any) -> Any:
    """`t` where `mine` wins, half of it where both are equal, zero elsewhere."""
    half = mul(t, literal(0.5, t))
    zero = literal(0, t)
    return select(wins(mine, other), t, select(eq(mine, other), half, zero))


maximum_p, maximum = binary(
    "maximum",
    np.maximum,
    lambda t, out, x, y: _share(t, x, y, gt),
    lambda t, out, x, y: _share(t, y, x, gt),
    accepts="bifc",
    scalar="max",
)
minimum_p, minimum = binary(
    "minimum",
    np.minimum,
    lambda t, out, x, y: _share(t, x, y, lt),
    lambda t, out, x, y: _share(t, y, x, lt),
    accepts="bifc",
    scalar="min",
)


def _first_number(t: Any, mine: Any, other: Any, wins: Any) -> Any:
    return select(isnan(other), t, _share(t, mine, other, wins))


fmax_p, fmax = binary(
    "fmax",
    np.fmax,
    lambda t, out, x, y: _first_number(t, x, y, gt),
    lambda t, out, x, y: _first_number(t, y, x, gt),
    accepts="fc",
)
fmin_p, fmin = binary(
    "fmin",
    np.fmin,
    lambda t, out, x, y: _first_number(t, x, y, lt),
    lambda t, out, x, y: _first_number(t, y, x, lt),
    accepts="fc",
)


def _select_aval(condition: Aval, x: Aval, y: Aval) -> Aval:
    check_operands("select", (condition,), "b")
    check_operands("select", (x, y), "bifc")
    shape = broadcast_shape("select", (condition, x, y))
    return Aval(shape, x.dtype, x.weak and y.weak)


def _select_impl(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)[()]


select_p, select = elementwise(
    "select",
    _select_impl,
    family="select",
    accepts="bifc",
    abstract_eval=_select_aval,
    partials=(
        None,
        lambda t, out, c, x, y: select(c, t, literal(0, t)),
        lambda t, out, c, x, y: select(c, literal(0, t), t),
    ),
    transposes=(
        None,
        lambda ct, c, x, y: select(c, ct, literal(0, ct)),
        lambda ct, c, x, y: select(c, literal(0, ct), ct),
    ),
    scalar="where",
)
select.__doc__ = "`x` where the Boolean `condition` holds, else `y`: select(condition, x, y)."


def _clamp(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


clamp_p, clamp = elementwise(
    "clamp",
    _clamp,
    family="select",
    accepts="bifc",
    partials=(
        lambda t, out, low, x, high: select(
            logical_and(lt(x, low), le(low, high)), t, literal(0, t)
        ),
        lambda t, out, low, x, high: select(logical_and(ge(x, low), le(x, high)), t, literal(0, t)),
        lambda t, out, low, x, high: select(lt(high, maximum(x, low)), t, literal(0, t)),
    ),
    weight=2.0,
    scalar=lambda low, x, high: ops.min(ops.max(x, low), high),
)
clamp.__doc__ = "`x` limited to [low, high]: clamp(low, x, high)."

relu_p, relu = unary(
    "relu",
    lambda x: np.maximum(x, np.asarray(x).dtype.type(0)),
    lambda t, out, x: select(gt(x, literal(0, x)), t, literal(0, t)),
    accepts="if",
)
