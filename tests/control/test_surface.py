"""The meaning of loops and branches for their users: results, types, errors, batched conditions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import (
    ConcretizationError,
    DtypeError,
    MutationError,
    NonDifferentiableError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
)

MODES = {"eager": lambda f: f, "jit": functools.partial(stax.jit, strict=True)}
modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


# --- results --------------------------------------------------------------------------------------


@modes
def test_scan_of_pytrees(mode: Any) -> None:
    def run(x: Any, z: Any) -> Any:
        def step(carry: Any, v: Any) -> Any:
            new = {"total": carry["total"] + v[0], "count": carry["count"] + 1}
            return new, (new["total"], {"z": v[1]["z"] * 2})

        return lax.scan(step, {"total": 0.0, "count": 0}, (x, {"z": z}))

    x, z = np.arange(4.0), np.arange(8).reshape(4, 2)
    carry, (totals, doubled) = mode(run)(x, z)
    assert carry == {"total": 6.0, "count": 4}
    np.testing.assert_array_equal(totals, [0, 1, 3, 6])
    np.testing.assert_array_equal(doubled["z"], 2 * z)
    assert doubled["z"].dtype == z.dtype


@modes
def test_scan_without_inputs_and_in_reverse(mode: Any) -> None:
    run = mode(lambda c: lax.scan(lambda c, _: (c * 2, c), c, None, 5))
    last, seen = run(1)
    assert last == 32
    np.testing.assert_array_equal(seen, [1, 2, 4, 8, 16])
    run = mode(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x, reverse=True))
    np.testing.assert_array_equal(run(np.arange(3.0))[1], [3, 2, 0])


@modes
def test_loops_of_no_steps(mode: Any) -> None:
    carry, ys = mode(lambda x: lax.scan(lambda c, v: (c + v, v * 2), 1.5, x))(np.zeros(0))
    assert carry == 1.5
    assert ys.shape == (0,)
    assert mode(lambda n: lax.while_loop(lambda v: v < 0, lambda v: v - 1, n))(3) == 3
    assert mode(lambda x: lax.fori_loop(5, 2, lambda i, c: c + i, x))(7.0) == 7.0


@modes
def test_counted_loops(mode: Any) -> None:
    assert mode(lambda x: lax.fori_loop(0, 5, lambda i, c: c + i, x))(0.5) == 10.5
    bounds = mode(lambda a, b, x: lax.fori_loop(a, b, lambda i, c: c + i, x))
    assert bounds(2, 6, 0.0) == 14.0
    assert bounds(np.int32(2), np.int32(6), 0.0) == 14.0
    table = np.arange(5.0)
    lookup = mode(lambda t: lax.fori_loop(0, 5, lambda i, c: c + t[i], 0.0))
    assert lookup(table) == 10.0


def test_the_counter_is_a_python_integer_to_promotion() -> None:
    f = stax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c * i + 1, x))
    assert f(np.float32(1)).dtype == np.float32


def test_plain_arrays_can_be_indexed_by_the_counter_outside_jit() -> None:
    table = np.arange(5.0)
    assert lax.fori_loop(0, 5, lambda i, c: c + table[i], 0.0) == 10.0
    assert stax.grad(lambda w: lax.fori_loop(0, 5, lambda i, c: c + w * table[i], 0.0))(2.0) == 10.0


@modes
def test_weak_carries_take_the_type_of_the_body(mode: Any) -> None:
    x = np.ones(3, np.float32)
    carry, _ = mode(lambda x: lax.scan(lambda c, v: (c + v, None), 0, x))(x)
    assert carry == 3
    assert carry.dtype == np.float32
    grown = mode(lambda n: lax.while_loop(lambda v: v < 9, lambda v: v + 1.5, 0))(1)
    assert grown.dtype == np.float64
    total = mode(lambda x: lax.fori_loop(0, 2, lambda i, c: (c[0] + c[1], c[1]), (0.0, x[0])))(x)
    assert [t.dtype for t in total] == [np.float32, np.float32]
    kept = mode(lambda x: lax.scan(lambda c, v: (0.0, c), x[0], x)[0])(x)
    assert kept.dtype == np.float32


@modes
def test_cond_and_switch(mode: Any) -> None:
    f = mode(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v * 2, x))
    assert f(True, 3.0) == 4.0
    assert f(False, 3.0) == 6.0
    assert f(0.0, 3.0) == 6.0
    g = mode(lambda p, x: lax.cond(p > 0, lambda: {"a": x}, lambda: {"a": np.float32(1)}))
    assert g(1.0, np.float32(3))["a"] == 3
    h = mode(lambda k: lax.switch(k, [lambda: 1.0, lambda: 2.0, lambda: 3.0]))
    assert [float(h(k)) for k in (-1, 0, 1, 2, 3)] == [1, 1, 2, 3, 3]
    mixed = mode(lambda p, x: lax.cond(p, lambda v: v, lambda v: 0.0, x))
    assert mixed(False, np.float32(2)).dtype == np.float32
    assert mode(lambda p: lax.cond(p, lambda v: v, lambda v: -v, operand=2.0))(True) == 2.0


def test_results_share_no_memory_with_arguments() -> None:
    x = np.arange(3.0)
    same, ys = lax.scan(lambda c, v: (c, v), x, x)
    assert not np.shares_memory(same, x)
    assert not np.shares_memory(ys, x)
    assert not np.shares_memory(lax.cond(True, lambda v: v, lambda v: v, x), x)


@modes
def test_map(mode: Any) -> None:
    x = np.arange(14.0).reshape(7, 2)
    np.testing.assert_array_equal(mode(lambda x: lax.map(np.sum, x))(x), x.sum(1))
    f = mode(lambda x: lax.map(lambda v: {"s": np.sum(v)}, x, batch_size=3))
    np.testing.assert_array_equal(f(x)["s"], x.sum(1))
    np.testing.assert_array_equal(lax.map(np.sum, x, batch_size=20), x.sum(1))


@modes
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13])
def test_associative_scan(mode: Any, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 2))
    run = mode(lambda v: lax.associative_scan(np.add, v))
    np.testing.assert_allclose(run(x), np.cumsum(x, 0), rtol=1e-12)
    back = mode(lambda v: lax.associative_scan(np.maximum, v, reverse=True, axis=0))
    np.testing.assert_array_equal(back(x), np.maximum.accumulate(x[::-1], 0)[::-1])


def test_associative_scan_of_a_linear_recurrence() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 3, 6))

    def combine(left: Any, right: Any) -> Any:
        return right[0] * left[0], right[0] * left[1] + right[1]

    _, got = lax.associative_scan(combine, (a, b), axis=-1)
    state, want = np.zeros(3), np.empty_like(b)
    for t in range(6):
        state = a[:, t] * state + b[:, t]
        want[:, t] = state
    np.testing.assert_allclose(got, want, rtol=1e-12)
    text = str(stax.make_ir(lambda a, b: lax.associative_scan(combine, (a, b), axis=-1))(a, b))
    assert text.count(" = mul(") <= 16


# --- batched conditions ---------------------------------------------------------------------------


@modes
def test_vmapped_cond_agrees_with_single_examples(mode: Any) -> None:
    def f(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p > 0, lambda a: np.sin(a) + y, lambda a: a * a, x)

    random = np.random.default_rng(0)
    p, x, y = random.standard_normal((3, 5))
    want = [f(*v) for v in zip(p, x, y, strict=True)]
    np.testing.assert_allclose(mode(stax.vmap(f))(p, x, y), want, rtol=1e-14)
    for q in (1.0, -1.0):
        want = [f(q, *v) for v in zip(x, y, strict=True)]
        got = mode(stax.vmap(f, in_axes=(None, 0, 0)))(q, x, y)
        np.testing.assert_allclose(got, want, rtol=1e-14)


def collatz(n: Any) -> Any:
    def step(carry: Any) -> Any:
        v, count = carry
        return lax.cond(v % 2 == 0, lambda k: k // 2, lambda k: 3 * k + 1, v), count + 1

    return lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]


@modes
def test_vmapped_while_agrees_with_single_examples(mode: Any) -> None:
    numbers = np.array([1, 2, 3, 7, 27, 97])
    want = [0, 1, 7, 16, 111, 118]
    np.testing.assert_array_equal(mode(stax.vmap(collatz))(numbers), want)
    assert [mode(collatz)(n) for n in numbers] == want


@modes
def test_finished_lanes_do_not_read_out_of_bounds(mode: Any) -> None:
    def total(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + x[c[0]]), (0, 0.0))[1]

    x = np.arange(4.0)
    lengths = np.array([0, 1, 4])
    got = mode(stax.vmap(total, in_axes=(None, 0)))(x, lengths)
    np.testing.assert_array_equal(got, [0, 0, 6])


@modes
def test_forward_derivative_of_a_while_loop(mode: Any) -> None:
    def power(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]

    f = mode(lambda x, n: stax.jvp(lambda v: power(v, n), (x,), (1.0,)))
    assert f(3.0, 4) == (81.0, 108.0)
    g = mode(stax.vmap(lambda x, n: stax.jvp(lambda v: power(v, n), (x,), (1.0,))[1]))
    np.testing.assert_allclose(g(np.array([3.0, 2.0]), np.array([4, 3])), [108.0, 12.0])
    assert stax.jacfwd(lambda v: power(v, 4))(3.0) == 108.0


def test_integer_while_loops_inside_gradients() -> None:
    def f(x: Any, n: Any) -> Any:
        steps = lax.while_loop(lambda k: k * k < n, lambda k: k + 1, 0)
        return x**2 * steps

    assert stax.grad(f)(3.0, 10) == 24.0
    assert stax.jit(stax.grad(f))(3.0, 10) == 24.0


# --- errors ---------------------------------------------------------------------------------------


@modes
@pytest.mark.parametrize("inside", [lambda f: f, stax.jit], ids=["plain", "jit"])
def test_reverse_mode_of_a_while_loop_names_the_way_out(mode: Any, inside: Any) -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v < 10.0, lambda v: v * x, x)

    with pytest.raises(NonDifferentiableError, match="fori_loop with static bounds or scan"):
        mode(stax.grad(inside(f)))(2.0)


@modes
def test_a_carry_keeps_its_type(mode: Any) -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(DtypeError, match=r"carry\[1\]"):
        mode(lambda x: lax.scan(lambda c, v: ((v, c[1].astype(np.float64)), None), (x[0], x), x))(x)
    with pytest.raises(ShapeError, match="carry"):
        mode(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: np.stack([c, c]), x))(x)
    with pytest.raises(DtypeError, match="carry"):
        mode(lambda x: lax.fori_loop(0, 3, lambda i, c: c.astype(np.int32), x))(x)
    with pytest.raises(PytreeError, match="structure"):
        mode(lambda x: lax.fori_loop(0, 3, lambda i, c: (c, c), x))(x)
    with pytest.raises(PytreeError, match="structure"):
        mode(lambda x: lax.scan(lambda c, v: ([c], v), x, x))(x)


@modes
@pytest.mark.parametrize("checkpoint", [None, "all", "sqrt", stax.Binomial(slots=2), "traced"])
def test_a_counted_loop_speaks_of_its_own_carry(mode: Any, checkpoint: Any) -> None:
    """Whatever it is made of, under its own name and without the counter beside the value."""
    x = np.ones(3, np.float32)

    def loop(body: Any) -> Any:
        def run(x: Any, n: Any) -> Any:
            if checkpoint == "traced":
                return lax.fori_loop(0, n, body, {"a": x})
            return lax.fori_loop(0, 9, body, {"a": x}, checkpoint=checkpoint)

        return mode(run)(x, 9)

    with pytest.raises(ShapeError, match=r"fori_loop: the carry must keep .* carry\['a'\]"):
        loop(lambda i, v: {"a": v["a"].sum()})
    with pytest.raises(DtypeError, match=r"fori_loop: the carry must keep .* carry\['a'\]"):
        loop(lambda i, v: {"a": v["a"].astype(np.int32)})
    with pytest.raises(PytreeError, match=r"fori_loop.*starts as \S*\{'a': \*\}\)?, "):
        loop(lambda i, v: v["a"])


@modes
def test_a_scan_body_returns_a_pair(mode: Any) -> None:
    with pytest.raises(PytreeError, match="pair"):
        mode(lambda x: lax.scan(lambda c, v: c + v, 0.0, x))(np.ones(3))


def test_scan_needs_one_length() -> None:
    with pytest.raises(ShapeError, match="length"):
        lax.scan(lambda c, v: (c, None), 0.0, (np.ones(3), np.ones(4)))
    with pytest.raises(ShapeError, match="length=2"):
        lax.scan(lambda c, v: (c, None), 0.0, np.ones(3), length=2)
    with pytest.raises(ShapeError, match="xs or length"):
        lax.scan(lambda c, v: (c, None), 0.0)
    with pytest.raises(ShapeError, match="leading axis"):
        lax.scan(lambda c, v: (c, None), 0.0, [1.0, 2.0])
    with pytest.raises(StaticArgumentError, match="checkpoint"):
        lax.scan(lambda c, v: (c, None), 0.0, np.ones(3), checkpoint="some")


@modes
def test_branches_agree(mode: Any) -> None:
    x = np.ones(3)
    with pytest.raises(PytreeError, match="structure"):
        mode(lambda p, x: lax.cond(p, lambda v: v, lambda v: (v, v), x))(True, x)
    with pytest.raises(ShapeError, match="differs"):
        mode(lambda p, x: lax.cond(p, lambda v: v, lambda v: v.sum(), x))(True, x)
    with pytest.raises(DtypeError, match="differs"):
        mode(lambda p, x: lax.cond(p, lambda v: v, lambda v: v.astype(np.float32), x))(True, x)
    with pytest.raises(ShapeError, match="scalar"):
        mode(lambda p, x: lax.cond(p > 0, np.sin, np.cos, x))(x, x)
    with pytest.raises(DtypeError, match="integer"):
        mode(lambda k, x: lax.switch(k, [np.sin, np.cos], x))(1.5, x)
    with pytest.raises(TypeError, match="function"):
        lax.cond(True, np.sin, 3.0, x)


@modes
def test_a_condition_is_a_boolean_scalar(mode: Any) -> None:
    with pytest.raises(DtypeError, match="boolean scalar"):
        mode(lambda x: lax.while_loop(lambda c: c, lambda c: c - 1, x))(3.0)
    with pytest.raises(DtypeError, match="boolean scalar"):
        mode(lambda x: lax.while_loop(lambda c: c > 0, lambda c: c - 1, x))(np.ones(3))
    with pytest.raises(DtypeError, match="integer scalar"):
        mode(lambda x: lax.fori_loop(0, x, lambda i, c: c, 0))(2.5)


def test_python_control_flow_on_a_carry_is_refused_in_jit() -> None:
    def step(c: Any, v: Any) -> Any:
        return (c if c > 0 else v), None

    assert lax.scan(step, 0.0, np.ones(3))[0] == 1.0
    with pytest.raises(ConcretizationError):
        stax.jit(lambda x: lax.scan(step, 0.0, x))(np.ones(3))


def test_writes_into_the_carry_are_refused() -> None:
    def step(c: Any, v: Any) -> Any:
        c[0] = v
        return c, None

    x = np.zeros(3)
    with pytest.raises((MutationError, ValueError)):
        lax.scan(step, x, np.ones(3))
    with pytest.raises(MutationError):
        stax.jit(lambda x: lax.scan(step, x, np.ones(3)))(x)
    np.testing.assert_array_equal(x, 0)
