"""Libraries that do not depend on a program are built together, when the first of them is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stax.backends.c import ahead, cache, toolchain
from stax.backends.c.ahead import Unit
from stax.errors import CompilationError

pytestmark = pytest.mark.skipif(
    toolchain.find_toolchain() is None, reason="no C compiler on this machine"
)
ROOT = Path(__file__).parents[2]
ONE, TWO, THREE = (Unit(f"int f(void) {{ return {k}; }}") for k in (1, 2, 3))
BROKEN = Unit("this is no C")


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compiled, in a cache of the test's own; no library is declared."""
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))
    toolchain.require_toolchain()
    monkeypatch.setattr(ahead, "_declared", [])
    texts: list[str] = []
    run: Callable[..., Path] = toolchain._run_compiler

    def counted(command: Any, libraries: Any, source: str, directory: Path) -> Path:
        texts.append(source)
        return run(command, libraries, source, directory)

    monkeypatch.setattr(toolchain, "_run_compiler", counted)
    return texts


def test_the_first_takes_the_others_along(compiled: list[str]) -> None:
    for unit in (ONE, TWO):
        assert ahead.built_ahead(lambda unit=unit: unit)() is unit
    assert ahead.load(THREE).handle.f() == 3
    assert sorted(compiled) == sorted(unit.text for unit in (ONE, TWO, THREE))
    assert [ahead.load(unit).handle.f() for unit in (ONE, TWO, THREE)] == [1, 2, 3]
    assert len(compiled) == 3, "nothing is built twice"
    assert all(thread.name != "stax-compiler" for thread in threading.enumerate())


def test_alone_none_is_taken_along(compiled: list[str]) -> None:
    ahead.built_ahead(lambda: ONE)
    assert ahead.load(TWO, alone=True).handle.f() == 2
    assert compiled == [TWO.text]


def test_flags_count(compiled: list[str]) -> None:
    text = "#if defined(NUMBER)\nint f(void) { return NUMBER; }\n#endif\n"
    ahead.built_ahead(lambda: Unit(text, "-O2", ("-DNUMBER=5",)))
    assert ahead.load(Unit(text, "-O2", ("-DNUMBER=4",))).handle.f() == 4
    assert len(compiled) == 2
    assert ahead.load(Unit(text, "-O2", ("-DNUMBER=5",))).handle.f() == 5
    assert len(compiled) == 2


def test_what_cannot_be_built_is_said_when_it_is_loaded(compiled: list[str]) -> None:
    ahead.built_ahead(lambda: BROKEN)
    ahead.built_ahead(lambda: TWO)
    assert ahead.load(ONE).handle.f() == 1
    assert ahead.load(TWO).handle.f() == 2
    assert compiled.count(TWO.text) == 1
    with pytest.raises(CompilationError, match="refused generated code"):
        ahead.load(BROKEN)


def test_as_many_at_a_time_as_there_are_processors(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, met = toolchain._run_compiler, threading.Barrier(2, timeout=60)

    def meet(*args: Any) -> Path:
        met.wait()
        return run(*args)

    monkeypatch.setattr(toolchain, "_run_compiler", meet)
    monkeypatch.setattr(ahead, "available_cpus", lambda: 2)
    ahead.built_ahead(lambda: TWO)
    assert ahead.load(ONE).handle.f() == 1
    assert sorted(compiled) == [ONE.text, TWO.text]


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_no_thread_can_start_this_one_builds_all(
    allowed: int, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for unit in (ONE, TWO):
        ahead.built_ahead(lambda unit=unit: unit)
    monkeypatch.setattr(ahead, "available_cpus", lambda: 3)
    start, started = threading.Thread.start, []

    def rationed(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", rationed)
    assert ahead.load(THREE).handle.f() == 3
    assert sorted(compiled) == sorted(unit.text for unit in (ONE, TWO, THREE))
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("processors", [1, 2])
def test_after_an_interrupt_nothing_else_begins(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    interrupted = threading.Event()

    def interrupt(*args: Any) -> Path:
        compiled.append(args[2])
        if threading.current_thread() is threading.main_thread():
            interrupted.set()
            raise KeyboardInterrupt
        interrupted.wait(60)
        raise OSError("stopped")

    monkeypatch.setattr(toolchain, "_run_compiler", interrupt)
    monkeypatch.setattr(ahead, "available_cpus", lambda: processors)
    for k in range(9):
        ahead.built_ahead(lambda k=k: Unit(f"int g{k};"))
    with pytest.raises(KeyboardInterrupt):
        ahead.load(ONE)
    assert len(compiled) <= processors
    assert all(thread.name != "stax-compiler" for thread in threading.enumerate())
    assert not list(cache.lasting_cache().directory.glob("build-*"))


def test_what_no_later_process_would_find_is_not_built(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_places", {})
    monkeypatch.setattr(
        cache.Cache, "_maps_executable", lambda self: not self.directory.is_relative_to(tmp_path)
    )
    ahead.built_ahead(lambda: TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ahead.load(ONE).handle.f() == 1
    assert compiled == [ONE.text]


def test_the_first_jit_leaves_programs_alone_to_compile(tmp_path: Path) -> None:
    program = """
import numpy as np, stax
stax.jit(np.sin)(np.ones(3))
from stax.backends.c import toolchain
def no(*args):
    raise SystemExit("the compiler is called")
toolchain._run_compiler = no
from stax.backends.c.routines import addresses
names = [f"{kind}_f32_{size}" for kind in ("conv", "conv_swapped") for size in (1, 5, 28)]
print(all(addresses(["product_f32", "panels_f32", "tiles_f32", "reach_f32", *names])))
"""
    env = dict(os.environ, STAX_CACHE_DIR=str(tmp_path), PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "True", done.stdout + done.stderr
