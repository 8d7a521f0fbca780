"""Every kernel of the suite's programs, compiled: `python -m tests.codegen.sweep [names]`.

Input: the sample table with gradients, 300 random programs with theirs, the benchmark workloads.
Output: each distinct kernel of them on each architecture, compiled and measured, and those that
spill registers or do not fit into shared memory.  Several processes lower and compile a program
each.  Kernels whose text is the same are compiled once, whatever programs they belong to; what is
in the cache is not compiled again, so a sweep that was stopped goes on.  The last line says what
was counted; the exit status is 1 at a fault, and 2 where `--seconds` ended it before everything was
compiled.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np

import stax
from benchmarks.gpu_kernels import DEVICES, lowered_workload
from benchmarks.workloads import WORKLOADS
from stax.backends.triton.build import shared_limit
from stax.backends.triton.kernel import KernelSource
from stax.backends.triton.run import fitted
from stax.errors import CompilationError, StaxError
from tests import op_samples, op_samples_arrays, op_samples_numpy
from tests.programs import random_program

SAMPLES = [*op_samples.SAMPLES, *op_samples_arrays.SAMPLES, *op_samples_numpy.SAMPLES]
RANDOM = 300
KINDS = ("samples", "random", "workloads")
Lowering = Callable[[str], Any]


def loss(fn: Callable[..., Any], args: Sequence[Any], diff: Sequence[int]) -> Callable[..., Any]:
    """A number that depends on every real result of `fn`, as a function of some arguments."""

    def f(*own: Any) -> Any:
        given = list(args)
        for k, value in zip(diff, own, strict=True):
            given[k] = value
        leaves = [v for v in stax.tree.leaves(fn(*given)) if v.dtype.kind in "fc"]
        parts = [(np.real(v) * np.cos(np.arange(v.size)).reshape(v.shape)).sum() for v in leaves]
        return sum(parts[1:], parts[0])

    return f


def programs(kinds: Iterable[str] = KINDS) -> Iterator[tuple[str, Lowering]]:
    """Names of programs, and what lowers each for a device."""

    def lowering(f: Callable[..., Any], args: Sequence[Any]) -> Lowering:
        return lambda device: stax.jit(f).lower(*args, device=device)

    for sample in SAMPLES if "samples" in kinds else ():
        for text in sample.dtypes:
            dtype = np.dtype(text)
            args = sample.make(np.random.default_rng(0), dtype)
            yield f"{sample} {text}", lowering(sample.fn, args)
            if sample.diff and dtype.kind == "f" and sample.order:
                diff = tuple(args[k] for k in sample.diff)
                every = tuple(range(len(diff)))
                gradient = stax.grad(loss(sample.fn, args, sample.diff), every)
                yield f"{sample} {text} gradient", lowering(gradient, diff)
    for seed in range(RANDOM) if "random" in kinds else ():
        made = random_program(seed, smooth=bool(seed % 2))
        every = tuple(range(len(made.args)))
        yield f"program {seed}", lowering(made.fn, made.args)
        gradient = stax.grad(loss(made.fn, made.args, every), every)
        yield f"program {seed} gradient", lowering(gradient, made.args)
    for name in WORKLOADS if "workloads" in kinds else ():
        yield f"workload {name}", lambda device, name=name: lowered_workload(name, device)


@dataclass(frozen=True)
class Found:
    """A kernel, compiled: where it comes from and what it takes."""

    origin: str
    device: str
    registers: int = 0
    spilled: int = 0
    shared: int = 0
    shrunk: bool = False
    refused: str = ""

    @property
    def fault(self) -> str:
        """What is wrong with it, if anything."""
        if self.refused:
            return f"{self.origin} for {self.device}: {self.refused}"
        if self.spilled or self.shared > shared_limit(self.device):
            return (
                f"{self.origin} for {self.device} spills {self.spilled} bytes and has "
                f"{self.shared} bytes of shared memory"
            )
        return ""


def distinct(
    chosen: Iterable[tuple[str, Lowering]], devices: Sequence[str] = DEVICES
) -> list[tuple[str, str, KernelSource]]:
    """The distinct kernels of programs: origin, device, source."""
    kernels: dict[tuple[str, str], tuple[str, str, KernelSource]] = {}
    for origin, lower in chosen:
        for device in devices:
            for source in lower(device).source.kernels:
                found = (f"{origin}, {source.name}", device, source)
                kernels.setdefault((device, source.key), found)
    return list(kernels.values())


def compiled(kernel: tuple[str, str, KernelSource]) -> Found:
    """What one of them takes."""
    origin, device, source = kernel
    try:
        # All are called the same, so that equal texts are equal files in the cache.
        used, image = fitted("kernel", source, device)
    except CompilationError as error:
        return Found(origin, device, refused=str(error)[:2000])
    shrunk = used is not source
    return Found(origin, device, image.registers, image.spilled, image.shared, shrunk)


_kernels: list[tuple[str, str, KernelSource]] = []
_programs: list[tuple[str, Lowering]] = []
_devices: list[str] = []
_done: set[tuple[str, str]] = set()  # kernels that this process has compiled


def _numbered(k: int) -> Found:
    return compiled(_kernels[k])


ENDED = "the compiler ended its process"


def outcomes(work: Callable[[int], Any], count: int, jobs: int) -> Iterator[tuple[int, Any]]:
    """`(k, work(k))` for each number, by several processes; None where one ended at its work.

    A process that ends takes the others with it: what ran then runs again, one at a time.
    """
    fork = multiprocessing.get_context("fork")
    waiting, suspects = deque(range(count)), deque[int]()
    while waiting or suspects:
        alone = bool(suspects)
        source, most = (suspects, 1) if alone else (waiting, jobs)
        running: dict[Future[Any], int] = {}
        with ProcessPoolExecutor(most, mp_context=fork) as pool:
            try:
                while source or running:
                    while source and len(running) < most:
                        started = pool.submit(work, source[0])
                        running[started] = source.popleft()
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        result = done.result()
                        yield running.pop(done), result
            except BrokenProcessPool:
                pass
        for k in running.values():
            if alone:
                yield k, None
            else:
                suspects.append(k)


def swept(
    kernels: list[tuple[str, str, KernelSource]], jobs: int, seconds: float = float("inf")
) -> Iterator[Found]:
    """All of them, by several processes, until the time is over."""
    start = time.monotonic()
    if jobs == 1:
        for kernel in kernels:
            if time.monotonic() - start > seconds:
                return
            yield compiled(kernel)
        return
    _kernels[:] = kernels  # what makes smaller ones cannot be sent: the processes inherit it
    for k, found in outcomes(_numbered, len(kernels), jobs):
        yield found or Found(*kernels[k][:2], refused=ENDED)
        if time.monotonic() - start > seconds:
            return


Kernels = dict[tuple[str, str], Found]  # by architecture and text


def kernels_of(program: tuple[str, Lowering], devices: Sequence[str]) -> Kernels:
    """The kernels of a program that this process has not met; a program that fails is a fault."""
    origin, lower = program
    found: Kernels = {}
    for device in devices:
        try:
            sources = lower(device).source.kernels
        except StaxError as error:
            refused = f"{type(error).__name__}: {error}"[:2000]
            found[device, origin] = Found(origin, device, refused=refused)
            continue
        for source in sources:
            key = (device, source.key)
            if key not in _done:
                _done.add(key)
                found[key] = compiled((f"{origin}, {source.name}", device, source))
    return found


def _of_number(k: int) -> Kernels:
    return kernels_of(_programs[k], _devices)


@dataclass
class Sweep:
    """What was found: programs that were done, and their distinct kernels."""

    programs: int
    done: int
    kernels: Kernels
    seconds: float

    def row(self, name: str, device: str, known: Kernels) -> str:
        """The figures of an architecture."""
        found = [f for key, f in self.kernels.items() if key[0] == device]
        new = sum(key[0] == device and key not in known for key in self.kernels)
        registers = max((f.registers for f in found), default=0)
        shared = max((f.shared for f in found), default=0)
        return (
            f"| {name} | {device} | {self.done} of {self.programs} programs "
            f"| {len(found)} distinct kernels, {new} new | at most {registers} registers "
            f"| at most {shared:,} bytes of shared memory "
            f"| {sum(f.shrunk for f in found)} with smaller blocks "
            f"| {sum(bool(f.fault) for f in found)} faults |"
        )


def sweep_of(
    chosen: Sequence[tuple[str, Lowering]], devices: Sequence[str], jobs: int, seconds: float
) -> Sweep:
    """All kernels of programs, by several processes, until the time is over; faults are printed."""
    start = time.monotonic()
    result = Sweep(len(chosen), 0, {}, 0.0)
    _programs[:] = chosen
    _devices[:] = devices
    for k, found in outcomes(_of_number, len(chosen), jobs):
        if found is None:
            origin = chosen[k][0]
            found = {(d, origin): Found(origin, d, refused=ENDED) for d in devices}
        for key, each in found.items():
            if each.fault and key not in result.kernels:
                print("   ", each.fault, flush=True)
            result.kernels.setdefault(key, each)
        result.done += 1
        if time.monotonic() - start > seconds:
            break
    result.seconds = time.monotonic() - start
    return result


def main(arguments: list[str] | None = None) -> int:
    """Sweep, print a row for each kind and architecture, and what was counted in all."""
    parser = argparse.ArgumentParser(prog="python -m tests.codegen.sweep", description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help="all by default")
    parser.add_argument("--device", action="append", help="an architecture; all three by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each kind")
    options = parser.parse_args(arguments)
    devices = options.device or list(DEVICES)
    known: Kernels = {}
    done = wanted = 0
    spent = 0.0
    for kind in options.kinds:
        found = sweep_of(list(programs((kind,))), devices, options.jobs, options.seconds)
        for device in devices:
            print(found.row(kind, device, known), flush=True)
        print(f"    {kind}: {found.seconds:.0f} s", flush=True)
        known = {**found.kernels, **known}
        done, wanted, spent = done + found.done, wanted + found.programs, spent + found.seconds
    faults = sum(bool(f.fault) for f in known.values())
    print(
        f"{done} of {wanted} programs, {len(known)} distinct kernels on {', '.join(devices)}: "
        f"{faults} faults, {spent:.0f} s",
        flush=True,
    )
    return 1 if faults else 2 if done < wanted else 0


if __name__ == "__main__":
    sys.exit(main())
