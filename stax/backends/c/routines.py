"""The library routines that a program may call, whatever computes them.

Input: the name of a routine.  Output: whether this machine has it, its address, and the statement
of a program that calls it.  The sources are our own C (sorting), the LAPACK that NumPy brought
along, the loops of its Fourier transforms, and those of SciPy's universal functions.  All but the
last have one signature:

    int32_t routine(const int64_t *sizes, int32_t threads, void *const *pointers)

`pointers` are the operands, then the results, dense and row-major.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from stax.backends.c import (
    forks,
    fourier,
    lapack,
    lapack_complex,
    lapack_forms,
    maps,
    panels,
    sorting,
)
from stax.backends.c.ahead import Unit, built_ahead, load
from stax.backends.c.convolution import convolutions, is_convolution, symbol, whole_source
from stax.backends.c.image import RoutineCall
from stax.backends.c.support import COMPLEX_TAGS, GEMM_TAGS, support
from stax.backends.c.toolchain import VECTOR_FLAGS, Library, require_toolchain
from stax.backends.c.vecmath import PREAMBLE, SUPPORTED, linked_source
from stax.errors import StaxError
from stax.loops.buffers import ExternBuffer
from stax.loops.library import UFUNC

PRODUCTS = tuple(f"product_{t}" for t in GEMM_TAGS)
COMPLEX_PRODUCTS = tuple(f"product_{t}" for t in COMPLEX_TAGS)
_LAPACKS: tuple[Any, ...] = (lapack, lapack_complex, lapack_forms)


@functools.cache
def has_routine(name: str) -> bool:
    """Whether a program of this machine may call the routine."""
    if name.startswith(UFUNC):
        return _ufunc_loop(name) is not None
    for module in _LAPACKS:
        if name in module.ROUTINES:
            return module.lapack_table() is not None
    if name in fourier.ROUTINES:
        return fourier.transforms(_loop_of) is not None
    return (
        name in PRODUCTS
        or name in COMPLEX_PRODUCTS
        or is_convolution(name)
        or name in panels.ROUTINES
        or name in sorting.ROUTINES
    )


def addresses(names: Sequence[str]) -> list[int]:
    """The addresses of a program's routines; its convolutions of float64 are built together."""
    images = frozenset(n for n in names if is_convolution(n) and "f64" in n)
    threads = min(forks.available_threads(), 2)  # one, or several
    return [
        convolutions(images, threads).address(symbol(n)) if n in images else address(n)
        for n in names
    ]


@functools.cache
def address(name: str) -> int:
    """The address of a routine; of a pair (loop, data) for a universal function.

    Raises:
      CompilerNotFoundError: there is no working compiler.
      StaxError: a program made elsewhere needs a library that is not here.
    """
    if not has_routine(name):
        raise StaxError(
            f"a compiled program calls {name}, which is not installed here",
            hint="install SciPy as where the program was compiled, or compile it anew",
        )
    if name in PRODUCTS:
        return support().products[name]
    if name in COMPLEX_PRODUCTS:
        return support(COMPLEX_TAGS).products[name]
    if name.startswith(UFUNC):
        found = _ufunc_loop(name)
        assert found is not None  # `has_routine`
        return ctypes.addressof(found)
    for module in _LAPACKS:
        if name in module.ROUTINES:
            return _lapack_library(module).address(f"stax_{name}")
    if name in fourier.ROUTINES:
        return _fourier_library().address(f"stax_{name}")
    if is_convolution(name):
        return _block_library("f32").address(symbol(name))
    if name in panels.ROUTINES:
        return _block_library(name[-3:]).address(f"stax_{name}")
    return _sorting_library().address(f"stax_{name}")


# What multiplies blocks in registers, of the type that programs have most of.
_BLOCKS = built_ahead(
    lambda: Unit(PREAMBLE + whole_source("f32") + panels.panels_source(["f32"]), extra=VECTOR_FLAGS)
)
# Long functions: more programs have none than have some.
_MAPS = built_ahead(lambda: Unit(PREAMBLE + linked_source(maps.NAMES)))
_bound: list[Any] = []  # tables that C code points to


@functools.cache
def linked_address(name: str) -> int:
    """The address of one of `vecmath.LINKED`, which programs point to."""
    library = support().library if name in SUPPORTED else _map_library()
    return library.address(f"stax_{name}")


@functools.cache
def _map_library() -> Library:
    return load(_MAPS())


@functools.cache
def _sorting_library() -> Library:
    library = require_toolchain().load(PREAMBLE + sorting.sorting_source(), opt="-O2")
    sorters = sorting.numpy_sorters()
    table = (ctypes.c_void_p * len(sorters))(*sorters)
    _bound.append(table)
    library.handle.stax_bind_sorters(ctypes.cast(table, ctypes.c_void_p))
    return library


@functools.cache
def _block_library(tag: str) -> Library:
    """Products with panels of a type; convolutions too in float32."""
    if tag == "f32":
        return load(_BLOCKS())
    source = PREAMBLE + panels.panels_source([tag])
    toolchain = require_toolchain().for_threads(source, 1, extra=VECTOR_FLAGS)
    return toolchain.load(source, extra=VECTOR_FLAGS)


@functools.cache
def _lapack_library(module: Any) -> Library:
    """The routines of one of `_LAPACKS`."""
    bits, entries = module.lapack_table()
    library = require_toolchain().load(PREAMBLE + module.lapack_source(bits), opt="-O2")
    table = (ctypes.c_void_p * len(entries))(*entries)
    _bound.append(table)
    library.handle.stax_bind_lapack(ctypes.cast(table, ctypes.c_void_p))
    return library


