"""`x.at[...]` and `x.block_until_ready()` on NumPy's arrays and scalars, and how to do without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stax
import stax.numpy as snp

ROOT = Path(__file__).resolve().parents[2]


def test_results_have_the_methods_of_traced_values():
    x = snp.arange(4.0)
    assert type(x) is np.ndarray
    y = x.at[1:].multiply(2.0).at[0].set(5.0)
    np.testing.assert_array_equal(y, [5, 2, 4, 6])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])
    assert stax.jit(lambda v: v * 2)(x).block_until_ready()[3] == 6
    assert snp.sum(x).block_until_ready() == 6
    assert x.astype(np.float32).at[0].add(1).dtype == np.float32


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("0", "False")])
def test_numpy_can_be_left_untouched(value: str, expected: str) -> None:
    code = (
        "import numpy as np, stax; stax.jit\n"
        "print(hasattr(np.zeros(1), 'at'), stax.at(np.zeros(2))[0].set(1.0))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "STAX_ARRAY_METHODS": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.split() == [expected, "[1.", "0.]"]
