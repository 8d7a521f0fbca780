"""The driver layer against a fake driver: arguments, errors, memory, graphs."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.backends.triton import device, driver
from stax.backends.triton.array import put
from stax.errors import DeviceError
from tests.device import fake

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_arrays_go_to_the_device_and_back(cuda):
    y = put(X)
    assert (y.shape, y.dtype, y.device, y.nbytes) == ((3, 4), np.float32, "cuda:0", 48)
    np.testing.assert_array_equal(y.to_numpy(), X)
    np.testing.assert_array_equal(np.asarray(y), X)
    assert cuda.fake_used() == 48
    del y
    assert fake.used(cuda) == 0


def test_no_driver(monkeypatch):
    monkeypatch.setenv("STAX_CUDA_DRIVER", "libnothing.so.7")
    with pytest.raises(DeviceError, match=r"libnothing.so.7 cannot be loaded"):
        driver.driver()
    assert device.count() == 0


def test_a_driver_without_a_device(cuda):
    cuda.fake_set(0, 12040, 1 << 30)
    with pytest.raises(DeviceError, match=r"cuInit failed: CUDA_ERROR_NO_DEVICE"):
        device.machine(0)


def test_an_old_driver(cuda):
    cuda.fake_set(1, 11020, 1 << 30)
    with pytest.raises(DeviceError, match=r"version 11.2; 12.0 is the oldest"):
        device.machine(0)


def test_a_device_that_is_not_there(cuda):
    with pytest.raises(DeviceError, match="there is no CUDA device 3: the driver sees 1"):
        device.machine(3)


def test_exhausted_memory_names_the_largest_values(cuda):
    cuda.fake_set(1, 12040, 1000)
    small, large = put(np.zeros(10, np.float32)), put(np.zeros((5, 10), np.float64))
    with pytest.raises(DeviceError, match=r"no 800 bytes for array float64\[100\].*560 of") as info:
        put(np.zeros(100))
    text = str(info.value)
    assert text.index("float64[5, 10] (400 bytes)") < text.index("float32[10] (40 bytes)")
    assert small.nbytes + large.nbytes == 440


def test_a_failed_copy_is_named(cuda):
    y = put(X)
    cuda.fake_plant(b"cuMemcpyDtoHAsync_v2", 700, 0)
    with pytest.raises(DeviceError, match="cuMemcpyDtoHAsync_v2 failed"):
        y.to_numpy()
    np.testing.assert_array_equal(y.to_numpy(), X)


def test_the_cpu_is_untouched_by_a_missing_driver(monkeypatch):
    monkeypatch.setenv("STAX_CUDA_DRIVER", "libnothing.so.7")
    np.testing.assert_array_equal(stax.jit(lambda x: x + 1)(X), X + 1)
    with pytest.raises(DeviceError, match="use backend='c'"):
        stax.jit(lambda x: x + 2, backend="triton")(X)


def test_dlpack_shares_the_memory(cuda):
    y = put(X)
    assert y.__dlpack_device__() == (2, 0)
    capsule = y.__dlpack__()
    address = y.address
    del y
    assert fake.used(cuda) == 48  # the capsule keeps it
    assert address
    del capsule
    assert fake.used(cuda) == 0


def test_arrays_of_other_libraries(cuda):
    own = put(X)

    class Foreign:
        def __init__(self, address, strides=None):
            self.__cuda_array_interface__ = {
                "shape": (3, 4),
                "typestr": "<f4",
                "data": (address, False),
                "version": 3,
                "strides": strides,
            }

    shared = put(Foreign(own.address))
    assert shared.address == own.address
    np.testing.assert_array_equal(shared, X)
    with pytest.raises(DeviceError, match="not row-major"):
        put(Foreign(own.address, (4, 12)))


def test_device_put_and_get(cuda):
    tree = {"a": X, "b": (X[0], 2.5)}
    on_device = stax.device_put(tree, "cuda")
    assert isinstance(on_device["a"], stax.DeviceArray)
    back = stax.device_get(stax.block_until_ready(on_device))
    np.testing.assert_array_equal(back["a"], X)
    assert back["b"][1] == 2.5
    assert [str(d) for d in stax.devices("cuda")] == ["CudaDevice(id=0)"]
    assert type(stax.device_put(on_device["a"], "cpu")) is np.ndarray
    with pytest.raises(DeviceError, match="no device 4 of 1"):
        stax.device_put(X, "cuda:4")


def test_operators_work_on_copies(cuda):
    y = put(X)
    for found, wanted in [
        (y + 1, X + 1),
        (2 * y, 2 * X),
        (np.exp(-y), np.exp(-X)),
        (y[1:, 0], X[1:, 0]),
        (np.add.reduce(y), X.sum(0)),
        (X - y, X - X),
    ]:
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, wanted)
