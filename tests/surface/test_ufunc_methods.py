"""Methods of universal functions: on NumPy's ufuncs with traced values, and on stax.numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.errors import DtypeError, MutationError, ShapeError

X = np.array([[1.5, -2.0, 3.0, 0.5], [0.25, 4.0, -1.0, 2.0], [1.0, 1.0, 2.0, 3.0]])
N = np.array([[12, 18, 27], [5, 6, 7]])

REDUCIBLE = ["add", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2", "hypot", "fmax",
             "fmin", "subtract", "divide", "logical_and", "logical_or", "logical_xor"]  # fmt: skip
INTEGER = ["gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor"]


@pytest.mark.parametrize("method", ["reduce", "accumulate"])
@pytest.mark.parametrize("name", [*REDUCIBLE, *INTEGER])
def test_reduce_and_accumulate(name, method):
    if method == "accumulate" and name.startswith("logical"):
        return
    x = N if name in INTEGER else X
    ufunc = getattr(np, name)
    calls = [lambda u, m, a, k=k: getattr(u, m)(a, axis=k) for k in (0, 1)]
    traced = stax.jit(
        lambda a: [c(u, method, a) for u in (ufunc, getattr(snp, name)) for c in calls]
    )(x)
    expected = [c(ufunc, method, x) for c in calls] * 2
    for have, want in zip(traced, expected, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-13)
    np.testing.assert_array_equal(getattr(getattr(snp, name), method)(x), getattr(ufunc, method)(x))


def test_options_of_reduce():
    f = lambda a: (
        np.logaddexp.reduce(a, axis=(0, 1)),
        np.logaddexp.reduce(a, axis=None, keepdims=True),
        np.add.reduce(a, axis=1, initial=2.0, where=X > 0),
        np.multiply.reduce(a.astype(np.float32), dtype=np.float64),
        np.logaddexp.reduce(a, initial=1.0),
    )
    for have, want in zip(stax.jit(f)(X), f(X), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-6)


def test_outer_reduceat_and_at():
    def f(a, i):
        b = a.copy()
        np.add.at(b, i, 1.0)
        np.maximum.at(b, (i, 0), 2.0)
        return (
            np.subtract.outer(a[0], a[1]),
            np.add.reduceat(a, [0, 2, 1], axis=1),
            np.maximum.reduceat(a, [0, 1]),
            b,
            snp.add.at(a, i, 1.0, inplace=False),
        )

    i = np.array([0, 2, 2])
    for have, want in zip(stax.jit(f)(X, i), f(X, i), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-15)


def test_derivatives_go_through():
    f = lambda a: np.logaddexp.reduce(a, axis=0).sum()
    soft = np.exp(X) / np.exp(X).sum(0)
    np.testing.assert_allclose(stax.grad(f)(X), soft, rtol=1e-12)
    np.testing.assert_allclose(stax.jit(stax.grad(f))(X), soft, rtol=1e-12)
    np.testing.assert_allclose(
        stax.vmap(lambda a: np.hypot.reduce(a))(X), np.hypot.reduce(X, axis=1), rtol=1e-14
    )


def test_the_attributes_of_a_ufunc():
    assert (snp.add.nin, snp.add.nout, snp.add.identity) == (2, 1, 0)
    assert snp.modf.nout == 2


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a: np.subtract.reduce(snp.zeros(5000) + a[0]), DtypeError, "not associative"),
        (lambda a: np.logaddexp.reduce(a, where=a > 0), DtypeError, "where"),
        (lambda a: np.divide.at(a.copy(), [0], 2.0), DtypeError, "divide.at"),
        (lambda a: np.add.at(np.zeros(3), [0], a[0]), MutationError, "stax.numpy.zeros"),
        (lambda a: np.fmax.reduce(a[:0]), ShapeError, "zero-size"),
        (lambda a: np.add.reduceat(a, [0, 7]), ShapeError, "reduceat"),
        (lambda a: snp.sin.reduce(a), ValueError, "binary"),
    ],
)
def test_what_has_no_traced_version_says_so(call, error, text):
    with pytest.raises(error, match=text):
        stax.jit(call)(np.ones(3))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum])
@pytest.mark.parametrize("value", [2.0, np.float32(-3), np.array([2.0, -4.0])])
def test_at_takes_whole_numbers_of_any_dtype_for_integers_and_refuses_fractions(ufunc, value):
    def changed(x, v):
        y = x.copy()
        ufunc.at(y, [0, 0], v)
        return y

    x = np.array([5, -6])
    np.testing.assert_array_equal(stax.jit(lambda x: changed(x, value))(x), changed(x, value))
    if ufunc in (np.maximum, np.minimum):  # a cut keeps the order
        for v in (value, value + 0.5, value - 0.5):
            np.testing.assert_array_equal(stax.jit(changed)(x, v), changed(x, v))
    else:
        for f in (lambda x: changed(x, value + 0.5), lambda x: changed(x, x * 1.0)):
            with pytest.raises(DtypeError, match="with fractions"):
                stax.jit(f)(x)
