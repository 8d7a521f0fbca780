"""Attention on the CPU: one kernel that holds blocks of the scores, forward and backward."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stax
from stax.loops import contract
from stax.schedule.attention import Attention, Used

RNG = np.random.default_rng(7)
product = stax.nn.dot_product_attention


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Scores of any size are scores."""
    monkeypatch.setattr(contract, "LEAST_BYTES", 1)
    monkeypatch.setattr(contract, "LEAST", 4)
    monkeypatch.setattr(contract, "LEAST_GROWTH", 0)
    monkeypatch.setattr(contract, "THINNEST", 1)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v


def causal(q, k, v):
    s = q @ np.swapaxes(k, -1, -2)
    seen = np.arange(s.shape[-2])[:, None] >= np.arange(s.shape[-1])[None]
    return softmax(np.where(seen, s, -np.inf)) @ v


def biased(q, k, v):
    s = q @ np.swapaxes(k, -1, -2)
    return softmax(s * 0.3 + np.cos(np.arange(s.shape[-1], dtype=q.dtype))) @ v


def named(q, k, v):
    return stax.nn.softmax(np.einsum("...ih,...jh->...ij", q, k) * 0.5, axis=-1) @ v


def no_largest(q, k, v):
    s = np.exp(np.tanh(q @ np.swapaxes(k, -1, -2) * 0.1))
    return (s @ v) / s.sum(-1, keepdims=True)


def sigmoid_weights(q, k, v):
    return (1 / (1 + np.exp(-(q @ np.swapaxes(k, -1, -2))))) @ v


WAYS = [plain, causal, biased, named, no_largest, sigmoid_weights]


def kernels(lowered):
    return [k for k in lowered.kernels if isinstance(k, Attention)]


def in_memory(lowered, size):
    """The buffers of at least so many bytes that have a place in memory."""
    return [b.name for b in lowered.buffers
            if b.nbytes >= size and b.name in lowered.source.plan.offsets]  # fmt: skip


def agree(found, wanted, tolerance):
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = np.abs(b[np.isfinite(b)]).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


