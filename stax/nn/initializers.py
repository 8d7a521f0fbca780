"""Initial values of parameters.

Input: settings.  Output: a function of a key, a shape and a dtype that draws an array.  Variance
scaling divides a variance by the number of inputs or outputs of a layer, or by their mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.dtypes import DType, is_complex
from stax.errors import ShapeError
from stax.numpy.promotion import as_dtype, asarray_dtype
from stax.primitives import elementwise as el
from stax.primitives.shapes import pad, scalar_zero
from stax.primitives.transcendental import cos, log, sin, sqrt, times
from stax.primitives.views import reshape
from stax.random import continuous, uniforms
from stax.random.keys import as_shape, check_key, split

Initializer = Callable[..., Any]


def _dtype(dtype: Any) -> DType:
    return asarray_dtype(np.float64 if dtype is None else dtype)


def _scaled(x: Any, factor: Any) -> Any:
    return el.mul(x, as_dtype(factor, x.dtype))


def zeros(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Zeros, of float64 by default; the key is not used.

    >>> zeros(stax.random.key(0), (2,))
    array([0., 0.])
    """
    return snp.zeros(shape, _dtype(dtype))


def ones(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Ones, of float64 by default; the key is not used.

    >>> ones(stax.random.key(0), (2,))
    array([1., 1.])
    """
    return snp.ones(shape, _dtype(dtype))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer of the same value everywhere, a number or an array that broadcasts.

    >>> constant(7.0)(stax.random.key(0), (2,))
    array([7., 7.])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        return snp.full(shape, value, _dtype(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws uniform numbers in [0, scale).

    >>> uniform()(stax.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        return _scaled(uniforms.uniform(key, shape, _dtype(dtype)), scale)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that draws normal numbers of mean 0 and this standard deviation.

    >>> normal(0.1)(stax.random.key(0), (2, 3), np.float32).dtype
    dtype('float32')
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        return _scaled(uniforms.normal(key, shape, _dtype(dtype)), stddev)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer: normal numbers between `lower` and `upper`, then scaled by `stddev`.

    >>> bool((abs(truncated_normal(0.1)(stax.random.key(0), (100,))) < 0.2).all())
    True
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = as_shape("truncated_normal", shape)
        draw = uniforms.truncated_normal(key, lower, upper, shape, _dtype(dtype))
        return _scaled(draw, stddev)

    return init


def _extent(shape: tuple[int, ...], axis: int | Sequence[int]) -> int:
    axes = (axis,) if isinstance(axis, int) else axis
    return math.prod(shape[a] for a in axes)


def _fans(
    shape: tuple[int, ...],
    in_axis: int | Sequence[int],
    out_axis: int | Sequence[int],
    batch_axis: int | Sequence[int],
) -> tuple[float, float]:
    """Numbers of inputs and outputs of a layer whose weights have this shape."""
    if in_axis == -2 and len(shape) < 2:
        raise ShapeError(
            f"weights of shape {shape} have no input axis",
            op="variance_scaling",
            hint="give at least two axes, or name in_axis",
        )
    inputs, outputs = _extent(shape, in_axis), _extent(shape, out_axis)
    field = math.prod(shape) / inputs / outputs / _extent(shape, batch_axis)
    return inputs * field, outputs * field


# Standard deviations of a normal number cut at two of its own: real, and complex in radius.
_CUT_REAL, _CUT_COMPLEX = 0.87962566103423978, 0.95311164380491208


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Draws of variance `scale` over the fan that `mode` names.

    Args:
      mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
      distribution: "truncated_normal", "normal" or "uniform".
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = as_shape("variance_scaling", shape)
        dtype = _dtype(dtype)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        fans = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }
        if mode not in fans:
            raise ShapeError(f"mode {mode!r} is none of {tuple(fans)}", op="variance_scaling")
        variance = as_dtype(scale / fans[mode], dtype)
        complex_ = is_complex(dtype)
        if distribution == "normal":
            return el.mul(uniforms.normal(key, shape, dtype), sqrt(variance))
        if distribution == "truncated_normal":
            if complex_:
                return _scaled(_complex_cut(key, shape, dtype), sqrt(variance) / _CUT_COMPLEX)
            draw = uniforms.truncated_normal(key, -2, 2, shape, dtype)
            return el.mul(draw, el.div(sqrt(variance), dtype.type(_CUT_REAL)))
        if distribution == "uniform":
            if complex_:
                return _scaled(_complex_disc(key, shape, dtype), sqrt(variance))
            draw = uniforms.uniform(key, shape, dtype, -1)
            return el.mul(draw, sqrt(times(variance, 3)))
        raise ShapeError(f"there is no distribution {distribution!r}", op="variance_scaling")

    return init


def _polar(radius: Any, turn: Any) -> Any:
    angle = times(turn, 2 * math.pi)
    return el.complex_(el.mul(radius, cos(angle)), el.mul(radius, sin(angle)))


def _two_units(key: Any, shape: tuple[int, ...], dtype: DType) -> tuple[Any, Any]:
    keys, part = split(check_key(key, "init")), np.dtype(f"f{dtype.itemsize // 2}")
    first, second = (uniforms.nth_key(keys, k) for k in (0, 1))
    return uniforms.unit(first, shape, part), uniforms.unit(second, shape, part)


def _complex_disc(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Uniform in the disc of radius sqrt(2)."""
    first, second = _two_units(key, shape, dtype)
    return _polar(sqrt(times(first, 2)), second)


def _complex_cut(key: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Complex normal numbers of size at most 2."""
    first, second = _two_units(key, shape, dtype)
    rest = el.sub(first.dtype.type(1), times(first, 1 - math.exp(-4)))
    return _polar(sqrt(el.neg(log(rest))), second)


def _named(scale: float, mode: str, distribution: str, name: str) -> Callable[..., Initializer]:
    def make(
        in_axis: int | Sequence[int] = -2,
        out_axis: int | Sequence[int] = -1,
        batch_axis: int | Sequence[int] = (),
        dtype: Any = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Variance scaling by {scale:g} over {mode}, {distribution}."
    return make


glorot_uniform = xavier_uniform = _named(1.0, "fan_avg", "uniform", "glorot_uniform")
glorot_normal = xavier_normal = _named(1.0, "fan_avg", "truncated_normal", "glorot_normal")
lecun_uniform = _named(1.0, "fan_in", "uniform", "lecun_uniform")
lecun_normal = _named(1.0, "fan_in", "truncated_normal", "lecun_normal")
he_uniform = kaiming_uniform = _named(2.0, "fan_in", "uniform", "he_uniform")
he_normal = kaiming_normal = _named(2.0, "fan_in", "truncated_normal", "he_normal")


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of orthonormal columns (or rows) along `column_axis`, times `scale`.

    Axes other than that one count as one. Shapes need two axes at least.

    >>> w = orthogonal()(stax.random.key(0), (3, 3))
    >>> bool(np.allclose(w.T @ w, np.eye(3)))
    True
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = as_shape("orthogonal", shape)
        if len(shape) < 2:
            raise ShapeError(f"needs at least two axes, got shape {shape}", op="orthogonal")
        if 0 in shape:
            return snp.zeros(shape, _dtype(dtype))
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        q = continuous.orthogonal(key, rows, (), _dtype(dtype), columns)
        axis = column_axis % len(shape)
        q = reshape(q, (*shape[:axis], *shape[axis + 1 :], columns))
        return _scaled(snp.moveaxis(q, -1, axis), scale)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels, orthogonal at their centre and zero elsewhere.

    The last two axes are the features, of which there are no more before than after.

    >>> delta_orthogonal()(stax.random.key(0), (3, 2, 2))[0]
    array([[0., 0.],
           [0., 0.]])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = as_shape("delta_orthogonal", shape)
        if len(shape) not in (3, 4, 5):
            raise ShapeError(f"needs three to five axes, got shape {shape}", op="delta_orthogonal")
        if shape[-1] < shape[-2]:
            raise ShapeError("fan_in must not exceed fan_out", op="delta_orthogonal")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        low = [(n - 1) // 2 for n in shape[:-2]] + [0, 0]
        high = [n - 1 - a for n, a in zip(shape[:-2], low, strict=False)] + [0, 0]
        centre = reshape(matrix, (*(1,) * (len(shape) - 2), *shape[-2:]))
        return pad(centre, scalar_zero(matrix.dtype), low, high)

    return init


__all__ = [
    "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip
