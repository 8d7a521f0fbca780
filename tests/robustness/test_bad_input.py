"""Input that cannot be served is refused by name, with the user's line.

Input: calls with one thing wrong.  Each has to raise an error of the family that says what, and at
which line of this file; none may return a value.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import stax
from stax import errors, grad, jit, vmap

X = np.arange(6.0).reshape(2, 3)
BUFFER = np.zeros(3)


def stored_into_plain_array(x):
    BUFFER[0] = x
    return BUFFER


CALLS = {
    "text result": (lambda: jit(lambda x: "text")(X), errors.DtypeError),
    "object result": (lambda: jit(lambda x: object())(X), errors.DtypeError),
    "text operand": (lambda: jit(lambda x: stax.lax.add(x, "y"))(X), errors.StaxError),
    "transpose axes": (lambda: jit(lambda x: x.transpose(0))(X), errors.ShapeError),
    "axis of float": (lambda: jit(lambda x: x.sum(1.0))(X), errors.DtypeError),
    "slice step 0": (lambda: jit(lambda x: x[::0])(X), errors.ShapeError),
    "order": (lambda: jit(lambda x: x.reshape(6, order="Q"))(X), errors.ShapeError),
    "no traced version": (
        lambda: jit(lambda x: np.busday_count(x, x))(X),
        errors.ConcretizationError,
    ),
    "stored": (lambda: jit(stored_into_plain_array)(1.0), errors.MutationError),
    "stored under grad": (
        lambda: grad(lambda x: stored_into_plain_array(x).sum())(1.0),
        errors.MutationError,
    ),
    "traced static": (
        lambda: jit(lambda x: jit(lambda y: y, static_argnums=0)(x))(X),
        errors.StaticArgumentError,
    ),
    "unhashable static": (
        lambda: jit(lambda x, n: x, static_argnums=1)(X, [1]),
        errors.StaticArgumentError,
    ),
    "budget text": (lambda: jit(lambda x: x, memory_budget="12xx"), errors.ConfigurationError),
    "budget above 1": (lambda: jit(lambda x: x, memory_budget=1.5), errors.ConfigurationError),
    "budget below 0": (lambda: jit(lambda x: x, memory_budget=-1), errors.ConfigurationError),
    "run-time index": (
        lambda: jit(lambda x, i: x[i])(X, np.array([0, -3])),
        errors.OutOfBoundsError,
    ),
    "run-time index, backward": (
        lambda: jit(grad(lambda x, i: x[i].sum()))(X, np.array([0, -3])),
        errors.OutOfBoundsError,
    ),
    "mapped axis": (lambda: vmap(lambda x: x, in_axes=4)(X), errors.AxisError),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused_with_the_line(name):
    call, kind = CALLS[name]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.StaxError)
    assert "test_bad_input.py:" in str(caught.value)


def test_line_is_not_added_again_by_copies():
    with pytest.raises(errors.AxisError) as caught:
        jit(lambda x: x.sum(2))(X)
    for again in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(again) == str(caught.value)
        assert (again.axis, again.ndim, again.where) == (2, 2, caught.value.where)


def test_statics_are_told_apart_by_the_types_inside():
    scaled = jit(lambda x, s: x * s[0], static_argnums=1)
    ones = np.ones(2, np.int32)
    for _ in range(2):  # traced, then dispatched
        assert scaled(ones, (2,)).dtype == np.int32
        assert scaled(ones, (2.0,)).dtype == np.float64
        assert scaled(ones, (True,)).dtype == np.int32
        assert not np.signbit(scaled(np.ones(2), (0.0,))).any()
        assert np.signbit(scaled(np.ones(2), (-0.0,))).all()


@jit
def doubled(x):
    return 2 * x


def test_a_compiled_function_is_copied_and_pickled_as_a_function_is():
    assert copy.copy(doubled) is doubled
    assert copy.deepcopy({"f": doubled})["f"] is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled


UNTRACEABLE = {
    "object": (np.array([1.0, None], object), r"x\.astype\(float\)"),
    "text": (np.array(["a"]), "keep text outside"),
    "bytes": (np.array([b"a"]), r"x\.view\(np\.uint8\)"),
    "days": (np.array(["2020-01-01"], "M8[D]"), r"astype\(np\.int64\)"),
    "seconds": (np.array([1], "m8[s]"), r"x\.astype\(np\.int64\)"),
    "long": (np.array([1.0], "g"), r"x\.astype\(np\.float64\)"),
    "complex long": (np.array([1.0], "G"), r"x\.astype\(np\.complex128\)"),
    "fields": (np.zeros(2, [("a", "f4"), ("b", "i4")]), r"x\['a'\]"),
}


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_an_array_that_is_not_of_numbers_is_refused_with_the_way_out(name):
    value, way_out = UNTRACEABLE[name]
    for call in (
        lambda: jit(lambda x: x)(value),
        lambda: jit(lambda x: np.add(x, value))(1.0),
        lambda: jit(lambda x: stax.numpy.asarray(value))(1.0),
        lambda: stax.vmap(lambda x: x)(value),
        lambda: stax.lax.scan(lambda c, x: (c, x), 0.0, value),
    ):
        with pytest.raises(errors.DtypeError, match=f"(?s){Path(__file__).name}.*{way_out}"):
            call()


def test_a_power_with_a_modulus_is_refused_as_that_of_an_array_is():
    with pytest.raises(TypeError, match=r"unsupported operand .* pow\(\)"):
        jit(lambda x: pow(x, 2, 3))(5)


def test_a_type_in_place_of_a_value_is_refused():
    with pytest.raises(errors.DtypeError, match="has no value"):
        doubled(stax.ShapeDtypeStruct((2,), np.float64))


Y = np.ones((2, 2))
UNFIT = {
    "dot_general": lambda x: stax.lax.dot_general(x, Y, (((1,), (0,)), ((), ()))),
    "pairs of axes": lambda x: stax.lax.dot_general(x, Y, (((0, 1), (0,)), ((), ()))),
    "broadcast_in_dim": lambda x: stax.lax.broadcast_in_dim(x, (2, 4), (0, 1)),
    "reduce_max": lambda x: stax.lax.reduce_max(x[:0], [0]),
    "pad": lambda x: stax.lax.pad(x, 0.0, [(-1, -2, 0), (0, 0, 0)]),
    "conv": lambda x: stax.lax.conv_general_dilated(x[None, None], Y[None], (1, 1), "VALID"),
    "triangular_solve": lambda x: stax.lax.linalg.triangular_solve(x, Y),
    "pad of one axis": lambda x: stax.lax.pad(x, 0.0, [(0, 0, 0)]),
}


@pytest.mark.parametrize("name", UNFIT)
def test_plain_arrays_that_do_not_fit_are_refused_as_traced_ones(name):
    with pytest.raises(errors.StaxError) as traced:
        jit(UNFIT[name])(X)
    with pytest.raises(errors.StaxError) as plain:
        UNFIT[name](X)
    assert type(plain.value) is type(traced.value)
    first, second = str(plain.value).splitlines(), str(traced.value).splitlines()
    assert first[0] == second[0]
    assert "test_bad_input.py:" in str(plain.value)


M = np.array([[4.0, 1.0], [1.0, 3.0]])
UNREAD = {
    "clip where": lambda x: np.clip(x, 0, 1, where=x > 0),
    "matmul axes": lambda x: np.matmul(x, x, axes=[(0, 1)] * 3),
    "vecdot axes": lambda x: np.vecdot(x, x, axes=[(0,), (0,), ()]),
    "eigh subset": lambda x: stax.scipy.linalg.eigh(x, subset_by_index=(0, 0)),
    "sqrtm disp": lambda x: stax.scipy.linalg.sqrtm(x, disp=False),
    "lax svd subset": lambda x: stax.lax.linalg.svd(x, subset_by_index=(0, 1)),
    "lax schur order": lambda x: stax.lax.linalg.schur(x, sort_eig_vals=True),
    "singular systems": lambda x: stax.lax.linalg.tridiagonal_solve(
        x[0], x[0], x[0], x, perturb_singular=True
    ),
    "offset of groups": lambda x: stax.lax.ragged_dot(x, x[None], np.array([2]), group_offset=1),
    "slopes": lambda x: stax.scipy.special.sph_harm_y(1, 0, x, x, diff_n=1),
    "a typo": lambda x: stax.scipy.linalg.cholesky(x, lwer=True),
}


@pytest.mark.parametrize("name", UNREAD)
def test_options_that_would_change_the_result_are_not_passed_over(name):
    with pytest.raises(errors.ConfigurationError, match=r"no option \w+= here") as caught:
        jit(UNREAD[name])(M)
    assert "test_bad_input.py:" in str(caught.value)


def test_options_that_change_no_result_are_taken():
    factor = stax.scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    np.testing.assert_allclose(factor @ factor.T, M)
    np.testing.assert_allclose(jit(lambda x: np.clip(x, 0, 2, where=True))(M), M.clip(0, 2))


def test_dot_takes_dimension_numbers():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(8.0).reshape(2, 4)
    numbers = (((0,), (0,)), ((), ()))
    dot = lambda x: stax.lax.dot(x, y, dimension_numbers=numbers)
    np.testing.assert_array_equal(dot(x), x.T @ y)
    np.testing.assert_array_equal(jit(dot)(x), x.T @ y)


def test_a_misspelt_option_of_lax_is_refused():
    for call in (
        lambda x: stax.lax.reduce_sum(x, [0], keepdims=True),
        lambda x: stax.lax.dynamic_slice(x, (0, 0), (1, 1), sizes=1),
        lambda x: stax.lax.reshape(x, (6,), order="F"),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call(X)
