"""The fake driver, built once for each session, and the process's back end pointed at it."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
from pathlib import Path

from stax.backends.triton import device

HERE = Path(__file__).parent
CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)
)


def compiler() -> str | None:
    """A C compiler."""
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


def build(directory: Path) -> Path:
    """The library."""
    target = directory / "libfakecuda.so"
    found = compiler()
    assert found is not None
    command = [found, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(target)]
    subprocess.run([*command, str(HERE / "fake_cuda.c")], check=True)
    return target


def controls(library: Path) -> ctypes.CDLL:
    """The functions that only the fake has."""
    lib = ctypes.CDLL(str(library))
    lib.fake_fault.restype = ctypes.c_char_p
    lib.fake_used.restype = ctypes.c_size_t
    lib.fake_set.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_size_t)
    lib.fake_plant.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    return lib


def used(lib: ctypes.CDLL) -> int:
    """Bytes on the device that somebody holds."""
    gc.collect()
    machine = device.machine(0)
    assert isinstance(machine, device.CudaDevice)
    machine.trim()
    return int(lib.fake_used())
