"""All universal functions through the C compiler, on odd values, against NumPy.

One program holds all functions of one dtype, so that the compiler runs once for each.
"""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.errors import DtypeError
from stax.numpy.ufunc_rules import RULES
from tests.op_samples import SMOOTH

UFUNCS = sorted(
    {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.__name__ in RULES},
    key=lambda u: u.__name__,
)
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, 1e10, -1e-10, 87.0, 1e-42]
TOLERANCE = {2: 2e-3, 4: 2e-6, 8: 1e-13}
# Sums of logarithms lose digits where the result is near zero; gaps are exact powers of two.
LOOSE = {"logaddexp": 1e-5, "logaddexp2": 1e-5, "power": 1e-5, "float_power": 1e-12}
# NumPy's answer to which zero is larger depends on the vector unit.
ANY_ZERO = {"maximum", "minimum", "fmax", "fmin"}


def values(dtype: str) -> np.ndarray:
    if dtype == "?":
        return np.array([True, False])
    if dtype[0] == "f":
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype)
    info = np.iinfo(dtype)
    small = [0, 1, 2, 3, 5, 7, 100] + ([] if info.min == 0 else [-1, -2, -7, -100])
    return np.array([*small, info.max, info.min], dtype)


def operands(ufunc, dtype: str):
    x = values(dtype)
    if ufunc is np.reciprocal and dtype[0] in "iu":
        return (x[x != 0],)  # 1 // 0 is whatever the machine's conversion gives
    if ufunc.nin == 1:
        return (x,)
    if ufunc is np.ldexp:
        return (x[:, None], np.array([-30, -1, 0, 3, 30], np.int32))
    if ufunc in (np.left_shift, np.right_shift):
        return (x[:, None], np.abs(values(dtype)[:5]))
    if ufunc in (np.power, np.float_power) and dtype[0] in "iu":
        return (x[:, None], np.array([0, 1, 2, 3, 5], dtype))
    return (x[:, None], x[None, :])


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "i8", "u1", "i1", "u8", "?"])
def test_compiled_ufuncs(dtype):
    chosen, wants = [], []
    with np.errstate(all="ignore"):
        for ufunc in UFUNCS:
            try:
                want = ufunc(*operands(ufunc, dtype))
            except TypeError:
                continue
            if ufunc is np.spacing and want.dtype == np.float16:
                continue  # NumPy's rule for float16 differs from that for wider types
            chosen.append(ufunc)
            wants.append(want)

    def program(args):
        return [ufunc(*a) for ufunc, a in zip(chosen, args, strict=True)]

    args = [operands(u, dtype) for u in chosen]
    gots = stax.jit(program)(args)
    wrong = []
    for ufunc, got, want in zip(chosen, gots, wants, strict=True):
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for g, w in pairs:
            assert np.asarray(g).dtype == w.dtype, ufunc
            if w.dtype.kind != "f":
                same = np.array_equal(g, w)
            else:
                tol = max(TOLERANCE[w.dtype.itemsize], LOOSE.get(ufunc.__name__, 0))
                tiny = float(np.finfo(w.dtype).tiny) * 4
                if w.dtype.itemsize == 2 and ufunc.__name__.startswith("logaddexp"):
                    tiny = 2e-3
                same = np.allclose(g, w, rtol=tol, atol=tiny, equal_nan=True)
                zeros = (w == 0) & (np.asarray(g) == 0) & (ufunc.__name__ not in ANY_ZERO)
                same = same and np.array_equal(np.signbit(g)[zeros], np.signbit(w)[zeros])
            if not same:
                wrong.append(ufunc.__name__)
    assert not wrong


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_powers_whose_exponent_is_one_number(dtype):
    x = values(dtype)
    exponents = [0.5, -0.5, 0.0, 1.0, 2.0, -1.0, 3.0]

    def program(x):
        made = [(k, x.dtype.type(k), np.array(k), np.array(k, x.dtype)) for k in exponents]
        powers = [np.power(x, k) for four in made for k in four]
        return powers + [np.float_power(x, k) for k in exponents] + [np.power(x, [0.5])]

    with np.errstate(all="ignore"):
        wants = program(x)
    for got, want in zip(stax.jit(program)(x), wants, strict=True):
        assert got.dtype == want.dtype
        tiny = float(np.finfo(want.dtype).tiny) * 4
        assert np.allclose(got, want, TOLERANCE[want.dtype.itemsize] * 5, tiny, equal_nan=True)
        assert np.array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


def test_errors_name_operands_and_line():
    with pytest.raises(DtypeError, match=r"bitwise_and.*\n.*float64"):
        stax.jit(lambda x: x & 1.5)(np.ones(2))
    with pytest.raises(stax.errors.ShapeError, match=r"test_elementwise_compiled.py"):
        stax.jit(lambda x, y: x + y)(np.ones(2), np.ones(3))


def value_and_pullback(sample, args):
    """A sample's value and its cotangents for a cotangent of ones."""

    def fun(*chosen):
        full = list(args)
        for position, value in zip(sample.diff, chosen, strict=True):
            full[position] = value
        return sample.fn(*full)

    out, pull = stax.vjp(fun, *(args[k] for k in sample.diff))
    return out, pull(np.ones(out.shape, out.dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_compiled_samples_and_their_gradients(dtype):
    samples = [s for s in SMOOTH if dtype in s.dtypes and s.name != "complex"]
    args = [
        tuple(np.asarray(a) for a in s.make(np.random.default_rng(5), np.dtype(dtype)))
        for s in samples
    ]

    def program(all_args):
        return [value_and_pullback(s, a) for s, a in zip(samples, all_args, strict=True)]

    tol = 1e-5 if dtype == "f4" else 1e-11
    for sample, got, want in zip(samples, stax.jit(program)(args), program(args), strict=True):
        np.testing.assert_allclose(got[0], want[0], rtol=tol, atol=tol, err_msg=sample.name)
        for g, w in zip(got[1], want[1], strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol, err_msg=sample.name)


@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_common_divisors_of_all_integers(dtype: str) -> None:
    kind = np.dtype(dtype)
    info, rng = np.iinfo(kind), np.random.default_rng(0)
    edges = np.array([info.min, info.max, 0, 1, info.max // 2, 6, 12, 35], kind)
    some = rng.integers(info.min, info.max, 20, dtype=kind, endpoint=True)
    a, b = np.meshgrid(*[np.concatenate([edges, some, some % kind.type(50)])] * 2)
    with np.errstate(all="ignore"):
        for f in (np.gcd, np.lcm):
            found = stax.jit(f, strict=True)(a, b)
            assert found.dtype == kind
            np.testing.assert_array_equal(found, f(a, b))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_upper_halves_of_products(dtype: str) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    some = rng.integers(info.min, info.max, 30, dtype=dtype, endpoint=True)
    a, b = np.meshgrid(*[np.concatenate([np.array([info.min, info.max, 0, 1], dtype), some])] * 2)
    want = [int(x) * int(y) >> info.bits for x, y in zip(a.flat, b.flat, strict=True)]
    found = stax.jit(stax.lax.mulhi, strict=True)(a, b)
    np.testing.assert_array_equal(found, np.array(want, object).astype(dtype).reshape(a.shape))
    with pytest.raises(DtypeError, match="integers of one dtype"):
        stax.lax.mulhi(np.ones(2), np.ones(2))
