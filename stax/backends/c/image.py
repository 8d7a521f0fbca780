"""What running a program takes, and nothing of how it was made.

Input: an emitted program.  Output: an `Image`: the C text in two parts, the types of arguments and
results, captured arrays, the steps that run in Python, and what a failed index check stands for.
All of it is plain data, so that a program written to a file and read back runs as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.backends.c.rows import attribute_of
from stax.forked import cached_attribute
from stax.loops.buffers import Buffer, ExternInput
from stax.loops.lower import CheckedIndex, out_of_bounds
from stax.schedule.memory import aligned

Type = tuple[tuple[int, ...], np.dtype]

OUT_OF_MEMORY, FALLBACK_FAILED = -1, -2  # what a program returns
BITS = 32  # a failed check of kernel k returns k * BITS + 1 + its number
ROUTINE_FAILED = -16  # what a failed library routine returns, less the number of the call
KEPT_BYTES = 256 << 20  # an arena up to this size stays for the next call; a larger one is returned


@dataclass(frozen=True)
class Operand:
    """A strided view of a buffer that holds `extent` elements."""

    extent: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @staticmethod
    def of(operand: ExternInput, buffer: Buffer) -> Operand:
        """The view that an external call is given."""
        layout, dtype = operand.layout, operand.dtype
        extent = buffer.nbytes // dtype.itemsize
        return Operand(extent, int(layout.offset), layout.shape, layout.strides, dtype)


@dataclass(frozen=True)
class Fallback:
    """A step that runs in Python: an equation, its operands, and the types of its results."""

    eqn: Any
    operands: tuple[Operand, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True)
class RoutineCall:
    """A call of a library routine, which may fail: its name, the operation, and its source."""

    routine: str
    op: str
    source: str


@dataclass(frozen=True)
class Image:
    """A program: `functions` and the statements `body` in C, and what they refer to by number."""

    functions: str
    body: str
    arena: int
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]
    constants: tuple[np.ndarray, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    checks: tuple[tuple[str, tuple[int, ...]], ...] = ()  # (name, extents) of each kernel
    checked: tuple[CheckedIndex, ...] = ()
    routines: tuple[str, ...] = ()  # by name, in the order of their slots
    calls: tuple[RoutineCall, ...] = ()

    @cached_attribute
    def text(self) -> str:
        """The translation unit that exports `stax_run` and `stax_release`."""
        return self.functions + run_text(self.body, self.arena)

    @property
    def moved_bytes(self) -> int:
        """Bytes of arguments, results and temporaries."""
        return self.arena + sum(nbytes(t) for t in (*self.inputs, *self.outputs))

    def failure(self, code: int) -> tuple[str, str, str | None]:
        """What a return code above 0 stands for: a message, the operation, and its source."""
        name, extents = self.checks[(code - 1) // BITS]
        size = extents[min((code - 1) % BITS, len(extents) - 1)]
        return out_of_bounds(size, self.checked, name)


def nbytes(kind: Type) -> int:
    """Bytes of an array of this shape and dtype."""
    shape, dtype = kind
    count = dtype.itemsize
    for n in shape:
        count *= n
    return count


def run_text(body: str, arena: int) -> str:
    """The functions that run the statements `body` and give the arena back."""
    size = aligned(arena)
    if size:
        take = (
            "    char *arena = __atomic_exchange_n(&ctx->arena, 0, __ATOMIC_ACQ_REL);\n"
            f"    if (!arena && posix_memalign((void **)&arena, 64, {size})) return -1;\n"
        )
        give = "    if (arena) free(arena);\n"
        if size <= KEPT_BYTES:
            give = "    arena = __atomic_exchange_n(&ctx->arena, arena, __ATOMIC_ACQ_REL);\n" + give
    else:
        take = "    char *arena = 0;\n    (void)arena;\n"
        give = ""
    plain = attribute_of(body)
    return (
        plain + "int32_t stax_run(void **in, void **out, stax_context *ctx) "
        "{\n    int32_t code = 0, bad = 0;\n    (void)bad;\n"
        f"{take}{body}\n"
        f"    goto done;\ndone:;\n{give}    STAX_CLEAN;\n    return code;\n}}\n"
        + plain
        + "void stax_release(stax_context *ctx) {\n"
        "    void *arena = __atomic_exchange_n(&ctx->arena, 0, __ATOMIC_ACQ_REL);\n"
        "    if (arena) free(arena);\n}\n"
    )
