"""Plain matrix products by cuBLAS, where that library is installed.

Input: a product's shape, strides and types, and addresses.  Output: one call on the device's
stream.  The library is looked for by name and in the `nvidia-cublas` package and is never
required; STAX_CUBLAS names a file, or "off".  Its matrices are column-major, so the operands
change places: the transpose of the result is the product of the transposes.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi

from stax.backends.triton.device import CudaDevice, Machine
from stax.backends.triton.kernel import KernelSource, Operand, Product
from stax.errors import DeviceError

PROTOTYPES = """
typedef struct cublasContext *cublasHandle_t;
int cublasCreate_v2(cublasHandle_t *handle);
int cublasSetStream_v2(cublasHandle_t handle, void *streamId);
int cublasSetMathMode(cublasHandle_t handle, int mode);
int cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes);
int cublasGemmStridedBatchedEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
    const void *alpha, const void *A, int Atype, int lda, long long int strideA, const void *B,
    int Btype, int ldb, long long int strideB, const void *beta, void *C, int Ctype, int ldc,
    long long int strideC, int batchCount, int computeType, int algo);
"""
NAMES = ("libcublas.so.13", "libcublas.so.12")
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
COMPUTE = {"float32": 68, "float64": 70, "float16": 68, "bfloat16": 68}
FAST_TF32 = 77
DEFAULT_ALGORITHM = -1
WORKSPACE = 32 * 1024 * 1024
NO_MEMORY = 3  # a status
LEAST_FLOPS = 2**24  # below, a launch of our own is as good

ffi = cffi.FFI()
ffi.cdef(PROTOTYPES)
_lock = threading.RLock()
_found: dict[tuple[int, str], Cublas | None] = {}


def libraries() -> Iterator[str]:
    """Names and files to try."""
    chosen = os.environ.get("STAX_CUBLAS")
    if chosen:
        if chosen != "off":
            yield chosen
        return
    yield from NAMES
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        yield from map(str, Path(root).glob("*/lib/libcublas.so.*"))


class Cublas:
    """The library on one device."""

    def __init__(self, library: Any, on: CudaDevice) -> None:
        self._lib = library
        handle = ffi.new("cublasHandle_t *")
        on.enter()
        code = int(library.cublasCreate_v2(handle))
        if code == NO_MEMORY:
            on.trim()
            code = int(library.cublasCreate_v2(handle))
            if code == NO_MEMORY:
                raise on.exhausted("memory for cuBLAS")
        self._check("cublasCreate_v2", code)
        self._handle = handle[0]
        self._on = on
        self._stream: Any = None
        self._lock = threading.Lock()  # from the choice of a stream to the product on it
        self._check("cublasSetMathMode", library.cublasSetMathMode(self._handle, 0))
        # Work space of its own, so that products may be captured in a graph.
        work = on.allocate(WORKSPACE, "work space of cuBLAS")
        self._work = ffi.cast("void *", work)
        self._one = {k: ffi.new(f"{t} *", 1) for k, t in (("s", "float"), ("d", "double"))}
        self._zero = {k: ffi.new(f"{t} *", 0) for k, t in (("s", "float"), ("d", "double"))}

    def _check(self, name: str, code: int) -> None:
        if code:
            raise DeviceError(
                f"{name} failed with status {code}", hint="STAX_CUBLAS=off does without cuBLAS"
            )

    def _issue_to(self, stream: Any) -> None:
        """Let products go to a stream; choosing one takes the work space away."""
        if self._stream is not None and stream == self._stream:
            return
        lib, handle = self._lib, self._handle
        self._stream = None
        self._check(
            "cublasSetStream_v2",
            lib.cublasSetStream_v2(handle, ffi.cast("void *", stream)),
        )
        self._check(
            "cublasSetWorkspace_v2", lib.cublasSetWorkspace_v2(handle, self._work, WORKSPACE)
        )
        self._stream = stream

    def multiply(self, product: Product, left: int, right: int, result: int) -> None:
        """`result = left @ right` at these addresses."""
        b, m, n, k = product.shape
        own, out = product.dtypes
        kind = "d" if own.name == "float64" else "s"
        first = _matrix(product.right, k, n, own.itemsize, right)
        second = _matrix(product.left, m, k, own.itemsize, left)
        target = result + product.result.offset * out.itemsize
        compute = COMPUTE[own.name]
        if own.name == "float32" and product.precision == "tf32":
            compute = FAST_TF32
        with self._lock:
            self._issue_to(self._on.stream)
            code = self._lib.cublasGemmStridedBatchedEx(
                self._handle, first[0], second[0], n, m, k, self._one[kind],
                ffi.cast("void *", first[1]), TYPES[own.name], first[2], product.right.strides[0],
                ffi.cast("void *", second[1]), TYPES[own.name], second[2], product.left.strides[0],
                self._zero[kind], ffi.cast("void *", target), TYPES[out.name], n, m * n, b,
                compute, DEFAULT_ALGORITHM,
            )  # fmt: skip
        self._check("cublasGemmStridedBatchedEx", int(code))


def _matrix(operand: Operand, rows: int, columns: int, itemsize: int, base: int) -> tuple[
    int, int, int
]:  # fmt: skip
    """Whether a row-major view is stored transposed, its address, and its leading dimension."""
    _, row, column = operand.strides
    address = base + operand.offset * itemsize
    if (columns == 1 or column == 1) and (rows == 1 or row >= columns):
        return 0, address, row if rows > 1 else columns
    return 1, address, column if columns > 1 else rows


def routine(on: Machine, kernel: KernelSource) -> Cublas | None:
    """The library for a kernel that is nothing but a product worth it; None to launch the kernel.

    Raises:
      DeviceError: a library that was named cannot be loaded.
    """
    product = kernel.product
    if product is None or not isinstance(on, CudaDevice):
        return None
    if product.left.batches or product.right.batches:
        return None  # the library steps through a batch by one stride
    b, m, n, k = product.shape
    if 2 * b * m * n * k < LEAST_FLOPS:
        return None
    key = (on.index, os.environ.get("STAX_CUBLAS", ""))
    with _lock:
        if key not in _found:
            _found[key] = _open(on)
        return _found[key]


def _open(on: CudaDevice) -> Cublas | None:
    named = os.environ.get("STAX_CUBLAS")
    for name in libraries():
        try:
            library = ffi.dlopen(name)
        except OSError as error:
            if named:
                raise DeviceError(
                    f"STAX_CUBLAS={named!r} cannot be loaded: {error}",
                    hint="name a libcublas.so, or 'off'",
                ) from error
            continue
        return Cublas(library, on)
    return None
