"""What torch's Inductor would run on a GPU, without one: `python -m benchmarks.gpu_inductor`.

For every workload, beside what stax would run: the Triton kernels and the library calls in the code
that Inductor generates for an H100, the bytes that its own count says they move, and those of the
work spaces that its kernels share, which that count leaves out: each once, as
`benchmarks.gpu_kernels` counts them, and filling them with zeros neither here nor there.  Needs
torch (a build for the CPU will do) and triton.  Forward and backward are traced as one graph,
attention as products and a softmax.  The device is described to torch, never used: its code is
counted and thrown away.
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import numpy as np

from benchmarks.gpu_kernels import lowered_workload
from benchmarks.workloads import WORKLOADS

H100 = types.SimpleNamespace(
    name="NVIDIA H100", type="cuda", index=0, cc=90, major=9, minor=0, gcnArchName="",
    multi_processor_count=132, warp_size=32, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, max_threads_per_block=1024, total_memory=80 << 30,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20, clock_rate=1980000,
    memory_clock_rate=2619000, memory_bus_width=5120,
)  # fmt: skip


class Generated(Exception):
    """Stops Inductor when its code is there."""


def describe_device(torch: Any) -> None:
    """Let torch believe in an H100 as far as generating code asks for one."""
    import torch._dynamo.device_interface as interfaces
    import torch.utils._triton as hashes
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    cuda = torch.cuda
    torch.version.cuda = "12.8"
    cuda.is_available, cuda.device_count = lambda: True, lambda: 1
    cuda.current_device, cuda._lazy_init = lambda: 0, lambda: None
    cuda.get_device_properties = lambda *_: H100
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
    cuda.set_rng_state = cuda.synchronize = lambda *_: None
    cuda._exchange_device = cuda._maybe_exchange_device = lambda _: 0
    cuda.device.__init__ = cuda.device.__enter__ = lambda *_: None
    cuda.device.__exit__ = lambda *_: False
    known = interfaces.CudaInterface
    known.Worker = types.SimpleNamespace(
        get_device_properties=lambda *_: H100, current_device=lambda: 0, set_device=lambda _: None
    )
    for name, value in {
        "get_device_properties": H100,
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_compute_capability": 90,
        "get_raw_stream": 0,
        "synchronize": None,
    }.items():
        setattr(known, name, staticmethod(lambda *_, value=value: value))
    hashes.triton_hash_with_backend = lambda *_: "none"
    target = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_active_torch_device=lambda: torch.device("cuda:0"),
        get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0,
        get_device_interface=lambda: cuda,
    )
    type(driver).active = property(lambda _: target)
    without_copies()


def without_copies() -> None:
    """Let Inductor's pass over scatters check shapes where a build for the CPU cannot copy.

    It writes one described array of the device into another, which that build refuses; the pass
    takes any refusal for a wrong shape.
    """
    import torch._inductor.fx_passes.reinplace as scatters

    whole = scatters._inplace_generalized_scatter

    def checked(target: Any, source: Any, views: Any) -> Any:
        try:
            return whole(target, source, views)
        except RuntimeError as error:
            if "not linked with support" not in str(error.__cause__):
                raise
            return target

    scatters._inplace_generalized_scatter = checked


def generated(name: str) -> tuple[str, int]:
    """Inductor's code for a workload, and the bytes it counts."""
    import torch
    import torch._inductor.compile_fx as inductor
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp
    from torch.utils import _pytree as trees

    from benchmarks.peers.torch_peer import Peer

    class Traced(Peer):
        """The programs as torch.compile gets them, traced instead."""

        compile = True

        def __init__(self) -> None:
            self.t, self.C = torch, lambda f: f

    describe_device(torch)
    found: list[tuple[str, int]] = []

    def stop(lowering: Any) -> Any:
        code, _ = lowering.codegen()
        found.append((getattr(code, "value", code), lowering.count_bytes()[0]))
        raise Generated

    GraphLowering.compile_to_module = GraphLowering._compile_to_module = stop
    torch._inductor.config.fx_graph_cache = False
    torch._inductor.config.compile_threads = 1
    math = torch.nn.attention.SDPBackend.MATH
    with FakeTensorMode() as mode, torch.nn.attention.sdpa_kernel(math):
        flat, tree = trees.tree_flatten(
            trees.tree_map(
                lambda a: torch.empty(a.shape, dtype=getattr(torch, str(a.dtype))),
                WORKLOADS[name].make(),
            )
        )
        program = Traced().build(name)

        def run(*flat: Any) -> Any:
            return tuple(trees.tree_leaves(program(*trees.tree_unflatten(list(flat), tree))))

        graph = make_fx(run, decomposition_table=select_decomp_table())(*flat)
        for node in graph.graph.nodes:
            if "device" in node.kwargs:
                node.kwargs = {**node.kwargs, "device": torch.device("cuda:0")}
            node.meta.pop("val", None)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        flat = [torch.empty(a.shape, dtype=a.dtype, device="cuda:0") for a in flat]
        FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*flat)
    try:
        inductor.compile_fx_inner(graph, flat)
    except Exception:
        if not found:
            raise
    return found[0]


def work_spaces(body: str) -> int:
    """The bytes of the work spaces that the code allocates."""
    found = re.findall(
        r"^\s+workspace_\d+ = empty_strided_cuda\(\((\d+), \), \(1, \), torch\.(\w+)\)", body, re.M
    )
    if len(found) != len(re.findall(r"^\s+workspace_\d+ = ", body, re.M)):
        raise ValueError("the code makes a work space in another way")
    return sum(int(n) * np.dtype(name).itemsize for n, name in found)


def main(names: list[str]) -> int:
    """Print a row for each workload; the exit status is 1 if Inductor refused one or does less."""
    bad = 0
    print("| workload | launches | kB | Inductor: kernels | calls | kB | of work spaces |")
    for name in names or WORKLOADS:
        try:
            code, moved = generated(name)
        except Exception as error:
            print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0]} |", flush=True)
            bad = 1
            continue
        body = code[code.index("def call(") :]
        kernels = len(re.findall(r"^\s+\w+\.run\(", body, re.M))
        calls = len(re.findall(r"extern_kernels\.\w+\(|torch\.ops\.aten\.[\w.]+\(", body))
        space = work_spaces(body)
        own = lowered_workload(name).source.traffic
        more = own.launches > kernels + calls or own.nbytes > moved + space
        bad |= more
        print(
            f"| {name} | {own.launches} | {own.nbytes / 1e3:.3f} | {kernels} | {calls} "
            f"| {(moved + space) / 1e3:.3f} | {space / 1e3:.3f} |{' more than Inductor' * more}",
            flush=True,
        )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
