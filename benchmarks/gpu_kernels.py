"""What the workloads would run on a GPU, without one: `python -m benchmarks.gpu_kernels [names]`.

For every workload: the launches of the program, the bytes they read and write, and how many bytes
its arguments and results have, which no program can avoid.  With `--compile` each kernel is
compiled for every architecture of `DEVICES`, and registers, spills and shared memory are checked.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import stax
from benchmarks.peers.stax_peer import Peer
from benchmarks.workloads import WORKLOADS
from stax.backends.triton.build import shared_limit
from stax.backends.triton.run import TritonProgram, described

DEVICES = ("cuda:sm_80", "cuda:sm_90", "hip:gfx942")


class Lowered(Exception):
    """Carries what was lowered out of the workload."""


class DevicePeer(Peer):
    """stax, but `jit` only lowers for a device."""

    def __init__(self, device: str = "cuda:sm_90") -> None:
        super().__init__(1)
        self.device = device
        self.jit = self.lowering

    def lowering(self, f: Any, **options: Any) -> Any:
        """A function that raises what it was lowered to."""

        def run(*args: Any) -> Any:
            raise Lowered(stax.jit(f, **options).lower(*args, device=self.device))

        return run


def lowered_workload(name: str, device: str = "cuda:sm_90") -> Any:
    """A workload, lowered for a device."""
    try:
        DevicePeer(device).build(name)(*WORKLOADS[name].make())
    except Lowered as found:
        return found.args[0]
    raise AssertionError(f"workload {name} compiles nothing")


@dataclass(frozen=True)
class Figures:
    """Of the kernels of a program on one architecture."""

    kernels: int
    seconds: float
    registers: int
    spilled: int
    shared: int
    faults: tuple[str, ...]


def compiled_figures(lowered: Any, device: str) -> Figures:
    """Compile every kernel; `faults` names those that spill or need too much shared memory."""
    start = time.perf_counter()
    program = TritonProgram(lowered.source, device, {})
    seconds = time.perf_counter() - start
    found = described(program)
    faults = [
        f"{name} spills {f['spilled_bytes']} bytes, uses {f['shared_bytes']} of shared memory"
        for name, f in found.items()
        if f["spilled_bytes"] or f["shared_bytes"] > shared_limit(device)
    ]
    return Figures(
        len(found),
        seconds,
        max((f["registers"] for f in found.values()), default=0),
        sum(f["spilled_bytes"] for f in found.values()),
        max((f["shared_bytes"] for f in found.values()), default=0),
        tuple(faults),
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit status is 1 if a kernel spills or does not fit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_kernels", description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; all by default")
    parser.add_argument("--compile", action="store_true", help="compile for every architecture")
    options = parser.parse_args(arguments)
    bad = 0
    for name in options.names or WORKLOADS:
        lowered = lowered_workload(name)
        costs = lowered.source.traffic
        least = sum(b.nbytes for b in (*lowered.source.inputs, *lowered.source.outputs))
        print(
            f"| {name} | {costs.launches} | {costs.nbytes / 1e6:.3f} | {least / 1e6:.3f} |",
            flush=True,
        )
        for device in DEVICES if options.compile else ():
            found = compiled_figures(lowered_workload(name, device), device)
            bad += len(found.faults)
            print(
                f"    {device}: {found.kernels} kernels in {found.seconds:.0f} s, at most "
                f"{found.registers} registers and {found.shared:,} bytes of shared memory, "
                f"{found.spilled} bytes spilled",
                *found.faults,
                sep="\n      ",
                flush=True,
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
