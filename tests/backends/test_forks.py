"""A forked child of a process that has run parallel programs: it must not wait for lost threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stax.backends.c.toolchain import find_toolchain

PROGRAM = """
import os, signal, warnings
import numpy as np, stax
f = stax.jit(lambda x: np.tanh(x) + np.exp(-x))
g = stax.jit(lambda a: a @ a)
x, a = np.linspace(0, 1, 2_000_000), np.linspace(0, 1, 600 * 600).reshape(600, 600)
before = f(x), g(a)
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    signal.alarm(30)
    same = all((u == v).all() for u, v in zip(before, (f(x), g(a))))
    new = stax.jit(lambda x: np.sin(x))(x)
    os._exit(0 if same and np.allclose(new, np.sin(x)) else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(
    find_toolchain() is None or not hasattr(os, "fork"), reason="needs a compiler and fork"
)
def test_a_forked_child_computes_the_same_bits() -> None:
    env = dict(os.environ, OMP_NUM_THREADS="2", PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "0", done.stdout + done.stderr
