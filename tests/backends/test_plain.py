"""Kernels in which a program spends little are printed plainly, to the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax, nn
from stax.backends.c import brief, program
from stax.backends.c import plain as plainness
from stax.backends.c.toolchain import find_toolchain
from stax.loops import contract
from stax.tree_util import tree_leaves
from tests.programs import random_program

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

MARK = "STAX_PLAIN\nstatic int32_t "
RNG = np.random.default_rng(6)


def draws(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def normalised(x: Any, g: Any, b: Any) -> Any:
    centred = x - snp.mean(x, -1, keepdims=True)
    return centred / snp.sqrt(snp.mean(centred * centred, -1, keepdims=True) + 1e-5) * g + b


def forced(everything: bool) -> Any:
    """A choice that ignores what kernels lose."""

    def plain(costs: Sequence[plainness.Cost], rest: float) -> list[bool]:
        return [everything] * len(costs)

    return plain


def in_full(weights: Sequence[brief.Weight]) -> dict[str, bool]:
    return {w.function: False for w in weights if w.function}


def same_bits(monkeypatch: pytest.MonkeyPatch, f: Any, *args: Any) -> tuple[str, str]:
    """Compare the results of both forms of all kernels, and return the texts."""
    monkeypatch.setattr(program, "light", in_full)
    found, texts = [], []
    for everything in (False, True):
        monkeypatch.setattr(program, "plain", forced(everything))
        compiled = stax.jit(lambda *a: f(*a))
        texts.append(compiled.lower(*args).as_text("source"))
        assert (MARK in texts[-1]) == everything
        found.append([np.asarray(leaf).tobytes() for leaf in tree_leaves(compiled(*args))])
    assert found[0] == found[1]
    return texts[0], texts[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [90, 512])
def test_normalisations_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, dtype: type, n: int
) -> None:
    def f(x: Any, g: Any, b: Any, w: Any) -> Any:
        own = stax.value_and_grad(lambda *p: snp.sum(normalised(*p) * w), (0, 1, 2))
        return own(x, g, b), nn.softmax(x), stax.grad(lambda z: snp.sum(nn.softmax(z) * w))(x)

    x, g, b, w = (draws(*s, dtype=dtype) for s in ((70, n), (n,), (n,), (70, n)))
    full, short = same_bits(monkeypatch, f, x, g, b, w)
    assert "_1 = " in full
    assert "_1 = " not in short


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_and_what_is_no_number_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, dtype: type
) -> None:
    x = draws(12, 2000, dtype=dtype)
    x[:, ::3] = -0.0
    x[1, 7], x[2, 9], x[3, 1900] = np.nan, np.inf, -np.inf
    x[4] = 0.0

    def f(x: Any) -> Any:
        scale = snp.max(snp.abs(x), -1, keepdims=True)
        return (
            *(x / scale, snp.max(x, -1), snp.min(x, 0), snp.argmax(x, -1), snp.var(x, -1)),
            *(snp.tanh(x) * snp.exp(x) + snp.sin(x), x.sum(0), snp.cumsum(x, -1), x.T + 1),
        )

    same_bits(monkeypatch, f, x)


def test_attention_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, least in (("LEAST_BYTES", 1), ("LEAST", 4), ("LEAST_GROWTH", 0), ("THINNEST", 1)):
        monkeypatch.setattr(contract, name, least)  # scores of any size are scores
    q, k, v = (draws(2, 2, 160, 32) for _ in range(3))

    def f(q: Any, k: Any, v: Any) -> Any:
        scores = q @ snp.swapaxes(k, -1, -2) * 0.25
        seen = snp.arange(160)[:, None] >= snp.arange(160)
        masked = snp.where(seen, scores, -snp.inf)
        return snp.sum(snp.tanh(nn.softmax(masked) @ v))

    full, short = same_bits(monkeypatch, stax.grad(f, (0, 1, 2)), q, k, v)
    assert "int32_t attention" in full
    assert "__builtin_prefetch" not in short


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_have_the_same_bits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dtype = (np.float32, np.float64)[seed % 2]
    made = random_program(70 + seed, dtype=dtype, smooth=False, scalar=False, large=True)
    same_bits(monkeypatch, made.fn, *made.args)


def test_a_normalisation_is_plain_beside_large_products_only() -> None:
    def f(x: Any, g: Any, b: Any, w: Any) -> Any:
        return normalised(x, g, b) @ w

    x, g, b = draws(256, 256), draws(256), draws(256)
    assert MARK in stax.jit(f).lower(x, g, b, draws(256, 16384)).as_text("source")
    assert MARK not in stax.jit(f).lower(x, g, b, draws(256, 8)).as_text("source")


def test_plain_kernels_lose_a_small_part_of_the_time_together() -> None:
    def cost(alike: str, statements: int, lost: float) -> plainness.Cost:
        return plainness.Cost(alike, statements, 10.0, lost)

    work = [cost("long", 90, 4.0), cost("short", 3, 1.0), cost("twice", 30, 2.5)]
    rest = 500.0 / plainness.SHARE / 100
    assert plainness.plain(work, rest) == [True, True, False]  # most statements for what is lost
    assert plainness.plain([*work, work[2]], rest) == [True, True, False, False]
    assert plainness.plain(work, 0.0) == [False, False, False]


def test_what_looks_up_addresses_is_printed_in_full() -> None:
    def f(x: Any, places: Any, w: Any) -> Any:
        return (nn.softmax(x)[places] * 2.0) @ w

    places = RNG.integers(0, 64, 64)
    lowered = stax.jit(f).lower(draws(64, 64), places, draws(64, 65536))
    costs = [
        plainness.cost_of(k, {b.name: b.dtype for b in lowered.buffers}) for k in lowered.kernels
    ]
    assert any(c.lost == np.inf for c in costs)


def test_a_loop_and_what_follows_it_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        step = lambda c: snp.tanh(c) * 0.5 + snp.exp(c)
        return step(lax.fori_loop(0, 3, lambda k, c: step(c), x))

    costs: list[int] = []

    def plain(found: Sequence[plainness.Cost], rest: float) -> list[bool]:
        costs.append(len(found))
        return [len(costs) > 1] * len(found)  # in full in the loop, which comes first

    monkeypatch.setattr(program, "plain", plain)
    monkeypatch.setattr(program, "light", in_full)
    text = stax.jit(f).lower(draws(4096)).as_text("source")
    assert len(costs) == 2
    assert MARK not in text
