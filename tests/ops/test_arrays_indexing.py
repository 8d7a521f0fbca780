"""Indexing is NumPy's: random indices, writes, traced indices, modes, and the errors."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import (
    ConcretizationError,
    MutationError,
    NonConcreteBooleanIndexError,
    OutOfBoundsError,
    ShapeError,
)

SHAPE = (4, 3, 5)
X = np.arange(60.0).reshape(SHAPE)


def random_index(rng: np.random.Generator) -> tuple:
    """An index that NumPy takes, of every kind mixed."""
    common = [(), (2,), (3, 1), (2,), (1, 2)][rng.integers(5)]
    items: list = []
    axis = 0
    while axis < 3 and rng.random() < 0.9:
        n = SHAPE[axis]
        kind = rng.integers(8)
        if kind == 0:
            items.append(int(rng.integers(-n, n)))
        elif kind in (1, 2):
            bounds = [None, *range(-n - 2, n + 3)]
            start, stop = (bounds[rng.integers(len(bounds))] for _ in range(2))
            items.append(slice(start, stop, [None, 1, 2, -1, -2, 3][rng.integers(6)]))
        elif kind == 3:
            items.append(None)
            continue
        elif kind == 4 and Ellipsis not in [i for i in items if i is Ellipsis]:
            items.append(Ellipsis)
            axis = 3 - rng.integers(0, 2) if axis < 2 else 3
            if axis == 3:
                break
            continue
        elif kind == 5:
            items.append(rng.random(n) < 0.5 if common in ((), (2,)) else slice(None))
            if isinstance(items[-1], np.ndarray):
                keep = np.flatnonzero(items[-1])
                items[-1] = np.zeros(n, bool)
                items[-1][keep[:1] if len(keep) else [0]] = True
        else:
            items.append(rng.integers(-n, n, common))
        axis += 1
    return tuple(items)


def indices(count: int) -> list[tuple]:
    rng = np.random.default_rng(5)
    found = []
    while len(found) < count:
        index = random_index(rng)
        try:
            X[index]
        except IndexError:
            continue
        found.append(index)
    return found


@pytest.mark.parametrize("index", indices(120), ids=lambda i: None)
def test_reads_and_writes_equal_numpys(index):
    want = X[index]
    got = stax.make_ir(lambda x: x[index])(X)
    assert got.outputs[0].aval.shape == np.shape(want)
    value, tangent = stax.jvp(lambda x: x[index], (X,), (X * 2,))
    np.testing.assert_array_equal(value, want)
    np.testing.assert_array_equal(tangent, want * 2)
    weight = np.cos(np.arange(np.size(want))).reshape(np.shape(want))
    expected = np.zeros(SHAPE)
    np.add.at(expected, index, weight)
    np.testing.assert_allclose(stax.grad(lambda x: (x[index] * weight).sum())(X), expected)
    batch = np.stack([X, -X], axis=1)
    np.testing.assert_array_equal(
        stax.vmap(lambda x: x[index], in_axes=1)(batch), np.stack([want, -want])
    )
    changed = X.copy()
    changed[index] = weight

    def write(x, w):
        a = x * 1.0
        a[index] = w
        return a

    np.testing.assert_array_equal(stax.jvp(write, (X, weight), (X, weight))[0], changed)
    np.testing.assert_array_equal(stax.at(X)[index].set(weight), changed)
    added = X.copy()
    np.add.at(added, index, weight)
    np.testing.assert_allclose(stax.at(X)[index].add(weight), added)


@pytest.mark.parametrize(
    "index",
    [
        lambda i: (i,),
        lambda i: (i, slice(1, 3)),
        lambda i: (slice(None), i % 3, slice(None, None, -1)),
        lambda i: (Ellipsis, i),
        lambda i: (i, slice(None), [0, 2]),
        lambda i: (np.array([1, 2]), None, i % 3),
    ],
)
@pytest.mark.parametrize("value", [2, -1, np.array([0, -2])])
def test_traced_integers(index, value):
    i = np.asarray(value)
    want = X[index(i)]
    np.testing.assert_array_equal(stax.jit(lambda x, k: x[index(k)])(X, i), want)
    got = stax.vmap(lambda x, k: x[index(k)], in_axes=(None, 0))(X, np.stack([i, i]))
    np.testing.assert_array_equal(got, np.stack([want, want]))
    changed = X.copy()
    changed[index(i)] = 7.0
    np.testing.assert_array_equal(
        stax.jit(lambda x, k: stax.at(x)[index(k)].set(7.0))(X, i), changed
    )
    gradient = stax.jit(stax.grad(lambda x, k: x[index(k)].sum()))(X, i)
    expected = np.zeros(SHAPE)
    np.add.at(expected, index(i), 1.0)
    np.testing.assert_array_equal(gradient, expected)


def test_index_out_of_bounds():
    for bad in (4, -5, [0, 4], (0, 3), (slice(None), [1, -4])):
        with pytest.raises(OutOfBoundsError, match=r"out of bounds[\s\S]*test_arrays_indexing\.py"):
            stax.jit(lambda x, bad=bad: x[bad])(X)
    with pytest.raises(IndexError, match="too many indices"):
        stax.jit(lambda x: x[0, 0, 0, 0])(X)
    with pytest.raises(IndexError, match="out of bounds"):
        stax.jit(lambda x, i: x[i])(X, np.array(9))
    with pytest.raises(IndexError, match="out of bounds"):
        stax.grad(lambda x, i: x[i].sum())(X, np.array([0, -7]))


def test_modes():
    x = np.array([1.0, 2.0, 3.0])
    i = np.array([0, 5, -1, -7])
    for f in (lambda g: g, stax.jit):
        get = f(lambda x, i: stax.at(x)[i].get(mode="clip"))
        np.testing.assert_array_equal(get(x, i), [1, 3, 3, 1])
        fill = f(lambda x, i: stax.at(x)[i].get(mode="fill"))
        np.testing.assert_array_equal(fill(x, i), [1, np.nan, 3, np.nan])
        fill = f(lambda x, i: stax.at(x)[i].get(mode="fill", fill_value=-1))
        np.testing.assert_array_equal(fill(x, i), [1, -1, 3, -1])
        wrap = f(lambda x, i: stax.at(x)[i].get(mode="wrap"))
        np.testing.assert_array_equal(wrap(x, i), x[i % 3])
        drop = f(lambda x, i: stax.at(x)[i].add(10.0, mode="drop"))
        np.testing.assert_array_equal(drop(x, i), [11, 2, 13])
    gradient = stax.grad(lambda x: stax.at(x)[np.array([0, 5])].get(mode="clip").sum())(x)
    np.testing.assert_array_equal(gradient, [1, 0, 1])
    with pytest.raises(ShapeError, match="mode"):
        stax.at(x)[0].set(1.0, mode="wild")


def test_masks():
    mask = X > 30
    np.testing.assert_array_equal(stax.jit(lambda x: x[mask])(X), X[mask])
    np.testing.assert_array_equal(stax.grad(lambda x: (x[x > 30] ** 2).sum())(X), 2 * X * mask)
    with pytest.raises(NonConcreteBooleanIndexError, match="where"):
        stax.jit(lambda x: x[x > 30])(X)
    got = stax.jit(lambda x: stax.at(x)[x > 30].add(1.0))(X)
    np.testing.assert_array_equal(got, X + mask)
    got = stax.jit(lambda x: stax.at(x)[x[:, 0, 0] > 20].set(np.arange(5.0)))(X)
    want = X.copy()
    want[X[:, 0, 0] > 20] = np.arange(5.0)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(NonConcreteBooleanIndexError):
        stax.jit(lambda x: stax.at(x)[x > 30].set(np.arange(29.0)))(X)
    with pytest.raises(IndexError, match="did not match"):
        stax.jit(lambda x: x[np.ones((4, 4), bool)])(X)


def test_errors_of_kind_and_shape():
    with pytest.raises(IndexError, match="integer"):
        stax.jit(lambda x: x[1.5])(X)
    with pytest.raises(IndexError, match="integer"):
        stax.jit(lambda x: x[x[0, 0, 0]])(X)
    with pytest.raises(IndexError, match="ellipsis"):
        stax.jit(lambda x: x[..., 0, ...])(X)
    with pytest.raises(ValueError, match="could not be broadcast"):
        stax.jit(lambda x: stax.at(x)[0].set(np.ones(4)))(X)
    with pytest.raises(IndexError, match="broadcast"):
        stax.jit(lambda x: x[[0, 1], [0, 1, 2]])(X)
    with pytest.raises(ConcretizationError, match="dynamic_slice"):
        stax.jit(lambda x, n: x[:n])(X, 2)
    with pytest.raises(
        ConcretizationError, match=r"write table\[i\] or stax\.numpy\.take\(table, i, axis=0\)"
    ):
        stax.jit(lambda i: np.asarray(i))(np.array([1, 0]))


def test_repeated_writes_keep_the_last():
    i = np.array([0, 0, 2, 0])

    def f(x, v):
        return stax.at(x)[i].set(v)

    x, v = np.zeros(3), np.array([1.0, 2.0, 3.0, 4.0])
    want = [4.0, 0.0, 3.0]
    np.testing.assert_array_equal(f(x, v), want)
    gx, gv = stax.grad(lambda x, v: (f(x, v) * np.array([1.0, 10.0, 100.0])).sum(), (0, 1))(x, v)
    np.testing.assert_array_equal(gx, [0, 10, 0])
    np.testing.assert_array_equal(gv, [0, 0, 100, 1])
    gx, gv = stax.jit(stax.grad(lambda x, v, i: (stax.at(x)[i].set(v) ** 2).sum(), (0, 1)))(x, v, i)
    np.testing.assert_array_equal(gv, [0, 0, 6, 8])


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "max"])
def test_a_write_at_no_place_is_compiled(kind):
    nowhere = (np.zeros(0, int), slice(1, None))
    write = lambda x: getattr(stax.at(x)[nowhere], kind)(np.zeros((0, *x[0, 1:].shape))) * 2.0
    np.testing.assert_array_equal(stax.jit(write, strict=True)(X), X * 2.0)
    gradient = stax.jit(stax.grad(lambda x: write(x).sum()), strict=True)
    np.testing.assert_array_equal(gradient(X), np.full_like(X, 2.0))


def test_products_at_repeated_places_with_zeros():
    i = np.array([0, 0, 1, 1, 1])
    v = np.array([2.0, 0.0, 0.0, 3.0, 0.0])
    x = np.array([5.0, 7.0])
    gradient = stax.grad(lambda v: (stax.at(x)[i].multiply(v)).sum())(v)
    np.testing.assert_array_equal(gradient, [0, 10, 0, 0, 0])


def test_static_indices_need_no_check():
    graph = stax.make_ir(lambda x: x[[3, -1], :, 2])(X)
    (gather,) = [e for e in graph.eqns if e.op == "gather"]
    assert gather.params["mode"] == "promise"
    update = stax.make_ir(lambda x: stax.at(x)[[0, 2]].add(1.0))(X)
    (scatter,) = [e for e in update.eqns if e.op == "scatter"]
    assert scatter.params["unique"]


def test_where_and_take_under_vmap():
    table = np.arange(12.0).reshape(4, 3)
    rows = np.array([[0, 3], [2, -1]])
    got = stax.vmap(lambda r: snp.take(table, r, axis=0))(rows)
    np.testing.assert_array_equal(got, np.take(table, rows, axis=0))


REPEATED = {
    "rows": (np.array([0, 0, 2, 0]),),
    "columns": (slice(None), np.array([1, 1])),
    "pairs": (np.array([0, 0, 2, 0]), np.array([0, 0, 1, 0])),
    "beside an integer": (np.array([[1, 1], [1, -1]]), 1),
    "slice": (slice(1, 3),),
}


@pytest.mark.parametrize("name", REPEATED)
def test_apply_and_power_change_a_place_once_for_each_time_it_is_named(name):
    x, index = np.arange(1.0, 13.0).reshape(4, 3), REPEATED[name]
    for ufunc in (np.sqrt, np.negative):
        want = x.copy()
        ufunc.at(want, index)
        np.testing.assert_array_equal(stax.at(x)[index].apply(ufunc), want)
        jitted = stax.jit(lambda x, u=ufunc: stax.at(x)[index].apply(u))
        np.testing.assert_array_equal(jitted(x), want)
    exponents = np.linspace(0.5, 3, x[index].size).reshape(x[index].shape)
    want = x.copy()
    np.power.at(want, index, exponents)
    np.testing.assert_allclose(stax.at(x)[index].power(exponents), want, rtol=1e-13)
    stax.testing.check_grads(
        lambda x, e: np.sin(stax.at(x)[index].apply(np.sin)) + stax.at(x)[index].power(e),
        (x, exponents),
        order=2,
    )


@pytest.mark.parametrize("index", [1, slice(1, 3), np.array([1, 3, 3]), np.array([0, 2])])
def test_apply_takes_one_value_for_all_elements(index):
    x = np.arange(4.0)
    want = x.copy()
    want[index] = 5.0
    constant = lambda x: stax.at(x)[index].apply(lambda v: 5.0)
    np.testing.assert_array_equal(constant(x), want)
    np.testing.assert_array_equal(stax.jit(constant)(x), want)


def test_apply_at_traced_places_that_may_repeat_is_refused():
    x, i = np.arange(4.0), np.array([1, 3])
    found = stax.jit(lambda x, i: stax.at(x)[i].apply(np.exp, unique_indices=True))(x, i)
    np.testing.assert_array_equal(found, [0, np.exp(1), 2, np.exp(3)])
    np.testing.assert_array_equal(stax.jit(lambda x, i: stax.at(x)[i].apply(np.exp))(x, 1)[1], np.e)
    with pytest.raises(ShapeError, match="unique_indices=True") as error:
        stax.jit(lambda x, i: stax.at(x)[i].apply(np.exp))(x, i)
    assert "test_arrays_indexing.py" in str(error.value)
    numbers = stax.lax.ScatterDimensionNumbers((), (0,), (0,))
    for places in (np.array([[1], [1]]), np.array([[1], [3]])):
        apply = lambda x, p=places: stax.lax.scatter_apply(x, p, np.exp, numbers, update_shape=(2,))
        if places[1] == 1:
            with pytest.raises(ShapeError, match="lie apart"):
                stax.jit(apply)(x)
        else:
            np.testing.assert_array_equal(stax.jit(apply)(x), found)


METHODS = ["get", "set", "add", "subtract", "multiply", "divide", "power", "min", "max"]


@pytest.mark.parametrize("mode", [None, "drop", "clip", "promise_in_bounds", "wrap"])
@pytest.mark.parametrize("name", METHODS)
def test_traced_negative_indices_count_from_the_end_in_every_mode(name, mode):
    def change(x, i):
        return getattr(x.at[i], name)(*[2.0][: name != "get"], mode=mode)

    def change_rows(x, i):
        return getattr(x.at[i, 1], name)(*[2.0][: name != "get"], mode=mode)

    for f, x in ((change, X[0, 0]), (change_rows, X[0])):
        i = np.array([0, -1, 1])
        expected = f(x, i)  # known indices
        np.testing.assert_array_equal(stax.jit(f)(x, i), expected)
        np.testing.assert_array_equal(
            stax.jit(stax.grad(lambda x, i, f=f: f(x, i).sum()))(x + 1, i),
            stax.grad(lambda x, i, f=f: f(x, i).sum())(x + 1, i),
        )


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
@pytest.mark.parametrize("value", [2, 2.5, np.float64(2.5), np.uint8(2), True])
@pytest.mark.parametrize("name", METHODS[1:])
def test_methods_convert_values_alike_where_indices_are_known_and_traced(name, value, dtype):
    x = np.array([5, 6, 7]).astype(dtype)
    i = np.array([0, 2])
    expected = getattr(x.at[i], name)(value)
    assert expected.dtype == (np.true_divide(x, x).dtype if name == "divide" else dtype)
    for found in (
        stax.jit(lambda x, i: getattr(x.at[i], name)(value))(x, i),
        stax.jit(lambda x: getattr(x.at[i], name)(value))(x),
        stax.jit(lambda x: getattr(x.at[::2], name)(value))(x),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("value", [np.uint8(2), np.int8(-128), np.uint64(3), True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint16, np.complex64])
def test_subtract_negates_in_the_dtype_of_the_array(dtype, value):
    x = np.array([5, 6]).astype(dtype)
    expected = x.copy()
    np.subtract.at(expected, [0, 0], np.asarray(value).astype(dtype))
    i, v = np.array([0, 0]), np.asarray(value)

    def subtracted(x, i, v):
        y = x.copy()
        np.subtract.at(y, i, v)
        return y

    for found in (
        stax.jit(subtracted)(x, i, v),
        stax.jit(lambda x: subtracted(x, [0, 0], [value, value]))(x),
        x.at[i].subtract([value, value]),
        x.at[i].subtract(value),
        stax.jit(lambda x, i, v: x.at[i].subtract(v))(x, i, v),
        stax.jit(lambda x, i: x.at[i].subtract(value))(x, i),
    ):
        np.testing.assert_array_equal(found, expected)


def test_assigning_to_at_names_the_way_out():
    for f in (lambda x: x.at.__setitem__(0, 1.0), stax.jit(lambda x: x.at.__setitem__(0, 1.0))):
        with pytest.raises(MutationError, match=r"x\.at\[index\]\.set\(value\)"):
            f(np.zeros(3))
