"""S6.4: views are index expressions; reshapes that do not fold; layouts left open."""

from __future__ import annotations

import numpy as np
import pytest

import stax


def random_views(rng, x):
    """A composition of views: the steps as functions, applied to `x` alone to know shapes."""
    steps = []
    for _ in range(int(rng.integers(1, 6))):
        kind = int(rng.integers(5))
        if kind == 0:
            perm = tuple(rng.permutation(x.ndim).tolist())
            step = lambda a, perm=perm: a.transpose(perm)
        elif kind == 1:
            cut = []
            for n in x.shape:
                start, stride = int(rng.integers(n)), int(rng.choice([1, 2, 3]))
                cut.append(slice(start, None, int(rng.choice([1, -1])) * stride))
            step = lambda a, cut=(*cut, ...): a[cut]
        elif kind == 2:
            axis = int(rng.integers(x.ndim + 1))
            step = lambda a, axis=axis: np.expand_dims(a, axis)
        elif kind == 3:
            shape = (int(rng.integers(1, 4)), *x.shape)
            step = lambda a, shape=shape: np.broadcast_to(a, shape)
        else:
            axes = tuple(k for k, n in enumerate(x.shape) if n == 1)
            step = lambda a, axes=axes: np.squeeze(a, axes)
        if x.ndim < 6:
            steps.append(step)
            x = step(x)
    return steps


@pytest.mark.parametrize("seed", range(60))
def test_s6_4a_composed_views_are_strides_and_offset(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(tuple(rng.integers(1, 6, 3).tolist()))
    steps = random_views(rng, x)

    def view(a):
        for step in steps:
            a = step(a)
        return a

    expected = view(x)
    strides = tuple(s // x.itemsize for s in expected.strides)
    start = expected.__array_interface__["data"][0] - x.__array_interface__["data"][0]
    lowered = stax.jit(lambda a: -view(a)).lower(x)
    _, buffer = lowered.buffers  # the input and the result: no copy in between
    (read,) = buffer.reads
    body = buffer.body
    for _ in range(5):
        index = [int(rng.integers(n)) for n in expected.shape]
        address = start // x.itemsize + sum(s * i for s, i in zip(strides, index, strict=True))
        names = {f"i{k}": i for k, i in enumerate(index)}
        env = {s: names[s.name] for s in body.loops}
        assert read.index.evaluate(env) == address
    np.testing.assert_array_equal(stax.jit(lambda a: -view(a))(x), -expected)


def test_s6_4b_a_reshape_that_does_not_fold_keeps_division_and_remainder():
    x = np.arange(12.0).reshape(3, 4)
    f = stax.jit(lambda x: x.T.reshape(-1) * 2)
    _, buffer = f.lower(x).buffers
    (read,) = buffer.reads
    assert str(read) == "x[i0 // 3 + 4*(i0 mod 3)]"
    np.testing.assert_array_equal(f(x), x.T.reshape(-1) * 2)


def test_s6_4b_a_reshape_that_folds_is_affine():
    x = np.arange(24.0).reshape(2, 3, 4)
    f = stax.jit(lambda x: x[:, ::-1].reshape(2, 3, 2, 2).transpose(2, 0, 1, 3) * 2)
    _, buffer = f.lower(x).buffers
    assert all("//" not in str(r) and "mod" not in str(r) for r in buffer.reads)
    np.testing.assert_array_equal(f(x), x[:, ::-1].reshape(2, 3, 2, 2).transpose(2, 0, 1, 3) * 2)


@pytest.mark.parametrize("device", ["cpu", "cuda:sm_90"])
def test_s6_4c_a_transpose_is_only_an_index(device):
    x, y = np.ones((512, 256), np.float32), np.ones((256, 512), np.float32)
    lowered = stax.jit(lambda x, y: x.T + y).lower(x, y, device=device)
    _, _, buffer = lowered.buffers
    assert (buffer.kind, buffer.ranges) == ("pointwise", (256, 512))
    assert [str(r) for r in buffer.reads] == ["x[i0 + 256*i1]", "y[512*i0 + i1]"]
    assert buffer.layout.strides == (512, 1)


def test_s6_4d_an_intermediate_read_only_transposed_is_stored_transposed():
    def f(x):
        h = np.exp(x)  # two readers and a transcendental: stored
        return h.T + 1, h.T * 2

    x = np.arange(6.0).reshape(2, 3)
    lowered = stax.jit(f).lower(x)
    h = next(b for b in lowered.buffers if "ops.exp" in b.text)
    assert h.layout.shape == (2, 3)
    assert h.layout.strides == (1, 2)
    for reader in lowered.buffers[2:]:
        assert [str(r) for r in reader.reads] == [f"{h.name}[2*i0 + i1]"]
    for found, wanted in zip(stax.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_s6_4d_without_a_preference_rows_are_contiguous():
    def f(x):
        h = np.exp(x)
        return h.T + 1, h * 2

    lowered = stax.jit(f).lower(np.ones((2, 3)))
    h = next(b for b in lowered.buffers if "ops.exp" in b.text)
    assert h.layout.strides == (3, 1)
