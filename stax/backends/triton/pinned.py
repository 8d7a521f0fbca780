"""Memory of the process that a device reads and writes by itself: pinned blocks.

Input: sizes.  Output: blocks of pinned memory, kept by size.  Copies to a device go through one,
so that the array that was given may be changed at once and the copy runs beside other work; a
block is used again when the event recorded behind its copy has happened.  Results that are copied
back lie in blocks of their own until nobody holds the array.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from stax.backends.triton.driver import Driver, ffi, is_exhausted
from stax.errors import DeviceError

LEAST = 4096
MOST_BYTES = 256 * 1024 * 1024  # held in all; beyond it, copies go without
NO_TIMING = 2


class PinnedMemory:
    """Blocks of pinned memory of one device's context."""

    def __init__(self, drive: Driver) -> None:
        self._drive = drive
        self._free: dict[int, list[int]] = {}
        self._busy: deque[tuple[int, int, Any]] = deque()  # size, address, event
        self._events: list[Any] = []
        self._lock = threading.RLock()
        self.held = 0

    def take(self, nbytes: int) -> tuple[int, int] | None:
        """The size and address of a block for `nbytes`, or None if too much is held."""
        size = max(LEAST, 1 << (nbytes - 1).bit_length())
        with self._lock:
            self._reclaim()
            found = self._free.get(size)
            if found:
                return size, found.pop()
            if self.held + size > MOST_BYTES:
                self._trim()
                if self.held + size > MOST_BYTES:
                    return None
            out = ffi.new("void **")
            try:
                self._drive.call("cuMemHostAlloc", out, size, 0)
            except DeviceError as error:
                if not is_exhausted(error):
                    raise
                self._trim()
                return None  # the process may not pin as much: copies go without
            self.held += size
            return size, int(ffi.cast("uintptr_t", out[0]))

    def give(self, size: int, address: int) -> None:
        """A block that nobody uses any more."""
        with self._lock:
            self._free.setdefault(size, []).append(address)

    def give_after(self, size: int, address: int, stream: Any) -> None:
        """A block that the work issued on a stream until now still uses."""
        with self._lock:
            if self._events:
                event = self._events.pop()
            else:
                out = ffi.new("CUevent *")
                self._drive.call("cuEventCreate", out, NO_TIMING)
                event = out[0]
            self._drive.call("cuEventRecord", event, stream)
            self._busy.append((size, address, event))

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """An array in a block of its own, which comes back when the array is gone."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        block = self.take(nbytes) if nbytes else None
        if block is None:
            return None
        memory = ffi.buffer(ffi.cast("char *", block[1]), nbytes)
        flat = np.frombuffer(memory, np.uint8)
        # Views of the result hold `flat`, and with it the block.
        weakref.finalize(flat, self.give, *block)
        return flat.view(dtype).reshape(shape)

    def _reclaim(self) -> None:
        query = self._drive.function("cuEventQuery")
        while self._busy:
            size, address, event = self._busy[0]
            if query(event):
                return
            self._busy.popleft()
            self._events.append(event)
            self.give(size, address)

    def _trim(self) -> None:
        """Give free blocks back to the process."""
        for size, addresses in self._free.items():
            for address in addresses:
                self._drive.call("cuMemFreeHost", ffi.cast("void *", address))
                self.held -= size
        self._free.clear()
