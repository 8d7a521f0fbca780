"""Arrays whose class means something else, and numbers that no dtype holds, are refused."""

from __future__ import annotations

import numpy as np
import pytest

import stax

MASKED = np.ma.masked_array([1.0, 2.0], [False, True])
ONES = np.ones(2)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: stax.jit(lambda x: x)(MASKED),
        lambda: stax.jit(lambda x: x * MASKED)(ONES),
        lambda: stax.jit(lambda x: np.concatenate([x, MASKED]))(ONES),
        lambda: stax.grad(lambda x: (x * MASKED).sum())(ONES),
        lambda: stax.vmap(lambda x: x)(MASKED),
        lambda: stax.jvp(np.sin, (MASKED,), (ONES,)),
    ],
)
def test_masked_arrays_do_not_lose_their_mask(attempt):
    with pytest.raises(stax.DtypeError, match=r"mask would be lost(?s:.*)x\.filled"):
        attempt()


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_matrices_do_not_lose_their_product():
    with pytest.raises(stax.DtypeError, match=r"matrix product(?s:.*)np\.asarray"):
        stax.jit(lambda x: x * x)(np.matrix([[1.0, 2.0], [3.0, 4.0]]))


def test_integers_beyond_64_bits():
    double = stax.jit(lambda n: n * 2)
    for number in (2**63, 2**70, -(2**64)):
        for _ in range(2):
            with pytest.raises(stax.DtypeError, match=f"is {number}, which no 64-bit integer"):
                double(number)
        assert double(3) == 6
    assert stax.jit(lambda x: x * 2**70)(1.5) == 1.5 * 2**70
