"""Attention, forward and backward, in the interpreter: the scores are never stored."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.backends.triton import scores
from stax.dtypes import bfloat16

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Families of scores however few programs they make."""
    monkeypatch.setattr(scores, "FEWEST_PROGRAMS", 1)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def written_out(q, k, v):
    """Attention as it is written by hand, heads first."""
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def capped(q, k, v):
    """Scores through a tanh, in base two, without taking out the largest."""
    s = np.exp2(np.tanh(q @ k.transpose(0, 2, 1) * 0.1) * 3)
    return (s @ v) / s.sum(-1, keepdims=True)


def infinite(q, k, v):
    """Scores that are left out are -inf; the second row of each has none."""
    s = q @ k.transpose(0, 2, 1)
    rows = np.arange(s.shape[1])[:, None]
    columns = np.arange(s.shape[2])[None]
    s = np.where((rows >= columns) & (rows != 1), s, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(-1, keepdims=True))
    return np.where(rows == 1, 0, (e / e.sum(-1, keepdims=True)) @ v)


product = stax.nn.dot_product_attention
Q, K, V = (normal(2, 37, 4, 20) for _ in range(3))
K2, V2 = (normal(2, 53, 2, 20) for _ in range(2))
BIAS, MASK = normal(4, 37, 53), RNG.random((2, 1, 37, 53)) < 0.7
FLAT = [normal(3, 37, 20), normal(3, 53, 20), normal(3, 53, 24)]
LENGTHS = np.array([20, 37])
CASES = {
    "plain": (product, (Q, K, V)),
    "causal": (lambda q, k, v: product(q, k, v, is_causal=True), (Q, K, V)),
    "grouped heads": (lambda q, k, v: product(q, k, v, bias=BIAS, mask=MASK), (Q, K2, V2)),
    "lengths": (
        lambda q, k, v: product(q, k, v, query_seq_lengths=LENGTHS, key_value_seq_lengths=LENGTHS),
        (Q, K, V),
    ),
    "window": (lambda q, k, v: product(q, k, v, local_window_size=(5, 3), scale=0.3), (Q, K, V)),
    "written out": (written_out, FLAT),
    "no largest": (capped, FLAT),
    "left out": (infinite, [normal(2, 37, 20) for _ in range(3)]),
    "one matrix": (lambda q, k, v: written_out(q[None], k[None], v[None]), [a[0] for a in FLAT]),
    "doubles": (written_out, [a.astype(np.float64) for a in FLAT]),
}  # fmt: skip


def close(found, wanted, tolerance):
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def run(f, args, tolerance, kernels):
    """`f` agrees with NumPy; no buffer in memory has the shape of the scores."""
    lowered = stax.jit(f, backend="triton").lower(*args, device="cuda:sm_90")
    names = [k.name for k in lowered.source.kernels if k.name.startswith("scores")]
    assert len(names) == kernels, lowered.as_text("source")
    block = lowered.source.block
    biggest = max(a.size for a in args) * 3
    for name, place in block.places.items():
        assert place.kind == "nowhere" or block.table[name].nbytes < 8 * biggest
    close(stax.jit(f, backend="triton")(*args), f(*args), tolerance)


@pytest.mark.parametrize("name", CASES)
def test_forward(name):
    f, args = CASES[name]
    run(f, args, 1e-9 if name == "doubles" else 2e-5, 1)


@pytest.mark.parametrize("name", ["grouped heads", "lengths", "no largest", "left out", "doubles"])
def test_gradient(name):
    f, args = CASES[name]

    def loss(*args):
        return np.sin(f(*args)).sum()

    run(stax.grad(loss, (0, 1, 2)), args, 1e-9 if name == "doubles" else 5e-5, 3)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16], ids=str)
def test_halves(dtype):
    tolerance = 4e-3 if dtype is np.float16 else 4e-2
    args = [a[:1, :, :2].astype(dtype) for a in (Q, K, V)]
    f = lambda q, k, v: product(q, k, v, is_causal=True)
    run(f, args, tolerance, 1)
    loss = lambda *args: np.sin(f(*args).astype(np.float32)).sum()
    run(stax.grad(loss, (0, 1, 2)), args, tolerance, 3)
    wide = [a.astype(np.float32) for a in args]
    exact = stax.grad(loss, (0, 1, 2))(*wide)
    found = stax.jit(stax.grad(loss, (0, 1, 2)), backend="triton")(*args)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_allclose(a.to_numpy().astype(np.float32), b, 8 * tolerance, tolerance)


def test_two_layers_with_what_lies_around_them():
    w = [normal(20, 60) / 5, normal(20, 60) / 5]

    def layer(w, x):
        q, k, v = np.split((x @ w).reshape(2, 37, 2, 30), 3, axis=-1)
        return x + product(q, k, v, is_causal=True).reshape(x.shape)

    def loss(w, x):
        for own in w:
            x = layer(own, x)
        return (x * x).mean()

    x = normal(2, 37, 20)
    f = stax.value_and_grad(loss, (0, 1))
    lowered = stax.jit(f).lower(w, x, device="cuda:sm_90")
    assert sum(k.name.startswith("scores") for k in lowered.source.kernels) == 6
    close(stax.jit(f, backend="triton")(w, x), f(w, x), 5e-5)


def test_heads_are_read_where_they_lie():
    """Queries, keys and values are strided views with two axes of batch, not copies."""
    lowered = stax.jit(product).lower(Q, K, V, device="cuda:sm_90")
    names = [k.name for k in lowered.source.kernels]
    assert len(names) == 2, names  # the second puts the heads back into their place
    first = lowered.source.kernels[0]
    assert set(first.parameters) - first.written == {"query", "key", "value"}


def test_scores_that_somebody_reads_are_stored():
    def f(q, k, v):
        s = q @ k.transpose(0, 2, 1)
        e = np.exp(s - s.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return p @ v, p[:, 3]

    args = [normal(2, 37, 20) for _ in range(3)]
    run(f, args, 2e-5, 0)
