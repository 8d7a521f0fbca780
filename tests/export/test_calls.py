"""Calling an exported function: values, what is refused, transformations; fresh and loaded."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import stax
from stax import errors
from stax.pytree import static


class State(NamedTuple):
    mean: Any
    rest: Any


@dataclasses.dataclass
class Layer:
    weights: Any
    bias: Any
    name: str = static(default="layer")


def reloaded(exported: Any) -> Any:
    return stax.export.deserialize(exported.serialize())


def loss(params: Any, x: Any) -> Any:
    h = np.tanh(x @ params["w"] + params["b"])
    e = np.exp(h - h.max(-1, keepdims=True))
    return -np.log((e / e.sum(-1, keepdims=True))[:, 0]).sum()


def problem() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((8, 4)), "b": rng.standard_normal(4)}
    return params, rng.standard_normal((3, 8))


FUNCTIONS = {
    "softmax": (lambda x: stax.nn.softmax(x, axis=-1), [np.linspace(-3, 3, 24).reshape(4, 6)]),
    "half": (lambda x, y: (x * y + 1, y.sum()), [np.ones((2, 3), np.float16), np.float32(2)]),
    "integers": (lambda n: (n // 3, n % 3 == 0, np.cumsum(n)), [np.arange(-4, 5)]),
    "booleans": (lambda m, x: np.where(m, x, -x), [np.array([True, False]), np.array([1.0, 2.0])]),
    "complex": (lambda z: (z * z.conj(), np.abs(z)), [np.array([1 + 2j, 3, 0.5j])]),
    "empty": (lambda x: (x.sum(), x * 2, x.reshape(3, 0)), [np.zeros((0, 3))]),
    "no arguments": (lambda: np.arange(3) * 2, []),
    "index": (lambda x, i: x[i], [np.arange(5.0), np.array([4, 0, -1])]),
    "large constant": (lambda x: x + np.arange(20_000.0), [np.float64(2)]),
    "scan": (
        lambda x: stax.lax.scan(lambda c, v: (np.cos(c) + v, c * v), 0.0, x),
        [np.linspace(0, 1, 7)],
    ),
    "branches": (
        lambda x: stax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: -v, x),
        [np.array([1.0, -3.0])],
    ),
    "library": (
        lambda a: (np.linalg.cholesky(a), np.sort(a, 0), np.fft.fft(a).real),
        [np.array([[4.0, 1], [1, 3]])],
    ),
    "convolution": (
        lambda x, w: stax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        [
            np.linspace(0, 1, 2 * 3 * 64).reshape(2, 3, 8, 8),
            np.linspace(-1, 1, 54).reshape(2, 3, 3, 3),
        ],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_loaded_function_gives_the_bits_of_jit(name: str) -> None:
    function, args = FUNCTIONS[name]
    expected = stax.jit(function)(*args)
    exported = stax.export(function)(*args)
    again = reloaded(exported)
    for found in (exported.call(*args), again.call(*args), again.call(*args), again(*args)):
        assert stax.tree.structure(found) == stax.tree.structure(expected)
        for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(expected), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_types_alone_are_enough_to_export() -> None:
    struct = stax.ShapeDtypeStruct((3,), np.float32)
    exported = stax.export(lambda x, y: x * y)(struct, stax.ShapeDtypeStruct((), np.int8))
    assert [str(a) for a in exported.in_avals] == ["f32[3]", "i8[]"]
    assert [str(a) for a in exported.out_avals] == ["f32[3]"]
    assert exported.fun_name == "<lambda>"
    assert exported.platforms == ("cpu",)
    assert exported.call(np.ones(3, np.float32), 2).tolist() == [2, 2, 2]


def test_the_name_is_the_function_s() -> None:
    class Model:
        def __call__(self, x: Any) -> Any:
            return x + 1

    names = {functools.partial(loss, problem()[0]): "loss", Model(): "Model", np.sin: "sin"}
    for function, name in names.items():
        x = problem()[1]
        assert stax.export(function)(x).fun_name == name
        assert stax.export(stax.jit(function))(x).fun_name == name


def test_containers_keep_their_structure() -> None:
    def f(layer: Layer, state: State, extra: Any) -> Any:
        out = layer.weights @ state.mean + layer.bias
        return Layer(out, out.sum(), layer.name), {"s": State(out, [None, extra["a"][0]])}

    args = (
        Layer(np.eye(2), np.ones(2)),
        State(np.arange(2.0), None),
        OrderedDict(a=(np.int32(3),)),
    )
    exported = stax.export(f)(*args)
    assert exported.arguments == (
        "layer.weights",
        "layer.bias",
        "state.mean",
        "extra['a'][0]",
    )
    assert exported.results[-1] == "result[1]['s'].rest[1]"
    expected, found = f(*args), reloaded(exported).call(*args)
    assert stax.tree.structure(found) == stax.tree.structure(expected)
    stax.tree.map(np.testing.assert_array_equal, found, expected)


def test_static_arguments_are_fixed_and_left_out() -> None:
    def f(x: Any, n: int, *, scale: float = 1.0, mode: str = "plus") -> Any:
        return x * n * scale + (1 if mode == "plus" else -1)

    for made in (
        stax.export(f, static_argnums=1, static_argnames="mode"),
        stax.export(stax.jit(f, static_argnums=1, static_argnames="mode")),
    ):
        exported = reloaded(made(np.ones(2), 3, scale=2.0, mode="minus"))
        assert exported.arguments == ("x", "scale")
        assert exported.call(np.ones(2), scale=2.0).tolist() == [5, 5]
        with pytest.raises(errors.PytreeError, match=re.escape("then fixed: n=3, mode='minus'")):
            exported.call(np.ones(2), 3, scale=2.0)


def test_a_matrix_that_lapack_refuses_is_an_error_here_too() -> None:
    call = reloaded(stax.export(np.linalg.cholesky)(np.eye(2))).call
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        call(-np.eye(2))


def test_python_numbers_take_the_dtype_they_meet() -> None:
    exported = stax.export(lambda x, s: x * s)(np.ones(2, np.float32), np.float32(1))
    assert exported.call(np.ones(2, np.float32), 3).dtype == np.float32
    assert exported.call(np.ones(2, np.float32), 0.5).tolist() == [0.5, 0.5]
    with pytest.raises(errors.DtypeError, match=r"argument s .* float32"):
        exported.call(np.ones(2, np.float32), 1j)


def test_wrong_arguments_are_named() -> None:
    params, x = problem()
    call = stax.export(loss)(params, x).call
    with pytest.raises(errors.DtypeError, match=r"params\['w'\] .* float32; .* float64\[8, 4\]"):
        call({**params, "w": params["w"].astype(np.float32)}, x)
    with pytest.raises(errors.ShapeError, match=r"argument x .* \[2, 8\]; .*float64\[3, 8\]"):
        call(params, x[:2])
    with pytest.raises(errors.PytreeError, match="another structure"):
        call(params, x=x)
    with pytest.raises(errors.PytreeError, match="dict with keys"):
        call({"w": params["w"]}, x)
    with pytest.raises(errors.DtypeError, match=r"argument x .* str"):
        call(params, "x")
    # After an error the function is as it was, and arrays of any layout will do.
    np.testing.assert_allclose(call(params, np.asfortranarray(x)), loss(params, x), rtol=1e-12)


def test_an_index_out_of_bounds_is_an_error_here_too() -> None:
    exported = reloaded(stax.export(lambda x, i: x[i])(np.arange(5.0), np.arange(2)))
    with pytest.raises(errors.OutOfBoundsError, match=r"axis of size 5.*\n.*test_calls.py"):
        exported.call(np.arange(5.0), np.array([0, 7]))


@pytest.mark.parametrize("load", [False, True])
def test_derivatives_up_to_their_order(load: bool) -> None:
    params, x = problem()
    exported = stax.export(loss, vjp_order=2)(params, x)
    call = (reloaded(exported) if load else exported).call
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    stax.tree.map(close, stax.grad(call)(params, x), stax.grad(loss)(params, x))
    both = stax.jit(stax.value_and_grad(call, argnums=(0, 1)))(params, x)
    stax.tree.map(close, both, stax.value_and_grad(loss, argnums=(0, 1))(params, x))
    moved = stax.jvp(call, (params, x), (params, x))
    stax.tree.map(close, moved, stax.jvp(loss, (params, x), (params, x)))
    close(stax.hessian(call, argnums=1)(params, x), stax.hessian(loss, argnums=1)(params, x))
    for second in (
        lambda f: stax.hvp(lambda p: f(p, x), (params,), (params,)),
        lambda f: stax.grad(lambda v: stax.grad(f, argnums=1)(params, v)[0].sum())(x),
        lambda f: stax.grad(lambda v: stax.jvp(lambda u: f(params, u), (v,), (x,))[1])(x),
    ):
        stax.tree.map(close, second(call), second(loss))
    with pytest.raises(errors.NonDifferentiableError, match=r"loss \(vjp_order=2\)"):
        stax.grad(lambda v: stax.hessian(call, argnums=1)(params, v).sum())(x)


def test_without_an_order_there_is_no_derivative() -> None:
    call = stax.export(np.sin)(0.3).call
    for derivative in (stax.grad(call), lambda x: stax.jvp(call, (x,), (1.0,))):
        with pytest.raises(errors.NonDifferentiableError, match="vjp_order") as caught:
            derivative(0.3)
        assert "test_calls.py" in str(caught.value)
    # Nothing is differentiated where there is nothing to differentiate.
    parity = stax.export(lambda x, n: (x > 0) & (n % 2 == 0))(0.3, 2).call
    assert stax.grad(lambda x: x * parity(x, 4))(2.0) == 1.0


def test_a_rule_of_the_user_is_the_exported_derivative() -> None:
    @stax.custom_vjp
    def clipped(x: Any) -> Any:
        return x * x

    clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (np.clip(2 * x * ct, -1, 1),))
    exported = reloaded(stax.export(lambda x: clipped(x).sum(), vjp_order=1)(np.zeros(3)))
    assert stax.grad(exported.call)(np.array([-3.0, 0.25, 2.0])).tolist() == [-1, 0.5, 1]
    with pytest.raises(errors.NonDifferentiableError, match="reverse mode only"):
        stax.jvp(exported.call, (np.ones(3),), (np.ones(3),))


def test_vmap_runs_one_example_after_the_other() -> None:
    params, x = problem()
    call = stax.export(loss, vjp_order=1)(params, x).call
    xs = np.stack([x, 2 * x, -x, x + 1])
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for mapped in (
        lambda f: stax.vmap(f, (None, 0))(params, xs),
        lambda f: stax.jit(stax.vmap(f, (None, 1)))(params, xs.swapaxes(0, 1)),
        lambda f: stax.vmap(stax.grad(f), (None, 0))(params, xs),
        lambda f: stax.grad(lambda p: stax.vmap(f, (None, 0))(p, xs).sum())(params),
        lambda f: stax.vmap(stax.vmap(f, (None, 0)), (None, 0))(params, np.stack([xs, xs])),
    ):
        stax.tree.map(close, mapped(call), mapped(loss))


def test_jit_compiles_the_exported_function_into_its_program() -> None:
    params, x = problem()
    call = reloaded(stax.export(loss, vjp_order=1)(params, x)).call
    whole = lambda p, x: 2 * call(p, x) + 1
    found = stax.jit(whole, strict=True)(params, x)
    np.testing.assert_allclose(found, 2 * loss(params, x) + 1, rtol=1e-12)
    assert not stax.jit(stax.grad(whole)).lower(params, x).fallbacks
    gradient = stax.jit(stax.grad(whole), strict=True)(params, x)
    expected = stax.grad(lambda p, x: 2 * loss(p, x) + 1)(params, x)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    stax.tree.map(close, gradient, expected)
    # Differentiated, it is still the function that was exported, with its own derivatives.
    with pytest.raises(errors.NonDifferentiableError, match="vjp_order=1"):
        stax.hessian(stax.jit(whole), argnums=1)(params, x)


def test_an_exported_function_can_be_a_part_of_another() -> None:
    params, x = problem()
    inner = reloaded(stax.export(loss, vjp_order=1)(params, x)).call
    outer = reloaded(stax.export(lambda p, x: inner(p, np.sin(x)) ** 2, vjp_order=1)(params, x))
    plain = lambda p, x: loss(p, np.sin(x)) ** 2
    np.testing.assert_allclose(outer.call(params, x), plain(params, x), rtol=1e-12)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    stax.tree.map(close, stax.grad(outer.call)(params, x), stax.grad(plain)(params, x))
    with pytest.raises(errors.NonDifferentiableError, match="vjp_order=1"):
        stax.export(lambda p, x: inner(p, x), vjp_order=2)(params, x)


def test_what_cannot_be_exported_says_why() -> None:
    for function in (
        lambda x: stax.pure_callback(np.sin, x, x),
        lambda x: [x, stax.debug.print("{}", x)],
    ):
        with pytest.raises(errors.ExportError, match=r"calls Python code.*\n.*test_calls.py:\d+"):
            stax.export(function)(1.0)
    with pytest.raises(errors.ExportError, match="closes over values that are being traced"):
        stax.grad(lambda x: stax.export(lambda y: x * y)(1.0).call(2.0))(1.0)

    def overwrite(x: Any) -> Any:
        x[0] = 1.0
        return x.sum()

    with pytest.raises(errors.ExportError, match="writes into its arguments"):
        stax.export(stax.jit(overwrite, write_back=True))(np.zeros(2))
    with pytest.raises(TypeError, match="export takes a function"):
        stax.export(np.zeros(3))
    with pytest.raises(errors.ConfigurationError, match="vjp_order=-1"):
        stax.export(np.sin, vjp_order=-1)
    with pytest.raises(errors.ConfigurationError, match="platforms"):
        stax.export(np.sin, platforms=("cuda",))


def test_it_shows_what_it_computes() -> None:
    exported = reloaded(stax.export(lambda x: np.sin(x) * 2)(np.zeros(3)))
    assert re.search(r"sin\(x\) +# test_calls\.py:\d+", exported.as_text())
    assert "int32_t stax_run" in exported.as_text("source")
    with pytest.raises(errors.ConfigurationError, match="'graph', 'source'"):
        exported.as_text("loops")


def test_a_memory_budget_goes_with_it() -> None:
    def deep(x: Any) -> Any:
        for k in range(20):
            x = np.sin(x) * np.cos(x + k)
        return x.sum()

    x = np.linspace(0, 1, 1000)
    kept = {}
    for budget in (None, "8KB"):
        exported = stax.export(stax.jit(deep, memory_budget=budget), vjp_order=1)(x)
        found = stax.grad(exported.call)(x)
        np.testing.assert_allclose(found, stax.grad(deep)(x), rtol=1e-12)
        forward = exported._unit.derivative.forward
        kept[budget] = sum(a.nbytes for a in forward.out_avals[1:])
    assert kept["8KB"] <= 8_000 < kept[None]


def test_loops_call_it() -> None:
    call = stax.export(lambda c, v: np.sin(c) * v + c, vjp_order=1)(
        np.float64(0), np.float64(0)
    ).call
    plain = lambda c, v: np.sin(c) * v + c

    def total(f: Any, x: Any) -> Any:
        return stax.lax.scan(lambda c, v: (f(c, v), None), 1.0, x)[0]

    x = np.linspace(0.1, 1, 5)
    for whole in (lambda f: f, stax.jit, lambda f: stax.jit(stax.checkpoint(f))):
        found = whole(stax.value_and_grad(lambda x: total(call, x)))(x)
        expected = stax.value_and_grad(lambda x: total(plain, x))(x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_package_is_the_function() -> None:
    from stax import export
    from stax.export import Exported, load

    assert export is stax.export
    assert export.load is load
    for made in (export(np.sin), export.export(np.sin)):
        assert isinstance(made(1.0), Exported)
