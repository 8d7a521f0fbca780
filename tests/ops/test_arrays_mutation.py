"""In-place writes on traced values: NumPy's result, views included, in every transformation."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import ConcretizationError, MutationError, ShapeError

X = np.arange(1.0, 13.0).reshape(3, 4)


def start(x, space):
    """A writable array that depends on `x`."""
    return x * 1.0 if space is snp else np.array(x)


def fill(x, space):
    a = space.zeros(4)
    a[1:3] = x[0, :2]
    a[0] = x[1, 1] * a[1]
    return a


def strided(x, space):
    a = start(x, space)
    a[::2, ::-2] = x[:2, :2]
    a[1] *= a[0]
    return a


def view_writes_base(x, space):
    a = start(x, space)
    v = a[1:, ::-1]
    w = v[0]
    w[1:3] = -w[1:3]
    v[1] += 10
    return a * w[0]


def base_write_reaches_views(x, space):
    a = start(x, space)
    row, column, flat, turned = a[1], a[:, 2], a.reshape(-1), a.T
    a[1, 2] = 100.0
    turned[0] = x[0, :3]
    return row.sum() + 2 * column.sum() + 3 * (flat * space.arange(12)).sum() + turned[2, 1]


def mask_write(x, space):
    a = start(x, space)
    a[a > 6.5] = 0.5
    a[:, 1:][a[:, 1:] < 3.5] = x[0, 0]
    return a


def mask_array_write(x, space):
    a = start(x, space)
    a[np.array([True, False, True])] = x[:2]
    return a


def index_array_write(x, space):
    a = start(x, space)
    a[[0, 2], [1, 3]] = x[1, :2]
    a[[0, 0]] += 1.0
    return a


def scatter_ufunc_at(x, space):
    a = start(x, space)
    np.add.at(a, ([0, 0, 2], [1, 1, 3]), x[1, :3])
    np.multiply.at(a, (1,), 2.0)
    return a


def out_argument(x, space):
    a = start(x, space)
    np.multiply(a, x, out=a)
    np.sum(a, axis=1, keepdims=True, out=a[:, :1])
    return a


def copies_are_apart(x, space):
    a = start(x, space)
    b, c, d = a.copy(), a.astype(float), a + 0
    e = a[[0, 1]]
    a[...] = 0.0
    return b + 2 * c + 3 * d + e.sum() + a


def alias_is_shared(x, space):
    a = start(x, space)
    b = a
    b -= 3.0
    b **= 2
    return a


def scalars_rebind(x, space):
    s = x.sum()
    t = s
    s += 1.0
    return s * 10 + t


def methods(x, space):
    a = start(x, space)
    a[0].fill(7.0)
    a.T[1].sort()
    np.fill_diagonal(a, -1.0)
    np.put(a, [0, -1], [5.0, 6.0])
    np.copyto(a[2], x[0], where=x[0] > 2.5)
    np.put_along_axis(a, np.array([[1], [2], [3]]), 0.25, 1)
    return a


def nested_views(x, space):
    a = start(x, space)
    parts = np.split(a, 2, axis=1)
    parts[1][0] = 9.0
    squeezed = a[None, :, :, None].squeeze()
    squeezed[2, 0] = -4.0
    np.moveaxis(squeezed, 0, 1)[3] = x[:, 0]
    return parts[0] * 2 + parts[1]


def reshape_copies_where_numpy_does(x, space):
    a = start(x, space)
    turned = a.T.reshape(-1)  # a copy
    turned[0] = 100.0
    part = a[:, 1:3].reshape(6)  # a copy
    part[:] = -1.0
    rows = a[1:].reshape(-1)  # a view
    rows[2] = 50.0
    pairs = a[:, ::2].reshape(3, 2, 1)  # a view
    pairs[2, 1] = 60.0
    single = a.T[None].squeeze().ravel()  # a copy
    single += 1.0
    return a + turned.sum() + part.sum() + single.sum()


PROGRAMS = [
    reshape_copies_where_numpy_does,
    fill,
    strided,
    view_writes_base,
    base_write_reaches_views,
    mask_write,
    mask_array_write,
    index_array_write,
    scatter_ufunc_at,
    out_argument,
    copies_are_apart,
    alias_is_shared,
    scalars_rebind,
    methods,
    nested_views,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_value_and_derivatives(program):
    want = program(X, np)

    def traced(x):
        return program(x, snp)

    np.testing.assert_allclose(stax.jit(traced)(X), want)
    direction = np.cos(X)
    out, tangent = stax.jvp(traced, (X,), (direction,))
    np.testing.assert_allclose(out, want)
    step = 1e-6
    slope = (program(X + step * direction, np) - program(X - step * direction, np)) / (2 * step)
    np.testing.assert_allclose(tangent, slope, rtol=1e-5, atol=1e-5)
    weight = np.sin(np.arange(want.size)).reshape(want.shape)
    for grad in (stax.grad, lambda f: stax.jit(stax.grad(f))):
        g = grad(lambda x: (traced(x) * weight).sum())(X)
        np.testing.assert_allclose((g * direction).sum(), (weight * slope).sum(), rtol=1e-5)
    batch = np.stack([X, X + 0.25, X[::-1]])
    got = stax.vmap(traced)(batch)
    np.testing.assert_allclose(got, np.stack([program(b, np) for b in batch]))


def test_a_residual_keeps_the_value_it_had():
    def outer(x):
        w = x * 1.0
        _, pull = stax.vjp(lambda t: (t * w).sum(), w)
        w[0] = 50.0
        return pull(1.0)[0]

    np.testing.assert_allclose(outer(np.arange(3.0) + 1), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(stax.jit(outer)(np.arange(3.0)), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(stax.jvp(outer, (np.ones(3),), (np.ones(3),))[1], np.ones(3))


def test_a_loop_of_views_stays_linear():
    def f(x):
        a = x * 1.0
        for k in range(len(X.ravel())):
            a[k] = a[k] * a[k - 1]
        return a

    def reference(x):
        a = x.copy()
        for k in range(len(a)):
            a[k] = a[k] * a[k - 1]
        return a

    x = np.linspace(0.5, 1.5, 12)
    np.testing.assert_allclose(stax.jit(f)(x), reference(x))
    chain = stax.grad(lambda x: _flipped(x, 3000).sum())(np.ones(3))
    np.testing.assert_allclose(chain, np.ones(3))


def _flipped(x, times):
    for _ in range(times):
        x = x[::-1]
    return x


@pytest.mark.parametrize("transform", [stax.jit, stax.grad, stax.vmap, stax.make_ir])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__iadd__(1.0),
        lambda x: x[1:].fill(2.0),
        lambda x: x.reshape(-1).__setitem__(0, 1.0),
        lambda x: np.add(x, 1.0, out=x),
    ],
)
def test_arguments_are_read_only(transform, write):
    def f(x):
        write(x)
        return x.sum()

    with pytest.raises(MutationError, match=r"argument[\s\S]*test_arrays_mutation\.py"):
        transform(f)(X)


def test_plain_arrays_cannot_hold_traced_values():
    def f(x):
        a = np.zeros(3)
        a[0] = x[0, 0]
        return a.sum()

    def g(x):
        a = np.zeros(3)
        a[1:] = x[0, :2]
        return a.sum()

    for transform in (stax.jit, stax.grad):
        # NumPy reports a failing conversion of one element as a ValueError with this cause.
        with pytest.raises((ConcretizationError, ValueError)) as caught:
            transform(f)(X)
        cause = caught.value.__cause__ or caught.value
        assert isinstance(cause, ConcretizationError)
        assert "stax.numpy.zeros or np.zeros(..., like=x)" in str(cause)
        with pytest.raises(ConcretizationError, match=r"stax\.numpy\.zeros or np\.zeros"):
            transform(g)(X)

    def right(x):
        a = np.zeros(3, like=x)
        a[0] = x[0, 0]
        return (a * a).sum()

    assert stax.grad(right)(X)[0, 0] == 2.0


def test_broadcast_views_and_inner_values_are_refused():
    def broadcast(x):
        a = x * 1.0
        np.broadcast_to(a[0], (2, 4))[0] = 1.0
        return a.sum()

    with pytest.raises(MutationError, match="read-only"):
        stax.grad(broadcast)(X)

    def leaking(x):
        a = x * 1.0

        def inner(t):
            a[0, 0] = t
            return t

        stax.grad(inner)(1.0)
        return a.sum()

    with pytest.raises(MutationError, match="inner transformation"):
        stax.jit(leaking)(X)


def test_in_place_dtype_rule_is_numpys():
    def f(x):
        n = x.astype(int)
        n += 1.5
        return n

    with pytest.raises(TypeError, match="in place"):
        stax.jit(f)(X)


@pytest.mark.parametrize("copied", [
    lambda x: x.copy(), np.copy, snp.array, lambda x: x.flatten(), lambda x: +x,
    lambda x: x.astype(float), np.positive, np.nan_to_num,
])  # fmt: skip
def test_a_copy_belongs_to_the_transformation_that_makes_it(copied):
    """What an inner function copies from outside it may write to with its own values."""

    def written(x, y):
        copy = copied(x)
        copy[1] *= y[0]
        copy[:1] = y[1:2]
        return copy

    def all_of(inner, x, y):
        loss = lambda y: (inner(x, y) * y).sum() * x.sum()
        looped = stax.lax.scan(lambda c, t: (c + loss(y * t), c), 0.0, np.array([1.0, 0.5]))
        mapped = stax.vmap(loss)(np.stack([y, 2 * y]))
        branch = stax.lax.cond(y[0] > 0, loss, np.sum, y)
        return stax.grad(loss)(y), stax.jvp(loss, (y,), (x,)), mapped, looped, branch, x * 1

    plain = lambda x, y: np.stack([y[1], x[1] * y[0], x[2]])
    args = np.array([1.0, 2.0, 4.0]), np.array([0.5, 3.0, 1.0])
    for transformed in (stax.jit, lambda f: lambda x, y: stax.jvp(f, (x, y), (y, x))):
        found = transformed(lambda x, y: all_of(written, x, y))(*args)
        wanted = transformed(lambda x, y: all_of(plain, x, y))(*args)
        for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (8, 3), (2, 1), (3, 3, 3), (0, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_of_every_shape(shape: tuple[int, ...], wrap: bool) -> None:
    def filled(x):
        y = x.copy()
        np.fill_diagonal(y, np.array([1.0, 2.0]), wrap=wrap)
        return y

    x = np.zeros(shape)
    np.testing.assert_array_equal(stax.jit(filled)(x), filled(x))


def test_fill_diagonal_of_unequal_axes_is_refused() -> None:
    with pytest.raises(ShapeError, match="must be of equal length"):
        stax.jit(lambda x: np.fill_diagonal(x.copy(), 1.0))(np.zeros((2, 3, 3)))


@pytest.mark.parametrize("trim", ["fb", "f", "b"])
@pytest.mark.parametrize("x", [[0.0, 0, 1, 0, 2, 0], [0.0, 0], []])
def test_trim_zeros(x: list[float], trim: str) -> None:
    got = stax.jvp(lambda x: np.trim_zeros(x, trim), (np.array(x),), (np.ones(len(x)),))[0]
    np.testing.assert_array_equal(got, np.trim_zeros(np.array(x), trim))


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="vectors only before")
@pytest.mark.parametrize("axis", [None, 0, 1, (1,)])
def test_trim_zeros_along_axes(axis):
    x = np.zeros((4, 5))
    x[1, 2:4] = 1.0
    got = stax.jvp(lambda x: np.trim_zeros(x, axis=axis), (x,), (x,))[0]
    np.testing.assert_array_equal(got, np.trim_zeros(x, axis=axis))


@pytest.mark.parametrize(
    "write",
    [
        lambda a, v: np.put(a, [0], v),
        lambda a, v: np.put(a, v.astype(np.int64), 1.0),
        lambda a, v: np.place(a, a > 2, v[None]),
        lambda a, v: np.place(a, a > v, [1.0]),
        lambda a, v: np.putmask(a, a > 2, v),
        lambda a, v: np.putmask(a, a > v, 1.0),
        lambda a, v: np.put_along_axis(a, np.array([[0]]), v, 1),
        lambda a, v: np.copyto(a, v),
        lambda a, v: np.copyto(a, 1.0, where=v > 0),
        lambda a, v: np.add.at(a, 0, v),
        lambda a, v: np.add(a, v, out=a),
        lambda a, v: np.sum(v * a, axis=0, out=a[0]),
    ],
)
def test_traced_values_are_not_written_into_plain_arrays(write) -> None:
    with pytest.raises(MutationError, match=r"plain NumPy array|cannot write into") as caught:
        stax.jit(lambda v: write(np.eye(3), v))(1.5)
    assert "test_arrays_mutation.py" in str(caught.value)
    assert "np.zeros(..., like=x)" in str(caught.value)


COPIES = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "deepcopy of a tree": lambda a: copy.deepcopy({"a": [a]})["a"][0],
    "np.copy": np.copy,
    "meshgrid": lambda a: np.meshgrid(a[0])[0],
    "at, nowhere": lambda a: stax.at(a)[0:0].set(0.0),
    "at, everywhere": lambda a: stax.at(a)[...].set(a),
    "at, read": lambda a: stax.at(a)[...].get(),
    "vmap": stax.vmap(lambda x: x),
    "jvp": lambda a: stax.jvp(lambda x: x, (a,), (a,))[0],
    "jvp, tangent": lambda a: stax.jvp(lambda x: x, (a,), (a,))[1],
    "vjp": lambda a: stax.vjp(lambda x: x, a)[0],
    "vjp, cotangent": lambda a: stax.vjp(lambda x: x, a)[1](a)[0],
    "aux": lambda a: stax.grad(lambda x: (x.sum(), x), has_aux=True)(a)[1],
    "linearize": lambda a: stax.linearize(lambda x: x, a)[1](a),
    "cond, known": lambda a: lax.cond(True, lambda x: x, lambda x: x, a),
    "cond": lambda a: lax.cond(a[0, 0] > 0, lambda x: x, lambda x: -x, a),
    "switch": lambda a: lax.switch(0, [lambda x: x], a),
    "scan": lambda a: lax.scan(lambda c, _: (c, None), a, None, 0)[0],
    "associative_scan": lambda a: lax.associative_scan(np.add, a[:1]),
}


@pytest.mark.parametrize("name", sorted(COPIES))
@pytest.mark.parametrize("how", ["plain", "jit", "jvp", "vmap"])
def test_what_is_written_into_a_copy_does_not_show_in_the_original(name: str, how: str) -> None:
    def run(x):
        a = x * 1.0
        b = COPIES[name](a)
        b[...] = -7.0
        return a * 1.0

    if how == "vmap":
        got = stax.vmap(run)(X[None])[0]
    elif how == "jvp":
        got = stax.jvp(run, (X,), (X,))[0]
    else:
        got = (run if how == "plain" else stax.jit(run))(X)
    np.testing.assert_array_equal(got, X)
