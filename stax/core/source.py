"""Where in the user's file an operation was written: the first frame outside the library."""

from __future__ import annotations

import functools
import os
import sys
from types import CodeType

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSIDE = (_PACKAGE, os.path.dirname(os.path.abspath(np.__file__)) + os.sep, functools.__file__)
_internal: dict[CodeType, bool] = {}


def user_place() -> str:
    """`file:line in function` of the innermost frame outside stax and NumPy."""
    source = user_source()  # also learns which of these frames are internal
    frame = sys._getframe(1)
    while frame is not None and _internal.get(frame.f_code, False):
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
    if frame is None or not source:
        return source
    return f"{source} in {frame.f_code.co_name}"


def user_source() -> str:
    """`file:line` of the innermost frame outside stax and NumPy, or "" when there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        inside = _internal.get(code)
        if inside is None:
            name = code.co_filename
            inside = name.startswith((*_INSIDE, "<frozen "))
            _internal[code] = inside
        if not inside:
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
    return ""
