"""`table[i]` where the table is a plain NumPy array of the module and the index is traced."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.backends.c.dispatch import compiled_dispatcher_fault
from stax.errors import ConcretizationError, OutOfBoundsError

TABLE = np.arange(12.0).reshape(3, 4)
pytestmark = pytest.mark.skipif(bool(compiled_dispatcher_fault()), reason="no C compiler")


def test_a_table_is_indexed_under_every_transformation() -> None:
    at = np.array([2, 0])
    np.testing.assert_array_equal(stax.jit(lambda i: TABLE[i])(1), TABLE[1])
    np.testing.assert_array_equal(stax.jit(lambda i: TABLE[:, i])(at), TABLE[:, at])
    np.testing.assert_array_equal(stax.jit(lambda i: TABLE[i, 1:])(at), TABLE[at, 1:])
    np.testing.assert_array_equal(stax.jit(lambda i: TABLE[i, i + 1])(at), TABLE[at, at + 1])
    np.testing.assert_array_equal(stax.vmap(lambda i: TABLE[i, 0])(at), TABLE[at, 0])
    total = lax.fori_loop(0, 3, lambda i, s: s + TABLE[i, 0] * i, 0.0)
    assert total == 20.0
    assert lax.scan(lambda s, i: (s + TABLE[i], None), snp.zeros(4), at)[0].sum() == 44.0
    slope = stax.jit(stax.grad(lambda x, i: (x * TABLE[i]).sum()))
    assert slope(2.0, 1) == TABLE[1].sum()


def test_known_indices_are_looked_up_by_numpy() -> None:
    kinds: list[Any] = []

    def f(x: Any, i: Any) -> Any:
        kinds.append(type(TABLE[i]))
        return (x * TABLE[i]).sum()

    assert stax.grad(f)(2.0, 1) == TABLE[1].sum()
    assert kinds == [np.ndarray]


def test_known_arrays_of_indices_and_masks_are_looked_up_by_numpy() -> None:
    # They come from the input, have no derivative, and their numbers are known under grad.
    def f(x: Any) -> Any:
        order = np.argsort(x)
        rows = TABLE[(x > 1).astype(int)]
        masked = TABLE[1][x > 1].sum()
        return (x * TABLE[0][order] * TABLE[order[:2] % 3, 1:3].sum() * rows[:, 0]).sum() + masked

    x = np.array([2.0, 0.5, 1.5, 0.25])
    order, rows = np.argsort(x), TABLE[(x > 1).astype(int)]
    want = TABLE[0][order] * TABLE[order[:2] % 3, 1:3].sum() * rows[:, 0]
    np.testing.assert_array_equal(stax.grad(f)(x), want)
    np.testing.assert_array_equal(stax.jvp(f, (x,), (np.eye(4)[0],))[1], want[0])
    with pytest.raises(ConcretizationError):
        stax.grad(lambda x: TABLE[x].sum())(x)


def test_what_numpy_or_stax_refuses_is_refused() -> None:
    with pytest.raises(OutOfBoundsError):
        stax.jit(lambda i: TABLE[i])(7)
    with pytest.raises(ConcretizationError, match="boolean mask"):
        stax.jit(lambda m: TABLE[m])(TABLE > 3)
    with pytest.raises(ConcretizationError):
        stax.jit(lambda i: [1, 2][i])(0)


def test_other_threads_index_their_arrays_meanwhile() -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        mine = np.arange(100)
        while not stop.is_set():
            if [int(mine[k]) for k in range(100)] != list(range(100)) or mine[3:5].sum() != 7:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(40):
        stax.jit(lambda i, k=k: TABLE[i] * k)(1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_while_tracing_gives_numpy_its_slot_back() -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            stax.jit(lambda i: TABLE[i] / (1 // 0))(1)

    class Index:
        def __index__(self) -> int:
            return 2

    assert TABLE[Index(), 0] == 8.0
    assert stax.jit(lambda i: TABLE[i, 0])(2) == 8.0
