"""What a newcomer writes first: the message, the line it names, and what simply works."""

from __future__ import annotations

import importlib
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import stax
from stax import errors

HERE = r"test_first_mistakes\.py:\d+"


# --- a number taken out of a value ---------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.sin(x),
        lambda x: float(x) ** 2,
        lambda x: np.float64(x) ** 2,
        lambda x: x.item() * 2.0,
        lambda x: abs(complex(x)),
    ],
)
def test_a_gradient_lost_to_a_number_warns(f: Any) -> None:
    with pytest.warns(errors.LostDerivativeWarning, match=HERE) as caught:
        assert stax.grad(f)(1.5) == 0.0
    assert caught[0].filename == __file__


def test_a_number_beside_the_gradient_does_not_warn() -> None:
    seen = []

    def loss(x: Any) -> Any:
        seen.append(float(x))
        n = int(x) + round(float(x))
        return x * n

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stax.grad(loss)(2.0) == 4.0
        assert stax.grad(lambda x: 3.0)(2.0) == 0.0
        assert stax.grad(lambda x: stax.lax.stop_gradient(x) * 2)(2.0) == 0.0
    assert seen == [2.0]


# --- the message is ours where NumPy swallows it --------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda n: np.zeros(n),
        lambda n: np.ones((n, 2)),
        lambda n: np.full(n, 1.0),
        lambda n: np.eye(n),
        lambda n: stax.numpy.zeros(n),
    ],
)
@pytest.mark.parametrize("over", [stax.jit, lambda f: lambda n: stax.vmap(f)(np.full(2, n))])
def test_a_traced_shape(f: Any, over: Any) -> None:
    with pytest.raises(errors.ConcretizationError, match=HERE) as caught:
        over(f)(3)
    assert "static_argnums" in str(caught.value)
    assert "Tracer" not in str(caught.value)


def test_an_own_type_error_stays() -> None:
    def f(n: Any) -> Any:
        with pytest.raises(errors.ConcretizationError):
            float(n)
        return 1 + "a"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand") as caught:
        stax.jit(f)(3)
    assert not isinstance(caught.value, errors.StaxError)


# --- a result in place of a function --------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    "grad value_and_grad jacfwd jacrev hessian vmap jit make_ir joint_graph explain memory_curve"
    " jvp vjp hvp linearize".split(),
)
def test_a_result_is_no_function(name: str) -> None:
    rest = {"jvp": ((1.0,), (1.0,)), "hvp": ((1.0,), (1.0,))}.get(name, ())
    with pytest.raises(TypeError, match=f"^{name} takes a function, got float64"):
        getattr(stax, name)(np.sum(np.ones(3)), *rest)


def test_cond_with_values() -> None:
    with pytest.raises(TypeError, match=r"(?s)cond takes functions.*stax\.numpy\.where"):
        stax.jit(lambda x: stax.lax.cond(x > 0, x, -x))(1.0)


# --- SciPy's own functions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("erf", (0.5,)),
        ("expit", (0.5,)),
        ("gammaln", (2.5,)),
        ("digamma", (2.5,)),
        ("xlogy", (2.0, 3.0)),
        ("jv", (2.0, 3.0)),
        ("ndtr", (0.1,)),
    ],
)
def test_scipys_ufuncs_work_on_traced_values(name: str, args: tuple[float, ...]) -> None:
    f = getattr(scipy.special, name)
    expected = f(*args)
    x, h = args[-1], 1e-5
    slope = (f(*args[:-1], x + h) - f(*args[:-1], x - h)) / (2 * h)
    last = len(args) - 1
    np.testing.assert_allclose(stax.jit(lambda *a: f(*a))(*args), expected, rtol=1e-12)
    np.testing.assert_allclose(stax.grad(lambda *a: f(*a), last)(*args), slope, rtol=1e-7)
    batch = stax.vmap(lambda x: f(*args[:-1], x))(np.array([x, x / 2]))
    np.testing.assert_allclose(batch, f(*args[:-1], np.array([x, x / 2])), rtol=1e-12)


def test_scipys_other_functions_name_the_users_line_and_stax_scipy() -> None:
    for f in (lambda x: scipy.linalg.solve(np.eye(2) * x, np.ones(2)), scipy.special.airy):
        with pytest.raises(errors.ConcretizationError) as caught:
            stax.jit(lambda x, f=f: f(x))(2.0)
        assert "test_first_mistakes.py" in str(caught.value)
    with pytest.raises(errors.ConcretizationError, match=r"SciPy.*\n.*\n.*\n.*stax\.scipy"):
        stax.grad(lambda x: scipy.special.logsumexp(x))(np.ones(3))


# --- warnings and the environment -----------------------------------------------------------------


def test_a_variable_is_complained_about_once() -> None:
    config = importlib.import_module("stax.config")
    with pytest.raises(errors.ConfigurationError) as caught:
        config.from_environment({"STAX_NUM_THREADS": "none"})
    assert str(caught.value).count("\n  at ") == 1


def test_degraded_warnings_name_the_users_line() -> None:
    config = importlib.import_module("stax.config")
    with pytest.warns(errors.DegradedWarning, match="OMP_NUM_THREADS") as caught:
        config.from_environment({"OMP_NUM_THREADS": "many"})
    assert caught[0].filename == __file__
    cache = importlib.import_module("stax.backends.c.cache")
    with pytest.warns(errors.DegradedWarning) as caught:
        cache.warn_degraded_once("first mistakes", "as an example")
    assert caught[0].filename == __file__


