"""Results defined by an equation: custom_linear_solve and custom_root, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import lax
from stax.core.text import parse_graph
from stax.errors import ConcretizationError, NonDifferentiableError, PytreeError, ShapeError

RNG = np.random.default_rng(3)
N = 4
A = RNG.normal(size=(N, N)) + 4 * np.eye(N)
SPD = A @ A.T / 4
B = RNG.normal(size=N)


def conjugate_gradients(matvec: Any, b: Any) -> Any:
    """A loop that has no reverse derivative of its own."""

    def going(state: Any) -> Any:
        _, _, r, k = state
        return (r @ r > 1e-26) & (k < 100)

    def step(state: Any) -> Any:
        x, p, r, k = state
        image = matvec(p)
        alpha = (r @ r) / (p @ image)
        new = r - alpha * image
        return x + alpha * p, new + (new @ new) / (r @ r) * p, new, k + 1

    return lax.while_loop(going, step, (b * 0, b, b, 0))[0]


def general(a: Any, b: Any) -> Any:
    """The system by conjugate gradients on the normal equations, for both directions."""

    def normal(matrix: Any) -> Any:
        return lambda _, right: conjugate_gradients(
            lambda x: matrix.T @ (matrix @ x), matrix.T @ right
        )

    return lax.custom_linear_solve(lambda x: a @ x, b, normal(a), normal(a.T))


def symmetric(a: Any, b: Any) -> Any:
    a = (a + a.T) / 2
    return lax.custom_linear_solve(lambda x: a @ x, b, conjugate_gradients, symmetric=True)


def dense(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)


def dense_symmetric(a: Any, b: Any) -> Any:
    return np.linalg.solve((a + a.T) / 2, b)


PAIRS = {"general": (general, dense, A), "symmetric": (symmetric, dense_symmetric, SPD)}
pairs = pytest.mark.parametrize("name", PAIRS)


def total(f: Any) -> Any:
    return lambda a, b: np.sum(np.sin(f(a, b)))


@pairs
def test_values_and_first_derivatives(name: str) -> None:
    f, want, a = PAIRS[name]
    np.testing.assert_allclose(f(a, B), want(a, B), rtol=1e-9)
    np.testing.assert_allclose(stax.jit(f, strict=True)(a, B), want(a, B), rtol=1e-9)
    expected = stax.grad(total(want), argnums=(0, 1))(a, B)
    gradient = stax.grad(total(f), argnums=(0, 1))
    for g in (gradient, stax.jit(gradient), stax.grad(stax.jit(total(f)), argnums=(0, 1))):
        for got, right in zip(g(a, B), expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-7, atol=1e-10)
    t = RNG.normal(size=a.shape), RNG.normal(size=N)
    for g in (lambda: stax.jvp(f, (a, B), t), lambda: stax.jit(lambda: stax.jvp(f, (a, B), t))()):
        np.testing.assert_allclose(g()[1], stax.jvp(want, (a, B), t)[1], rtol=1e-7)


@pairs
def test_second_derivatives_and_batches(name: str) -> None:
    f, want, a = PAIRS[name]
    v = RNG.normal(size=a.shape)
    got = stax.hvp(lambda m: total(f)(m, B), (a,), (v,))[0]
    expected = stax.hvp(lambda m: total(want)(m, B), (a,), (v,))[0]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    got = stax.hessian(lambda b: total(f)(a, b))(B)
    np.testing.assert_allclose(got, stax.hessian(lambda b: total(want)(a, b))(B), atol=1e-8)
    bs = RNG.normal(size=(3, N))
    aa = a + 0.1 * RNG.normal(size=(3, N, N))
    for axes, args in (((None, 0), (a, bs)), ((0, None), (aa, B)), ((0, 0), (aa, bs))):
        for g in (stax.vmap(f, axes), stax.jit(stax.vmap(f, axes))):
            np.testing.assert_allclose(g(*args), stax.vmap(want, axes)(*args), rtol=1e-8)
        gradients = stax.vmap(stax.grad(total(f)), axes)(*args)
        wanted = stax.vmap(stax.grad(total(want)), axes)(*args)
        np.testing.assert_allclose(gradients, wanted, rtol=1e-6, atol=1e-9)


def test_pytrees_auxiliary_results_and_checkpoint() -> None:
    def solve(matvec: Any, b: Any) -> Any:
        assert matvec(b)["u"].shape == b["u"].shape
        return {"u": b["u"] / 2, "v": b["v"] / 5}, {"steps": np.float64(1)}

    def f(s: Any, b: Any) -> Any:
        return lax.custom_linear_solve(
            lambda x: {"u": s * x["u"], "v": x["v"] * 5},
            b,
            solve,
            symmetric=True,
            has_aux=True,
        )

    b = {"u": np.arange(3.0), "v": np.float64(10)}
    x, aux = stax.jit(f)(2.0, b)
    np.testing.assert_array_equal(x["u"], b["u"] / 2)
    assert x["v"] == 2
    assert aux == {"steps": 1}
    loss = lambda s, b: f(s, b)[0]["u"].sum() + f(s, b)[0]["v"] ** 2
    for g in (stax.grad(loss, (0, 1)), stax.grad(stax.checkpoint(loss), (0, 1))):
        ds, db = g(2.0, b)
        assert ds == -b["u"].sum() / 4
        np.testing.assert_array_equal(db["u"], np.full(3, 0.5))
        np.testing.assert_allclose(db["v"], 0.8)


def test_forward_mode_needs_no_transpose_and_reverse_mode_says_so() -> None:
    def f(s: Any) -> Any:
        return lax.custom_linear_solve(lambda x: s * x, 6.0, lambda matvec, b: b / matvec(1.0))

    assert f(3.0) == 2.0
    assert stax.jvp(f, (3.0,), (1.0,))[1] == pytest.approx(-2 / 3)
    with pytest.raises(NonDifferentiableError, match="transpose_solve"):
        stax.grad(f)(3.0)


def test_wrong_results_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"matvec\(x\) has shape \(2,\), expected \(4,\)"):
        stax.jit(lambda b: lax.custom_linear_solve(lambda x: x[:2], b, lambda m, b: b))(B)
    with pytest.raises(PytreeError, match="its solution has the structure"):
        lax.custom_linear_solve(lambda x: x, B, lambda m, b: (b, b))
    with pytest.raises(PytreeError, match="must return a pair"):
        lax.custom_linear_solve(lambda x: x, B, lambda m, b: b, has_aux=True)
    with pytest.raises(ShapeError, match=r"f\(x\) has shape"):
        stax.jit(lambda b: lax.custom_root(lambda x: x[:2], b, lambda f, x: x, lambda g, y: y))(B)


def test_the_equation_prints_and_parses() -> None:
    graph = stax.make_ir(symmetric)(SPD, B)
    assert "linear_solve" in str(graph)
    assert str(parse_graph(str(graph))) == str(graph)


# --- roots ----------------------------------------------------------------------------------------


def bisection(f: Any, start: Any) -> Any:
    def step(state: Any) -> Any:
        low, high = state
        middle = (low + high) / 2
        positive = f(middle) > 0
        return np.where(positive, low, middle), np.where(positive, middle, high)

    low, high = lax.while_loop(lambda s: s[1] - s[0] > 1e-15, step, (start * 0, start * 0 + 4))
    return (low + high) / 2


def scalar(g: Any, y: Any) -> Any:
    return y / g(1.0)


def cube_root(c: Any) -> Any:
    return lax.custom_root(lambda x: x**3 - c, 1.0, bisection, scalar)


def test_scalar_root() -> None:
    assert cube_root(8.0) == pytest.approx(2)
    df = lambda f: stax.grad(f)
    for g in (df(cube_root), stax.jit(df(cube_root)), df(stax.jit(cube_root))):
        assert g(8.0) == pytest.approx(1 / 12, rel=1e-12)
    assert stax.jvp(cube_root, (8.0,), (2.0,))[1] == pytest.approx(1 / 6)
    for second in (df(df(cube_root)), stax.jit(df(df(cube_root))), stax.jacfwd(df(cube_root))):
        assert second(8.0) == pytest.approx(-2 / 9 * 8 ** (-5 / 3), rel=1e-9)
    c = np.array([1.0, 8.0, 27.0])
    np.testing.assert_allclose(stax.vmap(cube_root)(c), [1, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(stax.jit(stax.vmap(df(cube_root)))(c), c ** (-2 / 3) / 3)


def test_a_python_solver_where_numbers_are_known() -> None:
    def newton(f: Any, x: Any) -> Any:
        for _ in range(30):
            if abs(f(x)) < 1e-14:
                break
            x = x - f(x) / stax.grad(f)(x)
        return x

    def root(c: Any) -> Any:
        return lax.custom_root(lambda x: x * x - c, 1.0, newton, scalar)

    assert root(2.0) == pytest.approx(2**0.5)
    assert stax.grad(root)(4.0) == pytest.approx(0.25)
    assert stax.grad(stax.grad(root))(4.0) == pytest.approx(-1 / 32)
    assert stax.jvp(root, (4.0,), (2.0,))[1] == pytest.approx(0.5)
    with pytest.raises(ConcretizationError, match="while_loop"):
        stax.jit(root)(4.0)


def test_python_scalars_take_the_dtype_of_the_equation() -> None:
    root = lambda c: lax.custom_root(lambda x: x * x - c, 1.0, newton_steps, scalar)
    solution = lambda c: lax.custom_linear_solve(lambda x: c * x, 2.0, lambda m, b: b / m(1.0))
    for f, want in ((root, 2.0), (solution, 0.5)):
        for g in (f, stax.jit(f)):
            assert g(np.float32(4)).dtype == np.float32
            assert g(np.float32(4)) == pytest.approx(want, rel=1e-5)
    assert stax.jit(stax.grad(root))(np.float32(4)).dtype == np.float32


def newton_steps(f: Any, start: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return x - f(x) / (2 * x)

    return lax.fori_loop(0, 20, step, start)


def test_the_initial_guess_has_no_derivative_and_aux_passes() -> None:
    def f(c: Any, guess: Any) -> Any:
        return lax.custom_root(
            lambda x: x**3 - c,
            guess,
            lambda f, x: (bisection(f, x), np.float64(7)),
            scalar,
            has_aux=True,
        )

    assert f(8.0, 1.0)[1] == 7
    (dc, dguess), aux = stax.grad(f, (0, 1), has_aux=True)(8.0, 1.0)
    assert dc == pytest.approx(1 / 12)
    assert dguess == 0
    assert aux == 7


def dense_solve(g: Any, y: Any) -> Any:
    return np.linalg.solve(stax.jacobian(g)(y * 0), y)


def iterative_solve(g: Any, y: Any) -> Any:
    """The fixed point of x = y + x - g(x), by loops that have no reverse derivative."""

    def neumann(matvec: Any, b: Any) -> Any:
        going = lambda x: np.sum((b - matvec(x)) ** 2) > 1e-28
        return lax.while_loop(going, lambda x: x + b - matvec(x), b)

    return lax.custom_linear_solve(g, y, neumann, neumann)


@pytest.mark.parametrize("tangent_solve", [dense_solve, iterative_solve])
def test_fixed_point_of_a_layer(tangent_solve: Any) -> None:
    w = 0.3 * RNG.normal(size=(N, N))

    def layer(w: Any, x: Any) -> Any:
        def iterate(f: Any, z: Any) -> Any:
            return lax.while_loop(lambda z: np.sum(f(z) ** 2) > 1e-28, lambda z: z - f(z), z)

        return lax.custom_root(lambda z: z - np.tanh(w @ z + x), x * 0, iterate, tangent_solve)

    def unrolled(w: Any, x: Any) -> Any:
        z = x * 0
        for _ in range(80):
            z = np.tanh(w @ z + x)
        return z

    np.testing.assert_allclose(layer(w, B), unrolled(w, B), rtol=1e-10)
    want = stax.grad(lambda w: (unrolled(w, B) ** 2).sum())(w)
    loss = lambda w: (layer(w, B) ** 2).sum()
    for g in (stax.grad(loss), stax.jit(stax.grad(loss))):
        np.testing.assert_allclose(g(w), want, rtol=1e-8)
    xs = RNG.normal(size=(2, N))
    got = stax.vmap(stax.grad(lambda w, x: (layer(w, x) ** 2).sum()), (None, 0))(w, xs)
    for x, g in zip(xs, got, strict=True):
        want = stax.grad(lambda w, x=x: (unrolled(w, x) ** 2).sum())(w)
        np.testing.assert_allclose(g, want, rtol=1e-7)
    got = stax.hvp(loss, (w,), (w,))[0]
    want = stax.hvp(lambda w: (unrolled(w, B) ** 2).sum(), (w,), (w,))[0]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
