"""The compiled workloads do no more than recorded: kernels, calls, bytes, memory, compiler runs."""

from __future__ import annotations

import pytest

from benchmarks import counts
from stax.backends.c.toolchain import find_toolchain


@pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")
def test_no_figure_grew(request: pytest.FixtureRequest) -> None:
    found = counts.table()
    if request.config.getoption("--update-golden"):
        counts.RECORDED.write_text(counts.text_of(found))
    assert set(counts.recorded()) == set(found) == set(counts.NAMES)
    assert counts.worse(found, counts.recorded()) == []


def test_what_grew_is_named() -> None:
    before = {"a": {"kernels": 1, "moved_kb": 1000, "arena_kb": 0}}
    same = {"a": {"kernels": 1, "moved_kb": 1010, "arena_kb": 0}}
    more = {"a": {"kernels": 2, "moved_kb": 900, "arena_kb": 64}}
    assert counts.worse(same, before) == []
    assert counts.worse(more, before) == ["a: kernels 1 -> 2", "a: arena_kb 0 -> 64"]
    assert counts.worse({"b": {"kernels": 1}}, before) == ["b: kernels None -> 1"]
