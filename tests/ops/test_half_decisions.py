"""What decides about values of 16-bit floats sees them as memory would hold them.

Compiled code computes 16-bit floats in float32.  A comparison, a position of an extreme, a test for
infinity or a conversion that took such a value before it is rounded would contradict every other
reader of it: no element would equal the maximum, and the maximum would have no gradient.
"""

import ml_dtypes
import numpy as np
import pytest

import stax
import stax.numpy as snp

HALVES = [np.float16, ml_dtypes.bfloat16]


def _c(x, value):
    return np.asarray(value, x.dtype)


def _scaled(x):
    """Not representable in the type before it is rounded, and cheap enough to be inlined."""
    return x * _c(x, 1.37)


def _tiny(x):
    """Rounded to zero in float16 only."""
    return x * _c(x, 1e-7) * _c(x, 1e-3)


def _huge(x):
    """Rounded to infinity in float16 only."""
    return x * _c(x, 40000) * _c(x, 2)


DECISIONS = {
    "equal": lambda x: snp.sum(_scaled(x) == snp.max(_scaled(x), axis=1, keepdims=True), axis=1),
    "greater": lambda x: _scaled(x) > snp.sort(_scaled(x), axis=1)[:, 10:11],
    "argmax": lambda x: snp.argmax(x * _c(x, 1 / 64) + _c(x, 4), axis=1),
    "argmin": lambda x: snp.argmin(x * _c(x, 1 / 64) + _c(x, 4), axis=0),
    "isfinite": lambda x: snp.isfinite(_huge(x)),
    "isinf": lambda x: snp.isinf(_huge(x)),
    "any": lambda x: snp.any(_tiny(x), axis=1),
    "count_nonzero": lambda x: snp.count_nonzero(_tiny(x), axis=1),
    "sign": lambda x: snp.sign(_tiny(x)),
    "floor": lambda x: snp.floor(_scaled(x) * _c(x, 8)),
    "rint": lambda x: snp.rint(_scaled(x) * _c(x, 8)),
    "int": lambda x: (_scaled(x) * _c(x, 8)).astype(np.int32),
    "float32": lambda x: _scaled(x).astype(np.float32),
    "remainder": lambda x: _scaled(x) % _c(x, 0.25),
    "floor_divide": lambda x: _scaled(x) // _c(x, 0.25),
    "fmod": lambda x: snp.fmod(_scaled(x), _c(x, 0.25)),
}

GRADIENTS = {
    "max": lambda x: snp.sum(snp.max(_scaled(x), axis=1)),
    "min": lambda x: snp.sum(snp.min(_scaled(x), axis=0)),
    "ptp": lambda x: snp.ptp(_scaled(x)),
    "maximum": lambda x: snp.sum(snp.maximum(_scaled(x), _scaled(x)[:, ::-1])),
    "relu": lambda x: snp.sum(snp.maximum(_tiny(x), _c(x, 0)) * _c(x, 64)),
}


def _points(dtype):
    return np.random.default_rng(0).standard_normal((40, 30)).astype(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_sees_the_rounded_value(name, dtype):
    x = _points(dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(DECISIONS[name](x))
    np.testing.assert_array_equal(stax.jit(DECISIONS[name])(x), expected, strict=True)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_an_extreme_goes_to_the_element_that_is_it(name, dtype):
    x = _points(dtype)
    expected = stax.grad(GRADIENTS[name])(x)
    np.testing.assert_array_equal(stax.jit(stax.grad(GRADIENTS[name]))(x), expected, strict=True)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: np.dtype(d).name)
def test_nan_to_num_replaces_what_the_rounding_makes_infinite(dtype):
    largest = ml_dtypes.finfo(dtype).max
    x = _points(dtype)
    x[0, 0] = np.nan
    with np.errstate(all="ignore"):
        product = x * largest
    assert np.isinf(product).any()
    expected = np.where(
        np.isnan(product), dtype(0), np.clip(product, -largest, largest).astype(dtype)
    )
    got = stax.jit(lambda x: snp.nan_to_num(x * largest))(x)
    np.testing.assert_array_equal(got, expected, strict=True)


def test_what_is_rounded_already_is_not_rounded_again():
    text = stax.jit(lambda x, y: x < y).lower(_points(np.float16), _points(np.float16)).as_text()
    assert "ops.lt" in text
    assert "cast" not in text


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: np.dtype(d).name)
def test_frexp_takes_a_number_apart(dtype):
    x = np.array([1.5, -3, 0, 2e-3, np.inf], dtype)
    for got, expected in zip(stax.jit(snp.frexp)(x), np.frexp(x), strict=True):
        np.testing.assert_array_equal(got, expected, strict=True)
