"""`x.at[...]` and `x.block_until_ready()` on NumPy's arrays and scalars, and how to do without."""

from __future__ import annotations

import os
import subprocess
import sys
import types
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
    assert x.devices() == {stax.devices()[0]}
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


# What describes memory, which a traced value has none of, or changes an array's shape in place.
OF_MEMORY = """addressable_shards base byteswap ctypes data devices dump dumps flags getfield
    is_fully_addressable is_fully_replicated resize setfield setflags sharding strides tobytes
    tofile""".split()


def test_a_traced_value_has_the_methods_of_an_array():
    names = {n for n in dir(np.ndarray) if not n.startswith("_")}
    seen = []
    stax.jit(lambda x: seen.append({n for n in names if not hasattr(x, n)}) or x)(np.ones((2, 2)))
    assert seen[0] == set(OF_MEMORY)


def test_trace_and_partition_of_a_traced_value():
    a = np.random.default_rng(0).normal(size=(4, 4))
    np.testing.assert_allclose(stax.jit(lambda x: x.trace(1))(a), a.trace(1))
    np.testing.assert_array_equal(stax.grad(lambda x: x.trace())(a), np.eye(4))

    def smallest(x):
        y = x.copy()
        y.partition(0)
        return y[:, 0].sum() + x.argpartition(0)[:, 0].sum()

    np.testing.assert_allclose(stax.jit(smallest)(a), smallest(a))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_spacing_has_numpys_signs(dtype: str) -> None:
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, -6.1e-5, 2.5, -2.5], "f8")
    with np.errstate(all="ignore"):
        values = np.concatenate([values.astype(dtype), -np.finfo(dtype).smallest_subnormal[None]])
        expected = np.spacing(values)
    np.testing.assert_array_equal(stax.jit(np.spacing)(values), expected)


def test_no_sharding_beside_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX takes what has a sharding for an array of its own: NumPy's arrays must not."""
    assert np.ones(3).sharding is not None  # type: ignore[attr-defined]  # added when stax loads
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    assert not hasattr(np.ones(3), "sharding")
