"""Rows for arithmetic as a compiler contracts it: the functions that random numbers are made of.

Input: floats.  Output: the function of each, rounded where `stax.loops.contracted_powers` and
`contracted_powers_f64` say.  Derivatives are those of the ordinary functions.
"""

from __future__ import annotations

from stax.loops import contracted, contracted_powers
from stax.primitives.elementwise import add, guarded_mul, mul, square
from stax.primitives.families import binary, elementwise, unary
from stax.primitives.transcendental import one, pow_base, pow_exponent

contracted_exp_p, contracted_exp = unary(
    "contracted_exp",
    contracted_powers.exp,
    lambda t, out, x: guarded_mul(t, out),
    accepts="f",
    weight=10.0,
)
contracted_power_p, contracted_power = binary(
    "contracted_power",
    contracted_powers.power,
    pow_base,
    pow_exponent,
    accepts="f",
    weight=20.0,
)
contracted_tan_p, contracted_tan = unary(
    "contracted_tan",
    contracted_powers.tan,
    lambda t, out, x: guarded_mul(t, add(square(out), one(x))),
    accepts="f",
    weight=20.0,
)


contracted_fma_p, contracted_fma = elementwise(
    "contracted_fma",
    contracted.fma,
    family="binary",
    accepts="f",
    partials=(
        lambda t, out, x, y, z: mul(t, y),
        lambda t, out, x, y, z: mul(t, x),
        lambda t, out, x, y, z: t,
    ),
    weight=2.0,
)
contracted_fma.__doc__ = "`x * y + z`, rounded once: contracted_fma(x, y, z)."
