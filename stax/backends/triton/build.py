"""Compiling Triton kernels ahead of time, and keeping what was compiled.

Input: the text of a function, the types of its parameters, and a target such as "cuda:sm_90".
Output: an `Image`: the machine code and what launching it takes.  No device is needed.  Images are
kept in the cache by the text alone, so that a program that was compiled once runs without triton.
"""

from __future__ import annotations

import importlib
import json
import linecache
import re
import struct
import threading
from dataclasses import asdict, dataclass
from typing import Any

from stax.backends.c.cache import content_key, load_blob, store_blob
from stax.backends.triton.cubin import amd_resources, resources
from stax.backends.triton.kernel import KernelSource
from stax.backends.triton.prelude import prelude
from stax.errors import CompilationError, CompilerNotFoundError, DeviceError

FORMAT = "triton-image-6"
MODULE = "stax_generated"
_lock = threading.RLock()


@dataclass(frozen=True)
class Image:
    """A compiled kernel.

    Attributes:
      name: of the function in the machine code.
      shared: bytes of shared memory.
      parameters: (offset, size) of each parameter; the scratch pointers come last.
      scratch: bytes of global scratch of one program.
      registers, spilled: of one thread; what is spilled is beside the arrays it declares.
      vectors: the numbers of 128-bit, 64-bit and narrower accesses to memory.
    """

    code: bytes
    name: str
    shared: int
    warps: int
    parameters: tuple[tuple[int, int], ...] = ()
    scratch: int = 0
    registers: int = 0
    spilled: int = 0
    vectors: tuple[int, int, int] = (0, 0, 0)

    def pack(self) -> bytes:
        """The image as bytes."""
        fields = asdict(self)
        del fields["code"]
        head = json.dumps(fields).encode()
        return struct.pack("<I", len(head)) + head + self.code

    @staticmethod
    def unpack(data: bytes) -> Image:
        """The image from its bytes."""
        (size,) = struct.unpack_from("<I", data)
        fields = json.loads(data[4 : 4 + size])
        fields["parameters"] = tuple((a, b) for a, b in fields["parameters"])
        fields["vectors"] = tuple(fields["vectors"])
        return Image(code=data[4 + size :], **fields)


def module_text(name: str, source: KernelSource) -> str:
    """The text of one function with everything it calls."""
    own = "\n\n".join([*source.merges, source.function(name)])
    return f"{prelude(own)}\n\n{own}"


# What kernels compile for; a newer architecture of NVIDIA's is left to triton to know.
CUDA = (75, 80, 86, 87, 89, 90, 100, 103, 107, 110, 120, 121)
HIP = (
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170", "gfx1200", "gfx1201", "gfx1250",
)  # fmt: skip


def target_of(device: str) -> tuple[str, int | str, int]:
    """Backend, architecture and lanes of a warp, as Triton names them.

    Raises:
      DeviceError: the text names no architecture that kernels can be compiled for.
    """
    backend, _, arch = device.partition(":")
    if backend == "cuda" and re.fullmatch(r"sm_\d+", arch or "sm_90"):
        number = int((arch or "sm_90")[3:])
        if number in CUDA or number > max(CUDA):
            return "cuda", number, 32
    if backend == "hip" and arch in HIP:
        return "hip", arch, 64 if arch.startswith("gfx9") else 32
    raise DeviceError(
        f"kernels cannot be compiled for {device!r}",
        hint=f"known are 'cuda:sm_N' where N is one of {', '.join(map(str, CUDA))} or larger, and "
        f"'hip:' with one of {', '.join(HIP)}",
    )


SHARED = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_120": 99}


def shared_limit(device: str) -> int:
    """Bytes of shared memory that a block may have on an architecture."""
    backend, arch, _ = target_of(device)
    kilobytes = 64 if backend == "hip" else SHARED.get(f"sm_{arch}", 227)
    return 1024 * kilobytes


