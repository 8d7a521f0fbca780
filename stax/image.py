"""Images: `resize` and `scale_and_translate`, as in `jax.image`.

Input: an array, the new shape and a kernel.  Output: the array resampled over each axis whose
extent changes: a product with a matrix of weights, one column for each new element, which are the
kernel at the old elements' distances, normalised.  Where the array shrinks the kernel widens with
it (`antialias`), so that fine structure averages out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.dtypes import is_complex, is_inexact
from stax.errors import ShapeError

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

Array = Any
Kernel = Callable[[Array], Array]


class ResizeMethod(enum.Enum):
    """How elements between those of an image are made."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method by its name: "nearest", "linear" ("bilinear", "trilinear", "triangle"),
        "cubic" ("bicubic", "tricubic"), "lanczos3" or "lanczos5".
        """
        found = _NAMES.get(s.lower())
        if found is None:
            raise ValueError(f'Unknown resize method "{s}"; use one of {sorted(_NAMES)}')
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(["linear", "bilinear", "trilinear", "triangle"], ResizeMethod.LINEAR),
    **dict.fromkeys(["cubic", "bicubic", "tricubic"], ResizeMethod.CUBIC),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
}


def _triangle(x: Array) -> Array:
    return snp.maximum(0, 1 - x)


def _keys(x: Array) -> Array:
    """Keys' cubic with parameter -1/2."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return snp.where(x >= 2, 0.0, snp.where(x >= 1, far, near))


def _lanczos(radius: float) -> Kernel:
    def kernel(x: Array) -> Array:
        product = radius * snp.sin(np.pi * x) * snp.sin(np.pi * x / radius)
        safe = snp.where(x > 1e-3, np.pi**2 * x**2, 1.0)
        return snp.where(x > radius, 0.0, snp.where(x > 1e-3, product / safe, 1.0))

    return kernel


_KERNELS: dict[ResizeMethod, Kernel] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _keys,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
}


def _weights(
    size: int, new: int, scale: Any, translation: Any, kernel: Kernel, antialias: bool, dtype: Any
) -> Array:
    """The matrix (size, new) of weights; columns of points outside the image are zeros."""
    step = 1.0 / scale
    width = snp.maximum(step, 1.0) if antialias else 1.0
    centre = (snp.arange(new, dtype=dtype) + 0.5) * step - translation * step - 0.5
    distance = snp.abs(centre[None, :] - snp.arange(size, dtype=dtype)[:, None]) / width
    weight = kernel(distance.astype(dtype))
    total = snp.sum(weight, axis=0, keepdims=True)
    enough = snp.abs(total) > 1000.0 * float(np.finfo(np.float32).eps)
    weight = snp.where(enough, weight / snp.where(total != 0, total, 1), 0.0)
    inside = (centre >= -0.5) & (centre <= size - 0.5)
    return snp.where(inside[None, :], weight, 0.0).astype(dtype)


def _resampled(x: Array, axis: int, weight: Array) -> Array:
    out = snp.tensordot(x, weight, axes=((axis,), (0,)))
    return snp.moveaxis(out, -1, axis)


def _method(method: Any) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else method


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An image scaled and moved: element `i` of an axis goes to `scale * (i + 1/2) + translation`.

    Args:
      image: an array; integers become float64.
      shape: the new shape; it differs from the old in `spatial_dims` only.
      spatial_dims: the axes that are resampled.
      scale, translation: one number for each of them; the result is differentiable in both.
      method: "linear", "cubic", "lanczos3" or "lanczos5".
      antialias: widen the kernel where the image shrinks.

    Raises:
      ShapeError: the shapes do not fit. ValueError: the method is unknown, or "nearest".
    """
    method = _method(method)
    if method not in _KERNELS:
        raise ValueError("Nearest neighbor resampling is not supported by scale_and_translate")
    x = _floating(image)
    axes = [int(d) % len(x.shape) for d in spatial_dims]
    _check(x, shape, axes)
    dtype = np.float32 if aval_of(x).dtype == np.float32 else np.float64
    for k, axis in enumerate(axes):
        weight = _weights(
            x.shape[axis], shape[axis], scale[k], translation[k], _KERNELS[method], antialias, dtype
        )
        x = _resampled(x, axis, weight)
    return x


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An image of another shape that shows the same.

    Args:
      image: an array; integers become float64, except for "nearest", which keeps the dtype.
      shape: the new extent of every axis.
      method: "nearest", "linear", "cubic", "lanczos3", "lanczos5", or a ResizeMethod.
      antialias: widen the kernel where the image shrinks; "nearest" has none.

    Raises:
      ShapeError: `shape` has another number of axes. ValueError: the method is unknown.

    >>> resize(np.array([0.0, 1.0]), (4,), "linear")
    array([0.  , 0.25, 0.75, 1.  ])
    """
    method = _method(method)
    x = snp.asarray(image)
    axes = [k for k, (a, b) in enumerate(zip(x.shape, shape, strict=False)) if a != b]
    _check(x, shape, range(len(x.shape)))
    if method is ResizeMethod.NEAREST:
        for axis in axes:
            size, new = x.shape[axis], shape[axis]
            at = np.floor((np.arange(new, dtype=np.float32) + 0.5) * np.float32(size / new))
            x = snp.take(x, at.astype(np.int64), axis=axis)
        return x
    scale = [shape[k] / x.shape[k] for k in axes]
    return scale_and_translate(x, shape, axes, scale, [0.0] * len(axes), method, antialias)


def _floating(image: Any) -> Array:
    x = snp.asarray(image)
    dtype = aval_of(x).dtype
    return x if is_inexact(dtype) or is_complex(dtype) else x.astype(np.float64)


def _check(x: Array, shape: Sequence[int], axes: Sequence[int]) -> None:
    same = all(
        a == b for k, (a, b) in enumerate(zip(x.shape, shape, strict=False)) if k not in axes
    )
    if len(shape) != len(x.shape) or not same:
        raise ShapeError(
            f"an image of shape {tuple(x.shape)} cannot be resized to {tuple(shape)}",
            op="resize",
            operands=[str(aval_of(x))],
            where=user_source() or None,
            hint="give the new shape an extent for every axis of the image; axes that are not "
            "resampled keep theirs",
        )
