"""A compiled C program in this process, and running it.

Input: an `Image`, and the general program that it is an instance of, if any.  Output: a `CProgram`,
whose `run` makes one C call per execution.  The arena is kept from call to call; results are fresh
arrays.  What the C code returns is 0 or the error that it found.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.backends.c import forks
from stax.backends.c.forms import Shared, refuse
from stax.backends.c.image import (
    FALLBACK_FAILED,
    OUT_OF_MEMORY,
    ROUTINE_FAILED,
    Image,
    Operand,
    Type,
    nbytes,
)
from stax.backends.c.routines import addresses, failure, linked_address
from stax.backends.c.support import support
from stax.backends.c.toolchain import require_toolchain
from stax.backends.c.vecmath import linked_names
from stax.errors import CompilationError, OutOfBoundsError

LONG_BYTES = 64 * 1024


class Context(ctypes.Structure):
    """What a program's C code is given beside its inputs and outputs: `program.CONTEXT`."""

    _fields_ = (
        ("arena", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("products", ctypes.c_void_p),
        ("fallback", ctypes.c_void_p),
        ("threads", ctypes.c_int32),
        ("sizes", ctypes.c_void_p),
        ("reals", ctypes.c_void_p),
    )


_FALLBACK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)


class CProgram:
    """A compiled program; `run` may be called from many threads at once."""

    def __init__(
        self, image: Image, timings: dict[str, float], general: Shared | None = None
    ) -> None:
        self.image, self.general = image, general
        start = time.perf_counter()
        whole, threads = require_toolchain(), forks.available_threads()
        text = image.text if general is None else general.text
        toolchain = whole.for_threads(text, threads)
        self.from_cache = toolchain.cached(text) is not None
        try:
            self.library = toolchain.load(text)
        except CompilationError:
            # Where C wants a constant, as in the bounds of a static array, only the compiler knows.
            if general is None:
                raise
            refuse(text)
            self.general = general = None
            self.library = whole.for_threads(image.text, threads).load(image.text)
        timings["compiler"] = time.perf_counter() - start
        start = time.perf_counter()
        handle = self.library.handle
        self._run = handle.stax_run
        self._run.restype = ctypes.c_int32
        self._release = handle.stax_release
        shared = support()
        for name in linked_names(image.functions):
            place = ctypes.c_void_p.in_dll(handle, f"stax_{name}")
            place.value = linked_address(name)
        self._keep: list[Any] = list(image.constants)
        constants = (ctypes.c_void_p * max(len(self._keep), 1))(
            *(a.ctypes.data for a in self._keep)
        )
        places = addresses(image.routines)
        products = (ctypes.c_void_p * len(places))(*places)
        self._failure = threading.local()
        callback = _FALLBACK_TYPE(self._fallback)
        sizes, reals = (general.sizes, general.reals) if general else ((), ())
        numbers = (ctypes.c_int64 * len(sizes))(*sizes), (ctypes.c_double * len(reals))(*reals)
        self._keep += [constants, products, callback, shared, numbers]
        self.context = Context(
            None,
            ctypes.cast(constants, ctypes.c_void_p),
            ctypes.cast(products, ctypes.c_void_p),
            ctypes.cast(callback, ctypes.c_void_p) if image.fallbacks else None,
            forks.available_threads(),
            *(ctypes.cast(array, ctypes.c_void_p) for array in numbers),
        )
        forks.follow(self)
        self._in, self._out = image.inputs, image.outputs
        timings["load"] = time.perf_counter() - start

    def use_one_thread(self) -> None:
        """Run on one thread from now on (in a forked process); the bits stay the same."""
        self.context.threads = 1

    @property
    def entry(self) -> int:
        """The address of the C function `run(inputs, outputs, context)`."""
        return self.library.address("stax_run")

    @property
    def context_address(self) -> int:
        """The address of the context that `entry` takes as its third argument."""
        return ctypes.addressof(self.context)

    @property
    def results(self) -> list[tuple[Any, tuple[int, ...]]]:
        """(dtype, shape) of each result."""
        return [(dtype, shape) for shape, dtype in self._out]

    @property
    def is_long(self) -> bool:
        """Whether a run is long enough for other Python threads to go on meanwhile."""
        return self.image.moved_bytes > LONG_BYTES

    def run(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Run on NumPy values of the program's types; returns fresh arrays."""
        arrays = [
            np.ascontiguousarray(v, dtype).reshape(shape)
            for v, (shape, dtype) in zip(values, self._in, strict=True)
        ]
        arrays = [a if a.flags.aligned else a.copy() for a in arrays]
        outs = [np.empty(shape, dtype) for shape, dtype in self._out]
        inputs = (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))
        outputs = (ctypes.c_void_p * max(len(outs), 1))(*(a.ctypes.data for a in outs))
        code = self._run(inputs, outputs, ctypes.byref(self.context))
        if code:
            self.fail(code)
        return outs

    def fail(self, code: int) -> None:
        """Raise the error that a return code of the program stands for."""
        if code == OUT_OF_MEMORY:
            raise MemoryError(
                f"a compiled program needs {self.image.arena:,} bytes for temporaries"
            )
        if code == FALLBACK_FAILED:
            error = self._failure.error
            self._failure.error = None
            raise error
        if code <= ROUTINE_FAILED:
            raise failure(self.image.calls[ROUTINE_FAILED - code])
        message, op, where = self.image.failure(code)
        raise OutOfBoundsError(
            message,
            op=op,
            where=where,
            hint="indices are checked at run time; use mode='clip' or mode='fill' to allow others",
        )

    def _fallback(self, step: int, pointers: int) -> int:
        """Run one fallback step on the memory of its buffers."""
        try:
            fallback = self.image.fallbacks[step]
            eqn, operands = fallback.eqn, fallback.operands
            table = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
            args = [_view(table[k] or 0, operand) for k, operand in enumerate(operands)]
            with np.errstate(all="ignore"):
                outs = eqn.prim.impl(*args, **eqn.params)
            outs = tuple(outs) if eqn.prim.multi else (outs,)
            for k, (kind, out) in enumerate(zip(fallback.results, outs, strict=True)):
                target = _memory(table[len(operands) + k] or 0, kind)
                target[...] = np.asarray(out).astype(kind[1], copy=False)
        except BaseException as error:  # carried across the C frames, raised by `fail`
            self._failure.error = error
            return 1
        return 0

    def __del__(self) -> None:
        release = getattr(self, "_release", None)
        context = getattr(self, "context", None)
        if release is not None and context is not None:
            release(ctypes.byref(context))


def _memory(address: int, kind: Type) -> np.ndarray[Any, Any]:
    shape, dtype = kind
    size = nbytes(kind)
    if size == 0:
        return np.empty(shape, dtype)
    raw = (ctypes.c_char * size).from_address(address)
    flat: np.ndarray[Any, Any] = np.frombuffer(memoryview(raw), dtype)
    return flat.reshape(shape)


def _view(address: int, operand: Operand) -> np.ndarray[Any, Any]:
    """The operand's elements, copied out of the program's memory."""
    if 0 in operand.shape:
        return np.empty(operand.shape, operand.dtype)
    start = _memory(address, ((operand.extent,), operand.dtype))[operand.offset :]
    strides = tuple(s * operand.dtype.itemsize for s in operand.strides)
    return np.lib.stride_tricks.as_strided(start, operand.shape, strides).copy()
