"""`stax.lax`, convolutions: conv_general_dilated and its special forms, under JAX's names.

Input: an image, a kernel and JAX's parameters, with defaults and spelled-out layouts ("NHWC").
Output: the `conv` primitive, a cross-correlation, with every parameter made explicit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.numpy.promotion import asarray_dtype, coerce
from stax.numpy.registration import converted
from stax.numpy.registration import operand as as_operand
from stax.primitives.contractions import dot_general
from stax.primitives.convolution import ConvDimensionNumbers
from stax.primitives.convolution import conv as conv_row
from stax.primitives.views import rev, transpose

__all__ = [
    "ConvDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_transpose",
    "conv_with_general_padding",
    "padtype_to_pads",
]

Array = Any


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Where batch, feature and spatial axes stand, from three strings such as ("NHWC", "HWIO",
    "NHWC"), from None ("NCHW", "OIHW", "NCHW"), or from dimension numbers as they are.

    >>> conv_dimension_numbers((8, 5, 5, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """
    n = len(lhs_shape)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(rhs_shape) != n:
        raise ShapeError(
            f"image and kernel need equal ranks, got shapes {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}",
            op="conv_general_dilated",
            where=user_source() or None,
        )
    if dimension_numbers is None:
        axes = tuple(range(n))
        return ConvDimensionNumbers(axes, axes, axes)
    if len(dimension_numbers) != 3:
        raise TypeError(
            "dimension_numbers must be None, a ConvDimensionNumbers or three strings, "
            f"got {dimension_numbers!r}"
        )
    if not all(isinstance(s, str) for s in dimension_numbers):
        return ConvDimensionNumbers(*(tuple(map(int, s)) for s in dimension_numbers))
    lhs, rhs, out = dimension_numbers
    for text, leading in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if len(text) != n or len(set(text)) != n or not set(leading) <= set(text):
            raise ShapeError(
                f"layout {text!r} must name {n} different axes, {leading[0]} and {leading[1]} "
                "among them",
                op="conv_general_dilated",
                where=user_source() or None,
            )
    spatial = [letter for letter in rhs if letter not in "OI"]
    if set(lhs) - set("NC") != set(spatial) or set(out) - set("NC") != set(spatial):
        raise ShapeError(
            f"layouts {lhs!r}, {rhs!r}, {out!r} name different spatial axes",
            op="conv_general_dilated",
            where=user_source() or None,
        )

    def places(text: str, leading: str) -> tuple[int, ...]:
        return tuple(text.index(letter) for letter in (*leading, *spatial))

    return ConvDimensionNumbers(places(lhs, "NC"), places(rhs, "OI"), places(out, "NC"))


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The pairs of padding that "SAME", "SAME_LOWER" or "VALID" stands for."""
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(
            f'padding must be "SAME", "SAME_LOWER", "VALID" or pairs of integers, got {padding!r}'
        )
    pads = []
    for n, k, s in zip(in_shape, window_shape, window_strides, strict=True):
        total = max(0, (-(-n // s) - 1) * s + k - n)
        half = total // 2
        pads.append((half, total - half) if kind == "SAME" else (total - half, half))
    return pads


def _integers(values: Any, count: int) -> tuple[int, ...]:
    return (1,) * count if values is None else tuple(operator.index(v) for v in values)


def _pair(lhs: Array, rhs: Array, preferred: Any) -> tuple[Array, Array]:
    x, w = coerce(as_operand(lhs, "conv_general_dilated"), as_operand(rhs, "conv_general_dilated"))
    if preferred is None:
        return x, w
    kind = asarray_dtype(preferred)
    return converted(x, kind), converted(w, kind)


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The convolution (cross-correlation) of images with kernels, of any spatial rank.

    Args:
      lhs: images, with axes batch, features, spatial in the order `dimension_numbers` says.
      rhs: kernels, with axes output features, input features, spatial.
      window_strides: steps of the window, one for each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or a pair for each spatial axis (may be negative).
      lhs_dilation, rhs_dilation: spacing of the image's and of the kernel's elements.
      dimension_numbers: None for ("NCHW", "OIHW", "NCHW") and its like, or three such strings.
      feature_group_count, batch_group_count: separate groups of features or of the batch.

    Raises:
      ShapeError: shapes and parameters do not fit.
    """
    x, w = _pair(lhs, rhs, preferred_element_type)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rank = len(numbers.lhs_spec) - 2
    strides = _integers(window_strides, rank)
    holes, image_holes = _integers(rhs_dilation, rank), _integers(lhs_dilation, rank)
    if isinstance(padding, str):
        if any(d != 1 for d in image_holes):
            raise ValueError(
                "padding as a string is not defined with lhs_dilation: give pairs of integers, or "
                "use conv_transpose"
            )
        window = [
            (w.shape[k] - 1) * d + 1 for k, d in zip(numbers.rhs_spec[2:], holes, strict=True)
        ]
        extents = [x.shape[k] for k in numbers.lhs_spec[2:]]
        padding = padtype_to_pads(extents, window, strides, padding)
    pads = tuple((operator.index(a), operator.index(b)) for a, b in padding)
    return conv_row(
        x,
        w,
        strides=strides,
        padding=pads,
        lhs_dilation=image_holes,
        rhs_dilation=holes,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        dtype=aval_of(x).dtype,
    )


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` of batch-features-spatial images without dilation or groups."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` of batch-features-spatial images with dilation."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred_element_type=preferred_element_type,
    )


