"""Kinds of kernels, run in the interpreter on memory with guard pages, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import stax
from stax.backends.triton import epilogue, serial, templates
from stax.dtypes import bfloat16
from stax.loops import contract
from stax.primitives.contracted import (
    contracted_exp,
    contracted_fma,
    contracted_power,
    contracted_tan,
)
from stax.primitives.special import contracted_erf, contracted_erfinv
from stax.primitives.transcendental import contracted_log, contracted_log1p

RNG = np.random.default_rng(0)
X = RNG.standard_normal((37, 100)).astype(np.float32)
B = RNG.random((5, 33)) < 0.5
PLACES = RNG.integers(-37, 37, 50)


def check(f, *args, rtol=2e-5, atol=1e-5):
    """`f` by the Triton back end gives what NumPy gives."""
    wanted = f(*args)
    found = stax.jit(f, backend="triton")(*args)
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64), rtol, atol
        )


KERNELS = {
    "pointwise": (lambda x: np.tanh(x) * 2 + x, X),
    "broadcast": (lambda x, y: x * y[:, None], X, X[:, 0]),
    "transposed": (lambda x, y: x.T + y, X[:, :64], X[:, :64].T.copy()),
    "three orders": (
        lambda x, y, z: x.transpose(2, 1, 0) + y.transpose(0, 2, 1) + z,
        RNG.random((9, 10, 11)), RNG.random((11, 9, 10)), RNG.random((11, 10, 9)),
    ),
    "row sums": (lambda x: x.sum(1), X),
    "column sums": (lambda x: x.sum(0), X),
    "whole sum": (lambda x: x.sum(), X),
    "softmax": (lambda x: stax.nn.softmax(x, axis=-1), X),
    "long softmax": (lambda x: stax.nn.softmax(x, axis=-1), np.tile(X[:3], (1, 100))),
    "long row": (lambda x: (x * x).sum(-1), np.tile(X[:3], (1, 200))),
    "long column": (lambda x: (x * x).sum(0), np.tile(X[:, :3], (300, 1))),
    "a factor of each row": (
        lambda x, y: (np.tanh(y) @ x, x.T @ (y * y), x[:5, :40] @ np.exp(x[0, :40])),
        np.tile(X, (250, 1))[:, :40].copy() / 100, np.tile(X[:, 0], 250),
    ),
    "shared columns": (
        lambda x: ((x * x).sum(0), x.max(0), (x > 0).any(0), x.var(0), x * 2),
        np.tile(X, (40, 1)),
    ),
    "variance": (lambda x: np.var(x, axis=1), X),
    "long variance": (lambda x: np.var(x), np.tile(X, (3, 3))),
    "argmax": (lambda x: (np.argmax(x, 1), np.argmin(x, 0), np.argmax(x)), X),
    "any all": (lambda b: (b.any(1), b.all(0), b.sum(), (~b).any()), B),
    "max min": (lambda x: (x.max(), x.min(1), x.max(0)), X),
    "nan": (lambda x: (x.max(1), np.argmax(x, 1), np.minimum(x, 0)),
            np.where(X > 2, np.nan, X).astype(np.float32)),
    "cumsum": (lambda x: np.cumsum(x, 1), X),
    "long cumsum": (lambda x: np.cumsum(x), np.tile(X[0], 25).astype(np.float64)),
    "cut scans": (
        lambda x: (np.cumsum(x[0]), np.cumprod(1 + x / 1000, 1), np.maximum.accumulate(x, 1)),
        np.tile(X[:2], (1, 70)).astype(np.float64),
    ),
    "cut scan backwards": (lambda x: np.cumsum(x[::-1])[::-1] * 2, np.tile(X[0], 45)),
    "column cumprod": (lambda x: np.cumprod(x, 0), 1 + X / 10),
    "gather": (lambda x, i: x[i] * 2, X, PLACES),
    "take along": (lambda x, i: np.take_along_axis(x, i, 1), X, np.argsort(X, 1)[:, :7]),
    "matmul": (lambda x, y: x @ y.T, X, X),
    "batched": (lambda x: x @ x.transpose(0, 2, 1), RNG.random((3, 20, 24)).astype(np.float32)),
    "half matmul": (lambda x: np.tanh(x @ x.T), (X / 4).astype(np.float16)),
    "double matmul": (lambda x: x @ x.T, X.astype(np.float64)),
    "concatenate": (lambda x, y: np.concatenate([x, y * 2, x]), X, X),
    "pad": (lambda x: np.pad(x, 2), X),
    "integers": (lambda i: (i // 7, i % 7, i * i, -i, abs(i), i << 2, i >> 1, i ^ 3), PLACES),
    "divisors": (lambda i: (np.gcd(i, 24), np.lcm(i, 6)), PLACES),
    "unsigned": (lambda i: (i // 7, i % 7, i * i, i << 2, i >> 1), (PLACES & 255).astype(np.uint8)),
    "floats": (lambda x: (x // 0.3, x % 0.3, np.sign(x), np.floor(x), x ** 3, 1 / x), X),
    "half": (lambda x: (np.exp(x) + x).astype(np.float16), X.astype(np.float16)),
    "conversion": (lambda x: (x.astype(np.int32), x.astype(np.int8), x > 0, x.astype("f2")), X),
    "layer norm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5), X),
    "one point": (lambda x: (np.exp(x), x.sum()), np.float32(2)),
    "empty": (lambda x: (x * 2, x.sum()), np.zeros((0, 3), np.float32)),
}  # fmt: skip


OPERANDS = {
    "converted": (lambda x, w: x.astype(np.float16) @ w.astype(np.float16), 1),
    "scaled": (lambda x, w: (x / 9 + 1) @ w, 1),
    "a transcendental once": (lambda x, w: np.exp(x) @ w[:, :30], 1),
    "a transcendental twice": (lambda x, w: np.exp(x) @ w, 2),
    "both, and the result": (lambda x, w: np.tanh((x * 2 + x[0]) @ (w / 3)), 1),
    "turned": (lambda x, w: (w.T - 1) @ (x.T * 2), 1),
    "with itself": (lambda x, w: (x * 2) @ (x * 2).T, 1),
    "used again": (lambda x, w: (x * 2, (x * 2) @ w), 2),
    "left stored for many blocks": (lambda x, w: np.exp(x) @ np.tile(w, (1, 9)), 2),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_of_a_product_are_computed_where_they_are_read(name):
    f, kernels = OPERANDS[name]
    x, w = X / 3, RNG.standard_normal((100, 45)).astype(np.float32)  # no extent fills its blocks
    lowered = stax.jit(f).lower(x, w, device="cuda:sm_90")
    assert len(lowered.source.kernels) == kernels
    half = "converted" in name
    check(f, x, w, rtol=2e-2 if half else 2e-5, atol=2e-2 if half else 1e-4)


@pytest.mark.parametrize("batch", [(), (1,), (1, 1), (2,), (2, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_long_contraction_keeps_the_shape_of_its_batch(batch, dtype):
    """Whether it is cut into pieces depends on the number of batches, not on their axes."""
    x = (RNG.standard_normal((*batch, 9, 2048)) / 8).astype(dtype)
    y = (RNG.standard_normal((*batch, 2048, 7)) / 8).astype(dtype)

    def f(x, y):
        return np.tanh(x @ y)

    half = dtype == np.float16
    check(f, x, y, rtol=2e-2 if half else 2e-5, atol=2e-2 if half else 1e-4)
    gradient = stax.grad(lambda x, y: (x @ y).astype(np.float32).sum(), argnums=(0, 1))
    check(gradient, x, y, rtol=2e-2 if half else 2e-5, atol=2e-2 if half else 1e-4)


TOGETHER = {
    "pieces": lambda x: ((x * x).sum(), np.sin(x).max(1), x.sum(0), (x > 0).any()),
    "two levels": lambda x: (np.tile(x, (3, 3)).sum(), np.exp(np.tile(x[0], 150)).max()),
    "one reads the other": lambda x: (np.exp(x - x.sum(0)), x.max(1), (x * 2 - x.max()).sum(1)),
    "in their own order": lambda x: (np.cumsum(x[:5], 1), np.cumprod(x[:3], 0), x.sum(0)),
    "work space": lambda x: (
        (np.tile(x, (40, 1)) + x[0]).sum(0), np.tile(x[::-1], (30, 1)).max(0), x.sum(1),
        np.tile(x[:, :9], (40, 1)).var(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_kernels_that_share_a_launch(name):
    f, x = TOGETHER[name], X[:, :70].copy()
    lowered = stax.jit(f).lower(x, device="cuda:sm_90")
    assert any(k.parts for k in lowered.source.kernels) == (name != "in their own order")
    check(f, x, atol=1e-3)


def test_the_weights_of_a_small_network(monkeypatch):
    """The last launch adds up the pieces of several gradients; it gives the same bits each time."""
    monkeypatch.setattr(contract, "LONG", 256)
    x, y = (RNG.standard_normal((260, n)).astype(np.float32) for n in (6, 5))

    def loss(w, v):
        return ((np.tanh(x @ w) @ v - y) ** 2).sum() / 1000

    weights = [RNG.standard_normal(s).astype(np.float32) for s in ((6, 8), (8, 5))]
    step = stax.value_and_grad(loss, (0, 1))
    lowered = stax.jit(step).lower(*weights, device="cuda:sm_90")
    assert [len(k.parts) for k in lowered.source.kernels if k.parts] == [2]
    check(step, *weights, atol=1e-4)
    first, second = (stax.jit(step, backend="triton")(*weights) for _ in range(2))
    for a, b in zip(stax.tree.leaves(first), stax.tree.leaves(second), strict=True):
        assert a.to_numpy().tobytes() == b.to_numpy().tobytes()


def test_programs_that_stay_make_all_blocks(monkeypatch):
    def staying(*given):
        return dataclasses.replace(chosen(*given), persistent=True)

    chosen = templates.chosen_blocks
    monkeypatch.setattr(templates, "MULTIPROCESSORS", 3)
    for module in (templates, epilogue):
        monkeypatch.setattr(module, "chosen_blocks", staying)
    batches = RNG.random((3, 50, 24)).astype(np.float32)

    def f(x, y):
        return x @ x.T, np.tanh(x.T @ x), y @ y.transpose(0, 2, 1)

    lowered = stax.jit(f).lower(X, batches, device="cuda:sm_90")
    assert [k.grid for k in lowered.source.kernels] == [3, 3, 3]
    check(f, X, batches, atol=1e-4)


@pytest.mark.parametrize("name", ["float16", "float64", "int8", "bool"])
def test_the_pieces_of_a_running_merge_are_put_together(name, monkeypatch):
    # Three totals at a time, so that a piece has several steps to look back.
    monkeypatch.setattr(serial, "SCAN_BLOCK", 16)
    monkeypatch.setattr(serial, "PIECE_BYTES", 64)
    monkeypatch.setattr(serial, "LOOK", 4)
    dtype = np.dtype(name)
    x = RNG.integers(-2 if dtype.kind in "if" else 0, 2, (2, 150)).astype(dtype)
    f = {
        "f": lambda x: (np.cumsum(x, 1), np.maximum.accumulate(x[:, ::-1], 1), np.cumprod(x[0] + 1),
                        stax.lax.cumlogsumexp(x, 1)),
        "i": lambda x: (np.cumsum(x, 1), np.minimum.accumulate(x[0]), np.cumprod(x, 1)),
        "b": lambda x: (np.cumsum(x, 1), np.cumsum(x[0, ::-1])),
    }[dtype.kind]  # fmt: skip
    lowered = stax.jit(f).lower(x, device="cuda:sm_90")
    assert max(k.grid for k in lowered.source.kernels) >= 10
    check(f, x, rtol=2e-2 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name):
    f, *args = KERNELS[name]
    tolerance = {"half": 2e-3, "half matmul": 4e-3, "long variance": 1e-4}.get(name, 2e-5)
    check(f, *args, rtol=tolerance, atol=tolerance)


def scattered(kind):
    def f(x, i, u):
        return getattr(stax.at(x)[i], kind)(u)

    return f


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16, np.float16])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min", "max"])
def test_scatter_with_repeated_places(kind, dtype):
    x = (RNG.integers(1, 4, 37)).astype(dtype)
    u = (RNG.integers(1, 4, 50)).astype(dtype)
    small = PLACES[:9] if kind == "multiply" else PLACES
    check(scattered(kind), x, small, u[: small.size])


def second_row(x, i):
    return (x * 2)[i]


def test_an_index_out_of_bounds_is_named_where_it_was_written():
    def looped(x, i):
        return stax.lax.fori_loop(0, 2, lambda k, c: c + second_row(x, i + k), x[0] * 0)

    line = second_row.__code__.co_firstlineno + 1
    for f in (second_row, looped, stax.grad(lambda x, i: looped(x, i).sum())):
        with pytest.raises(IndexError, match=r"^(gather|scatter): .*size 37") as info:
            stax.jit(f, backend="triton")(X, 36 if f is not second_row else 37)
        assert f"test_kernels.py:{line}" in str(info.value)


def test_index_out_of_bounds_raises():
    f = stax.jit(lambda x, i: x[i].sum(), backend="triton")
    with pytest.raises(IndexError, match=r"size 37 \(valid: -37 to 36\)"):
        f(X, np.array([0, 37]))
    np.testing.assert_allclose(f(X, np.array([0, 36])), X[[0, 36]].sum(), rtol=1e-5)


def test_gradients_of_a_layer():
    def loss(w, b, x):
        h = stax.nn.gelu(x @ w + b)
        return (stax.nn.softmax(h, -1) * h).sum()

    w = RNG.standard_normal((20, 24)).astype(np.float32)
    b = RNG.standard_normal(24).astype(np.float32)
    x = RNG.standard_normal((16, 20)).astype(np.float32)
    found = stax.jit(stax.grad(loss, argnums=(0, 1, 2)), backend="triton")(w, b, x)
    for a, c in zip(found, stax.grad(loss, argnums=(0, 1, 2))(w, b, x), strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-3, atol=1e-4)


def test_loops_and_branches():
    def scan(x):
        def step(c, row):
            return c * 0.5 + row, c.sum()

        return stax.lax.scan(step, np.zeros(5, np.float32), x)

    x = X[:, :5]
    carry, sums = stax.jit(scan, backend="triton")(x)
    want, expected = scan(x)
    np.testing.assert_allclose(carry, want, rtol=1e-5)
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)

    def halve(x):
        return stax.lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x)

    y = np.abs(X[0])
    np.testing.assert_allclose(stax.jit(halve, backend="triton")(y), halve(y), rtol=1e-5)

    def choose(x, k):
        return stax.lax.cond(k > 0, lambda v: v + 1, lambda v: v * 2, x)

    for k in (0, 1):
        got = stax.jit(choose, backend="triton")(y, k)
        np.testing.assert_allclose(got, choose(y, k), rtol=1e-6)


def test_random_bits_are_those_of_numpy():
    key = stax.random.key(3)

    def draw(key):
        return stax.random.uniform(key, (33, 7)), stax.random.normal(key, (50,))

    for a, b in zip(stax.jit(draw, backend="triton")(key), draw(key), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_fallbacks_run_on_the_host():
    a = X[:9, :9] @ X[:9, :9].T + 9 * np.eye(9, dtype=np.float32)
    found = stax.jit(lambda a: np.linalg.eigvalsh(a) * 2, backend="triton")(a)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(a) * 2, rtol=1e-4)


def test_memory_is_given_back(machine):
    f = stax.jit(lambda x: stax.nn.softmax(x, -1).sum(0), backend="triton")
    f(X)
    before = len(machine.live)
    for _ in range(20):
        f(X)
    assert len(machine.live) == before


def test_device_arrays_go_in_and_out():
    f = stax.jit(lambda x: np.exp(x) + 1, backend="triton")
    y = f(f(X * 0))
    assert type(y).__name__ == "DeviceArray"
    assert (y.shape, y.dtype, y.ndim) == (X.shape, X.dtype, 2)
    np.testing.assert_allclose(y.to_numpy(), np.exp(2) + 1, rtol=1e-6)
    assert float(stax.jit(lambda x: x.sum(), backend="triton")(y)) > 0


FAR = (X + 1e4).astype(np.float32)
VARIANCES = {
    "rows": (lambda x: (x.mean(1), x.var(1), x.std()), FAR[:, :90]),
    "long rows": (lambda x: (x.mean(1), x.var(1)), np.tile(FAR[:3], (1, 200))),
    "columns": (lambda x: (x.mean(0), x.var(0)), np.tile(FAR[:, :3], (300, 1))),
    "one row in segments": (lambda x: (x.var(),), np.tile(FAR[0], 1000)),
}


@pytest.mark.parametrize("name", VARIANCES)
def test_variance_far_from_zero(name):
    f, x = VARIANCES[name]
    found = stax.jit(f, backend="triton")(x)
    for a, b in zip(found, f(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(a, b, 1e-5)


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_powers_of_integers_are_those_of_the_cpu(kind):
    limits = np.iinfo(kind)
    places = {limits.min, limits.max, limits.max // 2 + 1, 0, 1, 2, 3, 7, -1 if limits.min else 1}
    x, y = (m.copy() for m in np.meshgrid(*[np.array(sorted(places), kind)] * 2))
    wanted = stax.jit(lambda x, y: x**y)(x, y)  # negative powers too, which NumPy refuses
    np.testing.assert_array_equal(stax.jit(lambda x, y: x**y, backend="triton")(x, y), wanted)
    check(lambda x, y: x**y, x[y[:, 0] >= 0], y[y[:, 0] >= 0])


@pytest.mark.parametrize("n", [0, 5, -3, 2**31, -(2**31), 2**40 + 1, 2**62])
def test_integer_powers_have_all_their_bits(n):
    x = np.array([1 + 1e-7, 1, -1, 1 - 1e-7, -1 - 1e-7])
    found = stax.jit(lambda x: stax.lax.integer_pow(x, n), backend="triton")(x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, x ** float(n), rtol=1e-5)


def test_every_type_becomes_every_other():
    kinds = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 bfloat16 f4 f8".split()
    numbers = np.array([0, 1, 2, 3, 100, 1 + 2**-8 + 2**-40, 0.5, 7])
    for kind in kinds:
        own = numbers.astype(np.dtype(bfloat16 if kind == "bfloat16" else kind))
        check(lambda x: [x.astype(bfloat16 if k == "bfloat16" else k) for k in kinds], own)


@pytest.mark.parametrize(
    "function",
    [
        contracted_log,
        contracted_log1p,
        contracted_erf,
        contracted_erfinv,
        contracted_exp,
        contracted_tan,
    ],
    ids=lambda f: f.__name__,
)
def test_functions_of_random_numbers_give_the_same_bits(function):
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-45]
    even = RNG.uniform(-1, 1, 3000).astype(np.float32)
    patterns = RNG.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    near = [even, 4 * even, even / 2**12, 1 - even / 2**18]
    x = np.concatenate([np.float32(special), *near, patterns])
    found = np.asarray(stax.jit(function, backend="triton")(x))
    np.testing.assert_array_equal(found, function(x))
    wide = even.astype(np.float64)
    check(function, wide, rtol=1e-12, atol=1e-12)


def test_powers_and_contracted_sums_give_the_same_bits():
    corners = np.float32([0, -0.0, 1, -1, 2, -2, 0.5, -3, 1e30, np.inf, -np.inf, np.nan])
    x, y = (v.ravel() for v in np.meshgrid(corners, corners))
    patterns = RNG.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    even = RNG.uniform(0, 3, 3000).astype(np.float32)
    x, y = np.concatenate([x, even, patterns]), np.concatenate([y, even[::-1], even])
    for function, operands in (
        (contracted_power, (x, y)),
        (contracted_fma, (even, even[::-1], patterns)),
    ):
        found = np.asarray(stax.jit(function, backend="triton")(*operands))
        np.testing.assert_array_equal(found, function(*operands))
        wide = (even.astype(np.float64) for _ in operands)
        check(function, *wide, rtol=1e-12, atol=1e-12)
