"""Lowering of convolutions: to a call of a direct routine, or to loops.

Input: an image and a kernel as tensors, with the parameters of the `conv` row.  Output: the
result.  On the CPU in float32 and float64 the work is a call: the image is framed with its padding
in channels-last order, the kernel is packed in blocks of output features that fill registers.
Where the kernel is larger than the result, as in the derivative in the kernel, the roles are
exchanged: each element of the result is one sum over the kernel's positions.  Other dtypes and
other devices get a reduction, which fuses with its surroundings.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.loops.construct import full, pad
from stax.loops.contract import pieces, summed
from stax.loops.layout import Index
from stax.loops.monoids import monoid
from stax.loops.nodes import Pointwise, Reduction
from stax.loops.ops import Value, ops
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.tensors import BufferTensor, TensorNode, loop_tensor

if TYPE_CHECKING:
    from stax.loops.lower import Lowering

LIBRARY_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
BLOCK_BYTES = 64  # of output features, in the routine's registers
FEW = 4  # output features of a group below which registers would stay empty
SMALL = 20_000  # multiplications up to which a convolution is a loop

Axes = tuple[int, ...]


def lower_conv(ctx: Lowering, x: TensorNode, w: TensorNode, **params: Any) -> TensorNode:
    """The convolution of image `x` with kernel `w`."""
    return _Convolution(ctx, x, w, **params).lowered()


class _Convolution:
    """A convolution with its axes in one order: image [N, C, S...], kernel [O, I, S...]."""

    def __init__(
        self,
        ctx: Lowering,
        x: TensorNode,
        w: TensorNode,
        *,
        strides: Axes,
        padding: tuple[tuple[int, int], ...],
        lhs_dilation: Axes,
        rhs_dilation: Axes,
        dimension_numbers: tuple[Axes, Axes, Axes],
        feature_group_count: int,
        batch_group_count: int,
        dtype: np.dtype,
    ) -> None:
        lhs, rhs, out = dimension_numbers
        self.ctx, self.dtype = ctx, dtype
        self.order: list[int] = np.argsort(out).tolist()
        image, kernel = x.permute(lhs), w.permute(rhs)
        self.groups = feature_group_count
        if batch_group_count > 1:
            # Each block of the batch meets its own filters: groups of features.
            b = self.groups = batch_group_count
            n, c, *extents = image.shape
            image = image.reshape((b, n // b, c, *extents))
            image = image.permute((1, 0, *range(2, image.ndim)))
            image = image.reshape((n // b, b * c, *extents))
        self.image, self.kernel = image, kernel
        self.strides, self.holes = strides, rhs_dilation
        self.padding, self.image_holes = padding, lhs_dilation
        shape = [0] * x.ndim
        self.window = kernel.shape[2:]
        self.framed = tuple(
            max(0, 1 + d * (n - 1)) + a + b if n else a + b
            for n, d, (a, b) in zip(image.shape[2:], lhs_dilation, padding, strict=True)
        )
        self.extents = tuple(
            max(0, (n - (1 + d * (k - 1))) // s + 1)
            for n, k, d, s in zip(self.framed, self.window, rhs_dilation, strides, strict=True)
        )
        for axis, n in zip(out, (image.shape[0], kernel.shape[0], *self.extents), strict=True):
            shape[axis] = n
        self.out, self.shape = out, tuple(shape)

    def lowered(self) -> TensorNode:
        """The result, in the axis order that was asked for."""
        rank, count = len(self.window), math.prod(self.shape)
        if self.ctx.device != "cpu" and rank and count and self.multiplied():
            return self.implicit()
        work = count * self.kernel.shape[1] * math.prod(self.window)
        if (
            self.ctx.device != "cpu"
            or self.dtype not in LIBRARY_DTYPES
            or not 1 <= rank <= 3
            or work <= SMALL
            or (self.groups > 1 and self.kernel.shape[0] < FEW * self.groups)
        ):
            return self.reduction()
        swapped = math.prod(self.window) > math.prod(self.extents)
        return self.summed_over_kernel() if swapped else self.direct()

    # ---------------------------------------------------------------------------- on a device

    def multiplied(self) -> bool:
        """Whether a device's matrix product takes these types and is large enough to be filled."""
        own = self.image.dtype
        if own != self.kernel.dtype or self.dtype not in (own, np.dtype(np.float32)):
            return False
        inner = self.kernel.shape[1] * math.prod(self.window)
        return (
            (own in LIBRARY_DTYPES or is_half(own))
            and inner >= FEW
            and (self.kernel.shape[0] // self.groups >= FEW)
        )

    def implicit(self) -> TensorNode:
        """A product of matrices whose rows are the places of the result."""
        rank, groups = len(self.window), self.groups
        image, kernel = self.ctx.realize(self.image), self.ctx.realize(self.kernel)
        filters, taken = self.kernel.shape[:2]
        n = self.image.shape[0]
        rows, inner = n * math.prod(self.extents), taken * math.prod(self.window)
        count = pieces(self.ctx.device, groups, rows, filters // groups, inner)
        params = {
            "pieces": count,
            "groups": groups,
            "extents": self.extents,
            "window": self.window,
            "strides": self.strides,
            "holes": self.holes,
            "image_holes": self.image_holes,
            "padding": self.padding,
        }
        shape = (n, *self.extents, filters)
        back = [0, rank + 1, *range(1, rank + 1)]
        order = [back[k] for k in self.order]
        if count == 1:
            (result,) = self.ctx.call("conv_gemm", [image, kernel], [(shape, self.dtype)], params)
            return result.permute(order)
        wide = np.dtype(np.float32) if is_half(self.dtype) else self.dtype
        (partial,) = self.ctx.call("conv_gemm", [image, kernel], [((count, *shape), wide)], params)
        return summed(partial.permute((0, *(k + 1 for k in order))), self.dtype)

    # -------------------------------------------------------------------------------- routines

    def frame(self, first: int, last: int) -> BufferTensor:
        """The image as [first, spatial..., last] with its padding, dense in memory."""
        rank = len(self.window)
        node = self.image.permute((first, *range(2, 2 + rank), last))
        flat = all(d == 1 for d in self.image_holes) and not any(map(any, self.padding))
        if not flat:
            low = (0, *(a for a, _ in self.padding), 0)
            high = (0, *(b for _, b in self.padding), 0)
            interior = (0, *(d - 1 for d in self.image_holes), 0)
            node = pad(node, low, high, interior, full((), 0, node.dtype))
        return self.dense(node, "the image of a convolution")

    def dense(self, node: TensorNode, reason: str) -> BufferTensor:
        """`node` in memory, row-major."""
        table, origins = self.ctx.table, self.ctx.origins
        memory = node.realize(table, origins, reason).strided(table)
        assert memory.layout is not None
        if memory.layout.is_contiguous:
            return memory
        load = memory.loader()
        copy = loop_tensor(Pointwise(memory.shape, lambda i: load(i), memory.dtype), [memory])
        return copy.realize(table, origins, reason).strided(table)

    def blocked(self, node: TensorNode) -> tuple[TensorNode, int]:
        """The last axis padded to a multiple of a block."""
        block = BLOCK_BYTES // self.dtype.itemsize
        have = node.shape[-1]
        missing = -have % block
        if missing:
            flat = (0,) * (node.ndim - 1)
            zero = full((), 0, node.dtype)
            node = pad(node, (*flat, 0), (*flat, missing), (*flat, 0), zero)
        return node, have + missing

    def numbers(self, **sizes: int) -> dict[str, Any]:
        """The integers the routines take, spatial axes padded to three in front."""
        lead = 3 - len(self.window)

        def three(values: Axes) -> Axes:
            return (*(1,) * lead, *values)

        spatial = {
            "extents": three(self.extents),
            "window": three(self.window),
            "strides": three(self.strides),
            "holes": three(self.holes),
            "framed": three(self.framed),
        }
        return {**sizes, **spatial}

    def direct(self) -> TensorNode:
        """Blocks of results held in registers while the taps of the kernel go by."""
        rank, groups = len(self.window), self.groups
        n, channels = self.image.shape[:2]
        filters, taken = self.kernel.shape[:2]
        image = self.frame(0, 1)
        each = filters // groups
        w = self.kernel.permute((*range(2, 2 + rank), 1, 0))
        taps = w.shape[:-1]
        packed, wide = self.blocked(w.reshape((*taps, groups, each)))
        block = BLOCK_BYTES // self.dtype.itemsize
        packed = packed.reshape((*taps, groups, wide // block, block))
        k = rank + 1
        packed = packed.permute((k, k + 1, *range(k), k + 2))
        kernel = self.dense(packed, "the packed kernel of a convolution")
        params = self.numbers(groups=groups, images=n, channels=channels, taken=taken, filters=each)
        shape = (n, *self.extents, filters)
        (result,) = self.ctx.call("conv", [image, kernel], [(shape, self.dtype)], params)
        back = [0, rank + 1, *range(1, rank + 1)]
        return result.permute([back[k] for k in self.order])

    def summed_over_kernel(self) -> TensorNode:
        """Blocks of results held in registers while the positions of the kernel go by."""
        rank, groups = len(self.window), self.groups
        n = self.image.shape[0]
        filters, taken = self.kernel.shape[:2]
        image = self.frame(1, 0)
        each = filters // groups
        w = self.kernel.permute((0, 1, *range(2, 2 + rank)))
        w = w.reshape((groups, each, taken, *self.window))
        w = w.permute((0, 2, *range(3, 3 + rank), 1))
        packed, wide = self.blocked(w)
        kernel = self.dense(packed, "the kernel of a convolution")
        params = self.numbers(groups=groups, images=n, taken=taken, filters=wide)
        shape = (groups, *self.extents, n, wide)
        (result,) = self.ctx.call("conv_swapped", [image, kernel], [(shape, self.dtype)], params)
        found: TensorNode = result
        if wide != each:
            found = found.slice((0,) * result.ndim, (*shape[:-1], each))
        found = found.permute((rank + 1, 0, rank + 2, *range(1, rank + 1)))
        found = found.reshape((n, filters, *self.extents))
        return found.permute(self.order)

    # ---------------------------------------------------------------------------------- loops

    def reduction(self) -> TensorNode:
        """A sum over input features and window, for each element of the result."""
        rank = len(self.window)
        filters, taken = self.kernel.shape[:2]
        each = max(filters // self.groups, 1)
        node = self.image
        if any(d != 1 for d in self.image_holes) or any(map(any, self.padding)):
            low = (0, 0, *(a for a, _ in self.padding))
            high = (0, 0, *(b for _, b in self.padding))
            interior = (0, 0, *(d - 1 for d in self.image_holes))
            node = pad(node, low, high, interior, full((), 0, node.dtype))
        image = self.ctx.realize(node) if node.size else node
        kernel = self.ctx.realize(self.kernel) if self.kernel.size else self.kernel
        load_image, load_kernel = image.loader(), kernel.loader()
        wide = np.dtype(np.float32) if is_half(self.dtype) else self.dtype
        boolean = self.dtype.kind == "b"
        out, groups, strides, holes = self.out, self.groups, self.strides, self.holes

        def element(index: Index, rindex: Index) -> tuple[Value, ...]:
            n, f, *place = (index[axis] for axis in out)
            *window, c = rindex
            channel = c if groups == 1 else (f // each) * taken + c
            at = [p * s + k * d for p, s, k, d in zip(place, strides, window, holes, strict=True)]
            a = ops.cast(load_image((n, channel, *at)), wide)
            b = ops.cast(load_kernel((f, c, *window)), wide)
            return (ops.logical_and(a, b) if boolean else ops.mul(a, b),)

        data = Reduction(
            ranges=self.shape,
            reduction_ranges=(*self.window, taken) if rank else (taken,),
            inner_fn=element,
            monoid=monoid("any" if boolean else "sum"),
            dtype=self.dtype,
            acc_dtype=compute_dtype(wide),
        )
        return loop_tensor(data, [image, kernel])
