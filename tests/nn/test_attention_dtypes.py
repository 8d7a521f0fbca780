"""Products of halves that are asked for in float32: attention, its derivative, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.dtypes import bfloat16
from stax.primitives.contractions import dot_general

RNG = np.random.default_rng(11)
NUMBERS = (((1,), (0,)), ((), ()))


def normal(*shape, dtype):
    return RNG.standard_normal(shape).astype(dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


@pytest.mark.parametrize("run", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", [np.float16, bfloat16], ids=str)
def test_the_gradient_of_attention_has_the_type_of_its_operands(dtype, run):
    q, k, v, ct = (normal(2, 20, 2, 16, dtype=dtype) for _ in range(4))

    def loss(q, k, v, ct):
        out = stax.nn.dot_product_attention(q, k, v, is_causal=True)
        return (out * ct).astype(np.float32).sum()

    gradient = stax.grad(loss, (0, 1, 2))
    exact = gradient(*(a.astype(np.float32) for a in (q, k, v, ct)))
    tolerance = 5e-3 if dtype is np.float16 else 4e-2
    for a, b in zip(run(gradient)(q, k, v, ct), exact, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(wide(a), b, tolerance, tolerance)


@pytest.mark.parametrize("operand", [np.float16, bfloat16, np.int16, np.float32], ids=str)
@pytest.mark.parametrize("result", [np.float32, np.float64], ids=str)
def test_a_product_asked_for_in_another_type(operand, result):
    x, y = (RNG.integers(-4, 5, s).astype(operand) for s in ((40, 30), (30, 50)))
    f = lambda x, y: dot_general(x, y, NUMBERS, np.dtype(result))
    found = stax.jit(f)(x, y)
    assert found.dtype == result
    np.testing.assert_array_equal(found, wide(x) @ wide(y))
    if np.dtype(operand).kind != "i":
        back = stax.grad(lambda x: (f(x, y) ** 2).sum())(x)
        assert back.dtype == operand
        np.testing.assert_allclose(wide(back), 2 * wide(x) @ wide(y) @ wide(y).T, rtol=1e-2)
