"""Small kernels that do not need one another go in one launch; those that do, do not."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.backends.triton import together
from tests.codegen.test_compile import DEVICES, check

X = np.ones((37, 64), np.float32)
LONG = np.ones(100_000, np.float32)
WIDE = np.ones(1_000_000, np.float32)
TALL = np.ones((2000, 40), np.float32)


def sums(x, y, z):
    return x.sum(), np.exp(y).max(0), z.sum(1)


def kernels(f, *args):
    """For each launch, the number of kernels that it runs."""
    found = stax.jit(f).lower(*args, device="cuda:sm_90").source.kernels
    return [max(len(k.parts), 1) for k in found]


def test_what_does_not_touch_goes_together():
    assert kernels(sums, X, X[:20].copy(), X[:, :9].copy()) == [3]


def test_second_levels_wait_for_one_another():
    """Sums in two levels: what adds up the pieces is one launch."""
    assert kernels(lambda x, y: ((x * x).sum(), y.max()), LONG, LONG[1:]) == [2, 2]
    assert kernels(lambda x, y: ((x * x).sum(), y.max()), WIDE, WIDE[1:]) == [1, 1, 2]


def test_what_is_read_by_a_later_kernel_is_there_before_it():
    def f(x, y):
        first = np.exp(x).sum()
        return (y - first).sum(1).max(), x.max(0), np.sin(x[:9])

    found = stax.jit(f).lower(X, WIDE.reshape(1000, -1), device="cuda:sm_90").source
    made: set[str] = set()
    for launch in found.kernels:
        assert set(launch.parameters) - launch.written - made <= set(found.block.inputs)
        made |= launch.written
    assert 3 in [len(k.parts) for k in found.kernels]


def test_columns_in_pieces_share_launches():
    """Columns that programs share: two functions, and memory between them."""

    def f(x, y, z):
        return (x * x).sum(0), y.max(0), np.sin(z), z[:5].sum(1)

    found = stax.jit(f).lower(TALL, TALL, X, device="cuda:sm_90").source
    assert [len(k.parts) for k in found.kernels] == [4, 2]
    for launch in found.kernels:
        assert len(launch.scratch) == 2
        assert len(launch.types) == len(launch.parameters) + 2
    first, second = (a.work for a in found.block.actions)
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 2


def test_what_works_in_its_own_order_is_alone():
    def f(x, i):
        return stax.at(x)[i].multiply(2.0), x.sum(1), x.max(0)

    found = stax.jit(f).lower(X, np.zeros(9, np.int64), device="cuda:sm_90").source
    for launch in found.kernels:
        assert not any("debug_barrier" in p.body or p.checks for p in launch.parts)
    assert 2 in [len(k.parts) for k in found.kernels]


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_PROGRAMS", "MOST_KERNELS"])
def test_groups_are_small(limit, monkeypatch):
    args = (X, X[:20].copy(), X[:, :9].copy())
    monkeypatch.setattr(together, limit, {"MOST_KERNELS": 2, "MOST_PROGRAMS": 0}.get(limit, 600))
    assert kernels(sums, *args) == ([2, 1] if limit == "MOST_KERNELS" else [1, 1, 1])


@pytest.mark.parametrize("device", DEVICES)
def test_they_compile(device):
    check(sums, (X, X[:20].copy(), X[:, :9].copy()), device)
    check(lambda x, y: ((x * x).sum(0), y.max(0)), (TALL, TALL), device)
