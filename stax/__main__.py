"""`python -m stax doctor`: what stax found on this machine, and whether a program compiles.

Output: one line each for versions, threads, compiler, kernel cache, compiled code and GPU; what is
absent is followed by the reason.  The exit status is 1 when nothing can be compiled.
"""

from __future__ import annotations

import platform
import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np

import stax
from stax.backends.c.cache import open_caches
from stax.backends.c.toolchain import find_toolchain, toolchain_fault
from stax.backends.triton.driver import driver
from stax.config import options
from stax.errors import DeviceError, StaxError

USAGE = "usage: python -m stax doctor"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _compiled_code() -> str:
    x = np.linspace(0.0, 1.0, 64)
    start = time.perf_counter()
    try:
        found = stax.jit(stax.grad(lambda x: np.sum(np.sin(x) ** 2)), backend="c", strict=True)(x)
    except StaxError as error:
        return f"none: {_first_line(error)}"
    seconds = time.perf_counter() - start
    right = np.allclose(found, np.sin(2 * x), rtol=1e-12, atol=1e-12)
    return (
        f"works, first call {seconds:.2f} s" if right else "gives wrong numbers: please report it"
    )


def _gpu() -> str:
    try:
        driver()
    except DeviceError as error:
        return f"none: {_first_line(error)}"
    return "the CUDA driver is there; jit(f, backend='triton') uses it"


def report() -> list[tuple[str, str]]:
    """Names and findings, in the order in which they are printed."""
    toolchain = find_toolchain()
    compiler = f"none: {toolchain_fault()}"
    if toolchain is not None:
        parallel = "with" if toolchain.openmp else "without"
        compiler = f"{' '.join(toolchain.command)} ({toolchain.version}), {parallel} OpenMP"
    with warnings.catch_warnings(record=True):  # the lines below say it
        warnings.simplefilter("always")
        code = _compiled_code()
        places = (
            ", ".join(str(cache.directory) for cache in open_caches()) or "none that can be used"
        )
    return [
        ("stax", f"{stax.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"),
        ("machine", f"{platform.system()} {platform.machine()}, {options().num_threads} threads"),
        ("compiler", compiler),
        ("kernel cache", places),
        ("compiled code", code),
        ("GPU", _gpu()),
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    if list(arguments) != ["doctor"]:
        print(USAGE, file=sys.stderr)
        return 2
    findings = report()
    for name, text in findings:
        print(f"{name:14} {text}")
    return 0 if dict(findings)["compiled code"].startswith("works") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
