"""Attention heads: cut out of one array and multiplied there, put together in one pass."""

import numpy as np
import pytest

import stax

B, S, H, D = 2, 48, 4, 32


def heads(x):
    """[B, S, 3, H, D] as three arrays [B, H, S, D]."""
    q, k, v = np.transpose(np.reshape(x, (B, S, 3, H, D)), (2, 0, 3, 1, 4))
    return q, k, v


def mix(x, w):
    q, k, v = heads(x @ w)
    scores = np.tanh(q @ np.swapaxes(k, -1, -2))
    return np.reshape(np.transpose(scores @ v, (0, 2, 1, 3)), (B, S, H * D))


def data(dtype=np.float32):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((B, S, H * D)).astype(dtype)
    return x, (rng.standard_normal((H * D, 3 * H * D)) * 0.02).astype(dtype)


def test_products_of_heads_read_them_where_they_lie():
    x, w = data(np.float64)
    lowered = stax.jit(mix).lower(x, w)
    np.testing.assert_allclose(lowered.compile()(x, w), mix(x, w), rtol=1e-12, atol=1e-12)
    made = [b for b in lowered.buffers if b.kind == "pointwise"]
    assert [b.shape for b in made] == [(B, H, S, S), (B, S, H * D)]
    batches = [i.layout.shape[:-2] for b in lowered.buffers if b.kind == "extern:matmul"
               for i in b.inputs]  # fmt: skip
    assert (B, H) in batches


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_heads_is_that_without_compilation(dtype):
    x, w = data(dtype)

    def loss(x, w):
        return np.sum(mix(x, w) ** 2)

    found = stax.jit(stax.grad(loss, argnums=(0, 1)))(x, w)
    expected = stax.grad(loss, argnums=(0, 1))(x, w)
    bound = 2e-4 if dtype == np.float32 else 1e-11
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * float(np.abs(b).max()))


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("bhik,bhkj->bhij", (3, 4, 9, 20), (3, 4, 20, 11)),
        ("bihk,bjhk->bhij", (3, 9, 4, 20), (3, 11, 4, 20)),
        ("bihk,hkbj->bhij", (3, 9, 4, 20), (4, 20, 3, 11)),
        ("aibhk,abkhj->abhij", (2, 9, 3, 4, 20), (2, 3, 20, 4, 11)),
    ],
)
def test_batch_axes_without_a_common_stride(spec, left, right):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(left), rng.standard_normal(right)
    found = stax.jit(lambda x, y: stax.numpy.einsum(spec, x, y))(x, y)
    np.testing.assert_allclose(found, np.einsum(spec, x, y), rtol=1e-12, atol=1e-12)


def test_what_is_read_through_one_view_is_stored_as_that_view():
    def f(q, w):
        y = np.tanh(q) + 1.0
        return np.reshape(np.transpose(y, (0, 2, 1, 3)), (B * S, H * D)) @ w

    rng = np.random.default_rng(2)
    q, w = rng.standard_normal((B, H, S, D)), rng.standard_normal((H * D, 8))
    lowered = stax.jit(f).lower(q, w)
    assert [b.shape for b in lowered.buffers if b.kind == "pointwise"] == [(B * S, H * D)]
    # Indices in another shape than the loops' leave no division inside the innermost loop.
    (kernel,) = lowered.kernels
    text = lowered.as_text("source")
    assert "for (int64_t x2 = 0; x2 < 32; x2++)" in text
    assert "((x2) " not in text
    np.testing.assert_allclose(lowered.compile()(q, w), f(q, w), rtol=1e-12, atol=1e-12)
    assert kernel.numel == q.size


@pytest.mark.parametrize("width", [2, 16, 24, 31])
def test_loops_cut_at_a_divisor_give_the_same_bits(width):
    x = np.random.default_rng(3).standard_normal((5, 6, 7, width)).astype(np.float32)

    def f(x):
        return np.reshape(np.transpose(x, (0, 2, 1, 3)), (5, 7, 6 * width)) * 2.0

    assert stax.jit(f)(x).tobytes() == np.ascontiguousarray(f(x)).tobytes()


@pytest.mark.parametrize("shapes", [((9, 40), (40, 30)), ((3, 9, 40), (3, 40, 30))])
def test_a_product_that_is_read_turned_is_computed_turned(shapes):
    """Its reader takes rows as they lie, and a result that is the transpose needs no copy."""
    x, y = (np.random.default_rng(3).standard_normal(s) for s in shapes)

    def turned(x, y):
        return np.swapaxes(x @ y, -1, -2)

    def both(x, y):
        z = x @ y
        return np.swapaxes(z, -1, -2) * 2, z

    lowered = stax.jit(turned).lower(x, y)
    assert [b.shape for b in lowered.buffers if b.kind == "extern:matmul"] == [turned(x, y).shape]
    assert not lowered.kernels
    np.testing.assert_allclose(lowered.compile()(x, y), turned(x, y), rtol=1e-12, atol=1e-12)
    lowered = stax.jit(both).lower(x, y)
    assert [b.shape for b in lowered.buffers if b.kind == "extern:matmul"] == [(x @ y).shape]
    for a, b in zip(lowered.compile()(x, y), both(x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