_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def _transposed_padding(k: int, s: int, padding: str) -> tuple[int, int]:
    """The padding with which a dilated image gives `s` times its extent (more when "VALID")."""
    if padding == "SAME":
        total = k + s - 2
        before = k - 1 if s > k - 1 else math.ceil(total / 2)
    else:
        total = k + s - 2 + max(k - s, 0)
        before = k - 1
    return before, total - before


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The transposed ("fractionally strided") convolution; channels-last unless told otherwise.

    With `transpose_kernel` it is the exact transpose of the forward convolution with `rhs`.
    """
    x, w = _pair(lhs, rhs, preferred_element_type)
    if dimension_numbers is None:
        dimension_numbers = _CHANNELS_LAST.get(len(x.shape))
        if dimension_numbers is None:
            raise ValueError("conv_transpose needs dimension_numbers for four or more spatial axes")
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    spatial = numbers.rhs_spec[2:]
    holes = _integers(rhs_dilation, len(spatial))
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(f'padding must be "SAME", "VALID" or pairs, got {padding!r}')
        window = [(w.shape[k] - 1) * d + 1 for k, d in zip(spatial, holes, strict=True)]
        padding = [_transposed_padding(k, s, padding) for k, s in zip(window, strides, strict=True)]
    if transpose_kernel:
        order = list(range(len(w.shape)))
        o, i = numbers.rhs_spec[:2]
        order[o], order[i] = i, o
        w = transpose(rev(w, spatial), order)
    ones = (1,) * len(spatial)
    return conv_general_dilated(x, w, ones, padding, strides, holes, numbers)


def conv_general_dilated_local(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own at every place of the result.

    Args:
      rhs: where a kernel has its window it has the places of the result, and its input features
        are those of the patches: features of `lhs` (slowest) times elements of the window.
      filter_shape: the extents of the window.

    Raises:
      ShapeError: `rhs` does not fit the patches.

    >>> x, kernels = np.arange(4.0).reshape(1, 1, 4), np.ones((1, 2, 3)) * [0.0, 1.0, 2.0]
    >>> conv_general_dilated_local(x, kernels, (1,), "VALID", (2,)).tolist()
    [[[0.0, 3.0, 10.0]]]
    """
    op = "conv_general_dilated_local"
    w = as_operand(rhs, op)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
    )
    numbers = conv_dimension_numbers(aval_of(lhs).shape, w.shape, dimension_numbers)
    out, kernel = numbers.out_spec, numbers.rhs_spec
    places = [patches.shape[a] for a in out[2:]]
    if [w.shape[a] for a in kernel[1:]] != [patches.shape[out[1]], *places]:
        raise ShapeError(
            f"the kernels need {patches.shape[out[1]]} features and the places {places} of the "
            f"result, got shape {w.shape}",
            op=op,
            operands=[aval_of(lhs), aval_of(w)],
            where=user_source() or None,
        )
    patches, w = coerce(patches, w)
    product = dot_general(
        patches, w, (((out[1],), (kernel[1],)), (tuple(out[2:]), tuple(kernel[2:])))
    )
    # Places, then the batch, then features; each goes to its axis of the result.
    order = [*out[2:], out[0], out[1]]
    return transpose(product, np.argsort(order).tolist())


def conv_general_dilated_patches(
    lhs: Array,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The patches a convolution would read, as features (feature slowest, then window)."""
    x = as_operand(lhs, "conv_general_dilated_patches")
    window = tuple(operator.index(k) for k in filter_shape)
    rank = len(window) + 2
    numbers = conv_dimension_numbers(x.shape, (1,) * rank, dimension_numbers)
    features, size = x.shape[numbers.lhs_spec[1]], math.prod(window)
    one = np.eye(size, dtype=aval_of(x).dtype).reshape(size, 1, *window)
    kernel = np.tile(one, (features, *(1,) * (rank - 1)))
    kernel = np.transpose(kernel, np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        x,
        np.ascontiguousarray(kernel),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        preferred_element_type=preferred_element_type,
    )
