"""`stax.lax` shapes, slices, gathers and reductions under JAX's argument orders."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import stax
import stax.lax as lax
import stax.numpy as snp
from stax.errors import DtypeError, ShapeError
from stax.lax import bits, elementwise, special
from stax.testing import check_grads

X = np.random.default_rng(0).standard_normal((4, 5, 6))
STARTS = np.array([[1, 2], [3, 4], [0, -1], [9, 0]])


def windows(x, sizes, fill):
    """Rows of `x`, windows of `sizes` along axis 1 at STARTS."""
    out = []
    for a, b in STARTS:
        inside = 0 <= a < 4 and 0 <= b <= 5 - sizes
        a, b = int(np.clip(a, 0, 3)), int(np.clip(b, 0, 5 - sizes))
        out.append(x[a, b : b + sizes] if inside or not fill else np.full((sizes, 6), np.nan))
    return np.stack(out)


@pytest.mark.parametrize("mode", [None, "fill"])
def test_gather_of_windows(mode):
    numbers = lax.GatherDimensionNumbers((1, 2), (0,), (0, 1))

    def f(x):
        return lax.gather(x, STARTS, numbers, (1, 3, 6), mode=mode)

    want = windows(X, 3, mode == "fill")
    np.testing.assert_array_equal(f(X), want)
    np.testing.assert_array_equal(stax.jit(f)(X), want)
    check_grads(lambda x: snp.nansum(f(x) ** 2), (X,), 2)
    batched = stax.vmap(f)(np.stack([X, -X]))
    np.testing.assert_array_equal(batched, np.stack([want, -want]))


@pytest.mark.parametrize("name", ["scatter_add", "scatter_sub", "scatter_max", "scatter_min"])
def test_scatter_of_windows(name):
    numbers = lax.ScatterDimensionNumbers((1, 2), (0,), (0, 1))
    updates = np.random.default_rng(1).uniform(0.5, 2, (4, 3, 6))
    merge = {"scatter_add": np.add, "scatter_sub": np.subtract}.get(name)
    merge = merge or {"scatter_max": np.maximum, "scatter_min": np.minimum}[name]
    want = X.copy()
    for (a, b), u in zip(STARTS, updates, strict=True):
        if 0 <= a < 4 and 0 <= b <= 2:
            want[a, b : b + 3] = merge(want[a, b : b + 3], u)

    def f(x, u):
        return getattr(lax, name)(x, STARTS, u, numbers)

    np.testing.assert_allclose(f(X, updates), want)
    np.testing.assert_allclose(stax.jit(f)(X, updates), want)
    check_grads(f, (X, updates), 1, ("fwd", "rev"))


def test_scatter_apply_and_set():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x = np.arange(5.0)
    at = np.array([[1], [3]])
    np.testing.assert_array_equal(
        lax.scatter_apply(x, at, lambda v: v * 10, numbers, update_shape=(2,)), [0, 10, 2, 30, 4]
    )
    np.testing.assert_array_equal(
        lax.scatter(x, at, np.array([7.0, 8.0]), numbers), [0, 7, 2, 8, 4]
    )


@pytest.mark.parametrize("start", [-7, -2, 0, 3, 9])
def test_dynamic_slices_clamp(start):
    first = min(max(start + 5 if start < 0 else start, 0), 3)
    i = np.int64(start)
    for wrap in (lambda f: f, stax.jit):
        got = wrap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1))(X, i)
        np.testing.assert_array_equal(got, X[:, first : first + 2])
        want = X.copy()
        want[:, first : first + 2] = 1.5
        got = wrap(lambda x, i: lax.dynamic_update_slice_in_dim(x, snp.full((4, 2, 6), 1.5), i, 1))
        np.testing.assert_array_equal(got(X, i), want)
    got = stax.vmap(lambda i: lax.dynamic_slice(X, (0, i, 0), (4, 2, 6)))(np.array([start, 1]))
    np.testing.assert_array_equal(got, np.stack([X[:, first : first + 2], X[:, 1:3]]))


def test_shapes():
    np.testing.assert_array_equal(lax.broadcast_in_dim(X[0], (5, 2, 6), (0, 2))[:, 1], X[0])
    np.testing.assert_array_equal(
        lax.broadcast(X[0, 0], (2, 3)), np.broadcast_to(X[0, 0], (2, 3, 6))
    )
    assert lax.collapse(X, 1).shape == (4, 30)
    np.testing.assert_array_equal(lax.slice(X, (1, 0, 2), (3, 5, 6), (1, 2, 3)), X[1:3, ::2, 2::3])
    np.testing.assert_array_equal(lax.rev(X, (0, 2)), X[::-1, :, ::-1])
    np.testing.assert_array_equal(lax.pad(X[0, 0], 0.0, ((1, -1, 1),))[1::2], X[0, 0, :5])
    assert lax.iota(np.float32, 3).dtype == np.float32
    np.testing.assert_array_equal(lax.broadcasted_iota(np.int32, (2, 3), 1), [[0, 1, 2]] * 2)
    parts = lax.split(X, (1, 4), axis=1)
    np.testing.assert_array_equal(parts[1], X[:, 1:])
    with pytest.raises(ShapeError, match="increasing"):
        lax.broadcast_in_dim(X[0], (6, 5), (1, 0))
    with pytest.raises(ShapeError, match="outside"):
        lax.slice(X, (0, 0, 0), (4, 5, 7))


def test_top_k_takes_the_first_of_equals():
    x = np.array([[1.0, 3, 3, np.nan, 2], [5, 4, 5, 4, 5]])
    values, places = stax.jit(lambda x: lax.top_k(x, 3))(x)
    np.testing.assert_array_equal(values, [[np.nan, 3, 3], [5, 5, 5]])
    np.testing.assert_array_equal(places, [[3, 1, 2], [0, 2, 4]])
    gradient = stax.grad(lambda x: (lax.top_k(x, 2)[0] * np.array([1.0, 10.0])).sum())(x[1])
    np.testing.assert_array_equal(gradient, [1, 0, 10, 0, 0])


def test_reduce_by_any_associative_function():
    np.testing.assert_allclose(lax.reduce(X, 0.0, lax.add, (0, 2)), X.sum((0, 2)))
    assert [e.op for e in stax.make_ir(lambda x: lax.reduce(x, 0.0, lax.add, (1,)))(X).eqns] == [
        "sum",
        "add",
    ]

    def welford(a, b):
        return a[0] + b[0], a[1] * b[1]

    for wrap in (lambda f: f, stax.jit):
        total, product = wrap(lambda x: lax.reduce((x, x), (0.0, 1.0), welford, (1,)))(X)
        np.testing.assert_allclose(total, X.sum(1))
        np.testing.assert_allclose(product, X.prod(1))
    assert lax.reduce(np.zeros((3, 0)), 2.0, lambda a, b: a * b + 0, (1,)).tolist() == [2.0] * 3


def test_sorting_by_several_keys():
    first = np.array([2, 1, 2, 1])
    second = np.array([0.5, 3.0, 0.25, 2.0])
    keys, others = lax.sort((first, second), num_keys=2)
    np.testing.assert_array_equal(keys, [1, 1, 2, 2])
    np.testing.assert_array_equal(others, [2.0, 3.0, 0.25, 0.5])
    values = lax.sort_key_val(first, second)[1]
    np.testing.assert_array_equal(values, [3.0, 2.0, 0.5, 0.25])


@pytest.mark.parametrize(
    ("dtype", "value", "amounts", "error", "match"),
    [
        ("int32", 0.5, [(1, 1, 0)], DtypeError, "int32 is padded with f64"),
        ("int32", np.float32(1), [(1, 1, 0)], DtypeError, "astype"),
        ("float32", 1j, [(1, 1, 0)], DtypeError, "float32 is padded with c128"),
        ("bool", 1, [(1, 1, 0)], DtypeError, "bool is padded with i64"),
        ("float64", np.ones(1), [(1, 1, 0)], ShapeError, "no single number"),
        ("float64", np.ones(2), [(1, 1, 0)], ShapeError, "no single number"),
        ("float64", 0.0, [(1, 1)], ShapeError, r"\(low, high, interior\)"),
    ],
)
def test_padding_that_does_not_fit_is_refused(dtype, value, amounts, error, match) -> None:
    for transform in (lambda f: f, stax.jit):
        with pytest.raises(error, match=match) as caught:
            transform(lambda x: lax.pad(x, value, amounts))(np.ones(2, dtype))
        assert "test_arrays_lax.py" in str(caught.value)


# One operand of each kind and width of dtype.
KINDS = [
    np.array(v).astype(d)
    for v, d in [
        ([True, False], bool), ([3, 2], np.int64), ([3, 2], np.uint8), ([0.5, 2], np.float16),
        ([0.5, 2], np.float32), ([0.5, 2], ml_dtypes.bfloat16), ([0.5, 2], np.float64),
        ([0.5 + 1j, 2], np.complex128),
    ]
]  # fmt: skip
OPERANDS = {
    **dict.fromkeys(
        "add atan2 bitwise_and bitwise_or bitwise_xor complex div eq ge gt le lt max min mul ne "
        "nextafter mulhi pow rem shift_left shift_right_arithmetic shift_right_logical sub betainc "
        "igamma igammac igamma_grad_a random_gamma_grad zeta".split(),
        2,
    ),
    **dict.fromkeys("select clamp select_n betainc regularized_incomplete_beta".split(), 3),
}
ELEMENTWISE = [
    name
    for module in (elementwise, bits, special)
    for name in module.__all__
    if name
    not in "RoundingMethod dtype stop_gradient convert_element_type bitcast_convert_type "
    "reduce_precision polygamma".split()
]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_kind_of_dtype_is_refused_at_once_where_it_is_refused_while_tracing(name):
    f = getattr(lax, name)
    f = (lambda x: lax.integer_pow(x, 3)) if name == "integer_pow" else f
    for value in KINDS:
        operands = [value] * OPERANDS.get(name, 1)
        try:
            expected = stax.eval_shape(f, *operands).dtype
        except TypeError:
            with pytest.raises(TypeError):
                f(*operands)
        else:
            with np.errstate(all="ignore"):
                assert f(*operands).dtype == expected


@pytest.mark.parametrize("name", ["erf", "rsqrt", "population_count", "igamma", "betainc"])
def test_a_wrong_number_of_operands_is_refused(name):
    f, x = getattr(lax, name), np.array([1, 2])
    for operands in ([], [x] * 4):
        with pytest.raises(TypeError):
            f(*operands)
        with pytest.raises(TypeError):
            stax.eval_shape(f, *operands)


def test_scatter_apply_to_places_that_repeat_in_batches_that_do_not_touch():
    x = np.arange(1.0, 13).reshape(3, 4)
    batched = lax.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=(0,), scatter_indices_batching_dims=(0,),
    )  # fmt: skip
    once = np.array([[2], [2], [0]])
    want = x.copy()
    want[[0, 1, 2], [2, 2, 0]] *= 10
    apply = lambda x, at, n=3: lax.scatter_apply(
        x, at, lambda v: v * 10, batched, update_shape=at.shape[:-1]
    )
    for f in (apply, stax.jit(apply)):  # one window a batch: apart whatever the places are
        np.testing.assert_array_equal(f(x, once), want)
    twice = np.array([[[2], [1]], [[2], [3]], [[0], [2]]])
    want = x.copy()
    for row, places in enumerate(twice[..., 0]):
        want[row, places] *= 10
    np.testing.assert_array_equal(stax.jit(lambda x: apply(x, twice))(x), want)
    with pytest.raises(ShapeError, match="apart"):
        apply(x, np.array([[[2], [2]], [[2], [3]], [[0], [2]]]))
    # Windows of several elements: apart, and one element shared.
    wide = lax.ScatterDimensionNumbers((1,), (), (0,))
    f = lambda at: lax.scatter_apply(
        np.ones(8), np.array(at), lambda v: v * 3, wide, update_shape=(2, 3)
    )
    np.testing.assert_array_equal(f([[0], [4]]), [3, 3, 3, 1, 3, 3, 3, 1])
    with pytest.raises(ShapeError, match="apart"):
        f([[0], [2]])


@pytest.mark.parametrize("run", [lambda f: f, stax.jit])
def test_select_by_integers(run):
    on, off = np.arange(3.0), -np.arange(3.0)
    for dtype in (np.int32, np.int64, np.uint8):
        got = run(lax.select)(np.array([1, 0, 1], dtype), on, off)
        np.testing.assert_array_equal(got, [0.0, -1.0, 2.0])
