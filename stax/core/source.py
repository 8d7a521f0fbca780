"""Where in the user's file an operation was written: the first frame outside the library."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from types import CodeType, FrameType

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(np.__file__)))
_SCIPY = os.path.join(_SITE, "scipy", "")
_INSIDE = (
    _PACKAGE,
    os.path.join(_SITE, "numpy", ""),
    _SCIPY,
    functools.__file__,
    contextlib.__file__,
    os.path.join(os.path.dirname(importlib.__file__), ""),
    "<frozen ",
)
# By identity: the hash of a code object is that of all its instructions, computed each time.
_internal: dict[int, bool] = {}
_seen: list[CodeType] = []  # keeps the identities


def _is_internal(code: CodeType) -> bool:
    inside = _internal.get(id(code))
    if inside is None:
        made_by_dataclass = code.co_filename == "<string>" and code.co_name == "__init__"
        inside = made_by_dataclass or code.co_filename.startswith(_INSIDE)
        _seen.append(code)
        _internal[id(code)] = inside
    return inside


def place_of(error: BaseException) -> str:
    """`user_place` of the frame an exception that was raised has come from."""
    place, entry = "", error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not _is_internal(code):
            place = f"{code.co_filename}:{entry.tb_lineno} in {code.co_name}"
        entry = entry.tb_next
    return place


def is_called_by_scipy() -> bool:
    """True when a function of SciPy lies between the user's line and here."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code):
        if frame.f_code.co_filename.startswith(_SCIPY):
            return True
        frame = frame.f_back
    return False


def user_stacklevel() -> int:
    """The `stacklevel` with which the caller's `warnings.warn` names the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_back is not None and _is_internal(frame.f_code):
        frame, level = frame.f_back, level + 1
    return level


def user_place() -> str:
    """`file:line in function` of the innermost frame outside stax, NumPy and SciPy."""
    source = user_source()  # also learns which of these frames are internal
    frame = sys._getframe(1)
    while frame is not None and _internal.get(id(frame.f_code), False):
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
    if frame is None or not source:
        return source
    return f"{source} in {frame.f_code.co_name}"


def user_source() -> str:
    """`file:line` of the innermost frame outside stax, NumPy and SciPy, or ""."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        inside = _internal.get(id(code))
        if inside is None:
            inside = _is_internal(code)
        if not inside:
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
    return ""