@settings(max_examples=25, deadline=None)
@given(
    way=st.sampled_from(WAYS),
    batch=st.sampled_from([(), (1,), (3,), (2, 2), (9,)]),
    m=st.integers(16, 70),
    n=st.integers(16, 70),
    h=st.integers(17, 40),
    width=st.integers(2, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_any_shape_and_its_gradient(way, batch, m, n, h, width, dtype):
    if way is causal and n > m:
        m = n
    args = normal(*batch, m, h, dtype=dtype), normal(*batch, n, h, dtype=dtype)
    args += (normal(*batch, n, width, dtype=dtype),)
    ct = normal(*batch, m, width, dtype=dtype)
    tolerance = 3e-5 if dtype == np.float32 else 1e-12
    lowered = stax.jit(way).lower(*args)
    assert len(kernels(lowered)) == 1, lowered.as_text("schedule")
    agree(lowered.compile()(*args), way(*args), tolerance)
    gradient = stax.grad(lambda *a: (way(*a) * ct).sum(), argnums=(0, 1, 2))
    agree(stax.jit(gradient)(*args), gradient(*args), 20 * tolerance)


@pytest.mark.parametrize("way", WAYS)
def test_the_scores_are_nowhere_in_memory(way):
    args = [normal(10, 600, 16) for _ in range(3)]
    size = 10 * 600 * 600 * 4
    lowered = stax.jit(way).lower(*args)
    assert [k.name for k in kernels(lowered)] == ["attention0"]
    assert not in_memory(lowered, size)
    assert lowered.peak_bytes < size
    lowered = stax.jit(stax.grad(lambda *a: way(*a).sum(), argnums=(0, 1, 2))).lower(*args)
    last = kernels(lowered)[-1]
    assert sum(isinstance(s, Used) for s in last.stages) == 3  # one pass over the scores
    assert not in_memory(lowered, size), lowered.as_text("schedule")
    assert lowered.peak_bytes < size


@pytest.mark.parametrize("way", [plain, causal])
def test_memory_grows_as_the_rows_do(way):
    def peak(n):
        args = [normal(2, n, 16) for _ in range(3)]
        gradient = stax.jit(stax.value_and_grad(lambda *a: way(*a).sum(), argnums=(0, 1, 2)))
        return gradient.lower(*args).peak_bytes

    assert peak(2048) < 2.5 * peak(1024)


def test_halves_that_are_compiled_apart_hand_over_no_scores():
    args = [normal(2, 256, 16) for _ in range(3)]
    joint = stax.joint_graph(plain, argnums=(0, 1, 2))(*args)
    partition = joint.partition()
    assert max(v.aval.size for v in partition.saved) < 2 * 256 * 256
    out, back = stax.vjp(stax.jit(plain), *args)
    expected, backward = stax.vjp(plain, *args)
    agree([out, back(expected)], [expected, backward(expected)], 1e-4)


def test_a_gradient_through_the_largest_finds_it_again():
    """The scores that are made again have the bits of the first ones."""
    q, k = normal(3, 64, 24), normal(3, 80, 24)

    def loss(q, k):
        return np.max(q @ np.swapaxes(k, -1, -2), axis=-1).sum()

    gradient = stax.grad(loss, argnums=(0, 1))
    agree(stax.jit(gradient)(q, k), gradient(q, k), 1e-5)
    _, back = stax.vjp(stax.jit(loss), q, k)
    agree(back(np.float32(1)), gradient(q, k), 1e-5)


def test_rows_without_any_key_and_values_that_are_not_finite():
    q, k, v = (normal(2, 40, 8) for _ in range(3))
    mask = RNG.random((40, 40)) < 0.6
    mask[3] = False

    def masked(q, k, v):
        return softmax(np.where(mask, q @ np.swapaxes(k, -1, -2), -np.inf)) @ v

    with np.errstate(invalid="ignore"):
        expected = masked(q, k, v)
        agree(stax.jit(masked)(q, k, v), expected, 1e-5)
        assert np.isnan(expected[:, 3]).all()
        agree(
            stax.jit(lambda *a: product(*a, mask=mask))(*(x[:, :, None] for x in (q, k, v))),
            product(*(x[:, :, None] for x in (q, k, v)), mask=mask),
            1e-5,
        )
        q[0, 5, 2], k[1, 7, 1] = np.nan, np.inf
        agree(stax.jit(plain)(q, k, v), plain(q, k, v), 1e-5)


@pytest.mark.parametrize("batch", [1, 9])
def test_weights_of_zero_are_left_out_where_that_changes_nothing(batch):
    """Behind a causal mask lie zeros, which meet infinities all the same."""
    q, k, v = (normal(batch, 130, 8) for _ in range(3))
    ct = normal(batch, 130, 8)

    def gradient(q, k, v):
        return stax.grad(lambda *a: (causal(*a) * ct).sum(), argnums=(0, 1, 2))(q, k, v)

    agree(stax.jit(gradient)(q, k, v), gradient(q, k, v), 1e-4)
    v[0, 100, 3] = np.inf
    with np.errstate(invalid="ignore"):
        expected = causal(q, k, v)
        assert np.isnan(expected[0, :100, 3]).all()
        agree(stax.jit(causal)(q, k, v), expected, 1e-5)
        ct[0, 5, 2] = np.inf
        agree(stax.jit(gradient)(q, k, v)[2], gradient(q, k, v)[2], 1e-4)


def test_no_keys_at_all():
    q, k, v = normal(2, 8, 4), normal(2, 0, 4), normal(2, 0, 4)

    def weights(q, k, v):
        s = np.exp(q @ np.swapaxes(k, -1, -2))
        return s @ v + s.sum(-1, keepdims=True)

    agree(stax.jit(weights)(q, k, v), weights(q, k, v), 0)


def test_mapped_differentiated_twice_and_checkpointed():
    q, k, v = (normal(3, 2, 40, 8, dtype=np.float64) for _ in range(3))
    mapped = stax.jit(stax.vmap(stax.vmap(plain)))
    assert len(kernels(mapped.lower(q, k, v))) == 1
    agree(mapped(q, k, v), plain(q, k, v), 1e-12)

    def loss(q):
        return (plain(q, k, v) ** 2).sum()

    tangent = normal(*q.shape, dtype=np.float64)
    second = lambda q: stax.hvp(loss, (q,), (tangent,))
    agree(stax.jit(second)(q), second(q), 1e-11)
    saved = stax.grad(lambda q: (stax.checkpoint(plain)(q, k, v) ** 2).sum())
    agree(stax.jit(saved)(q), stax.grad(loss)(q), 1e-11)
    stax.testing.check_grads(stax.jit(plain), (q[0, 0], k[0, 0], v[0, 0]), order=2)


@pytest.mark.parametrize("batch", [1, 2, 12])
def test_threads_do_not_change_the_bits(batch):
    args = [normal(batch, 200, 16) for _ in range(3)]
    gradient = stax.jit(stax.grad(lambda *a: (plain(*a) ** 2).sum(), argnums=(0, 1, 2)))
    lowered = gradient.lower(*args)
    pieces = {k.pieces for k in kernels(lowered)}
    assert (pieces == {1}) == (batch > 2)
    program = lowered.compile().program
    found = []
    for threads in (1, 2, 3, 9):
        program.context.threads = threads
        found.append(program.run(args))
    for other in found[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], other, strict=True))


def test_it_has_a_name():
    args = [normal(2, 64, 8) for _ in range(3)]
    assert "attention0: rows [2, 64] along [64]" in stax.jit(plain).lower(*args).as_text("schedule")
    assert "attention0" in str(stax.explain(plain)(*args))


def test_what_reads_the_result_of_all_rows_stays_outside():
    """The weights are returned; columns are summed; a result feeds the next scores."""
    x = normal(2, 64, 64)

    def chain(x):
        weights = softmax(x @ np.swapaxes(x, -1, -2))
        once = weights @ x
        again = softmax(once @ np.swapaxes(x, -1, -2)) @ once
        return weights, weights.sum(-2), again, (weights * once).sum()

    lowered = stax.jit(chain).lower(x)
    assert len(kernels(lowered)) == 2
    agree(lowered.compile()(x), chain(x), 1e-5)
