"""The table of scalar operations: how one element is computed, in every interpretation.

Input: the name of an operation. Output: its row, with everything that the loop-level compiler knows
about it: number of operands, result type, interval rule, cost, and the NumPy, C and Triton
spellings as data. No other module lists operations by name; what a pass wants to know is a field.

In a spelling ``{0}``, ``{1}``, ``{2}`` are the operands, ``{t}`` the tag of the operand type
(``f32``, ``i64``, …), ``{ct}`` its C type, ``{n}`` a parameter. ``stax_<op>_<tag>`` are functions
that the C back end defines. Half types never reach a spelling: they are computed in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from stax.dtypes import FLOAT32, real_part_dtype
from stax.errors import DtypeError
from stax.loops import contracted, contracted_powers, ranges, symbolic
from stax.loops.ranges import Interval
from stax.loops.symbolic import Expr

Spelling = str | dict[str, str]
BOOL = np.dtype(np.bool_)
COMPLEX64, COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_HALF_NAMES = frozenset({"float16", "bfloat16"})

C_TYPES: dict[str, str] = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "complex64": "complex64_t",
    "complex128": "complex128_t",
}


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One row. ``c`` and ``triton`` are a spelling, or one for each class of operand type.

    The classes are ``f`` (floating), ``c`` (complex), ``i`` (signed), ``u`` (unsigned), ``b``
    (Boolean). A class that is absent falls back from ``u`` to ``i`` and from ``b`` to ``i``; an
    empty text means no code. ``operand`` is the position of the operand whose type chooses the
    spelling. ``symbolic`` is the same operation on index expressions, for integers. ``pick`` looks
    at the intervals of integer operands and may name the operand that the result is bound to equal.
    ``commutes`` says that exchanging the two operands changes no bit of a real result that is not
    NaN, ``alternates`` that it changes the sign and no more, ``multiplies`` that the product of a
    value with itself does not depend on its sign.  ``summands`` are the signs of the operands whose
    sum the result is; a real result has the opposite sign, and no other bit, where one of the
    operands at ``odd`` has.  ``plus`` says when a real result cannot be -0.0: "always", where
    "both" operands are one value, or where "either" operand cannot be.
    """

    name: str
    arity: int
    result: Callable[[tuple[np.dtype, ...]], np.dtype]
    numpy: Callable[..., Any]
    c: Spelling
    triton: Spelling
    interval: Callable[..., Interval] | None = None
    flops: float = 1.0
    transcendental: bool = False
    params: int = 0
    operand: int = 0
    symbolic: Callable[..., Expr | None] | None = None
    pick: Callable[..., int | None] | None = None
    commutes: bool = False
    alternates: bool = False
    multiplies: bool = False
    summands: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    plus: str = ""


SCALAR_OPS: dict[str, ScalarOp] = {}


