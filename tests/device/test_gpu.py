"""The same numbers on a real device: run with `-m gpu`."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.backends.triton import device
from tests import op_samples, op_samples_arrays, op_samples_numpy
from tests.programs import random_program

pytestmark = pytest.mark.gpu
SAMPLES = [*op_samples.SAMPLES, *op_samples_arrays.SAMPLES, *op_samples_numpy.SAMPLES]


def agree(found, wanted, tolerance):
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.name == "bfloat16":
            a, b = a.astype(np.float32), b.astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_sample(sample):
    rng = np.random.default_rng(0)
    for text in sample.dtypes:
        dtype = np.dtype(text)
        args = sample.make(rng, dtype)
        wanted = sample.fn(*args)
        tolerance = 2e-4 if dtype.itemsize <= 4 else 1e-9
        agree(stax.jit(sample.fn, backend="triton")(*args), wanted, tolerance)


@pytest.mark.parametrize("seed", range(60))
def test_random_program_and_its_gradient(seed):
    program = random_program(seed, smooth=True)
    every = tuple(range(len(program.args)))
    both = stax.value_and_grad(program.fn, argnums=every)
    found = stax.jit(both, backend="triton")(*program.args)
    agree(found, both(*program.args), 1e-8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(512, 512, 512), (100, 70, 300), (2048, 64, 1024)])
def test_products(dtype, shape):
    m, n, k = shape
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    found = stax.jit(lambda x, y: np.tanh(x @ y), backend="triton")(x, y)
    wanted = np.tanh(x.astype(np.float64) @ y.astype(np.float64))
    tolerance = {2: 2e-2, 4: 1e-4, 8: 1e-10}[np.dtype(dtype).itemsize]
    np.testing.assert_allclose(found.to_numpy().astype(np.float64), wanted, atol=tolerance)


def test_a_replayed_graph_gives_the_same_bits():
    f = stax.jit(lambda x: stax.nn.softmax(x, -1).sum(0), backend="triton")
    x = stax.device_put(np.random.default_rng(2).standard_normal((3000, 500)), "cuda")
    first = f(x).to_numpy()
    for _ in range(10):
        np.testing.assert_array_equal(f(x).to_numpy(), first)


def test_memory_is_given_back():
    f = stax.jit(lambda x: np.exp(x) + x.sum(), backend="triton")
    x = stax.device_put(np.ones((1000, 1000), np.float32), "cuda")
    f(x)
    machine = device.machine(0)
    before = len(machine.live)
    for _ in range(1000):
        f(x)
    assert len(machine.live) == before
