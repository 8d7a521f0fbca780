"""The tests of tests/triton_interpreter, in a process in which Triton interprets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (
    "test_attention.py",
    "test_convolution.py",
    "test_kernels.py",
    "test_samples.py",
    "test_whole.py",
)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_interpreted_kernels(part):
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    env.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    target = f"tests/triton_interpreter/{part}"
    done = subprocess.run(
        [*command, target], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
