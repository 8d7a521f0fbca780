"""The errors stax raises, one family under `StaxError`.

Input: what happened, and optionally the operation, its operands, the user's file:line and the way
out. Output: exceptions whose message holds all of it. Every class is also a subclass of the
built-in that NumPy (or JAX) would raise in its place, so existing `except` clauses keep working.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable

from numpy.exceptions import AxisError as _NumpyAxisError

# Finds the user's file:line where an error names none; `core.trace`, which knows it, adds itself.
LOCATE: list[Callable[[], str]] = []

__all__ = [
    "AxisError",
    "CacheError",
    "CheckFailedError",
    "CompilationError",
    "CompilerNotFoundError",
    "ConcretizationError",
    "ConcretizationTypeError",
    "ConfigurationError",
    "CustomDerivativeError",
    "DegradedWarning",
    "LostDerivativeWarning",
    "DeviceError",
    "DtypeError",
    "ExportError",
    "GraphError",
    "MemoryBudgetError",
    "MutationError",
    "NonConcreteBooleanIndexError",
    "NonDifferentiableError",
    "OutOfBoundsError",
    "PytreeError",
    "RangeError",
    "RegistrationError",
    "ShapeError",
    "StaticArgumentError",
    "StaxError",
    "StaxWarning",
    "StrictModeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerLeakError",
    "UnexpectedTracerError",
]


def describe_operand(operand: object) -> str:
    """Return `name: dtype[shape]` for an operand, or the operand itself if it is already text."""
    if isinstance(operand, str):
        return operand
    shape = getattr(operand, "shape", None)
    dtype = getattr(operand, "dtype", None)
    if shape is None or dtype is None:
        return f"{type(operand).__name__} {operand!r}"[:80]
    typed = f"{dtype}[{','.join(str(size) for size in shape)}]"
    name = getattr(operand, "name", None)
    return f"{name}: {typed}" if isinstance(name, str) and name else typed


class StaxError(Exception):
    """Base class of every error that stax raises on purpose.

    Args:
      message: what happened, one sentence or more.
      op: name of the operation concerned.
      operands: its operands; text, or objects with `dtype` and `shape` (and `name`).
      where: the user's `file:line`.
      hint: the way out.
    """

    def __init__(
        self,
        message: str = "",
        *,
        op: str | None = None,
        operands: Iterable[object] = (),
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        if where is None and LOCATE:
            where = LOCATE[0]() or None
        self.op = op
        self.operands = tuple(describe_operand(operand) for operand in operands)
        self.where = where
        self.hint = hint
        text = f"{op}: {message}" if op and not message.startswith(f"{op}:") else message
        if self.operands:
            text += f"\n  operands: {', '.join(self.operands)}"
        if where:
            text += f"\n  at {where}"
        if hint:
            text += f"\n  {hint}"
        super().__init__(text)
        self.args = (text,)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        state = {**self.__dict__, "args": self.args}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


class ConcretizationError(StaxError, TypeError):
    """A traced value was asked for its number: `if`, `while`, `float()`, `int()`, `np.asarray`."""


class NonConcreteBooleanIndexError(ConcretizationError, IndexError):
    """A traced boolean mask was used as an index, so the result's shape depends on values."""


class TracerLeakError(StaxError, TypeError):
    """A traced value was used after the transformation that made it had returned."""


class NonDifferentiableError(StaxError, TypeError):
    """A derivative was asked for where there is none: integer argument, op without a rule."""


class ShapeError(StaxError, ValueError, TypeError):
    """Shapes that do not fit the operation (NumPy raises ValueError, JAX TypeError: both match)."""


class AxisError(StaxError, _NumpyAxisError, TypeError):
    """An axis outside the array's dimensions; also a `numpy.exceptions.AxisError`."""

    def __init__(
        self,
        message: str = "",
        *,
        axis: int | None = None,
        ndim: int | None = None,
        op: str | None = None,
        operands: Iterable[object] = (),
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        if not message and axis is not None:
            message = f"axis {axis} is out of bounds for array of dimension {ndim}"
        super().__init__(message, op=op, operands=operands, where=where, hint=hint)
        self.axis = axis
        self.ndim = ndim

    def __reduce__(self) -> tuple[object, ...]:
        state = {**self.__dict__, "args": self.args, "axis": self.axis, "ndim": self.ndim}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


class DtypeError(StaxError, TypeError):
    """A dtype the operation does not take, or one that cannot be cast as asked."""


class RangeError(DtypeError, OverflowError, ValueError):
    """A number that the dtype it has to be of cannot hold, where NumPy refuses it too."""


class OutOfBoundsError(StaxError, IndexError):
    """An index outside the array, found before any memory was touched."""


class MutationError(StaxError, ValueError, TypeError):
    """A write that cannot be honoured: into an argument, or into an array tracing cannot see."""


class PytreeError(StaxError, ValueError, TypeError):
    """Containers whose structures do not match; the message names the path where they differ."""


class StaticArgumentError(StaxError, ValueError, TypeError):
    """A static argument that cannot be hashed, an argument not there, a value for a function."""


class CustomDerivativeError(StaxError, TypeError, AttributeError):
    """A custom rule is missing, or returned tangents or cotangents of the wrong structure."""


class GraphError(StaxError, ValueError):
    """A Graph that breaks a rule of the IR, or text that does not parse as one."""


class RegistrationError(StaxError, ValueError):
    """A second registration of a primitive or pytree node, or one with a field missing."""


class ConfigurationError(StaxError, ValueError):
    """An option or environment variable with a value outside its documented set."""


class StrictModeError(StaxError, RuntimeError):
    """Under `jit(..., strict=True)`, something that would have run outside compiled code."""


class DeviceError(StaxError, RuntimeError):
    """A device that is not there, or a driver call that failed."""


class MemoryBudgetError(StaxError, ValueError):
    """No schedule fits the memory budget; `least` is the smallest feasible one in bytes."""

    def __init__(
        self,
        message: str = "",
        *,
        least: int | None = None,
        op: str | None = None,
        operands: Iterable[object] = (),
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, op=op, operands=operands, where=where, hint=hint)
        self.least = least


class CompilerNotFoundError(StaxError, RuntimeError):
    """No C compiler works here, and what was asked for cannot do without one."""


class CompilationError(StaxError, RuntimeError):
    """The compiler refused generated code; `source` and `log` keep both for the report."""

    def __init__(
        self,
        message: str = "",
        *,
        source: str = "",
        log: str = "",
        op: str | None = None,
        operands: Iterable[object] = (),
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, op=op, operands=operands, where=where, hint=hint)
        self.source = source
        self.log = log


class CheckFailedError(StaxError, ValueError):
    """A check of a value failed; raised by `check`, or by `Error.throw` of a checked function."""


class ExportError(StaxError, ValueError):
    """A function that cannot be exported as asked, or a file that holds no exported function."""


class CacheError(StaxError, OSError):
    """The kernel cache cannot be used as asked: ownership, permissions, a damaged entry."""


class StaxWarning(UserWarning):
    """Base class of stax's warnings."""


class DegradedWarning(StaxWarning):
    """Something is absent (compiler, writable cache, BLAS) and stax goes on without it."""


class LostDerivativeWarning(StaxWarning):
    """A gradient is zero because `float()`, `.item()` or `math` took the number of a value."""


# JAX's names, for code that catches them.
ConcretizationTypeError = ConcretizationError
TracerArrayConversionError = ConcretizationError
TracerBoolConversionError = ConcretizationError
TracerIntegerConversionError = ConcretizationError
UnexpectedTracerError = TracerLeakError
