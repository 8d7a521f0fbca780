"""The examples in docstrings: each gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import stax

MODULES = [
    m.name
    for m in pkgutil.walk_packages(stax.__path__, "stax.")
    if not m.name.startswith("stax.backends.triton") and not m.name.endswith("__main__")
]
FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples_of(module: Any) -> Iterator[doctest.DocTest]:
    """The examples of a module, also of the functions that it has made elsewhere."""
    yield from FINDER.find(module)
    for name in getattr(module, "__all__", ()):
        value = vars(module).get(name)
        made = isinstance(value, FunctionType) and value.__module__ != module.__name__
        # What a module takes from another by name is an example there.
        if made and not hasattr(sys.modules[value.__module__], value.__name__):
            yield from FINDER.find(value, f"{module.__name__}.{name}", globs=vars(module))


EXAMPLES = [
    (test, {**vars(module), "np": np, "stax": stax})
    for module in map(importlib.import_module, MODULES)
    for test in examples_of(module)
    if test.examples
]


@pytest.mark.parametrize(("test", "names"), EXAMPLES, ids=lambda v: getattr(v, "name", ""))
def test_an_example_gives_what_it_says(
    test: doctest.DocTest,
    names: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # some write a file
    test.globs = dict(names)
    said: list[str] = []
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    with np.printoptions(legacy="1.25"):  # numbers as 1.0, not np.float64(1.0)
        runner.run(test, out=said.append, clear_globs=True)
    assert not runner.failures, "".join(said)