def loaded_function(name: str, text: str, module: str = MODULE) -> Any:
    """The Triton function `name` of a text that looks like a file to Triton."""
    key = content_key(text)[:16]
    file = f"<stax {name} {key}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": module}
    exec(compile(text, file, "exec"), space)
    return space[name]


def image_key(name: str, source: KernelSource, device: str) -> str:
    """What an image is kept under."""
    text = module_text(name, source)
    return content_key(FORMAT, text, device, str(source.warps), str(source.stages))


def cached_image(name: str, source: KernelSource, device: str) -> Image | None:
    """The image from the cache."""
    data = load_blob(image_key(name, source, device))
    return None if data is None else Image.unpack(data)


def image_of(name: str, source: KernelSource, device: str) -> Image:
    """The image of a function, compiled unless it is in the cache.

    Raises:
      CompilerNotFoundError: it is not in the cache and triton is not installed.
      CompilationError: Triton refused it.
    """
    found = cached_image(name, source, device)
    if found is None:
        with _lock:
            found = compiled(name, source, device)
        store_blob(image_key(name, source, device), found.pack())
    return found


def compiled(name: str, source: KernelSource, device: str) -> Image:
    """The image of a function, compiled now."""
    backend, arch, warp = target_of(device)
    try:
        triton = importlib.import_module("triton")
        compiler = importlib.import_module("triton.compiler")
        backends = importlib.import_module("triton.backends.compiler")
    except ImportError as error:
        raise CompilerNotFoundError(
            f"kernels for {device} are compiled by triton, which cannot be imported: {error}",
            hint="pip install 'stax[gpu]' (Linux), or use backend='c'",
        ) from error
    function = loaded_function(name, module_text(name, source))
    attributes = {
        (k,): [["tt.divisibility", 16]]
        for k, kind in enumerate(source.types.values())
        if kind.startswith("*")
    }
    options: dict[str, Any] = {
        "num_warps": source.warps,
        "num_stages": source.stages,
        "enable_fp_fusion": False,
    }
    if backend == "cuda":
        options["enable_reflect_ftz"] = False
    try:
        made = triton.compile(
            compiler.ASTSource(function, dict(source.types), {}, attributes),
            target=backends.GPUTarget(backend, arch, warp),
            options=options,
        )
    except Exception as error:
        raise CompilationError(
            f"triton could not compile {name} for {device}: {type(error).__name__}: {error}",
            op=name,
        ) from error
    meta = made.metadata
    if backend == "hip":
        code = made.asm["hsaco"]
        registers, spilled = amd_resources(made.asm["amdgcn"])
        return Image(
            code, meta.name, meta.shared, meta.num_warps, registers=registers, spilled=spilled
        )
    code = made.asm["cubin"]
    found = resources(code)
    # A frame is a multiple of 8 bytes; the arrays that a kernel declares itself are no spills.
    declared = map(int, re.findall(r"__local_depot\d+\[(\d+)\]", made.asm["ptx"]))
    own = sum(-(-size // 8) * 8 for size in declared)
    return Image(
        code,
        meta.name,
        meta.shared,
        meta.num_warps,
        found.parameters,
        getattr(meta, "global_scratch_size", 0) or 0,
        found.registers,
        max(found.stack - own, 0),
        vector_accesses(made.asm["ptx"]),
    )


def vector_accesses(ptx: str) -> tuple[int, int, int]:
    """The numbers of 128-bit, 64-bit and narrower accesses to global memory."""
    wide = middle = narrow = 0
    for line in re.findall(r"(?:ld|st)\.global\S*", ptx):
        lanes = 4 if ".v4" in line else 2 if ".v2" in line else 1
        bits = int(re.findall(r"\d+$", line)[0]) * lanes if re.search(r"\d+$", line) else 32
        if bits >= 128:
            wide += 1
        elif bits == 64:
            middle += 1
        else:
            narrow += 1
    return wide, middle, narrow
