"""Every case as a test; the same runs on another module with `python -m tests.cases --module jax`."""

from __future__ import annotations

import warnings

import pytest

from tests.cases import every, frame


@pytest.fixture(scope="module", autouse=True)
def module_under_test() -> None:
    frame.L.load(frame.MODNAME)


@pytest.mark.cases
@pytest.mark.parametrize("name", list(every.CASES))
def test_case(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, why = frame.run_one(every.CASES[name])
    case = every.CASES[name]
    assert status == "PASS", f"{status}: {why}\n{case['doc']}\nafter {case['src']}: {case['kind']}"
