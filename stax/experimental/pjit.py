"""`pjit`, which is `jit`."""

from stax.transforms.jit import jit as pjit

__all__ = ["pjit"]
