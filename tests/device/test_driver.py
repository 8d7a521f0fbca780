"""The driver layer against a fake driver: arguments, errors, memory, graphs."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import stax
from benchmarks import gpu
from stax import on_device
from stax.backends.triton import device, dlpack, driver, pinned
from stax.backends.triton.array import put, shared
from stax.dtypes import bfloat16
from stax.errors import CompilerNotFoundError, DeviceError, DtypeError, MutationError
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
    for ask in (
        lambda: stax.devices("cuda"),
        lambda: stax.device_put(X, "cuda"),
        lambda: stax.jit(lambda x: x + 1, backend="triton")(X),
        lambda: stax.jit(lambda x: x + 1, backend="triton").lower(X),
    ):
        with pytest.raises(DeviceError, match=r"libnothing.so.7 cannot be loaded"):
            ask()
    assert "@triton.jit" in stax.jit(np.sin).lower(X, device="cuda:sm_90").as_text("source")
    np.testing.assert_array_equal(stax.jit(lambda x: x + 1)(X), X + 1)  # the CPU is untouched


def test_the_benchmark_says_what_it_would_need(monkeypatch, capsys):
    monkeypatch.setenv("STAX_CUDA_DRIVER", "libnothing.so.7")
    assert gpu.main([]) == 2
    said = capsys.readouterr().err
    assert "libnothing.so.7 cannot be loaded" in said
    assert all(word in said for word in ("NVIDIA GPU", "triton", "benchmarks.gpu_kernels"))


def test_a_program_is_lowered_for_what_it_runs_on(cuda):
    assert stax.jit(np.sin, backend="triton").lower(X).device == "cuda:sm_90"
    assert stax.jit(np.sin).lower(X).device == "cpu"


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


class Described:
    """An array of another library that only describes its memory."""

    def __init__(self, address, typestr="<f4", **more):
        self.__cuda_array_interface__ = {
            "shape": (3, 4),
            "typestr": typestr,
            "data": (address, False),
            "version": 3,
            **more,
        }


def test_arrays_of_other_libraries(cuda):
    own = put(X)
    found = put(Described(own.address))
    assert found.address == own.address
    np.testing.assert_array_equal(found, X)
    with pytest.raises(DeviceError, match="not row-major"):
        put(Described(own.address, strides=(4, 12)))


def test_the_driver_says_where_described_memory_is(cuda):
    cuda.fake_set(2, 12040, 1 << 30)
    there, here = put(X, 1), put(X)
    found = stax.from_dlpack(there), shared(Described(there.address))
    assert [f.device for f in found] == ["cuda:1", "cuda:1"]
    assert shared(Described(there.address + 16)).address == there.address + 16
    moved = put(Described(there.address), 0)
    assert (moved.device, shared(Described(here.address)).device) == ("cuda:0", "cuda:0")
    np.testing.assert_array_equal(moved, X)
    empty = shared(Described(0, shape=(0, 4)))
    assert (empty.shape, empty.device) == ((0, 4), "cuda:0")
    assert cuda.fake_fault() == b""


def test_the_stream_of_described_memory_is_waited_for(cuda):
    own = put(X)
    before = cuda.fake_waited()
    shared(Described(own.address, stream=None))
    assert cuda.fake_waited() == before
    shared(Described(own.address, stream=0x7F0))
    assert cuda.fake_waited() == 0x7F0
    with pytest.raises(DeviceError, match="names stream 0"):
        shared(Described(own.address, stream=0))


def test_described_memory_that_cannot_be_taken(cuda):
    own = put(X)
    with pytest.raises(DeviceError, match=r"knows no memory at 0x10: cuPointerGetAttribute failed"):
        shared(Described(16))
    with pytest.raises(DeviceError, match="has a mask"):
        shared(Described(own.address, mask=Described(own.address)))
    for typestr in (">f4", ">c8", "<f16", "|V4"):
        with pytest.raises(DtypeError, match="has no dtype on a device"):
            shared(Described(own.address, typestr))


class Foreign:
    """An array of another library on the fake device, through one of its own capsules."""

    def __init__(self, array, version=None, strides=None, address=None, index=0):
        self.array, self.version, self.index = array, version, index
        self.tensor = dlpack.Tensor(
            address or array.address, index, array.shape, array.dtype, strides
        )
        self.streams = []

    def __dlpack_device__(self):
        return 2, self.index

    def __dlpack__(self, *, stream=None, **version):
        if version and self.version is None:
            raise TypeError("an old producer knows no versions")
        self.streams.append(stream)
        made = dlpack.capsule(self.tensor, self.array, self.version)
        if self.tensor.strides is not None:
            name = b"dltensor_versioned" if self.version else b"dltensor"
            form = dlpack._FORMS[name].from_address(dlpack._capsule_pointer(id(made), name))
            for k, stride in enumerate(self.tensor.strides):
                form.tensor.strides[k] = stride
        return made


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.int8, np.bool_, np.uint64, np.complex64, np.complex128, bfloat16],
    ids=str,
)
def test_dlpack_is_taken_and_given_back(cuda, version, dtype):
    own = put(X.astype(dtype))
    foreign = Foreign(own, version)
    taken = stax.from_dlpack(foreign)
    assert (taken.address, taken.shape, taken.dtype) == (own.address, (3, 4), dtype)
    assert foreign.streams == [16]  # ready on the stream of the device
    np.testing.assert_array_equal(taken, X.astype(dtype))
    copy = stax.numpy.from_dlpack(foreign, copy=True)
    assert copy.address != own.address
    del own, foreign
    assert fake.used(cuda) == 2 * X.astype(dtype).nbytes  # the capsule's taker keeps it
    del taken, copy
    assert fake.used(cuda) == 0


def test_dlpack_between_numpy_and_a_device(cuda):
    y = put(X)
    np.testing.assert_array_equal(np.from_dlpack(y, device="cpu"), X)
    np.testing.assert_array_equal(stax.from_dlpack(y, device="cpu"), X)
    assert stax.from_dlpack(y) is y
    assert stax.from_dlpack(X).base is not None  # on the CPU NumPy shares
    with pytest.raises(BufferError, match="by a copy only"):
        np.from_dlpack(y, device="cpu", copy=False)
    with pytest.raises(DeviceError, match="this array is not on a device"):
        stax.from_dlpack(X, device="cuda")


def test_what_dlpack_cannot_share(cuda):
    own = put(X)
    with pytest.raises(DeviceError, match=r"not row-major \(strides \(1, 3\)\)"):
        stax.from_dlpack(Foreign(own, strides=(1, 3)))
    small = Foreign(put(X[:1]), address=own.address + 4)
    np.testing.assert_array_equal(stax.from_dlpack(small), X.ravel()[None, 1:5])
    with pytest.raises(DeviceError, match="not aligned"):
        stax.from_dlpack(small, copy=False)
    for code, bits in ((5, 32), (2, 8), (3, 64)):
        with pytest.raises(DtypeError, match=f"type code {code} with {bits} bits"):
            dlpack._dtype_of(dlpack._Type(code, bits, 1))


def test_programs_take_arrays_of_other_libraries_as_they_lie(cuda):
    own = put(X)
    before = fake.used(cuda)
    stax.device_put(Foreign(own), "cuda")
    assert fake.used(cuda) == before


def test_pinned_memory_is_used_again(cuda):
    machine = device.machine(0)
    big = np.arange(40_000, dtype=np.float64)
    for _ in range(20):
        y = put(big)
        big[:] += 1  # the copy was taken already
        np.testing.assert_array_equal(y.to_numpy(), big - 1)
    assert cuda.fake_live_pinned() <= 3
    kept = [put(big).to_numpy() for _ in range(3)]
    assert len({a.ctypes.data for a in kept}) == 3
    part = kept[0][5:9]
    expected = part.copy()
    del kept
    for _ in range(5):
        put(big * 0).to_numpy()
    np.testing.assert_array_equal(part, expected)  # a view keeps its memory
    held = machine.pinned.held
    cuda.fake_late(3)
    for _ in range(4):
        put(big)  # copies that are not done yet keep their blocks
    assert machine.pinned.held > held
    assert cuda.fake_fault() == b""


def test_copies_beyond_the_pinned_memory_wait(cuda, monkeypatch):
    monkeypatch.setattr(pinned, "MOST_BYTES", 4096)
    big = np.arange(40_000, dtype=np.float64)
    np.testing.assert_array_equal(put(big).to_numpy(), big)
    assert cuda.fake_live_pinned() == 0


def test_memory_that_cannot_be_pinned_is_done_without(cuda):
    for _ in range(3):
        cuda.fake_plant(b"cuMemHostAlloc", 2, 0)
        np.testing.assert_array_equal(put(X).to_numpy(), X)
    cuda.fake_plant(b"cuMemHostAlloc", 700, 0)
    with pytest.raises(DeviceError, match="cuMemHostAlloc failed"):
        put(np.zeros(100_000))


def test_two_devices(cuda):
    cuda.fake_set(2, 12040, 1 << 30)
    assert [str(d) for d in stax.devices("cuda")] == ["CudaDevice(id=0)", "CudaDevice(id=1)"]
    x, y = stax.device_put(X, stax.devices("cuda")[1]), put(X)
    assert (x.device, y.device) == ("cuda:1", "cuda:0")
    for _ in range(3):  # contexts alternate
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(put(x, 0), X)
        np.testing.assert_array_equal(put(y, 1), X)
    assert cuda.fake_fault() == b""


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


def test_operators_work_on_copies_where_nothing_can_be_compiled(cuda, monkeypatch):
    def without(*args):
        raise CompilerNotFoundError("no triton")

    monkeypatch.setattr(on_device, "_program", lambda *given: without)
    monkeypatch.setattr(on_device, "_operation", lambda *given: without)
    y = put(X)
    for found, wanted in [
        (y + 1, X + 1),
        (2 * y, 2 * X),
        (np.exp(-y), np.exp(-X)),
        (y[1:, 0], X[1:, 0]),
        (X - y, X - X),
        (y.mean(0), X.mean(0)),
        (divmod(y, 5)[1], X % 5),
        (np.concatenate([y, y]), np.concatenate([X, X])),
        (stax.grad(lambda v: (v * v).sum())(y), 2 * X),
    ]:
        assert type(found) is stax.DeviceArray
        np.testing.assert_array_equal(found, wanted)
    assert type(np.add.reduce(y)) is np.ndarray


def test_a_copied_array_is_never_freed_twice(cuda):
    for copied in (copy.copy, copy.deepcopy, lambda y: pickle.loads(pickle.dumps(y))):
        again = copied(put(X))
        other = put(X * 100)  # takes memory that was freed
        np.testing.assert_array_equal(again, X)
        np.testing.assert_array_equal(other, X * 100)
    assert cuda.fake_fault() == b""


@pytest.mark.parametrize("typestr", [">f4", ">i2", ">u8", "<f8", ">c8", "<c16", "?"])
def test_the_order_of_bytes_is_that_of_the_device(cuda, typestr):
    y = put(X.astype(typestr))
    assert y.dtype == np.dtype(typestr).newbyteorder("=")
    np.testing.assert_array_equal(y, X.astype(typestr))


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, "M8[s]", object, "U3"])
def test_a_type_that_no_device_has_is_refused(cuda, dtype):
    with pytest.raises(DtypeError, match=r"cannot be put on cuda:sm_90(.|\n)*one of bool, int8"):
        put(np.zeros(3, dtype))


@pytest.mark.parametrize("place", ["cuda:-1", "cuda:x", "cuda:sm_90", "cuda:1.0", 0, 1.5])
def test_a_place_that_names_no_device(cuda, place):
    with pytest.raises(DeviceError, match="names no device"):
        stax.device_put(X, place)


def test_arrays_on_a_device_in_every_place_of_a_ufunc(cuda):
    x = put(X)
    where = put(X > 3)
    out = np.add(x, 1, out=np.zeros_like(X), where=where)
    np.testing.assert_array_equal(out, np.where(X > 3, X + 1, 0))
    with pytest.raises(MutationError, match=r"add: an array on cuda:0 cannot be written to"):
        np.add(X, 1, out=x)
    np.testing.assert_array_equal(np.add.reduce(x), X.sum(0))


def test_shapes_and_parts_take_no_program(cuda):
    x = put(X)
    assert x.reshape(2, -1).shape == (2, 6)
    assert [x.reshape((4, 3)).address, x.ravel().address, x[:].address] == [x.address] * 3
    assert (x[None].squeeze().shape, x[0][None, ..., None].shape) == ((3, 4), (1, 4, 1))
    basic = (np.s_[1], np.s_[-1], np.s_[1:], np.s_[2, 1:3], np.s_[0, 0], np.s_[..., 1:1, :],
             np.s_[None, 1:2], X > 3, [True, False, True])  # fmt: skip
    for part, found in (*((p, x[p]) for p in basic), (1, x[put(np.int32(1))])):
        wanted = X[part]
        assert isinstance(found, stax.DeviceArray)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(found, wanted)
    assert [row.tolist() for row in x] == X.tolist()
    view = x[1:].reshape(-1)
    kept = x.ravel()
    del x
    np.testing.assert_array_equal(kept, X.ravel())  # who shares memory keeps it
    np.testing.assert_array_equal(view, X[1:].ravel())
    for wrong, message in (((5,), "index 5 is out of bounds"), ((0, 0, 0), "too many indices")):
        with pytest.raises(IndexError, match=message):
            kept.reshape(3, 4)[wrong]
    with pytest.raises(ValueError, match="cannot reshape array of size 12"):
        kept.reshape(5)
    with pytest.raises(TypeError, match="iteration over an array without axes"):
        iter(kept[0])
    del kept, view, found
    assert fake.used(cuda) == 0


def test_a_single_element_counts_and_prints_as_a_number(cuda):
    assert f"{put(np.float32(0.5)):.2f}" == "0.50"
    assert f"{put(X)}" == repr(put(X))
    assert ["a", "b"][put(np.int32(1))] == "b"
    with pytest.raises(TypeError, match="only integer"):
        ["a"][put(np.float32(0))]


def test_a_taker_that_reads_the_memory_of_the_process(cuda):
    x = put(X)
    with pytest.raises(BufferError, match=r"array is on cuda:0.*np\.asarray"):
        np.from_dlpack(x)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), X)
    del x
    assert fake.used(cuda) == 0


def test_memory_is_shared_where_it_is(cuda):
    cuda.fake_set(2, 12040, 1 << 30)
    there = put(X, 1)
    for place in (None, "cuda", "gpu", "cuda:1", stax.devices("cuda")[1]):
        assert stax.from_dlpack(there, device=place).address == there.address
    for place in ("cuda:0", "cuda:7", "tpu", stax.devices("cuda")[0]):
        with pytest.raises(DeviceError, match="this array is on cuda:1, not on"):
            stax.from_dlpack(there, device=place)
    with pytest.raises(DeviceError, match="names no device"):
        stax.from_dlpack(there, device="cuda:x")
