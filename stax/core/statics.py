"""When two static arguments are the same constant.

Input: a hashable static argument.  Output: a key that is equal for two of them only if one traced
program serves both.  Python finds `(1,)`, `(1.0,)` and `(True,)` equal, and 0.0 equal to -0.0; a
function that closes over them gives other dtypes or other signs.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def static_key(value: Any) -> Any:
    """`value` with the types, and the signs of zeros, of all numbers in it made part of the key."""
    kind = type(value)
    if kind is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return (kind, *(static_key(v) for v in value))
    if isinstance(value, float | complex | np.inexact):
        return kind, repr(value)
    return kind, value
