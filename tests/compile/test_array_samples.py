"""Every array operation compiled: the samples of a table are the results of one program.

One program for a whole table and dtype keeps the C compiler's share small; a wrong result is still
named.
"""

from __future__ import annotations

import numpy as np
import pytest

import stax
from tests import op_samples_arrays as tables

TABLES = {
    "shapes": tables.SHAPES,
    "reductions": tables.REDUCTIONS,
    "indexing": tables.INDEXING,
    "products": tables.PRODUCTS,
    "flat": tables.FLAT,
}
CASES = sorted({(n, d) for n, table in TABLES.items() for s in table for d in s.dtypes})


def close(name, found, wanted, tolerance):
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind in "fc" else np.zeros(0)
        scale = finite.max(initial=1)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize(("table", "dtype"), CASES)
def test_compiled_results_are_those_of_numpy(table, dtype):
    samples = [s for s in TABLES[table] if dtype in s.dtypes]
    args = [s.make(np.random.default_rng(k), np.dtype(dtype)) for k, s in enumerate(samples)]

    def everything(args):
        return [s.fn(*a) for s, a in zip(samples, args, strict=True)]

    found, wanted = stax.jit(everything)(args), everything(args)
    tolerance = {"f4": 1e-5, "f8": 1e-12}.get(dtype, 1e-12)
    for sample, a, b in zip(samples, found, wanted, strict=True):
        close(sample.name, a, b, tolerance * max(1.0, sample.tol))


@pytest.mark.parametrize("table", [n for n in TABLES if n != "flat"])
def test_compiled_gradients_are_those_of_numpy(table):
    samples = [s for s in TABLES[table] if s.diff and "f8" in s.dtypes]
    args = [s.make(np.random.default_rng(k), np.dtype("f8")) for k, s in enumerate(samples)]

    def gradient(sample, given):
        def loss(*inner):
            outs = stax.tree.leaves(sample.fn(*inner))
            return sum(np.sum(np.sin(o)) for o in outs if o.dtype.kind == "f")

        return stax.grad(loss, argnums=sample.diff)(*given)

    def everything(args):
        return [gradient(s, a) for s, a in zip(samples, args, strict=True)]

    found, wanted = stax.jit(everything)(args), everything(args)
    for sample, a, b in zip(samples, found, wanted, strict=True):
        close(sample.name, a, b, 1e-10 * max(1.0, sample.tol))
