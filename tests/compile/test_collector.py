"""Python's collector of cycles rests while programs are traced, lowered and printed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
import stax.compile as driver
from stax.errors import StaxError

X = np.ones((8, 8), np.float32)


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """Where a program was when Python collected."""
    found: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(phase)

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_nothing_is_collected_while_a_program_is_made(
    collections: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))  # a program found there is not made
    enabled: list[bool] = []
    for name in ("lower", "emit_program", "graph_key"):
        stage = getattr(driver, name)
        monkeypatch.setattr(
            driver,
            name,
            lambda *given, stage=stage, **named: (
                enabled.append(gc.isenabled()),
                stage(*given, **named),
            )[1],
        )

    def f(x: Any) -> Any:
        enabled.append(gc.isenabled())
        before = len(collections)
        kept = [[[]] for _ in range(5000)]  # more than the collector lets pass
        assert len(collections) == before
        return np.tanh(x) * len(kept)

    stax.jit(f)(X)
    assert enabled == [False] * 4
    assert gc.isenabled()


def test_the_collector_is_as_it_was_after_an_error() -> None:
    def wrong(x: Any) -> Any:
        assert not gc.isenabled()
        return x @ np.ones((3, 3), np.float32)

    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(StaxError):
            stax.jit(wrong)(X) if enabled else stax.jit(lambda x: x @ np.ones((3, 3), np.float32))(
                X
            )
        assert gc.isenabled() == enabled


def test_the_collector_is_as_it_was_after_calls_from_many_threads() -> None:
    def call(k: int) -> None:
        np.testing.assert_allclose(stax.jit(lambda x: np.tanh(x) + k)(X), np.tanh(X) + k, rtol=1e-6)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()
