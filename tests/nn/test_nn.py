"""Activations, normalisation and attention: values, derivatives, batching, jit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import stax
import stax.numpy as snp
from stax import nn
from stax.errors import DtypeError, ShapeError
from stax.testing import check_grads

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)) * 3
INF = math.inf


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "glu": lambda x: x[:, :2] * special.expit(x[:, 2:]),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "identity": lambda x: x,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "log_sigmoid": lambda x: -softplus(-x),
    "log_softmax": lambda x: special.log_softmax(x, -1),
    "logsumexp": special.logsumexp,
    "logmeanexp": lambda x: special.logsumexp(x) - math.log(12),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "softmax": lambda x: special.softmax(x, -1),
    "softplus": softplus,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "standardize": lambda x: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    ),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_value_derivative_batch_and_jit(name: str) -> None:
    function, want = getattr(nn, name), REFERENCES[name](X)
    got = function(X)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(stax.jit(function)(X), want, rtol=1e-13, atol=1e-14)
    check_grads(function, (X,), order=2)
    stack = np.stack([X, X[::-1], -X], 1)
    each = np.stack([function(stack[:, k]) for k in range(3)])
    np.testing.assert_allclose(stax.vmap(function, in_axes=1)(stack), each, rtol=1e-14)
    single = X.astype(np.float32)
    assert function(single).dtype == np.float32
    np.testing.assert_allclose(function(single), want, rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_extreme_arguments_give_finite_derivatives(name: str) -> None:
    x = np.array([[-800.0, -30.0, 0.0, 0.5], [30.0, 800.0, -0.5, 1.0]])
    slopes = stax.grad(lambda v: getattr(nn, name)(v).sum())(x)
    assert np.isfinite(slopes).all()


def test_gelu_by_the_error_function() -> None:
    want = X * special.ndtr(X)
    np.testing.assert_allclose(nn.gelu(X, approximate=False), want, rtol=1e-12, atol=1e-15)


def test_integers() -> None:
    assert nn.relu(np.array([-1, 2])).dtype == np.int64
    assert nn.softmax(np.array([1, 2])).dtype == np.float64
    assert nn.elu(1).dtype == np.float64


def test_conventions_at_corners() -> None:
    slope = stax.grad
    assert slope(nn.relu)(0.0) == 0
    assert slope(nn.relu6)(0.0) == 0
    assert slope(nn.relu6)(6.0) == 0
    assert slope(nn.hard_tanh)(1.0) == 1


MASK = np.array([[True, False, True, True], [True, True, False, False], [False] * 3 + [True]])


def test_where() -> None:
    want = np.where(MASK, X, -INF)
    np.testing.assert_allclose(nn.softmax(X, where=MASK), special.softmax(want, -1), rtol=1e-13)
    np.testing.assert_allclose(
        nn.logsumexp(X, axis=1, where=MASK), special.logsumexp(want, 1), rtol=1e-13
    )
    with np.errstate(invalid="ignore"):
        logs = np.where(MASK, special.log_softmax(want, -1), -INF)
    np.testing.assert_allclose(nn.log_softmax(X, where=MASK), logs, rtol=1e-13)
    big = np.where(MASK, X, 1e4)
    slopes = stax.grad(lambda v: (nn.softmax(v, where=MASK) * X).sum())(big)
    assert (slopes[~MASK] == 0).all()
    assert np.isfinite(slopes).all()
    means = [X[k][MASK[k]].mean() for k in range(3)]
    stds = [math.sqrt(X[k][MASK[k]].var() + 1e-5) for k in range(3)]
    want = (X - np.array(means)[:, None]) / np.array(stds)[:, None]
    np.testing.assert_allclose(nn.standardize(X, where=MASK), want, rtol=1e-12)


def test_logsumexp_arguments() -> None:
    for axis in (0, 1, (0, 1), None):
        for keep in (False, True):
            np.testing.assert_allclose(
                nn.logsumexp(X, axis=axis, keepdims=keep),
                special.logsumexp(X, axis=axis, keepdims=keep),
                rtol=1e-14,
            )
    value, sign = nn.logsumexp(X, b=X, return_sign=True, axis=0)
    want, want_sign = special.logsumexp(X, b=X, return_sign=True, axis=0)
    np.testing.assert_allclose(value, want, rtol=1e-13)
    np.testing.assert_array_equal(sign, want_sign)
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(np.exp(nn.logsumexp(z)), np.exp(z).sum(), rtol=1e-12)


def test_infinities() -> None:
    rows = np.array([[-INF, -INF, -INF], [INF, 0, 1], [1000, 1000, -INF], [-INF, 0, -INF]])
    want = [-INF, INF, 1000 + math.log(2), 0]
    np.testing.assert_allclose(nn.logsumexp(rows, axis=1), want)
    slopes = stax.grad(lambda v: nn.logsumexp(v, axis=1)[::3].sum())(rows)
    np.testing.assert_allclose(slopes[0], 0)
    np.testing.assert_allclose(slopes[3], [0, 1, 0])
    # A row without any finite score leaves the other rows alone.
    rows = np.array([[0.0, -INF, 1.0], [-INF] * 3])
    slopes = stax.jit(stax.grad(lambda v: nn.softmax(v)[0, 2]))(rows)
    p = special.expit(-1.0)
    np.testing.assert_allclose(slopes, [[-p * (1 - p), 0, p * (1 - p)], [0, 0, 0]], atol=1e-15)


def test_log1mexp() -> None:
    x = np.array([1e-300, 1e-12, 0.1, math.log(2), 1.0, 40.0, 800.0])
    with np.errstate(divide="ignore"):
        want = np.where(x < 0.5, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))
    np.testing.assert_allclose(nn.log1mexp(x), want, rtol=1e-14)
    slopes = stax.vmap(stax.grad(nn.log1mexp))(x[1:])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(slopes, 1 / np.expm1(x[1:]), rtol=1e-12)


def test_one_hot() -> None:
    labels = np.array([[0, 2], [3, -1]])
    want = (labels[..., None] == np.arange(3)).astype(float)
    np.testing.assert_array_equal(nn.one_hot(labels, 3), want)
    first = nn.one_hot(labels, 3, axis=0, dtype="float32")
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, np.moveaxis(want, -1, 0))
    np.testing.assert_array_equal(stax.jit(lambda k: nn.one_hot(k, 4))(2), np.eye(4)[2])


def attend(q: Any, k: Any, v: Any, allowed: Any = True, scale: Any = None) -> Any:
    """Attention of (T, H), (S, H), (S, D), as the formula says."""
    scores = q @ k.T * (1 / math.sqrt(q.shape[1]) if scale is None else scale)
    return special.softmax(np.where(allowed, scores, -1e30), -1) @ v


Q = RNG.normal(size=(2, 5, 4, 8))
K, V = RNG.normal(size=(2, 2, 6, 2, 8))
ROW, COLUMN = np.arange(5)[:, None], np.arange(6)


def by_heads(allowed: Any = True, scale: Any = None) -> Any:
    """Each pair of query heads shares a key head."""
    out = np.empty_like(Q)
    for b in range(2):
        for h in range(4):
            out[b, :, h] = attend(Q[b, :, h], K[b, :, h // 2], V[b, :, h // 2], allowed, scale)
    return out


def test_attention() -> None:
    f = nn.dot_product_attention
    np.testing.assert_allclose(f(Q, K, V), by_heads(), rtol=1e-12)
    np.testing.assert_allclose(stax.jit(f)(Q, K, V), by_heads(), rtol=1e-12)
    np.testing.assert_allclose(f(Q[0], K[0], V[0], scale=0.3), by_heads(scale=0.3)[0], rtol=1e-12)
    causal = ROW >= COLUMN
    np.testing.assert_allclose(f(Q, K, V, is_causal=True), by_heads(causal), rtol=1e-12)
    np.testing.assert_allclose(f(Q, K, V, mask=causal[None, None]), by_heads(causal), rtol=1e-12)
    near = (ROW - COLUMN <= 1) & (COLUMN - ROW <= 2)
    np.testing.assert_allclose(f(Q, K, V, local_window_size=(1, 2)), by_heads(near), rtol=1e-12)
    bias = np.where(causal, 0.0, -1e30)[None, None]
    np.testing.assert_allclose(f(Q, K, V, bias), by_heads(causal), rtol=1e-12)
    lengths = np.array([2, 6], np.int32)
    out = f(Q, K, V, query_seq_lengths=np.array([3, 5]), key_value_seq_lengths=lengths)
    np.testing.assert_allclose(out[0, :3], by_heads(COLUMN < 2)[0, :3], rtol=1e-12)
    np.testing.assert_allclose(out[1], by_heads()[1], rtol=1e-12)
    assert (out[0, 3:] == 0).all()
    _, residual = f(Q, K, V, return_residual=True)
    scores = Q[1, 2, 3] @ K[1, :, 1].T / math.sqrt(8)
    np.testing.assert_allclose(residual[1, 2, 3], special.logsumexp(scores), rtol=1e-12)


def test_attention_derivatives() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, is_causal=True)

    check_grads(f, (Q[:1, :3], K[:1, :3], V[:1, :3]), order=2)
    half = nn.dot_product_attention(*(x.astype(np.float16) for x in (Q, K, V)))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, by_heads(), atol=5e-3)


def test_attention_refuses() -> None:
    with pytest.raises(ShapeError, match="multiple"):
        nn.dot_product_attention(Q[:, :, :3], K, V)
    with pytest.raises(DtypeError, match="one floating"):
        nn.dot_product_attention(Q, K.astype(np.float32), V)
    with pytest.raises(DtypeError, match="bias"):
        nn.dot_product_attention(Q, K, V, mask=np.zeros((1, 1, 5, 6)))
    with pytest.raises(ShapeError, match="halved"):
        nn.glu(np.ones(3))


def test_layer_norm_in_a_loss() -> None:
    w = RNG.normal(size=(4, 4))

    def loss(w: Any) -> Any:
        return snp.sum(nn.log_softmax(nn.standardize(X @ w))[:, 0])

    np.testing.assert_allclose(stax.jit(stax.grad(loss))(w), stax.grad(loss)(w), rtol=1e-10)


@pytest.mark.parametrize("f", [nn.relu, stax.jit(nn.relu)])
def test_relu_of_complex_numbers_is_refused(f: Any) -> None:
    with pytest.raises(DtypeError):
        f(np.array([1j]))
