"""`stax.lax`, contractions: dot, dot_general, batch_matmul.

Input: arrays or traced values under JAX's names.  Output: the `dot_general` primitive; a
`preferred_element_type` converts the operands first, so products accumulate in it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from stax.numpy.products import dot as numpy_dot
from stax.numpy.promotion import asarray_dtype, coerce
from stax.numpy.registration import converted
from stax.numpy.registration import operand as as_operand
from stax.primitives.contractions import dot_general as dot_row

__all__ = ["DotDimensionNumbers", "Precision", "batch_matmul", "dot", "dot_general"]

Array = Any
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class Precision(enum.Enum):
    """How exact a product is to be; every choice here computes in the operands' full precision.

    A whole program may ask a device for less: `jit(f, matmul_precision="tf32")`.
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def _operands(lhs: Array, rhs: Array, preferred: Any, op: str) -> tuple[Array, Array]:
    x, y = coerce(as_operand(lhs, op), as_operand(rhs, op))
    if preferred is None:
        return x, y
    kind = asarray_dtype(preferred)
    return converted(x, kind), converted(y, kind)


def dot(
    lhs: Array, rhs: Array, precision: Any = None, preferred_element_type: Any = None, **_: Any
) -> Array:
    """The product of vectors and matrices."""
    return numpy_dot(*_operands(lhs, rhs, preferred_element_type, "dot"))


def dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    **_: Any,
) -> Array:
    """Sum of products over contracted axes, for each index of the batch axes."""
    x, y = _operands(lhs, rhs, preferred_element_type, "dot_general")
    return dot_row(x, y, dimension_numbers)


def batch_matmul(lhs: Array, rhs: Array, precision: Any = None) -> Array:
    """Matrix products over equal leading axes."""
    x, y = _operands(lhs, rhs, None, "batch_matmul")
    n = len(x.shape)
    axes = tuple(range(n - 2))
    return dot_row(x, y, (((n - 1,), (n - 2,)), (axes, axes)))
