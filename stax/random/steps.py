"""Arithmetic of draws that rounds where JAX's compiler does, in every dtype.

Input: floats of one dtype.  Output: floats of that dtype.
A step on half-precision numbers is rounded to their dtype also inside compiled programs, whose
loops would otherwise go on in float32.  A product that only a sum reads is not rounded (`fused`).
A parameter that is the same for several draws is prepared once for all of them: draws are
multiplied by its reciprocal (`ratio`), or by its product with a constant (`times`).  Neither is so
in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stax.core.aval import aval_of
from stax.dtypes import FLOAT32, bfloat16, is_half
from stax.primitives import contracted, special, transcendental
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families import literal


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, rounded to half types where its operands are."""

    def rounded(*operands: Any) -> Any:
        dtype = aval_of(operands[0]).dtype
        if not is_half(dtype):
            return function(*operands)
        return convert(function(*(convert(x, FLOAT32) for x in operands)), dtype)

    return rounded


add, sub, mul, div = (step(f) for f in (el.add, el.sub, el.mul, el.div))
square, sqrt = step(el.square), step(transcendental.sqrt)
log, log1p = step(transcendental.contracted_log), step(transcendental.contracted_log1p)
erf, erfinv = step(special.contracted_erf), step(special.contracted_erfinv)
exp, power = step(contracted.contracted_exp), step(contracted.contracted_power)
tan = step(contracted.contracted_tan)
_fma = step(contracted.contracted_fma)


def fused(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, rounded once."""
    if aval_of(x).dtype == bfloat16:
        return add(mul(x, y), z)
    return _fma(x, y, z)


def shared(parameter: Any, draws: Any) -> bool:
    """Whether several of the draws have one parameter, which is prepared for them."""
    few = aval_of(parameter).size < aval_of(draws).size
    return few and aval_of(parameter).dtype != bfloat16


def scaled(x: Any, factor: float) -> Any:
    """`x` times a number."""
    return mul(x, literal(factor, x))


def times(x: Any, factor: float, parameter: Any) -> Any:
    """`x * factor * parameter`."""
    if shared(parameter, x):
        return mul(x, scaled(parameter, factor))
    return mul(scaled(x, factor), parameter)


def ratio(x: Any, parameter: Any) -> Any:
    """`x / parameter`."""
    if shared(parameter, x):
        return mul(x, div(literal(1, parameter), parameter))
    return div(x, parameter)
