"""JAX's switches and device names, disable_jit, debug_nans, and what isinstance says."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import ConfigurationError, DeviceError, StaxError


def test_disable_jit_runs_the_function_itself():
    kinds = []

    @stax.jit
    def f(x):
        kinds.append(type(x))
        return x + 1

    x = np.ones(2)
    f(x), f(x)
    with stax.disable_jit():
        f(x)
        with stax.disable_jit(False):
            f(x)
        f(x)
    f(x)
    assert kinds[1:] == [np.ndarray, np.ndarray]


def test_debug_nans_names_the_operation():
    f = stax.jit(lambda x: snp.sin(snp.log(x)))
    assert np.isnan(f(-1.0))
    with stax.debug_nans():
        assert f(1.0) == 0
        with pytest.raises(FloatingPointError, match="log"):
            f(-1.0)
        with pytest.raises(FloatingPointError, match="sqrt"):
            stax.grad(lambda x: snp.sqrt(x))(-1.0)
    assert np.isnan(f(-1.0))


def test_the_switches_of_jax_are_accepted():
    stax.config.update("jax_enable_x64", True)
    assert stax.config.jax_enable_x64
    assert stax.config.read("jax_enable_x64")
    calls = []
    f = stax.jit(lambda x: (calls.append(1), x)[1])
    stax.config.update("jax_disable_jit", True)
    try:
        f(1.0), f(1.0)
    finally:
        stax.config.update("jax_disable_jit", False)
    assert len(calls) == 2
    with pytest.raises(ConfigurationError, match="configuration"):
        stax.config.update("num_threads", 3)


def test_arrays_live_on_the_cpu(monkeypatch):
    monkeypatch.setenv("STAX_CUDA_DRIVER", "libnothing.so.7")
    (device,) = stax.devices()
    assert (device.platform, device.id) == ("cpu", 0)
    assert stax.device_count() == stax.local_device_count() == 1
    assert stax.default_backend() == "cpu"
    tree = {"a": [1.0, 2.0], "b": np.ones(2)}
    put = stax.device_put(tree, device)
    assert put["b"] is not tree["b"]
    assert stax.block_until_ready(put)["b"] is put["b"]
    with pytest.raises(DeviceError, match="tpu"):
        stax.devices("tpu")
    with pytest.raises(DeviceError, match="driver libnothing"):
        stax.device_put(1.0, "gpu")


def test_array_holds_for_arrays_and_traced_values():
    seen = []
    stax.jit(lambda x: seen.append(isinstance(x, stax.Array)))(1.0)
    assert seen == [True]
    assert isinstance(np.ones(2), stax.Array)
    assert isinstance(snp.sum(np.ones(2)), stax.typing.Array)
    assert isinstance(np.ones(2), snp.ndarray)
    assert not isinstance([1.0], stax.Array)
    assert not isinstance(1.0, stax.Array)


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
def test_segments(wrap):
    data = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    ids = np.array([2, 0, 2, -1])
    expected = {
        "sum": [[3, 4], [0, 0], [6, 8]],
        "prod": [[3, 4], [1, 1], [5, 12]],
        "max": [[3, 4], [-np.inf] * 2, [5, 6]],
        "min": [[3, 4], [np.inf] * 2, [1, 2]],
    }
    for name, rows in expected.items():
        f = getattr(stax.ops, f"segment_{name}")
        np.testing.assert_array_equal(wrap(lambda d, i, f=f: f(d, i, 3))(data, ids), rows)
    grad = wrap(stax.grad(lambda d: (stax.ops.segment_sum(d, ids, 3) ** 2).sum()))(data)
    np.testing.assert_array_equal(grad, [[12, 16], [6, 8], [12, 16], [0, 0]])


def test_dtypes_answer_by_the_names_of_jax():
    assert stax.dtypes.canonicalize_dtype("float64") == np.float64
    assert stax.dtypes.issubdtype(snp.bfloat16, np.floating)
    assert stax.dtypes.issubdtype(np.int8, np.integer)
    assert not stax.dtypes.issubdtype(np.float32, np.integer)
    assert float(stax.dtypes.finfo(snp.bfloat16).eps) == 2.0**-7
    assert str(stax.typeof(np.zeros((2, 3), np.float32))) == "f32[2,3]"
    assert (stax.process_index(), stax.process_count()) == (0, 1)


@pytest.mark.parametrize(
    ("switch", "kept", "refused"),
    [
        ("numpy_dtype_promotion", "standard", "strict"),
        ("numpy_rank_promotion", "allow", "raise"),
        ("default_prng_impl", "threefry2x32", "rbg"),
        ("debug_key_reuse", False, True),
    ],
)
def test_values_that_promise_what_does_not_happen_are_refused(switch, kept, refused):
    block = getattr(stax, switch)
    with block(kept):
        assert stax.config.read(f"jax_{switch}") == kept
    with pytest.raises(ConfigurationError, match=switch), block(refused):
        pass
    with pytest.raises(ConfigurationError, match=switch):
        stax.config.update(f"jax_{switch}", refused)
    assert stax.config.read(f"jax_{switch}") != refused


def test_arguments_without_effect_are_checked():
    a, v = np.arange(5.0), np.array([1.5, 3.0])
    for method in ("scan", "scan_unrolled", "sort", "compare_all"):
        for f in (snp.searchsorted, stax.jit(snp.searchsorted, static_argnames="method")):
            np.testing.assert_array_equal(f(a, v, method=method), [2, 3])
    for f in (snp.searchsorted, stax.jit(snp.searchsorted, static_argnames="method")):
        with pytest.raises(ValueError, match="compare_all"):
            f(a, v, method="guess")
    step = lambda c, x: (c + x, c)
    for unroll in (1, 3, True, False, np.int64(2)):
        assert stax.lax.scan(step, 0.0, a, unroll=unroll)[0] == 10
        assert stax.lax.fori_loop(0, 3, lambda i, c: c + i, 0, unroll=unroll) == 3
    for unroll in (0, -1, 1.5, "2"):
        with pytest.raises(StaxError, match="unroll"):
            stax.lax.scan(step, 0.0, a, unroll=unroll)
        with pytest.raises(StaxError, match="unroll"):
            stax.lax.fori_loop(0, 3, lambda i, c: c + i, 0, unroll=unroll)
