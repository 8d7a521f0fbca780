"""Equal expressions are one object, and whole, however many threads make them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stax.loops.symbolic import affine, binary, constant, mul, symbol


@pytest.fixture(autouse=True)
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_get_one_object_of_each_expression() -> None:
    count, threads = 300, 4
    start = threading.Barrier(threads)
    found: list[list[Any]] = []
    errors: list[BaseException] = []

    def make() -> None:
        mine: list[Any] = []
        start.wait()
        try:
            for n in range(count):
                a, b = symbol(f"u{n}", 0, 9 + n), symbol(f"v{n}", 0, 9)
                total = affine(sorted([(a, 3), (b, 2)], key=lambda t: t[0].order), 10_000 + n)
                mine += [a, constant(20_000 + n), total, mul(a, b), binary("mod", total, b)]
                mine.append(sorted([a, b], key=lambda s: s.order))
        except BaseException as error:
            errors.append(error)
        found.append(mine)

    workers = [threading.Thread(target=make) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    for same in zip(*found, strict=True):
        assert all(e is same[0] or e == same[0] for e in same)
        assert isinstance(same[0], list) or len({id(e) for e in same}) == 1
