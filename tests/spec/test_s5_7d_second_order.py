"""S5.7d: second derivatives through compiled code equal the uncompiled ones."""

from __future__ import annotations

import numpy as np
import pytest

import stax


def loss(x):
    return (np.tanh(x * x[::-1]) ** 2).sum() + np.exp(x).prod()


X = np.linspace(0.1, 1.0, 4)


@pytest.mark.parametrize(
    "compiled",
    [
        lambda: stax.jit(stax.hessian(loss)),
        lambda: stax.hessian(stax.jit(loss)),
        lambda: stax.jit(stax.hessian(stax.jit(loss))),
        lambda: stax.jacrev(stax.jit(stax.grad(stax.jit(loss)))),
        lambda: stax.jacfwd(stax.jit(stax.grad(loss))),
    ],
)
def test_s5_7d_hessians(compiled):
    np.testing.assert_allclose(compiled()(X), stax.hessian(loss)(X), rtol=1e-10, atol=1e-12)


def test_s5_7d_hessian_products_and_nested_gradients():
    v = np.arange(4.0)
    want = stax.hessian(loss)(X) @ v
    np.testing.assert_allclose(stax.hvp(stax.jit(loss), (X,), (v,))[0], want, rtol=1e-10)
    np.testing.assert_allclose(
        stax.jit(lambda x: stax.hvp(loss, (x,), (v,)))(X)[0], want, rtol=1e-10
    )
    f = lambda x: np.sin(x) * np.exp(0.3 * x)
    nested = stax.jit(stax.grad(stax.jit(stax.grad(f))))
    assert nested(0.7) == pytest.approx(stax.grad(stax.grad(f))(0.7), rel=1e-12)
