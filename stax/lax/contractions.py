"""`stax.lax`, contractions: dot, dot_general, batch_matmul, ragged_dot.

Input: arrays or traced values under JAX's names.  Output: the `dot_general` primitive; a
`preferred_element_type` converts the operands first, so products accumulate in it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy.manipulation import reshape, transpose
from stax.numpy.products import dot as numpy_dot
from stax.numpy.promotion import asarray_dtype, coerce
from stax.numpy.reductions import cumsum
from stax.numpy.registration import converted, refuse_unread
from stax.numpy.registration import operand as as_operand
from stax.numpy.selection import where
from stax.primitives.contractions import dot_general as dot_row
from stax.primitives.views import reduce_sum

__all__ = ["DotDimensionNumbers", "Precision", "batch_matmul", "dot", "dot_general", "ragged_dot"]

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
    lhs: Array,
    rhs: Array,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    dimension_numbers: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of vectors and matrices, or of other axes that `dimension_numbers` names.

    As `numpy.dot` without them; `dot_general` says what the options mean.

    >>> dot(np.ones((2, 3)), np.ones(3))
    array([3., 3.])
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
    return numpy_dot(*_operands(lhs, rhs, preferred_element_type, "dot"))


def dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sum of products over contracted axes, for each index of the batch axes.

    Args:
      dimension_numbers: `((axes of lhs, axes of rhs), (axes of lhs, axes of rhs))`: the axes that
        are summed over, then the batch axes.
      precision: accepted for compatibility; products have the operands' full precision on the CPU.
      preferred_element_type: the dtype that operands are converted to, and of the result.

    Returns:
      An array with the batch axes, the other axes of `lhs`, and the other axes of `rhs`.

    Raises:
      ShapeError: extents of a pair of axes that differ.

    >>> batched = (((2,), (1,)), ((0,), (0,)))
    >>> dot_general(np.ones((5, 2, 3)), np.ones((5, 3, 4)), batched).shape
    (5, 2, 4)
    """
    x, y = _operands(lhs, rhs, preferred_element_type, "dot_general")
    return dot_row(x, y, dimension_numbers)


def batch_matmul(lhs: Array, rhs: Array, precision: Any = None) -> Array:
    """Matrix products over equal leading axes.

    >>> batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    x, y = _operands(lhs, rhs, None, "batch_matmul")
    n = len(x.shape)
    axes = tuple(range(n - 2))
    return dot_row(x, y, (((n - 1,), (n - 2,)), (axes, axes)))


def ragged_dot(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
) -> Array:
    """Rows of `lhs` (m, k) in consecutive groups, each times its own matrix of `rhs` (g, k, n).

    Args:
      group_sizes: how many rows each of the g groups has; rows beyond them give zeros.

    Raises:
      ShapeError: the shapes do not fit.
    """
    refuse_unread("ragged_dot", {"group_offset": group_offset})
    x, y = _operands(lhs, rhs, preferred_element_type, "ragged_dot")
    sizes = as_operand(group_sizes, "ragged_dot")
    if len(x.shape) != 2 or len(y.shape) != 3 or x.shape[1] != y.shape[1]:
        raise ShapeError(
            f"rows of shape {x.shape} and matrices of shape {y.shape} do not fit",
            op="ragged_dot",
            operands=[str(aval_of(x)), str(aval_of(y))],
            where=user_source() or None,
        )
    ends = cumsum(sizes)
    row = np.arange(x.shape[0])
    ends, begins = (reshape(v, (-1, 1, 1)) for v in (ends, ends - sizes))
    # One product for each group, of which a row keeps its own.
    products = dot_row(y, x, (((1,), (1,)), ((), ())))
    kept = where((row >= begins) & (row < ends), products, 0)
    return transpose(reduce_sum(kept, [0]), (1, 0))
