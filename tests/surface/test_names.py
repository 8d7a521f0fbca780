"""The names that programs reach for are there, with JAX's arguments, and documented row by row."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import stax
from tests.surface import names_table

FOLDER = Path(__file__).parent
NAMES = [line.split(": ", 1) for line in (FOLDER / "names.txt").read_text().splitlines()]
# Parameter names of JAX's functions of the same name, without those of devices and sharding.
PARAMETERS: dict[str, list[str]] = json.loads((FOLDER / "parameters.json").read_text())


def namespace(name: str) -> Any:
    if name == "stax.checkpoint_policies":
        return stax.checkpoint_policies
    return importlib.import_module(name)


@pytest.mark.parametrize(("space", "names"), NAMES)
def test_the_names_are_there(space: str, names: str) -> None:
    module = namespace(space)
    assert not [name for name in names.split() if not hasattr(module, name)]


def test_functions_take_the_arguments_of_jax() -> None:
    lacking = {}
    for full, wanted in PARAMETERS.items():
        space, _, name = full.rpartition(".")
        try:
            parameters = inspect.signature(getattr(namespace(space), name)).parameters
        except ValueError:
            continue
        if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values()):
            continue
        missing = [p for p in wanted if p not in parameters]
        if missing:
            lacking[full] = missing
    assert not lacking


def test_every_function_has_an_example() -> None:
    known = names_table.examples().keys() | names_table.WITHOUT_EXAMPLE
    assert not [name for name, _ in names_table.public_functions() if name not in known]


def test_the_table_of_names_is_up_to_date() -> None:
    written = names_table.DOCUMENT.read_text().splitlines()
    assert names_table.document().splitlines() == written
