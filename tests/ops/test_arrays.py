"""Array operations: staged values are eager ones, batching over every axis, derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from stax.core.aval import aval_of
from stax.core.graph import check_graph
from stax.core.staging import eval_graph, stage
from stax.transforms.vmap import vmap
from tests import op_samples_arrays, op_samples_numpy
from tests.ops.test_elementwise import active, arguments, check_derivatives

SAMPLES = [*op_samples_arrays.SAMPLES, *op_samples_numpy.SAMPLES]
SMOOTH = [*op_samples_arrays.SMOOTH, *op_samples_numpy.SMOOTH]
CASES = [pytest.param(s, d, id=f"{s.name}-{d}") for s in SAMPLES for d in s.dtypes]
SMOOTH_CASES = [
    pytest.param(s, d, id=f"{s.name}-{d}") for s in SMOOTH for d in s.dtypes if d != "f2"
]


def tolerance(dtype: np.dtype) -> float:
    return {1: 0, 2: 2e-3, 4: 2e-6}.get(dtype.itemsize, 1e-12)


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_staged_value_is_the_eager_value(sample, dtype):
    args = arguments(sample, dtype)
    want = np.asarray(sample.fn(*args))
    graph = stage(lambda *v: [sample.fn(*v)], [aval_of(a) for a in args])
    check_graph(graph)
    (got,) = eval_graph(graph, args)
    assert graph.outputs[0].aval.dtype == want.dtype
    assert graph.outputs[0].aval.shape == want.shape
    assert np.asarray(got).dtype == want.dtype
    if want.dtype.kind in "fc":
        tol = tolerance(want.dtype)
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_batched_over_every_axis_of_every_argument(sample, dtype):
    args = arguments(sample, dtype)
    tol = max(2e-6, tolerance(np.dtype(dtype)))
    for k, arg in enumerate(args):
        for axis in range(np.ndim(arg) + 1):
            batched = np.stack([arg, arg[::-1] if np.ndim(arg) else arg, arg], axis=axis)
            axes = [None] * len(args)
            axes[k] = axis
            given = [*args[:k], batched, *args[k + 1 :]]
            got = vmap(sample.fn, in_axes=tuple(axes))(*given)
            want = np.stack(
                [
                    np.asarray(sample.fn(*args[:k], np.take(batched, i, axis), *args[k + 1 :]))
                    for i in range(3)
                ]
            )
            np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    both = [np.stack([a, a]) for a in args]
    got = vmap(sample.fn)(*both)
    np.testing.assert_allclose(got, np.stack([sample.fn(*args)] * 2), rtol=tol, atol=tol)


@pytest.mark.parametrize(("sample", "dtype"), SMOOTH_CASES)
def test_derivatives_to_order_two(sample, dtype):
    fun, args = active(sample, arguments(sample, dtype))
    tol = (1e-6 if np.dtype(dtype).itemsize > 4 else 5e-3) * sample.tol
    check_derivatives(fun, args, sample.order, tol, np.random.default_rng(3))
