"""Kernels that differ in their buffers alone, printed once.

Input: kernels in order.  Output: the function of each, as `emit_kernel` gives it.  The layers of a
network are the same loops over other buffers, and printing is the longest step of their first call
before the compiler's: a kernel's text follows from its loops, its instructions and what is known of
each buffer, by its place among the kernel's buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from stax.backends.c.emit import BlockLines, emit_kernel, print_block
from stax.backends.c.frame import KernelSource
from stax.dtypes import DType
from stax.loops.body import Body
from stax.schedule.kernel import Kernel

__all__ = ["PrintedKernels"]


class PrintedKernels:
    """The functions printed so far, by all that their text depends on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[KernelSource, list[str]]] = {}
        self._blocks: dict[Hashable, tuple[BlockLines, list[str]]] = {}

    def source(
        self,
        kernel: Kernel,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
        plain: bool,
    ) -> KernelSource:
        """The function of `kernel`; `escapes(buffer)` says whether others read what it writes.

        A `plain` one (see `emit_kernel`) is the other one where that is printed already.
        """
        if type(kernel) is not Kernel:  # one with steps of a kind of its own
            return emit_kernel(kernel, dtypes, escapes, plain, self._block)
        shape, names = _key(kernel, dtypes, escapes)
        key = (shape, plain and (shape, False) not in self._known)
        if key not in self._known:
            self._known[key] = emit_kernel(kernel, dtypes, escapes, key[1]), names
        found, own = self._known[key]
        now = dict(zip(own, names, strict=True))
        return replace(
            found,
            name=kernel.name,
            parameters=[now[n] for n in found.parameters],
            written={now[n] for n in found.written},
        )

    def _block(
        self,
        dtypes: Mapping[str, DType],
        rows: int,
        plain: bool,
        kernel: Kernel,
        visible: Callable[[str], bool],
    ) -> BlockLines:
        """The loops of a stage over scores, as `print_block` gives them."""
        own_key, names = _key(kernel, dtypes, visible)
        key = (rows, plain, own_key)
        if key not in self._blocks:
            self._blocks[key] = print_block(dtypes, rows, plain, kernel, visible), names
        (parameters, lines, limits), own = self._blocks[key]
        now = dict(zip(own, names, strict=True))
        return [now[n] for n in parameters], lines, {now[n]: limits[n] for n in limits}


def _key(
    kernel: Kernel, dtypes: Mapping[str, DType], escapes: Callable[[str], bool]
) -> tuple[Hashable, list[str]]:
    """All that the text of a kernel depends on, and its buffers in the order of their places."""
    places: dict[str, int] = {}
    members = tuple(
        (m.role, m.stage, m.dims, m.indexes, _shape(m.body, places)) for m in kernel.members
    )
    buffers = tuple(
        (dtypes[n], n in kernel.writers and escapes(n), n in kernel.partial) for n in places
    )
    return (kernel.space, kernel.split, members, buffers), list(places)


def _shape(body: Body, places: dict[str, int]) -> Hashable:
    """The body with the number of each buffer in place of its name, in order of appearance."""
    instrs: list[Hashable] = []
    for op, args, dtype, attrs in body.instrs:
        if op in ("load", "store"):
            known: Hashable = (places.setdefault(attrs[0], len(places)), *attrs[1:])
        elif op == "bind" or not attrs:
            known = attrs
        else:
            known = (attrs, repr(attrs))  # 0.0 equals -0.0, and True equals 1
        instrs.append((op, args, dtype, known))
    return body.loops, body.reduction_loops, tuple(instrs), body.indexes
