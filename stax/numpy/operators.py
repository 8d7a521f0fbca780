"""The arithmetic operators of traced values.

Input: a tracer and the other operand.  Output: what the operator gives on NumPy arrays; between
values that stand for Python scalars the result stays weak, as Python's own would.  Importing this
module fills the operator entries of METHODS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import METHODS, Tracer
from stax.dtypes import WEAK_DTYPES
from stax.numpy import ufuncs
from stax.numpy.promotion import coerce
from stax.numpy.ufunc_rules import RULES, power, static_power
from stax.primitives import transcendental as tr
from stax.primitives.families import kind_of

Function = Callable[..., Any]

# Operand types that NumPy's operators take; for others Python tries the other operand's method.
_OPERANDS = (Tracer, np.ndarray, np.generic, bool, int, float, complex, list, tuple)


def _is_weak(value: Any) -> bool:
    if isinstance(value, Tracer):
        return value.aval.weak
    return type(value) in WEAK_DTYPES


def _binary(function: Function, weak_rule: Function | None) -> tuple[Function, Function]:
    """The operator and its reflection; `weak_rule` computes between two weak numbers."""

    def apply(x: Any, y: Any) -> Any:
        if weak_rule is not None and _is_weak(x) and _is_weak(y):
            a, b = coerce(x, y)
            if aval_of(a).dtype.kind != "b":
                return weak_rule(a, b)
        return function(x, y)

    def forward(self: Any, other: Any) -> Any:
        return apply(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return apply(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return forward, reflected


def _weak_divide(x: Any, y: Any) -> Any:
    return RULES["divide"](*coerce(x, y, 0.0)[:2])


def _power(x: Any, y: Any) -> Any:
    """`x ** y` with the shortcuts of NumPy's operator for a Python number `y`."""
    if isinstance(y, float) and y == 0.5 and kind_of(aval_of(x).dtype) in "fc":
        return tr.sqrt(x)
    if _is_weak(x) and isinstance(y, int | float) and kind_of(aval_of(x).dtype) in "if":
        base, exponent = coerce(x, y)
        if isinstance(y, int) and 0 <= y <= 64:
            return static_power(base, y)
        return power(base, exponent)
    return ufuncs.power(x, y)


def _reflected_power(x: Any, y: Any) -> Any:
    return ufuncs.power(y, x)


def _unary(name: str) -> Function:
    rule, function = RULES[name], getattr(ufuncs, name)

    def apply(self: Any) -> Any:
        weak_number = self.aval.weak and self.aval.dtype.kind != "b"
        return rule(self) if weak_number else function(self)

    return apply


_WEAK = {
    "add": RULES["add"],
    "sub": RULES["subtract"],
    "mul": RULES["multiply"],
    "truediv": _weak_divide,
    "floordiv": RULES["floor_divide"],
    "mod": RULES["remainder"],
    "divmod": RULES["divmod"],
}
_FUNCTIONS = {
    "add": ufuncs.add,
    "sub": ufuncs.subtract,
    "mul": ufuncs.multiply,
    "truediv": ufuncs.divide,
    "floordiv": ufuncs.floor_divide,
    "mod": ufuncs.remainder,
    "divmod": ufuncs.divmod,
    "and": ufuncs.bitwise_and,
    "or": ufuncs.bitwise_or,
    "xor": ufuncs.bitwise_xor,
    "lshift": ufuncs.left_shift,
    "rshift": ufuncs.right_shift,
}
_COMPARISONS = {
    "eq": ufuncs.equal,
    "ne": ufuncs.not_equal,
    "lt": ufuncs.less,
    "le": ufuncs.less_equal,
    "gt": ufuncs.greater,
    "ge": ufuncs.greater_equal,
}

for _name, _function in _FUNCTIONS.items():
    _forward, _reflected = _binary(_function, _WEAK.get(_name))
    METHODS[f"__{_name}__"], METHODS[f"__r{_name}__"] = _forward, _reflected
for _name, _function in _COMPARISONS.items():
    METHODS[f"__{_name}__"] = _binary(_function, None)[0]


def _raised(self: Any, other: Any, modulus: Any = None) -> Any:
    return _RAISED(self, other) if modulus is None else NotImplemented  # as of NumPy's arrays


_RAISED = _binary(_power, None)[0]
METHODS["__pow__"] = _raised
METHODS["__rpow__"] = _binary(_reflected_power, None)[0]
METHODS["__neg__"] = _unary("negative")
METHODS["__pos__"] = _unary("positive")
METHODS["__abs__"] = _unary("absolute")
METHODS["__invert__"] = _unary("invert")
