"""The numbers of `stax.random` are those of JAX for the same key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stax import jit, random
from stax.primitives.random import hashed_words
from tests.random.draws import CLOSE, DOUBLE, EXACT, HALVES, SINGLE, digest

NUMBERS: Any = np.load(Path(__file__).with_name("numbers.npz"))


@pytest.mark.parametrize("name", EXACT)
def test_equal_bit_for_bit(name: str) -> None:
    got, want = np.asarray(EXACT[name](random, random.PRNGKey)), NUMBERS[name]
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", SINGLE | DOUBLE)
def test_many_are_equal_bit_for_bit(name: str) -> None:
    want = NUMBERS[f"{name}, many"]
    draw = (SINGLE | DOUBLE)[name]
    np.testing.assert_array_equal(digest(draw)(random, random.PRNGKey), want)
    np.testing.assert_array_equal(digest(lambda r: jit(draw(r)))(random, random.PRNGKey), want)


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_equal_bit_for_bit(name: str) -> None:
    want = NUMBERS[f"{name}, some"]
    draw = HALVES[name]
    np.testing.assert_array_equal(digest(draw, 2)(random, random.PRNGKey), want)
    compiled = digest(lambda r: jit(draw(r)), 2)
    np.testing.assert_array_equal(compiled(random, random.PRNGKey), want)


@pytest.mark.parametrize("name", CLOSE)
def test_equal_to_rounding(name: str) -> None:
    got, want = np.asarray(CLOSE[name](random, random.PRNGKey)), NUMBERS[name]
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    single = got.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, want, rtol=2e-6 if single else 1e-12)


@pytest.mark.parametrize(
    ("word", "answer"),
    [(0x00000000, (0x6B200159, 0x99BA4EFE)), (0xFFFFFFFF, (0x1CB996FC, 0xBB002BE7))],
)
def test_published_vectors(word: int, answer: tuple[int, int]) -> None:
    """The known answers of Random123 for Threefry-2x32 with 20 rounds."""
    got = hashed_words(*[np.uint32(word)] * 4)
    assert tuple(int(w) for w in got) == answer
