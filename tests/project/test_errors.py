"""The error family: built-in bases, whole messages, pickling, and one page for each."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import stax
from stax import errors

PAGES = Path(__file__).resolve().parents[2] / "docs" / "errors"
FAMILY = sorted(
    {
        member
        for name in errors.__all__
        if inspect.isclass(member := getattr(errors, name))
        and issubclass(member, errors.StaxError)
        and member is not errors.StaxError
    },
    key=lambda cls: cls.__name__,
)


class Operand:
    name = "weights"
    shape = (3, 4)
    dtype = np.dtype(np.float32)


@pytest.mark.parametrize("name", errors.__all__)
def test_each_is_a_public_name(name: str) -> None:
    assert getattr(stax, name) is getattr(errors, name)


@pytest.mark.parametrize("cls", FAMILY)
def test_each_is_also_a_builtin(cls: type[errors.StaxError]) -> None:
    builtin = [
        base
        for base in cls.__mro__
        if base.__module__ == "builtins" and base not in (Exception, BaseException, object)
    ]
    assert builtin


@pytest.mark.parametrize("cls", FAMILY)
def test_the_message_holds_everything_and_survives_pickling(cls: type[errors.StaxError]) -> None:
    error = cls(
        "does not fit", op="matmul", operands=[Operand(), "b: i64[2]"], where="a.py:3", hint="do b"
    )
    text = str(error)
    assert text.startswith("matmul: does not fit")
    for part in ("weights: float32[3,4]", "b: i64[2]", "a.py:3", "do b"):
        assert part in text
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == text
    assert copy.op == "matmul"
    assert copy.__dict__ == error.__dict__


@pytest.mark.parametrize(
    ("cls", "bases"),
    [
        (errors.ShapeError, (ValueError, TypeError)),
        (errors.AxisError, (np.exceptions.AxisError, ValueError, IndexError)),
        (errors.ConcretizationError, (TypeError,)),
        (errors.NonConcreteBooleanIndexError, (errors.ConcretizationError, IndexError)),
        (errors.OutOfBoundsError, (IndexError,)),
        (errors.CacheError, (OSError,)),
        (errors.MemoryBudgetError, (ValueError,)),
    ],
)
def test_caught_as(cls: type[errors.StaxError], bases: tuple[type[Exception], ...]) -> None:
    assert all(issubclass(cls, base) for base in bases)


def test_attributes_of_their_own() -> None:
    axis = pickle.loads(pickle.dumps(errors.AxisError(axis=3, ndim=2)))
    assert (axis.axis, axis.ndim) == (3, 2)
    assert str(axis).startswith("axis 3 is out of bounds for array of dimension 2")
    assert errors.MemoryBudgetError("no", least=7).least == 7
    failed = errors.CompilationError("no", source="int x", log="line 1")
    assert (failed.source, failed.log) == ("int x", "line 1")


def test_aliases() -> None:
    assert errors.TracerBoolConversionError is errors.ConcretizationError
    assert errors.UnexpectedTracerError is errors.TracerLeakError


@pytest.mark.parametrize("cls", FAMILY)
def test_each_has_its_page(cls: type[errors.StaxError]) -> None:
    page = (PAGES / f"{cls.__name__}.md").read_text()
    summary = inspect.getdoc(cls)
    assert summary
    assert page.startswith(f"# {cls.__name__}\n\n{summary}")
    assert "Raised by:" in page
    assert "Instead:" in page
    assert f"[{cls.__name__}]({cls.__name__}.md): {summary}" in (PAGES / "README.md").read_text()


def test_no_page_without_an_error() -> None:
    names = {cls.__name__ for cls in FAMILY} | {"README"}
    assert {path.stem for path in PAGES.glob("*.md")} == names


# What these pages show depends on the machine, or on the environment of the process.
ELSEWHERE = {"CompilationError", "CompilerNotFoundError", "DeviceError"}


@pytest.mark.parametrize("cls", FAMILY)
def test_the_first_example_raises_it_and_the_second_runs(cls: type[errors.StaxError]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / f"{cls.__name__}.md").read_text(), re.S)
    assert len(blocks) == (0 if cls.__name__ in ("CacheError", "ConfigurationError") else 2)
    if not blocks or cls.__name__ in ELSEWHERE:
        return
    namespace = {"np": np, "stax": stax, "__name__": "__main__"}
    with pytest.raises(cls) as caught:
        exec(blocks[0], namespace)
    assert type(caught.value) is cls
    exec(blocks[1], namespace)
