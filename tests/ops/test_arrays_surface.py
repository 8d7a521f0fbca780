"""The array surface: creation while tracing, dtypes, half precision, aliases, and messages."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import stax
import stax.lax as lax
import stax.numpy as snp
from stax.core.trace import Tracer
from stax.errors import AxisError, ConcretizationError, DtypeError, MutationError, ShapeError

X = np.arange(1.0, 13.0).reshape(3, 4)
BF16 = np.dtype(ml_dtypes.bfloat16)

CREATIONS = [
    lambda n: n.zeros((2, 3)),
    lambda n: n.zeros(4, np.int32),
    lambda n: n.ones((2, 3), dtype="f4"),
    lambda n: n.full((2, 2), 7),
    lambda n: n.full(3, [1.0, 2.0, 3.0]),
    lambda n: n.empty((2,)) * 0,
    lambda n: n.arange(5),
    lambda n: n.arange(2, 11, 3, dtype=np.int16),
    lambda n: n.arange(7, 1, -2),
    lambda n: n.arange(0.0, 1.0, 0.3),
    lambda n: n.arange(3.0),
    lambda n: n.eye(3, 4, 1),
    lambda n: n.identity(3),
    lambda n: n.tri(3, 4, -1),
    lambda n: n.linspace(0, 1, 5),
    lambda n: n.linspace(0, 10, 4, endpoint=False, dtype=int),
    lambda n: n.linspace([0, 1], [2, 5], 3, axis=1),
    lambda n: n.logspace(0, 2, 5),
    lambda n: n.geomspace(1, 16, 5),
    lambda n: n.array([[1, 2], [3, 4]]),
    lambda n: n.asarray(3.0),
    lambda n: n.array([1, 2.5]),
    lambda n: n.indices((2, 3)),
    lambda n: n.meshgrid(n.arange(3), n.arange(2))[0],
    lambda n: n.meshgrid(n.arange(3), n.arange(2), indexing="ij", sparse=True)[1],
    lambda n: n.zeros_like(X, dtype=bool),
    lambda n: n.full_like(X, 3, shape=(2,)),
    lambda n: n.diag(n.arange(3)),
    lambda n: n.fromfunction(lambda i, j: i + j, (2, 3)),
]


@pytest.mark.parametrize("make", CREATIONS, ids=range(len(CREATIONS)))
def test_creation(make):
    want = make(np)
    plain = make(snp)
    assert type(plain) is type(want)
    np.testing.assert_array_equal(plain, want)
    seen = []

    def f(x):
        made = make(snp)
        seen.append(made)
        return made

    got = stax.jit(f)(1.0)
    assert isinstance(seen[0], Tracer)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_arrays_from_traced_values():
    def f(x):
        a = snp.array([[x[0, 0], 1.0], [2, x[1, 1] * 3]])
        return snp.sum([x[0, 0], 2.0]) + a.sum() + snp.full((2,), x[0, 1]).sum()

    assert stax.jit(f)(X) == 1 + 2 + 1 + 1 + 2 + 18 + 4
    np.testing.assert_array_equal(stax.grad(f)(X)[:2, :2], [[2, 2], [0, 3]])
    with pytest.raises(ShapeError, match="inhomogeneous"):
        stax.jit(lambda x: snp.array([x[0], x[0, 0]]))(X)


def test_half_precision_accumulates_in_float32():
    ones = np.ones(4096, np.float16)
    for f in (snp.sum, stax.jit(snp.sum)):
        assert f(ones) == 4096
        assert f(ones).dtype == np.float16
        assert f(np.ones(512, BF16)) == 512
        assert f(np.ones(512, BF16)).dtype == BF16
    big = np.full(100_000, 2.0, np.float16)
    for f in (snp.mean, stax.jit(snp.mean)):
        assert f(big) == 2
        assert f(big.astype(BF16)) == 2
    a = np.ones((3, 600), BF16)
    for f in (snp.matmul, stax.jit(snp.matmul)):
        assert f(a, a.T).dtype == BF16
        np.testing.assert_array_equal(np.asarray(f(a, a.T), np.float32), np.full((3, 3), 600.0))
    assert stax.jit(lambda x: snp.cumsum(x)[-1])(np.ones(600, BF16)) == 600


KINDS = ["?", "i1", "u1", "i4", "u8", "f2", "f4", "f8", "c8"]
NAMES = ["sum", "prod", "cumsum", "mean", "var", "max", "any", "argmax"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_result_dtypes(name, kind):
    if kind == "c8" and name == "argmax":
        kind = "f8"
    x = np.array([[1, 0, 1], [1, 1, 1]]).astype(kind)
    want = getattr(np, name)(x, axis=1)
    got = stax.make_ir(lambda x: getattr(snp, name)(x, axis=1))(x).outputs[0]
    assert got.aval.dtype == want.dtype
    got = stax.jit(lambda x: getattr(snp, name)(x, axis=1))(x)
    np.testing.assert_allclose(got, want, rtol=1e-3 if kind == "f2" else 1e-6)


def test_numpy_functions_and_methods_are_the_same_surface():
    def numpy_style(x):
        y = np.concatenate([x, np.flip(x, 1)], axis=1)
        return np.trace(y @ y.T) + np.std(y)

    def method_style(x):
        y = snp.hstack([x, x[:, ::-1]])
        return (y @ y.T).diagonal().sum() + y.std()

    np.testing.assert_allclose(stax.jit(numpy_style)(X), method_style(X))
    np.testing.assert_allclose(stax.grad(numpy_style)(X), stax.grad(method_style)(X))
    assert stax.jit(lambda x: x.__array_namespace__().sum(x))(X) == X.sum()
    assert stax.jit(lambda x: np.add.reduce(x, axis=1))(X).tolist() == X.sum(1).tolist()
    np.testing.assert_array_equal(
        stax.jit(lambda x: np.maximum.accumulate(x, axis=1))(X), np.maximum.accumulate(X, axis=1)
    )
    np.testing.assert_array_equal(
        stax.jit(lambda x: np.multiply.outer(x[0], x[1]))(X), np.multiply.outer(X[0], X[1])
    )


MESSAGES = [
    (lambda x: x.sum(axis=2), AxisError, "axis 2 is out of bounds for array of dimension 2"),
    (lambda x: np.max(x[:0]), ValueError, "zero-size"),
    (lambda x: x.reshape(5, 3), ShapeError, r"cannot reshape array of size 12"),
    (lambda x: x @ x, ShapeError, r"matmul: shapes \(3, 4\) and \(3, 4\)"),
    (lambda x: np.concatenate([x, x.T]), ShapeError, "concatenation axis"),
    (lambda x: np.stack([x, x[0]]), ShapeError, "same shape"),
    (lambda x: np.broadcast_to(x, (3, 3)), ShapeError, "cannot broadcast"),
    (lambda x: np.squeeze(x, 0), ShapeError, "not equal to one"),
    (lambda x: np.einsum("ij,jk->ik", x, x), ShapeError, "label 'j' has extents 4 and 3"),
    (lambda x: np.einsum("ijk->i", x), ShapeError, "do not fit"),
    (lambda x: np.split(x, 5), ShapeError, "equal parts"),
    (lambda x: np.sum(x, out=np.zeros(())), MutationError, "out="),
    (lambda x: np.moveaxis(x, 0, 2), AxisError, "out of bounds"),
    (lambda x: np.sum(x, axis=(0, 0)), ValueError, "duplicate"),
]


@pytest.mark.parametrize(("f", "error", "text"), MESSAGES, ids=range(len(MESSAGES)))
def test_messages_name_the_operation_and_the_line(f, error, text):
    for transform in (stax.jit, stax.make_ir):
        with pytest.raises(error, match=text) as caught:
            transform(f)(X)
        assert "test_arrays_surface.py" in str(caught.value)


def test_functions_of_unknown_shape_say_so():
    for f in (np.nonzero, np.unique, np.flatnonzero, lambda x: np.compress(x[0] > 1, x)):
        with pytest.raises(ConcretizationError, match="shape depends on the values"):
            stax.jit(f)(X)
    np.testing.assert_array_equal(stax.grad(lambda x: (np.unique(x) ** 2).sum())(X), 2 * X)


def test_descending_sorts():
    x = np.array([[2.0, 1, 2, 3], [0, 5, 5, 1]])
    for wrap in (lambda f: f, stax.jit):
        got = wrap(lambda x: snp.sort(x, descending=True))(x)
        np.testing.assert_array_equal(got, np.sort(x)[:, ::-1])
        order = wrap(lambda x: snp.argsort(x, descending=True))(x)
        np.testing.assert_array_equal(order, [[3, 0, 2, 1], [1, 2, 3, 0]])


def test_statistics_at_the_edges():
    for f in (snp.std, snp.var):
        np.testing.assert_array_equal(stax.grad(f)(np.full(3, 2.0)), np.zeros(3))
    assert np.isnan(stax.jit(lambda x: snp.var(x, ddof=1))(np.array([3.0])))
    assert np.isnan(stax.jit(snp.mean)(np.zeros(0)))
    assert stax.jit(snp.sum)(np.zeros(0)) == 0
    assert stax.jit(lambda x: snp.max(x, axis=0))(np.zeros((3, 0))).shape == (0,)
    gradient = stax.grad(lambda x: snp.cumprod(x).sum())(np.array([2.0, 0, 0, 3]))
    np.testing.assert_array_equal(gradient, [1, 2, 0, 0])
    np.testing.assert_array_equal(stax.grad(snp.prod)(np.array([0.0, 3, 0])), [0, 0, 0])
    np.testing.assert_array_equal(stax.grad(snp.prod)(np.array([2.0, 3, 0])), [0, 0, 6])
    np.testing.assert_array_equal(stax.grad(snp.max)(np.array([2.0, 5, 5])), [0, 0.5, 0.5])


QUANTILES: dict[str, Any] = {
    "linear": {}, "lower": {"method": "lower"}, "nearest": {"method": "nearest"},
    "midpoint": {"method": "midpoint"}, "hazen": {"method": "hazen"},
    "inverted_cdf": {"method": "inverted_cdf"},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_quantiles_of_infinities_have_numpys_values_and_types(dtype: str) -> None:
    rows = ([-np.inf, 0.1, 0.2, 0.4], [np.inf, 0.1, 0.2], [np.inf, np.inf], [np.nan, 1.0, 2.0])
    for row in rows:
        x = np.array(row, dtype)

        def f(m: Any, x: Any) -> list[Any]:
            some = [m.median(x), m.nanmedian(x), m.percentile(x, 30), m.nanquantile(x, 0.75)]
            return some + [
                m.quantile(x, q, **k) for q in (0.5, [0.3, 0.5]) for k in QUANTILES.values()
            ]

        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = f(np, x)
            found = stax.jit(lambda x: f(snp, x))(x)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=1e-3 if dtype == "f2" else 1e-6)


@pytest.mark.parametrize("period", [2 * np.pi, 4, 5])
def test_unwrap_takes_differences_in_the_type_of_its_input(period: float) -> None:
    for dtype in ("u1", "i4", "f4") if period > 5.5 else ("i4", "f4"):
        x = np.array([0, 1, 9, 3, 30, 2, 7, 200]).astype(dtype)
        have, want = (
            stax.jit(lambda v: snp.unwrap(v, period=period))(x),
            np.unwrap(x, period=period),
        )
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-5)


def test_one_over_an_integer_zero_is_the_machines() -> None:
    for dtype in "bhiqBHIQ":
        x = np.array([0, 1, 2, -1]).astype(dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(stax.jit(snp.reciprocal)(x), np.reciprocal(x))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(("shape", "axis"), [((4,), None), ((5, 2), 0), ((3, 4), 1)])
@pytest.mark.parametrize("hole", [False, True])
def test_medians_of_complex_numbers(name, dtype, shape, axis, hole):
    """By real and then imaginary parts, as NumPy sorts; what is no number is kept as it is."""
    rng = np.random.default_rng(0)
    z = (rng.integers(0, 3, shape) + 1j * rng.random(shape)).astype(dtype)
    if hole:
        z.flat[0] = complex(np.nan, 2)
    got = stax.jit(lambda z: getattr(snp, name)(z, axis=axis))(z)
    want = getattr(np, name)(z, axis=axis)
    assert got.dtype == want.dtype
    for part in ("real", "imag"):
        np.testing.assert_array_equal(getattr(got, part), getattr(want, part))
    with pytest.raises(DtypeError, match="real numbers"):
        stax.jit(lambda z: snp.quantile(z, 0.5))(z)


def test_lines_beyond_the_points():
    x, xp, fp = np.array([-1.0, 0.5, 3.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 5.0])

    def f(x, left, right):
        return snp.interp(x, xp, fp, left=left, right=right)

    np.testing.assert_array_equal(f(x, "extrapolate", "extrapolate"), [-2, 1, 8])
    np.testing.assert_array_equal(f(x, None, "extrapolate"), [0, 1, 8])
    np.testing.assert_array_equal(stax.jit(lambda x: f(x, "extrapolate", 7.0))(x), [-2, 1, 7])
    with pytest.raises(DtypeError, match="extrapolate"):
        f(x, "line", None)


# What XLA makes of these, by its documentation and by running it: no subnormal numbers.
REDUCED = {
    (5, 3): [1.25, -3.25, np.inf, 0.0, 61440.0, np.inf, 0.0, np.nan, -np.inf, -0.0],
    (5, 10): [1.234375, -3.30078125, np.inf, 0.0, 60000.0, 65504.0, 0.0, np.nan, -np.inf, -0.0],
    (1, 1): [0.0, -np.inf, np.inf, 0.0, np.inf, np.inf, 0.0, np.nan, -np.inf, -0.0],
    (8, 0): [1, -4, 2.0**17, 2.0**-30, 65536, 65536, 2.0**-15, np.nan, -np.inf, -0.0],
    (8, 23): [1.2345, -3.3, 1e5, 1e-9, 6e4, 65504, 3e-5, np.nan, -np.inf, -0.0],
}


@pytest.mark.parametrize("bits", REDUCED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_formats_of_fewer_bits(bits, dtype):
    x = np.array(REDUCED[8, 23], np.float32).astype(dtype)
    want = np.array(REDUCED[bits], np.float32).astype(dtype)
    for f in (lax.reduce_precision, stax.jit(lax.reduce_precision, static_argnums=(1, 2))):
        got = f(x, *bits)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_format_with_all_of_the_exponents_keeps_subnormal_numbers(dtype):
    info = np.finfo(dtype)
    x = np.array([info.tiny, info.tiny / 2, info.smallest_subnormal, -info.tiny / 4], dtype)
    for exponent in (info.nexp, info.nexp + 1):
        for f in (lax.reduce_precision, stax.jit(lax.reduce_precision, static_argnums=(1, 2))):
            np.testing.assert_array_equal(f(x, exponent, info.nmant), x)


def test_derivative_of_rounding_is_rounded():
    out, slope = stax.jvp(lambda x: lax.reduce_precision(x, 5, 3), (1.2345,), (1.111,))
    assert (out, slope) == (1.25, 1.125)
    assert stax.grad(lambda x: 1.111 * lax.reduce_precision(x, 5, 3))(1.2345) == 1.125
    for bad in ((0, 3), (5, -1)):
        with pytest.raises(ShapeError, match="exponent"):
            lax.reduce_precision(np.float32(1), *bad)
    with pytest.raises(TypeError):
        lax.reduce_precision(np.float32(1), 2.5, 3)
    with pytest.raises(DtypeError, match="floats"):
        lax.reduce_precision(np.int32(1), 5, 3)
