"""Proposition 6.4: the interval rule of every integer operation contains every concrete result."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from stax.loops import ranges
from stax.loops.ranges import Interval
from stax.loops.scalar_ops import BOOL, SCALAR_OPS, ScalarOp

RULED = [row for row in SCALAR_OPS.values() if row.interval is not None]


def random_interval(rng: random.Random, lo: int, hi: int) -> Interval:
    a, b = sorted((rng.randint(lo, hi), rng.randint(lo, hi)))
    return Interval(a, b)


def concrete(row: ScalarOp, operands: tuple[int, ...], dtype: np.dtype, **params: int) -> int:
    dtypes = [BOOL if row.name == "where" and k == 0 else dtype for k in range(row.arity)]
    arrays = [np.asarray([v]).astype(d) for v, d in zip(operands, dtypes, strict=True)]
    with np.errstate(all="ignore"):
        return int(np.asarray(row.numpy(*arrays, **params))[0])


@pytest.mark.parametrize("row", RULED, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_every_result_is_inside(row: ScalarOp, dtype: str) -> None:
    rng = random.Random(row.name + dtype)
    kind = np.dtype(dtype)
    limits = ranges.of_dtype(kind)
    low, high = (-7, 9) if kind.kind == "i" else (0, 11)
    result = row.result(
        tuple(BOOL if row.name == "where" and k == 0 else kind for k in range(row.arity))
    )
    for trial in range(25):
        wide = trial % 5 == 0 and dtype != "int64"
        ends = (int(limits.lo), int(limits.hi)) if wide else (low, high)
        intervals = [random_interval(rng, *ends) for _ in range(row.arity)]
        if row.name in ("shift_left", "shift_right", "pow"):
            intervals[1] = random_interval(rng, 0, 7)
        if row.name == "where":
            intervals[0] = random_interval(rng, 0, 1)
        params = {"n": rng.randint(0, 4)} if row.params else {}
        assert row.interval is not None
        found = ranges.wrap(row.interval(*intervals, **params), result)
        choices = []
        for i in intervals:
            values = list(range(int(i.lo), int(i.hi) + 1))
            choices.append(
                values if len(values) <= 8 else [*rng.sample(values, 6), values[0], values[-1]]
            )
        for operands in itertools.product(*choices):
            value = concrete(row, operands, kind, **params)
            assert found.lo <= value <= found.hi, (row.name, intervals, operands, value, found)
            if row.pick is not None:
                chosen = row.pick(*intervals)
                assert chosen is None or operands[chosen] == value


def test_infinite_ends() -> None:
    everything = ranges.EVERYTHING
    assert ranges.mod(everything, ranges.point(128)) == (0, 127)
    assert ranges.mul(everything, ranges.point(0)) == (0, 0)
    assert ranges.floordiv(everything, ranges.point(8)) == everything
    assert ranges.floordiv(Interval(0, ranges.INF), ranges.point(8)) == (0, ranges.INF)
    assert ranges.absolute(everything).lo == 0
    assert ranges.minimum(everything, ranges.point(7)).hi == 7


def test_machine_width() -> None:
    assert ranges.wrap(Interval(0, 300), np.dtype(np.uint8)) == (0, 255)
    assert ranges.wrap(Interval(0, 200), np.dtype(np.uint8)) == (0, 200)
