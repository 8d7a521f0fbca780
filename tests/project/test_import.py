"""Importing stax is quick, loads nothing it does not need, and writes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAZY = ("sympy", "networkx", "scipy", "sklearn", "triton", "torch", "jax", "matplotlib")


def child(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_import_loads_no_heavy_package() -> None:
    code = f"import sys, stax; print([name for name in {LAZY!r} if name in sys.modules])"
    assert child(code).strip() == "[]"


def test_import_is_quick() -> None:
    code = (
        "import time, numpy, ml_dtypes; start = time.process_time()\n"
        "import stax; print(time.process_time() - start)"
    )
    seconds = min(float(child(code)) for _ in range(3))
    assert seconds < 0.25


def test_import_writes_nothing(tmp_path: Path) -> None:
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "STAX_CACHE_DIR", "TMPDIR")}
    child("import stax", PYTHONDONTWRITEBYTECODE="1", **home)
    assert list(tmp_path.iterdir()) == []
