"""Counting distributions: Poisson, binomial, multinomial, geometric.

Input: a key, parameters, a shape and a dtype.  Output: independent counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import FLOAT32, is_inexact
from stax.errors import ShapeError
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families import literal
from stax.primitives.rejection import random_binomial, random_poisson
from stax.primitives.shapes import concatenate, slice_axis
from stax.primitives.views import broadcast, reshape
from stax.random import steps
from stax.random.keys import as_shape, check_key, split
from stax.random.sums import running_sum
from stax.random.uniforms import as_array, as_float, draw_dtype, draw_shape, nth_key, unit


def _inexact(value: Any) -> Any:
    value = as_array(value)
    return value if is_inexact(value.dtype) else convert(value, np.dtype(np.float64))


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Poisson numbers of mean `lam`; int64 by default.  The trials are made in float32.

    `shape` is that of `lam` by default, which must broadcast to it.
    Source: W. Hoermann, Insurance: Mathematics and Economics 12 (1993), from mean 10 on.

    >>> poisson(stax.random.key(0), np.array([1.0, 100.0])).shape
    (2,)
    """
    dtype = draw_dtype("poisson", dtype, np.int64, "iu")
    shape = draw_shape("poisson", shape, lam)
    mean = broadcast(as_float(lam, FLOAT32), shape)
    return random_poisson(check_key(key, "poisson"), mean, dtype)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of successes in `n` trials of probability `p`, as floats.

    `shape` is the common one of the parameters by default, which must broadcast to it.
    Source: W. Hoermann, J. Statist. Comput. Simulation 46 (1993), where successes and
    failures are both more than 10 on average.

    >>> x = binomial(stax.random.key(0), 10, 0.5, (100,))
    >>> bool(((x >= 0) & (x <= 10)).all())
    True
    """
    dtype = draw_dtype("binomial", dtype, np.float64)
    shape = draw_shape("binomial", shape, n, p)
    p = _inexact(p)
    count = as_float(n, aval_of(p).dtype)
    key = check_key(key, "binomial")
    return random_binomial(key, broadcast(count, shape), broadcast(p, shape), dtype)


def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Any:
    """How often each category occurs in `n` draws; categories are along the last axis of `p`.

    Args:
      p: weights of the categories, not all zero.
      shape: of the result, categories last; that of `p` by default, which must broadcast to it.
      unroll: accepted for compatibility; one draw follows the other.

    Raises:
      ShapeError: `p` has no axis.

    >>> multinomial(stax.random.key(0), 10.0, np.array([0.5, 0.25, 0.25])).sum()
    10.0
    """
    p = _inexact(p)
    shape = p.shape if shape is None else as_shape("multinomial", shape)
    if not shape:
        raise ShapeError("p needs at least one axis", op="multinomial")
    dtype = draw_dtype("multinomial", dtype, p.dtype, "fiu")
    last = len(shape) - 1
    key = check_key(key, "multinomial")
    rest = broadcast(as_float(n, p.dtype), shape[:-1])
    p = broadcast(p, shape)
    remaining = running_sum(p, last, reverse=True)
    none = el.eq(remaining, literal(0, p))
    ratio = el.div(p, el.select(none, literal(1, p), remaining))
    ratio = el.clamp(literal(0, ratio), ratio, literal(1, ratio))
    keys = split(key, shape[-1])
    counts = []
    for k in range(shape[-1]):
        part = reshape(slice_axis(ratio, last, k, k + 1), shape[:-1])
        count = random_binomial(nth_key(keys, k), rest, part, p.dtype)
        rest = el.sub(rest, count)
        counts.append(reshape(count, (*shape[:-1], 1)))
    return convert(concatenate(counts, last), dtype)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of trials up to the first success, success having probability `p`; int64 by default.

    `shape` is that of `p` by default, which must broadcast to it.

    >>> bool((geometric(stax.random.key(0), 0.5, (100,)) >= 1).all())
    True
    """
    dtype = draw_dtype("geometric", dtype, np.int64, "iu")
    shape = draw_shape("geometric", shape, p)
    p = _inexact(p)
    u = unit(check_key(key, "geometric"), shape, p.dtype)
    u = el.select(el.eq(u, literal(0, u)), literal(1, u), u)
    trials = el.floor(steps.ratio(steps.log(u), steps.log1p(el.neg(p))))
    return convert(steps.add(trials, literal(1, trials)), dtype)


__all__ = ["binomial", "geometric", "multinomial", "poisson"]