@functools.cache
def is_half(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is computed in float32."""
    return dtype.name in _HALF_NAMES


@functools.cache
def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The type in which values of ``dtype`` are computed: float32 for the half types."""
    return FLOAT32 if is_half(dtype) else dtype


@functools.cache
def type_class(dtype: np.dtype) -> str:
    """``f``, ``c``, ``i``, ``u`` or ``b``; other types have no scalar code."""
    if dtype.kind in "fciub":
        return dtype.kind
    if is_half(dtype):
        return "f"
    raise DtypeError(f"no compiled scalar code for values of type {dtype}")


@functools.cache
def is_compilable(dtype: np.dtype) -> bool:
    """Whether elements of this type can be computed in generated code."""
    return is_half(dtype) or dtype.name in C_TYPES


@functools.cache
def type_tag(dtype: np.dtype) -> str:
    """The short name in the names of C functions: ``f32``, ``i64``, ``u8``, ``b8``, ``bf16``."""
    if dtype.name == "bfloat16":
        return "bf16"
    if dtype.kind == "b":
        return "b8"
    return f"{type_class(dtype)}{8 * dtype.itemsize}"


@functools.cache
def c_type(dtype: np.dtype) -> str:
    """The C type that stores an element."""
    try:
        return C_TYPES[dtype.name]
    except KeyError:
        raise DtypeError(f"no C type for values of type {dtype}") from None


def spelling(
    row: ScalarOp,
    dtypes: tuple[np.dtype, ...],
    language: str,
    operands: tuple[str, ...],
    n: Any = "",
) -> str:
    """The text of the operation in ``language`` ("c" or "triton") on operand texts."""
    choice, tag, ct = _template(row.name, dtypes[row.operand] if dtypes else FLOAT32, language)
    return choice.format(*operands, t=tag, ct=ct, n=n)


@functools.cache
def _template(name: str, dtype: np.dtype, language: str) -> tuple[str, str, str]:
    """The text of an operation on operands of a type, and the tag and the C type of that type."""
    row = SCALAR_OPS[name]
    choice = row.c if language == "c" else row.triton
    if isinstance(choice, dict):
        kind = type_class(dtype)
        found = choice.get(kind, choice.get("i", "") if kind in "ub" else "")
        if not found:
            raise DtypeError(f"scalar operation {row.name} has no {language} code for {dtype}")
        choice = found
    return choice, type_tag(dtype), c_type(dtype)


def register(row: ScalarOp) -> ScalarOp:
    """Adds a row; a second row of the same name is an error."""
    if row.name in SCALAR_OPS:
        raise ValueError(f"scalar operation {row.name} is already in the table")
    SCALAR_OPS[row.name] = row
    return row


# ------------------------------------------------------------------------------------ type rules


def _same(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    first = dtypes[0]
    for other in dtypes[1:]:
        if other != first:
            raise DtypeError(f"scalar operands of different types: {', '.join(map(str, dtypes))}")
    return first


def _boolean(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    _same(dtypes)
    return BOOL


def _first(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    return dtypes[0]


def _part(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    return real_part_dtype(_same(dtypes))


def _whole(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    return COMPLEX64 if _same(dtypes) == FLOAT32 else COMPLEX128


def _selected(dtypes: tuple[np.dtype, ...]) -> np.dtype:
    if dtypes[0] != BOOL:
        raise DtypeError(f"where wants a Boolean condition, got {dtypes[0]}")
    return _same(dtypes[1:])


# -------------------------------------------------------------------- what intervals decide


def _integer_power_interval(a: Interval, *, n: int) -> Interval:
    return ranges.square_or_power(a, n) if n >= 0 else ranges.EVERYTHING


def _pick_nonnegative(a: Interval) -> int | None:
    return 0 if a.lo >= 0 else None


def _pick_larger(a: Interval, b: Interval) -> int | None:
    return 0 if a.lo >= b.hi else 1 if b.lo >= a.hi else None


def _pick_smaller(a: Interval, b: Interval) -> int | None:
    return 0 if a.hi <= b.lo else 1 if b.hi <= a.lo else None


def _among_truths(pick: Callable[..., int | None]) -> Callable[..., int | None]:
    """The same choice, made only where both operands are 0 or 1."""

    def choose(a: Interval, b: Interval) -> int | None:
        return pick(a, b) if a.inside(0, 1) and b.inside(0, 1) else None

    return choose


def _pick_branch(condition: Interval, a: Interval, b: Interval) -> int | None:
    return 1 if condition.lo == 1 else 2 if condition.hi == 0 else None


def _unless_zero(divide: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr | None]:
    """Division of index expressions where the divisor cannot be 0; None where it can."""
    return lambda a, b: divide(a, b) if b.lo > 0 or b.hi < 0 else None


# --------------------------------------------------------------------------- NumPy spellings


def _scipy_special(name: str) -> Callable[..., Any]:
    """A function of scipy.special, looked up at the first call so that importing stays cheap."""
    found: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not found:
            found.append(getattr(import_module("scipy.special"), name))
        return found[0](*args)

    return call


def _sigmoid(x: Any) -> Any:
    if np.iscomplexobj(x):
        return np.reciprocal(np.exp(-x) + x.dtype.type(1))
    with np.errstate(over="ignore"):
        e = np.exp(-np.abs(x))
    one = x.dtype.type(1) if hasattr(x, "dtype") else 1.0
    return np.where(x >= 0, one / (one + e), e / (one + e))


def _relu(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _where(c: Any, a: Any, b: Any) -> Any:
    return np.where(c, a, b)


def _rsqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _integer_pow(x: Any, *, n: int) -> Any:
    if n < 0:
        return x.dtype.type(1) / _integer_pow(x, n=-n)
    result = None
    square = x
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if n:
            square = square * square
    return np.ones_like(x) if result is None else result


def _complex(re: Any, im: Any) -> Any:
    out = np.empty(np.broadcast_shapes(re.shape, im.shape), _whole((re.dtype,)))
    out.real, out.imag = re, im
    return out


def _signbit(x: Any) -> Any:
    return np.signbit(x) if x.dtype.kind not in "iub" else x < 0


# --------------------------------------------------------------------------------------- the rows


def _row(name: str, arity: int, numpy: Callable[..., Any], c: Spelling, **fields: Any) -> None:
    fields.setdefault("result", _same)
    fields.setdefault("triton", c)
    register(ScalarOp(name=name, arity=arity, numpy=numpy, c=c, **fields))


def _function(
    name: str,
    arity: int,
    numpy: Callable[..., Any],
    flops: float,
    triton: Spelling,
    kinds: str = "f",
    **fields: Any,
) -> None:
    """A row whose C code is a function of the back end's library, for operands of ``kinds``."""
    operands = ", ".join(f"{{{k}}}" for k in range(arity))
    text = f"stax_{name}_{{t}}({operands})"
    c = {kind: text if kind in kinds else "" for kind in "fcib"}
    _row(name, arity, numpy, c, flops=flops, triton=triton, **fields)


def _compare(name: str, numpy: Callable[..., Any], symbol: str) -> None:
    text = f"({{0}} {symbol} {{1}})"
    ordered = text if name in ("eq", "ne") else f"stax_{name}_{{t}}({{0}}, {{1}})"
    _row(
        name,
        2,
        numpy,
        {"f": text, "i": text, "c": ordered},
        triton=text,
        result=_boolean,
        interval=lambda a, b: ranges.compare(name, a, b),
    )


_row("add", 2, np.add,
     {"f": "({0} + {1})", "c": "({0} + {1})", "i": "({ct})({0} + {1})", "b": "({0} | {1})"},
     triton={"f": "({0} + {1})", "i": "({0} + {1})", "b": "({0} | {1})"},
     interval=ranges.add, symbolic=symbolic.add, commutes=True,
     summands=(1, 1), plus="either")  # fmt: skip
_row("sub", 2, np.subtract,
     {"f": "({0} - {1})", "c": "({0} - {1})", "i": "({ct})({0} - {1})"},
     triton={"f": "({0} - {1})", "i": "({0} - {1})"}, interval=ranges.sub,
     symbolic=lambda a, b: a - b, alternates=True,
     summands=(1, -1))  # fmt: skip
_row("mul", 2, np.multiply,
     {"f": "({0} * {1})", "c": "stax_mul_{t}({0}, {1})", "i": "({ct})({0} * {1})",
      "b": "({0} & {1})"},
     triton={"f": "({0} * {1})", "i": "({0} * {1})", "b": "({0} & {1})"},
     interval=ranges.mul, symbolic=symbolic.mul, commutes=True, multiplies=True,
     odd=(0, 1), plus="both")  # fmt: skip
_row("div", 2, np.true_divide, {"f": "({0} / {1})", "c": "stax_div_{t}({0}, {1})"},
     triton={"f": "({0} / {1})"}, flops=4.0, odd=(0,))  # fmt: skip
_row("neg", 1, np.negative, {"f": "(-{0})", "c": "stax_negative_{t}({0})", "i": "({ct})(-{0})"},
     triton="(-{0})", interval=ranges.neg, symbolic=lambda a: -a,
     summands=(-1,))  # fmt: skip
_row("abs", 1, np.absolute, {**dict.fromkeys("fci", "stax_abs_{t}({0})"), "u": "{0}"},
     triton={"f": "tl.abs({0})", "i": "tl.abs({0})", "u": "{0}", "b": "{0}"},
     result=_part, interval=ranges.absolute, pick=_pick_nonnegative, plus="always")  # fmt: skip
_function("sign", 1, np.sign, 2.0, {"f": "stax_sign({0})", "i": "stax_integer_sign({0})"},
          kinds="fi", interval=ranges.sign)  # fmt: skip
_function("floordiv", 2, np.floor_divide, 8.0, {"f": "stax_floordiv({0}, {1})",
          "i": "stax_integer_floordiv({0}, {1})"}, kinds="fi",
          interval=ranges.floordiv,
          symbolic=_unless_zero(symbolic.floordiv))  # fmt: skip
_function("gcd", 2, np.gcd, 60.0, {"i": "stax_gcd({0}, {1})"}, kinds="i")
_function("lcm", 2, np.lcm, 70.0, {"i": "stax_lcm({0}, {1})"}, kinds="i")
_function("mod", 2, np.remainder, 8.0, {"f": "stax_mod({0}, {1})",
          "i": "stax_integer_mod({0}, {1})"}, kinds="fi", interval=ranges.mod,
          symbolic=_unless_zero(symbolic.mod))  # fmt: skip
_function("fmod", 2, np.fmod, 8.0, {"f": "stax_fmod({0}, {1})",
          "i": "stax_integer_fmod({0}, {1})"}, kinds="fi", interval=ranges.fmod)  # fmt: skip
_function("max", 2, np.maximum, 1.0,
          {"f": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
           "i": "tl.maximum({0}, {1})", "b": "({0} | {1})"},
          kinds="fcib", interval=ranges.maximum, symbolic=symbolic.maximum,
          pick=_pick_larger)  # fmt: skip
_function("min", 2, np.minimum, 1.0,
          {"f": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
           "i": "tl.minimum({0}, {1})", "b": "({0} & {1})"},
          kinds="fcib", interval=ranges.minimum, symbolic=symbolic.minimum,
          pick=_pick_smaller)  # fmt: skip
_function("fmax", 2, np.fmax, 1.0,
          {"f": "tl.maximum({0}, {1})", "i": "tl.maximum({0}, {1})", "b": "({0} | {1})"},
          kinds="fcib", interval=ranges.maximum)  # fmt: skip
_function("fmin", 2, np.fmin, 1.0,
          {"f": "tl.minimum({0}, {1})", "i": "tl.minimum({0}, {1})", "b": "({0} & {1})"},
          kinds="fcib", interval=ranges.minimum)  # fmt: skip
_function("relu", 1, _relu, 1.0,
          {"f": "tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)",
           "i": "tl.where({0} > 0, {0}, 0)", "u": "{0}", "b": "{0}"},
          kinds="fib", interval=ranges.relu, pick=_pick_nonnegative)  # fmt: skip
_function("pow", 2, np.power, 40.0, {"f": "libdevice.pow({0}, {1})",
          "i": "stax_integer_power({0}, {1})"}, kinds="fci", interval=ranges.power,
          transcendental=True)  # fmt: skip
_row("integer_pow", 1, _integer_pow,
     {**dict.fromkeys("fci", "stax_integer_pow_{t}({0}, {n})"), "b": ""},
     triton="stax_integer_pow({0}, {n})", params=1, flops=2.0,
     interval=_integer_power_interval)  # fmt: skip

_compare("eq", np.equal, "==")
_compare("ne", np.not_equal, "!=")
_compare("lt", np.less, "<")
_compare("le", np.less_equal, "<=")
_compare("gt", np.greater, ">")
_compare("ge", np.greater_equal, ">=")

_numpy: Callable[..., Any]
# Truth of any operand type is `!= 0`; on Booleans the bit operations vectorise and do not branch.
_LOGICAL = {
    "b": "({0} %s {1})",
    **dict.fromkeys("fc", "(({0} != 0) %s ({1} != 0))"),
    "i": "(({0} != 0) %s ({1} != 0))",
}
for _name, _numpy, _symbol, _rule, _choice in (
    ("logical_and", np.logical_and, "&", ranges.both, _among_truths(_pick_smaller)),
    ("logical_or", np.logical_or, "|", ranges.either, _among_truths(_pick_larger)),
    ("logical_xor", np.logical_xor, "^", lambda a, b: ranges.BOOL, None),
):
    _row(_name, 2, _numpy, {k: v % _symbol for k, v in _LOGICAL.items()}, result=_boolean,
         interval=_rule, pick=_choice)  # fmt: skip
_row("logical_not", 1, np.logical_not, "({0} == 0)", result=_boolean,
     interval=lambda a: ranges.compare("eq", a, ranges.point(0)))  # fmt: skip
for _name, _numpy, _symbol, _rule in (
    ("bitwise_and", np.bitwise_and, "&", ranges.bitwise_and),
    ("bitwise_or", np.bitwise_or, "|", ranges.bitwise_or),
    ("bitwise_xor", np.bitwise_xor, "^", ranges.bitwise_xor),
):
    _row(_name, 2, _numpy, {"i": f"({{0}} {_symbol} {{1}})"}, interval=_rule)
_row("bitwise_not", 1, np.bitwise_not, {"i": "({ct})(~{0})", "b": "({0} ^ 1)"},
     triton={"i": "(~{0})", "b": "({0} == 0)"}, interval=ranges.bitwise_not)  # fmt: skip
_function(
    "shift_left", 2, np.left_shift, 1.0, "stax_shift_left({0}, {1})",
    kinds="i", interval=ranges.shift_left,
)  # fmt: skip
_function(
    "shift_right", 2, np.right_shift, 1.0, "stax_shift_right({0}, {1})",
    kinds="i", interval=ranges.shift_right,
)  # fmt: skip

for _name, _numpy, _triton in (
    ("floor", np.floor, "tl.floor({0})"),
    ("ceil", np.ceil, "tl.ceil({0})"),
    ("trunc", np.trunc, "libdevice.trunc({0})"),
    # AMD's `rint` is one function for both precisions, which a kernel may not have.
    ("rint", np.rint, "libdevice.nearbyint({0})"),
):
    _row(_name, 1, _numpy, {"f": f"stax_{_name}_{{t}}({{0}})", "i": "{0}"},
         triton={"f": _triton, "i": "{0}"})  # fmt: skip

_function("sqrt", 1, np.sqrt, 6.0, "stax_sqrt({0})", kinds="fc")
_function("rsqrt", 1, _rsqrt, 8.0, "(1.0 / stax_sqrt({0}))", kinds="fc")
_TRITON_OWN = {"cbrt": "stax_cbrt({0})"}
for _name, _numpy, _flops in (
    ("exp", np.exp, 12.0), ("exp2", np.exp2, 12.0), ("expm1", np.expm1, 20.0),
    ("log", np.log, 14.0), ("log2", np.log2, 14.0), ("log10", np.log10, 14.0),
    ("log1p", np.log1p, 20.0), ("cbrt", np.cbrt, 16.0),
    ("sin", np.sin, 20.0), ("cos", np.cos, 20.0), ("tan", np.tan, 30.0),
    ("asin", np.arcsin, 25.0), ("acos", np.arccos, 25.0), ("atan", np.arctan, 25.0),
    ("sinh", np.sinh, 25.0), ("cosh", np.cosh, 25.0), ("tanh", np.tanh, 20.0),
    ("asinh", np.arcsinh, 30.0), ("acosh", np.arccosh, 30.0), ("atanh", np.arctanh, 30.0),
):  # fmt: skip
    _function(_name, 1, _numpy, _flops, _TRITON_OWN.get(_name, f"libdevice.{_name}({{0}})"),
              kinds="f" if _name == "cbrt" else "fc", transcendental=True)  # fmt: skip
_function("sigmoid", 1, _sigmoid, 15.0, "tl.sigmoid({0})", kinds="fc", transcendental=True)
_function("atan2", 2, np.arctan2, 35.0, "libdevice.atan2({0}, {1})", transcendental=True)
for _name, _scipy, _triton in (
    ("erf", "erf", "libdevice.erf({0})"),
    ("erfc", "erfc", "libdevice.erfc({0})"),
    ("erfinv", "erfinv", "libdevice.erfinv({0})"),
    ("lgamma", "gammaln", "libdevice.lgamma({0})"),
    ("digamma", "psi", "stax_digamma({0})"),
):
    _function(_name, 1, _scipy_special(_scipy), 25.0, _triton, transcendental=True)
# For random numbers: see `contracted`.
for _name, _numpy, _flops in (
    ("contracted_log", contracted.log, 20.0),
    ("contracted_log1p", contracted.log1p, 45.0),
    ("contracted_erf", contracted.erf, 20.0),
    ("contracted_erfinv", contracted.erfinv, 65.0),
):
    _function(_name, 1, _numpy, _flops, f"stax_{_name}({{0}})", transcendental=True)
_function("contracted_exp", 1, contracted_powers.exp, 15.0, "stax_contracted_exp({0})",
          transcendental=True)  # fmt: skip
_function("contracted_tan", 1, contracted_powers.tan, 40.0, "stax_contracted_tan({0})",
          transcendental=True)  # fmt: skip
_function("contracted_power", 2, contracted_powers.power, 45.0, "stax_contracted_power({0}, {1})",
          transcendental=True)  # fmt: skip
_function("contracted_fma", 3, contracted.fma, 2.0, "stax_contracted_fma({0}, {1}, {2})")
_function("hypot", 2, np.hypot, 10.0, "libdevice.hypot({0}, {1})")
_function("copysign", 2, np.copysign, 1.0, "libdevice.copysign({0}, {1})")
_function("nextafter", 2, np.nextafter, 4.0, "libdevice.nextafter({0}, {1})")

for _name, _numpy, _text in (
    ("real", np.real, "(__real__ {0})"), ("imag", np.imag, "(__imag__ {0})"),
):  # fmt: skip
    _row(_name, 1, _numpy, {"c": _text}, result=_part)
_row("conj", 1, np.conjugate, {"c": "stax_conj_{t}({0})"})
_row("complex", 2, _complex, {"f": "__builtin_complex({0}, {1})"}, triton={}, result=_whole)
_row("reciprocal", 1, np.reciprocal, {"c": "stax_reciprocal_{t}({0})"}, flops=4.0)

_SAME = {"0": "({0} != {0})", "1": "({0} == {0})"}  # a truth with the operand's shape
for _name, _numpy, _integer, _triton, _answer in (
    ("isnan", np.isnan, "0", "({0} != {0})", ranges.point(0)),
    ("isinf", np.isinf, "0", "(tl.abs({0}) == float('inf'))", ranges.point(0)),
    ("isfinite", np.isfinite, "1", "(tl.abs({0}) < float('inf'))", ranges.point(1)),
    ("signbit", _signbit, "({0} < 0)", "stax_signbit({0})", ranges.BOOL),
):
    _part_texts = dict.fromkeys("fc", f"stax_{_name}_{{t}}({{0}})")
    _row(_name, 1, _numpy, {**_part_texts, "i": _integer},
         triton={"f": _triton, "i": _SAME.get(_integer, _integer)}, result=_boolean,
         interval=lambda a, answer=_answer: answer)  # fmt: skip

_row("where", 3, _where, "({0} ? {1} : {2})", triton="tl.where({0}, {1}, {2})", result=_selected,
     interval=ranges.select, operand=1, pick=_pick_branch)  # fmt: skip


def saturating_cast(value: Any, dtype: np.dtype) -> Any:
    """NumPy's ``astype`` without the warnings about what does not fit, or an imaginary part."""
    value = np.asarray(value)
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def names() -> tuple[str, ...]:
    """All operations of the table, in order of registration."""
    return tuple(SCALAR_OPS)


def transcendental_names() -> frozenset[str]:
    """The operations marked transcendental."""
    return frozenset(name for name, row in SCALAR_OPS.items() if row.transcendental)
