"""Keys, and fields that are no leaves, are constants of a program: 1 is not 1.0, nor 0.0 -0.0."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import stax
import stax.tree_util as tree_util
from stax.backends.c.dispatch import PythonDispatcher, find_toolchain, make_dispatcher

ALIKE = (1, 1.0, True, np.float32(1), 1, 0, 0.0, -0.0, False, 0.0, (1, 2), (1.0, 2), (True, 2))
Pair = namedtuple("Pair", "left right")


@tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled:
    array: Any
    factor: Any = dataclasses.field(metadata={"static": True})


class Custom:
    def __init__(self, array: Any, factor: Any) -> None:
        self.array, self.factor = array, factor


tree_util.register_pytree_node(
    Custom, lambda c: ((c.array,), c.factor), lambda aux, children: Custom(children[0], aux)
)


def times(array: Any, factor: Any) -> Any:
    return array * (factor[0] if isinstance(factor, tuple) else factor)


FORMS = {
    "dataclass": (Scaled, lambda s: times(s.array, s.factor)),
    "custom": (Custom, lambda c: times(c.array, c.factor)),
    "key": (lambda a, k: {k: a}, lambda d: next(times(a, k) for k, a in d.items())),
    "nested": (
        lambda a, k: Pair([{"x": {k: a}}], None),
        lambda p: next(times(a, k) for k, a in p.left[0]["x"].items()),
    ),
    "keys": (
        lambda a, k: {k: a, 7: a},
        lambda d: next(times(a, k) for k, a in d.items() if k != 7),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kept", [None, "python"])
def test_what_is_equal_and_not_alike_has_programs_of_its_own(
    form: str, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept == "python":
        monkeypatch.setattr(
            "stax.compile.make_dispatcher", lambda slow, alone: PythonDispatcher(slow)
        )
    make, f = FORMS[form]
    array = np.arange(3)
    compiled = stax.jit(f)
    for factor in (*ALIKE, *ALIKE):
        if form == "keys" and isinstance(factor, tuple):
            continue  # keys of other types are in no order
        found, expected = compiled(make(array, factor)), f(make(array, factor))
        assert found.dtype == expected.dtype, factor
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), str(factor))


@pytest.mark.skipif(find_toolchain() is None, reason="needs a compiler")
def test_numbers_as_keys_are_matched_in_c() -> None:
    compiled = stax.jit(lambda d: d[0] + d[1])
    x = np.arange(3.0)
    compiled({0: x, 1: x})
    misses = compiled.misses
    for _ in range(3):
        np.testing.assert_array_equal(compiled({1: x, 0: x}), x + x)
    assert compiled.misses == misses
    assert type(compiled) is type(make_dispatcher())
