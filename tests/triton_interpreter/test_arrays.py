"""Operators, methods and indices of arrays on a device give NumPy's values, on the device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import stax
from stax import on_device
from stax.backends.triton import run
from stax.backends.triton.array import put
from stax.errors import CompilerNotFoundError, DtypeError, MutationError, ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
WHERE = np.array([0, -1, 2])
CALLS = {
    "x + 1": lambda x: x + 1,
    "1.5 + x": lambda x: 1.5 + x,
    "a NumPy number": lambda x: np.float32(2) * x - np.float64(1),
    "a NumPy array": lambda x: np.ones((3, 4)) * x,
    "a list": lambda x: np.add(x, [1.0, 2.0, 3.0, 4.0]),
    "exponents": lambda x: (x**2, x**0.5, 2.0**x, x ** (x / 9), x**-2),
    "comparisons": lambda x: (x > 3, x == x, x != 2, np.float32(3) <= x),
    "integers": lambda x: (x.astype(np.int32) // 3, x.astype("i4") % 3, -x, abs(-x)),
    "divmod": lambda x: divmod(x, 3),
    "product": lambda x: (x @ x.T, x.dot(np.ones(4, np.float32))),
    "reductions": lambda x: (x.sum(), x.sum(0), x.mean(-1, keepdims=True), x.max(axis=(0, 1))),
    "more reductions": lambda x: (x.std(), x.var(ddof=1), (x > 3).all(1), (x > 3).any(), x.prod()),
    "places": lambda x: (x.argmax(), x.argmin(1), x.argsort(-1), x.cumsum(0)),
    "through NumPy": lambda x: (np.sum(x, axis=0), np.mean(x), np.max(x), np.transpose(x)),
    "ufuncs": lambda x: (np.exp(-x), np.maximum(x, 3), np.add(x, 1, dtype=np.float64)),
    "SciPy's": lambda x: scipy.special.erf(x / 9),
    "shapes": lambda x: (x.T, x.reshape((2, -1), order="F"), x.swapaxes(0, 1), x.ravel()),
    "values": lambda x: (x.clip(2, 3.5), (x / 3).round(1), x.take([0, 1], axis=1), x.trace()),
    "types": lambda x: (x.astype(np.int8), x.astype("f2"), x.real, (x > 2).astype(bool)),
    "complex": lambda x: (x * 1j, (x * 1j).conj(), (x + 1j).imag),
    "columns": lambda x: (x[:, 1], x[:, -1], x[::2], x[..., None, 0], x[::-1]),
    "nothing": lambda x: (x[[]], x[1:, []], x[[[]]]),
    "large integers": lambda x: (x * 10**20, 10**20 // x, x.astype("u8") + 2**63),
    "gathered": lambda x: (x[[0, 2]], x[WHERE], x[:, WHERE], x[WHERE, [1, 2, 3]]),
    "masks": lambda x: (x[X > 3], x[np.array([True, False, True])], x[x > 3]),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_an_array_can_do(name):
    found, wanted = (stax.tree.leaves(CALLS[name](x)) for x in (put(X), X))
    for a, b in zip(found, wanted, strict=True):
        assert isinstance(a, stax.DeviceArray)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(np.asarray(a), b, rtol=2e-6 if b.dtype != "f2" else 1e-3)


def test_a_loop_of_training(machine):
    step = stax.jit(stax.value_and_grad(lambda w, x: ((x @ w) ** 2).mean()), backend="triton")
    w, total, losses = put(np.ones(4, np.float32)), 0.0, []
    kept, expected = w, np.ones(4, np.float32)
    for k in range(3):
        loss, gradient = step(w, put(X / 9))
        w -= 0.1 * (0.5**k) * gradient
        total += loss
        losses.append(loss)
        _, slope = stax.value_and_grad(lambda w, x: ((x @ w) ** 2).mean())(expected, X / 9)
        expected = expected - np.float32(0.1 * 0.5**k) * slope
    np.testing.assert_allclose(w, expected, rtol=1e-5)
    np.testing.assert_array_equal(kept, 1)  # arrays never change: `w -= ...` gave `w` another one
    assert (float(losses[-1]) < float(losses[0])) is True
    assert losses[-1] < losses[0]
    assert f"{total:.4f}" == f"{sum(map(float, losses)):.4f}"


def test_a_changed_copy_is_made_on_the_device():
    x = put(X)
    for found, wanted in (
        (x.at[0].set(0), stax.at(X)[0].set(0)),
        (x.at[1:, 0].add(5.0), stax.at(X)[1:, 0].add(5.0)),
        (stax.at(x)[2, 1:].max(5), stax.at(X)[2, 1:].max(5)),
        (x.at[WHERE, 1].multiply(put(X[:, 0])), stax.at(X)[WHERE, 1].multiply(X[:, 0])),
    ):
        assert isinstance(found, stax.DeviceArray)
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(x, X)


def test_a_number_that_changes_compiles_nothing_anew(machine, monkeypatch):
    made = []
    monkeypatch.setattr(run.TritonProgram, "__init__", _counted(run.TritonProgram.__init__, made))
    x = put(X * 3)
    for k in range(1, 4):
        np.testing.assert_array_equal(x * float(k), X * 3 * k)
        np.testing.assert_array_equal(x[:, k], X[:, k] * 3)
        np.testing.assert_array_equal(x[[k - 1, 0]], X[[k - 1, 0]] * 3)
    assert len(made) <= 3


def _counted(function, made):
    def counting(self, *args, **kwargs):
        made.append(self)
        function(self, *args, **kwargs)

    return counting


def test_bounds_are_checked():
    x = put(X)
    for index in (5, np.s_[:, 4], np.s_[:, -5], [0, 3]):
        with pytest.raises(IndexError, match="out of bounds"):
            x[index]


def test_what_python_asks_of_numbers_and_containers():
    x, one = put(X), put(np.float32(2.6))
    assert isinstance(x, stax.Array)
    assert (3.0 in x, 99 in x, x.itemsize, len(x)) == (True, False, 4, 3)
    assert (round(one), round(one, 1), int(one), complex(one).real) == (3, 2.6, 2, float(one))
    np.testing.assert_array_equal(round(x / 3, 1), np.round(X / 3, 1))
    assert max([one, one * 2]) is not one
    assert np.asarray(x == None).any() is np.False_  # noqa: E711 - NumPy compares each element
    assert np.asarray(sum([one, one])) == np.float32(5.2)


def test_errors_are_those_of_the_operation():
    with pytest.raises(MutationError, match=r"never change\n.*\n.*x\.at\[index\]\.set"):
        put(X)[0] = 1
    with pytest.raises(ShapeError, match=r"add: .*\(3, 4\) and \(3,\)"):
        put(X) + np.ones(3)
    with pytest.raises(AttributeError):
        put(X).sort()


def test_where_nothing_is_compiled_numpy_computes(monkeypatch):
    x = put(X)
    with stax.disable_jit():
        assert isinstance(x + 1, np.ndarray)
        np.testing.assert_array_equal(x.sum(0), X.sum(0))
    # Inside of another program an array is a constant of it.
    np.testing.assert_allclose(stax.jit(lambda a: a * x + x.mean())(X), X * X + X.mean())
    np.testing.assert_allclose(stax.grad(lambda a: (a * x).sum())(X), X)
    np.testing.assert_allclose(stax.vmap(lambda a: x[0] + a)(X), X[0] + X)

    def without(*args):
        raise CompilerNotFoundError("no triton")

    monkeypatch.setattr(on_device, "_program", lambda *given: without)
    for found, wanted in ((x + 1, X + 1), (x.sum(0), X.sum(0)), (x[:, 1], X[:, 1])):
        assert isinstance(found, stax.DeviceArray)
        np.testing.assert_array_equal(found, wanted)


def test_memory_is_given_back(machine):
    x = put(X)
    before = len(machine.live)
    for _ in range(5):
        y = (x + 1).sum(0)[1:].reshape(1, 3)
        del y
    assert len(machine.live) == before


def test_what_an_array_is_stays_what_it_is():
    x = put(X)
    for name, value in (("shape", (4, 3)), ("dtype", np.dtype(np.int64))):
        with pytest.raises(
            MutationError, match=rf"the {name} of an array on cuda:0.*\n.*\n.*write"
        ):
            setattr(x, name, value)
    for name in ("address", "nbytes", "ndim", "T"):
        with pytest.raises(AttributeError):
            setattr(x, name, 0)
    np.testing.assert_array_equal(x, X)
    with pytest.raises(AttributeError, match=r"no attribute 'nonzero'; the copy .* x.to_numpy\(\)"):
        x.nonzero()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        x.nothing()


def test_a_compiled_program_refuses_arguments_of_other_types():
    run = stax.jit(lambda x: x + 1).lower(X, device="cuda:sm_90").compile()
    np.testing.assert_array_equal(run(put(X)), X + 1)
    for other in (X.T.copy(), X[:2], X.astype(np.float64), X.astype(np.int32)):
        for value in (other, put(other)):
            with pytest.raises((ShapeError, DtypeError), match=r"it was compiled for f32\[3,4\]"):
                run(value)


def test_checks_for_nan_run_on_copies():
    log = stax.jit(lambda x: np.log(x - 1) * 2, backend="triton")
    for debug, value in ((stax.debug_nans, 0.5), (stax.debug_infs, 1.0)):
        with debug():
            np.testing.assert_allclose(log(put(X + 1)), np.log(X) * 2, rtol=1e-6)
            np.testing.assert_array_equal(put(X) * 2, X * 2)
            with pytest.raises(FloatingPointError, match="log gave") as info:
                log(put(X * 0 + np.float32(value)))
            assert "test_arrays.py" in str(info.value)
