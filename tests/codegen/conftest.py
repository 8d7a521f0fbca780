"""Compiling needs triton, which exists for Linux alone; printing needs nothing."""

from __future__ import annotations

import importlib.util

COMPILING = ["test_compile.py", "test_interpreter.py", "test_sweep.py"]
collect_ignore = [] if importlib.util.find_spec("triton") else COMPILING
