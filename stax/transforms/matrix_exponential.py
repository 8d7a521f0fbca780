"""The exponential of matrices, and its derivative along a matrix.

Input: stacks of square matrices.  Output: rows beside the functions that bind them.  The derivative
of expm is one block of expm([[a, e], [0, a]]), and the derivative of that is again such a block.
NumPy arrays go to SciPy; a compiled program halves the matrix until it is small, takes a Pade
approximant (Higham, "The scaling and squaring method for the matrix exponential revisited", 2005)
and squares the result as often, in a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import Linear, Zero
from stax.core.staging import stage
from stax.core.trace import bind, bind1
from stax.dtypes import is_complex, real_part_dtype
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families import literal
from stax.primitives.linalg_algebra import (
    columns,
    eye_like,
    given,
    matmul,
    matrix_row,
    mt,
    per_matrix,
    rows,
    scaled,
    total,
)
from stax.primitives.linalg_functions import square_aval
from stax.primitives.linalg_library import PADE, PADE_RADIUS, exponential
from stax.primitives.linalg_solve import solve
from stax.primitives.reductions import reduce_max
from stax.primitives.shapes import concatenate, zeros
from stax.primitives.transcendental import exp2, log2
from stax.primitives.views import broadcast, reduce_sum, reshape
from stax.transforms.control_while import while_p

__all__ = ["expm", "expm_frechet"]

# In single precision a lower order is exact up to larger norms (the same table).
_PADE_SINGLE = (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)
_RADIUS_SINGLE = 3.9
_MOST = 1100.0  # halvings of the largest number there is; further ones change nothing


def _computed(a: Any) -> Any:
    """The exponentials, from products and one solution of linear systems."""
    aval = aval_of(a)
    if aval.size == 0:
        return a
    single = real_part_dtype(aval.dtype) == np.float32
    table, radius = (_PADE_SINGLE, _RADIUS_SINGLE) if single else (PADE, PADE_RADIUS)
    lead = aval.shape[:-2]
    size = el.abs_(a)
    norm = reduce_max(reduce_sum(size, (len(lead),)), (len(lead),))
    halvings = el.ceil(log2(el.div(norm, literal(radius, norm))))
    # A matrix of zeros gives -inf here, and one with a NaN no number; both are halved no time.
    halvings = el.select(el.gt(halvings, literal(0, norm)), halvings, literal(0, norm))
    halvings = el.minimum(halvings, literal(_MOST, norm))
    factor = exp2(el.neg(halvings))
    if is_complex(aval.dtype):
        factor = convert(factor, aval.dtype)
    x = el.mul(a, broadcast(reshape(factor, (*lead, 1, 1)), aval.shape))
    square = matmul(x, x)
    power = broadcast(eye_like(x), aval.shape)
    even = odd = zeros(aval.shape, aval.dtype)
    for k in range(0, len(table), 2):
        even = el.add(even, scaled(power, table[k]))
        odd = el.add(odd, scaled(power, table[k + 1]))
        if k + 2 < len(table):
            power = square if k == 0 else matmul(power, square)
    odd = matmul(x, odd)
    return _squared(solve(el.sub(even, odd), el.add(even, odd)), halvings)


def _squared(x: Any, times: Any) -> Any:
    """Every matrix squared its number of times."""
    lead = times.shape
    times = convert(times, np.dtype(np.int32))
    most = reduce_max(times, tuple(range(len(lead)))) if lead else times
    count, matrix = Aval((), np.dtype(np.int32)), aval_of(x).strong()

    def step(times: Any, k: Any, x: Any) -> list[Any]:
        again = reshape(el.lt(broadcast(k, lead), times), (*lead, 1, 1))
        return [el.add(k, np.int32(1)), el.select(again, matmul(x, x), x)]

    found = bind(
        while_p,
        *(most, times, np.int32(0), x),
        cond=stage(lambda most, k, x: [el.lt(k, most)], [count, count, matrix], name="going"),
        body=stage(step, [aval_of(times), count, matrix], name="squared"),
        cond_consts=1,
        body_consts=1,
    )
    return found[1]


def _expm_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    return expm_frechet(primals[0], tangents[0])


expm_p = matrix_row(
    "expm",
    abstract_eval=square_aval("expm"),
    impl=lambda a: per_matrix(exponential, a),
    jvp=_expm_jvp,
    decompose=lambda a: [_computed(a)],
)


def expm(a: Any) -> Any:
    """The exponentials of square matrices."""
    return bind1(expm_p, a)


def _frechet_impl(a: Any, e: Any) -> Any:
    n = a.shape[-1]
    whole = np.concatenate(
        [np.concatenate([a, e], -1), np.concatenate([np.zeros_like(a), a], -1)], -2
    )
    return np.ascontiguousarray(per_matrix(exponential, whole)[..., :n, n:])


def _blocks(corner: Any, diagonal: Any) -> Any:
    """[[diagonal, corner], [0, diagonal]]."""
    n = len(diagonal.shape)
    top = concatenate([diagonal, corner], n - 1)
    bottom = concatenate([zeros(diagonal.shape, diagonal.dtype), diagonal], n - 1)
    return concatenate([top, bottom], n - 2)


def _corner(whole: Any, a: Any) -> Any:
    """The upper right block of the size of `a`."""
    n = a.shape[-1]
    return columns(rows(whole, 0, n), n, 2 * n)


def _frechet_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    (a, e), (ta, te) = primals, tangents
    change = None
    if given(ta):
        wide = expm_frechet(_blocks(e, a), _blocks(zeros(a.shape, a.dtype), ta))
        change = _corner(wide, a)
    return total(expm_frechet(a, te) if given(te) else None, change)


def _frechet_transpose(ct: Any, a: Any, e: Any) -> tuple[Any, Any]:
    assert isinstance(e, Linear)
    return None, Zero(e.aval) if isinstance(ct, Zero) else expm_frechet(mt(a), ct)


expm_frechet_p = matrix_row(
    "expm_frechet",
    abstract_eval=square_aval("expm_frechet"),
    impl=_frechet_impl,
    jvp=_frechet_jvp,
    transpose=_frechet_transpose,
    decompose=lambda a, e: [_corner(_computed(_blocks(e, a)), a)],
)


def expm_frechet(a: Any, e: Any) -> Any:
    """The derivative of expm at `a` along `e`."""
    return bind1(expm_frechet_p, a, e)
