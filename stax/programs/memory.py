"""What a compiled program needs of memory, as a dictionary that also answers to XLA's names."""

from __future__ import annotations


class MemoryAnalysis(dict[str, int]):
    """Bytes by name; the attributes are those of XLA's statistics of a compiled program.

    >>> found = MemoryAnalysis(argument_bytes=8, output_bytes=8, temporary_bytes=64)
    >>> found["temporary_bytes"], found.temp_size_in_bytes
    (64, 64)
    """

    @property
    def argument_size_in_bytes(self) -> int:
        """Bytes of the arguments."""
        return self["argument_bytes"]

    @property
    def output_size_in_bytes(self) -> int:
        """Bytes of the results."""
        return self["output_bytes"]

    @property
    def temp_size_in_bytes(self) -> int:
        """Bytes of everything between them: the arena."""
        return self["temporary_bytes"]

    @property
    def peak_memory_in_bytes(self) -> int:
        """The largest sum of arguments, results, constants and what lives between them."""
        return self["peak_bytes"]
