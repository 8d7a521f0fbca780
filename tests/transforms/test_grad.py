"""grad, jvp, vjp, linearize, Jacobians and their errors on hand-written functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.dtypes import float0
from stax.testing import check_grads


def f(x: Any) -> Any:
    return x * np.sin(x)


def test_grad_of_python_scalar() -> None:
    g = stax.grad(f)(2.0)
    assert isinstance(g, np.float64)
    assert g == pytest.approx(math.sin(2) + 2 * math.cos(2), rel=1e-15)


def test_orders() -> None:
    g: Any = np.sin
    expected = [math.cos, lambda v: -math.sin(v), lambda v: -math.cos(v), math.sin, math.cos]
    for want in expected:
        g = stax.grad(g)
        assert g(0.4) == pytest.approx(want(0.4), abs=1e-14)


def test_check_grads_to_third_order() -> None:
    check_grads(lambda x, y: np.exp(x) * np.sin(y) / (1 + x * x), (np.arange(3.0), 0.3), 3)


def test_check_grads_notices_a_wrong_rule() -> None:
    @stax.custom_jvp
    def wrong(x: Any) -> Any:
        return np.sin(x)

    wrong.defjvp(lambda p, t: (np.sin(p[0]), np.sin(p[0]) * t[0]))
    with pytest.raises(AssertionError, match="fwd"):
        check_grads(wrong, (0.3,), 1)
    with pytest.raises(AssertionError, match="rev"):
        check_grads(wrong, (0.3,), 1, modes=("rev",))


def test_pytrees_and_argnums() -> None:
    def loss(params: Any, x: Any, scale: Any = 1.0) -> Any:
        return (params["w"] * x + params["b"][0]) ** 2 * scale

    params = {"w": 3.0, "b": (1.0,)}
    g = stax.grad(loss)(params, 2.0)
    assert g == {"w": 28.0, "b": (14.0,)}
    g, gx = stax.grad(loss, argnums=(0, 1))(params, 2.0, scale=2.0)
    assert g["w"] == 56.0
    assert gx == 84.0
    assert stax.grad(loss, argnums=-1)(params, 2.0) == 42.0
    value, (gx,) = stax.value_and_grad(loss, argnums=(1,))(params, 2.0)
    assert (value, gx) == (49.0, 42.0)


def test_has_aux() -> None:
    def loss(x: Any) -> Any:
        return x * x, {"twice": 2 * x, "name": "kept"}

    (value, aux), g = stax.value_and_grad(loss, has_aux=True)(3.0)
    assert (value, g, aux) == (9.0, 6.0, {"twice": 6.0, "name": "kept"})
    g, aux = stax.grad(loss, has_aux=True)(3.0)
    assert (g, aux["twice"]) == (6.0, 6.0)
    out, pull, aux = stax.vjp(loss, 3.0, has_aux=True)
    assert (out, pull(1.0), aux["twice"]) == (9.0, (6.0,), 6.0)
    out, t, aux = stax.jvp(loss, (3.0,), (1.0,), has_aux=True)
    assert (out, t, aux["twice"]) == (9.0, 6.0, 6.0)
    # Inside another transformation the auxiliary values are differentiable too.
    second = stax.grad(lambda x: stax.grad(loss, has_aux=True)(x)[1]["twice"] * x)(3.0)
    assert second == 12.0


def test_vjp_and_linearize() -> None:
    x, y = np.arange(1.0, 4.0), np.float64(2.0)
    out, pull = stax.vjp(lambda a, b: (a * b, a + b), x, y)
    ct = (np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0]))
    gx, gy = pull(ct)
    np.testing.assert_array_equal(gx, [2.0, 1.0, 4.0])
    assert gy == 1.0 + 6.0 + 1.0
    np.testing.assert_array_equal(out[0], x * y)
    out, lin = stax.linearize(f, x)
    np.testing.assert_array_equal(out, f(x))
    np.testing.assert_allclose(lin(x), x * (np.sin(x) + x * np.cos(x)), rtol=1e-15)
    np.testing.assert_allclose(lin(2 * x), 2 * lin(x))
    # Both closures are themselves transformable.
    np.testing.assert_allclose(stax.vmap(lin)(np.eye(3)), np.diag(np.sin(x) + x * np.cos(x)))


def test_python_control_flow_on_concrete_values() -> None:
    def step(x: Any) -> Any:
        n = 0
        while x < 10:
            x = x * 2
            n += 1
        return x if n % 2 else x + float(x)

    assert stax.grad(step)(3.0) == 4.0
    assert stax.grad(stax.grad(lambda x: step(x) * x))(6.0) == 4.0
    assert stax.jvp(step, (3.0,), (1.0,)) == (24.0, 4.0)
    with pytest.raises(errors.ConcretizationError, match=r"test_grad\.py"):
        stax.vmap(step)(np.arange(1.0, 3.0))
    with pytest.raises(errors.ConcretizationError):
        stax.make_ir(step)(3.0)


def test_integer_and_boolean_values_on_the_way() -> None:
    def g(x: Any, n: Any) -> Any:
        return np.sum(x * n) if n.ndim else x * n * (x > 0)

    n = np.int64(3)
    out, pull = stax.vjp(g, 2.0, n)
    gx, gn = pull(1.0)
    assert (out, gx) == (6.0, 3.0)
    assert gn.dtype == float0
    gx, gn = stax.grad(g, argnums=(0, 1), allow_int=True)(2.0, n)
    assert (gx, gn.dtype) == (3.0, float0)
    out, t = stax.jvp(lambda x: x > 0, (2.0,), (1.0,))
    assert out
    assert t.dtype == float0


def test_float32_stays_float32() -> None:
    x = np.float32(0.5)
    g = stax.grad(lambda x: np.tanh(x) * 2.0 + 1)(x)
    assert g.dtype == np.float32
    out, t = stax.jvp(
        lambda x: np.exp(x) * 0.5, (np.ones(3, np.float32),), (np.ones(3, np.float32),)
    )
    assert (out.dtype, t.dtype) == (np.float32, np.float32)


def test_python_scalars_stay_weak_inside() -> None:
    x32 = np.ones(3, np.float32)
    out, pull = stax.vjp(lambda s, x: s * s * x, 2.0, x32)
    assert out.dtype == np.float32
    assert pull(x32)[1].dtype == np.float32


def test_complex() -> None:
    z = 0.3 + 0.4j
    assert stax.grad(np.exp, holomorphic=True)(z) == pytest.approx(np.exp(z))
    check_grads(lambda z: np.exp(1j * z) * np.conj(z), (np.arange(3.0) + 1j,), 2)
    check_grads(lambda z: np.real(z) * np.imag(z), (np.arange(3.0) + 1j,), 2)


def test_no_perturbation_confusion() -> None:
    g = lambda x: x * stax.grad(lambda y: x + y)(1.0)
    assert stax.grad(g)(1.0) == 1.0
    h = lambda x: x * stax.jvp(lambda y: x * y * y, (2.0,), (1.0,))[1]
    assert stax.grad(h)(3.0) == 24.0
    assert stax.jvp(h, (3.0,), (1.0,))[1] == 24.0
    k = lambda x: x * stax.vmap(lambda y: x * y)(np.arange(3.0))[2]
    assert stax.grad(k)(3.0) == 12.0


def test_diamonds_do_not_blow_up() -> None:
    def diamond(x: Any) -> Any:
        for _ in range(60):
            x = x * 0.5 + x * 0.5
        return x

    assert stax.grad(diamond)(3.0) == 1.0
    assert stax.grad(stax.grad(lambda x: diamond(x) * x))(3.0) == pytest.approx(2.0)


@pytest.mark.parametrize("wrap", [lambda f: f, stax.checkpoint])
def test_deep_chains(wrap: Any) -> None:
    def chain(x: Any) -> Any:
        for _ in range(5000):
            x = np.sin(x)
        return x

    expected = 1.0
    x = 0.5
    for _ in range(5000):
        expected *= math.cos(x)
        x = math.sin(x)
    assert stax.grad(wrap(chain))(0.5) == pytest.approx(expected, rel=1e-9)


# --- results belong to the caller ---------------------------------------------------------------


def test_later_writes_do_not_reach_residuals() -> None:
    x, w = np.arange(1.0, 4.0), np.arange(2.0, 5.0)
    y, pull = stax.vjp(lambda a: np.exp(a * a * w[:]), x)
    _, lin = stax.linearize(lambda a: a * a * w, x)
    keep = x.copy(), w.copy()
    expected = y * 2 * keep[0] * keep[1]
    x[:], w[:], y[:] = -5.0, 7.0, 0.0
    np.testing.assert_allclose(pull(np.ones(3))[0], expected)
    np.testing.assert_allclose(lin(np.ones(3)), 2 * keep[0] * keep[1])


@pytest.mark.parametrize(
    "auxiliary",
    [
        lambda f, x: stax.jvp(f, (x,), (x,), has_aux=True)[2],
        lambda f, x: stax.vjp(f, x, has_aux=True)[2],
        lambda f, x: stax.linearize(f, x, has_aux=True)[2],
        lambda f, x: stax.value_and_grad(f, has_aux=True)(x)[0][1],
        lambda f, x: stax.jacfwd(f, has_aux=True)(x)[1],
        lambda f, x: stax.jacrev(f, has_aux=True)(x)[1],
        lambda f, x: stax.hessian(f, has_aux=True)(x)[1],
    ],
)
def test_auxiliary_output_aliases_no_argument(auxiliary: Any) -> None:
    x = np.ones(3)
    found, text = auxiliary(lambda a: ((a * a).sum(), (a, "text")), x)
    assert text == "text"
    np.testing.assert_array_equal(found, x)
    assert not np.shares_memory(found, x)
    assert found.flags.writeable


def test_results_alias_nothing() -> None:
    x, t = np.ones(3), np.ones(3)
    out, tangent = stax.jvp(lambda a: a, (x,), (t,))
    assert not np.shares_memory(out, x)
    assert not np.shares_memory(tangent, t)
    out, pull = stax.vjp(lambda a: a, x)
    ct = np.ones(3)
    (g,) = pull(ct)
    assert not np.shares_memory(out, x)
    assert not np.shares_memory(g, ct)
    assert g.flags.writeable
    g = stax.grad(lambda a: a.sum())(x)
    assert g.flags.writeable
    assert g.flags.c_contiguous
    mapped = stax.vmap(lambda a: a)(x)
    assert not np.shares_memory(mapped, x)


# --- Jacobians ----------------------------------------------------------------------------------


@pytest.mark.parametrize("jacobian", [stax.jacfwd, stax.jacrev, stax.jacobian])
def test_jacobians(jacobian: Any) -> None:
    x = np.arange(1.0, 4.0)
    np.testing.assert_allclose(jacobian(f)(x), np.diag(np.sin(x) + x * np.cos(x)), rtol=1e-14)

    def g(p: Any, y: Any) -> Any:
        return {"a": p["u"] * y, "b": p["v"] * y * y}

    p = {"u": np.arange(2.0), "v": np.float64(3.0)}
    found = jacobian(g, argnums=(0, 1))(p, np.float64(2.0))
    np.testing.assert_allclose(found["a"][0]["u"], 2 * np.eye(2))
    np.testing.assert_allclose(found["a"][0]["v"], np.zeros(2))
    np.testing.assert_allclose(found["a"][1], np.arange(2.0))
    np.testing.assert_allclose(found["b"][0]["v"], 4.0)
    np.testing.assert_allclose(found["b"][0]["u"], np.zeros(2))
    np.testing.assert_allclose(found["b"][1], 12.0)
    found, aux = jacobian(lambda x: (x * x, x.sum()), has_aux=True)(x)
    np.testing.assert_allclose(found, np.diag(2 * x))
    assert aux == 6.0


def test_hessian_and_hvp() -> None:
    def rosenbrock(v: Any) -> Any:
        return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2

    x, v = np.array([1.2, 0.7]), np.array([0.3, -1.0])
    want = np.array([[2 - 400 * (x[1] - 3 * x[0] ** 2), -400 * x[0]], [-400 * x[0], 200.0]])
    np.testing.assert_allclose(stax.hessian(rosenbrock)(x), want, rtol=1e-12)
    (product,) = stax.hvp(rosenbrock, (x,), (v,))
    np.testing.assert_allclose(product, want @ v, rtol=1e-12)
    np.testing.assert_allclose(stax.jacrev(stax.jacrev(rosenbrock))(x), want, rtol=1e-12)
    np.testing.assert_allclose(stax.jacfwd(stax.jacfwd(rosenbrock))(x), want, rtol=1e-12)
    trees = stax.hvp(lambda a, b: (a["p"] * b) ** 2, ({"p": 2.0}, 3.0), ({"p": 1.0}, 0.0))
    assert trees == ({"p": 18.0}, 24.0)


def test_linear_transpose() -> None:
    x = np.arange(3.0)
    (g,) = stax.linear_transpose(lambda a: 3.0 * a, x)(x)
    np.testing.assert_array_equal(g, 3 * x)
    with pytest.raises(errors.NonDifferentiableError, match="mul"):
        stax.linear_transpose(lambda a: a * a, x)(x)


# --- errors -------------------------------------------------------------------------------------


def test_errors_before_any_work() -> None:
    ran: list[int] = []

    def loss(x: Any, y: Any = 1.0) -> Any:
        ran.append(1)
        return x * y

    with pytest.raises(errors.NonDifferentiableError, match=r"(?s)x.*int64.*float"):
        stax.grad(loss)(3)
    with pytest.raises(TypeError, match="bool"):
        stax.grad(loss)(True)
    with pytest.raises(errors.StaticArgumentError, match="argnums=2"):
        stax.grad(loss, argnums=2)(3.0)
    with pytest.raises(errors.StaticArgumentError, match="twice"):
        stax.grad(loss, argnums=(0, 0))(3.0)
    with pytest.raises(errors.DtypeError, match="requires real inputs"):
        stax.jacfwd(loss)(1j)
    with pytest.raises(errors.DtypeError, match="str"):
        stax.grad(loss)("text")
    with pytest.raises(errors.PytreeError, match="tuple"):
        stax.jvp(loss, 1.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(errors.PytreeError, match="structure"):
        stax.jvp(loss, ({"a": 1.0},), (1.0,))
    with pytest.raises(errors.ShapeError, match=r"(?s)x has shape \(4,\).*\(3,\)"):
        stax.jvp(loss, (np.ones(3),), (np.ones(4),))
    with pytest.raises(errors.DtypeError, match="float32"):
        stax.jvp(loss, (np.ones(3),), (np.ones(3, np.float32),))
    with pytest.raises(errors.DtypeError, match="float0"):
        stax.jvp(loss, (3,), (1.0,))
    assert not ran


def test_errors_about_results() -> None:
    x = np.ones(3)
    with pytest.raises(errors.ShapeError, match=r"(?s)scalar.*\(3,\).*test_grad\.py"):
        stax.grad(f)(x)
    with pytest.raises(errors.PytreeError, match="one scalar"):
        stax.grad(lambda x: (x, x))(1.0)
    with pytest.raises(errors.DtypeError, match="bool"):
        stax.grad(lambda x: x > 0)(1.0)
    with pytest.raises(errors.PytreeError, match="aux"):
        stax.grad(lambda x: x, has_aux=True)(1.0)
    with pytest.raises(errors.DtypeError, match="str"):
        stax.grad(lambda x: "text")(1.0)
    _, pull = stax.vjp(f, x)
    with pytest.raises(errors.ShapeError, match=r"\(4,\)"):
        pull(np.ones(4))
    with pytest.raises(errors.DtypeError, match="float32"):
        pull(np.ones(3, np.float32))
    with pytest.raises(errors.PytreeError, match="structure"):
        pull((np.ones(3),))


def test_leaks_are_named() -> None:
    kept: list[Any] = []

    def loss(x: Any) -> Any:
        kept.append(x * 2)
        return x

    for transform in (stax.grad, lambda g: stax.vmap(g), lambda g: stax.make_ir(g)):
        kept.clear()
        transform(loss)(np.ones(2) if transform is not stax.grad else 1.0)
        with pytest.raises(errors.TracerLeakError, match=r"(?s)outside.*test_grad\.py"):
            kept[0] + 1
        with pytest.raises(errors.TracerLeakError):
            stax.grad(lambda x: x * kept[0])(1.0)


def test_writing_to_an_argument() -> None:
    def loss(x: Any) -> Any:
        x[0] = 1.0
        return x.sum()

    with pytest.raises(errors.MutationError, match=r"test_grad\.py"):
        stax.grad(loss)(np.ones(3))
    with pytest.raises(errors.MutationError):
        stax.vmap(loss)(np.ones((2, 3)))
    with pytest.raises(errors.MutationError):
        stax.make_ir(loss)(np.ones(3))


def test_real_functions_of_complex_arguments() -> None:
    z = np.array([1.0 + 2.0j, -0.5 + 0.25j])
    loss = lambda v: np.sum(np.abs(v) ** 2)
    for transform in (stax.grad, stax.jacrev, lambda f: stax.jit(stax.grad(f))):
        np.testing.assert_allclose(transform(loss)(z), 2 * np.conj(z))
    with pytest.raises(errors.DtypeError, match="real floating-point output"):
        stax.grad(lambda v: np.sum(v**2))(z)


class TestPullbacksArePytrees:
    """What `vjp` returns passes through jit, vmap, scans and the residuals of custom rules."""

    x = np.arange(3.0) + 1

    @staticmethod
    def f(x):
        return np.sin(x) * x

    def want(self, ct):
        return ct * (np.cos(self.x) * self.x + np.sin(self.x))

    def test_out_of_jit_and_into_it(self):
        _, pull = stax.jit(lambda x: stax.vjp(self.f, x))(self.x)
        np.testing.assert_allclose(pull(np.ones(3))[0], self.want(1.0))
        again = stax.jit(lambda p, ct: p(ct))(pull, np.full(3, 2.0))
        np.testing.assert_allclose(again[0], self.want(2.0))

    def test_batched(self):
        pulls = stax.vmap(lambda x: stax.vjp(self.f, x)[1])(self.x)
        found = stax.vmap(lambda p, ct: p(ct))(pulls, np.ones(3))
        np.testing.assert_allclose(found[0], self.want(1.0))

    def test_as_a_residual(self):
        @stax.custom_vjp
        def clipped(x):
            return self.f(x)

        def bwd(pull, ct):
            return (np.clip(pull(ct)[0], -1, 1),)

        clipped.defvjp(lambda x: stax.vjp(self.f, x), bwd)
        grad = stax.grad(lambda x: clipped(x).sum())
        for g in (grad, stax.jit(grad)):
            np.testing.assert_allclose(g(self.x), np.clip(self.want(1.0), -1, 1))
        rows = stax.vmap(grad)(np.stack([self.x, self.x]))
        np.testing.assert_allclose(rows[1], np.clip(self.want(1.0), -1, 1))

    def test_other_values_keep_the_original(self):
        _, pull = stax.vjp(self.f, self.x)
        zero = stax.tree.map(np.zeros_like, pull)
        np.testing.assert_array_equal(zero(np.ones(3))[0], np.zeros(3))
        np.testing.assert_allclose(pull(np.ones(3))[0], self.want(1.0))


def test_a_value_times_itself_doubles_its_cotangent_before_anything_else() -> None:
    def norms(x: Any, w: Any) -> Any:
        return np.sum(w * np.sqrt(np.sum(x * x, axis=1)))

    x, w = np.random.default_rng(0).standard_normal((5, 3)), np.arange(5.0)
    check_grads(norms, (x, w), order=3)
    backward = [e for e in str(stax.joint_graph(norms)(x, w)).splitlines() if " bwd " in e]
    (doubled,) = (e for e in backward if " = add(" in e)
    name, operands = doubled.split()[1].rstrip(":"), doubled.partition("(")[2].partition(")")[0]
    assert len(set(operands.split(", "))) == 1
    assert any(" = mul(" in e and name in e and "x" in e for e in backward)

    def product(a: Any, b: Any) -> Any:
        return a * b

    np.testing.assert_array_equal(stax.grad(product)(3.0, 3.0), 3.0)
    assert stax.jvp(lambda a: a * a, (3.0,), (2.0,)) == (9.0, 12.0)
    same = np.ones(3)
    assert stax.jvp(product, (same, same), (same, 2 * same))[1].tolist() == [3.0] * 3
