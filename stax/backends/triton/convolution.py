"""Convolutions as products of matrices that are never laid out (implicit matrix products).

Input: the parameters of a "conv_gemm" call: an image [N, C, S...] and a kernel [O, I, S...] as
strided views.  Output: a `Contraction`.  The rows of the product are the places of the result, its
columns the output features, and it contracts over the window and the input features; the address
of an element of the image is computed from those.  Padding and the holes of a dilated image are
masks.  A batch index holds the group of features and the piece of the contraction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stax.backends.triton.kernel import NARROW
from stax.backends.triton.templates import Blocks, Contraction, conjunction
from stax.loops.buffers import ExternBuffer
from stax.loops.layout import FixedLayout
from stax.schedule.kernel import row_major


@dataclass(frozen=True)
class Convolution(Contraction):
    """A convolution as a contraction; `params` are those of the call."""

    image: FixedLayout
    kernel: FixedLayout
    params: Any

    @staticmethod
    def of(buffer: ExternBuffer, precision: str) -> Convolution:
        """That of a call's result [pieces, N, S..., O]."""
        p = buffer.params
        image, kernel = buffer.inputs
        each = kernel.layout.shape[0] // p["groups"]
        rows = image.layout.shape[0] * math.prod(p["extents"])
        inner = kernel.layout.shape[1] * math.prod(p["window"])
        shape = (p["pieces"] * p["groups"], rows, each, inner)
        strides = (p["groups"] * rows * each, p["groups"] * each, 1)
        return Convolution(
            shape, image.buffer, kernel.buffer, image.dtype, precision, strides,
            image.layout, kernel.layout, p,
        )  # fmt: skip

    @property
    def chunk(self) -> int:
        """The length of a piece of the contraction, whatever the blocks."""
        pieces: int = self.params["pieces"]
        return -(-self.shape[3] // (pieces * 64)) * 64 if pieces > 1 else self.shape[3]

    def place(self) -> str:
        """Where a batch index starts in the result."""
        groups = self.params["groups"]
        if groups == 1:
            return f"batch * {self.strides[0]}"
        return f"batch // {groups} * {self.strides[0]} + batch % {groups} * {self.shape[2]}"

    def loop(self, pointers: Mapping[str, str], use: Blocks) -> list[str]:
        p, (_, m, n, k) = self.params, self.shape
        groups, pieces = p["groups"], p["pieces"]
        taken = self.kernel.shape[1]
        wide = ".to(tl.int64)" if max(self.image.extent, self.kernel.extent) >= NARROW else ""
        image, kernel = self.image.strides, self.kernel.strides
        sizes = self.image.shape[2:]
        lines = [
            f"rows = (row * {use.m} + tl.arange(0, {use.m}))[:, None]{wide}",
            f"columns = (column * {use.n} + tl.arange(0, {use.n}))[None, :]{wide}",
            f"group = batch % {groups}",
            f"a = {pointers[self.left]} + ({self.image.offset} + group * {taken * image[1]}"
            f" + rows // {math.prod(p['extents'])} * {image[0]})",
            f"b = {pointers[self.right]} + ({self.kernel.offset}"
            f" + (group * {n} + columns) * {kernel[0]})",
        ]
        for j, (extent, step) in enumerate(zip(p["extents"], row_major(p["extents"]), strict=True)):
            low = p["padding"][j][0]
            lines.append(f"at{j} = rows // {step} % {extent} * {p['strides'][j]} - {low}")
        span = f"0, {k}"
        if pieces > 1:
            begin = f"batch // {groups} * {self.chunk}"
            span = f"{begin}, tl.minimum({begin} + {self.chunk}, {k})"
        ragged = self.chunk % use.k != 0 or k % self.chunk != 0
        inside = [f"(rows < {m})"] if m % use.m else []
        inner = [
            f"inner = start + tl.arange(0, {use.k}){wide}",
            "across = inner[None, :]",
            "down = inner[:, None]",
        ]
        left = [f"across % {taken} * {image[1]}"]
        right = [f"down % {taken} * {kernel[1]}"]
        for j, (extent, step) in enumerate(zip(p["window"], row_major(p["window"]), strict=True)):
            inner.append(f"tap{j} = inner // {taken * step} % {extent}")
            inner.append(f"point{j} = at{j} + tap{j}[None, :] * {p['holes'][j]}")
            inside.append(f"(point{j} >= 0)")
            gap = p["image_holes"][j]
            if gap > 1:
                inside.append(f"(point{j} % {gap} == 0)")
            inside.append(f"(point{j} < {gap * (sizes[j] - 1) + 1})")
            left.append(f"point{j}{f' // {gap}' if gap > 1 else ''} * {image[2 + j]}")
            right.append(f"tap{j}[:, None] * {kernel[2 + j]}")
        end = f"tl.minimum({begin} + {self.chunk}, {k})" if pieces > 1 else str(k)
        mask_a = conjunction(*((True, text) for text in inside), (ragged, f"(across < {end})"))
        mask_b = conjunction((n % use.n != 0, f"(columns < {n})"), (ragged, f"(down < {end})"))
        other = {mask: ", other=0" if mask else "" for mask in (mask_a, mask_b)}
        inner += [
            f"left = tl.load(a + ({' + '.join(left)}){mask_a}{other[mask_a]})",
            f"right = tl.load(b + ({' + '.join(right)}){mask_b}{other[mask_b]})",
            self.dot("left", "right"),
        ]
        return [
            *lines,
            f"acc = tl.full(({use.m}, {use.n}), 0, {self.total})",
            f"for start in range({span}, {use.k}):",
            *("    " + line for line in inner),
        ]
