"""One table of samples for every operation: value, derivative, batching and jit tests run on it.

A sample names a function of the surface, makes arguments for it at a point where it is smooth, and
says which of them have a derivative.  `SAMPLES` is the elementwise part; array operations add
theirs in `op_samples_arrays.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import stax.lax as lax
import stax.numpy as snp
from stax.primitives import contracted, special
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr

Maker = Callable[[np.random.Generator, np.dtype], tuple[Any, ...]]
FLOATS = ("f4", "f8")


@dataclass(frozen=True)
class Sample:
    """One operation on one kind of arguments.

    `make(rng, dtype)` gives the arguments; `diff` the positions that have a derivative; `dtypes`
    the dtypes to try; `order` how often it can be differentiated; `tol` widens the tolerance of
    derivative checks where the function itself is only accurate to that.
    """

    name: str
    fn: Callable[..., Any]
    make: Maker
    diff: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    order: int = 2
    tol: float = 1.0

    def __str__(self) -> str:
        return self.name


def uniform(low: float, high: float, *shapes: tuple[int, ...]) -> Maker:
    """Arguments drawn from [low, high], one for each shape."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> tuple[Any, ...]:
        out = []
        for shape in shapes or ((3, 4),):
            x = rng.uniform(low, high, shape)
            if np.dtype(dtype).kind == "c":
                x = x + 1j * rng.uniform(low, high, shape)
            out.append(np.asarray(x).astype(dtype))
        return tuple(out)

    return make


