"""Operands of linear algebra: stacks of matrices in one of LAPACK's dtypes.

Input: what the user passed to a function of `numpy.linalg`.  Output: arrays or traced values in
their common floating dtype, with equal leading axes where there are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy.inexact import as_library_takes_them
from stax.primitives.views import broadcast

Array = Any


def matrices(op: str, *values: Any) -> list[Array]:
    """The operands as floating matrices.

    Raises:
      ShapeError: one has fewer than two dimensions.
    """
    found = [np.asarray(v) if np.isscalar(v) else v for v in as_library_takes_them(op, *values)]
    for value in found:
        if len(value.shape) < 2:
            raise ShapeError(
                f"{len(value.shape)}-dimensional array given; it must be at least two-dimensional",
                op=op,
                operands=[str(aval_of(v)) for v in found],
                where=user_source() or None,
            )
    return found


def common_stack(op: str, xs: Sequence[Array]) -> list[Array]:
    """The matrices with their leading axes broadcast against each other."""
    try:
        stack = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
    except ValueError:
        raise ShapeError(
            "the leading axes do not broadcast",
            op=op,
            operands=[str(aval_of(x)) for x in xs],
            where=user_source() or None,
        ) from None
    return [broadcast(x, (*stack, *x.shape[-2:])) for x in xs]
