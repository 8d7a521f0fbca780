"""S6.8: loops merged where every access allows it, ranges of integers, indices without checks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.loops.body import extent
from tests.loops.programs import merged


def kernel_text(f, *args):
    """The C of the only kernel."""
    lowered = stax.jit(f).lower(*args)
    assert len(lowered.kernels) == 1
    text = lowered.as_text("source")
    return text[text.index("static int32_t kernel0") : text.index("int32_t stax_run")]


# ---------------------------------------------------------------------------------- S6.8a


@pytest.mark.parametrize("seed", range(40))
def test_s6_8a_loops_merge_exactly_when_every_access_allows_it(seed):
    """Two loops over a strided operand become one if, and only if, its strides say so."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, 3).tolist())
    perm = tuple(rng.permutation(3).tolist())
    y = np.ones(shape)
    x = np.ones(tuple(shape[perm.index(k)] for k in range(3)))  # x.transpose(perm) is like y
    assert x.transpose(perm).shape == shape
    buffer = stax.jit(lambda x, y: x.transpose(perm) * y).lower(x, y).buffers[-1]
    # Axes k and k + 1 of the result are one loop when x too has them adjacent and in order.
    expected = 3 - sum(perm[k] + 1 == perm[k + 1] for k in range(2))
    body = merged(buffer.body)
    assert len(body.loops) == expected
    assert np.prod([extent(s) for s in body.loops]) == y.size


def test_s6_8a_merged_reads_keep_their_addresses():
    x = np.arange(24.0).reshape(2, 3, 4)
    buffer = stax.jit(lambda x: x * 2).lower(x).buffers[-1]
    body = merged(buffer.body)
    assert [str(r) for r in body.reads] == ["x[x0]"]
    assert body.ranges == (24,)


# ---------------------------------------------------------------------------------- S6.8b


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: abs(a),
    "floordiv": lambda a, b: a // (abs(b) + 1),
    "mod": lambda a, b: a % (abs(b) + 1),
    "minimum": lambda a, b: np.minimum(a, b),
    "maximum": lambda a, b: np.maximum(a, b),
    "clip": lambda a, b: np.clip(a, -3, 5) + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shift": lambda a, b: (a << 2) >> 1,
    "where": lambda a, b: np.where(a < b, a, b),
    "sign": lambda a, b: np.sign(a) * b,
    "square": lambda a, b: a**2 - b,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_s6_8b_what_ranges_prove_is_true(name, seed):
    """An index computed from the loop: its check is dropped only when it really stays inside."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    scale, shift = int(rng.integers(-3, 4)), int(rng.integers(-8, 9))
    size = int(rng.integers(1, 40))
    x = np.arange(float(size))

    def index(module):
        i = module.arange(n)
        return OPERATIONS[name](i * scale + shift, i[::-1] - 3)

    f = stax.jit(lambda x: x[index(snp)])
    indices = index(np)
    text = f.lower(x).buffers[-1].text
    inside = bool(np.all((indices >= -size) & (indices < size)))
    if not inside:
        assert "ops.check" in text
        with pytest.raises(IndexError):
            f(x)
        return
    np.testing.assert_array_equal(f(x), x[indices])


@pytest.mark.parametrize(
    ("index", "checks"),
    [
        (lambda i: i * 2 + 1, 0),  # at most 39
        (lambda i: i * 2 + 2, 1),  # at most 40
        (lambda i: i % 40, 0),
        (lambda i: np.minimum(i * i, 39), 0),
        (lambda i: np.clip(i - 5, 0, 39), 0),
        (lambda i: (i * 7) & 31, 0),
        (lambda i: i - 20, 0),  # negative, and within [-40, 0)
        (lambda i: i - 41, 1),
    ],
)
def test_s6_8b_a_check_is_dropped_when_the_interval_is_narrow_enough(index, checks):
    x = np.arange(40.0)
    f = stax.jit(lambda x: x[index(snp.arange(20))])
    assert f.lower(x).buffers[-1].text.count("ops.check") == checks


# ---------------------------------------------------------------------------------- S6.8c


def g1(x, idx):
    return x[idx] * 2


def g2(x):
    return x[(snp.arange(128) * 3) % 128] * 2


X = np.arange(128, dtype=np.float32)


def test_s6_8c_an_index_from_memory_keeps_its_correction_and_check():
    idx = np.arange(128)[::-1].copy()
    text = kernel_text(g1, X, idx)
    assert re.search(r"v1 \+ 128LL", text)  # negative indices
    assert re.search(r"\(v1 < 0LL\)", text)
    assert re.search(r"\(int64_t\)v4 \| \(127LL - \(int64_t\)v4\)", text)  # the check, by signs
    f = stax.jit(g1)
    np.testing.assert_array_equal(f(X, idx), g1(X, idx))
    np.testing.assert_array_equal(f(X, idx - 128), g1(X, idx - 128))


@pytest.mark.parametrize("wrong", [128, -129, 10**12])
def test_s6_8c_an_index_out_of_bounds_raises_and_names_the_bound(wrong):
    idx = np.zeros(128, np.int64)
    idx[77] = wrong
    with pytest.raises(IndexError, match=r"size 128 \(valid: -128 to 127\)"):
        stax.jit(g1)(X, idx)


def test_s6_8c_an_index_from_the_loop_is_the_address():
    text = kernel_text(g2, X)
    assert "p0[((3*x0) % (128))]" in text
    assert "bad |=" not in text
    assert "? " not in text  # no correction of negative indices
    signature = text[: text.index("{")]
    assert "int64_t *" not in signature  # no buffer of indices
    np.testing.assert_array_equal(stax.jit(g2)(X), X[(np.arange(128) * 3) % 128] * 2)


# ---------------------------------------------------------------------------------- S6.8d


@pytest.mark.parametrize(("rows", "width"), [(1 << 18, 32), (1 << 19, 64), (1 << 20, 64)])
def test_s6_8d_index_width_follows_the_bounds(rows, width):
    # 2**12 columns: the last address is rows * 2**12 - 1; at 2**19 rows that is just 2**31 - 1
    # and the number of points no longer fits.
    x = stax.ShapeDtypeStruct((rows, 1 << 12), np.dtype(np.float32))
    (buffer,) = stax.jit(lambda x: x + 1).lower(x).buffers[1:]
    assert buffer.body.index_width == width


def test_s6_8d_a_large_stride_counts_too():
    x = stax.ShapeDtypeStruct((1 << 20, 1 << 12), np.dtype(np.float32))
    (buffer,) = stax.jit(lambda x: x[:, 0] * 2).lower(x).buffers[1:]
    assert buffer.ranges == (1 << 20,)
    assert buffer.body.index_width == 64