@functools.cache
def _fourier_library() -> Library:
    found = fourier.transforms(_loop_of)
    assert found is not None
    library = require_toolchain().load(PREAMBLE + fourier.fourier_source(), opt="-O2")
    table = (ctypes.c_void_p * len(found))(*found)
    _bound.append(table)
    library.handle.stax_bind_transforms(ctypes.cast(table, ctypes.c_void_p))
    return library


# ------------------------------------------------------------------------- universal functions


class _UFuncHead(ctypes.Structure):
    """The documented beginning of NumPy's PyUFuncObject."""

    _fields_ = (
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


@functools.cache
def _ufunc_loop(name: str) -> Any:
    """The pair (loop, data) of a name such as `ufunc:gammainc:dd->d`; None if SciPy has none."""
    _, function, types = name.split(":")
    try:
        # Functions that SciPy wraps for the sake of their arguments have a name of its own there.
        space = import_module("scipy.special")
        inner = import_module("scipy.special._ufuncs")
    except ImportError:
        return None
    ufunc = getattr(inner, f"_{function}", None) or getattr(space, function, None)
    pair = _loop_of(ufunc, types)
    return None if pair is None else (ctypes.c_void_p * 2)(*pair)


def _loop_of(ufunc: Any, types: str) -> tuple[int, int] | None:
    """The addresses of a universal function's loop for these types, and of its data."""
    if not isinstance(ufunc, np.ufunc) or types not in ufunc.types:
        return None
    head = _UFuncHead.from_address(id(ufunc))
    if (head.nin, head.nout, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None  # another layout than the documented one
    place = ufunc.types.index(types)
    loop, data = head.functions[place], head.data[place] if head.data else None
    return (loop, data or 0) if loop else None


# ----------------------------------------------------------------------------------- the call

_GENERAL = "Array must not contain infs or NaNs, and eigenvalues must converge"
_NO_ROOT = "the matrix has no real square root; give it as complex: sqrtm(a + 0j)"
FAILURES: dict[str, tuple[type[Exception], str]] = {
    "cholesky": (np.linalg.LinAlgError, "Matrix is not positive definite"),
    "solve": (np.linalg.LinAlgError, "Singular matrix"),
    "inv": (np.linalg.LinAlgError, "Singular matrix"),
    "eigh": (np.linalg.LinAlgError, "Eigenvalues did not converge"),
    "eigvalsh": (np.linalg.LinAlgError, "Eigenvalues did not converge"),
    "eig": (np.linalg.LinAlgError, _GENERAL),
    "eigvals": (np.linalg.LinAlgError, _GENERAL),
    "svd": (np.linalg.LinAlgError, "SVD did not converge"),
    "svdvals": (np.linalg.LinAlgError, "SVD did not converge"),
    "pinv": (np.linalg.LinAlgError, "SVD did not converge"),
    "adjugate": (np.linalg.LinAlgError, "SVD did not converge"),
    "schur": (np.linalg.LinAlgError, _GENERAL),
    "hessenberg": (np.linalg.LinAlgError, "Array must not contain infs or NaNs"),
    "solve_sylvester": (np.linalg.LinAlgError, _GENERAL),
    "solve_banded": (np.linalg.LinAlgError, "Singular matrix"),
    "sqrtm": (np.linalg.LinAlgError, _NO_ROOT),
    "permutation": (IndexError, "an exchange names a row that is not there"),
}


def failure(call: RoutineCall) -> Exception:
    """The error of a routine that could not do its work: NumPy's, with the user's line."""
    kind, text = FAILURES.get(
        call.routine.rpartition("_")[0] or call.routine, (np.linalg.LinAlgError, "LAPACK failed")
    )
    return kind(f"{text}\n  operation: {call.op}\n  at: {call.source or '?'}")


def call_statement(
    results: Sequence[ExternBuffer], names: Mapping[str, str], slot: int, failed: int, short: int
) -> str:
    """The statement of a program that calls the routine at a slot of its table.

    The program returns `failed` when the routine cannot do its work, `short` without memory.
    """
    first = results[0]
    sizes = ", ".join(map(str, first.params["sizes"]))
    inputs = [f"(void *)({names[i.buffer]} + {i.layout.offset})" for i in first.inputs]
    outputs = [f"(void *){names[b.name]}" for b in results]
    pointers = ", ".join([*inputs, *outputs])
    if first.params["routine"].startswith(UFUNC):
        dtypes = [*(i.dtype for i in first.inputs), *(b.dtype for b in results)]
        steps = [str(d.itemsize) for d in dtypes]
        return (
            f"{{ STAX_CLEAN; void **loop = ctx->products[{slot}], *pointers[] = {{ {pointers} }};\n"
            f"      intptr_t count = {sizes}, steps[] = {{ {', '.join(steps)} }};\n"
            "      ((void (*)(void **, const intptr_t *, const intptr_t *, void *))loop[0])"
            "(pointers, &count, steps, loop[1]); }"
        )
    return (
        f"{{ STAX_CLEAN; static const int64_t sizes[] = {{ {sizes} }};\n"
        f"      void *pointers[] = {{ {pointers} }};\n"
        "      int32_t bad = ((int32_t (*)(const int64_t *, int32_t, void *const *))"
        f"ctx->products[{slot}])(sizes, ctx->threads, pointers);\n"
        f"      if (bad) {{ code = bad < 0 ? {short} : {failed}; goto done; }} }}"
    )
