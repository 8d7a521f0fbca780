"""The CUDA driver's functions, called through cffi.

Input: the name of the driver's library.  Output: a `Driver` whose methods raise `DeviceError` with
the driver's own name for what went wrong.  Nothing but the driver is needed: no toolkit, no
headers.  `PROTOTYPES` is compared with `cuda.h` in the tests.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import cffi

from stax.errors import DeviceError

LIBRARY = "libcuda.so.1"
OLDEST = 12000  # version of the driver's interface, 1000 * major + 10 * minor
OUT_OF_MEMORY = 2
TYPES = """
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUmemPool_attribute;
typedef int CUpointer_attribute;
typedef int CUstreamCaptureMode;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
"""
PROTOTYPES = """
CUresult cuInit(unsigned int Flags);
CUresult cuDriverGetVersion(int *driverVersion);
CUresult cuGetErrorName(CUresult error, const char **pStr);
CUresult cuGetErrorString(CUresult error, const char **pStr);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev);
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);
CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags);
CUresult cuMemFreeHost(void *p);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
    CUstream hStream);
CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
    CUstream hStream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
    CUstream hStream);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule hmod);
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
    unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra);
CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);
CUresult cuStreamSynchronize(CUstream hStream);
CUresult cuStreamDestroy_v2(CUstream hStream);
CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
    unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream);
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec);
CUresult cuGraphDestroy(CUgraph hGraph);
CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags);
CUresult cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult cuEventQuery(CUevent hEvent);
CUresult cuEventSynchronize(CUevent hEvent);
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
CUresult cuEventDestroy_v2(CUevent hEvent);
"""

ffi = cffi.FFI()
ffi.cdef(TYPES + PROTOTYPES)


class Driver:
    """The driver's functions; `call(name, ...)` raises when one fails."""

    def __init__(self, library: str) -> None:
        self.library = library
        try:
            self.lib: Any = ffi.dlopen(library)
        except OSError as error:
            reason = str(error).partition("  Additionally")[0].partition("': ")[2] or error
            raise DeviceError(
                f"the CUDA driver {library} cannot be loaded: {reason}",
                hint="install the NVIDIA driver, or use backend='c'",
            ) from error
        self._functions: dict[str, Any] = {}
        self.call("cuInit", 0)
        version = ffi.new("int *")
        self.call("cuDriverGetVersion", version)
        self.version = int(version[0])
        if self.version < OLDEST:
            raise DeviceError(
                f"the CUDA driver is of version {_version(self.version)}; "
                f"{_version(OLDEST)} is the oldest that works",
                hint="update the NVIDIA driver, or use backend='c'",
            )

    def function(self, name: str) -> Any:
        """One function of the library.

        Raises:
          DeviceError: the driver has no such function: it is too old.
        """
        found = self._functions.get(name)
        if found is None:
            try:
                found = self._functions[name] = getattr(self.lib, name)
            except AttributeError as error:
                raise DeviceError(
                    f"the CUDA driver has no function {name}: it is too old",
                    hint="update the NVIDIA driver, or use backend='c'",
                ) from error
        return found

    def call(self, name: str, *args: Any, about: str = "") -> None:
        """Call a function and raise if it fails; `about` says what for."""
        code = self.function(name)(*args)
        if code:
            raise self.error(name, int(code), about)

    def error(self, name: str, code: int, about: str = "") -> DeviceError:
        """The error that a result code stands for."""
        word, text = self._text("cuGetErrorName", code), self._text("cuGetErrorString", code)
        what = f" {about}" if about else ""
        hint = "use backend='c'" if name == "cuInit" else ""
        made = DeviceError(f"{name}{what} failed: {word} ({text})", hint=hint or None)
        made.code = code  # type: ignore[attr-defined]  # read by `is_exhausted`
        return made

    def _text(self, name: str, code: int) -> str:
        out = ffi.new("const char **")
        try:
            self.function(name)(code, out)
        except DeviceError:
            return f"error {code}"
        return ffi.string(out[0]).decode() if out[0] != ffi.NULL else f"error {code}"


def is_exhausted(error: DeviceError) -> bool:
    """Whether a call failed because memory ran out."""
    return getattr(error, "code", 0) == OUT_OF_MEMORY


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


_lock = threading.RLock()
_drivers: dict[str, Driver] = {}


def driver() -> Driver:
    """The process's driver; STAX_CUDA_DRIVER names another library.

    Raises:
      DeviceError: there is none, or it is too old.
    """
    library = os.environ.get("STAX_CUDA_DRIVER") or LIBRARY
    with _lock:
        found = _drivers.get(library)
        if found is None:
            found = _drivers[library] = Driver(library)
        return found
