"""Rows merged into columns several at a time: the bits of one row after the other."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c.abreast import FEW_ROWS, ROWS, how_many, rows_abreast

BLOCKS = 64


def in_order(values, merge, start):
    """Rows merged in order inside blocks that the shape decides, and the blocks as a tree."""
    n = len(values)
    per_block = -(-n // min(BLOCKS, n))
    parts = []
    for first in range(0, n, per_block):
        part = np.full(values.shape[1], start, values.dtype)
        for row in values[first : first + per_block]:
            part = merge(part, row)
        parts.append(part)
    half = 1
    while half < len(parts):
        for b in range(0, len(parts) - half, 2 * half):
            parts[b] = merge(parts[b], parts[b + half])
        half *= 2
    return parts[0]


@pytest.mark.parametrize("rows", [256, 1000, 1001, 1002, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_have_the_bits_of_rows_in_order(rows, dtype):
    x = np.random.default_rng(rows).standard_normal((rows, 300)).astype(dtype)
    found = stax.jit(lambda x: x.sum(0))(x)
    assert found.tobytes() == in_order(x, np.add, 0).tobytes()


@pytest.mark.parametrize("columns", [1024, 1300])
def test_many_columns_are_merged_by_pieces(columns):
    x = np.random.default_rng(columns).standard_normal((256, columns)).astype(np.float32)
    f = stax.jit(lambda x: (x.sum(0), x.max(0)))
    assert "part += " in f.lower(x).as_text("source")
    total, largest = f(x)
    assert total.tobytes() == in_order(x, np.add, 0).tobytes()
    assert largest.tobytes() == x.max(0).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("rows", [64, 100, 260, 1000])
def test_neighbouring_blocks_are_merged_before_others_begin(rows, dtype):
    x = (np.random.default_rng(rows).standard_normal((rows, 130)) * 1e4).astype(dtype)
    f = stax.jit(lambda x: (x.sum(0), (x * x).sum(0)))
    assert "share < " in f.lower(x).as_text("source")
    found = f(x)
    assert found[0].tobytes() == in_order(x, np.add, 0).tobytes()
    assert found[1].tobytes() == in_order(x * x, np.add, 0).tobytes()


def test_shares_are_for_kernels_that_only_merge_rows_and_for_columns_that_fit_the_stack():
    wide = np.ones((64, 20_000), np.float32)
    assert "share" not in stax.jit(lambda x: x.sum(0)).lower(wide).as_text("source")
    x = np.random.default_rng(3).standard_normal((4096, 64)).astype(np.float32)
    f = stax.jit(lambda x: (snp.exp(x).sum(0), snp.exp(x).sum(1)))
    assert "share" not in f.lower(x).as_text("source")
    np.testing.assert_allclose(f(x)[0], np.exp(x).sum(0), rtol=1e-5)


def test_rows_that_come_from_the_third_cache_stand_in_pairs():
    assert [how_many(n << 20) for n in (1, 8, 64, 128)] == [ROWS, FEW_ROWS, FEW_ROWS, ROWS]
    x = np.random.default_rng(4).standard_normal((4096, 512)).astype(np.float32)
    f = stax.jit(lambda x: x.sum(0))
    assert f"row += {FEW_ROWS}" in f.lower(x).as_text("source")
    assert f(x).tobytes() == in_order(x, np.add, 0).tobytes()


def test_several_columns_of_weighted_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 96)).astype(np.float32)
    w = rng.standard_normal(512).astype(np.float32)
    f = stax.jit(lambda x, w: ((x * w[:, None]).sum(0), x.max(0)))
    assert f"row += {ROWS}" in f.lower(x, w).as_text("source")
    total, largest = f(x, w)
    assert total.tobytes() == in_order(x * w[:, None], np.add, 0).tobytes()
    assert largest.tobytes() == x.max(0).tobytes()


def test_a_maximum_of_columns_keeps_nan():
    x = np.random.default_rng(1).standard_normal((64, 40))
    x[17, 3] = np.nan
    assert np.array_equal(stax.jit(lambda x: x.max(0))(x), x.max(0), equal_nan=True)


def test_positions_of_extremes_down_columns():
    x = np.random.default_rng(2).integers(0, 9, (256, 50)).astype(np.float32)
    f = stax.jit(lambda x: (snp.argmax(x, 0), snp.argmin(x, 0)))
    for found, expected in zip(f(x), (x.argmax(0), x.argmin(0)), strict=True):
        assert np.array_equal(found, expected)


def test_statements_of_many_lines_stay_one_row_a_loop():
    lines = [f"float v{k} = p0[x1 + {k}];" for k in range(9)]
    lines.append("c[x1] = (c[x1] + v8);")
    assert rows_abreast(ROWS, "x0", [], lines, [("float", "c[x1]")]) is None


def test_a_column_is_read_and_written_once():
    lines = ["float v1 = p0[8*x0 + x1];", "c[x1] = (c[x1] + v1);"]
    found = rows_abreast(ROWS, "x0", ["float v0 = p1[x0];"], lines, [("float", "c[x1]")])
    assert found is not None
    before, inside = found
    assert before[1:3] == ["int64_t x0_1 = x0 + 1;", "float v0_1 = p1[x0_1];"]
    assert sum("c[x1]" in s for s in inside) == 2
    assert inside[0] == "float column0 = c[x1];"
    assert inside[-1] == "c[x1] = column0;"
