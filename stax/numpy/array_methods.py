"""`x.at[...]`, `x.block_until_ready()`, `x.devices()` and kin on NumPy's own arrays and scalars.

Input: NumPy's types.  Output: the same types with a few more attributes, which programs written for
traced values or for JAX use on results too: arrays here are plain `numpy.ndarray`, so there is no
class of stax's that could have them.  What the types have already is left alone, nothing is
replaced, and `STAX_ARRAY_METHODS=0` leaves NumPy untouched (`stax.at(x)` is the same without it).
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np

from stax.config import options
from stax.numpy.at import at

__all__ = ["add", "install"]


def block_until_ready(self: Any) -> Any:
    """The array itself: results are there when a call returns."""
    return self


def add(name: str, attribute: Any) -> None:
    """Give NumPy's arrays and scalars one more attribute, where the user wants any."""
    if options().array_methods:
        for kind in (np.ndarray, np.generic):
            install(kind, {name: attribute})


def install(kind: type, attributes: dict[str, Any]) -> bool:
    """Give `kind`, a type written in C, the attributes; False where the interpreter hides them.

    Such a type takes no assignment from Python, so the attributes go into its namespace directly
    and the interpreter is told to forget what it knew about the type.
    """
    found = [r for r in gc.get_referents(kind.__dict__) if type(r) is dict]
    modified = getattr(getattr(ctypes, "pythonapi", None), "PyType_Modified", None)
    if len(found) != 1 or modified is None:
        return False
    namespace = found[0]
    for name, attribute in attributes.items():
        namespace.setdefault(name, attribute)
    modified.argtypes = [ctypes.py_object]
    modified.restype = None
    modified(kind)
    return True


add("at", property(at))
add("block_until_ready", block_until_ready)
