"""A forked child of a process that has run parallel programs: it must not wait for lost threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stax.backends.c.toolchain import find_toolchain
from stax.forked import Lock, cached_attribute

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


WHILE_COMPILING = """
import gc, os, signal, threading
import numpy as np, stax
import stax.compile as driver
from stax.backends.c import cache, dispatch, forms, toolchain

held, done = threading.Event(), threading.Event()
lower = driver.lower

def waiting(*given, **named):
    if threading.current_thread() is compiling:
        held.set()
        done.wait()
    return lower(*given, **named)

def compile_one():
    with forms._lock, cache._lock, dispatch._build_lock, toolchain._find_lock:
        f(np.ones(3))

driver.lower = waiting
f = stax.jit(lambda x: np.tanh(x) + x[::-1])
compiling = threading.Thread(target=compile_one)
compiling.start()
held.wait()
was_held = not gc.isenabled()
child = os.fork()
if child == 0:
    signal.alarm(30)
    x = np.arange(3.0)
    same = np.allclose(f(x), np.tanh(x) + x[::-1]) and np.allclose(stax.jit(np.cos)(x), np.cos(x))
    os._exit(0 if same and gc.isenabled() else 1)
status = os.waitpid(child, 0)[1]
done.set()
compiling.join()
print(was_held, status, gc.isenabled())
"""


@pytest.mark.skipif(
    find_toolchain() is None or not hasattr(os, "fork"), reason="needs a compiler and fork"
)
def test_a_child_compiles_that_was_made_while_a_thread_compiled() -> None:
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WHILE_COMPILING],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "True 0 True", done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_lock_stays_with_the_thread_that_forks() -> None:
    lock = Lock()
    with lock:
        child = os.fork()
        if child == 0:
            taken = []
            other = threading.Thread(target=lambda: taken.append(lock._lock.acquire(timeout=0.1)))
            other.start()
            other.join()
            os._exit(0 if taken == [False] else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_an_attribute_is_computed_once_for_each_object() -> None:
    class Square:
        def __init__(self, side: int) -> None:
            self.side = side
            self.asked = 0

        @cached_attribute
        def area(self) -> int:
            """The area."""
            self.asked += 1
            return self.side**2

    squares = [Square(3), Square(4)]
    assert [s.area for s in squares] == [s.area for s in squares] == [9, 16]
    assert [s.asked for s in squares] == [1, 1]
    assert Square.area.__doc__ == "The area."
