"""Slices move to the operands of elementwise operations, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.core.graph import check_graph
from stax.core.staging import eval_graph
from stax.transforms.narrowing import narrow

X = np.arange(24.0).reshape(2, 3, 4) / 7
Y = np.arange(4.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sin(np.exp(x) * y)[1:, ::2, 1:3],
        lambda x, y: (x[:, :1] + y)[0, 0, ::-1],
        lambda x, y: np.where(x > 1, y, np.tanh(x))[:, 1],
        lambda x, y: np.sin(x)[:1] + np.sin(x)[1:],
        lambda x, y: np.sin(np.cos(x)[1:])[:, :2, 1:],
        lambda x, y: (x + x[:1])[1, 2],
        lambda x, y: np.sin(x[:1] * y)[:0],
    ],
)
def test_bits_stay(f):
    graph = stax.make_ir(f)(X, Y)
    found = narrow(graph)
    check_graph(found)
    for a, b in zip(eval_graph(found, [X, Y]), eval_graph(graph, [X, Y]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_row_is_kept_for_the_backward_pass():
    f = stax.jit(lambda x, w: (np.sin(x @ w)[0] ** 2).sum())
    x = np.ones((64, 32)) / 9
    w = np.ones((32, 64)) / 7
    ops = [e.op for e in narrow(f.trace(x, w).graph).eqns]
    assert ops.index("slice") < ops.index("sin")
    want = stax.grad(lambda x, w: (np.sin(x @ w)[0] ** 2).sum(), (0, 1))(x, w)
    for a, b in zip(stax.grad(f, (0, 1))(x, w), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
