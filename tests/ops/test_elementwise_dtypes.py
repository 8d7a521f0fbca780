"""Every universal function, traced, against NumPy: values and result dtypes over all dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.graph import check_graph
from stax.core.staging import eval_graph, stage
from stax.dtypes import bfloat16
from stax.errors import DtypeError
from stax.numpy.ufunc_rules import RULES

DTYPES = ["?", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
UFUNCS = sorted(
    {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.__name__ in RULES},
    key=lambda u: u.__name__,
)
SCALARS = [True, 3, -2, 2.5, 1 + 2j]
# NumPy's own loops for these round differently from one call to the next (SIMD or scalar).
TOLERANCE = {"f2": 4e-3, "f4": 1e-5, "f8": 1e-12, "c8": 1e-4, "c16": 1e-10}


def data(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.integers(-3, 5, 7)
    if dtype == "?":
        return base > 0
    if dtype[0] == "u":
        return np.abs(base).astype(dtype)
    if dtype[0] == "c":
        return (base + 0.25 + 1j * rng.standard_normal(7)).astype(dtype)
    return (base + (0.25 if dtype[0] == "f" else 0)).astype(dtype)


def traced(fun, *args):
    """The results of `fun` recorded on tracers and evaluated, with the types it recorded."""

    def flat(*values):
        out = fun(*values)
        return list(out) if isinstance(out, tuple) else [out]

    graph = stage(flat, [aval_of(a) for a in args])
    check_graph(graph)
    return eval_graph(graph, args), [v.aval for v in graph.outputs]


def compare(ufunc, args, fun):
    with np.errstate(all="ignore"):
        try:
            want = ufunc(*args)
        except (TypeError, OverflowError) as error:
            with pytest.raises((type(error), DtypeError)):
                traced(fun, *args)
            return
        except ValueError:
            return  # integers to negative powers: depends on the values
    if np.asarray(want).dtype == object or np.asarray(want).dtype.char in "gG":
        return  # a Python integer beyond every dtype; long double
    wants = want if isinstance(want, tuple) else (want,)
    gots, avals = traced(fun, *args)
    for got, aval, expected in zip(gots, avals, wants, strict=True):
        expected = np.asarray(expected)
        assert aval.dtype == expected.dtype, (ufunc.__name__, args)
        assert np.asarray(got).dtype == expected.dtype
        assert aval.shape == expected.shape
        if expected.dtype.kind in "fc":
            tol = TOLERANCE[expected.dtype.str[1:]]
            np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)
        else:
            np.testing.assert_array_equal(got, expected)


def arrays(ufunc, *dtypes):
    args = [data(d, k) for k, d in enumerate(dtypes)]
    if ufunc in (np.power, np.ldexp, np.left_shift, np.right_shift) and args[1].dtype.kind == "i":
        args[1] = np.abs(args[1])
    return args


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_dtypes(ufunc):
    if ufunc.nin == 1:
        for dtype in DTYPES:
            compare(ufunc, arrays(ufunc, dtype), ufunc)
        return
    for a in DTYPES:
        for b in DTYPES:
            compare(ufunc, arrays(ufunc, a, b), ufunc)


@pytest.mark.parametrize(
    "ufunc", [u for u in UFUNCS if u.nin == 2 and u is not np.ldexp], ids=lambda u: u.__name__
)
def test_python_scalars_are_weak(ufunc):
    for dtype in DTYPES:
        x = data(dtype, 0)
        for scalar in SCALARS:
            # The number behind a traced scalar is unknown, so it cannot be out of range.
            if not (scalar == -2 and dtype[0] == "u"):
                compare(ufunc, [x, scalar], ufunc)
            if not (scalar == -2 and dtype[0] in "iu") and ufunc is not np.power:
                compare(ufunc, [scalar, x], ufunc)
            # A constant takes the same way as a traced Python scalar, but for static exponents.
            compare_constant(ufunc, x, scalar)


def compare_constant(ufunc, x, scalar):
    with np.errstate(all="ignore"):
        try:
            want = ufunc(x, scalar)
        except (TypeError, OverflowError, ValueError) as error:
            with pytest.raises((type(error), DtypeError)):
                traced(lambda v: ufunc(v, scalar), x)
            return
    if isinstance(want, tuple):
        return
    (got,), (aval,) = traced(lambda v: ufunc(v, scalar), x)
    assert aval.dtype == want.dtype, (ufunc, x.dtype, scalar)
    if want.dtype.kind in "fc":
        tol = TOLERANCE[want.dtype.str[1:]]
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    else:
        np.testing.assert_array_equal(got, want)


def test_bfloat16_stays_bfloat16():
    x = np.arange(1, 5).astype(bfloat16)
    for fun in (lambda v: v * 2.5, lambda v: v / 3, lambda v: np.exp(v), lambda v: v + np.int32(1)):
        (got,), (aval,) = traced(fun, x)
        assert aval.dtype == bfloat16
        assert got.dtype == bfloat16
    (_,), (aval,) = traced(lambda v: v + np.ones(4, np.float32), x)
    assert aval.dtype == np.float32


def test_operators_on_weak_numbers_stay_weak():
    x = np.ones(3, np.float32)
    for fun in (
        lambda v, s: v * (s + 1),
        lambda v, s: v * (2 / s),
        lambda v, s: v * -s,
        lambda v, s: v ** (s * s),
        lambda v, s: v + abs(s) ** 2,
        lambda v, s: v + s % 2 + s // 1.5,
    ):
        (got,), _ = traced(fun, x, 1.5)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, fun(x, 1.5), rtol=1e-6)
    # A ufunc of a Python scalar gives a NumPy float64, which widens.
    (got,), _ = traced(lambda v, s: v * np.sqrt(s), x, 1.5)
    assert got.dtype == np.float64


def test_comparisons_with_numbers_out_of_range():
    x = np.array([0, 100, 255], np.uint8)
    for fun in (
        lambda v: v < 300,
        lambda v: v == 300,
        lambda v: v != -1,
        lambda v: v > -1,
        lambda v: v >= 300,
    ):
        (got,), _ = traced(fun, x)
        np.testing.assert_array_equal(got, fun(x))
    big = np.array([2**63 + 5, 1], np.uint64)
    small = np.array([-1, 1], np.int64)
    for fun in (np.less, np.equal, np.greater_equal, np.not_equal):
        (got,), _ = traced(fun, big, small)
        np.testing.assert_array_equal(got, fun(big, small))
        (got,), _ = traced(fun, small, big)
        np.testing.assert_array_equal(got, fun(small, big))


def test_options_of_ufuncs():
    x = np.array([1, 2, 3])
    (got,), _ = traced(lambda v: np.add(v, 1, dtype=np.float32), x)
    assert got.dtype == np.float32
    mask = np.array([True, False, True])
    (got,), _ = traced(lambda v: snp.add(v, 1, where=mask), x)
    np.testing.assert_array_equal(got[mask], [2, 4])
    with pytest.raises(DtypeError):
        traced(lambda v: np.add(v, 1.5, dtype=np.int32), x)


def test_integers_to_negative_powers():
    with pytest.raises(DtypeError, match="negative integer powers"):
        traced(lambda v: v**-1, np.array([1, 2]))


def test_eager_calls_are_numpy():
    x = np.linspace(-2, 2, 9)
    with np.errstate(all="ignore"):
        for name in ("sin", "exp", "log1p", "arctan"):
            want = getattr(np, name)(x)
            np.testing.assert_array_equal(getattr(snp, name)(x), want)
    assert type(snp.add(1, 2)) is type(np.add(1, 2))