def test_a_read_and_write_through_a_mask_names_the_way_out() -> None:
    def f(x: Any) -> Any:
        x = x.copy()
        x[x > 1] *= 2
        return x

    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"x\[:\] = np\.where"):
        stax.jit(f)(np.arange(3.0))

    def g(x: Any) -> Any:
        x = x.copy()
        x[:] = np.where(x > 1, x * 2, x)
        return x

    np.testing.assert_array_equal(stax.jit(g)(np.arange(3.0)), [0, 1, 4])


# --- the way out is that of the mistake -----------------------------------------------------------


def _filled(x: Any) -> Any:
    out = np.zeros(3)

    def body(i: Any, s: Any) -> Any:
        out[i] = 1.0
        return s + 1.0

    return stax.lax.fori_loop(0, 3, body, x)


def _logged(x: Any, log: list[float]) -> Any:
    log.append(float(x))
    return x


@pytest.mark.parametrize(
    ("mistake", "kind", "says"),
    [
        (lambda: stax.jit(_filled)(1.0), errors.ConcretizationError, "is written to.*carry it"),
        (
            lambda: stax.jit(lambda x: _logged(x, []))(1.0),
            errors.ConcretizationError,
            "return the value and convert it outside",
        ),
        (
            lambda: stax.jit(lambda x: x.__iadd__(1.0))(np.ones(2)),
            errors.MutationError,
            r"x = x \+ v",
        ),
        (
            lambda: stax.jit(np.nonzero)(np.ones(2)),
            errors.ConcretizationError,
            r"stax\.numpy\.nonzero\(\.\.\., size=n\)",
        ),
        (
            lambda: stax.jit(np.bincount)(np.ones(2, int)),
            errors.ConcretizationError,
            "minlength=.*length=",
        ),
        (
            lambda: stax.random.randint(stax.random.key(0), 0, 10, (3,)),
            errors.ShapeError,
            r"randint\(key, shape, minval, maxval\)",
        ),
        (
            lambda: stax.vmap(len, in_axes=({"w": None},))({"w": 1.0, "b": 2.0}),
            errors.PytreeError,
            "vmap: in_axes does not fit the arguments of len.*keys",
        ),
        (
            lambda: stax.vmap(np.add, in_axes=(0, 0))(np.ones(2), y=np.ones(2)),
            errors.PytreeError,
            "by keyword are all mapped along axis 0",
        ),
        (
            lambda: stax.lax.cond(True, 1.0, 2.0),
            errors.StaticArgumentError,
            "takes functions for its branches, got float.*where",
        ),
        (
            lambda: stax.lax.fori_loop(0, 3, lambda x: x + 1, 0.0),
            errors.StaticArgumentError,
            r"fori_loop calls <lambda>\(i, carry\), which takes \(x\)",
        ),
        (
            lambda: stax.lax.scan(lambda c: (c, None), 0.0, np.ones(3)),
            errors.StaticArgumentError,
            r"scan calls <lambda>\(carry, x\).*2 positional",
        ),
        (
            lambda: stax.lax.while_loop(lambda a, b: a < b, lambda c: c, (0.0, 1.0)),
            errors.StaticArgumentError,
            r"while_loop calls <lambda>\(carry\), which takes \(a, b\).*containers",
        ),
        (
            lambda: stax.lax.cond(True, lambda: 1.0, lambda x: x, 2.0),
            errors.StaticArgumentError,
            r"cond calls <lambda>\(operand0\), which takes \(\)",
        ),
        (
            lambda: stax.lax.switch(0, [lambda x: x, lambda: 1.0]),
            errors.StaticArgumentError,
            r"switch calls <lambda>\(\), which takes \(x\)",
        ),
        (
            lambda: stax.random.uniform(stax.random.key(0), (3,), 2, 1),
            errors.DtypeError,
            "uniform: dtype=2 names no dtype.*minval=",
        ),
        (
            lambda: stax.numpy.asarray([1.0], device="gpu"),
            errors.ConfigurationError,
            "leave device= out",
        ),
    ],
)
def test_the_message_has_the_line_and_the_way_out(
    mistake: Any, kind: type[errors.StaxError], says: str
) -> None:
    with pytest.raises(kind) as caught:
        mistake()
    text = str(caught.value).replace("\n", " ")
    assert re.search(says, text), text
    assert re.search(HERE, text), text


@pytest.mark.parametrize(
    "transformation",
    [
        stax.grad,
        stax.value_and_grad,
        stax.jacfwd,
        stax.jacrev,
        stax.hessian,
        stax.jacobian,
        stax.joint_graph,
    ],
)
def test_the_argument_in_place_of_its_number_is_refused_at_once(transformation: Any) -> None:
    with pytest.raises(errors.StaticArgumentError, match=r"\(f\)\(x\)") as caught:
        transformation(np.sum, np.ones(3))
    assert re.search(HERE, str(caught.value))


def test_a_lowered_and_a_compiled_function_print_as_one_line() -> None:
    lowered = stax.jit(lambda x: np.exp(x).sum()).lower(np.ones(3))
    assert re.fullmatch(
        r"<Lowered .*\(x: f64\[3\]\) for cpu: 1 kernels, 0 fallbacks>", repr(lowered)
    )
    assert repr(lowered.compile()) == repr(lowered).replace("Lowered", "Compiled")
