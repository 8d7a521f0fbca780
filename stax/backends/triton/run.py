"""Running a program on a device.

Input: a `TritonSource` and values.  Output: `DeviceArray`s.  Steps are issued in order on the
device's stream and nothing waits for them, except where a bound was checked or the host has to
read a number.  A program without such steps that is run again on the same memory is captured once
and replayed as one graph.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stax.backends.triton.array import DeviceArray, copied_to, is_on_device, shared
from stax.backends.triton.build import Image, cached_image, image_of, shared_limit, target_of
from stax.backends.triton.cublas import Cublas, routine
from stax.backends.triton.device import Function, Machine, installed, machine
from stax.backends.triton.kernel import KernelSource
from stax.backends.triton.program import (
    Block,
    HostCall,
    Launch,
    NestedCall,
    Place,
    TritonSource,
)
from stax.backends.triton.tuning import fastest
from stax.errors import DeviceError, OutOfBoundsError
from stax.loops.buffers import Buffer, ExternBuffer
from stax.loops.lower import out_of_bounds

MOST_GRAPHS = 8
MOST_SEEN = 256
SMALLEST = 3  # times that blocks are halved while registers spill or shared memory is full


def default_architecture() -> str:
    """The architecture of device 0.

    Raises:
      DeviceError: there is no device.
    """
    return machine(0).name


def fitted(name: str, kernel: KernelSource, device: str) -> tuple[KernelSource, Image]:
    """A kernel with its image: with blocks so small that no register spills, and that fit."""
    most = shared_limit(device)
    image = image_of(name, kernel, device)
    again = kernel.again
    for shrink in range(1, SMALLEST + 1):
        if (not image.spilled and image.shared <= most) or again is None:
            break
        kernel = again(shrink)
        image = image_of(name, kernel, device)
    return kernel, image


class TritonProgram:
    """A compiled program; kernels are loaded at the first run."""

    def __init__(
        self,
        source: TritonSource,
        device: str,
        timings: dict[str, float],
        on: Machine | None = None,
    ) -> None:
        self.source = source
        self.device = device
        self._timings = timings
        found = on or installed()
        fits = found is not None and (not found.compiles or found.name == device)
        self._machine = found if fits else None
        self._functions: dict[str, Function] = {}
        self._constants: list[DeviceArray] = []
        self._graphs: dict[tuple[int, ...], Any] = {}
        self._seen: dict[tuple[int, ...], int] = {}
        self._lock = threading.Lock()
        self._spaces: dict[int, LoopSpace] = {}
        self._elsewhere: dict[int, TritonProgram] = {}
        self._capturable = not source.calls_host
        self._results = [(b.nbytes, result_label(b), b.shape, b.dtype) for b in source.outputs]
        target_of(device)
        self.kernels = dict(source.functions)
        self.from_cache = True
        if self._machine is None or self._machine.compiles:
            start = time.perf_counter()
            self._build()
            timings["compiler"] = time.perf_counter() - start

    def _build(self) -> None:
        """Compile what is not in the cache; a kernel that does not fit gets smaller blocks."""
        for name, kernel in self.kernels.items():
            self.from_cache &= cached_image(name, kernel, self.device) is not None
            self.kernels[name], _ = fitted(name, kernel, self.device)

    @property
    def machine(self) -> Machine:
        """The device, found at the first run.

        Raises:
          DeviceError: there is none, or it is of another architecture.
        """
        if self._machine is None:
            if not self.device.startswith("cuda"):
                raise DeviceError(
                    f"the program is compiled for {self.device}, on which programs cannot be run",
                    hint="read its text and its machine code; run it with backend='c'",
                )
            found = machine(0)
            if found.name != self.device:
                raise DeviceError(
                    f"the program is compiled for {self.device}; device 0 is {found.name}",
                    hint=f"lower with device={found.name!r}",
                )
            self._machine = found
        return self._machine

    def launch(self, name: str, arguments: Sequence[int]) -> None:
        """Start a kernel; at its first start the fastest of its variants is found."""
        found = self._functions.get(name)
        if found is None:
            library = routine(self.machine, self.kernels[name])
            if library is not None:
                found = self._functions[name] = _Multiplication(library, self.kernels[name])
        if found is None:
            self.kernels[name] = fastest(self.machine, name, self.kernels[name], arguments)
            found = self._functions[name] = self.machine.function(name, self.kernels[name])
        found.launch(self.kernels[name].grid, arguments)

    # ------------------------------------------------------------------ a run

    def run(self, values: Sequence[Any]) -> list[DeviceArray]:
        """Run on values of the program's types; returns fresh arrays on the device.

        The arguments say where: values in the memory of the process are copied to the device of
        the others, device 0 if there are none.
        """
        values = [shared(v) if _is_foreign(v) else v for v in values]
        places = {v.machine.index for v in values if isinstance(v, DeviceArray)}
        own = 0 if self._machine is None else self._machine.index
        if len(places) == 1 and places != {own}:
            return self._on(*places).run(values)
        on, source = self.machine, self.source
        given = [self._placed(v, b) for v, b in zip(values, source.inputs, strict=True)]
        if not self._constants:
            self._constants = [copied_to(on, np.asarray(b.value)) for b in source.constants]
        outs = [
            DeviceArray(on, on.allocate(nbytes, label), shape, dtype)
            for nbytes, label, shape, dtype in self._results
        ]
        size, arena, flags = source.plan.nbytes, 0, 0
        try:
            if size:
                arena = on.allocate(size, "temporaries of a program")
            if source.flags:
                flags = on.allocate(4 * len(source.flags), "flags")
            inputs = [a.address for a in given]
            outputs = [a.address for a in outs]
            with self._lock:
                self._issue(inputs, outputs, arena, flags)
            if flags:
                self._raise(flags)
        finally:
            for address in (arena, flags):
                if address:
                    on.free(address)
        return outs

    def _on(self, index: int) -> TritonProgram:
        """The program on another device."""
        with self._lock:
            found = self._elsewhere.get(index)
            if found is None:
                on = machine(index)
                found = TritonProgram(self.source, on.name, self._timings, on)
                self._elsewhere[index] = found
            return found

    def _placed(self, value: Any, buffer: Buffer) -> DeviceArray:
        """An argument on the device."""
        on = self.machine
        if isinstance(value, DeviceArray):
            if value.machine is not on:
                raise DeviceError(
                    f"argument {buffer.name} is on {value.device}, another one on device "
                    f"{on.index}",
                    hint="move it with stax.device_put; a program runs on one device",
                )
            return value
        array = np.ascontiguousarray(value, buffer.dtype).reshape(buffer.shape)
        return copied_to(on, array)

    def space(self, action: NestedCall) -> LoopSpace:
        """The memory of a loop or branch; kept, because captured graphs refer to it."""
        found = self._spaces.get(id(action))
        if found is None:
            found = self._spaces[id(action)] = LoopSpace.of(self.machine, action)
        return found

    def __del__(self) -> None:
        for space in getattr(self, "_spaces", {}).values():
            for address in space.addresses:
                self.machine.free(address)

    def _issue(self, inputs: list[int], outputs: list[int], arena: int, flags: int) -> None:
        on = self.machine

        def work() -> None:
            if flags:
                on.clear(flags, 4 * len(self.source.flags))
            _Runner(self, flags).block(self.source.block, inputs, outputs, arena)

        key = (*inputs, *outputs, arena, flags)
        graph = self._graphs.get(key)
        if graph is not None:
            if on.replay(graph):
                return
            del self._graphs[key]
        work()
        if not self._capturable or len(self._graphs) >= MOST_GRAPHS or len(self._seen) >= MOST_SEEN:
            return
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] == 2:
            # Twice on the same memory: the next time as one graph. Capturing runs nothing.
            graph = on.captured(work)
            if graph is not None:
                self._graphs[key] = graph

    def _raise(self, flags: int) -> None:
        found = np.zeros(len(self.source.flags), np.int32)
        self.machine.download(found, flags)
        bad = np.flatnonzero(found)
        if bad.size:
            kernel, size = self.source.flags[int(bad[0])]
            message, op, where = out_of_bounds(size, self.source.checked, kernel)
            raise OutOfBoundsError(
                message,
                op=op,
                where=where,
                hint="indices are checked at run time; use mode='clip' or mode='fill' to allow "
                "others",
            )


class _Multiplication:
    """A product done by a library, in the place of a kernel."""

    def __init__(self, library: Cublas, kernel: KernelSource) -> None:
        assert kernel.product is not None
        self._library = library
        self._product = kernel.product

    def launch(self, grid: int, arguments: Sequence[int]) -> None:
        """Multiply; `grid` is that of the kernel it replaces."""
        self._library.multiply(self._product, *arguments)


def _is_foreign(value: Any) -> bool:
    return not isinstance(value, DeviceArray | np.ndarray | np.generic) and is_on_device(value)


def result_label(buffer: Buffer) -> str:
    """A result as the report of an exhausted memory names it."""
    return f"{buffer.name} {buffer.dtype}{list(buffer.shape)}"


@dataclass(frozen=True)
class LoopSpace:
    """Memory of a loop or branch: arenas of its blocks, two sets of carries, a truth value."""

    arenas: list[int]
    carries: tuple[list[int], list[int]]
    condition: int

    @staticmethod
    def of(on: Machine, action: NestedCall) -> LoopSpace:
        """Fresh memory."""
        first = action.results[0]
        count = {"scan": first.params.get("carry", 0), "while": len(action.results)}
        carried = action.results[: count.get(first.extern_kind, 0)]
        found: list[int] = []

        def fresh(nbytes: int, label: str) -> int:
            found.append(on.allocate(nbytes, label))
            return found[-1]

        try:
            sets = [[fresh(b.nbytes, f"carry {b.name}") for b in carried] for _ in range(2)]
            arenas = [
                fresh(b.plan.nbytes, "temporaries of a loop") if b.plan.nbytes else 0
                for b in action.blocks
            ]
            return LoopSpace(arenas, (sets[0], sets[1]), fresh(1, "condition of a loop"))
        except DeviceError:
            for address in found:
                on.free(address)
            raise

    @property
    def addresses(self) -> list[int]:
        """Everything that was allocated."""
        found = [*self.arenas, *self.carries[0], *self.carries[1], self.condition]
        return [a for a in found if a]


class _Runner:
    """Issues the actions of blocks."""

    def __init__(self, program: TritonProgram, flags: int) -> None:
        self.program = program
        self.on = program.machine
        self.flags = flags

    def block(
        self, block: Block, inputs: Sequence[int], outputs: Sequence[int], arena: int
    ) -> None:
        """Run a block on addresses."""
        constants = [a.address for a in self.program._constants]
        bases = {"in": inputs, "out": outputs, "constant": constants}
        places = block.places

        def address(name: str) -> int:
            place: Place = places[name]
            if place.kind == "arena":
                return arena + place.position
            return 0 if place.kind == "nowhere" else bases[place.kind][place.position]

        for action in block.actions:
            if isinstance(action, Launch):
                self._launch(action, address, arena)
            elif isinstance(action, HostCall):
                self._host(action, block, address)
            else:
                self._nested(action, block, address)

    def _launch(self, action: Launch, address: Any, arena: int) -> None:
        arguments = [address(n) for n in action.source.parameters]
        for scratch, offset in zip(action.source.scratch, action.work, strict=True):
            if scratch.zeroed:
                self.on.clear(arena + offset, scratch.nbytes)
            arguments.append(arena + offset)
        if action.source.checks:
            arguments += [self.flags, action.flag]
        self.program.launch(action.function, arguments)

    def _host(self, action: HostCall, block: Block, address: Any) -> None:
        """One step by NumPy, on copies."""
        first = action.results[0]
        eqn = first.params["eqn"]
        args = []
        for operand in first.inputs:
            buffer = block.table[operand.buffer]
            layout, dtype = operand.layout, operand.dtype
            if 0 in layout.shape:
                args.append(np.empty(layout.shape, dtype))
                continue
            flat = np.empty(buffer.nbytes // dtype.itemsize, dtype)
            self.on.download(flat, address(operand.buffer))
            strides = tuple(s * dtype.itemsize for s in layout.strides)
            start = flat[layout.offset :]
            args.append(np.lib.stride_tricks.as_strided(start, layout.shape, strides).copy())
        with np.errstate(all="ignore"):
            outs = eqn.prim.impl(*args, **eqn.params)
        outs = tuple(outs) if eqn.prim.multi else (outs,)
        for buffer, out in zip(action.results, outs, strict=False):
            array = np.ascontiguousarray(np.asarray(out).astype(buffer.dtype, copy=False))
            self.on.upload(address(buffer.name), array.reshape(buffer.shape))
            self.on.synchronize()

    # ------------------------------------------------------------------ loops and branches

    def _nested(self, action: NestedCall, block: Block, address: Any) -> None:
        first = action.results[0]
        operands = []
        for operand in first.inputs:
            place = address(operand.buffer)
            operands.append(place and place + operand.layout.offset * operand.dtype.itemsize)
        targets = [address(b.name) for b in action.results]
        space = self.program.space(action)
        run = {"scan": self._scan, "while": self._while}.get(first.extern_kind, self._branch)
        run(action, first, operands, targets, space)

    def _scan(
        self,
        action: NestedCall,
        first: ExternBuffer,
        operands: list[int],
        targets: list[int],
        space: LoopSpace,
    ) -> None:
        params = first.params
        n, m, length = params["consts"], params["carry"], params["length"]
        results = action.results
        sizes_in = [_slice_bytes(i.layout.shape, i.dtype) for i in first.inputs]
        sizes_out = [_slice_bytes(b.shape, b.dtype) for b in results]
        now = operands[n : n + m]
        arenas, spare = space.arenas, space.carries
        for t in range(length):
            i = length - 1 - t if params["reverse"] else t
            xs = [operands[k] + i * sizes_in[k] for k in range(n + m, len(operands))]
            after = spare[t % 2]
            ys = [targets[k] + i * sizes_out[k] for k in range(m, len(results))]
            self.block(action.blocks[0], [*operands[:n], *now, *xs], [*after, *ys], arenas[0])
            now = after
        for k in range(m):
            self.on.copy(targets[k], now[k], results[k].nbytes)

    def _while(
        self,
        action: NestedCall,
        first: ExternBuffer,
        operands: list[int],
        targets: list[int],
        space: LoopSpace,
    ) -> None:
        nc, nb = first.params["cond_consts"], first.params["body_consts"]
        now = operands[nc + nb :]
        arenas, spare, going = space.arenas, space.carries, space.condition
        answer = np.zeros(1, np.bool_)
        step = 0
        while True:
            self.block(action.blocks[0], [*operands[:nc], *now], [going], arenas[0])
            self.on.download(answer, going)
            if not answer[0]:
                break
            after = spare[step % 2]
            self.block(action.blocks[1], [*operands[nc : nc + nb], *now], after, arenas[1])
            now = after
            step += 1
        for target, place, buffer in zip(targets, now, action.results, strict=True):
            self.on.copy(target, place, buffer.nbytes)

    def _branch(
        self,
        action: NestedCall,
        first: ExternBuffer,
        operands: list[int],
        targets: list[int],
        space: LoopSpace,
    ) -> None:
        which = np.zeros(1, np.int32)
        self.on.download(which, operands[0])
        k = min(max(int(which[0]), 0), len(action.blocks) - 1)
        self.block(action.blocks[k], operands[1:], targets, space.arenas[k])


def _slice_bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    size = dtype.itemsize
    for n in shape[1:]:
        size *= n
    return int(size)


def described(program: TritonProgram) -> Mapping[str, dict[str, int]]:
    """Registers, shared memory, spills and access widths of each kernel."""
    out = {}
    for name, kernel in program.kernels.items():
        image = image_of(name, kernel, program.device)
        wide, middle, narrow = image.vectors
        out[name] = {
            "registers": image.registers,
            "shared_bytes": image.shared,
            "spilled_bytes": image.spilled,
            "warps": image.warps,
            "programs": kernel.grid,
            "accesses_128": wide,
            "accesses_64": middle,
            "accesses_32": narrow,
        }
    return out


__all__ = ["TritonProgram", "default_architecture", "described"]
