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
    """`x` as it is, for where an activation is asked for.

    >>> identity(np.array([1, 2]))
    array([1, 2])
    """
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
    """`x` limited to [0, 6], with derivative 0 at both ends.

    >>> relu6(np.array([-1.0, 2.0, 7.0]))
    array([0., 2., 6.])
    """
    (x,) = floating("relu6", x)
    six = literal(6, x)
    return el.select(el.lt(x, six), el.relu(x), el.select(el.ge(x, six), six, x))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), which does not overflow; of complex numbers too.

    >>> sigmoid(np.array([-1000.0, 0.0]))
    array([0. , 0.5])
    """
    return tr.sigmoid(*inexact("sigmoid", x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), which does not overflow.

    >>> softplus(np.array([-1000.0, 1000.0]))
    array([   0., 1000.])
    """
    (x,) = floating("softplus", x)
    return tr.logaddexp(x, _zero(x))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), accurate where the sigmoid is near 0.

    >>> log_sigmoid(np.array([-1000.0, 1000.0]))
    array([-1000.,    -0.])
    """
    (x,) = floating("log_sigmoid", x)
    return el.neg(softplus(el.neg(x)))


def soft_sign(x: Any) -> Any:
    """`x / (1 + abs(x))`, 1 and -1 at infinities.

    >>> soft_sign(np.array([-1.0, np.inf]))
    array([-0.5,  1. ])
    """
    (x,) = floating("soft_sign", x)
    infinite, safe = _apart(x)
    return el.select(infinite, el.sign(x), el.div(safe, el.add(el.abs_(safe), one(x))))


def silu(x: Any) -> Any:
    """`x * sigmoid(x)`; of complex numbers too.

    Source: S. Elfwing, E. Uchibe, K. Doya, Neural Networks 107 (2018).

    >>> silu(np.array([-np.inf, 0.0, np.inf]))
    array([ 0.,  0., inf])
    """
    (x,) = inexact("silu", x)
    gated: Callable[[Any], Any] = lambda v: el.mul(v, tr.sigmoid(v))
    return gated(x) if is_complex(aval_of(x).dtype) else _as_relu_far_out(x, gated)


swish = silu


def mish(x: Any) -> Any:
    """`x * tanh(softplus(x))`.

    Source: D. Misra, BMVC (2020).

    >>> mish(np.array([-np.inf, 0.0, np.inf]))
    array([ 0.,  0., inf])
    """
    (x,) = floating("mish", x)
    return _as_relu_far_out(x, lambda v: el.mul(v, tr.tanh(softplus(v))))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent; of complex numbers too.

    >>> tanh(np.array([0, np.inf]))
    array([0., 1.])
    """
    return tr.tanh(*inexact("tanh", x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """`x` where positive, alpha * (exp(x) - 1) elsewhere.

    Source: D.-A. Clevert, T. Unterthiner, S. Hochreiter, ICLR (2016).

    >>> elu(np.array([-np.inf, 2.0]))
    array([-1.,  2.])
    """
    x, alpha = _with_parameter("elu", x, alpha)
    positive = el.gt(x, _zero(x))
    below = tr.expm1(el.select(positive, _zero(x), x))
    return el.select(positive, x, el.mul(alpha, below))


def _with_parameter(op: str, x: Any, parameter: Any) -> tuple[Any, Any]:
    """`x` as floating, and a parameter that does not widen it."""
    (x,) = floating(op, x)
    return x, as_dtype(array_like(parameter, op), aval_of(x).dtype)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """`x` where positive, negative_slope * x elsewhere.

    >>> leaky_relu(np.array([-2.0, 2.0]), 0.25)
    array([-0.5,  2. ])
    """
    x, slope = _with_parameter("leaky_relu", x, negative_slope)
    return el.select(el.ge(x, _zero(x)), x, el.mul(slope, x))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0).

    Source: J. T. Barron, arXiv:1704.07483 (2017).

    >>> celu(np.array([-np.inf, 2.0]), 0.5)
    array([-0.5,  2. ])
    """
    x, alpha = _with_parameter("celu", x, alpha)
    positive = el.gt(x, _zero(x))
    below = tr.expm1(el.div(el.select(positive, _zero(x), x), alpha))
    return el.select(positive, x, el.mul(alpha, below))


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(x: Any) -> Any:
    """The elu whose scale keeps mean 0 and variance 1.

    Source: G. Klambauer, T. Unterthiner, A. Mayr, S. Hochreiter, NeurIPS (2017).

    >>> np.round(selu(np.array([0.0, 1.0])), 4)
    array([0.    , 1.0507])
    """
    return times(elu(x, _SELU_ALPHA), _SELU_SCALE)


def gelu(x: Any, approximate: bool = True) -> Any:
    """`x * Phi(x)`, Phi by tanh (`approximate`) or by the error function.

    Source: D. Hendrycks, K. Gimpel, arXiv:1606.08415 (2016).

    >>> np.round(gelu(np.array([-1.0, 1.0]), approximate=False), 4)
    array([-0.1587,  0.8413])
    """
    (x,) = floating("gelu", x)
    return special.gelu(x, bool(approximate))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along `axis` times the sigmoid of the second.

    Raises:
      ShapeError: the axis has an odd extent.
      AxisError: there is no such axis.

    >>> glu(np.array([2.0, 4.0, 0.0, 0.0]))
    array([1., 2.])
    """
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
    """`x` limited to [-1, 1].

    >>> hard_tanh(np.array([-2.0, 0.5]))
    array([-1. ,  0.5])
    """
    (x,) = floating("hard_tanh", x)
    return el.clamp(literal(-1, x), x, one(x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(np.array([-3.0, 0.0, 3.0]))
    array([0. , 0.5, 1. ])
    """
    (x,) = floating("hard_sigmoid", x)
    return el.div(relu6(el.add(x, literal(3, x))), literal(6, x))


def hard_silu(x: Any) -> Any:
    """`x * hard_sigmoid(x)`.

    >>> hard_silu(np.array([0.0, 1.5, 4.0]))
    array([0.   , 1.125, 4.   ])
    """
    (x,) = floating("hard_silu", x)
    return _as_relu_far_out(x, lambda v: el.mul(v, hard_sigmoid(v)))


hard_swish = hard_silu


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x*x + b)) / 2.

    Source: J. T. Barron, arXiv:2112.11687 (2021).

    >>> squareplus(np.array([-np.inf, 0.0]))
    array([0., 1.])
    """
    x, b = _with_parameter("squareplus", x, b)
    root: Callable[[Any], Any] = lambda v: tr.sqrt(el.add(el.square(v), b))
    return _as_relu_far_out(x, lambda v: times(el.add(v, root(v)), 0.5))


def sparse_plus(x: Any) -> Any:
    """0 below -1, `x` above 1, and the parabola (x + 1)**2 / 4 between them.

    >>> sparse_plus(np.array([-2.0, 0.0, 2.0]))
    array([0.  , 0.25, 2.  ])
    """
    (x,) = floating("sparse_plus", x)
    unit = one(x)
    inside = el.clamp(el.neg(unit), x, unit)
    parabola = times(el.square(el.add(inside, unit)), 0.25)
    above = el.ge(x, unit)
    return el.select(el.le(x, el.neg(unit)), _zero(x), el.select(above, x, parabola))


def sparse_sigmoid(x: Any) -> Any:
    """(x + 1) / 2 limited to [0, 1], the derivative of `sparse_plus`.

    >>> sparse_sigmoid(np.array([-2.0, 0.0, 2.0]))
    array([0. , 0.5, 1. ])
    """
    (x,) = floating("sparse_sigmoid", x)
    return times(el.clamp(_zero(x), el.add(x, one(x)), literal(2, x)), 0.5)


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "leaky_relu", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip
