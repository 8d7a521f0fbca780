"""Devices: memory, copies and launches, in order on one stream.

Input: a number.  Output: a `Machine`: what running a program takes.  Memory comes from the
driver's pool and is kept by size when it is freed, so that a program that runs again finds the same
addresses; every block has a label, so that an exhausted device can be reported with its largest
inhabitants.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from stax.backends.triton.build import Image, image_of
from stax.backends.triton.driver import OUT_OF_MEMORY, Driver, driver, ffi, is_exhausted
from stax.backends.triton.kernel import KernelSource
from stax.backends.triton.pinned import PinnedMemory
from stax.errors import DeviceError

MAJOR, MINOR = 75, 76  # attributes: compute capability
SHARED_OPT_IN = 97
MULTIPROCESSORS = 16
SHARED_LIMIT = 8  # function attribute: dynamic shared memory
RELEASE_THRESHOLD = 4
NON_BLOCKING = 1
CAPTURE_RELAXED = 2
DEVICE_ORDINAL = 9  # attribute of a pointer
ALIGNMENT = 16
DEFAULT_SHARED = 48 * 1024
PINNED_FROM = 64 * 1024  # bytes of a result from which pinned memory is faster


# The device whose context is current in a thread.
_current = threading.local()


class Function(Protocol):
    """A kernel that is ready to be launched."""

    def launch(self, grid: int, arguments: Sequence[int]) -> None:
        """Start `grid` programs on addresses and integers in the order of the parameters."""


class Machine(Protocol):
    """What running a program takes of a device."""

    name: str
    index: int
    compiles: bool  # whether it runs machine code

    def allocate(self, nbytes: int, label: str) -> int:
        """The address of fresh memory."""

    def free(self, address: int) -> None:
        """Give memory back, once all work issued before is done."""

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the device."""

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array in the process for `download` to fill."""

    def download(self, array: np.ndarray[Any, Any], address: int) -> None:
        """Copy from the device and wait for it."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def clear(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""

    def function(self, name: str, source: KernelSource) -> Function:
        """The kernel, compiled and loaded."""

    def synchronize(self) -> None:
        """Wait for all work."""

    def captured(self, work: Callable[[], None]) -> Any:
        """The launches of `work` as one graph, to be given to `replay`; None if there is none."""

    def replay(self, graph: Any) -> bool:
        """Launch a captured graph; False if there is no memory for it, and nothing was done."""


class CudaFunction:
    """A loaded kernel; `launch` packs its arguments once and overwrites them each time."""

    def __init__(self, machine: CudaDevice, image: Image, types: Sequence[str]) -> None:
        self._machine = machine
        self.image = image
        call = machine.driver.call
        module = ffi.new("CUmodule *")
        code = ffi.from_buffer(image.code)
        machine.within_memory(
            f"memory for kernel {image.name}",
            lambda: call("cuModuleLoadData", module, code, about=f"for kernel {image.name}"),
        )
        self._module = module[0]
        function = ffi.new("CUfunction *")
        call("cuModuleGetFunction", function, self._module, image.name.encode())
        self._function = function[0]
        if image.shared > machine.shared_limit:
            raise DeviceError(
                f"kernel {image.name} needs {image.shared:,} bytes of shared memory; "
                f"{machine.name} has {machine.shared_limit:,}"
            )
        if image.shared > DEFAULT_SHARED:
            call("cuFuncSetAttribute", self._function, SHARED_LIMIT, image.shared)
        kinds = ["int32_t *" if t == "i32" else "uint64_t *" for t in types]
        extra = max(len(image.parameters) - len(kinds), 0)
        kinds += ["uint64_t *"] * extra
        self._slots = [ffi.new(kind) for kind in kinds]
        self._count = len(types)
        self._parameters = ffi.new("void *[]", [ffi.cast("void *", s) for s in self._slots])
        self._lock = threading.Lock()

    def launch(self, grid: int, arguments: Sequence[int]) -> None:
        """Start the kernel on the machine's stream."""
        image, machine = self.image, self._machine
        scratch = 0
        with self._lock:
            for slot, value in zip(self._slots, arguments, strict=False):
                slot[0] = value
            if image.scratch:
                scratch = machine.allocate(image.scratch * grid, f"scratch of {image.name}")
                self._slots[self._count][0] = scratch
            code = self._start(grid)
            if code == OUT_OF_MEMORY and not machine.is_capturing:
                machine.trim()
                code = self._start(grid)
        if scratch:
            machine.free(scratch)
        if code:
            error = machine.driver.error("cuLaunchKernel", code, f"of kernel {image.name}")
            if code == OUT_OF_MEMORY and not machine.is_capturing:
                raise machine.exhausted(f"memory to start kernel {image.name}") from error
            raise error

    def _start(self, grid: int) -> int:
        image, machine = self.image, self._machine
        return int(
            machine.launcher(
                self._function, grid, 1, 1, 32 * image.warps, 1, 1, image.shared,
                machine.stream, self._parameters, ffi.NULL,
            )
        )  # fmt: skip


class CudaDevice:
    """One NVIDIA device, used through its primary context on a stream of its own."""

    compiles = True

    def __init__(self, drive: Driver, index: int) -> None:
        self.driver = drive
        self.index = index
        call = drive.call
        handle = ffi.new("CUdevice *")
        call("cuDeviceGet", handle, index)
        self._handle = handle[0]
        text = ffi.new("char[]", 256)
        call("cuDeviceGetName", text, 256, self._handle)
        self.model = ffi.string(text).decode()
        capability = 10 * self.attribute(MAJOR) + self.attribute(MINOR)
        self.name = f"cuda:sm_{capability}"
        if capability < 75:
            raise DeviceError(
                f"device {index} ({self.model}) has compute capability {capability / 10}; "
                "7.5 is the oldest that works",
                hint="use backend='c'",
            )
        self.shared_limit = self.attribute(SHARED_OPT_IN)
        self.multiprocessors = self.attribute(MULTIPROCESSORS)
        context = ffi.new("CUcontext *")
        call("cuDevicePrimaryCtxRetain", context, self._handle)
        self._context = context[0]
        self.enter()
        self._stream = self._new_stream()
        self.stream_address = int(ffi.cast("uintptr_t", self._stream))
        self._capture_stream: Any = None
        self._capture_lock = threading.Lock()
        self._capturing = 0  # the thread that issues to the stream of captures
        pool = ffi.new("CUmemoryPool *")
        call("cuDeviceGetDefaultMemPool", pool, self._handle)
        self._pool = pool[0]
        keep = ffi.new("uint64_t *", 2**63)
        call("cuMemPoolSetAttribute", self._pool, RELEASE_THRESHOLD, keep)
        self.launcher = drive.function("cuLaunchKernel")
        self.pinned = PinnedMemory(drive)
        self.live: dict[int, tuple[int, str]] = {}
        self._kept: dict[int, list[int]] = {}  # freed blocks by size, the last freed last
        self._functions: dict[str, CudaFunction] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<CudaDevice {self.index}: {self.model}, {self.name}>"

    def attribute(self, number: int) -> int:
        """One of the driver's numbers about the device."""
        out = ffi.new("int *")
        self.driver.call("cuDeviceGetAttribute", out, number, self._handle)
        return int(out[0])

    def _new_stream(self) -> Any:
        out = ffi.new("CUstream *")
        self.driver.call("cuStreamCreate", out, NON_BLOCKING)
        return out[0]

    @property
    def is_capturing(self) -> bool:
        """Whether what this thread issues becomes part of a graph."""
        return bool(self._capturing) and self._capturing == threading.get_ident()

    @property
    def stream(self) -> Any:
        """What work is issued to: one stream, or another while this thread captures."""
        return self._capture_stream if self.is_capturing else self._stream

    def enter(self) -> None:
        """Make the device's context current in this thread."""
        if getattr(_current, "device", None) is not self:
            self.driver.call("cuCtxSetCurrent", self._context)
            _current.device = self

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int, label: str) -> int:
        """The address of fresh memory, aligned to 256 bytes.

        Raises:
          DeviceError: the device has not as much; the message names the largest live values.
        """
        self.enter()
        size = max(nbytes, 1)
        with self._lock:
            kept = self._kept.get(size)
            if kept:
                address = kept.pop()
                self.live[address] = (nbytes, label)
                return address
        out = ffi.new("CUdeviceptr *")
        self.within_memory(
            f"{nbytes:,} bytes for {label}",
            lambda: self.driver.call("cuMemAllocAsync", out, size, self.stream),
        )
        address = int(out[0])
        self.live[address] = (nbytes, label)
        return address

    def within_memory(self, need: str, call: Callable[[], None]) -> None:
        """Make a call of the driver that takes memory, a second time without what is kept.

        Raises:
          DeviceError: there is not enough; the message names `need` and the largest live values.
        """
        try:
            call()
        except DeviceError as error:
            if not is_exhausted(error):
                raise
            self.trim()
            try:
                call()
            except DeviceError as again:
                if not is_exhausted(again):
                    raise
                raise self.exhausted(need) from again

    def trim(self) -> None:
        """Give memory that is kept for later back to the device."""
        with self._lock:
            blocks = [address for kept in self._kept.values() for address in kept]
            self._kept.clear()
        self.enter()
        for address in blocks:
            self.driver.call("cuMemFreeAsync", address, self.stream)
        self.synchronize()
        self.driver.call("cuMemPoolTrimTo", self._pool, 0)

    def exhausted(self, need: str) -> DeviceError:
        """The error that there is no `need`, such as "800 bytes for array float64[100]"."""
        free, total = ffi.new("size_t *"), ffi.new("size_t *")
        self.driver.call("cuMemGetInfo_v2", free, total)
        largest = sorted(self.live.values(), reverse=True)[:5]
        words = ", ".join(f"{text} ({size:,} bytes)" for size, text in largest) or "nothing"
        return DeviceError(
            f"{self.model} has no {need}: {int(free[0]):,} of {int(total[0]):,} bytes are free; "
            f"the largest values on it are {words}",
            hint="delete arrays, lower memory_budget=, or use smaller batches",
        )

    def free(self, address: int) -> None:
        """Keep memory for the next request of its size.

        All work is issued in order on one stream, so whoever gets it next comes after those who
        use it now.
        """
        with self._lock:
            found = self.live.pop(address, None)
            if found is not None:
                self._kept.setdefault(max(found[0], 1), []).append(address)

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the device; the array may be changed afterwards.

        It is copied to pinned memory first, from which the device takes it beside other work.
        """
        nbytes = array.nbytes
        if not nbytes:
            return
        self.enter()
        staged = self.pinned.take(nbytes)
        if staged is None:
            source = ffi.cast("void *", array.ctypes.data)
            self.driver.call("cuMemcpyHtoDAsync_v2", address, source, nbytes, self.stream)
            self.synchronize()  # the array may be pinned: then the call does not wait
            return
        size, place = staged
        ctypes.memmove(place, array.ctypes.data, nbytes)
        source = ffi.cast("void *", place)
        try:
            self.driver.call("cuMemcpyHtoDAsync_v2", address, source, nbytes, self.stream)
        finally:
            self.pinned.give_after(size, place, self.stream)

    def host_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array in the process that `download` fills fastest: pinned where that pays."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.enter()
        found = self.pinned.array(shape, dtype) if nbytes >= PINNED_FROM else None
        return np.empty(shape, dtype) if found is None else found

    def download(self, array: np.ndarray[Any, Any], address: int) -> None:
        """Copy from the device and wait for it."""
        self.enter()
        if array.nbytes:
            target = ffi.cast("void *", array.ctypes.data)
            self.driver.call("cuMemcpyDtoHAsync_v2", target, address, array.nbytes, self.stream)
        self.synchronize()

    def wait_for(self, stream: int) -> None:
        """Wait for the work on a stream of another library."""
        self.enter()
        self.driver.call("cuStreamSynchronize", ffi.cast("CUstream", stream))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        if nbytes:
            self.enter()
            self.driver.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self.stream)

    def clear(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
        if nbytes:
            self.enter()
            self.driver.call("cuMemsetD8Async", address, 0, nbytes, self.stream)

    def synchronize(self) -> None:
        """Wait for all work."""
        self.enter()
        self.driver.call("cuStreamSynchronize", self.stream)

    # ------------------------------------------------------------------ kernels

    def function(self, name: str, source: KernelSource) -> CudaFunction:
        """The kernel, compiled unless it is cached, and loaded once."""
        key = f"{name} {source.key}"
        with self._lock:
            found = self._functions.get(key)
            if found is None:
                self.enter()
                image = image_of(name, source, self.name)
                found = CudaFunction(self, image, list(source.types.values()))
                self._functions[key] = found
            return found

    def captured(self, work: Callable[[], None]) -> Any:
        """The launches of `work` as one executable graph.

        None if they cannot be captured, or if there is no memory for the graph even without what is
        kept: it saves time and nothing else.
        """
        if any(f.image.scratch for f in self._functions.values()):
            return None
        self.enter()
        for first in (True, False):
            try:
                return self._graph(work)
            except DeviceError as error:
                if not is_exhausted(error):
                    raise
                if first:
                    self.trim()
        return None

    def _graph(self, work: Callable[[], None]) -> Any:
        """One attempt: launches go to a stream of their own, for what other threads issue
        meanwhile has to run."""
        call = self.driver.call
        graph = ffi.new("CUgraph *")
        made = ffi.new("CUgraphExec *")
        with self._capture_lock:
            if self._capture_stream is None:
                self._capture_stream = self._new_stream()
            call("cuStreamBeginCapture_v2", self._capture_stream, CAPTURE_RELAXED)
            self._capturing = threading.get_ident()
            ended = False
            try:
                work()
                ended = True
            finally:
                self._capturing = 0
                code = int(self.driver.function("cuStreamEndCapture")(self._capture_stream, graph))
                if not ended and graph[0] != ffi.NULL:
                    call("cuGraphDestroy", graph[0])
            if code:
                raise self.driver.error("cuStreamEndCapture", code)
        try:
            call("cuGraphInstantiateWithFlags", made, graph[0], 0)
        finally:
            call("cuGraphDestroy", graph[0])
        destroy = self.driver.function("cuGraphExecDestroy")
        return ffi.gc(made[0], destroy)

    def replay(self, graph: Any) -> bool:
        """Launch a captured graph; False if there is no memory for it, and nothing was done."""
        self.enter()
        for first in (True, False):
            try:
                self.driver.call("cuGraphLaunch", graph, self.stream)
            except DeviceError as error:
                if not is_exhausted(error):
                    raise
                if first:
                    self.trim()
            else:
                return True
        return False

    # ------------------------------------------------------------------ time

    def seconds(self, work: Callable[[], Any]) -> float:
        """How long the device takes for the work that `work` issues."""
        call = self.driver.call
        self.enter()
        events = []
        for _ in range(2):
            event = ffi.new("CUevent *")
            call("cuEventCreate", event, 0)
            events.append(event[0])
        call("cuEventRecord", events[0], self.stream)
        work()
        call("cuEventRecord", events[1], self.stream)
        call("cuEventSynchronize", events[1])
        out = ffi.new("float *")
        call("cuEventElapsedTime", out, events[0], events[1])
        for event in events:
            call("cuEventDestroy_v2", event)
        return float(out[0]) / 1000


_lock = threading.RLock()
_machines: dict[int, Machine] = {}


def count() -> int:
    """The number of devices; 0 without a driver."""
    try:
        found = driver()
    except DeviceError:
        return 0
    out = ffi.new("int *")
    found.call("cuDeviceGetCount", out)
    return int(out[0])


def machine(index: int = 0) -> Machine:
    """The device of a number.

    Raises:
      DeviceError: there is no driver, or no such device.
    """
    with _lock:
        found = _machines.get(index)
        if found is None:
            drive = driver()
            out = ffi.new("int *")
            drive.call("cuDeviceGetCount", out)
            if not 0 <= index < out[0]:
                raise DeviceError(
                    f"there is no CUDA device {index}: the driver sees {out[0]}",
                    hint="check CUDA_VISIBLE_DEVICES, or use backend='c'",
                )
            found = _machines[index] = CudaDevice(drive, index)
        return found


def holder(address: int) -> int:
    """The number of the device in whose memory an address is.

    Raises:
      DeviceError: the driver knows no such memory.
    """
    drive = driver()
    out = ffi.new("int *")
    try:
        drive.call("cuPointerGetAttribute", out, DEVICE_ORDINAL, address)
    except DeviceError as error:
        raise DeviceError(
            f"the driver knows no memory at {address:#x}: {error.args[0]}",
            hint="the array may have been freed, or be in the memory of the process",
        ) from error
    return int(out[0])


def installed(index: int = 0) -> Machine | None:
    """The machine that programs run on, if one was looked for or installed already."""
    return _machines.get(index)


def install(made: Machine | None, index: int = 0) -> None:
    """Run programs on another machine from now on (None: look for a device again)."""
    with _lock:
        if made is None:
            _machines.pop(index, None)
        else:
            _machines[index] = made
