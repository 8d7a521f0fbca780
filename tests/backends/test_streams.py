"""Loops that fetch memory ahead: which arrays they walk through, the same bits, whole pieces."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c.lanes import Loop
from stax.backends.c.streams import BLOCK, fetching_loop, streams_of

SIZES = {"p0": 4, "p1": 8, "p2": 4, "p3": 4}
LARGE = 1 << 20


@pytest.mark.parametrize(
    ("line", "addresses"),
    [
        ("p0[x0] = v1;", ["p0 + ({at})"]),
        ("float v1 = p0[x0 - 100];", ["p0 + ({at} - 100)"]),
        ("float v1 = p0[2048*x1 + x0];", ["p0 + (2048*x1 + {at})"]),
        ("float v1 = stax_f16_to_f32(p2[x0 + 1]);", ["p2 + ({at} + 1)"]),
        ("float v1 = p0[2*x0];", []),
        ("float v1 = p0[100 - x0];", []),
        ("float v1 = p0[x0 + 64*(x0 / 8)];", []),
        ("float v1 = p0[v5];", []),
        ("float v1 = block_v5[x0];", []),
    ],
)
def test_what_is_walked_through_one_element_after_the_other(line, addresses):
    assert [s.address for s in streams_of([line], "x0", SIZES, LARGE)] == addresses


def test_each_array_once_its_lines_and_what_is_written():
    lines = ["double v1 = p1[x0];", "double v2 = p1[x0 + 1];", "p0[x0] = v2;"]
    read, written = streams_of(lines, "x0", SIZES, LARGE)
    assert (read.per_line, read.written, written.per_line, written.written) == (8, False, 16, True)


def test_an_address_that_the_loop_computes_is_no_stream():
    lines = ["int64_t v1 = p1[x0];", "float v2 = p0[v1 + x0];"]
    assert [s.address for s in streams_of(lines, "x0", SIZES, LARGE)] == ["p1 + ({at})"]


def test_what_fits_into_the_cache_is_not_fetched():
    assert streams_of(["p0[x0] = 1.0f;"], "x0", SIZES, 1 << 18) == []
    assert fetching_loop(Loop("x0", "0", "512", 512), ["p0[x0] = 1.0f;"], []) is None


def test_blocks_and_the_rest_cover_the_loop():
    lines = ["p0[x0] = 1.0f;"]
    streams = streams_of(lines, "x0", SIZES, LARGE)
    loop = fetching_loop(Loop("x0", "100", str(LARGE), LARGE - 100), lines, streams)
    assert loop is not None
    bounds = [int(n) for s in loop for n in re.findall(r"x0\w* [=<] (\d+);", s)]
    assert [bounds[0], *bounds[2:]] == [100, bounds[1], LARGE]
    assert (bounds[1] - 100) % BLOCK == 0
    assert LARGE - bounds[1] < BLOCK


@pytest.mark.parametrize("n", [1 << 19, (1 << 19) + 37])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_with_and_without(n, dtype):
    x, y = np.random.default_rng(0).standard_normal((2, n)).astype(dtype)
    f = stax.jit(lambda x, y: (x * 2 + y, x - y * y))
    assert "__builtin_prefetch" in f.lower(x, y).as_text("source")
    for found, expected in zip(f(x, y), (x * 2 + y, x - y * y), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_a_concatenation_is_one_loop_for_each_piece():
    a, b, c = (np.arange(n, dtype=np.float32) for n in (1000, 1500, 700))
    f = stax.jit(lambda a, b, c: snp.concatenate([a * 2, b + 1, c]) + 1)
    source = f.lower(a, b, c).as_text("source")
    loops = re.findall(r"for \(int64_t x0\w* = (\d+); x0\w* < (\d+)", source)
    assert loops == [("0", "1000"), ("1000", "2500"), ("2500", "3200")]
    assert np.array_equal(f(a, b, c), np.concatenate([a * 2, b + 1, c]) + 1)


@pytest.mark.parametrize("flip", [False, True])
def test_pieces_of_a_reversed_row_are_whole_too(flip):
    a, b = np.arange(600, dtype=np.float32), np.arange(50, dtype=np.float32)
    step = -1 if flip else 1
    f = stax.jit(lambda a, b: (snp.pad(a, (3, 5))[::step] * 2, snp.concatenate([a, b])[::step]))
    padded, joined = f(a, b)
    assert np.array_equal(padded, np.pad(a, (3, 5))[::step] * 2)
    assert np.array_equal(joined, np.concatenate([a, b])[::step])


@pytest.mark.parametrize(("shape", "threads"), [((1 << 17, 8), "1"), ((1 << 20,), "ctx->threads")])
def test_zeros_are_filled_by_the_threads_that_update_them(shape, threads):
    """What another has filled lies in the cache of its core: rows of 8 are updated by one."""
    i, v = np.arange(shape[0]) % 777, np.ones(shape, np.float32)
    f = stax.jit(lambda i, v: snp.zeros(shape, v.dtype).at[i].add(v))
    calls = re.findall(
        r"^ *(?:bad = )?(kernel\d)\(.*, (.*)\);$", f.lower(i, v).as_text("source"), re.M
    )
    assert calls == [("kernel0", threads), ("kernel1", "ctx->threads")]
    few = f.lower(i[:9], v[:9]).as_text("source")
    assert re.findall(r"^ *kernel0\(.*, (.*)\);$", few, re.M) == ["ctx->threads"]
