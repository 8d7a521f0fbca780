"""Products through a fake cuBLAS that multiplies on the fake device's memory."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

import stax
from stax.backends.triton import cublas
from stax.errors import DeviceError
from tests.device import fake

RNG = np.random.default_rng(4)


@pytest.fixture
def library(cuda, tmp_path, monkeypatch):
    target = tmp_path / "libfakecublas.so"
    source = fake.HERE / "fake_cublas.c"
    command = [fake.compiler(), "-shared", "-fPIC", "-O1", "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    monkeypatch.setenv("STAX_CUBLAS", str(target))
    yield ctypes.CDLL(str(target))
    cublas._found.clear()


PRODUCTS = {
    "plain": lambda x, y: x @ y,
    "left transposed": lambda x, y: x.T @ y,
    "right transposed": lambda x, y: x @ y.T,
    "both transposed": lambda x, y: x.T @ y.T,
    "batched": lambda x, y: x.reshape(4, 256, 64) @ y.reshape(4, 256, 64).transpose(0, 2, 1),
    "sliced": lambda x, y: x[:, 16:240] @ y[16:240],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(library, name, dtype):
    x, y = (RNG.standard_normal((256, 256)).astype(dtype) for _ in range(2))
    f = PRODUCTS[name]
    found = stax.jit(f, backend="triton")(x, y)
    assert library.fake_cublas_calls() == 1
    np.testing.assert_allclose(found.to_numpy(), f(x, y), rtol=1e-4, atol=1e-3)


def test_a_failed_product_is_named(library):
    x = RNG.standard_normal((256, 256))
    f = stax.jit(lambda x: x @ x, backend="triton")
    library.fake_cublas_fail(13)
    with pytest.raises(DeviceError, match="cublasGemmStridedBatchedEx failed with status 13"):
        f(x)


@pytest.mark.parametrize("times", [1, 2])
def test_memory_that_runs_out_for_the_library(library, times):
    x = RNG.standard_normal((256, 256))
    library.fake_cublas_refuse(times)
    f = stax.jit(lambda x: x @ x, backend="triton")
    if times == 2:
        with pytest.raises(DeviceError, match=r"has no memory for cuBLAS: .*float64\[256, 256\]"):
            f(x)
        return
    np.testing.assert_allclose(f(x).to_numpy(), x @ x)


def test_a_library_that_is_not_there(cuda, monkeypatch):
    monkeypatch.setenv("STAX_CUBLAS", "libnothing.so")
    with pytest.raises(DeviceError, match=r"STAX_CUBLAS=.*cannot be loaded"):
        stax.jit(lambda x: x @ x, backend="triton")(np.ones((256, 256)))
    monkeypatch.setenv("STAX_CUBLAS", "off")
    assert list(cublas.libraries()) == []
