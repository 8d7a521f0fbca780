"""Vector quantisation.

Input: points and a code book, one vector a row.  Output: for each point the nearest code and the
distance to it.
"""

from __future__ import annotations

from typing import Any

from stax.core.aval import aval_of
from stax.errors import ShapeError
from stax.numpy.inexact import floating
from stax.primitives.elementwise import square, sub
from stax.primitives.reductions import argmin, reduce_min
from stax.primitives.transcendental import sqrt
from stax.primitives.views import reduce_sum, reshape


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The nearest row of `code_book` for each row of `obs`, and its distance."""
    obs, code_book = floating("vq", obs, code_book)
    shape, codes = aval_of(obs).shape, aval_of(code_book).shape
    if len(shape) != len(codes) or len(shape) not in (1, 2) or shape[1:] != codes[1:]:
        raise ShapeError(
            f"points of shape {shape} and codes of shape {codes} differ in their rows",
            op="vq",
            operands=[str(aval_of(obs)), str(aval_of(code_book))],
        )
    width = shape[1] if len(shape) == 2 else 1
    points = reshape(obs, (shape[0], 1, width))
    centres = reshape(code_book, (1, codes[0], width))
    distances = reduce_sum(square(sub(points, centres)), [2])
    return argmin(distances, 1), sqrt(reduce_min(distances, [1]))
