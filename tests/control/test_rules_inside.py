"""What loop bodies may hold: functions with their own rules, jit, collectives, long loops; text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import lax
from stax.core.graph import check_graph
from stax.core.text import parse_graph


@stax.custom_vjp
def scaled_gradient(x: Any) -> Any:
    return np.sin(x)


scaled_gradient.defvjp(lambda x: (np.sin(x), x), lambda x, g: (10 * g * np.cos(x),))


@stax.custom_jvp
def chosen_tangent(x: Any) -> Any:
    return np.sin(x)


chosen_tangent.defjvp(lambda p, t: (np.sin(p[0]), 7 * t[0]))

RULES = {
    "custom_vjp": scaled_gradient,
    "custom_jvp": chosen_tangent,
    "checkpoint": stax.checkpoint(lambda x: np.sin(np.sin(x))),
    "jit": stax.jit(lambda x: np.sin(np.sin(x))),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_survive_loops_and_branches(name: str) -> None:
    f = RULES[name]

    def looped(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return lax.cond(v > 0, lambda a: f(a * v), lambda a: a + v, c), None

        return lax.scan(step, 1.0, x)[0]

    def unrolled(x: Any) -> Any:
        c: Any = 1.0
        for k, sign in enumerate((1, -1, 1)):
            c = f(c * x[k]) if sign > 0 else c + x[k]
        return c

    x = np.array([1.0, -0.25, 0.5])
    want = stax.grad(unrolled)(x)
    for g in (stax.grad(looped), stax.jit(stax.grad(looped)), stax.grad(stax.jit(looped))):
        np.testing.assert_allclose(g(x), want, rtol=1e-12)
    both = stax.vmap(stax.grad(looped))(np.stack([x, x]))
    np.testing.assert_allclose(both, [want, want], rtol=1e-12)


@pytest.mark.parametrize("mode", [lambda f: f, stax.jit], ids=["eager", "jit"])
def test_collectives_inside_loops(mode: Any) -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, v: (c + lax.psum(v, "i"), None), 0.0, x)[0]

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(mode(stax.vmap(f, axis_name="i"))(x), [15, 15])


def test_transpose_of_loops_with_carries_that_are_known() -> None:
    def f(t: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return (c[0] * c[1], c[1] + v), c[0] * v

        (a, _), ys = lax.scan(step, (t, 1.0), np.arange(4.0))
        return a + np.sum(ys)

    (got,) = stax.linear_transpose(f, 1.0)(2.0)
    assert got == pytest.approx(2 * f(1.0))
    (got,) = stax.jit(lambda ct: stax.linear_transpose(f, 1.0)(ct))(2.0)
    assert got == pytest.approx(2 * f(1.0))


def test_text_of_loops_is_read_back() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            c = lax.cond(v > 0, lambda a: np.sin(a) * v, lambda a: a, c)
            return lax.while_loop(lambda a: a < 1, lambda a: a * 1.5 + 1, c), v

        return lax.scan(step, 1.0, x)

    graph = stax.make_ir(f)(np.arange(3.0))
    check_graph(graph)
    assert parse_graph(str(graph)) == graph
    backward = stax.make_ir(
        stax.grad(lambda x: lax.scan(lambda c, v: (np.sin(c * v), None), 1.0, x)[0])
    )(np.arange(3.0))
    check_graph(backward)
    assert parse_graph(str(backward)) == backward
    scans = [e for e in backward.eqns if e.op == "scan"]
    assert [e.phase for e in scans] == ["forward", "backward"]
    assert [e.params["reverse"] for e in scans] == [False, True]


def test_the_gradient_of_an_indexed_read_touches_few_elements() -> None:
    def f(w: Any, places: Any) -> Any:
        return lax.scan(lambda s, i: (s + np.sin(w[i]) * w[i + 1], None), 0.0, places)[0]

    w, places = np.random.default_rng(0).standard_normal(40), np.array([3, 5, 3, 7])
    graph = stax.make_ir(stax.grad(f))(w, places)
    body = [e for e in graph.eqns if e.op == "scan"][-1].params["body"]
    assert [e.op for e in body.eqns].count("scatter") == 2
    assert all(e.outputs[0].shape != (40,) for e in body.eqns if e.op == "add")
    want = np.zeros(40)
    for k in places:
        want[k] += np.cos(w[k]) * w[k + 1]
        want[k + 1] += np.sin(w[k])
    np.testing.assert_allclose(stax.grad(f)(w, places), want, rtol=1e-12)
    np.testing.assert_allclose(stax.jit(stax.grad(f))(w, places), want, rtol=1e-12)


def test_a_scan_keeps_elements_instead_of_whole_carries() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(
            1, len(x), lambda i, c: c.at[i].set(np.sin(c[i - 1]) * 0.5 + c[i]), x
        ).sum()

    graph = stax.make_ir(stax.grad(f))(np.ones(500))
    stacked = [v.shape for e in graph.eqns if e.op == "scan" for v in e.outputs]
    assert (499, 500) not in stacked
    step = stax.jit(stax.grad(f), strict=True)
    np.testing.assert_allclose(step(np.ones(500)), stax.grad(f)(np.ones(500)), rtol=1e-12)
    assert all(p.in_place.carried for ps in step.lower(np.ones(500)).nested.values() for p in ps)


def test_long_loops_outside_jit() -> None:
    def advance(c: Any) -> Any:
        return c[0] + 1, c[1] * 0.5 + 1.0

    count, value = lax.while_loop(lambda c: c[0] < 30_000, advance, (0, 1.0))
    assert (int(count), float(value)) == (30_000, 2.0)
    total, seen = lax.scan(lambda c, v: (c + v, c), 0, np.arange(20_000))
    assert total == 20_000 * 19_999 // 2
    assert seen[3] == 3
    wide = lax.scan(lambda c, _: (c, None), np.float16(1), None, 20_000)[0]
    assert wide.dtype == np.float16


def test_a_while_loop_over_plain_arrays() -> None:
    table = np.arange(5.0)
    _, total = lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + table[c[0]]), (0, 0.0)
    )
    assert total == 10.0
