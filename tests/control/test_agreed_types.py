"""Branches made by one line are compared anew where what they refer to is of other types."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import stax.lax as lax

X = np.arange(3)
TYPES = ("float32", "float64", "float16", "float32")


class Model:
    def __init__(self, dtype: str) -> None:
        self.weight = np.ones((), dtype)

    def own(self, x: Any) -> Any:
        return self.weight

    def plain(self, x: Any) -> Any:
        return 1.0


def by_closure(dtype: str) -> Any:
    weight = np.ones((), dtype)
    return lambda x: weight


def by_tuple(dtype: str) -> Any:
    weights = (np.ones((), dtype), "a name")
    return lambda x: weights[0]


def by_default(dtype: str) -> Any:
    one = np.ones((), dtype)
    return lambda x, weight=one: weight


def by_global(dtype: str) -> Any:
    names: dict[str, Any] = {"weight": np.ones((), dtype)}
    exec("def branch(x): return weight", names)
    return names["branch"]


def by_object(dtype: str) -> Any:
    model = Model(dtype)
    return lambda x: model.weight


def by_method(dtype: str) -> Any:
    return Model(dtype).own


def by_partial(dtype: str) -> Any:
    return functools.partial(lambda weight, x: weight, np.ones((), dtype))


MADE = [by_closure, by_tuple, by_default, by_global, by_object, by_method, by_partial]


@pytest.mark.parametrize("made", MADE)
def test_a_weak_result_takes_the_type_of_the_branch_there_is_now(made: Any) -> None:
    for dtype in TYPES:
        found = lax.cond(False, made(dtype), lambda x: 1.0, X)
        assert found.dtype == dtype
        found = lax.switch(1, [made(dtype), lambda x: 1.0], X)
        assert found.dtype == dtype


def test_what_branches_refer_to_is_not_kept() -> None:
    def called() -> weakref.ref[Model]:
        model = Model("float32")
        lax.cond(False, model.own, lambda x: 1.0, X)
        lax.cond(False, lambda x: model.weight, model.plain, X)
        return weakref.ref(model)

    alive = called()
    gc.collect()
    assert alive() is None
