"""Derivative rules of the user's are kept by every transformation and at second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from stax.testing import check_grads

Wrap = Callable[[Any], Any]
WRAPS: dict[str, Wrap] = {
    "plain": lambda f: f,
    "checkpoint": stax.checkpoint,
    "nested checkpoint": lambda f: stax.checkpoint(lambda *a: stax.checkpoint(f)(*a)),
}


@stax.custom_jvp
def cube(x: Any) -> Any:
    return x**3


cube.defjvp(lambda p, t: (cube(p[0]), 3 * p[0] ** 2 * t[0]))


@stax.custom_vjp
def scaled(x: Any) -> Any:
    return x


scaled.defvjp(lambda x: (x, None), lambda _, ct: (10.0 * ct,))


@stax.custom_vjp
def product(x: Any, y: Any) -> Any:
    return x * np.sin(y)


product.defvjp(
    lambda x, y: (x * np.sin(y), (x, y)),
    lambda r, ct: (ct * np.sin(r[1]), ct * r[0] * np.cos(r[1])),
)


@pytest.fixture(params=list(WRAPS))
def wrap(request: pytest.FixtureRequest) -> Wrap:
    return WRAPS[request.param]


def test_custom_jvp_to_third_order(wrap: Wrap) -> None:
    f = wrap(cube)
    assert f(2.0) == 8.0
    assert stax.grad(f)(2.0) == 12.0
    assert stax.grad(stax.grad(f))(2.0) == 12.0
    assert stax.grad(stax.grad(stax.grad(f)))(2.0) == 6.0
    assert stax.jvp(f, (2.0,), (1.0,)) == (8.0, 12.0)
    assert stax.hvp(f, (2.0,), (5.0,)) == (60.0,)
    x = np.arange(3.0)
    np.testing.assert_array_equal(stax.vmap(stax.grad(f))(x), 3 * x**2)
    (g,) = stax.vjp(stax.vmap(f), x)[1](np.ones(3))
    np.testing.assert_array_equal(g, 3 * x**2)
    np.testing.assert_array_equal(stax.jacfwd(f)(x), np.diag(3 * x**2))
    np.testing.assert_array_equal(stax.jacrev(f)(x), np.diag(3 * x**2))
    check_grads(f, (x,), 3)


def test_custom_vjp_to_second_order(wrap: Wrap) -> None:
    assert stax.grad(wrap(scaled))(1.0) == 10.0
    x = np.arange(3.0)
    np.testing.assert_array_equal(
        stax.vmap(stax.grad(lambda v: wrap(scaled)(v) * 2.0))(x), [20.0] * 3
    )
    check_grads(wrap(product), (2.0, 0.5), 2)
    found = stax.hessian(wrap(product), (0, 1))(2.0, 0.5)
    want = stax.hessian(lambda x, y: x * np.sin(y), (0, 1))(2.0, 0.5)
    np.testing.assert_allclose(found, want)
    _, pull = stax.vjp(stax.vmap(wrap(product), (0, None)), x, 0.5)
    gx, gy = pull(np.ones(3))
    np.testing.assert_allclose(gx, np.sin([0.5] * 3))
    np.testing.assert_allclose(gy, np.cos(0.5) * 3.0)


def test_rules_survive_staging(wrap: Wrap) -> None:
    graph = stage_and_run(lambda x: stax.grad(wrap(cube))(x), 2.0)
    assert graph == 12.0
    assert stage_and_run(lambda x: stax.grad(wrap(scaled))(x), 2.0) == 10.0
    assert stage_and_run(lambda x: stax.hvp(wrap(cube), (x,), (5.0,))[0], 2.0) == 60.0


def stage_and_run(f: Any, x: float) -> Any:
    """Record `f`, simplify the graph with its calls in place, and interpret it."""
    from_ir = stax.make_ir(f)(x)
    return run_graph(from_ir, [x])[0]


def run_graph(graph: Any, args: list[Any]) -> list[Any]:
    stax.core.graph.check_graph(graph)
    flat = stax.transforms.simplify.simplify(stax.transforms.simplify.inline_calls(graph))
    stax.core.graph.check_graph(flat)
    plain = stax.core.staging.eval_graph(graph, args)
    np.testing.assert_array_equal(stax.core.staging.eval_graph(flat, args), plain)
    return plain


def test_a_rule_recorded_and_differentiated_later() -> None:
    graph = stax.make_ir(lambda x: cube(x) + product(x, scaled(x)))(2.0)
    run = lambda x: stax.core.staging.eval_graph(graph, [x])[0]
    want = 12.0 + np.sin(2.0) + 10 * 2.0 * np.cos(2.0)
    assert stax.grad(run)(2.0) == pytest.approx(want)
    np.testing.assert_allclose(stax.vmap(stax.grad(run))(np.array([2.0, 2.0])), [want, want])
    assert stax.grad(lambda x: stax.vmap(run)(x[None])[0])(np.float64(2.0)) == pytest.approx(want)


def test_nondiff_arguments_defaults_and_keywords() -> None:
    def apply(f: Any, x: Any, n: int = 2) -> Any:
        return f(x) * n

    g = stax.custom_jvp(apply, nondiff_argnums=(0, 2))
    g.defjvp(lambda f, n, p, t: (f(p[0]) * n, -1.0 * t[0]))
    assert stax.grad(lambda x: g(np.sin, x))(0.3) == -1.0
    assert g(np.sin, x=0.3, n=3) == pytest.approx(3 * np.sin(0.3))
    h = stax.custom_vjp(apply, nondiff_argnums=(0,), nondiff_argnames=("n",))
    h.defvjp(lambda f, x, n: (f(x) * n, x), lambda f, n, r, ct: (ct * r * n,))
    assert stax.grad(lambda x: h(np.sin, x, n=4))(0.5) == 2.0


def test_defjvps_and_pytrees() -> None:
    f = stax.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: 2.0 * t * y, None)
    assert stax.grad(f, (0, 1))(3.0, 4.0) == (8.0, 0.0)
    g = stax.custom_vjp(lambda p: {"s": p["a"] * p["b"]})
    g.defvjp(lambda p: (g(p), p), lambda p, ct: ({"a": ct["s"] * p["b"], "b": None},))
    found = stax.grad(lambda p: g(p)["s"])({"a": 2.0, "b": 5.0})
    assert found == {"a": 5.0, "b": 0.0}


def test_control_flow_in_rules_sees_numbers() -> None:
    @stax.custom_jvp
    def f(x: Any) -> Any:
        return abs(float(x)) * 1.0 if x < 0 else x

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), (7.0 * t if x < 0 else 3.0 * t)

    assert stax.grad(f)(-2.0) == 7.0
    assert stax.grad(f)(2.0) == 3.0
    assert stax.grad(lambda x: stax.grad(f)(x) * x)(2.0) == 3.0


def test_rule_using_another_transformation() -> None:
    f = stax.custom_jvp(np.sin)
    f.defjvp(lambda p, t: stax.jvp(stax.checkpoint(np.cos), p, t))
    assert stax.grad(f)(0.3) == pytest.approx(-np.sin(0.3))
    assert stax.grad(stax.checkpoint(f))(0.3) == pytest.approx(-np.sin(0.3))


def test_custom_gradient_and_closure_convert() -> None:
    @stax.custom_gradient
    def f(x: Any) -> Any:
        y = x * x
        return y, lambda ct: (5.0 * ct * x,)

    assert f(3.0) == 9.0
    assert stax.grad(f)(3.0) == 15.0
    assert stax.grad(stax.checkpoint(f))(3.0) == 15.0
    np.testing.assert_array_equal(stax.vmap(stax.grad(f))(np.arange(3.0)), [0.0, 5.0, 10.0])

    def outer(x: Any) -> Any:
        converted, consts = stax.closure_convert(lambda y: x * y, 2.0)
        assert len(consts) == 1
        return converted(4.0, *consts)

    assert stax.grad(outer)(3.0) == 4.0


def test_errors_of_rules() -> None:
    f = stax.custom_jvp(lambda x: x)
    with pytest.raises(errors.CustomDerivativeError, match="defjvp"):
        f(1.0)
    f.defjvp(lambda p, t: p[0])
    with pytest.raises(errors.CustomDerivativeError, match="pair"):
        stax.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0], np.ones(3)))
    with pytest.raises(errors.CustomDerivativeError, match="tangent"):
        stax.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0] + t[0], t[0]))
    with pytest.raises(errors.CustomDerivativeError, match="depends on the tangents"):
        stax.grad(f)(1.0)
    g = stax.custom_vjp(lambda x: x)
    with pytest.raises(errors.CustomDerivativeError, match="defvjp"):
        g(1.0)
    g.defvjp(lambda x: (x, None), lambda r, ct: ct)
    with pytest.raises(errors.CustomDerivativeError, match="tuple of 1"):
        stax.grad(g)(1.0)
    g.defvjp(lambda x: (x, None), lambda r, ct: (np.ones(2),))
    with pytest.raises(errors.CustomDerivativeError, match="expected"):
        stax.grad(g)(1.0)
    g.defvjp(lambda x: (x, None), lambda r, ct: (ct * ct,))
    with pytest.raises(errors.NonDifferentiableError, match="custom_jvp"):
        stax.jvp(g, (1.0,), (1.0,))
    with pytest.raises(errors.CustomDerivativeError, match="nope"):
        stax.custom_jvp(lambda x: x, nondiff_argnames="nope")


def test_symbolic_zeros_reach_rules_on_demand() -> None:
    seen: list[Any] = []

    @stax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        seen[:] = [isinstance(t, SymbolicZero) for t in tangents]
        (x, y), (tx, ty) = primals, tangents
        if isinstance(ty, SymbolicZero):
            assert (ty.shape, ty.dtype) == (np.shape(y), np.float64)
            return x * y, (SymbolicZero(tx.aval) if isinstance(tx, SymbolicZero) else tx * y)
        return x * y, x * ty + (tx.instantiate() if isinstance(tx, SymbolicZero) else tx * y)

    f.defjvp(rule, symbolic_zeros=True)
    assert stax.grad(f)(2.0, 3.0) == 3.0
    assert seen == [False, True]
    assert stax.grad(f, 1)(2.0, 3.0) == 2.0
    assert seen == [True, False]
    (g,) = stax.vjp(stax.vmap(lambda x: f(x, 3.0)), np.arange(2.0))[1](np.ones(2))
    np.testing.assert_array_equal(g, [3.0, 3.0])
    assert seen == [False, True]


def test_symbolic_zeros_of_custom_vjp() -> None:
    seen: list[Any] = []

    @stax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y, x + y

    def fwd(x: Any, y: Any) -> Any:
        seen[:] = [x.perturbed, y.perturbed]
        x, y = custom_vjp_primal_tree_values((x, y))
        return (x * y, x + y), (x, y)

    def bwd(kept: Any, cts: Any) -> Any:
        x, y = kept
        a, b = cts
        seen.extend(isinstance(c, SymbolicZero) for c in cts)
        b = b.instantiate() if isinstance(b, SymbolicZero) else b
        return a * y + b, a * x + b

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert stax.grad(lambda x: f(x, 3.0)[0])(2.0) == 3.0
    assert seen == [True, False, False, True]
    mapped = stax.vmap(lambda x: f(x, 3.0)[0])
    (g,) = stax.vjp(mapped, np.arange(2.0))[1](np.ones(2))
    np.testing.assert_array_equal(g, [3.0, 3.0])
    assert zero_from_primal(np.float32(2)).dtype == np.float32
    assert isinstance(zero_from_primal(2.0, symbolic_zeros=True), SymbolicZero)


@pytest.mark.parametrize("nested", [lambda f: f, stax.jit, lambda f: stax.jit(stax.checkpoint(f))])
def test_forward_mode_of_a_compiled_custom_vjp(nested: Any) -> None:
    @stax.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x * x * ct,))
    f = nested(lambda x: cube(x).sum())
    x, v = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    for compiled in (lambda g: g, stax.jit):
        moved = compiled(lambda x, v: stax.jvp(f, (x,), (v,)))(x, v)
        assert [float(m) for m in moved] == [9.0, -9.0]
    np.testing.assert_array_equal(stax.hessian(f)(x), np.diag(6 * x))


def test_forward_mode_of_a_compiled_custom_vjp_that_is_not_linear() -> None:
    @stax.custom_vjp
    def clipped(x: Any) -> Any:
        return x * x

    clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (np.clip(2 * x * ct, -1.0, 1.0),))
    assert stax.grad(stax.jit(clipped))(3.0) == 1.0
    with pytest.raises(errors.NonDifferentiableError, match="linear in the cotangent"):
        stax.jvp(stax.jit(clipped), (3.0,), (1.0,))
