"""Methods of plain NumPy arrays, and subscripts of files in memory, given traced arguments.

Each method of `numpy.ndarray` is in one of the tables: it works, it is refused with the way out, or
none of its arguments is a value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
from stax.backends.c.dispatch import compiled_dispatcher_fault
from stax.errors import StaxError

pytestmark = pytest.mark.skipif(bool(compiled_dispatcher_fault()), reason="no C compiler")

X = np.array([3.0, 0.0, 4.0, 1.0, 5.0, 2.0])
A = np.arange(12.0).reshape(3, 4)
Call = Callable[[Any, Any, Any], Any]
# Of a number, an index, and an array of six.
WORKS: dict[str, list[Call]] = {
    "all": [lambda s, i, v: X.all(where=v > 0)],
    "any": [lambda s, i, v: X.any(where=v > 0)],
    "argpartition": [lambda s, i, v: X.argpartition(i)[i]],
    "choose": [lambda s, i, v: np.array([0, 1]).choose([v[:2], v[2:4]])],
    "clip": [
        lambda s, i, v: X.clip(s, 3),
        lambda s, i, v: X.clip(max=s),
        lambda s, i, v: X.clip(v),
    ],
    "dot": [lambda s, i, v: X.dot(v), lambda s, i, v: A.dot(v[:4]), lambda s, i, v: A.dot(s)],
    "max": [lambda s, i, v: X.max(initial=s), lambda s, i, v: X.max(where=v > 0, initial=s)],
    "mean": [lambda s, i, v: X.mean(where=v > 0)],
    "min": [lambda s, i, v: X.min(initial=s), lambda s, i, v: X.min(where=v > 0, initial=s)],
    "prod": [lambda s, i, v: X.prod(initial=s), lambda s, i, v: X.prod(where=v > 0)],
    "searchsorted": [
        lambda s, i, v: np.sort(X).searchsorted(s),
        lambda s, i, v: X.searchsorted(v, "right", np.argsort(X)),
    ],
    "std": [lambda s, i, v: X.std(where=v > 0)],
    "sum": [lambda s, i, v: X.sum(initial=s), lambda s, i, v: X.sum(where=v > 0)],
    "take": [lambda s, i, v: X.take(i), lambda s, i, v: A.take(np.stack([i, i + 1]), axis=1)],
    "var": [lambda s, i, v: X.var(where=v > 0), lambda s, i, v: X.var(mean=v.mean())],
}
NUMBER = "which is not known while tracing.*static"
WRITES = "np.zeros"
SHAPES = "depends on the values"
REFUSED: dict[str, tuple[Call, str]] = {
    "argmax": (lambda s, i, v: A.argmax(i), NUMBER),
    "argmin": (lambda s, i, v: A.argmin(i), NUMBER),
    "argsort": (lambda s, i, v: A.argsort(i), NUMBER),
    "compress": (lambda s, i, v: X.compress(v > 0), SHAPES),
    "cumprod": (lambda s, i, v: A.cumprod(i), NUMBER),
    "cumsum": (lambda s, i, v: A.cumsum(i), NUMBER),
    "diagonal": (lambda s, i, v: A.diagonal(i), NUMBER),
    "fill": (lambda s, i, v: X.copy().fill(s), WRITES),
    "item": (lambda s, i, v: X.item(i), NUMBER),
    "partition": (lambda s, i, v: X.copy().partition(i), WRITES),
    "put": (lambda s, i, v: X.copy().put([0], s), WRITES),
    "repeat": (lambda s, i, v: X.repeat(i), SHAPES),
    "reshape": (lambda s, i, v: A.reshape(i, 12), NUMBER),
    "resize": (lambda s, i, v: X.copy().resize(i), NUMBER),
    "round": (lambda s, i, v: X.round(i), NUMBER),
    "setfield": (lambda s, i, v: X.copy().setfield(s, float), WRITES),
    "sort": (lambda s, i, v: A.copy().sort(i), NUMBER),
    "squeeze": (lambda s, i, v: A[None].squeeze(i), NUMBER),
    "swapaxes": (lambda s, i, v: A.swapaxes(i, 0), NUMBER),
    "trace": (lambda s, i, v: A.trace(i), NUMBER),
    "transpose": (lambda s, i, v: A.transpose(i, 0), NUMBER),
}
# Their arguments are dtypes, files and flags.
WITHOUT_VALUES = set(
    "astype byteswap conj conjugate copy dump dumps flatten getfield nonzero ravel setflags "
    "tobytes tofile tolist to_device view block_until_ready devices addressable_data".split()
)
ARGUMENTS = (1.5, np.int64(1), np.array([2.0, -1.0, 3.0, 0.5, -2.0, 1.0]))


def test_every_method_is_in_a_table() -> None:
    methods = {n for n in dir(np.ndarray) if n[0] != "_" and callable(getattr(np.ndarray, n))}
    listed = {*WORKS, *REFUSED, *WITHOUT_VALUES}
    assert methods - listed == set()


def called(call: Call, s: Any, v: Any) -> Any:
    return call(s, ARGUMENTS[1], v)


@pytest.mark.parametrize("name", WORKS)
def test_methods_take_traced_arguments(name: str) -> None:
    for call in WORKS[name]:
        want = call(*ARGUMENTS)
        compiled, batched = stax.jit(call), stax.vmap(call)
        found = [compiled(*ARGUMENTS), batched(*(np.stack([a, a]) for a in ARGUMENTS))[1]]
        if np.asarray(want).dtype.kind == "f":
            found.append(stax.jvp(partial(called, call), ARGUMENTS[::2], ARGUMENTS[::2])[0])
        for have in found:
            assert have.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(have, want)


@pytest.mark.parametrize("name", REFUSED)
def test_methods_that_cannot_say_the_way_out(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(StaxError, match=f"(?s){message}") as caught:
        stax.jit(call)(*ARGUMENTS)
    assert "test_plain_methods.py" in str(caught.value)


def test_methods_differentiate() -> None:
    m = np.arange(36.0).reshape(6, 6)
    slope = stax.grad(lambda v: m.dot(v).clip(-3, v.sum()).sum())
    v = ARGUMENTS[2]
    want = stax.grad(lambda v: np.clip(m @ v, -3, v.sum()).sum())(v)
    np.testing.assert_array_equal(slope(v), want)
    np.testing.assert_allclose(stax.jit(slope)(v), want)


def test_methods_are_numpys_own_when_nothing_traces() -> None:
    seen: list[Any] = []

    def f(v: Any) -> Any:
        seen.append((X.dot(X), X.sum(), X.clip(1, 2), X.repeat(2), X.take([0])))
        return X.dot(v)

    stax.jit(f)(X)
    for found, want in zip(
        seen[0], (X.dot(X), X.sum(), X.clip(1, 2), X.repeat(2), X.take([0])), strict=True
    ):
        assert type(found) is type(want)
        np.testing.assert_array_equal(found, want)
    with pytest.raises(ValueError, match="not aligned"):
        X.dot(A)
    with pytest.raises(TypeError):
        stax.jit(lambda v: X.clip(1, 2, 3, 4, 5, 6) + v)(X)
    with pytest.raises(ValueError, match="not aligned"):
        stax.jit(lambda v: X.dot(A) + v)(X)


def test_files_in_memory_are_indexed_with_traced_values(tmp_path: Path) -> None:
    table = np.memmap(tmp_path / "table", dtype="f8", mode="w+", shape=(5, 3))
    table[:] = np.arange(15.0).reshape(5, 3)
    at = np.array([4, 0])
    np.testing.assert_array_equal(stax.jit(lambda i: table[i])(2), table[2])
    np.testing.assert_array_equal(stax.jit(lambda i: table[i, 1])(at), table[at, 1])
    np.testing.assert_array_equal(stax.vmap(lambda i: table[i].sum())(at), table[at].sum(1))
    total = stax.lax.fori_loop(0, 5, lambda k, c: c + table[k].sum(), 0.0)
    assert total == table.sum()
    seen: list[Any] = []
    assert type(stax.jit(lambda i: (seen.append(table[1:]), table[i])[1])(0)) is np.ndarray
    assert [type(seen[0]), type(table[1:])] == [np.memmap, np.memmap]
    np.testing.assert_array_equal(stax.jit(lambda v: table.dot(v))(np.ones(3)), table.sum(1))
