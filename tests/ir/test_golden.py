"""Recorded texts: the graphs of some programs, unchanged.  `--update-golden` rewrites them."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

from stax.core.graph import Graph, check_graph
from stax.core.text import parse_graph

HERE = pathlib.Path(__file__).parent
_spec = importlib.util.spec_from_file_location("golden_programs", HERE / "golden_programs.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
PROGRAMS = _module.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_is_as_recorded(name, request):
    found = PROGRAMS[name]()
    text = f"{found}\n"
    path = HERE / "golden" / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text()
    if isinstance(found, Graph):
        check_graph(found)
        assert parse_graph(text) == found


def test_every_record_belongs_to_a_program():
    assert {p.stem for p in (HERE / "golden").glob("*.txt")} == set(PROGRAMS)
