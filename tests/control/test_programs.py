"""Compiled loops: one program, no Python per step, updates in place, speed of scalar loops."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import OutOfBoundsError


def strict_jit(f: Any) -> Any:
    return stax.jit(f, strict=True)


def lstm_loss(scan: Any, params: Any, xs: Any) -> Any:
    wx, wh, b = params
    n = wh.shape[0]

    def gate(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        z = x @ wx + h @ wh + b
        i, f, g, o = z[:, :n], z[:, n : 2 * n], z[:, 2 * n : 3 * n], z[:, 3 * n :]
        c = gate(f) * c + gate(i) * np.tanh(g)
        h = gate(o) * np.tanh(c)
        return (h, c), h

    start = np.zeros((xs.shape[1], n), xs.dtype)
    _, hs = scan(cell, (start, start), xs)
    return np.mean(hs * hs)


def unrolled(f: Any, carry: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.stack(ys)


def test_lstm_forward_and_backward_is_one_compiled_program() -> None:
    random = np.random.default_rng(0)
    params = [0.3 * random.standard_normal(s) for s in ((6, 32), (8, 32), (32,))]
    xs = random.standard_normal((128, 4, 6))
    step = strict_jit(stax.value_and_grad(lambda p, x: lstm_loss(lax.scan, p, x)))
    lowered = step.lower(params, xs)
    assert not lowered.fallbacks
    assert len(lowered.kernels) <= 20
    value, grads = step(params, xs)
    want, want_grads = stax.value_and_grad(lambda p, x: lstm_loss(unrolled, p, x))(params, xs)
    np.testing.assert_allclose(value, want, rtol=1e-12)
    for got, expected in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13)


def test_weight_gradient_of_a_scan_is_one_product() -> None:
    def loss(w: Any, xs: Any) -> Any:
        return np.sum(lax.scan(lambda h, x: (np.tanh(x @ w + h), None), np.zeros((4, 5)), xs)[0])

    graph = strict_jit(stax.grad(loss)).lower(np.ones((3, 5)), np.ones((7, 4, 3))).prepared
    product = next(e for e in graph.eqns if e.op == "dot_general")
    assert [a.shape for a in product.inputs] == [(7, 4, 3), (7, 4, 5)]


def test_a_million_scalar_steps() -> None:
    @strict_jit
    def run(n: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.999999 + 1.0), (0, 1.0)
        )

    count, total = run(1_000_000)
    assert count == 1_000_000
    assert total == pytest.approx(1e6 * (1 - 0.999999**1_000_000) + 0.999999**1_000_000, rel=1e-9)
    best = min(timed(run, 1_000_000) for _ in range(5))
    assert best < 0.05  # 2 ms on an idle core; Python alone would take a second


def python_calls(f: Any, *args: Any) -> int:
    """How many functions, of Python or C, are called from Python while `f(*args)` runs."""
    count = 0

    def seen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return count


def collatz(n: Any) -> Any:
    return np.where(n % 2 == 0, n // 2, 3 * n + 1)


SCALAR_STEPS = {
    "collatz": (collatz, np.int64(27)),
    "int32": (lambda n: n * np.int32(1664525) % np.int32(1000) + n // np.int32(7), np.int32(3)),
    "logistic": (lambda x: 3.7 * x * (1 - x), 0.3),
    "float32": (lambda x: np.float32(3.7) * x * (1 - x), np.float32(0.3)),
    "transcendental": (lambda x: np.sin(x) * np.exp(-x), 0.5),
    "complex": (lambda z: z * z + 0.1j, 0.2 + 0.1j),
    "vector": (lambda v: np.stack([v[1], v[2], v[0] * 0.5]), np.array([1.0, 2.0, 3.0])),
    "bins": (lambda t: t.at[t[0] % 4].add(1), np.arange(4)),
}


@pytest.mark.parametrize("name", SCALAR_STEPS)
def test_no_python_per_step(name: str) -> None:
    """A loop of 20,000 steps makes as many Python calls as one of 20."""
    step, start = SCALAR_STEPS[name]

    @strict_jit
    def run(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, c: step(c), x)

    run(1, start)
    few = python_calls(run, 20, start)
    assert python_calls(run, 20_000, start) == few
    expected = start
    for _ in range(20):
        expected = step(expected)
    np.testing.assert_allclose(run(20, start), expected, rtol=1e-12 if name != "float32" else 1e-5)


def test_whole_divisions_by_numbers_are_not_calls() -> None:
    """Called out of line they would divide, ten times as slow as the shift or product they are."""
    x = np.int64(7)
    run = strict_jit(lambda x: lax.fori_loop(0, 9, lambda i, c: collatz(c) + (c % 10) // 3, x))
    text = run.lower(x).as_text("source")
    assert "stax_mod_i64(" in text
    assert not re.search(r"(call|lone)_mod_i64\(", text)
    by_carry = strict_jit(lambda x: lax.fori_loop(0, 9, lambda i, c: c + 7 % (c * c + 1), x))
    assert "lone_mod_i64(" in by_carry.lower(x).as_text("source")


@pytest.mark.parametrize(
    ("dtype", "divisor"),
    [
        (dtype, divisor)
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64)
        for divisor in (1, 2, 8, 64, 3, 10, -1, -4)
        if divisor >= np.iinfo(dtype).min
    ],
)
def test_whole_division_by_numbers(dtype: Any, divisor: int) -> None:
    info = np.iinfo(dtype)
    d = dtype(divisor)
    x = np.array([info.min, info.min + 1, 0, 1, 5, 63, 64, 65, info.max - 1, info.max], dtype)
    x = np.concatenate([x, x // dtype(3), np.arange(-40, 40).astype(dtype)])
    with np.errstate(all="ignore"):
        want = [x // d, x % d, np.fmod(x, d)]
    for got, w in zip(stax.jit(lambda x: [x // d, x % d, np.fmod(x, d)])(x), want, strict=True):
        np.testing.assert_array_equal(got, w)


def timed(f: Any, *args: Any) -> float:
    start = time.perf_counter()
    f(*args)
    return time.perf_counter() - start


def test_carried_arrays_are_updated_in_place() -> None:
    @strict_jit
    def run(x: Any) -> Any:
        return lax.fori_loop(1, len(x), lambda i, c: c.at[i].set(c[i - 1] * 0.5 + c[i]), x)

    x = np.random.default_rng(0).standard_normal(5000)
    before = x.copy()
    want = x.copy()
    for i in range(1, len(x)):
        want[i] = want[i - 1] * 0.5 + want[i]
    np.testing.assert_allclose(run(x), want, rtol=1e-12)
    np.testing.assert_array_equal(x, before)
    (body,) = next(iter(run.lower(x).nested.values()))
    assert body.in_place.carried


def test_what_is_read_after_the_update_is_copied() -> None:
    @strict_jit
    def run(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            d = c.at[i].set(1.0)
            return d.at[i + 1].add(c[i]), c[i] + d[i]

        return lax.scan(step, x, np.arange(10))

    x = np.arange(12.0)
    got, seen = run(x)
    want = x.copy()
    for i in range(10):
        old = want.copy()
        want[i] = 1.0
        want[i + 1] += old[i]
        assert seen[i] == old[i] + 1.0
    np.testing.assert_array_equal(got, want)


def test_carries_that_change_places() -> None:
    @strict_jit
    def run(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 11, lambda i, c: (c[1].at[i].set(1.0), c[0].at[i].add(2.0)), (a, b))

    a, b = np.arange(12.0), np.arange(12.0) * 3
    got = run(a, b)
    for i in range(11):
        a, b = b.copy(), a.copy()
        a[i] = 1.0
        b[i] += 2.0
    np.testing.assert_array_equal(got[0], a)
    np.testing.assert_array_equal(got[1], b)


def test_chains_of_scatters_share_memory() -> None:
    @strict_jit
    def run(x: Any, i: Any) -> Any:
        y = x * 2
        y = y.at[i].set(1.0)
        return y.at[i + 1].add(2.0)

    np.testing.assert_array_equal(run(np.arange(4.0), 1), [0, 1, 6, 6])
    assert len(run.lower(np.arange(4.0), 1).in_place.base) == 2


def test_an_index_out_of_bounds_inside_a_loop_is_reported() -> None:
    run = stax.jit(lambda x, n: lax.while_loop(lambda i: i < n, lambda i: i + x[i], 0))
    assert run(np.ones(4, int), 4) == 4
    with pytest.raises(OutOfBoundsError, match="size 4"):
        run(np.ones(4, int), 6)
    assert run(np.ones(4, int), 3) == 3


def test_operations_without_compiled_code_run_inside_loops() -> None:
    def step(c: Any, x: Any) -> Any:
        return c + np.float16(0.5) * x.astype(np.float16), np.sort(x)

    xs = np.random.default_rng(0).standard_normal((3, 4))
    c, ys = stax.jit(lambda v: lax.scan(step, np.zeros(4, np.float16), v))(xs)
    np.testing.assert_array_equal(ys, np.sort(xs))
    assert c.dtype == np.float16


def test_operands_that_are_views_and_empty() -> None:
    @strict_jit
    def run(x: Any) -> Any:
        turned = x.T[::-1]
        carry, ys = lax.scan(lambda c, v: (c + v, (v * 2, v[:0])), np.zeros(3), turned)
        nothing, none = lax.scan(lambda c, v: (c + 1, v), carry, turned[:0])
        return carry, ys, nothing, none

    x = np.arange(12.0).reshape(3, 4)
    carry, (doubled, empty), nothing, none = run(x)
    np.testing.assert_array_equal(carry, x.sum(1))
    np.testing.assert_array_equal(doubled, 2 * x.T[::-1])
    np.testing.assert_array_equal(nothing, carry)
    assert empty.shape == (4, 0)
    assert none.shape == (0, 3)


def test_a_branch_is_chosen_when_the_program_runs() -> None:
    f = strict_jit(lambda k, x: lax.switch(k, [np.sin, np.cos, lambda v: v * 0 + 2], x))
    x = np.arange(3.0)
    for k, want in (
        (-5, np.sin(x)),
        (0, np.sin(x)),
        (1, np.cos(x)),
        (2, [2, 2, 2]),
        (9, [2, 2, 2]),
    ):
        np.testing.assert_allclose(f(k, x), want)
    wide = strict_jit(lambda k: lax.switch(k, [lambda: 1.0, lambda: 2.0]))
    assert wide(np.int64(2**32)) == 2.0


def test_unused_results_of_a_scan_are_not_computed() -> None:
    def f(x: Any) -> Any:
        (a, _), _ = lax.scan(lambda c, v: ((c[0] + v, np.exp(c[1])), np.sin(v)), (0.0, 1.0), x)
        return a

    eqns = [e for e in strict_jit(f).lower(np.arange(4.0)).prepared.eqns if e.op == "scan"]
    assert [e.params["carry"] for e in eqns] == [1]
    assert len(eqns[0].outputs) == 1


def test_gradients_take_memory_and_time_linear_in_the_length() -> None:
    def loss(w: Any, n: int) -> Any:
        return np.sum(lax.fori_loop(0, n, lambda i, c: np.sin(c * w), np.ones(64)))

    def temporaries(n: int) -> int:
        compiled = strict_jit(stax.grad(lambda w: loss(w, n))).lower(1.1).compile()
        return compiled.memory_analysis()["temporary_bytes"]

    assert temporaries(4096) < 3 * 4096 * 64 * 8
    assert temporaries(4096) < 5 * temporaries(1024)


@pytest.mark.parametrize("checkpoint", ["all", "sqrt"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 7, 12])
def test_checkpointed_scans(checkpoint: str, reverse: bool, length: int) -> None:
    def loss(w: Any, xs: Any, how: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = np.tanh(c * w + x)
            return c, np.exp(c)

        c, ys = lax.scan(step, np.ones(3), xs, reverse=reverse, checkpoint=how)
        return np.sum(c) + np.sum(ys * np.arange(length)[:, None])

    args = np.array([0.5, 1.0, 1.5]), np.random.default_rng(0).standard_normal((length, 3))
    want = stax.value_and_grad(lambda w, x: loss(w, x, None))(*args)
    for transform in (lambda f: f, strict_jit):
        got = transform(stax.value_and_grad(lambda w, x: loss(w, x, checkpoint)))(*args)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-10)


def test_checkpointing_saves_memory() -> None:
    def temporaries(how: Any) -> int:
        def loss(w: Any) -> Any:
            def step(c: Any, _: Any) -> Any:
                return np.sin(np.exp(np.sin(c * w)) * w), None

            return np.sum(lax.scan(step, np.ones(512), None, 256, checkpoint=how)[0])

        return (
            strict_jit(stax.grad(loss))
            .lower(np.ones(512))
            .compile()
            .memory_analysis()["temporary_bytes"]
        )

    none, every, root = temporaries(None), temporaries("all"), temporaries("sqrt")
    assert every <= none
    assert root < every / 4


@pytest.mark.parametrize(
    ("dtype", "n"), [("complex128", 3), ("int64", 6), ("float32", 12), ("complex64", 6)]
)
def test_small_carries_are_aligned_in_their_frames(dtype: str, n: int) -> None:
    turn = np.roll(np.arange(n), 1)

    def run(start: Any) -> Any:
        return lax.scan(lambda c, _: (c[turn], c), start, None, 5)

    start = np.arange(1, n + 1).astype(dtype)
    last, steps = strict_jit(run)(start)
    for step in steps:
        np.testing.assert_array_equal(step, start)
        start = start[turn]
    np.testing.assert_array_equal(last, start)
