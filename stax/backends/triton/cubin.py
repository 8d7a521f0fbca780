"""What a compiled kernel says about itself.

Input: a cubin, an ELF file; of an AMD kernel its assembly.  Output: the offset and size of each
parameter, the registers of a thread, and the bytes of its stack, which are not 0 when registers
spilled to memory.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_FORMAT_SIZED = 0x04  # attribute with a 16-bit length and a body
_FRAME_SIZE = 0x11
_PARAMETER = 0x17
_REGISTERS = 0x2F


@dataclass(frozen=True)
class Resources:
    """What a kernel uses; `parameters` holds (offset, size) in bytes, in order."""

    registers: int
    stack: int
    parameters: tuple[tuple[int, int], ...]


def sections(image: bytes) -> dict[str, bytes]:
    """The sections of a 64-bit little-endian ELF file by name.

    Raises:
      ValueError: it is not such a file.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", image, start + k * size) for k in range(count)]
    table_at = heads[names_at][4]
    found = {}
    for head in heads:
        begin = table_at + head[0]
        name = image[begin : image.index(b"\0", begin)].decode()
        found[name] = b"" if head[1] == 8 else image[head[4] : head[4] + head[5]]
    return found


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    at = 0
    while at + 4 <= len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        body = struct.pack("<H", value)
        if kind == _FORMAT_SIZED:
            body = data[at : at + value]
            at += value
        found.append((attribute, body))
    return found


def resources(image: bytes) -> Resources:
    """The resources of the only kernel in a cubin."""
    parts = sections(image)
    registers = stack = 0
    for attribute, body in _attributes(parts.get(".nv.info", b"")):
        if attribute == _REGISTERS:
            registers = max(registers, struct.unpack_from("<II", body)[1])
        elif attribute == _FRAME_SIZE:
            stack = max(stack, struct.unpack_from("<II", body)[1])
    parameters = {}
    for name, data in parts.items():
        if not name.startswith(".nv.info."):
            continue
        for attribute, body in _attributes(data):
            if attribute == _PARAMETER:
                _, ordinal, offset, packed = struct.unpack_from("<IHHI", body)
                parameters[ordinal] = (offset, packed >> 18)
    return Resources(registers, stack, tuple(parameters[k] for k in sorted(parameters)))


def amd_resources(assembly: str) -> tuple[int, int]:
    """The vector registers of a thread of an AMD kernel, and the bytes of those that spilled."""

    def figure(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", assembly)
        return int(found[1]) if found else 0

    return figure("vgpr_count"), 4 * figure("vgpr_spill_count")
