"""Continuous distributions made from uniform and normal numbers.

Input: a key, parameters, a shape and a dtype.  Output: independent draws; they are differentiable
in the parameters, since each is a smooth function of numbers drawn without them.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import Aval, aval_of
from stax.dtypes import FLOAT32, DType, bfloat16, is_float
from stax.errors import ShapeError
from stax.primitives import elementwise as el
from stax.primitives.casts import convert
from stax.primitives.families import literal
from stax.primitives.shapes import slice_axis
from stax.primitives.views import reshape
from stax.random import steps
from stax.random.gammas import gamma
from stax.random.keys import as_shape, check_key, split
from stax.random.products import moved
from stax.random.sums import offloaded, summed
from stax.random.uniforms import (
    as_array,
    as_float,
    check_factored,
    draw_dtype,
    draw_shape,
    float_info,
    normal,
    normal_over_root_two,
    nth_key,
    rademacher,
    real_normal,
    stretched,
    symmetric,
    unit,
)


def _start(op: str, key: Any, shape: Any, dtype: Any, *parameters: Any) -> tuple[Any, ...]:
    """Checked key, shape and dtype, then the parameters in that dtype."""
    dtype = draw_dtype(op, dtype, np.float64)
    shape = draw_shape(op, shape, *parameters)
    return check_key(key, op), shape, dtype, *(as_float(p, dtype) for p in parameters)


def _pair(key: Any) -> tuple[Any, Any]:
    keys = split(key)
    return nth_key(keys, 0), nth_key(keys, 1)


def _above(key: Any, shape: tuple[int, ...], dtype: Any, low: Any) -> Any:
    """Uniform floats in [low, 1), for a `low` of a few ulps."""
    one = np.ones((), dtype)[()]
    return stretched(unit(key, shape, dtype), dtype.type(low), one)


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Exponential numbers of mean 1: density exp(-x), x >= 0. Arguments as in `normal`.

    >>> exponential(stax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    key, shape, dtype = _start("exponential", key, shape, dtype)
    return el.neg(steps.log1p(el.neg(unit(key, shape, dtype))))


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard Laplace numbers: density exp(-abs(x)) / 2. Arguments as in `normal`.

    >>> laplace(stax.random.key(0), (3,), np.float32).dtype
    dtype('float32')
    """
    key, shape, dtype = _start("laplace", key, shape, dtype)
    u = _above(key, shape, dtype, -1 + float(float_info(dtype).epsneg))
    return el.mul(el.sign(u), steps.log1p(el.neg(el.abs_(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard logistic numbers: log(u / (1 - u)) of uniform u. Arguments as in `normal`.

    >>> logistic(stax.random.key(0), (3,)).shape
    (3,)
    """
    key, shape, dtype = _start("logistic", key, shape, dtype)
    u = el.maximum(dtype.type(float_info(dtype).tiny), unit(key, shape, dtype))
    return steps.sub(steps.log(u), steps.log1p(el.neg(u)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard Cauchy numbers: density 1 / (pi * (1 + x**2)). Arguments as in `normal`.

    >>> cauchy(stax.random.key(0), (3,)).shape
    (3,)
    """
    key, shape, dtype = _start("cauchy", key, shape, dtype)
    u = _above(key, shape, dtype, float_info(dtype).eps)
    return steps.tan(steps.scaled(steps.sub(u, literal(0.5, u)), math.pi))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Pareto numbers of scale 1 and shape `b` > 0: density b / x**(b + 1), x >= 1.

    `shape` is that of `b` by default, which must broadcast to it; otherwise as `normal`.

    >>> bool((pareto(stax.random.key(0), np.array([1.0, 2.0])) >= 1).all())
    True
    """
    key, shape, dtype, b = _start("pareto", key, shape, dtype, b)
    return steps.exp(steps.ratio(exponential(key, shape, dtype), b))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Rayleigh numbers: lengths of two-dimensional normal vectors, times `scale`.

    `shape` is that of `scale` by default, which must broadcast to it; otherwise as `normal`.

    >>> rayleigh(stax.random.key(0), np.ones(3)).shape
    (3,)
    """
    key, shape, dtype, scale = _start("rayleigh", key, shape, dtype, scale)
    return steps.mul(scale, steps.sqrt(steps.scaled(steps.log(unit(key, shape, dtype)), -2)))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """Weibull numbers: `scale * e**(1 / concentration)` of exponential numbers e.

    `shape` is the common one of the parameters by default, which must broadcast to it; otherwise as
    `normal`.

    >>> weibull_min(stax.random.key(0), 1.0, np.array([1.0, 2.0])).shape
    (2,)
    """
    key, shape, dtype, scale, k = _start(
        "weibull_min", key, shape or None, dtype, scale, concentration
    )
    e = exponential(key, shape, dtype)
    return steps.mul(steps.power(e, steps.div(literal(1, k), k)), scale)


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """Triangular numbers between `left` and `right`, most frequent at `mode`.

    `shape` is the common one of the parameters by default, which must broadcast to it; otherwise as
    `normal`.

    >>> x = triangular(stax.random.key(0), -1.0, 0.0, 1.0, (100,))
    >>> bool((abs(x) <= 1).all())
    True
    """
    key, shape, dtype, left, mode, right = _start(
        "triangular", key, shape, dtype, left, mode, right
    )
    u = unit(key, shape, dtype)
    width, rise, fall = (steps.sub(x, y) for x, y in ((right, left), (mode, left), (right, mode)))
    below = steps.add(left, steps.sqrt(steps.mul(steps.mul(u, width), rise)))
    rest = steps.sub(literal(1, u), u)
    above = steps.sub(right, steps.sqrt(steps.mul(steps.mul(rest, width), fall)))
    return el.select(el.lt(u, steps.div(rise, width)), below, above)


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Exponentials of normal numbers of standard deviation `sigma`.

    `shape` is that of `sigma` by default, which must broadcast to it; otherwise as `normal`.

    >>> bool((lognormal(stax.random.key(0), 2.0, (100,)) > 0).all())
    True
    """
    key, shape, dtype, sigma = _start("lognormal", key, shape, dtype, sigma)
    return steps.exp(steps.times(normal_over_root_two(key, shape, dtype), math.sqrt(2), sigma))


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Lengths of three-dimensional normal vectors. Arguments as in `normal`.

    >>> maxwell(stax.random.key(0), (3,)).shape
    (3,)
    """
    key, shape, dtype = _start("maxwell", key, shape, dtype)
    return convert(_maxwell(key, shape, dtype), dtype)


def _maxwell(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """These lengths; many of bfloat16 are of float32.

    Sums of many numbers are taken together with what comes before and after, in float32.
    """
    vectors = (*shape, 3)
    if dtype == bfloat16 and offloaded(Aval(vectors, dtype)):
        z = steps.erfinv(convert(symmetric(key, vectors, dtype), FLOAT32))
        z = steps.scaled(z, float(dtype.type(math.sqrt(2))))
        return steps.sqrt(summed(steps.square(z)))
    x = real_normal(key, vectors, dtype)
    if dtype == bfloat16:
        return steps.sqrt(convert(summed(steps.square(convert(x, FLOAT32))), dtype))
    if dtype == np.float16 or offloaded(aval_of(x)):
        return steps.sqrt(summed(steps.square(x)))
    last = len(shape)
    a, b, c = (reshape(slice_axis(x, last, k, k + 1), shape) for k in range(3))
    if dtype == FLOAT32:
        a, b = b, a
    return steps.sqrt(steps.fused(c, c, steps.fused(b, b, steps.square(a))))


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers of random sign, times `scale`, plus `loc`.

    The result has the axes of `shape`, then those of the parameters.

    >>> double_sided_maxwell(stax.random.key(0), 0.0, np.ones(2), (3,)).shape
    (3, 2)
    """
    key, common, dtype, loc, scale = _start("double_sided_maxwell", key, None, dtype, loc, scale)
    shape = (*(as_shape("double_sided_maxwell", shape) or common), *common)
    first, second = _pair(key)
    size = _maxwell(first, shape, dtype)
    sign, loc, scale = (
        convert(x, aval_of(size).dtype) for x in (rademacher(second, shape, dtype), loc, scale)
    )
    size = el.mul(sign, size)
    if dtype == np.float16 or not offloaded(Aval((*shape, 3), dtype)):
        return steps.fused(size, scale, loc)
    return convert(steps.add(steps.mul(size, scale), loc), dtype)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Inverse Gaussian numbers of this mean, and of scale 1.

    `shape` is that of `mean` by default, which must broadcast to it; otherwise as `normal`.
    Source: J. R. Michael, W. R. Schucany, R. W. Haas, The American Statistician 30 (1976).

    >>> bool((wald(stax.random.key(0), 1.0, (100,)) > 0).all())
    True
    """
    key, shape, dtype, mean = _start("wald", key, shape, dtype, mean)
    first, second = _pair(key)
    y, z = steps.square(real_normal(first, shape, dtype)), unit(second, shape, dtype)
    square = steps.square(mean)
    inner = steps.mul(square, steps.square(y))
    root = steps.sqrt(steps.fused(steps.scaled(mean, 4), y, inner))
    half = literal(0.5, y)
    x = steps.fused(steps.mul(square, y), half, mean)
    x = steps.fused(steps.scaled(mean, -0.5), root, x)
    low = el.le(z, steps.div(mean, steps.add(mean, x)))
    return el.select(low, x, steps.div(square, x))


def _inverse(p: Any, dtype: DType) -> Any:
    """`1 / p`, divided in the precision of `p`."""
    p = as_array(p)
    if not is_float(p.dtype):
        p = convert(p, np.dtype(np.float64))
    return as_float(steps.div(literal(1, p), p), dtype)


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers with density proportional to exp(-abs(x)**p), `p` > 0; arguments as in `normal`.

    >>> generalized_normal(stax.random.key(0), 4.0, (3,)).shape
    (3,)
    """
    key, shape, dtype = _start("generalized_normal", key, shape, dtype, p)[:3]
    first, second = _pair(key)
    inverse = _inverse(p, dtype)
    size = steps.power(gamma(first, inverse, shape, dtype), inverse)
    return el.mul(rademacher(second, shape, dtype), size)


def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points in the `d`-dimensional unit ball of the p-norm, along a new last axis.

    Source: F. Barthe, O. Guedon, S. Mendelson, A. Naor, Annals of Probability 33 (2005).

    >>> x = ball(stax.random.key(0), 3, shape=(100,))
    >>> x.shape, bool((np.linalg.norm(x, axis=-1) <= 1).all())
    ((100, 3), True)
    """
    key, shape, dtype, power = _start("ball", key, shape, dtype, p)
    first, second = _pair(key)
    g = generalized_normal(first, p, (*shape, operator.index(d)), dtype)
    total = summed(steps.power(el.abs_(g), power))
    total = steps.add(total, exponential(second, shape, dtype))
    inverse_radius = steps.power(total, el.neg(_inverse(p, dtype)))
    return steps.mul(g, reshape(inverse_radius, (*shape, 1)))


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Normal vectors with the given means and covariance matrices.

    Args:
      mean: of shape (..., n).
      cov: symmetric matrices of shape (..., n, n).
      shape: that of the result without its last axis, n; the common one of the parameters by
        default, which must broadcast to it.
      method: the root of the covariance: "cholesky" (of positive definite ones), "eigh" or "svd".

    Raises:
      DtypeError: the dtype is a half type, in which no matrices are factored.
      ShapeError: shapes that do not fit, or another method.
      LinAlgError: "cholesky" of a matrix that is not positive definite.

    >>> multivariate_normal(stax.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    mean, cov = snp.asarray(mean), snp.asarray(cov)
    if dtype is None:
        dtype = snp.result_type(mean, cov, np.float32)
    dtype = draw_dtype("multivariate_normal", dtype, np.float64)
    check_factored("multivariate_normal", dtype)
    key, mean, cov = (
        check_key(key, "multivariate_normal"),
        *(as_float(v, dtype) for v in (mean, cov)),
    )
    n = mean.shape[-1] if mean.shape else 0
    if not mean.shape or cov.shape[-2:] != (n, n):
        raise ShapeError(
            f"a mean of shape {mean.shape} needs a covariance of shape (..., n, n), "
            f"got {cov.shape}",
            op="multivariate_normal",
            operands=[str(aval_of(mean)), str(aval_of(cov))],
        )
    lead = draw_shape(
        "multivariate_normal", shape, np.empty(mean.shape[:-1]), np.empty(cov.shape[:-2])
    )
    if method == "cholesky":
        factor = snp.linalg.cholesky(cov)
    elif method == "svd":
        u, s, _ = snp.linalg.svd(cov)
        factor = u * snp.sqrt(s)[..., None, :]
    elif method == "eigh":
        w, v = snp.linalg.eigh(cov)
        factor = v * snp.sqrt(w)[..., None, :]
    else:
        raise ShapeError(
            f"method is 'cholesky', 'svd' or 'eigh', not {method!r}", op="multivariate_normal"
        )
    noise = real_normal(key, (*lead, n), dtype)
    return moved(mean, factor, noise)


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Matrices with orthonormal rows or columns, uniform in the orthogonal group.

    They have shape (*shape, n, m), and m is n by default; with a complex dtype they are unitary.
    Source: F. Mezzadri, Notices of the AMS 54 (2007).

    Raises:
      DtypeError: the dtype is a half type, in which no matrices are factored.

    >>> q = orthogonal(stax.random.key(0), 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    dtype = draw_dtype("orthogonal", dtype, np.float64, "fc")
    check_factored("orthogonal", dtype)
    key, shape = check_key(key, "orthogonal"), as_shape("orthogonal", shape)
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    z = normal(key, (*shape, max(rows, columns), min(rows, columns)), dtype)
    q, r = snp.linalg.qr(z)
    diagonal = snp.diagonal(r, axis1=-2, axis2=-1)
    q = q * snp.expand_dims(diagonal / snp.abs(diagonal), -2)
    return snp.matrix_transpose(q) if rows < columns else q


__all__ = [
    "ball", "cauchy", "double_sided_maxwell", "exponential", "generalized_normal", "laplace",
    "logistic", "lognormal", "maxwell", "multivariate_normal", "orthogonal", "pareto", "rayleigh",
    "triangular", "wald", "weibull_min",
]  # fmt: skip
