"""A later process takes a program from disk by what was traced, and lowers nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
import stax.compile as driver
import stax.numpy as snp
from stax.backends.c.toolchain import find_toolchain
from stax.lax import conv_general_dilated
from stax.programs import stored
from stax.programs.options import CompileOptions, counters

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

PROGRAM = """
import sys
import numpy as np
import stax
import stax.numpy as snp
from stax.programs.options import counters

table = np.arange(12.0).reshape(3, 4)

def body(c, x):
    return c * 0.5 + x, c.sum()

def f(x, i):
    c, sums = stax.lax.scan(body, x, table)
    picked = snp.asarray(table)[i]
    return {"picked": picked, "sorted": snp.sort(c @ c[:, None] + sums), "row": np.tanh(c)}

def loss(x):
    return (np.exp(x) @ table.T).sum()

x = np.linspace(0.0, 1.0, 4)
out = stax.jit(f)(x, 2)
print([out[k].tobytes().hex() for k in sorted(out)], stax.jit(stax.grad(loss))(x).tobytes().hex())
try:
    stax.jit(f)(x, 7)
except IndexError as error:
    print(str(error).replace(chr(10), " "))
print(counters.lowered, counters.compiler_runs, file=sys.stderr)
"""


def start(cache: Path, script: Path) -> tuple[str, list[int]]:
    env = dict(os.environ, STAX_CACHE_DIR=str(cache), PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout, [int(word) for word in done.stderr.split()]


def test_a_second_process_lowers_nothing(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    first, (lowered, runs) = start(tmp_path / "c", script)
    assert lowered == 2
    assert runs == 2
    again, counted = start(tmp_path / "c", script)
    assert again == first  # the same bits, and an error that names the same line
    assert "program.py:15" in first
    assert counted == [0, 0]
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "program.py").write_text(PROGRAM)
    elsewhere, (lowered, runs) = start(tmp_path / "c", moved / "program.py")
    assert elsewhere.replace("moved/", "") == first  # errors name the file they are raised for
    assert (lowered, runs) == (2, 0)
    for path in (tmp_path / "c").rglob("*.blob"):  # a torn entry is made anew
        path.write_bytes(path.read_bytes()[:-3])
    assert start(tmp_path / "c", script)[0] == first


def key(f: Callable[..., Any], *args: Any, **options: Any) -> str | None:
    traced = stax.jit(f, **options).trace(*args)
    return stored.graph_key(traced.graph, repr(traced.options))


def scaled(k: Any) -> Callable[..., Any]:
    return lambda x: x * k


def convolved(layout: tuple[str, str, str]) -> Callable[..., Any]:
    return lambda x, w: conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)


def nested(precision: str) -> Callable[..., Any]:
    inner = stax.jit(scaled(2.0), matmul_precision=precision)
    return lambda x: inner(x) + 1


X = np.ones(3)
IMAGE, KERNEL = np.ones((2, 4, 4, 2)), np.ones((2, 2, 2, 2))


def test_equal_programs_share_a_key_and_others_do_not() -> None:
    assert key(scaled(2.0), X) == key(scaled(2.0), X) is not None
    keys = [
        key(scaled(2.0), X),
        key(scaled(3.0), X),
        key(scaled(2.0), np.ones(4)),
        key(scaled(2.0), X.astype(np.float32)),
        key(scaled(2.0), X, memory_budget=0.5),
        key(scaled(2.0), X, strict=True),
        key(scaled(2.0), 1.0),
        key(scaled(2.0), np.float64(1.0)),
        key(scaled(np.arange(3.0)), X),
        key(scaled(np.arange(3.0) + 1), X),
        key(scaled(np.arange(3.0 * 20_000).reshape(-1, 3)), X),
        key(scaled(np.arange(3.0 * 20_000).reshape(-1, 3) + 1), X),
        key(convolved(("NHWC", "HWIO", "NHWC")), IMAGE, KERNEL),
        key(convolved(("NHWC", "OIHW", "NHWC")), IMAGE, KERNEL),
        key(convolved(("NHWC", "HWIO", "NCHW")), IMAGE, KERNEL),
        key(nested("highest"), X),
        key(nested("tf32"), X),
        key(lambda x: snp.where(x > 0, x, 1.0), X),
        key(lambda x: snp.where(x > 0, x, 2.0), X),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_objects_without_a_text_have_no_key() -> None:
    @stax.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 3,))
    kind = stax.ShapeDtypeStruct((3,), np.float64)
    assert key(f, X) is None
    assert key(lambda x: stax.pure_callback(np.sin, kind, x), X) is None
    assert key(scaled(np.zeros((stored.CONSTANT_LIMIT, 3))), X) is None


def test_a_changed_library_has_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(scaled(2.0), X)
    monkeypatch.setattr(stored, "library_stamp", lambda: "another")
    assert key(scaled(2.0), X) not in (before, None)
    monkeypatch.setattr(stored, "library_stamp", lambda: None)
    assert key(scaled(2.0), X) is None


def test_steps_in_python_are_lowered_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "has_routine", lambda name: False)
    f = lambda x: snp.sort(x)
    for _ in range(2):
        before = counters.lowered
        assert stax.jit(f).lower(X).fallbacks
        stax.jit(f)(X)
        assert counters.lowered - before == 2


def test_options_print_whole() -> None:
    assert repr(CompileOptions()) != repr(CompileOptions(memory_budget=1))
