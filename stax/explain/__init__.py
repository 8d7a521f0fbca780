"""Reports of what the compiler decided, and why: see `stax.explain` and `stax.memory_curve`."""

from stax.explain.report import Report, explain, memory_curve

__all__ = ["Report", "explain", "memory_curve"]
