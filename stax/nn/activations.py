"""Activation functions, elementwise.

Input: an array.  Output: the activated array, floating (except `relu`, which keeps integers).  A
branch that is not taken is fed a harmless number, so it overflows nowhere.  At infinities values
and derivatives are the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import is_complex
from stax.errors import ShapeError
from stax.numpy.inexact import floating, inexact
from stax.numpy.promotion import array_like, as_dtype, check_kinds
from stax.numpy.registration import axis_index
from stax.primitives import elementwise as el
from stax.primitives import special
from stax.primitives import transcendental as tr
from stax.primitives.families import literal
from stax.primitives.shapes import slice_axis
from stax.primitives.transcendental import one, times


def _zero(x: Any) -> Any:
    return literal(0, x)


def _apart(x: Any) -> tuple[Any, Any]:
    """Which elements are infinite, and the elements with 0 in their place."""
    infinite = el.isinf(x)
    return infinite, el.select(infinite, _zero(x), x)


def _as_relu_far_out(x: Any, function: Callable[[Any], Any]) -> Any:
    """`function`, whose limits are 0 and `x`; its products would be NaN at infinities."""
    infinite, safe = _apart(x)
    return el.select(infinite, el.relu(x), function(safe))


def identity(x: Any) -> Any:
    """`x`."""
    return array_like(x, "identity")


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0; truth values become integers.

    Raises:
      DtypeError: `x` is complex.

    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    value = array_like(x, "relu")
    check_kinds("relu", "bif", value)
    if isinstance(value, bool | int | float):
        value = np.asarray(value)
    if aval_of(value).dtype.kind == "b":
        value = as_dtype(value, np.dtype(np.int64))
    return el.relu(value)


def relu6(x: Any) -> Any:
    """`x` limited to [0, 6], with derivative 0 at both ends."""
    (x,) = floating("relu6", x)
    six = literal(6, x)
    return el.select(el.lt(x, six), el.relu(x), el.select(el.ge(x, six), six, x))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tr.sigmoid(*inexact("sigmoid", x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    (x,) = floating("softplus", x)
    return tr.logaddexp(x, _zero(x))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x))."""
    (x,) = floating("log_sigmoid", x)
    return el.neg(softplus(el.neg(x)))


def soft_sign(x: Any) -> Any:
    """X / (1 + abs(x))."""
    (x,) = floating("soft_sign", x)
    infinite, safe = _apart(x)
    return el.select(infinite, el.sign(x), el.div(safe, el.add(el.abs_(safe), one(x))))


def silu(x: Any) -> Any:
    """X * sigmoid(x)."""
    (x,) = inexact("silu", x)
    gated: Callable[[Any], Any] = lambda v: el.mul(v, tr.sigmoid(v))
    return gated(x) if is_complex(aval_of(x).dtype) else _as_relu_far_out(x, gated)


swish = silu


def mish(x: Any) -> Any:
    """X * tanh(softplus(x))."""
    (x,) = floating("mish", x)
    return _as_relu_far_out(x, lambda v: el.mul(v, tr.tanh(softplus(v))))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tr.tanh(*inexact("tanh", x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """`x` where positive, alpha * (exp(x) - 1) elsewhere."""
    x, alpha = _with_parameter("elu", x, alpha)
    positive = el.gt(x, _zero(x))
    below = tr.expm1(el.select(positive, _zero(x), x))
    return el.select(positive, x, el.mul(alpha, below))


def _with_parameter(op: str, x: Any, parameter: Any) -> tuple[Any, Any]:
    """`x` as floating, and a parameter that does not widen it."""
    (x,) = floating(op, x)
    return x, as_dtype(array_like(parameter, op), aval_of(x).dtype)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """`x` where positive, negative_slope * x elsewhere."""
    x, slope = _with_parameter("leaky_relu", x, negative_slope)
    return el.select(el.ge(x, _zero(x)), x, el.mul(slope, x))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    x, alpha = _with_parameter("celu", x, alpha)
    positive = el.gt(x, _zero(x))
    below = tr.expm1(el.div(el.select(positive, _zero(x), x), alpha))
    return el.select(positive, x, el.mul(alpha, below))


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(x: Any) -> Any:
    """The elu whose scale keeps mean 0 and variance 1."""
    return times(elu(x, _SELU_ALPHA), _SELU_SCALE)


def gelu(x: Any, approximate: bool = True) -> Any:
    """X * Phi(x), Phi by tanh (`approximate`) or by the error function."""
    (x,) = floating("gelu", x)
    return special.gelu(x, bool(approximate))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along `axis` times the sigmoid of the second."""
    (x,) = inexact("glu", x)
    shape = aval_of(x).shape
    axis = axis_index(axis, len(shape), "glu")
    if shape[axis] % 2:
        raise ShapeError(
            f"axis {axis} has {shape[axis]} elements, which cannot be halved",
            op="glu",
            operands=[str(aval_of(x))],
        )
    half = shape[axis] // 2
    return el.mul(slice_axis(x, axis, 0, half), tr.sigmoid(slice_axis(x, axis, half, shape[axis])))


def hard_tanh(x: Any) -> Any:
    """`x` limited to [-1, 1]."""
    (x,) = floating("hard_tanh", x)
    return el.clamp(literal(-1, x), x, one(x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    (x,) = floating("hard_sigmoid", x)
    return el.div(relu6(el.add(x, literal(3, x))), literal(6, x))


def hard_silu(x: Any) -> Any:
    """X * hard_sigmoid(x)."""
    (x,) = floating("hard_silu", x)
    return _as_relu_far_out(x, lambda v: el.mul(v, hard_sigmoid(v)))


hard_swish = hard_silu


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x*x + b)) / 2."""
    x, b = _with_parameter("squareplus", x, b)
    root: Callable[[Any], Any] = lambda v: tr.sqrt(el.add(el.square(v), b))
    return _as_relu_far_out(x, lambda v: times(el.add(v, root(v)), 0.5))


def sparse_plus(x: Any) -> Any:
    """0 below -1, `x` above 1, and the parabola (x + 1)**2 / 4 between them."""
    (x,) = floating("sparse_plus", x)
    unit = one(x)
    inside = el.clamp(el.neg(unit), x, unit)
    parabola = times(el.square(el.add(inside, unit)), 0.25)
    above = el.ge(x, unit)
    return el.select(el.le(x, el.neg(unit)), _zero(x), el.select(above, x, parabola))


def sparse_sigmoid(x: Any) -> Any:
    """(x + 1) / 2 limited to [0, 1], the derivative of `sparse_plus`."""
    (x,) = floating("sparse_sigmoid", x)
    return times(el.clamp(_zero(x), el.add(x, one(x)), literal(2, x)), 0.5)


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "leaky_relu", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip
