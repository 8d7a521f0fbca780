"""Choosing among kernels that do the same with other blocks, by measuring them once.

Input: a kernel with variants, and the arguments of its first launch.  Output: the fastest.  The
kernels only write, so running them again and again on the real arguments changes nothing.  The
choice is kept in the cache for the kernel's text and the model of the device.
"""

from __future__ import annotations

from collections.abc import Sequence

from stax.backends.c.cache import content_key, load_blob, store_blob
from stax.backends.triton.build import FORMAT, module_text
from stax.backends.triton.device import CudaDevice, CudaFunction, Machine
from stax.backends.triton.kernel import KernelSource
from stax.errors import StaxError

RUNS = 5
ROUNDS = 3


def fastest(on: Machine, name: str, kernel: KernelSource, arguments: Sequence[int]) -> KernelSource:
    """The kernel or the variant of it that takes the least time on these arguments."""
    if kernel.variants is None or not isinstance(on, CudaDevice):
        return kernel
    candidates = [kernel, *kernel.variants()]
    if len(candidates) == 1:
        return kernel
    key = content_key(
        "tuned", FORMAT, on.model, on.name, *(module_text(name, c) for c in candidates)
    )
    known = load_blob(key)
    if known is not None and known.isdigit() and int(known) < len(candidates):
        return candidates[int(known)]
    times = [seconds(on, name, c, arguments) for c in candidates]
    best = min(range(len(candidates)), key=times.__getitem__)
    store_blob(key, str(best).encode())
    return candidates[best]


def seconds(on: CudaDevice, name: str, kernel: KernelSource, arguments: Sequence[int]) -> float:
    """The least time of a launch; infinite for a kernel that does not fit or spills."""
    try:
        function: CudaFunction = on.function(name, kernel)
    except StaxError:
        return float("inf")
    if function.image.spilled:
        return float("inf")

    def launches() -> None:
        for _ in range(RUNS):
            function.launch(kernel.grid, arguments)

    launches()
    return min(on.seconds(launches) for _ in range(ROUNDS)) / RUNS
