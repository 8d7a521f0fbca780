"""Distributions made from gamma numbers: gamma, beta, Dirichlet, chi-square, t, F.

Input: a key, parameters, a shape and a dtype.  Output: independent draws, differentiable in the
parameters.  Ratios are formed from logarithms, which small parameters do not underflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.dtypes import bfloat16
from stax.errors import ShapeError
from stax.primitives import elementwise as el
from stax.primitives.casts import stop_gradient
from stax.primitives.reductions import reduce_max
from stax.primitives.rejection import random_gamma
from stax.primitives.views import broadcast, reshape
from stax.random import steps
from stax.random.keys import check_key, split
from stax.random.sums import summed
from stax.random.uniforms import as_array, as_float, draw_dtype, draw_shape, nth_key, real_normal


def _draw(op: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    dtype = draw_dtype(op, dtype, np.float64)
    shape = draw_shape(op, shape, a)
    return random_gamma(check_key(key, op), broadcast(as_float(a, dtype), shape), log_space)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Gamma numbers of shape parameter `a` > 0 and scale 1, differentiable in `a`.

    `shape` is that of `a` by default, which must broadcast to it; otherwise as `normal`.
    Source: G. Marsaglia, W. W. Tsang, ACM Trans. Math. Software 26 (2000).

    >>> bool((gamma(stax.random.key(0), 2.0, (100,)) > 0).all())
    True
    """
    return _draw("gamma", key, a, shape, dtype, False)


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of gamma numbers, accurate for small `a`; arguments as in `gamma`.

    >>> bool(np.isfinite(loggamma(stax.random.key(0), 1e-4, (100,))).all())
    True
    """
    return _draw("loggamma", key, a, shape, dtype, True)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Beta numbers of parameters `a`, `b` > 0: gamma numbers of `a` over the sum with those of `b`.

    `shape` is the common one of the parameters by default, which must broadcast to it.

    >>> x = beta(stax.random.key(0), 2.0, 3.0, (100,))
    >>> bool(((x >= 0) & (x <= 1)).all())
    True
    """
    shape = draw_shape("beta", shape, a, b)
    keys = split(check_key(key, "beta"))
    log_a = loggamma(nth_key(keys, 0), a, shape, dtype)
    log_b = loggamma(nth_key(keys, 1), b, shape, dtype)
    top = stop_gradient(el.maximum(log_a, log_b))
    part_a, part_b = steps.exp(steps.sub(log_a, top)), steps.exp(steps.sub(log_b, top))
    return steps.div(part_a, steps.add(part_a, part_b))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Dirichlet vectors; the parameters, above 0, are along the last axis of `alpha`.

    `shape` is that of the result without its last axis, by default the one of `alpha`.

    Raises:
      ShapeError: `alpha` has no axis, or does not broadcast to the shape.

    >>> x = dirichlet(stax.random.key(0), np.ones(3), (5,))
    >>> x.shape, bool(np.allclose(x.sum(-1), 1))
    ((5, 3), True)
    """
    alpha = as_array(alpha)
    if not alpha.shape:
        raise ShapeError("alpha needs at least one axis", op="dirichlet")
    lead = draw_shape("dirichlet", shape, np.empty(alpha.shape[:-1]))
    logs = loggamma(key, alpha, (*lead, alpha.shape[-1]), dtype)
    top = stop_gradient(reshape(reduce_max(logs, [len(lead)]), (*lead, 1)))
    parts = steps.exp(steps.sub(logs, top))
    return steps.ratio(parts, reshape(summed(parts), (*lead, 1)))


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Chi-square numbers of `df` > 0 degrees of freedom, twice gamma numbers of `df / 2`.

    `shape` is that of `df` by default, which must broadcast to it.

    >>> chisquare(stax.random.key(0), np.array([1.0, 2.0])).shape
    (2,)
    """
    dtype = draw_dtype("chisquare", dtype, np.float64)
    return steps.scaled(_half_chisquare(key, as_float(df, dtype), shape, dtype), 2)


def _half_chisquare(key: Any, df: Any, shape: Any, dtype: Any) -> Any:
    return steps.exp(loggamma(key, steps.scaled(df, 0.5), shape, dtype))


def t(key: Any, df: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Student's t numbers of `df` > 0 degrees of freedom.

    `shape` is that of `df` by default, which must broadcast to it.

    >>> t(stax.random.key(0), 3.0, (4,)).shape
    (4,)
    """
    dtype = draw_dtype("t", dtype, np.float64)
    shape = draw_shape("t", shape or None, df)
    keys = split(check_key(key, "t"))
    half = steps.scaled(as_float(df, dtype), 0.5)
    n = real_normal(nth_key(keys, 0), shape, dtype)
    return steps.mul(n, steps.sqrt(steps.div(half, gamma(nth_key(keys, 1), half, shape, dtype))))


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """F numbers: the ratio of two chi-square numbers, each over its degrees of freedom.

    `shape` is the common one of `dfnum` and `dfden` by default, which must broadcast to it.

    >>> bool((f(stax.random.key(0), 3.0, 5.0, (100,)) > 0).all())
    True
    """
    dtype = draw_dtype("f", dtype, np.float64)
    shape = draw_shape("f", shape, dfnum, dfden)
    keys = split(check_key(key, "f"))
    top, bottom = as_float(dfnum, dtype), as_float(dfden, dtype)
    above = _half_chisquare(nth_key(keys, 1), top, shape, dtype)
    below = _half_chisquare(nth_key(keys, 0), bottom, shape, dtype)
    if dtype == bfloat16:
        above, below = (
            steps.div(steps.scaled(x, 2), df) for x, df in ((above, top), (below, bottom))
        )
        return steps.div(above, below)
    # As one quotient of two products.
    return steps.div(steps.times(above, 2, bottom), steps.times(below, 2, top))


__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "loggamma", "t"]