def signed(low: float, high: float, *shapes: tuple[int, ...]) -> Maker:
    """Arguments of both signs with a size in [low, high]: away from zero and from each other."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> tuple[Any, ...]:
        out = []
        for shape in shapes or ((3, 4),):
            size = rng.uniform(low, high, shape) * np.where(rng.random(shape) < 0.5, -1, 1)
            out.append(np.asarray(size).astype(dtype))
        return tuple(out)

    return make


def _reduced(exponent: int, mantissa: int) -> Callable[[Any], Any]:
    return lambda x: lax.stop_gradient(lax.reduce_precision(x, exponent, mantissa))


def integers(low: int, high: int, *shapes: tuple[int, ...]) -> Maker:
    """Integers in [low, high), one array for each shape."""
    return lambda rng, dtype: tuple(
        rng.integers(low, high, shape).astype(dtype) for shape in shapes or ((3, 4),)
    )


def booleans(*shapes: tuple[int, ...]) -> Maker:
    """Random truth values."""
    return lambda rng, dtype: tuple(rng.random(shape) < 0.5 for shape in shapes)


PAIR = ((3, 4), (4,))
INTS = ("i4", "i8", "u1", "i2")


def _unary(name: str, fn: Callable[..., Any], make: Maker, **options: Any) -> Sample:
    options.setdefault("diff", (0,))
    return Sample(name, fn, make, **options)


def _binary(name: str, fn: Callable[..., Any], make: Maker, **options: Any) -> Sample:
    options.setdefault("diff", (0, 1))
    return Sample(name, fn, make, **options)


def _flat(name: str, fn: Callable[..., Any], make: Maker, **options: Any) -> Sample:
    return Sample(name, fn, make, **options)


def _select_args(rng: np.random.Generator, dtype: np.dtype) -> tuple[Any, ...]:
    x, y = signed(0.5, 2, *PAIR)(rng, dtype)
    return rng.random((3, 1)) < 0.5, x, y


def _clamp_args(rng: np.random.Generator, dtype: np.dtype) -> tuple[Any, ...]:
    x = np.asarray(rng.permutation(12).reshape(3, 4) * 0.5 - 2.7).astype(dtype)
    return np.asarray(-1.0, dtype), x, np.asarray([1, 1.5, 2, 0.75], dtype)


_R = uniform(-2, 2)
_POSITIVE = uniform(0.3, 3)

SMOOTH = [
    _unary("negative", snp.negative, _R, dtypes=("f4", "f8", "c16")),
    _unary("absolute", snp.abs, signed(0.3, 2)),
    _unary("absolute_complex", snp.abs, signed(0.3, 2), dtypes=("c16",)),
    _unary("square", snp.square, _R, dtypes=("f4", "f8", "c16")),
    _unary("reciprocal", snp.reciprocal, signed(0.5, 2), dtypes=("f4", "f8", "c16")),
    _unary("sqrt", snp.sqrt, _POSITIVE, dtypes=("f4", "f8", "c16")),
    _unary("rsqrt", lax.rsqrt, _POSITIVE),
    _unary("cbrt", snp.cbrt, _POSITIVE),
    _unary("exp", snp.exp, _R, dtypes=("f4", "f8", "c16")),
    _unary("exp2", snp.exp2, _R),
    _unary("expm1", snp.expm1, _R),
    _unary("log", snp.log, _POSITIVE, dtypes=("f4", "f8", "c16")),
    _unary("log2", snp.log2, _POSITIVE),
    _unary("log10", snp.log10, _POSITIVE),
    _unary("log1p", snp.log1p, uniform(-0.6, 2)),
    _unary("sin", snp.sin, _R, dtypes=("f4", "f8", "c16")),
    _unary("cos", snp.cos, _R, dtypes=("f4", "f8", "c16")),
    _unary("tan", snp.tan, uniform(-1, 1)),
    _unary("arcsin", snp.arcsin, uniform(-0.8, 0.8)),
    _unary("arccos", snp.arccos, uniform(-0.8, 0.8)),
    _unary("arctan", snp.arctan, _R),
    _unary("sinh", snp.sinh, _R),
    _unary("cosh", snp.cosh, _R),
    _unary("tanh", snp.tanh, _R, dtypes=("f4", "f8", "c16")),
    _unary("sech2", tr.sech2, _R),
    _unary("arcsinh", snp.arcsinh, _R),
    _unary("arccosh", snp.arccosh, uniform(1.5, 4)),
    _unary("arctanh", snp.arctanh, uniform(-0.7, 0.7)),
    _unary("logistic", lax.logistic, _R),
    _unary("relu", el.relu, signed(0.3, 2)),
    _unary("gelu", lambda x: special.gelu(x, False), _R),
    _unary("gelu_tanh", lambda x: special.gelu(x, True), _R),
    _unary("erf", lax.erf, _R),
    _unary("erfc", lax.erfc, _R),
    _unary("erf_inv", lax.erf_inv, uniform(-0.8, 0.8)),
    _unary("contracted_log", tr.contracted_log, _POSITIVE),
    _unary("contracted_log1p", tr.contracted_log1p, uniform(-0.6, 2)),
    _unary("contracted_erf", special.contracted_erf, _R),
    _unary("contracted_erfinv", special.contracted_erfinv, uniform(-0.8, 0.8)),
    _unary("contracted_exp", contracted.contracted_exp, _R),
    _unary("contracted_tan", contracted.contracted_tan, uniform(-1.2, 1.2)),
    _unary("lgamma", lax.lgamma, uniform(0.5, 4)),
    _unary("digamma", lax.digamma, uniform(0.8, 4)),
    _unary("polygamma", lambda x: lax.polygamma(2, x), uniform(1, 4)),
    _unary("integer_pow_3", lambda x: x**3, _R, dtypes=("f4", "f8", "c16")),
    _unary("integer_pow_-2", lambda x: x**-2, signed(0.6, 2)),
    _unary("sqrt_operator", lambda x: x**0.5, _POSITIVE),
    _unary("power_constant", lambda x: x**1.7, _POSITIVE),
    _unary("exponential_constant", lambda x: 1.7**x, _R),
    _unary("degrees", snp.degrees, _R),
    _unary("real", lax.real, _R, dtypes=("c16",)),
    _unary("imag", lax.imag, _R, dtypes=("c16",)),
    _unary("conjugate", snp.conjugate, _R, dtypes=("c16", "f8")),
    _unary("modf", lambda x: snp.modf(x)[0], uniform(1.1, 1.9)),
    _unary("frexp", lambda x: snp.frexp(x)[0], uniform(1.1, 1.9)),
    _unary("convert", lambda x: lax.convert_element_type(x, np.float64), _R),
    _unary("ldexp", lambda x: snp.ldexp(x, 3), _R),
    _binary("add", snp.add, uniform(-2, 2, *PAIR), dtypes=("f4", "f8", "c16")),
    _binary("subtract", snp.subtract, uniform(-2, 2, *PAIR), dtypes=("f4", "f8", "c16")),
    _binary("multiply", snp.multiply, uniform(-2, 2, *PAIR), dtypes=("f4", "f8", "c16")),
    _binary("divide", snp.divide, signed(0.5, 2, *PAIR)),
    _binary("divide_complex", snp.divide, uniform(0.5, 2, *PAIR), dtypes=("c16",)),
    _binary("guarded_mul", el.guarded_mul, signed(0.5, 2, *PAIR)),
    _binary("guarded_div", el.guarded_div, signed(0.5, 2, *PAIR)),
    _binary("power", snp.power, uniform(0.5, 2, *PAIR)),
    _binary("contracted_power", contracted.contracted_power, uniform(0.5, 2, *PAIR)),
    Sample("contracted_fma", contracted.contracted_fma, uniform(-2, 2, *PAIR, (3, 1)),
           diff=(0, 1, 2)),
    _binary("hypot", snp.hypot, signed(0.5, 2, *PAIR)),
    _binary("arctan2", snp.arctan2, signed(0.5, 2, *PAIR)),
    _binary("logaddexp", snp.logaddexp, uniform(-2, 2, *PAIR)),
    _binary("logaddexp2", snp.logaddexp2, uniform(-2, 2, *PAIR)),
    _binary("maximum", snp.maximum, signed(0.5, 2, *PAIR)),
    _binary("minimum", snp.minimum, signed(0.5, 2, *PAIR)),
    _binary("fmax", snp.fmax, signed(0.5, 2, *PAIR)),
    _binary("fmin", snp.fmin, signed(0.5, 2, *PAIR)),
    _binary("remainder", snp.remainder, lambda r, d: (np.asarray([2.3, -1.2, 3.9], d),
                                                      np.asarray([[1.0], [-1.7]], d))),
    _binary("fmod", snp.fmod, lambda r, d: (np.asarray([2.3, -1.2, 3.9], d),
                                            np.asarray([[1.0], [-1.7]], d))),
    _binary("copysign", snp.copysign, signed(0.5, 2, *PAIR), diff=(0,)),
    _binary("complex", lax.complex, uniform(-2, 2, *PAIR)),
    _binary("select", lax.select, _select_args, diff=(1, 2)),
    _binary("clamp", lax.clamp, _clamp_args, diff=(0, 1, 2)),
]  # fmt: skip

FLAT = [
    _flat("sign", snp.sign, signed(0.3, 2), dtypes=("f4", "f8", "i4")),
    _flat("floor", snp.floor, _R),
    _flat("ceil", snp.ceil, _R),
    _flat("trunc", snp.trunc, _R),
    _flat("rint", snp.rint, _R),
    _flat("round_away", lax.round, _R),
    _flat("signbit", snp.signbit, _R),
    _flat("isnan", snp.isnan, _R, dtypes=("f4", "f8", "i4", "c16")),
    _flat("isinf", snp.isinf, _R, dtypes=("f4", "f8", "i4", "c16")),
    _flat("isfinite", snp.isfinite, _R, dtypes=("f4", "f8", "i4", "c16")),
    _flat("nextafter", snp.nextafter, uniform(-2, 2, *PAIR)),
    _flat("spacing", snp.spacing, _R),
    _flat("heaviside", snp.heaviside, signed(0.5, 2, *PAIR)),
    _flat("floor_divide", snp.floor_divide, signed(1, 5, *PAIR), dtypes=("f4", "f8", "i4", "i8")),
    _flat("div_integers", lax.div, signed(1, 5, *PAIR), dtypes=("i4", "i8")),
    _flat("rem_integers", lax.rem, signed(1, 5, *PAIR), dtypes=("i4", "i8")),
    _flat("equal", snp.equal, integers(0, 3, *PAIR), dtypes=("f4", "f8", "i4", "?", "c16")),
    _flat("not_equal", snp.not_equal, integers(0, 3, *PAIR), dtypes=("f4", "f8", "i4", "?")),
    _flat("less", snp.less, integers(0, 3, *PAIR), dtypes=("f4", "f8", "i4", "u1", "?")),
    _flat("less_equal", snp.less_equal, integers(0, 3, *PAIR), dtypes=("f4", "f8", "i4", "?")),
    _flat("greater", snp.greater, integers(0, 3, *PAIR), dtypes=("f4", "f8", "i4", "?")),
    _flat("greater_equal", snp.greater_equal, integers(0, 3, *PAIR), dtypes=("f4", "i4", "?")),
    _flat("logical_and", snp.logical_and, integers(0, 2, *PAIR), dtypes=("?", "f8", "i4")),
    _flat("logical_or", snp.logical_or, integers(0, 2, *PAIR), dtypes=("?", "f8", "i4")),
    _flat("logical_xor", snp.logical_xor, integers(0, 2, *PAIR), dtypes=("?", "f8", "i4")),
    _flat("logical_not", snp.logical_not, integers(0, 2), dtypes=("?", "f8", "i4")),
    _flat("bitwise_and", snp.bitwise_and, integers(0, 100, *PAIR), dtypes=(*INTS, "?")),
    _flat("bitwise_or", snp.bitwise_or, integers(0, 100, *PAIR), dtypes=(*INTS, "?")),
    _flat("bitwise_xor", snp.bitwise_xor, integers(0, 100, *PAIR), dtypes=(*INTS, "?")),
    _flat("invert", snp.invert, integers(0, 100), dtypes=(*INTS, "?")),
    _flat("left_shift", snp.left_shift, integers(0, 7, *PAIR), dtypes=INTS),
    _flat("right_shift", snp.right_shift, integers(0, 7, *PAIR), dtypes=INTS),
    _flat("shift_logical", lax.shift_right_logical, integers(0, 7, *PAIR), dtypes=INTS),
    _flat("population_count", lax.population_count, integers(0, 100), dtypes=INTS),
    _flat("bitwise_count", snp.bitwise_count, integers(0, 100), dtypes=INTS),
    _flat("gcd", snp.gcd, integers(1, 60, *PAIR), dtypes=("i4", "i8")),
    _flat("lcm", snp.lcm, integers(1, 60, *PAIR), dtypes=("i4", "i8")),
    _flat("integer_add", snp.add, integers(0, 100, *PAIR), dtypes=INTS),
    _flat("integer_multiply", snp.multiply, integers(0, 100, *PAIR), dtypes=INTS),
    _flat("integer_power", lambda x: x**3, integers(0, 100), dtypes=INTS),
    _flat("integer_remainder", snp.remainder, integers(1, 100, *PAIR), dtypes=INTS),
    _flat("integer_maximum", snp.maximum, integers(0, 100, *PAIR), dtypes=INTS),
    _flat("bitcast", lambda x: lax.bitcast_convert_type(x, np.int32), _R, dtypes=("f4",)),
    _flat("to_integer", lambda x: lax.convert_element_type(x, np.int32), _R),
    _flat("to_bool", lambda x: lax.convert_element_type(x, np.bool_), integers(0, 2)),
    _flat("stop_gradient", lax.stop_gradient, _R),
    # Their derivative is that of the identity, rounded: tests/ops/test_arrays_surface.py has it.
    _flat("reduce_precision", _reduced(5, 3), uniform(-4.0, 4.0)),
    _flat("reduce_exponent", _reduced(2, 60), uniform(-4.0, 4.0)),
]  # fmt: skip

SAMPLES: list[Sample] = [*SMOOTH, *FLAT]
