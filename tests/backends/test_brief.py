"""Kernels in which a program spends next to nothing are compiled briefly, to the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax, nn
from stax.backends.c import brief, program
from stax.backends.c.rows import AS_IS, CALLS
from stax.backends.c.toolchain import find_toolchain
from stax.tree_util import tree_leaves
from tests.programs import random_program

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

MARK = "STAX_BRIEF\nstatic int32_t "
RNG = np.random.default_rng(5)


def classes(w: Any, b: Any, x: Any, y: Any) -> Any:
    return -snp.mean(snp.sum(y * nn.log_softmax(x @ w + b), -1))


def arguments(rows: int, width: int) -> tuple[np.ndarray, ...]:
    w, b = RNG.standard_normal((width, 10)), RNG.standard_normal(10)
    x, y = RNG.standard_normal((rows, width)), RNG.standard_normal((rows, 10))
    return tuple(a.astype(np.float32) for a in (w, b, x, y))


def chosen(everything: bool) -> Any:
    """A choice that ignores what kernels take."""

    def light(weights: Sequence[brief.Weight]) -> dict[str, bool]:
        return {w.function: everything for w in weights if w.function}

    return light


def both(
    monkeypatch: pytest.MonkeyPatch, f: Any, args: Sequence[Any]
) -> tuple[list[bytes], list[bytes]]:
    """The bytes of the results where no kernel is compiled briefly, and where all are."""
    found = []
    for everything in (False, True):
        monkeypatch.setattr(program, "light", chosen(everything))
        compiled = stax.jit(lambda *a: f(*a))
        text = compiled.lower(*args).as_text("source")
        assert (MARK in text) == everything
        found.append([np.asarray(leaf).tobytes() for leaf in tree_leaves(compiled(*args))])
    return found[0], found[1]


def test_the_loss_beside_a_large_product_is_compiled_briefly() -> None:
    gradient = stax.jit(stax.grad(classes))
    assert MARK in gradient.lower(*arguments(256, 4096)).as_text("source")


def test_what_a_program_does_is_compiled_in_full() -> None:
    for rows in (4, 200_000):
        text = stax.jit(lambda x: nn.softmax(x)).lower(np.ones((rows, 10), np.float32))
        assert MARK not in text.as_text("source")


def test_light_kernels_lose_a_small_part_of_the_time_together() -> None:
    weights = [brief.Weight("work", 1000.0, 8000.0)]
    weights += [brief.Weight(f"small{k}", 0.25, 2.0) for k in range(10)]
    found = brief.light(weights)
    assert not found["work"]
    assert sum(found.values()) == 2  # of 2 each, within half a percent of 1002.5
    again = brief.light([*weights[:1], *3 * [brief.Weight("often", 0.25, 2.0)]])
    assert not again["often"]


def test_a_kernel_that_another_block_needs_is_compiled_in_full() -> None:
    printer = program._Printer()
    printer.definitions = [("kernel0", "static int32_t kernel0"), ("kernel1", "static int32_t k")]
    printer.light = [{"kernel0": True, "kernel1": True}, {"kernel0": False}]
    assert [s.startswith("STAX_BRIEF") for s in printer.texts()] == [False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3, 7, 10, 15])
def test_short_sums_are_added_in_order(n: int, dtype: type) -> None:
    """So their bits do not depend on what the compiler makes of the loop."""
    f = stax.jit(lambda x: (snp.sum(x * x, -1), snp.sum(snp.exp(x), -1), snp.prod(x, -1)))
    for rows in (3, 5000):
        x = (RNG.standard_normal((rows, n)) * 10.0 ** RNG.integers(-3, 1, (rows, n))).astype(dtype)
        squares, _, products = f(x)
        total, product = np.zeros(rows, dtype), np.ones(rows, dtype)
        for k in range(n):
            total += x[:, k] * x[:, k]
            product *= x[:, k]
        np.testing.assert_array_equal(squares, total)
        np.testing.assert_array_equal(products, product)
        text = f.lower(x).as_text("source")
        assert "reduction(+" not in text
        assert "reduction(*" not in text


@pytest.mark.parametrize("width", [10, 100])
def test_bits_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    def f(x: Any, y: Any) -> Any:
        high = snp.max(x, -1, keepdims=True)
        p = nn.softmax(x + y[:, None])
        return (
            *(p, snp.argmax(x, -1), snp.var(x, 0), snp.mean(x / high), snp.cumsum(y)),
            *(snp.tanh(x).sum(0), snp.where(x > 0, snp.log1p(abs(x)), x).sum(), x.T + 1),
            *(snp.sort(x, -1).prod(-1), y.at[snp.arange(5)].add(y[:5]), snp.max(x)),
        )

    x, y = (RNG.standard_normal(s).astype(np.float32) for s in ((70, width), 70))
    plain, short = both(monkeypatch, f, (x, y))
    assert plain == short
    gradient = stax.grad(lambda x, y: f(x, y)[0].max(-1).sum() + f(x, y)[6])
    plain, short = both(monkeypatch, gradient, (x.astype(np.float64), y.astype(np.float64)))
    assert plain == short


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_have_the_same_bits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dtype = (np.float32, np.float64)[seed % 2]
    made = random_program(seed, dtype=dtype, smooth=False, scalar=False, large=True)
    plain, short = both(monkeypatch, made.fn, made.args)
    assert plain == short


def test_a_function_of_calls_is_compiled_as_it_is_where_they_take_all_the_time() -> None:
    def steps(x: Any) -> Any:
        for k in range(8):
            x = snp.tanh(x @ x) + k
        return x

    def looped(count: int) -> Any:
        return lambda x: lax.scan(lambda c, _: (steps(c), None), x, None, length=count)[0]

    for size, expected in ((2, False), (128, True)):
        x = np.ones((size, size), np.float32)
        for f in (steps, looped(3)):
            text = stax.jit(f).lower(x).as_text("source")
            assert (CALLS in text) == expected
            assert (AS_IS in text) == expected
    assert not brief.calls_alone(10, 0, 1e4)
    assert brief.calls_alone(10, 0, 1e5)
    assert not brief.calls_alone(10, 1000, 1e5)
